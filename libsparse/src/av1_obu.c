/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "av1_obu.h"

#include <string.h>

#include <libavutil/intreadwrite.h>

/* ---- Bits ---- */

typedef struct Bits {
    const uint8_t *data;
    size_t size; /* bytes */
    size_t at;   /* bits */
    int over;    /* more was asked for than there is */
} Bits;

/* count: 0..32 */
static uint32_t bits(Bits *b, int count)
{
    const size_t byte = b->at >> 3;
    uint32_t value = 0;

    if (b->over || (size_t)count > b->size * 8 - b->at) {
        b->over = 1;
        return 0;
    }
    if (b->size - byte >= 8) {
        value = (uint32_t)(AV_RB64(b->data + byte) << (b->at & 7) >> 32);
        b->at += (size_t)count;
        return count ? value >> (32 - count) : 0;
    }
    for (; count > 0; count--, b->at++)
        value = value << 1 | (b->data[b->at >> 3] >> (7 - (b->at & 7)) & 1u);
    return value;
}

static int bit(Bits *b)
{
    return (int)bits(b, 1);
}

/* uvlc(), 4.10.3; UINT32_MAX for what doesn't fit */
static uint32_t variable_length(Bits *b)
{
    int zeros = 0;

    while (!b->over && !bit(b))
        zeros++;
    if (b->over || zeros >= 32)
        return UINT32_MAX;
    return bits(b, zeros) + ((UINT32_C(1) << zeros) - 1);
}

/* ---- Units ---- */

int sparse_av1_read_obu(const uint8_t *data, size_t size, int64_t left, SparseAv1Obu *obu)
{
    int64_t length = 0;
    size_t at = 1;

    memset(obu, 0, sizeof(*obu));
    if (size < 1)
        return 0;
    obu->type = data[0] >> 3 & 15;
    obu->has_extension = data[0] >> 2 & 1;
    obu->has_size = data[0] >> 1 & 1;
    if (obu->has_extension) {
        if (size < 2)
            return 0;
        obu->temporal_id = data[1] >> 5;
        obu->spatial_id = data[1] >> 3 & 3;
        at = 2;
    }
    if (obu->has_size) {
        /* leb128(), 4.10.5: at most 8 bytes, and what fits into 32 bits */
        for (int i = 0;; i++, at++) {
            if (i == 8 || at >= size)
                return 0;
            length |= (int64_t)(data[at] & 127) << (7 * i);
            if (!(data[at] & 128))
                break;
        }
        at++;
        if (length > UINT32_MAX || length > left - (int64_t)at)
            return 0;
    } else {
        length = left - (int64_t)at;
        if (length < 0)
            return 0;
    }
    obu->header_size = (int)at;
    obu->payload_size = length;
    return 1;
}

/* ---- Sequence headers ---- */

/* color_config(), 5.5.2. 1, or 0 when it is damaged. */
static int read_colors(Bits *b, SparseAv1Sequence *s)
{
    s->bit_depth = 8;
    if (bit(b)) {
        s->bit_depth = 10;
        if (s->profile == 2 && bit(b))
            s->bit_depth = 12;
    }
    s->monochrome = s->profile == 1 ? 0 : (uint8_t)bit(b);
    s->tools[15] = (uint8_t)bit(b); /* color_description_present_flag */
    s->primaries = s->transfer = s->matrix = 2;
    if (s->tools[15]) {
        s->primaries = (uint8_t)bits(b, 8);
        s->transfer = (uint8_t)bits(b, 8);
        s->matrix = (uint8_t)bits(b, 8);
    }
    if (s->monochrome) {
        s->full_range = (uint8_t)bit(b);
        s->subsampling_x = s->subsampling_y = 1;
        return 1;
    }
    if (s->primaries == 1 && s->transfer == 13 && s->matrix == 0) { /* sRGB */
        s->full_range = 1;
        if (s->profile != 1 && !(s->profile == 2 && s->bit_depth == 12))
            return 0;
    } else {
        s->full_range = (uint8_t)bit(b);
        if (s->profile == 0) {
            s->subsampling_x = s->subsampling_y = 1;
        } else if (s->profile == 2) {
            s->subsampling_x = s->bit_depth == 12 ? (uint8_t)bit(b) : 1;
            if (s->bit_depth == 12 && s->subsampling_x)
                s->subsampling_y = (uint8_t)bit(b);
        }
        if (s->subsampling_x && s->subsampling_y)
            s->chroma_position = (uint8_t)bits(b, 2);
    }
    s->tools[14] = (uint8_t)bit(b); /* separate_uv_delta_q */
    return 1;
}

