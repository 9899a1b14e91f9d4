/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Which picture goes when the budget is used up is decided as GreedyDual does it (Young, "The
 * k-server dual and loose competitiveness for paging", 1994): each picture has a credit, its worth
 * on top of the credit of what was dropped last; the one with the least credit goes. Pictures of
 * one worth lie in a list of their own, the one with the least credit last, since credits only
 * grow with time. So nothing has to be searched but the ends of a few lists.
 */
#include "cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_WORTH = 8,   /* each hit adds one */
    FIRST_BUCKETS = 256
};

typedef struct Entry {
    SparseIdentity stream;
    int64_t picture;
    FFSparsePicture *data;
    int64_t bytes;
    int64_t credit;
    int worth;
    struct Entry *same_bucket;
    struct Entry *newer, *older; /* of the same worth */
} Entry;

typedef struct List {
    Entry *newest, *oldest;
} List;

struct SparseCache {
    atomic_int keeps;     /* whether there is a budget */
    pthread_mutex_t lock; /* of all below */
    Entry **buckets;
    size_t bucket_count; /* a power of two */
    List lists[MOST_WORTH + 1];
    int64_t level; /* credit of what was dropped last */
    SparseCacheFacts facts;
};

int sparse_cache_create(SparseCache **result, SparseError *error)
{
    SparseCache *cache = calloc(1, sizeof(*cache));

    *result = NULL;
    if (cache)
        cache->buckets = calloc(FIRST_BUCKETS, sizeof(Entry *));
    if (!cache || !cache->buckets || pthread_mutex_init(&cache->lock, NULL)) {
        if (cache)
            free(cache->buckets);
        free(cache);
        return sparse_fail_memory(error);
    }
    cache->bucket_count = FIRST_BUCKETS;
    *result = cache;
    return 0;
}

/* ---- Finding, with the lock held ---- */

static size_t bucket_of(const SparseCache *cache, const SparseIdentity *stream, int64_t picture)
{
    uint64_t hash = (uint64_t)picture ^ (uint64_t)stream->stream_index << 32 ^ stream->kind;

    for (size_t i = 0; i < sizeof(stream->words) / sizeof(stream->words[0]); i++)
        hash = (hash ^ hash >> 29 ^ stream->words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 32) & (cache->bucket_count - 1);
}

static Entry **find(SparseCache *cache, const SparseIdentity *stream, int64_t picture)
{
    Entry **place = &cache->buckets[bucket_of(cache, stream, picture)];

    while (*place && ((*place)->picture != picture ||
                      memcmp(&(*place)->stream, stream, sizeof(*stream)) != 0))
        place = &(*place)->same_bucket;
    return place;
}

/* More buckets when there are as many entries; without memory it stays as it is. */
static void grow(SparseCache *cache)
{
    size_t old_count = cache->bucket_count, count = old_count * 2;
    Entry **old = cache->buckets, **buckets;

    if ((size_t)cache->facts.pictures < old_count || count > SIZE_MAX / sizeof(Entry *))
        return;
    buckets = calloc(count, sizeof(Entry *));
    if (!buckets)
        return;
    cache->buckets = buckets;
    cache->bucket_count = count;
    for (size_t i = 0; i < old_count; i++)
        while (old[i]) {
            Entry *entry = old[i];
            Entry **place = &buckets[bucket_of(cache, &entry->stream, entry->picture)];

            old[i] = entry->same_bucket;
            entry->same_bucket = *place;
            *place = entry;
        }
    free(old);
}

static void list_add(SparseCache *cache, Entry *entry)
{
    List *list = &cache->lists[entry->worth];

    entry->credit = cache->level + entry->worth;
    entry->newer = NULL;
    entry->older = list->newest;
    if (list->newest)
        list->newest->newer = entry;
    else
        list->oldest = entry;
    list->newest = entry;
}

static void list_remove(SparseCache *cache, Entry *entry)
{
    List *list = &cache->lists[entry->worth];

    if (entry->newer)
        entry->newer->older = entry->older;
    else
        list->newest = entry->older;
    if (entry->older)
        entry->older->newer = entry->newer;
    else
        list->oldest = entry->newer;
}

/* Take an entry out, and put it before the chain *dropped. */
static void take_out(SparseCache *cache, Entry *entry, Entry **dropped)
{
    *find(cache, &entry->stream, entry->picture) = entry->same_bucket;
    list_remove(cache, entry);
    cache->facts.pictures--;
    cache->facts.bytes -= entry->bytes;
    cache->facts.dropped++;
    entry->same_bucket = *dropped;
    *dropped = entry;
}

