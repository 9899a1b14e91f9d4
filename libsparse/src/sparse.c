/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The public functions: arguments are checked here, and only here.
 */
#include "sparse.h"

#include <stdlib.h>
#include <string.h>

#include <libavutil/avutil.h>
#include <libavutil/frame.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>

#include "reader.h"

/* Every call works on a SparseError that is there. */
#define WITH_ERROR(error)                                                                          \
    SparseError discarded;                                                                         \
    if (!(error))                                                                                  \
        (error) = &discarded;                                                                      \
    sparse_error_clear(error)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1, "%s: bad argument: not (%s)",       \
                               __func__, #condition);                                              \
    } while (0)

void sparse_default_settings(SparseSettings *settings)
{
    memset(settings, 0, sizeof(*settings));
    settings->stream_index = -1;
    settings->threads = 1;
    settings->dav1d_threads = 1;
    settings->index_mode = SPARSE_INDEX_AUTO;
    settings->log_level = SPARSE_LOG_WARNING;
}

/* ---- Opening and closing ---- */

static int check_settings(const SparseSettings *settings, SparseError *error)
{
    CHECK(settings->threads >= 1 && settings->threads <= SPARSE_MAX_THREADS);
    CHECK(settings->dav1d_threads >= 0 && settings->dav1d_threads <= 256);
    CHECK(settings->stream_index >= -1);
    CHECK(settings->index_mode == SPARSE_INDEX_LAZY || settings->index_mode == SPARSE_INDEX_WHOLE ||
          settings->index_mode == SPARSE_INDEX_DECODED ||
          settings->index_mode == SPARSE_INDEX_AUTO);
    CHECK(settings->key_size <= SPARSE_MAX_KEY && (settings->key || !settings->key_size));
    CHECK(settings->log_level >= SPARSE_LOG_ERROR && settings->log_level <= SPARSE_LOG_DEBUG);
    return 0;
}

static SparseReader *create_reader(const SparseSettings *settings, SparseError *error)
{
    SparseReader *reader = calloc(1, sizeof(*reader));

    if (!reader) {
        sparse_fail_memory(error);
        return NULL;
    }
    reader->answered_to = -1;
    reader->threads = settings->threads;
    reader->dav1d_threads = settings->dav1d_threads;
    atomic_init(&reader->av1_spare, NULL);
    atomic_init(&reader->av1_damaged_after, INT64_MAX);
    if (settings->pool) {
        reader->pool = sparse_pool_ref(settings->pool);
    } else if (sparse_pool_create(&reader->pool, 0, error) < 0) {
        free(reader);
        return NULL;
    }
    reader->log.callback = settings->log;
    reader->log.user = settings->log_user;
    reader->log.level = settings->log_level;
    return reader;
}

/* With the source open: choose how frames are found. */
static int finish_open(SparseReader *reader, const SparseSettings *settings, SparseError *error)
{
    const enum AVCodecID codec = sparse_source_codecpar(reader->source)->codec_id;
    const int decoded = settings->index_mode == SPARSE_INDEX_DECODED;

    if (!decoded && sparse_decoder_supports(codec)) {
        int ret = sparse_index_open(&reader->index, reader->source, reader->pool,
                                    settings->index_mode, error);

        if (ret >= 0 && reader->saved)
            ret = sparse_index_use_saved(reader->index, sparse_saved_index(reader->saved), error);
        return ret;
    }
    if (!decoded && codec == AV_CODEC_ID_AV1) {
        int ret = sparse_av1_index_open(&reader->av1, reader->source,
                                        settings->index_mode == SPARSE_INDEX_LAZY, error);

        if (ret >= 0 && reader->saved)
            ret = sparse_av1_index_use_saved(reader->av1, sparse_saved_index(reader->saved), error);
        return ret;
    }
    if (reader->saved)
        return sparse_source_fail(reader->source, error, SPARSE_ERR_SAVED, -1,
                                  "the saved index is of no use here");
    return sparse_reader_open_linear(reader, settings->index_mode == SPARSE_INDEX_LAZY, error);
}

