/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Whether what the check of slice headers calls plain is so, over files and damaged variants of
 * them, against header passes over the whole stream and against linear decodes:
 *
 *     check_plain [-n VARIANTS] [-s SEED] [-l EVERY] FILE...
 *
 * -n: variants of each file, besides itself; -l: of the plain ones, every so many-th is decoded too
 * (0: none, the file itself included). Prints a line a file. Exits with 1 when an answer was wrong;
 * the variant is then left in wrong-plain-SEED-NUMBER.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plain.h"
#include "reader.h"
#include "sparse.h"

enum { MAX_FILE = 64 << 20, MAX_UNITS = 1 << 16, FRAMES = 4 };

typedef struct Unit {
    int64_t field, size; /* where its length field is; bytes after that */
    int64_t packet;
} Unit;

typedef struct File {
    const char *path;
    uint8_t *data;
    size_t size;
    SparsePacket *packets;
    int64_t packet_count;
    Unit *units;
    size_t unit_count;
    int is_hevc;
} File;

static uint32_t random_state;

static uint32_t below(uint32_t limit)
{
    uint32_t next = next_random(&random_state);

    return limit ? next % limit : 0;
}

/* The numbers of a variant; never 0, from which no others would come. */
static void begin_random(long seed, long number)
{
    random_state = (uint32_t)(seed * 2654435761u + number * 40503u) | 1;
    for (int k = 0; k < 4; k++)
        below(2);
}

/* ---- Files ---- */

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static int load(File *file)
{
    SparseSource *source = NULL;
    SparseError error;
    FILE *stream = fopen(file->path, "rb");
    int ret = -1;

    file->data = malloc(MAX_FILE);
    if (stream && file->data) {
        file->size = fread(file->data, 1, MAX_FILE, stream);
        ret = sparse_source_open_memory(&source, file->data, file->size, -1, NULL, NULL, &error);
    }
    if (stream)
        fclose(stream);
    if (ret >= 0)
        ret = sparse_source_packets(source, &file->packet_count, NULL, NULL, &error);
    if (ret < 0 || !sparse_source_has_heads(source)) {
        sparse_source_close(&source);
        return 0;
    }
    file->is_hevc = sparse_source_codecpar(source)->codec_id == AV_CODEC_ID_HEVC;
    file->packets = calloc((size_t)file->packet_count, sizeof(*file->packets));
    file->units = calloc(MAX_UNITS, sizeof(*file->units));
    for (int64_t i = 0; file->packets && file->units && i < file->packet_count; i++) {
        const SparsePacket packet = sparse_source_packet(source, i);

        file->packets[i] = packet;
        for (int64_t at = 0; at + 6 <= packet.size && file->unit_count < MAX_UNITS;) {
            int64_t size = get32(file->data + packet.pos + at);

            if (size < 2 || size > packet.size - at - 4)
                break;
            file->units[file->unit_count++] = (Unit){packet.pos + at, size, i};
            at += 4 + size;
        }
    }
    sparse_source_close(&source);
    return file->unit_count > 0;
}

static void unload(File *file)
{
    free(file->data);
    free(file->packets);
    free(file->units);
}

/* ---- Damage ---- */

/* Fill a place with NAL units of filler data. */
static void fill(const File *file, uint8_t *p, int64_t size)
{
    if (size < 7)
        return;
    memset(p, 0xff, (size_t)size);
    put32(p, (uint32_t)size - 4);
    p[4] = file->is_hevc ? 38 << 1 : 12;
    if (file->is_hevc)
        p[5] = 1;
    p[size - 1] = 0x80;
}

/* Put the contents of one packet in the place of another's, if they fit. */
static void replace(const File *file, uint8_t *data, const SparsePacket *to,
                    const SparsePacket *from)
{
    int64_t rest = (int64_t)to->size - from->size;

    if (rest != 0 && rest < 7)
        return;
    memcpy(data + to->pos, file->data + from->pos, (size_t)from->size);
    fill(file, data + to->pos + from->size, rest);
}

static void damage_box(const File *file, uint8_t *data, const char *kind)
{
    for (size_t i = 4; i + 8 < file->size; i++) {
        uint32_t size = get32(data + i - 4);

        if (memcmp(data + i, kind, 4) == 0 && size >= 12 && size <= file->size - i + 4) {
            data[i + 4 + below(size - 8)] ^= (uint8_t)(1u << below(8));
            return;
        }
    }
}

