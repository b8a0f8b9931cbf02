/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker who`: the holdings of a snapshot as a table for people or as JSON (docs/who.schema.json), each alone or
 * summed up by owner. Decides nothing. Pure, one thread.
 */

#include "base/err.h"
#include "base/str.h"
#include "model/snapshot.h"

typedef struct WhoQuery {
    OwnerKey by;             /* OWNER_KEY_END: not summed up */
    const NodeGpu *gpu;      /* NULL: all */
    const Reading *instance; /* of it, NULL: the GPU with all that is on it */
} WhoQuery;

/* `by`: a key; `gpu`: an index, a UUID (of a MIG device too) or a PCI address; NULL where not given. -EINVAL with what
 * is allowed, -ENOENT for a GPU that there is not. */
int who_query_read(const Snapshot *snapshot, const char *by, const char *gpu, WhoQuery *ret, Err *err);

void who_text(const Snapshot *snapshot, const WhoQuery *query, Str *out);
/* {"time":...,"node":...,"allocations":[...]}, with `by` {...,"by":...,"owners":[...]} too; ended by a newline. */
void who_json(const Snapshot *snapshot, const WhoQuery *query, Str *out);
