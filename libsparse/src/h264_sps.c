/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "h264_sps.h"

#include <string.h>

#include "bits.h"

enum { MAX_SPS_BYTES = 1024 };

int sparse_h264_skip_scaling_lists(SparseBits *b, int count)
{
    int regular = 1;

    for (int k = 0; k < count && !b->failed; k++) {
        int last = 8, next = 8, size = k < 6 ? 16 : 64;

        if (!sparse_bit(b))
            continue;
        for (int i = 0; i < size && next && !b->failed; i++) {
            int delta = sparse_bits_se(b);

            regular &= delta >= -128 && delta <= 127;
            next = (last + delta) & 0xff;
            if (next)
                last = next;
        }
    }
    return regular;
}

static void skip_hrd(SparseBits *b)
{
    unsigned count = sparse_bits_ue(b);

    if (count++ > 31) {
        b->failed = 1;
        return;
    }
    sparse_bits(b, 8);
    for (unsigned i = 0; i < count && !b->failed; i++) {
        sparse_bits_ue(b);
        sparse_bits_ue(b);
        sparse_bit(b);
    }
    sparse_bits(b, 20);
}

static void parse_vui(SparseBits *b, SparseH264Sps *sps)
{
    static const uint8_t ratios[17][2] = {
        {0, 1},   {1, 1},   {12, 11}, {10, 11}, {16, 11},  {40, 33}, {24, 11}, {20, 11}, {32, 11},
        {80, 33}, {18, 11}, {15, 11}, {64, 33}, {160, 99}, {4, 3},   {3, 2},   {2, 1},
    };
    unsigned nal_hrd, vcl_hrd;

    if (sparse_bit(b)) {
        unsigned ratio = sparse_bits(b, 8);

        if (ratio == 255) {
            sps->sar_num = (int)sparse_bits(b, 16);
            sps->sar_den = (int)sparse_bits(b, 16);
        } else if (ratio < 17) {
            sps->sar_num = ratios[ratio][0];
            sps->sar_den = ratios[ratio][1];
        }
        /* FFmpeg keeps no other, and begins anew at each picture whose own it didn't keep */
        if (ratio >= 17)
            sps->regular &= ratio == 255 && sps->sar_num && sps->sar_den &&
                            sps->sar_num <= 8 * sps->sar_den && sps->sar_den <= 8 * sps->sar_num;
        if (!sps->sar_num || !sps->sar_den) {
            sps->sar_num = 0;
            sps->sar_den = 1;
        }
    }
    if (sparse_bit(b)) /* overscan */
        sparse_bit(b);
    if (sparse_bit(b)) {
        sparse_bits(b, 3);
        sps->full_range = (int)sparse_bit(b);
        if (sparse_bit(b)) {
            sps->primaries = (int)sparse_bits(b, 8);
            sps->transfer = (int)sparse_bits(b, 8);
            sps->matrix = (int)sparse_bits(b, 8);
        }
    }
    if (sparse_bit(b)) { /* chroma location */
        sps->regular &= sparse_bits_ue(b) <= 5;
        sps->regular &= sparse_bits_ue(b) <= 5;
    }
    if (sparse_bit(b)) { /* timing */
        sparse_bits(b, 32);
        sparse_bits(b, 32);
        sparse_bit(b);
    }
    nal_hrd = sparse_bit(b);
    if (nal_hrd)
        skip_hrd(b);
    vcl_hrd = sparse_bit(b);
    if (vcl_hrd)
        skip_hrd(b);
    if (nal_hrd || vcl_hrd)
        sparse_bit(b);
    sparse_bit(b); /* pic_struct_present_flag */
    if (sparse_bit(b)) {
        unsigned reorder;

        sparse_bit(b);
        for (int i = 0; i < 4; i++)
            sps->regular &= sparse_bits_ue(b) <= 16;
        reorder = sparse_bits_ue(b);
        sps->regular &= sparse_bits_ue(b) <= 16;
        if (b->failed || reorder > 16)
            b->failed = 1;
        sps->restricted = 1;
        sps->num_reorder_frames = (int)reorder;
    }
}

static int is_high(int profile)
{
    static const int high[] = {100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 144};

    for (size_t i = 0; i < sizeof(high) / sizeof(high[0]); i++)
        if (profile == high[i])
            return 1;
    return 0;
}

