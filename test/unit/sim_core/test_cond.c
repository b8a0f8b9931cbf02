/* SPDX-License-Identifier: Apache-2.0 */
/* What each op does to the condition of its GPU, and that it does nothing else. */
#include "node.h"

#include <math.h>
#include <string.h>

#include "sim/core/plan.h"

static const SimBoard *board;

static SimCond fresh(const char *key)
{
    SimCond cond;
    board = node_board(key);
    cond_init(&cond, board);
    return cond;
}

static void apply(SimCond *cond, SimOp op)
{
    op.origin = SIM_FROM_INJECT;
    cond_apply(cond, board, &op, 5 * SIM_NS);
}

static void comes_up_as_built(void **state)
{
    (void)state;
    for (const char *const *key = node_boards(); *key; key++) {
        SimCond cond = fresh(*key);
        assert_true(cond.present && !cond.lost && !cond.reset_required && !cond.mig_mode);
        assert_int_equal(cond.ecc_mode, board->has_ecc);
        assert_int_equal(cond.set[SIM_KEY_POWER_LIMIT_MW], board->power_default_mw);
        assert_int_equal(cond.pcie_gen, board->pcie_gen);
        assert_int_equal(cond.bank_spent[0], board->remap_banks);
        for (uint32_t l = 0; l < SIM_LINK_MAX; l++)
            assert_int_equal(cond.link[l].state, l < board->link_count);
    }
}

static void set_changes_one_setting(void **state)
{
    (void)state;
    for (int32_t key = 0; key < SIM_KEY_COUNT; key++) {
        SimCond cond = fresh("h100-sxm-80gb"), before = cond;
        apply(&cond, (SimOp){.type = SIM_OP_SET, .a = {key}, .u = 77});
        assert_int_equal(cond.set[key], 77);
        assert_int_equal(cond.reset_required, key == SIM_KEY_RESET_REQUIRED);
        assert_int_equal(cond.remap_pending, key == SIM_KEY_REMAP_PENDING);
        assert_int_equal(cond.retired_pending, key == SIM_KEY_PAGE_PENDING);
        assert_int_equal(cond.accounting_since_ns, key == SIM_KEY_ACCOUNTING_EPOCH ? 5 * SIM_NS : 0);
        cond.set[key] = before.set[key];
        cond.reset_required = cond.remap_pending = cond.retired_pending = 0;
        cond.accounting_since_ns = 0;
        assert_memory_equal(&cond, &before, sizeof cond);
    }
    SimCond cond = fresh("h100-sxm-80gb"), before = cond;
    apply(&cond, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_COUNT}, .u = 77});
    assert_memory_equal(&cond, &before, sizeof cond);
}

static void ecc_counts_now_and_from_now_on(void **state)
{
    (void)state;
    SimCond cond = fresh("h100-sxm-80gb");
    apply(&cond, (SimOp){.type = SIM_OP_ECC, .a = {SIM_ECC_DRAM, 1, 3}, .x = 0.5});
    assert_int_equal(cond.ecc_volatile[1][SIM_ECC_DRAM], 3);
    assert_int_equal(cond.ecc_aggregate[1][SIM_ECC_DRAM], 3);
    assert_int_equal(cond.ecc_volatile[0][SIM_ECC_DRAM], 0);
    cond_forward(&cond, 3); /* one and a half more: the half is kept */
    assert_int_equal(cond.ecc_volatile[1][SIM_ECC_DRAM], 4);
    cond_forward(&cond, 1);
    assert_int_equal(cond.ecc_volatile[1][SIM_ECC_DRAM], 5);
    apply(&cond, (SimOp){.type = SIM_OP_CLEAR_ECC, .a = {0}});
    assert_int_equal(cond.ecc_volatile[1][SIM_ECC_DRAM], 0);
    assert_int_equal(cond.ecc_aggregate[1][SIM_ECC_DRAM], 5);
    apply(&cond, (SimOp){.type = SIM_OP_CLEAR_ECC, .a = {1}});
    assert_int_equal(cond.ecc_aggregate[1][SIM_ECC_DRAM], 0);
    cond.ecc_mode = 0; /* nobody counts */
    apply(&cond, (SimOp){.type = SIM_OP_ECC, .a = {SIM_ECC_L2, 0, 3}, .x = 1});
    assert_int_equal(cond.ecc_volatile[0][SIM_ECC_L2], 0);
}

