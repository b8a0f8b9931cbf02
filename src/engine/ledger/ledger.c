/* SPDX-License-Identifier: Apache-2.0 */
/* A tick splits the time and the energy of each GPU into parts (an owner on a device, or nobody), whole numbers that
 * add up, and adds each part to its row (rows.c). */
#include "engine/ledger/ledger.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/vec.h"
#include "engine/ledger/rows.h"

#define RESUME_NS NS_PER_MIN      /* after the start: a GPU that comes later was plugged in */
#define SETTLE_NS (10 * NS_PER_S) /* clocks and power come down in it after the last work */
#define MIB 1048576.0

enum { IDLE_WEIGHT = 16 };

/* Why nothing runs on a GPU. */
typedef enum Quiet { QUIET_NOT, QUIET_FREE, QUIET_HELD } Quiet;

typedef struct Slot {
    Device device;
    char key[DEVICE_KEY_CAP];
    bool seen;
    bool away; /* it was taken out; only rows that are over and wait until they can be kept are left */
    uint64_t last_ns;
    int64_t energy_mj; /* the counter at the last tick that read it; -1: none */
    LedgerIdle idle;
    Quiet quiet;
    uint64_t quiet_ns; /* for so long before this tick */
    OpenRows rows;
} Slot;

/* Of a GPU that has no slot. */
typedef struct KnownIdle {
    char uuid[DEVICE_UUID_CAP];
    LedgerIdle idle;
} KnownIdle;

struct Ledger {
    VEC(Slot) slots;
    VEC(KnownIdle) idles;
    VEC(LedgerPart) parts;
    VEC(LedgerCharge) charges;
    LedgerRows last; /* of the journal */
    char boot_id[LEDGER_BOOT_CAP];
    uint64_t next_id, began_ns;
    const Prices *prices;
};

/* The tick. */
typedef struct Tick {
    Ledger *ledger;
    const Node *node;
    const NodeGpu *gpu;
    Slot *slot;
    const Holding *all, *holdings; /* of the node; of this GPU */
    size_t holding_count;
    uint64_t dt_ns;
    bool gap; /* too long to be known */
} Tick;

const WordRow ledger_qualities[] = {LEDGER_QUALITY_TABLE(WORD_ROW)};
const WordRow ledger_amounts[] = {LEDGER_AMOUNT_TABLE(WORD_ROW)};
const WordRow ledger_peaks[] = {LEDGER_PEAK_TABLE(WORD_ROW)};

/* SM activity, the best source first. */
static const struct {
    MetricId metric;
    double scale;
    bool profiling;
} sources[] = {
    {METRIC_PROF_SM_ACTIVE, 1, true},
    {METRIC_PROF_GR_ENGINE_ACTIVE, 1, true},
    {METRIC_GPU_UTIL, 0.01, false},
};

void ledger_add_wanted(uint64_t wanted[METRIC_SET_WORDS])
{
    static const MetricId others[] = {METRIC_PROF_PIPE_TENSOR_ACTIVE, METRIC_FB_USED, METRIC_TOTAL_ENERGY_CONSUMPTION,
                                      METRIC_POWER_USAGE, METRIC_CLOCKS_EVENT_REASONS};

    for (size_t i = 0; i < ARRAY_LEN(sources); i++)
        metric_set_add(wanted, sources[i].metric);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        metric_set_add(wanted, others[i]);
}

size_t ledger_gpu_key_len(const char *device)
{
    const char *slash = strchr(device, '/'), *end = slash ? strchr(slash + 1, '/') : NULL;

    return end ? (size_t)(end - device) : strlen(device);
}

static bool is_gpu_key(const char *device, const char *gpu)
{
    const size_t len = ledger_gpu_key_len(device);

    return strncmp(device, gpu, len) == 0 && gpu[len] == '\0';
}

void ledger_find_last(LedgerRows *last, const LedgerRow *row)
{
    char gpu[DEVICE_KEY_CAP];

    snprintf(gpu, sizeof gpu, "%.*s", (int)ledger_gpu_key_len(row->device), row->device);
    for (size_t i = 0; i < last->len; i++) {
        LedgerRow *known = &last->at[i];

        if (!is_gpu_key(known->device, gpu))
            continue;
        if (strcmp(known->boot_id, row->boot_id) == 0 && row->until_ns > known->until_ns)
            *known = *row;
        return;
    }
    vec_push(last, *row);
}

