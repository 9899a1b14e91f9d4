/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Snapshots as chains: each tells what is not as in the one before it. Between two of them a
 * picture enters the DPB, perhaps one leaves, places in the list of short-term references move
 * up by one, and some counters count.
 */
#include <string.h>

#include <libavcodec/codec_id.h>
#include <libavutil/macros.h>

#include "block.h"

enum { STATES = FF_ARRAY_ELEMS(((FFSparseSnapshot *)0)->state) };

/* What of an entry isn't as foretold. */
enum {
    OTHER_POC = 1,
    OTHER_FIELDS = 2,
    OTHER_FRAME_NUM = 4,
    OTHER_SHORT = 8,
    OTHER_LONG = 16,
    OTHER_MARKS = 32,
    OTHER_PLACE = 64, /* it stood elsewhere in the snapshot before */
    NEW = 128         /* it wasn't there */
};

void sparse_chain_start(SparseChain *chain, int codec)
{
    memset(chain, 0, sizeof(*chain));
    chain->codec = codec;
    chain->newest.long_index = -1;
}

/* The entry with this id at or after place `at` of the last snapshot, or before it; -1: none. */
static int find_entry(const FFSparseSnapshot *last, int64_t id, int at)
{
    for (int k = at; k < last->nb_entries; k++)
        if (last->entries[k].id == id)
            return k;
    for (int k = 0; k < at && k < last->nb_entries; k++)
        if (last->entries[k].id == id)
            return k;
    return -1;
}

/* What an entry that was entry k before (-1: that is new) is taken to be but for its id. */
static FFSparseEntry foretell(const SparseChain *chain, int k, int shift, int32_t poc)
{
    FFSparseEntry entry;

    if (k >= 0) {
        entry = chain->last.entries[k];
        if (entry.short_index >= 0 && entry.short_index + shift <= INT8_MAX)
            entry.short_index = (int8_t)(entry.short_index + shift);
        return entry;
    }
    entry = chain->newest;
    entry.poc = poc;
    if (chain->codec == AV_CODEC_ID_H264) {
        entry.short_index = 0;
        entry.field_poc[0] = entry.field_poc[1] = poc;
    }
    return entry;
}

/* Fields of an entry that differ. */
static int compare(const FFSparseEntry *a, const FFSparseEntry *b)
{
    return (a->poc != b->poc ? OTHER_POC : 0) |
           (a->field_poc[0] != b->field_poc[0] || a->field_poc[1] != b->field_poc[1] ? OTHER_FIELDS
                                                                                     : 0) |
           (a->frame_num != b->frame_num ? OTHER_FRAME_NUM : 0) |
           (a->short_index != b->short_index ? OTHER_SHORT : 0) |
           (a->long_index != b->long_index ? OTHER_LONG : 0) |
           (a->marking != b->marking || a->flags != b->flags ? OTHER_MARKS : 0);
}

/* By how much most places in the short-term list have moved. */
static int find_shift(const SparseChain *chain, const FFSparseSnapshot *snapshot)
{
    int moved = 0, stayed = 0;

    for (int k = 0; k < snapshot->nb_entries; k++) {
        const FFSparseEntry *entry = &snapshot->entries[k];
        int before = find_entry(&chain->last, entry->id, k);

        if (before < 0)
            continue;
        moved += entry->short_index == chain->last.entries[before].short_index + 1;
        stayed += entry->short_index == chain->last.entries[before].short_index;
    }
    return moved > stayed;
}

static void pack_state(SparseBuffer *out, const int32_t *last, const int32_t *state)
{
    uint64_t changed = 0;

    for (int k = 0; k < STATES; k++)
        changed |= (uint64_t)(state[k] != last[k]) << k;
    sparse_put_varint(out, changed);
    for (int k = 0; k < STATES; k++)
        if (state[k] != last[k])
            sparse_put_signed(out, (int64_t)state[k] - last[k]);
}

