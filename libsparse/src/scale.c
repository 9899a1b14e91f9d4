/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The conversion to RGB and gray repeats what the ffmpeg program does with
 * -pix_fmt: libavfilter inserts a scale filter of the picture's own size with
 * no options, or uses the one that is there for the size. What that filter asks of swscale is
 * asked here:
 *
 *  - bicubic unless another filter is named, without accurate rounding or full chroma
 *    interpolation;
 *  - matrix and range of each frame, but center chroma siting for all of them,
 *    since the filter only looks at its option;
 *  - interlaced pictures as whole frames;
 *  - rows with room behind them. Some of swscale's x86 code leaves out or writes
 *    pixels after the last full block, depending on the distance of rows, so the
 *    distance is libavfilter's unless rows end with a block.
 *
 * The conversion of the most common formats is done by wider code of this library's own instead,
 * with the same arithmetic.
 */
#include "scale.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/cpu.h>
#include <libavutil/imgutils.h>
#include <libavutil/mem.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

#include "planar.h"
#include "yuv_rgb.h"

enum {
    /* Rows whose size and place are multiples of this are written directly: swscale's
     * longest stores to packed formats are of 16 bytes. */
    BLOCK = 16,
    /* Rows that are converted at a time when they have to be copied afterwards: they stay in the
     * processor's cache. Even, for subsampled chroma. */
    SLICE = 16
};

/* What an SwsContext depends on. */
typedef struct Key {
    int width, height, src_format, dst_format, space, range;
    int dst_width, dst_height, filter;
} Key;

struct SparseScaler {
    struct SwsContext *sws;
    Key key; /* of sws */
    SparseYuvMatrix matrix; /* likewise */
    uint8_t *bounce;
    size_t bounce_size;
};

int sparse_scaler_create(SparseScaler **scaler, SparseError *error)
{
    *scaler = calloc(1, sizeof(**scaler));
    return *scaler ? SPARSE_OK : sparse_fail_memory(error);
}

void sparse_scaler_free(SparseScaler **scaler)
{
    if (!*scaler)
        return;
    sws_freeContext((*scaler)->sws);
    av_free((*scaler)->bounce);
    free(*scaler);
    *scaler = NULL;
}

static const char *name_of(enum AVPixelFormat pix_fmt)
{
    const char *name = av_get_pix_fmt_name(pix_fmt);

    return name ? name : "unknown";
}

/* ---- The context ---- */

/* The formats for which libavfilter negotiates matrix and range. */
static int is_regular_yuv(const AVPixFmtDescriptor *d)
{
    return d->nb_components >= 3 && !(d->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL |
                                                  AV_PIX_FMT_FLAG_XYZ | AV_PIX_FMT_FLAG_FLOAT));
}

/* The matrices that the scale filter takes; with another one ffmpeg gives up. */
static int is_known_matrix(int space)
{
    static const int known[] = {AVCOL_SPC_UNSPECIFIED, AVCOL_SPC_RGB,       AVCOL_SPC_BT709,
                                AVCOL_SPC_BT470BG,     AVCOL_SPC_SMPTE170M, AVCOL_SPC_FCC,
                                AVCOL_SPC_SMPTE240M,   AVCOL_SPC_BT2020_NCL};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (space == known[i])
            return 1;
    return 0;
}

static int make_key(const AVFrame *frame, const SparseScaling *to, Key *key, SparseError *error)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(frame->format);
    const char *space = av_color_space_name(frame->colorspace);

    if (!d || !(sws_isSupportedInput(frame->format)))
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1, "pixel format %s can't be converted",
                           name_of(frame->format));
    *key = (Key){.width = frame->width,
                 .height = frame->height,
                 .src_format = frame->format,
                 .dst_format = to->format,
                 .space = frame->colorspace,
                 .range = frame->color_range,
                 .dst_width = to->width,
                 .dst_height = to->height,
                 .filter = to->filter};
    if (is_regular_yuv(d) && !is_known_matrix(key->space))
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1,
                           "colour matrix %s can't be converted; ask for the native form",
                           space ? space : "?");
    /* what buffersrc puts into frames that don't tell */
    if (d->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_XYZ) &&
        key->space == AVCOL_SPC_UNSPECIFIED)
        key->space = AVCOL_SPC_RGB;
    return SPARSE_OK;
}

static int set_option(struct SwsContext *sws, const char *name, int64_t value)
{
    return av_opt_set_int(sws, name, value, 0);
}

