/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The header pass over packets, and the index of the whole stream.
 */
#include <string.h>

#include <libavutil/avutil.h>
#include <libavutil/frame.h>

#include "array.h"
#include "index_internal.h"

/* ---- The header pass ---- */

/* Keep the snapshot before packet i, which is that of the picture that begins in it. */
static int keep_snapshot(SparseIndex *index, int64_t i, const FFSparseSnapshot *snapshot,
                         SparseError *error)
{
    SparsePictureNotes *picture = &index->pictures[i];
    int ret = sparse_array_grow(&index->entries, &index->entry_capacity,
                                index->entry_count + (size_t)snapshot->nb_entries,
                                sizeof(*index->entries), error);

    if (ret >= 0)
        ret = sparse_index_note_epoch(index, snapshot->params, i, &picture->facts.params, error);
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
static int add_reference(SparseIndex *index, SparsePictureNotes *picture, int32_t reference,
                         SparseError *error)
{
    int ret;

    for (int32_t k = 0; k < picture->facts.reference_count; k++)
        if (index->references[picture->reference_first + (size_t)k] == reference)
            return 0;
    ret = sparse_array_grow(&index->references, &index->reference_capacity,
                            index->reference_count + 1, sizeof(*index->references), error);
    if (ret < 0)
        return ret;
    index->references[index->reference_count++] = reference;
    picture->facts.reference_count++;
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
    SparsePictureNotes *own = &index->pictures[i], *picture;
    int ret = 0;

    own->facts.picture = -1;
    own->facts.last_packet = (int32_t)i;
    own->facts.flags = report->flags;
    own->facts.type = '?';
    own->reference_first = index->reference_count;
    own->facts.reference_count = 0;
    if (report->picture < 0 || report->picture > i)
        return 0;

    own->facts.picture = (int32_t)report->picture;
    picture = &index->pictures[report->picture];
    if (picture != own) {
        /* A second field: the references of the first stand before its own,
         * moved to where there is room for both. */
        size_t first = picture->reference_first;
        int32_t count = picture->facts.reference_count;

        picture->reference_first = index->reference_count;
        picture->facts.reference_count = 0;
        for (int32_t k = 0; k < count && ret >= 0; k++)
            ret = add_reference(index, picture, index->references[first + (size_t)k], error);
        picture->facts.flags = (picture->facts.flags & ~(uint32_t)FF_SPARSE_REPORT_FIRST_FIELD) |
                               (report->flags & ~(uint32_t)FF_SPARSE_REPORT_INTRA);
        if (!(report->flags & FF_SPARSE_REPORT_INTRA))
            picture->facts.flags &= ~(uint32_t)FF_SPARSE_REPORT_INTRA;
        picture->facts.last_packet = (int32_t)i;
        if (report->pict_type == AV_PICTURE_TYPE_B || picture->facts.type == 'I')
            picture->facts.type = type_letter(report->pict_type);
    } else {
        picture->facts.poc = report->poc;
        picture->facts.width = report->width;
        picture->facts.height = report->height;
        picture->facts.format = report->format;
        picture->facts.type = type_letter(report->pict_type);
    }
    for (int k = 0; k < report->nb_refs && ret >= 0; k++)
        if (report->refs[k] != report->picture)
            ret = add_reference(index, picture, (int32_t)report->refs[k], error);
    return ret;
}

void sparse_index_read_more(SparseIndex *index)
{
    index->head = index->head < SPARSE_HEAD_MOST ? SPARSE_HEAD_MOST : 0;
}

/* Pass over packet i, which the decoder stands before. SPARSE_READ_MORE: see there. */
int sparse_index_scan(SparseIndex *index, int64_t i, SparseOutput output, void *user,
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
        ret = sparse_source_read_whole(index->source, i, index->packet, error);
    if (ret < 0)
        return ret;
    index->at = i;
    index->used = 1;
    ret = sparse_decoder_scan(index->decoder, index->packet, i, &report, output, user, error);
    if (index->sets)
        sparse_sets_pass(
            index->sets, index->packet, i,
            snapshot.state[SPARSE_H264_IS_AVC] ? snapshot.state[SPARSE_H264_LENGTH_SIZE] : 0,
            !!(report->flags & FF_SPARSE_REPORT_ERROR) ||
                sparse_source_packet(index->source, i).flags & SPARSE_PACKET_EXTRA);
    av_packet_unref(index->packet);
    if (ret >= 0 && truncated &&
        report->flags & (FF_SPARSE_REPORT_ERROR | FF_SPARSE_REPORT_OVERREAD))
        return SPARSE_READ_MORE;
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
    int ret;

    if (picture < 0 || picture >= index->packet_count)
        return sparse_source_fail(index->source, error, SPARSE_ERR_DECODE, index->display_count,
                                  "the decoder put out a frame that belongs to no packet");
    ret = sparse_array_grow(&index->display, &index->display_capacity,
                            (size_t)index->display_count + 1, sizeof(*index->display), error);
    if (ret < 0)
        return ret;
    index->display[index->display_count].picture = picture;
    index->display[index->display_count++].pts = frame->best_effort_timestamp;
    if (!index->pictures[picture].facts.times_shown++)
        index->pictures[picture].facts.shown = (int32_t)(index->at + 1);
    index->pictures[picture].facts.colors = (SparseColors){
        .known = 1,
        .range = (uint8_t)frame->color_range,
        .space = (uint8_t)frame->colorspace,
        .location = (uint8_t)frame->chroma_location,
    };
    return 0;
}

static void forget(SparseIndex *index)
{
    sparse_index_drop_runs(index);
    memset(index->covered, 0, (size_t)index->packet_count);
    memset(index->pictures, 0, (size_t)index->packet_count * sizeof(*index->pictures));
    index->reference_count = index->entry_count = 0;
    sparse_index_drop_epochs(index);
    index->display_count = 0;
}

/* Watch the parameter sets of H.264. */
static int begin_sets(SparseIndex *index, SparseError *error)
{
    const AVCodecParameters *par = sparse_source_codecpar(index->source);
    int ret;

    sparse_sets_free(&index->sets);
    if (par->codec_id != AV_CODEC_ID_H264)
        return 0;
    ret = sparse_sets_create(&index->sets, error);
    if (ret >= 0)
        sparse_sets_begin(index->sets, par->extradata, par->extradata_size);
    return ret;
}

static int build(SparseIndex *index, SparseProgress progress, void *user, SparseError *error)
{
    const FFSparseReport *report;
    int ret = 0;

    /* What runs know of pictures counts from other starts: begin anew, with a
     * decoder that has seen nothing. */
    if (index->used) {
        forget(index);
        sparse_pool_give_back(index->pool, &index->decoder);
        index->used = 0;
    }
    if (!index->decoder)
        ret = sparse_pool_fresh_decoder(index->pool, index->source, &index->decoder, error);
    index->display_count = 0; /* it may be the table's */
    if (ret >= 0)
        ret = begin_sets(index, error);

    for (int64_t i = 0; i < index->packet_count && ret >= 0; i++) {
        if (progress && i % 256 == 0 && progress(user, (double)i / (double)index->packet_count))
            ret = sparse_source_fail(index->source, error, SPARSE_ERR_INTERRUPTED, -1,
                                     "stopped while the index was made");
        else
            ret = sparse_index_scan(index, i, append_display, index, error);
    }
    index->at = index->packet_count;
    if (ret >= 0)
        ret = sparse_decoder_scan(index->decoder, NULL, index->packet_count, &report,
                                  append_display, index, error);
    return ret;
}

int sparse_index_build(SparseIndex *index, SparseProgress progress, void *user, SparseError *error)
{
    int ret = sparse_index_prepare(index, progress, user, error);

    if (ret < 0 || index->whole)
        return ret;
    while ((ret = build(index, progress, user, error)) == SPARSE_READ_MORE)
        sparse_index_read_more(index);
    sparse_pool_give_back(index->pool, &index->decoder);
    if (ret >= 0)
        ret = sparse_source_check_unchanged(index->source, error);
    index->lazy = 0;
    if (ret >= 0)
        ret = sparse_index_pack(index, error);
    if (ret < 0)
        forget(index);
    return ret < 0 ? ret : 0;
}
