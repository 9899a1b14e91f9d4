/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/display.h>
#include <libavutil/mem.h>
#include <libavutil/pixdesc.h>

#include "h264_sps.h"
#include "log.h"
#include "source_internal.h"

enum { AVIO_BUFFER = 32 << 10 };

static AVStream *stream_of(const SparseSource *source)
{
    return source->format->streams[source->stream_index];
}

const char *sparse_source_name(const SparseSource *source)
{
    return source->name;
}

int sparse_source_fail(const SparseSource *source, SparseError *error, int code, int64_t frame,
                       const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    sparse_vfail_named(error, code, source->name, frame, format, arguments);
    va_end(arguments);
    return code;
}

/* ---- FFmpeg's view of the bytes ---- */

static void remember(SparseWindow *window, const uint8_t *data, int64_t position, int64_t size)
{
    if (position != window->start + window->size || size > window->capacity / 2) {
        window->start = position;
        window->size = 0;
    }
    if (size > window->capacity / 2)
        return;
    if (window->size + size > window->capacity) {
        int64_t drop = window->size - window->capacity / 2;

        memmove(window->data, window->data + drop, (size_t)(window->size - drop));
        window->start += drop;
        window->size -= drop;
    }
    memcpy(window->data + window->size, data, (size_t)size);
    window->size += size;
}

static int avio_read_bytes(void *opaque, uint8_t *buffer, int size)
{
    SparseSource *source = opaque;
    SparseError error;
    int64_t n = sparse_bytes_read(source->bytes, buffer, source->avio_position, size, &error);

    if (n < 0) {
        source->io_error = error;
        return AVERROR(EIO);
    }
    if (n == 0)
        return AVERROR_EOF;
    if (source->window.data)
        remember(&source->window, buffer, source->avio_position, n);
    source->avio_position += n;
    return (int)n;
}

static int64_t avio_seek_bytes(void *opaque, int64_t offset, int whence)
{
    SparseSource *source = opaque;

    whence &= ~AVSEEK_FORCE;
    if (whence == AVSEEK_SIZE)
        return sparse_bytes_size(source->bytes);
    if (whence == SEEK_CUR)
        offset += source->avio_position;
    else if (whence == SEEK_END)
        offset += sparse_bytes_size(source->bytes);
    if (offset < 0)
        return AVERROR(EINVAL);
    source->avio_position = offset;
    return offset;
}

/* ---- What the stream is ---- */

static int choose_stream(SparseSource *source, int wanted, SparseError *error)
{
    const AVFormatContext *format = source->format;
    int video = 0;

    if (wanted >= 0) {
        if ((unsigned)wanted >= format->nb_streams)
            return sparse_source_fail(source, error, SPARSE_ERR_ARGUMENT, -1,
                                      "there is no stream %d, only %u", wanted, format->nb_streams);
        if (format->streams[wanted]->codecpar->codec_type != AVMEDIA_TYPE_VIDEO)
            return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                                      "stream %d is not video", wanted);
        source->stream_index = wanted;
        return SPARSE_OK;
    }
    /* as -map 0:v:0: cover pictures count */
    for (unsigned i = 0; i < format->nb_streams; i++) {
        if (format->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_VIDEO) {
            source->stream_index = (int)i;
            return SPARSE_OK;
        }
        video += format->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
    }
    return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1, "there is no video stream%s",
                              video ? ", only audio" : "");
}

static int check_codec(const SparseSource *source, SparseError *error)
{
    const AVCodecParameters *par = stream_of(source)->codecpar;
    char tag[AV_FOURCC_MAX_STRING_SIZE];

    if (avcodec_find_decoder(par->codec_id))
        return SPARSE_OK;
    if (par->codec_id == AV_CODEC_ID_NONE)
        return sparse_source_fail(source, error, SPARSE_ERR_UNSUPPORTED, -1,
                                  "stream %d has an unknown codec (%s)", source->stream_index,
                                  av_fourcc_make_string(tag, par->codec_tag));
    return sparse_source_fail(source, error, SPARSE_ERR_UNSUPPORTED, -1,
                              "the codec of stream %d, %s, is not supported", source->stream_index,
                              avcodec_get_name(par->codec_id));
}

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
 * An HEVC decoder takes its order and size from the parameter sets alone. (Where
 * the box holds none, the description stays empty and probing follows.)
 */
