/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libavutil/mem.h>
#include <libavutil/murmur3.h>

enum {
    CHUNK = 1 << 20,         /* the most that one call asks of the system */
    PIPE_MEMORY = 64 << 20   /* of a pipe's contents kept in memory */
};

struct SparseSpool {
    uint8_t *memory;
    int64_t memory_size; /* everything before this offset is in memory */
    int64_t capacity, limit;
    int64_t size;
    int fd; /* what didn't fit, or -1 */
};

struct SparseBytes {
    const char *name;
    int fd; /* -1 for the other kinds */
    const uint8_t *memory;
    SparseSpool *spool;
    SparseIO io;
    int has_io, has_lock;
    pthread_mutex_t lock; /* for the callbacks */
    int64_t size;
    int64_t modified_ns;
    _Atomic int64_t count;
};

/* ---- Spool ---- */

int sparse_spool_create(SparseSpool **spool, int64_t limit, SparseError *error)
{
    *spool = calloc(1, sizeof(**spool));
    if (!*spool)
        return sparse_fail_memory(error);
    (*spool)->limit = limit;
    (*spool)->fd = -1;
    return SPARSE_OK;
}

void sparse_spool_free(SparseSpool **spool)
{
    if (!*spool)
        return;
    if ((*spool)->fd >= 0)
        close((*spool)->fd);
    free((*spool)->memory);
    free(*spool);
    *spool = NULL;
}

/* A file without a name: it goes away with its descriptor. */
static int open_temporary(void)
{
    const char *folder = getenv("TMPDIR");
    const char *pattern = "/sparseframes-XXXXXX";
    char *path;
    int fd;

    if (!folder || !*folder)
        folder = "/tmp";
    path = malloc(strlen(folder) + strlen(pattern) + 1);
    if (!path) {
        errno = ENOMEM;
        return -1;
    }
    strcpy(path, folder);
    strcat(path, pattern);
    fd = mkstemp(path);
    if (fd >= 0) {
        unlink(path);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    free(path);
    return fd;
}

/* Room for size bytes more in memory; 0 when they have to go to the file. */
static int grow(SparseSpool *spool, int64_t size, int *failed)
{
    int64_t need = spool->memory_size + size, capacity = spool->capacity;
    uint8_t *memory;

    *failed = 0;
    if (spool->fd >= 0 || size > spool->limit - spool->memory_size)
        return 0;
    if (need <= capacity)
        return 1;
    capacity = capacity ? capacity : 1 << 16;
    while (capacity < need)
        capacity *= 2;
    memory = realloc(spool->memory, (size_t)capacity);
    if (!memory) {
        *failed = 1;
        return 0;
    }
    spool->memory = memory;
    spool->capacity = capacity;
    return 1;
}

int sparse_spool_append(SparseSpool *spool, const uint8_t *data, int64_t size, int64_t *offset,
                        SparseError *error)
{
    int failed;

    if (size < 0 || spool->size > INT64_MAX - size)
        return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1, "a bad size for the spool");
    if (size == 0) {
        *offset = spool->size;
        return SPARSE_OK;
    }
    if (grow(spool, size, &failed)) {
        memcpy(spool->memory + spool->memory_size, data, (size_t)size);
        spool->memory_size += size;
    } else if (failed) {
        return sparse_fail_memory(error);
    } else {
        int64_t at = spool->size - spool->memory_size, done = 0;

        if (spool->fd < 0)
            spool->fd = open_temporary();
        if (spool->fd < 0)
            return sparse_fail(error, SPARSE_ERR_SOURCE, -1, "no temporary file: %s",
                               strerror(errno));
        while (done < size) {
            ssize_t n = pwrite(spool->fd, data + done, (size_t)(size - done), at + done);
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                return sparse_fail(error, SPARSE_ERR_SOURCE, -1,
                                   "the temporary file can't be written: %s",
                                   n < 0 ? strerror(errno) : "no progress");
            done += n;
        }
    }
    *offset = spool->size;
    spool->size += size;
    return SPARSE_OK;
}

