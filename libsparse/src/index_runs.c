/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Header passes over parts of the stream, where the container's sample table tells the order
 * of display.
 */
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "index_internal.h"
#include "log.h"
#include "plain.h"

void sparse_index_drop_runs(SparseIndex *index)
{
    for (size_t i = 0; i < index->run_count; i++)
        ff_sparse_snapshot_unref(&index->runs[i].after);
    index->run_count = 0;
}

/* The run that holds packet i, or the last one that begins before it; NULL: none. */
static SparseRun *find_run(SparseIndex *index, int64_t i)
{
    SparseRun *found = NULL;

    for (size_t k = 0; k < index->run_count; k++)
        if (index->runs[k].start <= i)
            found = &index->runs[k];
    return found;
}

/* Insert a run of no packets; NULL on failure. The array may move. */
static SparseRun *add_run(SparseIndex *index, int64_t start, SparseError *error)
{
    size_t k = index->run_count;
    SparseRun *runs;

    if (sparse_array_grow(&index->runs, &index->run_capacity, k + 1, sizeof(*runs), error) < 0)
        return NULL;
    runs = index->runs;
    while (k && runs[k - 1].start > start)
        k--;
    memmove(runs + k + 1, runs + k, (index->run_count - k) * sizeof(*runs));
    memset(&runs[k], 0, sizeof(*runs));
    runs[k].start = runs[k].end = runs[k].checked = start;
    index->run_count++;
    return &runs[k];
}

static void remove_run(SparseIndex *index, SparseRun *run)
{
    size_t k = (size_t)(run - index->runs);

    for (int64_t i = run->start; i < run->end; i++)
        index->covered[i] = 0;
    ff_sparse_snapshot_unref(&run->after);
    memmove(run, run + 1, (index->run_count - k - 1) * sizeof(*run));
    index->run_count--;
}

static int64_t pts_of(const SparseIndex *index, int64_t i)
{
    return sparse_source_packet(index->source, i).pts;
}

/* Whether picture i of a run is as one of the whole stream: it doesn't lack references because the
 * run begins late. */
static int is_as_in_all(const SparseIndex *index, const SparseRun *run, int64_t i)
{
    return !index->plain.kinds || !run->start || sparse_plain_type(&index->plain, i) == 'I' ||
           index->plain.oldest[i] >= run->start;
}

/* What a decoder puts out while packets from begin on are passed. */
typedef struct Outputs {
    const SparseIndex *index;
    int64_t begin;
    int64_t earliest; /* by its time, of the frames to look at */
    int64_t last;     /* the picture put out last, or -1 */
    int misordered;
} Outputs;

/* What leads the picture that a run begins with may lack references, and come out early for it. */
static void begin_outputs(Outputs *outputs, const SparseRun *run)
{
    outputs->begin = run->end;
    outputs->earliest =
        run->start > 0 && run->end == run->start ? pts_of(outputs->index, run->start) : INT64_MIN;
    outputs->last = -1;
    outputs->misordered = 0;
}

/*
 * A frame was put out: it comes after the last one by its time, and nothing that was passed
 * lies between them. Pictures may be dropped (C.5.2.2 of HEVC, no_output_of_prior_pics_flag),
 * or come out early when a buffer is full, whatever the container's times say.
 */
static int note_output(void *user, int64_t picture, const AVFrame *frame, SparseError *error)
{
    Outputs *outputs = user;
    const SparseIndex *index = outputs->index;
    /* as far back as a decoded picture buffer can hold what it has not put out */
    int64_t oldest = index->at - 64 > outputs->begin ? index->at - 64 : outputs->begin;
    const int is_first = outputs->last < 0;
    int64_t before, pts;

    if (picture < outputs->begin || picture >= index->packet_count)
        return 0;
    pts = pts_of(index, picture);
    if (pts < outputs->earliest)
        return 0;
    before = is_first ? outputs->earliest : pts_of(index, outputs->last);
    if (!is_first && pts <= before)
        outputs->misordered = 1;
    for (int64_t i = oldest; i <= index->at && !outputs->misordered; i++) {
        int64_t other = pts_of(index, i);

        outputs->misordered = other < pts && (is_first ? other >= before : other > before);
    }
    outputs->last = picture;
    return 0;
}