/* swscale's name for a filter. */
static int flags_of(int filter)
{
    static const int flags[] = {
        [SPARSE_FILTER_BICUBIC] = SWS_BICUBIC,
        [SPARSE_FILTER_BILINEAR] = SWS_BILINEAR,
        [SPARSE_FILTER_FAST_BILINEAR] = SWS_FAST_BILINEAR,
        [SPARSE_FILTER_NEIGHBOR] = SWS_POINT,
        [SPARSE_FILTER_AREA] = SWS_AREA,
        [SPARSE_FILTER_BICUBLIN] = SWS_BICUBLIN,
        [SPARSE_FILTER_GAUSS] = SWS_GAUSS,
        [SPARSE_FILTER_SINC] = SWS_SINC,
        [SPARSE_FILTER_LANCZOS] = SWS_LANCZOS,
        [SPARSE_FILTER_SPLINE] = SWS_SPLINE,
    };

    return flags[filter];
}

/* The center, as vf_scale computes it from AVCHROMA_LOC_CENTER. */
static int center(int log2_subsampling)
{
    return log2_subsampling ? 128 * ((1 << log2_subsampling) - 1) : -513;
}

static int open_sws(SparseScaler *scaler, const Key *key, SparseError *error)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(key->src_format);
    struct SwsContext *sws;
    int *inverse, *table, src_range, dst_range, brightness, contrast, saturation, ret = 0;
    const int *matrix = sws_getCoefficients(key->space);

    sws_freeContext(scaler->sws);
    scaler->sws = NULL;
    sws = sws_alloc_context();
    if (!sws)
        return sparse_fail_memory(error);
    if (set_option(sws, "srcw", key->width) < 0 || set_option(sws, "srch", key->height) < 0 ||
        set_option(sws, "src_format", key->src_format) < 0 ||
        set_option(sws, "dstw", key->dst_width) < 0 ||
        set_option(sws, "dsth", key->dst_height) < 0 ||
        set_option(sws, "sws_flags", flags_of(key->filter)) < 0 ||
        set_option(sws, "dst_format", key->dst_format) < 0 ||
        (key->range != AVCOL_RANGE_UNSPECIFIED &&
         set_option(sws, "src_range", key->range == AVCOL_RANGE_JPEG) < 0) ||
        set_option(sws, "dst_range", 1) < 0 ||
        set_option(sws, "src_h_chr_pos", center(d->log2_chroma_w)) < 0 ||
        set_option(sws, "src_v_chr_pos", center(d->log2_chroma_h)) < 0 ||
        set_option(sws, "dst_h_chr_pos", -513) < 0 || set_option(sws, "dst_v_chr_pos", -513) < 0)
        ret = AVERROR(EINVAL);
    if (ret >= 0)
        ret = sws_init_context(sws, NULL, NULL);
    if (ret < 0) {
        sws_freeContext(sws);
        if (ret == AVERROR(ENOMEM))
            return sparse_fail_memory(error);
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1,
                           "a picture of %dx%d %s can't be converted", key->width, key->height,
                           name_of(key->src_format));
    }
    /* The results are ignored as the filter does: they tell of formats for which
     * there is nothing to set. */
    sws_getColorspaceDetails(sws, &inverse, &src_range, &table, &dst_range, &brightness, &contrast,
                             &saturation);
    sws_setColorspaceDetails(
        sws, matrix, src_range,
        key->dst_format == AV_PIX_FMT_RGB24 ? sws_getCoefficients(AVCOL_SPC_RGB) : matrix,
        dst_range, brightness, contrast, saturation);
    sws_getColorspaceDetails(sws, &inverse, &src_range, &table, &dst_range, &brightness, &contrast,
                             &saturation);
    sparse_yuv_rgb_matrix(&scaler->matrix, matrix, src_range);
    scaler->sws = sws;
    scaler->key = *key;
    return SPARSE_OK;
}

static int get_bounce(SparseScaler *scaler, size_t size, SparseError *error)
{
    if (size <= scaler->bounce_size)
        return SPARSE_OK;
    av_freep(&scaler->bounce);
    scaler->bounce_size = 0;
    scaler->bounce = av_mallocz(size);
    if (!scaler->bounce)
        return sparse_fail_memory(error);
    scaler->bounce_size = size;
    return SPARSE_OK;
}

/* Convert rows first..first+count-1 of the picture, all of them or, where rows don't depend on
 * one another, some, as if they were the first ones. */
static int scale(SparseScaler *scaler, const AVFrame *frame, int first, int count, uint8_t *data,
                 int step, SparseError *error)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(frame->format);
    const uint8_t *source[4] = {NULL};
    uint8_t *const rows[4] = {data};
    const int steps[4] = {step};
    int ret;

    for (int p = 0; p < 4; p++) {
        int shift = p == 1 || p == 2 ? d->log2_chroma_h : 0;

        source[p] = frame->data[p];
        if (first)
            source[p] += (ptrdiff_t)(first >> shift) * frame->linesize[p];
    }
    ret = sws_scale(scaler->sws, source, frame->linesize, 0, count, rows, steps);
    if (ret == AVERROR(ENOMEM))
        return sparse_fail_memory(error);
    if (ret < 0)
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1,
                           "a picture of %dx%d %s can't be converted", frame->width, frame->height,
                           name_of(frame->format));
    return SPARSE_OK;
}