/* Take out what has the least credit until bytes more fit into the budget. */
static void make_room(SparseCache *cache, int64_t bytes, Entry **dropped)
{
    while (cache->facts.bytes > cache->facts.budget - bytes) {
        Entry *least = NULL;

        for (int worth = 0; worth <= MOST_WORTH; worth++) {
            Entry *oldest = cache->lists[worth].oldest;

            if (oldest && (!least || oldest->credit < least->credit))
                least = oldest;
        }
        if (!least)
            return;
        cache->level = least->credit;
        take_out(cache, least, dropped);
    }
}

/* Without the lock: freeing a picture takes other locks. */
static void free_entries(Entry *entry)
{
    while (entry) {
        Entry *next = entry->same_bucket;

        ff_sparse_picture_unref(&entry->data);
        free(entry);
        entry = next;
    }
}

/* ---- What others see ---- */

void sparse_cache_set_budget(SparseCache *cache, int64_t bytes)
{
    Entry *dropped = NULL;

    pthread_mutex_lock(&cache->lock);
    cache->facts.budget = bytes;
    atomic_store(&cache->keeps, bytes > 0);
    make_room(cache, 0, &dropped);
    pthread_mutex_unlock(&cache->lock);
    free_entries(dropped);
}

int sparse_cache_keeps(const SparseCache *cache)
{
    return atomic_load(&cache->keeps);
}

FFSparsePicture *sparse_cache_get(SparseCache *cache, const SparseIdentity *stream, int64_t picture)
{
    FFSparsePicture *data = NULL;
    Entry *entry;

    pthread_mutex_lock(&cache->lock);
    if (cache->facts.budget) {
        entry = *find(cache, stream, picture);
        if (entry) {
            data = ff_sparse_picture_ref(entry->data);
            list_remove(cache, entry);
            if (entry->worth < MOST_WORTH)
                entry->worth++;
            list_add(cache, entry);
            cache->facts.hits++;
        } else {
            cache->facts.misses++;
        }
    }
    pthread_mutex_unlock(&cache->lock);
    return data;
}

int sparse_cache_put(SparseCache *cache, const SparseIdentity *stream, int64_t picture,
                     FFSparsePicture *data, int64_t bytes, int worth)
{
    Entry *entry, *dropped = NULL;
    int kept = 0;

    bytes += (int64_t)sizeof(*entry);
    pthread_mutex_lock(&cache->lock);
    if (bytes > cache->facts.budget || *find(cache, stream, picture))
        goto done; /* there is no room, or another reader was faster */
    entry = malloc(sizeof(*entry));
    if (!entry)
        goto done;
    make_room(cache, bytes, &dropped);
    grow(cache);
    *entry = (Entry){.stream = *stream,
                     .picture = picture,
                     .data = ff_sparse_picture_ref(data),
                     .bytes = bytes,
                     .worth = worth < MOST_WORTH ? worth : MOST_WORTH};
    list_add(cache, entry);
    *find(cache, stream, picture) = entry;
    cache->facts.pictures++;
    cache->facts.bytes += bytes;
    cache->facts.kept++;
    kept = 1;

done:
    pthread_mutex_unlock(&cache->lock);
    free_entries(dropped);
    return kept;
}

void sparse_cache_forget(SparseCache *cache, const SparseIdentity *stream, int64_t picture)
{
    Entry *entry, *dropped = NULL;

    pthread_mutex_lock(&cache->lock);
    entry = *find(cache, stream, picture);
    if (entry && entry->worth <= SPARSE_WORTH_REFERENCE + 1)
        take_out(cache, entry, &dropped);
    pthread_mutex_unlock(&cache->lock);
    free_entries(dropped);
}

void sparse_cache_drop(SparseCache *cache, const SparseIdentity *stream)
{
    Entry *dropped = NULL;

    pthread_mutex_lock(&cache->lock);
    for (int worth = 0; worth <= MOST_WORTH; worth++) {
        Entry *entry = cache->lists[worth].oldest;

        while (entry) {
            Entry *newer = entry->newer;

            if (!stream || memcmp(&entry->stream, stream, sizeof(*stream)) == 0)
                take_out(cache, entry, &dropped);
            entry = newer;
        }
    }
    pthread_mutex_unlock(&cache->lock);
    free_entries(dropped);
}

void sparse_cache_facts(SparseCache *cache, SparseCacheFacts *facts)
{
    pthread_mutex_lock(&cache->lock);
    *facts = cache->facts;
    pthread_mutex_unlock(&cache->lock);
}

void sparse_cache_free(SparseCache **cache)
{
    if (!*cache)
        return;
    sparse_cache_drop(*cache, NULL);
    pthread_mutex_destroy(&(*cache)->lock);
    free((*cache)->buckets);
    free(*cache);
    *cache = NULL;
}
