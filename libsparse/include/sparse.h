/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * libsparse: exact frames from compressed video at random positions, at the
 * cost of the pictures they depend on.
 *
 * Frame k is the k-th picture that a linear decode of the stream by the same
 * FFmpeg puts out. Every function here either delivers the pixels of exactly
 * that picture or fails with a negative code and a message.
 */
#ifndef SPARSE_H
#define SPARSE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define SPARSE_API __declspec(dllexport)
#elif defined(__GNUC__)
#define SPARSE_API __attribute__((visibility("default")))
#else
#define SPARSE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Interface version; the major number is the shared object's version. */
#define SPARSE_VERSION_MAJOR 0
#define SPARSE_VERSION_MINOR 1
#define SPARSE_VERSION_PATCH 0

/* "0.1.0"; static storage. Thread-safety: safe. */
SPARSE_API const char *sparse_version(void);

/* The FFmpeg release inside and its patch series, "7.1.5+sparse"; static
 * storage. Thread-safety: safe. */
SPARSE_API const char *sparse_ffmpeg_version(void);

/*
 * Result codes. Functions return 0 or a count on success, one of these on
 * failure; the message that goes with it is in the SparseError that the
 * caller passed (see below).
 */
enum SparseCode {
    SPARSE_OK = 0,
    SPARSE_ERR_MEMORY = -1,      /* an allocation failed */
    SPARSE_ERR_ARGUMENT = -2,    /* a bad argument: the caller's mistake */
    SPARSE_ERR_SOURCE = -3,      /* can't be opened or read, or holds no video */
    SPARSE_ERR_UNSUPPORTED = -4, /* a codec or construct that can't be had exactly */
    SPARSE_ERR_DECODE = -5,      /* damaged data in what the request depends on */
    SPARSE_ERR_INDEX = -6,       /* a frame index outside the stream */
    SPARSE_ERR_INTERRUPTED = -7, /* the progress callback asked to stop */
    SPARSE_ERR_CLOSED = -8,      /* the source under the reader has gone */
    SPARSE_ERR_SAVED = -9        /* a saved index is damaged, of another version, or was made for
                                    another file or another state of it */
};

/* Name of a code, "SPARSE_ERR_SOURCE"; static storage. Thread-safety: safe. */
SPARSE_API const char *sparse_code_name(int code);

/*
 * Where functions that can fail leave their message. A caller-owned plain
 * struct; every function that takes one accepts NULL. The message names the
 * file, and the frame where one is concerned, and is valid UTF-8 as far as
 * the file name is.
 */
#define SPARSE_MESSAGE_SIZE 512
typedef struct SparseError {
    int code;                          /* enum SparseCode */
    int64_t frame;                     /* display index concerned, or -1 */
    char message[SPARSE_MESSAGE_SIZE]; /* "" after success */
} SparseError;

/* ---- Log ---------------------------------------------------------------- */

enum SparseLogLevel {
    SPARSE_LOG_ERROR = 0,
    SPARSE_LOG_WARNING = 1,
    SPARSE_LOG_INFO = 2,
    SPARSE_LOG_DEBUG = 3
};

/*
 * Called for each line that libsparse or its FFmpeg has to say, from the
 * thread that works at that moment. Without a callback nothing is said:
 * libsparse never prints.
 */
typedef void (*SparseLogCallback)(void *user, int level, const char *line);

/* ---- Pools -------------------------------------------------------------- */

/*
 * What readers may share: decoders that none of them uses at the moment, so that they need not
 * be set up again for each file, and reconstructed pictures, so that later requests need not
 * decode them again. Pixels are the same with and without.
 *
 * A picture is kept for its stream: the same file (device, inode, size, times of the last
 * modification and change), or the caller's key. One that has met any damage is not kept.
 *
 * Readers hold references of their own: a pool may be released before they are closed.
 * Thread-safety of all below: safe. After a fork a child must not use its parent's pools.
 */
typedef struct SparsePool SparsePool;

#define SPARSE_DEFAULT_BUDGET (INT64_C(256) << 20)

/* budget: see sparse_pool_set_budget(). */
SPARSE_API int sparse_pool_create(SparsePool **pool, int64_t budget, SparseError *error);

/* Drop a reference and set *pool to NULL; *pool may be NULL already. */
SPARSE_API void sparse_pool_release(SparsePool **pool);

/*
 * Memory for what nobody uses at the moment, in bytes: seven parts of ten for kept pictures, an
 * eighth (16 MiB at least) for memory that the next pictures are written to, the rest for idle
 * decoders. What is above a new budget is freed at once. 0 or less keeps no pictures.
 */
