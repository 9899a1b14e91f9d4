/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * An AV1 index from a saved one, and back.
 */
#include <stdlib.h>
#include <string.h>

#include <libavcodec/codec_id.h>

#include "av1_index_internal.h"
#include "saved.h"

/* ---- Looking things up ---- */

/* What sparse_packed_read_rest() hands a block's bytes to. */
typedef struct Reading {
    SparseAv1Block *block;
    size_t sequence_count;
} Reading;

static int read_block(void *user, const SparseBlock *packets, SparseSpan in)
{
    Reading *reading = user;

    reading->block->first = packets->first;
    reading->block->packet_count = packets->packet_count;
    return sparse_av1_block_unpack(in, reading->block, packets->packets, reading->sequence_count,
                                   NULL) == 1;
}

/* A block, which stays; NULL when it can't be had, which the source then knows. */
static const SparseAv1Block *get_block(const SparseAv1Index *index, int64_t number)
{
    SparsePacked *packed = sparse_source_packed(index->source);
    Reading reading = {.sequence_count = index->sequence_count};

    if (index->blocks[number])
        return index->blocks[number];
    reading.block = calloc(1, sizeof(*reading.block));
    if (reading.block) {
        reading.block->shown_first = index->shown_first[number];
        reading.block->shown_count = index->shown_first[number + 1] - index->shown_first[number];
    }
    /* it tells the source of a failure, of one to allocate, too */
    if (!sparse_packed_read_rest(packed, number, reading.block ? read_block : NULL, &reading)) {
        if (reading.block)
            sparse_av1_block_clear(reading.block);
        free(reading.block);
        return NULL;
    }
    return index->blocks[number] = reading.block;
}

int sparse_av1_saved_frames(const SparseAv1Index *index, int64_t packet,
                            const SparseAv1Frame **frames)
{
    const SparseAv1Block *block = get_block(index, packet / SPARSE_BLOCK);
    const int k = (int)(packet % SPARSE_BLOCK);

    if (!block)
        return -1;
    *frames = block->frames + block->frame_first[k];
    return block->frame_first[k + 1] - block->frame_first[k];
}

SparseAv1Shown sparse_av1_saved_shown(const SparseAv1Index *index, int64_t k)
{
    int64_t low = 0, high = index->block_count - 1;
    const SparseAv1Block *block;

    while (low < high) { /* the last block that begins at k or before */
        int64_t middle = low + (high - low + 1) / 2;

        if (index->shown_first[middle] <= k)
            low = middle;
        else
            high = middle - 1;
    }
    block = get_block(index, low);
    return block ? block->shown[k - block->shown_first] : (SparseAv1Shown){0};
}

void sparse_av1_drop_blocks(SparseAv1Index *index)
{
    for (int64_t b = 0; index->blocks && b < index->block_count; b++)
        if (index->blocks[b]) {
            sparse_av1_block_clear(index->blocks[b]);
            free(index->blocks[b]);
        }
    free(index->blocks);
    free(index->shown_first);
    index->blocks = NULL;
    index->shown_first = NULL;
}

/* ---- From and to a saved index ---- */

int sparse_av1_index_use_saved(SparseAv1Index *index, SparseSavedIndex *saved, SparseError *error)
{
    int ret = sparse_source_take_saved(index->source, saved, error);

    if (ret < 0)
        return ret;
    index->packet_count = sparse_packed_packets(sparse_source_packed(index->source));
    index->block_count = (index->packet_count + SPARSE_BLOCK - 1) / SPARSE_BLOCK;
    index->blocks = calloc((size_t)index->block_count + 1, sizeof(SparseAv1Block *));
    if (!index->blocks)
        return sparse_fail_memory(error);
    index->shown_first = saved->shown_first;
    index->sequences = saved->sequences;
    index->sequence_count = saved->sequence_count;
    index->shown_count = (size_t)index->shown_first[index->block_count];
    saved->shown_first = NULL;
    saved->sequences = NULL;
    saved->sequence_count = 0;
    index->lazy = 0;
    index->whole = 1;
    return 0;
}

/* Add the block of packets from first on, whose frames and what is put out follow those of the
 * blocks before. */
