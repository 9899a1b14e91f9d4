/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One dav1d context, fed with chosen frames of a stream instead of all. That is exact because
 * a frame depends on nothing but the frames in the slots that its header names: what is left
 * out leaves other slots stale, which nobody looks at. Which frame each slot holds is kept and
 * checked before each frame.
 */
#ifndef SPARSE_AV1_DECODER_H
#define SPARSE_AV1_DECODER_H

#include <libavutil/frame.h>

#include "av1_index.h"
#include "cache.h"

typedef struct SparseAv1Decoder {
    SparseIdentity stream; /* whose frames it holds */
    SparseSource *source;
    const SparseAv1Index *index;
    struct AVCodecContext *context;
    struct AVPacket *packet;
    AVFrame *frame, *next;           /* the last that was put out; a spare one */
    int32_t slots[SPARSE_AV1_SLOTS]; /* pictures that dav1d holds; -1: none, or not known */
    int32_t at;                      /* the last picture that was decoded, or -1 */
    int32_t sequence;                /* that dav1d was told of last, or -1 */
    int fed;                         /* with anything, since the last reset */
} SparseAv1Decoder;

/* threads: dav1d's, 0: as many as it likes. For use the decoder must be assigned to a stream. One
 * thread at a time. */
int sparse_av1_decoder_open(SparseAv1Decoder **decoder, SparseSource *source, int threads,
                            SparseError *error);
void sparse_av1_decoder_close(SparseAv1Decoder **decoder);

/* Make it the decoder of a stream, whose source and built index must outlive its use. Of another
 * stream's frames it knows nothing more. */
void sparse_av1_decoder_assign(SparseAv1Decoder *decoder, const SparseIdentity *stream,
                               SparseSource *source, const SparseAv1Index *index);

/* Forget all frames. */
void sparse_av1_decoder_reset(SparseAv1Decoder *decoder);

/* Decode the picture; its references must be in their slots. When it is shown at once,
 * decoder->frame is it. SPARSE_ERR_DECODE, with frame -1 and no file named, when its data is
 * damaged; the decoder is then as after a reset. */
int sparse_av1_decoder_decode(SparseAv1Decoder *decoder, int32_t picture, SparseError *error);

/* Show a picture that stands in its slot: decoder->frame is it. */
int sparse_av1_decoder_show(SparseAv1Decoder *decoder, const SparseAv1Shown *shown,
                            SparseError *error);

#endif /* SPARSE_AV1_DECODER_H */
