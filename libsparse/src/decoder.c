/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "decoder.h"

#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>
#include <libavutil/mem.h>
#include <libavutil/pixdesc.h>

#include "codec.h"

enum { MOST_KEPT = 8 << 20 };

/* What opening sets in the context and decoding changes, of what matters for output. */
typedef struct Initial {
    int has_b_frames, width, height, coded_width, coded_height, profile, level, refs;
    enum AVFieldOrder field_order;
    enum AVChromaLocation chroma_location;
    AVRational sar;
} Initial;

/* What libavcodec remembers of times to make its best effort at the next one. */
typedef struct Times {
    int64_t last_pts, last_dts, faulty_pts, faulty_dts;
} Times;

struct SparseDecoder {
    SparseSource *source; /* NULL while nobody uses it */
    AVCodecContext *context;
    AVCodecParameters *parameters; /* it was opened with */
    FFSparseSnapshot fresh;        /* the state before all packets */
    Initial initial;
    Times times;
    int used;      /* it has seen packets */
    int drained;   /* it was told of the end, after which it takes no packets */
    int suspect;   /* it has met damage */
    int64_t kept;  /* bytes of motion data in kept pictures */
    AVPacket *packet; /* of reconstruction */
    AVFrame *frame;
};

int sparse_decoder_supports(enum AVCodecID codec)
{
    return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC;
}

/* ---- Opening and using again ---- */

static void forget_times(Times *times)
{
    *times = (Times){.last_pts = INT64_MIN, .last_dts = INT64_MIN};
}

int sparse_decoder_open(SparseDecoder **result, SparseSource *source, SparseBuffers *buffers,
                        SparseError *error)
{
    SparseDecoder *decoder = av_mallocz(sizeof(*decoder));
    const AVCodecContext *context;
    int ret;

    *result = NULL;
    if (!decoder)
        return sparse_fail_memory(error);
    decoder->source = source;
    decoder->packet = av_packet_alloc();
    decoder->frame = av_frame_alloc();
    decoder->parameters = avcodec_parameters_alloc();
    if (!decoder->packet || !decoder->frame || !decoder->parameters ||
        avcodec_parameters_copy(decoder->parameters, sparse_source_codecpar(source)) < 0) {
        ret = sparse_fail_memory(error);
        goto fail;
    }
    ret = sparse_codec_open(&decoder->context, source, error);
    if (ret < 0)
        goto fail;
    sparse_buffers_attach(buffers, decoder->context);
    decoder->context->framerate = sparse_source_framerate(source);
    ret = ff_sparse_enable(decoder->context);
    if (ret >= 0)
        ret = ff_sparse_snapshot(decoder->context, &decoder->fresh);
    if (ret < 0) {
        ret = sparse_source_fail(source, error, sparse_code_from_av(ret, SPARSE_ERR_DECODE), -1,
                                 "sparse decoding can't be set up: %s", av_err2str(ret));
        goto fail;
    }
    /* frames of header passes have no planes to crop, see is_shown() */
    decoder->context->apply_cropping = 0;
    context = decoder->context;
    decoder->initial = (Initial){context->has_b_frames,
                                 context->width,
                                 context->height,
                                 context->coded_width,
                                 context->coded_height,
                                 context->profile,
                                 context->level,
                                 context->refs,
                                 context->field_order,
                                 context->chroma_sample_location,
                                 context->sample_aspect_ratio};
    forget_times(&decoder->times);
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
    ff_sparse_snapshot_unref(&(*decoder)->fresh);
    avcodec_free_context(&(*decoder)->context);
    avcodec_parameters_free(&(*decoder)->parameters);
    av_packet_free(&(*decoder)->packet);
    av_frame_free(&(*decoder)->frame);
    av_freep(decoder);
}

static int same_side_data(const AVCodecParameters *a, const AVCodecParameters *b)
{
    if (a->nb_coded_side_data != b->nb_coded_side_data)
        return 0;
    for (int i = 0; i < a->nb_coded_side_data; i++) {
        const AVPacketSideData *x = &a->coded_side_data[i], *y = &b->coded_side_data[i];

        if (x->type != y->type || x->size != y->size ||
            (x->size && memcmp(x->data, y->data, x->size) != 0))
            return 0;
    }
    return 1;
}

/* All that avcodec_parameters_to_context() hands to a video decoder but rates. */
static int same_parameters(const AVCodecParameters *a, const AVCodecParameters *b)
{
    return a->codec_type == b->codec_type && a->codec_id == b->codec_id &&
           a->codec_tag == b->codec_tag && a->format == b->format && a->width == b->width &&
           a->height == b->height && a->profile == b->profile && a->level == b->level &&
           a->video_delay == b->video_delay && a->field_order == b->field_order &&
           a->color_range == b->color_range && a->color_space == b->color_space &&
           a->color_primaries == b->color_primaries && a->color_trc == b->color_trc &&
           a->chroma_location == b->chroma_location &&
           a->bits_per_coded_sample == b->bits_per_coded_sample &&
           a->bits_per_raw_sample == b->bits_per_raw_sample &&
           a->sample_aspect_ratio.num == b->sample_aspect_ratio.num &&
           a->sample_aspect_ratio.den == b->sample_aspect_ratio.den &&
           a->extradata_size == b->extradata_size &&
           (!a->extradata_size ||
            memcmp(a->extradata, b->extradata, (size_t)a->extradata_size) == 0) &&
           same_side_data(a, b);
}

int sparse_decoder_fits(const SparseDecoder *decoder, const SparseSource *source)
{
    return same_parameters(decoder->parameters, sparse_source_codecpar(source));
}