static int add_block(const SparseAv1Index *index, SparsePacked *packed, SparseBlock *packets,
                     int64_t first, int32_t shown_first, int32_t *slots, int32_t *shown_end,
                     SparseError *error)
{
    const int64_t left = index->packet_count - first;
    SparseAv1Block block = {
        .first = first,
        .packet_count = (int)(left < SPARSE_BLOCK ? left : SPARSE_BLOCK),
        .shown_first = shown_first,
        .shown = index->shown ? index->shown + shown_first : NULL,
        .frames = index->frames ? index->frames + index->first[first] : NULL,
    };
    SparseBuffer rest = {0};
    int ret;

    packets->first = first;
    packets->packet_count = block.packet_count;
    for (int k = 0; k < block.packet_count; k++) {
        const int32_t i = (int32_t)first + k;

        packets->packets[k] = sparse_source_packet(index->source, i);
        /* as is foretold of them, which takes no byte */
        packets->pictures[k] = (SparsePicture){.picture = i, .last_packet = i, .times_shown = 1};
        block.frame_first[k] = (uint16_t)block.frame_count;
        block.frame_count += index->counts[i];
    }
    block.frame_first[block.packet_count] = (uint16_t)block.frame_count;
    while ((size_t)(shown_first + block.shown_count) < index->shown_count &&
           block.shown[block.shown_count].packet < first + block.packet_count)
        block.shown_count++;
    *shown_end = shown_first + block.shown_count;
    ret = sparse_av1_block_pack(&rest, &block, packets->packets, slots, error);
    if (ret >= 0)
        ret = sparse_packed_add_block(packed, packets, error);
    if (ret >= 0)
        ret = sparse_packed_add_rest(packed, &rest, error);
    free(rest.data);
    return ret;
}

/* The tables that a pass has made, packed; *shown_first as in the index. */
static int pack(const SparseAv1Index *index, SparsePacked **packed, int32_t **shown_first,
                SparseError *error)
{
    const int64_t block_count = (index->packet_count + SPARSE_BLOCK - 1) / SPARSE_BLOCK;
    SparseBlock *packets = calloc(1, sizeof(*packets));
    int32_t slots[SPARSE_AV1_SLOTS], *shown = calloc((size_t)block_count + 1, sizeof(*shown));
    int ret = packets && shown ? 0 : sparse_fail_memory(error);

    for (int i = 0; i < SPARSE_AV1_SLOTS; i++)
        slots[i] = -1;
    if (ret >= 0)
        ret = sparse_packed_create(packed, AV_CODEC_ID_AV1, index->packet_count, 0, error);
    for (int64_t b = 0; b < block_count && ret >= 0; b++)
        ret = add_block(index, *packed, packets, b * SPARSE_BLOCK, shown[b], slots, &shown[b + 1],
                        error);
    free(packets);
    *shown_first = shown;
    return ret;
}

int sparse_av1_index_save(SparseAv1Index *index, SparseProgress progress, void *user,
                          SparseBuffer *out, SparseError *error)
{
    SparsePacked *packed = NULL;
    int32_t *shown_first = NULL;
    SparseSavedIndex saved = {0};
    const char *reason = "no index of a stream that is decoded linearly can be saved: ";
    int ret = sparse_av1_index_build(index, progress, user, error);

    if (ret >= 0 && !index->blocks) {
        reason = "";
        ret = pack(index, &packed, &shown_first, error);
    }
    if (ret == SPARSE_ERR_UNSUPPORTED) {
        const SparseError cause = *error;

        sparse_source_fail(index->source, error, ret, -1, "%s%s", reason, cause.message);
    }
    if (ret >= 0)
        ret = sparse_source_check_unchanged(index->source, error);
    if (ret >= 0) {
        sparse_source_describe_saved(index->source, &saved);
        saved.packed = index->blocks ? sparse_source_packed(index->source) : packed;
        saved.sequences = index->sequences;
        saved.sequence_count = index->sequence_count;
        saved.shown_first = index->blocks ? index->shown_first : shown_first;
        ret = sparse_saved_write(out, &saved, sparse_source_bytes(index->source), error);
    }
    sparse_packed_free(&packed);
    free(shown_first);
    return ret;
}
