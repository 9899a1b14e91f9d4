/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Frames by number: what ties source, index, plan, decoder and conversion
 * together. One thread at a time; error must not be NULL.
 */
#ifndef SPARSE_READER_H
#define SPARSE_READER_H

#include <stdatomic.h>

#include "av1_index.h"
#include "convert.h"
#include "index.h"
#include "linear.h"
#include "log.h"
#include "plan.h"
#include "pool.h"
#include "saved.h"
#include "source.h"

#define SPARSE_MAX_THREADS 64

/* How a reader finds its frames. */
typedef enum SparseReaderKind {
    SPARSE_READER_STATES,  /* closures by header pass and restored state */
    SPARSE_READER_HEADERS, /* closures by frame headers alone, of AV1 */
    SPARSE_READER_LINEAR   /* linear decoding from key frames */
} SparseReaderKind;

struct SparseReader {
    SparseSource *source;
    SparseSaved *saved;     /* the saved index that was given, or NULL */
    SparseIndex *index;     /* one of the three, by the kind: SPARSE_READER_STATES, */
    SparseAv1Index *av1;    /* _HEADERS, */
    SparseRestart *restart; /* _LINEAR */
    AVFrame *frame;         /* of restart */
    unsigned orders;        /* how often the order of display has changed */
    int busy;               /* a linear request is carried out; under the lock of sparse_work() */
    SparseLog log;
    int threads;
    SparseTransform transform;
    SparsePool *pool;
    SparseIdentity identity; /* of the stream, for kept pictures */
    int shared;              /* others may have the same identity */
    int64_t answered_to; /* the last frame of the request before this one; -1: there was none */
    SparseIdentity file; /* what the file was when it was last looked at, of kind FILE if any */
    int dav1d_threads; /* of each AV1 decoder */
    _Atomic(SparseAv1Decoder *) av1_spare; /* one with threads of its own: in the pool, these would
                                              outlive the reader */
    _Atomic int64_t av1_damaged_after; /* frames before the first damage that was met;
                                          INT64_MAX: none was */
    SparseStats stats;
    int64_t restart_counted; /* of sparse_restart_decoded(), already in stats */
    SparseSourceCounters counted; /* as they were at the last reset */
    int64_t scanned_counted;
    int index_depth; /* of sparse_reader_enter_index(), and when the first was */
    double index_start;
};

/* Count what is done from here on, until it is left, as the index's time. May be nested. */
void sparse_reader_enter_index(SparseReader *reader);
void sparse_reader_leave_index(SparseReader *reader);

/* One of _HEADERS may become one of _LINEAR whenever the order or a plan is asked for; none does
 * while jobs are carried out. */
static inline SparseReaderKind sparse_reader_kind(const SparseReader *reader)
{
    return reader->index ? SPARSE_READER_STATES
           : reader->av1 ? SPARSE_READER_HEADERS
                         : SPARSE_READER_LINEAR;
}

/* Have a reader decode linearly; lazy as of sparse_restart_open(). */
int sparse_reader_open_linear(SparseReader *reader, int lazy, SparseError *error);

/*
 * The order in which frames are put out, by whichever way they are found. Valid until
 * the next call of another function with the reader.
 */
typedef struct SparseOrder {
    int64_t count;
    const SparseIndex *index;
    const SparseAv1Index *av1;
    const SparseRestartFrame *frames;
} SparseOrder;

int sparse_reader_order(SparseReader *reader, SparseOrder *order, SparseError *error);

/* Make sure that the closures of frames targets[0..count) are known. *reordered becomes 1 when the
 * order may have changed by this, and the caller asks again. */
int sparse_reader_cover(SparseReader *reader, const int64_t *targets, size_t count, int *reordered,
                        SparseError *error);

/* Of frame k, which must be there. */
int64_t sparse_order_picture(const SparseOrder *order, int64_t k);
int64_t sparse_order_pts(const SparseOrder *order, int64_t k);
int64_t sparse_order_packet(const SparseOrder *order, int64_t k);

/* Make all of the index now. */
int sparse_reader_build(SparseReader *reader, SparseProgress progress, void *user,
                        SparseError *error);

/* Number of frames, or a negative code. */
int64_t sparse_reader_count(SparseReader *reader, SparseError *error);

/* Make the plan for indices[0..count) and all that the index needs for it. */
int sparse_reader_plan(SparseReader *reader, const int64_t *indices, size_t count,
                       SparsePlan **plan, SparseError *error);

struct SparseRequest;

/* Carry out a request of a reader that decodes linearly. */
int sparse_reader_frames_linear(SparseReader *reader, const struct SparseRequest *request,
                                SparseError *error);

/* See sparse_get_frames(). */
int sparse_reader_frames(SparseReader *reader, const int64_t *indices, size_t count, int format,
                         const SparseTarget *targets, int width, int height, SparseError *error);

/* See sparse_get_batch(). */
int sparse_reader_batch(SparseBatchItem *items, size_t count, int threads, size_t *failed,
                        SparseError *error);

/* See sparse_frame_info() and sparse_frame_layout(). */
int sparse_reader_frame_info(SparseReader *reader, int64_t first, int64_t count,
                             SparseFrameInfo *out, SparseError *error);
int sparse_reader_layout(SparseReader *reader, int64_t index, int format, SparseLayout *layout,
                         SparseError *error);

/* ---- Kept pictures ---- */

/* Find out who the stream is; key as in SparseSettings. */
void sparse_reader_identify(SparseReader *reader, const uint8_t *key, size_t key_size);

/* See that a file is still what it was; if not, what is kept of it is left alone. */
void sparse_reader_check_identity(SparseReader *reader);

/* A new reference to a kept picture, or NULL. */
FFSparsePicture *sparse_reader_kept(SparseReader *reader, int64_t picture);

/* A kept picture that the reader has had is of no use to it any more: it goes, unless another
 * request has had it, too, or it is an anchor. */
void sparse_reader_forget(SparseReader *reader, int64_t picture);

/* 1: sparse_reader_keep() may keep something. Thread-safety: safe. */
int sparse_reader_keeps(const SparseReader *reader);

/* Keep a picture that the decoder has just made, if it is worth it. frame shows it.
 * Thread-safety: safe. */
void sparse_reader_keep(SparseReader *reader, SparseDecoder *decoder, int64_t picture,
                        FFSparsePicture *data, const AVFrame *frame);

/* Monotonic clock. */
double sparse_seconds(void);

#endif /* SPARSE_READER_H */
