/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the parameter sets of HEVC tell that slice headers and the order of output depend on.
 * Clauses are those of ITU-T H.265.
 */
#ifndef SPARSE_HEVC_SETS_H
#define SPARSE_HEVC_SETS_H

#include <stddef.h>
#include <stdint.h>

#include "bits.h"

enum {
    SPARSE_HEVC_MAX_DELTAS = 16, /* of a reference picture set: the size of the DPB */
    SPARSE_HEVC_MAX_RPS = 64,
    SPARSE_HEVC_MAX_SET = 2048 /* bytes of a parameter set */
};

/* A short-term reference picture set (7.4.8): those before the picture, the nearest first, and
 * then those after it. */
typedef struct SparseHevcRps {
    int count;
    int used; /* how many of them the picture itself may refer to */
    struct {
        int32_t delta; /* of POC; never 0, and each once */
        int used;
    } pictures[SPARSE_HEVC_MAX_DELTAS];
} SparseHevcRps;

typedef struct SparseHevcSps {
    uint32_t id, vps;
    uint32_t profile;
    uint32_t chroma_format;
    int depth;
    uint32_t width, height;
    uint32_t log2_max_poc_lsb;
    uint32_t max_pictures, max_reorder; /* of the highest sub-layer */
    uint32_t log2_ctb, log2_diff_cb;
    uint32_t ctb_width, ctb_height;
    int sao, temporal_mvp;
    uint32_t rps_count;
    SparseHevcRps rps[SPARSE_HEVC_MAX_RPS];
} SparseHevcSps;

typedef struct SparseHevcPps {
    uint32_t id;
    int dependent, output_flag, extra_bits, cabac_init;
    uint32_t counts[2]; /* num_ref_idx_l0/1_default_active_minus1 + 1 */
    int init_qp;
    int chroma_offsets, chroma_offset_list, weighted, weighted_b;
    int tiles, wavefront, loop_across_slices;
    int deblocking_control, deblocking_override, deblocking_disabled;
    int list_modification, extension;
} SparseHevcPps;

/*
 * Parse one NAL unit, header and emulation prevention included. 1, or 0 when it isn't such a set of
 * the base layer, has a value out of range, doesn't end where it should, or uses what isn't known
 * here (long-term pictures, HRD, a default display window, fields, and most extensions).
 */
int sparse_hevc_parse_vps(const uint8_t *nal, size_t size, uint32_t *id);
int sparse_hevc_parse_sps(const uint8_t *nal, size_t size, SparseHevcSps *sps);
int sparse_hevc_parse_pps(const uint8_t *nal, size_t size, const SparseHevcSps *sps,
                          SparseHevcPps *pps);

/* st_ref_pic_set(number) (7.3.7): of a slice header when number is the SPS's count. 1, or 0. */
int sparse_hevc_parse_rps(SparseBits *bits, const SparseHevcSps *sps, uint32_t number,
                          SparseHevcRps *rps);

/* Ceil(Log2(value)) */
int sparse_ceil_log2(uint32_t value);

#endif /* SPARSE_HEVC_SETS_H */
