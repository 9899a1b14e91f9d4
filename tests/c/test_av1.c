/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The parser of AV1 headers: what it makes of good ones, and that it takes any bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "av1_obu.h"
#include "check.h"

/* ---- Writing bits ---- */

typedef struct Writer {
    uint8_t data[64];
    size_t bits;
} Writer;

static void put(Writer *w, uint32_t value, int count)
{
    for (int i = count; i--; w->bits++)
        if (value >> i & 1)
            w->data[w->bits / 8] |= (uint8_t)(128 >> w->bits % 8);
}

/* 320x200, 8 bit, with order hints of 5 bits and, if asked for, frame ids of 6 */
static Writer sequence_bits(int frame_ids)
{
    Writer w = {0};

    put(&w, 0, 3 + 1 + 1 + 1 + 1); /* profile, still, reduced, timing, display model */
    put(&w, 0, 5 + 12 + 5);        /* one operating point, all layers, level 2.0 */
    put(&w, 9, 4);                 /* sizes of 10 bits */
    put(&w, 9, 4);
    put(&w, 319, 10);
    put(&w, 199, 10);
    put(&w, (uint32_t)frame_ids, 1);
    if (frame_ids) {
        put(&w, 1, 4); /* differences of 3 bits */
        put(&w, 2, 3); /* ids of 6 */
    }
    put(&w, 0, 3 + 4); /* tools */
    put(&w, 1, 1);     /* order hints */
    put(&w, 0, 2);
    put(&w, 1, 1); /* screen content tools: told by each frame */
    put(&w, 1, 1); /* and integer vectors */
    put(&w, 4, 3); /* hints of 5 bits */
    put(&w, 0, 3); /* superres, cdef, restoration */
    put(&w, 0, 3); /* 8 bit, colour, undescribed */
    put(&w, 1, 1); /* full range */
    put(&w, 1, 2); /* chroma to the left */
    put(&w, 0, 2); /* separate_uv_delta_q, film grain */
    put(&w, 1, 1); /* trailing bit */
    return w;
}

static size_t bytes(const Writer *w)
{
    return (w->bits + 7) / 8;
}

static int parse_sequence(int frame_ids, SparseAv1Sequence *sequence)
{
    Writer w = sequence_bits(frame_ids);

    return sparse_av1_read_sequence(w.data, bytes(&w), sequence);
}

/* ---- Tests ---- */

static int test_units(void)
{
    static const uint8_t frame[] = {6 << 3 | 2, 3, 1, 2, 3, 0x12, 0};
    static const uint8_t layered[] = {6 << 3 | 6, 2 << 5 | 1 << 3, 0x80, 0x01};
    static const uint8_t open_end[] = {3 << 3, 1, 2};
    static const uint8_t endless[] = {0x12, 128, 128, 128, 128, 128, 128, 128, 128, 0};
    SparseAv1Obu obu;

    CHECK(sparse_av1_read_obu(frame, sizeof(frame), sizeof(frame), &obu));
    CHECK(obu.type == SPARSE_AV1_OBU_FRAME && obu.header_size == 2 && obu.payload_size == 3);
    CHECK(!sparse_av1_read_obu(frame, 4, 4, &obu)); /* longer than what is left */
    CHECK(sparse_av1_read_obu(frame, 2, 5, &obu));  /* its payload need not be at hand */
    CHECK(!sparse_av1_read_obu(frame, 0, 0, &obu));
    CHECK(!sparse_av1_read_obu(frame, 1, 7, &obu)); /* the size field isn't at hand */
    CHECK(sparse_av1_read_obu(layered, sizeof(layered), 200, &obu));
    CHECK(obu.temporal_id == 2 && obu.spatial_id == 1 && obu.header_size == 4);
    CHECK(obu.payload_size == 128);
    CHECK(sparse_av1_read_obu(open_end, sizeof(open_end), sizeof(open_end), &obu));
    CHECK(!obu.has_size && obu.payload_size == 2);
    CHECK(!sparse_av1_read_obu(endless, sizeof(endless), 1000, &obu));
    return 0;
}

