/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Packets, pictures, frames and snapshots in blocks of SPARSE_BLOCK, as few bytes: some 40 a
 * picture in place of 400. Bytes to be unpacked may be anything.
 */
#ifndef SPARSE_BLOCK_H
#define SPARSE_BLOCK_H

#include <libavcodec/sparsedec.h>

#include "bytes.h"
#include "picture.h"
#include "source.h"

enum {
    SPARSE_BLOCK = 64,
    /* what two reports name */
    SPARSE_BLOCK_REFERENCES = SPARSE_BLOCK * 2 * FF_SPARSE_MAX_REFS
};

/* One block, all but its snapshots: packets first..first+packet_count-1 and the frames of the
 * same numbers. */
typedef struct SparseBlock {
    int64_t first; /* number of its first packet and of its first frame */
    int packet_count, frame_count;
    SparsePacket packets[SPARSE_BLOCK];
    SparsePicture pictures[SPARSE_BLOCK];
    SparseDisplay frames[SPARSE_BLOCK];
    uint32_t reference_first[SPARSE_BLOCK]; /* into references; reference_count of them */
    int32_t *references;                    /* of all pictures, to be freed with free() */
    size_t reference_count, reference_capacity;
} SparseBlock;

/* Places in FFSparseSnapshot.state of H.264, as the patch for it numbers them. */
enum {
    SPARSE_H264_POC_LSB = 0,
    SPARSE_H264_POC_MSB = 1,
    SPARSE_H264_FRAME_NUM = 5,
    SPARSE_H264_PREVIOUS_POC_MSB = 6,
    SPARSE_H264_PREVIOUS_POC_LSB = 7,
    SPARSE_H264_FRAME_NUM_OFFSET = 8,
    SPARSE_H264_PREVIOUS_FRAME_NUM_OFFSET = 9,
    SPARSE_H264_PREVIOUS_FRAME_NUM = 10,
    SPARSE_H264_STRUCTURE = 12,  /* picture_structure */
    SPARSE_H264_IS_AVC = 15,     /* the packets' NAL units have length fields, */
    SPARSE_H264_LENGTH_SIZE = 16 /* and of what size */
};

/* Places in that of HEVC. */
enum { SPARSE_HEVC_POC_TID0 = 0 };

/* What the coding of a snapshot builds on: the one before it in the block. */
typedef struct SparseChain {
    int codec; /* enum AVCodecID */
    FFSparseSnapshot last;
    FFSparseEntry newest; /* the last entry that wasn't in the snapshot before it */
} SparseChain;

/* Before the first snapshot of a block. */
void sparse_chain_start(SparseChain *chain, int codec);

/* Append what a block holds. */
int sparse_block_pack(SparseBuffer *out, const SparseBlock *block, SparseError *error);

/* Append the snapshot before packet i, which follows the last one of the chain. */
int sparse_chain_pack(SparseBuffer *out, SparseChain *chain, const FFSparseSnapshot *snapshot,
                      int64_t i, SparseError *error);

/*
 * Read a block back, with first and both counts set by the caller: numbers of packets and
 * pictures are below packet_total. 1, 0 when it can't be, or negative without memory.
 */
int sparse_block_unpack(SparseSpan *in, SparseBlock *block, int64_t packet_total,
                        SparseError *error);

/* Read the next snapshot into chain->last, the one before packet i: 1, or 0. */
int sparse_chain_unpack(SparseSpan *in, SparseChain *chain, int64_t i);

#endif /* SPARSE_BLOCK_H */