static void pack_entry(SparseBuffer *out, const SparseChain *chain, const FFSparseEntry *entry,
                       const FFSparseEntry *told, int what, int place, int64_t i)
{
    out->data[out->size++] = (uint8_t)what;
    if (what & OTHER_PLACE)
        out->data[out->size++] = (uint8_t)place;
    if (what & NEW) /* an id, or one of the few negative numbers that stand for none */
        sparse_put_varint(out, entry->id < 0 ? (uint64_t)-entry->id << 1 | 1
                                             : (uint64_t)(i - entry->id) << 1);
    if (what & OTHER_POC)
        sparse_put_signed(out, (int64_t)entry->poc - told->poc);
    if (what & OTHER_FIELDS) {
        sparse_put_signed(out, (int64_t)entry->field_poc[0] - entry->poc);
        sparse_put_signed(out, (int64_t)entry->field_poc[1] - entry->poc);
    }
    if (what & OTHER_FRAME_NUM)
        sparse_put_signed(out, (int64_t)entry->frame_num - told->frame_num);
    if (what & OTHER_SHORT)
        out->data[out->size++] = (uint8_t)entry->short_index;
    if (what & OTHER_LONG)
        out->data[out->size++] = (uint8_t)entry->long_index;
    if (what & OTHER_MARKS) {
        out->data[out->size++] = entry->marking;
        out->data[out->size++] = entry->flags;
    }
}

int sparse_chain_pack(SparseBuffer *out, SparseChain *chain, const FFSparseSnapshot *snapshot,
                      int64_t i, SparseError *error)
{
    const size_t most = (STATES + 4 + FF_SPARSE_MAX_ENTRIES * 10) * SPARSE_VARINT_MOST;
    int ret = sparse_buffer_reserve(out, most, error);
    int shift, next = 0, plain = 0;

    if (ret < 0)
        return ret;
    pack_state(out, chain->last.state, snapshot->state);
    shift = find_shift(chain, snapshot);
    sparse_put_varint(out, (uint64_t)snapshot->nb_entries << 1 | (uint64_t)shift);

    /* numbers of plain entries, each followed by one that isn't */
    for (int k = 0; k < snapshot->nb_entries; k++) {
        const FFSparseEntry *entry = &snapshot->entries[k];
        int place = find_entry(&chain->last, entry->id, next), what;
        FFSparseEntry told = foretell(chain, place, shift, chain->newest.poc);

        if (place < 0 && entry->poc != told.poc) {
            told = foretell(chain, place, shift, entry->poc);
            told.poc = chain->newest.poc;
        }
        what = compare(entry, &told) | (place < 0 ? NEW : place != next ? OTHER_PLACE : 0);
        if (!what) {
            plain++;
        } else {
            sparse_put_varint(out, (uint64_t)plain);
            plain = 0;
            pack_entry(out, chain, entry, &told, what, place, i);
        }
        if (place < 0)
            chain->newest = *entry;
        else
            next = place + 1;
    }
    if (plain)
        sparse_put_varint(out, (uint64_t)plain);
    memcpy(chain->last.state, snapshot->state, sizeof(snapshot->state));
    if (snapshot->nb_entries)
        memcpy(chain->last.entries, snapshot->entries,
               (size_t)snapshot->nb_entries * sizeof(*snapshot->entries));
    chain->last.nb_entries = snapshot->nb_entries;
    return 0;
}

/* a + b, or 0 and *bad when that is no int32. */
static int32_t add(int64_t a, int64_t b, int *bad)
{
    if (b < -((int64_t)1 << 33) || b > (int64_t)1 << 33 || a + b < INT32_MIN || a + b > INT32_MAX) {
        *bad = 1;
        return 0;
    }
    return (int32_t)(a + b);
}

static uint8_t get_byte(SparseSpan *in)
{
    const uint8_t *byte = sparse_get_bytes(in, 1);

    return byte ? *byte : 0;
}

