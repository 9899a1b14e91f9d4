/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The wide conversion to RGB gives what swscale gives: for each luma, Cb and Cr there is, in each
 * matrix and range; and for each width, whatever lies beside the rows. */

#include <stdlib.h>
#include <string.h>

#include <libavutil/cpu.h>

#include "check.h"
#include "convert.h"
#include "frames.h"
#include "log.h"
#include "yuv_rgb.h"

enum { SIZE = 256, GUARD = 0xA5, MARGIN = 64 };

static const int spaces[] = {AVCOL_SPC_BT709, AVCOL_SPC_FCC,       AVCOL_SPC_SMPTE170M,
                             AVCOL_SPC_RGB,   AVCOL_SPC_SMPTE240M, AVCOL_SPC_BT2020_NCL};

/* Convert with and without the wide code, and compare; rows have a margin that nothing is
 * written to. */
static int compare(SparseConverter *converter, const AVFrame *frame, int format, uint8_t *memory[2])
{
    const int flags = av_get_cpu_flags();
    const size_t row = (size_t)frame->width * (format == SPARSE_FORMAT_RGB24 ? 3 : 1);
    const size_t step = row + MARGIN, height = (size_t)frame->height;
    const size_t size = step * height * (format == SPARSE_FORMAT_RGB24 ? 1 : 3);

    for (int wide = 0; wide < 2; wide++) {
        const SparseTarget target = {.data = memory[wide],
                                     .row_step = (ptrdiff_t)step,
                                     .size = size,
                                     .plane_step = (ptrdiff_t)(step * height)};
        SparseError error;
        int ret;

        memset(memory[wide], GUARD, size);
        av_force_cpu_flags(wide ? flags : flags & ~AV_CPU_FLAG_AVX2);
        ret = sparse_convert_frame(converter, frame, format, NULL, &target, &error);
        av_force_cpu_flags(flags);
        if (ret < 0) {
            fprintf(stderr, "%s\n", error.message);
            return 1;
        }
    }
    if (memcmp(memory[0], memory[1], size) != 0) {
        fprintf(stderr, "format %d of %dx%d, matrix %d, range %d, to %d: differs\n", frame->format,
                frame->width, frame->height, frame->colorspace, frame->color_range, format);
        return 1;
    }
    for (size_t y = 0; y < height; y++)
        for (size_t x = row; x < step; x++)
            CHECK(memory[1][y * step + x] == GUARD);
    return 0;
}

/* All triples: a row has each luma, a picture each Cr. */
static int check_samples(SparseConverter *converter, uint8_t *memory[2])
{
    AVFrame *frame = noise(AV_PIX_FMT_YUV422P, SIZE, SIZE);
    int bad = !frame;

    for (int y = 0; y < SIZE && !bad; y++) {
        for (int x = 0; x < SIZE; x++)
            frame->data[0][y * frame->linesize[0] + x] = (uint8_t)x;
        memset(frame->data[2] + (ptrdiff_t)y * frame->linesize[2], y, SIZE / 2);
    }
    for (size_t s = 0; s < sizeof(spaces) / sizeof(spaces[0]) && !bad; s++)
        for (int range = AVCOL_RANGE_MPEG; range <= AVCOL_RANGE_JPEG && !bad; range++)
            for (int u = 0; u < SIZE && !bad; u++) {
                frame->colorspace = spaces[s];
                frame->color_range = range;
                for (int y = 0; y < SIZE; y++)
                    memset(frame->data[1] + (ptrdiff_t)y * frame->linesize[1], u, SIZE / 2);
                bad = compare(converter, frame, SPARSE_FORMAT_RGB24, memory);
            }
    av_frame_free(&frame);
    return bad;
}

static int check_sizes(SparseConverter *converter, uint8_t *memory[2])
{
    static const enum AVPixelFormat formats[] = {AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUVJ420P,
                                                 AV_PIX_FMT_YUV422P, AV_PIX_FMT_YUVJ422P};
    int bad = 0;

    for (size_t f = 0; f < sizeof(formats) / sizeof(formats[0]); f++)
        for (int width = 1; width <= 100 && !bad; width++) {
            /* an odd height is left to swscale */
            AVFrame *frame = noise(formats[f], width, width % 10 ? 6 : 5);

            bad = !frame || compare(converter, frame, SPARSE_FORMAT_RGB24, memory) ||
                  compare(converter, frame, SPARSE_FORMAT_RGB24_PLANAR, memory);
            av_frame_free(&frame);
        }
    return bad;
}

int main(void)
{
    SparseConverter *converter = NULL;
    uint8_t *memory[2];
    int bad;

    if (!sparse_yuv_rgb_usable()) {
        printf("this processor has no AVX2\n");
        return 77; /* skipped, for meson */
    }
    sparse_log_enter(NULL);
    for (int k = 0; k < 2; k++)
        memory[k] = malloc((size_t)SIZE * (3 * SIZE + MARGIN));
    bad = !memory[0] || !memory[1] || sparse_converter_create(&converter, NULL) < 0 ||
          check_samples(converter, memory) || check_sizes(converter, memory);
    sparse_converter_free(&converter);
    for (int k = 0; k < 2; k++)
        free(memory[k]);
    return bad;
}
