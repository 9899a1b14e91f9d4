/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libavutil/intreadwrite.h>
#include <libavutil/mem.h>
#include <libavutil/murmur3.h>

#include "saved_meta.h"

static const uint8_t magic[8] = {0x89, 'S', 'P', 'X', '\r', '\n', 0x1a, '\n'};

/* Places in the head of a file. */
enum { AT_ORDER = 8, AT_VERSION = 12, AT_SIZE = 16, AT_META_SIZE = 24, AT_HASH = 32, AT_META = 48 };

#define BYTE_ORDER_MARK 0x04030201u

/* 2: AV1, too */
enum { FORMAT_VERSION = 2 };

struct SparseSaved {
    const uint8_t *data;
    size_t size;
    void *map; /* data, when it is mapped */
    char *name; /* of the source */
    SparseSavedMeta meta;
};

/* Of all bytes but the hash itself. */
static int hash_all(const uint8_t *data, size_t size, uint8_t *digest, SparseError *error)
{
    struct AVMurMur3 *hasher = av_murmur3_alloc();

    if (!hasher)
        return sparse_fail_memory(error);
    av_murmur3_init(hasher);
    av_murmur3_update(hasher, data, AT_HASH);
    av_murmur3_update(hasher, data + AT_META, size - AT_META);
    av_murmur3_final(hasher, digest);
    av_free(hasher);
    return 0;
}

int sparse_saved_write(SparseBuffer *out, const SparseSavedIndex *index, SparseBytes *bytes,
                       SparseError *error)
{
    const size_t start = out->size;
    SparseFingerprint identity;
    SparseBuffer blocks = {0}, sizes = {0};
    int ret = sparse_bytes_fingerprint(bytes, 1, &identity, error);

    if (ret >= 0)
        ret = sparse_packed_write(index->packed, &sizes, &blocks, error);
    if (ret >= 0)
        ret = sparse_buffer_reserve(out, AT_META, error);
    if (ret >= 0) {
        memset(out->data + start, 0, AT_META);
        out->size += AT_META;
        ret = sparse_meta_write(out, index, &identity, &sizes, error);
    }
    if (ret >= 0) {
        AV_WL32(out->data + start + AT_META_SIZE, out->size - start - AT_META);
        ret = sparse_buffer_append(out, blocks.data, blocks.size, error);
    }
    if (ret >= 0) {
        uint8_t *head = out->data + start;

        memcpy(head, magic, sizeof(magic));
        AV_WL32(head + AT_ORDER, BYTE_ORDER_MARK);
        AV_WL32(head + AT_VERSION, FORMAT_VERSION);
        AV_WL64(head + AT_SIZE, out->size - start);
        ret = hash_all(head, out->size - start, head + AT_HASH, error);
    }
    free(blocks.data);
    free(sizes.data);
    return ret;
}

/* ---- Opening ---- */

#define REFUSE(saved, ...)                                                                         \
    sparse_fail_named(error, SPARSE_ERR_SAVED, (saved)->name, -1, __VA_ARGS__)

static int check_envelope(const SparseSaved *saved, SparseError *error)
{
    const uint8_t *data = saved->data;
    uint8_t digest[16];
    int ret;

    if (saved->size < AT_META || memcmp(data, magic, sizeof(magic)) != 0)
        return REFUSE(saved, "the saved index is none, or its beginning is damaged");
    if (AV_RL32(data + AT_ORDER) != BYTE_ORDER_MARK)
        return REFUSE(saved, "the saved index is of another byte order, or damaged");
    if (AV_RL32(data + AT_VERSION) != FORMAT_VERSION)
        return REFUSE(saved, "the saved index has format %u, this library reads %d",
                      (unsigned)AV_RL32(data + AT_VERSION), FORMAT_VERSION);
    if (AV_RL64(data + AT_SIZE) != saved->size ||
        AV_RL32(data + AT_META_SIZE) > saved->size - AT_META)
        return REFUSE(saved, "the saved index is cut off, or damaged");
    ret = hash_all(data, saved->size, digest, error);
    if (ret < 0)
        return ret;
    if (memcmp(digest, data + AT_HASH, sizeof(digest)) != 0)
        return REFUSE(saved, "the saved index is damaged");
    return 0;
}

static int finish_open(SparseSaved **result, SparseSaved *saved, SparseError *error)
{
    int ret = check_envelope(saved, error);

    if (ret >= 0) {
        const uint8_t *meta = saved->data + AT_META;
        const size_t meta_size = AV_RL32(saved->data + AT_META_SIZE);

        ret = sparse_meta_read(&saved->meta, meta, meta_size, meta + meta_size,
                               saved->size - AT_META - meta_size, saved->name, error);
    }
    if (ret < 0)
        sparse_saved_close(&saved);
    *result = saved;
    return ret;
}

