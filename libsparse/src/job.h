/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One request under way: which steps of its plan are to be taken, which of them can be at the
 * moment, and the pictures that later ones need. Pure bookkeeping, without locks or decoders.
 */
#ifndef SPARSE_JOB_H
#define SPARSE_JOB_H

#include <stdatomic.h>

#include "reader.h"

#define SPARSE_NO_SLOT SIZE_MAX

typedef struct SparseRequest {
    const int64_t *indices; /* display indices, repeats allowed */
    const SparseTarget *targets;
    size_t count;
    int format;
    int width, height; /* as converted; 0: any */
    const SparseTransform *transform;
    /* where a size is given, all frames have the pixel format of the one that comes first;
     * AV_PIX_FMT_NONE until then */
    atomic_int *pixel_format;
} SparseRequest;

enum SparseStepState {
    SPARSE_STEP_UNNEEDED = 0, /* all that depends on it was kept */
    SPARSE_STEP_KEPT,         /* its picture came from the pool */
    SPARSE_STEP_WANTED        /* to be reconstructed */
};

/* What a step took. */
typedef struct SparseDone {
    int64_t reconstructed, kept; /* of AV1, where a step is several pictures */
    double decode_seconds, convert_seconds;
} SparseDone;

typedef struct SparseJob {
    SparseReader *reader;
    const SparsePlan *plan;
    SparseRequest request;
    SparseReaderKind kind; /* of the reader. _HEADERS: a step is a part of the plan; _LINEAR: all is
                              one step. Of either, all that follows av1 but memory, ready,
                              ready_count and left is unused */
    struct SparseAv1Job *av1; /* of _HEADERS */

    void *memory; /* of the arrays */
    unsigned char *states; /* [step_count] enum SparseStepState */
    unsigned char *keeps; /* [step_count] 1: the picture may be worth keeping */
    int reads_on; /* the request begins where the reader's last one has ended */
    FFSparsePicture **pictures; /* [step_count] those still needed */
    size_t *slot_of_step; /* [step_count] first of a chain of slots, or SPARSE_NO_SLOT */
    size_t *next_slot; /* [request.count] */
    int32_t *waiting; /* [step_count] references that aren't there yet */
    int32_t *uses; /* [step_count] wanted steps that need it yet, and its delivery */
    size_t *user_first; /* [step_count + 1] into users */
    size_t *users; /* steps that reference a step */
    size_t *ready; /* heap, the earliest step on top */
    size_t ready_count;
    size_t left; /* steps to be finished */
    int workers; /* that have it in hand */

    int64_t reconstructed, kept;
    double decode_seconds, convert_seconds;
} SparseJob;

/*
 * Chain the slots of a request that show the same: first[place] becomes the first slot of a
 * place's chain, next[slot] the one after a slot, and SPARSE_NO_SLOT ends a chain. Places are the
 * steps of the plan, or with NULL the targets themselves, which are distinct and ascending.
 */
void sparse_request_chain(const SparseRequest *request, const SparsePlan *plan,
                          const int64_t *targets, size_t count, size_t *first, size_t *next);

/*
 * Set *job up for a plan (NULL of SPARSE_READER_LINEAR) and a request, both of which must outlive
 * it, and take what is kept from the pool. To be ended also after a failure.
 */
int sparse_job_begin(SparseJob *job, SparseReader *reader, const SparsePlan *plan,
                     const SparseRequest *request, SparseError *error);
void sparse_job_end(SparseJob *job);

/* The earliest step that can be taken; there must be one. */
size_t sparse_job_take(SparseJob *job);

/* A wanted step is reconstructed, and its picture is there. Pictures that only it needed go. */
void sparse_job_done(SparseJob *job, size_t step);

/* A step's slots are filled. Its picture goes if nothing else needs it. */
void sparse_job_delivered(SparseJob *job, size_t step);

#endif /* SPARSE_JOB_H */
