/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the header pass found: pictures, their direct references, the snapshot
 * before each, and the order of display. Lazy by runs of packets, or whole.
 */
#ifndef SPARSE_INDEX_H
#define SPARSE_INDEX_H

#include "decoder.h"
#include "plan.h"
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
    int32_t entry_count;
    char type;              /* 'I', 'P', 'B' or '?' */
    size_t reference_first; /* into the index's array */
    size_t entry_first;
    int32_t params;         /* number of the parameter-set epoch */
    SparseColors colors;
    int32_t shown; /* how many packets had been passed when it was put out; 0: it wasn't */
    int32_t times_shown;
    int32_t state[24]; /* FFSparseSnapshot.state */
} SparsePicture;

/* One entry of the display order. */
typedef struct SparseDisplay {
    int64_t picture;
    int64_t pts; /* AV_NOPTS_VALUE when unknown */
} SparseDisplay;

/* One thread at a time. The source must outlive the index. lazy 0: the first
 * need of anything makes the whole index. In all functions here error must not
 * be NULL. */
int sparse_index_open(SparseIndex **index, SparseSource *source, int lazy, SparseError *error);
void sparse_index_close(SparseIndex **index);

/* Make the whole index. progress may be NULL. */
int sparse_index_build(SparseIndex *index, SparseProgress progress, void *user, SparseError *error);

/* The order of display; *display belongs to the index and is valid until the
 * next call of another function here. */
int sparse_index_display(SparseIndex *index, const SparseDisplay **display, int64_t *count,
                         SparseError *error);

/*
 * Make sure that the closures of display indices targets[0..count) are known
 * and complete. The order of display may change by this (from what the
 * container says to what the decoder does), in which case *reordered is set to 1
 * and the caller asks again.
 */
int sparse_index_cover(SparseIndex *index, const int64_t *targets, size_t count, int *reordered,
                       SparseError *error);

/* Of a packet that the index covers; NULL when it doesn't. */
const SparsePicture *sparse_index_picture(const SparseIndex *index, int64_t packet);

/* A SparsePlanLookup over a SparseIndex: SPARSE_ERR_DECODE for pictures that
 * can't be had exactly. */
int sparse_index_lookup(void *index, int64_t picture, SparsePlanNode *node, SparseError *error);

/* The snapshot before a covered picture. snapshot->params is borrowed.
 * Thread-safety: safe while no other function of the index runs. */
void sparse_index_snapshot(const SparseIndex *index, int64_t picture, FFSparseSnapshot *snapshot);

/* Packets whose slice headers have been read. */
int64_t sparse_index_scanned(const SparseIndex *index);

#endif /* SPARSE_INDEX_H */
