/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The bits of H.264 and HEVC syntax, from bytes that may be anything.
 */
#ifndef SPARSE_BITS_H
#define SPARSE_BITS_H

#include <stddef.h>
#include <stdint.h>

enum { SPARSE_BITS_PADDING = 8 }; /* bytes that must be readable after the last */

/* A place in bits. After a read beyond the end, failed is 1, and what is read means nothing. */
typedef struct SparseBits {
    const uint8_t *data;
    size_t size, at; /* in bits */
    int failed;
} SparseBits;

/* The next 32 bits, without moving. */
static inline uint32_t sparse_bits_peek(const SparseBits *bits)
{
    const uint8_t *p = bits->data + (bits->at >> 3);
    uint64_t value = (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 |
                     (uint64_t)p[3] << 32 | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 |
                     (uint64_t)p[6] << 8 | p[7];

    return (uint32_t)(value << (bits->at & 7) >> 32);
}

/* The number of zeros before the first 1 of 32 bits. */
static inline int sparse_leading_zeros(uint32_t value)
{
#if defined(__GNUC__)
    return value ? __builtin_clz(value) : 32;
#else
    int zeros = 0;

    while (zeros < 32 && !(value >> (31 - zeros) & 1))
        zeros++;
    return zeros;
#endif
}

static inline void sparse_bits_skip(SparseBits *bits, size_t count)
{
    if (count > bits->size - bits->at) {
        bits->failed = 1;
        bits->at = bits->size;
    } else {
        bits->at += count;
    }
}

/* count of them, 0 to 32 */
static inline uint32_t sparse_bits(SparseBits *bits, int count)
{
    uint32_t value = count ? sparse_bits_peek(bits) >> (32 - count) : 0;

    sparse_bits_skip(bits, (size_t)count);
    return value;
}

static inline uint32_t sparse_bit(SparseBits *bits)
{
    return sparse_bits(bits, 1);
}

/* ue(v), H.264 9.1 and H.265 9.2: up to 2^32 - 2 */
static inline uint32_t sparse_bits_ue(SparseBits *bits)
{
    const uint32_t next = sparse_bits_peek(bits);
    const int zeros = sparse_leading_zeros(next);

    if (zeros <= 15) {
        sparse_bits_skip(bits, (size_t)(2 * zeros + 1));
        return (next >> (31 - 2 * zeros)) - 1;
    }
    if (zeros == 32) {
        bits->failed = 1;
        return 0;
    }
    sparse_bits_skip(bits, (size_t)zeros + 1);
    return (1u << zeros) - 1 + sparse_bits(bits, zeros);
}

/* se(v) */
static inline int32_t sparse_bits_se(SparseBits *bits)
{
    const uint32_t value = sparse_bits_ue(bits);

    return value & 1 ? (int32_t)(value / 2 + 1) : -(int32_t)(value / 2);
}

/*
 * The payload of a NAL unit without emulation prevention bytes (H.264 7.3.1, H.265 7.3.1.1) from
 * size bytes of it, into out, which has room for size + SPARSE_BITS_PADDING. The number of bytes,
 * or -1 when they hold what can't stand in a NAL unit: three zeros, or a start code.
 */
int64_t sparse_bits_unescape(const uint8_t *nal, size_t size, uint8_t *out);

/* The place of the stop bit: that of the last 1. 0: there is none. */
size_t sparse_bits_stop(const uint8_t *data, size_t size);

#endif /* SPARSE_BITS_H */
