/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"

/* A growing array of picture ids. */
typedef struct IdList {
    int64_t *ids;
    size_t count, capacity;
} IdList;

static int append(IdList *list, int64_t id, SparseError *error)
{
    int ret =
        sparse_array_grow(&list->ids, &list->capacity, list->count + 1, sizeof(*list->ids), error);

    if (ret < 0)
        return ret;
    list->ids[list->count++] = id;
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void sort_unique(IdList *list)
{
    size_t kept = 0;

    if (list->count)
        qsort(list->ids, list->count, sizeof(*list->ids), compare_ids);
    for (size_t i = 0; i < list->count; i++)
        if (!kept || list->ids[kept - 1] != list->ids[i])
            list->ids[kept++] = list->ids[i];
    list->count = kept;
}

/* A heap with the latest picture on top. */
static int heap_push(IdList *heap, int64_t id, SparseError *error)
{
    size_t i = heap->count;
    int ret = append(heap, id, error);

    if (ret < 0)
        return ret;
    for (int64_t *ids = heap->ids; i && ids[(i - 1) / 2] < ids[i]; i = (i - 1) / 2) {
        int64_t parent = ids[(i - 1) / 2];

        ids[(i - 1) / 2] = ids[i];
        ids[i] = parent;
    }
    return 0;
}

static int64_t heap_pop(IdList *heap)
{
    int64_t *ids = heap->ids, top = ids[0];
    size_t count = --heap->count, i = 0;

    ids[0] = ids[count];
    for (;;) {
        size_t child = 2 * i + 1;
        int64_t id;

        if (child >= count)
            break;
        if (child + 1 < count && ids[child + 1] > ids[child])
            child++;
        if (ids[i] >= ids[child])
            break;
        id = ids[i];
        ids[i] = ids[child];
        ids[child] = id;
        i = child;
    }
    return top;
}

/*
 * The pictures and all that they depend on. References come earlier in decode
 * order, so pictures are settled from the latest to the earliest: each is
 * looked at once.
 */
static int find_closure(IdList *closure, const int64_t *pictures, size_t count,
                        SparsePlanLookup lookup, void *user, SparseError *error)
{
    IdList heap = {NULL, 0, 0};
    int64_t previous = -1;
    int ret = 0;

    for (size_t i = 0; i < count && ret >= 0; i++)
        ret = heap_push(&heap, pictures[i], error);
    while (ret >= 0 && heap.count) {
        int64_t picture = heap_pop(&heap);
        SparsePlanNode node;

        if (picture == previous)
            continue;
        previous = picture;
        ret = append(closure, picture, error);
        if (ret >= 0)
            ret = lookup(user, picture, &node, error);
        for (int i = 0; ret >= 0 && i < node.reference_count; i++) {
            if (node.references[i] < 0 || node.references[i] >= picture)
                ret = sparse_fail(error, SPARSE_ERR_DECODE, -1,
                                  "packet %lld references a later one", (long long)picture);
            else
                ret = heap_push(&heap, node.references[i], error);
        }
    }
    free(heap.ids);
    sort_unique(closure);
    return ret;
}

size_t sparse_lower_bound(const int64_t *ids, size_t count, int64_t id)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t sparse_plan_find(const SparsePlan *plan, int64_t picture)
{
    size_t i = sparse_lower_bound(plan->reconstruct, plan->step_count, picture);

    return i < plan->step_count && plan->reconstruct[i] == picture ? i : plan->step_count;
}

/* Fill in the steps' references, last uses and costs. */
static int link_steps(SparsePlan *plan, SparsePlanLookup lookup, void *user, SparseError *error)
{
    size_t capacity = 0;

    for (size_t i = 0; i < plan->step_count; i++) {
        SparsePlanStep *step = &plan->steps[i];
        SparsePlanNode node;
        int ret = lookup(user, plan->reconstruct[i], &node, error);

        if (ret < 0)
            return ret;
        ret = sparse_array_grow(&plan->references, &capacity,
                                plan->references_count + (size_t)node.reference_count,
                                sizeof(*plan->references), error);
        if (ret < 0)
            return ret;
        step->picture = plan->reconstruct[i];
        step->last_use = i;
        step->reference_first = plan->references_count;
        step->reference_count = node.reference_count;
        for (int k = 0; k < node.reference_count; k++) {
            size_t reference = sparse_plan_find(plan, node.references[k]);

            plan->references[plan->references_count++] = reference;
            plan->steps[reference].last_use = i;
        }
        plan->bytes += node.bytes;
    }
    return 0;
}

static int find_root(int *parents, int i)
{
    while (parents[i] != i) {
        parents[i] = parents[parents[i]];
        i = parents[i];
    }
    return i;
}

/* Number the connected parts, in the order of their first steps. */
static int find_parts(SparsePlan *plan, SparseError *error)
{
    int *parents = malloc((plan->step_count + 1) * sizeof(*parents));

    if (!parents)
        return sparse_fail_memory(error);
    for (size_t i = 0; i < plan->step_count; i++) {
        const SparsePlanStep *step = &plan->steps[i];

        parents[i] = (int)i;
        for (int k = 0; k < step->reference_count; k++) {
            int root = find_root(parents, (int)plan->references[step->reference_first + (size_t)k]);
            int mine = find_root(parents, (int)i);

            /* the smaller is the root, so that a root is its part's first step */
            if (root < mine)
                parents[mine] = root;
            else
                parents[root] = mine;
        }
    }
    for (size_t i = 0; i < plan->step_count; i++) {
        int root = find_root(parents, (int)i);

        plan->steps[i].part = root == (int)i ? plan->part_count++ : plan->steps[root].part;
    }
    free(parents);
    return 0;
}

int sparse_plan_make(SparsePlan **result, const int64_t *targets, const int64_t *pictures,
                     size_t count, SparsePlanLookup lookup, void *user, SparseError *error)
{
    SparsePlan *plan = calloc(1, sizeof(*plan));
    IdList closure = {NULL, 0, 0};
    int ret;

    *result = NULL;
    if (!plan || count > SIZE_MAX / sizeof(*targets) - 1) {
        ret = sparse_fail_memory(error);
        goto fail;
    }
    plan->targets = malloc((count + 1) * sizeof(*targets));
    plan->target_picture = malloc((count + 1) * sizeof(*pictures));
    if (!plan->targets || !plan->target_picture) {
        ret = sparse_fail_memory(error);
        goto fail;
    }
    if (count) {
        memcpy(plan->targets, targets, count * sizeof(*targets));
        memcpy(plan->target_picture, pictures, count * sizeof(*pictures));
    }
    plan->target_count = count;

    ret = find_closure(&closure, pictures, count, lookup, user, error);
    if (ret < 0)
        goto fail;
    if (closure.count >= INT32_MAX) {
        ret = sparse_fail_memory(error);
        goto fail;
    }
    plan->steps = calloc(closure.count + 1, sizeof(*plan->steps));
    if (!plan->steps) {
        ret = sparse_fail_memory(error);
        goto fail;
    }
    plan->reconstruct = closure.ids;
    plan->step_count = closure.count;
    closure.ids = NULL;

    ret = link_steps(plan, lookup, user, error);
    if (ret >= 0)
        ret = find_parts(plan, error);
    if (ret < 0)
        goto fail;
    *result = plan;
    return 0;

fail:
    free(closure.ids);
    sparse_plan_free(&plan);
    return ret;
}

int64_t sparse_plan_dependent(const SparsePlan *plan, size_t step)
{
    unsigned char *touched = calloc(plan->step_count + 1, 1);
    int64_t target = -1;

    if (!touched)
        return -1;
    touched[step] = 1;
    for (size_t i = step + 1; i < plan->step_count; i++)
        for (int k = 0; k < plan->steps[i].reference_count; k++)
            touched[i] |= touched[plan->references[plan->steps[i].reference_first + (size_t)k]];
    for (size_t i = 0; i < plan->target_count && target < 0; i++) {
        size_t shown = sparse_plan_find(plan, plan->target_picture[i]);

        if (shown < plan->step_count && touched[shown])
            target = plan->targets[i];
    }
    free(touched);
    return target;
}

void sparse_plan_free(SparsePlan **plan)
{
    if (!plan || !*plan)
        return;
    free((*plan)->targets);
    free((*plan)->target_picture);
    free((*plan)->steps);
    free((*plan)->reconstruct);
    free((*plan)->references);
    free(*plan);
    *plan = NULL;
}

void sparse_plan_facts(const SparsePlan *plan, SparsePlanFacts *facts)
{
    facts->target_count = plan->target_count;
    facts->reconstruct_count = plan->step_count;
    facts->bytes = plan->bytes;
    facts->linear_count = plan->linear_count;
    facts->targets = plan->targets;
    facts->reconstruct = plan->reconstruct;
}

int sparse_plan_references(const SparsePlan *plan, int64_t picture, int64_t *refs, size_t capacity)
{
    size_t i = sparse_plan_find(plan, picture);
    const SparsePlanStep *step;

    if (i == plan->step_count)
        return SPARSE_ERR_ARGUMENT;
    step = &plan->steps[i];
    for (int k = 0; k < step->reference_count && (size_t)k < capacity; k++)
        refs[k] = plan->reconstruct[plan->references[step->reference_first + (size_t)k]];
    return step->reference_count;
}
