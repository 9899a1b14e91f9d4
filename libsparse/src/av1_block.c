/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A block is a list of what its packets hold, frames and OBUs that show an earlier one, as
 * columns. What follows from packets and slots is foretold: encoders put one or two into a packet,
 * and the last reaches to its end.
 */
#include "av1_block.h"

#include <stdlib.h>
#include <string.h>

#include "column.h"

enum {
    /* of one packet, frames and OBUs that show one */
    MOST_ITEMS = 2 * SPARSE_AV1_PER_PACKET,
    MOST_SIZE = 1 << 16 /* of a frame, in samples */
};

/* What an item is, in one byte. */
enum {
    KIND_TYPE = 3,     /* enum SparseAv1FrameType */
    KIND_FLAGS = 4,    /* SPARSE_AV1_SHOWN ... from here on */
    KIND_EXISTING = 32 /* no frame, but an OBU that shows one */
};

/* Columns of numbers. Those of single bytes follow them. */
enum {
    COLUMN_OFFSET,
    COLUMN_SIZE,
    COLUMN_WIDTH,
    COLUMN_HEIGHT,
    COLUMN_SEQUENCE,
    COLUMN_CHECKED,
    COLUMN_EXISTING_CHECK,
    COLUMN_NB
};

typedef struct Item {
    int packet; /* in the block */
    int64_t values[COLUMN_NB];
    uint8_t kind;
    uint8_t used;    /* slots, as bits */
    uint8_t refresh; /* of a frame */
    uint16_t check;  /* of a frame */
} Item;

static int is_existing(const Item *item)
{
    return item->kind & KIND_EXISTING;
}

static int slot_of(uint8_t bits)
{
    int slot = 0;

    while (slot < SPARSE_AV1_SLOTS - 1 && !(bits >> slot & 1))
        slot++;
    return slot;
}

/* The check of an OBU that shows a slot, as it is without times and frame ids. */
static uint16_t usual_check(uint8_t used)
{
    const uint8_t obu[3] = {SPARSE_AV1_OBU_FRAME_HEADER << 3 | 2, 1,
                            (uint8_t)(0x88 | slot_of(used) << 4)};

    return sparse_packet_check(obu, sizeof(obu));
}

/*
 * What is foretold of an item that has all columns before this one: before is the one before it,
 * first the first one of the packet before it, either NULL when there is none.
 */
static int64_t foretell(const Item *item, const Item *before, const Item *first, int is_last,
                        const SparsePacket *packets, int column)
{
    switch (column) {
    case COLUMN_OFFSET:
        if (before && before->packet == item->packet)
            return before->values[COLUMN_OFFSET] + before->values[COLUMN_SIZE];
        return first ? first->values[COLUMN_OFFSET] : 0;
    case COLUMN_SIZE:
        return is_last ? sparse_minus(packets[item->packet].size, item->values[COLUMN_OFFSET]) : 0;
    case COLUMN_CHECKED:
        if (is_existing(item))
            return 0;
        return item->values[COLUMN_SIZE] < SPARSE_CHECKED_BYTES ? item->values[COLUMN_SIZE]
                                                                : SPARSE_CHECKED_BYTES;
    case COLUMN_EXISTING_CHECK: return is_existing(item) ? usual_check(item->used) : 0;
    default: return before ? before->values[column] : 0;
    }
}

/* Where the items stand among their neighbours. */
typedef struct Neighbours {
    const Item *before, *first, *of_packet;
} Neighbours;

/* Those of the next item. */
static void step(Neighbours *near, const Item *item)
{
    if (!near->before || near->before->packet != item->packet) {
        near->first = near->of_packet;
        near->of_packet = item;
    }
}

/* ---- Packing ---- */

