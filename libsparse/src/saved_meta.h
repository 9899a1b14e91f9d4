/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a saved index tells before its blocks: of the source, the stream and the epochs.
 */
#ifndef SPARSE_SAVED_META_H
#define SPARSE_SAVED_META_H

#include "saved.h"

typedef struct SparseSavedMeta {
    SparseFingerprint identity;
    SparseSavedIndex index;
    uint8_t *raw; /* what index points into */
    char *container;
} SparseSavedMeta;

/* Append it; sizes are those of the blocks. */
int sparse_meta_write(SparseBuffer *out, const SparseSavedIndex *index,
                      const SparseFingerprint *identity, const SparseBuffer *sizes,
                      SparseError *error);

/* Read it back, with the blocks that follow it. SPARSE_ERR_SAVED, with name before the message,
 * when that can't be. What was read has to be freed in any case. */
int sparse_meta_read(SparseSavedMeta *meta, const uint8_t *data, size_t size, const uint8_t *blocks,
                     size_t blocks_size, const char *name, SparseError *error);
void sparse_meta_free(SparseSavedMeta *meta);

#endif /* SPARSE_SAVED_META_H */
