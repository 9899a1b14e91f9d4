/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Packed blocks: what goes in comes out, and damaged ones are refused or give values in range.
 */
#include <stdlib.h>
#include <string.h>

#include <libavcodec/codec_id.h>

#include "check.h"
#include "packed.h"

enum { PACKETS = 150, FRAMES = 170, MOST_ENTRIES = 16 };

static uint32_t random_state = 1;

static SparsePacket packets[PACKETS];
static SparsePicture pictures[PACKETS];
static SparseDisplay frames[FRAMES];
static FFSparseSnapshot snapshots[PACKETS];

static int32_t reference_of(int64_t i, int k)
{
    return (int32_t)(i * (k + 1) / (k + 3));
}

/* Tables with every kind of value; wild 1: the largest and smallest there are. */
static void make_tables(int wild)
{
    memset(packets, 0, sizeof(packets));
    memset(pictures, 0, sizeof(pictures));
    memset(snapshots, 0, sizeof(snapshots));
    for (int i = 0; i < PACKETS; i++) {
        SparsePicture *picture = &pictures[i];
        FFSparseSnapshot *snapshot = &snapshots[i];

        packets[i] = (SparsePacket){
            .pts = wild && i % 3 == 0 ? INT64_MIN : 512 * (int64_t)(i ^ 3),
            .dts = wild && i % 5 == 0 ? INT64_MAX : 512 * (int64_t)i - 1024,
            .duration = wild && i % 7 == 0 ? INT64_MIN : 512,
            .pos = wild && i % 4 == 0 ? INT64_MAX : 48 + 1000 * (int64_t)i,
            .size = wild && i % 4 == 1 ? INT32_MAX : (int32_t)(next_random(&random_state) % 3000),
            .flags = wild ? next_random(&random_state) : 0x100u,
            .check = (uint16_t)next_random(&random_state),
        };
        *picture = (SparsePicture){
            .picture = wild && i % 9 == 4 ? -1 : i - (wild && i % 9 == 3),
            .last_packet = i < PACKETS - 1 && wild ? i + 1 : i,
            .flags = wild ? next_random(&random_state) : 0x10002u,
            .poc = wild && i % 2 ? INT32_MIN
                   : wild        ? INT32_MAX
                                 : 2 * i,
            .width = wild ? (int32_t)(next_random(&random_state) >> 1) : 640,
            .height = 480,
            .format = wild && i % 2 ? -1 : 0,
            .type = "IPB?"[i % 4],
            .params = wild ? i : !!i,
            .colors = {1, 2, (uint8_t)i, 1},
            .shown = wild && i % 8 == 0 ? 0 : i + 3,
            .times_shown = wild ? i % 3 : 1,
            .reference_count = i ? (int32_t)(wild ? i % (2 * FF_SPARSE_MAX_REFS + 1) : 2) : 0,
        };
        for (int k = 0; k < 24; k++)
            snapshot->state[k] = wild ? (int32_t)next_random(&random_state) : k == 3 ? i : 0;
        snapshot->state[12] = 3; /* what is looked at */
        snapshot->state[16] = 4;
        snapshot->nb_entries = wild    ? (int)(next_random(&random_state) % MOST_ENTRIES)
                               : i < 4 ? i
                                       : 4;
        for (int k = 0; k < snapshot->nb_entries; k++)
            snapshot->entries[k] = (FFSparseEntry){
                .id = wild && k % 5 == 4 ? -1 - k % 2
                      : i - 1 - k < 0    ? 0
                                         : i - 1 - k,
                .poc = wild ? (int32_t)next_random(&random_state) : 2 * (i - 1 - k),
                .field_poc = {2 * (i - 1 - k), wild ? INT32_MAX : 2 * (i - 1 - k)},
                .frame_num = wild ? (int32_t)next_random(&random_state) : i - 1 - k,
                .short_index = (int8_t)(wild && k % 3 == 0 ? -1 : k),
                .long_index = (int8_t)(wild && k % 3 == 0 ? k : -1),
                .marking = (uint8_t)(wild ? next_random(&random_state) : 3),
                .flags = (uint8_t)(wild ? next_random(&random_state) : 0),
            };
    }
    for (int k = 0; k < FRAMES; k++)
        frames[k] = (SparseDisplay){.picture = (k ^ 5) % PACKETS,
                                    .pts = wild && k % 6 == 0 ? INT64_MIN : 512 * (int64_t)k};
}

