/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "source.h"

#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/mem.h>

#include "log.h"
#include "saved_index.h"
#include "source_internal.h"

enum { AVIO_BUFFER = 32 << 10 };

const char *sparse_source_name(const SparseSource *source)
{
    return source->name;
}

int sparse_source_fail(const SparseSource *source, SparseError *error, int code, int64_t frame,
                       const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    sparse_vfail_named(error, code, source->name, frame, format, arguments);
    va_end(arguments);
    return code;
}

/* ---- FFmpeg's view of the bytes ---- */

static void remember(SparseWindow *window, const uint8_t *data, int64_t position, int64_t size)
{
    if (position != window->start + window->size || size > window->capacity / 2) {
        window->start = position;
        window->size = 0;
    }
    if (size > window->capacity / 2)
        return;
    if (window->size + size > window->capacity) {
        int64_t drop = window->size - window->capacity / 2;

        memmove(window->data, window->data + drop, (size_t)(window->size - drop));
        window->start += drop;
        window->size -= drop;
    }
    memcpy(window->data + window->size, data, (size_t)size);
    window->size += size;
}

static int avio_read_bytes(void *opaque, uint8_t *buffer, int size)
{
    SparseSource *source = opaque;
    SparseError error;
    int64_t n = sparse_bytes_read(source->bytes, buffer, source->avio_position, size, &error);

    if (n < 0) {
        source->io_error = error;
        return AVERROR(EIO);
    }
    if (n == 0)
        return AVERROR_EOF;
    if (source->window.data)
        remember(&source->window, buffer, source->avio_position, n);
    source->avio_position += n;
    return (int)n;
}

static int64_t avio_seek_bytes(void *opaque, int64_t offset, int whence)
{
    SparseSource *source = opaque;

    whence &= ~AVSEEK_FORCE;
    if (whence == AVSEEK_SIZE)
        return sparse_bytes_size(source->bytes);
    if (whence == SEEK_CUR)
        offset += source->avio_position;
    else if (whence == SEEK_END)
        offset += sparse_bytes_size(source->bytes);
    if (offset < 0)
        return AVERROR(EINVAL);
    source->avio_position = offset;
    return offset;
}

/* ---- What the stream is ---- */

static int choose_stream(SparseSource *source, int wanted, SparseError *error)
{
    const AVFormatContext *format = source->format;
    int video = 0;

    if (wanted >= 0) {
        if ((unsigned)wanted >= format->nb_streams)
            return sparse_source_fail(source, error, SPARSE_ERR_ARGUMENT, -1,
                                      "there is no stream %d, only %u", wanted, format->nb_streams);
        if (format->streams[wanted]->codecpar->codec_type != AVMEDIA_TYPE_VIDEO)
            return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                                      "stream %d is not video", wanted);
        source->stream_index = wanted;
        return SPARSE_OK;
    }
    /* as -map 0:v:0: cover pictures count */
    for (unsigned i = 0; i < format->nb_streams; i++) {
        if (format->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_VIDEO) {
            source->stream_index = (int)i;
            return SPARSE_OK;
        }
        video += format->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
    }
    return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1, "there is no video stream%s",
                              video ? ", only audio" : "");
}

static int check_codec(const SparseSource *source, SparseError *error)
{
    const AVCodecParameters *par = source->par;
    char tag[AV_FOURCC_MAX_STRING_SIZE];

    if (avcodec_find_decoder(par->codec_id))
        return SPARSE_OK;
    if (par->codec_id == AV_CODEC_ID_NONE)
        return sparse_source_fail(source, error, SPARSE_ERR_UNSUPPORTED, -1,
                                  "stream %d has an unknown codec (%s)", source->stream_index,
                                  av_fourcc_make_string(tag, par->codec_tag));
    return sparse_source_fail(source, error, SPARSE_ERR_UNSUPPORTED, -1,
                              "the codec of stream %d, %s, is not supported", source->stream_index,
                              avcodec_get_name(par->codec_id));
}

/* ---- Opening ---- */

/* Why avformat_open_input() has failed, in words that help. */
static int open_failed(const SparseSource *source, int ret, SparseError *error)
{
    static const char *const boxes[] = {"ftyp", "moov", "mdat", "free", "skip", "wide", "moof"};
    uint8_t head[8] = {0};

    if (source->io_error.code) {
        if (error)
            *error = source->io_error;
        return source->io_error.code;
    }
    if (ret == AVERROR(ENOMEM))
        return sparse_fail_memory(error);
    if (sparse_bytes_read(source->bytes, head, 0, sizeof(head), NULL) == sizeof(head))
        for (size_t i = 0; i < sizeof(boxes) / sizeof(boxes[0]); i++)
            if (memcmp(head + 4, boxes[i], 4) == 0)
                return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                                          "the mp4/mov header (moov) is missing or damaged: the "
                                          "file may be truncated or unfinished");
    if (ret == AVERROR_INVALIDDATA || ret == AVERROR_EOF)
        return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                                  "not a video file, or a format that isn't known");
    return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1, "can't be opened: %s",
                              av_err2str(ret));
}

