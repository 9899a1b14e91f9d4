/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Reconstructed pictures that are kept for later requests, within a budget of bytes.
 */
#ifndef SPARSE_CACHE_H
#define SPARSE_CACHE_H

#include <libavcodec/sparsedec.h>

#include "error.h"

/* What tells one stream from all others: a file's by its inode and times, a caller's key, or
 * one that no other stream has. Compared as a whole, so unused bytes are zero. */
typedef struct SparseIdentity {
    uint32_t kind; /* enum SparseIdentityKind */
    int32_t stream_index;
    uint64_t words[6];
} SparseIdentity;

enum SparseIdentityKind {
    SPARSE_IDENTITY_OWN = 1, /* a number that the pool has given once */
    SPARSE_IDENTITY_FILE,    /* device, inode, size, modification, change */
    SPARSE_IDENTITY_KEY      /* the caller's, with its length */
};

/* How much a picture is worth, from the least. */
enum SparseWorth {
    SPARSE_WORTH_REFERENCE = 2, /* others reference it */
    SPARSE_WORTH_ANCHOR = 5     /* they do, and it references nothing itself */
};

/* Thread-safety of all below: safe. */
typedef struct SparseCache SparseCache;

int sparse_cache_create(SparseCache **cache, SparseError *error);
void sparse_cache_free(SparseCache **cache);

/* The most bytes to keep; 0 keeps nothing. What is too much goes at once. */
void sparse_cache_set_budget(SparseCache *cache, int64_t bytes);

/* 1: there is a budget, so that a picture may be kept. Takes no lock. */
int sparse_cache_keeps(const SparseCache *cache);

/* A new reference to a picture, or NULL when it isn't kept. */
FFSparsePicture *sparse_cache_get(SparseCache *cache, const SparseIdentity *stream,
                                  int64_t picture);

/*
 * Keep a picture that was decoded without an error, and drop others for it if need be. bytes is
 * the memory it holds. 1: it is kept; 0: there was no room or no memory, or it was there.
 */
int sparse_cache_put(SparseCache *cache, const SparseIdentity *stream, int64_t picture,
                     FFSparsePicture *data, int64_t bytes, int worth);

/* Drop a picture that is no anchor and that sparse_cache_get() has given out once at most. */
void sparse_cache_forget(SparseCache *cache, const SparseIdentity *stream, int64_t picture);

/* Drop the pictures of one stream, or with NULL all. */
void sparse_cache_drop(SparseCache *cache, const SparseIdentity *stream);

typedef struct SparseCacheFacts {
    int64_t budget, bytes, pictures; /* now */
    int64_t hits, misses, kept, dropped; /* since the creation */
} SparseCacheFacts;

void sparse_cache_facts(SparseCache *cache, SparseCacheFacts *facts);

#endif /* SPARSE_CACHE_H */
