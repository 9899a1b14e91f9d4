/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * HEVC: slice headers, and the decoded picture buffer as FFmpeg keeps it. Clauses are those of
 * ITU-T H.265.
 *
 * FFmpeg puts out one frame for a packet if the header of its first slice can be read, POC is that
 * of no picture in the buffer, and the picture is no skipped leading one (RASL after an IDR, as all
 * CRA here come after an IDR). Missing references would be made up, and take room in the buffer, from
 * which frames are put out when it is full: so there must be none. Then all that decides when a frame
 * is put out is known, and the order is followed picture by picture.
 */
#include <stdlib.h>
#include <string.h>

#include "hevc_sets.h"
#include "plain_internal.h"

enum {
    NAL_RADL_N = 6,
    NAL_RASL_N = 8,
    NAL_RASL_R = 9,
    NAL_IRAP_FIRST = 16,
    NAL_IDR_W_RADL = 19,
    NAL_IDR_N_LP = 20,
    NAL_CRA = 21,
    NAL_IRAP_LAST = 23,
    NAL_VPS = 32,
    NAL_SPS = 33,
    NAL_PPS = 34,
    NAL_AUD = 35,
    NAL_FILLER = 38,
    NAL_PREFIX_SEI = 39,
    NAL_SUFFIX_SEI = 40
};

enum {
    HEADER = 2, /* bytes of a NAL unit's */
    MAX_PPS = 16,
    MAX_DPB = 32,   /* FFmpeg's */
    MAX_DEPTH = 15, /* what plain.c can follow */
    MAX_ENTRIES = 1024
};

enum { SLICE_B = 0, SLICE_P = 1, SLICE_I = 2 };

/* A parameter set of the sample entry. */
typedef struct Set {
    const uint8_t *nal;
    size_t size;
} Set;

/* What the slices of a picture must have in common. */
typedef struct Slice {
    int type; /* of the NAL unit */
    int layer; /* temporal */
    int is_first, is_dependent;
    uint32_t pps, address, lsb;
} Slice;

typedef struct Picture {
    int64_t poc, packet;
    int is_reference, is_waiting; /* to be put out */
} Picture;

typedef struct State {
    SparseHevcSps sps;
    SparseHevcPps pps[MAX_PPS];
    int pps_count;
    Set sets[2 + MAX_PPS]; /* VPS, SPS, PPS */
    int set_count;

    Picture pictures[MAX_DPB + 1];
    int picture_count;
    int64_t last_output; /* POC */
    int64_t poc_tid0;    /* prevTid0Pic's (8.3.1) */
    int after_idr;       /* no CRA since */

    /* the packet being looked at */
    int64_t packet;
    int is_first_packet, slices;
    Slice first;
    SparseHevcRps rps; /* of the first slice */
    SparsePlainPicture picture;
} State;

/* ---- Parameter sets and SEI ---- */

static const SparseHevcPps *find_pps(const State *state, uint32_t id)
{
    for (int i = 0; i < state->pps_count; i++)
        if (state->pps[i].id == id)
            return &state->pps[i];
    return NULL;
}

/* FFmpeg leaves a packet for some errors in SEI; and what outlives its packet isn't known to a
 * header pass that begins later. Of what is let through, nothing touches samples or output. */
static int is_harmless_prefix(int64_t type, const uint8_t *payload, int64_t size)
{
    switch (type) {
    case 0:   /* buffering_period */
    case 1:   /* pic_timing: of use only with frame_field_info_present_flag */
    case 5:   /* user_data_unregistered */
    case 6:   /* recovery_point */
    case 129: /* active_parameter_sets */
    case 137: /* mastering_display_colour_volume */
    case 144: /* content_light_level_info */ return 1;
    default: return 0;
    }
}

static int is_harmless_suffix(int64_t type, const uint8_t *payload, int64_t size)
{
    return type == 132; /* decoded_picture_hash */
}

