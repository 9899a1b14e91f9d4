/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * H.264: parameter sets, slice headers, and the marking of references as far as it decides whether
 * a picture is decoded. Clauses are those of ITU-T H.264.
 *
 * FFmpeg puts out one frame for a packet if the header of its first slice can be read, frame_num
 * leaves no gap before it (7.4.3; a gap is filled with frames), and a P or B picture finds a reference
 * picture to put in its lists, whichever. Nothing after the slice headers takes a frame away: what
 * can't be decoded is concealed.
 */
#include <stdlib.h>
#include <string.h>

#include "h264_sps.h"
#include "plain_internal.h"

enum {
    NAL_SLICE = 1,
    NAL_IDR = 5,
    NAL_SEI = 6,
    NAL_SPS = 7,
    NAL_PPS = 8,
    NAL_AUD = 9,
    NAL_FILLER = 12
};

enum {
    MAX_PPS = 16,
    MAX_PPS_BYTES = 1024,
    MAX_REFERENCES = 16,
    MAX_MARKINGS = 66 /* what FFmpeg keeps of one slice */
};

/* A picture parameter set (7.3.2.2). */
typedef struct Pps {
    const uint8_t *nal;
    size_t size;
    uint32_t id;
    uint32_t counts[2]; /* num_ref_idx_l0/1_default_active_minus1 + 1 */
    int init_qp;        /* without the offset for bit depth */
    int cabac, poc_delta, weighted, weighted_b, deblocking;
} Pps;

/* What the slices of a picture must have in common, and what is done after it. */
typedef struct Slice {
    int nal_type, is_reference;
    uint32_t pps, frame_num, idr_id, poc_lsb;
    int poc_delta;
    uint32_t first_mb;
} Slice;

typedef struct State {
    SparseH264Sps sps;
    const uint8_t *sps_nal;
    size_t sps_size;
    uint32_t mb_count;
    Pps pps[MAX_PPS];
    int pps_count;

    struct {
        uint32_t frame_num;
        int64_t packet;
    } references[MAX_REFERENCES + 1]; /* short-term ones, the latest first */
    uint32_t reference_count;
    uint32_t previous_reference; /* frame_num of the last reference picture */
    uint32_t previous_frame_num;
    int64_t frame_num_offset;
    int64_t poc_msb;
    uint32_t previous_lsb;

    /* the packet being looked at */
    int64_t packet;
    int is_first, slices;
    Slice first;
    uint32_t last_mb;
    int marking_count; /* of the first slice; -1: sliding window */
    uint32_t marked[MAX_MARKINGS]; /* frame_num of pictures that become unused */
    SparsePlainPicture picture;
} State;

/* ---- Parameter sets ---- */

/* Whether the set has more than the fields before transform_8x8_mode_flag (7.3.2.2). */
static int read_extension(SparseBits *bits, const SparseH264Sps *sps, size_t stop)
{
    const int is_low = sps->profile == 66 || sps->profile == 77 || sps->profile == 88;
    uint32_t transform;

    if (bits->failed || bits->at >= stop)
        return 1;
    if (is_low && sps->constraints & 0xe0) /* FFmpeg doesn't read on */
        return 0;
    transform = sparse_bit(bits);
    if (sparse_bit(bits)) {
        int count = 6 + (transform ? sps->chroma_format == 3 ? 6 : 2 : 0);

        if (!sparse_h264_skip_scaling_lists(bits, count))
            return 0;
    }
    return abs(sparse_bits_se(bits)) <= 12;
}

