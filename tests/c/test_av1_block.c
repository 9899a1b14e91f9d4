/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Packed blocks of AV1: what goes in comes out, and damaged ones are refused or give values in
 * range.
 */
#include <stdlib.h>
#include <string.h>

#include "av1_block.h"
#include "check.h"

enum { FIRST = 3 * SPARSE_BLOCK, PACKETS = 50, SHOWN_BEFORE = 1000, SEQUENCES = 3, MOST = 4096 };

static uint32_t random_state = 1;

static SparsePacket packets[PACKETS];
static SparseAv1Frame frames[MOST];
static SparseAv1Shown shown[2 * MOST];
static int32_t slots_before[SPARSE_AV1_SLOTS], slots_after[SPARSE_AV1_SLOTS];

/* References as the slots have them. */
static void use_slots(SparseAv1Frame *frame, uint8_t used, const int32_t *slots)
{
    for (int slot = 0; slot < SPARSE_AV1_SLOTS; slot++) {
        int k = 0;

        if (!(used >> slot & 1))
            continue;
        while (k < frame->reference_count && frame->references[k] != slots[slot])
            k++;
        if (k == frame->reference_count)
            frame->references[frame->reference_count++] = slots[slot];
        frame->reference_slots[k] |= (uint8_t)(1 << slot);
    }
}

/* Packets with up to `most` frames and OBUs that show one, some without any. */
static SparseAv1Block make_block(int most)
{
    SparseAv1Block block = {.first = FIRST,
                            .packet_count = PACKETS,
                            .shown_first = SHOWN_BEFORE,
                            .frames = frames,
                            .shown = shown};

    for (int slot = 0; slot < SPARSE_AV1_SLOTS; slot++)
        slots_before[slot] = slots_after[slot] =
            (int32_t)(next_random(&random_state) % (FIRST * SPARSE_AV1_PER_PACKET));
    for (int k = 0; k < PACKETS; k++) {
        const int count = (int)(next_random(&random_state) % (uint32_t)(most + 1));
        int32_t offset = (int32_t)(next_random(&random_state) % 5);

        packets[k] = (SparsePacket){
            .pts = next_random(&random_state) % 9 ? 512 * (int64_t)k : INT64_MIN,
            .flags = next_random(&random_state) % 6 ? 0 : SPARSE_PACKET_DISCARD,
        };
        block.frame_first[k] = (uint16_t)block.frame_count;
        for (int i = 0; i < count; i++) {
            const int number = block.frame_count - block.frame_first[k];
            const int32_t picture = (FIRST + k) * SPARSE_AV1_PER_PACKET + number;
            const int32_t size =
                1 + (int32_t)(next_random(&random_state) % (most > 4 ? 100000 : 200));
            SparseAv1Shown *next = &shown[block.shown_count];
            const int is_shown = !(packets[k].flags & SPARSE_PACKET_DISCARD);
            const int slot = (int)(next_random(&random_state) % SPARSE_AV1_SLOTS);
            SparseAv1Frame *frame = &frames[block.frame_count];

            *next = (SparseAv1Shown){.pts = packets[k].pts, .packet = FIRST + k};
            if (next_random(&random_state) % 3 == 0) {
                next->picture = slots_after[slot];
                next->offset = offset;
                next->size = size;
                next->slot = (uint8_t)slot;
                next->check = (uint16_t)next_random(&random_state);
                block.shown_count += is_shown;
            } else {
                *frame = (SparseAv1Frame){
                    .packet = FIRST + k,
                    .offset = offset,
                    .size = size,
                    .width = 1 + (int32_t)(next_random(&random_state) % 65536),
                    .height = 480,
                    .sequence = (int32_t)(next_random(&random_state) % SEQUENCES),
                    .shown_before = SHOWN_BEFORE + block.shown_count,
                    .refresh = (uint8_t)next_random(&random_state),
                    .flags = (uint8_t)(next_random(&random_state) % 8),
                    .type = (uint8_t)(next_random(&random_state) % 4),
                    .checked = (uint8_t)(size < SPARSE_CHECKED_BYTES ? size : i % 64),
                    .check = (uint16_t)next_random(&random_state),
                };
                use_slots(frame, (uint8_t)next_random(&random_state), slots_after);
                for (int s = 0; s < SPARSE_AV1_SLOTS; s++)
                    if (frame->refresh >> s & 1)
                        slots_after[s] = picture;
                block.frame_count++;
                if (frame->flags & SPARSE_AV1_SHOWN && is_shown) {
                    next->picture = picture;
                    block.shown_count++;
                }
            }
            offset += size + (int32_t)(next_random(&random_state) % 3);
        }
        packets[k].size = offset;
    }
    block.frame_first[PACKETS] = (uint16_t)block.frame_count;
    return block;
}

