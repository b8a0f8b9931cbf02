/* SPDX-License-Identifier: Apache-2.0 */
/* Covers build.c, identity.c, library.c and every file of sim/data/scenarios. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit.h"
#include "sim/core/control.h"
#include "sim/core/state.h"
#include "sim/scenario/parse.h"

static void each_scenario(Kit *kit, void (*check)(Kit *, const Scenario *))
{
    size_t count = 0;
    const char *const *names = library_names(kit_scenarios, &kit->arena, &count);
    assert_true(count >= 28);
    for (size_t i = 0; i < count; i++) {
        const Scenario *scenario = NULL;
        if (scenario_load(kit_scenarios, names[i], &kit->boards, &kit->arena, &scenario, &kit->err) < 0)
            fail_msg("%s", kit->err.text);
        assert_string_equal(scenario->name, names[i]);
        check(kit, scenario);
    }
}

static void same(const char *name, const char *what, const void *a, const void *b, size_t n)
{
    if (memcmp(a, b, n) != 0)
        fail_msg("%s: %s differ between two builds", name, what);
}

#define SAME(member) same(name, #member, &a->member, &b->member, sizeof a->member)
#define SAME_N(member, n) same(name, #member, a->member, b->member, (n) * sizeof a->member[0])

/* All of the image in use, apart from the lock and the clock. */
static void images_are_equal(const char *name, const SimImage *a, const SimImage *b)
{
    size_t head = offsetof(SimImage, clock_turn);
    same(name, "heads", a, b, head);
    SAME(op_count);
    SAME(pattern_count);
    SAME(node_seg_count);
    SAME(text_used);
    SAME(event_count);
    SAME(seg_count);
    SAME(boards);
    SAME(gpus);
    SAME_N(works, a->work_count);
    SAME_N(node_segs, a->node_seg_count);
    SAME_N(ops, a->op_count);
    SAME_N(texts, a->text_used);
    SAME_N(patterns, a->pattern_count);
    SAME_N(events, a->event_count);
    for (uint32_t g = 0; g < a->gpu_count; g++)
        same(name, "segments", &a->segs[g * SIM_SEG_MAX], &b->segs[g * SIM_SEG_MAX],
             a->seg_count[g] * sizeof a->segs[0]);
}

static void build_twice(Kit *kit, const Scenario *scenario)
{
    SimImage *a = kit_build(kit, scenario), *b = kit_build(kit, scenario);
    images_are_equal(scenario->name, a, b);
    assert_int_equal(a->gpu_count, scenario->gpu_count);
    assert_int_equal(a->work_count, scenario->work_count);
    assert_true(a->op_count >= scenario->op_count);
    kit_image_done(a);
    kit_image_done(b);
}

static void every_scenario_builds_the_same_twice(void **state)
{
    Kit kit;
    (void)state;
    kit_init(&kit);
    each_scenario(&kit, build_twice);
    kit_done(&kit);
}

/* A near miss raises nothing for operations, and a fault scenario says what it is about. */
static void labels_fit(Kit *kit, const Scenario *s)
{
    (void)kit;
    int quiet = strncmp(s->name, "near-miss", 9) == 0 || strncmp(s->name, "healthy", 7) == 0;
    for (size_t i = 0; i < s->truth_count; i++) {
        const char *route = truth_route_name(s->truths[i].route);
        if (quiet && (strcmp(route, "page") == 0 || strcmp(route, "ticket") == 0))
            fail_msg("%s: a quiet scenario must not disturb operations", s->name);
        uint64_t last = s->truths[i].from_ns;
        if (last > 8 * 24 * UINT64_C(3600) * SIM_NS)
            fail_msg("%s: a verdict after more than a week", s->name);
    }
    if (strncmp(s->name, "xid-", 4) == 0 && s->truth_count && strcmp(s->name, "xid-45-storm") != 0) {
        char number[16];
        snprintf(number, sizeof number, "xid-%u-", s->truths[0].xid);
        assert_int_equal(strncmp(s->name, number, strlen(number)), 0);
    }
}