/* The timing and decoder model information, 5.5.3 and 5.5.4. 1, or 0 when it is damaged. */
static int read_timing(Bits *b, SparseAv1Sequence *s)
{
    s->units_in_display_tick = bits(b, 32);
    s->time_scale = bits(b, 32);
    s->equal_picture_interval = (uint8_t)bit(b);
    if (s->equal_picture_interval) {
        s->ticks_per_picture = variable_length(b);
        if (s->ticks_per_picture == UINT32_MAX)
            return 0;
    }
    s->decoder_model_info_present = (uint8_t)bit(b);
    if (s->decoder_model_info_present) {
        s->buffer_delay_length = (uint8_t)(bits(b, 5) + 1);
        s->units_in_decoding_tick = bits(b, 32);
        s->removal_delay_length = (uint8_t)(bits(b, 5) + 1);
        s->presentation_delay_length = (uint8_t)(bits(b, 5) + 1);
    }
    return 1;
}

static int read_operating_points(Bits *b, SparseAv1Sequence *s)
{
    s->display_model_info_present = (uint8_t)bit(b);
    s->operating_point_count = (uint8_t)(bits(b, 5) + 1);
    for (int i = 0; i < s->operating_point_count; i++) {
        s->operating_points[i].idc = (uint16_t)bits(b, 12);
        if (s->operating_points[i].idc &&
            (!(s->operating_points[i].idc & 0xff) || !(s->operating_points[i].idc & 0xf00)))
            return 0;
        s->operating_points[i].level = (uint8_t)bits(b, 5);
        if (s->operating_points[i].level > 7)
            s->operating_points[i].tier = (uint8_t)bit(b);
        if (s->decoder_model_info_present) {
            s->operating_points[i].decoder_model_present = (uint8_t)bit(b);
            if (s->operating_points[i].decoder_model_present) {
                bits(b, s->buffer_delay_length);
                bits(b, s->buffer_delay_length);
                bit(b);
            }
        }
        s->operating_points[i].display_delay = 10;
        if (s->display_model_info_present && bit(b))
            s->operating_points[i].display_delay = (uint8_t)(bits(b, 4) + 128);
    }
    return 1;
}

int sparse_av1_read_sequence(const uint8_t *data, size_t size, SparseAv1Sequence *s)
{
    Bits b = {.data = data, .size = size};

    memset(s, 0, sizeof(*s));
    s->profile = (uint8_t)bits(&b, 3);
    s->still_picture = (uint8_t)bit(&b);
    s->reduced_still_picture_header = (uint8_t)bit(&b);
    if (s->profile > 2 || (s->reduced_still_picture_header && !s->still_picture))
        return 0;
    if (s->reduced_still_picture_header) {
        s->operating_point_count = 1;
        s->operating_points[0].level = (uint8_t)bits(&b, 5);
    } else {
        s->timing_info_present = (uint8_t)bit(&b);
        if (s->timing_info_present && !read_timing(&b, s))
            return 0;
        if (!read_operating_points(&b, s))
            return 0;
    }
    s->width_bits = (uint8_t)(bits(&b, 4) + 1);
    s->height_bits = (uint8_t)(bits(&b, 4) + 1);
    s->max_width = bits(&b, s->width_bits) + 1;
    s->max_height = bits(&b, s->height_bits) + 1;
    if (!s->reduced_still_picture_header) {
        s->frame_ids_present = (uint8_t)bit(&b);
        if (s->frame_ids_present) {
            s->delta_frame_id_bits = (uint8_t)(bits(&b, 4) + 2);
            s->frame_id_bits = (uint8_t)(bits(&b, 3) + s->delta_frame_id_bits + 1);
        }
    }
    for (int i = 0; i < 3; i++) /* superblock size, filter intra, intra edge filter */
        s->tools[i] = (uint8_t)bit(&b);
    s->screen_content_tools = s->integer_mv = 2;
    if (!s->reduced_still_picture_header) {
        int has_order_hint;

        for (int i = 3; i < 7; i++) /* compound and motion tools */
            s->tools[i] = (uint8_t)bit(&b);
        has_order_hint = bit(&b);
        if (has_order_hint) {
            s->tools[7] = (uint8_t)bit(&b); /* enable_jnt_comp */
            s->tools[8] = (uint8_t)bit(&b); /* enable_ref_frame_mvs */
        }
        s->screen_content_tools = bit(&b) ? 2 : (uint8_t)bit(&b);
        if (s->screen_content_tools)
            s->integer_mv = bit(&b) ? 2 : (uint8_t)bit(&b);
        if (has_order_hint)
            s->order_hint_bits = (uint8_t)(bits(&b, 3) + 1);
    }
    s->superres = (uint8_t)bit(&b);
    s->tools[9] = (uint8_t)bit(&b);  /* enable_cdef */
    s->tools[10] = (uint8_t)bit(&b); /* enable_restoration */
    if (!read_colors(&b, s))
        return 0;
    s->film_grain_present = (uint8_t)bit(&b);
    bit(&b); /* of trailing_bits() the first must be there */
    return !b.over;
}

