/* SPDX-License-Identifier: Apache-2.0 */
/* The discrete condition of one GPU and what ops do to it. Works, events and patterns are the planner's. */
#include <string.h>

#include "sim/core/control.h"
#include "sim/core/plan.h"

enum { ACTION_NONE, ACTION_RESET };

static void settings_init(SimCond *cond, const SimBoard *board)
{
    memset(cond->set, 0, sizeof cond->set);
    cond->set[SIM_KEY_PERSISTENCE] = 1;
    cond->set[SIM_KEY_ECC_PENDING] = board->has_ecc;
    cond->set[SIM_KEY_POWER_LIMIT_MW] = board->power_default_mw;
    cond->set[SIM_KEY_FAN_PERCENT] = SIM_FAN_AUTO;
    cond->set[SIM_KEY_COOLING_PERMILLE] = 1000;
    cond->set[SIM_KEY_API_APP_CLOCKS] = 1;
    cond->set[SIM_KEY_FABRIC_STATE] = board->has_fabric ? 3 : 0;
}

void cond_init(SimCond *cond, const SimBoard *board)
{
    memset(cond, 0, sizeof *cond);
    cond->present = 1;
    cond->ecc_mode = board->has_ecc;
    settings_init(cond, board);
    cond->bank_spent[0] = board->remap_banks;
    cond->pcie_gen = board->pcie_gen;
    cond->pcie_width = board->pcie_width;
    for (uint32_t i = 0; i < board->link_count && i < SIM_LINK_MAX; i++)
        cond->link[i].state = 1;
}

static void links_up(SimCond *cond, const SimBoard *board)
{
    for (uint32_t i = 0; i < board->link_count && i < SIM_LINK_MAX; i++)
        cond->link[i] = (SimLink){.state = 1};
}

void cond_reset(SimCond *cond, const SimBoard *board, uint64_t t_ns)
{
    static const uint8_t cleared[] = {SIM_KEY_RESET_REQUIRED, SIM_KEY_RECOVERY_ACTION, SIM_KEY_APP_SM_MHZ,
                                      SIM_KEY_APP_MEM_MHZ,    SIM_KEY_LOCK_SM_MIN,     SIM_KEY_LOCK_SM_MAX,
                                      SIM_KEY_LOCK_MEM_MIN,   SIM_KEY_LOCK_MEM_MAX,    SIM_KEY_REMAP_PENDING,
                                      SIM_KEY_PAGE_PENDING,   SIM_KEY_HW_SLOWDOWN,     SIM_KEY_COMPUTE_MODE,
                                      SIM_KEY_ORPHAN_MIB,     SIM_KEY_NOT_STARTED};
    for (size_t i = 0; i < sizeof cleared; i++)
        cond->set[cleared[i]] = 0;
    cond->lost = cond->reset_required = 0;
    cond->remap_pending = cond->retired_pending = 0;
    cond->mig_mode = cond->mig_pending;
    cond->ecc_mode = cond->set[SIM_KEY_ECC_PENDING];
    memset(cond->ecc_volatile, 0, sizeof cond->ecc_volatile);
    memset(cond->ecc_rate, 0, sizeof cond->ecc_rate);
    memset(cond->gi, 0, sizeof cond->gi);
    memset(cond->ci, 0, sizeof cond->ci);
    cond->pcie_gen = board->pcie_gen;
    cond->pcie_width = board->pcie_width;
    cond->replays = cond->replay_rate = 0;
    cond->volatile_since_ns = t_ns;
    links_up(cond, board);
}

static void apply_ecc(SimCond *cond, const SimOp *op)
{
    uint32_t loc = (uint32_t)op->a[0], type = op->a[1] ? 1 : 0;
    if (loc >= SIM_ECC_LOCS || !cond->ecc_mode)
        return;
    uint64_t count = op->a[2] > 0 ? (uint64_t)op->a[2] : 0;
    cond->ecc_volatile[type][loc] += count;
    cond->ecc_aggregate[type][loc] += count;
    cond->ecc_rate[type][loc] = op->x > 0 ? op->x : 0;
}

