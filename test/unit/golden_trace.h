/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of one program saw, in their order, compared with a file by the last of them. The group opens and
 * closes it. */
#pragma once

#include "golden.h"

static Str trace;

static inline int open_trace(void **state)
{
    (void)state;
    str_init(&trace, GOLDEN_MAX);
    return 0;
}

static inline int close_trace(void **state)
{
    (void)state;
    str_done(&trace);
    return 0;
}
