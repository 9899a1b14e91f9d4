/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A look at all slice headers that is far cheaper than a header pass: whether a linear decode
 * surely puts out one frame for each packet, in the order of the packets' times.
 */
#ifndef SPARSE_PLAIN_H
#define SPARSE_PLAIN_H

#include "error.h"
#include "source.h"

/* In what is told of a packet, besides the type of its picture. */
enum {
    SPARSE_PLAIN_START = 0x80,     /* a header pass can begin here */
    SPARSE_PLAIN_REFERENCE = 0x20, /* others may reference it: a small letter */
    SPARSE_PLAIN_TYPE = 0x5f       /* the type alone */
};

/*
 * The state before an intra picture that is no IDR, as far as it tells how frame_num
 * and POC go on (H.264, 7.4.3 and 8.2.1; H.265, 8.3.1). With it and no picture in the DPB, a header
 * pass marks the pictures from there on as one from the start of the stream does: the pictures
 * marked as references are then those of the whole stream that are not before the start. In HEVC each
 * picture names them. In H.264 only short-term marking with a sliding window or by name is plain
 * (8.2.5.3 and 8.2.5.4.1); the window drops the oldest, in both passes or one before the start.
 */
typedef struct SparsePlainStart {
    int32_t packet;
    int32_t previous_frame_num, frame_num_offset, poc_msb, poc_lsb; /* H.264 */
    int32_t poc_tid0;                                               /* HEVC, of prevTid0Pic */
} SparsePlainStart;

/* What is found, in the order of packets. */
typedef struct SparsePlainNotes {
    uint8_t *kinds; /* [packets] the type of its picture, 'I', 'P' or 'B', with flags as above */
    int32_t *oldest; /* [packets] the first packet whose picture is marked as a reference when this
                        one is decoded; INT32_MAX: none is */
    SparsePlainStart *starts; /* ascending; of intra pictures that are no IDR, nor leading ones */
    size_t start_count, start_capacity;
} SparsePlainNotes;

void sparse_plain_free(SparsePlainNotes *notes);

/* 'I', 'P' or 'B' */
static inline char sparse_plain_type(const SparsePlainNotes *notes, int64_t packet)
{
    return (char)(notes->kinds[packet] & SPARSE_PLAIN_TYPE);
}

/* The start at a packet; NULL: it needs none. */
const SparsePlainStart *sparse_plain_start(const SparsePlainNotes *notes, int64_t packet);

/*
 * 1: it does, and *notes is filled in, to be freed. 0: that isn't certain, for whatever reason; a
 * header pass has to tell. The source's packets must be there. *looked becomes the number of
 * packets that were looked at. Negative without memory, or when the source can't be read.
 */
int sparse_plain_check(SparseSource *source, SparsePlainNotes *notes, int64_t *looked,
                       SparseError *error);

#endif /* SPARSE_PLAIN_H */
