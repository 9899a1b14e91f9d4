/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <stdlib.h>
#include <string.h>

#include <libavutil/avutil.h>

#include "index_internal.h"
#include "log.h"
#include "plain.h"

/* ---- Opening ---- */

int sparse_index_open(SparseIndex **result, SparseSource *source, SparsePool *pool, int mode,
                      SparseError *error)
{
    SparseIndex *index = calloc(1, sizeof(*index));

    *result = NULL;
    if (!index)
        return sparse_fail_memory(error);
    index->source = source;
    index->pool = pool;
    index->head = sparse_source_has_heads(source) ? SPARSE_HEAD_LEAST : 0;
    index->unchecked = mode == SPARSE_INDEX_AUTO && index->head;
    index->lazy = index->unchecked || (mode == SPARSE_INDEX_LAZY && sparse_source_is_table(source));
    *result = index;
    return 0;
}

/* Free all that it takes to pass over packets, and what the pass has noted. */
static void free_tables(SparseIndex *index)
{
    sparse_index_drop_runs(index);
    sparse_pool_give_back(index->pool, &index->decoder);
    av_packet_free(&index->packet);
    av_buffer_pool_uninit(&index->head_pool);
    free(index->pictures);
    free(index->covered);
    free(index->references);
    free(index->entries);
    free(index->runs);
    free(index->display);
    free(index->keys);
    sparse_plain_free(&index->plain);
    sparse_sets_free(&index->sets);
    index->keys = NULL;
    index->key_capacity = 0;
    index->pictures = NULL;
    index->covered = NULL;
    index->references = NULL;
    index->entries = NULL;
    index->runs = NULL;
    index->display = NULL;
}

void sparse_index_close(SparseIndex **result)
{
    SparseIndex *index = *result;

    if (!index)
        return;
    ff_sparse_snapshot_unref(&index->fresh);
    sparse_index_drop_epochs(index);
    free_tables(index);
    free(index->params);
    free(index->epochs);
    free(index);
    *result = NULL;
}

void sparse_index_use_packed(SparseIndex *index, SparsePacked *packed)
{
    index->packed = packed;
    index->packet_count = sparse_packed_packets(packed);
    index->display_count = sparse_packed_frames(packed);
    index->lazy = index->unchecked = 0;
    index->whole = 1;
    free_tables(index);
}

static int compare_display(const void *a, const void *b)
{
    const SparseDisplay *x = a, *y = b;

    if (x->pts != y->pts)
        return x->pts < y->pts ? -1 : 1;
    return (x->picture > y->picture) - (x->picture < y->picture);
}

/*
 * The order of display by the container's word: one frame a packet, in the
 * order of distinct times. Where that is not so, the decoder has to say.
 */
static int order_by_time(SparseIndex *index, SparseError *error)
{
    size_t moves = 0, most;

    free(index->display);
    index->display = malloc(((size_t)index->packet_count + 1) * sizeof(*index->display));
    if (!index->display)
        return sparse_fail_memory(error);
    index->display_capacity = (size_t)index->packet_count + 1;
    index->display_count = 0;
    for (int64_t i = 0; i < index->packet_count; i++) {
        const SparsePacket packet = sparse_source_packet(index->source, i);

        if (packet.pts == AV_NOPTS_VALUE)
            index->lazy = 0;
        if (packet.flags & SPARSE_PACKET_DISCARD)
            continue;
        index->display[index->display_count].picture = i;
        index->display[index->display_count++].pts = packet.pts;
    }
    /* mostly they are in order but for a few places */
    most = 16 * (size_t)index->display_count;
    for (int64_t i = 1; i < index->display_count && moves <= most; i++) {
        const SparseDisplay one = index->display[i];
        int64_t k = i;

        for (; k > 0 && moves <= most && compare_display(&index->display[k - 1], &one) > 0; k--) {
            index->display[k] = index->display[k - 1];
            moves++;
        }
        index->display[k] = one;
    }
    if (moves > most)
        qsort(index->display, (size_t)index->display_count, sizeof(*index->display),
              compare_display);
    for (int64_t i = 1; i < index->display_count; i++)
        if (index->display[i].pts == index->display[i - 1].pts)
            index->lazy = 0;
    return 0;
}

