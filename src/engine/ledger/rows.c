/* SPDX-License-Identifier: Apache-2.0 */
/* A row is closed when its owner left, at the full hour of the wall clock and when that clock was set. */
#include "engine/ledger/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"

#define LEFT_NS NS_PER_MIN      /* an owner that comes back sooner continues its row */
#define STEP_NS (2 * NS_PER_S)  /* between the clocks over a row: the wall clock was set */
#define LEARN_NS (2 * NS_PER_S) /* and two ticks: the owner of a new process is known by then */

#define PPM UINT64_C(1000000)

enum { LATE_ROWS = 64 }; /* of a GPU: rows that are over, and wait until they can be kept */

/* The process of a part whose owner is not known, as /proc was not read yet or does not show it; 0: none. */
static uint32_t find_new_pid(const LedgerPart *part)
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

static bool is_row_of(const OpenRow *open, const LedgerPart *part, LedgerQuality quality, const char *price)
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

static OpenRow *find_row(const RowsTick *t, const LedgerPart *part, LedgerQuality quality)
{
    const Device *device = &part->reading->device;
    const uint64_t from_real_ns = t->node->real_ns > t->dt_ns ? t->node->real_ns - t->dt_ns : 0;
    char price[PRICE_TEXT_CAP];
    OpenRow *open = NULL;

    prices_find(t->prices, t->gpu->reading.device.name, part->reading->profile, part->slices, from_real_ns, price);
    for (size_t i = 0; i < t->rows->len && !open; i++)
        if (is_row_of(&t->rows->at[i], part, quality, price))
            open = &t->rows->at[i];
    if (!open) {
        open = vec_add(t->rows);
        open->gpu_instance = device->gpu_instance;
        open->compute_instance = device->compute_instance;
        open->from_ns = t->node->time_ns - t->dt_ns;
        open->new_pids[0] = find_new_pid(part);
        open->row.id = (*t->next_id)++;
        open->row.from_real_ns = from_real_ns;
        open->row.owner.pid = -1;
        if (part->holding) {
            open->row.held = true;
            set_owner(&open->row.owner, &part->holding->owner);
            open->row.share_kind = part->holding->attribution;
        }
        snprintf(open->row.boot_id, sizeof open->row.boot_id, "%s", t->boot_id);
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
    const size_t count = number_min_u64(open->new_count, ROWS_NEW_PIDS);
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
        if (open->new_count < ROWS_NEW_PIDS)
            open->new_pids[open->new_count] = holding->processes[i].pid;
        open->new_count++;
    }
}

