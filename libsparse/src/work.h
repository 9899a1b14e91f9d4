/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Carrying out a plan: reconstruct its pictures, in one or several threads,
 * and put the targets where the caller wants them.
 */
#ifndef SPARSE_WORK_H
#define SPARSE_WORK_H

#include "reader.h"

typedef struct SparseRequest {
    const int64_t *indices; /* display indices, repeats allowed */
    const SparseTarget *targets;
    size_t count;
    int format;
    int width, height; /* 0: any */
} SparseRequest;

/* Reconstruct the plan's pictures and fill the request's targets. On failure
 * *error names the file and the frame. */
int sparse_work(SparseReader *reader, const SparsePlan *plan, const SparseRequest *request,
                SparseError *error);

/* Put a frame into targets[slot] and all further ones of the chain next_slot,
 * which SIZE_MAX ends. */
int sparse_request_fill(const SparseRequest *request, SparseConverter *converter,
                        const AVFrame *frame, const size_t *next_slot, size_t slot,
                        SparseError *error);

#endif /* SPARSE_WORK_H */
