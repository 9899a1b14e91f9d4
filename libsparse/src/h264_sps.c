/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "h264_sps.h"

#include <string.h>

enum { MAX_SPS_BYTES = 1024 };

typedef struct Bits {
    const uint8_t *data;
    size_t size, at; /* in bits */
    int failed;      /* read past the end */
} Bits;

static unsigned bit(Bits *b)
{
    unsigned value;

    if (b->at >= b->size) {
        b->failed = 1;
        return 0;
    }
    value = b->data[b->at >> 3] >> (7 - (b->at & 7)) & 1;
    b->at++;
    return value;
}

static unsigned bits(Bits *b, int count)
{
    unsigned value = 0;

    while (count-- > 0)
        value = value << 1 | bit(b);
    return value;
}

static unsigned golomb(Bits *b)
{
    int zeros = 0;

    while (!b->failed && zeros < 32 && !bit(b))
        zeros++;
    if (zeros >= 32) {
        b->failed = 1;
        return 0;
    }
    return (1u << zeros) - 1 + bits(b, zeros);
}

static int signed_golomb(Bits *b)
{
    unsigned value = golomb(b);

    return value & 1 ? (int)(value / 2 + 1) : -(int)(value / 2);
}

static void skip_scaling_list(Bits *b, int size)
{
    int last = 8, next = 8;

    for (int i = 0; i < size && !b->failed; i++) {
        if (next)
            next = (last + signed_golomb(b)) & 0xff;
        if (next)
            last = next;
    }
}

static void skip_hrd(Bits *b)
{
    unsigned count = golomb(b) + 1;

    if (count > 32) {
        b->failed = 1;
        return;
    }
    bits(b, 8);
    for (unsigned i = 0; i < count && !b->failed; i++) {
        golomb(b);
        golomb(b);
        bit(b);
    }
    bits(b, 20);
}

