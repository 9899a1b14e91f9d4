/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "work.h"

#include <pthread.h>
#include <string.h>

#include <libavutil/frame.h>
#include <libavutil/pixdesc.h>

#include "av1_job.h"

/* All jobs of one call, shared by its threads. */
typedef struct Work {
    SparseJob *jobs;
    size_t count;
    int threads; /* at most */

    pthread_mutex_t lock; /* of what follows, and of the jobs' bookkeeping */
    pthread_cond_t change;
    size_t left; /* jobs that aren't finished */
    size_t ready; /* steps that can be taken */
    int idle;     /* threads that wait for such */
    int code;     /* of the first failure */
    size_t failed;
    SparseError *error;
    pthread_t helpers[SPARSE_MAX_THREADS];
    int started;
} Work;

/* What one thread needs to reconstruct and convert. */
typedef struct Worker {
    Work *work;
    SparseJob *job; /* that it took the last step of */
    SparseDecoder *decoder;
    SparseConverter *converter;
    AVFrame *frame;
} Worker;

/* ---- Into the caller's memory ---- */

/* Targets of one size are of one layout, of which only the size is known here. */
static int check_layout(const SparseRequest *request, const AVFrame *frame,
                        const SparseLayout *layout, SparseError *error)
{
    int first = AV_PIX_FMT_NONE;

    if ((request->width && request->width != layout->width) ||
        (request->height && request->height != layout->height))
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1,
                           "it is %dx%d, not %dx%d as the others: the stream's size changes",
                           layout->width, layout->height, request->width, request->height);
    if (layout->format == SPARSE_FORMAT_NATIVE && (request->width || request->height) &&
        !atomic_compare_exchange_strong(request->pixel_format, &first, frame->format) &&
        first != frame->format)
        return sparse_fail(
            error, SPARSE_ERR_UNSUPPORTED, -1,
            "its samples are %s, not %s as others of the request: the stream's pixel "
            "format changes",
            layout->pixel_format, av_get_pix_fmt_name(first));
    return 0;
}

static int copy_slot(const SparseLayout *layout, const SparseTarget *from, const SparseTarget *to,
                     SparseError *error)
{
    const size_t planes = layout->format == SPARSE_FORMAT_RGB24_PLANAR ? 3 : 1;
    size_t from_step, to_step, from_plane, to_plane;
    int ret = sparse_convert_check(layout, from, &from_step, error);

    if (ret >= 0)
        ret = sparse_convert_check(layout, to, &to_step, error);
    if (ret < 0)
        return ret;
    if (layout->format == SPARSE_FORMAT_NATIVE) {
        memcpy(to->data, from->data, layout->size);
        return 0;
    }
    from_plane = sparse_convert_plane_step(layout, from, from_step);
    to_plane = sparse_convert_plane_step(layout, to, to_step);
    for (size_t p = 0; p < planes; p++)
        for (size_t y = 0; y < (size_t)layout->height; y++)
            memcpy(to->data + p * to_plane + y * to_step,
                   from->data + p * from_plane + y * from_step, layout->planes[0].row_bytes);
    return 0;
}

int sparse_request_fill(const SparseRequest *request, SparseConverter *converter,
                        const AVFrame *frame, const size_t *next_slot, size_t slot,
                        SparseError *error)
{
    const SparseTarget *done = &request->targets[slot];
    SparseLayout layout;
    int ret = sparse_convert_layout(request->format, frame->format, frame->width, frame->height,
                                    request->transform, &layout, error);

    if (ret >= 0)
        ret = check_layout(request, frame, &layout, error);
    if (ret >= 0)
        ret = sparse_convert_frame(converter, frame, request->format, request->transform, done,
                                   error);
    for (slot = next_slot[slot]; ret >= 0 && slot != SPARSE_NO_SLOT; slot = next_slot[slot])
        ret = copy_slot(&layout, done, &request->targets[slot], error);
    return ret;
}

