/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * From targets to the pictures to reconstruct. Pure: no FFmpeg, no files.
 */
#ifndef SPARSE_PLAN_H
#define SPARSE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "sparse.h"

/* The direct references of a picture and what it costs. */
typedef struct SparsePlanNode {
    const int32_t *references; /* earlier in decode order */
    int reference_count;
    int64_t bytes; /* compressed */
} SparsePlanNode;

/* How a plan looks at pictures. The node's array must stay valid until the next
 * call. Failures are handed on. */
typedef int (*SparsePlanLookup)(void *user, int64_t picture, SparsePlanNode *node,
                                SparseError *error);

typedef struct SparsePlanStep {
    int64_t picture;
    size_t last_use;          /* the last step that references this one; itself when none does */
    int part;                 /* steps of different parts don't depend on each other */
    size_t reference_first;   /* into plan->references */
    int reference_count;
} SparsePlanStep;

struct SparsePlan {
    size_t target_count;
    int64_t *targets;        /* distinct display indices, ascending */
    int64_t *target_picture; /* [target_count] */
    size_t step_count;
    SparsePlanStep *steps;   /* in decode order */
    int64_t *reconstruct;    /* [step_count] their pictures */
    size_t *references;      /* steps that are direct references of steps */
    size_t references_count;
    int part_count;
    int64_t bytes;
    int64_t linear_count;    /* set by the caller */
};

/*
 * Make the plan for display indices targets[0..count), distinct and ascending,
 * shown by pictures[0..count): the closure over direct references.
 * *plan is to be freed by sparse_plan_free().
 */
int sparse_plan_make(SparsePlan **plan, const int64_t *targets, const int64_t *pictures,
                     size_t count, SparsePlanLookup lookup, void *user, SparseError *error);

/* The step of a picture, or plan->step_count when it isn't in the plan. */
size_t sparse_plan_find(const SparsePlan *plan, int64_t picture);

/* The first place in ids[0..count), ascending, whose value isn't less than id. */
size_t sparse_lower_bound(const int64_t *ids, size_t count, int64_t id);

/* The first target in display order whose closure holds the step, or -1. */
int64_t sparse_plan_dependent(const SparsePlan *plan, size_t step);

#endif /* SPARSE_PLAN_H */
