/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Runs a fuzz target on files: a seed corpus, or an input that a fuzzer found.
 */
#include <stdio.h>
#include <stdlib.h>

#include "target.h"

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(FUZZ_MAX_SIZE);
    size_t size = 0;
    int ret = -1;

    if (file && data) {
        size = fread(data, 1, FUZZ_MAX_SIZE, file);
        ret = ferror(file) ? -1 : 0;
    }
    if (ret < 0)
        fprintf(stderr, "%s: can't be read\n", path);
    else
        LLVMFuzzerTestOneInput(data, size);
    if (file)
        fclose(file);
    free(data);
    return ret;
}

int main(int argc, char **argv)
{
    int failed = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE...\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++)
        failed |= run_file(argv[i]) < 0;
    return failed;
}