static SparsePacked *pack_tables(void)
{
    SparseBlock *block = calloc(1, sizeof(*block));
    SparsePacked *packed = NULL;

    if (!block || sparse_packed_create(&packed, AV_CODEC_ID_H264, PACKETS, FRAMES, NULL) < 0)
        return NULL;
    block->references = malloc(SPARSE_BLOCK_REFERENCES * sizeof(*block->references));
    for (int64_t first = 0; first < FRAMES && block->references; first += SPARSE_BLOCK) {
        const int64_t left = PACKETS - first, frames_left = FRAMES - first;

        block->first = first;
        block->packet_count = (int)(left < SPARSE_BLOCK ? left : SPARSE_BLOCK);
        block->frame_count = (int)(frames_left < SPARSE_BLOCK ? frames_left : SPARSE_BLOCK);
        block->reference_count = 0;
        for (int k = 0; k < block->packet_count; k++) {
            block->packets[k] = packets[first + k];
            block->pictures[k] = pictures[first + k];
            block->reference_first[k] = (uint32_t)block->reference_count;
            for (int r = 0; r < pictures[first + k].reference_count; r++)
                block->references[block->reference_count++] = reference_of(first + k, r);
        }
        for (int k = 0; k < block->frame_count; k++)
            block->frames[k] = frames[first + k];
        if (sparse_packed_add_block(packed, block, NULL) < 0)
            return NULL;
        for (int k = 0; k < block->packet_count; k++)
            if (sparse_packed_add_snapshot(packed, &snapshots[first + k], first + k, NULL) < 0)
                return NULL;
    }
    sparse_packed_finish(packed);
    free(block->references);
    free(block);
    return packed;
}

static int same_entries(const FFSparseSnapshot *a, const FFSparseSnapshot *b)
{
    if (a->nb_entries != b->nb_entries || memcmp(a->state, b->state, sizeof(a->state)) != 0)
        return 0;
    for (int k = 0; k < a->nb_entries; k++) {
        const FFSparseEntry *x = &a->entries[k], *y = &b->entries[k];

        if (x->id != y->id || x->poc != y->poc || x->field_poc[0] != y->field_poc[0] ||
            x->field_poc[1] != y->field_poc[1] || x->frame_num != y->frame_num ||
            x->short_index != y->short_index || x->long_index != y->long_index ||
            x->marking != y->marking || x->flags != y->flags)
            return 0;
    }
    return 1;
}

