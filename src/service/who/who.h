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

/* What is held of a GPU, or of this instance of it (NULL: the GPU itself, not its instances): *ret_count holdings. */
const Holding *who_list(const Snapshot *snapshot, const NodeGpu *gpu, const Reading *instance, size_t *ret_count);
/* One of `count` holdings of a device: "job 4711 of alice"; of several with its share and how that was found:
 * "pod serving/chat-0 75 % (sampled)". "(unmanaged)", "(reserved)" where it is so. */
void who_add_holder(const Holding *holding, size_t count, Str *out);
/* All of them, as many as fit into `width` columns: "job 4711 of alice"; where that is too long "job 4711", of several
 * "2 owners". Nothing where there is none. */
void who_add_holders(const Holding *list, size_t count, size_t width, Str *out);

void who_text(const Snapshot *snapshot, const WhoQuery *query, Str *out);
/* {"time":...,"node":...,"allocations":[...]}, with `by` {...,"by":...,"owners":[...]} too; ended by a newline. */
void who_json(const Snapshot *snapshot, const WhoQuery *query, Str *out);
