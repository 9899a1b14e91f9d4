/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the parts of the check share: plain.c (packets, NAL units and the order of pictures) and one
 * file for each codec (parameter sets, slice headers, and what decides whether a picture is put
 * out). All functions here take any bytes, and answer 0 whenever they meet something that isn't
 * surely harmless.
 */
#ifndef SPARSE_PLAIN_INTERNAL_H
#define SPARSE_PLAIN_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include <libavcodec/codec_par.h>

#include "bits.h"
#include "plain.h"

enum {
    SPARSE_PLAIN_HEAD = SPARSE_HEAD_LEAST, /* bytes of a slice that are looked at */
    SPARSE_PLAIN_WHOLE = SPARSE_PLAIN_HEAD + 64, /* up to this size, packets are looked at in
                                                    whole, as a header pass does */
    SPARSE_PLAIN_MOST = 8 << 10, /* bytes of other NAL units; those above it aren't plain */
    SPARSE_PLAIN_SLICES = 1024   /* of a picture */
};

/* A NAL unit, from its header on. */
typedef struct SparsePlainNal {
    const uint8_t *data;
    size_t size;    /* bytes at hand: all, or the head of a slice */
    int64_t length; /* bytes in all */
} SparsePlainNal;

/* What a packet's picture is. */
typedef struct SparsePlainPicture {
    int64_t poc;
    int restarts; /* 1: it comes after all pictures before it, and POC starts anew */
    int depth;    /* pictures that may follow it in the order of display and come before it in
                     that of decoding, at most */
    int starts; /* 1: with what is in start, which isn't needed if POC starts anew, slice headers
                     can be read on from here; pictures after it may lack references */
    int is_reference;
    int64_t oldest; /* the first packet of those whose pictures are marked as references when it is
                       decoded; INT64_MAX: none is */
    SparsePlainStart start;
    char type;
} SparsePlainPicture;

/* Add a slice to what is known of the picture's type. */
static inline void sparse_plain_add_type(SparsePlainPicture *picture, char type)
{
    if (type == 'B' || !picture->type || (type == 'P' && picture->type == 'I'))
        picture->type = type;
}

/*
 * One of these for each codec, with a state of its own that begins as zeros. open() takes what is in
 * the sample entry, which must live longer: 1, or 0: not plain. Then for each packet one begin(), one
 * add() for each NAL unit and one end(): 1, or 0: not plain, after which nothing may be called.
 * is_first: of all packets.
 */
typedef struct SparsePlainCodec {
    size_t state_size;
    int (*open)(void *state, const AVCodecParameters *par);
    int (*may_be_cut)(const uint8_t *nal); /* by the first byte: the head is enough */
    void (*begin)(void *state, int is_first);
    int (*add)(void *state, const SparsePlainNal *nal);
    int (*end)(void *state, SparsePlainPicture *picture);
} SparsePlainCodec;

extern const SparsePlainCodec sparse_plain_h264, sparse_plain_hevc;

/* Filler data (H.264 7.3.2.7, H.265 7.3.2.8) after so many bytes of header: nothing but 0xff before
 * the stop bit. */
int sparse_plain_is_filler(const SparsePlainNal *nal, size_t header);

/* Whether a message of SEI is harmless: its payloadType, and its payload. */
typedef int SparsePlainMessage(int64_t type, const uint8_t *payload, int64_t size);

/*
 * Whether an SEI NAL unit (H.264 7.3.2.3, H.265 7.3.2.4), with so many bytes of header, is whole and all
 * of its messages are harmless. is_harmless NULL: none is looked at.
 */
int sparse_plain_check_sei(const uint8_t *nal, size_t size, size_t header,
                           SparsePlainMessage *is_harmless);

#endif /* SPARSE_PLAIN_INTERNAL_H */
