/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <libavutil/log.h>

/*
 * The only state outside the handles. FFmpeg has one log callback a process
 * and hands it no cookie of ours, so which reader a line belongs to can only be
 * told from the thread that says it. (The FFmpeg inside is a private one: its
 * callback is nobody else's.)
 */
static _Thread_local const SparseLog *current;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int level_from_av(int level)
{
    if (level <= AV_LOG_ERROR)
        return SPARSE_LOG_ERROR;
    if (level <= AV_LOG_WARNING)
        return SPARSE_LOG_WARNING;
    return level <= AV_LOG_INFO ? SPARSE_LOG_INFO : SPARSE_LOG_DEBUG;
}

static void from_ffmpeg(void *context, int level, const char *format, va_list arguments)
{
    const SparseLog *log = current;
    char line[1024];
    int prefix = 1;
    size_t length;

    level &= 0xff; /* the bits above ask for a colour */
    if (!log || !log->callback || level > AV_LOG_DEBUG || level_from_av(level) > log->level)
        return;
    if (av_log_format_line2(context, level, format, arguments, line, sizeof(line), &prefix) < 0)
        return;
    length = strlen(line);
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
        line[--length] = '\0';
    if (length > 0)
        log->callback(log->user, level_from_av(level), line);
}

static void install(void)
{
    av_log_set_callback(from_ffmpeg);
}

const SparseLog *sparse_log_enter(const SparseLog *log)
{
    const SparseLog *previous = current;

    pthread_once(&once, install);
    current = log;
    return previous;
}

void sparse_log_leave(const SparseLog *previous)
{
    current = previous;
}

void sparse_log(int level, const char *format, ...)
{
    const SparseLog *log = current;
    char line[1024];
    va_list arguments;

    if (!log || !log->callback || level > log->level)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    log->callback(log->user, level, line);
}
