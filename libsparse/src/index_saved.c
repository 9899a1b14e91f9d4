/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * An index from a saved one, and back.
 */
#include <stdlib.h>
#include <string.h>

#include "index_internal.h"
#include "saved.h"

enum {
    HEADS = 16,         /* epochs whose packets' heads are saved, too */
    HEADS_SIZE = 16384, /* bytes of them */
};

int sparse_index_use_saved(SparseIndex *index, SparseSavedIndex *saved, SparseError *error)
{
    int ret = sparse_source_take_saved(index->source, saved, error);

    if (ret < 0)
        return ret;
    index->params = calloc((size_t)saved->epoch_count + 1, sizeof(FFSparseParams *));
    if (!index->params)
        return sparse_fail_memory(error);
    index->params_count = saved->epoch_count;
    index->epochs = saved->epochs;
    index->is_saved = 1;
    saved->epochs = NULL;
    sparse_index_use_packed(index, sparse_source_packed(index->source));
    return 0;
}

/* Have the heads of the packets that begin epochs stand in heads, and point to them. */
static int collect_heads(SparseIndex *index, SparseEpoch *epochs, SparseBuffer *heads,
                         SparseError *error)
{
    AVBufferPool *pool = sparse_source_head_pool();
    AVPacket *packet = av_packet_alloc();
    int ret = pool && packet ? 0 : sparse_fail_memory(error);
    int left = HEADS, truncated;

    if (ret >= 0)
        ret = sparse_buffer_reserve(heads, HEADS_SIZE, error); /* it never moves */
    for (int32_t i = 1; i < index->params_count && left && ret >= 0; i++) {
        SparseEpoch *epoch = &epochs[i];

        if (epoch->same != i)
            continue;
        left--;
        if (index->head)
            ret = sparse_source_read_heads(index->source, epoch->packet, index->head, pool, packet,
                                           &truncated, error);
        else
            ret = sparse_source_read_packet(index->source, epoch->packet, packet, error);
        if (ret < 0 || packet->size > HEADS_SIZE - (int)heads->size)
            continue;
        epoch->head = heads->data + heads->size;
        epoch->head_size = (size_t)packet->size;
        ret = sparse_buffer_append(heads, packet->data, epoch->head_size, error);
    }
    av_packet_free(&packet);
    av_buffer_pool_uninit(&pool);
    return ret;
}

int sparse_index_save(SparseIndex *index, SparseProgress progress, void *user, SparseBuffer *out,
                      SparseError *error)
{
    SparseSavedIndex saved = {0};
    SparseBuffer heads = {0};
    int ret = sparse_index_build(index, progress, user, error);

    if (ret < 0)
        return ret;
    sparse_source_describe_saved(index->source, &saved);
    saved.packed = index->packed;
    saved.epoch_count = index->params_count;
    saved.epochs = calloc((size_t)index->params_count + 1, sizeof(*saved.epochs));
    if (!saved.epochs)
        return sparse_fail_memory(error);
    if (index->params_count)
        memcpy(saved.epochs, index->epochs, (size_t)index->params_count * sizeof(*saved.epochs));
    if (saved.direct && !index->is_saved)
        ret = collect_heads(index, saved.epochs, &heads, error);
    if (ret >= 0)
        ret = sparse_source_check_unchanged(index->source, error);
    if (ret >= 0)
        ret = sparse_saved_write(out, &saved, sparse_source_bytes(index->source), error);
    free(saved.epochs);
    free(heads.data);
    return ret;
}
