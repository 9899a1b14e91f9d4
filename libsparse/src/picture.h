/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What is known of one picture, and of one frame of the order of display.
 */
#ifndef SPARSE_PICTURE_H
#define SPARSE_PICTURE_H

#include <stdint.h>

/*
 * The colour description a frame was put out with. The decoder fills in at output what a
 * picture leaves open, from the parameter sets of that moment, which may be later
 * ones than the picture's own.
 */
typedef struct SparseColors {
    uint8_t known; /* whether the output has been seen */
    uint8_t range, space, location; /* AVCOL_RANGE_*, AVCOL_SPC_*, AVCHROMA_LOC_* */
} SparseColors;

/* What is known of one packet; a picture is known by the packet it begins in. */
typedef struct SparsePicture {
    int32_t picture;       /* that the packet's slices belong to; -1: none */
    int32_t last_packet;   /* of the picture that begins here */
    uint32_t flags;        /* FF_SPARSE_REPORT_*, of all its packets */
    int32_t poc;
    int32_t width, height; /* as put out */
    int32_t format;        /* enum AVPixelFormat */
    int32_t reference_count;
    char type;      /* 'I', 'P', 'B' or '?' */
    int32_t params; /* number of the parameter-set epoch */
    SparseColors colors;
    int32_t shown;  /* how many packets had been passed when it was put out; 0: it wasn't */
    int32_t times_shown;
} SparsePicture;

/* One entry of the display order. */
typedef struct SparseDisplay {
    int64_t picture;
    int64_t pts; /* AV_NOPTS_VALUE when unknown */
} SparseDisplay;

#endif /* SPARSE_PICTURE_H */
