
#include "reader.h"

#include <stdlib.h>

#include <libavutil/avutil.h>
#include <libavutil/frame.h>

/* What the two ways of finding frames know of one of them. */
typedef struct Shown {
    int64_t picture, pts, duration;
    char type;
    int key;
} Shown;

static void show(const SparseReader *reader, const SparseRestartFrame *frames, int64_t k,
                 Shown *shown)
{
    SparsePacket packet;

    if (reader->index) {
        const SparseDisplay display = sparse_index_frame(reader->index, k);
        SparsePicture picture;

        shown->picture = display.picture;
        shown->pts = display.pts;
        shown->type =
            sparse_index_picture(reader->index, display.picture, &picture) ? picture.type : '?';
    } else {
        shown->picture = frames[k].packet;
        shown->pts = frames[k].pts;
        shown->type = frames[k].picture_type;
    }
    packet = sparse_source_packet(reader->source, shown->picture);
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
    const SparseRestartFrame *frames = NULL;
    int64_t total;
    int ret;

    if (reader->index)
        ret = sparse_index_count(reader->index, &total, error);
    else
        ret = sparse_restart_frames(reader->restart, &frames, &total, error);
    if (ret < 0)
        return ret;
    if (first > total || count > total - first)
        return sparse_source_fail(reader->source, error, SPARSE_ERR_INDEX, first,
                                  "out of range: there are %lld frames", (long long)total);

    for (int64_t i = 0; i < count; i++) {
        SparseFrameInfo *info = &out[i];
        Shown shown, next;

        show(reader, frames, first + i, &shown);
        info->picture = shown.picture;
        info->pts = shown.pts;
        info->duration = shown.duration > 0 ? shown.duration : 0;
        info->key = shown.key;
        info->picture_type = shown.type;
        if (first + i + 1 < total) {
            show(reader, frames, first + i + 1, &next);
            if (next.pts != AV_NOPTS_VALUE && shown.pts != AV_NOPTS_VALUE && next.pts > shown.pts)
                info->duration = next.pts - shown.pts;
        }
        info->pts_seconds = to_seconds(info->pts, base);
        info->duration_seconds = to_seconds(info->duration, base);
    }
    return 0;
}

int sparse_reader_layout(SparseReader *reader, int64_t index, int format, SparseLayout *layout,
                         SparseError *error)
{
    enum AVPixelFormat pix_fmt;
    int width, height, ret;

    if (reader->index) {
        SparsePicture picture;
        int64_t total;
        int reordered;

        do {
            ret = sparse_index_count(reader->index, &total, error);
            if (ret >= 0 && (index < 0 || index >= total))
                ret = sparse_source_fail(reader->source, error, SPARSE_ERR_INDEX, index,
                                         "out of range: there are %lld frames", (long long)total);
            if (ret >= 0)
                ret = sparse_index_cover(reader->index, &index, 1, &reordered, error);
            if (ret < 0)
                return ret;
        } while (reordered);
        if (!sparse_index_picture(reader->index, sparse_index_frame(reader->index, index).picture,
                                  &picture) ||
            picture.width <= 0)
            return sparse_source_fail(reader->source, error, SPARSE_ERR_DECODE, index,
                                      "damaged data: the frame's size can't be read");
        pix_fmt = picture.format;
        width = picture.width;
        height = picture.height;
    } else {
        ret = sparse_restart_get(reader->restart, index, reader->frame, error);
        if (ret < 0)
            return ret;
        pix_fmt = reader->frame->format;
        width = reader->frame->width;
        height = reader->frame->height;
    }
    ret = sparse_convert_layout(format, pix_fmt, width, height, layout, error);
    if (ret < 0) {
        SparseError cause = *error;

        return sparse_source_fail(reader->source, error, ret, index, "%s", cause.message);
    }
    return 0;
}
