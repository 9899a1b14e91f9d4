/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "column.h"

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? ~(uint64_t)value + 1 : (uint64_t)value;
}

static uint64_t common_divisor(const int64_t *values, int count)
{
    uint64_t divisor = 0;

    for (int i = 0; i < count && divisor != 1; i++) {
        uint64_t a = divisor, b = magnitude(values[i]);

        while (b) {
            uint64_t rest = a % b;

            a = b;
            b = rest;
        }
        divisor = a;
    }
    return divisor;
}

int sparse_put_column(SparseBuffer *out, const int64_t *left, int count)
{
    const uint64_t divisor = common_divisor(left, count);

    if (!divisor)
        return 0;
    sparse_put_varint(out, divisor);
    for (int k = 0; k < count; k++) {
        uint64_t value = magnitude(left[k]) / divisor;

        /* the sign of the one value that has no counterpart doesn't matter */
        sparse_put_signed(out, left[k] < 0 ? (int64_t)(~value + 1) : (int64_t)value);
    }
    return 1;
}

void sparse_get_column(SparseSpan *in, int is_there, int64_t *left, int count)
{
    const uint64_t divisor = is_there ? sparse_get_varint(in) : 0;

    for (int k = 0; k < count; k++)
        left[k] = is_there ? (int64_t)((uint64_t)sparse_get_signed(in) * divisor) : 0;
}