enum AVPixelFormat sparse_av1_pixel_format(const SparseAv1Sequence *s)
{
    static const enum AVPixelFormat formats[5][3] = {
        {AV_PIX_FMT_YUV444P, AV_PIX_FMT_YUV444P10, AV_PIX_FMT_YUV444P12},
        {AV_PIX_FMT_NONE, AV_PIX_FMT_NONE, AV_PIX_FMT_NONE},
        {AV_PIX_FMT_YUV422P, AV_PIX_FMT_YUV422P10, AV_PIX_FMT_YUV422P12},
        {AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUV420P10, AV_PIX_FMT_YUV420P12},
        {AV_PIX_FMT_GBRP, AV_PIX_FMT_GBRP10, AV_PIX_FMT_GBRP12},
    };
    static const enum AVPixelFormat gray[] = {AV_PIX_FMT_GRAY8, AV_PIX_FMT_GRAY10,
                                              AV_PIX_FMT_GRAY12};
    const int depth = (s->bit_depth - 8) / 2;

    if (s->monochrome)
        return gray[depth];
    if (s->primaries == 1 && s->transfer == 13 && s->matrix == 0)
        return formats[4][depth];
    return formats[s->subsampling_x * 2 + s->subsampling_y][depth];
}

int sparse_av1_find_sequence(const uint8_t *data, size_t size, SparseAv1Sequence *sequence)
{
    SparseAv1Obu obu;

    while (size && sparse_av1_read_obu(data, size, (int64_t)size, &obu)) {
        size_t whole = (size_t)obu.header_size + (size_t)obu.payload_size;

        if (obu.type == SPARSE_AV1_OBU_SEQUENCE)
            return sparse_av1_read_sequence(data + obu.header_size, (size_t)obu.payload_size,
                                            sequence);
        data += whole;
        size -= whole;
    }
    return 0;
}

/* ---- Frame headers ---- */

/* Distance of order hints, 5.9.3. */
static int relative(int hint_bits, uint32_t a, uint32_t b)
{
    int half = 1 << (hint_bits - 1);
    int difference = (int)(a - b);

    return (difference & (half - 1)) - (difference & half);
}

/* The order hints' nearest slot that isn't used, on the side and end that are asked for; -1:
 * none. */
static int find_slot(const int *distances, int *used, int backward, int nearest)
{
    int found = -1;

    for (int i = 0; i < SPARSE_AV1_SLOTS; i++) {
        if (used[i] || (distances[i] >= 0) != backward)
            continue;
        /* of equals the latest slot for the largest, the first for the smallest */
        if (found < 0 ||
            (nearest ? distances[i] < distances[found] : distances[i] >= distances[found]))
            found = i;
    }
    if (found >= 0)
        used[found] = 1;
    return found;
}

