/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sparse.h"

/* twice, for the guard */
#include "sparse.h"

int main(void)
{
    return 0;
}
