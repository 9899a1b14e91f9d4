/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A look at all slice headers that is far cheaper than a header pass: whether a linear decode
 * surely puts out one frame for each packet, in the order of the packets' times.
 */
#ifndef SPARSE_PLAIN_H
#define SPARSE_PLAIN_H

#include "error.h"
#include "source.h"

/* In what is told of a packet, besides the type of its picture: a header pass can begin here. */
enum { SPARSE_PLAIN_START = 0x80 };

/*
 * 1: it does; kinds[i] becomes the type of packet i's picture, 'I', 'P' or 'B', with
 * SPARSE_PLAIN_START where a pass may begin. 0: that isn't certain, for whatever reason; a header pass has to tell. The source's packets must be there, and
 * it must have heads, see sparse_source_has_heads(). *looked becomes the number of packets that
 * were looked at. Negative without memory.
 */
int sparse_plain_check(SparseSource *source, uint8_t *kinds, int64_t *looked, SparseError *error);

#endif /* SPARSE_PLAIN_H */
