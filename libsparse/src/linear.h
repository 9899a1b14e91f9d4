/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Linear decoding: the judge of what frame k is, and, with restart points, the
 * way to single frames of codecs whose references aren't followed.
 */
#ifndef SPARSE_LINEAR_H
#define SPARSE_LINEAR_H

#include <libavutil/frame.h>

#include "source.h"

/* ---- One stock decoder over the packets ---- */

typedef struct SparseStock SparseStock;

/* Decode from packet `first` on. The source must outlive the handle; its
 * packet table is built if it wasn't. */
int sparse_stock_open(SparseStock **stock, SparseSource *source, int64_t first, SparseError *error);
void sparse_stock_close(SparseStock **stock);

/*
 * The next frame in the order of output into *frame (unreferenced first): 1, or
 * 0 at the end. frame->opaque is the packet's number + 1, frame->pts the best
 * effort at a timestamp. *damaged (may be NULL) becomes 1 when the decoder
 * reported an error since the last frame or in this one; that is no failure.
 */
int sparse_stock_next(SparseStock *stock, AVFrame *frame, int *damaged, SparseError *error);

/* ---- Frames by number, for codecs without closures ---- */

typedef struct SparseRestart SparseRestart;

typedef struct SparseRestartFrame {
    int64_t packet;     /* in which the picture begins */
    int64_t pts;        /* AV_NOPTS_VALUE when unknown */
    int64_t duration;   /* as the decoder tells it, 0 when unknown */
    uint64_t hash;      /* of the visible samples; 0 and unused for intra-only streams */
    char picture_type;  /* 'I', 'P', 'B' or '?' */
    char key;           /* the packet is marked as a key frame */
    char damaged;       /* the linear decode reported an error here */
    enum AVColorSpace colorspace;  /* the linear decode's, as the next; unused likewise */
    enum AVColorRange color_range;
} SparseRestartFrame;

/* One thread at a time. The source must outlive the handle. lazy 1: of a stream whose packets
 * are pictures that need nothing else, each is taken to give one frame, without a decode. */
int sparse_restart_open(SparseRestart **restart, SparseSource *source, int lazy,
                        SparseError *error);
void sparse_restart_close(SparseRestart **restart);

/* Find the frames, if that hasn't been done: the whole stream is decoded once, but see lazy.
 * progress may be NULL. */
int sparse_restart_index(SparseRestart *restart, SparseProgress progress, void *user,
                         SparseError *error);

/* The frames in display order; indexes first if needed. *frames belongs to the handle. */
int sparse_restart_frames(SparseRestart *restart, const SparseRestartFrame **frames, int64_t *count,
                          SparseError *error);

/* Frame k into *frame (unreferenced first). SPARSE_ERR_DECODE when it is
 * damaged or can't be had as the linear decode had it. Going forward by small
 * steps continues where the last call stopped. */
int sparse_restart_get(SparseRestart *restart, int64_t k, AVFrame *frame, SparseError *error);

/* Pictures decoded by sparse_restart_index() and _get() since the open. */
int64_t sparse_restart_decoded(const SparseRestart *restart);

#endif /* SPARSE_LINEAR_H */
