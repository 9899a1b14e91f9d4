/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the header pass found: pictures, their direct references, the snapshot
 * before each, and the order of display. Lazy by runs of packets, or whole.
 */
#ifndef SPARSE_INDEX_H
#define SPARSE_INDEX_H

#include "plan.h"
#include "pool.h"
#include "source.h"

typedef struct SparseIndex SparseIndex;

/*
 * The colour description a frame was put out with. The decoder fills in at output what a
 * picture leaves open, from the parameter sets of that moment, which may be later
 * ones than the picture's own.
 */
typedef struct SparseColors {
    uint8_t known; /* whether the output has been seen */
    uint8_t range, space, location; /* AVCOL_RANGE_*, AVCOL_SPC_*, AVCHROMA_LOC_* */
} SparseColors;

/* What is known of one packet; a picture is known by the packet it begins in. */
typedef struct SparsePicture {
    int32_t picture;        /* that the packet's slices belong to; -1: none */
    int32_t last_packet;    /* of the picture that begins here */
    uint32_t flags;         /* FF_SPARSE_REPORT_*, of all its packets */
    int32_t poc;
    int32_t width, height;  /* as put out */
    int32_t format;         /* enum AVPixelFormat */
    int32_t reference_count;
    char type;              /* 'I', 'P', 'B' or '?' */
    int32_t params;         /* number of the parameter-set epoch */
    SparseColors colors;
    int32_t shown; /* how many packets had been passed when it was put out; 0: it wasn't */
    int32_t times_shown;
} SparsePicture;

/* One entry of the display order. */
typedef struct SparseDisplay {
    int64_t picture;
    int64_t pts; /* AV_NOPTS_VALUE when unknown */
} SparseDisplay;

/* One thread at a time. The source and the pool must outlive the index. lazy 0: the first
 * need of anything makes the whole index. In all functions here error must not
 * be NULL. */
int sparse_index_open(SparseIndex **index, SparseSource *source, SparsePool *pool, int lazy,
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

/* A SparsePlanLookup over a SparseIndex: SPARSE_ERR_DECODE for pictures that
 * can't be had exactly. */
int sparse_index_lookup(void *index, int64_t picture, SparsePlanNode *node, SparseError *error);

/* The snapshot before a covered picture. snapshot->params is borrowed.
 * Thread-safety: as sparse_index_frame(). */
void sparse_index_snapshot(const SparseIndex *index, int64_t picture, FFSparseSnapshot *snapshot);

/* Packets whose slice headers have been read. */
int64_t sparse_index_scanned(const SparseIndex *index);

#endif /* SPARSE_INDEX_H */
