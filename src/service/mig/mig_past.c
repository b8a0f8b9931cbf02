/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the ledger as demands: one for each owner on each device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/number.h"
#include "service/mig/mig_suggest.h"

#define PPM 1e6
#define KNOWN_SHARE 0.9           /* of the time held: SM activity was known in so much of it */
#define STILL_NS (2 * NS_PER_MIN) /* before the end of the ledger: it runs still */
#define GPU_KEY_BEGIN "gpu/"

void mig_past_init(MigPast *past)
{
    map_init(&past->known);
}

void mig_past_done(MigPast *past)
{
    vec_done(&past->demands);
    vec_done(&past->works);
    vec_done(&past->uses);
    vec_done(&past->gpus);
    vec_done(&past->lost);
    map_done(&past->known);
}

/* --- GPUs --------------------------------------------------------------------------------------------------------- */

static bool is_uuid_of(const MigGpu *gpu, const char *uuid, size_t len)
{
    return strlen(gpu->uuid) == len && memcmp(gpu->uuid, uuid, len) == 0;
}

static MigGpu *add_gpu(MigPast *past, const char *uuid, size_t len)
{
    MigGpu *gpu = &past->node->gpus[past->node->count];
    *gpu = (MigGpu){.index = (unsigned)past->node->count++,
                    .device = past->table->devices[0],
                    .capable = true,
                    .board = past->table->board};
    snprintf(gpu->uuid, sizeof gpu->uuid, "%.*s", (int)len, uuid);
    return gpu;
}

/* The GPU of a device's key; NULL: the node does not have it. */
static MigGpu *find_gpu(MigPast *past, const char *device)
{
    const size_t skip = strlen(GPU_KEY_BEGIN), len = ledger_gpu_key_len(device);
    if (strncmp(device, GPU_KEY_BEGIN, skip) != 0)
        return NULL;
    for (size_t i = 0; i < past->node->count; i++)
        if (is_uuid_of(&past->node->gpus[i], device + skip, len - skip))
            return &past->node->gpus[i];
    return past->table && past->node->count < MIG_GPUS_MAX ? add_gpu(past, device + skip, len - skip) : NULL;
}

static bool has_key(char *const *keys, size_t count, const char *key, size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(keys[i]) == len && memcmp(keys[i], key, len) == 0)
            return true;
    return false;
}

static void note_gpu(MigPast *past, const char *device, bool lost)
{
    const size_t len = ledger_gpu_key_len(device);
    if (lost && !has_key(past->lost.at, past->lost.len, device, len))
        vec_push(&past->lost, arena_strndup(past->arena, device, len));
    if (!lost && !has_key(past->gpus.at, past->gpus.len, device, len))
        vec_push(&past->gpus, arena_strndup(past->arena, device, len));
}

/* --- demands ------------------------------------------------------------------------------------------------------ */

static const char *name_owner(const MigPast *past, const Owner *owner)
{
    char room[OWNER_NAME_CAP];
    Str text;
    str_init_room(&text, room, sizeof room);
    if (owner_is_known(owner))
        owner_add_text(owner, &text);
    return arena_strdup(past->arena, text.len ? text.text : "unknown owner");
}

/* The instance that a row's device is, where it is one. */
static void set_device(const MigGpu *gpu, const LedgerRow *row, MigDemand *d)
{
    const char *at = strstr(row->device, "/gi/");
    Err err = {0};
    uint8_t compute;
    d->device = MIG_WHOLE_GPU;
    if (!at)
        return;
    const MigProfile *profile = mig_profile_find(&gpu->board, row->profile, &compute, &err);
    d->instance_id = (uint32_t)strtoul(at + strlen("/gi/"), NULL, 10);
    if (!profile)
        return;
    d->device = (int)(profile - gpu->board.profiles);
    if (strpbrk(profile->name, "+-"))
        d->risks |= 1u << MIG_RISK_MEDIA;
}