/* Open the saved index that the settings name, if any; name is the source's. */
static int open_saved(SparseReader *reader, const SparseSettings *settings, const char *name,
                      SparseError *error)
{
    if (settings->saved_path)
        return sparse_saved_open_path(&reader->saved, settings->saved_path, name, error);
    if (settings->saved_data)
        return sparse_saved_open_memory(&reader->saved, settings->saved_data, settings->saved_size,
                                        name, error);
    return 0;
}

static int check_saved(const void *user, SparseBytes *bytes, SparseError *error)
{
    return sparse_saved_check_source(user, bytes, error);
}

/* The three ways in differ by how the source is opened. */
#define RECALL (reader->saved ? &recall : NULL)
#define OPEN(source_name, open_source)                                                             \
    SparseSettings defaults;                                                                       \
    const SparseLog *previous;                                                                     \
    SparseRecall recall = {.check = check_saved};                                                  \
    SparseReader *reader;                                                                          \
    double start = sparse_seconds();                                                               \
    int ret;                                                                                       \
                                                                                                   \
    *result = NULL;                                                                                \
    if (!settings) {                                                                               \
        sparse_default_settings(&defaults);                                                        \
        settings = &defaults;                                                                      \
    }                                                                                              \
    ret = check_settings(settings, error);                                                         \
    if (ret < 0)                                                                                   \
        return ret;                                                                                \
    reader = create_reader(settings, error);                                                       \
    if (!reader)                                                                                   \
        return SPARSE_ERR_MEMORY;                                                                  \
    previous = sparse_log_enter(&reader->log);                                                     \
    ret = open_saved(reader, settings, settings->name ? settings->name : source_name, error);      \
    if (ret >= 0 && reader->saved) {                                                               \
        recall.index = sparse_saved_index(reader->saved);                                          \
        recall.user = reader->saved;                                                               \
    }                                                                                              \
    if (ret >= 0)                                                                                  \
        ret = open_source;                                                                         \
    if (ret >= 0)                                                                                  \
        ret = finish_open(reader, settings, error);                                                \
    if (ret >= 0)                                                                                  \
        sparse_reader_identify(reader, settings->key, settings->key_size);                         \
    sparse_log_leave(previous);                                                                    \
    if (ret < 0) {                                                                                 \
        sparse_close(&reader);                                                                     \
        return ret;                                                                                \
    }                                                                                              \
    reader->stats.open_seconds = sparse_seconds() - start;                                         \
    *result = reader;                                                                              \
    return 0

int sparse_open_path(SparseReader **result, const char *path, const SparseSettings *settings,
                     SparseError *error)
{
    WITH_ERROR(error);
    CHECK(result);
    CHECK(path);
    OPEN(path, sparse_source_open_path(&reader->source, path, settings->stream_index,
                                       settings->name, RECALL, error));
}

int sparse_open_memory(SparseReader **result, const uint8_t *data, size_t size,
                       const SparseSettings *settings, SparseError *error)
{
    WITH_ERROR(error);
    CHECK(result);
    CHECK(data || !size);
    OPEN("<memory>", sparse_source_open_memory(&reader->source, data, size, settings->stream_index,
                                               settings->name, RECALL, error));
}

int sparse_open_io(SparseReader **result, const SparseIO *io, const SparseSettings *settings,
                   SparseError *error)
{
    WITH_ERROR(error);
    CHECK(result);
    CHECK(io && io->read);
    OPEN("<stream>", sparse_source_open_io(&reader->source, io, settings->stream_index,
                                           settings->name, RECALL, error));
}

void sparse_close(SparseReader **result)
{
    const SparseLog *previous;
    SparseAv1Decoder *spare;
    SparseReader *reader;

    if (!result || !*result)
        return;
    reader = *result;
    previous = sparse_log_enter(&reader->log);
    sparse_index_close(&reader->index);
    spare = atomic_exchange(&reader->av1_spare, NULL);
    sparse_av1_decoder_close(&spare);
    sparse_av1_index_close(&reader->av1);
    sparse_restart_close(&reader->restart);
    av_frame_free(&reader->frame);
    sparse_source_close(&reader->source);
    sparse_saved_close(&reader->saved);
    if (reader->pool && !reader->shared)
        sparse_cache_drop(sparse_pool_cache(reader->pool), &reader->identity);
    sparse_pool_release(&reader->pool);
    sparse_log_leave(previous);
    free(reader);
    *result = NULL;
}

