/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One decoder context of the patched FFmpeg: header passes over packets, and
 * single pictures decoded from a restored DPB snapshot.
 */
#ifndef SPARSE_DECODER_H
#define SPARSE_DECODER_H

#include <libavcodec/packet.h>
#include <libavcodec/sparsedec.h>

#include "buffers.h"
#include "source.h"

typedef struct SparseDecoder SparseDecoder;

/* Whether closures of this codec can be found by header pass. Thread-safety: safe. */
int sparse_decoder_supports(enum AVCodecID codec);

/* One thread at a time. The buffers must outlive the handle, the source as long as it is in use. */
int sparse_decoder_open(SparseDecoder **decoder, SparseSource *source, SparseBuffers *buffers,
                        SparseError *error);
void sparse_decoder_close(SparseDecoder **decoder);

/*
 * Whether the decoder serves another source too: all that FFmpeg's decoders take from the
 * container is the same in both. The two may differ in bit rate, frame rate and time base, which
 * no pixel depends on.
 */
int sparse_decoder_fits(const SparseDecoder *decoder, const SparseSource *source);

/* Use the decoder for this source from now on, for pictures restored from snapshots. */
void sparse_decoder_assign(SparseDecoder *decoder, SparseSource *source);

/* The state of a decoder that has seen nothing, as a header pass needs it. */
int sparse_decoder_reset(SparseDecoder *decoder, SparseError *error);

/* So many bytes of motion data that the decoder allocated are kept. */
void sparse_decoder_note_kept(SparseDecoder *decoder, int64_t bytes);

/* Give up the source and all pictures. 0: another source may have it; negative: it has met
 * damage and has to be closed. */
int sparse_decoder_park(SparseDecoder *decoder);

/* Called by sparse_decoder_scan() for each frame put out, in display order. The frame has
 * all that the decoder gives it but samples. */
typedef int (*SparseOutput)(void *user, int64_t picture, const AVFrame *frame, SparseError *error);

/*
 * Read the slice headers of a packet (NULL: the end of the stream) and move
 * the decoder's state past it. *report belongs to the decoder and is valid
 * until the next call. Damage in the packet is no failure here: the report
 * tells of it.
 */
int sparse_decoder_scan(SparseDecoder *decoder, AVPacket *packet, int64_t id,
                        const FFSparseReport **report, SparseOutput output, void *user,
                        SparseError *error);

/* The state before the next packet; to be freed by ff_sparse_snapshot_unref(). */
int sparse_decoder_snapshot(SparseDecoder *decoder, FFSparseSnapshot *snapshot, SparseError *error);

/* Continue a header pass from there. */
int sparse_decoder_reposition(SparseDecoder *decoder, const FFSparseSnapshot *snapshot,
                              SparseError *error);

/*
 * Reconstruct the picture whose packets are first..last. references has a
 * picture for each entry of the snapshot, NULL where the entry isn't a direct
 * reference. On success *picture is a new reference, to be dropped by
 * ff_sparse_picture_unref(). SPARSE_ERR_DECODE, with frame -1 and no file
 * named, when its data is damaged in any way.
 */
int sparse_decoder_reconstruct(SparseDecoder *decoder, const FFSparseSnapshot *snapshot,
                               FFSparsePicture *const *references, int64_t first, int64_t last,
                               FFSparsePicture **picture, SparseError *error);

#endif /* SPARSE_DECODER_H */
