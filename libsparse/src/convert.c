/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The conversion to RGB and gray repeats what the ffmpeg program does with
 * -pix_fmt: libavfilter inserts a scale filter of the picture's own size with
 * no options. What that filter asks of swscale is asked here:
 *
 *  - bicubic, without accurate rounding or full chroma interpolation;
 *  - matrix and range of each frame, but center chroma siting for all of them,
 *    since the filter only looks at its option;
 *  - interlaced pictures as whole frames;
 *  - rows with room behind them. Some of swscale's x86 code leaves out or writes
 *    pixels after the last full block, depending on the distance of rows, so the
 *    distance is libavfilter's unless rows end with a block.
 */
#include "convert.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/cpu.h>
#include <libavutil/imgutils.h>
#include <libavutil/mem.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

/* Rows whose size and place are multiples of this are written directly: swscale's
 * longest stores to packed formats are of 16 bytes. */
enum { BLOCK = 16 };

/* What an SwsContext depends on. */
typedef struct Key {
    int width, height, src_format, dst_format, space, range;
} Key;

struct SparseConverter {
    struct SwsContext *sws;
    Key key; /* of sws */
    uint8_t *bounce;
    size_t bounce_size;
};

int sparse_converter_create(SparseConverter **converter, SparseError *error)
{
    *converter = calloc(1, sizeof(**converter));
    return *converter ? SPARSE_OK : sparse_fail_memory(error);
}

void sparse_converter_free(SparseConverter **converter)
{
    if (!*converter)
        return;
    sws_freeContext((*converter)->sws);
    av_free((*converter)->bounce);
    free(*converter);
    *converter = NULL;
}

/* ---- Layout ---- */

static const char *name_of(enum AVPixelFormat pix_fmt)
{
    const char *name = av_get_pix_fmt_name(pix_fmt);

    return name ? name : "unknown";
}

/* Describe plane p; 0 when it isn't made of whole samples side by side. */
static int native_plane(const AVPixFmtDescriptor *d, int p, int width, int height,
                        SparsePlaneLayout *plane)
{
    int step = 0, used = 0, bytes, chroma = p == 1 || p == 2;

    bytes = (d->comp[0].depth + d->comp[0].shift + 7) / 8;
    for (int c = 0; c < d->nb_components; c++) {
        const AVComponentDescriptor *comp = &d->comp[c];

        if (comp->plane != p)
            continue;
        if ((step && comp->step != step) || (comp->depth + comp->shift + 7) / 8 != bytes ||
            comp->offset % bytes != 0)
            return 0;
        step = comp->step;
        used++;
    }
    if (!step || step % bytes != 0 || used > step / bytes)
        return 0;
    plane->width = chroma ? AV_CEIL_RSHIFT(width, d->log2_chroma_w) : width;
    plane->height = chroma ? AV_CEIL_RSHIFT(height, d->log2_chroma_h) : height;
    plane->bytes_per_sample = step;
    plane->channels = step / bytes;
    plane->row_bytes = (size_t)plane->width * (size_t)step;
    return 1;
}

