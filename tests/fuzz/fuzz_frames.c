/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Header passes and pictures that are restored: frames in an order that the
 * last bytes of the input choose, with a whole index or a lazy one. A frame
 * that is returned has to be the linear decode's.
 */
#include <stdlib.h>
#include <string.h>

#include "sparse.h"
#include "target.h"

enum { REQUESTS = 6 };

typedef struct Frames {
    uint8_t *data[FUZZ_MAX_FRAMES];
    size_t size[FUZZ_MAX_FRAMES];
    int64_t count;
} Frames;

static void decode_linearly(SparseReader *reader, Frames *frames)
{
    SparseLinear *linear = NULL;
    SparseLayout layout;

    if (sparse_linear_open(&linear, reader, NULL) < 0)
        return;
    while (frames->count < FUZZ_MAX_FRAMES &&
           sparse_linear_peek(linear, SPARSE_FORMAT_NATIVE, &layout, NULL) == 1 &&
           layout.size <= FUZZ_MAX_PICTURE) {
        SparseTarget target = {.data = malloc(layout.size), .size = layout.size};

        if (!target.data)
            break;
        if (sparse_linear_next(linear, SPARSE_FORMAT_NATIVE, &target, NULL, NULL, NULL) != 1) {
            free(target.data);
            break;
        }
        frames->data[frames->count] = target.data;
        frames->size[frames->count++] = layout.size;
    }
    sparse_linear_close(&linear);
}

/* H.264 is excepted: its linear decode may dirty the picture after a damaged one; and AV1, of which
 * a linear decode doesn't count damaged frames. See docs/how-it-works.md for both. */
static int is_judge(SparseReader *reader, int lazy)
{
    SparseInfo info;

    return !lazy && sparse_info(reader, &info, NULL) >= 0 && info.sparse &&
           strcmp(info.codec, "h264") != 0 && strcmp(info.codec, "av1") != 0;
}

static void request(SparseReader *reader, const Frames *frames, int64_t index, int judge)
{
    SparseLayout layout;
    SparseTarget target;

    if (sparse_frame_layout(reader, index, SPARSE_FORMAT_NATIVE, &layout, NULL) < 0 ||
        layout.size > FUZZ_MAX_PICTURE)
        return;
    target = (SparseTarget){.data = malloc(layout.size), .size = layout.size};
    if (target.data &&
        sparse_get_frames(reader, &index, 1, SPARSE_FORMAT_NATIVE, &target, 0, 0, NULL) >= 0 &&
        judge && index < frames->count &&
        (frames->size[index] != layout.size ||
         memcmp(frames->data[index], target.data, layout.size) != 0))
        abort();
    free(target.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Frames frames = {{NULL}, {0}, 0};
    SparseReader *reader = NULL;
    SparseSettings settings;
    int64_t count;

    if (size > FUZZ_MAX_SIZE || size < REQUESTS + 1)
        return 0;
    sparse_default_settings(&settings);
    settings.index_mode = data[size - 1] & 1 ? SPARSE_INDEX_LAZY : SPARSE_INDEX_WHOLE;
    if (sparse_open_memory(&reader, data, size, &settings, NULL) < 0)
        return 0;
    count = sparse_frame_count(reader, NULL);
    if (count > 0) {
        int judge = is_judge(reader, settings.index_mode == SPARSE_INDEX_LAZY);

        if (judge)
            decode_linearly(reader, &frames);
        for (int i = 0; i < REQUESTS; i++)
            request(reader, &frames, data[size - 2 - i] % count, judge);
    }
    sparse_close(&reader);
    for (int64_t i = 0; i < frames.count; i++)
        free(frames.data[i]);
    return 0;
}
