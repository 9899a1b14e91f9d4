/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "linear.h"

#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>

#include "codec.h"

enum { PROGRESS_STEP = 64 /* frames between two calls of the progress callback */ };

static int64_t packet_of(const AVFrame *frame)
{
    return (int64_t)(intptr_t)frame->opaque - 1;
}

/* ---- One stock decoder over the packets ---- */

struct SparseStock {
    SparseSource *source;
    AVCodecContext *context;
    AVPacket *pkt;
    int64_t next, count; /* packets */
    int draining;
    int error; /* the decoder has reported one since the last frame */
};

int sparse_stock_open(SparseStock **out, SparseSource *source, int64_t first, SparseError *error)
{
    SparseStock *stock = calloc(1, sizeof(*stock));
    int ret;

    *out = NULL;
    if (!stock)
        return sparse_fail_memory(error);
    stock->source = source;
    stock->next = first;
    ret = sparse_source_packets(source, &stock->count, NULL, NULL, error);
    if (ret == SPARSE_OK)
        ret = sparse_codec_open(&stock->context, source, error);
    if (ret == SPARSE_OK) {
        stock->pkt = av_packet_alloc();
        if (!stock->pkt)
            ret = sparse_fail_memory(error);
    }
    if (ret < 0)
        sparse_stock_close(&stock);
    *out = stock;
    return ret;
}

void sparse_stock_close(SparseStock **stock)
{
    if (!*stock)
        return;
    avcodec_free_context(&(*stock)->context);
    av_packet_free(&(*stock)->pkt);
    free(*stock);
    *stock = NULL;
}

/* Give the decoder one packet more, or the end. */
static int feed(SparseStock *stock, SparseError *error)
{
    int ret;

    if (stock->next >= stock->count) {
        stock->draining = 1;
        ret = avcodec_send_packet(stock->context, NULL);
    } else {
        ret = sparse_source_read_packet(stock->source, stock->next++, stock->pkt, error);
        if (ret < 0)
            return ret;
        if (stock->pkt->size == 0) /* would mean the end; the ffmpeg program skips it */
            return SPARSE_OK;
        ret = avcodec_send_packet(stock->context, stock->pkt);
        av_packet_unref(stock->pkt);
    }
    if (ret == AVERROR(ENOMEM))
        return sparse_fail_memory(error);
    if (ret < 0 && ret != AVERROR_EOF)
        stock->error = 1;
    return SPARSE_OK;
}

int sparse_stock_next(SparseStock *stock, AVFrame *frame, int *damaged, SparseError *error)
{
    if (damaged)
        *damaged = 0;
    for (;;) {
        int ret = avcodec_receive_frame(stock->context, frame);

        if (ret == AVERROR_EOF || (ret == AVERROR(EAGAIN) && stock->draining))
            return 0;
        if (ret == AVERROR(ENOMEM))
            return sparse_fail_memory(error);
        if (ret == AVERROR(EAGAIN)) {
            ret = feed(stock, error);
            if (ret < 0)
                return ret;
        } else if (ret < 0) {
            stock->error = 1;
        } else {
            frame->pts = frame->best_effort_timestamp;
            if (damaged)
                *damaged = stock->error || frame->decode_error_flags ||
                           frame->flags & AV_FRAME_FLAG_CORRUPT;
            stock->error = 0;
            return 1;
        }
    }
}

/* ---- Frames by number ---- */

struct SparseRestart {
    SparseSource *source;
    int64_t packet_count;
    int lazy;
    int indexed, intra; /* intra: each packet is a frame of its own */
    SparseRestartFrame *frames;
    int64_t count, capacity;
    SparseStock *stock;      /* not for intra */
    int64_t at;              /* the frame that stock puts out next */
    AVCodecContext *context; /* for intra */
    AVPacket *pkt;
    int64_t decoded;
};

int sparse_restart_open(SparseRestart **restart, SparseSource *source, int lazy, SparseError *error)
{
    *restart = calloc(1, sizeof(**restart));
    if (!*restart)
        return sparse_fail_memory(error);
    (*restart)->source = source;
    (*restart)->lazy = lazy;
    (*restart)->pkt = av_packet_alloc();
    if (!(*restart)->pkt) {
        sparse_restart_close(restart);
        return sparse_fail_memory(error);
    }
    return SPARSE_OK;
}