int sparse_convert_layout(int format, enum AVPixelFormat pix_fmt, int width, int height,
                          SparseLayout *layout, SparseError *error)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(pix_fmt);
    const int unwanted = AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL |
                         AV_PIX_FMT_FLAG_BAYER | AV_PIX_FMT_FLAG_XYZ | AV_PIX_FMT_FLAG_FLOAT;
    int planes, deep;

    memset(layout, 0, sizeof(*layout));
    if (!d)
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1, "the pixel format is unknown");
    if (width <= 0 || height <= 0 ||
        av_image_check_size((unsigned)width, (unsigned)height, 0, NULL) < 0)
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1, "a picture of %dx%d", width, height);
    layout->format = format;
    layout->width = width;
    layout->height = height;
    if (format == SPARSE_FORMAT_RGB24 || format == SPARSE_FORMAT_GRAY) {
        int channels = format == SPARSE_FORMAT_RGB24 ? 3 : 1;

        layout->plane_count = 1;
        layout->planes[0] = (SparsePlaneLayout){.width = width,
                                                .height = height,
                                                .bytes_per_sample = channels,
                                                .channels = channels,
                                                .row_bytes = (size_t)width * (size_t)channels};
        layout->size = layout->planes[0].row_bytes * (size_t)height;
        layout->pixel_format = channels == 3 ? "rgb24" : "gray";
        layout->component_depth = 8;
        return SPARSE_OK;
    }
    if (format != SPARSE_FORMAT_NATIVE)
        return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1, "there is no format %d", format);

    planes = av_pix_fmt_count_planes(pix_fmt);
    deep = d->comp[0].depth + d->comp[0].shift > 8;
    if (d->flags & unwanted || (deep && d->flags & AV_PIX_FMT_FLAG_BE) || planes < 1 ||
        planes > SPARSE_MAX_PLANES)
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1,
                           "pixel format %s has no native form; ask for rgb24 or gray",
                           name_of(pix_fmt));
    for (int p = 0; p < planes; p++) {
        if (!native_plane(d, p, width, height, &layout->planes[p]))
            return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1,
                               "pixel format %s has no native form; ask for rgb24 or gray",
                               name_of(pix_fmt));
        layout->planes[p].offset = layout->size;
        layout->size += layout->planes[p].row_bytes * (size_t)layout->planes[p].height;
    }
    layout->plane_count = planes;
    layout->pixel_format = d->name;
    layout->component_depth = d->comp[0].depth;
    return SPARSE_OK;
}

/* ---- Conversion ---- */

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

static int make_key(const AVFrame *frame, enum AVPixelFormat dst_format, Key *key,
                    SparseError *error)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(frame->format);
    const char *space = av_color_space_name(frame->colorspace);

    if (!d || !(sws_isSupportedInput(frame->format)))
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1, "pixel format %s can't be converted",
                           name_of(frame->format));
    *key = (Key){frame->width, frame->height,     frame->format,
                 dst_format,   frame->colorspace, frame->color_range};
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

/* The center, as vf_scale computes it from AVCHROMA_LOC_CENTER. */
static int center(int log2_subsampling)
{
    return log2_subsampling ? 128 * ((1 << log2_subsampling) - 1) : -513;
}

static int open_sws(SparseConverter *converter, const Key *key, SparseError *error)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(key->src_format);
    struct SwsContext *sws;
    int *inverse, *table, src_range, dst_range, brightness, contrast, saturation, ret = 0;
    const int *matrix = sws_getCoefficients(key->space);

    sws_freeContext(converter->sws);
    converter->sws = NULL;
    sws = sws_alloc_context();
    if (!sws)
        return sparse_fail_memory(error);
    if (set_option(sws, "srcw", key->width) < 0 || set_option(sws, "srch", key->height) < 0 ||
        set_option(sws, "src_format", key->src_format) < 0 ||
        set_option(sws, "dstw", key->width) < 0 || set_option(sws, "dsth", key->height) < 0 ||
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
    converter->sws = sws;
    converter->key = *key;
    return SPARSE_OK;
}

static int get_bounce(SparseConverter *converter, size_t size, SparseError *error)
{
    if (size <= converter->bounce_size)
        return SPARSE_OK;
    av_freep(&converter->bounce);
    converter->bounce_size = 0;
    converter->bounce = av_mallocz(size);
    if (!converter->bounce)
        return sparse_fail_memory(error);
    converter->bounce_size = size;
    return SPARSE_OK;
}

static int scale(SparseConverter *converter, const AVFrame *frame, uint8_t *data, int step,
                 SparseError *error)
{
    uint8_t *const rows[4] = {data};
    const int steps[4] = {step};
    int ret = sws_scale(converter->sws, (const uint8_t *const *)frame->data, frame->linesize, 0,
                        frame->height, rows, steps);

    if (ret == AVERROR(ENOMEM))
        return sparse_fail_memory(error);
    if (ret < 0)
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1,
                           "a picture of %dx%d %s can't be converted", frame->width, frame->height,
                           name_of(frame->format));
    return SPARSE_OK;
}

