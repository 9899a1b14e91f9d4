/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tables as columns. A value is foretold from the one before it, and what is left over is
 * divided by what all left-overs of the column have in common: times are multiples of a frame's
 * duration, POCs of 2. A column in which nothing is left takes no byte.
 */
#include "block.h"

#include <stdlib.h>

#include "array.h"
#include "column.h"

/* The columns in their order. */
enum {
    COLUMN_POS,
    COLUMN_SIZE,
    COLUMN_DTS,
    COLUMN_PTS,
    COLUMN_DURATION,
    COLUMN_PACKET_FLAGS,
    COLUMN_CHECK,
    COLUMN_PICTURE,
    COLUMN_LAST_PACKET,
    COLUMN_FLAGS,
    COLUMN_POC,
    COLUMN_WIDTH,
    COLUMN_HEIGHT,
    COLUMN_FORMAT,
    COLUMN_TYPE,
    COLUMN_PARAMS,
    COLUMN_COLORS,
    COLUMN_SHOWN,
    COLUMN_TIMES_SHOWN,
    COLUMN_REFERENCE_COUNT,
    COLUMN_FRAME_PICTURE,
    COLUMN_FRAME_PTS,
    COLUMN_NB
};

/* ---- What is foretold ---- */

/* The numbers of a column, or their reading back: value k with what is before it. Only members
 * of columns before this one, and of items before k, may be looked at. */
static int64_t get_value(const SparseBlock *block, int column, int k)
{
    const SparsePacket *packet = &block->packets[k];
    const SparsePicture *picture = &block->pictures[k];

    switch (column) {
    case COLUMN_POS: return packet->pos;
    case COLUMN_SIZE: return packet->size;
    case COLUMN_DTS: return packet->dts;
    case COLUMN_PTS: return sparse_minus(packet->pts, packet->dts);
    case COLUMN_DURATION: return packet->duration;
    case COLUMN_PACKET_FLAGS: return packet->flags;
    case COLUMN_CHECK: return packet->check;
    case COLUMN_PICTURE: return block->first + k - picture->picture;
    case COLUMN_LAST_PACKET: return picture->last_packet - (block->first + k);
    case COLUMN_FLAGS: return picture->flags;
    case COLUMN_POC: return picture->poc;
    case COLUMN_WIDTH: return picture->width;
    case COLUMN_HEIGHT: return picture->height;
    case COLUMN_FORMAT: return picture->format;
    case COLUMN_TYPE: return picture->type;
    case COLUMN_PARAMS: return picture->params;
    case COLUMN_COLORS:
        return picture->colors.known | picture->colors.range << 8 |
               (int64_t)picture->colors.space << 16 | (int64_t)picture->colors.location << 24;
    case COLUMN_SHOWN: return picture->shown ? picture->shown - (block->first + k) : 0;
    case COLUMN_TIMES_SHOWN: return picture->times_shown;
    case COLUMN_REFERENCE_COUNT: return picture->reference_count;
    case COLUMN_FRAME_PICTURE: return block->frames[k].picture - (block->first + k);
    default: return block->frames[k].pts;
    }
}

/* 1, or 0 when value can't be of this column. */
static int set_value(SparseBlock *block, int column, int k, int64_t value)
{
    SparsePacket *packet = &block->packets[k];
    SparsePicture *picture = &block->pictures[k];
    const int64_t i = block->first + k;

    /* all members but times and positions are of 32 bits at most */
    if (column != COLUMN_POS && column != COLUMN_DTS && column != COLUMN_PTS &&
        column != COLUMN_DURATION && column != COLUMN_FRAME_PTS &&
        (value < INT32_MIN || value > UINT32_MAX))
        return 0;
    switch (column) {
    case COLUMN_POS: packet->pos = value; return value >= 0;
    case COLUMN_SIZE: packet->size = (int32_t)value; return value >= 0 && value <= INT32_MAX;
    case COLUMN_DTS: packet->dts = value; return 1;
    case COLUMN_PTS: packet->pts = sparse_plus(value, packet->dts); return 1;
    case COLUMN_DURATION: packet->duration = value; return 1;
    case COLUMN_PACKET_FLAGS: packet->flags = (uint32_t)value; return value >= 0;
    case COLUMN_CHECK: packet->check = (uint16_t)value; return value >= 0 && value <= UINT16_MAX;
    case COLUMN_PICTURE:
        picture->picture = (int32_t)(i - value);
        return i - value >= -1 && i - value <= i;
    case COLUMN_LAST_PACKET:
        picture->last_packet = (int32_t)(i + value);
        return value >= 0 && i + value < INT32_MAX;
    case COLUMN_FLAGS: picture->flags = (uint32_t)value; return value >= 0;
    case COLUMN_POC: picture->poc = (int32_t)value; return value <= INT32_MAX;
    case COLUMN_WIDTH: picture->width = (int32_t)value; return value >= 0 && value <= INT32_MAX;
    case COLUMN_HEIGHT: picture->height = (int32_t)value; return value >= 0 && value <= INT32_MAX;
    case COLUMN_FORMAT: picture->format = (int32_t)value; return value <= INT32_MAX;
    case COLUMN_TYPE: picture->type = (char)value; return value >= 0 && value < 128;
    case COLUMN_PARAMS: picture->params = (int32_t)value; return value >= 0 && value <= INT32_MAX;
    case COLUMN_COLORS:
        picture->colors.known = (uint8_t)value;
        picture->colors.range = (uint8_t)(value >> 8);
        picture->colors.space = (uint8_t)(value >> 16);
        picture->colors.location = (uint8_t)(value >> 24);
        return value >= 0;
    case COLUMN_SHOWN:
        picture->shown = value ? (int32_t)(i + value) : 0;
        return i + value >= 0 && i + value <= INT32_MAX;
    case COLUMN_TIMES_SHOWN:
        picture->times_shown = (int32_t)value;
        return value >= 0 && value <= INT32_MAX;
    case COLUMN_REFERENCE_COUNT:
        picture->reference_count = (int32_t)value;
        return value >= 0 && value <= 2 * FF_SPARSE_MAX_REFS;
    case COLUMN_FRAME_PICTURE: block->frames[k].picture = i + value; return i + value >= 0;
    default: block->frames[k].pts = value; return 1;
    }
}

