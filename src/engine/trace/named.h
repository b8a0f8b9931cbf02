/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Rows of a table by the id of a profile's name: each name has its row from the first time it is asked for. */

#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/profile.h"

typedef struct TraceNamed {
    uint32_t *row; /* by name; the last one for PROFILE_NONE; 0 none yet, else number + 1 */
    size_t names;
    uint32_t len; /* rows given */
} TraceNamed;

static inline void trace_named_init(TraceNamed *named, const Profile *profile)
{
    named->names = profile_name_count(profile);
    named->row = xcalloc(named->names + 1, sizeof *named->row);
    named->len = 0;
}

static inline void trace_named_done(TraceNamed *named)
{
    free(named->row);
    named->row = NULL;
}

/* The row of a name; it is a new one where that equals `len` before the call. */
static inline uint32_t trace_named_row(TraceNamed *named, uint32_t name)
{
    uint32_t *row = &named->row[name < named->names ? name : named->names];

    if (*row == 0)
        *row = ++named->len;
    return *row - 1;
}
