/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The table of packets: where each one's bytes are.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/defs.h>
#include <libavutil/avutil.h>
#include <libavutil/intreadwrite.h>
#include <libavutil/mem.h>

#include "array.h"
#include "log.h"
#include "packed.h"
#include "saved_index.h"
#include "source_internal.h"

enum {
    SPOOL_MEMORY = 64 << 20,  /* bytes of payload kept in memory */
    WINDOW = 8 << 20,         /* bytes of the source to look for payload in */
    SEARCH = 64,              /* containers put at most such a header before payload */
    PROGRESS_STEP = 256,      /* packets between two calls of the progress callback */
    AV_FLAGS_SHIFT = 8        /* SparsePacket.flags above this hold AVPacket.flags */
};

void sparse_packets_free(SparseSource *source)
{
    for (size_t i = 0; i < source->extra_count; i++)
        av_packet_free(&source->extras[i].properties);
    free(source->extras);
    free(source->packets);
    sparse_packed_free(&source->packed);
    sparse_spool_free(&source->spool);
    source->extras = NULL;
    source->packets = NULL;
    source->extra_count = source->extra_capacity = 0;
    source->capacity = 0;
    source->count = 0;
}

static uint32_t flags_from_av(int flags)
{
    return (uint32_t)(flags & 0xffff) << AV_FLAGS_SHIFT |
           (flags & AV_PKT_FLAG_KEY ? SPARSE_PACKET_KEY : 0u) |
           (flags & AV_PKT_FLAG_DISCARD ? SPARSE_PACKET_DISCARD : 0u);
}

int sparse_packets_from_samples(SparseSource *source, SparseError *error)
{
    FFSparseMovCursor cursor;
    SparsePacket *packets;
    int64_t bytes = 0;

    if (ff_sparse_mov_open(source->format, source->stream_index, &cursor) < 0)
        return 0;
    packets = malloc((size_t)cursor.nb_samples * sizeof(*packets));
    if (!packets)
        return sparse_fail_memory(error);
    for (int i = 0; i < cursor.nb_samples; i++) {
        FFSparseSample sample;

        if (ff_sparse_mov_next(&cursor, &sample) < 0) {
            free(packets);
            return 0;
        }
        packets[i] = (SparsePacket){
            .pts = sample.pts,
            .dts = sample.dts,
            .duration = sample.duration,
            .pos = sample.pos,
            .size = sample.size,
            .flags = flags_from_av(sample.flags),
        };
        bytes += sample.size;
    }
    source->packets = packets;
    source->count = cursor.nb_samples;
    source->capacity = (size_t)cursor.nb_samples;
    source->payload_bytes = bytes;
    source->is_table = source->complete = 1;
    return 1;
}

/* ---- Reading the whole file ---- */

/* Where in the source the payload stands as it is, or -1. */
static int64_t find_payload(const SparseWindow *window, const AVPacket *pkt)
{
    int64_t inside;

    if (pkt->pos < 0 || pkt->size == 0 || pkt->pos < window->start)
        return -1;
    inside = pkt->pos - window->start;
    for (int64_t k = 0; k <= SEARCH && inside + k + pkt->size <= window->size; k++)
        if (memcmp(window->data + inside + k, pkt->data, (size_t)pkt->size) == 0)
            return pkt->pos + k;
    return -1;
}

/* Side data that a decoder may look at. */
static int has_side_data(const AVPacket *pkt)
{
    for (int i = 0; i < pkt->side_data_elems; i++)
        if (pkt->side_data[i].type != AV_PKT_DATA_MPEGTS_STREAM_ID)
            return 1;
    return 0;
}

static int add_extra(SparseSource *source, const AVPacket *pkt, SparseError *error)
{
    AVPacket *properties;
    int ret = sparse_array_grow(&source->extras, &source->extra_capacity, source->extra_count + 1,
                                sizeof(*source->extras), error);

    if (ret < 0)
        return ret;
    properties = av_packet_alloc();
    if (!properties || av_packet_copy_props(properties, pkt) < 0) {
        av_packet_free(&properties);
        return sparse_fail_memory(error);
    }
    source->extras[source->extra_count++] = (SparseExtra){source->count, properties};
    return SPARSE_OK;
}

