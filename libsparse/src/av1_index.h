/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What header passes over an AV1 stream found. A picture is a coded frame; a packet (temporal
 * unit) may hold several. Its number is SPARSE_AV1_PER_PACKET times that of the packet it begins
 * in, and one for each frame before it in that. Frames need no decoder state:
 * what one depends on stands in the reference slots that its header names, and is known from
 * the headers before it (7.20, reference frame update process).
 */
#ifndef SPARSE_AV1_INDEX_H
#define SPARSE_AV1_INDEX_H

#include "av1_obu.h"
#include "bytes.h"
#include "plan.h"
#include "source.h"

typedef struct SparseAv1Index SparseAv1Index;

enum { SPARSE_AV1_PER_PACKET = 64 };

enum {
    SPARSE_AV1_SHOWN = 1,    /* put out when it is decoded */
    SPARSE_AV1_RESHOWN = 2,  /* a key frame that is put out by show_existing_frame, which loads
                                it into all slots (7.21): no frame of its own, but what comes
                                after refers to it */
    SPARSE_AV1_ALL_SLOTS = 4 /* its header is read by the order hints of all slots */
};

/* One coded frame. Offsets are into its packet. */
typedef struct SparseAv1Frame {
    int32_t packet, offset, size; /* its OBUs, one after the other */
    int32_t width, height;
    int32_t sequence;     /* number of its sequence header */
    int32_t shown_before; /* frames put out before it is decoded */
    int32_t references[SPARSE_AV1_SLOTS];     /* pictures */
    uint8_t reference_slots[SPARSE_AV1_SLOTS]; /* the slots each is in, as bits */
    uint8_t reference_count;
    uint8_t refresh; /* slots that it is stored to */
    uint8_t flags;   /* SPARSE_AV1_SHOWN ... */
    uint8_t type;    /* enum SparseAv1FrameType */
    uint8_t checked; /* of its first bytes, as many as check is of */
    uint16_t check;  /* sparse_packet_check() */
} SparseAv1Frame;

/* One frame put out. */
typedef struct SparseAv1Shown {
    int64_t pts; /* AV_NOPTS_VALUE when unknown */
    int32_t picture;
    int32_t packet;       /* that puts it out */
    int32_t offset, size; /* of the OBU that shows an existing frame; size 0: it is shown when it
                             is decoded */
    uint8_t slot;         /* that the OBU shows */
    uint16_t check;       /* of the OBU's first bytes, SPARSE_CHECKED_BYTES at most */
} SparseAv1Shown;

/* One sequence header. */
typedef struct SparseAv1SequenceUse {
    SparseAv1Sequence sequence;
    uint8_t *payload; /* of its OBU */
    size_t size;
    uint8_t chroma_location; /* AVCHROMA_LOC_*, as a linear decode has it then */
} SparseAv1SequenceUse;

/* One thread at a time, but for the functions that say otherwise. The source must outlive the
 * index. lazy: see enum SparseIndexMode. */
int sparse_av1_index_open(SparseAv1Index **index, SparseSource *source, int lazy,
                          SparseError *error);
void sparse_av1_index_close(SparseAv1Index **index);

/*
 * Make the whole index, if that hasn't been done. progress may be NULL. SPARSE_ERR_UNSUPPORTED,
 * with the reason as the message: the stream is one (damaged, layered in space, or built in a way
 * that no encoder does) whose frames can only be told by decoding it linearly.
 */
int sparse_av1_index_build(SparseAv1Index *index, SparseProgress progress, void *user,
                           SparseError *error);

/*
 * The number of frames: makes the index, unless it is lazy and the container's table can be taken
 * at its word. Of frames that aren't covered yet a lazy index knows times and packets alone.
 * SPARSE_ERR_UNSUPPORTED: see sparse_av1_index_build().
 */
int sparse_av1_index_count(SparseAv1Index *index, int64_t *count, SparseError *error);

/* The k-th of them in the order of display, k in 0..count-1. Zeros when a saved index doesn't
 * tell it: see sparse_source_check_saved(). Thread-safety: as sparse_av1_index_frame(). */
SparseAv1Shown sparse_av1_index_shown(const SparseAv1Index *index, int64_t k);

/* Make sure that the closures of frames targets[0..count) of the order are known. *reordered
 * becomes 1 when the order may have changed by this, and the caller asks again. */
int sparse_av1_index_cover(SparseAv1Index *index, const int64_t *targets, size_t count,
                           int *reordered, SparseError *error);

/* Belongs to the index; NULL for a picture that isn't there or isn't covered. Thread-safety: safe
 * while nothing is covered; of a saved index, for what was asked of it before. */
const SparseAv1Frame *sparse_av1_index_frame(const SparseAv1Index *index, int64_t picture);

/* The picture before a covered one in decode order, -1: none, or it isn't covered. */
int64_t sparse_av1_index_previous(const SparseAv1Index *index, int64_t picture);

const SparseAv1SequenceUse *sparse_av1_index_sequence(const SparseAv1Index *index, int32_t number);

/* A SparsePlanLookup over a SparseAv1Index. */
int sparse_av1_index_lookup(void *index, int64_t picture, SparsePlanNode *node, SparseError *error);

/*
 * Use a saved index for the source, which was opened with it. What is kept of saved is taken out
 * of it. SPARSE_ERR_SAVED when it doesn't go with the packets.
 */
int sparse_av1_index_use_saved(SparseAv1Index *index, SparseSavedIndex *saved, SparseError *error);

/* Make the whole index if it isn't there, and append all of a saved one to out.
 * SPARSE_ERR_UNSUPPORTED: see sparse_av1_index_build(). */
int sparse_av1_index_save(SparseAv1Index *index, SparseProgress progress, void *user,
                          SparseBuffer *out, SparseError *error);

/* Packets whose headers have been read. */
int64_t sparse_av1_index_scanned(const SparseAv1Index *index);

#endif /* SPARSE_AV1_INDEX_H */
