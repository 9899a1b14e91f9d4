/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "saved_meta.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include <libavcodec/defs.h>
#include <libavutil/ffversion.h>
#include <libavutil/mem.h>
#include <libavutil/pixdesc.h>

#include "decoder.h"

enum {
    MOST = 64 << 20,  /* bytes of it, uncompressed */
    NUMBERS = 64      /* more than are written at a time */
};

/* The FFmpeg that snapshots are of: another one may read slice headers otherwise. */
static const char *program(void)
{
    return FFMPEG_VERSION "+" SPARSE_PATCH_SERIES;
}

/* Of an AV1 stream. */
static int64_t block_count(const SparsePacked *packed)
{
    return (sparse_packed_packets(packed) + SPARSE_BLOCK - 1) / SPARSE_BLOCK;
}

/* ---- Writing ---- */

static int put_bytes(SparseBuffer *out, const void *data, size_t size, SparseError *error)
{
    int ret = sparse_buffer_reserve(out, SPARSE_VARINT_MOST, error);

    if (ret < 0)
        return ret;
    sparse_put_varint(out, size);
    return sparse_buffer_append(out, data, size, error);
}

static int put_numbers(SparseBuffer *out, const int64_t *numbers, size_t count, SparseError *error)
{
    int ret = sparse_buffer_reserve(out, count * SPARSE_VARINT_MOST, error);

    if (ret < 0)
        return ret;
    for (size_t i = 0; i < count; i++)
        sparse_put_signed(out, numbers[i]);
    return 0;
}

static int put_parameters(SparseBuffer *out, const AVCodecParameters *par, SparseError *error)
{
    const int64_t numbers[] = {par->codec_id,
                               par->codec_tag,
                               par->format,
                               par->bit_rate,
                               par->bits_per_coded_sample,
                               par->bits_per_raw_sample,
                               par->profile,
                               par->level,
                               par->width,
                               par->height,
                               par->sample_aspect_ratio.num,
                               par->sample_aspect_ratio.den,
                               par->framerate.num,
                               par->framerate.den,
                               par->field_order,
                               par->color_range,
                               par->color_primaries,
                               par->color_trc,
                               par->color_space,
                               par->chroma_location,
                               par->video_delay,
                               par->nb_coded_side_data};
    int ret = put_numbers(out, numbers, sizeof(numbers) / sizeof(*numbers), error);

    if (ret >= 0)
        ret = put_bytes(out, par->extradata, (size_t)par->extradata_size, error);
    for (int i = 0; i < par->nb_coded_side_data && ret >= 0; i++) {
        const int64_t type = par->coded_side_data[i].type;

        ret = put_numbers(out, &type, 1, error);
        if (ret >= 0)
            ret = put_bytes(out, par->coded_side_data[i].data, par->coded_side_data[i].size, error);
    }
    return ret;
}

static int put_facts(SparseBuffer *out, const SparseFacts *facts, SparseError *error)
{
    int64_t duration;
    int ret = put_bytes(out, facts->container, strlen(facts->container), error);

    memcpy(&duration, &facts->duration, sizeof(duration));
    if (ret >= 0) {
        const int64_t numbers[] = {facts->time_base.num,
                                   facts->time_base.den,
                                   facts->average_rate.num,
                                   facts->average_rate.den,
                                   facts->frame_count,
                                   duration,
                                   facts->rotation,
                                   facts->flip,
                                   facts->pix_fmt,
                                   facts->profile,
                                   facts->width,
                                   facts->height,
                                   facts->sar.num,
                                   facts->sar.den,
                                   facts->range,
                                   facts->space,
                                   facts->primaries,
                                   facts->transfer,
                                   facts->start};

        ret = put_numbers(out, numbers, sizeof(numbers) / sizeof(*numbers), error);
    }
    return ret;
}