/* Rows come from banks: each remap takes one from the fullest class that still has some. */
static void apply_remap(SimCond *cond, const SimOp *op)
{
    uint32_t rows = op->a[1] > 0 ? (uint32_t)op->a[1] : 0;
    for (uint32_t i = 0; i < rows; i++) {
        int from = cond->bank_spent[0] ? 0 : cond->bank_spent[1] ? 1 : cond->bank_spent[2] ? 2 : 3;
        if (cond->bank_spent[from] == 0)
            break;
        cond->bank_spent[from]--;
        cond->bank_spent[from + 1]++;
    }
    *(op->a[0] ? &cond->remap_unc : &cond->remap_cor) += rows;
    if (op->a[2]) { /* the bank of that row has none left */
        cond->remap_failed = 1;
        int from = cond->bank_spent[0] ? 0 : 3;
        if (cond->bank_spent[from]) {
            cond->bank_spent[from]--;
            cond->bank_spent[4]++;
        }
    } else if (op->a[0] && rows) {
        cond->remap_pending = 1;
        if (cond->set[SIM_KEY_RECOVERY_ACTION] == ACTION_NONE)
            cond->set[SIM_KEY_RECOVERY_ACTION] = ACTION_RESET;
    }
}

static void apply_link_one(SimLink *link, const SimOp *op)
{
    uint32_t counter = (uint32_t)op->a[2];
    switch (op->a[1]) {
    case SIM_LINK_DOWN:
        link->state = 0;
        break;
    case SIM_LINK_UP:
        link->state = 1;
        break;
    case SIM_LINK_SLEEP:
        link->state = 2;
        break;
    case SIM_LINK_ERRORS:
        if (counter < 5) {
            link->count[counter] += (double)op->u;
            link->rate[counter] = op->x > 0 ? op->x : 0;
        }
        break;
    case SIM_LINK_CLEAR:
        memset(link->count, 0, sizeof link->count);
        break;
    default:
        break;
    }
}

static void apply_link(SimCond *cond, const SimBoard *board, const SimOp *op)
{
    for (uint32_t i = 0; i < board->link_count && i < SIM_LINK_MAX; i++)
        if (op->a[0] == SIM_NONE || (uint32_t)op->a[0] == i)
            apply_link_one(&cond->link[i], op);
}

static void apply_pcie(SimCond *cond, const SimOp *op)
{
    if (op->a[0] > 0)
        cond->pcie_gen = (uint32_t)op->a[0];
    if (op->a[1] > 0)
        cond->pcie_width = (uint32_t)op->a[1];
    cond->replays += op->a[2] > 0 ? op->a[2] : 0;
    cond->replay_rate = op->x > 0 ? op->x : 0;
}

static void apply_set(SimCond *cond, const SimOp *op, uint64_t t_ns)
{
    if ((uint32_t)op->a[0] >= SIM_KEY_COUNT)
        return;
    cond->set[op->a[0]] = (uint32_t)op->u;
    if (op->a[0] == SIM_KEY_RESET_REQUIRED)
        cond->reset_required = op->u != 0;
    if (op->a[0] == SIM_KEY_ACCOUNTING_EPOCH || (op->a[0] == SIM_KEY_ACCOUNTING && !op->u))
        cond->accounting_since_ns = t_ns;
    if (op->a[0] == SIM_KEY_REMAP_PENDING)
        cond->remap_pending = op->u != 0;
    if (op->a[0] == SIM_KEY_PAGE_PENDING)
        cond->retired_pending = op->u != 0;
}

static void apply_mig_mode(SimCond *cond, const SimBoard *board, const SimOp *op, uint64_t t_ns)
{
    if (!board->has_mig)
        return;
    cond->mig_pending = op->a[0] != 0;
    if (!board->mig_needs_reset || t_ns == 0 || op->origin == SIM_FROM_SCENARIO)
        cond->mig_mode = cond->mig_pending;
    if (!cond->mig_mode) {
        memset(cond->gi, 0, sizeof cond->gi);
        memset(cond->ci, 0, sizeof cond->ci);
    }
}

static void apply_gi_create(SimCond *cond, const SimBoard *board, const SimOp *op)
{
    int start = sim_mig_place(board, cond, (uint32_t)op->a[0], op->a[1]);
    if (start < 0 || !cond->mig_mode)
        return;
    const SimProfile *p = &board->profiles[op->a[0]];
    for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
        if (cond->gi[i].used)
            continue;
        uint32_t id = sim_mig_gi_id(board, cond, p->place_size, (uint32_t)start);
        cond->gi[i] = (SimGi){
            .used = 1, .profile = (uint8_t)op->a[0], .start = (uint8_t)start, .size = (uint8_t)p->place_size, .id = id};
        return;
    }
}

