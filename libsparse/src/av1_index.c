/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "av1_index_internal.h"

#include <stdlib.h>
#include <string.h>

#include <libavutil/avutil.h>

#include "array.h"

enum {
    HEAD = 256,          /* bytes read at first: of a small packet all, of frames the header */
    AHEAD = 1 << 10, /* a packet of so many is read whole, with the next one's head: a read costs
                            more than a few bytes */
    HEAD_MOST = 4 << 10, /* bytes that a frame header may take */
    DATA = HEAD_MOST + SPARSE_AV1_OBU_HEADER_MOST,
    SEQUENCE_MOST = 1 << 10
};

int sparse_av1_index_open(SparseAv1Index **index, SparseSource *source, int lazy,
                          SparseError *error)
{
    *index = calloc(1, sizeof(**index));
    if (!*index)
        return sparse_fail_memory(error);
    (*index)->source = source;
    (*index)->lazy = lazy && sparse_source_is_table(source);
    return 0;
}

/* Stand where nothing has been read. */
static void begin(SparseAv1Index *index)
{
    index->sequence = -1;
    index->chroma_location = (uint8_t)sparse_source_codecpar(index->source)->chroma_location;
    for (int i = 0; i < SPARSE_AV1_SLOTS; i++)
        index->slots[i] = (SparseAv1Slot){.frame = -1};
}

static void forget(SparseAv1Index *index)
{
    for (size_t i = 0; i < index->sequence_count; i++)
        free(index->sequences[i].payload);
    index->sequence_count = index->frame_count = index->shown_count = 0;
    index->at = -1;
    for (int64_t i = 0; index->first && i < index->packet_count; i++)
        index->first[i] = -1;
    begin(index);
}

void sparse_av1_index_close(SparseAv1Index **index)
{
    if (!*index)
        return;
    sparse_av1_drop_blocks(*index);
    forget(*index);
    free((*index)->frames);
    free((*index)->shown);
    free((*index)->sequences);
    free((*index)->first);
    free((*index)->counts);
    free(*index);
    *index = NULL;
}

/* ---- One packet ---- */

/* Where the pass stands in a packet. */
typedef struct Pass {
    SparseAv1Index *index;
    SparsePacket packet;
    int32_t number; /* the packet's */
    uint8_t data[DATA];
    int64_t start, filled; /* of data, in the packet; it may begin before it and end behind it */
    int reads; /* of the packet */
    SparseAv1Frame *frame; /* that the next tile groups belong to, or NULL */
    int tiles; /* whether it has any yet */
    size_t before; /* frames in the table before the packet's */
    int shown; /* frames that the packet puts out */
    int dropped; /* a frame was refused */
    SparseError *error;
} Pass;

static int irregular(const Pass *pass, const char *what)
{
    return sparse_fail(pass->error, SPARSE_ERR_UNSUPPORTED, -1, "%s (packet %d)", what,
                       pass->number);
}

static Pass *create_pass(SparseAv1Index *index, SparseError *error)
{
    Pass *pass = calloc(1, sizeof(*pass));

    if (pass) {
        pass->index = index;
        pass->error = error;
    }
    return pass;
}

/* The bytes from offset on, at least `wanted` of them or all that the packet has left. Their
 * number in *size; NULL when they can't be read. */
static const uint8_t *view(Pass *pass, int64_t offset, int64_t wanted, size_t *size)
{
    int64_t left = pass->packet.size - offset, n, there;

    if (wanted > left)
        wanted = left;
    if (offset < pass->start || offset + wanted > pass->start + pass->filled) {
        n = wanted > HEAD ? wanted : HEAD;
        /* a second read is of a packet with several frames: mostly small ones */
        if (n > left || left <= AHEAD || (pass->reads && left <= HEAD_MOST))
            n = left;
        n = sparse_source_read_on(pass->index->source, pass->number, offset, pass->data, n,
                                  left <= AHEAD ? HEAD : 0, pass->error);
        if (n < 0)
            return NULL;
        pass->start = offset;
        pass->filled = n;
        pass->reads++;
    }
    there = pass->start + pass->filled - offset;
    *size = (size_t)(there < left ? there : left);
    return pass->data + (offset - pass->start);
}

/* Go to a packet, of which the bytes that were read last may have some. */
static void enter_packet(Pass *pass, int64_t number)
{
    const int64_t before = pass->packet.pos;

    pass->number = (int32_t)number;
    pass->packet = sparse_source_packet(pass->index->source, number);
    pass->start += before - pass->packet.pos;
    if (pass->packet.flags & SPARSE_PACKET_SPOOLED)
        pass->start = pass->filled = 0;
    pass->reads = 0;
}

