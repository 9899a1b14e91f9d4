/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Spools, and sources that don't know their size. */

#include <stdio.h>
#include <string.h>

#include "io.h"

static int fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    return 1;
}

static uint8_t byte_at(int64_t offset)
{
    return (uint8_t)(offset * 31 + (offset >> 8));
}

static int test_spool(int64_t limit)
{
    SparseSpool *spool;
    uint8_t data[1000], back[3000];
    int64_t offset, total = 0;
    int bad = 0;

    if (sparse_spool_create(&spool, limit, NULL) < 0)
        return fail("no spool");
    for (int n = 0; n < 50; n++) {
        for (int i = 0; i < n * 20; i++)
            data[i] = byte_at(total + i);
        bad |= sparse_spool_append(spool, data, n * 20, &offset, NULL) < 0 || offset != total;
        total += n * 20;
    }
    for (int64_t at = 0; at + (int64_t)sizeof(back) <= total; at += 777) {
        bad |= sparse_spool_read(spool, back, at, sizeof(back), NULL) < 0;
        for (size_t i = 0; i < sizeof(back); i++)
            bad |= back[i] != byte_at(at + (int64_t)i);
    }
    bad |= sparse_spool_read(spool, back, total - 10, 11, NULL) != SPARSE_ERR_ARGUMENT;
    bad |= sparse_spool_size(spool) != total;
    sparse_spool_free(&spool);
    return bad ? fail("a spool gives back something else") : 0;
}

/* At most 7 bytes a call. */
static int64_t read_some(void *user, uint8_t *buffer, int64_t offset, int64_t size)
{
    int64_t total = *(int64_t *)user, n = size < 7 ? size : 7;

    if (offset >= total)
        return 0;
    n = n < total - offset ? n : total - offset;
    for (int64_t i = 0; i < n; i++)
        buffer[i] = byte_at(offset + i);
    return n;
}

static int test_io(int64_t total)
{
    SparseIO io = {.user = &total, .read = read_some};
    SparseBytes *bytes;
    SparseError error;
    uint8_t buffer[100];
    int64_t n;
    int bad = 0;

    if (sparse_bytes_open_io(&bytes, &io, "name", &error) < 0)
        return fail(error.message);
    bad |= sparse_bytes_size(bytes) != total;
    n = sparse_bytes_read(bytes, buffer, total / 2, sizeof(buffer), NULL);
    bad |= n != (total - total / 2 < 100 ? total - total / 2 : 100);
    for (int64_t i = 0; i < n; i++)
        bad |= buffer[i] != byte_at(total / 2 + i);
    bad |= sparse_bytes_read(bytes, buffer, total, 1, NULL) != 0;
    sparse_bytes_close(&bytes);
    return bad ? fail("a source through callbacks") : 0;
}

static int test_errors(void)
{
    SparseBytes *bytes;
    SparseError error;
    char name[SPARSE_MESSAGE_SIZE];
    int bad = 0;

    bad |= sparse_bytes_open_path(&bytes, "/no/such/file", "/no/such/file", &error) !=
           SPARSE_ERR_SOURCE;
    bad |= bytes != NULL || strncmp(error.message, "/no/such/file: ", 15) != 0;
    bad |= sparse_bytes_open_path(&bytes, "/", "/", NULL) != SPARSE_ERR_SOURCE;
    bad |= sparse_fail_named(&error, SPARSE_ERR_DECODE, "a", 7, "%s", "b") != SPARSE_ERR_DECODE;
    bad |= strcmp(error.message, "a: frame 7: b") != 0 || error.frame != 7;

    /* two-byte characters, cut in the middle of one */
    for (size_t i = 0; i + 2 < sizeof(name); i += 2)
        memcpy(name + i, "\xC3\xA9", 2);
    name[sizeof(name) - 2] = '\0';
    sparse_fail_named(&error, SPARSE_ERR_SOURCE, name, -1, "x%s", name);
    bad |= strlen(error.message) >= SPARSE_MESSAGE_SIZE;
    sparse_fail(&error, SPARSE_ERR_SOURCE, -1, "x%s%s", name, name);
    bad |= strlen(error.message) % 2 != 1;
    return bad ? fail("error messages") : 0;
}

int main(void)
{
    const int64_t sizes[] = {0, 1, 65535, 65536, 65537, 1000003};
    int bad = test_spool(1 << 20) | test_spool(5000) | test_spool(0) | test_errors();

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        bad |= test_io(sizes[i]);
    return bad;
}
