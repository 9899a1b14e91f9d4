/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A fuzz target: one call of LLVMFuzzerTestOneInput() per input. With libFuzzer
 * its own main() makes inputs up; else standalone.c runs those that are named.
 */
#ifndef FUZZ_TARGET_H
#define FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

/* Larger inputs say nothing that smaller ones don't, only later. */
enum { FUZZ_MAX_SIZE = 1 << 18, FUZZ_MAX_FRAMES = 64, FUZZ_MAX_PICTURE = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* FUZZ_TARGET_H */