static int read_pps(Pps *pps, const SparseH264Sps *sps, const uint8_t *nal, size_t size)
{
    uint8_t payload[MAX_PPS_BYTES + SPARSE_BITS_PADDING];
    SparseBits bits = {.data = payload};
    size_t stop;
    int64_t filled;
    int init_qs, chroma_offset;

    if (size < 2 || size > MAX_PPS_BYTES || (nal[0] & 0x9f) != NAL_PPS || !nal[size - 1])
        return 0;
    filled = sparse_bits_unescape(nal + 1, size - 1, payload);
    if (filled <= 0)
        return 0;
    bits.size = (size_t)filled * 8;
    stop = sparse_bits_stop(payload, (size_t)filled);

    pps->nal = nal;
    pps->size = size;
    pps->id = sparse_bits_ue(&bits);
    if (pps->id > 255 || sparse_bits_ue(&bits) != sps->id)
        return 0;
    pps->cabac = (int)sparse_bit(&bits);
    pps->poc_delta = (int)sparse_bit(&bits);
    if (sparse_bits_ue(&bits) != 0) /* slice groups */
        return 0;
    for (int k = 0; k < 2; k++) {
        pps->counts[k] = sparse_bits_ue(&bits);
        if (pps->counts[k]++ > 31)
            return 0;
    }
    pps->weighted = (int)sparse_bit(&bits);
    pps->weighted_b = (int)sparse_bits(&bits, 2);
    pps->init_qp = sparse_bits_se(&bits);
    init_qs = sparse_bits_se(&bits);
    chroma_offset = sparse_bits_se(&bits);
    if (pps->weighted_b > 2 || abs(pps->init_qp) > 128 || abs(init_qs) > 128 ||
        abs(chroma_offset) > 12)
        return 0;
    pps->init_qp += 26;
    pps->deblocking = (int)sparse_bit(&bits);
    sparse_bit(&bits);     /* constrained_intra_pred_flag */
    if (sparse_bit(&bits)) /* redundant_pic_cnt_present_flag */
        return 0;
    return read_extension(&bits, sps, stop) && !bits.failed && bits.at == stop;
}

static const Pps *find_pps(const State *state, uint32_t id)
{
    for (int i = 0; i < state->pps_count; i++)
        if (state->pps[i].id == id)
            return &state->pps[i];
    return NULL;
}

/* Take the parameter sets of the sample entry: one of the sequence, and those of pictures. */
static int read_sets(void *user, const AVCodecParameters *par)
{
    State *state = user;
    const SparseH264Sps *sps = &state->sps;
    SparseAvcc avcc;
    const uint8_t *nal;
    size_t size;
    int left;

    if (!sparse_avcc_open(&avcc, par->extradata, (size_t)par->extradata_size) ||
        avcc.length_size != 4 || avcc.sps_left != 1 ||
        sparse_avcc_next_sps(&avcc, &state->sps_nal, &state->sps_size) != 1 ||
        !sparse_h264_parse_sps(state->sps_nal, state->sps_size, &state->sps))
        return 0;
    /* FFmpeg's order of output rests on num_reorder_frames; without it, on trial. */
    if (!sps->regular || !sps->frames_only || sps->poc_type == 1 || !sps->restricted ||
        sps->num_reorder_frames > 15)
        return 0;
    state->mb_count = (uint32_t)(sps->coded_width / 16) * (uint32_t)(sps->coded_height / 16);
    while ((left = sparse_avcc_next_pps(&avcc, &nal, &size)) == 1) {
        Pps pps = {0};

        if (state->pps_count == MAX_PPS || !read_pps(&pps, sps, nal, size) ||
            find_pps(state, pps.id))
            return 0;
        state->pps[state->pps_count++] = pps;
    }
    return left == 0 && state->pps_count > 0;
}

/* A parameter set in a packet: only one that is there already. */
static int is_repeat(const State *state, const SparsePlainNal *nal)
{
    if (nal->size == state->sps_size && !memcmp(nal->data, state->sps_nal, nal->size))
        return 1;
    for (int i = 0; i < state->pps_count; i++)
        if (nal->size == state->pps[i].size && !memcmp(nal->data, state->pps[i].nal, nal->size))
            return 1;
    return 0;
}

/*
 * SEI says nothing of output that FFmpeg heeds once an IDR has been decoded, but some of it
 * outlives its packet: the version of x264, and a transfer function. A header pass that begins
 * later knows of the first packet's alone.
 */
static int is_harmless(int64_t type, const uint8_t *payload, int64_t size)
{
    switch (type) {
    case 0: /* buffering_period */
    case 1: /* pic_timing */
    case 3: /* filler_payload */
    case 4: /* user_data_registered_itu_t_t35 */
    case 6: /* recovery_point */ return 1;
    case 5: /* user_data_unregistered */ return size < 20 || memcmp(payload + 16, "x264", 4) != 0;
    default: return 0;
    }
}

/* ---- Slice headers ---- */

/* ref_pic_list_modification() (7.3.3.1), once for each list. All pictures named must be there. */
static int read_modifications(const State *state, SparseBits *bits, const uint32_t *counts,
                              int lists, uint32_t frame_num)
{
    const uint32_t mask = (1u << state->sps.log2_max_frame_num) - 1;

    for (int list = 0; list < lists; list++) {
        uint32_t predicted = frame_num, operation;

        if (!sparse_bit(bits))
            continue;
        for (uint32_t n = 0; (operation = sparse_bits_ue(bits)) != 3; n++) {
            uint32_t difference, k = 0;

            if (n >= counts[list] || operation > 1 || bits->failed)
                return 0;
            difference = sparse_bits_ue(bits);
            if (difference > mask)
                return 0;
            predicted =
                (operation ? predicted + difference + 1 : predicted - difference - 1) & mask;
            while (k < state->reference_count && state->references[k].frame_num != predicted)
                k++;
            if (k == state->reference_count)
                return 0;
        }
    }
    return 1;
}

