/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Requests through saved indexes that were forged, for the sanitizers:
 *
 *     check_forged [-k MIB] VIDEO INDEXES [FIRST [COUNT]]
 *
 * INDEXES holds one index after the other, each after its size as four bytes, little endian. They
 * are taken in turn by readers of one pool, which keeps pictures in so much memory (0: none).
 * What is refused is refused; all that could go wrong is a crash. Prints a line for each thousand,
 * and at last how many were refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "sparse.h"

enum { MAX_FRAMES = 6, MAX_INDEX = 1 << 26 };

/* Read the next index: 1, 0 at the end, or -1. */
static int next_index(FILE *file, uint8_t **data, uint32_t *size)
{
    uint8_t head[4];

    if (fread(head, 1, sizeof(head), file) != sizeof(head))
        return feof(file) ? 0 : -1;
    *size = head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 24;
    if (!*size || *size > MAX_INDEX)
        return -1;
    *data = malloc(*size);
    if (*data && fread(*data, 1, *size, file) == *size)
        return 1;
    free(*data);
    return -1;
}

/* A few frames at random; negative when they are refused. */
static int request(SparseReader *reader, uint32_t *state, SparseError *error)
{
    SparseTarget targets[MAX_FRAMES] = {{NULL}};
    int64_t indices[MAX_FRAMES], frames = sparse_frame_count(reader, error);
    int ret = frames < 0 ? (int)frames : 0, width = 0, height = 0;

    if (frames <= 0)
        return ret;
    for (int k = 0; k < MAX_FRAMES && ret >= 0; k++) {
        SparseLayout layout;

        /* from one part of the file, mostly */
        indices[k] = k && next_random(state) % 4 ? (indices[0] + next_random(state) % 8) % frames
                                                 : next_random(state) % frames;
        ret = sparse_frame_layout(reader, indices[k], SPARSE_FORMAT_RGB24, &layout, error);
        if (ret < 0)
            break;
        if (!k) {
            width = layout.width;
            height = layout.height;
        }
        targets[k] = (SparseTarget){.data = malloc(layout.size), .size = layout.size};
    }
    if (ret >= 0)
        ret = sparse_get_frames(reader, indices, MAX_FRAMES, SPARSE_FORMAT_RGB24, targets, width,
                                height, error);
    for (int k = 0; k < MAX_FRAMES; k++)
        free(targets[k].data);
    return ret;
}

static int try_index(const char *video, const uint8_t *data, size_t size, SparsePool *pool,
                     uint32_t *state)
{
    SparseReader *reader = NULL;
    SparseSettings settings;
    SparseError error;
    int ret;

    sparse_default_settings(&settings);
    settings.pool = pool;
    settings.saved_data = data;
    settings.saved_size = size;
    ret = sparse_open_path(&reader, video, &settings, &error);
    for (int k = 0; k < 2 && ret >= 0; k++)
        ret = request(reader, state, &error);
    sparse_close(&reader);
    return ret;
}

int main(int argc, char **argv)
{
    SparsePool *pool = NULL;
    SparseError error;
    FILE *file = NULL;
    uint8_t *data;
    uint32_t size;
    int64_t budget = 0;
    long number = 0, tried = 0, refused = 0, first = 0, count = -1;
    int at = 1, ret;

    if (argc > 2 && strcmp(argv[1], "-k") == 0) {
        budget = atol(argv[2]);
        at = 3;
    }
    if (argc < at + 2) {
        fprintf(stderr, "usage: check_forged [-k MIB] VIDEO INDEXES [FIRST [COUNT]]\n");
        return 2;
    }
    if (argc > at + 2)
        first = atol(argv[at + 2]);
    if (argc > at + 3)
        count = atol(argv[at + 3]);
    file = fopen(argv[at + 1], "rb");
    if (!file || sparse_pool_create(&pool, budget << 20, &error) < 0) {
        fprintf(stderr, "%s can't be opened\n", argv[at + 1]);
        if (file)
            fclose(file);
        return 2;
    }
    while ((ret = next_index(file, &data, &size)) > 0 && (count < 0 || number < first + count)) {
        if (number >= first) {
            /* the same requests of an index, with or without those before it */
            uint32_t state = 1 + (uint32_t)number;

            refused += try_index(argv[at], data, size, pool, &state) < 0;
            tried++;
        }
        free(data);
        number++;
        if (number % 1000 == 0) {
            printf("%ld\n", number);
            fflush(stdout);
        }
    }
    if (ret > 0)
        free(data);
    fclose(file);
    sparse_pool_release(&pool);
    printf("%ld indexes, %ld refused\n", tried, refused);
    return ret < 0 ? 2 : 0;
}
