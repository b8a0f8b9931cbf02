/* SPDX-License-Identifier: Apache-2.0 */
/* A tick splits the time of each GPU into parts (an owner on a device, or nobody), whole nanoseconds that add up, and
 * adds each part to the open row of its owner. A row is closed when its owner left, at the full hour of the wall clock
 * and when that clock was set. */
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

#define LEFT_NS NS_PER_MIN        /* an owner that comes back sooner continues its row */
#define STEP_NS (2 * NS_PER_S)    /* between the clocks over a row: the wall clock was set */
#define RESUME_NS NS_PER_MIN      /* after the start: a GPU that comes later was plugged in */
#define LEARN_NS (2 * NS_PER_S)   /* and two ticks: whose a new process is is known by then */
#define SETTLE_NS (10 * NS_PER_S) /* clocks and power come down in it after the last work */
#define MIB 1048576.0
#define SHARE_MIN 1e-9 /* of a GPU: less is an error of rounding */

enum { IDLE_WEIGHT = 16 };

enum { LATE_ROWS = 64 }; /* of a GPU: rows that are over, and wait until they can be kept */
enum { NEW_PIDS = 32 };  /* of a row */

typedef struct OpenRow {
    LedgerRow row;
    uint32_t gpu_instance, compute_instance;
    uint64_t from_ns;            /* monotonic */
    uint32_t new_pids[NEW_PIDS]; /* it is of these processes, whose owners are not known (yet); [0] 0: none */
    size_t new_count;            /* of so many in all */
    uint64_t run_ns;             /* since when it grew without a break, as held or free time */
    uint64_t tick_ns;            /* the length of the first tick of that */
    bool begun;                  /* that begins when the workload manager says */
    bool touched;                /* in this tick */
    bool known;                  /* it was kept once; it may have grown since */
    bool late;                   /* as it is now, it is not kept */
    bool over;                   /* nothing is added any more */
} OpenRow;

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
    VEC(OpenRow) rows;
} Slot;

/* An owner's, or nobody's, part of a GPU in this tick. */
typedef struct Part {
    const Reading *reading; /* of the GPU or instance */
    const Activity *activity;
    const Holding *holding; /* NULL: nobody */
    double share;           /* of the whole GPU */
    double of_device;       /* of the device */
    double slices;          /* share of the whole GPU that the device is */
    double weight;          /* of the total that is split now */
    uint64_t ns, idle_mj, active_mj;
} Part;

/* Of a GPU that has no slot. */
typedef struct KnownIdle {
    char uuid[DEVICE_UUID_CAP];
    LedgerIdle idle;
} KnownIdle;

struct Ledger {
    VEC(Slot) slots;
    VEC(KnownIdle) idles;
    VEC(Part) parts;
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

static LedgerQuality read_activity(const Part *part, bool gpm, double *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(sources); i++)
        if (read_share(part->reading, sources[i].metric, sources[i].scale, ret))
            return !sources[i].profiling ? LEDGER_QUALITY_UTIL : gpm ? LEDGER_QUALITY_GPM : LEDGER_QUALITY_DCP;
    *ret = 0;
    return LEDGER_QUALITY_NONE;
}

static uint64_t scale_ns(uint64_t ns, double share)
{
    return (uint64_t)llround((double)ns * share);
}

static bool is_idle(const Part *part)
{
    return part->holding->state == HOLDING_IDLE_HELD || part->holding->state == HOLDING_RESERVED ||
           (part->activity && part->activity->word == ACTIVITY_IDLE_HELD);
}

static double find_memory(const Part *part)
{
    double mib;

    if (part->holding->memory_bytes > 0)
        return (double)part->holding->memory_bytes;
    return sample_double(&part->reading->sample[METRIC_FB_USED], &mib) ? mib * MIB * part->of_device : 0;
}

