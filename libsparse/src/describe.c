/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the stream is: its facts, from the container, the parameter sets or a probing decode,
 * and whether such is needed.
 */
#include <math.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/display.h>
#include <libavutil/pixdesc.h>

#include "av1_obu.h"
#include "h264_sps.h"
#include "source_internal.h"

/* Does the display order follow the decode order? */
static int is_monotonic(const SparseSource *source)
{
    for (int64_t i = 1; i < source->count; i++)
        if (source->packets[i].pts <= source->packets[i - 1].pts)
            return 0;
    return 1;
}

/* Whether every parameter set at the start of the first packet, before its
 * first slice, stands in the avcC box too. Reads only NAL headers. */
static int first_packet_agrees(SparseSource *source, SparseAvcc avcc)
{
    const SparsePacket *packet = &source->packets[0];
    const SparseAvcc all = avcc;
    int64_t at = packet->pos, end = packet->pos + packet->size;
    uint8_t head[5], copy[1024];

    for (int nals = 0; nals < 64; nals++) {
        int64_t length = 0;
        int type, found = 0, left = 1;
        const uint8_t *nal;
        size_t size;

        if (end - at < avcc.length_size + 1)
            return 0;
        if (sparse_bytes_read(source->bytes, head, at, avcc.length_size + 1, NULL) !=
            avcc.length_size + 1)
            return 0;
        for (int i = 0; i < avcc.length_size; i++)
            length = length << 8 | head[i];
        type = head[avcc.length_size] & 0x1f;
        at += avcc.length_size;
        if (length < 1 || length > end - at)
            return 0;
        if (type >= 1 && type <= 5)
            return 1;
        if (type == 7) {
            if (length > (int64_t)sizeof(copy) ||
                sparse_bytes_read(source->bytes, copy, at, length, NULL) != length)
                return 0;
            avcc = all;
            while (!found && (left = sparse_avcc_next_sps(&avcc, &nal, &size)) > 0)
                found = size == (size_t)length && memcmp(nal, copy, size) == 0;
            if (!found)
                return 0;
        }
        at += length;
    }
    return 0;
}

/*
 * Whether a linear decode that starts from the demuxer's own parameters equals
 * one that starts from what avformat_find_stream_info() makes of them.
 *
 * Of all that probing finds out, an H.264 decoder takes two things over that
 * change its output. The first is the delay of its reorder buffer: it is raised
 * to num_reorder_frames before the first output where the parameter set tells
 * that, and otherwise found by trial, for which probing gives a head start that
 * can't be foretold. Where num_reorder_frames is 0 the parser still makes it 1
 * when it meets a B picture; that changes nothing as long as pictures come in
 * display order. The second is the size: one in the container that doesn't go
 * with the parameter set is corrected by probing.
 *
 * HEVC and AV1 decoders take order and size from the stream's headers alone. (Where
 * the box holds none, the description stays empty and probing follows.)
 */
int sparse_source_needs_no_probe(SparseSource *source)
{
    const AVCodecParameters *par = source->par;
    SparseAvcc avcc, all;
    SparseH264Sps sps, first = {0};
    const uint8_t *nal;
    size_t size;
    int left, number = 0;

    if (!source->is_table || !par->extradata_size || par->width <= 0 || par->height <= 0)
        return 0;
    if (par->codec_id == AV_CODEC_ID_HEVC || par->codec_id == AV_CODEC_ID_AV1)
        return 1;
    if (par->codec_id != AV_CODEC_ID_H264 || par->codec_tag != MKTAG('a', 'v', 'c', '1') ||
        !sparse_avcc_open(&avcc, par->extradata, (size_t)par->extradata_size))
        return 0;
    all = avcc;
    while ((left = sparse_avcc_next_sps(&avcc, &nal, &size)) > 0) {
        if (!sparse_h264_parse_sps(nal, size, &sps))
            return 0;
        if (number++ == 0)
            first = sps;
        if (sps.coded_width != first.coded_width || sps.coded_height != first.coded_height ||
            sps.restricted != first.restricted ||
            sps.num_reorder_frames != first.num_reorder_frames)
            return 0;
        if ((!sps.restricted && sps.poc_type != 2) ||
            ((!sps.restricted || sps.num_reorder_frames == 0) && !is_monotonic(source)))
            return 0;
        if (sps.width == par->width && sps.height == par->height)
            continue;
        if (sps.crop_left || sps.crop_top || par->width > sps.width || par->height > sps.height ||
            FFALIGN(par->width, 16) != FFALIGN(sps.width, 16) ||
            FFALIGN(par->height, 16) != FFALIGN(sps.height, 16))
            return 0;
    }
    return left == 0 && number > 0 && first_packet_agrees(source, all);
}