/* The set frame refs process, 7.8. 1, or 0 when a slot is empty. */
static int derive_references(int hint_bits, const SparseAv1Slot *slots, int last, int gold,
                             SparseAv1Header *h)
{
    static const uint8_t rest[] = {1, 2, 4, 5, 6}; /* LAST2, LAST3, BWDREF, ALTREF2, ALTREF */
    int distances[SPARSE_AV1_SLOTS], used[SPARSE_AV1_SLOTS] = {0};
    int found[SPARSE_AV1_REFS] = {-1, -1, -1, -1, -1, -1, -1}, earliest = 0;

    for (int i = 0; i < SPARSE_AV1_SLOTS; i++) {
        if (slots[i].frame < 0)
            return 0;
        distances[i] = relative(hint_bits, slots[i].order_hint, h->order_hint);
    }
    found[0] = last;
    found[3] = gold;
    used[last] = used[gold] = 1;
    found[6] = find_slot(distances, used, 1, 0);
    found[4] = find_slot(distances, used, 1, 1);
    found[5] = find_slot(distances, used, 1, 1);
    for (size_t i = 0; i < sizeof(rest); i++)
        if (found[rest[i]] < 0)
            found[rest[i]] = find_slot(distances, used, 0, 0);
    for (int i = 1; i < SPARSE_AV1_SLOTS; i++)
        if (distances[i] < distances[earliest])
            earliest = i;
    for (int i = 0; i < SPARSE_AV1_REFS; i++)
        h->ref_slots[i] = (uint8_t)(found[i] < 0 ? earliest : found[i]);
    return 1;
}

/* superres_params(), 5.9.8 */
static void read_superres(Bits *b, const SparseAv1Sequence *s, SparseAv1Header *h)
{
    h->coded_width = h->width;
    if (s->superres && bit(b)) {
        int denominator = 9 + (int)bits(b, 3);
        int least = h->width < 16 ? h->width : 16;

        h->coded_width = (h->width * 8 + denominator / 2) / denominator;
        if (h->coded_width < least)
            h->coded_width = least;
    }
}

/* frame_size(), 5.9.5, and frame_size_with_refs(), 5.9.7. 1, or 0 when the slot is empty. */
static int read_size(Bits *b, const SparseAv1Sequence *s, const SparseAv1Slot *slots, int override,
                     int from_references, SparseAv1Header *h)
{
    for (int i = 0; from_references && i < SPARSE_AV1_REFS; i++)
        if (bit(b)) {
            const SparseAv1Slot *slot = &slots[h->ref_slots[i]];

            if (slot->frame < 0)
                return 0;
            h->width = slot->width;
            h->height = slot->height;
            read_superres(b, s, h);
            return 1;
        }
    h->width = (int32_t)(override ? bits(b, s->width_bits) + 1 : s->max_width);
    h->height = (int32_t)(override ? bits(b, s->height_bits) + 1 : s->max_height);
    read_superres(b, s, h);
    if (bit(b)) /* render_and_frame_size_different */
        bits(b, 32);
    return 1;
}

static void skip_removal_times(Bits *b, const SparseAv1Sequence *s, int temporal_id, int spatial_id)
{
    if (!s->decoder_model_info_present || !bit(b))
        return;
    for (int i = 0; i < s->operating_point_count; i++) {
        int idc = s->operating_points[i].idc;

        if (s->operating_points[i].decoder_model_present &&
            (!idc || (idc >> temporal_id & 1 && idc >> (spatial_id + 8) & 1)))
            bits(b, s->removal_delay_length);
    }
}

/* ref_frame_idx, by itself or by short signaling. 1, or 0 when it goes against the slots. */
static int read_references(Bits *b, const SparseAv1Sequence *s, const SparseAv1Slot *slots,
                           SparseAv1Header *h)
{
    h->short_signaling = s->order_hint_bits && bit(b);
    if (h->short_signaling) {
        int last = (int)bits(b, 3), gold = (int)bits(b, 3);

        if (!b->over && !derive_references(s->order_hint_bits, slots, last, gold, h))
            return 0;
    }
    for (int i = 0; i < SPARSE_AV1_REFS; i++) {
        if (!h->short_signaling)
            h->ref_slots[i] = (uint8_t)bits(b, 3);
        if (s->frame_ids_present) {
            uint32_t mask = (UINT32_C(1) << s->frame_id_bits) - 1;
            uint32_t id = (h->frame_id - (bits(b, s->delta_frame_id_bits) + 1)) & mask;
            const SparseAv1Slot *slot = &slots[h->ref_slots[i]];

            if (!b->over && (slot->frame < 0 || slot->frame_id != id))
                return 0;
        }
    }
    return 1;
}

