/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Whether header passes that begin late find what one over the whole stream finds:
 *
 *     check_starts FILE...
 *
 * For each frame by itself, the default index is asked for its closure; each picture in it must have
 * the same references, and the decoder the same state and pictures marked as references before it, as
 * in an index of the whole stream. Tells how many packets were passed over for a frame, in the mean.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "index.h"
#include "log.h"
#include "plan.h"
#include "pool.h"
#include "source.h"

/*
 * Whether a place of FFSparseSnapshot.state decides how a picture is decoded. Of H.264, as the patch
 * for it numbers them, these don't: what each slice header brings anew (0 to 5 and 8), what was put
 * out or not, and why (13, 17 to 19 and 21), and in an IDR how POC and frame_num went on (6 to 10).
 * Of HEVC: POC, which counts from elsewhere after a pass has begun at a CRA (0 and 1), whether leading
 * pictures are skipped, which each random access point tells anew (3), and in these whether a
 * sequence has ended (2), what is set up with it (6 and 7), and what slice headers left (10 to 13).
 */
static int decides(int codec, int place, uint32_t flags)
{
    const uint32_t fresh = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 8;
    const uint32_t output = 1u << 13 | 1u << 17 | 1u << 18 | 1u << 19 | 1u << 21;
    const uint32_t order = 1u << 6 | 1u << 7 | 1u << 8 | 1u << 9 | 1u << 10;
    const int is_irap = !!(flags & (FF_SPARSE_REPORT_IDR | FF_SPARSE_REPORT_CRA));

    if (codec == AV_CODEC_ID_HEVC)
        return !((1u << 0 | 1u << 1 | 1u << 3 |
                  (is_irap ? 1u << 2 | 1u << 6 | 1u << 7 | 15u << 10 : 0)) >>
                     place &
                 1);
    return !((fresh | output | (is_irap ? order : 0)) >> place & 1);
}

typedef struct Opened {
    SparseSource *source;
    SparseIndex *index;
} Opened;

static int open_index(Opened *opened, const char *path, SparsePool *pool, int mode,
                      SparseError *error)
{
    int64_t count;
    int ret = sparse_source_open_path(&opened->source, path, -1, NULL, NULL, error);

    if (ret >= 0)
        ret = sparse_index_open(&opened->index, opened->source, pool, mode, error);
    return ret < 0 ? ret : sparse_index_count(opened->index, &count, error);
}

static void close_index(Opened *opened)
{
    sparse_index_close(&opened->index);
    sparse_source_close(&opened->source);
}

static int is_same(const FFSparseEntry *x, const FFSparseEntry *y)
{
    return x->id == y->id && x->poc == y->poc && x->frame_num == y->frame_num &&
           x->short_index == y->short_index && x->long_index == y->long_index &&
           (x->marking & 3) == (y->marking & 3) &&
           memcmp(x->field_poc, y->field_poc, sizeof(x->field_poc)) == 0;
}

static int count_marked(const FFSparseSnapshot *snapshot)
{
    int count = 0;

    for (int k = 0; k < snapshot->nb_entries; k++)
        count += (snapshot->entries[k].marking & 3) != 0;
    return count;
}

/* Whether the pictures that are marked as references are the same, of H.264. A picture of HEVC names
 * all that it leaves marked, so that what was marked before doesn't matter. */
static int marks_agree(const FFSparseSnapshot *a, const FFSparseSnapshot *b)
{
    if (count_marked(a) != count_marked(b))
        return 0;
    for (int k = 0; k < a->nb_entries; k++) {
        int there = !(a->entries[k].marking & 3);

        for (int n = 0; n < b->nb_entries && !there; n++)
            there = is_same(&a->entries[k], &b->entries[n]);
        if (!there)
            return 0;
    }
    return 1;
}

/* What differs in a picture of both indexes; NULL: nothing. */
static const char *compare(const Opened *late, const Opened *all, int64_t id, char *message,
                           size_t message_size)
{
    const int codec = sparse_source_codecpar(all->source)->codec_id;
    SparsePlanNode first, second;
    SparseError error;
    FFSparseSnapshot a, b;
    SparsePicture picture;
    int32_t found[256];

    if (sparse_index_lookup(late->index, id, &first, &error) < 0)
        return "it isn't there";
    if (first.reference_count > 256)
        return "too many references";
    memcpy(found, first.references, (size_t)first.reference_count * sizeof(*found));
    if (sparse_index_lookup(all->index, id, &second, &error) < 0 ||
        !sparse_index_picture(all->index, id, &picture))
        return "it isn't in the whole index";
    if (first.reference_count != second.reference_count ||
        memcmp(found, second.references, (size_t)first.reference_count * sizeof(*found)) != 0)
        return "references";
    sparse_index_snapshot(late->index, id, &a);
    sparse_index_snapshot(all->index, id, &b);
    for (int k = 0; k < 24; k++)
        if (a.state[k] != b.state[k] && decides(codec, k, picture.flags)) {
            snprintf(message, message_size, "state %d: %d, %d", k, a.state[k], b.state[k]);
            return message;
        }
    /* an intra picture has no lists */
    if (codec == AV_CODEC_ID_H264 && !(picture.flags & FF_SPARSE_REPORT_INTRA) &&
        !marks_agree(&a, &b))
        return "the pictures marked as references";
    return NULL;
}

static int check(const char *path, SparsePool *pool)
{
    SparseError error;
    Opened all = {0};
    int64_t count = 0, passed = 0, wrong = 0;
    int ret = open_index(&all, path, pool, SPARSE_INDEX_WHOLE, &error);

    if (ret >= 0)
        ret = sparse_index_count(all.index, &count, &error);
    for (int64_t k = 0; k < count && ret >= 0; k++) {
        Opened late = {0};
        SparsePlan *plan = NULL;
        int64_t target;
        int reordered;

        ret = open_index(&late, path, pool, SPARSE_INDEX_AUTO, &error);
        if (ret >= 0)
            ret = sparse_index_cover(late.index, &k, 1, &reordered, &error);
        target = ret >= 0 ? sparse_index_frame(late.index, k).picture : -1;
        if (ret >= 0 && target != sparse_index_frame(all.index, k).picture) {
            printf("%s: frame %lld is another packet's\n", path, (long long)k);
            wrong++;
        } else if (ret >= 0) {
            ret = sparse_plan_make(&plan, &k, &target, 1, sparse_index_lookup, late.index, &error);
        }
        for (size_t i = 0; plan && i < plan->step_count; i++) {
            const int64_t id = plan->steps[i].picture;
            char message[80];
            const char *what = compare(&late, &all, id, message, sizeof(message));

            if (what) {
                printf("%s: frame %lld, packet %lld: %s\n", path, (long long)k, (long long)id,
                       what);
                wrong++;
            }
        }
        passed += sparse_index_scanned(late.index);
        sparse_plan_free(&plan);
        close_index(&late);
    }
    if (ret < 0)
        printf("%s: %s\n", path, error.message);
    else
        printf("%s: %lld frames, %.1f of %lld packets passed over for one, %lld wrong\n", path,
               (long long)count, count ? (double)passed / (double)count : 0.0, (long long)count,
               (long long)wrong);
    close_index(&all);
    return ret < 0 || wrong;
}

int main(int argc, char **argv)
{
    SparsePool *pool = NULL;
    SparseError error;
    int failed = sparse_pool_create(&pool, 0, &error) < 0;

    sparse_log_enter(NULL);
    for (int i = 1; i < argc && pool; i++)
        failed |= check(argv[i], pool);
    sparse_pool_release(&pool);
    return failed;
}