static int is_harmless_sei(const uint8_t *nal, size_t size)
{
    const int type = nal[0] >> 1 & 0x3f;

    return sparse_plain_check_sei(nal, size, HEADER,
                                  type == NAL_SUFFIX_SEI ? is_harmless_suffix : is_harmless_prefix);
}

/* One NAL unit of the sample entry, in its order there. */
static int add_set(State *state, const uint8_t *nal, size_t size, uint32_t *vps)
{
    const int type = nal[0] >> 1 & 0x3f;
    SparseHevcPps pps;

    if (type == NAL_PREFIX_SEI || type == NAL_SUFFIX_SEI)
        return nal[0] == type << 1 && nal[1] == 1 && is_harmless_sei(nal, size);
    if (type == NAL_VPS) {
        if (state->set_count != 0 || !sparse_hevc_parse_vps(nal, size, vps))
            return 0;
    } else if (type == NAL_SPS) {
        if (state->set_count != 1 || !sparse_hevc_parse_sps(nal, size, &state->sps) ||
            state->sps.vps != *vps)
            return 0;
    } else {
        if (state->set_count < 2 || state->pps_count == MAX_PPS ||
            !sparse_hevc_parse_pps(nal, size, &state->sps, &pps) || find_pps(state, pps.id))
            return 0;
        state->pps[state->pps_count++] = pps;
    }
    state->sets[state->set_count++] = (Set){nal, size};
    return 1;
}

/* The hvcC box (ISO/IEC 14496-15, 8.3.3.1): one VPS, one SPS, and PPS. */
static int read_sets(void *user, const AVCodecParameters *par)
{
    State *state = user;
    const uint8_t *at = par->extradata, *end = at + par->extradata_size;
    uint32_t vps = 0;
    int arrays;

    if (end - at < 23 || at[0] != 1 || (at[21] & 3) != 3)
        return 0;
    arrays = at[22];
    at += 23;
    for (; arrays > 0; arrays--) {
        int count;

        if (end - at < 3)
            return 0;
        count = at[1] << 8 | at[2];
        at += 3;
        for (; count > 0; count--) {
            size_t size;

            if (end - at < 2)
                return 0;
            size = (size_t)at[0] << 8 | at[1];
            at += 2;
            if (size <= HEADER || (size_t)(end - at) < size || !add_set(state, at, size, &vps))
                return 0;
            at += size;
        }
    }
    return state->pps_count > 0;
}

/* A parameter set in a packet: only one that is there already, which FFmpeg passes over. */
static int is_repeat(const State *state, const SparsePlainNal *nal)
{
    for (int i = 0; i < state->set_count; i++)
        if (nal->size == state->sets[i].size && !memcmp(nal->data, state->sets[i].nal, nal->size))
            return 1;
    return 0;
}

/* ---- Slice headers ---- */

static int is_irap(const Slice *slice)
{
    return slice->type >= NAL_IRAP_FIRST && slice->type <= NAL_IRAP_LAST;
}

static int is_idr(const Slice *slice)
{
    return slice->type == NAL_IDR_W_RADL || slice->type == NAL_IDR_N_LP;
}

/* RADL or RASL */
static int is_leading(const Slice *slice)
{
    return slice->type >= NAL_RADL_N && slice->type <= NAL_RASL_R;
}

static int is_within(int32_t value, int32_t least, int32_t most)
{
    return value >= least && value <= most;
}