/* All that was packed, in disorder. */
static int compare(SparsePacked *packed)
{
    for (int n = 0; n < 4 * PACKETS; n++) {
        const int i = (int)(next_random(&random_state) % PACKETS),
                  k = (int)(next_random(&random_state) % FRAMES);
        const SparsePacket packet = sparse_packed_packet(packed, i);
        const SparsePicture picture = sparse_packed_picture(packed, i);
        const SparseDisplay frame = sparse_packed_frame(packed, k);
        int32_t references[2 * FF_SPARSE_MAX_REFS];
        FFSparseSnapshot snapshot;

        CHECK(packet.pts == packets[i].pts && packet.dts == packets[i].dts);
        CHECK(packet.duration == packets[i].duration && packet.pos == packets[i].pos);
        CHECK(packet.size == packets[i].size && packet.flags == packets[i].flags);
        CHECK(packet.check == packets[i].check);
        CHECK(picture.picture == pictures[i].picture && picture.poc == pictures[i].poc);
        CHECK(picture.last_packet == pictures[i].last_packet);
        CHECK(picture.flags == pictures[i].flags && picture.type == pictures[i].type);
        CHECK(picture.width == pictures[i].width && picture.height == pictures[i].height);
        CHECK(picture.format == pictures[i].format && picture.params == pictures[i].params);
        CHECK(!memcmp(&picture.colors, &pictures[i].colors, sizeof(picture.colors)));
        CHECK(picture.shown == pictures[i].shown);
        CHECK(picture.times_shown == pictures[i].times_shown);
        CHECK(frame.picture == frames[k].picture && frame.pts == frames[k].pts);
        CHECK(sparse_packed_references(packed, i, references) == pictures[i].reference_count);
        for (int r = 0; r < pictures[i].reference_count; r++)
            CHECK(references[r] == reference_of(i, r));
        sparse_packed_snapshot(packed, i, &snapshot);
        CHECK(same_entries(&snapshot, &snapshots[i]));
        CHECK(!sparse_packed_is_broken(packed));
    }
    return 0;
}

static int test_round_trip(int wild)
{
    SparseBuffer sizes = {0}, blocks = {0};
    SparsePacked *packed, *read = NULL;
    SparseSpan span;

    make_tables(wild);
    packed = pack_tables();
    CHECK(packed);
    if (compare(packed))
        return 1;
    CHECK(sparse_packed_write(packed, &sizes, &blocks, NULL) == 0);
    span = (SparseSpan){.at = sizes.data, .end = sizes.data + sizes.size};
    CHECK(sparse_packed_read(&read, AV_CODEC_ID_H264, PACKETS, FRAMES, &span, blocks.data,
                             blocks.size, NULL) == 0);
    CHECK(read);
    if (compare(read))
        return 1;
    if (!wild) /* some 40 bytes a picture is what it is for */
        CHECK(blocks.size < 40 * PACKETS);

    /* Bits that are turned: refused, or values in range. */
    for (int n = 0; n < 2000; n++) {
        const size_t at = next_random(&random_state) % blocks.size;
        const uint8_t before = blocks.data[at];

        blocks.data[at] ^= (uint8_t)(1 << next_random(&random_state) % 8);
        sparse_packed_free(&read);
        span = (SparseSpan){.at = sizes.data, .end = sizes.data + sizes.size};
        CHECK(sparse_packed_read(&read, AV_CODEC_ID_H264, PACKETS, FRAMES, &span, blocks.data,
                                 blocks.size, NULL) == 0);
        for (int m = 0; m < 6; m++) {
            const int i = (int)(next_random(&random_state) % PACKETS);
            const SparsePicture picture = sparse_packed_picture(read, i);
            int32_t references[2 * FF_SPARSE_MAX_REFS];
            int count = sparse_packed_references(read, i, references);
            FFSparseSnapshot snapshot;

            CHECK(picture.picture >= -1 && picture.picture <= i);
            CHECK(picture.last_packet < PACKETS);
            CHECK(count >= 0 && count <= 2 * FF_SPARSE_MAX_REFS);
            for (int r = 0; r < count; r++)
                CHECK(references[r] >= 0 && references[r] < i);
            sparse_packed_snapshot(read, i, &snapshot);
            CHECK(snapshot.nb_entries >= 0 && snapshot.nb_entries <= FF_SPARSE_MAX_ENTRIES);
            for (int k = 0; k < snapshot.nb_entries; k++)
                CHECK(snapshot.entries[k].short_index >= -1 &&
                      snapshot.entries[k].short_index < 32);
            CHECK(sparse_packed_frame(read, i).picture < PACKETS);
        }
        blocks.data[at] = before;
    }
    sparse_packed_free(&read);
    sparse_packed_free(&packed);
    free(sizes.data);
    free(blocks.data);
    return 0;
}

int main(void)
{
    return test_round_trip(0) || test_round_trip(1);
}