static int needs_no_probe(SparseSource *source)
{
    const AVCodecParameters *par = stream_of(source)->codecpar;
    SparseAvcc avcc, all;
    SparseH264Sps sps, first = {0};
    const uint8_t *nal;
    size_t size;
    int left, number = 0;

    if (!source->is_table || !par->extradata_size || par->width <= 0 || par->height <= 0)
        return 0;
    if (par->codec_id == AV_CODEC_ID_HEVC)
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
static void describe_h264(const AVCodecParameters *par, SparseDescription *d)
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

/* Without probing: the decoder reads the parameter sets when it is opened. */
static int describe_hevc(const AVCodecParameters *par, SparseDescription *d)
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

static int describe(SparseSource *source, SparseError *error)
{
    SparseDescription *d = &source->description;
    AVStream *stream = stream_of(source);
    const AVCodecParameters *par = stream->codecpar;

    *d = (SparseDescription){
        .pix_fmt = par->format,
        .profile = par->profile,
        .width = par->width,
        .height = par->height,
        .sar = av_guess_sample_aspect_ratio(source->format, stream, NULL),
        .range = par->color_range,
        .space = par->color_space,
        .primaries = par->color_primaries,
        .transfer = par->color_trc,
        .start = stream->start_time,
    };
    if (source->probed)
        return SPARSE_OK;
    /* as probing does: the first packet that isn't to be discarded */
    for (int64_t i = 0; i < source->count && d->start == AV_NOPTS_VALUE; i++)
        if (!(source->packets[i].flags & SPARSE_PACKET_DISCARD))
            d->start = source->packets[i].pts;
    if (par->codec_id == AV_CODEC_ID_H264)
        describe_h264(par, d);
    else if (describe_hevc(par, d) < 0)
        return sparse_fail_memory(error);
    return SPARSE_OK;
}

/* ---- Opening ---- */

/* Why avformat_open_input() has failed, in words that help. */
static int open_failed(const SparseSource *source, int ret, SparseError *error)
{
    static const char *const boxes[] = {"ftyp", "moov", "mdat", "free", "skip", "wide", "moof"};
    uint8_t head[8] = {0};

    if (source->io_error.code) {
        if (error)
            *error = source->io_error;
        return source->io_error.code;
    }
    if (ret == AVERROR(ENOMEM))
        return sparse_fail_memory(error);
    if (sparse_bytes_read(source->bytes, head, 0, sizeof(head), NULL) == sizeof(head))
        for (size_t i = 0; i < sizeof(boxes) / sizeof(boxes[0]); i++)
            if (memcmp(head + 4, boxes[i], 4) == 0)
                return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                                          "the mp4/mov header (moov) is missing or damaged: the "
                                          "file may be truncated or unfinished");
    if (ret == AVERROR_INVALIDDATA || ret == AVERROR_EOF)
        return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                                  "not a video file, or a format that isn't known");
    return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1, "can't be opened: %s",
                              av_err2str(ret));
}

static int open_format(SparseSource *source, SparseError *error)
{
    AVDictionary *options = NULL;
    uint8_t *buffer = av_malloc(AVIO_BUFFER);
    int ret;

    if (!buffer)
        return sparse_fail_memory(error);
    source->avio =
        avio_alloc_context(buffer, AVIO_BUFFER, 0, source, avio_read_bytes, NULL, avio_seek_bytes);
    if (!source->avio) {
        av_free(buffer);
        return sparse_fail_memory(error);
    }
    source->format = avformat_alloc_context();
    if (!source->format)
        return sparse_fail_memory(error);
    source->format->pb = source->avio;
    source->format->flags |= AVFMT_FLAG_CUSTOM_IO; /* never to be closed by FFmpeg */
    /* as the ffmpeg program; a demuxer that doesn't know it leaves it alone */
    ret = av_dict_set(&options, "scan_all_pmts", "1", 0);
    if (ret >= 0)
        ret = avformat_open_input(&source->format, source->url, NULL, &options);
    av_dict_free(&options);
    return ret < 0 ? open_failed(source, ret, error) : SPARSE_OK;
}

