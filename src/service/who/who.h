/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker who`: the holdings of a snapshot as a table for people or as JSON (docs/who.schema.json), each alone or
 * summed up by owner. Decides nothing. Pure, one thread.
 */

#include "base/err.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "engine/ledger/ledger.h"
#include "model/snapshot.h"

typedef struct WhoQuery {
    OwnerKey by;             /* OWNER_KEY_END: not summed up */
    const NodeGpu *gpu;      /* NULL: all */
    const Reading *instance; /* of it, NULL: the GPU with all that is on it */
} WhoQuery;

/* `by`: a key; `gpu`: an index, a UUID (of a MIG device too) or a PCI address; NULL where not given. -EINVAL with what
 * is allowed, -ENOENT for a GPU that there is not, -EIO where that is not known as GPUs cannot be read. */
int who_query_read(const Snapshot *snapshot, const char *by, const char *gpu, WhoQuery *ret, Err *err);

/* What is held of a GPU, or of this instance of it (NULL: the GPU itself, not its instances): *ret_count holdings. */
const Holding *who_list(const Snapshot *snapshot, const NodeGpu *gpu, const Reading *instance, size_t *ret_count);
/* All of them, as many as fit into `width` columns: "job 4711 of alice"; where that is too long "job 4711", of several
 * "2 owners". Nothing where there is none. */
void who_add_holders(const Holding *list, size_t count, size_t width, Str *out);

/* Whether it is known of at least one of the GPUs that are asked for who holds it. */
bool who_is_known(const Snapshot *snapshot, const WhoQuery *query);

void who_text(const Snapshot *snapshot, const WhoQuery *query, Str *out);
/* {"time":...,"node":...,"allocations":[...]}, with `by` {...,"by":...,"owners":[...]} too; ended by a newline. */
void who_json(const Snapshot *snapshot, const WhoQuery *query, Str *out);

/* ---- who held what since some time, by the ledger ---- */

/* What one owner held of one device with one kind of share; summed up by a key: of all devices. */
typedef struct WhoHeld {
    char device[DEVICE_KEY_CAP];
    Owner owner;
    Attribution attribution;
    char name[OWNER_NAME_CAP]; /* summed up: of the owner, "" unknown */
    double hours, idle_hours;  /* GPU hours; of these, held and nothing ran */
    uint64_t from_real_ns, until_real_ns;
} WhoHeld;

typedef struct WhoPast {
    OwnerKey by;                 /* OWNER_KEY_END: not summed up */
    char device[DEVICE_KEY_CAP]; /* only this one, a GPU with its instances; "" all */
    uint64_t since_real_ns, now_real_ns;
    const char *node;    /* its name, borrowed */
    double unheld_hours; /* that nobody held */
    VEC(WhoHeld *) at;   /* after who_past_finish those of one device together, who held most first */
    Map known;           /* the same */
} WhoPast;

/* `past` has its by, device, times and node already. */
void who_past_init(WhoPast *past);
/* A row of the ledger; `self` is the WhoPast. */
void who_past_add(void *self, const LedgerRow *row);
void who_past_finish(WhoPast *past);
void who_past_done(WhoPast *past);
void who_past_text(const WhoPast *past, Str *out);
/* {"time":...,"node":...,"since":...,"held":[...]} or, by a key, {...,"by":...,"owners":[...]}, and "unheld_gpu_hours";
 * ended by a newline. */
void who_past_json(const WhoPast *past, Str *out);