void sparse_decoder_assign(SparseDecoder *decoder, SparseSource *source)
{
    decoder->source = source;
    decoder->context->bit_rate = sparse_source_codecpar(source)->bit_rate;
    decoder->context->framerate = sparse_source_framerate(source);
    decoder->context->pkt_timebase = sparse_source_time_base(source);
}

int sparse_decoder_reset(SparseDecoder *decoder, SparseError *error)
{
    AVCodecContext *context = decoder->context;
    const Initial *initial = &decoder->initial;
    int ret;

    if (!decoder->used)
        return 0;
    ret = sparse_decoder_reposition(decoder, &decoder->fresh, error);
    context->has_b_frames = initial->has_b_frames;
    context->width = initial->width;
    context->height = initial->height;
    context->coded_width = initial->coded_width;
    context->coded_height = initial->coded_height;
    context->profile = initial->profile;
    context->level = initial->level;
    context->refs = initial->refs;
    context->field_order = initial->field_order;
    context->chroma_sample_location = initial->chroma_location;
    context->sample_aspect_ratio = initial->sar;
    forget_times(&decoder->times);
    decoder->used = 0;
    decoder->kept = 0;
    return ret;
}

void sparse_decoder_note_kept(SparseDecoder *decoder, int64_t bytes)
{
    decoder->kept += bytes;
}

int sparse_decoder_park(SparseDecoder *decoder)
{
    FFSparseSnapshot state;
    int ret = decoder->suspect ? AVERROR_INVALIDDATA : 0;

    /* Memory of motion goes back to the decoder when a kept picture is dropped, for its next
     * ones. That it doesn't pile up there, the decoder forgets about it in time. */
    if (ret >= 0 && (decoder->drained || decoder->kept > MOST_KEPT))
        ret = sparse_decoder_reset(decoder, NULL);
    /* with the parameter sets as they are, so that it need not set up all again */
    if (ret >= 0 && decoder->used) {
        ret = ff_sparse_snapshot(decoder->context, &state);
        if (ret >= 0) {
            state.nb_entries = 0;
            ret = ff_sparse_restore(decoder->context, &state, NULL);
            ff_sparse_snapshot_unref(&state);
        }
    }
    decoder->source = NULL;
    return ret;
}

/* ---- Packets ---- */

/*
 * The best effort at a frame's time: what libavcodec does for AVFrame.best_effort_timestamp, with
 * a memory that can be emptied. The times of packets in the order of decoding are held against
 * those of frames: whichever went backwards less often is believed.
 */
static int64_t best_effort(Times *times, int64_t pts, int64_t dts)
{
    if (dts != AV_NOPTS_VALUE) {
        times->faulty_dts += dts <= times->last_dts;
        times->last_dts = dts;
    } else if (pts != AV_NOPTS_VALUE) {
        times->last_dts = pts;
    }
    if (pts != AV_NOPTS_VALUE) {
        times->faulty_pts += pts <= times->last_pts;
        times->last_pts = pts;
    } else if (dts != AV_NOPTS_VALUE) {
        times->last_pts = dts;
    }
    return pts != AV_NOPTS_VALUE &&
                   (times->faulty_pts <= times->faulty_dts || dts == AV_NOPTS_VALUE)
               ? pts
               : dts;
}

/*
 * Whether a linear decode puts out a frame of a header pass. It doesn't if cropping fails, as it
 * does where a left edge is cropped of which FFmpeg can't keep the alignment (10 bit 4:4:4). That
 * rests on the offsets of all planes, so this asks with as many as the frame's format has.
 */
static int is_shown(const AVFrame *frame)
{
    AVFrame copy = {
        .width = frame->width,
        .height = frame->height,
        .format = frame->format,
        .crop_left = frame->crop_left,
        .crop_right = frame->crop_right,
        .crop_top = frame->crop_top,
        .crop_bottom = frame->crop_bottom,
    };
    const int planes = av_pix_fmt_count_planes(copy.format);

    if (!copy.crop_left)
        return 1;
    for (int i = 0; i < planes; i++) {
        copy.data[i] = frame->data[0];
        copy.linesize[i] = FFALIGN(copy.width, 64) * 8;
    }
    return av_frame_apply_cropping(&copy, 0) >= 0;
}

/* Give the decoder a packet and take what it puts out. Only want of memory is
 * a failure: all else is in the report. */
static int feed(SparseDecoder *decoder, AVPacket *packet, SparseOutput output, void *user,
                SparseError *error)
{
    int ret;

    decoder->used = 1;
    decoder->drained |= !packet || !packet->size;
    ret = avcodec_send_packet(decoder->context, packet);

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
        if (output && is_shown(decoder->frame)) {
            decoder->frame->best_effort_timestamp =
                best_effort(&decoder->times, decoder->frame->pts, decoder->frame->pkt_dts);
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
    int ret;

    ff_sparse_begin_packet(decoder->context, FF_SPARSE_STATE_ONLY, id);
    *report = ff_sparse_report(decoder->context);
    ret = feed(decoder, packet, output, user, error);
    if (ret < 0 || (*report)->flags & FF_SPARSE_REPORT_ERROR)
        decoder->suspect = 1;
    return ret;
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
    decoder->drained = 0;
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
    decoder->suspect = 1; /* until it has gone well: no later picture may feel what went wrong */
    decoder->used = 1;
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
    decoder->suspect = 0;
    return 0;

fail:
    return sparse_fail(error, sparse_code_from_av(ret, SPARSE_ERR_DECODE), -1,
                       "packet %lld can't be decoded: %s", (long long)first, av_err2str(ret));
}