/* Damage of one kind at one place. */
static void damage(const File *file, uint8_t *data)
{
    const Unit *unit = &file->units[below((uint32_t)file->unit_count)];
    const Unit *other = &file->units[below((uint32_t)file->unit_count)];
    const SparsePacket *packet = &file->packets[unit->packet];
    uint8_t *p = data + unit->field + 4;
    uint32_t head = (uint32_t)(unit->size < 64 ? unit->size : 64);
    uint32_t near = head < 12 ? head : 12;
    int64_t cut;

    switch (below(15)) {
    case 0:
    case 1:
    case 2: p[below(near)] ^= (uint8_t)(1u << below(8)); break;
    case 3: p[below(head)] ^= (uint8_t)(1u << below(8)); break;
    case 4: p[below(near)] = (uint8_t)below(256); break;
    case 5: /* the header of another */
        cut = 1 + below(near);
        memcpy(p, file->data + other->field + 4, (size_t)(cut < other->size ? cut : other->size));
        break;
    case 6: data[unit->field + below(4)] ^= (uint8_t)(1u << below(8)); break;
    case 7: put32(data + unit->field, (uint32_t)(unit->size + below(9) - 4)); break;
    case 8: /* cut off, and filled up */
        cut = 2 + below((uint32_t)unit->size);
        if (unit->size - cut >= 7) {
            put32(data + unit->field, (uint32_t)cut);
            fill(file, p + cut, unit->size - cut);
        }
        break;
    case 9: /* nothing but filler */ fill(file, data + unit->field, unit->size + 4); break;
    case 10:
    case 11: /* another packet, near by or anywhere */
        replace(file, data, packet,
                below(2) ? &file->packets[other->packet]
                         : &file->packets[(unit->packet + 1 + below(3)) % file->packet_count]);
        break;
    case 12: { /* two packets change places */
        const SparsePacket *second =
            &file->packets[(unit->packet + 1 + below(3)) % file->packet_count];

        if (second->size == packet->size)
            replace(file, data, second, packet);
        replace(file, data, packet, second);
        break;
    }
    default: damage_box(file, data, below(2) ? "ctts" : file->is_hevc ? "hvcC" : "avcC");
    }
}

/* ---- The answer ---- */

/* 1: plain, 0: not, or not even a stream with a table. *looked: packets that were looked at. The
 * source is closed. What is told of plain packets goes to *notes, to be freed, if that isn't NULL. */
static int ask(SparseSource *source, int64_t *looked, SparsePlainNotes *notes)
{
    SparsePlainNotes told = {0};
    SparseError error;
    int64_t count = 0;
    int ret = source ? sparse_source_packets(source, &count, NULL, NULL, &error) : -1;

    *looked = 0;
    if (ret >= 0)
        ret = sparse_plain_check(source, &told, looked, &error);
    sparse_source_close(&source);
    if (notes)
        *notes = told;
    else
        sparse_plain_free(&told);
    return ret == 1;
}

static int is_plain(const uint8_t *data, size_t size, int64_t *looked)
{
    SparseSource *source = NULL;
    SparseError error;

    sparse_source_open_memory(&source, data, size, -1, NULL, NULL, &error);
    return ask(source, looked, NULL);
}

/* A callback that never gives all at once. */
static int64_t read_some(void *user, uint8_t *buffer, int64_t offset, int64_t size)
{
    const File *file = user;
    int64_t left = (int64_t)file->size - offset;

    size = size > 777 ? 777 : size;
    size = size > left ? left : size;
    if (size > 0)
        memcpy(buffer, file->data + offset, (size_t)size);
    return size > 0 ? size : 0;
}

/* Whether the answer is the same however the file is read. */
static int ways_agree(File *file)
{
    const SparseIO io = {.user = file, .read = read_some};
    SparseSource *sources[3] = {NULL};
    SparsePlainNotes notes[3];
    int64_t looked[3];
    SparseError error;
    int answers[3], ret = 1;

    sparse_source_open_memory(&sources[0], file->data, file->size, -1, NULL, NULL, &error);
    sparse_source_open_path(&sources[1], file->path, -1, NULL, NULL, &error);
    sparse_source_open_io(&sources[2], &io, -1, NULL, NULL, &error);
    for (int i = 0; i < 3; i++)
        answers[i] = ask(sources[i], &looked[i], &notes[i]);
    for (int i = 1; i < 3; i++)
        ret &= answers[i] == answers[0] && looked[i] == looked[0] &&
               (answers[0] != 1 || memcmp(notes[i].kinds, notes[0].kinds, (size_t)looked[0]) == 0);
    for (int i = 0; i < 3; i++)
        sparse_plain_free(&notes[i]);
    return ret;
}

