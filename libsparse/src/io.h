/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Bytes at offsets: a file, memory or callbacks behind one face.
 */
#ifndef SPARSE_IO_H
#define SPARSE_IO_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "sparse.h"

typedef struct SparseBytes SparseBytes;

/* Open a file, memory (not copied) or callbacks (*io is copied). A path that
 * isn't a regular file (a pipe) is read to its end into a spool first. Messages
 * start with name, which must outlive the handle. On failure *bytes is NULL. */
int sparse_bytes_open_path(SparseBytes **bytes, const char *path, const char *name,
                           SparseError *error);
int sparse_bytes_open_memory(SparseBytes **bytes, const uint8_t *data, size_t size,
                             const char *name, SparseError *error);
int sparse_bytes_open_io(SparseBytes **bytes, const SparseIO *io, const char *name,
                         SparseError *error);
void sparse_bytes_close(SparseBytes **bytes);

/* The total length. Thread-safety: safe. */
int64_t sparse_bytes_size(const SparseBytes *bytes);

/* Up to size bytes at offset: fewer only at the end, 0 at or after it; negative
 * SparseCode when the source can't be read. Thread-safety: safe; callbacks are
 * called by one thread at a time. */
int64_t sparse_bytes_read(SparseBytes *bytes, uint8_t *buffer, int64_t offset, int64_t size,
                          SparseError *error);

/* The bytes at offset where the source lies in memory, or NULL: it doesn't, or they aren't there.
 * They live as long as the handle. Thread-safety: safe. */
const uint8_t *sparse_bytes_view(const SparseBytes *bytes, int64_t offset, int64_t size);

/* What tells a file from others and from what it was before. */
typedef struct SparseStamp {
    uint64_t device, inode;
    int64_t size, modified_ns, changed_ns;
} SparseStamp;

/* The file as it is now: 1, or 0 when the source is no regular file. Thread-safety: safe. */
int sparse_bytes_stamp(const SparseBytes *bytes, SparseStamp *stamp);
/* When a file was changed last, in nanoseconds since 1970, as it was at the open; for other kinds
 * SPARSE_TIME_UNKNOWN. Thread-safety: safe. */
#define SPARSE_TIME_UNKNOWN INT64_MIN
int64_t sparse_bytes_modified(const SparseBytes *bytes);

/* 1: the file has another size or another time of change now than at the open. Thread-safety:
 * safe. */
int sparse_bytes_have_changed(const SparseBytes *bytes);

/* What tells whether two sources have the same contents. */
typedef struct SparseFingerprint {
    int64_t size, modified_ns;
    int64_t changed_ns; /* of the inode, which nobody can set */
    uint8_t ends[16];  /* hash of the first and the last bytes */
    uint8_t inner[16]; /* hash of some between */
} SparseFingerprint;

/* Find it out. with_inner 0: inner becomes zeros, which saves reading in many places. */
int sparse_bytes_fingerprint(SparseBytes *bytes, int with_inner, SparseFingerprint *identity,
                             SparseError *error);

/* 1: each read is a call of the user's. Thread-safety: safe. */
int sparse_bytes_are_remote(const SparseBytes *bytes);

/* Bytes read from the source so far. Thread-safety: safe. */
int64_t sparse_bytes_count(const SparseBytes *bytes);

/*
 * An append-only store that keeps what doesn't fit in memory in a temporary
 * file without a name.
 */
typedef struct SparseSpool SparseSpool;

/* limit: bytes to keep in memory at most. */
int sparse_spool_create(SparseSpool **spool, int64_t limit, SparseError *error);
void sparse_spool_free(SparseSpool **spool);
/* Append; *offset becomes where the data is. Not thread-safe. */
int sparse_spool_append(SparseSpool *spool, const uint8_t *data, int64_t size, int64_t *offset,
                        SparseError *error);
/* Exactly size bytes at offset. Thread-safety: safe when nothing is appended meanwhile. */
int sparse_spool_read(const SparseSpool *spool, uint8_t *buffer, int64_t offset, int64_t size,
                      SparseError *error);
int64_t sparse_spool_size(const SparseSpool *spool);

#endif /* SPARSE_IO_H */