void sparse_restart_close(SparseRestart **restart)
{
    if (!*restart)
        return;
    sparse_stock_close(&(*restart)->stock);
    avcodec_free_context(&(*restart)->context);
    av_packet_free(&(*restart)->pkt);
    free((*restart)->frames);
    free(*restart);
    *restart = NULL;
}

int64_t sparse_restart_decoded(const SparseRestart *restart)
{
    return restart->decoded;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_bytes(uint64_t hash, const uint8_t *data, size_t size)
{
    uint64_t word;

    for (; size >= sizeof(word); data += sizeof(word), size -= sizeof(word)) {
        memcpy(&word, data, sizeof(word));
        hash = mix(hash, word);
    }
    word = 0;
    memcpy(&word, data, size);
    return mix(hash, word);
}

/* Of the visible samples, to see whether two decodes agree. */
static uint64_t hash_frame(const AVFrame *frame)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(frame->format);
    uint64_t hash =
        mix(mix((uint64_t)frame->format, (uint64_t)frame->width), (uint64_t)frame->height);

    for (int p = 0; d && p < 4 && frame->data[p]; p++) {
        int chroma = (p == 1 || p == 2) && !(d->flags & AV_PIX_FMT_FLAG_RGB);
        int rows = chroma ? AV_CEIL_RSHIFT(frame->height, d->log2_chroma_h) : frame->height;
        int bytes = av_image_get_linesize(frame->format, frame->width, p);

        if (d->flags & AV_PIX_FMT_FLAG_PAL && p == 1) {
            hash = hash_bytes(hash, frame->data[1], AVPALETTE_SIZE);
            break;
        }
        for (int y = 0; y < rows && bytes > 0; y++)
            hash =
                hash_bytes(hash, frame->data[p] + (ptrdiff_t)y * frame->linesize[p], (size_t)bytes);
    }
    return hash;
}

/* ---- The index ---- */

/* Codecs whose packets are pictures that need no other packet. */
static int is_intra_codec(enum AVCodecID id)
{
    const AVCodecDescriptor *d = avcodec_descriptor_get(id);

    return id == AV_CODEC_ID_FFV1 || (d && d->props & AV_CODEC_PROP_INTRA_ONLY);
}

/* Whether the packets are taken for the frames. Damage can make a packet give none, or one
 * that shows what a buffer held before, and no decoder need tell: only a lazy index does it.
 * Motion JPEG is none of them: FFmpeg's decoder remembers tables that later pictures leave out, and
 * for ever that one of them had a limited range. */
static int is_intra(const SparseRestart *restart)
{
    const enum AVCodecID id = sparse_source_codecpar(restart->source)->codec_id;

    if (!restart->lazy || !is_intra_codec(id) || id == AV_CODEC_ID_MJPEG)
        return 0;
    for (int64_t i = 0; i < restart->packet_count; i++)
        if (!(sparse_source_packet(restart->source, i).flags & SPARSE_PACKET_KEY))
            return 0;
    return 1;
}

static int add_frame(SparseRestart *restart, const SparseRestartFrame *frame, SparseError *error)
{
    if (restart->count == restart->capacity) {
        int64_t capacity = restart->capacity ? restart->capacity * 2 : 1024;
        SparseRestartFrame *frames;

        if ((uint64_t)capacity > SIZE_MAX / sizeof(*frames))
            return sparse_fail_memory(error);
        frames = realloc(restart->frames, (size_t)capacity * sizeof(*frames));
        if (!frames)
            return sparse_fail_memory(error);
        restart->frames = frames;
        restart->capacity = capacity;
    }
    restart->frames[restart->count++] = *frame;
    return SPARSE_OK;
}

