/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Epochs: the sets of parameter sets that snapshots are bound to, and how to have them again
 * without a header pass. A decoder that is put into the state before the packet that began an
 * epoch, and passes that packet alone, has the epoch's parameter sets.
 */
#ifndef SPARSE_EPOCHS_H
#define SPARSE_EPOCHS_H

#include <libavcodec/packet.h>

#include "error.h"

/* One epoch. The first, number 0, is what a decoder has that was just opened. */
typedef struct SparseEpoch {
    int64_t packet; /* after which it begins; in epoch 0 of no meaning */
    int32_t same; /* the first epoch with equal parameter sets; its own number when it is that */
    const uint8_t *head; /* of a saved index: what of the packet a header pass reads, or NULL */
    size_t head_size;
} SparseEpoch;

/*
 * Which parameter sets of H.264 are there and which one is active, as far as it takes to tell
 * that two epochs are equal. Streams repeat them with each key frame, and FFmpeg makes new
 * objects of them each time. (HEVC's it keeps when they are repeated.)
 */
typedef struct SparseSets SparseSets;

int sparse_sets_create(SparseSets **sets, SparseError *error);
void sparse_sets_free(SparseSets **sets);

/* The codec's extradata, with which a decoder is opened: an avcC box (ISO/IEC 14496-15, 5.3.3) or
 * NAL units with start codes. */
void sparse_sets_begin(SparseSets *sets, const uint8_t *extradata, int size);

/* The packet that was passed last. length_size: bytes of the NAL units' length fields; 0: they
 * have start codes. unsure 1: it was damaged, or has what this doesn't look at. */
void sparse_sets_pass(SparseSets *sets, const AVPacket *packet, int64_t number, int length_size,
                      int unsure);

/* A number that stands for what is there now. */
uint64_t sparse_sets_key(const SparseSets *sets);

#endif /* SPARSE_EPOCHS_H */