/* ---- Facts ---- */

int sparse_info(SparseReader *reader, SparseInfo *info, SparseError *error)
{
    WITH_ERROR(error);
    CHECK(reader);
    CHECK(info);
    memset(info, 0, sizeof(*info));
    sparse_source_info(reader->source, info);
    info->sparse = !reader->restart;
    info->saved = !!reader->saved;
    return 0;
}

int64_t sparse_frame_count(SparseReader *reader, SparseError *error)
{
    const SparseLog *previous;
    int64_t count;

    WITH_ERROR(error);
    CHECK(reader);
    previous = sparse_log_enter(&reader->log);
    count = sparse_reader_count(reader, error);
    sparse_log_leave(previous);
    return count;
}

int sparse_frame_info(SparseReader *reader, int64_t first, int64_t count, SparseFrameInfo *out,
                      SparseError *error)
{
    const SparseLog *previous;
    int ret;

    WITH_ERROR(error);
    CHECK(reader);
    CHECK(out || !count);
    CHECK(first >= 0 && count >= 0);
    previous = sparse_log_enter(&reader->log);
    ret = sparse_reader_frame_info(reader, first, count, out, error);
    sparse_log_leave(previous);
    return ret;
}

int sparse_build_index(SparseReader *reader, SparseProgress progress, void *user,
                       SparseError *error)
{
    const SparseLog *previous;
    int ret;

    WITH_ERROR(error);
    CHECK(reader);
    previous = sparse_log_enter(&reader->log);
    ret = sparse_reader_build(reader, progress, user, error);
    sparse_log_leave(previous);
    return ret;
}

static int make_saved(SparseReader *reader, SparseProgress progress, void *user, SparseBuffer *out,
                      SparseError *error)
{
    const SparseLog *previous = sparse_log_enter(&reader->log);
    int ret;

    sparse_reader_enter_index(reader);
    if (reader->index)
        ret = sparse_index_save(reader->index, progress, user, out, error);
    else if (reader->av1)
        ret = sparse_av1_index_save(reader->av1, progress, user, out, error);
    else
        ret = sparse_source_fail(reader->source, error, SPARSE_ERR_UNSUPPORTED, -1,
                                 sparse_source_codecpar(reader->source)->codec_id == AV_CODEC_ID_AV1
                                     ? "no index of a stream that is decoded linearly can be saved"
                                     : "no index of this codec can be saved");
    sparse_reader_leave_index(reader);
    sparse_log_leave(previous);
    return ret;
}

int sparse_export_index(SparseReader *reader, SparseProgress progress, void *user, uint8_t **data,
                        size_t *size, SparseError *error)
{
    SparseBuffer out = {0};
    int ret;

    WITH_ERROR(error);
    CHECK(reader);
    CHECK(data && size);
    *data = NULL;
    *size = 0;
    ret = make_saved(reader, progress, user, &out, error);
    if (ret < 0) {
        free(out.data);
        return ret;
    }
    *data = out.data;
    *size = out.size;
    return 0;
}

void sparse_free(void *data)
{
    free(data);
}

int sparse_save_index(SparseReader *reader, const char *path, SparseProgress progress, void *user,
                      SparseError *error)
{
    SparseBuffer out = {0};
    int ret;

    WITH_ERROR(error);
    CHECK(reader);
    CHECK(path);
    ret = make_saved(reader, progress, user, &out, error);
    if (ret >= 0)
        ret = sparse_saved_to_file(path, out.data, out.size, error);
    free(out.data);
    return ret;
}

/* ---- Plans ---- */

int sparse_plan_create(SparsePlan **plan, SparseReader *reader, const int64_t *indices,
                       size_t count, SparseError *error)
{
    const SparseLog *previous;
    int ret;

    WITH_ERROR(error);
    CHECK(plan);
    CHECK(reader);
    CHECK(indices || !count);
    previous = sparse_log_enter(&reader->log);
    ret = sparse_reader_plan(reader, indices, count, plan, error);
    sparse_log_leave(previous);
    return ret;
}

