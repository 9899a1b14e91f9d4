/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a warm request costs against the linear decode of the very pictures that it reconstructs:
 *
 *     request_times [-n REQUESTS] [-r ROUNDS] [-p PATTERN] [-f native|rgb24] [-o] FILE...
 *
 * Each round times the linear decode packet by packet, then requests of each pattern, in CPU time
 * of the thread. Printed are medians over all requests: milliseconds, pictures, conversion, and
 * the ratio of the time to (linear decode of the closure's pictures + conversion). With -p only
 * requests of one pattern are made and nothing else, for a profiler; with -o each of them opens
 * the file anew.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libavutil/frame.h>

#include "codec.h"
#include "convert.h"
#include "source.h"

enum { MOST_FRAMES = 10, PATTERNS = 5, MOST_SAMPLES = 4096 };

static const char *const pattern_names[PATTERNS] = {"one", "contiguous", "window", "stride4",
                                                    "stride30"};

typedef struct Bench {
    const char *path;
    int format;
    SparseReader *reader;
    SparsePool *pool;
    int64_t frame_count, packet_count;
    double *packet_times; /* of the latest linear decode */
    double conversion;    /* of one frame */
    uint8_t *pixels;      /* room for MOST_FRAMES */
    SparseLayout layout;
} Bench;

static uint32_t random_state = 1;

static int64_t next_random(int64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return (int64_t)(random_state % (uint32_t)below);
}

static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), compare_doubles);
    return count ? values[count / 2] : 0;
}

static int choose(int pattern, int64_t frames, int64_t *indices)
{
    int64_t step = pattern == 3 ? 4 : pattern == 4 ? 30 : 1, start;
    int count = pattern ? MOST_FRAMES : 1;

    if (pattern == 2) {
        int64_t window = frames < 100 ? frames : 100;

        start = next_random(frames - window + 1);
        for (int i = 0; i < count; i++)
            indices[i] = start + next_random(window);
        return count;
    }
    while (count > 1 && (count - 1) * step >= frames)
        count--;
    start = next_random(frames - (count - 1) * step);
    for (int i = 0; i < count; i++)
        indices[i] = start + i * step;
    return count;
}

/* CPU time of each packet in a linear decode, and of converting a frame. */
static int time_linear(Bench *bench, SparseError *error)
{
    AVCodecContext *context = NULL;
    SparseConverter *converter = NULL;
    SparseSource *source = NULL;
    AVPacket *packet = av_packet_alloc();
    AVFrame *frame = av_frame_alloc();
    double conversions[64];
    int converted = 0, ret;

    ret = sparse_source_open_path(&source, bench->path, -1, NULL, NULL, error);
    if (ret >= 0)
        ret = sparse_source_packets(source, &bench->packet_count, NULL, NULL, error);
    if (ret >= 0)
        ret = sparse_codec_open(&context, source, error);
    if (ret >= 0)
        ret = sparse_converter_create(&converter, error);
    if (ret >= 0 && !bench->packet_times)
        bench->packet_times = calloc((size_t)bench->packet_count, sizeof(double));
    for (int64_t i = 0; i < bench->packet_count && ret >= 0; i++) {
        double start;

        ret = sparse_source_read_packet(source, i, packet, error);
        if (ret < 0)
            break;
        start = cpu_seconds();
        avcodec_send_packet(context, packet);
        while (avcodec_receive_frame(context, frame) >= 0) {
            SparseTarget target = {bench->pixels, 0, bench->layout.size, 0};
            double begin = cpu_seconds();

            if (converted < 64) {
                ret = sparse_convert_frame(converter, frame, bench->format, NULL, &target, error);
                conversions[converted++] = cpu_seconds() - begin;
                start += conversions[converted - 1];
            }
        }
        bench->packet_times[i] = cpu_seconds() - start;
        av_packet_unref(packet);
    }
    bench->conversion = median(conversions, converted);
    av_frame_free(&frame);
    av_packet_free(&packet);
    avcodec_free_context(&context);
    sparse_converter_free(&converter);
    sparse_source_close(&source);
    return ret;
}

static int open_reader(Bench *bench, SparseError *error)
{
    SparseSettings settings;

    sparse_default_settings(&settings);
    settings.pool = bench->pool;
    return sparse_open_path(&bench->reader, bench->path, &settings, error);
}

static int ask(Bench *bench, const int64_t *indices, int count, SparseError *error)
{
    SparseTarget targets[MOST_FRAMES];

    for (int i = 0; i < count; i++)
        targets[i] = (SparseTarget){bench->pixels + (size_t)i * bench->layout.size, 0,
                                    bench->layout.size, 0};
    return sparse_get_frames(bench->reader, indices, (size_t)count, bench->format, targets, 0, 0,
                             error);
}

