/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The bytes that a conversion writes don't depend on where it writes them, and
 * it writes nowhere else. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/mem.h>

#include "convert.h"
#include "frames.h"
#include "log.h"

enum { MARGIN = 256, GUARD = 0xA5 };

/* Convert to `offset` bytes after an aligned address, rows `gap` bytes apart,
 * and compare with the packed picture, which is made when it is NULL. */
static int check(SparseConverter *converter, const AVFrame *frame, int format, size_t offset,
                 size_t gap, uint8_t **expected)
{
    SparseLayout layout;
    SparseError error;
    uint8_t *memory, *data;
    size_t row, step, size;
    int bad = 0;

    if (sparse_convert_layout(format, frame->format, frame->width, frame->height, NULL, &layout,
                              &error) < 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    row = format == SPARSE_FORMAT_NATIVE ? layout.size : layout.planes[0].row_bytes;
    step = row + gap;
    size = format == SPARSE_FORMAT_NATIVE ? layout.size : step * ((size_t)layout.height - 1) + row;
    memory = av_malloc(size + 2 * MARGIN);
    if (!memory)
        return 1;
    memset(memory, GUARD, size + 2 * MARGIN);
    data = memory + MARGIN / 2 + offset;
    if (sparse_convert_frame(converter, frame, format, NULL,
                             &(SparseTarget){data, (ptrdiff_t)step, size - 1, 0},
                             NULL) != SPARSE_ERR_ARGUMENT)
        bad = 1; /* a byte too few must be noticed */
    if (sparse_convert_frame(converter, frame, format, NULL,
                             &(SparseTarget){data, (ptrdiff_t)step, size, 0}, &error) < 0) {
        fprintf(stderr, "%s\n", error.message);
        bad = 1;
    }
    for (uint8_t *at = memory; at < memory + size + 2 * MARGIN; at++) {
        int inside = at >= data && at < data + size && (size_t)(at - data) % step < row;

        bad |= !inside && *at != GUARD;
    }
    if (!*expected) {
        *expected = memory;
        memmove(memory, data, size);
        return bad;
    }
    for (size_t y = 0; y * step < size; y++)
        bad |= memcmp(data + y * step, *expected + y * row, row) != 0;
    av_free(memory);
    if (bad)
        fprintf(stderr, "%s %dx%d as %s at %zu, gap %zu\n", av_get_pix_fmt_name(frame->format),
                frame->width, frame->height, layout.pixel_format, offset, gap);
    return bad;
}

/* What doesn't fit is refused: steps whose product with the height wraps around, too. */
static int check_targets(void)
{
    static const struct {
        ptrdiff_t row_step;
        size_t size;
        int fits;
    } cases[] = {
        {0, 257 * 30, 1},
        {30, 257 * 30, 1},
        {40, 256 * 40 + 30, 1},
        {0, 257 * 30 - 1, 0},
        {40, 256 * 40 + 29, 0},
        {29, 257 * 30, 0},
        {-30, 257 * 30, 0},
        {(ptrdiff_t)1 << (sizeof(ptrdiff_t) * 8 - 8), 257 * 30, 0},
        {PTRDIFF_MAX, SIZE_MAX, 0},
        {PTRDIFF_MIN, SIZE_MAX, 0},
        {30, 0, 0},
    };
    SparseLayout layout;
    uint8_t byte;
    int bad = sparse_convert_layout(SPARSE_FORMAT_RGB24, AV_PIX_FMT_YUV420P, 10, 257, NULL, &layout,
                                    NULL) < 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        SparseTarget target = {&byte, cases[i].row_step, cases[i].size, 0};
        size_t step;
        int ret = sparse_convert_check(&layout, &target, &step, NULL);

        if (ret != (cases[i].fits ? 0 : SPARSE_ERR_ARGUMENT)) {
            fprintf(stderr, "target %zu: %d\n", i, ret);
            bad++;
        }
    }
    return bad;
}

/* Planes hold the bytes of the interleaved picture, wherever they are, and nothing else is
 * written; with a crop and a size, too. */
static int check_planar(SparseConverter *converter, const AVFrame *frame,
                        const SparseTransform *transform, size_t offset, size_t row_gap,
                        size_t plane_gap)
{
    SparseLayout layout;
    SparseTarget packed = {0}, target = {0};
    size_t width, height, step, plane, size;
    uint8_t *memory = NULL;
    int bad = 1;

    if (sparse_convert_layout(SPARSE_FORMAT_RGB24, frame->format, frame->width, frame->height,
                              transform, &layout, NULL) < 0)
        return 1;
    width = (size_t)layout.width;
    height = (size_t)layout.height;
    step = width + row_gap;
    plane = step * height + plane_gap;
    size = 2 * plane + step * (height - 1) + width;
    packed.size = layout.size;
    packed.data = av_malloc(packed.size);
    memory = av_malloc(size + 2 * MARGIN);
    if (!packed.data || !memory)
        goto done;
    memset(memory, GUARD, size + 2 * MARGIN);
    target =
        (SparseTarget){memory + MARGIN / 2 + offset, (ptrdiff_t)step, size - 1, (ptrdiff_t)plane};
    if (sparse_convert_frame(converter, frame, SPARSE_FORMAT_RGB24, transform, &packed, NULL) < 0)
        goto done;
    bad = sparse_convert_frame(converter, frame, SPARSE_FORMAT_RGB24_PLANAR, transform, &target,
                               NULL) != SPARSE_ERR_ARGUMENT;
    target.size = size;
    bad |= sparse_convert_frame(converter, frame, SPARSE_FORMAT_RGB24_PLANAR, transform, &target,
                                NULL) < 0;
    for (size_t i = 0; i < size + 2 * MARGIN; i++) {
        size_t at = i - (size_t)(target.data - memory), p = at / plane, y = at % plane / step;
        size_t x = at % plane % step;
        int inside = i >= (size_t)(target.data - memory) && at < size && y < height && x < width;
        uint8_t wanted = inside ? packed.data[(y * width + x) * 3 + p] : GUARD;

        bad |= memory[i] != wanted;
    }
    if (bad)
        fprintf(stderr, "planes of %zux%zu at %zu are wrong\n", width, height, offset);
done:
    av_free(packed.data);
    av_free(memory);
    return bad;
}

