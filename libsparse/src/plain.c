/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The check: packets and the NAL units in them, read in few pieces, and the order of pictures.
 */
#include "plain.h"

#include <stdlib.h>
#include <string.h>

#include <libavutil/avutil.h>

#include "array.h"
#include "plain_internal.h"
#include "source_internal.h"

enum {
    LENGTH = 4, /* bytes of a NAL unit's length field, of any other size nothing is plain */
    WINDOW = 64 << 10, /* bytes read at a time, at most */
    GAP = 2 << 10,     /* bytes that are read along rather than asking the system once more */
    REMOTE_GAP = 64,   /* the same where reading is the user's and may be dear */
    KEPT = 16,         /* pictures that a later one is compared with */
    MAX_POC = 1 << 30
};

/* Pictures since POC began anew, those with the highest POC. */
typedef struct Order {
    struct {
        int64_t poc, pts;
    } latest[KEPT]; /* ascending */
    int count;
    int64_t floor; /* the highest pts before them */
    int64_t top;   /* the highest pts so far */
} Order;

typedef struct Plain {
    SparseSource *source;
    const SparsePlainCodec *codec;
    void *state;
    Order order;
    int64_t count; /* of packets */
    uint8_t *window;
    int64_t start, size; /* in the source, of what the window holds */
    SparseError *error;
    int code; /* of a read that failed */
} Plain;

/* ---- Reading ---- */

/* The end of what to read for bytes start..end-1 of packet i: the heads of later packets too, as
 * far as they stand close behind each other. */
static int64_t end_of_read(const Plain *plain, int64_t i, int64_t start, int64_t end)
{
    const int64_t gap = sparse_bytes_are_remote(plain->source->bytes) ? REMOTE_GAP : GAP;

    while (++i < plain->count) {
        const SparsePacket *packet = &plain->source->packets[i];
        const int64_t head = packet->size < SPARSE_PLAIN_WHOLE ? packet->size : SPARSE_PLAIN_WHOLE;

        if (packet->pos < start || packet->pos - end > gap || packet->pos - start > WINDOW - head)
            break;
        if (packet->pos + head > end)
            end = packet->pos + head;
    }
    return end;
}

/* size bytes at offset of packet i, which has them; NULL when they aren't there or, with
 * plain->code, can't be read. They stay where they are until the next call. */
static const uint8_t *fetch(Plain *plain, int64_t i, int64_t offset, int64_t size)
{
    const int64_t start = plain->source->packets[i].pos + offset;
    const uint8_t *memory = sparse_bytes_view(plain->source->bytes, start, size);
    int64_t n;

    if (memory) {
        plain->source->payload_read += size;
        return memory;
    }
    if (start >= plain->start && start + size <= plain->start + plain->size)
        return plain->window + (start - plain->start);
    n = end_of_read(plain, i, start, start + size) - start;
    plain->start = start;
    plain->size = 0;
    n = sparse_bytes_read(plain->source->bytes, plain->window, start, n, plain->error);
    if (n < 0)
        plain->code = (int)n;
    if (n < size)
        return NULL;
    plain->size = n;
    plain->source->payload_read += n;
    return plain->window;
}

/* ---- Packets ---- */

