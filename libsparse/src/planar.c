/*
 * This file is part of sparseframes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "planar.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <tmmintrin.h>

#include <libavutil/cpu.h>

/*
 * Sixteen pixels at a time. A channel's bytes lie in all three loads: those of channel c in load k
 * are at the places where (16 k + place) % 3 == c. Each is shuffled to where it belongs, and the
 * three are put together; 0x80 leaves a zero.
 */
__attribute__((target("ssse3"))) static size_t
split_blocks(const uint8_t *row, uint8_t *red, uint8_t *green, uint8_t *blue, size_t width)
{
    uint8_t *const planes[3] = {red, green, blue};
    uint8_t places[3][3][16];
    __m128i masks[3][3];
    size_t x = 0;

    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < 16; i++) {
                int at = 3 * i + c - 16 * k;

                places[c][k][i] = (uint8_t)(at >= 0 && at < 16 ? at : 0x80);
            }
            masks[c][k] = _mm_loadu_si128((const __m128i *)places[c][k]);
        }
    for (; x + 16 <= width; x += 16, row += 48) {
        const __m128i a = _mm_loadu_si128((const __m128i *)row);
        const __m128i b = _mm_loadu_si128((const __m128i *)(row + 16));
        const __m128i d = _mm_loadu_si128((const __m128i *)(row + 32));

        for (int c = 0; c < 3; c++) {
            __m128i all = _mm_or_si128(
                _mm_shuffle_epi8(a, masks[c][0]),
                _mm_or_si128(_mm_shuffle_epi8(b, masks[c][1]), _mm_shuffle_epi8(d, masks[c][2])));

            _mm_storeu_si128((__m128i *)(planes[c] + x), all);
        }
    }
    return x;
}

static size_t split_fast(const uint8_t *row, uint8_t *red, uint8_t *green, uint8_t *blue,
                         size_t width)
{
    if (width < 16 || !(av_get_cpu_flags() & AV_CPU_FLAG_SSSE3))
        return 0;
    return split_blocks(row, red, green, blue, width);
}
#else
static size_t split_fast(const uint8_t *row, uint8_t *red, uint8_t *green, uint8_t *blue,
                         size_t width)
{
    return 0;
}
#endif

void sparse_split_rgb(const uint8_t *row, uint8_t *red, uint8_t *green, uint8_t *blue, size_t width)
{
    for (size_t x = split_fast(row, red, green, blue, width); x < width; x++) {
        red[x] = row[3 * x];
        green[x] = row[3 * x + 1];
        blue[x] = row[3 * x + 2];
    }
}
