/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Rows of 8-bit YUV with half the chroma columns to RGB: what swscale's x86 code
 * for yuv420p and yuv422p to rgb24 gives, byte for byte, in wider steps.
 */
#ifndef SPARSE_YUV_RGB_H
#define SPARSE_YUV_RGB_H

#include <stddef.h>
#include <stdint.h>

/* A matrix, in swscale's fixed point: 13 bits of fraction, 3 for the offset. */
typedef struct SparseYuvMatrix {
    int16_t luma, luma_offset;
    int16_t v_to_red, u_to_green, v_to_green, u_to_blue;
} SparseYuvMatrix;

/* Whether this processor has what it takes. Thread-safety: safe, as are all here. */
int sparse_yuv_rgb_usable(void);

/* Fill the matrix from swscale's coefficients of a colour space and its range, as
 * sws_getColorspaceDetails() tells them; brightness, contrast and saturation as they are. */
void sparse_yuv_rgb_matrix(SparseYuvMatrix *matrix, const int coefficients[4], int full_range);

/* One row of width pixels, from (width + 1) / 2 samples of chroma, to rgb24. Nothing outside of
 * them is read or written. */
void sparse_yuv_rgb_row(const SparseYuvMatrix *matrix, const uint8_t *y, const uint8_t *u,
                        const uint8_t *v, uint8_t *rgb, size_t width);

/* The same to a row of each of three planes. */
void sparse_yuv_rgb_row_planar(const SparseYuvMatrix *matrix, const uint8_t *y, const uint8_t *u,
                               const uint8_t *v, uint8_t *red, uint8_t *green, uint8_t *blue,
                               size_t width);

#endif /* SPARSE_YUV_RGB_H */
