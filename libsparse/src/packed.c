/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "packed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "array.h"

enum {
    CACHED = 4, /* unpacked blocks that are kept */
    MAX_RAW = SPARSE_BLOCK * 8192 /* more than any block has, uncompressed */
};

/* An unpacked block, and how far its snapshots have been read. */
typedef struct Cached {
    SparseBlock block; /* its first is -1 when it holds none */
    uint64_t used;
    uint8_t *raw; /* uncompressed, of a saved index */
    size_t raw_capacity;
    SparseSpan snapshots, rest; /* all, and those after the chain's last */
    SparseChain chain;
    int read; /* snapshots in the chain */
} Cached;

struct SparsePacked {
    int codec;
    int64_t packet_count, frame_count, block_count;
    const uint8_t *bytes;
    uint64_t *ends; /* [block_count] where blocks end in bytes */
    size_t ends_capacity;

    SparseBuffer own; /* bytes, when they were made here */
    int64_t blocks_made;
    SparseChain chain; /* of the block being made */

    int is_compressed;
    int has_inflater;
    z_stream inflater;

    pthread_mutex_t lock; /* for what follows */
    Cached *cached[CACHED];
    uint64_t clock;
    _Atomic int broken;
};

static int64_t blocks_for(int64_t packet_count, int64_t frame_count)
{
    int64_t most = packet_count > frame_count ? packet_count : frame_count;

    return (most + SPARSE_BLOCK - 1) / SPARSE_BLOCK;
}

int sparse_packed_create(SparsePacked **result, int codec, int64_t packet_count,
                         int64_t frame_count, SparseError *error)
{
    SparsePacked *packed = calloc(1, sizeof(*packed));

    *result = NULL;
    if (!packed)
        return sparse_fail_memory(error);
    if (pthread_mutex_init(&packed->lock, NULL)) {
        free(packed);
        return sparse_fail_memory(error);
    }
    packed->codec = codec;
    packed->packet_count = packet_count;
    packed->frame_count = frame_count;
    packed->block_count = blocks_for(packet_count, frame_count);
    *result = packed;
    return sparse_array_grow(&packed->ends, &packed->ends_capacity, (size_t)packed->block_count,
                             sizeof(*packed->ends), error);
}

void sparse_packed_free(SparsePacked **result)
{
    SparsePacked *packed = *result;

    if (!packed)
        return;
    for (int k = 0; k < CACHED; k++) {
        if (packed->cached[k]) {
            free(packed->cached[k]->block.references);
            free(packed->cached[k]->raw);
        }
        free(packed->cached[k]);
    }
    if (packed->has_inflater)
        inflateEnd(&packed->inflater);
    pthread_mutex_destroy(&packed->lock);
    free(packed->own.data);
    free(packed->ends);
    free(packed);
    *result = NULL;
}

/* ---- Making ---- */

int sparse_packed_add_block(SparsePacked *packed, const SparseBlock *block, SparseError *error)
{
    int ret = sparse_block_pack(&packed->own, block, error);

    if (ret < 0)
        return ret;
    packed->bytes = packed->own.data;
    packed->ends[packed->blocks_made++] = packed->own.size;
    sparse_chain_start(&packed->chain, packed->codec);
    return 0;
}

int sparse_packed_add_snapshot(SparsePacked *packed, const FFSparseSnapshot *snapshot, int64_t i,
                               SparseError *error)
{
    int ret = sparse_chain_pack(&packed->own, &packed->chain, snapshot, i, error);

    if (ret < 0)
        return ret;
    packed->bytes = packed->own.data;
    packed->ends[packed->blocks_made - 1] = packed->own.size;
    return 0;
}

int sparse_packed_add_rest(SparsePacked *packed, const SparseBuffer *rest, SparseError *error)
{
    int ret = sparse_buffer_append(&packed->own, rest->data, rest->size, error);

    if (ret < 0)
        return ret;
    packed->bytes = packed->own.data;
    packed->ends[packed->blocks_made - 1] = packed->own.size;
    return 0;
}

void sparse_packed_finish(SparsePacked *packed)
{
    uint8_t *fitting = packed->own.size ? realloc(packed->own.data, packed->own.size) : NULL;

    if (!fitting)
        return;
    packed->own.data = fitting;
    packed->own.capacity = packed->own.size;
    packed->bytes = fitting;
}

/* ---- From and to a saved index ---- */

static void get_bytes(const SparsePacked *packed, int64_t number, const uint8_t **data,
                      size_t *size)
{
    uint64_t start = number ? packed->ends[number - 1] : 0;

    *data = packed->bytes + start;
    *size = (size_t)(packed->ends[number] - start);
}