static int index_intra(SparseRestart *restart, SparseError *error)
{
    int ret = SPARSE_OK;

    for (int64_t i = 0; i < restart->packet_count && ret == SPARSE_OK; i++) {
        const SparsePacket packet = sparse_source_packet(restart->source, i);
        SparseRestartFrame frame = {
            .packet = i,
            .pts = packet.pts != AV_NOPTS_VALUE ? packet.pts : packet.dts,
            .duration = packet.duration,
            .picture_type = 'I',
            .key = 1,
        };

        if (packet.size > 0 && !(packet.flags & SPARSE_PACKET_DISCARD))
            ret = add_frame(restart, &frame, error);
    }
    return ret;
}

static int index_by_decoding(SparseRestart *restart, SparseProgress progress, void *user,
                             SparseError *error)
{
    AVFrame *frame = av_frame_alloc();
    SparseStock *stock = NULL;
    int ret, damaged;

    if (!frame)
        return sparse_fail_memory(error);
    ret = sparse_stock_open(&stock, restart->source, 0, error);
    while (ret == SPARSE_OK && (ret = sparse_stock_next(stock, frame, &damaged, error)) == 1) {
        int64_t packet = packet_of(frame);
        SparseRestartFrame entry = {
            .packet = packet,
            .pts = frame->pts,
            .duration = frame->duration,
            .hash = hash_frame(frame),
            .picture_type = av_get_picture_type_char(frame->pict_type),
            .damaged = (char)damaged,
            .colorspace = frame->colorspace,
            .color_range = frame->color_range,
        };

        if (packet >= 0 && packet < restart->packet_count)
            entry.key =
                (sparse_source_packet(restart->source, packet).flags & SPARSE_PACKET_KEY) != 0;
        restart->decoded++;
        ret = add_frame(restart, &entry, error);
        if (ret == SPARSE_OK && progress && restart->count % PROGRESS_STEP == 0 &&
            progress(user, (double)stock->next / (double)stock->count))
            ret = sparse_source_fail(restart->source, error, SPARSE_ERR_INTERRUPTED, -1,
                                     "the work was interrupted");
    }
    sparse_stock_close(&stock);
    av_frame_free(&frame);
    return ret;
}

int sparse_restart_index(SparseRestart *restart, SparseProgress progress, void *user,
                         SparseError *error)
{
    int ret;

    if (restart->indexed)
        return SPARSE_OK;
    ret = sparse_source_packets(restart->source, &restart->packet_count, progress, user, error);
    if (ret < 0)
        return ret;
    restart->count = 0;
    restart->intra = is_intra(restart);
    ret = restart->intra ? index_intra(restart, error)
                         : index_by_decoding(restart, progress, user, error);
    if (ret < 0)
        return ret;
    restart->indexed = 1;
    return SPARSE_OK;
}

int sparse_restart_frames(SparseRestart *restart, const SparseRestartFrame **frames, int64_t *count,
                          SparseError *error)
{
    int ret = sparse_restart_index(restart, NULL, NULL, error);

    if (ret < 0)
        return ret;
    *frames = restart->frames;
    *count = restart->count;
    return SPARSE_OK;
}

/* ---- One frame ---- */

static int get_intra(SparseRestart *restart, int64_t k, AVFrame *frame, SparseError *error)
{
    int ret = SPARSE_OK;

    if (!restart->context)
        ret = sparse_codec_open(&restart->context, restart->source, error);
    if (ret == SPARSE_OK)
        ret = sparse_source_read_packet(restart->source, restart->frames[k].packet, restart->pkt,
                                        error);
    if (ret < 0)
        return ret;
    ret = avcodec_send_packet(restart->context, restart->pkt);
    av_packet_unref(restart->pkt);
    if (ret >= 0) {
        ret = avcodec_receive_frame(restart->context, frame);
        if (ret == AVERROR(EAGAIN) && avcodec_send_packet(restart->context, NULL) >= 0)
            ret = avcodec_receive_frame(restart->context, frame);
    }
    avcodec_flush_buffers(restart->context);
    if (ret == AVERROR(ENOMEM))
        return sparse_fail_memory(error);
    if (ret < 0 || frame->decode_error_flags || frame->flags & AV_FRAME_FLAG_CORRUPT) {
        av_frame_unref(frame);
        return sparse_source_fail(restart->source, error, SPARSE_ERR_DECODE, k,
                                  "its data is damaged");
    }
    frame->pts = restart->frames[k].pts;
    restart->decoded++;
    return SPARSE_OK;
}

