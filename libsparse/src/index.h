/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the header pass found: pictures, their direct references, the snapshot
 * before each, and the order of display. Lazy by runs of packets, or whole.
 */
#ifndef SPARSE_INDEX_H
#define SPARSE_INDEX_H

#include "packed.h"
#include "picture.h"
#include "plan.h"
#include "pool.h"
#include "source.h"

typedef struct SparseIndex SparseIndex;

/* One thread at a time. The source and the pool must outlive the index. mode: one of enum
 * SparseIndexMode; whole: the first need of anything makes the whole index. In all functions here
 * error must not be NULL. */
int sparse_index_open(SparseIndex **index, SparseSource *source, SparsePool *pool, int mode,
                      SparseError *error);
void sparse_index_close(SparseIndex **index);

/* Make the whole index. progress may be NULL. */
int sparse_index_build(SparseIndex *index, SparseProgress progress, void *user, SparseError *error);

/* The number of frames; makes as much of the index as that takes. */
int sparse_index_count(SparseIndex *index, int64_t *count, SparseError *error);

/* The k-th of them in the order of display, k in 0..count-1. Thread-safety: safe while no other
 * function that takes an error runs. */
SparseDisplay sparse_index_frame(const SparseIndex *index, int64_t k);

/*
 * Make sure that the closures of display indices targets[0..count) are known
 * and complete. The order of display may change by this (from what the
 * container says to what the decoder does), in which case *reordered is set to 1
 * and the caller asks again.
 */
int sparse_index_cover(SparseIndex *index, const int64_t *targets, size_t count, int *reordered,
                       SparseError *error);

/* 1 and *picture, what is known of a packet that the index covers; 0 when it doesn't.
 * Thread-safety: as sparse_index_frame(). */
int sparse_index_picture(const SparseIndex *index, int64_t packet, SparsePicture *picture);

/* The type of the picture that begins in a packet: 'I', 'P', 'B', or '?' when it isn't known.
 * Thread-safety: as sparse_index_frame(). */
char sparse_index_type(const SparseIndex *index, int64_t packet);

/* A SparsePlanLookup over a SparseIndex: SPARSE_ERR_DECODE for pictures that
 * can't be had exactly. */
int sparse_index_lookup(void *index, int64_t picture, SparsePlanNode *node, SparseError *error);

/* The snapshot before a covered picture. snapshot->params is borrowed.
 * Thread-safety: as sparse_index_frame(). */
void sparse_index_snapshot(const SparseIndex *index, int64_t picture, FFSparseSnapshot *snapshot);

/*
 * Use a saved index for the source, which was opened with it. What is kept of saved is taken out
 * of it. SPARSE_ERR_SAVED when it doesn't go with the packets.
 */
int sparse_index_use_saved(SparseIndex *index, SparseSavedIndex *saved, SparseError *error);

/* Make the whole index if it isn't there, and append all of a saved one to out. */
int sparse_index_save(SparseIndex *index, SparseProgress progress, void *user, SparseBuffer *out,
                      SparseError *error);

/* 1: header passes may begin where nothing tells how POC goes on. */
int sparse_index_counts_anew(const SparseIndex *index);

/* Free what only the making of plans needs. */
void sparse_index_rest(SparseIndex *index);

/* Packets whose slice headers have been read. */
int64_t sparse_index_scanned(const SparseIndex *index);

#endif /* SPARSE_INDEX_H */