static int add_packet(SparseSource *source, const AVPacket *pkt, SparseError *error)
{
    SparsePacket packet = {
        .pts = pkt->pts,
        .dts = pkt->dts,
        .duration = pkt->duration,
        .size = pkt->size,
        .flags = flags_from_av(pkt->flags),
    };
    int ret = sparse_array_grow(&source->packets, &source->capacity, (size_t)source->count + 1,
                                sizeof(*source->packets), error);

    if (ret < 0)
        return ret;
    packet.pos = find_payload(&source->window, pkt);
    if (packet.pos < 0) {
        ret = sparse_spool_append(source->spool, pkt->data, pkt->size, &packet.pos, error);
        if (ret < 0)
            return ret;
        packet.flags |= SPARSE_PACKET_SPOOLED;
    }
    if (has_side_data(pkt)) {
        ret = add_extra(source, pkt, error);
        if (ret < 0)
            return ret;
        packet.flags |= SPARSE_PACKET_EXTRA;
    }
    source->packets[source->count++] = packet;
    source->payload_bytes += packet.size;
    return SPARSE_OK;
}

static int report(const SparseSource *source, SparseProgress progress, void *user,
                  SparseError *error)
{
    int64_t size = sparse_bytes_size(source->bytes);

    if (!progress || source->count % PROGRESS_STEP != 0)
        return SPARSE_OK;
    if (progress(user, size > 0 ? (double)source->avio_position / (double)size : 0))
        return sparse_source_fail(source, error, SPARSE_ERR_INTERRUPTED, -1,
                                  "the work was interrupted");
    return SPARSE_OK;
}

static int scan(SparseSource *source, SparseProgress progress, void *user, SparseError *error)
{
    AVPacket *pkt = av_packet_alloc();
    int ret = SPARSE_OK, got;

    if (!pkt)
        return sparse_fail_memory(error);
    for (unsigned i = 0; i < source->format->nb_streams; i++)
        if ((int)i != source->stream_index)
            source->format->streams[i]->discard = AVDISCARD_ALL;

    while (ret == SPARSE_OK && (got = av_read_frame(source->format, pkt)) >= 0) {
        if (pkt->stream_index == source->stream_index) {
            ret = add_packet(source, pkt, error);
            if (ret == SPARSE_OK)
                ret = report(source, progress, user, error);
        }
        av_packet_unref(pkt);
    }
    if (ret == SPARSE_OK && source->io_error.code) {
        if (error)
            *error = source->io_error;
        ret = source->io_error.code;
    } else if (ret == SPARSE_OK && got == AVERROR(ENOMEM)) {
        ret = sparse_fail_memory(error);
    } else if (ret == SPARSE_OK && got != AVERROR_EOF) {
        /* the ffmpeg program says so and stops reading, too */
        sparse_log(SPARSE_LOG_WARNING, "%s: the container is damaged: %s", source->name,
                   av_err2str(got));
    }
    av_packet_free(&pkt);
    return ret;
}

static int prepare_scan(SparseSource *source, SparseError *error)
{
    if (!source->window.data) {
        source->window = (SparseWindow){.data = av_malloc(WINDOW), .capacity = WINDOW};
        if (!source->window.data)
            return sparse_fail_memory(error);
    }
    return source->spool ? SPARSE_OK : sparse_spool_create(&source->spool, SPOOL_MEMORY, error);
}

int sparse_source_packets(SparseSource *source, int64_t *count, SparseProgress progress, void *user,
                          SparseError *error)
{
    int ret = SPARSE_OK;

    if (source->broken)
        return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                                  "an earlier reading of the file has failed");
    if (!source->complete) {
        ret = prepare_scan(source, error);
        if (ret == SPARSE_OK)
            ret = scan(source, progress, user, error);
        if (ret == SPARSE_ERR_INTERRUPTED)
            return ret; /* the next call goes on from here */
        av_freep(&source->window.data);
        if (ret == SPARSE_OK && source->count == 0)
            ret = sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                                     "the video stream has no packets");
        if (ret < 0) {
            sparse_packets_free(source);
            source->broken = 1;
            return ret;
        }
        source->complete = 1;
        sparse_source_close_format(source);
    }
    *count = source->count;
    return SPARSE_OK;
}