static uint32_t banks(const SimCond *cond)
{
    uint32_t sum = 0;
    for (int i = 0; i < 5; i++)
        sum += cond->bank_spent[i];
    return sum;
}

static void remaps_spend_rows(void **state)
{
    (void)state;
    SimCond cond = fresh("a100-sxm4-80gb");
    apply(&cond, (SimOp){.type = SIM_OP_REMAP, .a = {0, 2, 0}});
    assert_int_equal(cond.remap_cor, 2);
    assert_int_equal(cond.remap_pending, 0); /* corrected ones wait for nothing */
    assert_int_equal(cond.bank_spent[0], board->remap_banks - 2);
    assert_int_equal(cond.bank_spent[1], 2);
    apply(&cond, (SimOp){.type = SIM_OP_REMAP, .a = {1, 1, 0}});
    assert_int_equal(cond.remap_unc, 1);
    assert_int_equal(cond.remap_pending, 1);
    assert_int_equal(cond.set[SIM_KEY_RECOVERY_ACTION], 1);
    assert_int_equal(cond.remap_failed, 0);
    apply(&cond, (SimOp){.type = SIM_OP_REMAP, .a = {1, 0, 1}});
    assert_int_equal(cond.remap_failed, 1);
    assert_int_equal(cond.bank_spent[4], 1);
    assert_int_equal(banks(&cond), board->remap_banks);
    apply(&cond, (SimOp){.type = SIM_OP_REMAP, .a = {0, 1 << 20, 0}}); /* more than there are */
    assert_int_equal(banks(&cond), board->remap_banks);
    apply(&cond, (SimOp){.type = SIM_OP_RESET});
    assert_int_equal(cond.remap_pending, 0);
    assert_int_equal(cond.remap_unc, 1); /* remapped rows stay so */
    assert_int_equal(cond.remap_failed, 1);
}

static void retired_pages_wait_for_a_reset(void **state)
{
    (void)state;
    SimCond cond = fresh("t4");
    apply(&cond, (SimOp){.type = SIM_OP_RETIRE, .a = {1, 2}});
    apply(&cond, (SimOp){.type = SIM_OP_RETIRE, .a = {0, 1}});
    assert_true(cond.retired[1] == 2 && cond.retired[0] == 1 && cond.retired_pending);
    apply(&cond, (SimOp){.type = SIM_OP_RESET});
    assert_true(cond.retired[1] == 2 && cond.retired[0] == 1 && !cond.retired_pending);
}

static void links_go_down_and_count(void **state)
{
    (void)state;
    SimCond cond = fresh("h100-sxm-80gb");
    apply(&cond, (SimOp){.type = SIM_OP_LINK, .a = {3, SIM_LINK_DOWN}});
    apply(&cond, (SimOp){.type = SIM_OP_LINK, .a = {4, SIM_LINK_SLEEP}});
    for (uint32_t l = 0; l < board->link_count; l++)
        assert_int_equal(cond.link[l].state, l == 3 ? 0 : l == 4 ? 2 : 1);
    apply(&cond, (SimOp){.type = SIM_OP_LINK, .a = {SIM_NONE, SIM_LINK_ERRORS, 2}, .u = 10, .x = 4});
    cond_forward(&cond, 2);
    for (uint32_t l = 0; l < board->link_count; l++)
        for (int e = 0; e < 5; e++)
            assert_true(fabs(cond.link[l].count[e] - (e == 2 ? 18 : 0)) < 1e-9);
    apply(&cond, (SimOp){.type = SIM_OP_LINK, .a = {0, SIM_LINK_CLEAR}});
    assert_true(cond.link[0].count[2] == 0 && cond.link[1].count[2] == 18);
    apply(&cond, (SimOp){.type = SIM_OP_LINK, .a = {SIM_NONE, SIM_LINK_UP}});
    for (uint32_t l = 0; l < SIM_LINK_MAX; l++)
        assert_int_equal(cond.link[l].state, l < board->link_count);
    apply(&cond, (SimOp){.type = SIM_OP_RESET});
    assert_true(cond.link[1].count[2] == 0 && cond.link[1].rate[2] == 0);
}