SPARSE_API void sparse_pool_set_budget(SparsePool *pool, int64_t budget);

/* Free the kept pictures, the unused memory and the idle decoders. */
SPARSE_API void sparse_pool_clear(SparsePool *pool);

typedef struct SparsePoolFacts {
    int64_t budget;
    int64_t bytes, pictures; /* kept at the moment; motion data counts */
    int64_t hits, misses;    /* pictures asked for, since the creation */
    int64_t kept, dropped;   /* pictures, since the creation */
    int64_t unused_bytes;    /* memory that waits for the next pictures */
    int64_t idle_decoders;
    int64_t decoders_opened, decoders_reused; /* since the creation */
    uint64_t reserved[8];
} SparsePoolFacts;

SPARSE_API void sparse_pool_facts(SparsePool *pool, SparsePoolFacts *facts);

/* ---- Opening ------------------------------------------------------------ */

typedef struct SparseReader SparseReader;

/*
 * A source that is read through callbacks.
 *
 * read: up to size bytes at offset into buf; returns the number read, 0 at or
 *       after the end, negative on failure. May return fewer than asked.
 * size: the total length in bytes, or negative when it can't be told (the
 *       source is then read to its end once to find out).
 *
 * They are called from the thread that calls into the reader (with threads
 * above 1 also from its workers, never two at a time) and must not call back
 * into the reader.
 */
typedef struct SparseIO {
    void *user;
    int64_t (*read)(void *user, uint8_t *buf, int64_t offset, int64_t size);
    int64_t (*size)(void *user);
} SparseIO;

enum SparseIndexMode {
    SPARSE_INDEX_LAZY = 0,  /* Header passes over the segments that requests touch, where the
                               container's sample table allows it. Frame k is then the k-th by
                               the table's times. A linear decode numbers otherwise if packets
                               outside the touched segments give it no frame: damaged ones, and
                               leading pictures that it drops at a splice (BLA, end of
                               sequence). For remote or very long files. */
    SPARSE_INDEX_WHOLE = 1, /* One header pass over the stream before the first request. Where
                               there is a sample table, it reads the beginnings of
                               slices alone. Of AV1, frames that dav1d refuses for damage, and
                               a linear decode doesn't count, are counted until a request meets
                               them. */
    SPARSE_INDEX_DECODED = 2, /* One linear decode of the stream before the first request. Frames
                               are decoded from a key frame and held against its hashes:
                               nothing is spared, and nothing rests on what headers say. For
                               damaged AV1. */
    SPARSE_INDEX_AUTO = 3    /* As exact as whole. Of H.264 and HEVC with a sample table, all
                               slice headers are read before the first request, without a
                               decoder, which takes a tenth of the time. If they leave no doubt
                               that a linear decode numbers as the table does, header passes go
                               over segments as in lazy; else, and in all other cases, as whole. */
};

/* Settings of a reader. Fill with sparse_default_settings() first. */
typedef struct SparseSettings {
    int stream_index;   /* container stream index; -1 (default): the first
                           video stream, as ffmpeg's -map 0:v:0 */
    int threads;        /* worker threads at most, 1..64; default 1 */
    int index_mode;     /* enum SparseIndexMode; default auto */
    const char *name;   /* shown in messages for sources without a path;
                           default NULL: "<memory>" or "<stream>" */
    SparseLogCallback log; /* default NULL: silent */
    void *log_user;
    int log_level; /* enum SparseLogLevel: the most that log is called for; default warning.
                      Debug lines come several for each picture. */
    SparsePool *pool; /* default NULL: a pool of the reader's own, which keeps no pictures */
    const uint8_t *key; /* key_size bytes, at most SPARSE_MAX_KEY, that stand for what is read from
                           memory or through callbacks: equal keys, equal bytes. Default NULL:
                           kept pictures serve this reader alone. Not used for paths. */
    size_t key_size;
    int dav1d_threads; /* AV1 alone: threads inside each decoder, 0..256; 0: as many as dav1d
                          likes; default 1, which starts none */
    /* A saved index (sparse_save_index()) to use instead of making one: the name of its file, or
     * its bytes, which must stay until the close; default NULL. One that doesn't fit makes the
     * open fail with SPARSE_ERR_SAVED, and the source may be opened without it. It may come from
     * anywhere, but is to be trusted as much as the source: one that was forged can name wrong
     * frames. */
    const char *saved_path;
    const uint8_t *saved_data;
    size_t saved_size;
    uint64_t reserved[8]; /* zero */
} SparseSettings;

