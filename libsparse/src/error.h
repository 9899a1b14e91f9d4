/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Filling in a SparseError.
 */
#ifndef SPARSE_ERROR_H
#define SPARSE_ERROR_H

#include <stdarg.h>
#include <stdint.h>

#include "sparse.h"

#if defined(__GNUC__)
#define SPARSE_FORMAT_CHECK(text, first) __attribute__((format(printf, text, first)))
#else
#define SPARSE_FORMAT_CHECK(text, first)
#endif

/* Set *error (NULL is allowed) to the code, the frame (or -1) and the message
 * as it stands: nothing is put before it. Returns code, so that callers can
 * `return sparse_fail(..)`. A message that is too long is cut between two
 * UTF-8 characters. sparse_source_fail() is the one that names the file. */
int sparse_fail(SparseError *error, int code, int64_t frame, const char *format, ...)
    SPARSE_FORMAT_CHECK(4, 5);

/* The same with "NAME: frame N: " before the message; name may be NULL, and
 * the frame is left out when negative. */
int sparse_fail_named(SparseError *error, int code, const char *name, int64_t frame,
                      const char *format, ...) SPARSE_FORMAT_CHECK(5, 6);
int sparse_vfail_named(SparseError *error, int code, const char *name, int64_t frame,
                       const char *format, va_list arguments) SPARSE_FORMAT_CHECK(5, 0);

/* SPARSE_ERR_MEMORY with the standard message. */
int sparse_fail_memory(SparseError *error);

/* Back to "no error"; NULL is allowed. Returns 0. */
int sparse_error_clear(SparseError *error);

/* The code that fits an FFmpeg error: memory or, for everything else, fallback. */
int sparse_code_from_av(int av_error, int fallback);

#endif /* SPARSE_ERROR_H */