/* Pass from the run's end over the packets before end. */
static int pass(SparseIndex *index, SparseRun *run, const FFSparseSnapshot *state, int64_t end,
                SparseError *error)
{
    const uint32_t flaws =
        FF_SPARSE_REPORT_ERROR | FF_SPARSE_REPORT_LOST | FF_SPARSE_REPORT_MISSING;
    const int is_late = index->plain.kinds && run->start > 0;
    /* what pictures lack because the run begins late is no fault of the stream */
    const SparseLog *log = is_late ? sparse_log_enter(NULL) : NULL;
    FFSparseSnapshot after;
    Outputs outputs = {.index = index};
    int64_t flawed = run->flawed;
    int ret = 0;

    if (!index->decoder)
        ret = sparse_pool_decoder(index->pool, index->source, &index->decoder, error);
    if (ret >= 0)
        ret = sparse_decoder_reposition(index->decoder, state, error);
    begin_outputs(&outputs, run);
    for (int64_t i = run->end; i < end && ret >= 0; i++) {
        ret = sparse_index_scan(index, i, index->plain.kinds ? NULL : note_output, &outputs, error);
        if (ret == SPARSE_READ_MORE) { /* from where this pass began */
            sparse_index_read_more(index);
            run->flawed = flawed;
            begin_outputs(&outputs, run);
            ret = sparse_decoder_reposition(index->decoder, state, error);
            i = run->end - 1;
            continue;
        }
        if (ret >= 0 && !is_as_in_all(index, run, i)) {
            index->covered[i] = 0; /* what was found of it is not to be used */
            run->flawed++;
        } else if (index->pictures[i].facts.picture != i || index->pictures[i].facts.flags & flaws)
            run->flawed++;
    }
    if (ret >= 0)
        ret = sparse_decoder_snapshot(index->decoder, &after, error);
    sparse_pool_give_back(index->pool, &index->decoder);
    if (is_late)
        sparse_log_leave(log);
    if (ret < 0) {
        for (int64_t i = run->end; i < end; i++)
            index->covered[i] = 0;
        return ret;
    }
    ff_sparse_snapshot_unref(&run->after);
    run->after = after;
    run->end = end;
    run->misordered |= outputs.misordered;
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
    const uint32_t flags = index->pictures[i].facts.flags;
    const uint32_t first = index->pictures[0].facts.flags;

    if (index->plain.kinds && index->plain.kinds[i] & SPARSE_PLAIN_START)
        return 1; /* find_start() has seen to the rest */
    if (index->pictures[i].facts.picture != i || flags & FF_SPARSE_REPORT_ERROR)
        return 0;
    if ((first & FF_SPARSE_REPORT_PARAMS) && !(flags & FF_SPARSE_REPORT_PARAMS))
        return 0;
    return !!(flags & (FF_SPARSE_REPORT_IDR | FF_SPARSE_REPORT_CRA));
}

/* The nearest packet at or before i at which a run may perhaps begin: as the headers tell, where
 * they have been looked at, else as the container does. */
static int64_t key_at_or_before(const SparseIndex *index, int64_t i)
{
    const uint8_t *kinds = index->plain.kinds;

    while (i > 0 && !(kinds ? kinds[i] & SPARSE_PLAIN_START
                            : sparse_source_packet(index->source, i).flags & SPARSE_PACKET_KEY))
        i--;
    return i;
}