#define SPARSE_MAX_KEY 32

SPARSE_API void sparse_default_settings(SparseSettings *settings);

/*
 * Open a reader. On success *reader is the new handle, to be closed with
 * sparse_close(); on failure it is NULL. settings may be NULL for defaults.
 *
 * sparse_open_memory() does not copy: data must stay valid until the close.
 * sparse_open_io() copies *io; io->user must stay valid until the close.
 *
 * Thread-safety: safe; one reader is for one thread at a time, several
 * readers may be used from several threads at once.
 */
SPARSE_API int sparse_open_path(SparseReader **reader, const char *path,
                                const SparseSettings *settings, SparseError *error);
SPARSE_API int sparse_open_memory(SparseReader **reader, const uint8_t *data, size_t size,
                                  const SparseSettings *settings, SparseError *error);
SPARSE_API int sparse_open_io(SparseReader **reader, const SparseIO *io,
                              const SparseSettings *settings, SparseError *error);

/* Close and set *reader to NULL; *reader may be NULL already. */
SPARSE_API void sparse_close(SparseReader **reader);

/* ---- Facts -------------------------------------------------------------- */

/*
 * What the container and the parameter sets say of the stream. Strings are
 * static or live as long as the reader.
 */
typedef struct SparseInfo {
    const char *container; /* FFmpeg's short name, "mov,mp4,..." */
    const char *codec; /* "h264", "hevc", ... */
    const char *profile; /* "High", or "" */
    const char *pixel_format; /* FFmpeg's name of the native format, "yuv420p" */
    int stream_index;
    int sparse; /* 1: closures are found by header pass; 0: the codec is
                          read linearly from a key frame. Of AV1 known for sure
                          when frames have been asked for */
    int width, height; /* as put out: cropped, before rotation */
    int rotation; /* degrees clockwise that a viewer turns the picture, one of
                          0, 90, 180, 270, from the display matrix; not applied here */
    int flip; /* 1: mirrored left-right before the rotation */
    int64_t frame_count_header; /* as the container tells it, or -1 */
    int64_t packet_count; /* packets of the stream, or -1 when not known yet */
    double average_fps; /* or 0 */
    double duration_seconds; /* of the stream, or of the container, or 0 */
    double begin_seconds; /* stream start time as the container tells it, or 0 */
    int64_t bit_rate; /* bits a second, or 0 */
    int sar_num, sar_den; /* sample aspect ratio; 0/1 when unknown */
    int bits_per_component;
    const char *color_range, *color_space, *color_primaries, *color_transfer; /* FFmpeg's names,
                                                                            or "unknown" */
    int time_base_num, time_base_den;
    int64_t source_size; /* bytes, or -1 */
    int saved; /* 1: opened with a saved index */
    uint64_t reserved[8];
} SparseInfo;

SPARSE_API int sparse_info(SparseReader *reader, SparseInfo *info, SparseError *error);

/*
 * Number of frames a linear decode puts out. Exact; builds as much of the
 * index as that takes. Negative on failure.
 */
SPARSE_API int64_t sparse_frame_count(SparseReader *reader, SparseError *error);

/* One entry of the display order. */
typedef struct SparseFrameInfo {
    int64_t pts; /* in time_base; INT64_MIN when unknown */
    int64_t duration; /* in time_base, to the next frame in display order; the
                          last one's from its packet; 0 when unknown */
    double pts_seconds, duration_seconds;
    int64_t picture; /* picture id: the packet, counted from 0 in decode order, in which
                          the picture begins; in AV1, where a packet can hold several
                          pictures, 64 times that and the number of coded frames
                          before it in the packet */
    int key; /* the packet is marked as a key frame */
    char picture_type; /* 'I', 'P', 'B', or '?' before the index covers it */
} SparseFrameInfo;

/* Fill out[0..count) for the frames first..first+count-1. */
SPARSE_API int sparse_frame_info(SparseReader *reader, int64_t first, int64_t count,
                                 SparseFrameInfo *out, SparseError *error);

/* Called now and then during long work with the share done, 0..1; a non-zero
 * return stops the work with SPARSE_ERR_INTERRUPTED. */
typedef int (*SparseProgress)(void *user, double share);

/* Build the whole index now. progress may be NULL. */
SPARSE_API int sparse_build_index(SparseReader *reader, SparseProgress progress, void *user,
                                  SparseError *error);