static void pcie_narrows_and_replays(void **state)
{
    (void)state;
    SimCond cond = fresh("h100-sxm-80gb");
    apply(&cond, (SimOp){.type = SIM_OP_PCIE, .a = {0, 8, 3}, .x = 2});
    assert_true(cond.pcie_gen == 5 && cond.pcie_width == 8 && cond.replays == 3);
    cond_forward(&cond, 5);
    assert_true(cond.replays == 13);
    apply(&cond, (SimOp){.type = SIM_OP_PCIE, .a = {1, 0, 0}});
    assert_true(cond.pcie_gen == 1 && cond.pcie_width == 8 && cond.replay_rate == 0);
    apply(&cond, (SimOp){.type = SIM_OP_AER, .a = {1, 15, 4}});
    assert_int_equal(cond.aer[1][15], 4);
    apply(&cond, (SimOp){.type = SIM_OP_AER, .a = {0, 1, 6, 1}}); /* the port's */
    assert_true(cond.port_aer[0][1] == 6 && cond.aer[0][1] == 0);
    apply(&cond, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_ORPHAN_MIB}, .u = 500});
    apply(&cond, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_SLOT_WIDTH}, .u = 8});
    apply(&cond, (SimOp){.type = SIM_OP_RESET});
    assert_true(cond.pcie_gen == 5 && cond.pcie_width == 16 && cond.replays == 0);
    assert_int_equal(cond.set[SIM_KEY_ORPHAN_MIB], 0);                          /* a reset frees it */
    assert_true(cond.set[SIM_KEY_SLOT_WIDTH] == 8 && cond.port_aer[0][1] == 6); /* and is not about the slot */
}

static void mig_mode_waits_where_it_must(void **state)
{
    (void)state;
    SimCond cond = fresh("a100-sxm4-80gb"); /* Ampere */
    apply(&cond, (SimOp){.type = SIM_OP_MIG_MODE, .a = {1}});
    assert_true(cond.mig_pending && !cond.mig_mode);
    apply(&cond, (SimOp){.type = SIM_OP_RESET});
    assert_true(cond.mig_mode);
    cond = fresh("h100-sxm-80gb");
    apply(&cond, (SimOp){.type = SIM_OP_MIG_MODE, .a = {1}});
    assert_true(cond.mig_pending && cond.mig_mode);
    apply(&cond, (SimOp){.type = SIM_OP_GI_CREATE, .a = {0, SIM_NONE}});
    assert_true(cond.gi[0].used);
    apply(&cond, (SimOp){.type = SIM_OP_CI_CREATE, .a = {(int32_t)cond.gi[0].id, 0, SIM_NONE}});
    assert_true(cond.ci[0].used && cond.ci[0].gi_id == cond.gi[0].id && cond.ci[0].id == 0);
    assert_int_equal(cond.ci[0].sm, board->profiles[0].sm);
    apply(&cond, (SimOp){.type = SIM_OP_GI_DESTROY, .a = {(int32_t)cond.gi[0].id}});
    assert_true(!cond.gi[0].used && !cond.ci[0].used);
    apply(&cond, (SimOp){.type = SIM_OP_GI_CREATE, .a = {0, 3}});
    assert_int_equal(cond.gi[0].start, 3);
    apply(&cond, (SimOp){.type = SIM_OP_MIG_MODE, .a = {0}});
    assert_true(!cond.mig_mode && !cond.gi[0].used);
    apply(&cond, (SimOp){.type = SIM_OP_GI_CREATE, .a = {0, SIM_NONE}});
    assert_false(cond.gi[0].used);
    cond = fresh("l40s");
    apply(&cond, (SimOp){.type = SIM_OP_MIG_MODE, .a = {1}});
    assert_true(!cond.mig_mode && !cond.mig_pending);
}