/* A column that an item hasn't says what the item before it does. */
static void fill_frame(Item *item, const SparseAv1Frame *frame)
{
    item->values[COLUMN_OFFSET] = frame->offset;
    item->values[COLUMN_SIZE] = frame->size;
    item->values[COLUMN_WIDTH] = frame->width;
    item->values[COLUMN_HEIGHT] = frame->height;
    item->values[COLUMN_SEQUENCE] = frame->sequence;
    item->values[COLUMN_CHECKED] = frame->checked;
    item->values[COLUMN_EXISTING_CHECK] = 0;
    item->kind = (uint8_t)(frame->type | frame->flags * KIND_FLAGS);
    for (int k = 0; k < frame->reference_count; k++)
        item->used |= frame->reference_slots[k];
    item->refresh = frame->refresh;
    item->check = frame->check;
}

static void fill_existing(Item *item, const Item *before, const SparseAv1Shown *shown)
{
    if (before)
        memcpy(item->values, before->values, sizeof(item->values));
    item->values[COLUMN_OFFSET] = shown->offset;
    item->values[COLUMN_SIZE] = shown->size;
    item->values[COLUMN_CHECKED] = 0;
    item->values[COLUMN_EXISTING_CHECK] = shown->check;
    item->kind = KIND_EXISTING;
    item->used = (uint8_t)(1 << shown->slot);
}

/* The block's items in their order; their number, or a negative code. */
static int list_items(const SparseAv1Block *block, Item *items, int64_t *counts, SparseError *error)
{
    int count = 0, shown = 0;

    for (int k = 0; k < block->packet_count; k++) {
        int frame = block->frame_first[k], existing = 0;
        const int start = count;

        for (;;) {
            const SparseAv1Shown *next;
            Item *item = &items[count];

            /* those that are shown when they are decoded are told by the frame */
            while (shown < block->shown_count && block->shown[shown].packet == block->first + k &&
                   !block->shown[shown].size)
                shown++;
            next = shown < block->shown_count && block->shown[shown].packet == block->first + k
                       ? &block->shown[shown]
                       : NULL;
            if (frame == block->frame_first[k + 1] && !next)
                break;
            *item = (Item){.packet = k};
            if (!next ||
                (frame < block->frame_first[k + 1] && block->frames[frame].offset < next->offset)) {
                fill_frame(item, &block->frames[frame++]);
            } else {
                if (existing++ == SPARSE_AV1_PER_PACKET)
                    return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1,
                                       "packet %lld shows too many frames for a saved index",
                                       (long long)(block->first + k));
                fill_existing(item, count ? item - 1 : NULL, next);
                shown++;
            }
            count++;
        }
        counts[k] = count - start;
    }
    return count;
}

static void put_slots(SparseBuffer *out, const SparseAv1Block *block, const int32_t *slots)
{
    for (int slot = 0; slot < SPARSE_AV1_SLOTS; slot++)
        sparse_put_varint(
            out,
            slots[slot] < 0 ? 0 : (uint64_t)(block->first * SPARSE_AV1_PER_PACKET - slots[slot]));
}

/* The reference frame update process, 7.20. */
static void refresh_slots(int32_t *slots, uint8_t refresh, int32_t picture)
{
    for (int slot = 0; slot < SPARSE_AV1_SLOTS; slot++)
        if (refresh >> slot & 1)
            slots[slot] = picture;
}

static void pass_slots(const SparseAv1Block *block, int32_t *slots)
{
    for (int k = 0; k < block->packet_count; k++)
        for (int i = block->frame_first[k]; i < block->frame_first[k + 1]; i++)
            refresh_slots(
                slots, block->frames[i].refresh,
                (int32_t)((block->first + k) * SPARSE_AV1_PER_PACKET + i - block->frame_first[k]));
}