static size_t find_demand(MigPast *past, const MigGpu *gpu, const LedgerRow *row)
{
    const Owner *o = &row->owner;
    const char *key = arena_printf(past->arena, "%s\t%s\t%s\t%s\t%s\t%s\t%s", row->device, row->profile, o->user,
                                   o->job, o->pod, o->namespace, o->container);
    const size_t known = (size_t)(uintptr_t)map_get(&past->known, key);
    if (known)
        return known - 1;
    MigDemand *d = vec_add(&past->demands);
    MigWork *work = vec_add(&past->works);
    d->owner = name_owner(past, o);
    d->gpu = (size_t)(gpu - past->node->gpus);
    set_device(gpu, row, d);
    memcpy(work->device, row->device, sizeof work->device);
    work->owner = *o;
    work->first_real_ns = UINT64_MAX;
    map_put(&past->known, key, (void *)(uintptr_t)past->demands.len); /* NOLINT: a number */
    return past->demands.len - 1;
}

static void add_peaks(MigDemand *d, const LedgerRow *row)
{
    const uint64_t *peaks = row->peaks, *amounts = row->amounts;
    const bool old_memory = peaks[LEDGER_PEAK_MEMORY] == 0 && amounts[LEDGER_MEMORY_BYTE_S] > 0,
               old_sm = peaks[LEDGER_PEAK_SM] == 0 && amounts[LEDGER_EFF_NS] > 0,
               shared = row->share_kind == ATTRIBUTION_SAMPLED || row->share_kind == ATTRIBUTION_EVEN;
    d->memory_peak_bytes = number_max_u64(d->memory_peak_bytes, peaks[LEDGER_PEAK_MEMORY]);
    const double sm = (double)peaks[LEDGER_PEAK_SM] / PPM;
    d->sm_peak = sm > d->sm_peak ? sm : d->sm_peak;
    d->risks |= (uint32_t)old_memory << MIG_RISK_MEMORY_UNKNOWN | (uint32_t)old_sm << MIG_RISK_SM_UNKNOWN |
                (uint32_t)shared << MIG_RISK_SHARED;
}

static void add_held(MigPast *past, const MigGpu *gpu, const LedgerRow *row, uint64_t from_ns)
{
    const size_t at = find_demand(past, gpu, row);
    MigDemand *d = &past->demands.at[at];
    MigWork *work = &past->works.at[at];
    vec_push(&past->uses, ((MigUse){at, from_ns, row->until_real_ns}));
    add_peaks(d, row);
    work->alloc_ns += row->amounts[LEDGER_ALLOC_NS];
    work->idle_ns += row->amounts[LEDGER_IDLE_NS];
    work->util_ns += row->quality == LEDGER_QUALITY_UTIL ? row->amounts[LEDGER_MEASURED_NS] : 0;
    work->measured_ns += row->amounts[LEDGER_MEASURED_NS];
    work->eff_ns += row->amounts[LEDGER_EFF_NS];
    work->first_real_ns = number_min_u64(work->first_real_ns, row->from_real_ns);
    work->last_real_ns = number_max_u64(work->last_real_ns, row->until_real_ns);
}

void mig_past_add(void *self, const LedgerRow *row)
{
    MigPast *past = self;
    const uint64_t from_ns = number_max_u64(row->from_real_ns, past->since_real_ns);
    const MigGpu *gpu = find_gpu(past, row->device);
    if (row->until_real_ns <= from_ns)
        return;
    note_gpu(past, row->device, !gpu);
    if (!gpu)
        return;
    const double part = (double)(row->until_real_ns - from_ns) / (double)(row->until_real_ns - row->from_real_ns);
    past->known_ns += part * ((double)row->amounts[LEDGER_ALLOC_NS] + (double)row->amounts[LEDGER_UNHEALTHY_NS]);
    past->first_real_ns = past->until_real_ns ? number_min_u64(past->first_real_ns, from_ns) : from_ns;
    past->until_real_ns = number_max_u64(past->until_real_ns, row->until_real_ns);
    if (row->held && row->amounts[LEDGER_ALLOC_NS] > 0)
        add_held(past, gpu, row, from_ns);
}

