/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Decoded pictures into the caller's memory.
 */
#ifndef SPARSE_CONVERT_H
#define SPARSE_CONVERT_H

#include <libavutil/frame.h>

#include "error.h"
#include "sparse.h"

/* Keeps swscale's tables from one picture to the next. One thread at a time;
 * each worker has its own. */
typedef struct SparseConverter SparseConverter;

int sparse_converter_create(SparseConverter **converter, SparseError *error);
void sparse_converter_free(SparseConverter **converter);

/* What is done to a picture before it becomes RGB or gray; native planes stay as they are. */
typedef struct SparseTransform {
    int crop_left, crop_top, crop_width, crop_height; /* crop_width 0: the whole picture */
    int width, height;                                /* width 0: as it is then */
    int filter;                                       /* enum SparseFilter */
} SparseTransform;

/*
 * The layout of a picture of this pixel format and size in the given enum
 * SparseFormat; SPARSE_ERR_UNSUPPORTED for native formats that have no plain
 * planes (palette, bitstream, big endian over 8 bit, hardware).
 * transform may be NULL; SPARSE_ERR_ARGUMENT when it crops beyond the picture.
 * Messages name no file. Thread-safety: safe.
 */
int sparse_convert_layout(int format, enum AVPixelFormat pix_fmt, int width, int height,
                          const SparseTransform *transform, SparseLayout *layout,
                          SparseError *error);

/* Whether a picture of this layout fits into the target: SPARSE_ERR_ARGUMENT when it
 * doesn't, else 0 with the distance of rows in *step (of the first plane for native).
 * Messages name no file. Thread-safety: safe. */
int sparse_convert_check(const SparseLayout *layout, const SparseTarget *target, size_t *step,
                         SparseError *error);

/* Bytes from one plane of a planar picture to the next; 0 for others. step: of rows. */
size_t sparse_convert_plane_step(const SparseLayout *layout, const SparseTarget *target,
                                 size_t step);

/* Write the picture into *target. Nothing is written outside the rows'
 * width*channels bytes. Messages name no file. */
int sparse_convert_frame(SparseConverter *converter, const AVFrame *frame, int format,
                         const SparseTransform *transform, const SparseTarget *target,
                         SparseError *error);

#endif /* SPARSE_CONVERT_H */
