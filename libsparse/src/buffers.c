/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "buffers.h"

#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include <libavutil/buffer.h>
#include <libavutil/imgutils.h>

enum {
    ALIGNMENT = 64,    /* of the longest vectors */
    OVERREAD = 80,     /* what libavcodec leaves behind a plane, too */
    MOST_BLOCKS = 512, /* unused ones at a time: the search is linear */
};

/* What stands before a picture's bytes. */
typedef struct Block {
    struct Block *next; /* unused */
    SparseBuffers *owner;
    void *memory; /* what calloc() returned */
    size_t size;  /* of the bytes */
} Block;

struct SparseBuffers {
    pthread_mutex_t lock; /* of all below */
    Block *unused;        /* the latest first: it may still be in the processor's cache */
    int unused_count;
    int64_t unused_bytes, limit;
    size_t references; /* the owner's, and one for each block in use */
    int released;
};

int sparse_buffers_create(SparseBuffers **result, SparseError *error)
{
    SparseBuffers *buffers = calloc(1, sizeof(*buffers));

    *result = NULL;
    if (!buffers || pthread_mutex_init(&buffers->lock, NULL)) {
        free(buffers);
        return sparse_fail_memory(error);
    }
    buffers->references = 1;
    *result = buffers;
    return 0;
}

static uint8_t *bytes_of(Block *block)
{
    return (uint8_t *)block + (sizeof(*block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static Block *new_block(SparseBuffers *buffers, size_t size)
{
    const size_t head = (sizeof(Block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + ALIGNMENT;
    void *memory = size > SIZE_MAX - head ? NULL : calloc(1, head + size);
    Block *block;

    if (!memory)
        return NULL;
    block = (Block *)(((uintptr_t)memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    block->owner = buffers;
    block->memory = memory;
    block->size = size;
    return block;
}

/* Cut the list after the blocks that may stay, and return the rest. The lock is held. */
static Block *shrink(SparseBuffers *buffers)
{
    Block **place = &buffers->unused, *rest;
    int64_t bytes = 0;
    int count = 0;

    while (*place && count < MOST_BLOCKS &&
           bytes + (int64_t)(*place)->size <= (buffers->released ? 0 : buffers->limit)) {
        bytes += (int64_t)(*place)->size;
        count++;
        place = &(*place)->next;
    }
    rest = *place;
    *place = NULL;
    buffers->unused_bytes = bytes;
    buffers->unused_count = count;
    return rest;
}

static void free_blocks(Block *block)
{
    while (block) {
        Block *next = block->next;

        free(block->memory);
        block = next;
    }
}

/* Drop a reference; the lock is held and given up. */
static void unreference(SparseBuffers *buffers)
{
    Block *rest = NULL;
    int last = --buffers->references == 0;

    if (buffers->released || buffers->unused_bytes > buffers->limit ||
        buffers->unused_count > MOST_BLOCKS)
        rest = shrink(buffers);
    pthread_mutex_unlock(&buffers->lock);
    free_blocks(rest);
    if (last) {
        pthread_mutex_destroy(&buffers->lock);
        free(buffers);
    }
}

void sparse_buffers_release(SparseBuffers **buffers)
{
    if (!*buffers)
        return;
    pthread_mutex_lock(&(*buffers)->lock);
    (*buffers)->released = 1;
    unreference(*buffers);
    *buffers = NULL;
}

void sparse_buffers_set_limit(SparseBuffers *buffers, int64_t bytes)
{
    Block *rest;

    pthread_mutex_lock(&buffers->lock);
    buffers->limit = bytes;
    rest = shrink(buffers);
    pthread_mutex_unlock(&buffers->lock);
    free_blocks(rest);
}

int64_t sparse_buffers_unused(SparseBuffers *buffers)
{
    int64_t bytes;

    pthread_mutex_lock(&buffers->lock);
    bytes = buffers->unused_bytes;
    pthread_mutex_unlock(&buffers->lock);
    return bytes;
}

static void give_back(void *opaque, uint8_t *data)
{
    Block *block = opaque;
    SparseBuffers *buffers = block->owner;

    pthread_mutex_lock(&buffers->lock);
    block->next = buffers->unused;
    buffers->unused = block;
    buffers->unused_bytes += (int64_t)block->size;
    buffers->unused_count++;
    unreference(buffers);
}

/* A block of size bytes or a little more. */
static Block *take(SparseBuffers *buffers, size_t size)
{
    Block **place, *block = NULL;

    pthread_mutex_lock(&buffers->lock);
    for (place = &buffers->unused; *place; place = &(*place)->next)
        if ((*place)->size >= size && (*place)->size - size <= size / 8) {
            block = *place;
            *place = block->next;
            buffers->unused_bytes -= (int64_t)block->size;
            buffers->unused_count--;
            break;
        }
    buffers->references++;
    pthread_mutex_unlock(&buffers->lock);
    if (!block)
        block = new_block(buffers, size);
    if (!block) {
        pthread_mutex_lock(&buffers->lock);
        unreference(buffers);
    }
    return block;
}

/*
 * Rows as avcodec_default_get_buffer2() lays them out: a width is looked for at which the rows
 * of all planes are aligned, so that their ratio stays as it is.
 */
static int lay_out(AVCodecContext *context, const AVFrame *frame, int linesizes[4], size_t sizes[4])
{
    int width = frame->width, height = frame->height, alignments[AV_NUM_DATA_POINTERS];
    ptrdiff_t steps[4];
    int unaligned, ret;

    avcodec_align_dimensions2(context, &width, &height, alignments);
    do {
        ret = av_image_fill_linesizes(linesizes, frame->format, width);
        if (ret < 0)
            return ret;
        width += width & ~(width - 1);
        unaligned = 0;
        for (int i = 0; i < 4; i++)
            unaligned |= linesizes[i] % alignments[i];
    } while (unaligned);
    for (int i = 0; i < 4; i++)
        steps[i] = linesizes[i];
    return av_image_fill_plane_sizes(sizes, frame->format, height, steps);
}

static int get_buffer(AVCodecContext *context, AVFrame *frame, int flags)
{
    size_t sizes[4], total = 0;
    int linesizes[4];
    Block *block;
    int ret = lay_out(context, frame, linesizes, sizes);

    if (ret < 0)
        return ret;
    for (int i = 0; i < 4 && sizes[i]; i++) {
        if (sizes[i] > INT_MAX - 2 * (OVERREAD + ALIGNMENT) - total)
            return AVERROR(EINVAL);
        total += (sizes[i] + OVERREAD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    block = take(context->opaque, total);
    if (!block)
        return AVERROR(ENOMEM);
    frame->buf[0] = av_buffer_create(bytes_of(block), total, give_back, block, 0);
    if (!frame->buf[0]) {
        give_back(block, NULL);
        return AVERROR(ENOMEM);
    }
    total = 0;
    for (int i = 0; i < 4 && sizes[i]; i++) {
        frame->data[i] = frame->buf[0]->data + total;
        frame->linesize[i] = linesizes[i];
        total += (sizes[i] + OVERREAD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    frame->extended_data = frame->data;
    return 0;
}

void sparse_buffers_attach(SparseBuffers *buffers, AVCodecContext *context)
{
    context->opaque = buffers;
    context->get_buffer2 = get_buffer;
}