static void parse_vui(Bits *b, SparseH264Sps *sps)
{
    static const uint8_t ratios[17][2] = {
        {0, 1},   {1, 1},   {12, 11}, {10, 11}, {16, 11},  {40, 33}, {24, 11}, {20, 11}, {32, 11},
        {80, 33}, {18, 11}, {15, 11}, {64, 33}, {160, 99}, {4, 3},   {3, 2},   {2, 1},
    };
    unsigned nal_hrd, vcl_hrd;

    if (bit(b)) {
        unsigned ratio = bits(b, 8);

        if (ratio == 255) {
            sps->sar_num = (int)bits(b, 16);
            sps->sar_den = (int)bits(b, 16);
        } else if (ratio < 17) {
            sps->sar_num = ratios[ratio][0];
            sps->sar_den = ratios[ratio][1];
        }
        if (!sps->sar_num || !sps->sar_den) {
            sps->sar_num = 0;
            sps->sar_den = 1;
        }
    }
    if (bit(b)) /* overscan */
        bit(b);
    if (bit(b)) {
        bits(b, 3);
        sps->full_range = (int)bit(b);
        if (bit(b)) {
            sps->primaries = (int)bits(b, 8);
            sps->transfer = (int)bits(b, 8);
            sps->matrix = (int)bits(b, 8);
        }
    }
    if (bit(b)) { /* chroma location */
        golomb(b);
        golomb(b);
    }
    if (bit(b)) { /* timing */
        bits(b, 32);
        bits(b, 32);
        bit(b);
    }
    nal_hrd = bit(b);
    if (nal_hrd)
        skip_hrd(b);
    vcl_hrd = bit(b);
    if (vcl_hrd)
        skip_hrd(b);
    if (nal_hrd || vcl_hrd)
        bit(b);
    bit(b); /* pic_struct_present_flag */
    if (bit(b)) {
        unsigned reorder;

        bit(b);
        for (int i = 0; i < 4; i++)
            golomb(b);
        reorder = golomb(b);
        golomb(b);
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

static int parse(Bits *b, SparseH264Sps *sps)
{
    unsigned width, height, frames_only, crop[4] = {0};
    int unit_x, unit_y, separate = 0;

    sps->profile = (int)bits(b, 8);
    sps->constraints = (int)bits(b, 8);
    sps->level = (int)bits(b, 8);
    golomb(b);
    sps->chroma_format = 1;
    sps->bit_depth_luma = sps->bit_depth_chroma = 8;
    if (is_high(sps->profile)) {
        unsigned chroma = golomb(b), luma_depth, chroma_depth;

        if (chroma > 3)
            return 0;
        sps->chroma_format = (int)chroma;
        if (chroma == 3)
            separate = (int)bit(b);
        luma_depth = golomb(b);
        chroma_depth = golomb(b);
        if (luma_depth > 6 || chroma_depth > 6)
            return 0;
        sps->bit_depth_luma += (int)luma_depth;
        sps->bit_depth_chroma += (int)chroma_depth;
        bit(b);
        if (bit(b))
            for (int i = 0; i < (chroma == 3 ? 12 : 8); i++)
                if (bit(b))
                    skip_scaling_list(b, i < 6 ? 16 : 64);
    }
    golomb(b);
    sps->poc_type = (int)golomb(b);
    if (sps->poc_type == 0) {
        golomb(b);
    } else if (sps->poc_type == 1) {
        unsigned count;

        bit(b);
        golomb(b);
        golomb(b);
        count = golomb(b);
        if (count > 255)
            return 0;
        while (count-- > 0)
            golomb(b);
    } else if (sps->poc_type != 2) {
        return 0;
    }
    golomb(b);
    bit(b);
    width = golomb(b) + 1;
    height = golomb(b) + 1;
    if (width > 4096 || height > 4096 || separate)
        return 0;
    frames_only = bit(b);
    height *= 2 - frames_only;
    if (!frames_only)
        bit(b);
    bit(b);
    if (bit(b))
        for (int i = 0; i < 4; i++)
            crop[i] = golomb(b);
    unit_x = sps->chroma_format == 1 || sps->chroma_format == 2 ? 2 : 1;
    unit_y = (sps->chroma_format == 1 ? 2 : 1) * (frames_only ? 1 : 2);
    for (int i = 0; i < 4; i++)
        if (crop[i] > 16384)
            return 0;
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
    if (bit(b))
        parse_vui(b, sps);
    return !b->failed;
}

int sparse_h264_parse_sps(const uint8_t *nal, size_t size, SparseH264Sps *sps)
{
    uint8_t payload[MAX_SPS_BYTES];
    size_t used = 0;
    int zeros = 0;

    memset(sps, 0, sizeof(*sps));
    if (size < 5 || size > MAX_SPS_BYTES || (nal[0] & 0x1f) != 7)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if (zeros >= 2 && nal[i] == 3) {
            zeros = 0;
            continue;
        }
        zeros = nal[i] ? 0 : zeros + 1;
        payload[used++] = nal[i];
    }
    return parse(&(Bits){.data = payload, .size = used * 8}, sps);
}

int sparse_avcc_open(SparseAvcc *avcc, const uint8_t *data, size_t size)
{
    if (!data || size < 7 || data[0] != 1)
        return 0;
    avcc->length_size = (data[4] & 3) + 1;
    avcc->sps_left = data[5] & 0x1f;
    avcc->at = data + 6;
    avcc->end = data + size;
    return 1;
}

int sparse_avcc_next_sps(SparseAvcc *avcc, const uint8_t **nal, size_t *size)
{
    size_t length;

    if (avcc->sps_left == 0)
        return 0;
    if (avcc->end - avcc->at < 2)
        return -1;
    length = (size_t)avcc->at[0] << 8 | avcc->at[1];
    avcc->at += 2;
    if ((size_t)(avcc->end - avcc->at) < length)
        return -1;
    *nal = avcc->at;
    *size = length;
    avcc->at += length;
    avcc->sps_left--;
    return 1;
}