static int test_sequence(void)
{
    SparseAv1Sequence s, again;
    Writer w = sequence_bits(1);

    CHECK(parse_sequence(1, &s));
    CHECK(s.max_width == 320 && s.max_height == 200 && s.order_hint_bits == 5);
    CHECK(s.delta_frame_id_bits == 3 && s.frame_id_bits == 6);
    CHECK(s.screen_content_tools == 2 && s.integer_mv == 2 && s.full_range == 1);
    CHECK(s.bit_depth == 8 && s.subsampling_x && s.subsampling_y && s.chroma_position == 1);
    CHECK(sparse_av1_pixel_format(&s) == AV_PIX_FMT_YUV420P);
    CHECK(parse_sequence(1, &again) && memcmp(&s, &again, sizeof(s)) == 0);
    CHECK(parse_sequence(0, &again) && memcmp(&s, &again, sizeof(s)) != 0);
    for (size_t size = 0; size < bytes(&w); size++)
        CHECK(!sparse_av1_read_sequence(w.data, size, &s));
    return 0;
}

static void fill_slots(SparseAv1Slot *slots, const uint32_t *hints)
{
    for (int i = 0; i < SPARSE_AV1_SLOTS; i++)
        slots[i] = (SparseAv1Slot){.frame = i,
                                   .frame_type = SPARSE_AV1_INTER,
                                   .bit_depth = 8,
                                   .subsampling = 3,
                                   .order_hint = hints[i],
                                   .frame_id = (uint32_t)i,
                                   .width = 320,
                                   .height = 200};
}

/* The beginning of an inter frame's header up to its references. */
static Writer inter_bits(uint32_t hint, int short_signaling)
{
    Writer w = {0};

    put(&w, 0, 1); /* no existing frame */
    put(&w, SPARSE_AV1_INTER, 2);
    put(&w, 1, 1);       /* shown */
    put(&w, 0, 3);       /* not error resilient; CDF update; no screen content */
    put(&w, 0, 1);       /* no size of its own */
    put(&w, hint, 5);
    put(&w, 2, 3);       /* primary_ref_frame */
    put(&w, 0x41, 8);    /* refresh_frame_flags */
    put(&w, (uint32_t)short_signaling, 1);
    return w;
}

static int test_references(void)
{
    static const uint32_t hints[] = {8, 10, 12, 16, 20, 11, 11, 4};
    static const uint8_t told[] = {7, 6, 5, 4, 3, 2, 1};
    /* 7.8 at order hint 13, with slot 2 as LAST and slot 0 as GOLDEN: ALTREF is the farthest ahead,
     * BWDREF the nearest ahead; of those behind LAST2 and LAST3 are the nearest, of equals the
     * later slot first; ALTREF2 found none ahead and takes the next behind */
    static const uint8_t derived[] = {2, 6, 5, 0, 3, 1, 4};
    SparseAv1Slot slots[SPARSE_AV1_SLOTS];
    SparseAv1Sequence s;
    SparseAv1Header h;
    Writer w = inter_bits(13, 0);

    fill_slots(slots, hints);
    CHECK(parse_sequence(0, &s));
    for (int i = 0; i < SPARSE_AV1_REFS; i++)
        put(&w, told[i], 3);
    put(&w, 0, 8);
    CHECK(sparse_av1_read_header(w.data, bytes(&w), &s, slots, 0, 0, &h) == 1);
    CHECK(memcmp(h.ref_slots, told, sizeof(told)) == 0);
    CHECK(h.refresh == 0x41 && h.show_frame && h.showable_frame && h.order_hint == 13);
    CHECK(h.width == 320 && h.height == 200 && h.coded_width == 320);
    CHECK(sparse_av1_references_fit(&h, &s, slots));
    for (size_t size = 0; size < 6; size++)
        CHECK(sparse_av1_read_header(w.data, size, &s, slots, 0, 0, &h) == -1);
    slots[3].width = 641; /* more than twice as wide */
    CHECK(!sparse_av1_references_fit(&h, &s, slots));

    fill_slots(slots, hints);
    w = inter_bits(13, 1);
    put(&w, 2, 3);
    put(&w, 0, 3);
    put(&w, 0, 8);
    CHECK(sparse_av1_read_header(w.data, bytes(&w), &s, slots, 0, 0, &h) == 1);
    CHECK(h.short_signaling && memcmp(h.ref_slots, derived, sizeof(derived)) == 0);
    slots[7].frame = -1; /* whose order hint is then unknown */
    CHECK(sparse_av1_read_header(w.data, bytes(&w), &s, slots, 0, 0, &h) == 0);
    return 0;
}