/* ---- Reading one ---- */

void sparse_source_use_packed(SparseSource *source, SparsePacked *packed)
{
    source->packed = packed;
    free(source->packets);
    source->packets = NULL;
    source->capacity = 0;
}

int sparse_source_take_saved(SparseSource *source, SparseSavedIndex *saved, SparseError *error)
{
    SparsePacked *packed = saved->packed;
    int64_t count;
    int ret, same;

    if (saved->direct)
        return SPARSE_OK;
    ret = sparse_source_packets(source, &count, NULL, NULL, error);
    same = ret >= 0 && count == sparse_packed_packets(packed);

    for (int64_t i = 0; same && i < count; i++) {
        const SparsePacket a = sparse_source_packet(source, i);
        const SparsePacket b = sparse_packed_packet(packed, i);

        same = a.pts == b.pts && a.dts == b.dts && a.duration == b.duration && a.pos == b.pos &&
               a.size == b.size &&
               (a.flags | SPARSE_PACKET_CHECKED) == (b.flags | SPARSE_PACKET_CHECKED);
    }
    if (ret >= 0 && !same)
        ret = sparse_source_fail(source, error, SPARSE_ERR_SAVED, -1,
                                 "the saved index is stale: it was made for other packets");
    if (ret < 0)
        return ret;
    sparse_source_use_packed(source, packed);
    saved->packed = NULL;
    return SPARSE_OK;
}

int sparse_source_check_saved(const SparseSource *source, SparseError *error)
{
    if (source->packed && sparse_packed_is_broken(source->packed))
        return sparse_source_fail(source, error, SPARSE_ERR_SAVED, -1,
                                  "the saved index is damaged");
    return SPARSE_OK;
}

SparsePacked *sparse_source_packed(const SparseSource *source)
{
    return source->packed;
}

SparsePacket sparse_source_packet(const SparseSource *source, int64_t i)
{
    return source->packed ? sparse_packed_packet(source->packed, i) : source->packets[i];
}

/* Side data and times of a packet, or NULL. */
static const AVPacket *find_extra(const SparseSource *source, int64_t packet)
{
    size_t low = 0, high = source->extra_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (source->extras[middle].packet < packet)
            low = middle + 1;
        else
            high = middle;
    }
    return low < source->extra_count && source->extras[low].packet == packet
               ? source->extras[low].properties
               : NULL;
}

/* A saved index may say of a packet that it has what the source hasn't. */
static int check_packet(const SparseSource *source, int64_t i, const SparsePacket *packet,
                        SparseError *error)
{
    if ((packet->flags & SPARSE_PACKET_SPOOLED && !source->spool) ||
        (packet->flags & SPARSE_PACKET_EXTRA && !find_extra(source, i)))
        return sparse_source_fail(source, error, SPARSE_ERR_SAVED, -1,
                                  "the saved index is damaged");
    return SPARSE_OK;
}

void sparse_packet_set_times(const SparseSource *source, int64_t i, AVPacket *pkt)
{
    const SparsePacket packet = sparse_source_packet(source, i);

    pkt->pts = packet.pts;
    pkt->dts = packet.dts;
    pkt->duration = packet.duration;
    pkt->pos = packet.flags & SPARSE_PACKET_SPOOLED ? -1 : packet.pos;
    pkt->flags = (int)(packet.flags >> AV_FLAGS_SHIFT);
    pkt->stream_index = source->stream_index;
    pkt->time_base = sparse_source_time_base(source);
    pkt->opaque = (void *)(intptr_t)(i + 1);
}

