/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Carrying out jobs: reconstruct their pictures, in one or several threads, and put the targets
 * where the caller wants them.
 */
#ifndef SPARSE_WORK_H
#define SPARSE_WORK_H

#include "job.h"

/*
 * Take all steps of jobs[0..count), in at most so many threads, the caller's included; none of
 * the others is left afterwards. On failure *error names the file and the frame, and *failed is
 * the number of the job.
 */
int sparse_work(SparseJob *jobs, size_t count, int threads, size_t *failed, SparseError *error);

/* Put a frame into targets[slot] and all further ones of the chain next_slot,
 * which SPARSE_NO_SLOT ends. */
int sparse_request_fill(const SparseRequest *request, SparseConverter *converter,
                        const AVFrame *frame, const size_t *next_slot, size_t slot,
                        SparseError *error);

#endif /* SPARSE_WORK_H */
