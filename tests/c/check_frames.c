/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Random requests against a linear decode, for the sanitizers and for a quick
 * look at whole folders of files:
 *
 *     check_frames [-n REQUESTS] [-s SEED] [-f rgb24|gray|native] [-k MIB] [-t THREADS] FILE...
 *
 * -k: one pool for all readers, which keeps pictures; -t: threads of the second pass.
 * Prints a line a file. Exits with 1 when a frame was wrong or could not be had
 * although the linear decode reports no damage up to it. Files that can't be
 * opened are named and passed over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "sparse.h"

enum { MAX_FRAMES_PER_REQUEST = 5 };

/* How the frames are found. */
enum { WHOLE, SAVED, LAZY, MODES };

typedef struct Reference {
    uint64_t *hashes;
    size_t count, capacity;
    int64_t first_damaged; /* index, or -1 */
} Reference;

typedef struct Tally {
    long frames, wrong, refused, lost, miscounted, kept;
} Tally;

static uint32_t random_state;

static uint32_t below(uint32_t limit)
{
    return next_random(&random_state) % limit;
}

static uint64_t hash_bytes(const uint8_t *data, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static int append_hash(Reference *reference, uint64_t hash)
{
    if (reference->count == reference->capacity) {
        size_t capacity = reference->capacity ? 2 * reference->capacity : 256;
        uint64_t *hashes = realloc(reference->hashes, capacity * sizeof(*hashes));

        if (!hashes)
            return -1;
        reference->hashes = hashes;
        reference->capacity = capacity;
    }
    reference->hashes[reference->count++] = hash;
    return 0;
}

static int decode_linearly(SparseReader *reader, int format, Reference *reference,
                           SparseError *error)
{
    SparseLinear *linear = NULL;
    SparseLayout layout;
    uint8_t *data = NULL;
    int ret = sparse_linear_open(&linear, reader, error);

    reference->first_damaged = -1;
    while (ret >= 0 && (ret = sparse_linear_peek(linear, format, &layout, error)) == 1) {
        SparseTarget target = {NULL, 0, layout.size, 0};
        int damaged = 0;

        free(data);
        target.data = data = malloc(layout.size);
        ret = data ? sparse_linear_next(linear, format, &target, NULL, &damaged, error) : -1;
        if (damaged && reference->first_damaged < 0)
            reference->first_damaged = (int64_t)reference->count;
        if (ret >= 0 && append_hash(reference, hash_bytes(data, layout.size)) < 0)
            ret = -1;
    }
    free(data);
    sparse_linear_close(&linear);
    return ret;
}

/* One request; 0 when every frame was right, or refused where it may be. */
static void request(SparseReader *reader, int format, const Reference *reference,
                    const int64_t *indices, size_t count, Tally *tally)
{
    SparseTarget targets[MAX_FRAMES_PER_REQUEST] = {{NULL, 0, 0, 0}};
    SparsePlan *plan = NULL;
    SparsePlanFacts facts;
    SparseStats before, after;
    SparseError error;
    int ret = 0, excused = 0;

    for (size_t i = 0; i < count; i++)
        excused |= reference->first_damaged >= 0 && indices[i] >= reference->first_damaged;
    for (size_t i = 0; i < count && ret >= 0; i++) {
        SparseLayout layout;

        ret = sparse_frame_layout(reader, indices[i], format, &layout, &error);
        if (ret >= 0) {
            targets[i].size = layout.size;
            targets[i].data = malloc(layout.size);
            ret = targets[i].data ? 0 : -1;
        }
    }
    if (ret >= 0)
        ret = sparse_plan_create(&plan, reader, indices, count, &error);
    sparse_stats(reader, &before);
    if (ret >= 0)
        ret = sparse_get_frames(reader, indices, count, format, targets, 0, 0, &error);
    sparse_stats(reader, &after);

    if (ret < 0) {
        tally->refused++;
        if (!excused) {
            tally->lost++;
            printf("  refused: %s\n", error.message);
        }
    } else {
        SparseInfo info;

        sparse_plan_facts(plan, &facts);
        if (sparse_info(reader, &info, NULL) == 0 && info.sparse) {
            int64_t decoded = after.pictures_reconstructed - before.pictures_reconstructed;
            int64_t kept = after.pictures_from_cache - before.pictures_from_cache;
            int64_t all = (int64_t)facts.reconstruct_count;

            tally->miscounted += kept ? decoded + kept > all : decoded != all;
            tally->kept += kept;
        }
        for (size_t i = 0; i < count; i++) {
            tally->frames++;
            if (hash_bytes(targets[i].data, targets[i].size) != reference->hashes[indices[i]]) {
                tally->wrong++;
                printf("  wrong: frame %lld\n", (long long)indices[i]);
            }
        }
    }
    for (size_t i = 0; i < count; i++)
        free(targets[i].data);
    sparse_plan_free(&plan);
}

/* Whether two readers say the same of each frame and of its closure. */
static int say_the_same(SparseReader *a, SparseReader *b)
{
    SparseReader *readers[2] = {a, b};
    int64_t count = sparse_frame_count(a, NULL);

    if (count < 0 || sparse_frame_count(b, NULL) != count)
        return 0;
    for (int64_t k = 0; k < count; k++) {
        SparsePlan *plans[2] = {NULL, NULL};
        SparsePlanFacts facts[2];
        SparseFrameInfo infos[2];
        SparseLayout layouts[2];
        int codes[2], same;

        memset(infos, 0, sizeof(infos));
        memset(layouts, 0, sizeof(layouts));
        memset(facts, 0, sizeof(facts));
        for (int i = 0; i < 2; i++) {
            sparse_frame_info(readers[i], k, 1, &infos[i], NULL);
            sparse_frame_layout(readers[i], k, SPARSE_FORMAT_NATIVE, &layouts[i], NULL);
            codes[i] = sparse_plan_create(&plans[i], readers[i], &k, 1, NULL);
            if (codes[i] >= 0)
                sparse_plan_facts(plans[i], &facts[i]);
        }
        same = codes[0] == codes[1] && infos[0].pts == infos[1].pts &&
               infos[0].duration == infos[1].duration && infos[0].picture == infos[1].picture &&
               infos[0].key == infos[1].key && infos[0].picture_type == infos[1].picture_type &&
               layouts[0].width == layouts[1].width && layouts[0].height == layouts[1].height &&
               layouts[0].size == layouts[1].size && facts[0].bytes == facts[1].bytes &&
               facts[0].linear_count == facts[1].linear_count &&
               facts[0].reconstruct_count == facts[1].reconstruct_count;
        if (same && codes[0] >= 0)
            same = !memcmp(facts[0].reconstruct, facts[1].reconstruct,
                           facts[0].reconstruct_count * sizeof(int64_t));
        sparse_plan_free(&plans[0]);
        sparse_plan_free(&plans[1]);
        if (!same)
            return 0;
    }
    return 1;
}

static int check_file(const char *path, int format, long requests, SparsePool *pool, int threads)
{
    SparseReader *reader = NULL;
    Reference reference = {NULL, 0, 0, -1};
    SparseSettings settings;
    Tally tally = {0, 0, 0, 0, 0, 0};
    SparseError error;
    uint8_t *saved = NULL;
    size_t saved_size = 0;
    int failed = 0;

    sparse_default_settings(&settings);
    settings.pool = pool;
    if (sparse_open_path(&reader, path, &settings, &error) < 0 ||
        decode_linearly(reader, format, &reference, &error) < 0) {
        printf("not read: %s\n", error.message);
        goto done;
    }
    if (sparse_export_index(reader, NULL, NULL, &saved, &saved_size, &error) < 0 &&
        error.code != SPARSE_ERR_UNSUPPORTED) {
        printf("  can't be saved: %s\n", error.message);
        failed = 1;
    }
    /* A whole index, a saved one, and a lazy one with two threads. The last numbers frames by the
     * container's table, which damage doesn't change: only what comes before is compared. */
    for (int mode = WHOLE; mode < MODES && reference.count; mode++) {
        SparseReader *fresh = NULL;

        if (mode == SAVED && !saved)
            continue;
        if (mode == SAVED) {
            fresh = reader;
            reader = NULL;
        }
        sparse_close(&reader);
        settings.index_mode = mode == LAZY ? SPARSE_INDEX_LAZY : SPARSE_INDEX_WHOLE;
        settings.threads = mode == LAZY ? threads : 1;
        settings.saved_data = mode == SAVED ? saved : NULL;
        settings.saved_size = saved_size;
        if (mode == LAZY && reference.first_damaged >= 0)
            reference.count = (size_t)reference.first_damaged;
        if (!reference.count)
            break;
        if (sparse_open_path(&reader, path, &settings, &error) < 0) {
            printf("  can't be opened again: %s\n", error.message);
            sparse_close(&fresh);
            failed = 1;
            goto done;
        }
        if (fresh && !say_the_same(fresh, reader)) {
            printf("  the saved index says something else\n");
            failed = 1;
        }
        sparse_close(&fresh);
        for (long n = 0; n < requests; n++) {
            int64_t indices[MAX_FRAMES_PER_REQUEST];
            size_t count = 1 + below(MAX_FRAMES_PER_REQUEST);

            for (size_t i = 0; i < count; i++)
                indices[i] = below((uint32_t)reference.count);
            if (n < 2) /* the first frame, the last */
                indices[0] = n ? (int64_t)reference.count - 1 : 0;
            if (n == 3) /* a repeat */
                indices[count - 1] = indices[0];
            request(reader, format, &reference, indices, count, &tally);
        }
        if ((mode != LAZY || reference.first_damaged < 0) &&
            sparse_frame_count(reader, &error) != (int64_t)reference.count) {
            printf("  %lld frames, not %zu\n", (long long)sparse_frame_count(reader, NULL),
                   reference.count);
            failed = 1;
        }
    }
    failed |= tally.wrong || tally.lost || tally.miscounted;
    printf("%s %s: %zu frames, %ld checked, %ld wrong, %ld requests refused, %ld of them "
           "before any damage, %ld counts off, %ld pictures kept, %.1f saved bytes a frame\n",
           failed ? "FAIL" : "ok", path, reference.count, tally.frames, tally.wrong, tally.refused,
           tally.lost, tally.miscounted, tally.kept,
           reference.count ? (double)saved_size / (double)reference.count : 0);
done:
    sparse_close(&reader);
    sparse_free(saved);
    free(reference.hashes);
    return failed;
}

int main(int argc, char **argv)
{
    int format = SPARSE_FORMAT_NATIVE, failed = 0, i = 1, threads = 2;
    SparsePool *pool = NULL;
    long requests = 20;

    random_state = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (!strcmp(argv[i], "-n"))
            requests = atol(argv[i + 1]);
        else if (!strcmp(argv[i], "-s"))
            random_state = (uint32_t)atol(argv[i + 1]) | 1;
        else if (!strcmp(argv[i], "-t"))
            threads = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "-k") && !pool)
            failed |= sparse_pool_create(&pool, (int64_t)atol(argv[i + 1]) << 20, NULL) < 0;
        else if (!strcmp(argv[i], "-f"))
            format = !strcmp(argv[i + 1], "rgb24")  ? SPARSE_FORMAT_RGB24
                     : !strcmp(argv[i + 1], "gray") ? SPARSE_FORMAT_GRAY
                                                    : SPARSE_FORMAT_NATIVE;
        else
            break;
    }
    if (i >= argc || argv[i][0] == '-') {
        fprintf(stderr,
                "usage: %s [-n REQUESTS] [-s SEED] [-f rgb24|gray|native] [-k MIB] [-t THREADS] "
                "FILE...\n",
                argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (; i < argc; i++)
        failed |= check_file(argv[i], format, requests, pool, threads);
    sparse_pool_release(&pool);
    return failed;
}