int sparse_av1_read_header(const uint8_t *data, size_t size, const SparseAv1Sequence *s,
                           const SparseAv1Slot *slots, int temporal_id, int spatial_id,
                           SparseAv1Header *h)
{
    const int delays = s->decoder_model_info_present && !s->equal_picture_interval;
    Bits b = {.data = data, .size = size};
    int error_resilient, override, is_intra, screen_content;

    memset(h, 0, sizeof(*h));
    h->show_existing_frame = !s->reduced_still_picture_header && bit(&b);
    if (h->show_existing_frame) {
        h->existing_slot = (int)bits(&b, 3);
        if (delays)
            bits(&b, s->presentation_delay_length);
        if (s->frame_ids_present)
            h->frame_id = bits(&b, s->frame_id_bits);
        if (b.over)
            return -1;
        return slots[h->existing_slot].frame >= 0 &&
               (!s->frame_ids_present || slots[h->existing_slot].frame_id == h->frame_id);
    }

    h->frame_type = s->reduced_still_picture_header ? SPARSE_AV1_KEY : (int)bits(&b, 2);
    h->show_frame = s->reduced_still_picture_header || bit(&b);
    if (h->show_frame) {
        if (delays)
            bits(&b, s->presentation_delay_length);
        h->showable_frame = h->frame_type != SPARSE_AV1_KEY;
    } else {
        h->showable_frame = bit(&b);
    }
    error_resilient = (h->frame_type == SPARSE_AV1_KEY && h->show_frame) ||
                      h->frame_type == SPARSE_AV1_SWITCH || s->reduced_still_picture_header ||
                      bit(&b);
    is_intra = h->frame_type == SPARSE_AV1_KEY || h->frame_type == SPARSE_AV1_INTRA_ONLY;
    bit(&b); /* disable_cdf_update */
    screen_content = s->screen_content_tools == 2 ? bit(&b) : s->screen_content_tools;
    if (screen_content && s->integer_mv == 2)
        bit(&b); /* force_integer_mv */
    if (s->frame_ids_present)
        h->frame_id = bits(&b, s->frame_id_bits);
    override = s->reduced_still_picture_header      ? 0
               : h->frame_type == SPARSE_AV1_SWITCH ? 1
                                                    : bit(&b);
    h->order_hint = bits(&b, s->order_hint_bits);
    if (!error_resilient && !is_intra)
        bits(&b, 3); /* primary_ref_frame, one of ref_frame_idx */
    skip_removal_times(&b, s, temporal_id, spatial_id);

    h->refresh =
        (h->frame_type == SPARSE_AV1_KEY && h->show_frame) || h->frame_type == SPARSE_AV1_SWITCH
            ? 0xff
            : (uint8_t)bits(&b, 8);
    if ((!is_intra || h->refresh != 0xff) && error_resilient)
        for (int i = 0; i < SPARSE_AV1_SLOTS; i++)
            bits(&b, s->order_hint_bits); /* ref_order_hint: dav1d takes no notice, either */
    if (!is_intra && !read_references(&b, s, slots, h))
        return b.over ? -1 : 0;
    if (!read_size(&b, s, slots, override, !is_intra && !error_resilient && override, h))
        return b.over ? -1 : 0;
    return b.over ? -1 : 1;
}

int sparse_av1_references_fit(const SparseAv1Header *h, const SparseAv1Sequence *s,
                              const SparseAv1Slot *slots)
{
    const int subsampling = s->monochrome ? 4 : s->subsampling_x * 2 + s->subsampling_y;

    if (h->frame_type == SPARSE_AV1_KEY || h->frame_type == SPARSE_AV1_INTRA_ONLY)
        return 1;
    for (int i = 0; i < SPARSE_AV1_REFS; i++) {
        const SparseAv1Slot *slot = &slots[h->ref_slots[i]];

        if (slot->frame < 0 || slot->bit_depth != s->bit_depth ||
            slot->subsampling != subsampling || h->coded_width * 2 < slot->width ||
            h->height * 2 < slot->height || h->coded_width > slot->width * 16 ||
            h->height > slot->height * 16)
            return 0;
    }
    return 1;
}