/*
 * The packet to restart at for frame k: the last key packet at or before its
 * own, and where pictures after a key packet may refer to pictures before it,
 * the one before that.
 */
static int64_t restart_packet(const SparseRestart *restart, int64_t k)
{
    enum AVCodecID id = sparse_source_codecpar(restart->source)->codec_id;
    int needed = id == AV_CODEC_ID_VP8 || id == AV_CODEC_ID_VP9 || is_intra_codec(id) ? 1 : 2;
    int64_t packet = restart->frames[k].packet;

    if (packet >= restart->packet_count)
        packet = restart->packet_count - 1;
    for (; packet > 0; packet--)
        if (sparse_source_packet(restart->source, packet).flags & SPARSE_PACKET_KEY &&
            --needed == 0)
            return packet;
    return 0;
}

/* How many frames of the same packet come before frame k. */
static int64_t rank_in_packet(const SparseRestart *restart, int64_t k)
{
    int64_t rank = 0;

    for (int64_t i = k - 1; i >= 0 && restart->frames[i].packet == restart->frames[k].packet; i--)
        rank++;
    return rank;
}

static int move_stock(SparseRestart *restart, int64_t packet, SparseError *error)
{
    sparse_stock_close(&restart->stock);
    restart->at = -1;
    return sparse_stock_open(&restart->stock, restart->source, packet, error);
}

/* Put out frames up to k: 1 with the frame, 0 when it isn't what the index says. */
static int decode_up_to(SparseRestart *restart, int64_t k, AVFrame *frame, SparseError *error)
{
    int64_t packet = restart->frames[k].packet, skip = rank_in_packet(restart, k);
    int ret;

    for (;;) {
        ret = sparse_stock_next(restart->stock, frame, NULL, error);
        if (ret <= 0)
            break;
        restart->decoded++;
        if (restart->at >= 0) {
            /* a known position: the order must be the index's */
            if (packet_of(frame) != restart->frames[restart->at].packet) {
                ret = 0;
                break;
            }
            if (restart->at++ < k)
                continue;
        } else if (packet_of(frame) != packet || skip-- > 0) {
            continue;
        }
        ret = hash_frame(frame) == restart->frames[k].hash;
        break;
    }
    restart->at = ret == 1 ? k + 1 : -1;
    if (ret != 1) {
        av_frame_unref(frame);
        sparse_stock_close(&restart->stock);
    }
    return ret;
}

int sparse_restart_get(SparseRestart *restart, int64_t k, AVFrame *frame, SparseError *error)
{
    int64_t from;
    int ret = sparse_restart_index(restart, NULL, NULL, error);

    av_frame_unref(frame);
    if (ret < 0)
        return ret;
    if (k < 0 || k >= restart->count)
        return sparse_source_fail(restart->source, error, SPARSE_ERR_INDEX, k,
                                  "the stream has %lld frames", (long long)restart->count);
    if (restart->frames[k].damaged)
        return sparse_source_fail(restart->source, error, SPARSE_ERR_DECODE, k,
                                  "its data is damaged");
    if (restart->intra)
        return get_intra(restart, k, frame, error);

    from = restart_packet(restart, k);
    ret = SPARSE_OK;
    if (!restart->stock || restart->at < 0 || restart->at > k || restart->stock->next < from)
        ret = move_stock(restart, from, error);
    if (ret == SPARSE_OK)
        ret = decode_up_to(restart, k, frame, error);
    if (ret == 0) {
        /* The stream depends on more than its key packets promise. */
        ret = move_stock(restart, 0, error);
        restart->at = 0;
        if (ret == SPARSE_OK)
            ret = decode_up_to(restart, k, frame, error);
        if (ret == 0)
            ret = sparse_source_fail(restart->source, error, SPARSE_ERR_DECODE, k,
                                     "a second decode differs from the first");
    }
    if (ret < 0)
        return ret;
    frame->pts = restart->frames[k].pts;
    /* Headers may leave these out, and a decoder that began at the first one knows them still. */
    frame->colorspace = restart->frames[k].colorspace;
    frame->color_range = restart->frames[k].color_range;
    return SPARSE_OK;
}
