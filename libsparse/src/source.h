/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The container: one video stream of a file, its description and its packets.
 */
#ifndef SPARSE_SOURCE_H
#define SPARSE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <libavutil/buffer.h>
#include <libavutil/rational.h>

#include "error.h"
#include "io.h"
#include "sparse.h"

typedef struct SparseSource SparseSource;

enum {
    SPARSE_PACKET_KEY = 1,     /* marked as a key frame */
    SPARSE_PACKET_DISCARD = 2, /* outside the edit list: decoded, its picture isn't put out */
    SPARSE_PACKET_SPOOLED = 4, /* pos is not a position in the file */
    SPARSE_PACKET_EXTRA = 8,   /* has side data for the decoder */
    SPARSE_PACKET_CHECKED = 16 /* its first bytes have been seen */
};

/* One packet, as av_read_frame() returns it, in its order. */
typedef struct SparsePacket {
    int64_t pts, dts; /* in the stream's time base; AV_NOPTS_VALUE when unknown */
    int64_t duration; /* 0 when unknown */
    int64_t pos;      /* first byte in the source (spool: in the spool) */
    int32_t size;
    uint32_t flags;
    uint16_t check; /* of its first bytes, with SPARSE_PACKET_CHECKED */
} SparsePacket;

typedef struct SparseBytes SparseBytes;
typedef struct SparseSavedIndex SparseSavedIndex;

/* A saved index to open with: then the container isn't read if that can be. What check() refuses
 * for these bytes isn't used and makes the open fail. */
typedef struct SparseRecall {
    SparseSavedIndex *index;
    int (*check)(const void *user, SparseBytes *bytes, SparseError *error);
    const void *user;
} SparseRecall;

/*
 * Open. recall may be NULL; its index must outlive the source. stream_index -1 picks what
 * ffmpeg's `-map 0:v:0` picks. name is what messages call the source (NULL: the path, "<memory>",
 * "<stream>"); it is copied, as is *io; memory isn't copied. On failure *source is NULL.
 * The packets aren't read yet.
 */
int sparse_source_open_path(SparseSource **source, const char *path, int stream_index,
                            const char *name, const SparseRecall *recall, SparseError *error);
int sparse_source_open_memory(SparseSource **source, const uint8_t *data, size_t size,
                              int stream_index, const char *name, const SparseRecall *recall,
                              SparseError *error);
int sparse_source_open_io(SparseSource **source, const SparseIO *io, int stream_index,
                          const char *name, const SparseRecall *recall, SparseError *error);
void sparse_source_close(SparseSource **source);

/* Thread-safety of all below, except where said: one thread at a time. */

/* What messages call the source; lives as long as the source. */
const char *sparse_source_name(const SparseSource *source);

/* sparse_fail() with "NAME: frame N: " before the message. Thread-safety: safe. */
int sparse_source_fail(const SparseSource *source, SparseError *error, int code, int64_t frame,
                       const char *format, ...) SPARSE_FORMAT_CHECK(5, 6);

/* The file as it is now: 1, or 0 when the source is no regular file. Thread-safety: safe. */
int sparse_source_stamp(const SparseSource *source, SparseStamp *stamp);

/* Fill in all of *info but the member sparse. Strings are static or live as
 * long as the source. */
void sparse_source_info(const SparseSource *source, SparseInfo *info);

/* SPARSE_ERR_SOURCE when the file has been written to since the open. Thread-safety: safe. */
int sparse_source_check_unchanged(const SparseSource *source, SparseError *error);

/* What a saved index says of the stream: all but its tables. Numbers and borrowed pointers. */
void sparse_source_describe_saved(const SparseSource *source, SparseSavedIndex *index);

/* The bytes under it. */
SparseBytes *sparse_source_bytes(const SparseSource *source);

/* What the ffmpeg program would give its decoder; belongs to the source. */
const AVCodecParameters *sparse_source_codecpar(const SparseSource *source);
AVRational sparse_source_time_base(const SparseSource *source);
/* For AVCodecContext.framerate, as the ffmpeg program sets it. */
AVRational sparse_source_framerate(const SparseSource *source);

/* 1: the packets come from the container's own table, so that getting them
 * reads no payload, and a lazy index is worth it; 0: it takes a read of the
 * whole file. */