Ledger *ledger_new(const LedgerRows *last, const char *boot_id, uint64_t next_id)
{
    Ledger *l = xcalloc(1, sizeof *l);

    for (size_t i = 0; i < last->len; i++)
        vec_push(&l->last, last->at[i]);
    snprintf(l->boot_id, sizeof l->boot_id, "%s", boot_id);
    l->next_id = next_id;
    return l;
}

void ledger_free(Ledger *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->slots.len; i++)
        vec_done(&l->slots.at[i].rows);
    vec_done(&l->slots);
    vec_done(&l->idles);
    vec_done(&l->parts);
    vec_done(&l->charges);
    vec_done(&l->last);
    free(l);
}

void ledger_set_prices(Ledger *l, const Prices *prices)
{
    l->prices = prices;
}

const LedgerCharge *ledger_charges(const Ledger *l)
{
    return l->charges.at;
}

uint64_t ledger_closed_id(const Ledger *l)
{
    uint64_t id = l->next_id;

    for (size_t i = 0; i < l->slots.len; i++)
        for (size_t k = 0; k < l->slots.at[i].rows.len; k++)
            id = number_min_u64(id, l->slots.at[i].rows.at[k].row.id);
    return id;
}

/* --- amounts ------------------------------------------------------------------------------------------------------ */

static double clamp_share(double value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value; /* DCGM reports SM activity over 1 on MIG now and then */
}

static bool read_share(const Reading *reading, MetricId id, double scale, double *ret)
{
    double value;

    if (!sample_double(&reading->sample[id], &value) || !isfinite(value))
        return false;
    *ret = clamp_share(value * scale);
    return true;
}

static LedgerQuality read_activity(const LedgerPart *part, bool gpm, double *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(sources); i++)
        if (read_share(part->reading, sources[i].metric, sources[i].scale, ret))
            return !sources[i].profiling ? LEDGER_QUALITY_UTIL : gpm ? LEDGER_QUALITY_GPM : LEDGER_QUALITY_DCP;
    *ret = 0;
    return LEDGER_QUALITY_NONE;
}

static bool is_idle(const LedgerPart *part)
{
    return part->holding->state == HOLDING_IDLE_HELD || part->holding->state == HOLDING_RESERVED ||
           (part->activity && part->activity->word == ACTIVITY_IDLE_HELD);
}

static double find_memory(const LedgerPart *part)
{
    double mib;

    if (part->holding->memory_bytes > 0)
        return (double)part->holding->memory_bytes;
    return sample_double(&part->reading->sample[METRIC_FB_USED], &mib) ? mib * MIB * part->of_device : 0;
}

/* What its owner did in the part's time. */
static void measure_part(const Tick *t, const LedgerPart *part, RowsAdd *to)
{
    const double memory = find_memory(part);
    uint64_t *add = to->amounts;
    double busy = 0, tensor;
    int64_t reasons;

    to->quality = read_activity(part, t->gpu->gpm, &to->sm);
    to->memory_bytes = (uint64_t)llround(memory);
    add[LEDGER_MEASURED_NS] = to->quality == LEDGER_QUALITY_NONE ? 0 : part->ns;
    add[LEDGER_EFF_NS] = rows_scale(part->ns, to->sm);
    if (read_share(part->reading, METRIC_PROF_GR_ENGINE_ACTIVE, 1, &busy) ||
        read_share(part->reading, METRIC_GPU_UTIL, 0.01, &busy))
        add[LEDGER_BUSY_NS] = rows_scale(part->ns, busy);
    if (read_share(part->reading, METRIC_PROF_PIPE_TENSOR_ACTIVE, 1, &tensor))
        add[LEDGER_TENSOR_NS] = rows_scale(part->ns, tensor);
    if (is_idle(part))
        add[LEDGER_IDLE_NS] = part->ns;
    if (sample_int64(&t->gpu->reading.sample[METRIC_CLOCKS_EVENT_REASONS], &reasons) &&
        (reasons & CLOCK_REASONS_THROTTLED))
        add[LEDGER_THROTTLED_NS] = part->ns;
    add[LEDGER_MEMORY_BYTE_S] = (uint64_t)llround(memory * ((double)t->dt_ns / NS_PER_S));
}