/* Raw DEFLATE (RFC 1951); out needs room for deflateBound(). */
static int compress_block(z_stream *stream, const uint8_t *data, size_t size, SparseBuffer *out,
                          SparseError *error)
{
    size_t most = deflateBound(stream, (uLong)size) + SPARSE_VARINT_MOST;
    int ret = sparse_buffer_reserve(out, most, error);

    if (ret < 0)
        return ret;
    sparse_put_varint(out, size);
    deflateReset(stream);
    stream->next_in = (Bytef *)data;
    stream->avail_in = (uInt)size;
    stream->next_out = out->data + out->size;
    stream->avail_out = (uInt)(out->capacity - out->size);
    if (deflate(stream, Z_FINISH) != Z_STREAM_END)
        return sparse_fail(error, SPARSE_ERR_MEMORY, -1, "the index can't be compressed");
    out->size = (size_t)(stream->next_out - out->data);
    return 0;
}

int sparse_packed_write(const SparsePacked *packed, SparseBuffer *sizes, SparseBuffer *blocks,
                        SparseError *error)
{
    z_stream stream = {0};
    int ret = sparse_buffer_reserve(sizes, (size_t)packed->block_count * SPARSE_VARINT_MOST, error);

    if (ret < 0)
        return ret;
    if (packed->is_compressed) { /* it was saved before */
        for (int64_t b = 0; b < packed->block_count; b++)
            sparse_put_varint(sizes, packed->ends[b] - (b ? packed->ends[b - 1] : 0));
        return sparse_buffer_append(
            blocks, packed->bytes,
            packed->block_count ? (size_t)packed->ends[packed->block_count - 1] : 0, error);
    }
    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        return sparse_fail_memory(error);
    for (int64_t b = 0; b < packed->block_count && ret >= 0; b++) {
        const size_t before = blocks->size;
        const uint8_t *data;
        size_t size;

        get_bytes(packed, b, &data, &size);
        ret = compress_block(&stream, data, size, blocks, error);
        sparse_put_varint(sizes, blocks->size - before);
    }
    deflateEnd(&stream);
    return ret;
}

int sparse_packed_read(SparsePacked **result, int codec, int64_t packet_count, int64_t frame_count,
                       SparseSpan *sizes, const uint8_t *blocks, size_t size, SparseError *error)
{
    int64_t count = blocks_for(packet_count, frame_count);
    uint64_t end = 0;
    int ret;

    *result = NULL;
    /* each has one byte at least, for its size */
    if (packet_count < 0 || packet_count >= INT32_MAX || frame_count < 0 ||
        frame_count >= INT32_MAX || count > sizes->end - sizes->at)
        return 0;
    ret = sparse_packed_create(result, codec, packet_count, frame_count, error);
    if (ret < 0) {
        sparse_packed_free(result);
        return ret;
    }
    for (int64_t b = 0; b < count; b++) {
        uint64_t bytes = sparse_get_varint(sizes);

        if (bytes > size - end) {
            sparse_packed_free(result);
            return 0;
        }
        end += bytes;
        (*result)->ends[b] = end;
    }
    (*result)->bytes = blocks;
    (*result)->is_compressed = 1;
    if (sizes->bad || end != size)
        sparse_packed_free(result);
    return 0;
}

/* ---- Unpacking ---- */

/* Uncompress a block into cached->raw; 1, or 0. */
static int inflate_block(SparsePacked *packed, Cached *cached, const uint8_t **data, size_t *size)
{
    SparseSpan in = {.at = *data, .end = *data + *size};
    uint64_t raw = sparse_get_varint(&in);
    z_stream *stream = &packed->inflater;

    if (in.bad || raw > MAX_RAW ||
        sparse_array_grow(&cached->raw, &cached->raw_capacity, (size_t)raw + 1, 1, NULL) < 0)
        return 0;
    if (!packed->has_inflater && inflateInit2(stream, -15) != Z_OK)
        return 0;
    packed->has_inflater = 1;
    inflateReset(stream);
    stream->next_in = (Bytef *)in.at;
    stream->avail_in = (uInt)(in.end - in.at);
    stream->next_out = cached->raw;
    stream->avail_out = (uInt)raw;
    if (inflate(stream, Z_FINISH) != Z_STREAM_END || stream->avail_out || stream->avail_in)
        return 0;
    *data = cached->raw;
    *size = (size_t)raw;
    return 1;
}

static int items_in(int64_t first, int64_t total)
{
    int64_t left = total - first;

    return left < 0 ? 0 : left < SPARSE_BLOCK ? (int)left : SPARSE_BLOCK;
}

static int unpack(SparsePacked *packed, Cached *cached, int64_t number)
{
    SparseBlock *block = &cached->block;
    SparseSpan in = {0};
    const uint8_t *data;
    size_t size;

    block->first = -1;
    get_bytes(packed, number, &data, &size);
    if (packed->is_compressed && !inflate_block(packed, cached, &data, &size))
        return 0;
    in.at = data;
    in.end = data + size;
    block->first = number * SPARSE_BLOCK;
    block->packet_count = items_in(block->first, packed->packet_count);
    block->frame_count = items_in(block->first, packed->frame_count);
    if (sparse_block_unpack(&in, block, packed->packet_count, NULL) != 1) {
        block->first = -1;
        return 0;
    }
    cached->snapshots = cached->rest = in;
    cached->read = 0;
    return 1;
}

