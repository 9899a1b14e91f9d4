/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the parts of the index share: index.c (the tables and what others see), index_pass.c
 * (the header pass, and the index of the whole stream) and index_runs.c (header passes over
 * parts of the stream).
 */
#ifndef SPARSE_INDEX_INTERNAL_H
#define SPARSE_INDEX_INTERNAL_H

#include "epochs.h"
#include "index.h"
#include "plain.h"

/* Packets [start, end) that have been passed, and the state after them. */
typedef struct SparseRun {
    int64_t start, end;
    int64_t checked; /* packets before this one agree with their times */
    int64_t flawed;  /* packets without a whole picture */
    int misordered;  /* frames did not come out in the order of their times */
    FFSparseSnapshot after;
} SparseRun;

/* What the pass notes of a packet. */
typedef struct SparsePictureNotes {
    SparsePicture facts;
    size_t reference_first; /* into the index's arrays */
    size_t entry_first;
    int32_t entry_count;
    int32_t state[24]; /* FFSparseSnapshot.state */
} SparsePictureNotes;

struct SparseIndex {
    SparseSource *source;
    SparsePool *pool;
    SparsePacked *packed; /* the whole index, of the source; in place of most that follows */
    int64_t packet_count;
    int lazy;  /* runs, with the container's word for the order of display */
    int unchecked; /* lazy only if sparse_plain_check() finds that it may be */
    SparsePlainNotes plain; /* of that check; empty without */
    int head;  /* bytes of a slice that are read; 0: packets are read whole */
    int is_saved; /* packed comes from a saved index */
    int whole; /* everything is covered and display is the decoder's own order */

    SparsePictureNotes *pictures; /* [packet_count] */
    unsigned char *covered;  /* [packet_count] */
    int32_t *references;
    size_t reference_count, reference_capacity;
    FFSparseEntry *entries;
    size_t entry_count, entry_capacity;
    FFSparseParams **params; /* of epochs; NULL when they are not at hand */
    SparseEpoch *epochs;
    int32_t params_count; /* of both */
    size_t params_capacity, epoch_capacity;
    SparseSets *sets;     /* of a whole pass over H.264 */
    uint64_t *keys;       /* sparse_sets_key() of epochs, while there are sets */
    size_t key_capacity;

    SparseRun *runs; /* in order, disjoint */
    size_t run_count, run_capacity;
    SparseDecoder *decoder; /* of the pool; NULL between the calls */
    int used;               /* packets have been passed */
    AVPacket *packet;
    AVBufferPool *head_pool;
    FFSparseSnapshot fresh; /* the state before all packets */
    int64_t scanned;
    int64_t at; /* the packet being passed */

    int32_t found[2 * FF_SPARSE_MAX_REFS]; /* references that sparse_index_lookup() has given */

    SparseDisplay *display;
    int64_t display_count;
    size_t display_capacity;
};

/* ---- index.c ---- */

/* Get the packet table and what it takes to pass over packets. */
int sparse_index_prepare(SparseIndex *index, SparseProgress progress, void *user,
                         SparseError *error);

/* Take packed tables, which belong to the source, and free the others. */
void sparse_index_use_packed(SparseIndex *index, SparsePacked *packed);

/* ---- index_pass.c ---- */

/* The head of a slice was not enough: the pass has to be made again with
 * sparse_index_read_more(). */
enum { SPARSE_READ_MORE = -1000 };

void sparse_index_read_more(SparseIndex *index);

/* Pass over packet i, which the decoder stands before. SPARSE_READ_MORE: see there. */
int sparse_index_scan(SparseIndex *index, int64_t i, SparseOutput output, void *user,
                      SparseError *error);

/* ---- index_epochs.c ---- */

/* The number of the epoch with these parameter sets, which begins before packet i if it's new. */
int sparse_index_note_epoch(SparseIndex *index, FFSparseParams *params, int64_t i, int32_t *number,
                            SparseError *error);

/* Free them all, and what is known of them. */
void sparse_index_drop_epochs(SparseIndex *index);

/* Have the parameter sets of an epoch at hand. */
int sparse_index_restore_epoch(SparseIndex *index, int32_t number, SparseError *error);

/* ---- index_pack.c ---- */

/* Put packed tables in the place of those that a whole pass has made. */
int sparse_index_pack(SparseIndex *index, SparseError *error);

/* ---- index_runs.c ---- */

void sparse_index_drop_runs(SparseIndex *index);

/* 1: the first packet is such that the container's word for the order of display can be taken,
 * 0: not. */
int sparse_index_check_first(SparseIndex *index, SparseError *error);

/*
 * Cover packet target by a run in which its closure is complete, beginning at
 * the nearest random access point that allows it. 1: done; 0: the container's
 * word can't be taken.
 */
int sparse_index_cover_by_run(SparseIndex *index, int64_t target, SparseError *error);

/* About how many packets runs would have to pass over to cover the pictures of display indices
 * targets[0..count), which are in order. */
int64_t sparse_index_run_cost(SparseIndex *index, const int64_t *targets, size_t count);

#endif /* SPARSE_INDEX_INTERNAL_H */