static SparseReader *open_reader(const uint8_t *data, size_t size, int mode)
{
    SparseSettings settings;
    SparseReader *reader = NULL;

    sparse_default_settings(&settings);
    settings.index_mode = mode;
    sparse_open_memory(&reader, data, size, &settings, NULL);
    return reader;
}

static SparseFrameInfo *list_frames(SparseReader *reader, int64_t *count)
{
    SparseFrameInfo *frames;

    *count = sparse_frame_count(reader, NULL);
    if (*count < 0)
        return NULL;
    frames = calloc((size_t)*count + 1, sizeof(*frames));
    if (frames && sparse_frame_info(reader, 0, *count, frames, NULL) < 0) {
        free(frames);
        frames = NULL;
    }
    return frames;
}

/* Whether both readers know the same frames. */
static int agree(SparseReader *one, SparseReader *other)
{
    int64_t count = -1, other_count = -2;
    SparseFrameInfo *frames = list_frames(one, &count);
    SparseFrameInfo *other_frames = list_frames(other, &other_count);
    int ret = frames && other_frames && count == other_count;

    for (int64_t i = 0; i < count && ret; i++)
        ret = frames[i].picture == other_frames[i].picture &&
              frames[i].pts == other_frames[i].pts &&
              frames[i].duration == other_frames[i].duration &&
              frames[i].key == other_frames[i].key &&
              frames[i].picture_type == other_frames[i].picture_type;
    free(frames);
    free(other_frames);
    return ret;
}

/* Whether a picture has the same references by both indexes. */
static int same_picture(SparseIndex *one, SparseIndex *other, int64_t id)
{
    SparsePlanNode node, other_node;
    SparseError error;
    int32_t references[FF_SPARSE_MAX_REFS];
    int ret = sparse_index_lookup(one, id, &node, &error);
    size_t size = ret < 0 ? 0 : (size_t)node.reference_count * sizeof(*references);

    if (size)
        memcpy(references, node.references, size);
    if (sparse_index_lookup(other, id, &other_node, &error) != ret)
        return 0;
    return ret < 0 ||
           (other_node.reference_count == node.reference_count && other_node.bytes == node.bytes &&
            (!size || memcmp(references, other_node.references, size) == 0));
}

/* Whether closures are the same, of frames that are asked for one after the other. */
static int same_closures(SparseReader *one, SparseReader *other, int64_t count, int tries)
{
    for (int n = 0; n < tries; n++) {
        int64_t index = below((uint32_t)count);
        SparsePlan *plan = NULL, *other_plan = NULL;
        SparsePlanFacts facts, other_facts;
        int ret = sparse_plan_create(&plan, one, &index, 1, NULL);
        int same = sparse_plan_create(&other_plan, other, &index, 1, NULL) == ret;

        if (ret >= 0 && same) {
            sparse_plan_facts(plan, &facts);
            sparse_plan_facts(other_plan, &other_facts);
            same = facts.reconstruct_count == other_facts.reconstruct_count &&
                   facts.linear_count == other_facts.linear_count &&
                   memcmp(facts.reconstruct, other_facts.reconstruct,
                          facts.reconstruct_count * sizeof(*facts.reconstruct)) == 0;
            for (size_t i = 0; i < facts.reconstruct_count && same; i++)
                same = same_picture(one->index, other->index, facts.reconstruct[i]);
        }
        sparse_plan_free(&plan);
        sparse_plan_free(&other_plan);
        if (!same)
            return 0;
    }
    return 1;
}