/* pred_weight_table() (7.3.6.3) */
static int read_weights(const SparseHevcSps *sps, SparseBits *bits, const uint32_t *counts,
                        int lists)
{
    const int has_chroma = sps->chroma_format > 0;
    uint32_t denominator = sparse_bits_ue(bits);

    if (denominator > 7)
        return 0;
    if (has_chroma) {
        if (!is_within(sparse_bits_se(bits), -(int32_t)denominator, 7 - (int32_t)denominator))
            return 0;
    }
    for (int list = 0; list < lists; list++) {
        uint32_t luma = sparse_bits(bits, (int)counts[list]);
        uint32_t chroma = has_chroma ? sparse_bits(bits, (int)counts[list]) : 0;

        for (uint32_t i = counts[list]; i-- > 0 && !bits->failed;) {
            if (luma >> i & 1)
                for (int k = 0; k < 2; k++)
                    if (!is_within(sparse_bits_se(bits), -128, 127))
                        return 0;
            if (chroma >> i & 1)
                for (int k = 0; k < 4; k++)
                    if (!is_within(sparse_bits_se(bits), k & 1 ? -512 : -128, k & 1 ? 508 : 127))
                        return 0;
        }
    }
    return 1;
}

/* The fields of a P or B slice (7.3.6.1). */
static int read_prediction(const State *state, const SparseHevcPps *pps, SparseBits *bits,
                           uint32_t type, const SparseHevcRps *rps, int temporal_mvp)
{
    const int lists = type == SLICE_B ? 2 : 1;
    uint32_t counts[2] = {pps->counts[0], pps->counts[1]};
    int collocated = 0;

    if (sparse_bit(bits))
        for (int list = 0; list < lists; list++) {
            counts[list] = sparse_bits_ue(bits);
            if (counts[list]++ > 14)
                return 0;
        }
    if (!rps->used)
        return 0;
    if (pps->list_modification && rps->used > 1)
        for (int list = 0; list < lists; list++) {
            if (!sparse_bit(bits))
                continue;
            for (uint32_t i = 0; i < counts[list]; i++)
                if (sparse_bits(bits, sparse_ceil_log2((uint32_t)rps->used)) >= (uint32_t)rps->used)
                    return 0;
        }
    if (type == SLICE_B)
        sparse_bit(bits); /* mvd_l1_zero_flag */
    if (pps->cabac_init)
        sparse_bit(bits);
    if (temporal_mvp) {
        if (type == SLICE_B)
            collocated = !sparse_bit(bits);
        if (counts[collocated] > 1 && sparse_bits_ue(bits) >= counts[collocated])
            return 0;
    }
    if (((pps->weighted && type == SLICE_P) || (pps->weighted_b && type == SLICE_B)) &&
        !read_weights(&state->sps, bits, counts, lists))
        return 0;
    return sparse_bits_ue(bits) <= 4; /* five_minus_max_num_merge_cand */
}

/* From slice_qp_delta on. */
static int read_filters(const State *state, const SparseHevcPps *pps, SparseBits *bits, int has_sao)
{
    int32_t delta = sparse_bits_se(bits);
    int disabled = pps->deblocking_disabled;

    if (!is_within(delta, -256, 256) ||
        !is_within(pps->init_qp + delta, -6 * (state->sps.depth - 8), 51))
        return 0;
    if (pps->chroma_offsets)
        for (int k = 0; k < 2; k++)
            if (!is_within(sparse_bits_se(bits), -12, 12))
                return 0;
    if (pps->chroma_offset_list)
        sparse_bit(bits);
    if (pps->deblocking_override && sparse_bit(bits)) {
        /* FFmpeg then keeps the offsets of slices before, which a pass that begins later can't */
        if (sparse_bit(bits))
            return 0;
        disabled = 0;
        for (int k = 0; k < 2; k++)
            if (!is_within(sparse_bits_se(bits), -6, 6))
                return 0;
    }
    if (pps->loop_across_slices && (has_sao || !disabled))
        sparse_bit(bits);
    return 1;
}

