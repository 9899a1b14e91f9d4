/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <stdio.h>
#include <string.h>

#include "sparse.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/ffversion.h>
#include <libswscale/swscale.h>

int main(void)
{
    char expected[64];

    snprintf(expected, sizeof(expected), "%d.%d.%d", SPARSE_VERSION_MAJOR, SPARSE_VERSION_MINOR,
             SPARSE_VERSION_PATCH);
    if (strcmp(sparse_version(), expected)) {
        fprintf(stderr, "sparse_version() is %s, the header says %s\n", sparse_version(), expected);
        return 1;
    }
    if (strcmp(sparse_ffmpeg_version(), FFMPEG_VERSION "+sparse")) {
        fprintf(stderr, "sparse_ffmpeg_version() is %s\n", sparse_ffmpeg_version());
        return 1;
    }
    /* the FFmpeg that is linked is the one whose headers were read */
    if (avcodec_version() != LIBAVCODEC_VERSION_INT ||
        avformat_version() != LIBAVFORMAT_VERSION_INT ||
        swscale_version() != LIBSWSCALE_VERSION_INT) {
        fprintf(stderr, "FFmpeg's libraries and headers differ\n");
        return 1;
    }
    if (!avcodec_find_decoder(AV_CODEC_ID_H264) || !avcodec_find_decoder(AV_CODEC_ID_HEVC) ||
        !av_find_input_format("mp4")) {
        fprintf(stderr, "FFmpeg lacks a component\n");
        return 1;
    }
    return 0;
}