int64_t sparse_source_read_on(SparseSource *source, int64_t i, int64_t offset, uint8_t *out,
                              int64_t size, int64_t more, SparseError *error)
{
    const SparsePacket packet = sparse_source_packet(source, i);
    int ret = check_packet(source, i, &packet, error);
    int64_t n;

    if (ret < 0)
        return ret;
    if (packet.flags & SPARSE_PACKET_SPOOLED) {
        ret = sparse_spool_read(source->spool, out, packet.pos + offset, size, error);
        if (ret < 0)
            return ret;
        n = size;
    } else {
        n = sparse_bytes_read(source->bytes, out, packet.pos + offset, size + more, error);
        if (n < 0)
            return n;
        if (n < size)
            return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                                      "packet %lld can't be read: the file has become shorter",
                                      (long long)i);
    }
    source->packets_read++;
    source->payload_read += n;
    return n;
}

int sparse_source_read_part(SparseSource *source, int64_t i, int64_t offset, uint8_t *out,
                            int64_t size, SparseError *error)
{
    int64_t n = sparse_source_read_on(source, i, offset, out, size, 0, error);

    return n < 0 ? (int)n : SPARSE_OK;
}

/* It is made of each packet in a header pass: a CRC would take a fifth of that of AV1. Every step
 * can be undone, so that no two values of eight bytes become the same before the last. */
uint16_t sparse_packet_check(const uint8_t *data, int64_t size)
{
    int64_t left = size < SPARSE_CHECKED_BYTES ? size : SPARSE_CHECKED_BYTES;
    uint64_t sum = (uint64_t)left;

    for (; left > 0; data += 8, left -= 8) {
        uint8_t last[8] = {0};

        if (left < 8)
            memcpy(last, data, (size_t)left);
        sum = (sum ^ AV_RL64(left < 8 ? last : data)) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return (uint16_t)(sum >> 32);
}

int sparse_source_fail_check(const SparseSource *source, int64_t i, SparseError *error)
{
    return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                              "packet %lld is another one than when the index was made: the "
                              "file has been changed",
                              (long long)i);
}

void sparse_packet_keep_check(SparseSource *source, int64_t i, const uint8_t *data, int64_t size)
{
    if (source->packed)
        return;
    source->packets[i].check = sparse_packet_check(data, size);
    source->packets[i].flags |= SPARSE_PACKET_CHECKED;
}

int sparse_source_read_packet(SparseSource *source, int64_t i, AVPacket *pkt, SparseError *error)
{
    SparsePacket packet;
    int ret = SPARSE_OK;

    av_packet_unref(pkt);
    if (!source->complete || i < 0 || i >= source->count)
        return sparse_source_fail(source, error, SPARSE_ERR_ARGUMENT, -1, "there is no packet %lld",
                                  (long long)i);
    packet = sparse_source_packet(source, i);
    ret = check_packet(source, i, &packet, error);
    if (ret < 0)
        return ret;
    if (av_new_packet(pkt, packet.size) < 0)
        return sparse_fail_memory(error);
    if (packet.flags & SPARSE_PACKET_SPOOLED) {
        ret = sparse_spool_read(source->spool, pkt->data, packet.pos, packet.size, error);
    } else {
        int64_t n = sparse_bytes_read(source->bytes, pkt->data, packet.pos, packet.size, error);

        if (n < 0)
            ret = (int)n;
        else if (n < packet.size)
            ret = sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                                     "packet %lld can't be read: the file has become shorter",
                                     (long long)i);
    }
    if (ret == SPARSE_OK && packet.flags & SPARSE_PACKET_CHECKED &&
        sparse_packet_check(pkt->data, packet.size) != packet.check)
        ret = sparse_source_fail_check(source, i, error);
    if (ret == SPARSE_OK && packet.flags & SPARSE_PACKET_EXTRA &&
        av_packet_copy_props(pkt, find_extra(source, i)) < 0)
        ret = sparse_fail_memory(error);
    if (ret < 0) {
        av_packet_unref(pkt);
        return ret;
    }
    sparse_packet_set_times(source, i, pkt);
    source->packets_read++;
    source->payload_read += packet.size;
    return SPARSE_OK;
}
