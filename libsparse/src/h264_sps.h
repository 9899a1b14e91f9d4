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

#include "bits.h"

typedef struct SparseH264Sps {
    int profile, constraints, level; /* constraints: the flags' byte */
    int chroma_format;               /* 0 gray .. 3 4:4:4 */
    int bit_depth_luma, bit_depth_chroma;
    uint32_t id;
    uint32_t log2_max_frame_num, log2_max_poc_lsb, max_references;
    int poc_type;
    int frames_only;             /* frame_mbs_only_flag */
    int width, height;           /* after cropping */
    int crop_left, crop_top;     /* samples */
    int coded_width, coded_height;
    int sar_num, sar_den;        /* 0/1 when not told */
    int full_range;              /* -1 when not told */
    int primaries, transfer, matrix; /* 2: unspecified */
    int restricted;              /* 1: num_reorder_frames is told */
    int num_reorder_frames;
    int regular; /* 1: all values are in the ranges of the standard, and the set ends where it
                    should, so that FFmpeg reads the same */
} SparseH264Sps;

/* Parse one NAL unit, header byte and emulation prevention included; 0 when it
 * isn't a sequence parameter set that can be read in full, else 1. */
int sparse_h264_parse_sps(const uint8_t *nal, size_t size, SparseH264Sps *sps);

/* Pass over count of the scaling lists of a parameter set (H.264 7.3.2.1.1.1), of which the first
 * six are of 4x4 coefficients. 0 when one has a value that isn't allowed. */
int sparse_h264_skip_scaling_lists(SparseBits *bits, int count);

/* The avcC box as an iterator over its parameter sets. */
typedef struct SparseAvcc {
    int length_size; /* of the NAL units in packets */
    int sps_left;
    int pps_left; /* -1: not known yet */
    const uint8_t *at, *end;
} SparseAvcc;

/* 0 when it isn't an avcC box. It refers to data. */
int sparse_avcc_open(SparseAvcc *avcc, const uint8_t *data, size_t size);
/* The next parameter set: 1, 0 after the last one, -1 when the box is broken. */
int sparse_avcc_next_sps(SparseAvcc *avcc, const uint8_t **nal, size_t *size);
/* The same for picture parameter sets, after the last sequence parameter set. */
int sparse_avcc_next_pps(SparseAvcc *avcc, const uint8_t **nal, size_t *size);

#endif /* SPARSE_H264_SPS_H */
