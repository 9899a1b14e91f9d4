/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the parts of the AV1 index share: av1_index.c (header passes, and what others see) and
 * av1_saved.c (tables from a saved index, and back).
 */
#ifndef SPARSE_AV1_INDEX_INTERNAL_H
#define SPARSE_AV1_INDEX_INTERNAL_H

#include "av1_block.h"
#include "av1_index.h"

struct SparseAv1Index {
    SparseSource *source;
    int64_t packet_count;
    int lazy;  /* runs of packets from key frames on, and the table's word for the order */
    int whole; /* all is covered, and shown is the bitstream's order */

    int32_t *first;  /* [packet_count] of a packet's frames in frames; -1: it isn't covered */
    uint8_t *counts; /* [packet_count] how many there are */

    SparseAv1Frame *frames;
    size_t frame_count, frame_capacity;
    SparseAv1Shown *shown;
    size_t shown_count, shown_capacity;
    SparseAv1SequenceUse *sequences;
    size_t sequence_count, sequence_capacity;

    /* of a saved index, in place of first, counts, frames and shown */
    SparseAv1Block **blocks; /* [block_count] those that were asked for */
    int64_t block_count;
    int32_t *shown_first; /* [block_count + 1] frames that are put out before each */

    /* the pass */
    SparseAv1Slot slots[SPARSE_AV1_SLOTS];
    int32_t sequence;        /* that is active; -1: none */
    uint8_t chroma_location; /* AVCHROMA_LOC_* */
    int64_t at; /* the packet that slots and sequence are those before; -1: of none */
    int64_t scanned;
};

/* ---- av1_saved.c ---- */

/* A saved index's frames of a packet: their number, and -1 when they can't be had. */
int sparse_av1_saved_frames(const SparseAv1Index *index, int64_t packet,
                            const SparseAv1Frame **frames);

/* See sparse_av1_index_shown(). */
SparseAv1Shown sparse_av1_saved_shown(const SparseAv1Index *index, int64_t k);

void sparse_av1_drop_blocks(SparseAv1Index *index);

#endif /* SPARSE_AV1_INDEX_INTERNAL_H */
