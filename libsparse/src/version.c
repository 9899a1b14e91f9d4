/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sparse.h"

#include <libavutil/ffversion.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *sparse_version(void)
{
    return TEXT(SPARSE_VERSION_MAJOR) "." TEXT(SPARSE_VERSION_MINOR) "." TEXT(SPARSE_VERSION_PATCH);
}

const char *sparse_ffmpeg_version(void)
{
    return FFMPEG_VERSION "+sparse";
}
