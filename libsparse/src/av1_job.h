/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One request to an AV1 stream under way. dav1d's references can't be put into its slots from
 * outside: a part of the plan is fed to one decoder in order, and parts that don't depend on
 * each other can be taken by several threads.
 */
#ifndef SPARSE_AV1_JOB_H
#define SPARSE_AV1_JOB_H

#include "job.h"

typedef struct SparseAv1Job SparseAv1Job;

/*
 * Reader, plan and request must outlive the job.
 *
 * SPARSE_ERR_DECODE for frames after known damage. dav1d puts out no frame where data is
 * damaged, so that in a linear decode all later frames have lower numbers than the headers
 * tell: once damage was met, frames after it are refused.
 */
int sparse_av1_job_begin(SparseAv1Job **job, SparseReader *reader, const SparsePlan *plan,
                         const SparseRequest *request, SparseError *error);
void sparse_av1_job_end(SparseAv1Job **job);

/*
 * Take one part of the plan: decode its pictures and fill its slots. A decoder that still holds
 * what the part refers to goes on from there, and decodes only what is missing. On failure
 * *error names the file and the frame. Thread-safety: safe for different parts.
 */
int sparse_av1_job_part(SparseAv1Job *job, size_t part, SparseConverter *converter,
                        SparseDone *done, SparseError *error);

#endif /* SPARSE_AV1_JOB_H */
