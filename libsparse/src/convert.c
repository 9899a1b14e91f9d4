/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "convert.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>

#include "scale.h"

struct SparseConverter {
    SparseScaler *scaler;
};

int sparse_converter_create(SparseConverter **converter, SparseError *error)
{
    int ret;

    *converter = calloc(1, sizeof(**converter));
    if (!*converter)
        return sparse_fail_memory(error);
    ret = sparse_scaler_create(&(*converter)->scaler, error);
    if (ret < 0)
        sparse_converter_free(converter);
    return ret;
}

void sparse_converter_free(SparseConverter **converter)
{
    if (!*converter)
        return;
    sparse_scaler_free(&(*converter)->scaler);
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

/* The size that a picture has after cropping and resizing. */
static int apply_transform(const SparseTransform *transform, int *width, int *height,
                           SparseError *error)
{
    if (!transform)
        return SPARSE_OK;
    if (transform->crop_width) {
        if (transform->crop_left > *width - transform->crop_width ||
            transform->crop_top > *height - transform->crop_height)
            return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1,
                               "a crop of %dx%d at (%d, %d) reaches outside the picture of %dx%d",
                               transform->crop_width, transform->crop_height, transform->crop_left,
                               transform->crop_top, *width, *height);
        *width = transform->crop_width;
        *height = transform->crop_height;
    }
    if (transform->width) {
        *width = transform->width;
        *height = transform->height;
    }
    return SPARSE_OK;
}

static int is_interleaved(int format)
{
    return format == SPARSE_FORMAT_RGB24 || format == SPARSE_FORMAT_GRAY;
}

int sparse_convert_layout(int format, enum AVPixelFormat pix_fmt, int width, int height,
                          const SparseTransform *transform, SparseLayout *layout,
                          SparseError *error)
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
    if (format != SPARSE_FORMAT_NATIVE && apply_transform(transform, &width, &height, error) < 0)
        return SPARSE_ERR_ARGUMENT;
    layout->format = format;
    layout->width = width;
    layout->height = height;
    if (format == SPARSE_FORMAT_RGB24_PLANAR) {
        layout->plane_count = 3;
        for (int p = 0; p < 3; p++) {
            layout->planes[p] = (SparsePlaneLayout){.width = width,
                                                    .height = height,
                                                    .bytes_per_sample = 1,
                                                    .channels = 1,
                                                    .row_bytes = (size_t)width,
                                                    .offset = layout->size};
            layout->size += (size_t)width * (size_t)height;
        }
        layout->pixel_format = "rgb24";
        layout->component_depth = 8;
        return SPARSE_OK;
    }
    if (is_interleaved(format)) {
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

size_t sparse_convert_plane_step(const SparseLayout *layout, const SparseTarget *target,
                                 size_t step)
{
    if (layout->format != SPARSE_FORMAT_RGB24_PLANAR)
        return 0;
    return target->plane_step ? (size_t)target->plane_step : step * (size_t)layout->height;
}

int sparse_convert_check(const SparseLayout *layout, const SparseTarget *target, size_t *step,
                         SparseError *error)
{
    const size_t row = layout->planes[0].row_bytes;
    size_t last = 0; /* where the last plane begins */

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
    if (layout->format == SPARSE_FORMAT_RGB24_PLANAR) {
        size_t plane = sparse_convert_plane_step(layout, target, *step);

        if (target->plane_step < 0 || plane > (SIZE_MAX - row) / 2 || plane < row)
            return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1, "a plane step of %td",
                               target->plane_step);
        last = 2 * plane;
    }
    if (target->size < last + row ||
        (target->size - last - row) / *step < (size_t)layout->height - 1)
        return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1, "%zu bytes of memory for %d rows of %zu",
                           target->size, layout->height, row);
    return SPARSE_OK;
}

/* Have *view show the part of a frame that is wanted, as the crop filter does with exact=1: chroma
 * begins at the sample that the first pixel lies in. */
static void crop(const AVFrame *frame, const SparseTransform *transform, AVFrame *view)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(frame->format);
    int steps[4];

    view->format = frame->format;
    view->width = transform->crop_width;
    view->height = transform->crop_height;
    view->color_range = frame->color_range;
    view->colorspace = frame->colorspace;
    view->chroma_location = frame->chroma_location;
    av_image_fill_max_pixsteps(steps, NULL, d);
    for (int p = 0; p < 4; p++) {
        int chroma = p == 1 || p == 2;
        int x = transform->crop_left * steps[p], y = transform->crop_top;

        view->linesize[p] = frame->linesize[p];
        view->data[p] = frame->data[p];
        if (!frame->data[p] || (p && d->flags & AV_PIX_FMT_FLAG_PAL))
            continue;
        if (chroma) {
            x >>= d->log2_chroma_w;
            y >>= d->log2_chroma_h;
        }
        view->data[p] += (ptrdiff_t)y * frame->linesize[p] + x;
    }
}

int sparse_convert_frame(SparseConverter *converter, const AVFrame *frame, int format,
                         const SparseTransform *transform, const SparseTarget *target,
                         SparseError *error)
{
    SparseScaling to = {.format = AV_PIX_FMT_RGB24};
    SparseLayout layout;
    AVFrame view = {0};
    size_t step;
    int ret = sparse_convert_layout(format, frame->format, frame->width, frame->height, transform,
                                    &layout, error);

    if (ret >= 0)
        ret = sparse_convert_check(&layout, target, &step, error);
    if (ret < 0)
        return ret;
    if (format != SPARSE_FORMAT_NATIVE) {
        if (format == SPARSE_FORMAT_GRAY)
            to.format = AV_PIX_FMT_GRAY8;
        to.width = layout.width;
        to.height = layout.height;
        to.filter = transform ? transform->filter : SPARSE_FILTER_BICUBIC;
        to.data = target->data;
        to.step = step;
        to.plane_step = sparse_convert_plane_step(&layout, target, step);
        if (transform && transform->crop_width) {
            crop(frame, transform, &view);
            frame = &view;
        }
        return sparse_scale(converter->scaler, frame, &to, error);
    }
    for (int p = 0; p < layout.plane_count; p++) {
        const SparsePlaneLayout *plane = &layout.planes[p];

        av_image_copy_plane(target->data + plane->offset, (int)plane->row_bytes, frame->data[p],
                            frame->linesize[p], (int)plane->row_bytes, plane->height);
    }
    return SPARSE_OK;
}