/* ---- One step ---- */

static int equip(Worker *worker, SparseError *error)
{
    SparseReader *reader = worker->job->reader;
    int ret = 0;

    if (!worker->decoder)
        ret = sparse_pool_decoder(reader->pool, reader->source, &worker->decoder, error);
    if (ret >= 0 && !worker->frame) {
        worker->frame = av_frame_alloc();
        if (!worker->frame)
            ret = sparse_fail_memory(error);
    }
    return ret;
}

/* Have the worker hold a converter. */
static int take_converter(Worker *worker, SparseError *error)
{
    return worker->converter
               ? 0
               : sparse_pool_converter(worker->job->reader->pool, &worker->converter, error);
}

/* Give the step's picture, which worker->frame shows, to the slots that wait for it. */
static int deliver(Worker *worker, size_t step, double *seconds, SparseError *error)
{
    double start = sparse_seconds();
    SparseJob *job = worker->job;
    AVFrame *frame = worker->frame;
    SparsePicture picture;
    int ret = take_converter(worker, error);

    if (sparse_index_picture(job->reader->index, job->plan->steps[step].picture, &picture) &&
        picture.colors.known) {
        frame->color_range = picture.colors.range;
        frame->colorspace = picture.colors.space;
        frame->chroma_location = picture.colors.location;
    }
    if (ret >= 0)
        ret = sparse_request_fill(&job->request, worker->converter, frame, job->next_slot,
                                  job->slot_of_step[step], error);
    *seconds += sparse_seconds() - start;
    return ret;
}

/* Have worker->frame show the step's picture. */
static int show(Worker *worker, size_t step, SparseError *error)
{
    int ret = ff_sparse_picture_frame(worker->job->pictures[step], worker->frame);

    if (ret < 0)
        return sparse_fail(error, sparse_code_from_av(ret, SPARSE_ERR_DECODE), -1,
                           "the picture can't be cropped: %s", av_err2str(ret));
    return 0;
}

static int is_direct_reference(const SparseJob *job, const SparsePlanStep *step, int64_t picture,
                               size_t *reference)
{
    for (int k = 0; k < step->reference_count; k++) {
        *reference = job->plan->references[step->reference_first + (size_t)k];
        if (job->plan->steps[*reference].picture == picture)
            return 1;
    }
    return 0;
}

static int reconstruct(Worker *worker, size_t i, double *seconds, SparseError *error)
{
    FFSparsePicture *references[FF_SPARSE_MAX_ENTRIES];
    SparseJob *job = worker->job;
    const SparseIndex *index = job->reader->index;
    const SparsePlanStep *step = &job->plan->steps[i];
    FFSparseSnapshot snapshot;
    SparsePicture picture;
    double start = sparse_seconds();
    size_t reference;
    int ret;

    if (!sparse_index_picture(index, step->picture, &picture))
        return sparse_fail(error, SPARSE_ERR_DECODE, -1, "packet %lld holds no picture",
                           (long long)step->picture);
    sparse_index_snapshot(index, step->picture, &snapshot);
    for (int k = 0; k < snapshot.nb_entries; k++)
        references[k] = is_direct_reference(job, step, snapshot.entries[k].id, &reference)
                            ? job->pictures[reference]
                            : NULL;
    ret = sparse_decoder_reconstruct(worker->decoder, &snapshot, references, step->picture,
                                     picture.last_packet, &job->pictures[i], error);
    *seconds += sparse_seconds() - start;
    return ret;
}

/* ---- Threads ---- */

static void *help(void *user);

/* There are so many more steps than the caller is about to take itself. The lock is held. */
static void offer(Work *work, size_t surplus)
{
    if (surplus && work->idle)
        pthread_cond_broadcast(&work->change);
    for (size_t i = (size_t)work->idle; i < surplus && work->started + 1 < work->threads; i++) {
        if (pthread_create(&work->helpers[work->started], NULL, help, work))
            work->threads = work->started + 1; /* fewer do it, too */
        else
            work->started++;
    }
}

