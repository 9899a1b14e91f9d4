/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "hevc_sets.h"

#include <stdlib.h>
#include <string.h>

enum {
    NAL_VPS = 32,
    NAL_SPS = 33,
    NAL_PPS = 34,
    HEADER = 2,        /* bytes of a NAL unit's header */
    PROFILE_BITS = 88, /* of profile_tier_level() without levels (7.3.3) */
    PROFILE_REXT = 4,
    MAX_SIZE = 16384
};

int sparse_ceil_log2(uint32_t value)
{
    return value > 1 ? 32 - sparse_leading_zeros(value - 1) : 0;
}

/* ---- NAL units ---- */

/* The payload of a NAL unit of a type, in the base layer; *stop: the place of its stop bit. */
static int open_unit(SparseBits *bits, uint8_t *payload, const uint8_t *nal, size_t size, int type,
                     size_t *stop)
{
    int64_t filled;

    if (size <= HEADER || size > SPARSE_HEVC_MAX_SET || nal[0] != type << 1 || nal[1] != 1 ||
        !nal[size - 1])
        return 0;
    filled = sparse_bits_unescape(nal + HEADER, size - HEADER, payload);
    if (filled <= 0)
        return 0;
    *bits = (SparseBits){.data = payload, .size = (size_t)filled * 8};
    *stop = sparse_bits_stop(payload, (size_t)filled);
    return 1;
}

static int ends_well(const SparseBits *bits, size_t stop)
{
    return !bits->failed && bits->at == stop;
}

/* ue(v) of at most most; else the set counts as failed. */
static uint32_t limited(SparseBits *bits, uint32_t most)
{
    uint32_t value = sparse_bits_ue(bits);

    if (value <= most)
        return value;
    bits->failed = 1;
    return most;
}

static int32_t limited_signed(SparseBits *bits, int32_t least, int32_t most)
{
    int32_t value = sparse_bits_se(bits);

    if (value >= least && value <= most)
        return value;
    bits->failed = 1;
    return least;
}

/* ---- Video parameter set (7.3.2.1) ---- */

int sparse_hevc_parse_vps(const uint8_t *nal, size_t size, uint32_t *id)
{
    uint8_t payload[SPARSE_HEVC_MAX_SET + SPARSE_BITS_PADDING];
    SparseBits bits;
    size_t stop;

    if (!open_unit(&bits, payload, nal, size, NAL_VPS, &stop))
        return 0;
    *id = sparse_bits(&bits, 4);
    if (sparse_bits(&bits, 2) != 3 || sparse_bits(&bits, 6) != 0) /* vps_max_layers_minus1 */
        return 0;
    sparse_bits(&bits, 4); /* sub-layers, temporal nesting */
    return sparse_bits(&bits, 16) == 0xffff && !bits.failed;
}

/* ---- Reference picture sets ---- */

static int add_picture(SparseHevcRps *rps, int64_t delta, int used)
{
    int place = 0;

    if (!delta || delta < -32768 || delta > 32767 || rps->count == SPARSE_HEVC_MAX_DELTAS)
        return 0;
    /* negative ones from -1 down, then positive ones from 1 up */
    while (place < rps->count) {
        int32_t other = rps->pictures[place].delta;

        if (other == delta)
            return 0;
        if (delta < 0 ? other > 0 || other < delta : other > delta)
            break;
        place++;
    }
    memmove(rps->pictures + place + 1, rps->pictures + place,
            (size_t)(rps->count - place) * sizeof(*rps->pictures));
    rps->pictures[place].delta = (int32_t)delta;
    rps->pictures[place].used = used;
    rps->count++;
    rps->used += used;
    return 1;
}

/* As a change of another set (7-61, 7-62). */
static int predict_rps(SparseBits *bits, const SparseHevcSps *sps, uint32_t number,
                       SparseHevcRps *rps)
{
    uint32_t back = 1, magnitude;
    const SparseHevcRps *other;
    int64_t change;
    int negative;

    if (number == sps->rps_count) {
        back = sparse_bits_ue(bits);
        if (back++ >= number)
            return 0;
    }
    other = &sps->rps[number - back];
    negative = (int)sparse_bit(bits);
    magnitude = sparse_bits_ue(bits);
    if (magnitude > 32767)
        return 0;
    change = negative ? -(int64_t)magnitude - 1 : (int64_t)magnitude + 1;
    for (int k = 0; k <= other->count; k++) {
        int used = (int)sparse_bit(bits);

        if ((used || sparse_bit(bits)) &&
            !add_picture(rps, change + (k < other->count ? other->pictures[k].delta : 0), used))
            return 0;
    }
    return !bits->failed;
}

