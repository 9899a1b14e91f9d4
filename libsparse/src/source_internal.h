/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What source.c (the container and its description) and packets.c (the table
 * of packets) share.
 */
#ifndef SPARSE_SOURCE_INTERNAL_H
#define SPARSE_SOURCE_INTERNAL_H

#include <stdatomic.h>

#include <libavformat/avformat.h>
#include <libavformat/sparse_mov.h>

#include "io.h"
#include "source.h"

/* The latest bytes that the demuxer has read, to see whether packets stand in
 * the file as they are without reading it a second time. */
typedef struct SparseWindow {
    uint8_t *data;
    int64_t start; /* position in the source */
    int64_t size, capacity;
} SparseWindow;

/* Side data and times of one packet that has side data. */
typedef struct SparseExtra {
    int64_t packet;
    AVPacket *properties; /* without payload */
} SparseExtra;

/* What is known of the stream besides its codec parameters, from wherever it can be had. */
typedef struct SparseFacts {
    const char *container; /* static */
    AVRational time_base, average_rate;
    int64_t frame_count; /* as the container tells it, or -1 */
    double duration;     /* seconds, 0 when unknown */
    int rotation, flip;  /* see SparseInfo */
    enum AVPixelFormat pix_fmt;
    int profile;
    int width, height;
    AVRational sar;
    enum AVColorRange range;
    enum AVColorSpace space;
    enum AVColorPrimaries primaries;
    enum AVColorTransferCharacteristic transfer;
    int64_t start; /* AV_NOPTS_VALUE when not known */
} SparseFacts;

struct SparseSource {
    char *name;
    const char *url; /* only during the open: the demuxers look at its extension */
    SparseBytes *bytes;
    AVIOContext *avio;
    int64_t avio_position;
    SparseError io_error; /* of the last read that failed; its code is 0 when none did */
    SparseWindow window;  /* in use while its data isn't NULL */
    AVFormatContext *format; /* NULL when nothing more is wanted of the demuxer */
    int stream_index;
    int is_first; /* no stream was named */
    int probed; /* avformat_find_stream_info() has run */
    AVCodecParameters *par; /* what the ffmpeg program would give its decoder */
    SparseFacts facts;

    /* the table */
    int is_table;
    int complete; /* all packets are in it */
    int broken;   /* reading it has failed, and can't be taken up again */
    struct SparsePacked *packed; /* in the place of packets */
    SparsePacket *packets;
    int64_t count;
    size_t capacity;
    int64_t payload_bytes; /* of all packets */
    SparseSpool *spool;
    SparseExtra *extras; /* in the order of packets */
    size_t extra_count, extra_capacity;

    _Atomic int64_t packets_read, payload_read;
};

/* The packets that the container's sample table tells, if it tells them:
 * fills in the table. 1, or 0 when it doesn't. */
int sparse_packets_from_samples(SparseSource *source, SparseError *error);

/* Free the demuxer. */
void sparse_source_close_format(SparseSource *source);

/*
 * Whether a linear decode that starts from the demuxer's own parameters equals
 * one that starts from what avformat_find_stream_info() makes of them.
 */
int sparse_source_needs_no_probe(SparseSource *source);

/* Fill in the facts; the demuxer must be there. */
int sparse_source_describe(SparseSource *source, SparseError *error);

/* Set what a packet has besides payload and side data, as av_read_frame() gives it. */
void sparse_packet_set_times(const SparseSource *source, int64_t i, AVPacket *pkt);

/* Keep what tells whether packet i still begins as it does now, from its first bytes (all, or
 * SPARSE_CHECKED_BYTES at least). One thread at a time. */
void sparse_packet_keep_check(SparseSource *source, int64_t i, const uint8_t *data, int64_t size);

/* Free all that belongs to the table. */
void sparse_packets_free(SparseSource *source);

#endif /* SPARSE_SOURCE_INTERNAL_H */
