/* SPDX-License-Identifier: Apache-2.0 */
/* engine/mig: a change of layouts on a driver of our own, with each of its calls failing, hanging, or being the last
 * one before kill -9: the old or the new layout stands, and what is remembered says which. */
#include "boards.h"

#include <errno.h>
#include <setjmp.h>

#include "engine/mig/apply.h"

typedef enum Fault {
    FAULT_NONE,
    FAULT_FAILS,        /* the call has no effect */
    FAULT_FAILS_HALF,   /* an instance without its compute instances is left */
    FAULT_HANGS_BEFORE, /* it never returns and has no effect */
    FAULT_HANGS_AFTER,  /* it never returns, but was carried out */
    FAULT_KILLED,       /* kill -9 behind the call */
    FAULT_END,
} Fault;

static struct Fake {
    MigNode node;
    bool resets; /* a change of the mode takes a reset */
    unsigned calls, fault_at;
    Fault fault;
    bool hung; /* until reopened */
    unsigned destroyed, created;
    bool remembered;
    MigChange change;
    MigEnd forgotten;
    jmp_buf killed;
} fake;

/* Whether the call that begins now meets the fault. */
static bool meets_fault(void)
{
    assert_false(fake.hung);
    return ++fake.calls == fake.fault_at;
}

static int end_call(bool fault, int rc, Err *err)
{
    if (!fault || rc < 0)
        return rc;
    if (fake.fault == FAULT_KILLED)
        longjmp(fake.killed, 1);
    if (fake.fault == FAULT_HANGS_BEFORE || fake.fault == FAULT_HANGS_AFTER) {
        fake.hung = true;
        return err_set(err, -ETIMEDOUT, "does not return");
    }
    return err_set(err, -EIO, "Unknown Error");
}

/* Whether a call with this fault has its effect. */
static bool has_effect(bool fault)
{
    return !fault || fake.fault == FAULT_KILLED || fake.fault == FAULT_HANGS_AFTER;
}

static int fake_read(void *at, const MigNode **ret, Err *err)
{
    (void)at;
    const bool fault = meets_fault();
    *ret = &fake.node;
    return end_call(fault, 0, err);
}

static int fake_mode(void *at, unsigned gpu, bool on, Err *err)
{
    (void)at;
    const bool fault = meets_fault();
    MigGpu *one = &fake.node.gpus[gpu];
    assert_true(on || one->now.count == 0);
    if (has_effect(fault))
        one->pending = on;
    if (has_effect(fault) && !fake.resets)
        one->now.enabled = on;
    return end_call(fault, fake.resets ? 1 : 0, err);
}

static int fake_reset(void *at, unsigned gpu, Err *err)
{
    (void)at;
    const bool fault = meets_fault();
    if (has_effect(fault))
        fake.node.gpus[gpu].now.enabled = fake.node.gpus[gpu].pending;
    return end_call(fault, 0, err);
}

static MigInstance *find_id(MigGpu *gpu, uint32_t id)
{
    for (size_t i = 0; i < gpu->now.count; i++)
        if (gpu->now.instances[i].id == id)
            return &gpu->now.instances[i];
    fail_msg("no instance %u", id);
    return NULL;
}

static int fake_destroy(void *at, unsigned gpu, uint32_t id, Err *err)
{
    (void)at;
    const bool fault = meets_fault();
    MigLayout *now = &fake.node.gpus[gpu].now;
    MigInstance *one = find_id(&fake.node.gpus[gpu], id);
    if (fault && fake.fault == FAULT_FAILS_HALF)
        one->compute_count = 0;
    if (has_effect(fault)) {
        *one = now->instances[--now->count];
        fake.destroyed++;
    }
    return end_call(fault, 0, err);
}

static uint32_t span_of(const MigBoard *board, const MigInstance *one)
{
    return ((1u << board->profiles[one->profile].size) - 1) << one->start;
}

static int fake_create(void *at, unsigned gpu, const MigInstance *instance, Err *err)
{
    (void)at;
    const bool fault = meets_fault();
    MigGpu *one = &fake.node.gpus[gpu];
    static uint32_t next_id = 100;
    assert_true(one->now.enabled);
    for (size_t i = 0; i < one->now.count; i++)
        assert_int_equal(span_of(&one->board, instance) & span_of(&one->board, &one->now.instances[i]), 0);
    if (has_effect(fault) || fake.fault == FAULT_FAILS_HALF) {
        MigInstance *made = &one->now.instances[one->now.count++];
        *made = *instance;
        made->id = next_id++;
        fake.created++;
        if (!has_effect(fault))
            made->compute_count = 0;
    }
    return end_call(fault, 0, err);
}

static int fake_recompute(void *at, unsigned gpu, uint32_t id, const MigInstance *instance, Err *err)
{
    (void)at;
    const bool fault = meets_fault();
    MigInstance *one = find_id(&fake.node.gpus[gpu], id);
    if (has_effect(fault)) {
        one->compute_count = instance->compute_count;
        memcpy(one->compute, instance->compute, sizeof one->compute);
    } else if (fake.fault == FAULT_FAILS_HALF) {
        one->compute_count = 0;
    }
    return end_call(fault, 0, err);
}

