/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <libavutil/error.h>

/* Drop the UTF-8 character that the end of the buffer has cut. */
static void trim_utf8(char *text)
{
    size_t length = strlen(text), start = length;

    while (start > 0 && length - start < 3 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (length - (start - 1) < need)
        text[start - 1] = '\0';
}

static int advance(size_t *used, int written)
{
    if (written < 0)
        return 0;
    *used += (size_t)written;
    return *used < SPARSE_MESSAGE_SIZE;
}

int sparse_vfail_named(SparseError *error, int code, const char *name, int64_t frame,
                       const char *format, va_list arguments)
{
    size_t used = 0;
    int room = 1;

    if (!error)
        return code;
    error->code = code;
    error->frame = frame < 0 ? -1 : frame;
    error->message[0] = '\0';
    if (name)
        room = advance(&used, snprintf(error->message, SPARSE_MESSAGE_SIZE, "%s: ", name));
    if (name && frame >= 0 && room)
        room = advance(&used, snprintf(error->message + used, SPARSE_MESSAGE_SIZE - used,
                                       "frame %lld: ", (long long)frame));
    if (room)
        room = advance(
            &used, vsnprintf(error->message + used, SPARSE_MESSAGE_SIZE - used, format, arguments));
    if (!room)
        trim_utf8(error->message);
    return code;
}

int sparse_fail_named(SparseError *error, int code, const char *name, int64_t frame,
                      const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    sparse_vfail_named(error, code, name, frame, format, arguments);
    va_end(arguments);
    return code;
}

int sparse_fail(SparseError *error, int code, int64_t frame, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    sparse_vfail_named(error, code, NULL, frame, format, arguments);
    va_end(arguments);
    return code;
}

int sparse_fail_memory(SparseError *error)
{
    return sparse_fail(error, SPARSE_ERR_MEMORY, -1, "out of memory");
}

int sparse_error_clear(SparseError *error)
{
    if (error) {
        error->code = SPARSE_OK;
        error->frame = -1;
        error->message[0] = '\0';
    }
    return SPARSE_OK;
}

int sparse_code_from_av(int av_error, int fallback)
{
    return av_error == AVERROR(ENOMEM) ? SPARSE_ERR_MEMORY : fallback;
}
