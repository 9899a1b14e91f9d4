/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * From the tables of a whole header pass to packed ones.
 */
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "index_internal.h"

/* Fill in the block's packets and pictures, from number first on. */
static int fill_pictures(const SparseIndex *index, SparseBlock *block, SparseError *error)
{
    block->reference_count = 0;
    for (int k = 0; k < block->packet_count; k++) {
        const SparsePictureNotes *notes = &index->pictures[block->first + k];
        const int32_t count = notes->facts.reference_count;
        int ret = sparse_array_grow(&block->references, &block->reference_capacity,
                                    block->reference_count + (size_t)count,
                                    sizeof(*block->references), error);

        if (ret < 0)
            return ret;
        block->packets[k] = sparse_source_packet(index->source, block->first + k);
        block->pictures[k] = notes->facts;
        block->reference_first[k] = (uint32_t)block->reference_count;
        if (count)
            memcpy(block->references + block->reference_count,
                   index->references + notes->reference_first,
                   (size_t)count * sizeof(*block->references));
        block->reference_count += (size_t)count;
    }
    return 0;
}

static int add_block(const SparseIndex *index, SparsePacked *packed, SparseBlock *block,
                     SparseError *error)
{
    const int64_t packets = index->packet_count - block->first;
    const int64_t frames = index->display_count - block->first;
    int ret;

    block->packet_count = packets < SPARSE_BLOCK ? (int)(packets > 0 ? packets : 0) : SPARSE_BLOCK;
    block->frame_count = frames < SPARSE_BLOCK ? (int)(frames > 0 ? frames : 0) : SPARSE_BLOCK;
    for (int k = 0; k < block->frame_count; k++)
        block->frames[k] = index->display[block->first + k];
    ret = fill_pictures(index, block, error);
    if (ret >= 0)
        ret = sparse_packed_add_block(packed, block, error);
    for (int k = 0; k < block->packet_count && ret >= 0; k++) {
        const SparsePictureNotes *notes = &index->pictures[block->first + k];
        FFSparseSnapshot snapshot;

        memcpy(snapshot.state, notes->state, sizeof(snapshot.state));
        snapshot.nb_entries = notes->entry_count;
        if (notes->entry_count)
            memcpy(snapshot.entries, index->entries + notes->entry_first,
                   (size_t)notes->entry_count * sizeof(*snapshot.entries));
        ret = sparse_packed_add_snapshot(packed, &snapshot, block->first + k, error);
    }
    return ret;
}

int sparse_index_pack(SparseIndex *index, SparseError *error)
{
    const enum AVCodecID codec = sparse_source_codecpar(index->source)->codec_id;
    SparseBlock *block = calloc(1, sizeof(*block));
    SparsePacked *packed = NULL;
    int ret = block ? 0 : sparse_fail_memory(error);

    if (ret >= 0)
        ret =
            sparse_packed_create(&packed, codec, index->packet_count, index->display_count, error);
    for (int64_t first = 0;
         ret >= 0 && (first < index->packet_count || first < index->display_count);
         first += SPARSE_BLOCK) {
        block->first = first;
        ret = add_block(index, packed, block, error);
    }
    if (ret >= 0) {
        sparse_packed_finish(packed);
        sparse_source_use_packed(index->source, packed);
        sparse_index_use_packed(index, packed);
    } else {
        sparse_packed_free(&packed);
    }
    if (block)
        free(block->references);
    free(block);
    return ret;
}
