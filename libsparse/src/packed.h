/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The tables of a whole stream as packed blocks (block.h), of which a few are unpacked at a
 * time: made by a header pass, or lying in a saved index.
 */
#ifndef SPARSE_PACKED_H
#define SPARSE_PACKED_H

#include "block.h"

typedef struct SparsePacked SparsePacked;

/* ---- Making ---- */

/* Start with no blocks. codec: enum AVCodecID. */
int sparse_packed_create(SparsePacked **packed, int codec, int64_t packet_count,
                         int64_t frame_count, SparseError *error);

/* Add the next block, then the snapshots before each of its packets in their order. */
int sparse_packed_add_block(SparsePacked *packed, const SparseBlock *block, SparseError *error);
int sparse_packed_add_snapshot(SparsePacked *packed, const FFSparseSnapshot *snapshot, int64_t i,
                               SparseError *error);

/* Add bytes that are the caller's to the last block, in place of snapshots. */
int sparse_packed_add_rest(SparsePacked *packed, const SparseBuffer *rest, SparseError *error);

/* All is added: give back what room was too much. */
void sparse_packed_finish(SparsePacked *packed);

/* ---- From and to a saved index ---- */

/* Append the number of the blocks' bytes, and each block compressed. */
int sparse_packed_write(const SparsePacked *packed, SparseBuffer *sizes, SparseBuffer *blocks,
                        SparseError *error);

/*
 * Read what sparse_packed_write() wrote: sizes has to hold the numbers of all blocks, whose
 * bytes must stay. *packed becomes NULL, with 0 returned, when that can't be.
 */
int sparse_packed_read(SparsePacked **packed, int codec, int64_t packet_count, int64_t frame_count,
                       SparseSpan *sizes, const uint8_t *blocks, size_t size, SparseError *error);

void sparse_packed_free(SparsePacked **packed);

/* ---- Looking things up ---- */

/* Thread-safety of all of these: safe. When a block can't be unpacked they give zeros, and
 * sparse_packed_is_broken() is 1 from then on. Numbers must be in range. */
int64_t sparse_packed_packets(const SparsePacked *packed);
int64_t sparse_packed_frames(const SparsePacked *packed);
SparsePacket sparse_packed_packet(SparsePacked *packed, int64_t i);
SparsePicture sparse_packed_picture(SparsePacked *packed, int64_t i);
SparseDisplay sparse_packed_frame(SparsePacked *packed, int64_t k);

/* The direct references of picture i, which are 2 * FF_SPARSE_MAX_REFS at most: their number. */
int sparse_packed_references(SparsePacked *packed, int64_t i, int32_t *references);

/* The snapshot before packet i; its params become NULL. */
void sparse_packed_snapshot(SparsePacked *packed, int64_t i, FFSparseSnapshot *snapshot);

/* Hand the block with this number (of blocks) to read, with what sparse_packed_add_rest() added to
 * it. 1, or 0 when the block can't be unpacked or read returns 0 or is NULL: it is then broken. */
int sparse_packed_read_rest(SparsePacked *packed, int64_t number,
                            int (*read)(void *user, const SparseBlock *block, SparseSpan rest),
                            void *user);

int sparse_packed_is_broken(const SparsePacked *packed);

#endif /* SPARSE_PACKED_H */