/* The place of a packet in the order of display, and the number of frames before it. */
static size_t rank_of(const SparseAv1Index *index, int32_t packet)
{
    size_t low = 0, high = index->shown_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (index->shown[middle].packet < packet)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int add_shown(Pass *pass, int32_t picture, int64_t offset, int64_t size, int slot,
                     uint16_t check)
{
    SparseAv1Index *index = pass->index;
    const SparseAv1Shown shown = {
        .pts = pass->packet.pts,
        .picture = picture,
        .packet = pass->number,
        .offset = (int32_t)offset,
        .size = (int32_t)size,
        .slot = (uint8_t)slot,
        .check = check,
    };
    int ret;

    pass->shown++;
    if (pass->packet.flags & SPARSE_PACKET_DISCARD)
        return 0;
    if (index->lazy) {
        index->shown[rank_of(index, pass->number)] = shown;
        return 0;
    }
    ret = sparse_array_grow(&index->shown, &index->shown_capacity, index->shown_count + 1,
                            sizeof(*index->shown), pass->error);
    if (ret < 0)
        return ret;
    index->shown[index->shown_count++] = shown;
    return 0;
}

/* A new frame at the end of the table; its references are what the slots hold. */
static int add_frame(Pass *pass, const SparseAv1Header *header, uint8_t used_slots,
                     SparseAv1Frame **frame)
{
    SparseAv1Index *index = pass->index;
    SparseAv1Frame *f;
    int ret = sparse_array_grow(&index->frames, &index->frame_capacity, index->frame_count + 1,
                                sizeof(*index->frames), pass->error);

    if (ret < 0)
        return ret;
    if (index->frame_count >= INT32_MAX - 1 ||
        index->frame_count - pass->before >= SPARSE_AV1_PER_PACKET)
        return irregular(pass, "too many frames");
    f = *frame = &index->frames[index->frame_count++];
    *f = (SparseAv1Frame){
        .packet = pass->number,
        .width = header->width,
        .height = header->height,
        .sequence = index->sequence,
        .shown_before = (int32_t)(index->lazy ? rank_of(index, pass->number) : index->shown_count),
        .refresh = header->refresh,
        .type = (uint8_t)header->frame_type,
    };
    for (int slot = 0; slot < SPARSE_AV1_SLOTS; slot++) {
        int k = 0;

        if (!(used_slots >> slot & 1))
            continue;
        while (k < f->reference_count && f->references[k] != index->slots[slot].frame)
            k++;
        if (k == f->reference_count)
            f->references[f->reference_count++] = index->slots[slot].frame;
        f->reference_slots[k] |= (uint8_t)(1 << slot);
    }
    return 0;
}

/* The number of the packet's latest frame. */
static int32_t latest(const Pass *pass)
{
    return pass->number * SPARSE_AV1_PER_PACKET +
           (int32_t)(pass->index->frame_count - pass->before - 1);
}

/* The reference frame update process, 7.20. */
static void refresh_slots(SparseAv1Index *index, uint8_t refresh, const SparseAv1Slot *with)
{
    for (int slot = 0; slot < SPARSE_AV1_SLOTS; slot++)
        if (refresh >> slot & 1)
            index->slots[slot] = *with;
}

/* Of the first OBU of a frame, so many bytes have a check. */
static uint8_t checked_bytes(const SparseAv1Obu *obu)
{
    const int64_t size = obu->header_size + obu->payload_size;

    return (uint8_t)(size < SPARSE_CHECKED_BYTES ? size : SPARSE_CHECKED_BYTES);
}

static int show_existing(Pass *pass, const SparseAv1Header *header, int64_t offset,
                         const SparseAv1Obu *obu)
{
    SparseAv1Index *index = pass->index;
    SparseAv1Slot slot = index->slots[header->existing_slot];
    const int64_t size = obu->header_size + obu->payload_size;
    const SparseAv1Header all = {
        .width = slot.width, .height = slot.height, .refresh = 0xff, .frame_type = slot.frame_type};
    SparseAv1Frame *frame;
    const uint8_t checked = checked_bytes(obu);
    uint16_t check;
    size_t there;
    const uint8_t *data = view(pass, offset, checked, &there);
    int ret;

    if (!data)
        return pass->error->code;
    check = sparse_packet_check(data, checked);
    if (slot.frame_type != SPARSE_AV1_KEY)
        return add_shown(pass, slot.frame, offset, size, header->existing_slot, check);
    ret = add_frame(pass, &all, (uint8_t)(1 << header->existing_slot), &frame);
    if (ret < 0)
        return ret;
    frame->offset = (int32_t)offset;
    frame->size = (int32_t)size;
    frame->flags = SPARSE_AV1_SHOWN | SPARSE_AV1_RESHOWN;
    frame->checked = checked;
    frame->check = check;
    slot.frame = latest(pass);
    refresh_slots(index, 0xff, &slot);
    return add_shown(pass, slot.frame, 0, 0, 0, 0);
}

/* A frame header. *dropped becomes 1 when dav1d refuses it, and with it the rest of the
 * packet, for what it refers to isn't there: so begins a stream that was cut. */
static int take_header(Pass *pass, int64_t offset, const SparseAv1Obu *obu, int *dropped)
{
    SparseAv1Index *index = pass->index;
    const SparseAv1Sequence *sequence;
    SparseAv1Header header;
    SparseAv1Frame *frame;
    SparseAv1Slot stored;
    uint8_t used = 0;
    uint16_t check = 0;
    int ret = -1;

    if (pass->frame && !pass->tiles)
        return irregular(pass, "a frame header without its tiles");
    pass->frame = NULL;
    if (index->sequence < 0)
        return irregular(pass, "a frame without a sequence header");
    sequence = &index->sequences[index->sequence].sequence;
    for (int64_t wanted = 64; ret < 0; wanted *= 8) {
        int64_t payload = obu->payload_size < wanted ? obu->payload_size : wanted;
        size_t size;
        const uint8_t *data = view(pass, offset, obu->header_size + payload, &size);

        if (!data)
            return pass->error->code;
        check = sparse_packet_check(data, checked_bytes(obu));
        data += obu->header_size;
        size -= (size_t)obu->header_size;
        if (size > (size_t)obu->payload_size)
            size = (size_t)obu->payload_size;
        ret = sparse_av1_read_header(data, size, sequence, index->slots, obu->temporal_id,
                                     obu->spatial_id, &header);
        if (ret < 0 && (size == (size_t)obu->payload_size || wanted * 8 > HEAD_MOST))
            return irregular(pass, "a frame header that ends too early");
    }
    if (ret > 0 && header.show_existing_frame)
        return obu->type == SPARSE_AV1_OBU_FRAME ? irregular(pass, "a frame that shows another one")
                                                 : show_existing(pass, &header, offset, obu);
    /* it stays with dav1d, which fails at all OBUs from there on */
    if (ret == 0 && header.show_existing_frame)
        return irregular(pass, "a frame is to be shown that isn't there");
    if (ret == 0 || !sparse_av1_references_fit(&header, sequence, index->slots)) {
        *dropped = 1;
        return 0;
    }

    if (header.frame_type == SPARSE_AV1_INTER || header.frame_type == SPARSE_AV1_SWITCH)
        for (int i = 0; i < SPARSE_AV1_REFS; i++)
            used |= (uint8_t)(1 << header.ref_slots[i]);
    ret = add_frame(pass, &header, header.short_signaling ? 0xff : used, &frame);
    if (ret < 0)
        return ret;
    frame->offset = (int32_t)offset;
    frame->size = (int32_t)(obu->header_size + obu->payload_size);
    frame->flags = (header.show_frame ? SPARSE_AV1_SHOWN : 0) |
                   (header.short_signaling ? SPARSE_AV1_ALL_SLOTS : 0);
    frame->checked = checked_bytes(obu);
    frame->check = check;
    stored = (SparseAv1Slot){
        .frame = latest(pass),
        .frame_type = (uint8_t)header.frame_type,
        .bit_depth = sequence->bit_depth,
        .subsampling =
            (uint8_t)(sequence->monochrome ? 4
                                           : sequence->subsampling_x * 2 + sequence->subsampling_y),
        .order_hint = header.order_hint,
        .frame_id = header.frame_id,
        .width = header.width,
        .height = header.height,
    };
    refresh_slots(index, header.refresh, &stored);
    pass->frame = frame;
    pass->tiles = obu->type == SPARSE_AV1_OBU_FRAME;
    return header.show_frame ? add_shown(pass, stored.frame, 0, 0, 0, 0) : 0;
}

static int take_sequence(Pass *pass, int64_t offset, const SparseAv1Obu *obu)
{
    SparseAv1Index *index = pass->index;
    const SparseAv1SequenceUse *active =
        index->sequence < 0 ? NULL : &index->sequences[index->sequence];
    SparseAv1SequenceUse use = {0};
    const uint8_t *data;
    size_t size;
    int ret;

    if (pass->frame && !pass->tiles)
        return irregular(pass, "a frame header without its tiles");
    pass->frame = NULL;
    if (obu->payload_size > SEQUENCE_MOST)
        return irregular(pass, "a sequence header of a strange size");
    data = view(pass, offset + obu->header_size, obu->payload_size, &size);
    if (!data)
        return pass->error->code;
    use.size = (size_t)obu->payload_size;
    if (active && active->size == use.size && memcmp(active->payload, data, use.size) == 0)
        return 0;
    if (index->lazy && index->sequence_count) {
        active = &index->sequences[0];
        if (index->sequence >= 0 || active->size != use.size ||
            memcmp(active->payload, data, use.size) != 0)
            return irregular(pass, "several sequences");
        index->sequence = 0;
        return 0;
    }
    if (!sparse_av1_read_sequence(data, use.size, &use.sequence))
        return irregular(pass, "a damaged sequence header");
    if (use.sequence.operating_points[0].idc >> 9)
        return irregular(pass, "spatial layers");

    ret = sparse_array_grow(&index->sequences, &index->sequence_capacity, index->sequence_count + 1,
                            sizeof(*index->sequences), pass->error);
    if (ret < 0)
        return ret;
    use.payload = malloc(use.size);
    if (!use.payload)
        return sparse_fail_memory(pass->error);
    memcpy(use.payload, data, use.size);
    /* another sequence can't refer to frames of this one (7.5) */
    active = index->sequence < 0 ? NULL : &index->sequences[index->sequence];
    if (active && memcmp(&active->sequence, &use.sequence, sizeof(use.sequence)) != 0)
        for (int i = 0; i < SPARSE_AV1_SLOTS; i++)
            index->slots[i] = (SparseAv1Slot){.frame = -1};
    if (use.sequence.chroma_position == 1)
        index->chroma_location = AVCHROMA_LOC_LEFT;
    else if (use.sequence.chroma_position == 2)
        index->chroma_location = AVCHROMA_LOC_TOPLEFT;
    use.chroma_location = index->chroma_location;
    index->sequence = (int32_t)index->sequence_count;
    index->sequences[index->sequence_count++] = use;
    return 0;
}

/* Whether the decoder leaves an OBU out, as it doesn't belong to operating point 0 (7.6.1). */
static int is_left_out(const SparseAv1Index *index, const SparseAv1Obu *obu)
{
    int idc;

    if (!obu->has_extension || index->sequence < 0 || obu->type == SPARSE_AV1_OBU_SEQUENCE ||
        obu->type == SPARSE_AV1_OBU_DELIMITER)
        return 0;
    idc = index->sequences[index->sequence].sequence.operating_points[0].idc;
    return idc && !(idc >> obu->temporal_id & 1 && idc >> (obu->spatial_id + 8) & 1);
}

static int take_obu(Pass *pass, int64_t offset, const SparseAv1Obu *obu, int *dropped)
{
    switch (obu->type) {
    case SPARSE_AV1_OBU_SEQUENCE: return take_sequence(pass, offset, obu);
    case SPARSE_AV1_OBU_FRAME_HEADER:
    case SPARSE_AV1_OBU_FRAME: return take_header(pass, offset, obu, dropped);
    case SPARSE_AV1_OBU_REDUNDANT_HEADER:
        return pass->frame ? 0 : irregular(pass, "a redundant frame header of no frame");
    case SPARSE_AV1_OBU_TILE_GROUP:
        if (!pass->frame)
            return irregular(pass, "tiles of no frame");
        pass->tiles = 1;
        pass->frame->size =
            (int32_t)(offset + obu->header_size + obu->payload_size - pass->frame->offset);
        return 0;
    default: return 0;
    }
}

static int pass_packet(SparseAv1Index *index, Pass *pass, int64_t number)
{
    int64_t offset = 0;
    int dropped = 0, ret = 0;

    enter_packet(pass, number);
    pass->frame = NULL;
    pass->before = index->frame_count;
    pass->shown = 0;
    while (offset < pass->packet.size && !dropped && ret >= 0) {
        SparseAv1Obu obu;
        size_t size;
        const uint8_t *data = view(pass, offset, SPARSE_AV1_OBU_HEADER_MOST, &size);

        if (!data)
            return pass->error->code;
        if (!sparse_av1_read_obu(data, size, pass->packet.size - offset, &obu))
            return irregular(pass, "an OBU that is longer than its packet");
        if (!is_left_out(index, &obu))
            ret = take_obu(pass, offset, &obu, &dropped);
        offset += obu.header_size + obu.payload_size;
    }
    if (ret >= 0 && pass->frame && !pass->tiles)
        ret = irregular(pass, "a frame header without its tiles");
    index->scanned++;
    pass->dropped = dropped;
    if (ret < 0)
        return ret;
    if (index->first[number] >= 0) { /* passed again to get at what comes after it */
        index->frame_count = pass->before;
    } else {
        index->first[number] = (int32_t)pass->before;
        index->counts[number] = (uint8_t)(index->frame_count - pass->before);
    }
    index->at = number + 1;
    return 0;
}

/* ---- The whole ---- */

/* Get the packet table and what it takes to pass over packets. */
static int prepare(SparseAv1Index *index, SparseProgress progress, void *user, SparseError *error)
{
    int ret;

    if (index->counts || index->blocks)
        return 0;
    ret = sparse_source_packets(index->source, &index->packet_count, progress, user, error);
    if (ret < 0)
        return ret;
    if (index->packet_count >= INT32_MAX / SPARSE_AV1_PER_PACKET)
        return sparse_source_fail(index->source, error, SPARSE_ERR_SOURCE, -1,
                                  "too many packets: %lld", (long long)index->packet_count);
    if (!index->first)
        index->first = malloc(((size_t)index->packet_count + 1) * sizeof(*index->first));
    if (index->first)
        index->counts = calloc((size_t)index->packet_count + 1, 1);
    if (!index->first || !index->counts)
        return sparse_fail_memory(error);
    forget(index);
    return 0;
}

int sparse_av1_index_build(SparseAv1Index *index, SparseProgress progress, void *user,
                           SparseError *error)
{
    Pass *pass;
    int ret = prepare(index, progress, user, error);

    if (ret < 0 || index->whole)
        return ret;
    pass = create_pass(index, error);
    if (!pass)
        return sparse_fail_memory(error);
    index->lazy = 0;
    forget(index);
    for (int64_t i = 0; i < index->packet_count && ret >= 0; i++) {
        if (progress && i % 1024 == 0 && progress(user, (double)i / (double)index->packet_count))
            ret = sparse_source_fail(index->source, error, SPARSE_ERR_INTERRUPTED, -1,
                                     "stopped while the index was made");
        else
            ret = pass_packet(index, pass, i);
    }
    free(pass);
    if (ret < 0) {
        forget(index);
        return ret;
    }
    index->whole = 1;
    return 0;
}

/* ---- Runs ---- */

/* The order by the table's word: one frame a packet, in the order of distinct times. Where that
 * isn't so, the index is made whole. */
static int order_by_table(SparseAv1Index *index, SparseError *error)
{
    int ret = sparse_array_grow(&index->shown, &index->shown_capacity,
                                (size_t)index->packet_count + 1, sizeof(*index->shown), error);
    int64_t last = INT64_MIN;

    for (int64_t i = 0; i < index->packet_count && ret >= 0; i++) {
        const SparsePacket packet = sparse_source_packet(index->source, i);

        if (packet.flags & SPARSE_PACKET_DISCARD)
            continue;
        if (packet.pts == AV_NOPTS_VALUE || packet.pts <= last) {
            index->lazy = 0;
            break;
        }
        last = packet.pts;
        index->shown[index->shown_count++] = (SparseAv1Shown){
            .pts = packet.pts,
            .picture = (int32_t)i * SPARSE_AV1_PER_PACKET,
            .packet = (int32_t)i,
        };
    }
    return ret;
}

/* Pass over packets up to target, from a key frame on or from where the last pass has stopped.
 * 1: done; 0: they aren't as regular as a lazy index needs them. */
static int pass_run(SparseAv1Index *index, Pass *pass, int64_t target)
{
    int64_t start = target;
    int fresh = 0;

    while (start > 0 && !(sparse_source_packet(index->source, start).flags & SPARSE_PACKET_KEY))
        start--;
    if (index->at > start && index->at <= target) {
        start = index->at;
    } else {
        begin(index);
        fresh = 1;
    }
    for (int64_t i = start; i <= target; i++) {
        int ret = pass_packet(index, pass, i);
        const SparseAv1Frame *frame;

        if (ret == SPARSE_ERR_UNSUPPORTED || (ret >= 0 && (pass->dropped || pass->shown != 1)))
            return 0;
        if (ret < 0)
            return ret;
        frame = sparse_av1_index_frame(index, i * SPARSE_AV1_PER_PACKET);
        /* at a key frame that is shown all slots are void */
        if (fresh &&
            (!frame || frame->type != SPARSE_AV1_KEY || !(frame->flags & SPARSE_AV1_SHOWN)))
            return 0;
        fresh = 0;
    }
    return 1;
}

int sparse_av1_index_cover(SparseAv1Index *index, const int64_t *targets, size_t count,
                           int *reordered, SparseError *error)
{
    Pass *pass;
    int ret = 1;

    *reordered = 0;
    if (!index->lazy)
        return 0;
    pass = create_pass(index, error);
    if (!pass)
        return sparse_fail_memory(error);
    for (size_t i = 0; i < count && ret > 0; i++) {
        int64_t packet;

        if (targets[i] < 0 || (uint64_t)targets[i] >= index->shown_count) {
            ret = sparse_source_fail(index->source, error, SPARSE_ERR_INDEX, targets[i],
                                     "there are %zu frames", index->shown_count);
            break;
        }
        packet = index->shown[targets[i]].packet;
        if (index->first[packet] < 0)
            ret = pass_run(index, pass, packet);
    }
    free(pass);
    if (ret > 0)
        return 0;
    if (ret < 0) {
        index->at = -1;
        return ret;
    }
    sparse_error_clear(error);
    *reordered = 1;
    return sparse_av1_index_build(index, NULL, NULL, error);
}

/* ---- What others see ---- */

int sparse_av1_index_count(SparseAv1Index *index, int64_t *count, SparseError *error)
{
    int ret = prepare(index, NULL, NULL, error);

    if (ret >= 0 && index->lazy && !index->shown_count)
        ret = order_by_table(index, error);
    if (ret >= 0 && !index->lazy)
        ret = sparse_av1_index_build(index, NULL, NULL, error);
    *count = (int64_t)index->shown_count;
    return ret;
}

SparseAv1Shown sparse_av1_index_shown(const SparseAv1Index *index, int64_t k)
{
    return index->blocks ? sparse_av1_saved_shown(index, k) : index->shown[k];
}

/* The frames of a packet: their number, or -1 when it isn't covered. */
static int get_frames(const SparseAv1Index *index, int64_t packet, const SparseAv1Frame **frames)
{
    if (index->blocks)
        return sparse_av1_saved_frames(index, packet, frames);
    if (index->first[packet] < 0)
        return -1;
    *frames = &index->frames[index->first[packet]];
    return index->counts[packet];
}

const SparseAv1Frame *sparse_av1_index_frame(const SparseAv1Index *index, int64_t picture)
{
    const int64_t packet = picture / SPARSE_AV1_PER_PACKET, k = picture % SPARSE_AV1_PER_PACKET;
    const SparseAv1Frame *frames;

    if (picture < 0 || packet >= index->packet_count || k >= get_frames(index, packet, &frames))
        return NULL;
    return &frames[k];
}

int64_t sparse_av1_index_previous(const SparseAv1Index *index, int64_t picture)
{
    int64_t packet = picture / SPARSE_AV1_PER_PACKET;
    const SparseAv1Frame *frames;
    int count = 0;

    if (picture % SPARSE_AV1_PER_PACKET)
        return picture - 1;
    while (!count && packet-- > 0)
        count = get_frames(index, packet, &frames);
    return packet >= 0 && count > 0 ? packet * SPARSE_AV1_PER_PACKET + count - 1 : -1;
}

const SparseAv1SequenceUse *sparse_av1_index_sequence(const SparseAv1Index *index, int32_t number)
{
    return &index->sequences[number];
}

int sparse_av1_index_lookup(void *user, int64_t picture, SparsePlanNode *node, SparseError *error)
{
    const SparseAv1Index *index = user;
    const SparseAv1Frame *frame = sparse_av1_index_frame(index, picture);

    if (!frame)
        return sparse_fail(error, SPARSE_ERR_DECODE, -1, "there is no picture %lld",
                           (long long)picture);
    node->references = frame->references;
    node->reference_count = frame->reference_count;
    node->bytes = frame->size;
    return 0;
}

int64_t sparse_av1_index_scanned(const SparseAv1Index *index)
{
    return index->scanned;
}