/*
 * The nearest packet at or before target from which a run may find all that target depends on. From
 * an intra picture that is no IDR on, pictures may lack references from before it;
 * it will do if those that others reference are intra pictures or have none from before it, and
 * target likewise: then so it is with all that target depends on.
 */
static int64_t find_start(const SparseIndex *index, int64_t target)
{
    const SparsePlainNotes *plain = &index->plain;
    int64_t oldest = INT64_MAX, i = target;

    if (!plain->kinds)
        return key_at_or_before(index, target);
    for (; i > 0; i--) {
        if (plain->kinds[i] & SPARSE_PLAIN_START && oldest >= i)
            break;
        if ((i == target || plain->kinds[i] & SPARSE_PLAIN_REFERENCE) &&
            sparse_plain_type(plain, i) != 'I' && plain->oldest[i] < oldest)
            oldest = plain->oldest[i];
    }
    return i;
}

/*
 * The state from which a run at packet start begins. What the first packet
 * tells of its encoder goes on beyond any IDR of H.264; in HEVC it must not be
 * there, as a CRA keeps the DPB.
 */
static FFSparseSnapshot start_state(const SparseIndex *index, int64_t start)
{
    const SparsePlainStart *plain = sparse_plain_start(&index->plain, start);
    const int is_h264 = sparse_source_codecpar(index->source)->codec_id == AV_CODEC_ID_H264;
    FFSparseSnapshot state = index->fresh;

    if (start > 0 && (is_h264 || plain))
        state = index->runs[0].after;
    if (plain)
        state.nb_entries = 0;
    if (plain && !is_h264)
        state.state[SPARSE_HEVC_POC_TID0] = plain->poc_tid0;
    if (plain && is_h264) {
        /* FFmpeg counts POC from another number at each IDR, such as the first packet's */
        int32_t base = state.state[SPARSE_H264_PREVIOUS_POC_MSB];

        state.state[SPARSE_H264_POC_MSB] = state.state[SPARSE_H264_PREVIOUS_POC_MSB] =
            base + plain->poc_msb;
        state.state[SPARSE_H264_POC_LSB] = state.state[SPARSE_H264_PREVIOUS_POC_LSB] =
            plain->poc_lsb;
        state.state[SPARSE_H264_FRAME_NUM] = state.state[SPARSE_H264_PREVIOUS_FRAME_NUM] =
            plain->previous_frame_num;
        state.state[SPARSE_H264_FRAME_NUM_OFFSET] =
            state.state[SPARSE_H264_PREVIOUS_FRAME_NUM_OFFSET] = plain->frame_num_offset;
    }
    return state;
}

/*
 * Whether the frames of a run come in the order that their times say, one for
 * each packet. Pictures are compared with those before them since the last
 * IDR, as far back as a decoded picture buffer can reorder (16 frames, and as
 * many that wait for output).
 */
static int times_agree(const SparseIndex *index, SparseRun *run)
{
    if (run->misordered)
        return 0;
    for (int64_t i = run->checked; i < run->end; i++) {
        const SparsePicture *picture = &index->pictures[i].facts;
        int64_t oldest = i - 32 > run->start ? i - 32 : run->start;

        if (!is_as_in_all(index, run, i))
            continue;
        if (picture->picture != i ||
            picture->flags & (FF_SPARSE_REPORT_SEVERAL | FF_SPARSE_REPORT_NO_OUTPUT |
                              FF_SPARSE_REPORT_SECOND_FIELD | FF_SPARSE_REPORT_FIRST_FIELD |
                              FF_SPARSE_REPORT_EOS | FF_SPARSE_REPORT_ERROR |
                              FF_SPARSE_REPORT_LOST | FF_SPARSE_REPORT_DISCARDED))
            return 0;
        /* With references missing the DPB may overflow, and pictures are put out early. Those
         * that lead the start of a run lack theirs here, but not in a linear decode. */
        if (picture->flags & FF_SPARSE_REPORT_MISSING &&
            !(picture->flags & FF_SPARSE_REPORT_LEADING && run->start))
            return 0;
        for (int64_t k = i;
             k > oldest && !(index->pictures[k].facts.flags & FF_SPARSE_REPORT_IDR);) {
            k--;
            if (index->pictures[k].facts.poc == picture->poc ||
                (index->pictures[k].facts.poc < picture->poc) !=
                    (pts_of(index, k) < pts_of(index, i)))
                return 0;
        }
        /* An IDR comes after all before it. */
        if (picture->flags & FF_SPARSE_REPORT_IDR)
            for (int64_t k = i - 1; k >= oldest; k--)
                if (pts_of(index, k) > pts_of(index, i))
                    return 0;
    }
    run->checked = run->end;
    return 1;
}