static int is_weight(int32_t value)
{
    return value >= -128 && value <= 127;
}

/* pred_weight_table() (7.3.3.2) */
static int read_weights(const State *state, SparseBits *bits, const uint32_t *counts, int lists)
{
    const int has_chroma = state->sps.chroma_format > 0;

    if (sparse_bits_ue(bits) > 7 || (has_chroma && sparse_bits_ue(bits) > 7))
        return 0;
    for (int list = 0; list < lists; list++)
        for (uint32_t i = 0; i < counts[list] && !bits->failed; i++)
            for (int chroma = 0; chroma <= has_chroma; chroma++) {
                if (!sparse_bit(bits))
                    continue;
                for (int k = 0; k < (chroma ? 4 : 2); k++)
                    if (!is_weight(sparse_bits_se(bits)))
                        return 0;
            }
    return 1;
}

/* dec_ref_pic_marking() (7.3.3.3): none, or short-term pictures that become unused. */
static int read_markings(State *state, SparseBits *bits, const Slice *slice)
{
    const uint32_t mask = (1u << state->sps.log2_max_frame_num) - 1;
    int count = 0;

    if (!state->slices)
        state->marking_count = -1;
    if (slice->nal_type == NAL_IDR) {
        sparse_bit(bits);         /* no_output_of_prior_pics_flag: FFmpeg puts them out */
        return !sparse_bit(bits); /* long_term_reference_flag */
    }
    if (!sparse_bit(bits))
        return 1;
    for (;; count++) {
        uint32_t operation = sparse_bits_ue(bits), difference;

        if (!operation)
            break;
        if (operation != 1 || bits->failed || count == MAX_MARKINGS - 1)
            return 0;
        difference = sparse_bits_ue(bits);
        if (difference > mask)
            return 0;
        if (!state->slices)
            state->marked[count] = (slice->frame_num - difference - 1) & mask;
    }
    if (!state->slices)
        state->marking_count = count;
    return 1;
}

/* What of a slice header depends on the slice's type; 0: not plain. */
static int read_prediction(const State *state, const Pps *pps, SparseBits *bits, char type,
                           uint32_t frame_num)
{
    const int lists = type == 'B' ? 2 : 1;
    uint32_t counts[2] = {pps->counts[0], pps->counts[1]};

    if (type == 'I')
        return 1;
    /* FFmpeg drops a slice for whose lists there is nothing at all */
    if (!state->reference_count)
        return 0;
    if (type == 'B')
        sparse_bit(bits); /* direct_spatial_mv_pred_flag */
    if (sparse_bit(bits))
        for (int list = 0; list < lists; list++) {
            counts[list] = sparse_bits_ue(bits);
            if (counts[list]++ > 15)
                return 0;
        }
    for (int list = 0; list < lists; list++)
        if (counts[list] > 16)
            return 0;
    if (!read_modifications(state, bits, counts, lists, frame_num))
        return 0;
    if ((pps->weighted && type == 'P') || (pps->weighted_b == 1 && type == 'B'))
        return read_weights(state, bits, counts, lists);
    return 1;
}

/* The fields from cabac_init_idc on (7.3.3). */
static int read_rest(const State *state, const Pps *pps, SparseBits *bits, char type)
{
    const int depth_offset = 6 * (state->sps.bit_depth_luma - 8);
    int32_t delta;

    if (type != 'I' && pps->cabac && sparse_bits_ue(bits) > 2)
        return 0;
    delta = sparse_bits_se(bits); /* slice_qp_delta */
    if (abs(delta) > 256 || pps->init_qp + delta + depth_offset < 0 || pps->init_qp + delta > 51)
        return 0;
    if (pps->deblocking) {
        uint32_t mode = sparse_bits_ue(bits);

        if (mode > 2)
            return 0;
        if (mode != 1)
            for (int k = 0; k < 2; k++) {
                int32_t offset = sparse_bits_se(bits);

                if (offset < -6 || offset > 6)
                    return 0;
            }
    }
    return 1;
}