/* Whether frames from a new reader, as far as it gives them, are the linear decode's. */
static int decodes(SparseReader *reader)
{
    SparseLinear *linear = NULL;
    SparseFrameInfo *frames;
    SparseLayout layout, own;
    int64_t count, number = 0, pts = 0;
    int damaged = 0, ret = 1, got = 0;

    frames = list_frames(reader, &count);
    if (!frames || sparse_linear_open(&linear, reader, NULL) < 0) {
        free(frames);
        return 0;
    }
    for (; (got = sparse_linear_peek(linear, SPARSE_FORMAT_NATIVE, &layout, NULL)) == 1; number++) {
        SparseTarget target = {.data = malloc(2 * layout.size), .size = layout.size};
        SparseTarget second = {.data = target.data + layout.size, .size = layout.size};
        int flaw = 0;

        if (!target.data)
            break;
        sparse_linear_next(linear, SPARSE_FORMAT_NATIVE, &target, &pts, &flaw, NULL);
        damaged |= flaw;
        ret &= number < count && pts == frames[number].pts;
        if (ret && !damaged && below((uint32_t)count) < FRAMES &&
            sparse_frame_layout(reader, number, SPARSE_FORMAT_NATIVE, &own, NULL) >= 0 &&
            own.size == layout.size &&
            sparse_get_frames(reader, &number, 1, SPARSE_FORMAT_NATIVE, &second, 0, 0, NULL) >= 0)
            ret &= memcmp(target.data, second.data, layout.size) == 0;
        free(target.data);
    }
    sparse_linear_close(&linear);
    free(frames);
    return ret && number == count;
}

/* ---- The program ---- */

typedef struct Tally {
    long plain, wrong, decoded;
    int64_t looked;
} Tally;

static void judge(const File *file, const uint8_t *data, long number, long every, long seed,
                  Tally *tally)
{
    SparseReader *whole, *own;
    const char *fault = NULL;

    if (!is_plain(data, file->size, &tally->looked))
        return;
    tally->plain++;
    whole = open_reader(data, file->size, SPARSE_INDEX_WHOLE);
    own = open_reader(data, file->size, SPARSE_INDEX_AUTO);
    if (!whole || !own || !agree(whole, own)) {
        fault = "another order than the header pass";
    } else if (!same_closures(own, whole, sparse_frame_count(own, NULL), number ? 3 : 12)) {
        fault = "other closures than those of the header pass";
    } else if (every && tally->plain % every == 0) {
        tally->decoded++;
        if (!decodes(own))
            fault = "another order, or frames, than the linear decode";
    }
    sparse_close(&whole);
    sparse_close(&own);
    if (fault) {
        char name[64];
        FILE *out;

        snprintf(name, sizeof(name), "wrong-plain-%ld-%ld", seed, number);
        out = fopen(name, "wb");
        if (out) {
            fwrite(data, 1, file->size, out);
            fclose(out);
        }
        printf("%s: variant %ld: %s\n", file->path, number, fault);
        tally->wrong++;
    }
}

int main(int argc, char **argv)
{
    long variants = 0, seed = 1, every = 1, wrong = 0;
    int first = 1;

    for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
        long value = strtol(argv[first + 1], NULL, 10);

        switch (argv[first][1]) {
        case 'n': variants = value; break;
        case 's': seed = value; break;
        case 'l': every = value; break;
        default: first = argc;
        }
    }
    if (first >= argc) {
        fprintf(stderr, "usage: check_plain [-n VARIANTS] [-s SEED] [-l EVERY] FILE...\n");
        return 2;
    }
    for (int i = first; i < argc; i++) {
        File file = {.path = argv[i]};
        Tally tally = {0};
        uint8_t *data = NULL;
        int plain;

        if (!load(&file)) {
            printf("%s: no stream to check\n", file.path);
            unload(&file);
            continue;
        }
        begin_random(seed, 0);
        judge(&file, file.data, 0, every ? 1 : 0, seed, &tally);
        plain = tally.plain > 0;
        if (!ways_agree(&file)) {
            printf("%s: another answer in another way of reading\n", file.path);
            tally.wrong++;
        }
        if (!plain)
            printf("%s: not plain by packet %lld of %lld\n", file.path, (long long)tally.looked - 1,
                   (long long)file.packet_count);
        data = malloc(file.size);
        for (long n = 1; data && n <= variants; n++) {
            begin_random(seed, n);
            memcpy(data, file.data, file.size);
            for (uint32_t k = 1 + (below(4) == 0); k > 0; k--)
                damage(&file, data);
            if (memcmp(data, file.data, file.size) != 0)
                judge(&file, data, n, every, seed, &tally);
        }
        printf("%s: %s, %ld variants, %ld plain, %ld decoded, %ld wrong\n", file.path,
               plain ? "plain" : "not plain", variants, tally.plain - plain, tally.decoded,
               tally.wrong);
        fflush(stdout);
        wrong += tally.wrong;
        free(data);
        unload(&file);
    }
    return wrong > 0;
}
