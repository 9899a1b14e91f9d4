/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "decoder.h"

#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>
#include <libavutil/mem.h>

#include "codec.h"

struct SparseDecoder {
    SparseSource *source;
    AVCodecContext *context;
    AVPacket *packet; /* of reconstruction */
    AVFrame *frame;
};

int sparse_decoder_supports(enum AVCodecID codec)
{
    return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC;
}

int sparse_decoder_open(SparseDecoder **result, SparseSource *source, SparseError *error)
{
    SparseDecoder *decoder = av_mallocz(sizeof(*decoder));
    int ret;

    *result = NULL;
    if (!decoder)
        return sparse_fail_memory(error);
    decoder->source = source;
    decoder->packet = av_packet_alloc();
    decoder->frame = av_frame_alloc();
    if (!decoder->packet || !decoder->frame) {
        ret = sparse_fail_memory(error);
        goto fail;
    }
    ret = sparse_codec_open(&decoder->context, source, error);
    if (ret < 0)
        goto fail;
    decoder->context->framerate = sparse_source_framerate(source);
    ret = ff_sparse_enable(decoder->context);
    if (ret < 0) {
        ret = sparse_source_fail(source, error, sparse_code_from_av(ret, SPARSE_ERR_DECODE), -1,
                                 "sparse decoding can't be set up: %s", av_err2str(ret));
        goto fail;
    }
    *result = decoder;
    return 0;

fail:
    sparse_decoder_close(&decoder);
    return ret;
}

void sparse_decoder_close(SparseDecoder **decoder)
{
    if (!*decoder)
        return;
    avcodec_free_context(&(*decoder)->context);
    av_packet_free(&(*decoder)->packet);
    av_frame_free(&(*decoder)->frame);
    av_freep(decoder);
}

/* Give the decoder a packet and take what it puts out. Only want of memory is
 * a failure: all else is in the report. */
static int feed(SparseDecoder *decoder, AVPacket *packet, SparseOutput output, void *user,
                SparseError *error)
{
    int ret = avcodec_send_packet(decoder->context, packet);

    if (ret == AVERROR(ENOMEM))
        return sparse_fail_memory(error);
    for (int errors = 0; errors < 64;) {
        ret = avcodec_receive_frame(decoder->context, decoder->frame);
        if (ret == AVERROR(ENOMEM))
            return sparse_fail_memory(error);
        if (ret == AVERROR(EAGAIN) || ret == AVERROR_EOF)
            return 0;
        if (ret < 0) { /* of a damaged packet; what waits for output still comes */
            errors++;
            continue;
        }
        if (output) {
            ret = output(user, ff_sparse_frame_id(decoder->frame), decoder->frame, error);
            if (ret < 0) {
                av_frame_unref(decoder->frame);
                return ret;
            }
        }
        av_frame_unref(decoder->frame);
    }
    return 0;
}

int sparse_decoder_scan(SparseDecoder *decoder, AVPacket *packet, int64_t id,
                        const FFSparseReport **report, SparseOutput output, void *user,
                        SparseError *error)
{
    ff_sparse_begin_packet(decoder->context, FF_SPARSE_STATE_ONLY, id);
    *report = ff_sparse_report(decoder->context);
    return feed(decoder, packet, output, user, error);
}

int sparse_decoder_snapshot(SparseDecoder *decoder, FFSparseSnapshot *snapshot, SparseError *error)
{
    int ret = ff_sparse_snapshot(decoder->context, snapshot);

    if (ret < 0)
        return sparse_source_fail(decoder->source, error,
                                  sparse_code_from_av(ret, SPARSE_ERR_DECODE), -1,
                                  "the decoder's state can't be kept: %s", av_err2str(ret));
    return 0;
}

int sparse_decoder_reposition(SparseDecoder *decoder, const FFSparseSnapshot *snapshot,
                              SparseError *error)
{
    int ret;

    avcodec_flush_buffers(decoder->context);
    ff_sparse_begin_packet(decoder->context, FF_SPARSE_STATE_ONLY, 0);
    ret = ff_sparse_restore(decoder->context, snapshot, NULL);
    if (ret < 0)
        return sparse_source_fail(decoder->source, error,
                                  sparse_code_from_av(ret, SPARSE_ERR_DECODE), -1,
                                  "the decoder's state can't be restored: %s", av_err2str(ret));
    return 0;
}

int sparse_decoder_reconstruct(SparseDecoder *decoder, const FFSparseSnapshot *snapshot,
                               FFSparsePicture *const *references, int64_t first, int64_t last,
                               FFSparsePicture **picture, SparseError *error)
{
    uint32_t flags = 0;
    int ret;

    *picture = NULL;
    ff_sparse_begin_packet(decoder->context, FF_SPARSE_RECONSTRUCT, first);
    ret = ff_sparse_restore(decoder->context, snapshot, references);
    if (ret < 0)
        goto fail;

    for (int64_t i = first; i <= last; i++) {
        ret = sparse_source_read_packet(decoder->source, i, decoder->packet, error);
        if (ret < 0)
            return ret;
        ff_sparse_begin_packet(decoder->context, FF_SPARSE_RECONSTRUCT, i);
        ret = feed(decoder, decoder->packet, NULL, NULL, error);
        av_packet_unref(decoder->packet);
        if (ret < 0)
            return ret;
        flags |= ff_sparse_report(decoder->context)->flags;
    }

    if (flags & FF_SPARSE_REPORT_STUB)
        return sparse_fail(error, SPARSE_ERR_DECODE, -1,
                           "a reference that the header pass didn't find (packet %lld)",
                           (long long)first);
    if (flags & (FF_SPARSE_REPORT_ERROR | FF_SPARSE_REPORT_LOST))
        return sparse_fail(error, SPARSE_ERR_DECODE, -1, "damaged data in packet %lld",
                           (long long)first);
    ret = ff_sparse_take_picture(decoder->context, picture);
    if (ret < 0)
        goto fail;
    if (ff_sparse_picture_errors(*picture)) {
        ff_sparse_picture_unref(picture);
        return sparse_fail(error, SPARSE_ERR_DECODE, -1, "damaged data in packet %lld",
                           (long long)first);
    }
    return 0;

fail:
    return sparse_fail(error, sparse_code_from_av(ret, SPARSE_ERR_DECODE), -1,
                       "packet %lld can't be decoded: %s", (long long)first, av_err2str(ret));
}