int sparse_av1_block_pack(SparseBuffer *out, const SparseAv1Block *block,
                          const SparsePacket *packets, int32_t *slots, SparseError *error)
{
    const size_t most = (size_t)block->packet_count * MOST_ITEMS + 1;
    Item *items = malloc(most * sizeof(*items));
    int64_t *left = malloc(most * sizeof(*left)), counts[SPARSE_BLOCK];
    int ret = items && left ? 0 : sparse_fail_memory(error), count = 0;
    uint32_t present = 0;
    size_t head;

    if (ret >= 0)
        ret = count = list_items(block, items, counts, error);
    if (ret >= 0)
        ret = sparse_buffer_reserve(
            out,
            (SPARSE_AV1_SLOTS + SPARSE_BLOCK + 1 + COLUMN_NB * ((size_t)count + 1)) *
                    SPARSE_VARINT_MOST +
                5 * (size_t)count + 1,
            error);
    if (ret < 0)
        goto done;
    head = out->size++; /* which columns are there */
    put_slots(out, block, slots);
    for (int k = block->packet_count; k--;)
        counts[k] -= k ? counts[k - 1] : 1;
    present = (uint32_t)sparse_put_column(out, counts, block->packet_count);
    for (int i = 0; i < count; i++)
        out->data[out->size++] = items[i].kind;
    for (int i = 0; i < count; i++)
        out->data[out->size++] = items[i].used;
    for (int i = 0; i < count; i++)
        if (!is_existing(&items[i]))
            out->data[out->size++] = items[i].refresh;
    for (int column = 0; column < COLUMN_NB; column++) {
        Neighbours near = {0};

        for (int i = 0; i < count; i++) {
            const int is_last = i + 1 == count || items[i + 1].packet != items[i].packet;

            step(&near, &items[i]);
            left[i] =
                sparse_minus(items[i].values[column], foretell(&items[i], near.before, near.first,
                                                               is_last, packets, column));
            near.before = &items[i];
        }
        present |= (uint32_t)sparse_put_column(out, left, count) << (column + 1);
    }
    for (int i = 0; i < count; i++)
        if (!is_existing(&items[i])) {
            out->data[out->size++] = (uint8_t)items[i].check;
            out->data[out->size++] = (uint8_t)(items[i].check >> 8);
        }
    out->data[head] = (uint8_t)present;
    pass_slots(block, slots);
    ret = 0;
done:
    free(items);
    free(left);
    return ret;
}

/* ---- Unpacking ---- */

/* What stands before the block: 1, or 0. */
static int get_slots(SparseSpan *in, const SparseAv1Block *block, int32_t *slots)
{
    const int64_t end = block->first * SPARSE_AV1_PER_PACKET;

    for (int slot = 0; slot < SPARSE_AV1_SLOTS; slot++) {
        const uint64_t back = sparse_get_varint(in);

        if (back > (uint64_t)end)
            return 0;
        slots[slot] = back ? (int32_t)(end - (int64_t)back) : -1;
    }
    return 1;
}

/* Numbers of items of each packet: their sum, or -1. */
static int get_counts(SparseSpan *in, const SparseAv1Block *block, int is_there, int64_t *counts)
{
    int sum = 0;

    sparse_get_column(in, is_there, counts, block->packet_count);
    for (int k = 0; k < block->packet_count; k++) {
        counts[k] = sparse_plus(counts[k], k ? counts[k - 1] : 1);
        if (counts[k] < 0 || counts[k] > MOST_ITEMS)
            return -1;
        sum += (int)counts[k];
    }
    return in->bad ? -1 : sum;
}