/* slice_header() (7.3.3), and that slice data follows. */
static int read_slice(State *state, const SparsePlainNal *nal, Slice *slice, char *type)
{
    static const char types[5] = {'P', 'B', 'I', 0, 0};
    uint8_t payload[SPARSE_PLAIN_WHOLE + SPARSE_BITS_PADDING];
    SparseBits bits = {.data = payload};
    const SparseH264Sps *sps = &state->sps;
    const Pps *pps;
    uint32_t slice_type;
    int64_t filled;

    if (nal->size < 2 || nal->size > SPARSE_PLAIN_WHOLE)
        return 0;
    filled = sparse_bits_unescape(nal->data + 1, nal->size - 1, payload);
    if (filled <= 0)
        return 0;
    /* of a slice that is all there, the bits before the stop bit */
    bits.size = nal->size == (size_t)nal->length ? sparse_bits_stop(payload, (size_t)filled)
                                                 : (size_t)filled * 8;

    slice->nal_type = nal->data[0] & 0x1f;
    slice->is_reference = !!(nal->data[0] & 0x60);
    slice->first_mb = sparse_bits_ue(&bits);
    slice_type = sparse_bits_ue(&bits);
    if (slice_type > 9 || !types[slice_type % 5])
        return 0;
    *type = types[slice_type % 5];
    slice->pps = sparse_bits_ue(&bits);
    pps = find_pps(state, slice->pps);
    if (!pps)
        return 0;
    slice->frame_num = sparse_bits(&bits, (int)sps->log2_max_frame_num);
    if (slice->nal_type == NAL_IDR) {
        slice->idr_id = sparse_bits_ue(&bits);
        if (slice->idr_id > 65535 || *type != 'I' || !slice->is_reference || slice->frame_num)
            return 0;
    }
    if (sps->poc_type == 0) {
        slice->poc_lsb = sparse_bits(&bits, (int)sps->log2_max_poc_lsb);
        if (pps->poc_delta) {
            slice->poc_delta = sparse_bits_se(&bits);
            if (abs(slice->poc_delta) > 4095)
                return 0;
        }
    }
    if (!read_prediction(state, pps, &bits, *type, slice->frame_num) ||
        (slice->is_reference && !read_markings(state, &bits, slice)) ||
        !read_rest(state, pps, &bits, *type))
        return 0;
    return !bits.failed && bits.at < bits.size;
}

/* Whether a slice belongs to the picture that an earlier one has begun (7.4.1.2.4), after it. */
static int goes_on(const State *state, const Slice *slice)
{
    const Slice *first = &state->first;

    return slice->nal_type == first->nal_type && slice->is_reference == first->is_reference &&
           slice->pps == first->pps && slice->frame_num == first->frame_num &&
           slice->idr_id == first->idr_id && slice->poc_lsb == first->poc_lsb &&
           slice->poc_delta == first->poc_delta && slice->first_mb > state->last_mb &&
           slice->first_mb < state->mb_count && state->slices < SPARSE_PLAIN_SLICES;
}

/* ---- Pictures ---- */

/* Decoding of POC (8.2.1), as FFmpeg does it. */
static int64_t find_poc(State *state)
{
    const Slice *slice = &state->first;
    const int64_t max_lsb = (int64_t)1 << state->sps.log2_max_poc_lsb;
    const int64_t lsb = slice->poc_lsb, previous = state->previous_lsb;
    int64_t msb = state->poc_msb;

    if (slice->frame_num < state->previous_frame_num)
        state->frame_num_offset += (int64_t)1 << state->sps.log2_max_frame_num;
    if (state->sps.poc_type == 2) /* 8.2.1.3 */
        return 2 * (state->frame_num_offset + slice->frame_num) - !slice->is_reference;
    if (slice->nal_type == NAL_IDR)
        msb = 0;
    else if (lsb < previous && previous - lsb >= max_lsb / 2)
        msb += max_lsb;
    else if (lsb > previous && lsb - previous > max_lsb / 2)
        msb -= max_lsb;
    if (slice->is_reference) {
        state->poc_msb = msb;
        state->previous_lsb = slice->poc_lsb;
    }
    return msb + lsb + (slice->poc_delta < 0 ? slice->poc_delta : 0);
}

static void remove_reference(State *state, uint32_t k)
{
    state->reference_count--;
    memmove(state->references + k, state->references + k + 1,
            (state->reference_count - k) * sizeof(*state->references));
}

