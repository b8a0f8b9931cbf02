/* SPDX-License-Identifier: Apache-2.0 */
/* Covers step.c, step_rows.c, step_make.c, step_node.c, step_compute.c, inject.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "sim/core/control.h"
#include "sim/core/state.h"
#include "sim/scenario/step.h"

enum { OPS = 64 };
static const char node_text[] = "about: x\n"
                                "gpus:\n"
                                "  - {board: h100-sxm-80gb, count: 7}\n"
                                "  - {board: t4}\n"
                                "work:\n"
                                "  - {name: llama, kind: train, gpus: 0-5, process: llama}\n"
                                "truth: []\n";

typedef struct Running {
    Kit kit;
    SimImage *image;
    ScenarioOp ops[OPS];
    size_t count;
} Running;

static void running_init(Running *r, const char *text)
{
    memset(r, 0, sizeof *r);
    kit_init(&r->kit);
    r->image = kit_build(&r->kit, kit_parse(&r->kit, text));
    sim_clock_advance(r->image, 60 * SIM_NS);
}

static void running_done(Running *r)
{
    kit_image_done(r->image);
    kit_done(&r->kit);
}

static int step(Running *r, const char *text)
{
    const char *words[16];
    int n = kit_words(&r->kit, text, words);
    r->count = 0;
    return scenario_step_parse(r->image, n, words, r->ops, OPS, &r->count, &r->kit.arena, &r->kit.err);
}

/* Injects all ops of a step, as `sim inject` does. */
static void inject(Running *r, const char *text)
{
    if (step(r, text) < 0)
        fail_msg("%s", r->kit.err.text);
    uint64_t now = sim_clock_now(r->image);
    for (size_t i = 0; i < r->count; i++) {
        SimOp op = r->ops[i].op;
        int later = op.t_ns > 0;
        op.t_ns += now;
        assert_int_equal(sim_op_apply(r->image, &op, r->ops[i].text, later, NULL), SIM_OK);
    }
}

static const SimNow *now(Running *r, uint32_t gpu)
{
    return sim_state_now(r->image, gpu);
}

static void every_example_works(void **state)
{
    Running r;
    (void)state;
    for (size_t i = 0; step_at(i); i++) {
        running_init(&r, node_text);
        if (strncmp(step_at(i)->name, "mig-", 4) == 0 && strcmp(step_at(i)->name, "mig-mode") != 0)
            inject(&r, "mig-mode yes gpu=0");
        if (strcmp(step_at(i)->name, "mig-destroy") == 0)
            inject(&r, "mig-create 3g.40gb gpu=0");
        if (strcmp(step_at(i)->name, "retire") == 0)
            inject(&r, "retire gpu=7 double_bit=1");
        else if (strchr(step_at(i)->example, '=') && strstr(step_at(i)->example, "gpu=all") &&
                 strcmp(step_at(i)->name, "fabric") == 0)
            assert_true(step(&r, step_at(i)->example) < 0); /* the T4 has no fabric */
        else
            inject(&r, step_at(i)->example);
        assert_true(r.count > 0 || strcmp(step_at(i)->name, "fabric") == 0);
        running_done(&r);
    }
}

static void every_row_is_sound(void **state)
{
    (void)state;
    for (size_t i = 0; step_at(i); i++) {
        const Step *s = step_at(i);
        assert_ptr_equal(step_find(s->name), s);
        assert_non_null(s->make);
        assert_true(strlen(s->help) > 5 && s->help[strlen(s->help) - 1] != '.');
        assert_int_equal(strncmp(s->example, s->name, strlen(s->name)), 0);
        for (size_t k = 0; k < s->count; k++) {
            Arena arena = {0};
            StepArgs args;
            FieldSet one = {&s->fields[k], 1, "row"};
            assert_int_equal(field_defaults(&one, &arena, &args, NULL), 0);
            assert_true(strlen(s->fields[k].help) > 3);
            arena_done(&arena);
        }
    }
}