/* The fields of an independent slice segment after its address. */
static int read_independent(State *state, const SparseHevcPps *pps, SparseBits *bits, Slice *slice)
{
    static const char letters[3] = {'B', 'P', 'I'};
    const SparseHevcSps *sps = &state->sps;
    SparseHevcRps own;
    const SparseHevcRps *rps = NULL;
    uint32_t type;
    int temporal_mvp = 0, has_sao = 0;

    sparse_bits(bits, pps->extra_bits);
    type = sparse_bits_ue(bits);
    if (type > SLICE_I || (is_irap(slice) && type != SLICE_I))
        return 0;
    if (pps->output_flag && !sparse_bit(bits)) /* pic_output_flag */
        return 0;
    own.count = own.used = 0;
    if (!is_idr(slice)) {
        slice->lsb = sparse_bits(bits, (int)sps->log2_max_poc_lsb);
        if (!sparse_bit(bits)) { /* short_term_ref_pic_set_sps_flag */
            if (!sparse_hevc_parse_rps(bits, sps, sps->rps_count, &own))
                return 0;
        } else {
            uint32_t number = sparse_bits(bits, sparse_ceil_log2(sps->rps_count));

            if (number >= sps->rps_count)
                return 0;
            rps = &sps->rps[number];
        }
        if (sps->temporal_mvp)
            temporal_mvp = (int)sparse_bit(bits);
    }
    if (!rps)
        rps = &own;
    if (slice->is_first)
        state->rps = *rps;
    if (sps->sao) {
        has_sao = (int)sparse_bit(bits);
        if (sps->chroma_format)
            has_sao |= (int)sparse_bit(bits);
    }
    if (type != SLICE_I && !read_prediction(state, pps, bits, type, rps, temporal_mvp))
        return 0;
    sparse_plain_add_type(&state->picture, letters[type]);
    return read_filters(state, pps, bits, has_sao);
}

/* Entry points, extension and alignment. */
static int read_end(const SparseHevcPps *pps, SparseBits *bits)
{
    if (pps->tiles || pps->wavefront) {
        uint32_t count = sparse_bits_ue(bits);

        if (count > MAX_ENTRIES)
            return 0;
        if (count) {
            uint32_t length = sparse_bits_ue(bits);

            if (length++ > 31)
                return 0;
            sparse_bits_skip(bits, (size_t)count * length);
        }
    }
    if (pps->extension) {
        uint32_t length = sparse_bits_ue(bits);

        if (length > 256)
            return 0;
        sparse_bits_skip(bits, (size_t)length * 8);
    }
    if (!sparse_bit(bits)) /* byte_alignment() (7.3.2.12) */
        return 0;
    while (bits->at & 7 && !bits->failed)
        if (sparse_bit(bits))
            return 0;
    return !bits->failed && bits->at < bits->size;
}

/* slice_segment_header() (7.3.6.1), and that slice data follows. */
static int read_slice(State *state, const SparsePlainNal *nal, Slice *slice)
{
    const SparseHevcSps *sps = &state->sps;
    const uint32_t ctb_count = sps->ctb_width * sps->ctb_height;
    uint8_t payload[SPARSE_PLAIN_WHOLE + SPARSE_BITS_PADDING];
    SparseBits bits = {.data = payload};
    const SparseHevcPps *pps;
    int64_t filled;

    if (nal->size <= HEADER || nal->size > SPARSE_PLAIN_WHOLE)
        return 0;
    filled = sparse_bits_unescape(nal->data + HEADER, nal->size - HEADER, payload);
    if (filled <= 0)
        return 0;
    /* of a slice that is all there, the bits before the stop bit */
    bits.size = nal->size == (size_t)nal->length ? sparse_bits_stop(payload, (size_t)filled)
                                                 : (size_t)filled * 8;

    slice->type = nal->data[0] >> 1 & 0x3f;
    slice->layer = (nal->data[1] & 7) - 1;
    slice->is_first = (int)sparse_bit(&bits);
    /* no_output_of_prior_pics_flag: FFmpeg drops them */
    if (is_irap(slice) && (sparse_bit(&bits) || slice->layer))
        return 0;
    slice->pps = sparse_bits_ue(&bits);
    pps = find_pps(state, slice->pps);
    if (!pps || slice->is_first != !state->slices)
        return 0;
    if (!slice->is_first) {
        if (pps->dependent)
            slice->is_dependent = (int)sparse_bit(&bits);
        slice->address = sparse_bits(&bits, sparse_ceil_log2(ctb_count));
        if (!slice->address || slice->address >= ctb_count)
            return 0;
    }
    if (!slice->is_dependent && !read_independent(state, pps, &bits, slice))
        return 0;
    return read_end(pps, &bits);
}