/* What its owner did in the part's time. */
static void measure_part(const Tick *t, const Part *part, LedgerQuality quality, double sm,
                         uint64_t add[LEDGER_AMOUNT_END])
{
    double busy = 0, tensor;
    int64_t reasons;

    add[LEDGER_MEASURED_NS] = quality == LEDGER_QUALITY_NONE ? 0 : part->ns;
    add[LEDGER_EFF_NS] = scale_ns(part->ns, sm);
    if (read_share(part->reading, METRIC_PROF_GR_ENGINE_ACTIVE, 1, &busy) ||
        read_share(part->reading, METRIC_GPU_UTIL, 0.01, &busy))
        add[LEDGER_BUSY_NS] = scale_ns(part->ns, busy);
    if (read_share(part->reading, METRIC_PROF_PIPE_TENSOR_ACTIVE, 1, &tensor))
        add[LEDGER_TENSOR_NS] = scale_ns(part->ns, tensor);
    if (is_idle(part))
        add[LEDGER_IDLE_NS] = part->ns;
    if (sample_int64(&t->gpu->reading.sample[METRIC_CLOCKS_EVENT_REASONS], &reasons) &&
        (reasons & CLOCK_REASONS_THROTTLED))
        add[LEDGER_THROTTLED_NS] = part->ns;
    add[LEDGER_MEMORY_BYTE_S] = (uint64_t)llround(find_memory(part) * ((double)t->dt_ns / NS_PER_S));
}