static int put_epochs(SparseBuffer *out, const SparseSavedIndex *index, SparseError *error)
{
    int64_t before = 0;
    const int64_t count = index->epoch_count;
    int ret = put_numbers(out, &count, 1, error);

    for (int32_t i = 1; i < index->epoch_count && ret >= 0; i++) {
        const SparseEpoch *epoch = &index->epochs[i];
        const int64_t numbers[] = {epoch->packet - before, i - epoch->same, !!epoch->head};

        ret = put_numbers(out, numbers, 3, error);
        if (ret >= 0 && epoch->head)
            ret = put_bytes(out, epoch->head, epoch->head_size, error);
        before = epoch->packet;
    }
    return ret;
}

/* Sequence headers, and how many frames each block puts out. */
static int put_av1(SparseBuffer *out, const SparseSavedIndex *index, SparseError *error)
{
    const int64_t count = (int64_t)index->sequence_count;
    int ret = put_numbers(out, &count, 1, error);

    for (size_t i = 0; i < index->sequence_count && ret >= 0; i++) {
        const int64_t location = index->sequences[i].chroma_location;

        ret = put_numbers(out, &location, 1, error);
        if (ret >= 0)
            ret = put_bytes(out, index->sequences[i].payload, index->sequences[i].size, error);
    }
    for (int64_t b = 0; b < block_count(index->packed) && ret >= 0; b++) {
        const int64_t shown = index->shown_first[b + 1] - index->shown_first[b];

        ret = put_numbers(out, &shown, 1, error);
    }
    return ret;
}

int sparse_meta_write(SparseBuffer *out, const SparseSavedIndex *index,
                      const SparseFingerprint *identity, const SparseBuffer *sizes,
                      SparseError *error)
{
    const int64_t numbers[] = {identity->size,
                               identity->modified_ns,
                               identity->changed_ns,
                               index->stream_index,
                               index->is_first,
                               index->direct,
                               index->payload_bytes,
                               sparse_packed_packets(index->packed),
                               sparse_packed_frames(index->packed)};
    SparseBuffer raw = {0};
    uLongf size;
    int ret = put_bytes(&raw, program(), strlen(program()), error);

    if (ret >= 0)
        ret = put_numbers(&raw, numbers, sizeof(numbers) / sizeof(*numbers), error);
    if (ret >= 0)
        ret = put_bytes(&raw, identity->ends, sizeof(identity->ends), error);
    if (ret >= 0)
        ret = put_bytes(&raw, identity->inner, sizeof(identity->inner), error);
    if (ret >= 0)
        ret = put_parameters(&raw, index->par, error);
    if (ret >= 0)
        ret = put_facts(&raw, &index->facts, error);
    if (ret >= 0)
        ret = put_epochs(&raw, index, error);
    if (ret >= 0 && index->par->codec_id == AV_CODEC_ID_AV1)
        ret = put_av1(&raw, index, error);
    if (ret >= 0)
        ret = sparse_buffer_append(&raw, sizes->data, sizes->size, error);
    if (ret >= 0 && raw.size > MOST)
        ret = sparse_fail(error, SPARSE_ERR_UNSUPPORTED, -1, "too much for a saved index");
    if (ret >= 0)
        ret = sparse_buffer_reserve(out, compressBound(raw.size) + SPARSE_VARINT_MOST, error);
    if (ret >= 0) {
        sparse_put_varint(out, raw.size);
        size = (uLongf)(out->capacity - out->size);
        if (compress2(out->data + out->size, &size, raw.data, raw.size, Z_BEST_COMPRESSION) != Z_OK)
            ret = sparse_fail_memory(error);
        else
            out->size += size;
    }
    free(raw.data);
    return ret;
}

/* ---- Reading ---- */

/* Numbers into out: 1, or 0. */
static int get_numbers(SparseSpan *in, int64_t *out, int count)
{
    for (int i = 0; i < count; i++)
        out[i] = sparse_get_signed(in);
    return !in->bad;
}

static int get_hash(SparseSpan *in, uint8_t *hash)
{
    const uint8_t *data = sparse_get_varint(in) == 16 ? sparse_get_bytes(in, 16) : NULL;

    if (data)
        memcpy(hash, data, 16);
    return !!data;
}