/*
 * Save the whole index, which is made first if it isn't there: to a file, which is written under
 * another name in the same folder, synced and renamed, or to *data, to be freed by sparse_free().
 * SPARSE_ERR_UNSUPPORTED for codecs whose closures aren't followed, and for AV1 that is decoded
 * linearly. progress may be NULL.
 */
SPARSE_API int sparse_save_index(SparseReader *reader, const char *path, SparseProgress progress,
                                 void *user, SparseError *error);
SPARSE_API int sparse_export_index(SparseReader *reader, SparseProgress progress, void *user,
                                   uint8_t **data, size_t *size, SparseError *error);
SPARSE_API void sparse_free(void *data);

/* ---- Plans -------------------------------------------------------------- */

typedef struct SparsePlan SparsePlan;

/*
 * The pictures that frames indices[0..count) cost: builds the index as far as
 * needed, reconstructs nothing. indices may hold repeats, in any order;
 * negative ones are errors here.
 */
SPARSE_API int sparse_plan_create(SparsePlan **plan, SparseReader *reader, const int64_t *indices,
                                  size_t count, SparseError *error);
SPARSE_API void sparse_plan_free(SparsePlan **plan);

typedef struct SparsePlanFacts {
    size_t target_count; /* distinct targets */
    size_t reconstruct_count; /* pictures to reconstruct: the closure's size */
    int64_t bytes; /* compressed bytes of the closure */
    int64_t linear_count; /* pictures a decode from the last key frame at or before each
                                 target up to the target would rebuild, segments counted once */
    const int64_t *targets; /* [target_count] distinct display indices, ascending */
    const int64_t *reconstruct; /* [reconstruct_count] picture ids in decode order */
} SparsePlanFacts;

/* The arrays belong to the plan. Thread-safety: safe. */
SPARSE_API void sparse_plan_facts(const SparsePlan *plan, SparsePlanFacts *facts);

/* Direct references of one picture of the plan: up to capacity ids into refs;
 * returns their number, or SPARSE_ERR_ARGUMENT when the picture is not in the plan. */
SPARSE_API int sparse_plan_references(const SparsePlan *plan, int64_t picture, int64_t *refs,
                                      size_t capacity);

/* ---- Frames ------------------------------------------------------------- */

enum SparseFormat {
    SPARSE_FORMAT_RGB24 = 0, /* 8-bit R, G, B, interleaved; converted exactly as
                                `ffmpeg -pix_fmt rgb24` does */
    SPARSE_FORMAT_GRAY = 1, /* 8-bit gray, as `ffmpeg -pix_fmt gray` */
    SPARSE_FORMAT_NATIVE = 2, /* the planes as decoded, packed rows one after
                                another, samples over 8 bit as 16-bit little endian */
    SPARSE_FORMAT_RGB24_PLANAR = 3 /* the bytes of RGB24 in three planes, R, G and B */
};

/* One plane of a picture in native form. */
typedef struct SparsePlaneLayout {
    int width, height; /* samples */
    int bytes_per_sample; /* per pixel for interleaved formats */
    int channels; /* interleaved components, 1 for planar formats */
    size_t row_bytes; /* width * bytes_per_sample */
    size_t offset; /* into the packed picture */
} SparsePlaneLayout;

#define SPARSE_MAX_PLANES 4
typedef struct SparseLayout {
    int format; /* enum SparseFormat */
    int width, height;
    int plane_count;
    SparsePlaneLayout planes[SPARSE_MAX_PLANES];
    size_t size; /* bytes of one packed picture */
    const char *pixel_format; /* FFmpeg's name; static storage */
    int component_depth; /* significant bits a sample */
} SparseLayout;

/* Filters of swscale, under ffmpeg's names. */
enum SparseFilter {
    SPARSE_FILTER_BICUBIC = 0,
    SPARSE_FILTER_BILINEAR,
    SPARSE_FILTER_FAST_BILINEAR,
    SPARSE_FILTER_NEIGHBOR,
    SPARSE_FILTER_AREA,
    SPARSE_FILTER_BICUBLIN, /* bicubic for luma, bilinear for chroma */
    SPARSE_FILTER_GAUSS,
    SPARSE_FILTER_SINC,
    SPARSE_FILTER_LANCZOS,
    SPARSE_FILTER_SPLINE
};

/*
 * What is done to pictures before they become RGB or gray, as ffmpeg's
 * -vf crop=W:H:LEFT:TOP:exact=1,scale=W:H:flags=FILTER does it.
 */
typedef struct SparseConversion {
    int crop_left, crop_top, crop_width, crop_height; /* width 0: the whole picture */
    int resize_width, resize_height; /* width 0: as it is then */
    int resize_filter; /* enum SparseFilter */
    uint64_t reserved[4]; /* zero */
} SparseConversion;