/* Which of the three kinds of time the part is. */
static LedgerAmount find_kind(const Tick *t, const Part *part)
{
    if (t->gap)
        return LEDGER_GAPS_NS;
    if (part->activity && part->activity->word == ACTIVITY_UNUSABLE)
        return LEDGER_UNHEALTHY_NS;
    if (t->gpu->state != GPU_UP || (!part->holding && !t->gpu->process_list.valid))
        return LEDGER_GAPS_NS;
    return LEDGER_ALLOC_NS;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* The process of a part whose owner is not known, as /proc was not read yet or does not show it; 0: none. */
static uint32_t find_new_pid(const Part *part)
{
    const Owner *owner = part->holding ? &part->holding->owner : NULL;

    return owner && owner->pid > 0 && !owner_is_known(owner) ? (uint32_t)owner->pid : 0;
}

/* The same owner, of whom the row may know less: user and account of a job come from the workload manager some seconds
 * after its start. */
static bool is_owner_of(const LedgerRow *row, const Owner *owner)
{
    if (owner_is_same(&row->owner, owner) && strcmp(row->owner.account, owner->account) == 0)
        return true;
    Owner known = row->owner;
    if (!known.job[0])
        return false;
    if (!known.user[0])
        memcpy(known.user, owner->user, sizeof known.user);
    return owner_is_same(&known, owner) && (!known.account[0] || strcmp(known.account, owner->account) == 0);
}

static bool is_row_of(const OpenRow *open, const Part *part, LedgerQuality quality, const char *price)
{
    static const Owner nobody;
    const LedgerRow *row = &open->row;
    const Device *device = &part->reading->device;
    const Owner *owner = part->holding ? &part->holding->owner : &nobody;

    return !open->over && open->gpu_instance == device->gpu_instance &&
           open->compute_instance == device->compute_instance && open->new_pids[0] == find_new_pid(part) &&
           row->share_kind == (part->holding ? part->holding->attribution : ATTRIBUTION_UNKNOWN) &&
           (row->quality == quality || quality == LEDGER_QUALITY_NONE || row->quality == LEDGER_QUALITY_NONE) &&
           row->held == (part->holding != NULL) && is_owner_of(row, owner) && strcmp(row->price, price) == 0;
}

static void set_owner(Owner *owner, const Owner *from)
{
    *owner = *from;
    owner->process[0] = '\0';
    owner->pid = -1;
    owner->start_ns = 0;
}

static OpenRow *find_row(const Tick *t, const Part *part, LedgerQuality quality)
{
    const Device *device = &part->reading->device;
    const uint64_t from_real_ns = t->node->real_ns > t->dt_ns ? t->node->real_ns - t->dt_ns : 0;
    char price[PRICE_TEXT_CAP];
    OpenRow *open = NULL;

    prices_find(t->ledger->prices, t->gpu->reading.device.name, part->reading->profile, part->slices, from_real_ns,
                price);
    for (size_t i = 0; i < t->slot->rows.len && !open; i++)
        if (is_row_of(&t->slot->rows.at[i], part, quality, price))
            open = &t->slot->rows.at[i];
    if (!open) {
        open = vec_add(&t->slot->rows);
        open->gpu_instance = device->gpu_instance;
        open->compute_instance = device->compute_instance;
        open->from_ns = t->node->time_ns - t->dt_ns;
        open->new_pids[0] = find_new_pid(part);
        open->row.id = t->ledger->next_id++;
        open->row.from_real_ns = from_real_ns;
        open->row.owner.pid = -1;
        if (part->holding) {
            open->row.held = true;
            set_owner(&open->row.owner, &part->holding->owner);
            open->row.share_kind = part->holding->attribution;
        }
        memcpy(open->row.boot_id, t->ledger->boot_id, sizeof open->row.boot_id);
        memcpy(open->row.name, t->gpu->reading.device.name, sizeof open->row.name);
        memcpy(open->row.profile, part->reading->profile, sizeof open->row.profile);
        memcpy(open->row.price, price, sizeof open->row.price);
        (void)device_key(device, open->row.device);
    }
    if (open->row.owner.job[0] && (!open->row.owner.user[0] || !open->row.owner.account[0]))
        set_owner(&open->row.owner, &part->holding->owner);
    if (quality != LEDGER_QUALITY_NONE)
        open->row.quality = quality;
    return open;
}

static bool has_new_pid(const OpenRow *open, uint32_t pid)
{
    const size_t count = number_min_u64(open->new_count, NEW_PIDS);
    size_t i = 0;

    while (i < count && open->new_pids[i] != pid)
        i++;
    return i < count;
}

/* The processes of a part whose owner is not known. */
static void add_new_pids(OpenRow *open, const Holding *holding)
{
    for (size_t i = 0; i < holding->process_count; i++) {
        if (has_new_pid(open, holding->processes[i].pid))
            continue;
        if (open->new_count < NEW_PIDS)
            open->new_pids[open->new_count] = holding->processes[i].pid;
        open->new_count++;
    }
}

/* How many of the row's new processes are the part's, whose owner is known. */
static size_t count_new_pids(const OpenRow *open, const Part *part)
{
    const Device *device = &part->reading->device;
    size_t count = 0;

    if (!part->holding || find_new_pid(part) != 0 || device->gpu_instance != open->gpu_instance ||
        device->compute_instance != open->compute_instance)
        return 0;
    for (size_t i = 0; i < part->holding->process_count; i++)
        count += has_new_pid(open, part->holding->processes[i].pid);
    return count;
}

/* The shares of those to whom the row's processes belong; 0: one of these has ended, or is not known yet. */
static double sum_new_owners(const Tick *t, const OpenRow *open)
{
    size_t found = 0, processes = 0;
    double sum = 0;

    for (size_t i = 0; i < t->ledger->parts.len; i++) {
        const Part *part = &t->ledger->parts.at[i];
        const size_t count = count_new_pids(open, part);

        found += count;
        processes += count > 0 ? part->holding->process_count : 0;
        sum += count > 0 ? part->share : 0;
    }
    return found == number_min_u64(open->new_count, NEW_PIDS) && processes >= open->new_count ? sum : 0;
}

static void learn_owner(OpenRow *open, const Holding *holding)
{
    set_owner(&open->row.owner, &holding->owner);
    open->row.share_kind = holding->attribution;
    open->new_pids[0] = 0;
    open->new_count = 0;
    open->touched = true;
}

/* Takes `share` of a row away, as a row of the same time. */
static OpenRow split_row(Ledger *l, OpenRow *open, double share)
{
    OpenRow part = *open;

    part.row.id = l->next_id++;
    part.known = part.late = false;
    for (size_t i = 0; i < LEDGER_AMOUNT_END; i++) {
        part.row.amounts[i] = number_min_u64(scale_ns(open->row.amounts[i], share), open->row.amounts[i]);
        open->row.amounts[i] -= part.row.amounts[i];
    }
    return part;
}

/* Gives each owner of the row's processes the part of it that he has of the device now. */
static void share_row(const Tick *t, size_t i)
{
    const OpenRow row = t->slot->rows.at[i];
    double left = sum_new_owners(t, &row);

    for (size_t k = 0; k < t->ledger->parts.len && left > 0; k++) {
        const Part *part = &t->ledger->parts.at[k];

        if (count_new_pids(&row, part) == 0)
            continue;
        if (left - part->share > SHARE_MIN) {
            OpenRow split = split_row(t->ledger, &t->slot->rows.at[i], part->share / left);

            learn_owner(&split, part->holding);
            vec_push(&t->slot->rows, split);
        } else {
            learn_owner(&t->slot->rows.at[i], part->holding);
        }
        left -= part->share;
    }
}

/* A process is on the GPU a tick or two before its owner is known: the row of that time becomes the owner's. */
static void learn_owners(const Tick *t)
{
    const size_t count = t->slot->rows.len;

    for (size_t i = 0; i < count; i++) {
        const OpenRow *open = &t->slot->rows.at[i];

        if (!open->over && open->new_pids[0] != 0 && t->node->time_ns - open->from_ns <= LEARN_NS + 2 * t->dt_ns)
            share_row(t, i);
    }
}

/* --- the start of a job ------------------------------------------------------------------------------------------- */

/* A job is seen by a tick, and its workload manager says later when it began: what nobody held since then, up to where
 * the job's row begins, becomes the job's, and what the first tick counted too early becomes nobody's. Time that
 * another owner had stays with that one. */

static LedgerCharge *find_charge(const Tick *t, const Part *part)
{
    return &t->ledger->charges.at[part->holding - t->all];
}

/* The row of nobody's time that ends where the run of `open` begins; NULL: there is none. */
static OpenRow *find_free_before(const Tick *t, const OpenRow *open)
{
    for (size_t i = 0; i < t->slot->rows.len; i++) {
        OpenRow *free_row = &t->slot->rows.at[i];

        if (!free_row->over && !free_row->row.held && free_row->gpu_instance == open->gpu_instance &&
            free_row->compute_instance == open->compute_instance && free_row->row.until_ns == open->run_ns &&
            strcmp(free_row->row.price, open->row.price) == 0)
            return free_row;
    }
    return NULL;
}

/* Returns how much it was. */
static uint64_t move_amount(LedgerRow *from, LedgerRow *to, LedgerAmount amount, uint64_t most)
{
    const uint64_t moved = number_min_u64(most, from->amounts[amount]);

    from->amounts[amount] -= moved;
    to->amounts[amount] += moved;
    return moved;
}

/* The end of nobody's time, `ns` long: nothing ran in it. */
static void begin_earlier(const Tick *t, const Part *part, OpenRow *open, OpenRow *free_row, uint64_t ns)
{
    LedgerCharge *charge = find_charge(t, part);
    const uint64_t part_ns = move_amount(&free_row->row, &open->row, LEDGER_ALLOC_NS, scale_ns(ns, part->share));

    open->row.amounts[LEDGER_IDLE_NS] += part_ns;
    charge->gpu_ns += (int64_t)part_ns;
    charge->begin_ns = (int64_t)ns;
    charge->energy_mj += move_amount(&free_row->row, &open->row, LEDGER_IDLE_MJ,
                                     (uint64_t)llround(t->slot->idle.mw * part->share * ((double)ns / NS_PER_S)));
    free_row->row.until_ns -= ns;
    free_row->row.until_real_ns -= ns;
    open->run_ns -= ns;
    if (open->from_ns == open->run_ns + ns) {
        open->from_ns -= ns;
        open->row.from_real_ns -= ns;
    }
}

/* The begin of the run, within its first tick. The parts of the row's time stay within it. */
static void begin_later(const Tick *t, const Part *part, OpenRow *open, OpenRow *free_row, uint64_t ns)
{
    LedgerCharge *charge = find_charge(t, part);

    charge->gpu_ns -= (int64_t)move_amount(&open->row, &free_row->row, LEDGER_ALLOC_NS, scale_ns(ns, part->share));
    charge->begin_ns = -(int64_t)ns;
    for (LedgerAmount i = LEDGER_BUSY_NS; i <= LEDGER_THROTTLED_NS; i++)
        open->row.amounts[i] = number_min_u64(open->row.amounts[i], open->row.amounts[LEDGER_ALLOC_NS]);
    free_row->row.until_ns += ns;
    free_row->row.until_real_ns += ns;
    if (open->from_ns == open->run_ns) {
        open->from_ns += ns;
        open->row.from_real_ns += ns;
    }
    open->run_ns += ns;
}

/* Once for each run of a job that has the device alone. */
static void set_begin(const Tick *t, const Part *part, OpenRow *open)
{
    const uint64_t given_real_ns = part->holding ? part->holding->given_real_ns : 0;

    if (given_real_ns == 0 || given_real_ns > t->node->real_ns || open->begun || part->of_device < 1)
        return;
    open->begun = true;
    const uint64_t ago_ns = t->node->real_ns - given_real_ns;
    const uint64_t given_ns = t->node->time_ns > ago_ns ? t->node->time_ns - ago_ns : 0;
    OpenRow *free_row = find_free_before(t, open);
    if (!free_row)
        return;
    if (given_ns < open->run_ns)
        begin_earlier(t, part, open, free_row, open->run_ns - number_max_u64(given_ns, free_row->run_ns));
    else if (given_ns - open->run_ns < open->tick_ns)
        begin_later(t, part, open, free_row, given_ns - open->run_ns);
    free_row->touched = true;
    find_charge(t, part)->begin_real_ns = t->node->real_ns - (t->node->time_ns - open->run_ns);
}

/* Before a tick is added. Time that is not known, or in which the device could not be used, is no part of a run. */
static void note_run(const Tick *t, OpenRow *open, LedgerAmount kind)
{
    const uint64_t start_ns = t->node->time_ns - t->dt_ns;

    if (open->row.until_ns == start_ns && kind == LEDGER_ALLOC_NS)
        return;
    open->run_ns = kind == LEDGER_ALLOC_NS ? start_ns : t->node->time_ns;
    open->tick_ns = t->dt_ns;
    open->begun = kind != LEDGER_ALLOC_NS;
}

static void add_part(const Tick *t, const Part *part)
{
    uint64_t add[LEDGER_AMOUNT_END] = {0};
    const LedgerAmount kind = find_kind(t, part);
    LedgerQuality quality = LEDGER_QUALITY_NONE;
    double sm = 0;

    if (kind == LEDGER_ALLOC_NS && part->holding) {
        quality = read_activity(part, t->gpu->gpm, &sm);
        measure_part(t, part, quality, sm, add);
    }
    add[kind] = part->ns;
    add[LEDGER_IDLE_MJ] = part->idle_mj;
    add[LEDGER_ACTIVE_MJ] = part->active_mj;
    OpenRow *open = find_row(t, part, quality);
    if (open->new_pids[0] != 0)
        add_new_pids(open, part->holding);
    note_run(t, open, kind);
    for (size_t i = 0; i < LEDGER_AMOUNT_END; i++)
        open->row.amounts[i] += add[i];
    open->touched = true;
    open->row.until_ns = t->node->time_ns;
    open->row.until_real_ns = open->row.from_real_ns + (t->node->time_ns - open->from_ns);
    if (part->holding) {
        find_charge(t, part)->gpu_ns += (int64_t)add[LEDGER_ALLOC_NS];
        find_charge(t, part)->energy_mj += part->idle_mj + part->active_mj;
    }
    set_begin(t, part, open);
}

/* Before the tick is added: rows whose owner left, of an hour that is over, or of a clock that was set. One that is not
 * kept yet stays until it is. */
static void close_rows(const Tick *t)
{
    const uint64_t start_ns = t->node->time_ns - t->dt_ns;
    const uint64_t start_real_ns = t->node->real_ns > t->dt_ns ? t->node->real_ns - t->dt_ns : 0;

    for (size_t i = t->slot->rows.len; i-- > 0;) {
        OpenRow *open = &t->slot->rows.at[i];
        const uint64_t expected_ns = open->row.from_real_ns + (start_ns - open->from_ns);
        const uint64_t off_ns = expected_ns > start_real_ns ? expected_ns - start_real_ns : start_real_ns - expected_ns;

        open->over |= off_ns > STEP_NS || start_real_ns / NS_PER_H != open->row.from_real_ns / NS_PER_H ||
                      open->row.until_ns + LEFT_NS < start_ns;
        if (open->over && !open->late)
            vec_remove(&t->slot->rows, i);
    }
}

/* So that time is not lost where too many rows cannot be kept: that of `from` is added to `into`, whose owner is not
 * known then. */
static void join_rows(LedgerRow *into, const LedgerRow *from)
{
    uint64_t amounts[LEDGER_AMOUNT_END] = {0};
    const LedgerRow *const rows[] = {into, from};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const uint64_t *a = rows[i]->amounts;

        amounts[LEDGER_GAPS_NS] += a[LEDGER_ALLOC_NS] + a[LEDGER_UNHEALTHY_NS] + a[LEDGER_GAPS_NS];
        amounts[LEDGER_IDLE_MJ] += a[LEDGER_IDLE_MJ];
        amounts[LEDGER_ACTIVE_MJ] += a[LEDGER_ACTIVE_MJ];
    }
    memcpy(into->amounts, amounts, sizeof amounts);
    into->owner = (Owner){.pid = -1};
    into->held = false;
    into->share_kind = ATTRIBUTION_UNKNOWN;
    into->quality = LEDGER_QUALITY_NONE;
    into->until_real_ns = number_max_u64(into->until_real_ns, from->until_real_ns);
    into->until_ns = number_max_u64(into->until_ns, from->until_ns);
}