/* An entry that isn't plain; next is the place it would have had. 1, or 0. */
static int unpack_entry(SparseSpan *in, SparseChain *chain, FFSparseEntry *entry, int shift,
                        int *next, int64_t i)
{
    const int what = get_byte(in);
    int place = what & NEW ? -1 : what & OTHER_PLACE ? get_byte(in) : *next;
    int32_t poc = chain->newest.poc;
    int64_t id = 0;

    if (place >= chain->last.nb_entries || (what & NEW && what & OTHER_PLACE))
        return 0;
    if (what & NEW) {
        uint64_t coded = sparse_get_varint(in);

        if (coded & 1 ? coded >> 1 > -FF_SPARSE_ID_GRAY : coded >> 1 > (uint64_t)i)
            return 0;
        id = coded & 1 ? -(int64_t)(coded >> 1) : i - (int64_t)(coded >> 1);
    } else {
        poc = chain->last.entries[place].poc;
    }
    if (what & OTHER_POC)
        poc = add(poc, sparse_get_signed(in), &in->bad);
    *entry = foretell(chain, place, shift, poc);
    entry->poc = poc;
    if (what & NEW)
        entry->id = id;
    if (what & OTHER_FIELDS) {
        entry->field_poc[0] = add(poc, sparse_get_signed(in), &in->bad);
        entry->field_poc[1] = add(poc, sparse_get_signed(in), &in->bad);
    }
    if (what & OTHER_FRAME_NUM)
        entry->frame_num = add(entry->frame_num, sparse_get_signed(in), &in->bad);
    if (what & OTHER_SHORT)
        entry->short_index = (int8_t)get_byte(in);
    if (what & OTHER_LONG)
        entry->long_index = (int8_t)get_byte(in);
    if (what & OTHER_MARKS) {
        entry->marking = get_byte(in);
        entry->flags = get_byte(in);
    }
    if (what & NEW)
        chain->newest = *entry;
    else
        *next = place + 1;
    return !in->bad;
}

/*
 * Whether a decoder may be given the snapshot. FFmpeg's restores look for themselves, but at each
 * picture; what is said of H.264's lists can be refused as a damaged index here.
 */
static int is_sane(const SparseChain *chain)
{
    const FFSparseSnapshot *last = &chain->last;
    uint64_t short_places = 0, long_places = 0;

    if (chain->codec != AV_CODEC_ID_H264)
        return 1;
    if (last->state[SPARSE_H264_LENGTH_SIZE] < 0 || last->state[SPARSE_H264_LENGTH_SIZE] > 4 ||
        last->state[SPARSE_H264_STRUCTURE] < 0 || last->state[SPARSE_H264_STRUCTURE] > 3)
        return 0;
    for (int k = 0; k < last->nb_entries; k++) {
        const FFSparseEntry *entry = &last->entries[k];

        if (entry->short_index < -1 || entry->short_index > 31 || entry->long_index < -1 ||
            entry->long_index > 31)
            return 0;
        if ((entry->short_index >= 0 && short_places >> entry->short_index & 1) ||
            (entry->long_index >= 0 && long_places >> entry->long_index & 1))
            return 0;
        if (entry->short_index >= 0)
            short_places |= (uint64_t)1 << entry->short_index;
        if (entry->long_index >= 0)
            long_places |= (uint64_t)1 << entry->long_index;
    }
    return 1;
}

int sparse_chain_unpack(SparseSpan *in, SparseChain *chain, int64_t i)
{
    FFSparseEntry entries[FF_SPARSE_MAX_ENTRIES];
    uint64_t changed = sparse_get_varint(in), coded;
    int count, shift, next = 0, filled = 0;

    if (changed >> STATES)
        return 0;
    for (int k = 0; k < STATES; k++)
        if (changed >> k & 1)
            chain->last.state[k] = add(chain->last.state[k], sparse_get_signed(in), &in->bad);
    coded = sparse_get_varint(in);
    shift = (int)(coded & 1);
    if (coded >> 1 > FF_SPARSE_MAX_ENTRIES)
        return 0;
    count = (int)(coded >> 1);

    while (filled < count) {
        uint64_t plain = sparse_get_varint(in);

        if (in->bad || plain > (uint64_t)(count - filled) ||
            (int64_t)plain > chain->last.nb_entries - next)
            return 0;
        for (; plain; plain--, next++)
            entries[filled++] = foretell(chain, next, shift, 0);
        if (filled < count && !unpack_entry(in, chain, &entries[filled++], shift, &next, i))
            return 0;
    }
    if (filled)
        memcpy(chain->last.entries, entries, (size_t)filled * sizeof(*entries));
    chain->last.nb_entries = filled;
    return !in->bad && is_sane(chain);
}