static int to_packed(SparseConverter *converter, const AVFrame *frame, const SparseLayout *layout,
                     const SparseTarget *target, size_t step, SparseError *error)
{
    enum AVPixelFormat dst =
        layout->format == SPARSE_FORMAT_RGB24 ? AV_PIX_FMT_RGB24 : AV_PIX_FMT_GRAY8;
    const size_t row = layout->planes[0].row_bytes;
    const size_t align = av_cpu_max_align();
    size_t bounce_step;
    Key key;
    int ret;

    if (frame->format == (int)dst) {
        /* the filter isn't inserted */
        av_image_copy_plane(target->data, (int)step, frame->data[0], frame->linesize[0], (int)row,
                            frame->height);
        return SPARSE_OK;
    }
    ret = make_key(frame, dst, &key, error);
    if (ret == SPARSE_OK && (!converter->sws || memcmp(&key, &converter->key, sizeof(key)) != 0))
        ret = open_sws(converter, &key, error);
    if (ret < 0)
        return ret;
    if (row % BLOCK == 0 && frame->width % BLOCK == 0 && step % BLOCK == 0 &&
        (uintptr_t)target->data % BLOCK == 0)
        return scale(converter, frame, target->data, (int)step, error);

    bounce_step = FFALIGN((size_t)frame->width, align) * (row / (size_t)frame->width);
    bounce_step = FFALIGN(bounce_step, align);
    if (bounce_step > INT_MAX || bounce_step > SIZE_MAX / ((size_t)frame->height + 2))
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1, "a picture of %dx%d", frame->width,
                           frame->height);
    ret = get_bounce(converter, bounce_step * ((size_t)frame->height + 2), error);
    if (ret == SPARSE_OK)
        ret = scale(converter, frame, converter->bounce, (int)bounce_step, error);
    if (ret == SPARSE_OK)
        av_image_copy_plane(target->data, (int)step, converter->bounce, (int)bounce_step, (int)row,
                            frame->height);
    return ret;
}

int sparse_convert_check(const SparseLayout *layout, const SparseTarget *target, size_t *step,
                         SparseError *error)
{
    const size_t row = layout->planes[0].row_bytes;

    *step = row;
    if (!target->data)
        return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1, "no memory for the picture");
    if (layout->format == SPARSE_FORMAT_NATIVE) {
        if (target->size < layout->size)
            return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1,
                               "%zu bytes of memory for a picture of %zu", target->size,
                               layout->size);
        return SPARSE_OK;
    }
    if (target->row_step)
        *step = (size_t)target->row_step;
    if (target->row_step < 0 || *step < row || *step > INT_MAX)
        return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1, "a row step of %td for rows of %zu",
                           target->row_step, row);
    if (target->size < row || (target->size - row) / *step < (size_t)layout->height - 1)
        return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1, "%zu bytes of memory for %d rows of %zu",
                           target->size, layout->height, row);
    return SPARSE_OK;
}

int sparse_convert_frame(SparseConverter *converter, const AVFrame *frame, int format,
                         const SparseTarget *target, SparseError *error)
{
    SparseLayout layout;
    size_t step;
    int ret =
        sparse_convert_layout(format, frame->format, frame->width, frame->height, &layout, error);

    if (ret >= 0)
        ret = sparse_convert_check(&layout, target, &step, error);
    if (ret < 0)
        return ret;
    if (format != SPARSE_FORMAT_NATIVE)
        return to_packed(converter, frame, &layout, target, step, error);
    for (int p = 0; p < layout.plane_count; p++) {
        const SparsePlaneLayout *plane = &layout.planes[p];

        av_image_copy_plane(target->data + plane->offset, (int)plane->row_bytes, frame->data[p],
                            frame->linesize[p], (int)plane->row_bytes, plane->height);
    }
    return SPARSE_OK;
}
