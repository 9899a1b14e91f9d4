/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The frames of SPARSE_BLOCK packets of an AV1 stream as few bytes. References aren't written: they
 * are what stands in the slots that a frame uses, by the slots before the block and what its
 * frames are stored to. Bytes to be unpacked may be anything.
 */
#ifndef SPARSE_AV1_BLOCK_H
#define SPARSE_AV1_BLOCK_H

#include "av1_index.h"
#include "block.h"

typedef struct SparseAv1Block {
    int64_t first; /* packet */
    int packet_count;
    int32_t shown_first; /* frames that are put out before these packets */
    int shown_count;
    SparseAv1Shown *shown;
    int frame_count;
    SparseAv1Frame *frames;
    uint16_t frame_first[SPARSE_BLOCK + 1]; /* of each packet in frames, and their end */
} SparseAv1Block;

/*
 * Append it. packets: those of the block. slots: the pictures that stand in the slots before the
 * block, -1 for none; afterwards, behind it. SPARSE_ERR_UNSUPPORTED when a packet shows more frames
 * than are written.
 */
int sparse_av1_block_pack(SparseBuffer *out, const SparseAv1Block *block,
                          const SparsePacket *packets, int32_t *slots, SparseError *error);

/*
 * Read it back, with first, packet_count, shown_first and shown_count set by the caller, and the
 * rest zero. 1, 0 when it can't be, or negative without memory. What was allocated has to be freed
 * in any case.
 */
int sparse_av1_block_unpack(SparseSpan in, SparseAv1Block *block, const SparsePacket *packets,
                            size_t sequence_count, SparseError *error);

/* Free what a block points to. */
void sparse_av1_block_clear(SparseAv1Block *block);

#endif /* SPARSE_AV1_BLOCK_H */
