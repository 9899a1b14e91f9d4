/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "bytes.h"

#include "array.h"

int sparse_buffer_reserve(SparseBuffer *buffer, size_t size, SparseError *error)
{
    if (size > SIZE_MAX - buffer->size)
        return sparse_fail_memory(error);
    return sparse_array_grow(&buffer->data, &buffer->capacity, buffer->size + size, 1, error);
}

int sparse_buffer_append(SparseBuffer *buffer, const void *data, size_t size, SparseError *error)
{
    int ret = sparse_buffer_reserve(buffer, size, error);

    if (ret < 0)
        return ret;
    if (size)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return 0;
}
