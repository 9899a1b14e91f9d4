/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Pictures for the tests of conversions.
 */
#ifndef TESTS_FRAMES_H
#define TESTS_FRAMES_H

#include <libavutil/frame.h>
#include <libavutil/pixdesc.h>

/* A picture of samples that are the same in each run, or NULL. */
static inline AVFrame *noise(enum AVPixelFormat format, int width, int height)
{
    AVFrame *frame = av_frame_alloc();
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(format);
    unsigned state = 1, mask = d->comp[0].depth > 8 ? (1u << d->comp[0].depth) - 1 : 0xffff;

    if (!frame)
        return NULL;
    frame->format = format;
    frame->width = width;
    frame->height = height;
    if (av_frame_get_buffer(frame, 0) < 0) {
        av_frame_free(&frame);
        return NULL;
    }
    for (int p = 0; p < 4 && frame->buf[p]; p++)
        for (size_t i = 0; i + 1 < frame->buf[p]->size; i += 2) {
            unsigned value = (state = state * 1664525 + 1013904223) >> 16 & mask;

            frame->buf[p]->data[i] = (uint8_t)value;
            frame->buf[p]->data[i + 1] = (uint8_t)(value >> 8);
        }
    return frame;
}

#endif /* TESTS_FRAMES_H */