static int64_t foretell(const SparseBlock *block, int column, int k)
{
    if (!k)
        return column == COLUMN_TIMES_SHOWN;
    switch (column) {
    case COLUMN_POS: /* the next one stands behind it, but for other streams */
        return sparse_plus(block->packets[k - 1].pos, block->packets[k - 1].size);
    case COLUMN_DTS:
    case COLUMN_FRAME_PTS:
        if (k >= 2) {
            const int64_t last = get_value(block, column, k - 1);

            return sparse_plus(last, sparse_minus(last, get_value(block, column, k - 2)));
        }
        return get_value(block, column, k - 1);
    case COLUMN_CHECK: /* have nothing to do with each other */
    case COLUMN_SIZE:
    case COLUMN_REFERENCE_COUNT:
    case COLUMN_SHOWN:
    case COLUMN_PICTURE:
    case COLUMN_LAST_PACKET: return 0;
    case COLUMN_TIMES_SHOWN: return 1;
    default: return get_value(block, column, k - 1);
    }
}

static int items_of(const SparseBlock *block, int column)
{
    return column < COLUMN_FRAME_PICTURE ? block->packet_count : block->frame_count;
}

/* POS is foretold from SIZE, which has to be read before it. */
static int column_at(int place)
{
    return place < 2 ? 1 - place : place;
}

/* ---- Blocks ---- */

int sparse_block_pack(SparseBuffer *out, const SparseBlock *block, SparseError *error)
{
    const size_t most = (COLUMN_NB + 2) * (SPARSE_BLOCK + 1) * SPARSE_VARINT_MOST +
                        block->reference_count * SPARSE_VARINT_MOST;
    uint32_t present = 0;
    size_t head;
    int ret = sparse_buffer_reserve(out, most, error);

    if (ret < 0)
        return ret;
    head = out->size;
    out->size += 3; /* which columns are there */
    for (int place = 0; place < COLUMN_NB; place++) {
        const int column = column_at(place), count = items_of(block, column);
        int64_t left[SPARSE_BLOCK];

        for (int k = 0; k < count; k++)
            left[k] = sparse_minus(get_value(block, column, k), foretell(block, column, k));
        present |= (uint32_t)sparse_put_column(out, left, count) << column;
    }
    for (int i = 0; i < 3; i++)
        out->data[head + (size_t)i] = (uint8_t)(present >> (8 * i));

    for (int k = 0; k < block->packet_count; k++) {
        const SparsePicture *picture = &block->pictures[k];

        for (int32_t r = 0; r < picture->reference_count; r++)
            sparse_put_varint(out, (uint64_t)(block->first + k -
                                              block->references[block->reference_first[k] + r]));
    }
    return 0;
}

static int unpack_references(SparseSpan *in, SparseBlock *block, SparseError *error)
{
    block->reference_count = 0;
    for (int k = 0; k < block->packet_count; k++) {
        const int32_t count = block->pictures[k].reference_count;
        int ret;

        block->reference_first[k] = (uint32_t)block->reference_count;
        ret = sparse_array_grow(&block->references, &block->reference_capacity,
                                block->reference_count + (size_t)count, sizeof(*block->references),
                                error);
        if (ret < 0)
            return ret;
        for (int32_t r = 0; r < count; r++) {
            uint64_t back = sparse_get_varint(in);

            /* a picture depends on earlier ones alone */
            if (!back || back > (uint64_t)(block->first + k))
                return 0;
            block->references[block->reference_count++] =
                (int32_t)(block->first + k - (int64_t)back);
        }
    }
    return 1;
}

int sparse_block_unpack(SparseSpan *in, SparseBlock *block, int64_t packet_total,
                        SparseError *error)
{
    const uint8_t *head = sparse_get_bytes(in, 3);
    uint32_t present;
    int ret;

    if (!head)
        return 0;
    present = head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16;
    if (present >> COLUMN_NB)
        return 0;
    for (int place = 0; place < COLUMN_NB; place++) {
        const int column = column_at(place), count = items_of(block, column);
        int64_t left[SPARSE_BLOCK];

        sparse_get_column(in, present >> column & 1, left, count);
        for (int k = 0; k < count; k++)
            if (!set_value(block, column, k, sparse_plus(foretell(block, column, k), left[k])))
                return 0;
    }
    ret = unpack_references(in, block, error);
    if (ret != 1 || in->bad)
        return ret < 0 ? ret : 0;
    for (int k = 0; k < block->packet_count; k++)
        if (block->pictures[k].last_packet >= packet_total)
            return 0;
    for (int k = 0; k < block->frame_count; k++)
        if (block->frames[k].picture >= packet_total)
            return 0;
    return 1;
}
