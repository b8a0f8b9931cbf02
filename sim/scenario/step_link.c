/* SPDX-License-Identifier: Apache-2.0 */
/* Steps on what joins GPUs to each other and to the host. */
#include "base/arena.h"
#include "base/owner.h"
#include "sim/core/control.h"
#include "sim/scenario/step_make.h"

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

int make_sxid(StepRun *run, Err *err)
{
    static const char *const words[] = {"Correctable", "Non-fatal", "Fatal"};
    const StepArgs *a = run->args;
    const SimBoard *board = NULL;
    for (uint32_t g = 0; g < run->node->gpu_count && !board; g++)
        board = sim_switch_count(run->node->boards[g]) ? run->node->boards[g] : NULL;
    if (!board || a->switch_number >= sim_switch_count(board))
        return step_fail(run, err, "the node has %u NVSwitches", board ? sim_switch_count(board) : 0);
    step_op(run, SIM_OP_KMSG);
    run->ops->at[run->ops->len - 1].text =
        arena_printf(run->arena, "nvidia-nvswitch%u: SXid (PCI:0000:%02x:00.0): %05u, %s, Link %02d %s",
                     a->switch_number, sim_switch_bus(board, a->switch_number), a->code, words[a->severity],
                     a->link >= 0 ? a->link : 0, a->text ? a->text : "sourcetrack timeout error (First)");
    return 0;
}