static int parse(SparseBits *b, SparseH264Sps *sps)
{
    unsigned width, height, frames_only, crop[4] = {0};
    int unit_x, unit_y, separate = 0;

    sps->profile = (int)sparse_bits(b, 8);
    sps->constraints = (int)sparse_bits(b, 8);
    sps->level = (int)sparse_bits(b, 8);
    sps->id = sparse_bits_ue(b);
    sps->chroma_format = 1;
    sps->bit_depth_luma = sps->bit_depth_chroma = 8;
    if (is_high(sps->profile)) {
        unsigned chroma = sparse_bits_ue(b), luma_depth, chroma_depth;

        if (chroma > 3)
            return 0;
        sps->chroma_format = (int)chroma;
        if (chroma == 3)
            separate = (int)sparse_bit(b);
        luma_depth = sparse_bits_ue(b);
        chroma_depth = sparse_bits_ue(b);
        if (luma_depth > 6 || chroma_depth > 6)
            return 0;
        sps->bit_depth_luma += (int)luma_depth;
        sps->bit_depth_chroma += (int)chroma_depth;
        sparse_bit(b);
        if (sparse_bit(b))
            sps->regular &= sparse_h264_skip_scaling_lists(b, chroma == 3 ? 12 : 8);
    }
    sps->log2_max_frame_num = sparse_bits_ue(b) + 4;
    sps->poc_type = (int)sparse_bits_ue(b);
    if (sps->poc_type == 0) {
        sps->log2_max_poc_lsb = sparse_bits_ue(b) + 4;
    } else if (sps->poc_type == 1) {
        unsigned count;

        sparse_bit(b);
        sparse_bits_ue(b);
        sparse_bits_ue(b);
        count = sparse_bits_ue(b);
        if (count > 255)
            return 0;
        while (count-- > 0)
            sparse_bits_ue(b);
    } else if (sps->poc_type != 2) {
        return 0;
    }
    sps->max_references = sparse_bits_ue(b);
    sparse_bit(b);
    width = sparse_bits_ue(b) + 1;
    height = sparse_bits_ue(b) + 1;
    if (width > 4096 || height > 4096 || separate)
        return 0;
    frames_only = sparse_bit(b);
    height *= 2 - frames_only;
    sps->frames_only = (int)frames_only;
    if (!frames_only)
        sparse_bit(b);
    sparse_bit(b);
    if (sparse_bit(b))
        for (int i = 0; i < 4; i++)
            crop[i] = sparse_bits_ue(b);
    unit_x = sps->chroma_format == 1 || sps->chroma_format == 2 ? 2 : 1;
    unit_y = (sps->chroma_format == 1 ? 2 : 1) * (frames_only ? 1 : 2);
    for (int i = 0; i < 4; i++) {
        if (crop[i] > 16384)
            return 0;
        sps->regular &= crop[i] <= 8190; /* the most that FFmpeg reads */
    }
    sps->coded_width = (int)width * 16;
    sps->coded_height = (int)height * 16;
    sps->crop_left = (int)crop[0] * unit_x;
    sps->crop_top = (int)crop[2] * unit_y;
    sps->width = sps->coded_width - (int)(crop[0] + crop[1]) * unit_x;
    sps->height = sps->coded_height - (int)(crop[2] + crop[3]) * unit_y;
    if (sps->width <= 0 || sps->height <= 0)
        return 0;
    sps->sar_den = 1;
    sps->full_range = -1;
    sps->primaries = sps->transfer = sps->matrix = 2;
    if (sparse_bit(b))
        parse_vui(b, sps);
    return !b->failed;
}

/* Whether all values are in the ranges that H.264 (7.4.2.1.1, E.2.1) and FFmpeg know. */
static int in_range(const SparseH264Sps *sps)
{
    const int depth = sps->bit_depth_luma;

    return sps->id <= 31 && sps->bit_depth_chroma == depth &&
           (depth <= 10 || depth == 12 || depth == 14) && sps->log2_max_frame_num <= 16 &&
           sps->log2_max_poc_lsb <= 16 && sps->max_references <= 16 && sps->coded_width <= 16384 &&
           sps->coded_height <= 16384;
}

int sparse_h264_parse_sps(const uint8_t *nal, size_t size, SparseH264Sps *sps)
{
    uint8_t payload[MAX_SPS_BYTES + SPARSE_BITS_PADDING];
    SparseBits bits = {.data = payload};
    size_t used = 0;
    int zeros = 0;

    memset(sps, 0, sizeof(*sps));
    sps->regular = 1;
    if (size < 5 || size > MAX_SPS_BYTES || (nal[0] & 0x1f) != 7)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if (zeros >= 2 && nal[i] == 3) {
            zeros = 0;
            continue;
        }
        sps->regular &= zeros < 2 || nal[i] > 3;
        zeros = nal[i] ? 0 : zeros + 1;
        payload[used++] = nal[i];
    }
    memset(payload + used, 0, SPARSE_BITS_PADDING);
    bits.size = used * 8;
    if (!parse(&bits, sps))
        return 0;
    sps->regular &= !(nal[0] & 0x80) && nal[size - 1] &&
                    bits.at == sparse_bits_stop(payload, used) && in_range(sps);
    return 1;
}

int sparse_avcc_open(SparseAvcc *avcc, const uint8_t *data, size_t size)
{
    if (!data || size < 7 || data[0] != 1)
        return 0;
    avcc->length_size = (data[4] & 3) + 1;
    avcc->sps_left = data[5] & 0x1f;
    avcc->pps_left = -1;
    avcc->at = data + 6;
    avcc->end = data + size;
    return 1;
}

static int next_set(SparseAvcc *avcc, const uint8_t **nal, size_t *size)
{
    size_t length;

    if (avcc->end - avcc->at < 2)
        return -1;
    length = (size_t)avcc->at[0] << 8 | avcc->at[1];
    avcc->at += 2;
    if ((size_t)(avcc->end - avcc->at) < length)
        return -1;
    *nal = avcc->at;
    *size = length;
    avcc->at += length;
    return 1;
}

int sparse_avcc_next_sps(SparseAvcc *avcc, const uint8_t **nal, size_t *size)
{
    int ret = avcc->sps_left ? next_set(avcc, nal, size) : 0;

    avcc->sps_left -= ret > 0;
    return ret;
}

int sparse_avcc_next_pps(SparseAvcc *avcc, const uint8_t **nal, size_t *size)
{
    int ret;

    if (avcc->pps_left < 0) {
        if (avcc->sps_left || avcc->at == avcc->end)
            return -1;
        avcc->pps_left = *avcc->at++;
    }
    ret = avcc->pps_left ? next_set(avcc, nal, size) : 0;
    avcc->pps_left -= ret > 0;
    return ret;
}
