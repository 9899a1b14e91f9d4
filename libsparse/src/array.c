/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "array.h"

#include <stdlib.h>
#include <string.h>

int sparse_array_grow(void *array, size_t *capacity, size_t needed, size_t size, SparseError *error)
{
    size_t wanted = *capacity + *capacity / 2 + 64;
    void *grown;

    if (needed <= *capacity)
        return 0;
    if (wanted < needed)
        wanted = needed;
    if (wanted > SIZE_MAX / size)
        return sparse_fail_memory(error);
    memcpy(&grown, array, sizeof(grown)); /* whatever type of pointer it is */
    grown = realloc(grown, wanted * size);
    if (!grown)
        return sparse_fail_memory(error);
    memcpy(array, &grown, sizeof(grown));
    *capacity = wanted;
    return 0;
}
