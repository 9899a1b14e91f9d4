/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "job.h"

#include <stdlib.h>
#include <string.h>

#include "av1_job.h"

/* ---- Steps that can be taken ---- */

static void push_ready(SparseJob *job, size_t step)
{
    size_t i = job->ready_count++;

    while (i && job->ready[(i - 1) / 2] > step) {
        job->ready[i] = job->ready[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    job->ready[i] = step;
}

size_t sparse_job_take(SparseJob *job)
{
    size_t top = job->ready[0], last = job->ready[--job->ready_count], i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= job->ready_count)
            break;
        if (child + 1 < job->ready_count && job->ready[child + 1] < job->ready[child])
            child++;
        if (last <= job->ready[child])
            break;
        job->ready[i] = job->ready[child];
        i = child;
    }
    job->ready[i] = last;
    return top;
}

/* ---- Setting up ---- */

static const size_t *references_of(const SparseJob *job, size_t step)
{
    const size_t *all = job->plan->references; /* NULL when there are none */

    return all ? all + job->plan->steps[step].reference_first : NULL;
}

/* All arrays in one piece of memory. */
static int allocate(SparseJob *job, SparseError *error)
{
    const size_t steps = job->plan->step_count, slots = job->request.count;
    const size_t references = job->plan->references_count;
    const size_t most = SIZE_MAX / 128;
    size_t *sizes;

    if (steps > most || slots > most || references > most)
        return sparse_fail_memory(error);
    job->memory = calloc(1, steps * sizeof(FFSparsePicture *) +
                                (3 * steps + 2 + slots + references) * sizeof(size_t) +
                                2 * steps * sizeof(int32_t) + 2 * steps);
    if (!job->memory)
        return sparse_fail_memory(error);
    job->pictures = job->memory;
    sizes = (size_t *)(job->pictures + steps);
    job->slot_of_step = sizes;
    job->ready = job->slot_of_step + steps;
    job->user_first = job->ready + steps;
    job->next_slot = job->user_first + steps + 2;
    job->users = job->next_slot + slots;
    job->waiting = (int32_t *)(job->users + references);
    job->uses = job->waiting + steps;
    job->states = (unsigned char *)(job->uses + steps);
    job->keeps = job->states + steps;
    return 0;
}

void sparse_request_chain(const SparseRequest *request, const SparsePlan *plan,
                          const int64_t *targets, size_t count, size_t *first, size_t *next)
{
    const size_t places = plan ? plan->step_count : count;

    for (size_t i = 0; i < places; i++)
        first[i] = SPARSE_NO_SLOT;
    for (size_t slot = request->count; slot--;) {
        size_t place = sparse_lower_bound(targets, count, request->indices[slot]);

        if (plan)
            place = sparse_plan_find(plan, plan->target_picture[place]);
        next[slot] = first[place];
        first[place] = slot;
    }
}

/* What a kept picture depends on need not be there. */
static void find_wanted(SparseJob *job)
{
    for (size_t i = job->plan->step_count; i--;) {
        const size_t *references = references_of(job, i);

        if (job->slot_of_step[i] == SPARSE_NO_SLOT && !job->states[i])
            continue;
        job->states[i] = SPARSE_STEP_WANTED;
        job->pictures[i] = sparse_reader_kept(job->reader, job->plan->steps[i].picture);
        if (job->pictures[i]) {
            job->states[i] = SPARSE_STEP_KEPT;
            job->kept++;
            continue;
        }
        for (int k = 0; k < job->plan->steps[i].reference_count; k++)
            job->states[references[k]] = SPARSE_STEP_WANTED;
    }
}

static void count_uses(SparseJob *job)
{
    const size_t steps = job->plan->step_count;

    for (size_t i = 0; i < steps; i++) {
        const size_t *references = references_of(job, i);
        int delivered = job->slot_of_step[i] != SPARSE_NO_SLOT;

        job->uses[i] += delivered;
        if (job->states[i] == SPARSE_STEP_WANTED)
            for (int k = 0; k < job->plan->steps[i].reference_count; k++) {
                job->uses[references[k]]++;
                job->waiting[i] += job->states[references[k]] == SPARSE_STEP_WANTED;
                job->user_first[references[k] + 2]++;
            }
        if (job->states[i] == SPARSE_STEP_WANTED ||
            (job->states[i] == SPARSE_STEP_KEPT && delivered)) {
            job->left++;
            if (!job->waiting[i])
                push_ready(job, i);
        }
    }
    /* a step's users stand behind those of the steps before it */
    for (size_t i = 2; i < steps + 2; i++)
        job->user_first[i] += job->user_first[i - 1];
    for (size_t i = 0; i < steps; i++)
        if (job->states[i] == SPARSE_STEP_WANTED)
            for (int k = 0; k < job->plan->steps[i].reference_count; k++)
                job->users[job->user_first[references_of(job, i)[k] + 1]++] = i;
}

