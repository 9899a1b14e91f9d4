/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What an avcC box tells of a stream without any of its packets.
 */
#ifndef SPARSE_H264_SPS_H
#define SPARSE_H264_SPS_H

#include <stddef.h>
#include <stdint.h>

typedef struct SparseH264Sps {
    int profile, constraints, level; /* constraints: the flags' byte */
    int chroma_format;               /* 0 gray .. 3 4:4:4 */
    int bit_depth_luma, bit_depth_chroma;
    int poc_type;
    int width, height;           /* after cropping */
    int crop_left, crop_top;     /* samples */
    int coded_width, coded_height;
    int sar_num, sar_den;        /* 0/1 when not told */
    int full_range;              /* -1 when not told */
    int primaries, transfer, matrix; /* 2: unspecified */
    int restricted;              /* 1: num_reorder_frames is told */
    int num_reorder_frames;
} SparseH264Sps;

/* Parse one NAL unit, header byte and emulation prevention included; 0 when it
 * isn't a sequence parameter set that can be read in full, else 1. */
int sparse_h264_parse_sps(const uint8_t *nal, size_t size, SparseH264Sps *sps);

/* The avcC box as an iterator over its sequence parameter sets. */
typedef struct SparseAvcc {
    int length_size; /* of the NAL units in packets */
    int sps_left;
    const uint8_t *at, *end;
} SparseAvcc;

/* 0 when it isn't an avcC box. It refers to data. */
int sparse_avcc_open(SparseAvcc *avcc, const uint8_t *data, size_t size);
/* The next parameter set: 1, 0 after the last one, -1 when the box is broken. */
int sparse_avcc_next_sps(SparseAvcc *avcc, const uint8_t **nal, size_t *size);

#endif /* SPARSE_H264_SPS_H */