static enum AVPixelFormat h264_pixel_format(const SparseH264Sps *sps, int full, int rgb)
{
    static const char *const sampling[] = {"gray", "yuv420p", "yuv422p", "yuv444p"};
    char name[32];

    if (sps->bit_depth_luma != sps->bit_depth_chroma)
        return AV_PIX_FMT_NONE;
    if (sps->bit_depth_luma == 8 && full && sps->chroma_format > 0 &&
        !(rgb && sps->chroma_format == 3))
        snprintf(name, sizeof(name), "yuvj%s", sampling[sps->chroma_format] + 3);
    else if (sps->bit_depth_luma == 8)
        snprintf(name, sizeof(name), "%s",
                 rgb && sps->chroma_format == 3 ? "gbrp" : sampling[sps->chroma_format]);
    else
        snprintf(name, sizeof(name), "%s%dle",
                 rgb && sps->chroma_format == 3 ? "gbrp" : sampling[sps->chroma_format],
                 sps->bit_depth_luma);
    return av_get_pix_fmt(name);
}

/* Without probing: from the first parameter set. */
static void describe_h264(const AVCodecParameters *par, SparseFacts *d)
{
    SparseAvcc avcc;
    SparseH264Sps sps;
    const uint8_t *nal;
    size_t size;

    if (!sparse_avcc_open(&avcc, par->extradata, (size_t)par->extradata_size) ||
        sparse_avcc_next_sps(&avcc, &nal, &size) <= 0 || !sparse_h264_parse_sps(nal, size, &sps))
        return;
    d->profile = sps.profile;
    if (sps.profile == 66 && sps.constraints & 0x40)
        d->profile |= AV_PROFILE_H264_CONSTRAINED;
    if ((sps.profile == 110 || sps.profile == 122 || sps.profile == 244) && sps.constraints & 0x10)
        d->profile |= AV_PROFILE_H264_INTRA;
    if (sps.full_range >= 0)
        d->range = sps.full_range ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    if (sps.matrix != AVCOL_SPC_UNSPECIFIED || sps.primaries != AVCOL_PRI_UNSPECIFIED ||
        sps.transfer != AVCOL_TRC_UNSPECIFIED) {
        d->space = sps.matrix;
        d->primaries = sps.primaries;
        d->transfer = sps.transfer;
    }
    if (sps.sar_num)
        d->sar = (AVRational){sps.sar_num, sps.sar_den};
    d->pix_fmt = h264_pixel_format(&sps, d->range == AVCOL_RANGE_JPEG, d->space == AVCOL_SPC_RGB);
}

/* The sequence header in an av1C box (AV1 Codec ISO Media File Format Binding, 2.3). 1, or 0
 * when there is none. */
static int find_av1_sequence(const AVCodecParameters *par, SparseAv1Sequence *sequence)
{
    return par->extradata_size > 4 && par->extradata[0] == 0x81 &&
           sparse_av1_find_sequence(par->extradata + 4, (size_t)par->extradata_size - 4, sequence);
}

/* Without probing: from the sequence header. */
static void describe_av1(const AVCodecParameters *par, SparseFacts *d)
{
    SparseAv1Sequence sequence;

    if (!find_av1_sequence(par, &sequence))
        return;
    d->pix_fmt = sparse_av1_pixel_format(&sequence);
    d->profile = sequence.profile;
    d->width = (int)sequence.max_width;
    d->height = (int)sequence.max_height;
    d->range = sequence.full_range ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    d->space = sequence.matrix;
    d->primaries = sequence.primaries;
    d->transfer = sequence.transfer;
}

/* Without probing: the decoder reads the parameter sets when it is opened. */
static int describe_hevc(const AVCodecParameters *par, SparseFacts *d)
{
    const AVCodec *codec = avcodec_find_decoder(par->codec_id);
    AVCodecContext *context = codec ? avcodec_alloc_context3(codec) : NULL;
    int ret = AVERROR(ENOMEM);

    if (context) {
        context->thread_count = 1;
        ret = avcodec_parameters_to_context(context, par);
    }
    if (ret >= 0 && avcodec_open2(context, codec, NULL) >= 0) {
        d->pix_fmt = context->pix_fmt;
        d->profile = context->profile;
        if (context->width > 0 && context->height > 0) {
            d->width = context->width;
            d->height = context->height;
        }
        if (context->sample_aspect_ratio.num)
            d->sar = context->sample_aspect_ratio;
        d->range = context->color_range;
        d->space = context->colorspace;
        d->primaries = context->color_primaries;
        d->transfer = context->color_trc;
    }
    avcodec_free_context(&context);
    return ret == AVERROR(ENOMEM) ? SPARSE_ERR_MEMORY : SPARSE_OK;
}

/* The turn, clockwise, and the mirroring before it that a display matrix asks
 * for, if it is a multiple of 90 degrees. */
