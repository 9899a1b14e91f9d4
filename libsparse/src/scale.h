/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Pictures to 8-bit RGB or gray of any size, by swscale.
 */
#ifndef SPARSE_SCALE_H
#define SPARSE_SCALE_H

#include <libavutil/frame.h>

#include "error.h"
#include "sparse.h"

/* Keeps swscale's tables from one picture to the next. One thread at a time. */
typedef struct SparseScaler SparseScaler;

int sparse_scaler_create(SparseScaler **scaler, SparseError *error);
void sparse_scaler_free(SparseScaler **scaler);

/* What is wanted, and where. */
typedef struct SparseScaling {
    enum AVPixelFormat format; /* AV_PIX_FMT_RGB24 or _GRAY8 */
    int width, height;
    int filter; /* enum SparseFilter */
    uint8_t *data;
    size_t step;       /* bytes from one row to the next */
    size_t plane_step; /* RGB24: from the red plane to the green one; 0: interleaved */
} SparseScaling;

/* Convert a frame. Nothing is written outside the rows. Messages name no file. */
int sparse_scale(SparseScaler *scaler, const AVFrame *frame, const SparseScaling *to,
                 SparseError *error);

#endif /* SPARSE_SCALE_H */
