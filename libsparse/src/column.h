/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Columns of numbers as few bytes: what is left over of them after they were foretold, divided
 * by what all left-overs have in common.
 */
#ifndef SPARSE_COLUMN_H
#define SPARSE_COLUMN_H

#include "bytes.h"

/* Sums and differences that wrap around: every int64 survives both. */
static inline int64_t sparse_plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t sparse_minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* Append left[0..count), for which (count + 1) * SPARSE_VARINT_MOST bytes of room must have been
 * made. 1, or 0 when all are zero: then nothing is written. */
int sparse_put_column(SparseBuffer *out, const int64_t *left, int count);

/* Read them back; is_there: what sparse_put_column() returned. */
void sparse_get_column(SparseSpan *in, int is_there, int64_t *left, int count);

#endif /* SPARSE_COLUMN_H */
