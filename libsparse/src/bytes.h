/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Numbers as bytes: appended to a buffer that grows, and read back from bytes that may be
 * anything.
 */
#ifndef SPARSE_BYTES_H
#define SPARSE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "error.h"

/* ---- Writing ---- */

typedef struct SparseBuffer {
    uint8_t *data; /* to be freed with free() */
    size_t size, capacity;
} SparseBuffer;

/* Make room for size bytes more. */
int sparse_buffer_reserve(SparseBuffer *buffer, size_t size, SparseError *error);

int sparse_buffer_append(SparseBuffer *buffer, const void *data, size_t size, SparseError *error);

enum { SPARSE_VARINT_MOST = 10 };

/* The same for numbers of 7 bits a byte, the least significant first; room must have been made. */
static inline void sparse_put_varint(SparseBuffer *buffer, uint64_t value)
{
    while (value >= 0x80) {
        buffer->data[buffer->size++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    buffer->data[buffer->size++] = (uint8_t)value;
}

/* Signed ones, with small absolute values in few bytes. */
static inline uint64_t sparse_zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value < 0 ? -1 : 0);
}

static inline int64_t sparse_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}

static inline void sparse_put_signed(SparseBuffer *buffer, int64_t value)
{
    sparse_put_varint(buffer, sparse_zigzag(value));
}

/* ---- Reading ---- */

/* A place in bytes. After a read beyond the end, bad is 1 and every number is 0. */
typedef struct SparseSpan {
    const uint8_t *at, *end;
    int bad;
} SparseSpan;

static inline uint64_t sparse_get_varint(SparseSpan *span)
{
    uint64_t value = 0;

    for (int shift = 0; shift < 64 && span->at < span->end; shift += 7) {
        uint8_t byte = *span->at++;

        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    span->bad = 1;
    span->at = span->end;
    return 0;
}

static inline int64_t sparse_get_signed(SparseSpan *span)
{
    return sparse_unzigzag(sparse_get_varint(span));
}

/* size bytes, or NULL when they aren't there. */
static inline const uint8_t *sparse_get_bytes(SparseSpan *span, uint64_t size)
{
    const uint8_t *data = span->at;

    if (size > (uint64_t)(span->end - span->at)) {
        span->bad = 1;
        span->at = span->end;
        return NULL;
    }
    span->at += size;
    return data;
}

#endif /* SPARSE_BYTES_H */
