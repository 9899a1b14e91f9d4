/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "epochs.h"

#include <stdlib.h>
#include <string.h>

#include <libavutil/intreadwrite.h>
#include <libavutil/mem.h>
#include <libavutil/murmur3.h>

enum {
    /* ITU-T H.264, table 7-1, 7.4.2.1.1 and 7.4.2.2 */
    NAL_SPS = 7,
    NAL_PPS = 8,
    SPS_COUNT = 32,
    PPS_COUNT = 256
};

struct SparseSets {
    struct AVMurMur3 *hasher;
    uint64_t sps[SPS_COUNT], pps[PPS_COUNT]; /* hashes; 0: as when the decoder was opened */
    uint8_t sps_of_pps[PPS_COUNT];
    int active;       /* PPS of the last picture */
    uint64_t history; /* of the SPS that were active one after another: each may leave traces,
                         such as the colours where the next one doesn't tell any */
    uint64_t active_sps;
};

int sparse_sets_create(SparseSets **result, SparseError *error)
{
    SparseSets *sets = calloc(1, sizeof(*sets));

    *result = sets;
    if (!sets)
        return sparse_fail_memory(error);
    sets->active = -1;
    sets->hasher = av_murmur3_alloc();
    if (!sets->hasher) {
        sparse_sets_free(result);
        return sparse_fail_memory(error);
    }
    return 0;
}

void sparse_sets_free(SparseSets **result)
{
    if (!*result)
        return;
    av_freep(&(*result)->hasher);
    free(*result);
    *result = NULL;
}

static uint64_t hash(const SparseSets *sets, const void *data, size_t size)
{
    uint8_t digest[16];

    av_murmur3_init(sets->hasher);
    av_murmur3_update(sets->hasher, data, size);
    av_murmur3_final(sets->hasher, digest);
    return AV_RL64(digest) | 1; /* never 0 */
}

static uint64_t mix(const SparseSets *sets, uint64_t a, uint64_t b)
{
    const uint64_t both[2] = {a, b};

    return hash(sets, both, sizeof(both));
}

/* ---- Bits ---- */

typedef struct Bits {
    uint8_t data[32]; /* the beginning of a NAL unit, without emulation prevention */
    int size, at;     /* bits */
} Bits;

static void open_bits(Bits *bits, const uint8_t *data, int64_t size)
{
    int zeros = 0;

    memset(bits, 0, sizeof(*bits));
    for (int64_t i = 0; i < size && bits->size < (int)sizeof(bits->data) * 8; i++) {
        if (zeros >= 2 && data[i] == 3) {
            zeros = 0;
            continue;
        }
        zeros = data[i] ? 0 : zeros + 1;
        bits->data[bits->size / 8] = data[i];
        bits->size += 8;
    }
}

static int get_bit(Bits *bits)
{
    int bit = bits->at < bits->size ? bits->data[bits->at / 8] >> (7 - bits->at % 8) & 1 : 0;

    bits->at++;
    return bit;
}

/* ue(v), ITU-T H.264, 9.1; -1 when it isn't there. */
static int64_t get_ue(Bits *bits)
{
    int zeros = 0;
    int64_t value = 1;

    while (zeros < 32 && bits->at < bits->size && !get_bit(bits))
        zeros++;
    for (int i = 0; i < zeros; i++)
        value = value << 1 | get_bit(bits);
    return bits->at > bits->size ? -1 : value - 1;
}

/* ---- NAL units ---- */

/* The next one, with its header: 1, 0 at the end, -1 when the packet isn't made of them. */
static int next_nal(const uint8_t **at, const uint8_t *end, int length_size, const uint8_t **nal,
                    int64_t *size)
{
    const uint8_t *data = *at;

    if (length_size) {
        int64_t length = 0;

        if (data == end)
            return 0;
        if (end - data < length_size)
            return -1;
        for (int i = 0; i < length_size; i++)
            length = length << 8 | *data++;
        if (length < 1 || length > end - data)
            return -1;
        *nal = data;
        *size = length;
        *at = data + length;
        return 1;
    }
    /* from behind one start code to before the next (Annex B) */
    *nal = NULL;
    for (const uint8_t *one = data; (one = memchr(one, 1, (size_t)(end - one)));) {
        if (one - data >= 2 && !one[-1] && !one[-2]) {
            if (*nal) {
                *size = one - 2 - *nal;
                *at = one - 2;
                return *size > 0 ? 1 : -1;
            }
            *nal = one + 1;
        }
        if (++one == end)
            break;
    }
    *at = end;
    *size = *nal ? end - *nal : 0;
    return *nal && *size > 0;
}