static SparseAv1Block empty_block(int shown_count)
{
    return (SparseAv1Block){.first = FIRST,
                            .packet_count = PACKETS,
                            .shown_first = SHOWN_BEFORE,
                            .shown_count = shown_count};
}

static int compare(const SparseAv1Block *a, const SparseAv1Block *b)
{
    CHECK(a->frame_count == b->frame_count && a->shown_count == b->shown_count);
    CHECK(!memcmp(a->frame_first, b->frame_first, (PACKETS + 1) * sizeof(*a->frame_first)));
    for (int i = 0; i < a->frame_count; i++) {
        const SparseAv1Frame *x = &a->frames[i], *y = &b->frames[i];

        CHECK(x->packet == y->packet && x->offset == y->offset && x->size == y->size);
        CHECK(x->width == y->width && x->height == y->height && x->sequence == y->sequence);
        CHECK(x->shown_before == y->shown_before && x->refresh == y->refresh);
        CHECK(x->flags == y->flags && x->type == y->type);
        CHECK(x->checked == y->checked && x->check == y->check);
        CHECK(x->reference_count == y->reference_count);
        for (int k = 0; k < x->reference_count; k++)
            CHECK(x->references[k] == y->references[k] &&
                  x->reference_slots[k] == y->reference_slots[k]);
    }
    for (int i = 0; i < a->shown_count; i++) {
        const SparseAv1Shown *x = &a->shown[i], *y = &b->shown[i];

        CHECK(x->pts == y->pts && x->picture == y->picture && x->packet == y->packet);
        CHECK(x->offset == y->offset && x->size == y->size);
        CHECK(x->slot == y->slot && x->check == y->check);
    }
    return 0;
}

/* What is relied on when frames are decoded. */
static int check_range(const SparseAv1Block *block)
{
    for (int k = 0; k < PACKETS; k++)
        CHECK(block->frame_first[k] <= block->frame_first[k + 1] &&
              block->frame_first[k + 1] - block->frame_first[k] <= SPARSE_AV1_PER_PACKET);
    CHECK(block->frame_first[PACKETS] == block->frame_count);
    for (int i = 0; i < block->frame_count; i++) {
        const SparseAv1Frame *frame = &block->frames[i];
        const int k = frame->packet - FIRST;
        const int32_t picture = frame->packet * SPARSE_AV1_PER_PACKET + i - block->frame_first[k];

        CHECK(k >= 0 && k < PACKETS && frame->offset >= 0 && frame->size > 0);
        CHECK(frame->offset <= packets[k].size - frame->size && frame->checked <= frame->size);
        CHECK(frame->width > 0 && frame->width <= 65536);
        CHECK(frame->height > 0 && frame->height <= 65536);
        CHECK(frame->sequence >= 0 && frame->sequence < SEQUENCES);
        for (int r = 0; r < frame->reference_count; r++)
            CHECK(frame->references[r] >= 0 && frame->references[r] < picture);
    }
    for (int i = 0; i < block->shown_count; i++) {
        const SparseAv1Shown *s = &block->shown[i];

        CHECK(s->packet >= FIRST && s->packet < FIRST + PACKETS && s->picture >= 0);
        CHECK(s->slot < SPARSE_AV1_SLOTS && s->size >= 0 && s->offset >= 0);
        CHECK(s->offset <= packets[s->packet - FIRST].size - s->size);
    }
    return 0;
}