static int add_slice(State *state, const SparsePlainNal *nal)
{
    const Slice *first = &state->first;
    Slice slice = {0};

    if (!read_slice(state, nal, &slice))
        return 0;
    if (!state->slices++) {
        state->first = slice;
        return 1;
    }
    return state->slices <= SPARSE_PLAIN_SLICES && slice.type == first->type &&
           slice.layer == first->layer && slice.pps == first->pps &&
           (slice.is_dependent || slice.lsb == first->lsb);
}

/* ---- The decoded picture buffer ---- */

/* Decoding of POC (8.3.1), as FFmpeg does it. */
static int64_t find_poc(State *state)
{
    const Slice *slice = &state->first;
    const int64_t max_lsb = (int64_t)1 << state->sps.log2_max_poc_lsb;
    const int64_t previous = state->poc_tid0 % max_lsb, lsb = slice->lsb;
    int64_t poc = state->poc_tid0 - previous + lsb;

    if (is_idr(slice))
        poc = 0;
    else if (lsb < previous && previous - lsb >= max_lsb / 2)
        poc += max_lsb;
    else if (lsb > previous && lsb - previous > max_lsb / 2)
        poc -= max_lsb;
    /* no sub-layer non-reference picture (the even types up to 14), no RADL or RASL */
    if (!slice->layer && (slice->type >= NAL_IRAP_FIRST || slice->type % 2) && !is_leading(slice))
        state->poc_tid0 = poc;
    return poc;
}

static Picture *find_picture(State *state, int64_t poc)
{
    for (int i = 0; i < state->picture_count; i++)
        if (state->pictures[i].poc == poc)
            return &state->pictures[i];
    return NULL;
}

/* Drop the pictures that are of no use any more. */
static void sweep(State *state)
{
    int kept = 0;

    for (int i = 0; i < state->picture_count; i++)
        if (state->pictures[i].is_reference || state->pictures[i].is_waiting)
            state->pictures[kept++] = state->pictures[i];
    state->picture_count = kept;
}

/* Whether a slice's picture may be a reference of pictures of its own sub-layer (7.4.2.2), which in
 * a stream without others are all, RASL excepted: only such pictures refer to it. */
static int is_reference(const Slice *slice)
{
    return slice->type >= NAL_IRAP_FIRST || (slice->type % 2 && slice->type != NAL_RASL_R);
}

/* Mark what the reference picture set names (8.3.2), all of which must be there, and be
 * references up to now. */
static int apply_rps(State *state, int64_t poc)
{
    const SparseHevcRps *rps = &state->rps;
    int found = 0;

    for (int i = 0; i < state->picture_count; i++) {
        Picture *picture = &state->pictures[i];
        int named = 0;

        for (int k = 0; k < rps->count; k++)
            named |= rps->pictures[k].delta == picture->poc - poc;
        if (named && !picture->is_reference)
            return 0;
        picture->is_reference = named;
        found += named;
        if (named && picture->packet < state->picture.oldest)
            state->picture.oldest = picture->packet;
    }
    sweep(state);
    return found == rps->count;
}

/* Put out what FFmpeg puts out after a picture has begun ("bumping", C.5.2): the earliest while
 * too many wait, or while the buffer is too full. */
static void put_out(State *state)
{
    for (;;) {
        Picture *earliest = NULL;
        uint32_t waiting = 0;

        for (int i = 0; i < state->picture_count; i++) {
            Picture *picture = &state->pictures[i];

            if (!picture->is_waiting)
                continue;
            waiting++;
            if (!earliest || picture->poc < earliest->poc)
                earliest = picture;
        }
        if (!earliest || (waiting <= state->sps.max_reorder &&
                          (uint32_t)state->picture_count <= state->sps.max_pictures))
            return;
        state->last_output = earliest->poc;
        earliest->is_waiting = 0;
        if (!earliest->is_reference)
            sweep(state);
    }
}