static int test_existing(void)
{
    static const uint32_t hints[SPARSE_AV1_SLOTS] = {0};
    SparseAv1Slot slots[SPARSE_AV1_SLOTS];
    SparseAv1Sequence s;
    SparseAv1Header h;
    Writer w = {0};

    fill_slots(slots, hints);
    CHECK(parse_sequence(1, &s));
    put(&w, 1, 1);
    put(&w, 5, 3);
    put(&w, 5, 6); /* its frame id */
    CHECK(sparse_av1_read_header(w.data, bytes(&w), &s, slots, 0, 0, &h) == 1);
    CHECK(h.show_existing_frame && h.existing_slot == 5);
    slots[5].frame_id = 4;
    CHECK(sparse_av1_read_header(w.data, bytes(&w), &s, slots, 0, 0, &h) == 0);
    slots[5].frame = -1;
    CHECK(sparse_av1_read_header(w.data, bytes(&w), &s, slots, 0, 0, &h) == 0);
    return 0;
}

/* Any bytes: nothing but what the sanitizers see. Buffers of the exact size show overreads. */
static int test_any_bytes(void)
{
    uint32_t state = 1;

    for (int round = 0; round < 20000; round++) {
        size_t size = (size_t)round % 40;
        uint8_t *data = malloc(size + 1);
        SparseAv1Slot slots[SPARSE_AV1_SLOTS];
        SparseAv1Sequence s;
        SparseAv1Header h;
        SparseAv1Obu obu;

        if (!data)
            return 1;
        for (size_t i = 0; i < size; i++) {
            state = state * 1664525 + 1013904223;
            data[i] = (uint8_t)(state >> 24);
        }
        memset(slots, 0, sizeof(slots));
        for (int i = 0; i < SPARSE_AV1_SLOTS; i++)
            slots[i].frame = (int32_t)(state >> i & 3) - 1;
        sparse_av1_read_obu(data, size, (int64_t)size, &obu);
        sparse_av1_find_sequence(data, size, &s);
        if (sparse_av1_read_sequence(data, size, &s) || parse_sequence(round & 1, &s)) {
            sparse_av1_pixel_format(&s);
            if (sparse_av1_read_header(data, size, &s, slots, 0, 0, &h) == 1)
                sparse_av1_references_fit(&h, &s, slots);
        }
        free(data);
    }
    return 0;
}

/* What stands behind the bytes makes no difference, however near their end is. */
static int test_bytes_behind(void)
{
    uint32_t state = 7;

    for (int round = 0; round < 20000; round++) {
        const size_t size = 1 + (size_t)round % 30;
        uint8_t *exact = malloc(size), more[64];
        SparseAv1Slot slots[SPARSE_AV1_SLOTS];
        SparseAv1Header a, b;
        SparseAv1Sequence s;
        const uint32_t hints[SPARSE_AV1_SLOTS] = {0, 1, 2, 3, 4, 5, 6, 7};
        int ret;

        if (!exact)
            return 1;
        for (size_t i = 0; i < sizeof(more); i++) {
            state = state * 1664525 + 1013904223;
            more[i] = (uint8_t)(state >> 24);
        }
        memcpy(exact, more, size);
        fill_slots(slots, hints);
        CHECK(parse_sequence(round & 1, &s));
        ret = sparse_av1_read_header(exact, size, &s, slots, 0, 0, &a);
        if (ret == 1) {
            CHECK(sparse_av1_read_header(more, sizeof(more), &s, slots, 0, 0, &b) == 1);
            CHECK(a.width == b.width && a.height == b.height && a.refresh == b.refresh);
            CHECK(a.order_hint == b.order_hint && a.frame_id == b.frame_id);
            CHECK(!memcmp(a.ref_slots, b.ref_slots, sizeof(a.ref_slots)));
        }
        free(exact);
    }
    return 0;
}

int main(void)
{
    return test_bytes_behind() || test_units() || test_sequence() || test_references() ||
           test_existing() || test_any_bytes();
}