/*
 * Take a step of a job of SPARSE_READER_STATES. Steps that depend on the picture are offered to
 * others before it is converted.
 */
static int take_picture(Worker *worker, size_t i, SparseDone *done, SparseError *error)
{
    double *decode = &done->decode_seconds, *convert = &done->convert_seconds;
    Work *work = worker->work;
    SparseJob *job = worker->job;
    int wanted, shown, ret;

    wanted = job->states[i] == SPARSE_STEP_WANTED;
    shown = job->slot_of_step[i] != SPARSE_NO_SLOT;

    ret = equip(worker, error);
    if (ret >= 0 && wanted)
        ret = reconstruct(worker, i, decode, error);
    if (ret >= 0 && (shown || job->keeps[i]))
        ret = show(worker, i, error);
    if (ret >= 0 && wanted) {
        size_t ready;

        if (job->keeps[i])
            sparse_reader_keep(job->reader, worker->decoder, job->plan->steps[i].picture,
                               job->pictures[i], worker->frame);
        pthread_mutex_lock(&work->lock);
        ready = job->ready_count;
        sparse_job_done(job, i);
        work->ready += job->ready_count - ready;
        ready = work->ready;
        offer(work, shown || !ready ? ready : ready - 1);
        pthread_mutex_unlock(&work->lock);
    }
    if (ret >= 0 && shown)
        ret = deliver(worker, i, convert, error);
    if (worker->frame)
        av_frame_unref(worker->frame);
    return ret;
}

/* Take a step of the worker's job. */
static int take_step(Worker *worker, size_t i, SparseDone *done, SparseError *error)
{
    SparseJob *job = worker->job;
    int ret;

    switch (job->kind) {
    case SPARSE_READER_LINEAR:
        return sparse_reader_frames_linear(job->reader, &job->request, error);
    case SPARSE_READER_HEADERS:
        ret = take_converter(worker, error);
        return ret < 0 ? ret : sparse_av1_job_part(job->av1, i, worker->converter, done, error);
    case SPARSE_READER_STATES: break;
    }
    return take_picture(worker, i, done, error);
}

/* Whether a job has a step that can be taken now. The lock is held. */
static int can_be_taken(const SparseJob *job)
{
    return job->ready_count && !job->reader->busy;
}

/* The job to go on with: the same one as long as it has something to do, else that in the
 * fewest hands. NULL: nothing can be done at the moment. The lock is held. */
static SparseJob *choose_job(Work *work, SparseJob *job)
{
    SparseJob *best = NULL;

    if (job && can_be_taken(job))
        return job;
    for (size_t i = 0; i < work->count; i++)
        if (can_be_taken(&work->jobs[i]) && (!best || work->jobs[i].workers < best->workers))
            best = &work->jobs[i];
    return best;
}

/* Make a job the worker's own. The lock is held. */
static void change_job(Worker *worker, SparseJob *job)
{
    if (worker->job)
        worker->job->workers--;
    worker->job = job;
    if (job)
        job->workers++;
}

static void fail(Work *work, const SparseJob *job, int code, size_t step, const SparseError *error)
{
    if (work->code)
        return;
    work->code = code;
    work->failed = (size_t)(job - work->jobs);
    if (job->kind != SPARSE_READER_STATES || error->frame >= 0 || code == SPARSE_ERR_SOURCE ||
        code == SPARSE_ERR_MEMORY)
        *work->error = *error; /* names the file already */
    else
        sparse_source_fail(job->reader->source, work->error, code,
                           sparse_plan_dependent(job->plan, step), "%s", error->message);
}