/* ---- Frames ---- */

static int is_format(int format)
{
    return format >= SPARSE_FORMAT_RGB24 && format <= SPARSE_FORMAT_RGB24_PLANAR;
}

int sparse_set_conversion(SparseReader *reader, const SparseConversion *conversion,
                          SparseError *error)
{
    static const SparseConversion none;

    WITH_ERROR(error);
    CHECK(reader);
    if (!conversion)
        conversion = &none;
    CHECK(conversion->crop_width >= 0);
    CHECK(!conversion->crop_width ||
          (conversion->crop_height > 0 && conversion->crop_left >= 0 && conversion->crop_top >= 0));
    CHECK(conversion->resize_width >= 0);
    CHECK(!conversion->resize_width ||
          (conversion->resize_height > 0 &&
           av_image_check_size((unsigned)conversion->resize_width,
                               (unsigned)conversion->resize_height, 0, NULL) >= 0));
    CHECK(conversion->resize_filter >= SPARSE_FILTER_BICUBIC &&
          conversion->resize_filter <= SPARSE_FILTER_SPLINE);
    reader->transform = (SparseTransform){
        .crop_left = conversion->crop_left,
        .crop_top = conversion->crop_top,
        .crop_width = conversion->crop_width,
        .crop_height = conversion->crop_height,
        .width = conversion->resize_width,
        .height = conversion->resize_height,
        .filter = conversion->resize_filter,
    };
    return 0;
}

int sparse_frame_layout(SparseReader *reader, int64_t index, int format, SparseLayout *layout,
                        SparseError *error)
{
    const SparseLog *previous;
    int ret;

    WITH_ERROR(error);
    CHECK(reader);
    CHECK(layout);
    CHECK(is_format(format));
    previous = sparse_log_enter(&reader->log);
    ret = sparse_reader_layout(reader, index, format, layout, error);
    sparse_log_leave(previous);
    return ret;
}

int sparse_get_frames(SparseReader *reader, const int64_t *indices, size_t count, int format,
                      const SparseTarget *targets, int width, int height, SparseError *error)
{
    const SparseLog *previous;
    int ret;

    WITH_ERROR(error);
    CHECK(reader);
    CHECK((indices && targets) || !count);
    CHECK(is_format(format));
    for (size_t i = 0; i < count; i++)
        CHECK(targets[i].data);
    previous = sparse_log_enter(&reader->log);
    ret = sparse_reader_frames(reader, indices, count, format, targets, width, height, error);
    sparse_log_leave(previous);
    return ret;
}

int sparse_get_batch(SparseBatchItem *items, size_t count, int threads, size_t *failed,
                     SparseError *error)
{
    size_t ignored;

    WITH_ERROR(error);
    CHECK(items || !count);
    CHECK(threads >= 1 && threads <= SPARSE_MAX_THREADS);
    if (!failed)
        failed = &ignored;
    for (size_t i = 0; i < count; i++) {
        *failed = i;
        CHECK(items[i].reader);
        CHECK((items[i].indices && items[i].targets) || !items[i].count);
        CHECK(is_format(items[i].format));
        for (size_t k = 0; k < items[i].count; k++)
            CHECK(items[i].targets[k].data);
    }
    return sparse_reader_batch(items, count, threads, failed, error);
}

/* ---- Linear decode ---- */

struct SparseLinear {
    SparseReader *reader;
    SparseStock *stock;
    SparseConverter *converter;
    AVFrame *frame; /* the next one, when there is one */
    int ready, damaged;
};

int sparse_linear_open(SparseLinear **result, SparseReader *reader, SparseError *error)
{
    const SparseLog *previous;
    SparseLinear *linear;
    int ret;

    WITH_ERROR(error);
    CHECK(result);
    CHECK(reader);
    *result = NULL;
    linear = calloc(1, sizeof(*linear));
    if (!linear)
        return sparse_fail_memory(error);
    linear->reader = reader;
    previous = sparse_log_enter(&reader->log);
    linear->frame = av_frame_alloc();
    ret = linear->frame ? 0 : sparse_fail_memory(error);
    if (ret >= 0)
        ret = sparse_converter_create(&linear->converter, error);
    if (ret >= 0)
        ret = sparse_stock_open(&linear->stock, reader->source, 0, error);
    sparse_log_leave(previous);
    if (ret < 0)
        sparse_linear_close(&linear);
    *result = linear;
    return ret;
}