int sparse_hevc_parse_rps(SparseBits *bits, const SparseHevcSps *sps, uint32_t number,
                          SparseHevcRps *rps)
{
    uint32_t counts[2];

    rps->count = rps->used = 0;
    if (number && sparse_bit(bits))
        return predict_rps(bits, sps, number, rps);
    for (int k = 0; k < 2; k++) {
        counts[k] = sparse_bits_ue(bits);
        if (counts[k] > SPARSE_HEVC_MAX_DELTAS - 1)
            return 0;
    }
    for (int k = 0; k < 2; k++) {
        int64_t delta = 0;

        for (uint32_t i = 0; i < counts[k]; i++) {
            int64_t step = (int64_t)sparse_bits_ue(bits) + 1;

            delta += k ? step : -step;
            if (bits->failed || !add_picture(rps, delta, (int)sparse_bit(bits)))
                return 0;
        }
    }
    return !bits->failed;
}

/* ---- Sequence parameter set (7.3.2.2) ---- */

static void skip_profile(SparseBits *bits, SparseHevcSps *sps, int sub_layers)
{
    uint32_t profiles, levels;

    if (sparse_bits(bits, 2))
        bits->failed = 1;
    sparse_bit(bits);
    sps->profile = sparse_bits(bits, 5);
    sparse_bits_skip(bits, PROFILE_BITS - 8);
    sparse_bits(bits, 8);
    if (sub_layers == 1)
        return;
    profiles = levels = 0;
    for (int i = 0; i < 8; i++) {
        profiles = profiles << 1 | sparse_bit(bits);
        levels = levels << 1 | sparse_bit(bits);
    }
    for (int i = 0; i < sub_layers - 1; i++) {
        if (profiles >> (7 - i) & 1)
            sparse_bits_skip(bits, PROFILE_BITS);
        if (levels >> (7 - i) & 1)
            sparse_bits(bits, 8);
    }
}

/* scaling_list_data() (7.3.4) */
static void skip_scaling_lists(SparseBits *bits)
{
    for (int size = 0; size < 4; size++)
        for (int matrix = 0; matrix < 6 && !bits->failed; matrix += size == 3 ? 3 : 1) {
            if (!sparse_bit(bits)) {
                limited(bits, (uint32_t)(size == 3 ? matrix / 3 : matrix));
                continue;
            }
            if (size > 1)
                limited_signed(bits, -7, 247);
            for (int i = 0; i < (size ? 64 : 16); i++)
                limited_signed(bits, -128, 127);
        }
}

/* vui_parameters() (E.2.1). FFmpeg takes some bits where a default display window may begin for
 * something else, so there must be none. */
static void skip_vui(SparseBits *bits)
{
    if (sparse_bit(bits) && sparse_bits(bits, 8) == 255)
        sparse_bits(bits, 32);
    if (sparse_bit(bits)) /* overscan */
        sparse_bit(bits);
    if (sparse_bit(bits)) { /* video signal */
        sparse_bits(bits, 4);
        if (sparse_bit(bits))
            sparse_bits(bits, 24);
    }
    if (sparse_bit(bits)) /* chroma location */
        for (int k = 0; k < 2; k++)
            limited(bits, 5);
    sparse_bit(bits);         /* neutral_chroma_indication_flag */
    if (sparse_bits(bits, 3)) /* fields, pic_struct, default display window */
        bits->failed = 1;
    if (sparse_bit(bits)) { /* timing */
        sparse_bits(bits, 32);
        sparse_bits(bits, 32);
        if (sparse_bit(bits))
            sparse_bits_ue(bits);
        if (sparse_bit(bits)) /* HRD */
            bits->failed = 1;
    }
    if (sparse_bit(bits)) { /* bitstream restriction */
        sparse_bits(bits, 3);
        for (int k = 0; k < 5; k++)
            sparse_bits_ue(bits);
    }
}

/* The fields about sizes of blocks. */
static void read_blocks(SparseBits *bits, SparseHevcSps *sps)
{
    uint32_t min_cb = limited(bits, 3) + 3, min_tb, max_tb, depth;

    sps->log2_diff_cb = limited(bits, 3);
    sps->log2_ctb = min_cb + sps->log2_diff_cb;
    min_tb = limited(bits, 3) + 2;
    max_tb = min_tb + limited(bits, 3);
    if (sps->log2_ctb < 4 || sps->log2_ctb > 6 || min_tb >= min_cb || max_tb > 5 ||
        max_tb > sps->log2_ctb) {
        bits->failed = 1;
        return;
    }
    depth = sps->log2_ctb - min_tb;
    limited(bits, depth);
    limited(bits, depth);
    if (sps->width & ((1u << min_cb) - 1) || sps->height & ((1u << min_cb) - 1))
        bits->failed = 1;
    sps->ctb_width = (sps->width + (1u << sps->log2_ctb) - 1) >> sps->log2_ctb;
    sps->ctb_height = (sps->height + (1u << sps->log2_ctb) - 1) >> sps->log2_ctb;
}