/*
 * Which pictures may be worth keeping. One that is kept takes its memory from those that decoders
 * use again and again: the next ones are written to other memory, outside of the processor's
 * cache, at a tenth of their time. A reader's first request is often its last, so of that only the
 * anchors are kept, and what the last picture of the request leaves as references: from there
 * a reader goes on that takes one piece after the other. Of its further pieces no more is kept, and
 * what only the piece before has left for this one goes with it.
 */
static void choose_kept(SparseJob *job)
{
    const SparsePlan *plan = job->plan;
    const SparseReader *reader = job->reader;
    const SparseIndex *index = reader->index;
    const int reads_on = reader->answered_to >= 0 && plan->target_count &&
                         plan->targets[0] == reader->answered_to + 1;
    const int all = reader->answered_to >= 0 && plan->target_count && !reads_on;
    size_t last = plan->step_count;
    FFSparseSnapshot snapshot;
    SparsePicture picture;

    if (!sparse_reader_keeps(job->reader))
        return;
    for (size_t i = 0; i < plan->step_count; i++) {
        if (job->states[i] != SPARSE_STEP_WANTED)
            continue;
        last = i;
        job->keeps[i] = all || (sparse_index_picture(index, plan->steps[i].picture, &picture) &&
                                picture.flags & FF_SPARSE_REPORT_INTRA);
    }
    if (last == plan->step_count)
        return;
    job->keeps[last] = 1;
    sparse_index_snapshot(index, plan->steps[last].picture, &snapshot);
    for (int k = 0; k < snapshot.nb_entries; k++) {
        size_t i = snapshot.entries[k].id < 0 ? plan->step_count
                                              : sparse_plan_find(plan, snapshot.entries[k].id);

        if (i < plan->step_count)
            job->keeps[i] = 1;
    }
    job->reads_on = reads_on;
}

static void forget_passed(const SparseJob *job)
{
    for (size_t i = 0; job->reads_on && i < job->plan->step_count; i++)
        if (job->states[i] == SPARSE_STEP_KEPT && !job->keeps[i])
            sparse_reader_forget(job->reader, job->plan->steps[i].picture);
}

/* Only so many steps that depend on nothing. */
static int begin_simple(SparseJob *job, size_t steps, SparseError *error)
{
    job->memory = calloc(steps + 1, sizeof(size_t));
    if (!job->memory)
        return sparse_fail_memory(error);
    job->left = steps;
    job->ready = job->memory;
    for (size_t step = 0; step < steps; step++)
        push_ready(job, step);
    return 0;
}

static int begin_steps(SparseJob *job, SparseError *error)
{
    const SparsePlan *plan = job->plan;
    int ret = allocate(job, error);

    if (ret < 0)
        return ret;
    sparse_request_chain(&job->request, plan, plan->targets, plan->target_count, job->slot_of_step,
                         job->next_slot);
    find_wanted(job);
    choose_kept(job);
    count_uses(job);
    return 0;
}

int sparse_job_begin(SparseJob *job, SparseReader *reader, const SparsePlan *plan,
                     const SparseRequest *request, SparseError *error)
{
    int ret;

    *job = (SparseJob){
        .reader = reader,
        .plan = plan,
        .request = *request,
        .kind = sparse_reader_kind(reader),
    };
    switch (job->kind) {
    case SPARSE_READER_LINEAR: return begin_simple(job, 1, error);
    case SPARSE_READER_HEADERS:
        ret = sparse_av1_job_begin(&job->av1, reader, plan, &job->request, error);
        return ret < 0 ? ret : begin_simple(job, (size_t)plan->part_count, error);
    case SPARSE_READER_STATES: break;
    }
    return begin_steps(job, error);
}

void sparse_job_end(SparseJob *job)
{
    forget_passed(job);
    if (job->plan && job->pictures)
        for (size_t i = 0; i < job->plan->step_count; i++)
            ff_sparse_picture_unref(&job->pictures[i]);
    sparse_av1_job_end(&job->av1);
    free(job->memory);
    job->memory = NULL;
    job->pictures = NULL;
}

/* ---- Going on ---- */

static void drop_use(SparseJob *job, size_t step)
{
    if (--job->uses[step] == 0)
        ff_sparse_picture_unref(&job->pictures[step]);
}

void sparse_job_done(SparseJob *job, size_t step)
{
    const size_t *references = references_of(job, step);

    for (size_t i = job->user_first[step]; i < job->user_first[step + 1]; i++)
        if (--job->waiting[job->users[i]] == 0)
            push_ready(job, job->users[i]);
    for (int k = 0; k < job->plan->steps[step].reference_count; k++)
        drop_use(job, references[k]);
}

void sparse_job_delivered(SparseJob *job, size_t step)
{
    drop_use(job, step);
}