static int open_format(SparseSource *source, SparseError *error)
{
    AVDictionary *options = NULL;
    uint8_t *buffer = av_malloc(AVIO_BUFFER);
    int ret;

    if (!buffer)
        return sparse_fail_memory(error);
    source->avio =
        avio_alloc_context(buffer, AVIO_BUFFER, 0, source, avio_read_bytes, NULL, avio_seek_bytes);
    if (!source->avio) {
        av_free(buffer);
        return sparse_fail_memory(error);
    }
    source->format = avformat_alloc_context();
    if (!source->format)
        return sparse_fail_memory(error);
    source->format->pb = source->avio;
    source->format->flags |= AVFMT_FLAG_CUSTOM_IO; /* never to be closed by FFmpeg */
    /* as the ffmpeg program; a demuxer that doesn't know it leaves it alone */
    ret = av_dict_set(&options, "scan_all_pmts", "1", 0);
    if (ret >= 0)
        ret = avformat_open_input(&source->format, source->url, NULL, &options);
    av_dict_free(&options);
    return ret < 0 ? open_failed(source, ret, error) : SPARSE_OK;
}

/* Copy what the container says now of the stream's decoder, to outlive the demuxer. */
static int take_parameters(SparseSource *source, SparseError *error)
{
    if (!source->par)
        source->par = avcodec_parameters_alloc();
    if (!source->par ||
        avcodec_parameters_copy(source->par,
                                source->format->streams[source->stream_index]->codecpar) < 0)
        return sparse_fail_memory(error);
    return SPARSE_OK;
}

static int probe(SparseSource *source, SparseError *error)
{
    int ret = avformat_find_stream_info(source->format, NULL);

    source->probed = 1;
    if (ret < 0)
        return open_failed(source, ret, error);
    if (source->io_error.code) {
        if (error)
            *error = source->io_error;
        return source->io_error.code;
    }
    return source->par ? take_parameters(source, error) : SPARSE_OK;
}

static int open_stream(SparseSource *source, int stream_index, SparseError *error)
{
    int ret = SPARSE_OK;

    if (sparse_bytes_size(source->bytes) == 0)
        return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1, "the file is empty");
    ret = open_format(source, error);
    if (ret < 0)
        return ret;
    /* Containers without a list of their streams show them when probed. */
    if (source->format->ctx_flags & AVFMTCTX_NOHEADER || source->format->nb_streams == 0)
        ret = probe(source, error);
    if (ret == SPARSE_OK)
        ret = choose_stream(source, stream_index, error);
    if (ret == SPARSE_OK)
        ret = take_parameters(source, error);
    if (ret == SPARSE_OK)
        ret = check_codec(source, error);
    if (ret == SPARSE_OK && !source->probed) {
        ret = sparse_packets_from_samples(source, error);
        if (ret >= 0)
            ret = sparse_source_needs_no_probe(source) ? SPARSE_OK : probe(source, error);
    }
    if (ret == SPARSE_OK)
        ret = sparse_source_describe(source, error);
    if (ret == SPARSE_OK && !source->probed && source->facts.pix_fmt == AV_PIX_FMT_NONE) {
        ret = probe(source, error);
        if (ret == SPARSE_OK)
            ret = sparse_source_describe(source, error);
    }
    if (ret == SPARSE_OK && source->complete)
        sparse_source_close_format(source);
    return ret;
}

/* A source with its name; what it reads from is still to be set. */
static SparseSource *create(const char *name, SparseError *error)
{
    SparseSource *source = calloc(1, sizeof(*source));

    if (source)
        source->name = av_strdup(name);
    if (!source || !source->name) {
        free(source);
        sparse_fail_memory(error);
        return NULL;
    }
    return source;
}

/* Take from a saved index what the container would tell. */
static int recall_stream(SparseSource *source, SparseSavedIndex *index, SparseError *error)
{
    source->par = avcodec_parameters_alloc();
    if (!source->par || avcodec_parameters_copy(source->par, index->par) < 0)
        return sparse_fail_memory(error);
    source->stream_index = index->stream_index;
    source->facts = index->facts;
    source->payload_bytes = index->payload_bytes;
    source->count = sparse_packed_packets(index->packed);
    source->is_table = source->complete = 1;
    sparse_source_use_packed(source, index->packed);
    index->packed = NULL;
    return check_codec(source, error);
}

