/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "bits.h"

#include <string.h>

/* The first of two zeros in a row at or after i, or size. Most bytes aren't zero, which is seen of
 * eight at a time. */
static size_t find_zeros(const uint8_t *data, size_t size, size_t i)
{
    while (i + 1 < size) {
        if (i + 8 <= size) {
            uint64_t word;

            memcpy(&word, data + i, 8);
            if (!((word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080))) {
                i += 8;
                continue;
            }
        }
        for (size_t end = i + 8 < size ? i + 8 : size; i < end; i++)
            if (!data[i] && i + 1 < size && !data[i + 1])
                return i;
    }
    return size;
}

int64_t sparse_bits_unescape(const uint8_t *nal, size_t size, uint8_t *out)
{
    size_t from = 0, filled = 0;

    while (from < size) {
        size_t zeros = find_zeros(nal, size, from), end = size;
        int escaped = 0;

        if (zeros < size && zeros + 2 < size) {
            if (nal[zeros + 2] < 3)
                return -1;
            escaped = nal[zeros + 2] == 3;
            end = zeros + 2;
        }
        memcpy(out + filled, nal + from, end - from);
        filled += end - from;
        from = end + (size_t)escaped;
    }
    memset(out + filled, 0, SPARSE_BITS_PADDING);
    return (int64_t)filled;
}

size_t sparse_bits_stop(const uint8_t *data, size_t size)
{
    while (size && !data[size - 1])
        size--;
    if (!size)
        return 0;
    for (int k = 0; k < 8; k++)
        if (data[size - 1] >> k & 1)
            return size * 8 - 1 - (size_t)k;
    return 0;
}
