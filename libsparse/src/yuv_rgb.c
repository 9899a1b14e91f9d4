/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "yuv_rgb.h"

#include <string.h>

/* Rounded from 16 bits of fraction more, and saturated. */
static int16_t rounded(int64_t value)
{
    int64_t r = (value + (1 << 15)) >> 16;

    return (int16_t)(r < -0x7FFF ? -0x8000 : r > 0x7FFF ? 0x7FFF : r);
}

void sparse_yuv_rgb_matrix(SparseYuvMatrix *matrix, const int coefficients[4], int full_range)
{
    int64_t luma = 1 << 16, offset = 0, c[4];

    for (int i = 0; i < 4; i++)
        c[i] = coefficients[i];
    if (full_range) {
        /* swscale's coefficients are those for chroma of 224 steps */
        for (int i = 0; i < 4; i++)
            c[i] = c[i] * 224 / 255;
    } else {
        luma = luma * 255 / 219;
        offset = 16 << 16;
    }
    *matrix = (SparseYuvMatrix){.luma = rounded(luma * (1 << 13)),
                                .luma_offset = rounded(offset * (1 << 3)),
                                .v_to_red = rounded(c[0] * (1 << 13)),
                                .u_to_blue = rounded(c[1] * (1 << 13)),
                                .u_to_green = rounded(-c[2] * (1 << 13)),
                                .v_to_green = rounded(-c[3] * (1 << 13))};
}

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#include <libavutil/cpu.h>

#define AVX2 __attribute__((target("avx2")))

enum { STEP = 32 /* pixels at a time */ };

/* A matrix in registers. */
typedef struct Factors {
    __m256i luma, luma_offset, v_to_red, u_to_green, v_to_green, u_to_blue;
} Factors;

/* STEP samples of each colour, in order. */
typedef struct Pixels {
    __m256i red, green, blue;
} Pixels;

int sparse_yuv_rgb_usable(void)
{
    return (av_get_cpu_flags() & AV_CPU_FLAG_AVX2) != 0;
}

static inline AVX2 Factors load_factors(const SparseYuvMatrix *m)
{
    return (Factors){.luma = _mm256_set1_epi16(m->luma),
                     .luma_offset = _mm256_set1_epi16(m->luma_offset),
                     .v_to_red = _mm256_set1_epi16(m->v_to_red),
                     .u_to_green = _mm256_set1_epi16(m->u_to_green),
                     .v_to_green = _mm256_set1_epi16(m->v_to_green),
                     .u_to_blue = _mm256_set1_epi16(m->u_to_blue)};
}

/* One colour: what chroma adds to the luma of even and odd pixels, saturated to bytes. Packing
 * puts eight even ones before eight odd ones. */
static inline AVX2 __m256i add_chroma(__m256i even, __m256i odd, __m256i chroma)
{
    const __m256i interleave =
        _mm256_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 0, 8, 1, 9, 2, 10, 3,
                         11, 4, 12, 5, 13, 6, 14, 7, 15);

    return _mm256_shuffle_epi8(
        _mm256_packus_epi16(_mm256_adds_epi16(even, chroma), _mm256_adds_epi16(odd, chroma)),
        interleave);
}

/*
 * swscale's arithmetic (libswscale/x86/yuv_2_rgb.asm): samples with 3 bits of fraction, products
 * of 16 bits of which the upper half is kept, sums that saturate.
 */
static inline AVX2 Pixels convert(const Factors *f, const uint8_t *y, const uint8_t *u,
                                  const uint8_t *v)
{
    const __m256i center = _mm256_set1_epi16(128 << 3);
    __m256i luma = _mm256_loadu_si256((const __m256i *)y);
    __m256i even = _mm256_slli_epi16(_mm256_and_si256(luma, _mm256_set1_epi16(255)), 3);
    __m256i odd = _mm256_slli_epi16(_mm256_srli_epi16(luma, 8), 3);
    __m256i cb = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)u));
    __m256i cr = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)v));

    cb = _mm256_subs_epi16(_mm256_slli_epi16(cb, 3), center);
    cr = _mm256_subs_epi16(_mm256_slli_epi16(cr, 3), center);
    even = _mm256_mulhi_epi16(_mm256_sub_epi16(even, f->luma_offset), f->luma);
    odd = _mm256_mulhi_epi16(_mm256_sub_epi16(odd, f->luma_offset), f->luma);
    return (Pixels){
        .red = add_chroma(even, odd, _mm256_mulhi_epi16(cr, f->v_to_red)),
        .green = add_chroma(even, odd,
                            _mm256_adds_epi16(_mm256_mulhi_epi16(cb, f->u_to_green),
                                              _mm256_mulhi_epi16(cr, f->v_to_green))),
        .blue = add_chroma(even, odd, _mm256_mulhi_epi16(cb, f->u_to_blue)),
    };
}