/* Note what became of a step. The lock is held. */
static void finish_step(Work *work, SparseJob *job, size_t step, const SparseDone *done, int ret,
                        const SparseError *error)
{
    if (job->reader->busy) {
        job->reader->busy = 0;
        pthread_cond_broadcast(&work->change); /* another of its jobs may be taken */
    }
    job->decode_seconds += done->decode_seconds;
    job->convert_seconds += done->convert_seconds;
    job->reconstructed += done->reconstructed;
    job->kept += done->kept;
    if (ret < 0) {
        fail(work, job, ret, step, error);
    } else if (job->kind == SPARSE_READER_STATES) {
        job->reconstructed += job->states[step] == SPARSE_STEP_WANTED;
        if (job->slot_of_step[step] != SPARSE_NO_SLOT)
            sparse_job_delivered(job, step);
    }
    if (--job->left == 0)
        work->left--;
    if (!work->left || work->code)
        pthread_cond_broadcast(&work->change);
}

/* Give back what the worker has from a pool. */
static void give_back(Worker *worker, SparsePool *pool)
{
    sparse_pool_give_back(pool, &worker->decoder);
    sparse_pool_give_back_converter(pool, &worker->converter);
}

/* Take steps until none is left or something failed. */
static void work_through(Work *work)
{
    const SparseLog *previous = sparse_log_enter(NULL);
    Worker worker = {.work = work};

    pthread_mutex_lock(&work->lock);
    while (work->left && !work->code) {
        SparseJob *job = choose_job(work, worker.job);
        SparsePool *pool = worker.job ? worker.job->reader->pool : NULL;
        SparseDone done = {0};
        SparseError error;
        size_t step;
        int ret, other;

        if (!job) {
            work->idle++;
            pthread_cond_wait(&work->change, &work->lock);
            work->idle--;
            continue;
        }
        other = !worker.job || worker.job->reader != job->reader;
        change_job(&worker, job);
        step = sparse_job_take(job);
        job->reader->busy = job->kind == SPARSE_READER_LINEAR;
        work->ready--;
        pthread_mutex_unlock(&work->lock);

        if (other) {
            if (pool)
                give_back(&worker, pool);
            sparse_log_enter(&job->reader->log);
        }
        sparse_error_clear(&error);
        ret = take_step(&worker, step, &done, &error);

        pthread_mutex_lock(&work->lock);
        finish_step(work, job, step, &done, ret, &error);
    }
    pthread_mutex_unlock(&work->lock);

    if (worker.job)
        give_back(&worker, worker.job->reader->pool);
    av_frame_free(&worker.frame);
    sparse_log_leave(previous);
}

static void *help(void *user)
{
    work_through(user);
    return NULL;
}

int sparse_work(SparseJob *jobs, size_t count, int threads, size_t *failed, SparseError *error)
{
    Work work = {.jobs = jobs, .count = count, .threads = threads, .error = error};

    if (pthread_mutex_init(&work.lock, NULL))
        return sparse_fail_memory(error);
    if (pthread_cond_init(&work.change, NULL)) {
        pthread_mutex_destroy(&work.lock);
        return sparse_fail_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        work.left += jobs[i].left > 0;
        work.ready += jobs[i].ready_count;
    }
    pthread_mutex_lock(&work.lock);
    offer(&work, work.ready ? work.ready - 1 : 0);
    pthread_mutex_unlock(&work.lock);
    work_through(&work);
    /* nobody starts helpers any more */
    for (int i = 0; i < work.started; i++)
        pthread_join(work.helpers[i], NULL);

    for (size_t i = 0; i < count; i++) {
        SparseStats *stats = &jobs[i].reader->stats;

        stats->pictures_reconstructed += jobs[i].reconstructed;
        stats->pictures_from_cache += jobs[i].kept;
        stats->decode_seconds += jobs[i].decode_seconds;
        stats->convert_seconds += jobs[i].convert_seconds;
    }
    pthread_cond_destroy(&work.change);
    pthread_mutex_destroy(&work.lock);
    *failed = work.failed;
    return work.code;
}
