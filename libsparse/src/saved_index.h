/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a saved index holds.
 */
#ifndef SPARSE_SAVED_INDEX_H
#define SPARSE_SAVED_INDEX_H

#include "av1_index.h"
#include "epochs.h"
#include "packed.h"
#include "source_internal.h"

struct SparseSavedIndex {
    int stream_index;
    int is_first; /* the stream is the one that is taken when none is named */
    int direct;   /* packets stand in the source as they are: the demuxer isn't needed */
    AVCodecParameters *par;
    SparseFacts facts; /* with a container name that lives as long as what it was read from */
    int64_t payload_bytes;
    SparseEpoch *epochs;
    int32_t epoch_count;
    SparsePacked *packed;

    /* AV1 alone */
    SparseAv1SequenceUse *sequences;
    size_t sequence_count;
    int32_t *shown_first; /* frames put out before each block, and their sum */
};

#endif /* SPARSE_SAVED_INDEX_H */