/* Sixteen bytes of rgb24 in both halves: each colour's bytes that belong there, -1 elsewhere. */
static inline AVX2 __m256i merge(const Pixels *p, __m128i red, __m128i green, __m128i blue)
{
    __m256i r = _mm256_shuffle_epi8(p->red, _mm256_broadcastsi128_si256(red));
    __m256i g = _mm256_shuffle_epi8(p->green, _mm256_broadcastsi128_si256(green));
    __m256i b = _mm256_shuffle_epi8(p->blue, _mm256_broadcastsi128_si256(blue));

    return _mm256_or_si256(_mm256_or_si256(r, g), b);
}

static inline AVX2 void store_packed(uint8_t *rgb, const Pixels *p)
{
    /* pixels 0-15 lie in the lower halves, 16-31 in the upper ones */
    __m256i first =
        merge(p, _mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5),
              _mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1),
              _mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1));
    __m256i second =
        merge(p, _mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1),
              _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10),
              _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1));
    __m256i third =
        merge(p, _mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1),
              _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1),
              _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15));

    _mm256_storeu_si256((__m256i *)rgb, _mm256_permute2x128_si256(first, second, 0x20));
    _mm256_storeu_si256((__m256i *)(rgb + 32), _mm256_permute2x128_si256(third, first, 0x30));
    _mm256_storeu_si256((__m256i *)(rgb + 64), _mm256_permute2x128_si256(second, third, 0x31));
}

static inline AVX2 void store_planar(uint8_t *red, uint8_t *green, uint8_t *blue, const Pixels *p)
{
    _mm256_storeu_si256((__m256i *)red, p->red);
    _mm256_storeu_si256((__m256i *)green, p->green);
    _mm256_storeu_si256((__m256i *)blue, p->blue);
}

/* The pixels of a row that don't fill a step. */
static AVX2 Pixels convert_rest(const Factors *f, const uint8_t *y, const uint8_t *u,
                                const uint8_t *v, size_t count)
{
    uint8_t luma[STEP] = {0}, cb[STEP / 2] = {0}, cr[STEP / 2] = {0};

    memcpy(luma, y, count);
    memcpy(cb, u, (count + 1) / 2);
    memcpy(cr, v, (count + 1) / 2);
    return convert(f, luma, cb, cr);
}

AVX2 void sparse_yuv_rgb_row(const SparseYuvMatrix *matrix, const uint8_t *y, const uint8_t *u,
                             const uint8_t *v, uint8_t *rgb, size_t width)
{
    const Factors f = load_factors(matrix);
    size_t x = 0;

    for (; x + STEP <= width; x += STEP) {
        Pixels p = convert(&f, y + x, u + x / 2, v + x / 2);

        store_packed(rgb + 3 * x, &p);
    }
    if (x < width) {
        Pixels p = convert_rest(&f, y + x, u + x / 2, v + x / 2, width - x);
        uint8_t rest[3 * STEP];

        store_packed(rest, &p);
        memcpy(rgb + 3 * x, rest, 3 * (width - x));
    }
}

AVX2 void sparse_yuv_rgb_row_planar(const SparseYuvMatrix *matrix, const uint8_t *y,
                                    const uint8_t *u, const uint8_t *v, uint8_t *red,
                                    uint8_t *green, uint8_t *blue, size_t width)
{
    const Factors f = load_factors(matrix);
    size_t x = 0;

    for (; x + STEP <= width; x += STEP) {
        Pixels p = convert(&f, y + x, u + x / 2, v + x / 2);

        store_planar(red + x, green + x, blue + x, &p);
    }
    if (x < width) {
        Pixels p = convert_rest(&f, y + x, u + x / 2, v + x / 2, width - x);
        uint8_t rest[3][STEP];

        store_planar(rest[0], rest[1], rest[2], &p);
        memcpy(red + x, rest[0], width - x);
        memcpy(green + x, rest[1], width - x);
        memcpy(blue + x, rest[2], width - x);
    }
}

#else /* another machine: swscale does it */

int sparse_yuv_rgb_usable(void)
{
    return 0;
}

void sparse_yuv_rgb_row(const SparseYuvMatrix *matrix, const uint8_t *y, const uint8_t *u,
                        const uint8_t *v, uint8_t *rgb, size_t width)
{
    (void)matrix, (void)y, (void)u, (void)v, (void)rgb, (void)width;
}

void sparse_yuv_rgb_row_planar(const SparseYuvMatrix *matrix, const uint8_t *y, const uint8_t *u,
                               const uint8_t *v, uint8_t *red, uint8_t *green, uint8_t *blue,
                               size_t width)
{
    (void)matrix, (void)y, (void)u, (void)v, (void)red, (void)green, (void)blue, (void)width;
}

#endif