static void put_rows(Slot *slot, LedgerPut put, void *self)
{
    OpenRow *first = NULL;
    size_t count = 0;

    for (size_t i = 0; i < slot->rows.len; i++) {
        OpenRow *open = &slot->rows.at[i];

        if (open->touched || open->late)
            open->late = !put(self, &open->row);
        open->known |= !open->late;
        open->touched = false;
        if (!open->over || open->known || !open->late)
            continue;
        if (!first) {
            first = open;
        } else if (++count >= LATE_ROWS) {
            join_rows(&first->row, &open->row);
            vec_remove(&slot->rows, i--);
        }
    }
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static bool is_on(const Holding *holding, const Reading *instance)
{
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
    const bool whole =
        !instance && t->gpu->instance_count == 0; /* without MIG all that is on the GPU is on all of it */
    double sum = 0;
    size_t count = 0;

    for (size_t i = 0; i < t->holding_count; i++)
        if (whole || is_on(&t->holdings[i], instance)) {
            sum += t->holdings[i].share;
            count++;
        }
    for (size_t i = 0; i < t->holding_count; i++) {
        const Holding *h = &t->holdings[i];
        const double part = sum > 0 ? h->share / sum : 1 / (double)count;

        if (whole || is_on(h, instance))
            vec_push(&l->parts, ((Part){.reading = reading,
                                        .activity = activity,
                                        .holding = h,
                                        .share = share * part,
                                        .of_device = part,
                                        .slices = share}));
    }
    if (count == 0)
        vec_push(&l->parts,
                 ((Part){.reading = reading, .activity = activity, .share = share, .of_device = 1, .slices = share}));
}

static void split_gpu(const Tick *t)
{
    const NodeGpu *gpu = t->gpu;
    double sum = 0;

    vec_clear(&t->ledger->parts);
    if (t->gap) {
        vec_push(&t->ledger->parts, ((Part){.reading = &gpu->reading, .share = 1, .of_device = 1, .slices = 1}));
        return;
    }
    for (size_t i = 0; i < gpu->instance_count; i++)
        sum += reading_mig_share(&gpu->reading, &gpu->instances[i]);
    for (size_t i = 0; i < gpu->instance_count; i++)
        split_device(t, &gpu->instances[i], gpu->instance_activity ? &gpu->instance_activity[i] : &gpu->activity,
                     reading_mig_share(&gpu->reading, &gpu->instances[i]));
    if (gpu->instance_count == 0 || sum < 1 - SHARE_MIN)
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
        const uint64_t upto = i + 1 == l->parts.len ? total : scale_ns(total, sum > 0 ? before / sum : 0);
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
        Part *part = &l->parts.at[i];
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

    if (t->gap || t->gpu->state != GPU_UP || !t->gpu->process_list.valid)
        return QUIET_NOT;
    for (size_t i = 0; i < t->ledger->parts.len; i++) {
        const Part *part = &t->ledger->parts.at[i];

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
    split_total(l, idle_mj, offsetof(Part, idle_mj));
    weigh_by_activity(l, held);
    split_total(l, energy_mj - idle_mj, offsetof(Part, active_mj));
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

/* Nothing is added to its rows any more. Those that are not kept yet stay until they are. */
static void end_rows(Slot *slot)
{
    for (size_t i = slot->rows.len; i-- > 0;) {
        slot->rows.at[i].over = true;
        if (!slot->rows.at[i].late)
            vec_remove(&slot->rows, i);
    }
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
                end_rows(slot); /* they were under its address */
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
    split_total(l, t->dt_ns, offsetof(Part, ns));
    split_energy(t);
    close_rows(t);
    learn_owners(t);
    for (size_t i = 0; i < l->parts.len; i++)
        add_part(t, &l->parts.at[i]);
}

static void update_gpu(Tick *t, LedgerPut put, void *self)
{
    t->dt_ns = t->node->time_ns > t->slot->last_ns ? t->node->time_ns - t->slot->last_ns : 0;
    if (t->dt_ns > 0)
        add_time(t);
    put_rows(t->slot, put, self);
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
        end_rows(slot);
        put_rows(slot, put, self);
        end_rows(slot);
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