/*
 * The picture of the packet. As those that are put out are the earliest that wait, they come in
 * the order of POC if each one that is added comes after the last one that was put out.
 */
static int add_picture(State *state)
{
    const int64_t before = state->poc_tid0, poc = find_poc(state);

    state->picture.poc = poc;
    state->picture.depth = MAX_DEPTH;
    state->picture.restarts = is_idr(&state->first);
    state->picture.is_reference = is_reference(&state->first);
    if (before < INT32_MIN || before > INT32_MAX)
        return 0;
    state->picture.start.poc_tid0 = (int32_t)before;
    /* Random access points are intra, too. At a CRA POC goes on from what is before, so that pictures of
     * one pass fit another's. Leading pictures may be skipped, depending on what is before. */
    state->picture.starts = state->picture.type == 'I' && !is_leading(&state->first);
    if (is_irap(&state->first))
        state->after_idr = is_idr(&state->first);
    else if (state->is_first_packet ||
             (state->after_idr && state->first.type >= NAL_RASL_N && is_leading(&state->first)))
        return 0;
    if (is_idr(&state->first)) { /* all others are put out before it */
        state->picture_count = 0;
        state->last_output = INT64_MIN;
    } else if (state->is_first_packet) {
        return 0;
    }
    if (find_picture(state, poc) || poc <= state->last_output || state->picture_count >= MAX_DPB ||
        !apply_rps(state, poc))
        return 0;
    state->pictures[state->picture_count++] =
        (Picture){.poc = poc, .packet = state->packet, .is_reference = 1, .is_waiting = 1};
    put_out(state);
    return 1;
}

/* ---- The check ---- */

static int type_of(const uint8_t *nal)
{
    return nal[0] >> 1 & 0x3f;
}

static int is_slice(int type)
{
    return type <= NAL_RASL_R || type == NAL_IDR_W_RADL || type == NAL_IDR_N_LP || type == NAL_CRA;
}

static int may_be_cut(const uint8_t *nal)
{
    return is_slice(type_of(nal)) || type_of(nal) == NAL_FILLER;
}

static void begin(void *user, int is_first)
{
    State *state = user;

    state->packet = is_first ? 0 : state->packet + 1;
    state->is_first_packet = is_first;
    state->slices = 0;
    state->picture = (SparsePlainPicture){.oldest = INT64_MAX};
}

static int add(void *user, const SparsePlainNal *nal)
{
    State *state = user;
    const int type = type_of(nal->data);

    /* forbidden_zero_bit, nuh_layer_id, nuh_temporal_id_plus1 */
    if (nal->data[0] & 0x81 || nal->data[1] & 0xf8 || !(nal->data[1] & 7))
        return 0;
    if (is_slice(type))
        return add_slice(state, nal);
    if (type == NAL_FILLER)
        return sparse_plain_is_filler(nal, HEADER);
    if (type == NAL_SUFFIX_SEI)
        return state->slices && is_harmless_sei(nal->data, nal->size);
    if (state->slices)
        return 0;
    switch (type) {
    case NAL_VPS:
    case NAL_SPS:
    case NAL_PPS: return is_repeat(state, nal);
    case NAL_PREFIX_SEI: return is_harmless_sei(nal->data, nal->size);
    case NAL_AUD: return nal->size == HEADER + 1;
    default: return 0;
    }
}

static int end(void *user, SparsePlainPicture *picture)
{
    State *state = user;

    if (!state->slices || !add_picture(state))
        return 0;
    *picture = state->picture;
    return 1;
}

const SparsePlainCodec sparse_plain_hevc = {
    .state_size = sizeof(State),
    .open = read_sets,
    .may_be_cut = may_be_cut,
    .begin = begin,
    .add = add,
    .end = end,
};
