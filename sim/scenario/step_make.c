/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that change one GPU (errors, heat, power, settings) or a link, and what all makers of steps use. */
#include "sim/scenario/step_make.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/plan.h" /* cond_init */

/* --- for all makers ---------------------------------------------------------------------------------------------- */

SimOp *step_op(StepRun *run, SimOpType type)
{
    ScenarioOp *added = vec_add(run->ops);
    added->op = (SimOp){.t_ns = run->t_ns, .type = type, .gpu = run->gpu, .a = {0, 0, 0, SIM_NONE}};
    return &added->op;
}

void step_set(StepRun *run, SimKey key, uint32_t value)
{
    if (run->undo) {
        SimCond fresh;
        cond_init(&fresh, run->node->boards[run->gpu]);
        value = fresh.set[key];
    }
    SimOp *op = step_op(run, SIM_OP_SET);
    op->a[0] = (int32_t)key;
    op->u = value;
}

int step_fail(const StepRun *run, Err *err, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (run->gpu >= 0)
        return field_fail(run->args->node, err, "%s: gpu %d: %s", run->step->name, run->gpu, text);
    return field_fail(run->args->node, err, "%s: %s", run->step->name, text);
}

int step_given(const StepRun *run, const char *key)
{
    for (size_t i = 0; i < run->step->count; i++)
        if (strcmp(run->step->fields[i].key, key) == 0)
            return run->args->given[i];
    return 0;
}

/* --- one GPU ----------------------------------------------------------------------------------------------------- */

const char *const step_event_names[] = {"sbe",
                                        "dbe",
                                        "pstate",
                                        "xid",
                                        "clock",
                                        "power-source",
                                        "mig",
                                        "sbe-storm",
                                        "dram-retired",
                                        "dram-retire-failed",
                                        "poison",
                                        "poison-fatal",
                                        "unavailable",
                                        "recovery-action",
                                        NULL};
static const uint64_t event_bits[] = {0x1,   0x2,   0x4,   0x8,    0x10,   0x80,   0x100,
                                      0x200, 0x400, 0x800, 0x1000, 0x2000, 0x4000, 0x8000};
const char *const step_location_names[] = {"l1", "l2", "dram", "register", "texture", "shared", "cbu", "sram", NULL};
const char *const step_ecc_kind_names[] = {"volatile", "aggregate", NULL};
const char *const step_action_names[] = {"none", "reset", "reboot", "drain-p2p", "drain-and-reset", "imex", NULL};
const char *const step_compute_names[] = {"default", "exclusive-thread", "prohibited", "exclusive-process", NULL};

/* The work a step names, on this GPU and alive at this time; an error where there is none. NULL: none named. */
static int work_here(const StepRun *run, const StepWork **ret, Err *err)
{
    *ret = NULL;
    for (size_t i = 0; run->args->work && i < run->node->works.len; i++) {
        const StepWork *w = &run->node->works.at[i];
        if ((strcmp(w->name, run->args->work) == 0 || strcmp(w->process, run->args->work) == 0) && w->gpu == run->gpu &&
            w->start_ns <= run->t_ns && run->t_ns <= w->stop_ns)
            *ret = w;
    }
    if (run->args->work && !*ret)
        return step_fail(run, err, "no work '%.40s' runs here at that time", run->args->work);
    return 0;
}

int make_xid(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    const SimCond *cond = &run->node->conds[run->gpu];
    const StepWork *work = NULL;
    int32_t gi = SIM_NONE, ci = SIM_NONE;
    uint32_t gi_at = 0, ci_at = 0;
    TRY(work_here(run, &work, err));
    if (a->mig >= 0) {
        if (!sim_mig_device(cond, (uint32_t)a->mig, &gi_at, &ci_at))
            return step_fail(run, err, "there is no MIG device %d at that time", a->mig);
        gi = (int32_t)cond->gi[gi_at].id;
        ci = (int32_t)cond->ci[ci_at].id;
    }
    uint64_t extra = a->link >= 0 ? (uint64_t)a->link : a->address;
    if (a->link >= 0 && (uint32_t)a->link >= run->node->boards[run->gpu]->link_count)
        return step_fail(run, err, "there is no link %d: the board has %u", a->link,
                         run->node->boards[run->gpu]->link_count);
    SimOp *op = step_op(run, SIM_OP_XID);
    op->a[0] = (int32_t)a->code;
    op->a[1] = gi;
    op->a[2] = ci;
    op->a[3] = work ? work->index : SIM_NONE;
    op->u = extra;
    run->ops->at[run->ops->len - 1].text = a->text;
    return 0;
}

