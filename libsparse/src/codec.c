/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "codec.h"

int sparse_codec_open(AVCodecContext **context, const SparseSource *source, SparseError *error)
{
    return sparse_codec_open_threads(context, source, 1, error);
}

int sparse_codec_open_threads(AVCodecContext **context, const SparseSource *source, int threads,
                              SparseError *error)
{
    const AVCodecParameters *par = sparse_source_codecpar(source);
    const AVCodec *codec = avcodec_find_decoder(par->codec_id);
    AVDictionary *options = NULL;
    int ret;

    *context = NULL;
    if (!codec)
        return sparse_source_fail(source, error, SPARSE_ERR_UNSUPPORTED, -1,
                                  "the codec %s is not supported", avcodec_get_name(par->codec_id));
    *context = avcodec_alloc_context3(codec);
    if (!*context)
        return sparse_fail_memory(error);
    ret = avcodec_parameters_to_context(*context, par);
    if (ret >= 0) {
        (*context)->thread_count = threads;
        (*context)->flags |= AV_CODEC_FLAG_COPY_OPAQUE;
        (*context)->pkt_timebase = sparse_source_time_base(source);
        if (threads != 1) /* dav1d's frame threads would hold frames back */
            ret = av_dict_set(&options, "max_frame_delay", "1", 0);
        if (ret >= 0)
            ret = avcodec_open2(*context, codec, &options);
        av_dict_free(&options);
    }
    if (ret < 0) {
        avcodec_free_context(context);
        if (ret == AVERROR(ENOMEM))
            return sparse_fail_memory(error);
        return sparse_source_fail(source, error, SPARSE_ERR_DECODE, -1,
                                  "the %s decoder can't be opened: %s", codec->name,
                                  av_err2str(ret));
    }
    return SPARSE_OK;
}
