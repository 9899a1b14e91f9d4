/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "reader.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libavutil/frame.h>
#include <libavutil/pixfmt.h>

#include "work.h"

double sparse_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void sparse_reader_enter_index(SparseReader *reader)
{
    if (!reader->index_depth++)
        reader->index_start = sparse_seconds();
}

void sparse_reader_leave_index(SparseReader *reader)
{
    if (!--reader->index_depth)
        reader->stats.index_seconds += sparse_seconds() - reader->index_start;
}

int64_t sparse_reader_count(SparseReader *reader, SparseError *error)
{
    SparseOrder order;
    int ret = sparse_reader_order(reader, &order, error);

    return ret < 0 ? ret : order.count;
}

static int compare_indices(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The distinct ones among indices, ascending, into *distinct (to be freed). */
static int sort_targets(SparseReader *reader, const int64_t *indices, size_t count,
                        int64_t **distinct, size_t *distinct_count, SparseError *error)
{
    int64_t total = sparse_reader_count(reader, error), *sorted;
    size_t kept = 0;

    if (total < 0)
        return (int)total;
    if (count > SIZE_MAX / sizeof(*sorted) - 1)
        return sparse_fail_memory(error);
    for (size_t i = 0; i < count; i++)
        if (indices[i] < 0 || indices[i] >= total)
            return sparse_source_fail(reader->source, error, SPARSE_ERR_INDEX, indices[i],
                                      "out of range: there are %lld frames", (long long)total);
    sorted = malloc((count + 1) * sizeof(*sorted));
    if (!sorted)
        return sparse_fail_memory(error);
    if (count) {
        memcpy(sorted, indices, count * sizeof(*sorted));
        qsort(sorted, count, sizeof(*sorted), compare_indices);
    }
    for (size_t i = 0; i < count; i++)
        if (!kept || sorted[kept - 1] != sorted[i])
            sorted[kept++] = sorted[i];
    *distinct = sorted;
    *distinct_count = kept;
    return 0;
}

/* ---- Plans ---- */

/* Whether a linear decode can begin with a picture. */
static int is_key_picture(const SparseReader *reader, int64_t picture)
{
    if (reader->av1) {
        const SparseAv1Frame *frame = sparse_av1_index_frame(reader->av1, picture);

        return !frame || (frame->type == SPARSE_AV1_KEY && frame->flags & SPARSE_AV1_SHOWN);
    }
    return !!(sparse_source_packet(reader->source, picture).flags & SPARSE_PACKET_KEY);
}

static int64_t previous_picture(const SparseReader *reader, int64_t picture)
{
    return reader->av1 ? sparse_av1_index_previous(reader->av1, picture) : picture - 1;
}

/* The number of pictures that linear decoding takes: from the last key packet up to each of these,
 * which are sorted for it. */
static int64_t count_linear(const SparseReader *reader, int64_t *pictures, size_t count)
{
    int64_t total = 0, done = -1;

    if (count)
        qsort(pictures, count, sizeof(*pictures), compare_indices);
    for (size_t i = 0; i < count; i++) {
        int64_t packet = pictures[i];

        for (; packet > done; packet = previous_picture(reader, packet)) {
            SparsePicture picture;

            if (!reader->index || !sparse_index_picture(reader->index, packet, &picture) ||
                picture.picture == packet)
                total++;
            if (is_key_picture(reader, packet))
                break;
        }
        done = pictures[i];
    }
    return total;
}

static int restart_lookup(void *user, int64_t picture, SparsePlanNode *node, SparseError *error)
{
    SparseReader *reader = user;
    int64_t count;
    int ret = sparse_source_packets(reader->source, &count, NULL, NULL, error);

    if (ret < 0)
        return ret;
    node->references = NULL;
    node->reference_count = 0;
    node->bytes = picture < count ? sparse_source_packet(reader->source, picture).size : 0;
    return 0;
}

/* The first of the targets whose own closure can't be had, to tell it by name. */
static void blame(SparseReader *reader, const int64_t *targets, const int64_t *pictures,
                  size_t count, SparsePlanLookup lookup, void *user, SparseError *error)
{
    SparseError cause = *error;
    int64_t frame = -1;

    for (size_t i = 0; i < count && frame < 0; i++) {
        SparsePlan *single;

        if (sparse_plan_make(&single, &targets[i], &pictures[i], 1, lookup, user, &cause) < 0)
            frame = targets[i];
        sparse_plan_free(&single);
    }
    sparse_source_fail(reader->source, error, cause.code, frame, "%s", cause.message);
}

/* What a saved index that turned out to be damaged has led to is not to be given out. */
static int check_saved(const SparseReader *reader, int ret, SparseError *error)
{
    int checked = sparse_source_check_saved(reader->source, error);

    return checked < 0 ? checked : ret;
}

/* Whether what was read may be given out. */
static int check_source(const SparseReader *reader, SparseError *error)
{
    int ret = sparse_source_check_saved(reader->source, error);

    return ret < 0 ? ret : sparse_source_check_unchanged(reader->source, error);
}

/* compare 1: also count what linear decoding takes, which walks over all of those pictures. */
static int make_plan(SparseReader *reader, const int64_t *indices, size_t count, int compare,
                     SparsePlan **plan, SparseError *error)
{
    SparsePlanLookup lookup;
    void *user;
    SparseOrder order;
    int64_t *targets = NULL, *pictures = NULL;
    size_t distinct = 0;
    int ret, reordered = 0;

    *plan = NULL;
    sparse_reader_enter_index(reader);
    do {
        free(targets);
        targets = NULL;
        ret = sort_targets(reader, indices, count, &targets, &distinct, error);
        if (ret >= 0)
            ret = sparse_reader_cover(reader, targets, distinct, &reordered, error);
        if (ret < 0)
            goto done;
    } while (reordered);

    pictures = malloc((distinct + 1) * sizeof(*pictures));
    if (!pictures) {
        ret = sparse_fail_memory(error);
        goto done;
    }
    ret = sparse_reader_order(reader, &order, error);
    if (ret < 0)
        goto done;
    for (size_t i = 0; i < distinct; i++)
        pictures[i] = sparse_order_picture(&order, targets[i]);

    lookup = reader->index ? sparse_index_lookup
             : reader->av1 ? sparse_av1_index_lookup
                           : restart_lookup;
    user = reader->index ? (void *)reader->index
           : reader->av1 ? (void *)reader->av1
                         : (void *)reader;
    ret = sparse_plan_make(plan, targets, pictures, distinct, lookup, user, error);
    if (ret == SPARSE_ERR_DECODE || ret == SPARSE_ERR_UNSUPPORTED)
        blame(reader, targets, pictures, distinct, lookup, user, error);
    if (ret >= 0 && compare)
        (*plan)->linear_count = count_linear(reader, pictures, distinct);
    ret = check_saved(reader, ret, error);
    if (ret < 0)
        sparse_plan_free(plan);

done:
    if (reader->index)
        sparse_index_rest(reader->index);
    free(targets);
    free(pictures);
    sparse_reader_leave_index(reader);
    return ret;
}

int sparse_reader_plan(SparseReader *reader, const int64_t *indices, size_t count,
                       SparsePlan **plan, SparseError *error)
{
    return make_plan(reader, indices, count, 1, plan, error);
}

/* ---- Frames ---- */

/* One frame after the other. */
int sparse_reader_frames_linear(SparseReader *reader, const struct SparseRequest *request,
                                SparseError *error)
{
    SparseConverter *converter = NULL;
    int64_t *targets = NULL;
    size_t distinct = 0;
    size_t *next_slot = malloc((request->count + 1) * sizeof(*next_slot));
    size_t *first_slot = malloc((request->count + 1) * sizeof(*first_slot));
    int ret = 0;

    if (!next_slot || !first_slot)
        ret = sparse_fail_memory(error);
    if (ret >= 0)
        ret = sort_targets(reader, request->indices, request->count, &targets, &distinct, error);
    if (ret >= 0)
        ret = sparse_pool_converter(reader->pool, &converter, error);
    if (ret >= 0)
        sparse_request_chain(request, NULL, targets, distinct, first_slot, next_slot);
    for (size_t i = 0; ret >= 0 && i < distinct; i++) {
        double start = sparse_seconds(), decoded;

        ret = sparse_restart_get(reader->restart, targets[i], reader->frame, error);
        decoded = sparse_seconds();
        reader->stats.decode_seconds += decoded - start;
        if (ret < 0)
            break;
        ret =
            sparse_request_fill(request, converter, reader->frame, next_slot, first_slot[i], error);
        if (ret < 0) {
            SparseError cause = *error;

            sparse_source_fail(reader->source, error, ret, targets[i], "%s", cause.message);
        }
        reader->stats.convert_seconds += sparse_seconds() - decoded;
    }
    reader->stats.pictures_reconstructed +=
        sparse_restart_decoded(reader->restart) - reader->restart_counted;
    reader->restart_counted = sparse_restart_decoded(reader->restart);
    sparse_pool_give_back_converter(reader->pool, &converter);
    free(targets);
    free(next_slot);
    free(first_slot);
    return ret;
}

/* The plan of an item, and the reader's orders when it was made. */
typedef struct Planned {
    SparsePlan *plan; /* NULL when the reader decodes linearly, which may turn out just here */
    unsigned orders;
    atomic_int pixel_format; /* SparseRequest.pixel_format */
} Planned;

static int plan_item(const SparseBatchItem *item, Planned *planned, SparseError *error)
{
    SparseReader *reader = item->reader;
    int ret = 0;

    sparse_plan_free(&planned->plan);
    if (sparse_reader_kind(reader) != SPARSE_READER_LINEAR)
        ret = make_plan(reader, item->indices, item->count, 0, &planned->plan, error);
    if (sparse_reader_kind(reader) == SPARSE_READER_LINEAR)
        sparse_plan_free(&planned->plan);
    planned->orders = reader->orders;
    return ret;
}

/* Plan all items. One may change the order of another's reader, which is then planned again: it
 * isn't begun before all orders are final. */
static int plan_items(const SparseBatchItem *items, size_t count, Planned *planned, size_t *failed,
                      SparseError *error)
{
    int ret = 0, again;

    for (size_t i = 0; i < count; i++) {
        sparse_reader_check_identity(items[i].reader);
        planned[i].orders = items[i].reader->orders - 1;
    }
    do {
        again = 0;
        for (size_t i = 0; i < count && ret >= 0; i++) {
            const SparseLog *previous;

            if (planned[i].orders == items[i].reader->orders)
                continue;
            *failed = i;
            previous = sparse_log_enter(&items[i].reader->log);
            ret = plan_item(&items[i], &planned[i], error);
            sparse_log_leave(previous);
            again = 1;
        }
    } while (again && ret >= 0);
    return ret;
}

int sparse_reader_batch(SparseBatchItem *items, size_t count, int threads, size_t *failed,
                        SparseError *error)
{
    SparseJob *jobs = calloc(count + 1, sizeof(*jobs));
    Planned *planned = calloc(count + 1, sizeof(*planned));
    size_t begun = 0;
    int ret = jobs && planned ? 0 : sparse_fail_memory(error);

    if (ret >= 0)
        ret = plan_items(items, count, planned, failed, error);
    for (; begun < count && ret >= 0; begun++) {
        const SparseBatchItem *item = &items[begun];
        const SparseRequest request = {
            .indices = item->indices,
            .targets = item->targets,
            .count = item->count,
            .format = item->format,
            .width = item->width,
            .height = item->height,
            .transform = &item->reader->transform,
            .pixel_format = &planned[begun].pixel_format,
        };
        const SparseLog *previous = sparse_log_enter(&item->reader->log);

        atomic_init(&planned[begun].pixel_format, AV_PIX_FMT_NONE);
        *failed = begun;
        ret = sparse_job_begin(&jobs[begun], item->reader, planned[begun].plan, &request, error);
        sparse_log_leave(previous);
    }
    if (ret >= 0)
        ret = sparse_work(jobs, count, threads, failed, error);
    for (size_t i = 0; i < count && ret >= 0; i++) {
        *failed = i;
        ret = check_source(items[i].reader, error);
    }
    for (size_t i = 0; i < begun; i++) {
        const SparsePlan *plan = planned[i].plan;

        sparse_job_end(&jobs[i]);
        if (plan && plan->target_count)
            items[i].reader->answered_to = plan->targets[plan->target_count - 1];
        if (ret >= 0) {
            items[i].reader->stats.requests++;
            items[i].reader->stats.frames_returned += (int64_t)items[i].count;
        }
    }
    for (size_t i = 0; planned && i < count; i++)
        sparse_plan_free(&planned[i].plan);
    free(jobs);
    free(planned);
    return ret;
}

int sparse_reader_frames(SparseReader *reader, const int64_t *indices, size_t count, int format,
                         const SparseTarget *targets, int width, int height, SparseError *error)
{
    SparseBatchItem item = {
        .reader = reader,
        .indices = indices,
        .targets = targets,
        .count = count,
        .format = format,
        .width = width,
        .height = height,
    };
    size_t failed;

    return sparse_reader_batch(&item, 1, reader->threads, &failed, error);
}