static void words_and_yaml_are_the_same(void **state)
{
    static const struct {
        const char *yaml, *words;
    } rows[] = {
        {"{time: 1m, do: xid, gpu: 3, code: 79}", "xid 79 gpu=3"},
        {"{time: 1m, do: ecc, gpu: 0, uncorrected: 1, location: sram}", "ecc gpu=0 uncorrected=1 sram"},
        {"{time: 1m, do: link, gpu: 1, link: 4, state: down}", "link gpu=1 link=4 down"},
        {"{time: 1m, do: hang, gpu: 2, function: nvmlDeviceGetName, delay: forever}",
         "hang gpu=2 nvmlDeviceGetName forever"},
        {"{time: 1m, do: thermal, gpu: 1, ambient: +15, for: 5m}", "thermal gpu=1 ambient=+15 for=5m"},
        {"{time: 1m, do: power-limit, gpu: 0-3, watts: 400W}", "power-limit 400 gpu=0-3"},
        {"{time: 1m, do: stop, work: llama, rank: 2}", "stop llama rank=2"},
    };
    Running r;
    (void)state;
    running_init(&r, node_text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = arena_printf(&r.kit.arena, "%.*sat:\n  - %s\ntruth: []\n",
                                  (int)(strstr(node_text, "truth") - node_text), node_text, rows[i].yaml);
        const Scenario *s = kit_parse(&r.kit, text);
        if (step(&r, rows[i].words) < 0)
            fail_msg("%s", r.kit.err.text);
        size_t before = s->op_count - r.count; /* the starts of the works */
        assert_int_equal(before, 6);
        for (size_t k = 0; k < r.count; k++) {
            SimOp want = s->ops[before + k].op, have = r.ops[k].op;
            assert_int_equal(want.t_ns, have.t_ns + 60 * SIM_NS);
            want.t_ns = have.t_ns;
            want.origin = have.origin;
            assert_memory_equal(&want, &have, sizeof want);
        }
    }
    running_done(&r);
}

static void refusals(void **state)
{
    static const struct {
        const char *words, *error;
    } rows[] = {
        {"", "unknown step ''; allowed: xid, event"},
        {"xod 79", "unknown step 'xod' (did you mean 'xid'?); allowed: "},
        {"xid gpu=3", "step 'xid' needs 'code'"},
        {"xid 79", "step 'xid' needs 'gpu'"},
        {"xid 79 gpu=8", "there is no such GPU: the node has 8, 0 to 7"},
        {"xid 79 gpu=1 gpu=2", "step 'xid': 'gpu' is given twice"},
        {"xid 79 gpus=1", "unknown key of step 'xid' 'gpus' (did you mean 'gpu'?)"},
        {"link gpu=7 down", "link: gpu 7: the board has no NVLink"},
        {"start bert", "unknown work 'bert'; allowed: llama"},
        {"mig-create 3g.40gb gpu=0", "mig-create: gpu 0: MIG is off at that time"},
        {"compute gpu=0", "compute: gpu 0: needs at least one fault"},
        {"compute gpu=0 sm=3", "compute: gpu 0: a slow SM needs both sm and speed"},
        {"compute gpu=7 sm_missing=40", "compute: gpu 7: there is no SM 40: the board has 40"},
        {"compute gpu=0 peer=0 access=none", "compute: gpu 0: there is no other GPU 0"},
        {"compute gpu=0 access=none", "compute: gpu 0: a pair needs both peer and access"},
        {"compute gpu=0 cuda=5", "compute: gpu 0: there is no result 5 of CUDA"},
        {"compute gpu=0 hang=cuMemAlloc",
         "compute: gpu 0: no CUDA function 'cuMemAlloc' (did you mean 'cuMemAlloc_v2'?)"},
        {"mig-create 3g.40 gpu=0", "unknown MIG profile '3g.40' (did you mean '3g.40gb'?)"},
    };
    Running r;
    (void)state;
    running_init(&r, node_text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(step(&r, rows[i].words), -EINVAL);
        if (strncmp(r.kit.err.text, rows[i].error, strlen(rows[i].error)) != 0)
            fail_msg("'%s' gives: %s", rows[i].words, r.kit.err.text);
        assert_int_equal(r.count, 0);
    }
    const char *words[16];
    int n = kit_words(&r.kit, "reset gpu=all", words);
    assert_int_equal(scenario_step_parse(r.image, n, words, r.ops, 7, &r.count, &r.kit.arena, &r.kit.err), -E2BIG);
    running_done(&r);
}