/* Have the next frame at hand: 1, or 0 at the end. */
static int advance(SparseLinear *linear, SparseError *error)
{
    const SparseLog *previous;
    int ret;

    if (linear->ready)
        return 1;
    previous = sparse_log_enter(&linear->reader->log);
    ret = sparse_stock_next(linear->stock, linear->frame, &linear->damaged, error);
    sparse_log_leave(previous);
    linear->ready = ret == 1;
    return ret;
}

int sparse_linear_peek(SparseLinear *linear, int format, SparseLayout *layout, SparseError *error)
{
    int ret;

    WITH_ERROR(error);
    CHECK(linear);
    CHECK(layout);
    CHECK(is_format(format));
    ret = advance(linear, error);
    if (ret != 1)
        return ret;
    ret = sparse_convert_layout(format, linear->frame->format, linear->frame->width,
                                linear->frame->height, &linear->reader->transform, layout, error);
    return ret < 0 ? ret : 1;
}

int sparse_linear_next(SparseLinear *linear, int format, const SparseTarget *target, int64_t *pts,
                       int *damaged, SparseError *error)
{
    int ret;

    WITH_ERROR(error);
    CHECK(linear);
    CHECK(is_format(format));
    ret = advance(linear, error);
    if (ret != 1)
        return ret;
    if (target)
        ret = sparse_convert_frame(linear->converter, linear->frame, format,
                                   &linear->reader->transform, target, error);
    if (pts)
        *pts = linear->frame->pts;
    if (damaged)
        *damaged = linear->damaged;
    av_frame_unref(linear->frame);
    linear->ready = 0;
    return ret < 0 ? ret : 1;
}

void sparse_linear_close(SparseLinear **result)
{
    SparseLinear *linear = result ? *result : NULL;
    const SparseLog *previous;

    if (!linear)
        return;
    previous = sparse_log_enter(&linear->reader->log);
    sparse_stock_close(&linear->stock);
    sparse_converter_free(&linear->converter);
    av_frame_free(&linear->frame);
    sparse_log_leave(previous);
    free(linear);
    *result = NULL;
}

/* ---- Counters ---- */

static int64_t scanned(const SparseReader *reader)
{
    return reader->index ? sparse_index_scanned(reader->index)
           : reader->av1 ? sparse_av1_index_scanned(reader->av1)
                         : 0;
}

void sparse_stats(const SparseReader *reader, SparseStats *stats)
{
    SparseSourceCounters counters;

    *stats = reader->stats;
    sparse_source_counters(reader->source, &counters);
    stats->packets_read = counters.packets_read - reader->counted.packets_read;
    stats->bytes_read = counters.bytes_read - reader->counted.bytes_read;
    stats->source_bytes = counters.source_bytes - reader->counted.source_bytes;
    stats->state_only_packets = scanned(reader) - reader->scanned_counted;
}

void sparse_reset_stats(SparseReader *reader)
{
    memset(&reader->stats, 0, sizeof(reader->stats));
    sparse_source_counters(reader->source, &reader->counted);
    reader->scanned_counted = scanned(reader);
}

const char *sparse_code_name(int code)
{
    static const char *const names[] = {
        "SPARSE_OK",         "SPARSE_ERR_MEMORY",      "SPARSE_ERR_ARGUMENT",
        "SPARSE_ERR_SOURCE", "SPARSE_ERR_UNSUPPORTED", "SPARSE_ERR_DECODE",
        "SPARSE_ERR_INDEX",  "SPARSE_ERR_INTERRUPTED", "SPARSE_ERR_CLOSED",
        "SPARSE_ERR_SAVED",
    };

    return code <= 0 && code > -(int)(sizeof(names) / sizeof(*names)) ? names[-code]
                                                                      : "SPARSE_ERR_UNKNOWN";
}
