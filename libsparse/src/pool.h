/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What readers share: decoder contexts that nobody uses at the moment, and pictures that are kept.
 */
#ifndef SPARSE_POOL_H
#define SPARSE_POOL_H

#include "av1_decoder.h"
#include "cache.h"
#include "convert.h"
#include "decoder.h"
#include "sparse.h"

/* Thread-safety of all below: safe. */

/* A new reference, to be dropped by sparse_pool_release(). */
SparsePool *sparse_pool_ref(SparsePool *pool);

/*
 * A decoder for the source, to be given back or, after a failure, closed. An idle one whose
 * parameters fit is taken, and only if there is none, one is opened. For pictures that are
 * restored from snapshots: its state is whatever it was.
 */
int sparse_pool_decoder(SparsePool *pool, SparseSource *source, SparseDecoder **decoder,
                        SparseError *error);

/* The same, for a header pass: in the state of one that has seen nothing. */
int sparse_pool_fresh_decoder(SparsePool *pool, SparseSource *source, SparseDecoder **decoder,
                              SparseError *error);

/* Give back what the two have returned; *decoder may be NULL and becomes it. */
void sparse_pool_give_back(SparsePool *pool, SparseDecoder **decoder);

/*
 * A decoder for an AV1 stream, on one thread: one that has been at work on the same stream, if any
 * is idle, as it may hold what comes next; else any.
 */
int sparse_pool_av1(SparsePool *pool, const SparseIdentity *stream, SparseSource *source,
                    const SparseAv1Index *index, SparseAv1Decoder **decoder, SparseError *error);
void sparse_pool_give_back_av1(SparsePool *pool, SparseAv1Decoder **decoder);

/* A converter, and back with it. */
int sparse_pool_converter(SparsePool *pool, SparseConverter **converter, SparseError *error);
void sparse_pool_give_back_converter(SparsePool *pool, SparseConverter **converter);

/* The pictures; they belong to the pool. */
SparseCache *sparse_pool_cache(SparsePool *pool);

/* An identity that no other stream has. */
void sparse_pool_own_identity(SparsePool *pool, SparseIdentity *identity);

#endif /* SPARSE_POOL_H */