static void labels(void **state)
{
    Kit kit;
    (void)state;
    kit_init(&kit);
    each_scenario(&kit, labels_fit);
    kit_done(&kit);
}

static void identities(void **state)
{
    Kit kit;
    const Scenario *scenario = NULL;
    (void)state;
    kit_init(&kit);
    assert_int_equal(scenario_load(kit_scenarios, "healthy-training", &kit.boards, &kit.arena, &scenario, &kit.err), 0);
    SimImage *image = kit_build(&kit, scenario);
    for (uint32_t i = 0; i < 8; i++) {
        const SimGpuId *id = &image->gpus[i];
        assert_int_equal(strlen(id->uuid), 40);
        assert_int_equal(strlen(id->serial), 13);
        assert_int_equal(id->minor, i);
        assert_int_equal(id->numa_node, i / 4);
        assert_true(id->leak > 0.96 && id->leak < 1.04 && id->cool > 0.95 && id->cool < 1.05);
        for (uint32_t k = 0; k < i; k++) {
            assert_true(image->gpus[k].bus < id->bus); /* NVML orders by bus */
            assert_string_not_equal(image->gpus[k].uuid, id->uuid);
            assert_string_not_equal(image->gpus[k].serial, id->serial);
            assert_true(image->gpus[k].module_id != id->module_id);
        }
    }
    assert_string_equal(image->driver, "590.48.01");
    assert_string_equal(image->nvml, "13.590.48.01");
    assert_int_equal(image->cuda_version, 13010);
    assert_int_equal(image->generation, 590);
    assert_int_equal(image->epoch_us, 1767600000000000);
    kit_image_done(image);
    kit_done(&kit);
}

/* The symbols and the CUDA version of a driver follow from its branch. */
static void driver_versions(void **state)
{
    static const struct {
        const char *driver;
        uint32_t generation, cuda;
    } rows[] = {{"535.274.02", 535, 12020}, {"545.23.08", 550, 12030}, {"550.54.15", 550, 12040},
                {"560.35.05", 590, 12060},  {"580.95.05", 590, 13000}, {"590.48.01", 590, 13010},
                {"595.71.05", 590, 13020},  {"610.57.02", 610, 13030}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(scenario_generation(rows[i].driver), rows[i].generation);
        assert_int_equal(scenario_cuda(rows[i].driver), rows[i].cuda);
    }
}

static void another_seed_is_another_node(void **state)
{
    Kit kit;
    const char *text = "about: x\nnode: {seed: 1}\ngpus: {board: t4, count: 2}\ntruth: []\n";
    char path[] = "/tmp/stoker-scenario-XXXXXX";
    SimImage *b = NULL;
    (void)state;
    kit_init(&kit);
    const Scenario *s = kit_parse(&kit, text);
    SimImage *a = kit_build(&kit, s);
    ScenarioBuild how = {.seed = 2, .driver = "535.261.03", .kernel_log = "/k", .root = "/r"};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(scenario_build(s, &how, path, &b, &kit.err), 0);
    unlink(path);
    assert_string_not_equal(a->gpus[0].uuid, b->gpus[0].uuid);
    assert_int_equal(b->generation, 535);
    assert_int_equal(b->cuda_version, 12020);
    assert_string_equal(b->nvml, "12.535.261.03");
    assert_string_equal(b->kernel_log, "/k");
    assert_string_equal(b->root, "/r");
    kit_image_done(a);
    kit_image_done(b);
    kit_done(&kit);
}

/* A hung collective as a user sees it: the rank is gone, the others spin and hold their memory. */
static void a_dead_rank_hangs_the_others(void **state)
{
    Kit kit;
    const Scenario *s = NULL;
    SimNow *now = calloc(1, sizeof *now);
    (void)state;
    kit_init(&kit);
    assert_int_equal(scenario_load(kit_scenarios, "hung-collective", &kit.boards, &kit.arena, &s, &kit.err), 0);
    SimImage *image = kit_build(&kit, s);
    for (uint32_t g = 0; g < 8; g++) {
        sim_state_at(image, g, 1200 * SIM_NS, now);
        assert_int_equal(now->proc_count, g != 5);
        assert_true(g == 5 || (now->win[SIM_CH_KERNEL] > 0.99 && now->win[SIM_CH_TENSOR] < 0.01));
    }
    kit_image_done(image);
    free(now);
    kit_done(&kit);
}