/* All that the columns say, each value still as what is left over of it: 1, or 0. */
static int get_columns(SparseSpan *in, uint32_t present, Item *items, int64_t *left, int count)
{
    const uint8_t *kinds = sparse_get_bytes(in, (uint64_t)count);
    const uint8_t *used = sparse_get_bytes(in, (uint64_t)count), *bytes;
    int frames = 0;

    for (int i = 0; kinds && used && i < count; i++) {
        items[i].kind = kinds[i];
        items[i].used = used[i];
        frames += !is_existing(&items[i]);
    }
    bytes = sparse_get_bytes(in, (uint64_t)frames);
    if (in->bad)
        return 0;
    for (int i = 0; i < count; i++)
        if (!is_existing(&items[i]))
            items[i].refresh = *bytes++;
    for (int column = 0; column < COLUMN_NB; column++) {
        sparse_get_column(in, present >> (column + 1) & 1, left, count);
        for (int i = 0; i < count; i++)
            items[i].values[column] = left[i];
    }
    bytes = sparse_get_bytes(in, 2 * (uint64_t)frames);
    if (in->bad || in->at != in->end)
        return 0;
    for (int i = 0; i < count; i++)
        if (!is_existing(&items[i])) {
            items[i].check = (uint16_t)(bytes[0] | bytes[1] << 8);
            bytes += 2;
        }
    return 1;
}

/* Whether an item can be what it says it is. */
static int is_sane(const Item *item, const SparsePacket *packet, size_t sequence_count)
{
    const int64_t *v = item->values;

    /* each at a time: sums of any two numbers might not be what they seem */
    if (v[COLUMN_OFFSET] < 0 || v[COLUMN_OFFSET] > packet->size || v[COLUMN_SIZE] < 1 ||
        v[COLUMN_SIZE] > packet->size - v[COLUMN_OFFSET])
        return 0;
    if (is_existing(item))
        return item->kind == KIND_EXISTING && item->used && !(item->used & (item->used - 1)) &&
               v[COLUMN_EXISTING_CHECK] >= 0 && v[COLUMN_EXISTING_CHECK] <= UINT16_MAX;
    return item->kind < KIND_EXISTING && v[COLUMN_WIDTH] >= 1 && v[COLUMN_WIDTH] <= MOST_SIZE &&
           v[COLUMN_HEIGHT] >= 1 && v[COLUMN_HEIGHT] <= MOST_SIZE && v[COLUMN_SEQUENCE] >= 0 &&
           (uint64_t)v[COLUMN_SEQUENCE] < sequence_count && v[COLUMN_CHECKED] >= 0 &&
           v[COLUMN_CHECKED] <= SPARSE_CHECKED_BYTES && v[COLUMN_CHECKED] <= v[COLUMN_SIZE] &&
           !v[COLUMN_EXISTING_CHECK];
}

/* What stands in the slots that a frame uses. 1, or 0 when one is empty. */
static int set_references(SparseAv1Frame *frame, uint8_t used, const int32_t *slots)
{
    for (int slot = 0; slot < SPARSE_AV1_SLOTS; slot++) {
        int k = 0;

        if (!(used >> slot & 1))
            continue;
        if (slots[slot] < 0)
            return 0;
        while (k < frame->reference_count && frame->references[k] != slots[slot])
            k++;
        if (k == frame->reference_count)
            frame->references[frame->reference_count++] = slots[slot];
        frame->reference_slots[k] |= (uint8_t)(1 << slot);
    }
    return 1;
}

static int add_shown(SparseAv1Block *block, int most, const SparsePacket *packet,
                     SparseAv1Shown shown)
{
    if (packet->flags & SPARSE_PACKET_DISCARD)
        return 1;
    if (block->shown_count == most)
        return 0;
    shown.pts = packet->pts;
    block->shown[block->shown_count++] = shown;
    return 1;
}