/* Marking after a reference picture (8.2.5): sliding window, or the pictures that are named. */
static int mark(State *state)
{
    const Slice *slice = &state->first;
    const uint32_t most = state->sps.max_references ? state->sps.max_references : 1;

    if (slice->nal_type != NAL_IDR && state->marking_count < 0 && state->reference_count &&
        state->reference_count >= state->sps.max_references)
        remove_reference(state, state->reference_count - 1);
    for (int i = 0; i < state->marking_count; i++) {
        uint32_t k = 0;

        while (k < state->reference_count && state->references[k].frame_num != state->marked[i])
            k++;
        if (k == state->reference_count)
            return 0;
        remove_reference(state, k);
    }
    for (uint32_t k = 0; k < state->reference_count; k++)
        if (state->references[k].frame_num == slice->frame_num)
            return 0;
    if (state->reference_count >= most)
        return 0;
    memmove(state->references + 1, state->references,
            state->reference_count * sizeof(*state->references));
    state->references[0].frame_num = slice->frame_num;
    state->references[0].packet = state->packet;
    state->reference_count++;
    state->previous_reference = slice->frame_num;
    return 1;
}

/* What is known before the picture that its first slice has begun. */
static void note_state(State *state)
{
    SparsePlainPicture *picture = &state->picture;

    for (uint32_t k = 0; k < state->reference_count; k++)
        if (state->references[k].packet < picture->oldest)
            picture->oldest = state->references[k].packet;
    picture->start = (SparsePlainStart){
        .previous_frame_num = (int32_t)state->previous_frame_num,
        .frame_num_offset = (int32_t)state->frame_num_offset,
        .poc_msb = (int32_t)state->poc_msb,
        .poc_lsb = (int32_t)state->previous_lsb,
    };
}

static int begin_picture(State *state)
{
    const uint32_t mask = (1u << state->sps.log2_max_frame_num) - 1;
    const Slice *slice = &state->first;

    note_state(state);

    if (slice->first_mb)
        return 0;
    if (slice->nal_type == NAL_IDR) {
        state->previous_frame_num = 0;
        state->frame_num_offset = 0;
        state->reference_count = 0;
        return 1;
    }
    /* 7.4.3: one more than that of the last reference picture */
    return !state->is_first && slice->frame_num == ((state->previous_reference + 1) & mask);
}

static int add_slice(State *state, const SparsePlainNal *nal)
{
    Slice slice = {0};
    char type;

    if (!read_slice(state, nal, &slice, &type))
        return 0;
    if (!state->slices) {
        state->first = slice;
        if (!begin_picture(state))
            return 0;
    } else if (!goes_on(state, &slice)) {
        return 0;
    }
    state->last_mb = slice.first_mb;
    state->slices++;
    sparse_plain_add_type(&state->picture, type);
    return 1;
}

/* ---- The check ---- */

static int may_be_cut(const uint8_t *nal)
{
    const int type = nal[0] & 0x1f;

    return type == NAL_SLICE || type == NAL_IDR || type == NAL_FILLER;
}

static void begin(void *user, int is_first)
{
    State *state = user;

    state->packet = is_first ? 0 : state->packet + 1;
    state->is_first = is_first;
    state->slices = 0;
    state->picture = (SparsePlainPicture){
        .depth = state->sps.num_reorder_frames,
        .oldest = INT64_MAX,
    };
}

static int add(void *user, const SparsePlainNal *nal)
{
    State *state = user;
    const int type = nal->data[0] & 0x1f;

    if (nal->data[0] & 0x80) /* forbidden_zero_bit */
        return 0;
    if (type == NAL_SLICE || type == NAL_IDR)
        return add_slice(state, nal);
    if (type == NAL_FILLER)
        return sparse_plain_is_filler(nal, 1);
    if (state->slices)
        return 0;
    switch (type) {
    case NAL_SPS:
    case NAL_PPS: return is_repeat(state, nal);
    case NAL_SEI:
        return sparse_plain_check_sei(nal->data, nal->size, 1,
                                      state->is_first ? NULL : is_harmless);
    case NAL_AUD: return nal->size == 2;
    default: return 0;
    }
}

static int end(void *user, SparsePlainPicture *picture)
{
    State *state = user;

    if (!state->slices)
        return 0;
    state->picture.restarts = state->first.nal_type == NAL_IDR;
    state->picture.starts = state->picture.type == 'I'; /* an IDR has no other slices */
    state->picture.is_reference = state->first.is_reference;
    state->picture.poc = find_poc(state);
    state->previous_frame_num = state->first.frame_num;
    *picture = state->picture;
    return !state->first.is_reference || mark(state);
}

const SparsePlainCodec sparse_plain_h264 = {
    .state_size = sizeof(State),
    .open = read_sets,
    .may_be_cut = may_be_cut,
    .begin = begin,
    .add = add,
    .end = end,
};
