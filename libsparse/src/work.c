/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "work.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/frame.h>

#define NO_SLOT SIZE_MAX

/* One request under way, shared by its threads. */
typedef struct Work {
    SparseReader *reader;
    const SparsePlan *plan;
    const SparseRequest *request;

    size_t *slot_of_step;      /* [step_count] first of a chain of slots, or NO_SLOT */
    size_t *next_slot;         /* [request->count] */
    FFSparsePicture **pictures; /* [step_count] those still needed */
    size_t *part_steps;        /* [step_count] steps, grouped by part */
    size_t *part_first;        /* [part_count + 1] */

    pthread_mutex_t lock; /* of what follows */
    int next_part;
    int code; /* of the first failure */
    SparseError *error;
    int64_t reconstructed;
    double decode_seconds, convert_seconds;
} Work;

/* ---- Into the caller's memory ---- */

static int check_size(const SparseRequest *request, const AVFrame *frame, SparseError *error)
{
    if ((request->width && request->width != frame->width) ||
        (request->height && request->height != frame->height))
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1,
                           "it is %dx%d, not %dx%d as the others: the stream's size changes",
                           frame->width, frame->height, request->width, request->height);
    return 0;
}

static int copy_slot(const SparseRequest *request, const AVFrame *frame, const SparseTarget *from,
                     const SparseTarget *to, SparseError *error)
{
    SparseLayout layout;
    size_t from_step, to_step;
    int ret = sparse_convert_layout(request->format, frame->format, frame->width, frame->height,
                                    &layout, error);

    if (ret >= 0)
        ret = sparse_convert_check(&layout, from, &from_step, error);
    if (ret >= 0)
        ret = sparse_convert_check(&layout, to, &to_step, error);
    if (ret < 0)
        return ret;
    if (request->format == SPARSE_FORMAT_NATIVE) {
        memcpy(to->data, from->data, layout.size);
        return 0;
    }
    for (size_t y = 0; y < (size_t)layout.height; y++)
        memcpy(to->data + y * to_step, from->data + y * from_step, layout.planes[0].row_bytes);
    return 0;
}

int sparse_request_fill(const SparseRequest *request, SparseConverter *converter,
                        const AVFrame *frame, const size_t *next_slot, size_t slot,
                        SparseError *error)
{
    const SparseTarget *done = &request->targets[slot];
    int ret = check_size(request, frame, error);

    if (ret >= 0)
        ret = sparse_convert_frame(converter, frame, request->format, done, error);
    for (slot = next_slot[slot]; ret >= 0 && slot != NO_SLOT; slot = next_slot[slot])
        ret = copy_slot(request, frame, done, &request->targets[slot], error);
    return ret;
}

/* ---- One thread ---- */

static int open_worker(SparseReader *reader, SparseWorker *worker, SparseError *error)
{
    int ret = 0;

    if (!worker->decoder)
        ret = sparse_decoder_open(&worker->decoder, reader->source, error);
    if (ret >= 0 && !worker->converter)
        ret = sparse_converter_create(&worker->converter, error);
    return ret;
}

/* Give the step's picture to the slots that wait for it. */
static int deliver(Work *work, SparseWorker *worker, size_t step, double *seconds,
                   SparseError *error)
{
    double start = sparse_seconds();
    SparsePicture picture;
    AVFrame *frame;
    int ret;

    if (work->slot_of_step[step] == NO_SLOT)
        return 0;
    frame = av_frame_alloc();
    if (!frame)
        return sparse_fail_memory(error);
    ret = ff_sparse_picture_frame(work->pictures[step], frame);
    if (ret < 0)
        ret = sparse_fail(error, sparse_code_from_av(ret, SPARSE_ERR_DECODE), -1,
                          "the picture can't be cropped: %s", av_err2str(ret));
    else
        ret = 0;
    if (sparse_index_picture(work->reader->index, work->plan->steps[step].picture, &picture) &&
        picture.colors.known) {
        frame->color_range = picture.colors.range;
        frame->colorspace = picture.colors.space;
        frame->chroma_location = picture.colors.location;
    }
    if (ret >= 0)
        ret = sparse_request_fill(work->request, worker->converter, frame, work->next_slot,
                                  work->slot_of_step[step], error);
    av_frame_free(&frame);
    *seconds += sparse_seconds() - start;
    return ret;
}