static int is_within(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

static int is_format(int64_t format)
{
    return format == AV_PIX_FMT_NONE ||
           (is_within(format, 0, INT32_MAX) && av_pix_fmt_desc_get((enum AVPixelFormat)format));
}

static int get_side_data(SparseSpan *in, AVCodecParameters *par, int count)
{
    for (int i = 0; i < count; i++) {
        int64_t type = sparse_get_signed(in);
        uint64_t size = sparse_get_varint(in);
        const uint8_t *data = sparse_get_bytes(in, size);
        AVPacketSideData *side;

        if (!data || !is_within(type, 0, AV_PKT_DATA_NB - 1))
            return 0;
        side = av_packet_side_data_new(&par->coded_side_data, &par->nb_coded_side_data,
                                       (enum AVPacketSideDataType)type, (size_t)size, 0);
        if (!side)
            return 0;
        if (size)
            memcpy(side->data, data, (size_t)size);
    }
    return 1;
}

static int get_parameters(SparseSpan *in, AVCodecParameters *par)
{
    int64_t n[22];
    const uint8_t *extradata;
    uint64_t size;

    if (!get_numbers(in, n, 22) || !is_within(n[0], 0, INT32_MAX) ||
        !(n[0] == AV_CODEC_ID_AV1 || sparse_decoder_supports((enum AVCodecID)n[0])) ||
        !is_within(n[1], 0, UINT32_MAX) || !is_format(n[2]) || n[3] < 0 || !is_within(n[21], 0, 64))
        return 0;
    for (int i = 4; i < 21; i++)
        if (!is_within(n[i], INT32_MIN, INT32_MAX))
            return 0;
    if (!is_within(n[8], 0, 1 << 16) || !is_within(n[9], 0, 1 << 16) || !is_within(n[14], 0, 5) ||
        !is_within(n[20], 0, 16))
        return 0;
    for (int i = 15; i < 20; i++)
        if (!is_within(n[i], 0, 255))
            return 0;
    par->codec_type = AVMEDIA_TYPE_VIDEO;
    par->codec_id = (enum AVCodecID)n[0];
    par->codec_tag = (uint32_t)n[1];
    par->format = (int)n[2];
    par->bit_rate = n[3];
    par->bits_per_coded_sample = (int)n[4];
    par->bits_per_raw_sample = (int)n[5];
    par->profile = (int)n[6];
    par->level = (int)n[7];
    par->width = (int)n[8];
    par->height = (int)n[9];
    par->sample_aspect_ratio = (AVRational){(int)n[10], (int)n[11]};
    par->framerate = (AVRational){(int)n[12], (int)n[13]};
    par->field_order = (enum AVFieldOrder)n[14];
    par->color_range = (enum AVColorRange)n[15];
    par->color_primaries = (enum AVColorPrimaries)n[16];
    par->color_trc = (enum AVColorTransferCharacteristic)n[17];
    par->color_space = (enum AVColorSpace)n[18];
    par->chroma_location = (enum AVChromaLocation)n[19];
    par->video_delay = (int)n[20];

    size = sparse_get_varint(in);
    extradata = sparse_get_bytes(in, size);
    if (!extradata || size > INT32_MAX - AV_INPUT_BUFFER_PADDING_SIZE)
        return 0;
    if (size) {
        par->extradata = av_mallocz((size_t)size + AV_INPUT_BUFFER_PADDING_SIZE);
        if (!par->extradata)
            return 0;
        memcpy(par->extradata, extradata, (size_t)size);
        par->extradata_size = (int)size;
    }
    return get_side_data(in, par, (int)n[21]);
}

static int get_facts(SparseSpan *in, SparseFacts *facts, char **container)
{
    int64_t n[19];
    uint64_t size = sparse_get_varint(in);
    const uint8_t *name = sparse_get_bytes(in, size);

    if (!name || size > 255 || !get_numbers(in, n, 19))
        return 0;
    *container = av_strndup((const char *)name, (size_t)size);
    for (int i = 0; i < 4; i++)
        if (!is_within(n[i], 0, INT32_MAX))
            return 0;
    if (!*container || !n[0] || !n[1] || !is_within(n[6] / 90, 0, 3) || n[6] % 90 ||
        !is_within(n[7], 0, 1) || !is_format(n[8]) || !is_within(n[9], INT32_MIN, INT32_MAX) ||
        !is_within(n[10], 0, 1 << 16) || !is_within(n[11], 0, 1 << 16) || n[4] < -1)
        return 0;
    for (int i = 12; i < 18; i++)
        if (!is_within(n[i], 0, i < 14 ? INT32_MAX : 255))
            return 0;
    *facts = (SparseFacts){
        .container = *container,
        .time_base = {(int)n[0], (int)n[1]},
        .average_rate = {(int)n[2], (int)n[3]},
        .frame_count = n[4],
        .rotation = (int)n[6],
        .flip = (int)n[7],
        .pix_fmt = (enum AVPixelFormat)n[8],
        .profile = (int)n[9],
        .width = (int)n[10],
        .height = (int)n[11],
        .sar = {(int)n[12], (int)n[13]},
        .range = (enum AVColorRange)n[14],
        .space = (enum AVColorSpace)n[15],
        .primaries = (enum AVColorPrimaries)n[16],
        .transfer = (enum AVColorTransferCharacteristic)n[17],
        .start = n[18],
    };
    memcpy(&facts->duration, &n[5], sizeof(facts->duration));
    return 1;
}

static int get_epochs(SparseSpan *in, SparseSavedIndex *index, int64_t packet_count)
{
    int64_t count = sparse_get_signed(in), packet = 0;

    /* each takes three bytes at least */
    if (in->bad || !is_within(count, 0, (in->end - in->at) / 3 + 1) || count > packet_count + 1)
        return 0;
    index->epochs = calloc((size_t)count + 1, sizeof(*index->epochs));
    if (!index->epochs)
        return 0;
    index->epoch_count = (int32_t)count;
    for (int64_t i = 1; i < count; i++) {
        SparseEpoch *epoch = &index->epochs[i];
        int64_t n[3];

        if (!get_numbers(in, n, 3) || !is_within(n[0], -packet, packet_count - 1 - packet) ||
            !is_within(n[1], 0, i) || !is_within(n[2], 0, 1))
            return 0;
        packet += n[0];
        epoch->packet = packet;
        epoch->same = (int32_t)(i - n[1]);
        if (n[2]) {
            uint64_t size = sparse_get_varint(in);

            epoch->head = sparse_get_bytes(in, size);
            if (!epoch->head || size > 1 << 20)
                return 0;
            epoch->head_size = (size_t)size;
        }
    }
    return 1;
}

/* One sequence header: 1, or 0. */
static int get_sequence(SparseSpan *in, SparseAv1SequenceUse *use)
{
    const int64_t location = sparse_get_signed(in);
    const uint64_t size = sparse_get_varint(in);
    const uint8_t *payload = sparse_get_bytes(in, size);

    if (!payload || !is_within(location, 0, AVCHROMA_LOC_NB - 1) ||
        !sparse_av1_read_sequence(payload, (size_t)size, &use->sequence))
        return 0;
    use->payload = malloc((size_t)size + 1);
    if (!use->payload)
        return 0;
    memcpy(use->payload, payload, (size_t)size);
    use->size = (size_t)size;
    use->chroma_location = (uint8_t)location;
    return 1;
}

static int get_av1(SparseSpan *in, SparseSavedIndex *index, int64_t packet_count)
{
    const int64_t count = sparse_get_signed(in), blocks = (packet_count - 1) / SPARSE_BLOCK + 1;

    /* each sequence takes two bytes at least, each block one */
    if (in->bad || !is_within(count, 0, (in->end - in->at) / 2) ||
        packet_count >= INT32_MAX / SPARSE_AV1_PER_PACKET)
        return 0;
    index->sequences = calloc((size_t)count + 1, sizeof(*index->sequences));
    if (!index->sequences)
        return 0;
    for (int64_t i = 0; i < count; i++) {
        if (!get_sequence(in, &index->sequences[i]))
            return 0;
        index->sequence_count++;
    }
    if (blocks > in->end - in->at)
        return 0;
    index->shown_first = calloc((size_t)blocks + 1, sizeof(*index->shown_first));
    if (!index->shown_first)
        return 0;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t shown = sparse_get_signed(in);

        if (!is_within(shown, 0, INT32_MAX - index->shown_first[b]))
            return 0;
        index->shown_first[b + 1] = index->shown_first[b] + (int32_t)shown;
    }
    return !in->bad;
}

