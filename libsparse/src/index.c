/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "index.h"

#include <stdlib.h>
#include <string.h>

#include <libavutil/avutil.h>
#include <libavutil/error.h>
#include <libavutil/frame.h>

/* Packets [start, end) that have been passed, and the state after them. */
typedef struct Run {
    int64_t start, end;
    int64_t checked; /* packets before this one agree with their times */
    int64_t flawed;  /* packets without a whole picture */
    FFSparseSnapshot after;
} Run;

struct SparseIndex {
    SparseSource *source;
    const SparsePacket *packets;
    int64_t packet_count;
    int lazy;  /* runs, with the container's word for the order of display */
    int head;  /* bytes of a slice that are read; 0: packets are read whole */
    int whole; /* everything is covered and display is the decoder's own order */

    SparsePicture *pictures; /* [packet_count] */
    unsigned char *covered;  /* [packet_count] */
    int32_t *references;
    size_t reference_count, reference_capacity;
    FFSparseEntry *entries;
    size_t entry_count, entry_capacity;
    FFSparseParams **params;
    int32_t params_count, params_capacity;

    Run *runs; /* in order, disjoint */
    size_t run_count;
    SparseDecoder *decoder;
    int used; /* the decoder has seen packets */
    AVPacket *packet;
    AVBufferPool *head_pool;
    FFSparseSnapshot fresh; /* the state before all packets */
    int64_t scanned;
    int64_t at; /* the packet being passed */

    SparseDisplay *display;
    int64_t display_count, display_capacity;
};

/* ---- Growing arrays ---- */

static int grow(void *array, size_t *capacity, size_t needed, size_t size, SparseError *error)
{
    void **data = array;
    size_t wanted = *capacity + *capacity / 2 + 64;
    void *grown;

    if (needed <= *capacity)
        return 0;
    if (wanted < needed)
        wanted = needed;
    if (wanted > SIZE_MAX / size)
        return sparse_fail_memory(error);
    grown = realloc(*data, wanted * size);
    if (!grown)
        return sparse_fail_memory(error);
    *data = grown;
    *capacity = wanted;
    return 0;
}

/* ---- Opening ---- */

static void drop_runs(SparseIndex *index)
{
    for (size_t i = 0; i < index->run_count; i++)
        ff_sparse_snapshot_unref(&index->runs[i].after);
    index->run_count = 0;
}

int sparse_index_open(SparseIndex **result, SparseSource *source, int lazy, SparseError *error)
{
    SparseIndex *index = calloc(1, sizeof(*index));

    *result = NULL;
    if (!index)
        return sparse_fail_memory(error);
    index->source = source;
    index->lazy = lazy && sparse_source_is_table(source);
    index->head = sparse_source_has_heads(source) ? SPARSE_HEAD_LEAST : 0;
    *result = index;
    return 0;
}

void sparse_index_close(SparseIndex **result)
{
    SparseIndex *index = *result;

    if (!index)
        return;
    drop_runs(index);
    ff_sparse_snapshot_unref(&index->fresh);
    for (int32_t i = 0; i < index->params_count; i++)
        ff_sparse_params_unref(&index->params[i]);
    sparse_decoder_close(&index->decoder);
    av_packet_free(&index->packet);
    av_buffer_pool_uninit(&index->head_pool);
    free(index->pictures);
    free(index->covered);
    free(index->references);
    free(index->entries);
    free(index->params);
    free(index->runs);
    free(index->display);
    free(index);
    *result = NULL;
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
    free(index->display);
    index->display = malloc(((size_t)index->packet_count + 1) * sizeof(*index->display));
    if (!index->display)
        return sparse_fail_memory(error);
    index->display_capacity = index->packet_count + 1;
    index->display_count = 0;
    for (int64_t i = 0; i < index->packet_count; i++) {
        if (index->packets[i].pts == AV_NOPTS_VALUE)
            index->lazy = 0;
        if (index->packets[i].flags & SPARSE_PACKET_DISCARD)
            continue;
        index->display[index->display_count].picture = i;
        index->display[index->display_count++].pts = index->packets[i].pts;
    }
    qsort(index->display, (size_t)index->display_count, sizeof(*index->display), compare_display);
    for (int64_t i = 1; i < index->display_count; i++)
        if (index->display[i].pts == index->display[i - 1].pts)
            index->lazy = 0;
    return 0;
}

