/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * An array that grows.
 */
#ifndef SPARSE_ARRAY_H
#define SPARSE_ARRAY_H

#include <stddef.h>

#include "error.h"

/*
 * Make room in *(TYPE **)array for needed elements of size bytes; what is there stays. The
 * capacity grows by half at least. On failure nothing changes.
 */
int sparse_array_grow(void *array, size_t *capacity, size_t needed, size_t size,
                      SparseError *error);

#endif /* SPARSE_ARRAY_H */
