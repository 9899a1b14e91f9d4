/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A source behind callbacks that reads less than was asked, fails now and then,
 * does not know its size, or lies about it. The first bytes of the input say how.
 */
#include <stdlib.h>
#include <string.h>

#include "sparse.h"
#include "target.h"

enum { HEAD = 4 };

typedef struct Source {
    const uint8_t *data;
    int64_t size;
    int64_t claimed;
    unsigned portion;    /* bytes a read at most */
    unsigned fails_each; /* every so many reads fail, 0: none */
    unsigned reads;
} Source;

static int64_t read_bytes(void *user, uint8_t *buf, int64_t offset, int64_t size)
{
    Source *source = user;

    source->reads++;
    if (source->fails_each && source->reads % source->fails_each == 0)
        return -1;
    if (offset < 0 || offset >= source->size)
        return 0;
    if (size > source->size - offset)
        size = source->size - offset;
    if (size > source->portion)
        size = source->portion;
    memcpy(buf, source->data + offset, (size_t)size);
    return size;
}

static int64_t get_size(void *user)
{
    return ((Source *)user)->claimed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Source source;
    SparseIO io = {&source, read_bytes, get_size};
    SparseReader *reader = NULL;
    SparseSettings settings;
    int64_t count;

    if (size > FUZZ_MAX_SIZE || size <= HEAD)
        return 0;
    source.data = data + HEAD;
    source.size = (int64_t)size - HEAD;
    source.portion = data[0] < 128 ? 1u << 16 : 1u + data[0];
    source.fails_each = data[1] < 192 ? 0 : data[1] - 191u;
    source.claimed = data[2] < 128 ? source.size : data[2] < 192 ? -1 : source.size + data[2] - 224;
    source.reads = 0;
    sparse_default_settings(&settings);
    settings.index_mode = data[3] & 1 ? SPARSE_INDEX_LAZY : SPARSE_INDEX_WHOLE;
    if (sparse_open_io(&reader, &io, &settings, NULL) < 0)
        return 0;
    count = sparse_frame_count(reader, NULL);
    for (int i = 0; i < 2 && count > 0; i++) {
        int64_t index = i ? count - 1 : data[3] % count;
        SparseLayout layout;
        SparseTarget target;

        if (sparse_frame_layout(reader, index, SPARSE_FORMAT_NATIVE, &layout, NULL) < 0 ||
            layout.size > FUZZ_MAX_PICTURE)
            continue;
        target = (SparseTarget){.data = malloc(layout.size), .size = layout.size};
        if (target.data)
            sparse_get_frames(reader, &index, 1, SPARSE_FORMAT_NATIVE, &target, 0, 0, NULL);
        free(target.data);
    }
    sparse_close(&reader);
    return 0;
}
