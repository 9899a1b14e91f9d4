/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The order of display, by whichever way a reader finds its frames.
 */
#include <libavutil/frame.h>

#include "reader.h"

/*
 * Make the index of an AV1 stream. Where closures by frame headers can't be had, the reader
 * decodes linearly from then on: that is slower, and takes any stream that dav1d takes.
 */
static int settle_av1(SparseReader *reader, SparseProgress progress, void *user, SparseError *error)
{
    int ret = sparse_av1_index_build(reader->av1, progress, user, error);

    if (ret != SPARSE_ERR_UNSUPPORTED)
        return ret;
    sparse_log(SPARSE_LOG_INFO, "%s: decoded linearly: %s", sparse_source_name(reader->source),
               error->message);
    sparse_error_clear(error);
    reader->frame = av_frame_alloc();
    if (!reader->frame)
        return sparse_fail_memory(error);
    ret = sparse_restart_open(&reader->restart, reader->source, 0, error);
    if (ret < 0)
        return ret;
    sparse_av1_index_close(&reader->av1);
    return 0;
}

int sparse_reader_build(SparseReader *reader, SparseProgress progress, void *user,
                        SparseError *error)
{
    int ret = reader->av1 ? settle_av1(reader, progress, user, error) : 0;

    if (ret >= 0 && reader->index)
        ret = sparse_index_build(reader->index, progress, user, error);
    else if (ret >= 0 && reader->restart)
        ret = sparse_restart_index(reader->restart, progress, user, error);
    return ret;
}

int sparse_reader_order(SparseReader *reader, SparseOrder *order, SparseError *error)
{
    int ret = reader->av1 ? settle_av1(reader, NULL, NULL, error) : 0;

    *order = (SparseOrder){.index = reader->index};
    if (ret < 0)
        return ret;
    if (reader->index)
        return sparse_index_count(reader->index, &order->count, error);
    if (reader->restart)
        return sparse_restart_frames(reader->restart, &order->frames, &order->count, error);
    order->shown = sparse_av1_index_shown(reader->av1, &order->count);
    return 0;
}

int64_t sparse_order_picture(const SparseOrder *order, int64_t k)
{
    return order->index   ? sparse_index_frame(order->index, k).picture
           : order->shown ? order->shown[k].picture
                          : order->frames[k].packet;
}

int64_t sparse_order_pts(const SparseOrder *order, int64_t k)
{
    return order->index   ? sparse_index_frame(order->index, k).pts
           : order->shown ? order->shown[k].pts
                          : order->frames[k].pts;
}

int64_t sparse_order_packet(const SparseOrder *order, int64_t k)
{
    return order->shown ? order->shown[k].packet : sparse_order_picture(order, k);
}