static void effects(void **state)
{
    Running r;
    (void)state;
    running_init(&r, node_text);
    inject(&r, "xid 79 gpu=3");
    sim_clock_advance(r.image, SIM_NS);
    assert_true(now(&r, 3)->cond.lost);
    inject(&r, "reset gpu=3");
    inject(&r, "link gpu=1 link=4 down");
    inject(&r, "pcie gpu=2 width=8 for=10s");
    inject(&r, "ecc gpu=0 corrected_rate=100 for=10s");
    inject(&r, "power-limit 400 gpu=4 for=10s");
    inject(&r, "fabric in-progress gpu=5 health=misconfigured");
    inject(&r, "aer nonfatal gpu=6 error=CmpltTO count=3");
    sim_clock_advance(r.image, 5 * SIM_NS);
    assert_false(now(&r, 3)->cond.lost);
    assert_int_equal(now(&r, 1)->cond.link[4].state, 0);
    assert_int_equal(now(&r, 2)->cond.pcie_width, 8);
    assert_int_equal(now(&r, 4)->cond.set[SIM_KEY_POWER_LIMIT_MW], 400000);
    assert_int_equal(now(&r, 5)->cond.set[SIM_KEY_FABRIC_STATE], 2);
    assert_int_equal(now(&r, 5)->cond.set[SIM_KEY_FABRIC_HEALTH], 0x5aa);
    assert_int_equal(now(&r, 6)->cond.aer[1][5], 3);
    sim_clock_advance(r.image, 10 * SIM_NS);
    uint64_t errors = now(&r, 0)->cond.ecc_volatile[0][SIM_ECC_DRAM];
    assert_in_range(errors, 999, 1001);
    assert_int_equal(now(&r, 2)->cond.pcie_width, 16);
    assert_int_equal(now(&r, 4)->cond.set[SIM_KEY_POWER_LIMIT_MW], 700000);
    sim_clock_advance(r.image, 60 * SIM_NS);
    assert_int_equal(now(&r, 0)->cond.ecc_volatile[0][SIM_ECC_DRAM], errors);
    running_done(&r);
}

static void faults_of_compute(void **state)
{
    Running r;
    const uint32_t *set;
    float rate;
    (void)state;
    running_init(&r, node_text);
    inject(&r, "compute gpu=0 memory=94% sm=17 speed=0.8 sm_missing=131 wrong=1e-6 wrong_sm=3 repeats=yes nan=yes");
    inject(&r, "compute gpu=0 bad_address=8193 cuda=214 after=5 out_of_memory_at=0.6 hang=kernel for=10s");
    set = now(&r, 0)->cond.set;
    memcpy(&rate, &set[SIM_KEY_WRONG_RATE], sizeof rate);
    assert_int_equal(set[SIM_KEY_MEMORY_PERMILLE], 940);
    assert_int_equal(set[SIM_KEY_SLOW_SM], 18);
    assert_int_equal(set[SIM_KEY_SLOW_PERMILLE], 800);
    assert_int_equal(set[SIM_KEY_MISSING_SM], 132);
    assert_true(rate == 1e-6f);
    assert_int_equal(set[SIM_KEY_WRONG_SM], 4);
    assert_int_equal(set[SIM_KEY_WRONG_HOW], SIM_WRONG_REPEATS | SIM_WRONG_NAN);
    assert_int_equal(set[SIM_KEY_BAD_PAGE], 3);
    assert_int_equal(set[SIM_KEY_CUDA_RESULT], 214);
    assert_int_equal(set[SIM_KEY_CUDA_AFTER], 5);
    assert_int_equal(set[SIM_KEY_MEMORY_ROOM], 600);
    assert_int_equal(set[SIM_KEY_CUDA_HANG], 1);
    inject(&r, "compute gpu=2 peer=5 access=none");
    inject(&r, "compute gpu=2 peer=4 access=staged");
    inject(&r, "compute gpu=2 peer=3 access=corrupt");
    assert_int_equal(now(&r, 2)->cond.set[SIM_KEY_PEER_NONE], 1 << 5);
    assert_int_equal(now(&r, 5)->cond.set[SIM_KEY_PEER_NONE], 1 << 2);
    assert_int_equal(now(&r, 4)->cond.set[SIM_KEY_PEER_STAGED], 1 << 2);
    assert_int_equal(now(&r, 2)->cond.set[SIM_KEY_PEER_CORRUPT], 1 << 3);
    assert_int_equal(now(&r, 3)->cond.set[SIM_KEY_PEER_CORRUPT], 0);
    inject(&r, "compute gpu=2 peer=5 access=yes");
    assert_int_equal(now(&r, 5)->cond.set[SIM_KEY_PEER_NONE], 0);
    sim_clock_advance(r.image, 11 * SIM_NS);
    assert_int_equal(now(&r, 0)->cond.set[SIM_KEY_CUDA_HANG], 0);
    assert_int_equal(now(&r, 0)->cond.set[SIM_KEY_MEMORY_PERMILLE], 940);
    running_done(&r);
}

