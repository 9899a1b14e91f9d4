/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "av1_job.h"

#include <stdlib.h>
#include <string.h>

#include "work.h"

/* What is to be done with a step. */
enum { LEAVE = 0, DECODE = 1, IS_THERE = 2 };

struct SparseAv1Job {
    SparseReader *reader;
    const SparsePlan *plan;
    const SparseRequest *request;

    size_t *slot_of_step; /* [step_count] first of a chain of slots, or SPARSE_NO_SLOT */
    size_t *next_slot;    /* [request->count] */
    size_t *part_steps;   /* [step_count] steps, grouped by part */
    size_t *part_first;   /* [part_count + 1] */
    unsigned char *todo;  /* [step_count] */
};

/* ---- Setting up ---- */

static void group_steps(SparseAv1Job *job)
{
    const SparsePlan *plan = job->plan;
    size_t first = 0;

    for (size_t i = 0; i < plan->step_count; i++)
        job->part_first[plan->steps[i].part]++;
    for (int part = 0; part <= plan->part_count; part++) {
        size_t count = job->part_first[part];

        job->part_first[part] = first;
        first += count;
    }
    for (size_t i = 0; i < plan->step_count; i++)
        job->part_steps[job->part_first[plan->steps[i].part]++] = i;
    for (int part = plan->part_count; part > 0; part--)
        job->part_first[part] = job->part_first[part - 1];
    job->part_first[0] = 0;
}

static int check_damage(SparseReader *reader, const SparsePlan *plan, SparseError *error)
{
    const size_t count = plan->target_count;
    const int64_t after = atomic_load(&reader->av1_damaged_after);

    if (!count || plan->targets[count - 1] < after)
        return 0;
    return sparse_source_fail(reader->source, error, SPARSE_ERR_DECODE, plan->targets[count - 1],
                              "it comes after damaged data (at frame %lld), where a linear decode "
                              "loses frames: its number is not to be told",
                              (long long)after);
}

int sparse_av1_job_begin(SparseAv1Job **result, SparseReader *reader, const SparsePlan *plan,
                         const SparseRequest *request, SparseError *error)
{
    const size_t steps = plan->step_count, parts = (size_t)plan->part_count;
    const size_t most = SIZE_MAX / 64;
    SparseAv1Job *job;
    int ret = check_damage(reader, plan, error);

    *result = NULL;
    if (ret < 0)
        return ret;
    if (steps > most || request->count > most)
        return sparse_fail_memory(error);
    /* all in one piece */
    job =
        calloc(1, sizeof(*job) + (2 * steps + request->count + parts + 2) * sizeof(size_t) + steps);
    if (!job)
        return sparse_fail_memory(error);
    job->reader = reader;
    job->plan = plan;
    job->request = request;
    job->slot_of_step = (size_t *)(job + 1);
    job->part_steps = job->slot_of_step + steps;
    job->next_slot = job->part_steps + steps;
    job->part_first = job->next_slot + request->count;
    job->todo = (unsigned char *)(job->part_first + parts + 2);
    sparse_request_chain(request, plan, plan->targets, plan->target_count, job->slot_of_step,
                         job->next_slot);
    group_steps(job);
    *result = job;
    return 0;
}

void sparse_av1_job_end(SparseAv1Job **job)
{
    free(*job);
    *job = NULL;
}

/* ---- What has to be decoded ---- */

static int32_t picture_of(const SparseAv1Job *job, size_t step)
{
    return (int32_t)job->plan->steps[step].picture;
}

/* Of a step, whose picture the plan has found. */
static const SparseAv1Frame *frame_of(const SparseAv1Job *job, size_t step)
{
    return sparse_av1_index_frame(job->reader->av1, picture_of(job, step));
}

static int is_wanted(const SparseAv1Job *job, size_t step)
{
    return job->slot_of_step[step] != SPARSE_NO_SLOT;
}

/* How a step with slots is put out: as its first slot has it. */
static SparseAv1Shown shown_of(const SparseAv1Job *job, size_t step)
{
    return sparse_av1_index_shown(job->reader->av1, job->request->indices[job->slot_of_step[step]]);
}

/* Whether a step is put out by an OBU of its own, after it was decoded. */
static int is_shown_later(const SparseAv1Job *job, size_t step)
{
    return !(frame_of(job, step)->flags & SPARSE_AV1_SHOWN);
}

/* 1: the decoder holds, in each slot where the frame wants it, the picture reference. */
static int holds(const SparseAv1Decoder *decoder, const SparseAv1Frame *frame, int32_t reference)
{
    for (int k = 0; k < frame->reference_count; k++)
        if (frame->references[k] == reference)
            for (int slot = 0; slot < SPARSE_AV1_SLOTS; slot++)
                if (frame->reference_slots[k] >> slot & 1 && decoder->slots[slot] != reference)
                    return 0;
    return 1;
}

/* Whether a picture that the decoder has passed can still be delivered. */
static int can_show(const SparseAv1Job *job, const SparseAv1Decoder *decoder, size_t step)
{
    return is_shown_later(job, step) &&
           decoder->slots[shown_of(job, step).slot] == picture_of(job, step);
}

/*
 * Decide what of a part has to be decoded when the decoder goes on from where it is. It can if
 * whatever it has passed, and the rest refers to, stands in the right slots: frames in between
 * don't overwrite them, or a linear decode wouldn't find them there, either.
 * 1, or 0 when it can't.
 */
