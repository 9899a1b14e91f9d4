/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Plans over made-up reference structures: closures, order, last uses, parts.
 */
#include "plan.h"

#include <stdio.h>
#include <string.h>

static int failures;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __func__, __LINE__, #condition);                \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

typedef struct Stream {
    int32_t references[32][4];
    int counts[32];
    int64_t damaged; /* a picture whose look-up fails; -1: none */
} Stream;

static int look_up(void *user, int64_t picture, SparsePlanNode *node, SparseError *error)
{
    const Stream *stream = user;

    if (picture == stream->damaged)
        return sparse_fail(error, SPARSE_ERR_DECODE, -1, "damaged");
    node->references = stream->references[picture];
    node->reference_count = stream->counts[picture];
    node->bytes = 100 + picture;
    return 0;
}

static void add(Stream *stream, int picture, int a, int b)
{
    stream->references[picture][0] = a;
    stream->references[picture][1] = b;
    stream->counts[picture] = (a >= 0) + (b >= 0);
}

/* I0 P1 B2(0,1) P3(1) B4(1,3) | I5 P6(5) */
static Stream make_stream(void)
{
    Stream stream;

    memset(&stream, 0, sizeof(stream));
    stream.damaged = -1;
    add(&stream, 1, 0, -1);
    add(&stream, 2, 0, 1);
    add(&stream, 3, 1, -1);
    add(&stream, 4, 1, 3);
    add(&stream, 6, 5, -1);
    return stream;
}

static void test_closure(void)
{
    static const int64_t targets[] = {3}, pictures[] = {4};
    static const int64_t expected[] = {0, 1, 3, 4};
    Stream stream = make_stream();
    SparsePlanFacts facts;
    SparseError error;
    SparsePlan *plan;
    int64_t refs[4];

    EXPECT(sparse_plan_make(&plan, targets, pictures, 1, look_up, &stream, &error) == 0);
    sparse_plan_facts(plan, &facts);
    EXPECT(facts.target_count == 1 && facts.targets[0] == 3);
    EXPECT(facts.reconstruct_count == 4);
    EXPECT(!memcmp(facts.reconstruct, expected, sizeof(expected)));
    EXPECT(facts.bytes == 400 + 0 + 1 + 3 + 4);
    EXPECT(plan->part_count == 1);
    EXPECT(plan->steps[0].last_use == 1); /* picture 0 is last used by picture 1 */
    EXPECT(plan->steps[1].last_use == 3); /* picture 1 by picture 4 */
    EXPECT(plan->steps[3].last_use == 3);
    EXPECT(sparse_plan_references(plan, 4, refs, 4) == 2 && refs[0] == 1 && refs[1] == 3);
    EXPECT(sparse_plan_references(plan, 4, refs, 0) == 2);
    EXPECT(sparse_plan_references(plan, 2, refs, 4) == SPARSE_ERR_ARGUMENT);
    EXPECT(sparse_plan_dependent(plan, 0) == 3);
    sparse_plan_free(&plan);
    EXPECT(!plan);
}

static void test_parts(void)
{
    static const int64_t targets[] = {2, 6}, pictures[] = {2, 6};
    Stream stream = make_stream();
    SparseError error;
    SparsePlan *plan;

    EXPECT(sparse_plan_make(&plan, targets, pictures, 2, look_up, &stream, &error) == 0);
    EXPECT(plan->step_count == 5 && plan->part_count == 2);
    EXPECT(plan->steps[0].part == 0 && plan->steps[2].part == 0);
    EXPECT(plan->steps[3].part == 1 && plan->steps[4].part == 1);
    EXPECT(sparse_plan_dependent(plan, 3) == 6); /* picture 5 serves frame 6 alone */
    sparse_plan_free(&plan);
}

/* A chain that joins two parts late must leave one. */
static void test_late_join(void)
{
    static const int64_t targets[] = {0}, pictures[] = {9};
    Stream stream;
    SparseError error;
    SparsePlan *plan;

    memset(&stream, 0, sizeof(stream));
    stream.damaged = -1;
    add(&stream, 3, 1, -1);
    add(&stream, 4, 0, -1);
    add(&stream, 9, 4, 3);
    EXPECT(sparse_plan_make(&plan, targets, pictures, 1, look_up, &stream, &error) == 0);
    EXPECT(plan->step_count == 5 && plan->part_count == 1);
    sparse_plan_free(&plan);
}

static void test_failures(void)
{
    static const int64_t targets[] = {2, 6}, pictures[] = {2, 6};
    Stream stream = make_stream();
    SparseError error;
    SparsePlan *plan;

    stream.damaged = 1;
    EXPECT(sparse_plan_make(&plan, targets, pictures, 2, look_up, &stream, &error) ==
           SPARSE_ERR_DECODE);
    EXPECT(!plan && !strcmp(error.message, "damaged"));

    stream.damaged = -1;
    stream.references[6][0] = 7; /* a reference from the future */
    EXPECT(sparse_plan_make(&plan, targets, pictures, 2, look_up, &stream, &error) ==
           SPARSE_ERR_DECODE);
    EXPECT(!plan);

    EXPECT(sparse_plan_make(&plan, NULL, NULL, 0, look_up, &stream, &error) == 0);
    EXPECT(plan->step_count == 0 && plan->part_count == 0);
    sparse_plan_free(&plan);
    sparse_plan_free(&plan);
    sparse_plan_free(NULL);
}

int main(void)
{
    test_closure();
    test_parts();
    test_late_join();
    test_failures();
    return failures != 0;
}