/* 1, or 0 when a NAL unit is not understood. */
static int pass_nal(SparseSets *sets, const uint8_t *nal, int64_t size, int *slices)
{
    const int type = nal[0] & 0x1f;
    int64_t id, of;
    uint64_t key;
    Bits bits;

    while (size > 1 && !nal[size - 1])
        size--; /* zeros before the next start code */
    if (type >= 1 && type <= 5 && type != 3 && type != 4) {
        open_bits(&bits, nal + 1, size - 1);
        get_ue(&bits); /* first_mb_in_slice, slice_type */
        get_ue(&bits);
        id = get_ue(&bits);
        if (id < 0 || id >= PPS_COUNT)
            return 0;
        /* which of two that differ stays active is not for here to know */
        if ((*slices)++ && id != sets->active)
            return 0;
        sets->active = (int)id;
        key = sets->sps[sets->sps_of_pps[id]];
        if (*slices == 1 && key != sets->active_sps) {
            sets->history = mix(sets, sets->history, key);
            sets->active_sps = key;
        }
        return 1;
    }
    if (type != NAL_SPS && type != NAL_PPS)
        return type != 3 && type != 4;

    key = hash(sets, nal, (size_t)size);
    if (type == NAL_SPS) {
        if (size < 5)
            return 0;
        open_bits(&bits, nal + 4, size - 4);
        id = get_ue(&bits);
        if (id < 0 || id >= SPS_COUNT)
            return 0;
        /* another SPS drops the PPS that refer to the one before */
        for (int i = 0; i < PPS_COUNT && sets->sps[id] != key; i++)
            if (!sets->pps[i] || sets->sps_of_pps[i] == id)
                sets->pps[i] = mix(sets, sets->pps[i], key);
        sets->sps[id] = key;
        return 1;
    }
    open_bits(&bits, nal + 1, size - 1);
    id = get_ue(&bits);
    of = get_ue(&bits);
    if (id < 0 || id >= PPS_COUNT || of < 0 || of >= SPS_COUNT)
        return 0;
    sets->pps[id] = key;
    sets->sps_of_pps[id] = (uint8_t)of;
    return 1;
}

void sparse_sets_begin(SparseSets *sets, const uint8_t *extradata, int size)
{
    AVPacket packet = {.data = (uint8_t *)extradata, .size = size};
    const uint8_t *end, *at;
    int slices = 0;

    if (size < 7 || extradata[0] != 1) {
        if (size > 0)
            sparse_sets_pass(sets, &packet, -1, 0, 0);
        return;
    }
    at = extradata + 5;
    end = extradata + size;
    for (int list = 0; list < 2 && at < end; list++) {
        int count = list ? *at++ : *at++ & 0x1f;

        for (; count > 0 && end - at > 2; count--) {
            const int length = at[0] << 8 | at[1];

            at += 2;
            if (length < 1 || length > end - at)
                return;
            pass_nal(sets, at, length, &slices);
            at += length;
        }
    }
}

void sparse_sets_pass(SparseSets *sets, const AVPacket *packet, int64_t number, int length_size,
                      int unsure)
{
    const uint8_t *at = packet->data, *end = packet->data + packet->size, *nal;
    int slices = 0, got = 0;
    int64_t size;

    while (at && !unsure && (got = next_nal(&at, end, length_size, &nal, &size)) > 0)
        unsure = !pass_nal(sets, nal, size, &slices);
    if (unsure || got < 0) /* equal to nothing from here on */
        sets->history = mix(sets, sets->history, (uint64_t)number + 2);
}

uint64_t sparse_sets_key(const SparseSets *sets)
{
    uint64_t key = mix(sets, hash(sets, sets->sps, sizeof(sets->sps)),
                       hash(sets, sets->pps, sizeof(sets->pps)));

    key = mix(sets, key, hash(sets, sets->sps_of_pps, sizeof(sets->sps_of_pps)));
    return mix(sets, mix(sets, key, sets->history), (uint64_t)(sets->active + 1));
}