/* A change of kind keeps the process: same pid, other doings. */
static void a_stage_keeps_the_process(void **state)
{
    Kit kit;
    const Scenario *s = NULL;
    SimNow *now = calloc(1, sizeof *now);
    (void)state;
    kit_init(&kit);
    assert_int_equal(scenario_load(kit_scenarios, "near-miss-loading-model", &kit.boards, &kit.arena, &s, &kit.err), 0);
    SimImage *image = kit_build(&kit, s);
    sim_state_at(image, 0, 200 * SIM_NS, now);
    assert_int_equal(now->proc_count, 1);
    uint32_t pid = now->proc[0].pid;
    assert_true(now->win[SIM_CH_KERNEL] < 0.01);
    sim_state_at(image, 0, 300 * SIM_NS, now);
    assert_int_equal(now->proc_count, 1);
    assert_int_equal(now->proc[0].pid, pid);
    assert_true(now->win[SIM_CH_DRAM] > 0.5 && now->used_mib >= 72 * 1024);
    kit_image_done(image);
    free(now);
    kit_done(&kit);
}

static void verdicts_read_well(void **state)
{
    Kit kit;
    Str line;
    (void)state;
    kit_init(&kit);
    str_init(&line, 200);
    const Scenario *s =
        kit_parse(&kit, "about: x\ngpus: {board: t4, count: 4}\n"
                        "work: [{name: w, kind: decode, gpus: all, independent: yes}]\n"
                        "truth:\n"
                        "  - {gpu: 1-2, work: w, class: starved, cause: application, action: check-app, "
                        "route: user}\n"
                        "  - {class: power-brake, cause: power, action: check-power, route: page, "
                        "from: 5m, until: 6m}\n");
    truth_write(&s->truths[0], &line);
    str_add(&line, "; ");
    truth_write(&s->truths[1], &line);
    assert_string_equal(line.text, "gpu 1,2 work w: starved (application) -> check-app; "
                                   "node: power-brake (power) -> check-power");
    assert_int_equal(s->truths[1].from_ns, 300 * SIM_NS);
    assert_true(s->truths[0].until_ns == SIM_FOREVER);
    str_done(&line);
    kit_done(&kit);
}

static void finding(void **state)
{
    Kit kit;
    const char *path = NULL;
    (void)state;
    kit_init(&kit);
    assert_int_equal(library_find(kit_scenarios, "xid-79-lst", &kit.arena, &path, &kit.err), -ENOENT);
    assert_non_null(strstr(kit.err.text, "unknown scenario 'xid-79-lst' (did you mean 'xid-79-lost'?)"));
    assert_null(path);
    assert_int_equal(library_find(kit_scenarios, "./x.yaml", &kit.arena, &path, &kit.err), 0);
    assert_string_equal(path, "./x.yaml");
    assert_int_equal(library_find(kit_scenarios, "default", &kit.arena, &path, &kit.err), 0);
    assert_string_equal(library_name_of(path, &kit.arena), "default");
    assert_int_equal(library_find(kit_boards + 1, "default", &kit.arena, &path, &kit.err), -ENOENT);
    assert_false(library_name_ok("../x") || library_name_ok("") || library_name_ok(".x") || library_name_ok("A"));
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scenario_builds_the_same_twice),
        cmocka_unit_test(labels),
        cmocka_unit_test(identities),
        cmocka_unit_test(driver_versions),
        cmocka_unit_test(another_seed_is_another_node),
        cmocka_unit_test(a_dead_rank_hangs_the_others),
        cmocka_unit_test(a_stage_keeps_the_process),
        cmocka_unit_test(verdicts_read_well),
        cmocka_unit_test(finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