int sparse_spool_read(const SparseSpool *spool, uint8_t *buffer, int64_t offset, int64_t size,
                      SparseError *error)
{
    int64_t done = 0;

    if (offset < 0 || size < 0 || offset > spool->size - size)
        return sparse_fail(error, SPARSE_ERR_ARGUMENT, -1, "outside the spool");
    while (done < size) {
        int64_t at = offset + done;

        if (at < spool->memory_size) {
            int64_t n = spool->memory_size - at;

            n = n < size - done ? n : size - done;
            memcpy(buffer + done, spool->memory + at, (size_t)n);
            done += n;
        } else {
            ssize_t n =
                pread(spool->fd, buffer + done, (size_t)(size - done), at - spool->memory_size);
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                return sparse_fail(error, SPARSE_ERR_SOURCE, -1,
                                   "the temporary file can't be read: %s",
                                   n < 0 ? strerror(errno) : "it is shorter than it was");
            done += n;
        }
    }
    return SPARSE_OK;
}

int64_t sparse_spool_size(const SparseSpool *spool)
{
    return spool->size;
}

/* ---- Bytes ---- */

static SparseBytes *create(const char *name)
{
    SparseBytes *bytes = calloc(1, sizeof(*bytes));

    if (!bytes)
        return NULL;
    bytes->fd = -1;
    bytes->name = name;
    bytes->modified_ns = SPARSE_TIME_UNKNOWN;
    return bytes;
}

void sparse_bytes_close(SparseBytes **bytes)
{
    if (!*bytes)
        return;
    if ((*bytes)->fd >= 0)
        close((*bytes)->fd);
    sparse_spool_free(&(*bytes)->spool);
    if ((*bytes)->has_lock)
        pthread_mutex_destroy(&(*bytes)->lock);
    free(*bytes);
    *bytes = NULL;
}

/* Read a pipe to its end; it can't be read again. */
static int spool_pipe(SparseBytes *bytes, SparseError *error)
{
    uint8_t *buffer = malloc(CHUNK);
    int64_t offset;
    int ret = SPARSE_OK;

    if (!buffer)
        return sparse_fail_memory(error);
    ret = sparse_spool_create(&bytes->spool, PIPE_MEMORY, error);
    while (ret == SPARSE_OK) {
        ssize_t n = read(bytes->fd, buffer, CHUNK);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            ret = sparse_fail_named(error, SPARSE_ERR_SOURCE, bytes->name, -1, "can't be read: %s",
                                    strerror(errno));
        if (n <= 0)
            break;
        ret = sparse_spool_append(bytes->spool, buffer, n, &offset, error);
    }
    free(buffer);
    if (ret == SPARSE_OK) {
        bytes->size = sparse_spool_size(bytes->spool);
        bytes->count = bytes->size;
        close(bytes->fd);
        bytes->fd = -1;
    }
    return ret;
}

