/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Memory of decoded pictures, used again by any decoder: a picture that is kept
 * outlives the decoder that made it, and what it leaves behind must not stay with that one.
 */
#ifndef SPARSE_BUFFERS_H
#define SPARSE_BUFFERS_H

#include <libavcodec/avcodec.h>

#include "error.h"

/* Counts references: each picture in use holds one. Thread-safety: safe. */
typedef struct SparseBuffers SparseBuffers;

int sparse_buffers_create(SparseBuffers **buffers, SparseError *error);

/* Drop the owner's reference: memory that comes back later is freed. */
void sparse_buffers_release(SparseBuffers **buffers);

/* Keep at most so many bytes of unused memory. */
void sparse_buffers_set_limit(SparseBuffers *buffers, int64_t bytes);

/* Bytes of unused memory. */
int64_t sparse_buffers_unused(SparseBuffers *buffers);

/* Have a context's pictures allocated here: with the alignments and the distances of rows that
 * libavcodec would take. The buffers must live as long as the context is open. */
void sparse_buffers_attach(SparseBuffers *buffers, AVCodecContext *context);

#endif /* SPARSE_BUFFERS_H */
