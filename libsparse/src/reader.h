/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Frames by number: what ties source, index, plan, decoder and conversion
 * together. One thread at a time; error must not be NULL.
 */
#ifndef SPARSE_READER_H
#define SPARSE_READER_H

#include "convert.h"
#include "decoder.h"
#include "index.h"
#include "linear.h"
#include "log.h"
#include "plan.h"
#include "source.h"

/* What one thread needs to reconstruct and convert. */
typedef struct SparseWorker {
    SparseDecoder *decoder;
    SparseConverter *converter;
} SparseWorker;

#define SPARSE_MAX_THREADS 64

struct SparseReader {
    SparseSource *source;
    SparseIndex *index;     /* NULL where closures aren't followed: */
    SparseRestart *restart; /* then this serves */
    AVFrame *frame;         /* of restart */
    SparseLog log;
    int threads;
    SparseWorker workers[SPARSE_MAX_THREADS];
    SparseStats stats;
    int64_t restart_counted; /* of sparse_restart_decoded(), already in stats */
    SparseSourceCounters counted; /* as they were at the last reset */
    int64_t scanned_counted;
};

/* Number of frames, or a negative code. */
int64_t sparse_reader_count(SparseReader *reader, SparseError *error);

/* Make the plan for indices[0..count) and all that the index needs for it. */
int sparse_reader_plan(SparseReader *reader, const int64_t *indices, size_t count,
                       SparsePlan **plan, SparseError *error);

/* See sparse_get_frames(). */
int sparse_reader_frames(SparseReader *reader, const int64_t *indices, size_t count, int format,
                         const SparseTarget *targets, int width, int height, SparseError *error);

/* See sparse_frame_info() and sparse_frame_layout(). */
int sparse_reader_frame_info(SparseReader *reader, int64_t first, int64_t count,
                             SparseFrameInfo *out, SparseError *error);
int sparse_reader_layout(SparseReader *reader, int64_t index, int format, SparseLayout *layout,
                         SparseError *error);

/* Monotonic clock. */
double sparse_seconds(void);

#endif /* SPARSE_READER_H */
