/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Idle decoders: a data set rarely has more kinds of streams than that. */
    MOST_DECODERS = 16,
    MOST_CONVERTERS = 16,
    MOST_AV1 = 8, /* each holds up to eight pictures */
    /* Unused memory of pictures, with and without a budget for kept ones: what a request leaves
     * for the next. */
    LEAST_UNUSED = 16 << 20
};

struct SparsePool {
    pthread_mutex_t lock; /* of all below but what has its own */
    int references;
    SparseDecoder *decoders[MOST_DECODERS]; /* idle ones, the latest last */
    int decoder_count;
    SparseConverter *converters[MOST_CONVERTERS]; /* idle ones */
    int converter_count;
    SparseAv1Decoder *av1[MOST_AV1]; /* idle ones, the latest last */
    int av1_count;
    int64_t budget;
    int64_t opened, reused; /* decoders, since the creation */
    uint64_t identities;
    SparseBuffers *buffers;
    SparseCache *cache;
};

static void set_budget(SparsePool *pool, int64_t budget)
{
    int64_t unused;

    if (budget < 0)
        budget = 0;
    unused = budget / 8;
    pool->budget = budget;
    /* The rest, a sixth, is for idle decoders and for what the allocator can't give back, so that
     * the process grows by the budget and not by more. */
    sparse_cache_set_budget(pool->cache, budget / 10 * 7);
    sparse_buffers_set_limit(pool->buffers, unused > LEAST_UNUSED ? unused : LEAST_UNUSED);
}

static void destroy(SparsePool *pool)
{
    for (int i = 0; i < pool->decoder_count; i++)
        sparse_decoder_close(&pool->decoders[i]);
    for (int i = 0; i < pool->converter_count; i++)
        sparse_converter_free(&pool->converters[i]);
    for (int i = 0; i < pool->av1_count; i++)
        sparse_av1_decoder_close(&pool->av1[i]);
    sparse_cache_free(&pool->cache);
    sparse_buffers_release(&pool->buffers);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

int sparse_pool_create(SparsePool **result, int64_t budget, SparseError *error)
{
    SparsePool *pool;
    int ret;

    if (!result)
        return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1, "%s: no place for the pool", __func__);
    sparse_error_clear(error);
    *result = NULL;
    pool = calloc(1, sizeof(*pool));
    if (!pool || pthread_mutex_init(&pool->lock, NULL)) {
        free(pool);
        return sparse_fail_memory(error);
    }
    pool->references = 1;
    ret = sparse_buffers_create(&pool->buffers, error);
    if (ret >= 0)
        ret = sparse_cache_create(&pool->cache, error);
    if (ret < 0) {
        destroy(pool);
        return ret;
    }
    set_budget(pool, budget);
    *result = pool;
    return 0;
}

SparsePool *sparse_pool_ref(SparsePool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->references++;
    pthread_mutex_unlock(&pool->lock);
    return pool;
}

void sparse_pool_release(SparsePool **result)
{
    SparsePool *pool = result ? *result : NULL;
    int references;

    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    references = --pool->references;
    pthread_mutex_unlock(&pool->lock);
    if (!references)
        destroy(pool);
    *result = NULL;
}

/* ---- Decoders ---- */

int sparse_pool_decoder(SparsePool *pool, SparseSource *source, SparseDecoder **decoder,
                        SparseError *error)
{
    *decoder = NULL;
    pthread_mutex_lock(&pool->lock);
    for (int i = pool->decoder_count; i-- && !*decoder;)
        if (sparse_decoder_fits(pool->decoders[i], source)) {
            *decoder = pool->decoders[i];
            pool->decoder_count--;
            for (; i < pool->decoder_count; i++)
                pool->decoders[i] = pool->decoders[i + 1];
            break;
        }
    if (*decoder)
        pool->reused++;
    else
        pool->opened++;
    pthread_mutex_unlock(&pool->lock);
    if (!*decoder)
        return sparse_decoder_open(decoder, source, pool->buffers, error);
    sparse_decoder_assign(*decoder, source);
    return 0;
}

int sparse_pool_fresh_decoder(SparsePool *pool, SparseSource *source, SparseDecoder **decoder,
                              SparseError *error)
{
    int ret = sparse_pool_decoder(pool, source, decoder, error);

    if (ret >= 0)
        ret = sparse_decoder_reset(*decoder, error);
    if (ret < 0)
        sparse_decoder_close(decoder);
    return ret;
}

void sparse_pool_give_back(SparsePool *pool, SparseDecoder **decoder)
{
    SparseDecoder *excess = *decoder;

    if (!*decoder)
        return;
    *decoder = NULL;
    if (sparse_decoder_park(excess) >= 0) {
        pthread_mutex_lock(&pool->lock);
        if (pool->decoder_count < MOST_DECODERS) {
            pool->decoders[pool->decoder_count++] = excess;
            excess = NULL;
        } else { /* the one that has been idle for longest makes room */
            SparseDecoder *oldest = pool->decoders[0];

            for (int i = 1; i < MOST_DECODERS; i++)
                pool->decoders[i - 1] = pool->decoders[i];
            pool->decoders[MOST_DECODERS - 1] = excess;
            excess = oldest;
        }
        pthread_mutex_unlock(&pool->lock);
    }
    sparse_decoder_close(&excess);
}

