/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The way from bytes to facts and a table of frames: the demuxers, the packet
 * table and the whole header pass. Nothing is reconstructed.
 */
#include "sparse.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SparseFrameInfo frames[FUZZ_MAX_FRAMES];
    SparseReader *reader = NULL;
    SparseSettings settings;
    SparseInfo info;
    int64_t count;

    if (size > FUZZ_MAX_SIZE)
        return 0;
    sparse_default_settings(&settings);
    if (sparse_open_memory(&reader, data, size, &settings, NULL) < 0)
        return 0;
    sparse_info(reader, &info, NULL);
    count = sparse_frame_count(reader, NULL);
    if (count > 0)
        sparse_frame_info(reader, 0, count < FUZZ_MAX_FRAMES ? count : FUZZ_MAX_FRAMES, frames,
                          NULL);
    sparse_close(&reader);
    return 0;
}