/* Add what an item says to the tables, for which there is room: 1, or 0. most: frames put out. */
static int add_item(SparseAv1Block *block, const Item *item, const SparsePacket *packet, int most,
                    int32_t *slots)
{
    const int number = block->frame_count - block->frame_first[item->packet];
    const int32_t packet_number = (int32_t)(block->first + item->packet);
    const int32_t picture = packet_number * SPARSE_AV1_PER_PACKET + number;
    const int64_t *v = item->values;
    SparseAv1Frame *frame = &block->frames[block->frame_count];

    if (is_existing(item)) {
        const int slot = slot_of(item->used);

        return slots[slot] >= 0 && add_shown(block, most, packet,
                                             (SparseAv1Shown){
                                                 .picture = slots[slot],
                                                 .packet = packet_number,
                                                 .offset = (int32_t)v[COLUMN_OFFSET],
                                                 .size = (int32_t)v[COLUMN_SIZE],
                                                 .slot = (uint8_t)slot,
                                                 .check = (uint16_t)v[COLUMN_EXISTING_CHECK],
                                             });
    }
    if (number == SPARSE_AV1_PER_PACKET)
        return 0;
    block->frame_count++;
    *frame = (SparseAv1Frame){
        .packet = packet_number,
        .offset = (int32_t)v[COLUMN_OFFSET],
        .size = (int32_t)v[COLUMN_SIZE],
        .width = (int32_t)v[COLUMN_WIDTH],
        .height = (int32_t)v[COLUMN_HEIGHT],
        .sequence = (int32_t)v[COLUMN_SEQUENCE],
        .shown_before = block->shown_first + block->shown_count,
        .refresh = item->refresh,
        .flags = (uint8_t)(item->kind / KIND_FLAGS),
        .type = item->kind & KIND_TYPE,
        .checked = (uint8_t)v[COLUMN_CHECKED],
        .check = item->check,
    };
    if (!set_references(frame, item->used, slots))
        return 0;
    refresh_slots(slots, item->refresh, picture);
    return !(frame->flags & SPARSE_AV1_SHOWN) ||
           add_shown(block, most, packet,
                     (SparseAv1Shown){.picture = picture, .packet = packet_number});
}

int sparse_av1_block_unpack(SparseSpan in, SparseAv1Block *block, const SparsePacket *packets,
                            size_t sequence_count, SparseError *error)
{
    const int most_shown = block->shown_count;
    const uint8_t *head = sparse_get_bytes(&in, 1);
    int32_t slots[SPARSE_AV1_SLOTS];
    int64_t counts[SPARSE_BLOCK], *left;
    Neighbours near = {0};
    int count, ret = 1, i = 0;
    Item *items;

    block->shown_count = 0;
    if (!head || !get_slots(&in, block, slots))
        return 0;
    count = get_counts(&in, block, *head & 1, counts);
    if (count < 0 || most_shown < 0 || most_shown > count)
        return 0;
    items = calloc((size_t)count + 1, sizeof(*items));
    left = malloc(((size_t)count + 1) * sizeof(*left));
    block->frames = malloc(((size_t)count + 1) * sizeof(*block->frames));
    block->shown = malloc(((size_t)count + 1) * sizeof(*block->shown));
    if (!items || !left || !block->frames || !block->shown)
        ret = sparse_fail_memory(error);
    else
        ret = get_columns(&in, *head, items, left, count);

    for (int k = 0; k < block->packet_count && ret == 1; k++) {
        block->frame_first[k] = (uint16_t)block->frame_count;
        for (int64_t left_here = counts[k]; left_here && ret == 1; left_here--, i++) {
            Item *item = &items[i];

            item->packet = k;
            step(&near, item);
            for (int column = 0; column < COLUMN_NB; column++)
                item->values[column] =
                    sparse_plus(item->values[column], foretell(item, near.before, near.first,
                                                               left_here == 1, packets, column));
            ret = is_sane(item, &packets[k], sequence_count) &&
                  add_item(block, item, &packets[k], most_shown, slots);
            near.before = item;
        }
        block->frame_first[k + 1] = (uint16_t)block->frame_count;
    }
    if (ret == 1)
        ret = block->shown_count == most_shown;
    free(items);
    free(left);
    return ret;
}

void sparse_av1_block_clear(SparseAv1Block *block)
{
    free(block->frames);
    free(block->shown);
    block->frames = NULL;
    block->shown = NULL;
}