/*
 * Set it for all that follows: layouts, requests and linear decodes. NULL: pictures as they are,
 * which is the default. NATIVE planes always are. A picture that is too small for the crop is
 * SPARSE_ERR_ARGUMENT, there.
 */
SPARSE_API int sparse_set_conversion(SparseReader *reader, const SparseConversion *conversion,
                                     SparseError *error);

/*
 * Layout of frame index in the given format. Frames of one stream may differ
 * where its resolution or format changes.
 */
SPARSE_API int sparse_frame_layout(SparseReader *reader, int64_t index, int format,
                                   SparseLayout *layout, SparseError *error);

/* Where one frame goes. */
typedef struct SparseTarget {
    uint8_t *data; /* first row; for NATIVE the packed picture */
    ptrdiff_t row_step; /* bytes from one row to the next; 0: packed. Not used for NATIVE */
    size_t size; /* writable bytes at data; checked */
    ptrdiff_t plane_step; /* RGB24_PLANAR: bytes from one plane to the next; 0: packed */
} SparseTarget;

/*
 * Decode frames indices[0..count) into targets[0..count). Repeats are decoded
 * once. Nothing is written outside the rows' width*channels bytes. When it
 * fails, the contents of all targets are undefined.
 *
 * width and height, when not 0, are the size the caller has made room for: a
 * frame of another size is SPARSE_ERR_UNSUPPORTED, and so are native planes of
 * frames whose pixel formats differ.
 */
SPARSE_API int sparse_get_frames(SparseReader *reader, const int64_t *indices, size_t count,
                                 int format, const SparseTarget *targets, int width, int height,
                                 SparseError *error);

/* One request of a batch; members as the arguments of sparse_get_frames(). */
typedef struct SparseBatchItem {
    SparseReader *reader;
    const int64_t *indices;
    const SparseTarget *targets;
    size_t count;
    int format; /* enum SparseFormat */
    int width, height;
    uint64_t reserved[4]; /* zero */
} SparseBatchItem;

/*
 * Carry out several requests at once, of one reader or of many, in at most so many threads
 * (1..64, the caller's included): pictures that don't depend on one another are decoded side by
 * side. The threads are gone when this returns. Indexes are built by the calling thread, one
 * after the other, where that hasn't been done.
 *
 * It ends at the first failure: *failed (may be NULL) is then the number of the item, and the
 * contents of all targets are undefined. None of the readers may be in use meanwhile.
 */
SPARSE_API int sparse_get_batch(SparseBatchItem *items, size_t count, int threads, size_t *failed,
                                SparseError *error);

/* ---- Linear decode, for comparison -------------------------------------- */

/*
 * One plain linear decode of the stream by the same FFmpeg with nothing of the
 * sparse path used: the reference that sparse_get_frames() promises to equal.
 */
typedef struct SparseLinear SparseLinear;

SPARSE_API int sparse_linear_open(SparseLinear **linear, SparseReader *reader, SparseError *error);
/* The next frame into target; 1 when one was written, 0 at the end. layout and
 * target may be NULL (the frame is then decoded and dropped); *damaged is set
 * to 1 when the decoder reports an error in this frame. */
SPARSE_API int sparse_linear_next(SparseLinear *linear, int format, const SparseTarget *target,
                                  int64_t *pts, int *damaged, SparseError *error);
/* Layout of the frame that sparse_linear_next() will write next; 1, or 0 at the end. */
SPARSE_API int sparse_linear_peek(SparseLinear *linear, int format, SparseLayout *layout,
                                  SparseError *error);
SPARSE_API void sparse_linear_close(SparseLinear **linear);

/* ---- Counters ----------------------------------------------------------- */

/* Totals since the open or the last reset. */
typedef struct SparseStats {
    int64_t requests;
    int64_t frames_returned;
    int64_t pictures_reconstructed;
    int64_t state_only_packets;
    int64_t packets_read, bytes_read; /* compressed payload asked of the source */
    int64_t source_bytes; /* all bytes read from the source, headers included */
    double open_seconds, index_seconds, decode_seconds, convert_seconds;
    int64_t pictures_from_cache; /* taken from the pool in place of reconstructing them */
    uint64_t reserved[8];
} SparseStats;

SPARSE_API void sparse_stats(const SparseReader *reader, SparseStats *stats);
SPARSE_API void sparse_reset_stats(SparseReader *reader);

#ifdef __cplusplus
}
#endif

#endif /* SPARSE_H */