int make_event(StepRun *run, Err *err)
{
    (void)err;
    _Static_assert(ARRAY_LEN(step_event_names) == ARRAY_LEN(event_bits) + 1, "one bit per name");
    SimOp *op = step_op(run, SIM_OP_EVENT);
    op->u = event_bits[run->args->pick];
    op->a[0] = (int32_t)run->args->data;
    return 0;
}

static void ecc_op(StepRun *run, int uncorrected, uint32_t count, double rate)
{
    SimOp *op = step_op(run, SIM_OP_ECC);
    op->a[0] = (int32_t)run->args->location;
    op->a[1] = uncorrected;
    op->a[2] = run->undo ? 0 : (int32_t)count;
    op->x = run->undo ? 0 : rate;
}

int make_ecc(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    int cor = step_given(run, "corrected") || step_given(run, "corrected_rate");
    int unc = step_given(run, "uncorrected") || step_given(run, "uncorrected_rate");
    if (!run->node->boards[run->gpu]->has_ecc)
        return step_fail(run, err, "the board has no ECC");
    if (!cor && !unc)
        return step_fail(run, err, "needs one of corrected, uncorrected, corrected_rate, uncorrected_rate");
    if (cor)
        ecc_op(run, 0, a->corrected, a->corrected_rate);
    if (unc)
        ecc_op(run, 1, a->uncorrected, a->uncorrected_rate);
    return 0;
}

int make_clear_ecc(StepRun *run, Err *err)
{
    (void)err;
    step_op(run, SIM_OP_CLEAR_ECC)->a[0] = (int32_t)run->args->pick;
    return 0;
}

int make_remap(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    if (!run->node->boards[run->gpu]->has_remap)
        return step_fail(run, err, "the board does not remap rows");
    if (!a->corrected && !a->uncorrected && !a->failed)
        return step_fail(run, err, "needs one of corrected, uncorrected, failed");
    for (int unc = 0; unc < 2; unc++) {
        uint32_t rows = unc ? a->uncorrected : a->corrected;
        if (!rows && !(unc && a->failed))
            continue;
        SimOp *op = step_op(run, SIM_OP_REMAP);
        op->a[0] = unc;
        op->a[1] = (int32_t)rows;
        op->a[2] = unc && a->failed;
    }
    return 0;
}

int make_retire(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    if (!run->node->boards[run->gpu]->has_retired_pages)
        return step_fail(run, err, "the board does not retire pages");
    if (!a->corrected && !a->uncorrected)
        return step_fail(run, err, "needs one of single_bit, double_bit");
    for (int dbe = 0; dbe < 2; dbe++) {
        uint32_t pages = dbe ? a->uncorrected : a->corrected;
        if (!pages)
            continue;
        SimOp *op = step_op(run, SIM_OP_RETIRE);
        op->a[0] = dbe;
        op->a[1] = (int32_t)pages;
    }
    return 0;
}

int make_sram(StepRun *run, Err *err)
{
    (void)err;
    step_set(run, SIM_KEY_SRAM_THRESHOLD, run->args->on);
    return 0;
}

int make_thermal(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    int ambient = step_given(run, "ambient"), cooling = step_given(run, "cooling");
    if (!ambient && !cooling)
        return step_fail(run, err, "needs one of ambient, cooling");
    if (ambient)
        step_set(run, SIM_KEY_AMBIENT_MC, (uint32_t)(int32_t)(a->ambient_k * 1000));
    if (cooling)
        step_set(run, SIM_KEY_COOLING_PERMILLE, (uint32_t)(a->cooling * 1000 + 0.5));
    return 0;
}

