/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Saved indexes: the packed tables of a stream with all that it takes to use them without its
 * container. The format is told in docs/saved-index.md. What is read may be anything; that it
 * is what was written is checked by a hash over all of it.
 */
#ifndef SPARSE_SAVED_H
#define SPARSE_SAVED_H

#include "io.h"
#include "saved_index.h"

/* Append all of a saved index for the source whose bytes are given. */
int sparse_saved_write(SparseBuffer *out, const SparseSavedIndex *index, SparseBytes *bytes,
                       SparseError *error);

/* One that was opened; it holds the bytes of what is read from it. */
typedef struct SparseSaved SparseSaved;

/*
 * Open one, from a file (which is mapped) or from memory (which must stay). source_name is what
 * messages start with. SPARSE_ERR_SAVED when it isn't whole, or of another version. On failure
 * *saved is NULL.
 */
int sparse_saved_open_path(SparseSaved **saved, const char *path, const char *source_name,
                           SparseError *error);
int sparse_saved_open_memory(SparseSaved **saved, const uint8_t *data, size_t size,
                             const char *source_name, SparseError *error);
void sparse_saved_close(SparseSaved **saved);

/* SPARSE_ERR_SAVED when it was made for another source. */
int sparse_saved_check_source(const SparseSaved *saved, SparseBytes *bytes, SparseError *error);

/* What it holds. What is allocated in it belongs to saved, but for what the caller takes (by
 * setting it to NULL). */
SparseSavedIndex *sparse_saved_index(SparseSaved *saved);

/* Write bytes to a file of that name in one step: under another name first, then renamed. */
int sparse_saved_to_file(const char *path, const uint8_t *data, size_t size, SparseError *error);

#endif /* SPARSE_SAVED_H */