/* Get the packet table and what it takes to pass over packets. */
int sparse_index_prepare(SparseIndex *index, SparseProgress progress, void *user,
                         SparseError *error)
{
    int ret;

    if (index->pictures || index->packed)
        return 0;
    ret = sparse_source_packets(index->source, &index->packet_count, progress, user, error);
    if (ret < 0)
        return ret;
    if (index->packet_count >= INT32_MAX)
        return sparse_source_fail(index->source, error, SPARSE_ERR_UNSUPPORTED, -1,
                                  "too many packets: %lld", (long long)index->packet_count);

    if (!index->decoder) {
        ret = sparse_pool_fresh_decoder(index->pool, index->source, &index->decoder, error);
        if (ret >= 0)
            ret = sparse_decoder_snapshot(index->decoder, &index->fresh, error);
        if (ret < 0) {
            sparse_decoder_close(&index->decoder);
            return ret;
        }
    }
    if (!index->packet)
        index->packet = av_packet_alloc();
    if (!index->covered)
        index->covered = calloc((size_t)index->packet_count + 1, 1);
    if (!index->head_pool)
        index->head_pool = sparse_source_head_pool();
    if (!index->packet || !index->covered || !index->head_pool)
        return sparse_fail_memory(error);
    index->pictures = calloc((size_t)index->packet_count + 1, sizeof(*index->pictures));
    return index->pictures ? 0 : sparse_fail_memory(error);
}

/* Whether the container's word holds for the whole stream, by a look at all slice headers. */
static int check_plain(SparseIndex *index, SparseError *error)
{
    int64_t looked;
    int ret;

    ret = sparse_plain_check(index->source, &index->plain, &looked, error);
    if (ret < 0)
        return ret;
    index->unchecked = 0;
    index->lazy = ret;
    if (!ret)
        sparse_log(SPARSE_LOG_DEBUG, "%s: packet %lld is not plain: all headers are passed over",
                   sparse_source_name(index->source), (long long)looked - 1);
    return 0;
}

/* ---- What others see ---- */

int sparse_index_count(SparseIndex *index, int64_t *count, SparseError *error)
{
    int ret = sparse_index_prepare(index, NULL, NULL, error);

    if (ret >= 0 && index->lazy && !index->display)
        ret = order_by_time(index, error);
    if (ret >= 0 && index->lazy && index->unchecked)
        ret = check_plain(index, error);
    if (ret >= 0 && index->lazy) {
        ret = sparse_index_check_first(index, error);
        if (ret == 0)
            index->lazy = 0;
    }
    if (ret >= 0 && !index->lazy)
        ret = sparse_index_build(index, NULL, NULL, error);
    if (ret < 0)
        return ret;
    *count = index->display_count;
    return 0;
}

SparseDisplay sparse_index_frame(const SparseIndex *index, int64_t k)
{
    return index->packed ? sparse_packed_frame(index->packed, k) : index->display[k];
}

/* Whether runs would come to so many packets that the whole index, which takes less memory and is
 * done once, is the better choice. A lazy index that was asked for stays lazy. */
static int is_worth_all(SparseIndex *index, const int64_t *targets, size_t count)
{
    int64_t cost = index->plain.kinds ? sparse_index_run_cost(index, targets, count) : 0;

    return cost > 0 && (index->scanned + cost) * 4 > index->packet_count * 3;
}

int sparse_index_cover(SparseIndex *index, const int64_t *targets, size_t count, int *reordered,
                       SparseError *error)
{
    *reordered = 0;
    if (!index->lazy)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (targets[i] < 0 || targets[i] >= index->display_count)
            return sparse_source_fail(index->source, error, SPARSE_ERR_INDEX, targets[i],
                                      "there are %lld frames", (long long)index->display_count);
    if (is_worth_all(index, targets, count)) {
        *reordered = 1;
        return sparse_index_build(index, NULL, NULL, error);
    }
    for (size_t i = 0; i < count && index->lazy; i++) {
        int ret = sparse_index_cover_by_run(index, index->display[targets[i]].picture, error);

        if (ret < 0)
            return ret;
        if (!ret) {
            ret = sparse_index_build(index, NULL, NULL, error);
            if (ret < 0)
                return ret;
            *reordered = 1;
        }
    }
    return 0;
}