static int check_planes(SparseConverter *converter)
{
    static const int formats[] = {AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUV444P, AV_PIX_FMT_YUV420P10LE,
                                  AV_PIX_FMT_GRAY8, AV_PIX_FMT_RGB24};
    static const int sizes[][2] = {{64, 48}, {129, 98}, {35, 33}, {7, 6}};
    int bad = 0;

    for (size_t f = 0; f < sizeof(formats) / sizeof(formats[0]); f++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            const SparseTransform crop = {
                .crop_left = 1, .crop_top = 3, .crop_width = 5, .crop_height = 2};
            const SparseTransform both = {.crop_left = 2,
                                          .crop_top = 1,
                                          .crop_width = 4,
                                          .crop_height = 4,
                                          .width = 33,
                                          .height = 20,
                                          .filter = SPARSE_FILTER_AREA};
            AVFrame *frame = noise(formats[f], sizes[s][0], sizes[s][1]);

            bad += !frame || check_planar(converter, frame, NULL, 0, 0, 0) ||
                   check_planar(converter, frame, NULL, 5, 3, 7) ||
                   check_planar(converter, frame, &crop, 1, 0, 0) ||
                   check_planar(converter, frame, &both, 16, 16, 0);
            av_frame_free(&frame);
        }
    return bad;
}

int main(void)
{
    static const enum AVPixelFormat formats[] = {
        AV_PIX_FMT_YUV420P,   AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUV422P,   AV_PIX_FMT_YUV444P,
        AV_PIX_FMT_YUV420P10, AV_PIX_FMT_GRAY8,    AV_PIX_FMT_YUV444P12, AV_PIX_FMT_GBRP,
        AV_PIX_FMT_GRAY12,    AV_PIX_FMT_GBRP10,   AV_PIX_FMT_YUV422P10, AV_PIX_FMT_NV12,
        AV_PIX_FMT_RGB24,     AV_PIX_FMT_BGR0,     AV_PIX_FMT_YUVA420P};
    static const int sizes[][2] = {{96, 32}, {97, 33}, {16, 2}, {130, 19}, {1, 1}, {48, 7}};
    static const size_t places[][2] = {{0, 0}, {0, 32}, {16, 0}, {1, 0}, {7, 13}, {16, 16}};
    SparseConverter *converter;
    SparseLayout layout;
    int bad = 0;

    sparse_log_enter(NULL);
    if (sparse_converter_create(&converter, NULL) < 0)
        return 1;
    for (size_t f = 0; f < sizeof(formats) / sizeof(formats[0]); f++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            AVFrame *frame = noise(formats[f], sizes[s][0], sizes[s][1]);

            if (!frame)
                return 1;
            for (int format = SPARSE_FORMAT_RGB24; format <= SPARSE_FORMAT_NATIVE; format++) {
                uint8_t *expected = NULL;

                for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++)
                    bad += check(converter, frame, format, places[p][0],
                                 format == SPARSE_FORMAT_NATIVE ? 0 : places[p][1], &expected);
                av_free(expected);
            }
            av_frame_free(&frame);
        }
    bad += check_planes(converter);
    sparse_converter_free(&converter);

    bad += check_targets();

    /* formats without plain planes are refused, not guessed at */
    bad += sparse_convert_layout(SPARSE_FORMAT_NATIVE, AV_PIX_FMT_PAL8, 8, 8, NULL, &layout,
                                 NULL) != SPARSE_ERR_UNSUPPORTED;
    bad += sparse_convert_layout(SPARSE_FORMAT_NATIVE, AV_PIX_FMT_YUV420P10BE, 8, 8, NULL, &layout,
                                 NULL) != SPARSE_ERR_UNSUPPORTED;
    bad += sparse_convert_layout(SPARSE_FORMAT_NATIVE, AV_PIX_FMT_UYVY422, 8, 8, NULL, &layout,
                                 NULL) != SPARSE_ERR_UNSUPPORTED;
    bad += sparse_convert_layout(SPARSE_FORMAT_RGB24, AV_PIX_FMT_YUV420P, 0, 8, NULL, &layout,
                                 NULL) != SPARSE_ERR_UNSUPPORTED;
    return bad ? 1 : 0;
}