int make_fan(StepRun *run, Err *err)
{
    (void)err;
    step_set(run, SIM_KEY_FAN_FAILED, run->args->on);
    return 0;
}

int make_power_brake(StepRun *run, Err *err)
{
    (void)err;
    step_set(run, SIM_KEY_POWER_BRAKE, run->args->on);
    return 0;
}

int make_slowdown(StepRun *run, Err *err)
{
    (void)err;
    step_set(run, SIM_KEY_HW_SLOWDOWN, run->args->on);
    return 0;
}

int make_power_limit(StepRun *run, Err *err)
{
    const SimBoard *b = run->node->boards[run->gpu];
    uint32_t mw = run->args->power_mw;
    if (mw < b->power_min_mw || mw > b->power_max_mw)
        return step_fail(run, err, "a limit of %u W is not between %u and %u W", mw / 1000, b->power_min_mw / 1000,
                         b->power_max_mw / 1000);
    step_set(run, SIM_KEY_POWER_LIMIT_MW, mw);
    return 0;
}

/* Each reason by what brings it about. */
const char *const step_throttle_names[] = {"thermal", "hw-thermal", "power-brake", "power-cap", NULL};
enum { POOR_COOLING_PERMILLE = 350 };

int make_throttle(StepRun *run, Err *err)
{
    const uint32_t least_mw = run->node->boards[run->gpu]->power_min_mw;
    const struct {
        SimKey key;
        uint32_t value;
    } by[] = {{SIM_KEY_COOLING_PERMILLE, POOR_COOLING_PERMILLE},
              {SIM_KEY_HW_SLOWDOWN, 1},
              {SIM_KEY_POWER_BRAKE, 1},
              {SIM_KEY_POWER_LIMIT_MW, least_mw}};
    (void)err;
    step_set(run, by[run->args->pick].key, by[run->args->pick].value);
    return 0;
}

int make_lost(StepRun *run, Err *err)
{
    (void)err;
    step_op(run, SIM_OP_LOST);
    return 0;
}

int make_reset_required(StepRun *run, Err *err)
{
    (void)err;
    if (run->args->on)
        step_set(run, SIM_KEY_RESET_REQUIRED, 1);
    step_set(run, SIM_KEY_RECOVERY_ACTION, run->args->pick);
    return 0;
}

int make_init_failed(StepRun *run, Err *err)
{
    (void)err;
    step_set(run, SIM_KEY_NOT_STARTED, run->args->on);
    return 0;
}

int make_suspend(StepRun *run, Err *err)
{
    (void)err;
    step_set(run, SIM_KEY_ASLEEP, run->args->on);
    return 0;
}

int make_reset(StepRun *run, Err *err)
{
    (void)err;
    step_op(run, SIM_OP_RESET);
    return 0;
}

int make_inforom(StepRun *run, Err *err)
{
    (void)err;
    step_set(run, SIM_KEY_INFOROM_BAD, run->args->on);
    return 0;
}

int make_orphan_memory(StepRun *run, Err *err)
{
    const double room = (double)run->node->boards[run->gpu]->memory_mib;
    if (run->args->rate > room)
        return step_fail(run, err, "the board has %.0f MiB", room);
    step_set(run, SIM_KEY_ORPHAN_MIB, (uint32_t)run->args->rate);
    return 0;
}