static void hang_rules_are_found_again(void **state)
{
    Running r;
    SimNodeSeg seg;
    (void)state;
    running_init(&r, node_text);
    inject(&r, "hang gpu=2 nvmlDeviceGetName delay=1s");
    inject(&r, "hang gpu=3 all forever for=10s");
    sim_node_at(r.image, sim_clock_now(r.image), &seg);
    assert_true(seg.hang[0].used && seg.hang[0].gpu == 2 && seg.hang[0].delay_ns == SIM_NS && seg.hang[0].fn >= 0);
    assert_true(seg.hang[1].used && seg.hang[1].gpu == 3 && seg.hang[1].delay_ns == SIM_FOREVER);
    assert_int_equal(seg.hang[1].fn, SIM_NONE);
    inject(&r, "hang gpu=2 nvmlDeviceGetName clear");
    assert_int_equal(r.count, 1);
    sim_clock_advance(r.image, 11 * SIM_NS);
    sim_node_at(r.image, sim_clock_now(r.image), &seg);
    for (int i = 0; i < SIM_HANG_MAX; i++)
        assert_false(seg.hang[i].used);
    inject(&r, "hang gpu=all all");
    inject(&r, "hang clear");
    assert_int_equal(r.count, 8);
    running_done(&r);
}

static void mig_steps_follow_the_layout(void **state)
{
    Running r;
    (void)state;
    running_init(&r, "about: x\ngpus: {board: h100-sxm-80gb, mig: [3g.40gb, {profile: 2g.20gb, compute: [1, 1]}]}\n"
                     "at:\n  - {time: 10s, do: mig-destroy, gpu: 0, device: 0}\n"
                     "  - {time: 20s, do: mig-create, gpu: 0, profile: 3g.40gb}\n"
                     "  - {time: 30s, do: mig-destroy, gpu: 0, all: yes}\n"
                     "  - {time: 40s, do: mig-create, gpu: 0, profile: 1g.10gb+me, start: 3}\ntruth: []\n");
    uint32_t gi, ci;
    SimNow *at = calloc(1, sizeof *at);
    sim_state_at(r.image, 0, 5 * SIM_NS, at);
    assert_true(at->cond.mig_mode && sim_mig_device(&at->cond, 2, &gi, &ci) && !sim_mig_device(&at->cond, 3, &gi, &ci));
    sim_state_at(r.image, 0, 25 * SIM_NS, at);
    assert_true(sim_mig_device(&at->cond, 0, &gi, &ci));
    assert_string_equal(r.image->boards[0].profiles[at->cond.gi[gi].profile].name, "3g.40gb");
    sim_state_at(r.image, 0, 45 * SIM_NS, at);
    assert_true(sim_mig_device(&at->cond, 0, &gi, &ci) && !sim_mig_device(&at->cond, 1, &gi, &ci));
    assert_int_equal(at->cond.gi[gi].start, 3);
    free(at);
    inject(&r, "xid 94 gpu=0 mig=0");
    assert_int_equal(r.ops[0].op.a[1], 10); /* one slice at 3 */
    assert_int_equal(r.ops[0].op.a[2], 0);
    inject(&r, "mig-destroy device=0 gpu=0");
    assert_false(sim_mig_device(&now(&r, 0)->cond, 0, &gi, &ci));
    running_done(&r);
}

static void repeats(void **state)
{
    Kit kit;
    (void)state;
    kit_init(&kit);
    const Scenario *s = kit_parse(&kit, "about: x\ngpus: {board: t4}\nat:\n"
                                        "  - {time: 10s, every: 1s, times: 500, do: xid, gpu: 0, code: 45}\n"
                                        "  - {time: 5s, every: 10s, times: 3, for: 2s, do: power-brake, gpu: 0}\n"
                                        "truth: []\n");
    assert_int_equal(s->op_count, 7); /* one train, three times on and off */
    static const uint64_t seconds[] = {5, 7, 10, 15, 17, 25, 27};
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(s->ops[i].op.t_ns, seconds[i] * SIM_NS);
    assert_int_equal(s->ops[2].op.times, 500);
    assert_int_equal(s->ops[2].op.every_ns, SIM_NS);
    assert_int_equal(s->ops[0].op.u, 1);
    assert_int_equal(s->ops[1].op.u, 0);
    kit_done(&kit);
}