/* How many of the row's new processes are the part's, whose owner is known. */
static size_t count_new_pids(const OpenRow *open, const LedgerPart *part)
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
static double sum_new_owners(const RowsTick *t, const OpenRow *open)
{
    size_t found = 0, processes = 0;
    double sum = 0;

    for (size_t i = 0; i < t->part_count; i++) {
        const LedgerPart *part = &t->parts[i];
        const size_t count = count_new_pids(open, part);

        found += count;
        processes += count > 0 ? part->holding->process_count : 0;
        sum += count > 0 ? part->share : 0;
    }
    return found == number_min_u64(open->new_count, ROWS_NEW_PIDS) && processes >= open->new_count ? sum : 0;
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
static OpenRow split_row(const RowsTick *t, OpenRow *open, double share)
{
    OpenRow part = *open;

    part.row.id = (*t->next_id)++;
    part.known = part.late = false;
    for (size_t i = 0; i < LEDGER_AMOUNT_END; i++) {
        part.row.amounts[i] = number_min_u64(rows_scale(open->row.amounts[i], share), open->row.amounts[i]);
        open->row.amounts[i] -= part.row.amounts[i];
    }
    return part;
}

/* Gives each owner of the row's processes the part of it that he has of the device now. */
static void share_row(const RowsTick *t, size_t i)
{
    const OpenRow row = t->rows->at[i];
    double left = sum_new_owners(t, &row);

    for (size_t k = 0; k < t->part_count && left > 0; k++) {
        const LedgerPart *part = &t->parts[k];

        if (count_new_pids(&row, part) == 0)
            continue;
        if (left - part->share > ROWS_SHARE_MIN) {
            OpenRow split = split_row(t, &t->rows->at[i], part->share / left);

            learn_owner(&split, part->holding);
            vec_push(t->rows, split);
        } else {
            learn_owner(&t->rows->at[i], part->holding);
        }
        left -= part->share;
    }
}

void rows_learn_owners(const RowsTick *t)
{
    const size_t count = t->rows->len;

    for (size_t i = 0; i < count; i++) {
        const OpenRow *open = &t->rows->at[i];

        if (!open->over && open->new_pids[0] != 0 && t->node->time_ns - open->from_ns <= LEARN_NS + 2 * t->dt_ns)
            share_row(t, i);
    }
}

/* --- the start of a job ------------------------------------------------------------------------------------------- */

/* A job is seen by a tick, and its workload manager says later when it began: what nobody held since then, up to where
 * the job's row begins, becomes the job's, and what the first tick counted too early becomes nobody's. Time that
 * another owner had stays with that one. */

static LedgerCharge *find_charge(const RowsTick *t, const LedgerPart *part)
{
    return &t->charges[part->holding - t->holdings];
}

/* The row of nobody's time that ends where the run of `open` begins; NULL: there is none. */
static OpenRow *find_free_before(const RowsTick *t, const OpenRow *open)
{
    for (size_t i = 0; i < t->rows->len; i++) {
        OpenRow *free_row = &t->rows->at[i];

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
static void begin_earlier(const RowsTick *t, const LedgerPart *part, OpenRow *open, OpenRow *free_row, uint64_t ns)
{
    LedgerCharge *charge = find_charge(t, part);
    const uint64_t part_ns = move_amount(&free_row->row, &open->row, LEDGER_ALLOC_NS, rows_scale(ns, part->share));

    open->row.amounts[LEDGER_IDLE_NS] += part_ns;
    charge->gpu_ns += (int64_t)part_ns;
    charge->begin_ns = (int64_t)ns;
    charge->energy_mj += move_amount(&free_row->row, &open->row, LEDGER_IDLE_MJ,
                                     (uint64_t)llround(t->idle_mw * part->share * ((double)ns / NS_PER_S)));
    free_row->row.until_ns -= ns;
    free_row->row.until_real_ns -= ns;
    open->run_ns -= ns;
    if (open->from_ns == open->run_ns + ns) {
        open->from_ns -= ns;
        open->row.from_real_ns -= ns;
    }
}

/* The begin of the run, within its first tick. The parts of the row's time stay within it. */
static void begin_later(const RowsTick *t, const LedgerPart *part, OpenRow *open, OpenRow *free_row, uint64_t ns)
{
    LedgerCharge *charge = find_charge(t, part);

    charge->gpu_ns -= (int64_t)move_amount(&open->row, &free_row->row, LEDGER_ALLOC_NS, rows_scale(ns, part->share));
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
static void set_begin(const RowsTick *t, const LedgerPart *part, OpenRow *open)
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
static void note_run(const RowsTick *t, OpenRow *open, LedgerAmount kind)
{
    const uint64_t start_ns = t->node->time_ns - t->dt_ns;

    if (open->row.until_ns == start_ns && kind == LEDGER_ALLOC_NS)
        return;
    open->run_ns = kind == LEDGER_ALLOC_NS ? start_ns : t->node->time_ns;
    open->tick_ns = t->dt_ns;
    open->begun = kind != LEDGER_ALLOC_NS;
}

/* Minutes are counted from the row's begin. One that is not over counts from its half on, or where it is the first. */
static void note_sm(OpenRow *open, double sm, uint64_t dt_ns)
{
    open->sm_ns += rows_scale(dt_ns, sm);
    open->sm_measured_ns += dt_ns;
    const uint64_t ppm = rows_scale(PPM, (double)open->sm_ns / (double)open->sm_measured_ns);
    const bool counts = open->sm_peak_ppm == 0 || open->sm_measured_ns >= NS_PER_MIN / 2;

    open->row.peaks[LEDGER_PEAK_SM] = number_max_u64(open->sm_peak_ppm, counts ? ppm : 0);
    if (open->sm_measured_ns < NS_PER_MIN)
        return;
    open->sm_peak_ppm = open->row.peaks[LEDGER_PEAK_SM];
    open->sm_ns = open->sm_measured_ns = 0;
}

static void note_peaks(const RowsTick *t, OpenRow *open, const RowsAdd *add)
{
    open->row.peaks[LEDGER_PEAK_MEMORY] = number_max_u64(open->row.peaks[LEDGER_PEAK_MEMORY], add->memory_bytes);
    if (add->quality != LEDGER_QUALITY_NONE)
        note_sm(open, add->sm, t->dt_ns);
}

void rows_add(const RowsTick *t, const LedgerPart *part, const RowsAdd *add)
{
    OpenRow *open = find_row(t, part, add->quality);

    if (open->new_pids[0] != 0)
        add_new_pids(open, part->holding);
    note_run(t, open, add->kind);
    for (size_t i = 0; i < LEDGER_AMOUNT_END; i++)
        open->row.amounts[i] += add->amounts[i];
    note_peaks(t, open, add);
    open->touched = true;
    open->row.until_ns = t->node->time_ns;
    open->row.until_real_ns = open->row.from_real_ns + (t->node->time_ns - open->from_ns);
    if (part->holding) {
        find_charge(t, part)->gpu_ns += (int64_t)add->amounts[LEDGER_ALLOC_NS];
        find_charge(t, part)->energy_mj += part->idle_mj + part->active_mj;
    }
    set_begin(t, part, open);
}

void rows_close(const RowsTick *t)
{
    const uint64_t start_ns = t->node->time_ns - t->dt_ns;
    const uint64_t start_real_ns = t->node->real_ns > t->dt_ns ? t->node->real_ns - t->dt_ns : 0;

    for (size_t i = t->rows->len; i-- > 0;) {
        OpenRow *open = &t->rows->at[i];
        const uint64_t expected_ns = open->row.from_real_ns + (start_ns - open->from_ns);
        const uint64_t off_ns = expected_ns > start_real_ns ? expected_ns - start_real_ns : start_real_ns - expected_ns;

        open->over |= off_ns > STEP_NS || start_real_ns / NS_PER_H != open->row.from_real_ns / NS_PER_H ||
                      open->row.until_ns + LEFT_NS < start_ns;
        if (open->over && !open->late)
            vec_remove(t->rows, i);
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
    memset(into->peaks, 0, sizeof into->peaks);
    into->owner = (Owner){.pid = -1};
    into->held = false;
    into->share_kind = ATTRIBUTION_UNKNOWN;
    into->quality = LEDGER_QUALITY_NONE;
    into->until_real_ns = number_max_u64(into->until_real_ns, from->until_real_ns);
    into->until_ns = number_max_u64(into->until_ns, from->until_ns);
}

void rows_put(OpenRows *rows, LedgerPut put, void *self)
{
    OpenRow *first = NULL;
    size_t count = 0;

    for (size_t i = 0; i < rows->len; i++) {
        OpenRow *open = &rows->at[i];

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
            vec_remove(rows, i--);
        }
    }
}

void rows_end(OpenRows *rows)
{
    for (size_t i = rows->len; i-- > 0;) {
        rows->at[i].over = true;
        if (!rows->at[i].late)
            vec_remove(rows, i);
    }
}