int make_set(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    const struct {
        const char *key;
        SimKey set;
        uint32_t value;
    } rows[] = {
        {"persistence", SIM_KEY_PERSISTENCE, a->on},
        {"compute_mode", SIM_KEY_COMPUTE_MODE, a->mode},
        {"ecc", SIM_KEY_ECC_PENDING, a->clear},
        {"accounting", SIM_KEY_ACCOUNTING, a->all},
        {"drain", SIM_KEY_DRAIN, a->failed},
        {"fan", SIM_KEY_FAN_PERCENT, a->percent},
        {"sm_clock", SIM_KEY_APP_SM_MHZ, a->count},
        {"mem_clock", SIM_KEY_APP_MEM_MHZ, a->status},
        {"lock_min", SIM_KEY_LOCK_SM_MIN, a->clock_min},
        {"lock_max", SIM_KEY_LOCK_SM_MAX, a->clock_max},
    };
    size_t before = run->ops->len;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (step_given(run, rows[i].key))
            step_set(run, rows[i].set, rows[i].value);
    if (run->ops->len == before)
        return step_fail(run, err, "needs at least one setting");
    if (a->clock_max && a->clock_min > a->clock_max)
        return step_fail(run, err, "lock_min must not be above lock_max");
    return 0;
}

/* --- links between GPUs and to the host -------------------------------------------------------------------------- */

const char *const step_link_names[] = {"down", "up", "sleep", "errors", "clear", NULL}; /* SimLinkOp */
const char *const step_counter_names[] = {"replay", "recovery", "crc-flit", "crc-data", "ecc-data", NULL};
const char *const step_severity_names[] = {"correctable", "nonfatal", "fatal", NULL};
/* As the kernel's aer_dev_correctable and aer_dev_nonfatal files list them: the index is the position there. */
const char *const step_aer_names[] = {"RxErr",     "BadTLP",       "BadDLLP",    "Rollover",
                                      "Timeout",   "NonFatalErr",  "CorrIntErr", "HeaderOF", /* correctable */
                                      "Undefined", "DLP",          "SDES",       "TLP",
                                      "FCP",       "CmpltTO",      "CmpltAbrt",  "UnxCmplt",
                                      "RxOF",      "MalfTLP",      "ECRC",       "UnsupReq",
                                      "ACSViol",   "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked",
                                      NULL};
enum { AER_CORRECTABLE = 8 };
const char *const step_fabric_names[] = {"not-supported", "not-started", "in-progress", "completed", NULL};
const char *const step_health_names[] = {
    "healthy", "degraded-bandwidth", "route-recovery", "route-unhealthy", "access-timeout", "misconfigured", NULL};

int make_link(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    const SimBoard *b = run->node->boards[run->gpu];
    if (b->link_count == 0)
        return step_fail(run, err, "the board has no NVLink");
    if (a->link >= 0 && (uint32_t)a->link >= b->link_count)
        return step_fail(run, err, "there is no link %d: the board has %u", a->link, b->link_count);
    if (a->pick == SIM_LINK_ERRORS && !step_given(run, "count") && !step_given(run, "rate"))
        return step_fail(run, err, "errors need count or rate");
    SimOp *op = step_op(run, SIM_OP_LINK);
    int errors = a->pick == SIM_LINK_ERRORS;
    op->a[0] = a->link;
    op->a[1] = run->undo && !errors ? SIM_LINK_UP : (int32_t)a->pick;
    op->a[2] = (int32_t)a->counter;
    op->u = run->undo ? 0 : a->count;
    op->x = run->undo ? 0 : a->rate;
    return 0;
}

int make_pcie(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    const SimBoard *b = run->node->boards[run->gpu];
    const int link = a->gen || a->width || step_given(run, "replays") || step_given(run, "rate");
    if (!link && !a->slot_gen && !a->slot_width)
        return step_fail(run, err, "needs one of gen, width, replays, rate, slot_gen, slot_width");
    if (a->gen > b->pcie_gen || a->width > b->pcie_width)
        return step_fail(run, err, "the board has generation %u and %u lanes", b->pcie_gen, b->pcie_width);
    if (a->slot_gen)
        step_set(run, SIM_KEY_SLOT_GEN, a->slot_gen);
    if (a->slot_width)
        step_set(run, SIM_KEY_SLOT_WIDTH, a->slot_width);
    if (!link)
        return 0;
    SimOp *op = step_op(run, SIM_OP_PCIE);
    op->a[0] = a->gen ? (int32_t)(run->undo ? b->pcie_gen : a->gen) : 0;
    op->a[1] = a->width ? (int32_t)(run->undo ? b->pcie_width : a->width) : 0;
    op->a[2] = run->undo ? 0 : (int32_t)a->count;
    op->x = run->undo ? 0 : a->rate;
    return 0;
}