static void a_reset_puts_right_what_it_can(void **state)
{
    (void)state;
    SimCond cond = fresh("h100-sxm-80gb");
    apply(&cond, (SimOp){.type = SIM_OP_LOST});
    apply(&cond, (SimOp){.type = SIM_OP_ECC, .a = {SIM_ECC_SRAM, 1, 1}, .x = 1});
    static const int32_t cleared[] = {SIM_KEY_RESET_REQUIRED, SIM_KEY_RECOVERY_ACTION, SIM_KEY_LOCK_SM_MAX,
                                      SIM_KEY_APP_SM_MHZ, SIM_KEY_COMPUTE_MODE};
    for (size_t i = 0; i < sizeof cleared / sizeof *cleared; i++)
        apply(&cond, (SimOp){.type = SIM_OP_SET, .a = {cleared[i]}, .u = 1});
    apply(&cond, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_ECC_PENDING}, .u = 0});
    apply(&cond, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_FAN_FAILED}, .u = 1});
    assert_true(cond.lost && cond.reset_required && cond.ecc_mode);
    apply(&cond, (SimOp){.type = SIM_OP_RESET});
    assert_true(!cond.lost && !cond.reset_required && !cond.ecc_mode);
    for (size_t i = 0; i < sizeof cleared / sizeof *cleared; i++)
        assert_int_equal(cond.set[cleared[i]], 0);
    assert_int_equal(cond.set[SIM_KEY_FAN_FAILED], 1); /* no reset mends a fan */
    assert_int_equal(cond.ecc_volatile[1][SIM_ECC_SRAM], 0);
    assert_int_equal(cond.ecc_aggregate[1][SIM_ECC_SRAM], 1);
    assert_int_equal(cond.volatile_since_ns, 5 * SIM_NS);
}

static void plugging_is_a_reset(void **state)
{
    (void)state;
    SimCond cond = fresh("h100-sxm-80gb");
    apply(&cond, (SimOp){.type = SIM_OP_LOST});
    apply(&cond, (SimOp){.type = SIM_OP_PLUG, .a = {0}});
    assert_true(!cond.present && cond.lost);
    apply(&cond, (SimOp){.type = SIM_OP_PLUG, .a = {1}});
    assert_true(cond.present && !cond.lost);
}

/* What only says something leaves the condition as it is. */
static void words_change_nothing(void **state)
{
    (void)state;
    static const uint32_t types[] = {SIM_OP_NONE, SIM_OP_WORK_START, SIM_OP_WORK_STOP, SIM_OP_XID,  SIM_OP_EVENT,
                                     SIM_OP_HANG, SIM_OP_NODE,       SIM_OP_KMSG,      SIM_OP_COUNT};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        SimCond cond = fresh("h100-sxm-80gb"), before = cond;
        apply(&cond, (SimOp){.type = types[i], .a = {1, 1, 1, 1}, .u = 1});
        assert_memory_equal(&cond, &before, sizeof cond);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_up_as_built),
        cmocka_unit_test(set_changes_one_setting),
        cmocka_unit_test(ecc_counts_now_and_from_now_on),
        cmocka_unit_test(remaps_spend_rows),
        cmocka_unit_test(retired_pages_wait_for_a_reset),
        cmocka_unit_test(links_go_down_and_count),
        cmocka_unit_test(pcie_narrows_and_replays),
        cmocka_unit_test(mig_mode_waits_where_it_must),
        cmocka_unit_test(a_reset_puts_right_what_it_can),
        cmocka_unit_test(plugging_is_a_reset),
        cmocka_unit_test(words_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