static void works_can_be_injected(void **state)
{
    Running r;
    SimWork *works = calloc(4, sizeof *works);
    const char *words[16];
    size_t count = 0;
    uint64_t stop = 0;
    (void)state;
    running_init(&r, node_text);
    int n = kit_words(&r.kit, "decode gpus=6-7 memory=8GiB process=vllm stop=90s", words);
    if (scenario_work_parse(r.image, n, words, works, 4, &count, &stop, &r.kit.arena, &r.kit.err) < 0)
        fail_msg("%s", r.kit.err.text);
    assert_int_equal(count, 2);
    assert_int_equal(stop, 90 * SIM_NS);
    for (size_t i = 0; i < count; i++) {
        SimOp op = {.type = SIM_OP_WORK_START, .gpu = works[i].gpu, .a = {sim_work_add(r.image, &works[i])}};
        assert_int_equal(sim_op_apply(r.image, &op, NULL, 0, NULL), SIM_OK);
    }
    sim_clock_advance(r.image, SIM_NS);
    assert_int_equal(now(&r, 7)->proc_count, 1);
    assert_string_equal(now(&r, 7)->proc[0].name, "vllm");
    assert_true(now(&r, 6)->proc[0].pid != now(&r, 7)->proc[0].pid);
    n = kit_words(&r.kit, "decode gpus=7 memory=16GiB", words);
    assert_int_equal(scenario_work_parse(r.image, n, words, works, 4, &count, &stop, &r.kit.arena, &r.kit.err),
                     -EINVAL);
    assert_string_equal(r.kit.err.text, "work 'decode': 16384 MiB do not fit in the 14933 MiB of gpu 7");
    inject(&r, "stop vllm");
    assert_int_equal(r.count, 2);
    assert_int_equal(now(&r, 7)->proc_count, 0);
    free(works);
    running_done(&r);
}

static uint32_t node_key(Running *r, SimNodeKey key)
{
    SimNodeSeg node;
    sim_node_at(r->image, sim_clock_now(r->image), &node);
    return node.key[key];
}

static void what_only_the_host_sees(void **state)
{
    Running r;
    (void)state;
    running_init(&r, node_text);
    assert_int_equal(node_key(&r, SIM_NODE_PERSISTENCED), 1);
    inject(&r, "persistenced down");
    inject(&r, "stuck 5");
    assert_int_equal(node_key(&r, SIM_NODE_PERSISTENCED), 0);
    assert_int_equal(node_key(&r, SIM_NODE_STUCK), 5);
    inject(&r, "aer correctable gpu=6 error=BadTLP count=3 port=yes");
    assert_int_equal(now(&r, 6)->cond.port_aer[0][SIM_AER_BAD_TLP], 3);
    assert_int_equal(now(&r, 6)->cond.aer[0][SIM_AER_BAD_TLP], 0);
    inject(&r, "pcie gpu=6 slot_width=8 slot_gen=3");
    assert_int_equal(now(&r, 6)->cond.set[SIM_KEY_SLOT_WIDTH], 8);
    assert_int_equal(now(&r, 6)->cond.set[SIM_KEY_SLOT_GEN], 3);
    inject(&r, "log away");
    assert_int_equal(node_key(&r, SIM_NODE_LOG_AWAY), 1);
    inject(&r, "log back");
    assert_int_equal(node_key(&r, SIM_NODE_LOG_AWAY), 0);
    inject(&r, "suspend gpu=6");
    assert_int_equal(now(&r, 6)->cond.set[SIM_KEY_ASLEEP], 1);
    inject(&r, "init-failed gpu=6");
    assert_int_equal(now(&r, 6)->cond.set[SIM_KEY_NOT_STARTED], 1);
    inject(&r, "orphan-memory gpu=6 1GiB");
    assert_int_equal(now(&r, 6)->cond.set[SIM_KEY_ORPHAN_MIB], 1024);
    inject(&r, "reset gpu=6");
    assert_int_equal(now(&r, 6)->cond.set[SIM_KEY_ORPHAN_MIB], 0);
    assert_int_equal(now(&r, 6)->cond.set[SIM_KEY_NOT_STARTED], 0);
    running_done(&r);
}

static void a_driver_that_is_reloaded(void **state)
{
    Running r;
    (void)state;
    running_init(&r, node_text);
    inject(&r, "reload after=2s");
    assert_int_equal(r.count, 5);
    assert_int_equal(node_key(&r, SIM_NODE_DRIVER), SIM_DRIVER_UNLOADED);
    sim_clock_advance(r.image, 3 * SIM_NS);
    assert_int_equal(node_key(&r, SIM_NODE_DRIVER), SIM_DRIVER_LOADED);
    assert_non_null(strstr(r.ops[3].text, r.image->driver));
    running_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_works),
        cmocka_unit_test(every_row_is_sound),
        cmocka_unit_test(words_and_yaml_are_the_same),
        cmocka_unit_test(refusals),
        cmocka_unit_test(effects),
        cmocka_unit_test(faults_of_compute),
        cmocka_unit_test(hang_rules_are_found_again),
        cmocka_unit_test(mig_steps_follow_the_layout),
        cmocka_unit_test(repeats),
        cmocka_unit_test(works_can_be_injected),
        cmocka_unit_test(what_only_the_host_sees),
        cmocka_unit_test(a_driver_that_is_reloaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