static SparseSaved *create(const char *name)
{
    SparseSaved *saved = calloc(1, sizeof(*saved));

    if (saved)
        saved->name = av_strdup(name);
    if (saved && saved->name)
        return saved;
    free(saved);
    return NULL;
}

int sparse_saved_open_memory(SparseSaved **result, const uint8_t *data, size_t size,
                             const char *source_name, SparseError *error)
{
    SparseSaved *saved = create(source_name);

    *result = NULL;
    if (!saved)
        return sparse_fail_memory(error);
    saved->data = data;
    saved->size = size;
    return finish_open(result, saved, error);
}

int sparse_saved_open_path(SparseSaved **result, const char *path, const char *source_name,
                           SparseError *error)
{
    SparseSaved *saved = create(source_name);
    struct stat status;
    int fd, failed;

    *result = NULL;
    if (!saved)
        return sparse_fail_memory(error);
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for a writer */
    while (fd < 0 && errno == EINTR);
    failed = fd < 0 || fstat(fd, &status) < 0;
    if (!failed && S_ISREG(status.st_mode) && status.st_size > 0) {
        void *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

        failed = map == MAP_FAILED;
        if (!failed) {
            saved->data = saved->map = map;
            saved->size = (size_t)status.st_size;
        }
    }
    if (failed)
        REFUSE(saved, "the saved index %s can't be opened: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (failed) {
        sparse_saved_close(&saved);
        return SPARSE_ERR_SAVED;
    }
    return finish_open(result, saved, error);
}

void sparse_saved_close(SparseSaved **result)
{
    SparseSaved *saved = *result;

    if (!saved)
        return;
    sparse_meta_free(&saved->meta);
    if (saved->map)
        munmap(saved->map, saved->size);
    av_freep(&saved->name);
    free(saved);
    *result = NULL;
}

SparseSavedIndex *sparse_saved_index(SparseSaved *saved)
{
    return &saved->meta.index;
}

int sparse_saved_check_source(const SparseSaved *saved, SparseBytes *bytes, SparseError *error)
{
    const SparseFingerprint *made_for = &saved->meta.identity;
    const int is_remote = sparse_bytes_are_remote(bytes);
    SparseStamp stamp;
    SparseFingerprint identity = {.size = sparse_bytes_size(bytes),
                                  .modified_ns = sparse_bytes_modified(bytes)};
    int is_as_old, ret;

    if (identity.size != made_for->size)
        return REFUSE(saved, "the saved index is stale: it was made for %lld bytes, not %lld",
                      (long long)made_for->size, (long long)identity.size);
    is_as_old = identity.modified_ns != SPARSE_TIME_UNKNOWN &&
                identity.modified_ns == made_for->modified_ns;
    if (is_as_old && sparse_bytes_stamp(bytes, &stamp) && stamp.changed_ns == made_for->changed_ns)
        return 0;
    /* Archives give all their files one time of modification. */
    ret = sparse_bytes_fingerprint(bytes, !is_remote && !is_as_old, &identity, error);
    if (ret < 0)
        return ret;
    if (memcmp(identity.ends, made_for->ends, sizeof(identity.ends)) != 0 ||
        (!is_remote && !is_as_old &&
         memcmp(identity.inner, made_for->inner, sizeof(identity.inner)) != 0))
        return REFUSE(saved, "the saved index is stale: it was made for other contents");
    return 0;
}

/* ---- Files ---- */

static int write_all(int fd, const uint8_t *data, size_t size)
{
    while (size) {
        ssize_t n = write(fd, data, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

int sparse_saved_to_file(const char *path, const uint8_t *data, size_t size, SparseError *error)
{
    const char *suffix = ".tmp-XXXXXX";
    char *temporary = malloc(strlen(path) + strlen(suffix) + 1);
    struct stat status;
    mode_t mode = 0644;
    int fd, failed;

    if (!temporary)
        return sparse_fail_memory(error);
    strcpy(temporary, path);
    strcat(temporary, suffix);
    fd = mkstemp(temporary);
    if (fd < 0) {
        int code = sparse_fail(error, SPARSE_ERR_SOURCE, -1, "%s: can't be written: %s", path,
                               strerror(errno));

        free(temporary);
        return code;
    }
    if (stat(path, &status) == 0)
        mode = status.st_mode & 0777;
    failed = write_all(fd, data, size) < 0 || fchmod(fd, mode) < 0 || fsync(fd) < 0;
    failed |= close(fd) < 0;
    failed = failed || rename(temporary, path) < 0;
    if (failed) {
        sparse_fail(error, SPARSE_ERR_SOURCE, -1, "%s: can't be written: %s", path,
                    strerror(errno));
        unlink(temporary);
    }
    free(temporary);
    return failed ? SPARSE_ERR_SOURCE : 0;
}