static int probe(SparseSource *source, SparseError *error)
{
    int ret = avformat_find_stream_info(source->format, NULL);

    source->probed = 1;
    if (ret < 0)
        return open_failed(source, ret, error);
    if (source->io_error.code) {
        if (error)
            *error = source->io_error;
        return source->io_error.code;
    }
    return SPARSE_OK;
}

static int open_stream(SparseSource *source, int stream_index, SparseError *error)
{
    int ret = SPARSE_OK;

    if (sparse_bytes_size(source->bytes) == 0)
        return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1, "the file is empty");
    ret = open_format(source, error);
    if (ret < 0)
        return ret;
    /* Containers without a list of their streams show them when probed. */
    if (source->format->ctx_flags & AVFMTCTX_NOHEADER || source->format->nb_streams == 0)
        ret = probe(source, error);
    if (ret == SPARSE_OK)
        ret = choose_stream(source, stream_index, error);
    if (ret == SPARSE_OK)
        ret = check_codec(source, error);
    if (ret == SPARSE_OK && !source->probed) {
        ret = sparse_packets_from_samples(source, error);
        if (ret >= 0)
            ret = needs_no_probe(source) ? SPARSE_OK : probe(source, error);
    }
    if (ret == SPARSE_OK)
        ret = describe(source, error);
    if (ret == SPARSE_OK && !source->probed && source->description.pix_fmt == AV_PIX_FMT_NONE) {
        ret = probe(source, error);
        if (ret == SPARSE_OK)
            ret = describe(source, error);
    }
    return ret;
}

/* A source with its name; what it reads from is still to be set. */
static SparseSource *create(const char *name, SparseError *error)
{
    SparseSource *source = calloc(1, sizeof(*source));

    if (source)
        source->name = av_strdup(name);
    if (!source || !source->name) {
        free(source);
        sparse_fail_memory(error);
        return NULL;
    }
    return source;
}

static int finish(SparseSource **out, SparseSource *source, int ret, const char *url,
                  int stream_index, SparseError *error)
{
    source->url = url;
    if (ret == SPARSE_OK)
        ret = open_stream(source, stream_index, error);
    source->url = NULL;
    if (ret < 0)
        sparse_source_close(&source);
    *out = source;
    return ret;
}

int sparse_source_open_path(SparseSource **source, const char *path, int stream_index,
                            const char *name, SparseError *error)
{
    SparseSource *s = create(name ? name : path, error);

    *source = NULL;
    if (!s)
        return SPARSE_ERR_MEMORY;
    return finish(source, s, sparse_bytes_open_path(&s->bytes, path, s->name, error), path,
                  stream_index, error);
}

int sparse_source_open_memory(SparseSource **source, const uint8_t *data, size_t size,
                              int stream_index, const char *name, SparseError *error)
{
    SparseSource *s = create(name ? name : "<memory>", error);

    *source = NULL;
    if (!s)
        return SPARSE_ERR_MEMORY;
    return finish(source, s, sparse_bytes_open_memory(&s->bytes, data, size, s->name, error), name,
                  stream_index, error);
}

int sparse_source_open_io(SparseSource **source, const SparseIO *io, int stream_index,
                          const char *name, SparseError *error)
{
    SparseSource *s = create(name ? name : "<stream>", error);

    *source = NULL;
    if (!s)
        return SPARSE_ERR_MEMORY;
    return finish(source, s, sparse_bytes_open_io(&s->bytes, io, s->name, error), name,
                  stream_index, error);
}