/* --- several GPUs at once ----------------------------------------------------------------------------------------- */

typedef struct OwnedUse {
    uint64_t owner; /* its hash */
    MigUse use;
} OwnedUse;

static int compare_owned(const void *a, const void *b)
{
    const OwnedUse *x = a, *y = b;
    if (x->owner != y->owner)
        return x->owner < y->owner ? -1 : 1;
    return x->use.from_ns < y->use.from_ns ? -1 : x->use.from_ns > y->use.from_ns;
}

/* Of an owner's uses in the order of time: the last of each GPU. */
static void mark_several(MigPast *past, const OwnedUse *owned, size_t count)
{
    MigUse last[MIG_GPUS_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        const MigUse *use = &owned[i].use;
        MigDemand *d = &past->demands.at[use->demand];
        for (size_t g = 0; g < MIG_GPUS_MAX; g++)
            if (g != d->gpu && last[g].until_ns > use->from_ns) {
                d->risks |= 1u << MIG_RISK_SEVERAL;
                past->demands.at[last[g].demand].risks |= 1u << MIG_RISK_SEVERAL;
            }
        if (use->until_ns > last[d->gpu].until_ns)
            last[d->gpu] = *use;
    }
}

static void find_several(MigPast *past)
{
    VEC(OwnedUse) owned = {0};
    for (size_t i = 0; i < past->uses.len; i++) {
        const size_t demand = past->uses.at[i].demand;
        if (past->demands.at[demand].device == MIG_WHOLE_GPU)
            vec_push(&owned, ((OwnedUse){owner_hash(&past->works.at[demand].owner), past->uses.at[i]}));
    }
    vec_sort(&owned, compare_owned);
    for (size_t i = 0, end; i < owned.len; i = end) {
        for (end = i + 1; end < owned.len && owned.at[end].owner == owned.at[i].owner;)
            end++;
        mark_several(past, owned.at + i, end - i);
    }
    vec_done(&owned);
}

void mig_past_add_shortage(MigPast *past, const char *device, const Owner *owners, size_t owner_count)
{
    const size_t len = strlen(device);
    for (size_t i = 0; i < past->works.len; i++) {
        bool hit = owner_count == 0;
        for (size_t k = 0; k < owner_count; k++)
            hit |= owner_is_same(&owners[k], &past->works.at[i].owner);
        const char *key = past->works.at[i].device; /* of an instance it has the compute instance too */
        if (hit && strncmp(device, key, len) == 0 && (key[len] == '\0' || key[len] == '/'))
            past->demands.at[i].risks |= 1u << MIG_RISK_SHORTAGE;
    }
}

void mig_past_finish(MigPast *past)
{
    const uint64_t begin_ns = number_max_u64(past->since_real_ns, past->first_real_ns);
    for (size_t i = 0; i < past->demands.len; i++) {
        MigDemand *d = &past->demands.at[i];
        const MigWork *work = &past->works.at[i];
        const double alloc_ns = (double)work->alloc_ns;
        const bool started =
            work->first_real_ns > begin_ns + NS_PER_MIN && work->last_real_ns + STILL_NS > past->until_real_ns;
        d->sm_mean = work->measured_ns ? (double)work->eff_ns / (double)work->measured_ns : 0;
        d->idle = (double)work->idle_ns / alloc_ns;
        d->risks |= (uint32_t)((double)work->measured_ns < KNOWN_SHARE * alloc_ns) << MIG_RISK_SM_UNKNOWN |
                    (uint32_t)((double)work->util_ns > (1 - KNOWN_SHARE) * alloc_ns) << MIG_RISK_UTIL |
                    (uint32_t)started << MIG_RISK_STARTED;
    }
    find_several(past);
}