static void read_size(SparseBits *bits, SparseHevcSps *sps)
{
    const uint32_t unit_x = sps->chroma_format == 1 || sps->chroma_format == 2 ? 2 : 1;
    const uint32_t unit_y = sps->chroma_format == 1 ? 2 : 1;
    uint32_t window[4];

    sps->width = limited(bits, MAX_SIZE);
    sps->height = limited(bits, MAX_SIZE);
    if (!sps->width || !sps->height)
        bits->failed = 1;
    if (!sparse_bit(bits))
        return;
    for (int k = 0; k < 4; k++)
        window[k] = limited(bits, MAX_SIZE);
    if ((window[0] + window[1]) * unit_x >= sps->width ||
        (window[2] + window[3]) * unit_y >= sps->height)
        bits->failed = 1;
}

static void read_output(SparseBits *bits, SparseHevcSps *sps, int sub_layers)
{
    for (int i = sparse_bit(bits) ? 0 : sub_layers - 1; i < sub_layers; i++) {
        sps->max_pictures = limited(bits, 15) + 1;
        sps->max_reorder = limited(bits, sps->max_pictures - 1);
        sparse_bits_ue(bits); /* latency: FFmpeg doesn't heed it */
    }
}

static void read_pcm(SparseBits *bits, const SparseHevcSps *sps)
{
    if (!sparse_bit(bits))
        return;
    for (int k = 0; k < 2; k++)
        if ((int)sparse_bits(bits, 4) + 1 > sps->depth)
            bits->failed = 1;
    limited(bits, 3);
    limited(bits, 3);
    sparse_bit(bits);
}

static void read_extensions(SparseBits *bits, const SparseHevcSps *sps)
{
    uint32_t range, odd;

    if (!sparse_bit(bits))
        return;
    range = sparse_bit(bits);
    if (sparse_bits(bits, 7)) /* multilayer, 3D, screen content, others */
        bits->failed = 1;
    if (!range)
        return;
    sparse_bits(bits, 4);
    odd = sparse_bit(bits); /* extended_precision_processing_flag */
    sparse_bit(bits);
    odd |= sparse_bit(bits); /* high_precision_offsets_enabled_flag */
    sparse_bit(bits);
    odd |= sparse_bit(bits); /* cabac_bypass_alignment_enabled_flag */
    if (odd || sps->profile != PROFILE_REXT)
        bits->failed = 1;
}

static int parse_sps(SparseBits *bits, SparseHevcSps *sps)
{
    int sub_layers;

    sps->vps = sparse_bits(bits, 4);
    sub_layers = (int)sparse_bits(bits, 3) + 1;
    if (sub_layers > 7)
        return 0;
    sparse_bit(bits);
    skip_profile(bits, sps, sub_layers);
    if (sps->profile < 1 || sps->profile > PROFILE_REXT)
        return 0;
    sps->id = limited(bits, 15);
    sps->chroma_format = limited(bits, 3);
    if (sps->chroma_format == 3 && sparse_bit(bits)) /* separate_colour_plane_flag */
        return 0;
    read_size(bits, sps);
    sps->depth = (int)limited(bits, 4) + 8;
    if ((int)limited(bits, 4) + 8 != sps->depth || sps->depth == 11)
        return 0;
    sps->log2_max_poc_lsb = limited(bits, 12) + 4;
    read_output(bits, sps, sub_layers);
    read_blocks(bits, sps);
    if (bits->failed)
        return 0;
    if (sparse_bit(bits) && sparse_bit(bits))
        skip_scaling_lists(bits);
    sparse_bit(bits); /* amp_enabled_flag */
    sps->sao = (int)sparse_bit(bits);
    read_pcm(bits, sps);
    sps->rps_count = limited(bits, SPARSE_HEVC_MAX_RPS);
    for (uint32_t i = 0; i < sps->rps_count; i++)
        /* the last one is not that of a slice header: its own count is larger */
        if (!sparse_hevc_parse_rps(bits, sps, i, &sps->rps[i]))
            return 0;
    if (sparse_bit(bits)) /* long_term_ref_pics_present_flag */
        return 0;
    sps->temporal_mvp = (int)sparse_bit(bits);
    sparse_bit(bits);
    if (sparse_bit(bits))
        skip_vui(bits);
    read_extensions(bits, sps);
    return !bits->failed;
}