static int test_round_trip(int most)
{
    const SparseAv1Block block = make_block(most);
    SparseAv1Block read = empty_block(block.shown_count);
    int32_t slots[SPARSE_AV1_SLOTS];
    SparseBuffer out = {0};
    SparseSpan span;
    int refused = 0;

    memcpy(slots, slots_before, sizeof(slots));
    CHECK(sparse_av1_block_pack(&out, &block, packets, slots, NULL) == 0);
    CHECK(!memcmp(slots, slots_after, sizeof(slots)));
    span = (SparseSpan){.at = out.data, .end = out.data + out.size};
    CHECK(sparse_av1_block_unpack(span, &read, packets, SEQUENCES, NULL) == 1);
    if (compare(&block, &read) || check_range(&read))
        return 1;
    sparse_av1_block_clear(&read);

    for (int n = 0; n < 4000; n++) {
        const size_t at = next_random(&random_state) % out.size,
                     cut = next_random(&random_state) % 8 ? 0 : 1 + at;
        const uint8_t before = out.data[at];
        int ret;

        out.data[at] = (uint8_t)(n % 2 ? next_random(&random_state)
                                       : before ^ (1u << next_random(&random_state) % 8));
        read = empty_block(block.shown_count);
        span = (SparseSpan){.at = out.data, .end = out.data + out.size - cut};
        ret = sparse_av1_block_unpack(span, &read, packets, SEQUENCES, NULL);
        CHECK(ret == 0 || ret == 1);
        if (ret == 1 && check_range(&read))
            return 1;
        refused += !ret;
        sparse_av1_block_clear(&read);
        out.data[at] = before;
    }
    CHECK(refused > 400);
    free(out.data);
    return 0;
}

/* More of what a block can't hold is refused, and not written. */
static int test_limits(void)
{
    SparseAv1Block block = make_block(0), read;
    int32_t slots[SPARSE_AV1_SLOTS];
    SparseBuffer out = {0};
    SparseSpan span;

    block.shown_count = SPARSE_AV1_PER_PACKET;
    for (int i = 0; i <= SPARSE_AV1_PER_PACKET; i++)
        shown[i] = (SparseAv1Shown){
            .picture = slots_before[0], .packet = FIRST + 7, .offset = 3 * i, .size = 3};
    packets[7].size = 3 * SPARSE_AV1_PER_PACKET + 3;
    packets[7].flags = 0;
    for (int i = 0; i < SPARSE_AV1_PER_PACKET; i++)
        shown[i].pts = packets[7].pts;
    memcpy(slots, slots_before, sizeof(slots));
    CHECK(sparse_av1_block_pack(&out, &block, packets, slots, NULL) == 0);
    read = empty_block(block.shown_count);
    span = (SparseSpan){.at = out.data, .end = out.data + out.size};
    CHECK(sparse_av1_block_unpack(span, &read, packets, SEQUENCES, NULL) == 1);
    if (compare(&block, &read))
        return 1;
    sparse_av1_block_clear(&read);
    /* another number of them than the head of the index says */
    for (int off = -1; off <= 1; off += 2) {
        read = empty_block(block.shown_count + off);
        CHECK(sparse_av1_block_unpack(span, &read, packets, SEQUENCES, NULL) == 0);
        sparse_av1_block_clear(&read);
    }
    block.shown_count++;
    CHECK(sparse_av1_block_pack(&out, &block, packets, slots, NULL) == SPARSE_ERR_UNSUPPORTED);
    free(out.data);
    return 0;
}

int main(void)
{
    for (int n = 0; n < 8; n++)
        if (test_round_trip(2) || test_round_trip(40))
            return 1;
    return test_limits();
}
