/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Log lines of FFmpeg and of libsparse, to the reader that works in this thread.
 */
#ifndef SPARSE_LOG_H
#define SPARSE_LOG_H

#include "error.h"
#include "sparse.h"

/* Where the lines go; belongs to a reader. A NULL callback is silent. */
typedef struct SparseLog {
    SparseLogCallback callback;
    void *user;
    int level; /* enum SparseLogLevel: the most that is wanted */
} SparseLog;

/*
 * Make *log (NULL: silence) what this thread's lines go to and return what was
 * before, to be handed to sparse_log_leave(). *log must live until then. Every
 * public function and every worker thread that calls into FFmpeg is enclosed
 * by the two; the first call silences FFmpeg's own printing for good.
 * Thread-safety: safe.
 */
const SparseLog *sparse_log_enter(const SparseLog *log);
void sparse_log_leave(const SparseLog *previous);

/* One line of our own (level: enum SparseLogLevel), without a newline. */
void sparse_log(int level, const char *format, ...) SPARSE_FORMAT_CHECK(2, 3);

#endif /* SPARSE_LOG_H */
