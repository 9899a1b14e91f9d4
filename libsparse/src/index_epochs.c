/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The parameter sets that snapshots are bound to.
 */
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "index_internal.h"

void sparse_index_drop_epochs(SparseIndex *index)
{
    for (int32_t i = 0; i < index->params_count; i++)
        ff_sparse_params_unref(&index->params[i]);
    index->params_count = 0;
}

/* The first epoch with the key, or number. */
static int32_t find_same(const SparseIndex *index, int32_t number, uint64_t key)
{
    for (int32_t i = 0; i < number; i++)
        if (index->epochs[i].same == i && index->keys[i] == key)
            return i;
    return number;
}

int sparse_index_note_epoch(SparseIndex *index, FFSparseParams *params, int64_t i, int32_t *number,
                            SparseError *error)
{
    const int32_t count = index->params_count;
    SparseEpoch *epoch;
    int ret;

    /* Mostly the last one; going on for long would be dear where each packet has a new one. */
    for (int32_t k = count - 1; k >= 0 && k >= count - 8; k--)
        if (index->params[k] == params) {
            *number = k;
            return 0;
        }
    ret = sparse_array_grow(&index->params, &index->params_capacity, (size_t)count + 1,
                            sizeof(*index->params), error);
    if (ret >= 0)
        ret = sparse_array_grow(&index->epochs, &index->epoch_capacity, (size_t)count + 1,
                                sizeof(*index->epochs), error);
    if (ret >= 0 && index->sets)
        ret = sparse_array_grow(&index->keys, &index->key_capacity, (size_t)count + 1,
                                sizeof(*index->keys), error);
    if (ret < 0)
        return ret;
    epoch = &index->epochs[count];
    *epoch = (SparseEpoch){.packet = i - 1, .same = count};
    if (index->sets) {
        index->keys[count] = sparse_sets_key(index->sets);
        if (count) /* what was there at the start may come from elsewhere */
            epoch->same = find_same(index, count, index->keys[count]);
    }
    index->params[count] = ff_sparse_params_ref(params);
    index->params_count++;
    *number = count;
    return 0;
}

/* The epoch that the packet which began this one was passed in. */
static int32_t parent_of(const SparseIndex *index, int32_t number)
{
    return sparse_packed_picture(index->packed, index->epochs[number].packet).params;
}

/* Pass the packet that began an epoch, whose parent is at hand. */
static int pass_again(SparseIndex *index, int32_t number, int32_t parent, SparseError *error)
{
    const SparseEpoch *epoch = &index->epochs[number];
    const FFSparseReport *report;
    FFSparseSnapshot snapshot;
    AVPacket *packet = av_packet_alloc();
    int ret;

    if (!packet)
        return sparse_fail_memory(error);
    sparse_packed_snapshot(index->packed, epoch->packet, &snapshot);
    snapshot.params = index->params[parent];
    ret = sparse_decoder_reposition(index->decoder, &snapshot, error);
    if (ret >= 0 && epoch->head) {
        ret = av_new_packet(packet, (int)epoch->head_size) < 0 ? sparse_fail_memory(error) : 0;
        if (ret >= 0 && epoch->head_size)
            memcpy(packet->data, epoch->head, epoch->head_size);
    } else if (ret >= 0) {
        ret = sparse_source_read_packet(index->source, epoch->packet, packet, error);
    }
    if (ret >= 0)
        ret =
            sparse_decoder_scan(index->decoder, packet, epoch->packet, &report, NULL, NULL, error);
    if (ret >= 0)
        ret = sparse_decoder_snapshot(index->decoder, &snapshot, error);
    av_packet_free(&packet);
    if (ret >= 0)
        index->params[number] = snapshot.params;
    return ret;
}

int sparse_index_restore_epoch(SparseIndex *index, int32_t number, SparseError *error)
{
    int32_t *chain = NULL;
    size_t length = 0, capacity = 0;
    int ret = 0;

    if (number < 0 || number >= index->params_count)
        return sparse_source_fail(index->source, error, SPARSE_ERR_SAVED, -1,
                                  "the saved index is damaged: there is no epoch %d", number);
    /* back to one that is at hand */
    for (int32_t at = number; ret >= 0 && !index->params[at];) {
        const int32_t same = index->epochs[at].same;

        ret = sparse_array_grow(&chain, &capacity, length + 1, sizeof(*chain), error);
        if (ret < 0)
            break;
        chain[length++] = at;
        if (!at)
            break;
        at = same != at ? same : parent_of(index, at);
        if (at >= chain[length - 1])
            ret = sparse_source_fail(index->source, error, SPARSE_ERR_SAVED, -1,
                                     "the saved index is damaged: epochs go in circles");
    }
    if (ret >= 0 && length && !index->decoder)
        ret = sparse_pool_fresh_decoder(index->pool, index->source, &index->decoder, error);
    while (ret >= 0 && length) {
        const int32_t at = chain[--length], same = index->epochs[at].same;

        if (!at) {
            FFSparseSnapshot fresh;

            ret = sparse_decoder_snapshot(index->decoder, &fresh, error);
            if (ret >= 0)
                index->params[at] = fresh.params;
        } else if (same != at) {
            index->params[at] = ff_sparse_params_ref(index->params[same]);
        } else {
            ret = pass_again(index, at, parent_of(index, at), error);
        }
    }
    free(chain);
    return ret;
}
