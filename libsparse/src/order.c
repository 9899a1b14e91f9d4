/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The order of display, by whichever way a reader finds its frames, and the change from one way
 * to another.
 */
#include <libavutil/frame.h>

#include "reader.h"

int sparse_reader_open_linear(SparseReader *reader, int lazy, SparseError *error)
{
    if (!reader->frame) /* an attempt before may have failed */
        reader->frame = av_frame_alloc();
    if (!reader->frame)
        return sparse_fail_memory(error);
    return sparse_restart_open(&reader->restart, reader->source, lazy, error);
}

/*
 * Where closures by frame headers can't be had of an AV1 stream, for which ret is
 * SPARSE_ERR_UNSUPPORTED, the reader decodes linearly from then on: that is slower, and takes any
 * stream that dav1d takes.
 */
static int settle_av1(SparseReader *reader, int ret, SparseError *error)
{
    if (ret != SPARSE_ERR_UNSUPPORTED)
        return ret;
    sparse_log(SPARSE_LOG_INFO, "%s: decoded linearly: %s", sparse_source_name(reader->source),
               error->message);
    sparse_error_clear(error);
    ret = sparse_reader_open_linear(reader, 0, error);
    if (ret < 0)
        return ret;
    sparse_av1_index_close(&reader->av1);
    reader->orders++;
    return 0;
}

int sparse_reader_build(SparseReader *reader, SparseProgress progress, void *user,
                        SparseError *error)
{
    int ret = 0;

    sparse_reader_enter_index(reader);
    if (reader->av1)
        ret = settle_av1(reader, sparse_av1_index_build(reader->av1, progress, user, error), error);
    if (ret >= 0 && reader->index)
        ret = sparse_index_build(reader->index, progress, user, error);
    else if (ret >= 0 && reader->restart)
        ret = sparse_restart_index(reader->restart, progress, user, error);
    sparse_reader_leave_index(reader);
    return ret;
}

static int get_order(SparseReader *reader, SparseOrder *order, SparseError *error)
{
    int ret;

    *order = (SparseOrder){.index = reader->index};
    if (reader->av1) {
        ret = sparse_av1_index_count(reader->av1, &order->count, error);
        ret = settle_av1(reader, ret, error);
        order->av1 = reader->av1;
        if (ret < 0 || reader->av1)
            return ret;
    }
    if (reader->index)
        return sparse_index_count(reader->index, &order->count, error);
    return sparse_restart_frames(reader->restart, &order->frames, &order->count, error);
}

int sparse_reader_order(SparseReader *reader, SparseOrder *order, SparseError *error)
{
    int ret;

    sparse_reader_enter_index(reader);
    ret = get_order(reader, order, error);
    sparse_reader_leave_index(reader);
    return ret;
}

int sparse_reader_cover(SparseReader *reader, const int64_t *targets, size_t count, int *reordered,
                        SparseError *error)
{
    int ret = 0;

    *reordered = 0;
    sparse_reader_enter_index(reader);
    if (reader->index) {
        ret = sparse_index_cover(reader->index, targets, count, reordered, error);
    } else if (reader->av1) {
        ret = sparse_av1_index_cover(reader->av1, targets, count, reordered, error);
        ret = settle_av1(reader, ret, error);
    }
    sparse_reader_leave_index(reader);
    reader->orders += *reordered;
    return ret;
}

int64_t sparse_order_picture(const SparseOrder *order, int64_t k)
{
    return order->index ? sparse_index_frame(order->index, k).picture
           : order->av1 ? sparse_av1_index_shown(order->av1, k).picture
                        : order->frames[k].packet;
}

int64_t sparse_order_pts(const SparseOrder *order, int64_t k)
{
    return order->index ? sparse_index_frame(order->index, k).pts
           : order->av1 ? sparse_av1_index_shown(order->av1, k).pts
                        : order->frames[k].pts;
}

int64_t sparse_order_packet(const SparseOrder *order, int64_t k)
{
    return order->av1 ? sparse_av1_index_shown(order->av1, k).packet
                      : sparse_order_picture(order, k);
}