static int prepare(Bench *bench, SparseError *error)
{
    int ret = sparse_pool_create(&bench->pool, 0, error);

    if (ret >= 0)
        ret = open_reader(bench, error);
    if (ret >= 0)
        bench->frame_count = sparse_frame_count(bench->reader, error);
    if (ret >= 0)
        ret = sparse_frame_layout(bench->reader, 0, bench->format, &bench->layout, error);
    if (ret >= 0) {
        bench->pixels = calloc(MOST_FRAMES, bench->layout.size);
        ret = bench->pixels ? 0 : SPARSE_ERR_MEMORY;
    }
    return ret;
}

static int measure(Bench *bench, int rounds, int requests, SparseError *error)
{
    static double times[PATTERNS][MOST_SAMPLES], ratios[PATTERNS][MOST_SAMPLES];
    double pictures[PATTERNS] = {0};
    int counts[PATTERNS] = {0}, ret = 0;

    for (int round = 0; round < rounds && ret >= 0; round++) {
        ret = time_linear(bench, error);
        for (int k = 0; k < requests * PATTERNS && ret >= 0; k++) {
            int64_t indices[MOST_FRAMES];
            int pattern = k % PATTERNS;
            int count = choose(pattern, bench->frame_count, indices), n = counts[pattern];
            double expected, spent;
            SparsePlanFacts facts;
            SparsePlan *plan;

            ret = sparse_plan_create(&plan, bench->reader, indices, (size_t)count, error);
            if (ret < 0)
                break;
            sparse_plan_facts(plan, &facts);
            expected = bench->conversion * (double)facts.target_count;
            for (size_t i = 0; i < facts.reconstruct_count; i++)
                expected += bench->packet_times[facts.reconstruct[i]];
            pictures[pattern] += (double)facts.reconstruct_count;
            sparse_plan_free(&plan);
            spent = cpu_seconds();
            ret = ask(bench, indices, count, error);
            spent = cpu_seconds() - spent;
            if (n < MOST_SAMPLES) {
                times[pattern][n] = spent;
                ratios[pattern][n] = spent / expected;
                counts[pattern]++;
            }
        }
    }
    if (ret < 0)
        return ret;
    printf("%s: conversion %.3f ms a frame\n", bench->path, 1e3 * bench->conversion);
    for (int p = 0; p < PATTERNS; p++)
        printf("  %-10s %8.3f ms %6.1f pictures, ratio %.3f\n", pattern_names[p],
               1e3 * median(times[p], counts[p]), pictures[p] / counts[p],
               median(ratios[p], counts[p]));
    return 0;
}

static int profile(Bench *bench, int pattern, int requests, int reopen, SparseError *error)
{
    int ret = 0;

    for (int k = 0; k < requests && ret >= 0; k++) {
        int64_t indices[MOST_FRAMES];
        int count = choose(pattern, bench->frame_count, indices);

        if (reopen) {
            sparse_close(&bench->reader);
            ret = open_reader(bench, error);
        }
        if (ret >= 0)
            ret = ask(bench, indices, count, error);
    }
    return ret;
}

int main(int argc, char **argv)
{
    int rounds = 5, requests = 8, pattern = -1, reopen = 0, failed = 0, i = 1;
    int format = SPARSE_FORMAT_RGB24;

    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "-o")) {
            reopen = 1;
        } else if (i + 1 < argc) {
            const char *value = argv[++i];

            if (!strcmp(argv[i - 1], "-n"))
                requests = atoi(value);
            else if (!strcmp(argv[i - 1], "-r"))
                rounds = atoi(value);
            else if (!strcmp(argv[i - 1], "-f"))
                format = strcmp(value, "native") ? SPARSE_FORMAT_RGB24 : SPARSE_FORMAT_NATIVE;
            else if (!strcmp(argv[i - 1], "-p"))
                for (int p = 0; p < PATTERNS; p++)
                    pattern = strcmp(value, pattern_names[p]) ? pattern : p;
        }
    }
    if (i >= argc) {
        fprintf(stderr,
                "usage: %s [-n REQUESTS] [-r ROUNDS] [-p PATTERN] [-f native|rgb24] [-o] FILE...\n",
                argv[0]);
        return 2;
    }
    for (; i < argc; i++) {
        Bench bench = {.path = argv[i], .format = format};
        SparseError error;
        int ret = prepare(&bench, &error);

        if (ret >= 0)
            ret = pattern < 0 ? measure(&bench, rounds, requests, &error)
                              : profile(&bench, pattern, requests, reopen, &error);
        if (ret < 0) {
            printf("%s: %s\n", argv[i], error.message);
            failed = 1;
        }
        sparse_close(&bench.reader);
        sparse_pool_release(&bench.pool);
        free(bench.packet_times);
        free(bench.pixels);
    }
    return failed;
}