/* Look at the NAL units of packet i (ISO/IEC 14496-15, 4.3.3). */
static int look(Plain *plain, int64_t i, SparsePlainPicture *picture)
{
    const SparsePacket packet = plain->source->packets[i];
    const uint32_t odd = SPARSE_PACKET_DISCARD | SPARSE_PACKET_SPOOLED | SPARSE_PACKET_EXTRA;
    const int is_small = packet.size <= SPARSE_PLAIN_WHOLE;

    if (packet.flags & odd || packet.pts == AV_NOPTS_VALUE)
        return 0;
    plain->codec->begin(plain->state, i == 0);
    for (int64_t offset = 0; offset < packet.size;) {
        const int64_t left = packet.size - offset;
        const int64_t head = offset ? LENGTH + SPARSE_PLAIN_HEAD : SPARSE_PLAIN_WHOLE;
        SparsePlainNal nal;
        int64_t at_hand = left < head ? left : head, wanted;
        const uint8_t *data;

        if (left < LENGTH + 2)
            return 0;
        data = fetch(plain, i, offset, at_hand);
        if (!data)
            return 0;
        if (!offset)
            sparse_packet_keep_check(plain->source, i, data, at_hand);
        nal.length = (int64_t)data[0] << 24 | data[1] << 16 | data[2] << 8 | data[3];
        if (nal.length < 2 || nal.length > left - LENGTH)
            return 0;
        wanted = nal.length;
        if (plain->codec->may_be_cut(data + LENGTH)) {
            if (!is_small && wanted > SPARSE_PLAIN_HEAD)
                wanted = SPARSE_PLAIN_HEAD;
        } else if (wanted > SPARSE_PLAIN_MOST) {
            return 0;
        }
        if (LENGTH + wanted > at_hand) {
            data = fetch(plain, i, offset, LENGTH + wanted);
            if (!data)
                return 0;
        }
        nal.data = data + LENGTH;
        nal.size = (size_t)wanted;
        if (!plain->codec->add(plain->state, &nal))
            return 0;
        offset += LENGTH + nal.length;
    }
    plain->source->packets_read++;
    return plain->codec->end(plain->state, picture);
}

int sparse_plain_check_sei(const uint8_t *nal, size_t size, size_t header,
                           SparsePlainMessage *is_harmless)
{
    uint8_t payload[SPARSE_PLAIN_MOST + SPARSE_BITS_PADDING];
    int64_t filled, at = 0;

    if (size <= header || size > SPARSE_PLAIN_MOST)
        return 0;
    filled = sparse_bits_unescape(nal + header, size - header, payload);
    if (filled <= 0 || !is_harmless)
        return filled > 0;
    while (at < filled - 1 || payload[at] != 0x80) { /* until rbsp_trailing_bits() */
        int64_t values[2] = {0, 0};

        for (int k = 0; k < 2; k++) {
            while (at < filled && payload[at] == 0xff) {
                values[k] += 255;
                at++;
            }
            if (at >= filled)
                return 0;
            values[k] += payload[at++];
        }
        if (values[1] >= filled - at || !is_harmless(values[0], payload + at, values[1]))
            return 0;
        at += values[1];
    }
    return 1;
}

int sparse_plain_is_filler(const SparsePlainNal *nal, size_t header)
{
    for (size_t i = header; i < nal->size; i++)
        if (nal->data[i] != 0xff && !(i + 1 == (size_t)nal->length && nal->data[i] == 0x80))
            return 0;
    return 1;
}

/* ---- The order of pictures ---- */

/*
 * Add a picture. 1: as far as pictures are known, POC and times tell the same order, and no more
 * than picture->depth pictures come before this one in decoding and after it in display.
 *
 * The order of all is that of their times if this holds for all. Each is compared with its
 * neighbours by POC among all since POC began anew: those below the latest KEPT needn't be known,
 * as the picture must come after all but the latest depth of them, of which there are fewer.
 */
static int add_to_order(Order *order, const SparsePlainPicture *picture, int64_t pts)
{
    int place, later;

    if (picture->poc > MAX_POC || picture->poc < -MAX_POC)
        return 0;
    if (picture->restarts) {
        order->floor = order->top;
        order->count = 0;
    }
    if (pts <= order->floor || picture->depth >= KEPT)
        return 0;
    for (place = order->count; place > 0; place--)
        if (order->latest[place - 1].poc <= picture->poc)
            break;
    later = order->count - place;
    if (later > picture->depth)
        return 0;
    if (place > 0 &&
        (order->latest[place - 1].poc == picture->poc || order->latest[place - 1].pts >= pts))
        return 0;
    if (later > 0 && order->latest[place].pts <= pts)
        return 0;
    if (order->count == KEPT) {
        memmove(order->latest, order->latest + 1, (KEPT - 1) * sizeof(*order->latest));
        place--;
    } else {
        order->count++;
    }
    memmove(order->latest + place + 1, order->latest + place,
            (size_t)later * sizeof(*order->latest));
    order->latest[place].poc = picture->poc;
    order->latest[place].pts = pts;
    if (pts > order->top)
        order->top = pts;
    return 1;
}