/* Which of the three kinds of time the part is. */
static LedgerAmount find_kind(const Tick *t, const LedgerPart *part)
{
    if (t->gap)
        return LEDGER_GAPS_NS;
    if (part->activity && part->activity->word == ACTIVITY_UNUSABLE)
        return LEDGER_UNHEALTHY_NS;
    if (t->gpu->state != GPU_UP || (!part->holding && !t->gpu->process_list.valid))
        return LEDGER_GAPS_NS;
    return LEDGER_ALLOC_NS;
}

static void add_part(const Tick *t, const RowsTick *rows, const LedgerPart *part)
{
    RowsAdd add = {.kind = find_kind(t, part), .quality = LEDGER_QUALITY_NONE};

    if (add.kind == LEDGER_ALLOC_NS && part->holding)
        measure_part(t, part, &add);
    add.amounts[add.kind] = part->ns;
    add.amounts[LEDGER_IDLE_MJ] = part->idle_mj;
    add.amounts[LEDGER_ACTIVE_MJ] = part->active_mj;
    rows_add(rows, part, &add);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* Whose time on the device it is; of a test nobody's. */
static bool is_on(const Tick *t, const Holding *holding, const Reading *instance)
{
    if (holding_is_test(holding))
        return false;
    if (!instance && t->gpu->instance_count == 0) /* without MIG all that is on the GPU is on all of it */
        return true;
    if (!instance)
        return holding->gpu_instance == DEVICE_NO_NUMBER;
    return holding->gpu_instance == instance->device.gpu_instance &&
           (holding->compute_instance == DEVICE_NO_NUMBER ||
            holding->compute_instance == instance->device.compute_instance);
}

/* The parts of a device that is `share` of the GPU. */
static void split_device(const Tick *t, const Reading *instance, const Activity *activity, double share)
{
    Ledger *l = t->ledger;
    const Reading *reading = instance ? instance : &t->gpu->reading;
    double sum = 0;
    size_t count = 0;

    for (size_t i = 0; i < t->holding_count; i++)
        if (is_on(t, &t->holdings[i], instance)) {
            sum += t->holdings[i].share;
            count++;
        }
    for (size_t i = 0; i < t->holding_count; i++) {
        const Holding *h = &t->holdings[i];
        const double part = sum > 0 ? h->share / sum : 1 / (double)count;

        if (is_on(t, h, instance))
            vec_push(&l->parts, ((LedgerPart){.reading = reading,
                                              .activity = activity,
                                              .holding = h,
                                              .share = share * part,
                                              .of_device = part,
                                              .slices = share}));
    }
    if (count == 0)
        vec_push(
            &l->parts,
            ((LedgerPart){.reading = reading, .activity = activity, .share = share, .of_device = 1, .slices = share}));
}

static void split_gpu(const Tick *t)
{
    const NodeGpu *gpu = t->gpu;
    double sum = 0;

    vec_clear(&t->ledger->parts);
    if (t->gap) {
        vec_push(&t->ledger->parts, ((LedgerPart){.reading = &gpu->reading, .share = 1, .of_device = 1, .slices = 1}));
        return;
    }
    for (size_t i = 0; i < gpu->instance_count; i++)
        sum += reading_mig_share(&gpu->reading, &gpu->instances[i]);
    for (size_t i = 0; i < gpu->instance_count; i++)
        split_device(t, &gpu->instances[i], gpu->instance_activity ? &gpu->instance_activity[i] : &gpu->activity,
                     reading_mig_share(&gpu->reading, &gpu->instances[i]));
    if (gpu->instance_count == 0 || sum < 1 - ROWS_SHARE_MIN)
        split_device(t, NULL, &gpu->activity, gpu->instance_count ? 1 - sum : 1);
}

/* Splits `total` by the weights of the parts into whole numbers that add up to it; each goes to the member at `offset`.
 */
static void split_total(Ledger *l, uint64_t total, size_t offset)
{
    double sum = 0, before = 0;
    uint64_t given = 0;

    for (size_t i = 0; i < l->parts.len; i++)
        sum += l->parts.at[i].weight;
    for (size_t i = 0; i < l->parts.len; i++) {
        before += l->parts.at[i].weight;
        const uint64_t upto = i + 1 == l->parts.len ? total : rows_scale(total, sum > 0 ? before / sum : 0);
        const uint64_t part = upto > given ? number_min_u64(upto, total) - given : 0;

        memcpy((char *)&l->parts.at[i] + offset, &part, sizeof part);
        given += part;
    }
}

static void weigh_by_share(Ledger *l)
{
    for (size_t i = 0; i < l->parts.len; i++)
        l->parts.at[i].weight = l->parts.at[i].share;
}

/* --- energy ------------------------------------------------------------------------------------------------------- */

/* What the GPU took since the last tick: by its counter, by its power where that began anew or is missing. */
static uint64_t read_energy(const Tick *t)
{
    const Sample *counter = &t->gpu->reading.sample[METRIC_TOTAL_ENERGY_CONSUMPTION];
    const int64_t before = t->slot->energy_mj;
    int64_t now;
    double watts;

    if (sample_int64(counter, &now) && now >= 0) {
        t->slot->energy_mj = now;
        if (before >= 0 && now >= before)
            return (uint64_t)(now - before);
        if (before < 0)
            return 0;
    }
    if (t->gap || !sample_double(&t->gpu->reading.sample[METRIC_POWER_USAGE], &watts) || !(watts > 0))
        return 0;
    return (uint64_t)llround(watts * 1000 * ((double)t->dt_ns / NS_PER_S));
}

/* What the holders' parts did; by share where no activity is known, and where nobody holds the GPU. */
static void weigh_by_activity(Ledger *l, bool held)
{
    double sum = 0;

    for (size_t i = 0; i < l->parts.len; i++) {
        LedgerPart *part = &l->parts.at[i];
        double sm = 0;

        (void)read_activity(part, false, &sm);
        part->weight = part->holding ? part->share * sm : 0;
        sum += part->weight;
    }
    for (size_t i = 0; i < l->parts.len && sum <= 0; i++)
        l->parts.at[i].weight = l->parts.at[i].holding || !held ? l->parts.at[i].share : 0;
}

/* Nothing runs: nobody holds the GPU, or all who do are idle, and its multiprocessors are known to be. */
static Quiet find_quiet(const Tick *t, bool held)
{
    double sm;

    if (t->gap || t->gpu->state != GPU_UP || !t->gpu->process_list.valid || (!held && t->gpu->process_count > 0))
        return QUIET_NOT;
    for (size_t i = 0; i < t->ledger->parts.len; i++) {
        const LedgerPart *part = &t->ledger->parts.at[i];

        if (part->holding && (!is_idle(part) || read_activity(part, false, &sm) == LEDGER_QUALITY_NONE || sm > 0))
            return QUIET_NOT;
    }
    return held ? QUIET_HELD : QUIET_FREE;
}

/* A free GPU says best what an idle one takes; one that is held and idle says it where it was never seen free. */
static void learn_idle(const Tick *t, bool held, double mw)
{
    const Quiet quiet = find_quiet(t, held);
    Slot *slot = t->slot;
    LedgerIdle *idle = &slot->idle;
    const bool settled = slot->quiet == quiet && slot->quiet_ns >= SETTLE_NS;

    slot->quiet_ns = slot->quiet == quiet ? slot->quiet_ns + t->dt_ns : 0;
    slot->quiet = quiet;
    if (quiet == QUIET_NOT || !settled || !(mw > 0) || (held && idle->mw > 0 && !idle->held))
        return;
    *idle = (LedgerIdle){.mw = idle->mw > 0 && idle->held == held ? idle->mw + (mw - idle->mw) / IDLE_WEIGHT : mw,
                         .held = held};
}

/* Idle power is charged by share to who holds the GPU; what is above it, by activity. */
static void split_energy(const Tick *t)
{
    Ledger *l = t->ledger;
    const uint64_t energy_mj = read_energy(t);
    const double seconds = (double)t->dt_ns / NS_PER_S;
    bool held = false;

    for (size_t i = 0; i < l->parts.len; i++)
        held |= l->parts.at[i].holding != NULL;
    learn_idle(t, held, (double)energy_mj / seconds);
    if (energy_mj == 0)
        return;
    const uint64_t idle_mj =
        held ? number_min_u64(energy_mj, (uint64_t)llround(t->slot->idle.mw * seconds)) : energy_mj;
    weigh_by_share(l);
    split_total(l, idle_mj, offsetof(LedgerPart, idle_mj));
    weigh_by_activity(l, held);
    split_total(l, energy_mj - idle_mj, offsetof(LedgerPart, active_mj));
}

/* --- GPUs --------------------------------------------------------------------------------------------------------- */

static bool is_same_gpu(const Slot *slot, const Device *device)
{
    if (slot->device.uuid[0] && device->uuid[0])
        return strcmp(slot->device.uuid, device->uuid) == 0;
    return slot->device.has_pci && device->has_pci && pci_compare(slot->device.pci, device->pci) == 0;
}

static KnownIdle *find_idle(const Ledger *l, const char *uuid)
{
    for (size_t i = 0; uuid[0] && i < l->idles.len; i++)
        if (strcmp(l->idles.at[i].uuid, uuid) == 0)
            return &l->idles.at[i];
    return NULL;
}

void ledger_set_idle(Ledger *l, const char *uuid, LedgerIdle idle)
{
    KnownIdle *known = find_idle(l, uuid);

    if (!uuid[0] || !(idle.mw > 0))
        return;
    if (!known) {
        known = vec_add(&l->idles);
        snprintf(known->uuid, sizeof known->uuid, "%s", uuid);
    }
    known->idle = idle;
}

LedgerIdle ledger_idle(const Ledger *l, const char *uuid)
{
    const KnownIdle *known = find_idle(l, uuid);

    for (size_t i = 0; uuid[0] && i < l->slots.len; i++)
        if (strcmp(l->slots.at[i].device.uuid, uuid) == 0)
            return l->slots.at[i].idle;
    return known ? known->idle : (LedgerIdle){0};
}

/* How long it was from the journal's last row of this GPU to now. */
static uint64_t find_away_ns(const Ledger *l, const Node *node, const LedgerRow *last)
{
    if (l->boot_id[0] && strcmp(l->boot_id, last->boot_id) == 0 && node->time_ns >= last->until_ns)
        return node->time_ns - last->until_ns;
    return node->real_ns > last->until_real_ns ? node->real_ns - last->until_real_ns : 0;
}

/* The time in which no agent ran, as a row of its own. */
static void add_away(Ledger *l, const Node *node, const LedgerRow *last, Slot *slot)
{
    const uint64_t away_ns = find_away_ns(l, node, last);
    LedgerRow row = {.id = l->next_id, .until_ns = node->time_ns, .owner.pid = -1};

    if (away_ns == 0)
        return;
    l->next_id++;
    row.until_real_ns = node->real_ns;
    row.from_real_ns = node->real_ns > away_ns ? node->real_ns - away_ns : 0;
    row.amounts[LEDGER_GAPS_NS] = away_ns;
    memcpy(row.boot_id, l->boot_id, sizeof row.boot_id);
    memcpy(row.device, slot->key, sizeof row.device);
    memcpy(row.name, slot->device.name, sizeof row.name);
    prices_find(l->prices, row.name, "", 1, row.from_real_ns, row.price);
    vec_push(&slot->rows, ((OpenRow){.row = row, .touched = true, .over = true}));
}

static void set_device(const Ledger *l, Slot *slot, const Device *device)
{
    const KnownIdle *known = find_idle(l, device->uuid);

    slot->device = *device;
    (void)device_key(device, slot->key);
    if (known)
        slot->idle = known->idle;
}

/* The GPU counts from now on. */
static void begin_slot(Slot *slot, const Node *node)
{
    slot->quiet = QUIET_NOT;
    slot->away = false;
    slot->last_ns = node->time_ns;
    slot->energy_mj = -1;
}

static Slot *find_slot(Ledger *l, const Node *node, const Device *device)
{
    Slot *slot;

    for (size_t i = 0; i < l->slots.len; i++)
        if (is_same_gpu(&l->slots.at[i], device)) {
            slot = &l->slots.at[i];
            if (device->uuid[0] && !slot->device.uuid[0]) {
                rows_end(&slot->rows); /* they were under its address */
                set_device(l, slot, device);
            }
            if (slot->away)
                begin_slot(slot, node);
            return slot;
        }
    slot = vec_add(&l->slots);
    set_device(l, slot, device);
    begin_slot(slot, node);
    for (size_t i = 0; i < l->last.len; i++)
        if (is_gpu_key(l->last.at[i].device, slot->key)) {
            add_away(l, node, &l->last.at[i], slot);
            vec_remove(&l->last, i);
            break;
        }
    return slot;
}

/* One that has not said yet who it is waits, and is counted from the journal's last row on. */
static bool is_countable(const NodeGpu *gpu)
{
    char key[DEVICE_KEY_CAP];

    return (gpu->reading.device.uuid[0] || gpu->state != GPU_STARTING) && device_key(&gpu->reading.device, key) >= 0;
}

/* The time since the last tick. */
static void add_time(Tick *t)
{
    Ledger *l = t->ledger;

    t->gap = t->dt_ns > NODE_GAP_NS;
    t->slot->last_ns = t->node->time_ns;
    split_gpu(t);
    weigh_by_share(l);
    split_total(l, t->dt_ns, offsetof(LedgerPart, ns));
    split_energy(t);
    const RowsTick rows = {.node = t->node,
                           .gpu = t->gpu,
                           .dt_ns = t->dt_ns,
                           .rows = &t->slot->rows,
                           .parts = l->parts.at,
                           .part_count = l->parts.len,
                           .holdings = t->all,
                           .charges = l->charges.at,
                           .prices = l->prices,
                           .boot_id = l->boot_id,
                           .next_id = &l->next_id,
                           .idle_mw = t->slot->idle.mw};
    rows_close(&rows);
    rows_learn_owners(&rows);
    for (size_t i = 0; i < l->parts.len; i++)
        add_part(t, &rows, &l->parts.at[i]);
}

static void update_gpu(Tick *t, LedgerPut put, void *self)
{
    t->dt_ns = t->node->time_ns > t->slot->last_ns ? t->node->time_ns - t->slot->last_ns : 0;
    if (t->dt_ns > 0)
        add_time(t);
    rows_put(&t->slot->rows, put, self);
}

/* A GPU that was taken out is dropped as soon as all of its rows are kept. */
static void end_unseen(Ledger *l, LedgerPut put, void *self)
{
    for (size_t i = l->slots.len; i-- > 0;) {
        Slot *slot = &l->slots.at[i];

        if (slot->seen) {
            slot->seen = false;
            continue;
        }
        slot->away = true;
        rows_end(&slot->rows);
        rows_put(&slot->rows, put, self);
        rows_end(&slot->rows);
        if (slot->rows.len > 0)
            continue;
        ledger_set_idle(l, slot->device.uuid, slot->idle);
        vec_done(&slot->rows);
        vec_remove(&l->slots, i);
    }
}

void ledger_update(Ledger *l, const Node *node, const Holding *holdings, size_t count, LedgerPut put, void *self)
{
    size_t from = 0;

    if (l->began_ns == 0)
        l->began_ns = node->time_ns;
    if (node->time_ns - l->began_ns > RESUME_NS)
        vec_clear(&l->last);
    vec_clear(&l->charges);
    for (size_t i = 0; i < count; i++)
        vec_push(&l->charges, ((LedgerCharge){.gpu_ns = 0}));
    for (size_t i = 0; i < node->gpu_count; i++) {
        Tick t = {.ledger = l, .node = node, .gpu = &node->gpus[i], .all = holdings};

        while (from < count && holdings[from].gpu < i)
            from++;
        t.holdings = holdings + from;
        while (from + t.holding_count < count && holdings[from + t.holding_count].gpu == i)
            t.holding_count++;
        if (!is_countable(t.gpu))
            continue;
        t.slot = find_slot(l, node, &t.gpu->reading.device);
        t.slot->seen = true;
        update_gpu(&t, put, self);
    }
    end_unseen(l, put, self);
}
