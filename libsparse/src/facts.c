
#include "reader.h"

#include <stdlib.h>

#include <libavutil/avutil.h>
#include <libavutil/frame.h>

/* What the ways of finding frames know of one of them. */
typedef struct Shown {
    int64_t picture, pts, duration;
    char type;
    int key;
} Shown;

static char av1_type(const SparseReader *reader, int64_t picture)
{
    const SparseAv1Frame *frame = sparse_av1_index_frame(reader->av1, picture);

    /* as FFmpeg: which frames predict from two is known of no header */
    return !frame || frame->type == SPARSE_AV1_SWITCH ? '?'
           : frame->type == SPARSE_AV1_INTER          ? 'P'
                                                      : 'I';
}

static void show(const SparseReader *reader, const SparseOrder *order, int64_t k, Shown *shown)
{
    SparsePacket packet = sparse_source_packet(reader->source, sparse_order_packet(order, k));

    shown->picture = sparse_order_picture(order, k);
    shown->pts = sparse_order_pts(order, k);
    if (reader->index) {
        shown->type = sparse_index_type(reader->index, shown->picture);
    } else if (reader->av1) {
        shown->type = av1_type(reader, shown->picture);
    } else {
        shown->type = order->frames[k].picture_type;
    }
    shown->key = !!(packet.flags & SPARSE_PACKET_KEY);
    shown->duration = packet.duration;
}

static double to_seconds(int64_t time, AVRational base)
{
    return time == AV_NOPTS_VALUE ? 0 : (double)time * base.num / base.den;
}

int sparse_reader_frame_info(SparseReader *reader, int64_t first, int64_t count,
                             SparseFrameInfo *out, SparseError *error)
{
    const AVRational base = sparse_source_time_base(reader->source);
    SparseOrder order;
    int ret = sparse_reader_order(reader, &order, error);

    if (ret < 0)
        return ret;
    if (first > order.count || count > order.count - first)
        return sparse_source_fail(reader->source, error, SPARSE_ERR_INDEX, first,
                                  "out of range: there are %lld frames", (long long)order.count);

    for (int64_t i = 0; i < count; i++) {
        SparseFrameInfo *info = &out[i];
        Shown shown, next;

        show(reader, &order, first + i, &shown);
        info->picture = shown.picture;
        info->pts = shown.pts;
        info->duration = shown.duration > 0 ? shown.duration : 0;
        info->key = shown.key;
        info->picture_type = shown.type;
        if (first + i + 1 < order.count) {
            show(reader, &order, first + i + 1, &next);
            if (next.pts != AV_NOPTS_VALUE && shown.pts != AV_NOPTS_VALUE && next.pts > shown.pts)
                info->duration = next.pts - shown.pts;
        }
        info->pts_seconds = to_seconds(info->pts, base);
        info->duration_seconds = to_seconds(info->duration, base);
    }
    return sparse_source_check_saved(reader->source, error);
}

int sparse_reader_layout(SparseReader *reader, int64_t index, int format, SparseLayout *layout,
                         SparseError *error)
{
    enum AVPixelFormat pix_fmt;
    SparseOrder order;
    int width, height, ret, reordered;

    do {
        ret = sparse_reader_order(reader, &order, error);
        if (ret >= 0 && (index < 0 || index >= order.count))
            ret = sparse_source_fail(reader->source, error, SPARSE_ERR_INDEX, index,
                                     "out of range: there are %lld frames", (long long)order.count);
        if (ret >= 0)
            ret = sparse_reader_cover(reader, &index, 1, &reordered, error);
        if (ret < 0)
            return ret;
    } while (reordered);
    if (reader->index) {
        SparsePicture picture;

        if (!sparse_index_picture(reader->index, sparse_order_picture(&order, index), &picture) ||
            picture.width <= 0)
            return sparse_source_fail(reader->source, error, SPARSE_ERR_DECODE, index,
                                      "damaged data: the frame's size can't be read");
        pix_fmt = picture.format;
        width = picture.width;
        height = picture.height;
    } else if (reader->av1) {
        const SparseAv1Frame *frame =
            sparse_av1_index_frame(reader->av1, sparse_order_picture(&order, index));

        if (!frame)
            return sparse_source_fail(reader->source, error, SPARSE_ERR_DECODE, index,
                                      "its header can't be read");
        pix_fmt = sparse_av1_pixel_format(
            &sparse_av1_index_sequence(reader->av1, frame->sequence)->sequence);
        width = frame->width;
        height = frame->height;
    } else {
        ret = sparse_restart_get(reader->restart, index, reader->frame, error);
        if (ret < 0)
            return ret;
        pix_fmt = reader->frame->format;
        width = reader->frame->width;
        height = reader->frame->height;
    }
    ret = sparse_convert_layout(format, pix_fmt, width, height, &reader->transform, layout, error);
    if (ret < 0) {
        SparseError cause = *error;

        return sparse_source_fail(reader->source, error, ret, index, "%s", cause.message);
    }
    return 0;
}