void sparse_source_close(SparseSource **source)
{
    SparseSource *s = *source;

    if (!s)
        return;
    avformat_close_input(&s->format);
    if (s->avio)
        av_freep(&s->avio->buffer);
    avio_context_free(&s->avio);
    sparse_packets_free(s);
    av_freep(&s->window.data);
    sparse_bytes_close(&s->bytes);
    av_freep(&s->name);
    free(s);
    *source = NULL;
}

/* ---- Facts ---- */

static const char *or_unknown(const char *name)
{
    return name ? name : "unknown";
}

/* The turn, clockwise, and the mirroring before it that a display matrix asks
 * for, if it is a multiple of 90 degrees. */
static void fill_rotation(const AVCodecParameters *par, SparseInfo *info)
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

static int64_t payload_bytes(const SparseSource *source)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < source->count; i++)
        sum += source->packets[i].size;
    return sum;
}

void sparse_source_info(const SparseSource *source, SparseInfo *info)
{
    const SparseDescription *d = &source->description;
    const AVFormatContext *format = source->format;
    const AVStream *stream = stream_of(source);
    const AVCodecParameters *par = stream->codecpar;
    const AVPixFmtDescriptor *pixel = av_pix_fmt_desc_get(d->pix_fmt);
    const char *profile = avcodec_profile_name(par->codec_id, d->profile);

    memset(info, 0, sizeof(*info));
    info->container = format->iformat->name;
    info->codec = avcodec_get_name(par->codec_id);
    info->profile = profile ? profile : "";
    info->pixel_format = pixel ? pixel->name : "";
    info->bits_per_component = pixel ? pixel->comp[0].depth : 0;
    info->stream_index = source->stream_index;
    info->width = d->width;
    info->height = d->height;
    fill_rotation(par, info);
    info->frame_count_header = stream->nb_frames > 0 ? stream->nb_frames : -1;
    info->packet_count = source->complete ? source->count : -1;
    if (stream->avg_frame_rate.den)
        info->average_fps = av_q2d(stream->avg_frame_rate);
    if (stream->duration != AV_NOPTS_VALUE && stream->duration > 0)
        info->duration_seconds = (double)stream->duration * av_q2d(stream->time_base);
    else if (format->duration != AV_NOPTS_VALUE && format->duration > 0)
        info->duration_seconds = (double)format->duration / AV_TIME_BASE;
    if (d->start != AV_NOPTS_VALUE)
        info->begin_seconds = (double)d->start * av_q2d(stream->time_base);
    info->bit_rate = par->bit_rate;
    if (info->bit_rate <= 0 && source->complete && info->duration_seconds > 0)
        info->bit_rate = (int64_t)((double)payload_bytes(source) * 8 / info->duration_seconds);
    info->sar_num = d->sar.num;
    info->sar_den = d->sar.num ? d->sar.den : 1;
    info->color_range = or_unknown(av_color_range_name(d->range));
    info->color_space = or_unknown(av_color_space_name(d->space));
    info->color_primaries = or_unknown(av_color_primaries_name(d->primaries));
    info->color_transfer = or_unknown(av_color_transfer_name(d->transfer));
    info->time_base_num = stream->time_base.num;
    info->time_base_den = stream->time_base.den;
    info->source_size = sparse_bytes_size(source->bytes);
}

const AVCodecParameters *sparse_source_codecpar(const SparseSource *source)
{
    return stream_of(source)->codecpar;
}

AVRational sparse_source_time_base(const SparseSource *source)
{
    return stream_of(source)->time_base;
}

AVRational sparse_source_framerate(const SparseSource *source)
{
    return stream_of(source)->codecpar->framerate;
}

int sparse_source_is_table(const SparseSource *source)
{
    return source->is_table;
}

void sparse_source_counters(const SparseSource *source, SparseSourceCounters *counters)
{
    counters->packets_read = source->packets_read;
    counters->bytes_read = source->payload_read;
    counters->source_bytes = sparse_bytes_count(source->bytes);
}