/* Get the packet table and what it takes to pass over packets. */
static int prepare(SparseIndex *index, SparseProgress progress, void *user, SparseError *error)
{
    int ret;

    if (index->pictures)
        return 0;
    ret = sparse_source_packets(index->source, &index->packets, &index->packet_count, progress,
                                user, error);
    if (ret < 0)
        return ret;
    if (index->packet_count >= INT32_MAX)
        return sparse_source_fail(index->source, error, SPARSE_ERR_UNSUPPORTED, -1,
                                  "too many packets: %lld", (long long)index->packet_count);

    if (!index->decoder) {
        ret = sparse_decoder_open(&index->decoder, index->source, error);
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
    if (index->lazy) {
        ret = order_by_time(index, error);
        if (ret < 0)
            return ret;
    }
    index->pictures = calloc((size_t)index->packet_count + 1, sizeof(*index->pictures));
    return index->pictures ? 0 : sparse_fail_memory(error);
}

/* ---- The header pass ---- */

static int keep_params(SparseIndex *index, FFSparseParams *params, int32_t *number,
                       SparseError *error)
{
    size_t capacity = (size_t)index->params_capacity;
    int ret;

    /* Mostly the last one; going on for long would be dear where each packet has a new one. */
    for (int32_t i = index->params_count - 1; i >= 0 && i >= index->params_count - 8; i--)
        if (index->params[i] == params) {
            *number = i;
            return 0;
        }
    ret = grow(&index->params, &capacity, (size_t)index->params_count + 1, sizeof(*index->params),
               error);
    if (ret < 0)
        return ret;
    index->params_capacity = (int32_t)capacity;
    *number = index->params_count;
    index->params[index->params_count++] = ff_sparse_params_ref(params);
    return 0;
}

/* Keep the snapshot before packet i, which is that of the picture that begins in it. */
static int keep_snapshot(SparseIndex *index, int64_t i, const FFSparseSnapshot *snapshot,
                         SparseError *error)
{
    SparsePicture *picture = &index->pictures[i];
    int ret =
        grow(&index->entries, &index->entry_capacity,
             index->entry_count + (size_t)snapshot->nb_entries, sizeof(*index->entries), error);

    if (ret >= 0)
        ret = keep_params(index, snapshot->params, &picture->params, error);
    if (ret < 0)
        return ret;
    picture->entry_first = index->entry_count;
    picture->entry_count = snapshot->nb_entries;
    memcpy(picture->state, snapshot->state, sizeof(picture->state));
    if (snapshot->nb_entries)
        memcpy(index->entries + index->entry_count, snapshot->entries,
               (size_t)snapshot->nb_entries * sizeof(*index->entries));
    index->entry_count += (size_t)snapshot->nb_entries;
    return 0;
}

/* Add a reference to a picture whose array stands last. */
static int add_reference(SparseIndex *index, SparsePicture *picture, int32_t reference,
                         SparseError *error)
{
    int ret;

    for (int32_t k = 0; k < picture->reference_count; k++)
        if (index->references[picture->reference_first + (size_t)k] == reference)
            return 0;
    ret = grow(&index->references, &index->reference_capacity, index->reference_count + 1,
               sizeof(*index->references), error);
    if (ret < 0)
        return ret;
    index->references[index->reference_count++] = reference;
    picture->reference_count++;
    return 0;
}

static char type_letter(int type)
{
    return type == AV_PICTURE_TYPE_I   ? 'I'
           : type == AV_PICTURE_TYPE_P ? 'P'
           : type == AV_PICTURE_TYPE_B ? 'B'
                                       : '?';
}

static int keep_report(SparseIndex *index, int64_t i, const FFSparseReport *report,
                       SparseError *error)
{
    SparsePicture *own = &index->pictures[i], *picture;
    int ret = 0;

    own->picture = -1;
    own->last_packet = (int32_t)i;
    own->flags = report->flags;
    own->type = '?';
    own->reference_first = index->reference_count;
    own->reference_count = 0;
    if (report->picture < 0 || report->picture > i)
        return 0;

    own->picture = (int32_t)report->picture;
    picture = &index->pictures[report->picture];
    if (picture != own) {
        /* A second field: the references of the first stand before its own,
         * moved to where there is room for both. */
        size_t first = picture->reference_first;
        int32_t count = picture->reference_count;

        picture->reference_first = index->reference_count;
        picture->reference_count = 0;
        for (int32_t k = 0; k < count && ret >= 0; k++)
            ret = add_reference(index, picture, index->references[first + (size_t)k], error);
        picture->flags = (picture->flags & ~(uint32_t)FF_SPARSE_REPORT_FIRST_FIELD) |
                         (report->flags & ~(uint32_t)FF_SPARSE_REPORT_INTRA);
        if (!(report->flags & FF_SPARSE_REPORT_INTRA))
            picture->flags &= ~(uint32_t)FF_SPARSE_REPORT_INTRA;
        picture->last_packet = (int32_t)i;
        if (report->pict_type == AV_PICTURE_TYPE_B || picture->type == 'I')
            picture->type = type_letter(report->pict_type);
    } else {
        picture->poc = report->poc;
        picture->width = report->width;
        picture->height = report->height;
        picture->format = report->format;
        picture->type = type_letter(report->pict_type);
    }
    for (int k = 0; k < report->nb_refs && ret >= 0; k++)
        if (report->refs[k] != report->picture)
            ret = add_reference(index, picture, (int32_t)report->refs[k], error);
    return ret;
}

/* The head of a slice was not enough: the pass has to be made again with read_more(). */
enum { READ_MORE = -1000 };

static void read_more(SparseIndex *index)
{
    index->head = index->head < SPARSE_HEAD_MOST ? SPARSE_HEAD_MOST : 0;
}

/* Pass over packet i, which the decoder stands before. READ_MORE: see there. */
static int scan_packet(SparseIndex *index, int64_t i, SparseOutput output, void *user,
                       SparseError *error)
{
    const FFSparseReport *report;
    FFSparseSnapshot snapshot;
    int truncated = 0;
    int ret = sparse_decoder_snapshot(index->decoder, &snapshot, error);

    if (ret < 0)
        return ret;
    ret = keep_snapshot(index, i, &snapshot, error);
    ff_sparse_snapshot_unref(&snapshot);
    if (ret < 0)
        return ret;
    if (index->head)
        ret = sparse_source_read_heads(index->source, i, index->head, index->head_pool,
                                       index->packet, &truncated, error);
    else
        ret = sparse_source_read_packet(index->source, i, index->packet, error);
    if (ret < 0)
        return ret;
    index->at = i;
    index->used = 1;
    ret = sparse_decoder_scan(index->decoder, index->packet, i, &report, output, user, error);
    av_packet_unref(index->packet);
    if (ret >= 0 && truncated &&
        report->flags & (FF_SPARSE_REPORT_ERROR | FF_SPARSE_REPORT_OVERREAD))
        return READ_MORE;
    if (ret >= 0)
        ret = keep_report(index, i, report, error);
    if (ret < 0)
        return ret;
    index->covered[i] = 1;
    index->scanned++;
    return 0;
}

/* ---- The whole index ---- */

static int append_display(void *user, int64_t picture, const AVFrame *frame, SparseError *error)
{
    SparseIndex *index = user;
    size_t capacity = (size_t)index->display_capacity;
    int ret;

    if (picture < 0 || picture >= index->packet_count)
        return sparse_source_fail(index->source, error, SPARSE_ERR_DECODE, index->display_count,
                                  "the decoder put out a frame that belongs to no packet");
    ret = grow(&index->display, &capacity, (size_t)index->display_count + 1,
               sizeof(*index->display), error);
    if (ret < 0)
        return ret;
    index->display_capacity = (int64_t)capacity;
    index->display[index->display_count].picture = picture;
    index->display[index->display_count++].pts = frame->best_effort_timestamp;
    if (!index->pictures[picture].times_shown++)
        index->pictures[picture].shown = (int32_t)(index->at + 1);
    index->pictures[picture].colors = (SparseColors){
        .known = 1,
        .range = (uint8_t)frame->color_range,
        .space = (uint8_t)frame->colorspace,
        .location = (uint8_t)frame->chroma_location,
    };
    return 0;
}

static void forget(SparseIndex *index)
{
    drop_runs(index);
    memset(index->covered, 0, (size_t)index->packet_count);
    memset(index->pictures, 0, (size_t)index->packet_count * sizeof(*index->pictures));
    index->reference_count = index->entry_count = 0;
    for (int32_t i = 0; i < index->params_count; i++)
        ff_sparse_params_unref(&index->params[i]);
    index->params_count = 0;
    index->display_count = 0;
}

static int build(SparseIndex *index, SparseProgress progress, void *user, SparseError *error)
{
    const FFSparseReport *report;
    int ret = 0;

    /* What runs know of pictures counts from other starts: begin anew, with a
     * decoder that has seen nothing. */
    if (index->used) {
        forget(index);
        sparse_decoder_close(&index->decoder);
        index->used = 0;
    }
    if (!index->decoder)
        ret = sparse_decoder_open(&index->decoder, index->source, error);
    index->display_count = 0; /* it may be the table's */

    for (int64_t i = 0; i < index->packet_count && ret >= 0; i++) {
        if (progress && i % 256 == 0 && progress(user, (double)i / (double)index->packet_count))
            ret = sparse_source_fail(index->source, error, SPARSE_ERR_INTERRUPTED, -1,
                                     "stopped while the index was made");
        else
            ret = scan_packet(index, i, append_display, index, error);
    }
    index->at = index->packet_count;
    if (ret >= 0)
        ret = sparse_decoder_scan(index->decoder, NULL, index->packet_count, &report,
                                  append_display, index, error);
    return ret;
}

int sparse_index_build(SparseIndex *index, SparseProgress progress, void *user, SparseError *error)
{
    int ret = prepare(index, progress, user, error);

    if (ret < 0 || index->whole)
        return ret;
    while ((ret = build(index, progress, user, error)) == READ_MORE)
        read_more(index);
    index->lazy = 0;
    if (ret < 0) {
        forget(index);
        return ret;
    }
    index->whole = 1;
    sparse_decoder_close(&index->decoder);
    return 0;
}

/* ---- Runs ---- */

/* The run that holds packet i, or the last one that begins before it; NULL: none. */
static Run *find_run(SparseIndex *index, int64_t i)
{
    Run *found = NULL;

    for (size_t k = 0; k < index->run_count; k++)
        if (index->runs[k].start <= i)
            found = &index->runs[k];
    return found;
}

/* Insert a run of no packets; NULL on failure. The array may move. */
static Run *add_run(SparseIndex *index, int64_t start, SparseError *error)
{
    Run *runs = realloc(index->runs, (index->run_count + 1) * sizeof(*runs));
    size_t k = index->run_count;

    if (!runs) {
        sparse_fail_memory(error);
        return NULL;
    }
    index->runs = runs;
    while (k && runs[k - 1].start > start)
        k--;
    memmove(runs + k + 1, runs + k, (index->run_count - k) * sizeof(*runs));
    memset(&runs[k], 0, sizeof(*runs));
    runs[k].start = runs[k].end = runs[k].checked = start;
    index->run_count++;
    return &runs[k];
}

static void remove_run(SparseIndex *index, Run *run)
{
    size_t k = (size_t)(run - index->runs);

    for (int64_t i = run->start; i < run->end; i++)
        index->covered[i] = 0;
    ff_sparse_snapshot_unref(&run->after);
    memmove(run, run + 1, (index->run_count - k - 1) * sizeof(*run));
    index->run_count--;
}

/* Pass from the run's end over the packets before end. */
static int pass(SparseIndex *index, Run *run, const FFSparseSnapshot *state, int64_t end,
                SparseError *error)
{
    const uint32_t flaws =
        FF_SPARSE_REPORT_ERROR | FF_SPARSE_REPORT_LOST | FF_SPARSE_REPORT_MISSING;
    FFSparseSnapshot after;
    int64_t flawed = run->flawed;
    int ret = sparse_decoder_reposition(index->decoder, state, error);

    for (int64_t i = run->end; i < end && ret >= 0; i++) {
        ret = scan_packet(index, i, NULL, NULL, error);
        if (ret == READ_MORE) { /* from where this pass began */
            read_more(index);
            run->flawed = flawed;
            ret = sparse_decoder_reposition(index->decoder, state, error);
            i = run->end - 1;
            continue;
        }
        if (index->pictures[i].picture != i || index->pictures[i].flags & flaws)
            run->flawed++;
    }
    if (ret >= 0)
        ret = sparse_decoder_snapshot(index->decoder, &after, error);
    if (ret < 0) {
        for (int64_t i = run->end; i < end; i++)
            index->covered[i] = 0;
        return ret;
    }
    ff_sparse_snapshot_unref(&run->after);
    run->after = after;
    run->end = end;
    return 0;
}

/*
 * Whether a header pass may begin at packet i although nothing before it has
 * been read: at an IDR all marking is void; in HEVC the reference picture set
 * of each picture names all it may reference, so that at a CRA what is missing
 * shows. H.264 has no such set, and a recovery point is no start.
 * Parameter sets must stand in the sample entry or in the packet itself
 * (ISO/IEC 14496-15, 5.3.2 and 8.3.2).
 */
static int may_start(const SparseIndex *index, int64_t i)
{
    const uint32_t flags = index->pictures[i].flags;
    const uint32_t first = index->pictures[0].flags;

    if (index->pictures[i].picture != i || flags & FF_SPARSE_REPORT_ERROR)
        return 0;
    if ((first & FF_SPARSE_REPORT_PARAMS) && !(flags & FF_SPARSE_REPORT_PARAMS))
        return 0;
    return !!(flags & (FF_SPARSE_REPORT_IDR | FF_SPARSE_REPORT_CRA));
}

static int64_t key_at_or_before(const SparseIndex *index, int64_t i)
{
    while (i > 0 && !(index->packets[i].flags & SPARSE_PACKET_KEY))
        i--;
    return i;
}

/* The state from which a run at packet start begins. What the first packet
 * tells of its encoder goes on beyond any IDR of H.264; in HEVC it must not be
 * there, as a CRA keeps the DPB. */
static const FFSparseSnapshot *start_state(const SparseIndex *index, int64_t start)
{
    if (start > 0 && sparse_source_codecpar(index->source)->codec_id == AV_CODEC_ID_H264)
        return &index->runs[0].after;
    return &index->fresh;
}

/*
 * Whether the frames of a run come in the order that their times say, one for
 * each packet. Pictures are compared with those before them since the last
 * IDR, as far back as a decoded picture buffer can reorder (16 frames, and as
 * many that wait for output).
 */
static int times_agree(const SparseIndex *index, Run *run)
{
    for (int64_t i = run->checked; i < run->end; i++) {
        const SparsePicture *picture = &index->pictures[i];
        int64_t oldest = i - 32 > run->start ? i - 32 : run->start;

        if (picture->picture != i ||
            picture->flags &
                (FF_SPARSE_REPORT_SEVERAL | FF_SPARSE_REPORT_NO_OUTPUT |
                 FF_SPARSE_REPORT_SECOND_FIELD | FF_SPARSE_REPORT_FIRST_FIELD |
                 FF_SPARSE_REPORT_EOS | FF_SPARSE_REPORT_ERROR | FF_SPARSE_REPORT_LOST))
            return 0;
        /* With references missing the DPB may overflow, and pictures are put out early. Those
         * that lead the start of a run lack theirs here, but not in a linear decode. */
        if (picture->flags & FF_SPARSE_REPORT_MISSING &&
            !(picture->flags & FF_SPARSE_REPORT_LEADING && run->start))
            return 0;
        for (int64_t k = i; k > oldest && !(index->pictures[k].flags & FF_SPARSE_REPORT_IDR);) {
            k--;
            if (index->pictures[k].poc == picture->poc ||
                (index->pictures[k].poc < picture->poc) !=
                    (index->packets[k].pts < index->packets[i].pts))
                return 0;
        }
        /* An IDR comes after all before it. */
        if (picture->flags & FF_SPARSE_REPORT_IDR)
            for (int64_t k = i - 1; k >= oldest; k--)
                if (index->packets[k].pts > index->packets[i].pts)
                    return 0;
    }
    run->checked = run->end;
    return 1;
}

/* 1: nothing is missing in the closure of a covered picture, 0: something is */
static int is_complete(SparseIndex *index, const Run *run, int64_t target, SparseError *error)
{
    SparsePlan *plan;
    SparseError ignored;
    int ret;

    if (!run->start)
        return 1; /* what is missing is missing for a linear decode, too */
    if (!may_start(index, run->start))
        return 0;
    if (!run->flawed)
        return 1;
    ret = sparse_plan_make(&plan, &target, &target, 1, sparse_index_lookup, index, &ignored);
    sparse_plan_free(&plan);
    if (ret == SPARSE_ERR_MEMORY)
        return sparse_fail_memory(error);
    return ret >= 0;
}

/*
 * Get a run that covers packets start..end-1: a new one from start, or one that
 * reaches it from before, extended. Later runs that it meets become part of it.
 * NULL on failure.
 */
static Run *make_run(SparseIndex *index, int64_t start, int64_t end, SparseError *error)
{
    FFSparseSnapshot state;
    Run *run = find_run(index, start);
    size_t next;
    int ret;

    if (run && run->end < start)
        run = NULL;
    if (run && run->end >= end)
        return run;

    for (next = 0; next < index->run_count;) {
        Run *other = &index->runs[next];

        if (other->start <= start || other->start >= end) {
            next++;
            continue;
        }
        end = other->end > end ? other->end : end;
        remove_run(index, other);
    }
    run = find_run(index, start);
    if (run && run->end < start)
        run = NULL;

    state = run ? run->after : *start_state(index, start);
    if (!run)
        run = add_run(index, start, error);
    if (!run)
        return NULL;
    state.params = ff_sparse_params_ref(state.params);
    ret = pass(index, run, &state, end, error);
    ff_sparse_snapshot_unref(&state);
    if (ret < 0) {
        if (run->start == run->end)
            remove_run(index, run);
        return NULL;
    }
    return run;
}

/*
 * The end of the packets to look at for packet target, as far as a decoded picture buffer
 * can reorder: those of its segment, and later ones that are shown before it. Should one
 * of them give no frame, or not come where its time says, the container's numbering is off.
 */
static int64_t end_of_view(const SparseIndex *index, int64_t target)
{
    int64_t end = target + 1;
    int same_segment = 1;

    for (int64_t i = target + 1; i < index->packet_count && i - target <= 32; i++) {
        if (index->packets[i].flags & SPARSE_PACKET_KEY)
            same_segment = 0;
        if (same_segment || index->packets[i].pts < index->packets[target].pts)
            end = i + 1;
    }
    return end;
}

/*
 * Cover packet target by a run in which its closure is complete, beginning at
 * the nearest random access point that allows it. 1: done; 0: the container's
 * word can't be taken.
 */
static int cover_by_run(SparseIndex *index, int64_t target, SparseError *error)
{
    Run *run = find_run(index, target);
    int64_t end = end_of_view(index, target);

    if (!run || run->end < end)
        run = make_run(index, key_at_or_before(index, target), end, error);
    while (run) {
        int ret = is_complete(index, run, target, error);
        int64_t start = run->start;

        if (ret < 0)
            return ret;
        if (ret)
            return times_agree(index, run);
        end = run->end;
        remove_run(index, run);
        run = make_run(index, key_at_or_before(index, start - 1), end, error);
    }
    return error->code;
}

/* 1: the first packet is such that the container's word can be taken, 0: not */
static int check_first(SparseIndex *index, SparseError *error)
{
    const SparsePicture *first = &index->pictures[0];

    if (!index->packet_count)
        return 0;
    if (!index->covered[0] && !make_run(index, 0, 1, error))
        return error->code;
    return first->picture == 0 && first->flags & FF_SPARSE_REPORT_IDR &&
           first->flags & FF_SPARSE_REPORT_REORDER_KNOWN &&
           !(first->flags & FF_SPARSE_REPORT_ERROR);
}

/* ---- What others see ---- */

int sparse_index_display(SparseIndex *index, const SparseDisplay **display, int64_t *count,
                         SparseError *error)
{
    int ret = prepare(index, NULL, NULL, error);

    if (ret >= 0 && index->lazy) {
        ret = check_first(index, error);
        if (ret == 0)
            index->lazy = 0;
    }
    if (ret >= 0 && !index->lazy)
        ret = sparse_index_build(index, NULL, NULL, error);
    if (ret < 0)
        return ret;
    *display = index->display;
    *count = index->display_count;
    return 0;
}

int sparse_index_cover(SparseIndex *index, const int64_t *targets, size_t count, int *reordered,
                       SparseError *error)
{
    *reordered = 0;
    for (size_t i = 0; i < count && index->lazy; i++) {
        int ret;

        if (targets[i] < 0 || targets[i] >= index->display_count)
            return sparse_source_fail(index->source, error, SPARSE_ERR_INDEX, targets[i],
                                      "there are %lld frames", (long long)index->display_count);
        ret = cover_by_run(index, index->display[targets[i]].picture, error);
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

const SparsePicture *sparse_index_picture(const SparseIndex *index, int64_t packet)
{
    if (!index->pictures || packet < 0 || packet >= index->packet_count || !index->covered[packet])
        return NULL;
    return &index->pictures[packet];
}

int sparse_index_lookup(void *user, int64_t id, SparsePlanNode *node, SparseError *error)
{
    SparseIndex *index = user;
    const SparsePicture *picture = sparse_index_picture(index, id);

    if (!picture || picture->picture != id)
        return sparse_fail(error, SPARSE_ERR_DECODE, -1,
                           "packet %lld holds no picture that can be decoded", (long long)id);
    if (picture->flags &
        (FF_SPARSE_REPORT_ERROR | FF_SPARSE_REPORT_LOST | FF_SPARSE_REPORT_MISSING))
        return sparse_fail(error, SPARSE_ERR_DECODE, -1, "%s packet %lld",
                           picture->flags & FF_SPARSE_REPORT_ERROR
                               ? "damaged data in"
                               : "what is referenced is missing in",
                           (long long)id);
    if (picture->flags & FF_SPARSE_REPORT_SEVERAL)
        return sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1,
                           "packet %lld holds more than one picture", (long long)id);
    /* FFmpeg, misled by lone fields, doubles a first field for output, before or over the second. */
    if (picture->times_shown > 1 || (picture->shown && picture->shown <= picture->last_packet))
        return sparse_fail(error, SPARSE_ERR_DECODE, -1,
                           "packet %lld begins a picture that is put out before it is complete",
                           (long long)id);
    node->references = index->references + picture->reference_first;
    node->reference_count = picture->reference_count;
    node->bytes = 0;
    for (int64_t i = id; i <= picture->last_packet; i++)
        node->bytes += index->packets[i].size;
    return 0;
}

void sparse_index_snapshot(const SparseIndex *index, int64_t id, FFSparseSnapshot *snapshot)
{
    const SparsePicture *picture = &index->pictures[id];

    snapshot->params = index->params[picture->params];
    snapshot->nb_entries = picture->entry_count;
    memcpy(snapshot->state, picture->state, sizeof(snapshot->state));
    if (picture->entry_count)
        memcpy(snapshot->entries, index->entries + picture->entry_first,
               (size_t)picture->entry_count * sizeof(*snapshot->entries));
}

int64_t sparse_index_scanned(const SparseIndex *index)
{
    return index->scanned;
}