int sparse_source_is_table(const SparseSource *source);

/* Make the table of packets and count them; several calls cost nothing. progress may be NULL. */
int sparse_source_packets(SparseSource *source, int64_t *count, SparseProgress progress, void *user,
                          SparseError *error);

/* Let packed tables, of the source's own packets, stand for the table; the source frees them. */
struct SparsePacked;
void sparse_source_use_packed(SparseSource *source, struct SparsePacked *packed);

/* Them, or NULL. */
struct SparsePacked *sparse_source_packed(const SparseSource *source);

/* The same with those of a saved index, unless the source was opened with it and has them. They
 * have to be the source's: SPARSE_ERR_SAVED when they aren't, and then they aren't taken. */
int sparse_source_take_saved(SparseSource *source, SparseSavedIndex *saved, SparseError *error);

/* SPARSE_ERR_SAVED when something that was asked of packed tables since the open couldn't be had:
 * to be asked before results are given out. Thread-safety: safe. */
int sparse_source_check_saved(const SparseSource *source, SparseError *error);

/* One of them. The table must have been made. Thread-safety: safe. */
SparsePacket sparse_source_packet(const SparseSource *source, int64_t i);

/*
 * Read packet i into pkt (unreferenced first): payload with zeroed padding,
 * times, flags and side data as av_read_frame() gives them; pkt->opaque is
 * i + 1 (see AV_CODEC_FLAG_COPY_OPAQUE). The table must have been built.
 * Thread-safety: safe.
 */
int sparse_source_read_packet(SparseSource *source, int64_t i, AVPacket *pkt, SparseError *error);

/* What tells whether a packet, or a part of one, still begins as it did: a checksum of its first
 * SPARSE_CHECKED_BYTES, of those that there are. Pure. */
enum { SPARSE_CHECKED_BYTES = 64 };
uint16_t sparse_packet_check(const uint8_t *data, int64_t size);

/* SPARSE_ERR_SOURCE: what was read of packet i isn't what the check was of. */
int sparse_source_fail_check(const SparseSource *source, int64_t i, SparseError *error);

/* Read size bytes of packet i from offset on, which must be within it. The table must have
 * been built. Thread-safety: safe. */
int sparse_source_read_part(SparseSource *source, int64_t i, int64_t offset, uint8_t *out,
                            int64_t size, SparseError *error);

/* The same, and as many as there are of the `more` bytes that stand behind them in the file: the
 * number of all, or a negative code. Other packets may have these, by their pos. */
int64_t sparse_source_read_on(SparseSource *source, int64_t i, int64_t offset, uint8_t *out,
                              int64_t size, int64_t more, SparseError *error);

/* 1: sparse_source_read_heads() saves reading and may be used. */
int sparse_source_has_heads(const SparseSource *source);

/* Slice headers have some 10 to 40 bytes; with long weight tables or entry points more. */
enum { SPARSE_HEAD_LEAST = 192, SPARSE_HEAD_MOST = 8 * SPARSE_HEAD_LEAST };

/*
 * The same as sparse_source_read_packet() for a header pass: slices may be cut after head
 * bytes (at most SPARSE_HEAD_MOST; with more, all is read), in which case *truncated becomes 1.
 * A slice header that then seems to be damaged or to go on has to be read again from more.
 */
int sparse_source_read_heads(SparseSource *source, int64_t i, int head, AVBufferPool *pool,
                             AVPacket *pkt, int *truncated, SparseError *error);

/* The same for all of a packet; not thread-safe. */
int sparse_source_read_whole(SparseSource *source, int64_t i, AVPacket *pkt, SparseError *error);

/* Buffers for it; NULL without memory. */
AVBufferPool *sparse_source_head_pool(void);

typedef struct SparseSourceCounters {
    int64_t packets_read; /* sparse_source_read_packet() */
    int64_t bytes_read;   /* their payload */
    int64_t source_bytes; /* all bytes read from the source */
} SparseSourceCounters;

/* Totals since the open. Thread-safety: safe. */
void sparse_source_counters(const SparseSource *source, SparseSourceCounters *counters);

#endif /* SPARSE_SOURCE_H */