static int fake_reopen(void *at, Err *err)
{
    (void)at;
    (void)err;
    fake.hung = false;
    return 0;
}

static int fake_remember(void *at, const MigChange *change, Err *err)
{
    (void)at;
    (void)err;
    fake.remembered = true;
    fake.change = *change;
    return 0;
}

static void fake_forget(void *at, MigEnd end)
{
    (void)at;
    fake.remembered = false;
    fake.forgotten = end;
}

static const MigOps ops = {.read = fake_read,
                           .set_mode = fake_mode,
                           .reset = fake_reset,
                           .destroy = fake_destroy,
                           .create = fake_create,
                           .recompute = fake_recompute,
                           .reopen = fake_reopen,
                           .remember = fake_remember,
                           .forget = fake_forget};

/* --- changes ------------------------------------------------------------------------------------------------------ */

static void set_gpu(unsigned index, const MigBoard *board, const MigLayout *before)
{
    MigGpu *gpu = &fake.node.gpus[index];
    *gpu = (MigGpu){.index = index, .capable = true, .board = *board, .now = *before, .pending = before->enabled};
    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%u", index);
    for (size_t i = 0; i < gpu->now.count; i++)
        gpu->now.instances[i].id = (uint32_t)i;
    fake.node.count = index + 1 > fake.node.count ? index + 1 : fake.node.count;
}

static void add_gpu(MigChange *change, unsigned index, const MigLayout *wanted)
{
    const MigGpu *gpu = &fake.node.gpus[index];
    MigChangeGpu *one = &change->gpus[change->count++];
    MigPlan plan;
    mig_plan(&gpu->board, &gpu->now, wanted, &plan);
    assert_int_equal(plan.outcome, MIG_POSSIBLE);
    *one = (MigChangeGpu){.index = index, .before = gpu->now};
    snprintf(one->uuid, sizeof one->uuid, "%s", gpu->uuid);
    mig_plan_result(&gpu->now, &plan, wanted->enabled, &one->after);
}

static void stands(const MigChange *change, bool after)
{
    for (size_t i = 0; i < change->count; i++) {
        const MigChangeGpu *one = &change->gpus[i];
        const MigGpu *gpu = &fake.node.gpus[one->index];
        assert_true(mig_layout_equal(&gpu->now, after ? &one->after : &one->before, true));
        assert_int_equal(gpu->pending, gpu->now.enabled);
    }
}

/* Two GPUs: one of the layouts is an H100's, whose mode changes at once, or an A100's, which takes a reset. */
static void set_up(bool resets, size_t which, MigChange *change)
{
    const MigBoard *board = board_of(resets ? "A100-80GB" : "H100-80GB");
    MigLayout off = {0};
    memset(&fake, 0, sizeof fake);
    fake.resets = resets;
    *change = (MigChange){0};
    MigLayout small = layout_of(board, "1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb", NULL);
    MigLayout large = layout_of(board, "4g.40gb", "3g.40gb", NULL);
    MigLayout split = layout_of(board, "1c.4g.40gb", "2c.4g.40gb", "3g.40gb", NULL);
    for (size_t i = 0; i < 4; i++)
        small.instances[i].start = (uint8_t[]){0, 1, 2, 4}[i];
    large.instances[0].start = 0;
    large.instances[1].start = 4;
    set_gpu(0, board, which == 0 ? &small : which == 1 ? &off : &large);
    set_gpu(1, board, which == 2 ? &small : &large);
    add_gpu(change, 0, which == 2 ? &split : &large);
    add_gpu(change, 1, which == 0 ? &small : &off);
}

/* Applies the change, or with NULL ends the one that is remembered. False: it was killed. */
static bool run_until_killed(const MigChange *change, MigEnd *ret, Err *err)
{
    if (setjmp(fake.killed))
        return false;
    *ret = change ? mig_change_apply(&ops, NULL, change, err) : mig_change_resume(&ops, NULL, &fake.change, err);
    return true;
}

static void every_fault(void **state)
{
    (void)state;
    static MigChange change;
    for (size_t which = 0; which < 3; which++)
        for (unsigned resets = 0; resets < 2; resets++) {
            Err err = {0};
            set_up(resets, which, &change);
            assert_int_equal(mig_change_apply(&ops, NULL, &change, &err), MIG_END_DONE);
            stands(&change, true);
            assert_false(fake.remembered);
            const unsigned calls = fake.calls;
            assert_in_range(calls, 4, 40);
            for (unsigned at = 1; at <= calls; at++)
                for (Fault fault = FAULT_FAILS; fault < FAULT_END; fault++) {
                    set_up(resets, which, &change);
                    fake.fault_at = at;
                    fake.fault = fault;
                    MigEnd end = MIG_END_PARTIAL;
                    if (!run_until_killed(&change, &end, &err)) {
                        assert_int_equal(fault, FAULT_KILLED);
                        assert_true(fake.remembered);
                        assert_true(run_until_killed(NULL, &end, &err));
                    }
                    assert_in_range(end, MIG_END_DONE, MIG_END_RESTORED);
                    stands(&change, end == MIG_END_DONE);
                    assert_false(fake.remembered);
                    assert_int_equal(fake.forgotten, end);
                }
        }
}

