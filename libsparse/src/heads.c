/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The heads of packets: what a header pass needs of them.
 */
#include <string.h>

#include <libavcodec/defs.h>
#include <libavutil/buffer.h>

#include "source_internal.h"

enum {
    MAX_WINDOW = SPARSE_HEAD_MOST + 64, /* bytes read at a time: a slice's head and what stands
                                           before it */
    MAX_HEADS = 8 << 10                 /* of one packet; with more, all is read */
};

/* Bytes of each NAL unit's length field, or 0 when packets aren't made that way. */
static int length_size(const AVCodecParameters *par)
{
    if (par->codec_id == AV_CODEC_ID_H264 && par->extradata_size >= 7 && par->extradata[0] == 1)
        return (par->extradata[4] & 3) + 1;
    if (par->codec_id == AV_CODEC_ID_HEVC && par->extradata_size >= 23 &&
        (par->extradata[0] || par->extradata[1] || par->extradata[2] > 1))
        return (par->extradata[21] & 3) + 1;
    return 0;
}

int sparse_source_has_heads(const SparseSource *source)
{
    return source->is_table && length_size(sparse_source_codecpar(source)) > 0;
}

/* How much of a NAL unit a header pass looks at: of slices the beginning, of filler
 * nothing, of all else (parameter sets, SEI) everything. */
static int64_t wanted(enum AVCodecID codec, uint8_t first_byte, int64_t length, int head,
                      int *is_slice)
{
    int type = codec == AV_CODEC_ID_H264 ? first_byte & 0x1f : first_byte >> 1 & 0x3f;
    int is_filler = type == (codec == AV_CODEC_ID_H264 ? 12 : 38);
    int64_t limit = is_filler ? 2 : head;

    *is_slice = codec == AV_CODEC_ID_H264 ? type >= 1 && type <= 5 : type < 32;
    return (*is_slice || is_filler) && length > limit ? limit : length;
}

/* A window on a packet's bytes. */
typedef struct View {
    SparseSource *source;
    SparsePacket packet;
    int window; /* bytes to read at a time */
    uint8_t data[MAX_WINDOW];
    int64_t start, size; /* in the packet */
    int64_t read;        /* bytes, in all */
    SparseError *error;
    int code; /* of a read that failed */
} View;

/* Copy size bytes at offset; 1, or 0 when they aren't there. */
static int view_copy(View *view, uint8_t *out, int64_t offset, int64_t size)
{
    if (offset < view->start || offset + size > view->start + view->size) {
        int64_t left = view->packet.size - offset;
        uint8_t *into = size > view->window ? out : view->data;
        int64_t n = size > view->window ? size : left < view->window ? left : view->window;

        if (size > left)
            return 0;
        n = sparse_bytes_read(view->source->bytes, into, view->packet.pos + offset, n, view->error);
        if (n < 0)
            view->code = (int)n;
        if (n < size)
            return 0;
        view->read += n;
        if (into == out)
            return 1;
        view->start = offset;
        view->size = n;
    }
    memcpy(out, view->data + (offset - view->start), (size_t)size);
    return 1;
}

/* Write the heads of the packet's NAL units to out, with lengths to suit. Their size, or 0
 * when the packet isn't made of whole NAL units. */
static int64_t collect(View *view, enum AVCodecID codec, int length_bytes, int head, uint8_t *out,
                       int *truncated)
{
    int64_t offset = 0, filled = 0;

    while (offset < view->packet.size) {
        uint8_t field[5];
        int64_t length = 0, keep;
        int is_slice;

        if (!view_copy(view, field, offset, length_bytes + 1))
            return 0;
        for (int i = 0; i < length_bytes; i++)
            length = length << 8 | field[i];
        offset += length_bytes;
        /* A length of 1 may be a start code: FFmpeg then takes the packet otherwise. */
        if (length < 2 || length > view->packet.size - offset)
            return 0;
        keep = wanted(codec, field[length_bytes], length, head, &is_slice);
        if (keep >= (int64_t)1 << (8 * length_bytes) || filled + length_bytes + keep > MAX_HEADS)
            return 0;
        for (int i = 0; i < length_bytes; i++)
            out[filled + i] = (uint8_t)(keep >> (8 * (length_bytes - 1 - i)));
        filled += length_bytes;
        if (!view_copy(view, out + filled, offset, keep))
            return 0;
        filled += keep;
        *truncated |= is_slice && keep < length;
        offset += length;
    }
    return filled;
}

AVBufferPool *sparse_source_head_pool(void)
{
    return av_buffer_pool_init(MAX_HEADS + AV_INPUT_BUFFER_PADDING_SIZE, NULL);
}

int sparse_source_read_whole(SparseSource *source, int64_t i, AVPacket *pkt, SparseError *error)
{
    int ret = sparse_source_read_packet(source, i, pkt, error);

    if (ret >= 0)
        sparse_packet_keep_check(source, i, pkt->data, pkt->size);
    return ret;
}

int sparse_source_read_heads(SparseSource *source, int64_t i, int head, AVBufferPool *pool,
                             AVPacket *pkt, int *truncated, SparseError *error)
{
    const AVCodecParameters *par = sparse_source_codecpar(source);
    const SparsePacket packet = sparse_source_packet(source, i);
    View view = {.source = source, .packet = packet, .window = head + 64, .error = error};
    uint8_t first[SPARSE_CHECKED_BYTES];
    int64_t filled;

    *truncated = 0;
    if (head > SPARSE_HEAD_MOST || packet.size <= view.window ||
        packet.flags & (SPARSE_PACKET_SPOOLED | SPARSE_PACKET_EXTRA))
        return sparse_source_read_whole(source, i, pkt, error);

    av_packet_unref(pkt);
    pkt->buf = av_buffer_pool_get(pool);
    if (!pkt->buf)
        return sparse_fail_memory(error);
    pkt->data = pkt->buf->data;
    filled = view_copy(&view, first, 0, sizeof(first))
                 ? collect(&view, par->codec_id, length_size(par), head, pkt->data, truncated)
                 : 0;
    if (!filled) {
        *truncated = 0;
        return view.code ? view.code : sparse_source_read_whole(source, i, pkt, error);
    }
    sparse_packet_keep_check(source, i, first, sizeof(first));
    pkt->size = (int)filled;
    memset(pkt->data + filled, 0, AV_INPUT_BUFFER_PADDING_SIZE);
    sparse_packet_set_times(source, i, pkt);
    source->packets_read++;
    source->payload_read += view.read;
    return SPARSE_OK;
}