static int64_t time_of(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

int sparse_bytes_open_path(SparseBytes **bytes, const char *path, const char *name,
                           SparseError *error)
{
    struct stat status;
    int ret = SPARSE_OK;

    *bytes = create(name);
    if (!*bytes)
        return sparse_fail_memory(error);
    do
        (*bytes)->fd = open(path, O_RDONLY | O_CLOEXEC);
    while ((*bytes)->fd < 0 && errno == EINTR);
    if ((*bytes)->fd < 0 || fstat((*bytes)->fd, &status) < 0) {
        ret = sparse_fail_named(error, SPARSE_ERR_SOURCE, name, -1, "can't be opened: %s",
                                strerror(errno));
    } else if (S_ISDIR(status.st_mode)) {
        ret = sparse_fail_named(error, SPARSE_ERR_SOURCE, name, -1, "can't be opened: %s",
                                strerror(EISDIR));
    } else if (S_ISREG(status.st_mode)) {
        (*bytes)->size = status.st_size;
        (*bytes)->modified_ns = time_of(&status);
    } else {
        ret = spool_pipe(*bytes, error);
    }
    if (ret < 0)
        sparse_bytes_close(bytes);
    return ret;
}

int sparse_bytes_open_memory(SparseBytes **bytes, const uint8_t *data, size_t size,
                             const char *name, SparseError *error)
{
    *bytes = NULL;
    if ((!data && size > 0) || size > INT64_MAX)
        return sparse_fail_named(error, SPARSE_ERR_ARGUMENT, name, -1, "no data, or too much");
    *bytes = create(name);
    if (!*bytes)
        return sparse_fail_memory(error);
    (*bytes)->memory = data ? data : (const uint8_t *)"";
    (*bytes)->size = (int64_t)size;
    return SPARSE_OK;
}

/* One call of the callback, for at most size bytes. */
static int64_t call(SparseBytes *bytes, uint8_t *buffer, int64_t offset, int64_t size,
                    SparseError *error)
{
    int64_t n;

    pthread_mutex_lock(&bytes->lock);
    n = bytes->io.read(bytes->io.user, buffer, offset, size);
    pthread_mutex_unlock(&bytes->lock);
    if (n < 0 || n > size)
        return sparse_fail_named(error, SPARSE_ERR_SOURCE, bytes->name, -1,
                                 "the read callback failed at offset %lld", (long long)offset);
    bytes->count += n;
    return n;
}

/* Where reading gives nothing any more: a step that doubles, then halves. */
static int find_size(SparseBytes *bytes, SparseError *error)
{
    const int64_t most = (int64_t)1 << 60;
    int64_t inside = 0, outside = 1 << 16; /* bytes before `inside` exist */
    uint8_t byte;

    for (;;) {
        int64_t n = call(bytes, &byte, outside - 1, 1, error);

        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        inside = outside;
        if (outside >= most)
            return sparse_fail_named(error, SPARSE_ERR_SOURCE, bytes->name, -1,
                                     "the read callback knows no end");
        outside *= 2;
    }
    outside--; /* this many bytes at most */
    while (inside < outside) {
        int64_t middle = inside + (outside - inside) / 2;
        int64_t n = call(bytes, &byte, middle, 1, error);

        if (n < 0)
            return (int)n;
        if (n > 0)
            inside = middle + 1;
        else
            outside = middle;
    }
    bytes->size = inside;
    return SPARSE_OK;
}

int sparse_bytes_open_io(SparseBytes **bytes, const SparseIO *io, const char *name,
                         SparseError *error)
{
    int ret = SPARSE_OK;

    *bytes = NULL;
    if (!io || !io->read)
        return sparse_fail_named(error, SPARSE_ERR_ARGUMENT, name, -1, "no read callback");
    *bytes = create(name);
    if (!*bytes)
        return sparse_fail_memory(error);
    (*bytes)->io = *io;
    (*bytes)->has_io = 1;
    if (pthread_mutex_init(&(*bytes)->lock, NULL) != 0) {
        sparse_bytes_close(bytes);
        return sparse_fail_memory(error);
    }
    (*bytes)->has_lock = 1;
    (*bytes)->size = io->size ? io->size(io->user) : -1;
    if ((*bytes)->size < 0)
        ret = find_size(*bytes, error);
    if (ret < 0)
        sparse_bytes_close(bytes);
    return ret;
}

int sparse_bytes_stamp(const SparseBytes *bytes, SparseStamp *stamp)
{
    struct stat status;

    if (bytes->fd < 0 || fstat(bytes->fd, &status) < 0 || !S_ISREG(status.st_mode))
        return 0;
    *stamp = (SparseStamp){
        .device = (uint64_t)status.st_dev,
        .inode = (uint64_t)status.st_ino,
        .size = (int64_t)status.st_size,
        .modified_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec,
        .changed_ns = (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec,
    };
    return 1;
}

int64_t sparse_bytes_size(const SparseBytes *bytes)
{
    return bytes->size;
}

int64_t sparse_bytes_read(SparseBytes *bytes, uint8_t *buffer, int64_t offset, int64_t size,
                          SparseError *error)
{
    int64_t done = 0;

    if (offset < 0 || size < 0)
        return sparse_fail_named(error, SPARSE_ERR_ARGUMENT, bytes->name, -1,
                                 "a bad range to read");
    if (offset >= bytes->size)
        return 0;
    if (size > bytes->size - offset)
        size = bytes->size - offset;

    if (bytes->memory) {
        memcpy(buffer, bytes->memory + offset, (size_t)size);
        bytes->count += size;
        return size;
    }
    if (bytes->spool) {
        int ret = sparse_spool_read(bytes->spool, buffer, offset, size, error);

        return ret < 0 ? ret : size;
    }
    while (done < size) {
        int64_t want = size - done < CHUNK ? size - done : CHUNK, n;

        if (bytes->has_io) {
            n = call(bytes, buffer + done, offset + done, size - done, error);
            if (n < 0)
                return n;
        } else {
            n = pread(bytes->fd, buffer + done, (size_t)want, offset + done);
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0)
                return sparse_fail_named(error, SPARSE_ERR_SOURCE, bytes->name, -1,
                                         "can't be read: %s", strerror(errno));
            bytes->count += n;
        }
        if (n == 0)
            break;
        done += n;
    }
    return done;
}

const uint8_t *sparse_bytes_view(const SparseBytes *bytes, int64_t offset, int64_t size)
{
    if (!bytes->memory || offset < 0 || size < 0 || offset > bytes->size ||
        size > bytes->size - offset)
        return NULL;
    return bytes->memory + offset;
}

/* ---- Identity ---- */

enum {
    END = 4 << 10, /* bytes at each end that are looked at */
    SPOT = 4 << 10,
    SPOTS = 16     /* places between */
};

int64_t sparse_bytes_modified(const SparseBytes *bytes)
{
    return bytes->modified_ns;
}

int sparse_bytes_have_changed(const SparseBytes *bytes)
{
    struct stat status;

    if (bytes->modified_ns == SPARSE_TIME_UNKNOWN)
        return 0;
    return fstat(bytes->fd, &status) < 0 || status.st_size != bytes->size ||
           time_of(&status) != bytes->modified_ns;
}

int sparse_bytes_are_remote(const SparseBytes *bytes)
{
    return bytes->has_io;
}

/* Add size bytes at offset to the hash, as far as they are there. */
static int add_bytes(SparseBytes *bytes, struct AVMurMur3 *hasher, int64_t offset, int64_t size,
                     SparseError *error)
{
    uint8_t buffer[END > SPOT ? END : SPOT];
    int64_t n = sparse_bytes_read(bytes, buffer, offset, size, error);

    if (n > 0)
        av_murmur3_update(hasher, buffer, (size_t)n);
    return n < 0 ? (int)n : 0;
}

int sparse_bytes_fingerprint(SparseBytes *bytes, int with_inner, SparseFingerprint *identity,
                             SparseError *error)
{
    const int64_t size = bytes->size;
    struct AVMurMur3 *hasher = av_murmur3_alloc();
    SparseStamp stamp;
    int ret;

    *identity = (SparseFingerprint){
        .size = size,
        .modified_ns = bytes->modified_ns,
        .changed_ns = sparse_bytes_stamp(bytes, &stamp) ? stamp.changed_ns : SPARSE_TIME_UNKNOWN,
    };
    if (!hasher)
        return sparse_fail_memory(error);
    av_murmur3_init(hasher);
    ret = add_bytes(bytes, hasher, 0, END, error);
    if (ret >= 0 && size > END)
        ret = add_bytes(bytes, hasher, size - END, END, error);
    av_murmur3_final(hasher, identity->ends);
    if (with_inner && ret >= 0) {
        av_murmur3_init(hasher);
        for (int64_t i = 1; i <= SPOTS && ret >= 0; i++)
            ret = add_bytes(bytes, hasher, size / (SPOTS + 1) * i, SPOT, error);
        av_murmur3_final(hasher, identity->inner);
    }
    av_free(hasher);
    return ret;
}

int64_t sparse_bytes_count(const SparseBytes *bytes)
{
    return bytes->count;
}