/* The pictures of step's direct references, in the order of its snapshot. */
static void find_references(const Work *work, const SparsePlanStep *step,
                            const FFSparseSnapshot *snapshot, FFSparsePicture **references)
{
    for (int i = 0; i < snapshot->nb_entries; i++) {
        references[i] = NULL;
        for (int k = 0; k < step->reference_count; k++) {
            size_t reference = work->plan->references[step->reference_first + (size_t)k];

            if (work->plan->steps[reference].picture == snapshot->entries[i].id)
                references[i] = work->pictures[reference];
        }
    }
}

static int take_step(Work *work, SparseWorker *worker, size_t i, double *decode, double *convert,
                     SparseError *error)
{
    FFSparsePicture *references[FF_SPARSE_MAX_ENTRIES];
    const SparsePlanStep *step = &work->plan->steps[i];
    const SparseIndex *index = work->reader->index;
    FFSparseSnapshot snapshot;
    SparsePicture picture;
    double start = sparse_seconds();
    int ret;

    if (!sparse_index_picture(index, step->picture, &picture))
        return sparse_fail(error, SPARSE_ERR_DECODE, -1, "packet %lld holds no picture",
                           (long long)step->picture);
    sparse_index_snapshot(index, step->picture, &snapshot);
    find_references(work, step, &snapshot, references);
    ret = sparse_decoder_reconstruct(worker->decoder, &snapshot, references, step->picture,
                                     picture.last_packet, &work->pictures[i], error);
    *decode += sparse_seconds() - start;
    if (ret < 0)
        sparse_decoder_close(&worker->decoder); /* no later picture may feel what went wrong */
    if (ret >= 0)
        ret = deliver(work, worker, i, convert, error);

    /* What nobody references later is no longer needed. */
    for (int k = 0; k < step->reference_count; k++) {
        size_t reference = work->plan->references[step->reference_first + (size_t)k];

        if (work->plan->steps[reference].last_use == i)
            ff_sparse_picture_unref(&work->pictures[reference]);
    }
    if (step->last_use == i)
        ff_sparse_picture_unref(&work->pictures[i]);
    return ret;
}

static void fail_work(Work *work, int code, size_t step, const SparseError *error)
{
    pthread_mutex_lock(&work->lock);
    if (!work->code) {
        int64_t frame =
            step < work->plan->step_count ? sparse_plan_dependent(work->plan, step) : -1;

        work->code = code;
        if (error->frame >= 0 || code == SPARSE_ERR_SOURCE || code == SPARSE_ERR_MEMORY)
            *work->error = *error; /* names the file already */
        else
            sparse_source_fail(work->reader->source, work->error, code, frame, "%s",
                               error->message);
    }
    pthread_mutex_unlock(&work->lock);
}

/* Take parts until none is left or something failed. */
static void work_through(Work *work, SparseWorker *worker)
{
    double decode = 0, convert = 0;
    int64_t reconstructed = 0;
    SparseError error;
    int ret;

    sparse_error_clear(&error);
    ret = open_worker(work->reader, worker, &error);
    if (ret < 0)
        fail_work(work, ret, work->plan->step_count, &error);

    for (;;) {
        int part;

        pthread_mutex_lock(&work->lock);
        part = work->code ? work->plan->part_count : work->next_part++;
        pthread_mutex_unlock(&work->lock);
        if (part >= work->plan->part_count)
            break;
        for (size_t i = work->part_first[part]; i < work->part_first[part + 1]; i++) {
            ret = take_step(work, worker, work->part_steps[i], &decode, &convert, &error);
            if (ret < 0) {
                fail_work(work, ret, work->part_steps[i], &error);
                break;
            }
            reconstructed++;
        }
    }

    pthread_mutex_lock(&work->lock);
    work->reconstructed += reconstructed;
    work->decode_seconds += decode;
    work->convert_seconds += convert;
    pthread_mutex_unlock(&work->lock);
}