/* The block that holds number i, with the lock held; NULL when it can't be had. */
static Cached *get_block(SparsePacked *packed, int64_t i)
{
    const int64_t first = i / SPARSE_BLOCK * SPARSE_BLOCK;
    int oldest = 0;

    for (int k = 0; k < CACHED; k++) {
        Cached *cached = packed->cached[k];

        if (cached && cached->block.first == first) {
            cached->used = ++packed->clock;
            return cached;
        }
        if (!cached || (packed->cached[oldest] && cached->used < packed->cached[oldest]->used))
            oldest = k;
    }
    if (!packed->cached[oldest])
        packed->cached[oldest] = calloc(1, sizeof(Cached));
    if (!packed->cached[oldest] || !unpack(packed, packed->cached[oldest], i / SPARSE_BLOCK)) {
        packed->broken = 1;
        return NULL;
    }
    packed->cached[oldest]->used = ++packed->clock;
    return packed->cached[oldest];
}

/* ---- Looking things up ---- */

int64_t sparse_packed_packets(const SparsePacked *packed)
{
    return packed->packet_count;
}

int64_t sparse_packed_frames(const SparsePacked *packed)
{
    return packed->frame_count;
}

int sparse_packed_is_broken(const SparsePacked *packed)
{
    return packed->broken;
}

SparsePacket sparse_packed_packet(SparsePacked *packed, int64_t i)
{
    SparsePacket packet = {0};
    const Cached *cached;

    pthread_mutex_lock(&packed->lock);
    cached = get_block(packed, i);
    if (cached)
        packet = cached->block.packets[i % SPARSE_BLOCK];
    pthread_mutex_unlock(&packed->lock);
    return packet;
}

SparsePicture sparse_packed_picture(SparsePacked *packed, int64_t i)
{
    SparsePicture picture = {.picture = -1};
    const Cached *cached;

    pthread_mutex_lock(&packed->lock);
    cached = get_block(packed, i);
    if (cached)
        picture = cached->block.pictures[i % SPARSE_BLOCK];
    pthread_mutex_unlock(&packed->lock);
    return picture;
}

SparseDisplay sparse_packed_frame(SparsePacked *packed, int64_t k)
{
    SparseDisplay frame = {0};
    const Cached *cached;

    pthread_mutex_lock(&packed->lock);
    cached = get_block(packed, k);
    if (cached)
        frame = cached->block.frames[k % SPARSE_BLOCK];
    pthread_mutex_unlock(&packed->lock);
    return frame;
}

int sparse_packed_references(SparsePacked *packed, int64_t i, int32_t *references)
{
    const Cached *cached;
    int count = 0;

    pthread_mutex_lock(&packed->lock);
    cached = get_block(packed, i);
    if (cached) {
        const int k = (int)(i % SPARSE_BLOCK);

        count = cached->block.pictures[k].reference_count;
        if (count)
            memcpy(references, cached->block.references + cached->block.reference_first[k],
                   (size_t)count * sizeof(*references));
    }
    pthread_mutex_unlock(&packed->lock);
    return count;
}

void sparse_packed_snapshot(SparsePacked *packed, int64_t i, FFSparseSnapshot *snapshot)
{
    Cached *cached;

    memset(snapshot, 0, offsetof(FFSparseSnapshot, entries));
    pthread_mutex_lock(&packed->lock);
    cached = get_block(packed, i);
    if (cached) {
        const int wanted = (int)(i % SPARSE_BLOCK) + 1;
        int good = 1;

        if (!cached->read || cached->read > wanted) {
            cached->rest = cached->snapshots;
            cached->read = 0;
            sparse_chain_start(&cached->chain, packed->codec);
        }
        while (good && cached->read < wanted)
            good = sparse_chain_unpack(&cached->rest, &cached->chain,
                                       cached->block.first + cached->read++);
        if (good) {
            const FFSparseSnapshot *last = &cached->chain.last;

            memcpy(snapshot->state, last->state, sizeof(last->state));
            snapshot->nb_entries = last->nb_entries;
            if (last->nb_entries)
                memcpy(snapshot->entries, last->entries,
                       (size_t)last->nb_entries * sizeof(*last->entries));
        } else {
            cached->read = 0;
            packed->broken = 1;
        }
    }
    pthread_mutex_unlock(&packed->lock);
}

int sparse_packed_read_rest(SparsePacked *packed, int64_t number,
                            int (*read)(void *user, const SparseBlock *block, SparseSpan rest),
                            void *user)
{
    const Cached *cached;
    int good;

    pthread_mutex_lock(&packed->lock);
    cached = get_block(packed, number * SPARSE_BLOCK);
    good = cached && read && read(user, &cached->block, cached->snapshots);
    if (!good)
        packed->broken = 1;
    pthread_mutex_unlock(&packed->lock);
    return good;
}