int make_aer(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    int correctable = a->severity == 0, index = (int)a->pick - AER_CORRECTABLE;
    if (correctable != (index < 0))
        return step_fail(run, err, "%s is no %s error", step_aer_names[a->pick], step_severity_names[a->severity]);
    SimOp *op = step_op(run, SIM_OP_AER);
    op->a[0] = (int32_t)a->severity;
    op->a[1] = correctable ? (int)a->pick : index;
    op->a[2] = (int32_t)a->count;
    op->a[3] = a->all != 0;
    return 0;
}

/* Health masks are two-bit fields, 1 true and 2 false: degraded bandwidth, route recovery, route unhealthy, access
 * timeout recovery; then four bits of misconfiguration (1 none). */
static uint32_t health_mask(uint32_t health)
{
    uint32_t mask = 0x2 | 0x2 << 2 | 0x2 << 4 | 0x2 << 6 | 0x1 << 8;
    if (health >= 1 && health <= 4)
        mask = (mask & ~(0x3u << (health - 1) * 2)) | 0x1u << (health - 1) * 2;
    if (health == 5)
        mask = (mask & ~0xf00u) | 0x5u << 8; /* too few NVLinks */
    return mask;
}

int make_fabric(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    if (!run->node->boards[run->gpu]->has_fabric)
        return step_fail(run, err, "the board has no NVLink fabric");
    if (!step_given(run, "state") && !step_given(run, "status") && !step_given(run, "health"))
        return step_fail(run, err, "needs one of state, status, health");
    if (step_given(run, "state"))
        step_set(run, SIM_KEY_FABRIC_STATE, a->pick);
    if (step_given(run, "status"))
        step_set(run, SIM_KEY_FABRIC_STATUS, a->status);
    if (step_given(run, "health"))
        step_set(run, SIM_KEY_FABRIC_HEALTH, health_mask(a->health));
    return 0;
}

static const SimBoard *find_switched_board(const StepRun *run)
{
    for (uint32_t g = 0; g < run->node->gpu_count; g++)
        if (sim_switch_count(run->node->boards[g]))
            return run->node->boards[g];
    return NULL;
}

/* One record of an SXid. */
static void add_sxid_record(StepRun *run, const SimBoard *board, const char *text)
{
    const StepArgs *a = run->args;

    step_op(run, SIM_OP_KMSG);
    run->ops->at[run->ops->len - 1].text =
        arena_printf(run->arena, "nvidia-nvswitch%u: SXid (PCI:0000:%02x:00.0): %05u, %s", a->switch_number,
                     sim_switch_bus(board, a->switch_number), a->code, text);
}

/* The driver prints three records of one error (error_nvswitch.c): the error, its engine, its registers. */
int make_sxid(StepRun *run, Err *err)
{
    static const char *const words[] = {"Correctable", "Non-fatal", "Fatal"};
    const StepArgs *a = run->args;
    const uint32_t link = a->link >= 0 ? (uint32_t)a->link : 0;
    const SimBoard *board = find_switched_board(run);

    if (!board || a->switch_number >= sim_switch_count(board))
        return step_fail(run, err, "the node has %u NVSwitches", board ? sim_switch_count(board) : 0);
    add_sxid_record(run, board,
                    arena_printf(run->arena, "%s, Link %02u %s", words[a->severity], link,
                                 a->text ? a->text : "sourcetrack timeout error (First)"));
    add_sxid_record(run, board,
                    arena_printf(run->arena, "Severity %u Engine instance %02u Sub-engine instance 00",
                                 a->severity == ARRAY_LEN(words) - 1, link));
    add_sxid_record(
        run, board,
        arena_printf(run->arena, "Data {0x%08x, 0x%08x, 0x00000000, 0x%08x, 0x80000000}", link, link, link));
    return 0;
}