/*
 * Whether swscale converts pairs of rows by themselves: where it has a converter for the two
 * formats that needs no filter (ff_get_unscaled_swscale(), yuv2rgb).
 */
static int by_rows(const Key *key)
{
    return key->dst_format == AV_PIX_FMT_RGB24 && key->dst_width == key->width &&
           key->dst_height == key->height && key->height % 2 == 0 &&
           (key->src_format == AV_PIX_FMT_YUV420P || key->src_format == AV_PIX_FMT_YUVJ420P ||
            key->src_format == AV_PIX_FMT_YUV422P || key->src_format == AV_PIX_FMT_YUVJ422P);
}

/* What swscale would do row by row with code that has a wider twin here. */
static void convert_rows(const SparseScaler *scaler, const AVFrame *frame, const SparseScaling *to)
{
    const int shift = av_pix_fmt_desc_get(frame->format)->log2_chroma_h;
    const size_t width = (size_t)to->width;

    for (int row = 0; row < to->height; row++) {
        const uint8_t *y = frame->data[0] + (ptrdiff_t)row * frame->linesize[0];
        const uint8_t *u = frame->data[1] + (ptrdiff_t)(row >> shift) * frame->linesize[1];
        const uint8_t *v = frame->data[2] + (ptrdiff_t)(row >> shift) * frame->linesize[2];
        uint8_t *out = to->data + (size_t)row * to->step;

        if (to->plane_step)
            sparse_yuv_rgb_row_planar(&scaler->matrix, y, u, v, out, out + to->plane_step,
                                      out + 2 * to->plane_step, width);
        else
            sparse_yuv_rgb_row(&scaler->matrix, y, u, v, out, width);
    }
}

static void put(const SparseScaling *to, const uint8_t *data, size_t step, int first, int count)
{
    const int channels = to->format == AV_PIX_FMT_RGB24 ? 3 : 1;

    for (int y = 0; y < count; y++) {
        const uint8_t *row = data + (size_t)y * step;
        uint8_t *out = to->data + (size_t)(first + y) * to->step;

        if (to->plane_step)
            sparse_split_rgb(row, out, out + to->plane_step, out + 2 * to->plane_step,
                             (size_t)to->width);
        else
            memcpy(out, row, (size_t)to->width * (size_t)channels);
    }
}

int sparse_scale(SparseScaler *scaler, const AVFrame *frame, const SparseScaling *to,
                 SparseError *error)
{
    const size_t row = (size_t)to->width * (to->format == AV_PIX_FMT_RGB24 ? 3 : 1);
    const size_t align = av_cpu_max_align();
    size_t step;
    Key key;
    int rows, ret;

    if (frame->format == (int)to->format && frame->width == to->width &&
        frame->height == to->height) {
        /* the filter isn't inserted */
        for (int y = 0; y < to->height; y++)
            put(to, frame->data[0] + (ptrdiff_t)y * frame->linesize[0], 0, y, 1);
        return SPARSE_OK;
    }
    ret = make_key(frame, to, &key, error);
    if (ret == SPARSE_OK && (!scaler->sws || memcmp(&key, &scaler->key, sizeof(key)) != 0))
        ret = open_sws(scaler, &key, error);
    if (ret < 0)
        return ret;
    if (by_rows(&key) && sparse_yuv_rgb_usable()) {
        convert_rows(scaler, frame, to);
        return SPARSE_OK;
    }
    if (!to->plane_step && row % BLOCK == 0 && to->width % BLOCK == 0 && to->step % BLOCK == 0 &&
        (uintptr_t)to->data % BLOCK == 0)
        return scale(scaler, frame, 0, frame->height, to->data, (int)to->step, error);

    step = FFALIGN((size_t)to->width, align) * (row / (size_t)to->width);
    step = FFALIGN(step, align);
    if (step > INT_MAX || step > SIZE_MAX / ((size_t)to->height + 2))
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1, "a picture of %dx%d", to->width,
                           to->height);
    rows = by_rows(&key) ? SLICE : to->height;
    ret = get_bounce(scaler, step * ((size_t)rows + 2), error);
    for (int y = 0; y < to->height && ret == SPARSE_OK; y += rows) {
        int count = rows < to->height - y ? rows : to->height - y;

        ret = scale(scaler, frame, y, rows < to->height ? count : frame->height, scaler->bounce,
                    (int)step, error);
        if (ret == SPARSE_OK)
            put(to, scaler->bounce, step, y, count);
    }
    return ret;
}