typedef struct Helper {
    Work *work;
    SparseWorker *worker;
    pthread_t thread;
} Helper;

static void *help(void *user)
{
    Helper *helper = user;
    const SparseLog *previous = sparse_log_enter(&helper->work->reader->log);

    work_through(helper->work, helper->worker);
    sparse_log_leave(previous);
    return NULL;
}

/* ---- The request ---- */

static void chain_slots(Work *work)
{
    const SparseRequest *request = work->request;
    const SparsePlan *plan = work->plan;

    for (size_t i = 0; i < plan->step_count; i++)
        work->slot_of_step[i] = NO_SLOT;
    for (size_t slot = request->count; slot--;) {
        size_t target =
            sparse_lower_bound(plan->targets, plan->target_count, request->indices[slot]);
        size_t step = sparse_plan_find(plan, plan->target_picture[target]);

        work->next_slot[slot] = work->slot_of_step[step];
        work->slot_of_step[step] = slot;
    }
}

static void group_steps(Work *work)
{
    const SparsePlan *plan = work->plan;
    size_t first = 0;

    for (size_t i = 0; i < plan->step_count; i++)
        work->part_first[plan->steps[i].part]++;
    for (int part = 0; part <= plan->part_count; part++) {
        size_t count = work->part_first[part];

        work->part_first[part] = first;
        first += count;
    }
    for (size_t i = 0; i < plan->step_count; i++)
        work->part_steps[work->part_first[plan->steps[i].part]++] = i;
    for (int part = plan->part_count; part > 0; part--)
        work->part_first[part] = work->part_first[part - 1];
    work->part_first[0] = 0;
}

int sparse_work(SparseReader *reader, const SparsePlan *plan, const SparseRequest *request,
                SparseError *error)
{
    Work work = {.reader = reader, .plan = plan, .request = request, .error = error};
    Helper helpers[SPARSE_MAX_THREADS];
    int wanted = reader->threads < plan->part_count ? reader->threads : plan->part_count;
    int started = 0;

    if (pthread_mutex_init(&work.lock, NULL))
        return sparse_fail_memory(error);
    work.slot_of_step = malloc((plan->step_count + 1) * sizeof(*work.slot_of_step));
    work.next_slot = malloc((request->count + 1) * sizeof(*work.next_slot));
    work.pictures = calloc(plan->step_count + 1, sizeof(FFSparsePicture *));
    work.part_steps = malloc((plan->step_count + 1) * sizeof(*work.part_steps));
    work.part_first = calloc((size_t)plan->part_count + 2, sizeof(*work.part_first));
    if (!work.slot_of_step || !work.next_slot || !work.pictures || !work.part_steps ||
        !work.part_first) {
        work.code = sparse_fail_memory(error);
        goto done;
    }
    chain_slots(&work);
    group_steps(&work);

    for (int i = 1; i < wanted; i++) {
        Helper *helper = &helpers[started];

        helper->work = &work;
        helper->worker = &reader->workers[i];
        if (pthread_create(&helper->thread, NULL, help, helper))
            break; /* fewer do it, too */
        started++;
    }
    work_through(&work, &reader->workers[0]);
    for (int i = 0; i < started; i++)
        pthread_join(helpers[i].thread, NULL);

    reader->stats.pictures_reconstructed += work.reconstructed;
    reader->stats.decode_seconds += work.decode_seconds;
    reader->stats.convert_seconds += work.convert_seconds;

done:
    if (work.pictures)
        for (size_t i = 0; i < plan->step_count; i++)
            ff_sparse_picture_unref(&work.pictures[i]);
    free(work.slot_of_step);
    free(work.next_slot);
    free(work.pictures);
    free(work.part_steps);
    free(work.part_first);
    pthread_mutex_destroy(&work.lock);
    return work.code;
}
