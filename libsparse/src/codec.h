/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The decoder context that sparse and linear decoding have in common: what one is set
 * up by, the other has to be, or their frames could differ.
 */
#ifndef SPARSE_CODEC_H
#define SPARSE_CODEC_H

#include <libavcodec/avcodec.h>

#include "source.h"

/* Open a decoder set up as the ffmpeg program does, on one thread; to be freed by
 * avcodec_free_context(). On failure *context is NULL. */
int sparse_codec_open(AVCodecContext **context, const SparseSource *source, SparseError *error);

/* The same on several threads, 0: as many as the decoder likes; of AV1 alone. A frame is put
 * out before the next is decoded, as on one thread. */
int sparse_codec_open_threads(AVCodecContext **context, const SparseSource *source, int threads,
                              SparseError *error);

#endif /* SPARSE_CODEC_H */