/* 1: nothing is missing in the closure of a covered picture, 0: something is */
static int is_complete(SparseIndex *index, const SparseRun *run, int64_t target, SparseError *error)
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
static SparseRun *make_run(SparseIndex *index, int64_t start, int64_t end, SparseError *error)
{
    FFSparseSnapshot state;
    SparseRun *run = find_run(index, start);
    size_t next;
    int ret;

    if (run && run->end < start)
        run = NULL;
    if (run && run->end >= end)
        return run;

    for (next = 0; next < index->run_count;) {
        SparseRun *other = &index->runs[next];

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

    state = run ? run->after : start_state(index, start);
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
 * can reorder: those of its segment and the one that begins the next, and later ones that are
 * shown before it. Should one of them give no frame, or not come where its time says, the
 * container's numbering is off.
 */
static int64_t end_of_view(const SparseIndex *index, int64_t target)
{
    int64_t end = target + 1;
    int same_segment = 1;

    if (index->plain.kinds)
        return end; /* all of them have been looked at */
    for (int64_t i = target + 1; i < index->packet_count && i - target <= 32; i++) {
        const int is_next_key =
            same_segment && sparse_source_packet(index->source, i).flags & SPARSE_PACKET_KEY;

        if (is_next_key) /* it may have pictures dropped that wait for output */
            same_segment = 0;
        if (same_segment || is_next_key || pts_of(index, i) < pts_of(index, target))
            end = i + 1;
    }
    return end;
}

int64_t sparse_index_run_cost(SparseIndex *index, const int64_t *targets, size_t count)
{
    int64_t cost = 0, reached = 0;

    for (size_t i = 0; i < count; i++) {
        const int64_t target = index->display[targets[i]].picture;
        const SparseRun *run;
        int64_t start, end;

        if (target < reached)
            continue;
        run = find_run(index, target);
        end = end_of_view(index, target);
        start = find_start(index, target);
        if (run && target < run->end && run->start <= start)
            start = run->end;
        if (start < reached)
            start = reached;
        if (end > start)
            cost += end - start;
        if (end > reached)
            reached = end;
    }
    return cost;
}

/*
 * Cover packet target by a run in which its closure is complete, beginning at
 * the nearest random access point that allows it. 1: done; 0: the container's
 * word can't be taken.
 */
int sparse_index_cover_by_run(SparseIndex *index, int64_t target, SparseError *error)
{
    const int64_t first = find_start(index, target);
    SparseRun *run = find_run(index, target);
    int64_t end = end_of_view(index, target);

    if (!run || run->end < end || run->start > first)
        run = make_run(index, first, end, error);
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
int sparse_index_check_first(SparseIndex *index, SparseError *error)
{
    const SparsePicture *first = &index->pictures[0].facts;

    if (!index->packet_count)
        return 0;
    if (!index->covered[0] && !make_run(index, 0, 1, error))
        return error->code;
    return first->picture == 0 && first->flags & FF_SPARSE_REPORT_IDR &&
           first->flags & FF_SPARSE_REPORT_REORDER_KNOWN &&
           !(first->flags & FF_SPARSE_REPORT_ERROR);
}
