/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the C tests share.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdint.h>
#include <stdio.h>

/* Return 1 from the function, and say where, when the condition doesn't hold. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not (%s)\n", __FILE__, __LINE__, #condition);                  \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* The next of a row of numbers that is the same in each run; *state, not 0, says where in it. */
static inline uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

#endif /* TESTS_CHECK_H */