static int refuse_reset(void *at, unsigned gpu, Err *err)
{
    (void)at;
    (void)gpu;
    return err_set(err, -EIO, "nvidia-smi --gpu-reset: exit code 255");
}

/* A mode that needs a reset and does not get it is taken back; where it may wait for the reset, that is the end. */
static void mode_without_reset(void **state)
{
    (void)state;
    static MigChange change;
    Err err = {0};
    MigOps no_reset = ops;
    no_reset.reset = refuse_reset;
    set_up(true, 1, &change);
    assert_int_equal(mig_change_apply(&no_reset, NULL, &change, &err), MIG_END_RESTORED);
    stands(&change, false);

    const MigLayout off = {0}, on = {.enabled = true};
    for (unsigned enable = 0; enable < 2; enable++) {
        set_up(true, enable, &change);
        change.count = 0;
        add_gpu(&change, 0, enable ? &on : &off);
        no_reset.mode_later = true;
        assert_int_equal(mig_change_apply(&no_reset, NULL, &change, &err), MIG_END_DONE);
        assert_int_equal(fake.node.gpus[0].pending, enable);
        assert_int_equal(fake.node.gpus[0].now.enabled, !enable);
        assert_int_equal(fake.node.gpus[0].now.count, 0);
    }
}

/* kill -9 again and again, also while what stood before is put back. */
static void killed_twice(void **state)
{
    (void)state;
    static MigChange change;
    Err err = {0};
    for (unsigned first = 1; first < 12; first++)
        for (unsigned second = 1; second < 12; second++) {
            set_up(false, 0, &change);
            fake.fault = FAULT_KILLED;
            fake.fault_at = first;
            MigEnd end = MIG_END_PARTIAL;
            bool ended = run_until_killed(&change, &end, &err);
            for (fake.fault_at = second; !ended; fake.fault_at = 0) {
                fake.calls = 0;
                ended = run_until_killed(NULL, &end, &err);
            }
            assert_in_range(end, MIG_END_DONE, MIG_END_RESTORED);
            stands(&change, end == MIG_END_DONE);
        }
}

/* What stays is not touched, and each instance is made and destroyed once: the fewest calls there can be. */
static void fewest_calls(void **state)
{
    (void)state;
    static MigChange change;
    Err err = {0};
    set_up(false, 0, &change);
    assert_int_equal(mig_change_apply(&ops, NULL, &change, &err), MIG_END_DONE);
    assert_int_equal(fake.destroyed, 3 + 1); /* GPU 0 keeps its 3g.40gb at 4, and so does GPU 1 */
    assert_int_equal(fake.created, 1 + 3);
}

static int refuse_to_remember(void *at, const MigChange *change, Err *err)
{
    (void)at;
    (void)change;
    return err_set(err, -ENOSPC, "write '/var/lib/stoker/mig-change.json': No space left on device");
}

static void full_disk(void **state)
{
    (void)state;
    static MigChange change;
    Err err = {0};
    MigOps full = ops;
    full.remember = refuse_to_remember;
    set_up(false, 0, &change);
    assert_int_equal(mig_change_apply(&full, NULL, &change, &err), MIG_END_NOT_BEGUN);
    assert_int_equal(fake.calls, 0);
    stands(&change, false);
}

/* A driver that refuses everything from one call on: the change stays remembered, and is undone when it answers again.
 */
static int always_fail(void *at, unsigned gpu, const MigInstance *instance, Err *err)
{
    (void)at;
    (void)gpu;
    (void)instance;
    return err_set(err, -EIO, "make a GPU instance: Unknown Error");
}

static void partial(void **state)
{
    (void)state;
    static MigChange change;
    Err err = {0};
    MigOps broken = ops;
    broken.create = always_fail;
    set_up(false, 0, &change);
    assert_int_equal(mig_change_apply(&broken, NULL, &change, &err), MIG_END_PARTIAL);
    assert_true(fake.remembered);
    assert_string_equal(err.text, "GPU 0: make a GPU instance: Unknown Error; what stood before could not be put back: "
                                  "GPU 0: make a GPU instance: Unknown Error");
    assert_int_equal(mig_change_resume(&ops, NULL, &fake.change, &err), MIG_END_RESTORED);
    stands(&change, false);
    assert_false(fake.remembered);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault),  cmocka_unit_test(mode_without_reset), cmocka_unit_test(killed_twice),
        cmocka_unit_test(fewest_calls), cmocka_unit_test(full_disk),          cmocka_unit_test(partial),
    };
    load_tables(argc > 1 ? argv[1] : "data/mig/boards.yaml");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&board_arena);
    return failed;
}
