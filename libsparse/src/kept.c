/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A reader's side of kept pictures: whose they are, what they weigh, which are worth it.
 */
#include <string.h>
#include <time.h>

#include "reader.h"

/* A change so shortly before may have been followed by another one at the same time by the
 * file system's clock, which goes on in steps of some milliseconds. */
#define FRESH_NS INT64_C(100000000)

static int identify_file(const SparseReader *reader, SparseIdentity *identity)
{
    SparseStamp stamp;

    if (!sparse_source_stamp(reader->source, &stamp))
        return 0;
    *identity = (SparseIdentity){
        .kind = SPARSE_IDENTITY_FILE,
        .stream_index = reader->file.stream_index,
        .words = {stamp.device, stamp.inode, (uint64_t)stamp.size, (uint64_t)stamp.modified_ns,
                  (uint64_t)stamp.changed_ns},
    };
    return 1;
}

static int is_fresh(const SparseIdentity *identity)
{
    struct timespec now;
    int64_t limit;

    clock_gettime(CLOCK_REALTIME, &now);
    limit = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - FRESH_NS;
    return (int64_t)identity->words[3] > limit || (int64_t)identity->words[4] > limit;
}

void sparse_reader_identify(SparseReader *reader, const uint8_t *key, size_t key_size)
{
    SparseIdentity *identity = &reader->identity;
    SparseInfo info;

    sparse_source_info(reader->source, &info);
    identity->stream_index = reader->file.stream_index = info.stream_index;
    reader->shared = 1;
    if (identify_file(reader, &reader->file)) {
        if (!is_fresh(&reader->file)) {
            *identity = reader->file;
            return;
        }
    } else if (key_size) {
        identity->kind = SPARSE_IDENTITY_KEY;
        identity->words[0] = key_size;
        memcpy(&identity->words[1], key, key_size);
        return;
    }
    sparse_pool_own_identity(reader->pool, identity);
    reader->shared = 0;
}

/* Whether a file is what it was when it was last looked at: pictures of a reader that shares none
 * can be of another state of it, too. */
static int is_same(const SparseReader *reader)
{
    SparseIdentity now;

    return reader->file.kind != SPARSE_IDENTITY_FILE ||
           (identify_file(reader, &now) && memcmp(&now, &reader->file, sizeof(now)) == 0);
}

void sparse_reader_check_identity(SparseReader *reader)
{
    if (is_same(reader))
        return;
    identify_file(reader, &reader->file);
    if (!reader->shared)
        sparse_cache_drop(sparse_pool_cache(reader->pool), &reader->identity);
    sparse_pool_own_identity(reader->pool, &reader->identity);
    reader->shared = 0;
}

/*
 * In HEVC a picture holds the POC of its references. Without all slice headers looked at, a header
 * pass that begins at a CRA counts POC from elsewhere, and pictures of two passes don't fit together.
 */
static int counts_anew(const SparseReader *reader)
{
    return sparse_source_codecpar(reader->source)->codec_id == AV_CODEC_ID_HEVC &&
           sparse_index_counts_anew(reader->index);
}

FFSparsePicture *sparse_reader_kept(SparseReader *reader, int64_t picture)
{
    if (counts_anew(reader))
        return NULL;
    return sparse_cache_get(sparse_pool_cache(reader->pool), &reader->identity, picture);
}

void sparse_reader_forget(SparseReader *reader, int64_t picture)
{
    sparse_cache_forget(sparse_pool_cache(reader->pool), &reader->identity, picture);
}

int sparse_reader_keeps(const SparseReader *reader)
{
    return !counts_anew(reader) && sparse_cache_keeps(sparse_pool_cache(reader->pool));
}

/*
 * What a picture holds besides samples: in H.264, for each macroblock, 2 x 16 motion vectors and
 * 2 x 4 reference indices of 4 bytes and 1, its type and its quantiser; in HEVC, for each block of
 * 4x4 at the smallest, two vectors, two indices and a flag, 12 bytes. Rows have some more.
 */
static int64_t motion_bytes(const SparseReader *reader, const AVFrame *frame)
{
    int64_t blocks = ((int64_t)frame->width / 16 + 2) * ((int64_t)frame->height / 16 + 2);
    int hevc = sparse_source_codecpar(reader->source)->codec_id == AV_CODEC_ID_HEVC;

    return blocks * (hevc ? 16 * 12 + 8 : 2 * (16 * 4 + 4) + 4 + 1);
}

void sparse_reader_keep(SparseReader *reader, SparseDecoder *decoder, int64_t picture,
                        FFSparsePicture *data, const AVFrame *frame)
{
    SparsePicture facts;
    int64_t motion, bytes = 4096; /* of the structs around them */
    int worth;

    if (!sparse_index_picture(reader->index, picture, &facts) ||
        !(facts.flags & FF_SPARSE_REPORT_REFERENCE) || !sparse_reader_keeps(reader) ||
        !is_same(reader))
        return;
    worth = facts.flags & FF_SPARSE_REPORT_INTRA ? SPARSE_WORTH_ANCHOR : SPARSE_WORTH_REFERENCE;
    for (int i = 0; i < AV_NUM_DATA_POINTERS && frame->buf[i]; i++)
        bytes += (int64_t)frame->buf[i]->size;
    motion = motion_bytes(reader, frame);
    if (sparse_cache_put(sparse_pool_cache(reader->pool), &reader->identity, picture, data,
                         bytes + motion, worth))
        sparse_decoder_note_kept(decoder, motion);
}