int sparse_index_picture(const SparseIndex *index, int64_t packet, SparsePicture *picture)
{
    if (index->packed && packet >= 0 && packet < index->packet_count) {
        *picture = sparse_packed_picture(index->packed, packet);
        return 1;
    }
    if (!index->pictures || packet < 0 || packet >= index->packet_count || !index->covered[packet])
        return 0;
    *picture = index->pictures[packet].facts;
    return 1;
}

int sparse_index_counts_anew(const SparseIndex *index)
{
    return !index->packed && index->lazy && !index->plain.kinds;
}

char sparse_index_type(const SparseIndex *index, int64_t packet)
{
    SparsePicture picture;

    if (sparse_index_picture(index, packet, &picture))
        return picture.type;
    if (!index->plain.kinds || packet < 0 || packet >= index->packet_count)
        return '?';
    return sparse_plain_type(&index->plain, packet);
}

int sparse_index_lookup(void *user, int64_t id, SparsePlanNode *node, SparseError *error)
{
    SparseIndex *index = user;
    SparsePicture picture;

    if (!sparse_index_picture(index, id, &picture) || picture.picture != id)
        return sparse_fail(error, SPARSE_ERR_DECODE, -1,
                           "packet %lld holds no picture that can be decoded", (long long)id);
    if (picture.flags & (FF_SPARSE_REPORT_ERROR | FF_SPARSE_REPORT_LOST | FF_SPARSE_REPORT_MISSING))
        return sparse_fail(error, SPARSE_ERR_DECODE, -1, "%s packet %lld",
                           picture.flags & FF_SPARSE_REPORT_ERROR
                               ? "damaged data in"
                               : "what is referenced is missing in",
                           (long long)id);
    if (picture.flags & FF_SPARSE_REPORT_SEVERAL)
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1,
                           "packet %lld holds more than one picture", (long long)id);
    /* FFmpeg, misled by lone fields, doubles a first field for output, before or over the second
     * one. */
    if (picture.times_shown > 1 || (picture.shown && picture.shown <= picture.last_packet))
        return sparse_fail(error, SPARSE_ERR_DECODE, -1,
                           "packet %lld begins a picture that is put out before it is complete",
                           (long long)id);
    node->references = index->found;
    if (index->packed) {
        if (picture.params < 0 || picture.params >= index->params_count ||
            !index->params[picture.params]) {
            int ret = sparse_index_restore_epoch(index, picture.params, error);

            if (ret < 0)
                return ret;
        }
        sparse_packed_references(index->packed, id, index->found);
    } else
        node->references = index->references + index->pictures[id].reference_first;
    node->reference_count = picture.reference_count;
    node->bytes = 0;
    for (int64_t i = id; i <= picture.last_packet; i++)
        node->bytes += sparse_source_packet(index->source, i).size;
    return 0;
}

void sparse_index_snapshot(const SparseIndex *index, int64_t id, FFSparseSnapshot *snapshot)
{
    const SparsePictureNotes *notes;

    if (index->packed) {
        const SparsePicture picture = sparse_packed_picture(index->packed, id);

        sparse_packed_snapshot(index->packed, id, snapshot);
        /* a saved index may say anything; the lookup has had the epoch restored */
        snapshot->params = picture.params >= 0 && picture.params < index->params_count
                               ? index->params[picture.params]
                               : NULL;
        return;
    }
    notes = &index->pictures[id];
    snapshot->params = index->params[notes->facts.params];
    snapshot->nb_entries = notes->entry_count;
    memcpy(snapshot->state, notes->state, sizeof(snapshot->state));
    if (notes->entry_count)
        memcpy(snapshot->entries, index->entries + notes->entry_first,
               (size_t)notes->entry_count * sizeof(*snapshot->entries));
}

void sparse_index_rest(SparseIndex *index)
{
    if (index->packed)
        sparse_pool_give_back(index->pool, &index->decoder);
}

int64_t sparse_index_scanned(const SparseIndex *index)
{
    return index->scanned;
}