static void find_rotation(const AVCodecParameters *par, SparseFacts *info)
{
    const AVPacketSideData *side = av_packet_side_data_get(
        par->coded_side_data, par->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
    int32_t matrix[9];
    double angle, quarter;

    if (!side || side->size < sizeof(matrix))
        return;
    memcpy(matrix, side->data, sizeof(matrix));
    if ((double)matrix[0] * matrix[4] - (double)matrix[1] * matrix[3] < 0) {
        info->flip = 1;
        matrix[0] = -matrix[0];
        matrix[1] = -matrix[1];
    }
    angle = -av_display_rotation_get(matrix);
    if (isnan(angle)) {
        info->flip = 0;
        return;
    }
    quarter = round(angle / 90);
    if (fabs(angle - quarter * 90) < 1)
        info->rotation = (int)(((long)quarter % 4 + 4) % 4) * 90;
}

int sparse_source_describe(SparseSource *source, SparseError *error)
{
    SparseFacts *d = &source->facts;
    AVFormatContext *format = source->format;
    AVStream *stream = format->streams[source->stream_index];
    const AVCodecParameters *par = source->par;

    *d = (SparseFacts){
        .container = format->iformat->name,
        .time_base = stream->time_base,
        .average_rate = stream->avg_frame_rate,
        .frame_count = stream->nb_frames > 0 ? stream->nb_frames : -1,
        .pix_fmt = par->format,
        .profile = par->profile,
        .width = par->width,
        .height = par->height,
        .sar = av_guess_sample_aspect_ratio(format, stream, NULL),
        .range = par->color_range,
        .space = par->color_space,
        .primaries = par->color_primaries,
        .transfer = par->color_trc,
        .start = stream->start_time,
    };
    find_rotation(par, d);
    if (stream->duration != AV_NOPTS_VALUE && stream->duration > 0)
        d->duration = (double)stream->duration * av_q2d(stream->time_base);
    else if (format->duration != AV_NOPTS_VALUE && format->duration > 0)
        d->duration = (double)format->duration / AV_TIME_BASE;
    if (source->probed)
        return SPARSE_OK;
    /* as probing does: the first packet that isn't to be discarded */
    for (int64_t i = 0; i < source->count && d->start == AV_NOPTS_VALUE; i++)
        if (!(source->packets[i].flags & SPARSE_PACKET_DISCARD))
            d->start = source->packets[i].pts;
    if (par->codec_id == AV_CODEC_ID_H264)
        describe_h264(par, d);
    else if (par->codec_id == AV_CODEC_ID_AV1)
        describe_av1(par, d);
    else if (describe_hevc(par, d) < 0)
        return sparse_fail_memory(error);
    return SPARSE_OK;
}

/* ---- As others see it ---- */

static const char *or_unknown(const char *name)
{
    return name ? name : "unknown";
}

void sparse_source_info(const SparseSource *source, SparseInfo *info)
{
    const SparseFacts *facts = &source->facts;
    const AVCodecParameters *par = source->par;
    const AVPixFmtDescriptor *pixel = av_pix_fmt_desc_get(facts->pix_fmt);
    const char *profile = avcodec_profile_name(par->codec_id, facts->profile);

    memset(info, 0, sizeof(*info));
    info->container = facts->container;
    info->codec = avcodec_get_name(par->codec_id);
    info->profile = profile ? profile : "";
    info->pixel_format = pixel ? pixel->name : "";
    info->bits_per_component = pixel ? pixel->comp[0].depth : 0;
    info->stream_index = source->stream_index;
    info->width = facts->width;
    info->height = facts->height;
    info->rotation = facts->rotation;
    info->flip = facts->flip;
    info->frame_count_header = facts->frame_count;
    info->packet_count = source->complete ? source->count : -1;
    if (facts->average_rate.den)
        info->average_fps = av_q2d(facts->average_rate);
    info->duration_seconds = facts->duration;
    if (facts->start != AV_NOPTS_VALUE)
        info->begin_seconds = (double)facts->start * av_q2d(facts->time_base);
    info->bit_rate = par->bit_rate;
    if (info->bit_rate <= 0 && source->complete && info->duration_seconds > 0)
        info->bit_rate = (int64_t)((double)source->payload_bytes * 8 / info->duration_seconds);
    info->sar_num = facts->sar.num;
    info->sar_den = facts->sar.num ? facts->sar.den : 1;
    info->color_range = or_unknown(av_color_range_name(facts->range));
    info->color_space = or_unknown(av_color_space_name(facts->space));
    info->color_primaries = or_unknown(av_color_primaries_name(facts->primaries));
    info->color_transfer = or_unknown(av_color_transfer_name(facts->transfer));
    info->time_base_num = facts->time_base.num;
    info->time_base_den = facts->time_base.den;
    info->source_size = sparse_bytes_size(source->bytes);
}