static int finish(SparseSource **out, SparseSource *source, int ret, const char *url,
                  int stream_index, const SparseRecall *recall, SparseError *error)
{
    source->url = url;
    source->is_first = stream_index < 0;
    if (ret == SPARSE_OK && recall) {
        ret = recall->check(recall->user, source->bytes, error);
        if (ret == SPARSE_OK && (stream_index < 0 ? !recall->index->is_first
                                                  : stream_index != recall->index->stream_index))
            ret =
                sparse_source_fail(source, error, SPARSE_ERR_SAVED, -1,
                                   "the saved index is of stream %d", recall->index->stream_index);
    }
    if (ret == SPARSE_OK && recall && recall->index->direct)
        ret = recall_stream(source, recall->index, error);
    else if (ret == SPARSE_OK)
        ret = open_stream(source, stream_index, error);
    source->url = NULL;
    if (ret < 0)
        sparse_source_close(&source);
    *out = source;
    return ret;
}

int sparse_source_open_path(SparseSource **source, const char *path, int stream_index,
                            const char *name, const SparseRecall *recall, SparseError *error)
{
    SparseSource *s = create(name ? name : path, error);

    *source = NULL;
    if (!s)
        return SPARSE_ERR_MEMORY;
    return finish(source, s, sparse_bytes_open_path(&s->bytes, path, s->name, error), path,
                  stream_index, recall, error);
}

int sparse_source_open_memory(SparseSource **source, const uint8_t *data, size_t size,
                              int stream_index, const char *name, const SparseRecall *recall,
                              SparseError *error)
{
    SparseSource *s = create(name ? name : "<memory>", error);

    *source = NULL;
    if (!s)
        return SPARSE_ERR_MEMORY;
    return finish(source, s, sparse_bytes_open_memory(&s->bytes, data, size, s->name, error), name,
                  stream_index, recall, error);
}

int sparse_source_open_io(SparseSource **source, const SparseIO *io, int stream_index,
                          const char *name, const SparseRecall *recall, SparseError *error)
{
    SparseSource *s = create(name ? name : "<stream>", error);

    *source = NULL;
    if (!s)
        return SPARSE_ERR_MEMORY;
    return finish(source, s, sparse_bytes_open_io(&s->bytes, io, s->name, error), name,
                  stream_index, recall, error);
}

void sparse_source_close_format(SparseSource *source)
{
    avformat_close_input(&source->format);
    if (source->avio)
        av_freep(&source->avio->buffer);
    avio_context_free(&source->avio);
}

void sparse_source_close(SparseSource **source)
{
    SparseSource *s = *source;

    if (!s)
        return;
    sparse_source_close_format(s);
    avcodec_parameters_free(&s->par);
    sparse_packets_free(s);
    av_freep(&s->window.data);
    sparse_bytes_close(&s->bytes);
    av_freep(&s->name);
    free(s);
    *source = NULL;
}

int sparse_source_stamp(const SparseSource *source, SparseStamp *stamp)
{
    return sparse_bytes_stamp(source->bytes, stamp);
}

/* ---- Facts ---- */

int sparse_source_check_unchanged(const SparseSource *source, SparseError *error)
{
    if (!sparse_bytes_have_changed(source->bytes))
        return SPARSE_OK;
    return sparse_source_fail(source, error, SPARSE_ERR_SOURCE, -1,
                              "the file has been changed since it was opened");
}

void sparse_source_describe_saved(const SparseSource *source, SparseSavedIndex *index)
{
    index->stream_index = source->stream_index;
    index->is_first = source->is_first;
    index->direct = (!source->spool || !sparse_spool_size(source->spool)) && !source->extra_count;
    index->par = source->par;
    index->facts = source->facts;
    index->payload_bytes = source->payload_bytes;
}

SparseBytes *sparse_source_bytes(const SparseSource *source)
{
    return source->bytes;
}

const AVCodecParameters *sparse_source_codecpar(const SparseSource *source)
{
    return source->par;
}

AVRational sparse_source_time_base(const SparseSource *source)
{
    return source->facts.time_base;
}

AVRational sparse_source_framerate(const SparseSource *source)
{
    return source->par->framerate;
}

int sparse_source_is_table(const SparseSource *source)
{
    return source->is_table;
}

void sparse_source_counters(const SparseSource *source, SparseSourceCounters *counters)
{
    counters->packets_read = source->packets_read;
    counters->bytes_read = source->payload_read;
    counters->source_bytes = sparse_bytes_count(source->bytes);
}