static int plan_to_go_on(SparseAv1Job *job, const SparseAv1Decoder *decoder, const size_t *steps,
                         size_t count)
{
    const SparsePlan *plan = job->plan;

    if (decoder->at < 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        job->todo[steps[i]] = is_wanted(job, steps[i]) ? DECODE : LEAVE;
    for (size_t i = count; i--;) {
        const SparsePlanStep *step = &plan->steps[steps[i]];

        if (job->todo[steps[i]] == LEAVE)
            continue;
        if (step->picture <= decoder->at) { /* a target, or a reference that is held */
            if (is_wanted(job, steps[i]) && !can_show(job, decoder, steps[i]))
                return 0;
            job->todo[steps[i]] = IS_THERE;
            continue;
        }
        for (int k = 0; k < step->reference_count; k++) {
            size_t reference = plan->references[step->reference_first + (size_t)k];

            if (picture_of(job, reference) <= decoder->at &&
                !holds(decoder, frame_of(job, steps[i]), picture_of(job, reference)))
                return 0;
            job->todo[reference] = DECODE;
        }
    }
    return 1;
}

/* ---- One part ---- */

/* Put the decoder's frame where the step's slots want it. */
static int deliver(const SparseAv1Job *job, const SparseAv1Decoder *decoder,
                   SparseConverter *converter, size_t step, SparseError *error)
{
    const SparseAv1Frame *frame = frame_of(job, step);

    decoder->frame->chroma_location =
        sparse_av1_index_sequence(job->reader->av1, frame->sequence)->chroma_location;
    return sparse_request_fill(job->request, converter, decoder->frame, job->next_slot,
                               job->slot_of_step[step], error);
}

static int take_step(const SparseAv1Job *job, SparseAv1Decoder *decoder, SparseConverter *converter,
                     size_t step, SparseDone *done, SparseError *error)
{
    const int wanted = is_wanted(job, step);
    double start = sparse_seconds(), decoded;
    int ret = 0;

    if (job->todo[step] == DECODE)
        ret = sparse_av1_decoder_decode(decoder, picture_of(job, step), error);
    if (ret >= 0 && wanted && is_shown_later(job, step)) {
        const SparseAv1Shown shown = shown_of(job, step);

        ret = sparse_av1_decoder_show(decoder, &shown, error);
    }
    decoded = sparse_seconds();
    done->decode_seconds += decoded - start;
    if (ret < 0)
        return ret;
    done->reconstructed += job->todo[step] == DECODE;
    done->kept += job->todo[step] == IS_THERE;
    if (wanted) {
        ret = deliver(job, decoder, converter, step, error);
        done->convert_seconds += sparse_seconds() - decoded;
    }
    return ret;
}

/* Remember where damage was met, and name it. */
static int fail(SparseAv1Job *job, int code, size_t step, SparseError *error)
{
    _Atomic int64_t *after = &job->reader->av1_damaged_after;
    int64_t before = frame_of(job, step)->shown_before, known = atomic_load(after);
    SparseError cause = *error;

    if (code == SPARSE_ERR_DECODE)
        while (before < known && !atomic_compare_exchange_weak(after, &known, before)) {
        }
    if (cause.frame >= 0 || code == SPARSE_ERR_SOURCE || code == SPARSE_ERR_MEMORY)
        return code; /* names the file already */
    return sparse_source_fail(job->reader->source, error, code,
                              sparse_plan_dependent(job->plan, step), "%s", cause.message);
}

/* A decoder for the part: of those without threads one of the pool's, else the reader's own. */
static int take_decoder(SparseReader *reader, SparseAv1Decoder **decoder, SparseError *error)
{
    int ret = 0;

    if (reader->dav1d_threads == 1)
        return sparse_pool_av1(reader->pool, &reader->identity, reader->source, reader->av1,
                               decoder, error);
    *decoder = atomic_exchange(&reader->av1_spare, NULL);
    if (!*decoder)
        ret = sparse_av1_decoder_open(decoder, reader->source, reader->dav1d_threads, error);
    if (ret >= 0)
        sparse_av1_decoder_assign(*decoder, &reader->identity, reader->source, reader->av1);
    return ret;
}

static void give_back(SparseReader *reader, SparseAv1Decoder *decoder)
{
    if (reader->dav1d_threads == 1) {
        sparse_pool_give_back_av1(reader->pool, &decoder);
    } else {
        decoder = atomic_exchange(&reader->av1_spare, decoder);
        sparse_av1_decoder_close(&decoder);
    }
}

int sparse_av1_job_part(SparseAv1Job *job, size_t part, SparseConverter *converter,
                        SparseDone *done, SparseError *error)
{
    const size_t *steps = job->part_steps + job->part_first[part];
    const size_t count = job->part_first[part + 1] - job->part_first[part];
    SparseReader *reader = job->reader;
    SparseAv1Decoder *decoder;
    int ret = take_decoder(reader, &decoder, error);

    if (ret < 0)
        return ret;
    if (!plan_to_go_on(job, decoder, steps, count)) {
        sparse_av1_decoder_reset(decoder);
        for (size_t i = 0; i < count; i++)
            job->todo[steps[i]] = DECODE;
    }
    for (size_t i = 0; i < count && ret >= 0; i++) {
        if (job->todo[steps[i]] == LEAVE)
            continue;
        ret = take_step(job, decoder, converter, steps[i], done, error);
        if (ret < 0)
            ret = fail(job, ret, steps[i], error);
    }
    give_back(reader, decoder);
    return ret;
}