int sparse_hevc_parse_sps(const uint8_t *nal, size_t size, SparseHevcSps *sps)
{
    uint8_t payload[SPARSE_HEVC_MAX_SET + SPARSE_BITS_PADDING];
    SparseBits bits;
    size_t stop;

    memset(sps, 0, sizeof(*sps));
    return open_unit(&bits, payload, nal, size, NAL_SPS, &stop) && parse_sps(&bits, sps) &&
           ends_well(&bits, stop);
}

/* ---- Picture parameter set (7.3.2.3) ---- */

static void read_tiles(SparseBits *bits, const SparseHevcSps *sps)
{
    const uint32_t sizes[2] = {sps->ctb_width, sps->ctb_height};
    uint32_t counts[2];

    for (int k = 0; k < 2; k++)
        counts[k] = limited(bits, sizes[k] - 1);
    if (!sparse_bit(bits)) /* uniform_spacing_flag */
        for (int k = 0; k < 2; k++) {
            uint64_t sum = 0;

            for (uint32_t i = 0; i < counts[k] && !bits->failed; i++)
                sum += (uint64_t)limited(bits, sizes[k]) + 1;
            if (sum >= sizes[k])
                bits->failed = 1;
        }
    sparse_bit(bits);
}

static void read_range_extension(SparseBits *bits, const SparseHevcSps *sps, SparseHevcPps *pps,
                                 int transform_skip)
{
    const uint32_t most = sps->depth > 10 ? (uint32_t)sps->depth - 10 : 0;

    if (sps->profile != PROFILE_REXT) { /* FFmpeg doesn't read it then */
        bits->failed = 1;
        return;
    }
    if (transform_skip)
        limited(bits, 3);
    sparse_bit(bits);
    pps->chroma_offset_list = (int)sparse_bit(bits);
    if (pps->chroma_offset_list) {
        uint32_t count;

        limited(bits, sps->log2_diff_cb);
        count = limited(bits, 5) + 1;
        for (uint32_t i = 0; i < 2 * count; i++)
            limited_signed(bits, -12, 12);
    }
    limited(bits, most);
    limited(bits, most);
}

static int parse_pps(SparseBits *bits, const SparseHevcSps *sps, SparseHevcPps *pps)
{
    int transform_skip;

    pps->id = limited(bits, 63);
    if (sparse_bits_ue(bits) != sps->id)
        return 0;
    pps->dependent = (int)sparse_bit(bits);
    pps->output_flag = (int)sparse_bit(bits);
    pps->extra_bits = (int)sparse_bits(bits, 3);
    sparse_bit(bits);
    pps->cabac_init = (int)sparse_bit(bits);
    for (int k = 0; k < 2; k++)
        pps->counts[k] = limited(bits, 14) + 1;
    pps->init_qp = 26 + limited_signed(bits, -26 - 6 * (sps->depth - 8), 25);
    sparse_bit(bits);
    transform_skip = (int)sparse_bit(bits);
    if (sparse_bit(bits))
        limited(bits, sps->log2_diff_cb);
    for (int k = 0; k < 2; k++)
        limited_signed(bits, -12, 12);
    pps->chroma_offsets = (int)sparse_bit(bits);
    pps->weighted = (int)sparse_bit(bits);
    pps->weighted_b = (int)sparse_bit(bits);
    sparse_bit(bits);
    pps->tiles = (int)sparse_bit(bits);
    pps->wavefront = (int)sparse_bit(bits);
    if (pps->tiles)
        read_tiles(bits, sps);
    pps->loop_across_slices = (int)sparse_bit(bits);
    pps->deblocking_control = (int)sparse_bit(bits);
    if (pps->deblocking_control) {
        pps->deblocking_override = (int)sparse_bit(bits);
        pps->deblocking_disabled = (int)sparse_bit(bits);
        if (!pps->deblocking_disabled)
            for (int k = 0; k < 2; k++)
                limited_signed(bits, -6, 6);
    }
    if (sparse_bit(bits))
        skip_scaling_lists(bits);
    pps->list_modification = (int)sparse_bit(bits);
    limited(bits, sps->log2_ctb - 2);
    pps->extension = (int)sparse_bit(bits);
    if (sparse_bit(bits)) {
        uint32_t range = sparse_bit(bits);

        if (sparse_bits(bits, 7))
            return 0;
        if (range)
            read_range_extension(bits, sps, pps, transform_skip);
    }
    return !bits->failed;
}

int sparse_hevc_parse_pps(const uint8_t *nal, size_t size, const SparseHevcSps *sps,
                          SparseHevcPps *pps)
{
    uint8_t payload[SPARSE_HEVC_MAX_SET + SPARSE_BITS_PADDING];
    SparseBits bits;
    size_t stop;

    memset(pps, 0, sizeof(*pps));
    return open_unit(&bits, payload, nal, size, NAL_PPS, &stop) && parse_pps(&bits, sps, pps) &&
           ends_well(&bits, stop);
}