/* ---- The check ---- */

static const SparsePlainCodec *find_codec(enum AVCodecID id)
{
    return id == AV_CODEC_ID_H264   ? &sparse_plain_h264
           : id == AV_CODEC_ID_HEVC ? &sparse_plain_hevc
                                    : NULL;
}

void sparse_plain_free(SparsePlainNotes *notes)
{
    free(notes->kinds);
    free(notes->oldest);
    free(notes->starts);
    *notes = (SparsePlainNotes){0};
}

const SparsePlainStart *sparse_plain_start(const SparsePlainNotes *notes, int64_t packet)
{
    size_t low = 0, high = notes->start_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (notes->starts[middle].packet < packet)
            low = middle + 1;
        else
            high = middle;
    }
    return low < notes->start_count && notes->starts[low].packet == packet ? &notes->starts[low]
                                                                           : NULL;
}

/* Note what picture i is. */
static int note(SparsePlainNotes *notes, int64_t i, const SparsePlainPicture *picture,
                SparseError *error)
{
    int ret = 0;

    notes->kinds[i] = (uint8_t)(picture->type | (picture->starts ? SPARSE_PLAIN_START : 0) |
                                (picture->is_reference ? SPARSE_PLAIN_REFERENCE : 0));
    notes->oldest[i] = picture->oldest < INT32_MAX ? (int32_t)picture->oldest : INT32_MAX;
    if (picture->starts && !picture->restarts) {
        ret = sparse_array_grow(&notes->starts, &notes->start_capacity, notes->start_count + 1,
                                sizeof(*notes->starts), error);
        if (ret >= 0) {
            notes->starts[notes->start_count] = picture->start;
            notes->starts[notes->start_count++].packet = (int32_t)i;
        }
    }
    return ret;
}

int sparse_plain_check(SparseSource *source, SparsePlainNotes *notes, int64_t *looked,
                       SparseError *error)
{
    const AVCodecParameters *par = sparse_source_codecpar(source);
    Plain plain = {
        .source = source,
        .codec = find_codec(par->codec_id),
        .order = {.floor = INT64_MIN, .top = INT64_MIN},
        .count = source->count,
        .error = error,
    };
    int ret;

    *looked = 0;
    *notes = (SparsePlainNotes){0};
    if (!plain.codec || source->packed || !sparse_source_has_heads(source) ||
        plain.count >= INT32_MAX)
        return 0;
    plain.state = calloc(1, plain.codec->state_size);
    if (!plain.state)
        return sparse_fail_memory(error);
    ret = plain.codec->open(plain.state, par);
    if (ret == 1) {
        plain.window = malloc(WINDOW);
        notes->kinds = malloc((size_t)plain.count + 1);
        notes->oldest = malloc(((size_t)plain.count + 1) * sizeof(*notes->oldest));
        if (!plain.window || !notes->kinds || !notes->oldest)
            ret = sparse_fail_memory(error);
    }
    for (int64_t i = 0; i < plain.count && ret == 1; i++) {
        SparsePlainPicture picture;

        ret = look(&plain, i, &picture) &&
              add_to_order(&plain.order, &picture, source->packets[i].pts);
        if (plain.code)
            ret = plain.code;
        else if (ret && note(notes, i, &picture, error) < 0)
            ret = SPARSE_ERR_MEMORY;
        *looked = i + 1;
    }
    free(plain.window);
    free(plain.state);
    if (ret != 1)
        sparse_plain_free(notes);
    return ret;
}