int sparse_pool_av1(SparsePool *pool, const SparseIdentity *stream, SparseSource *source,
                    const SparseAv1Index *index, SparseAv1Decoder **decoder, SparseError *error)
{
    int best = -1, ret = 0;

    *decoder = NULL;
    pthread_mutex_lock(&pool->lock);
    for (int i = pool->av1_count; i--;) {
        if (memcmp(&pool->av1[i]->stream, stream, sizeof(*stream)) == 0) {
            best = i;
            break;
        }
        best = i; /* of other streams' the one that has been idle for longest */
    }
    if (best >= 0) {
        *decoder = pool->av1[best];
        pool->av1_count--;
        for (int i = best; i < pool->av1_count; i++)
            pool->av1[i] = pool->av1[i + 1];
        pool->reused++;
    } else {
        pool->opened++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!*decoder)
        ret = sparse_av1_decoder_open(decoder, source, 1, error);
    if (ret >= 0)
        sparse_av1_decoder_assign(*decoder, stream, source, index);
    return ret;
}

void sparse_pool_give_back_av1(SparsePool *pool, SparseAv1Decoder **decoder)
{
    SparseAv1Decoder *excess = *decoder;

    if (!excess)
        return;
    *decoder = NULL;
    av_frame_unref(excess->frame);
    pthread_mutex_lock(&pool->lock);
    if (pool->av1_count < MOST_AV1) {
        pool->av1[pool->av1_count++] = excess;
        excess = NULL;
    } else {
        SparseAv1Decoder *oldest = pool->av1[0];

        for (int i = 1; i < MOST_AV1; i++)
            pool->av1[i - 1] = pool->av1[i];
        pool->av1[MOST_AV1 - 1] = excess;
        excess = oldest;
    }
    pthread_mutex_unlock(&pool->lock);
    sparse_av1_decoder_close(&excess);
}

/* ---- Converters ---- */

int sparse_pool_converter(SparsePool *pool, SparseConverter **converter, SparseError *error)
{
    *converter = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->converter_count)
        *converter = pool->converters[--pool->converter_count];
    pthread_mutex_unlock(&pool->lock);
    return *converter ? 0 : sparse_converter_create(converter, error);
}

void sparse_pool_give_back_converter(SparsePool *pool, SparseConverter **converter)
{
    if (!*converter)
        return;
    pthread_mutex_lock(&pool->lock);
    if (pool->converter_count < MOST_CONVERTERS) {
        pool->converters[pool->converter_count++] = *converter;
        *converter = NULL;
    }
    pthread_mutex_unlock(&pool->lock);
    sparse_converter_free(converter);
}

/* ---- Pictures ---- */

SparseCache *sparse_pool_cache(SparsePool *pool)
{
    return pool->cache;
}

void sparse_pool_own_identity(SparsePool *pool, SparseIdentity *identity)
{
    *identity = (SparseIdentity){.kind = SPARSE_IDENTITY_OWN};
    pthread_mutex_lock(&pool->lock);
    identity->words[0] = ++pool->identities;
    pthread_mutex_unlock(&pool->lock);
}

void sparse_pool_set_budget(SparsePool *pool, int64_t budget)
{
    pthread_mutex_lock(&pool->lock);
    set_budget(pool, budget);
    pthread_mutex_unlock(&pool->lock);
}

void sparse_pool_clear(SparsePool *pool)
{
    SparseDecoder *decoders[MOST_DECODERS];
    SparseAv1Decoder *av1[MOST_AV1];
    int64_t budget;
    int count, av1_count;

    pthread_mutex_lock(&pool->lock);
    count = pool->decoder_count;
    for (int i = 0; i < count; i++)
        decoders[i] = pool->decoders[i];
    pool->decoder_count = 0;
    av1_count = pool->av1_count;
    for (int i = 0; i < av1_count; i++)
        av1[i] = pool->av1[i];
    pool->av1_count = 0;
    budget = pool->budget;
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < count; i++)
        sparse_decoder_close(&decoders[i]);
    for (int i = 0; i < av1_count; i++)
        sparse_av1_decoder_close(&av1[i]);
    sparse_cache_drop(pool->cache, NULL);
    sparse_buffers_set_limit(pool->buffers, 0);
    sparse_pool_set_budget(pool, budget);
}

void sparse_pool_facts(SparsePool *pool, SparsePoolFacts *facts)
{
    SparseCacheFacts cache;

    sparse_cache_facts(pool->cache, &cache);
    *facts = (SparsePoolFacts){
        .bytes = cache.bytes,
        .pictures = cache.pictures,
        .hits = cache.hits,
        .misses = cache.misses,
        .kept = cache.kept,
        .dropped = cache.dropped,
        .unused_bytes = sparse_buffers_unused(pool->buffers),
    };
    pthread_mutex_lock(&pool->lock);
    facts->budget = pool->budget;
    facts->idle_decoders = pool->decoder_count + pool->av1_count;
    facts->decoders_opened = pool->opened;
    facts->decoders_reused = pool->reused;
    pthread_mutex_unlock(&pool->lock);
}