static void apply_gi_destroy(SimCond *cond, const SimOp *op)
{
    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (cond->gi[i].used && cond->gi[i].id == (uint32_t)op->a[0])
            cond->gi[i].used = 0;
    for (uint32_t i = 0; i < SIM_CI_MAX; i++)
        if (cond->ci[i].used && cond->ci[i].gi_id == (uint32_t)op->a[0])
            cond->ci[i].used = 0;
}

static uint32_t ci_free_id(const SimCond *cond, uint32_t gi_id)
{
    for (uint32_t id = 0;; id++) {
        int taken = 0;
        for (uint32_t i = 0; i < SIM_CI_MAX; i++)
            taken |= cond->ci[i].used && cond->ci[i].gi_id == gi_id && cond->ci[i].id == id;
        if (!taken)
            return id;
    }
}

static void apply_ci_create(SimCond *cond, const SimBoard *board, const SimOp *op)
{
    for (uint32_t g = 0; g < SIM_GI_MAX; g++) {
        SimGi *gi = &cond->gi[g];
        if (!gi->used || gi->id != (uint32_t)op->a[0])
            continue;
        uint32_t sm = 0, slices = sim_ci_slices(&board->profiles[gi->profile], (uint32_t)op->a[1], &sm);
        int start = slices ? sim_ci_place(board, cond, gi, slices, op->a[2]) : SIM_NONE;
        for (uint32_t i = 0; start >= 0 && i < SIM_CI_MAX; i++) {
            if (cond->ci[i].used)
                continue;
            cond->ci[i] = (SimCi){.used = 1,
                                  .profile = (uint8_t)op->a[1],
                                  .start = (uint8_t)start,
                                  .size = (uint8_t)slices,
                                  .gi_id = gi->id,
                                  .id = ci_free_id(cond, gi->id),
                                  .sm = sm};
            return;
        }
    }
}

static void apply_ci_destroy(SimCond *cond, const SimOp *op)
{
    for (uint32_t i = 0; i < SIM_CI_MAX; i++)
        if (cond->ci[i].used && cond->ci[i].gi_id == (uint32_t)op->a[0] && cond->ci[i].id == (uint32_t)op->a[1])
            cond->ci[i].used = 0;
}

static void apply_plug(SimCond *cond, const SimBoard *board, const SimOp *op, uint64_t t_ns)
{
    if (op->a[0] && !cond->present) {
        uint32_t pending = cond->mig_pending;
        cond_reset(cond, board, t_ns);
        cond->mig_pending = pending;
    }
    cond->present = op->a[0] != 0;
}

void cond_apply(SimCond *cond, const SimBoard *board, const SimOp *op, uint64_t t_ns)
{
    switch (op->type) {
    case SIM_OP_SET:
        apply_set(cond, op, t_ns);
        break;
    case SIM_OP_ECC:
        apply_ecc(cond, op);
        break;
    case SIM_OP_CLEAR_ECC:
        memset(op->a[0] ? cond->ecc_aggregate : cond->ecc_volatile, 0, sizeof cond->ecc_volatile);
        break;
    case SIM_OP_REMAP:
        apply_remap(cond, op);
        break;
    case SIM_OP_RETIRE:
        cond->retired[op->a[0] ? 1 : 0] += op->a[1] > 0 ? (uint32_t)op->a[1] : 0;
        cond->retired_pending = 1;
        break;
    case SIM_OP_LOST:
        cond->lost = 1;
        break;
    case SIM_OP_RESET:
        cond_reset(cond, board, t_ns);
        break;
    case SIM_OP_LINK:
        apply_link(cond, board, op);
        break;
    case SIM_OP_PCIE:
        apply_pcie(cond, op);
        break;
    case SIM_OP_AER:
        if ((uint32_t)op->a[0] < 3 && (uint32_t)op->a[1] < SIM_AER_MAX)
            (op->a[3] == 1 ? cond->port_aer : cond->aer)[op->a[0]][op->a[1]] += op->a[2] > 0 ? (uint64_t)op->a[2] : 0;
        break;
    case SIM_OP_MIG_MODE:
        apply_mig_mode(cond, board, op, t_ns);
        break;
    case SIM_OP_GI_CREATE:
        apply_gi_create(cond, board, op);
        break;
    case SIM_OP_GI_DESTROY:
        apply_gi_destroy(cond, op);
        break;
    case SIM_OP_CI_CREATE:
        apply_ci_create(cond, board, op);
        break;
    case SIM_OP_CI_DESTROY:
        apply_ci_destroy(cond, op);
        break;
    case SIM_OP_PLUG:
        apply_plug(cond, board, op, t_ns);
        break;
    default:
        break;
    }
}
