/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "av1_decoder.h"

#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/mem.h>

#include "codec.h"

int sparse_av1_decoder_open(SparseAv1Decoder **result, SparseSource *source, int threads,
                            SparseError *error)
{
    SparseAv1Decoder *decoder = av_mallocz(sizeof(*decoder));
    int ret;

    *result = NULL;
    if (!decoder)
        return sparse_fail_memory(error);
    decoder->packet = av_packet_alloc();
    decoder->frame = av_frame_alloc();
    decoder->next = av_frame_alloc();
    ret = decoder->packet && decoder->frame && decoder->next
              ? sparse_codec_open_threads(&decoder->context, source, threads, error)
              : sparse_fail_memory(error);
    if (ret < 0) {
        sparse_av1_decoder_close(&decoder);
        return ret;
    }
    sparse_av1_decoder_reset(decoder);
    *result = decoder;
    return 0;
}

void sparse_av1_decoder_close(SparseAv1Decoder **decoder)
{
    if (!*decoder)
        return;
    avcodec_free_context(&(*decoder)->context);
    av_packet_free(&(*decoder)->packet);
    av_frame_free(&(*decoder)->frame);
    av_frame_free(&(*decoder)->next);
    av_freep(decoder);
}

void sparse_av1_decoder_assign(SparseAv1Decoder *decoder, const SparseIdentity *stream,
                               SparseSource *source, const SparseAv1Index *index)
{
    if (memcmp(&decoder->stream, stream, sizeof(*stream)) != 0)
        sparse_av1_decoder_reset(decoder);
    decoder->sequence = -1; /* another index may count them otherwise; once more does no harm */
    decoder->stream = *stream;
    decoder->source = source;
    decoder->index = index;
}

void sparse_av1_decoder_reset(SparseAv1Decoder *decoder)
{
    if (decoder->fed)
        avcodec_flush_buffers(decoder->context);
    av_frame_unref(decoder->frame);
    for (int i = 0; i < SPARSE_AV1_SLOTS; i++)
        decoder->slots[i] = -1;
    decoder->at = decoder->sequence = -1;
    decoder->fed = 0;
}

/* ---- Feeding ---- */

/* Bytes of an OBU's size field (leb128(), 4.10.5), written to out when it isn't NULL. */
static int write_size(uint8_t *out, size_t value)
{
    int n = 0;

    do {
        uint8_t byte = value & 127;

        value >>= 7;
        if (out)
            out[n] = byte | (value ? 128 : 0);
        n++;
    } while (value);
    return n;
}

/* Bytes of a packet. */
typedef struct Part {
    int32_t packet, offset, size;
    int32_t checked; /* its first bytes, with this check */
    uint16_t check;
} Part;

/* Make the packet: the sequence header, when dav1d hasn't been told of it, and the part. */
static int fill_packet(SparseAv1Decoder *decoder, int32_t sequence, Part part, SparseError *error)
{
    const SparseAv1SequenceUse *use = sparse_av1_index_sequence(decoder->index, sequence);
    const int told = decoder->sequence == sequence;
    const int head = told ? 0 : 1 + write_size(NULL, use->size) + (int)use->size;
    uint8_t *at;
    int ret;

    av_packet_unref(decoder->packet);
    if (part.size > INT32_MAX - head - AV_INPUT_BUFFER_PADDING_SIZE ||
        av_new_packet(decoder->packet, head + part.size) < 0)
        return sparse_fail_memory(error);
    at = decoder->packet->data;
    if (!told) {
        *at++ = SPARSE_AV1_OBU_SEQUENCE << 3 | 2; /* has a size field */
        at += write_size(at, use->size);
        memcpy(at, use->payload, use->size);
        at += use->size;
        decoder->sequence = sequence;
    }
    ret = sparse_source_read_part(decoder->source, part.packet, part.offset, at, part.size, error);
    if (ret >= 0 && sparse_packet_check(at, part.checked) != part.check)
        ret = sparse_source_fail_check(decoder->source, part.packet, error);
    return ret;
}

/* Give dav1d the packet, which has to give as many frames as are expected, one or none. */
static int feed(SparseAv1Decoder *decoder, int expected, SparseError *error)
{
    int frames = 0;
    int ret = avcodec_send_packet(decoder->context, decoder->packet);

    decoder->fed = 1;
    av_packet_unref(decoder->packet);
    av_frame_unref(decoder->frame);
    while (ret >= 0) {
        ret = avcodec_receive_frame(decoder->context, decoder->next);
        if (ret >= 0 && frames++ == 0)
            av_frame_move_ref(decoder->frame, decoder->next);
    }
    av_frame_unref(decoder->next);
    if (ret == AVERROR(ENOMEM))
        return sparse_fail_memory(error);
    if (ret != AVERROR(EAGAIN) || frames != expected)
        return sparse_fail(error, SPARSE_ERR_DECODE, -1, "damaged data");
    return 0;
}

static int fail(SparseAv1Decoder *decoder, int ret, int32_t packet, SparseError *error)
{
    sparse_av1_decoder_reset(decoder);
    if (ret == SPARSE_ERR_DECODE)
        sparse_fail(error, ret, -1, "damaged data in packet %d", packet);
    return ret;
}

int sparse_av1_decoder_decode(SparseAv1Decoder *decoder, int32_t picture, SparseError *error)
{
    const SparseAv1Frame *frame = sparse_av1_index_frame(decoder->index, picture);
    int ret;

    if (!frame)
        return sparse_fail(error, SPARSE_ERR_DECODE, -1, "there is no picture %d", picture);

    for (int k = 0; k < frame->reference_count; k++)
        for (int slot = 0; slot < SPARSE_AV1_SLOTS; slot++)
            if (frame->reference_slots[k] >> slot & 1 &&
                decoder->slots[slot] != frame->references[k])
                return sparse_fail(error, SPARSE_ERR_DECODE, -1,
                                   "a reference that isn't where it belongs (packet %d)",
                                   frame->packet);
    ret = fill_packet(decoder, frame->sequence,
                      (Part){.packet = frame->packet,
                             .offset = frame->offset,
                             .size = frame->size,
                             .checked = frame->checked,
                             .check = frame->check},
                      error);
    if (ret >= 0)
        ret = feed(decoder, frame->flags & SPARSE_AV1_SHOWN, error);
    if (ret < 0)
        return fail(decoder, ret, frame->packet, error);
    for (int slot = 0; slot < SPARSE_AV1_SLOTS; slot++)
        if (frame->refresh >> slot & 1)
            decoder->slots[slot] = picture;
    decoder->at = picture;
    return 0;
}

int sparse_av1_decoder_show(SparseAv1Decoder *decoder, const SparseAv1Shown *shown,
                            SparseError *error)
{
    const SparseAv1Frame *frame = sparse_av1_index_frame(decoder->index, shown->picture);
    int ret;

    if (!frame || decoder->slots[shown->slot] != shown->picture)
        return sparse_fail(error, SPARSE_ERR_DECODE, -1,
                           "a picture that isn't where it belongs (packet %d)", shown->packet);
    ret = fill_packet(decoder, frame->sequence,
                      (Part){.packet = shown->packet,
                             .offset = shown->offset,
                             .size = shown->size,
                             .checked = shown->size,
                             .check = shown->check},
                      error);
    if (ret >= 0)
        ret = feed(decoder, 1, error);
    return ret < 0 ? fail(decoder, ret, shown->packet, error) : 0;
}
