/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Interleaved pixels to planes.
 */
#ifndef SPARSE_PLANAR_H
#define SPARSE_PLANAR_H

#include <stddef.h>
#include <stdint.h>

/* One row of width pixels of three bytes into three rows. Thread-safety: safe. */
void sparse_split_rgb(const uint8_t *row, uint8_t *red, uint8_t *green, uint8_t *blue,
                      size_t width);

#endif /* SPARSE_PLANAR_H */
