/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * AV1 headers: open bitstream units, sequence headers, and of frame headers what
 * tells references, reference slots and size. Clauses are those of the AV1
 * Bitstream & Decoding Process Specification (2019-01-08, with errata 1).
 * Pure: no files, and of FFmpeg headers alone. Any bytes are allowed in.
 */
#ifndef SPARSE_AV1_OBU_H
#define SPARSE_AV1_OBU_H

#include <stddef.h>
#include <stdint.h>

#include <libavutil/pixfmt.h>

enum {
    SPARSE_AV1_SLOTS = 8, /* NUM_REF_FRAMES */
    SPARSE_AV1_REFS = 7,  /* REFS_PER_FRAME */
};

/* obu_type, 6.2.2 */
enum SparseAv1ObuType {
    SPARSE_AV1_OBU_SEQUENCE = 1,
    SPARSE_AV1_OBU_DELIMITER = 2,
    SPARSE_AV1_OBU_FRAME_HEADER = 3,
    SPARSE_AV1_OBU_TILE_GROUP = 4,
    SPARSE_AV1_OBU_METADATA = 5,
    SPARSE_AV1_OBU_FRAME = 6,
    SPARSE_AV1_OBU_REDUNDANT_HEADER = 7,
    SPARSE_AV1_OBU_TILE_LIST = 8,
    SPARSE_AV1_OBU_PADDING = 15
};

/* frame_type, 6.8.2 */
enum SparseAv1FrameType {
    SPARSE_AV1_KEY = 0,
    SPARSE_AV1_INTER = 1,
    SPARSE_AV1_INTRA_ONLY = 2,
    SPARSE_AV1_SWITCH = 3
};

/* The header of one OBU (5.3). */
typedef struct SparseAv1Obu {
    int type;
    int has_extension, temporal_id, spatial_id;
    int has_size;
    int header_size;      /* bytes of header and size field */
    int64_t payload_size; /* bytes after them */
} SparseAv1Obu;

/* The most bytes that an OBU's header and size field take. */
enum { SPARSE_AV1_OBU_HEADER_MOST = 10 };

/*
 * Read an OBU's header from data[0..size), where left bytes of the temporal unit
 * are left from data on (left >= size). 1, or 0 when it is damaged: no such type
 * of length, or an OBU that is longer than what is left.
 */
int sparse_av1_read_obu(const uint8_t *data, size_t size, int64_t left, SparseAv1Obu *obu);

/* What a sequence header (5.5) says, but for the operating parameters, which may change
 * within a sequence (7.5). Without padding that isn't zero: can be compared by memcmp(). */
typedef struct SparseAv1Sequence {
    uint8_t profile, still_picture, reduced_still_picture_header;
    uint8_t timing_info_present, equal_picture_interval, decoder_model_info_present;
    uint8_t display_model_info_present;
    uint8_t buffer_delay_length, removal_delay_length, presentation_delay_length;
    uint32_t units_in_display_tick, time_scale, ticks_per_picture, units_in_decoding_tick;
    uint8_t operating_point_count;
    struct {
        uint16_t idc;
        uint8_t level, tier, decoder_model_present, display_delay;
    } operating_points[32];
    uint8_t width_bits, height_bits;
    uint32_t max_width, max_height;
    uint8_t frame_ids_present, delta_frame_id_bits, frame_id_bits;
    uint8_t tools[16]; /* flags that the meaning of frame headers doesn't depend on here */
    uint8_t order_hint_bits; /* 0: enable_order_hint is 0 */
    uint8_t screen_content_tools, integer_mv; /* 2: told by each frame */
    uint8_t superres;
    uint8_t bit_depth, monochrome, subsampling_x, subsampling_y;
    uint8_t primaries, transfer, matrix, full_range, chroma_position;
    uint8_t film_grain_present;
} SparseAv1Sequence;

/* Parse the payload of a sequence header OBU. 1, or 0 when it is damaged. */
int sparse_av1_read_sequence(const uint8_t *data, size_t size, SparseAv1Sequence *sequence);

/* How frames of the sequence are put out. */
enum AVPixelFormat sparse_av1_pixel_format(const SparseAv1Sequence *sequence);

/* The first sequence header among OBUs that stand one after the other, as in the av1C box. 1, or
 * 0 when there is none. */
int sparse_av1_find_sequence(const uint8_t *data, size_t size, SparseAv1Sequence *sequence);

/* What is known of the frame in a reference slot. */
typedef struct SparseAv1Slot {
    int32_t frame; /* the caller's number; -1: empty */
    uint8_t frame_type;
    uint8_t bit_depth, subsampling; /* of its sequence: x * 2 + y, 4 for monochrome */
    uint32_t order_hint, frame_id;
    int32_t width, height; /* upscaled_width, frame_height */
} SparseAv1Slot;

/* What a frame header (5.9) says. */
typedef struct SparseAv1Header {
    int show_existing_frame, existing_slot;
    int frame_type, show_frame, showable_frame;
    int short_signaling; /* frame_refs_short_signaling: depends on all slots */
    uint32_t order_hint, frame_id;
    uint8_t refresh;                    /* refresh_frame_flags */
    uint8_t ref_slots[SPARSE_AV1_REFS]; /* ref_frame_idx; of inter and switch frames alone */
    int32_t width, height;              /* upscaled_width, frame_height */
    int32_t coded_width;                /* before super-resolution */
} SparseAv1Header;

/*
 * Parse the payload of a frame header, redundant frame header or frame OBU as far as the
 * frame's size. slots: the reference slots before it. 1, 0 when it is damaged or goes against
 * the slots, -1 when the bytes end too early.
 */
int sparse_av1_read_header(const uint8_t *data, size_t size, const SparseAv1Sequence *sequence,
                           const SparseAv1Slot *slots, int temporal_id, int spatial_id,
                           SparseAv1Header *header);

/* Whether the frame's slots hold what it may refer to: frames of the same format, of sizes
 * that prediction can scale (7.20.2 and 7.9.2). */
int sparse_av1_references_fit(const SparseAv1Header *header, const SparseAv1Sequence *sequence,
                              const SparseAv1Slot *slots);

#endif /* SPARSE_AV1_OBU_H */