/* The bytes as they were before they were compressed: 1, or 0. */
static int uncompress_meta(SparseSavedMeta *meta, const uint8_t *data, size_t size, SparseSpan *out)
{
    SparseSpan in = {.at = data, .end = data + size};
    uint64_t wanted = sparse_get_varint(&in);
    uLongf got = (uLongf)wanted;

    if (in.bad || wanted > MOST)
        return 0;
    meta->raw = malloc((size_t)wanted + 1);
    if (!meta->raw || uncompress(meta->raw, &got, in.at, (uLong)(in.end - in.at)) != Z_OK ||
        got != wanted)
        return 0;
    *out = (SparseSpan){.at = meta->raw, .end = meta->raw + wanted};
    return 1;
}

int sparse_meta_read(SparseSavedMeta *meta, const uint8_t *data, size_t size, const uint8_t *blocks,
                     size_t blocks_size, const char *name, SparseError *error)
{
    SparseSavedIndex *index = &meta->index;
    const uint8_t *text;
    SparseSpan in;
    uint64_t length;
    int64_t n[9];
    int ret;

    if (!uncompress_meta(meta, data, size, &in))
        goto damaged;
    length = sparse_get_varint(&in);
    text = sparse_get_bytes(&in, length);
    if (!text)
        goto damaged;
    if (length != strlen(program()) || memcmp(text, program(), (size_t)length) != 0)
        return sparse_fail_named(error, SPARSE_ERR_SAVED, name, -1,
                                 "the saved index was made with FFmpeg %.*s, this is %s",
                                 (int)(length < 80 ? length : 80), (const char *)text, program());
    if (!get_numbers(&in, n, 9) || !is_within(n[3], 0, INT32_MAX) || !is_within(n[7], 1, INT32_MAX))
        goto damaged;
    if (!get_hash(&in, meta->identity.ends) || !get_hash(&in, meta->identity.inner))
        goto damaged;
    meta->identity.size = n[0];
    meta->identity.modified_ns = n[1];
    meta->identity.changed_ns = n[2];
    index->stream_index = (int)n[3];
    index->is_first = n[4] != 0;
    index->direct = n[5] != 0;
    index->payload_bytes = n[6];
    index->par = avcodec_parameters_alloc();
    if (!index->par)
        return sparse_fail_memory(error);
    if (!get_parameters(&in, index->par) || !get_facts(&in, &index->facts, &meta->container) ||
        !get_epochs(&in, index, n[7]) ||
        (index->par->codec_id == AV_CODEC_ID_AV1 && (n[8] || !get_av1(&in, index, n[7]))))
        goto damaged;
    ret = sparse_packed_read(&index->packed, index->par->codec_id, n[7], n[8], &in, blocks,
                             blocks_size, error);
    if (ret < 0)
        return ret;
    if (index->packed)
        return 0;

damaged:
    return sparse_fail_named(error, SPARSE_ERR_SAVED, name, -1, "the saved index is damaged");
}

void sparse_meta_free(SparseSavedMeta *meta)
{
    avcodec_parameters_free(&meta->index.par);
    sparse_packed_free(&meta->index.packed);
    free(meta->index.epochs);
    for (size_t i = 0; i < meta->index.sequence_count; i++)
        free(meta->index.sequences[i].payload);
    free(meta->index.sequences);
    free(meta->index.shown_first);
    av_freep(&meta->container);
    free(meta->raw);
    meta->raw = NULL;
}
