/* SPDX-License-Identifier: Apache-2.0 */
/* service/mig/{mig_report,mig_state,mig_suggest}.c: plans, layouts, states and suggestions, each whole: what golden/
 * has.
 */
#include "boards.h"

#include <errno.h>

#include "base/duration.h"
#include "service/mig/mig_report.h"
#include "service/mig/mig_suggest.h"
#include "test/unit/golden.h"

enum { OUT_MAX = 1 << 20 };

static MigNode node;
static MigGpuPlan plans[MIG_GPUS_MAX];

static MigGpu *add_gpu(const char *board)
{
    MigGpu *gpu = &node.gpus[node.count];

    *gpu = (MigGpu){.index = (unsigned)node.count, .device = 0x233010DE, .capable = true, .board = *board_of(board)};
    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%zu", node.count);
    plans[node.count++] = (MigGpuPlan){.gpu = gpu};
    return gpu;
}

/* Splits it; the places are chosen as for an empty GPU, the ids begin at 11. */
static void split_gpu(MigGpu *gpu, MigLayout layout)
{
    const MigLayout none = {.enabled = true};
    MigPlan plan;

    mig_plan(&gpu->board, &none, &layout, &plan);
    assert_int_equal(plan.outcome, MIG_POSSIBLE);
    mig_plan_result(&none, &plan, true, &gpu->now);
    gpu->pending = true;
    for (size_t i = 0; i < gpu->now.count; i++)
        gpu->now.instances[i].id = (uint32_t)i + 11;
}

static void ask(MigGpu *gpu, MigLayout wanted)
{
    MigGpuPlan *one = &plans[gpu - node.gpus];

    one->asked = true;
    one->wanted = wanted;
    mig_plan_gpu(gpu, &wanted, &one->plan);
    if (one->plan.outcome != MIG_POSSIBLE)
        one->nearest_count = mig_nearest(&gpu->board, &wanted, one->nearest, MIG_NEAREST_SHOWN);
}

static void block(MigGpu *gpu, const MigBlocker *blocker)
{
    MigGpuPlan *one = &plans[gpu - node.gpus];

    one->blockers[one->blocker_count++] = *blocker;
}

static int set_up(void **state)
{
    (void)state;
    memset(&node, 0, sizeof node);
    return 0;
}

/* A GPU of each kind: changed, not asked, without MIG, unreadable, as wanted, impossible, its mode on, off and taken
 * back, its compute instances alone. */
static void add_gpus_of_each_kind(void)
{
    const MigBoard *h100 = board_of("H100-80GB");
    const MigLayout off = {0}, empty = {.enabled = true};

    MigGpu *gpu = add_gpu("H100-80GB");
    split_gpu(gpu, layout_of(h100, "3g.40gb", "2g.20gb", "1g.10gb", NULL));
    ask(gpu, layout_of(h100, "3g.40gb", "1g.10gb", "1g.10gb", "1g.10gb", NULL));
    block(gpu, &(MigBlocker){.pid = 70, .instance = 1, .owner = {.name = "python", .job = "7", .user = "ada"}});
    block(gpu, &(MigBlocker){.pid = 71, .instance = -1, .owner = {.pod = "train", .namespace = "ml"}});
    add_gpu("A100-40GB");
    add_gpu("H100-80GB")->capable = false;
    gpu = add_gpu("H100-80GB");
    snprintf(gpu->why, sizeof gpu->why, "no answer for 9 s");
    gpu = add_gpu("H100-80GB");
    split_gpu(gpu, layout_of(h100, "7g.80gb", NULL));
    ask(gpu, layout_of(h100, "7g.80gb", NULL));
    gpu = add_gpu("H100-80GB");
    split_gpu(gpu, layout_of(h100, "3g.40gb", NULL));
    ask(gpu, layout_of(h100, "3g.40gb", "3g.40gb", "1g.10gb", NULL));
    gpu = add_gpu("H100-80GB");
    gpu->needs_reset = true;
    ask(gpu, layout_of(h100, "4g.40gb", NULL));
    gpu = add_gpu("H100-80GB");
    gpu->now = empty;
    gpu->pending = true;
    ask(gpu, off);
    gpu = add_gpu("H100-80GB");
    gpu->pending = true;
    ask(gpu, off);
    gpu = add_gpu("H100-80GB");
    gpu->now = empty;
    ask(gpu, layout_of(h100, "1g.10gb", NULL));
    gpu = add_gpu("H100-80GB");
    split_gpu(gpu, layout_of(h100, "4g.40gb", "3g.40gb", NULL));
    ask(gpu, layout_of(h100, "4g.40gb", "1c.3g.40gb", "2c.3g.40gb", NULL));
}

static void a_plan_is_told_in_words_and_as_json(void **state)
{
    CLEANUP(str_done) Str out = str_limited(OUT_MAX);
    MigNodePlan plan = {.gpus = plans};

    (void)state;
    add_gpus_of_each_kind();
    plan.count = node.count;
    mig_plan_text(&plan, &out);
    str_addc(&out, '\n');
    mig_plan_json(&plan, &out);
    plan.table = &tables[0];
    plan.count = 5;
    assert_null(mig_find_impossible(&plan));
    mig_plan_text(&plan, &out);
    str_addc(&out, '\n');
    mig_plan_json(&plan, &out);
    mig_node_text(&node, &out);
    assert_golden(GOLDEN "/plan.txt", &out);
    plan.count = node.count;
    assert_ptr_equal(mig_find_impossible(&plan), &plans[5]);
    plans[5].asked = false; /* then its plan says nothing */
    assert_null(mig_find_impossible(&plan));
}

/* Each of them alone. */
static void a_plan_changes_something_or_nothing(void **state)
{
    (void)state;
    assert_false(mig_plan_changes(&(MigPlan){.keep_count = 1}));
    assert_true(mig_plan_changes(&(MigPlan){.mode_change = true}));
    assert_true(mig_plan_changes(&(MigPlan){.destroy_count = 1}));
    assert_true(mig_plan_changes(&(MigPlan){.create_count = 1}));
    assert_true(mig_plan_changes(&(MigPlan){.recompute = 1}));
}

/* --- configurations ----------------------------------------------------------------------------------------------- */

static void add_export(const char *title, Str *to)
{
    str_addf(to, "# %s\n", title);
    mig_export_yaml(&node, "now", to);
    mig_export_json(&node, "now", to);
}

static void equal_gpus_are_exported_together(void **state)
{
    const MigBoard *h100 = board_of("H100-80GB");
    CLEANUP(str_done) Str out = str_limited(OUT_MAX);

    (void)state;
    add_export("no GPU", &out);
    for (size_t i = 0; i < 2; i++)
        split_gpu(add_gpu("H100-80GB"), layout_of(h100, "3g.40gb", "1c.3g.40gb", "2c.3g.40gb", NULL));
    add_gpu("H100-80GB")->capable = false;
    snprintf(add_gpu("H100-80GB")->why, MIG_WHY_SIZE, "no answer");
    add_export("two alike", &out);
    for (size_t i = 0; i < 2; i++)
        add_gpu("A100-40GB")->device = 0x20B010DE;
    add_export("two boards", &out);
    split_gpu(add_gpu("H100-80GB"), layout_of(h100, "1g.10gb", "1g.10gb", "2g.20gb", NULL));
    add_gpu("H100-80GB")->now.enabled = true;
    add_export("of one board not alike", &out);
    node.gpus[1] = node.gpus[2]; /* one GPU of its kind between others */
    split_gpu(&node.gpus[4], layout_of(board_of("A100-40GB"), "7g.40gb", NULL));
    add_export("none alike but one", &out);
    assert_golden(GOLDEN "/export.txt", &out);
}

/* --- states ------------------------------------------------------------------------------------------------------- */

static void split_two(void)
{
    split_gpu(add_gpu("H100-80GB"), layout_of(board_of("H100-80GB"), "3g.40gb", "1c.2g.20gb", "1c.2g.20gb", NULL));
    add_gpu("A100-40GB")->now.enabled = false;
    add_gpu("H100-80GB")->capable = false;
}

static void a_state_is_read_as_it_was_written(void **state)
{
    CLEANUP(str_done) Str out = str_limited(OUT_MAX), change = str_limited(OUT_MAX), again = str_limited(OUT_MAX);
    static MigLayout wanted[MIG_GPUS_MAX];
    bool asked[MIG_GPUS_MAX];
    static MigChange read;
    Err err = {0};

    (void)state;
    split_two();
    mig_state_write(&node, &out);
    assert_int_equal(mig_state_read(out.text, out.len, &node, wanted, asked, &err), 0);
    assert_true(asked[0] && asked[1] && !asked[2]);
    assert_true(mig_layout_equal(&wanted[0], &node.gpus[0].now, true));
    assert_true(mig_layout_equal(&wanted[1], &node.gpus[1].now, true));
    assert_false(wanted[1].enabled);
    MigChange written = {.count = 2};
    for (unsigned i = 0; i < 2; i++) {
        written.gpus[i].index = i;
        memcpy(written.gpus[i].uuid, node.gpus[i].uuid, sizeof written.gpus[i].uuid);
        written.gpus[i].before = node.gpus[i].now;
        written.gpus[i].after.enabled = i == 1;
    }
    mig_change_write(&written, &node, &change);
    assert_int_equal(mig_change_read(change.text, change.len, &node, &read, &err), 0);
    assert_int_equal(read.count, 2);
    mig_change_write(&read, &node, &again);
    assert_string_equal(again.text, change.text);
    str_add(&out, change.text);
    assert_golden(GOLDEN "/state.txt", &out);
    snprintf(node.gpus[1].why, sizeof node.gpus[1].why, "it hangs");
    assert_int_equal(mig_change_read(change.text, change.len, &node, &read, &err), -ENODEV);
    assert_string_equal(err.text, "GPU 1: it hangs");
    assert_int_equal(mig_state_read(change.text, change.len, &node, wanted, asked, &err), -EINVAL);
    node.gpus[1].uuid[0] = '\0'; /* it hangs before it says who it is: it may be the one of the state */
    assert_int_equal(mig_change_read(change.text, change.len, &node, &read, &err), -ENODEV);
    node.gpus[1].why[0] = '\0';
    assert_int_equal(mig_change_read(change.text, change.len, &node, &read, &err), -ENOENT);
}

#define STATE(devices) "{\"Version\":\"v1\",\"MigState\":{\"Devices\":[" devices "]}}"
#define DEVICE(mode, list) STATE("{\"UUID\":\"GPU-0\",\"MigMode\":" mode ",\"GpuInstances\":[" list "]}")
#define INSTANCE(profile, start, list)                                                                                 \
    "{\"ProfileID\":" profile ",\"Placement\":{\"Start\":" start "},\"ComputeInstances\":[" list "]}"
#define COMPUTE(profile) "{\"ProfileID\":" profile "}"

/* NVML's numbers: GPU instance 0 is 1g, 2 is 3g; compute instance 0 is 1c, 1 is 2c, 2 is 3c. */
static void what_is_no_state_is_refused(void **state)
{
    static const struct {
        const char *text;
        int rc;
        const char *why; /* a part of it */
    } cases[] = {
        {"", -EINVAL, "line 1: "},
        {"[]", -EINVAL, "no state of MIG layouts"},
        {"{\"MigState\":{\"Devices\":[]}}", -EINVAL, "no state of MIG layouts"},
        {"{\"Version\":\"v2\",\"MigState\":{\"Devices\":[]}}", -EINVAL, "no state of MIG layouts"},
        {"{\"Version\":\"v1\",\"MigState\":{\"Devices\":{}}}", -EINVAL, "no state of MIG layouts"},
        {STATE(""), 0, ""},
        {STATE("{\"MigMode\":0}"), -EINVAL, "a device needs 'UUID'"},
        {STATE("{\"UUID\":\"GPU-0\"}"), -EINVAL, "a device needs 'UUID'"},
        {STATE("{\"UUID\":\"GPU-0\",\"MigMode\":2}"), -EINVAL, "a device needs 'UUID'"},
        {STATE("{\"UUID\":\"GPU-0\",\"MigMode\":-1}"), -EINVAL, "a device needs 'UUID'"},
        {STATE("{\"UUID\":\"GPU-0\",\"MigMode\":1.0}"), -EINVAL, "a device needs 'UUID'"},
        {STATE("{\"UUID\":\"GPU-0\",\"MigMode\":0,\"GpuInstances\":3}"), -EINVAL, "'GpuInstances' (a list)"},
        {STATE("{\"UUID\":\"GPU-0\",\"MigMode\":0,\"GpuInstances\":null}"), 0, ""},
        {STATE("{\"UUID\":\"GPU-0\",\"MigMode\":1}"), 0, ""},
        {STATE("{\"UUID\":\"GPU-9\",\"MigMode\":1}"), -ENOENT, "GPU-9: the node has no such GPU"},
        {STATE("{\"UUID\":\"GPU-2\",\"MigMode\":1}"), -ENOENT, "GPU-2: it has no MIG"},
        {DEVICE("1", INSTANCE("2", "4", COMPUTE("2"))), 0, ""},
        {DEVICE("0", INSTANCE("2", "4", COMPUTE("2"))), -EINVAL, "GPU-0: instances, and MIG disabled"},
        {DEVICE("1", INSTANCE("99", "4", "")), -ENOENT, "GPU-0 (H100-80GB) has no profile with the number 99"},
        {DEVICE("1", INSTANCE("256", "4", "")), -EINVAL, "without 'ProfileID' or 'Placement.Start'"},
        {DEVICE("1", INSTANCE("2", "31", COMPUTE("0"))), 0, ""},
        {DEVICE("1", INSTANCE("2", "32", COMPUTE("0"))), -EINVAL, "without 'ProfileID' or 'Placement.Start'"},
        {DEVICE("1", "{\"ProfileID\":2,\"ComputeInstances\":[]}"), -EINVAL, "without 'ProfileID' or"},
        {DEVICE("1", "{\"Placement\":{\"Start\":0},\"ComputeInstances\":[]}"), -EINVAL, "without 'ProfileID' or"},
        {DEVICE("1", "{\"ProfileID\":2,\"Placement\":{\"Start\":0}}"), -EINVAL, "is no list of at most 8"},
        {DEVICE("1", INSTANCE("2", "0", COMPUTE("1") "," COMPUTE("0"))), 0, ""},
        {DEVICE("1", INSTANCE("2", "0", COMPUTE("1") "," COMPUTE("1"))), -EINVAL, "larger than their GPU instance"},
        {DEVICE("1", INSTANCE("2", "0", COMPUTE("77"))), -EINVAL, "no known 'ProfileID'"},
        {DEVICE("1", INSTANCE("2", "0", "{}")), -EINVAL, "no known 'ProfileID'"},
    };

    (void)state;
    split_two();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        static MigLayout wanted[MIG_GPUS_MAX];
        bool asked[MIG_GPUS_MAX];
        Err err = {0};

        if (mig_state_read(cases[i].text, strlen(cases[i].text), &node, wanted, asked, &err) != cases[i].rc)
            fail_msg("%s: %s", cases[i].text, err.text);
        if (!strstr(err.text, cases[i].why))
            fail_msg("%s: '%s' is not in '%s'", cases[i].text, cases[i].why, err.text);
    }
}

/* So many instances and compute instances, and one more. */
static void a_state_has_limits(void **state)
{
    (void)state;
    split_two();
    for (int more = 0; more < 2; more++)
        for (int of_gpu = 0; of_gpu < 2; of_gpu++) {
            CLEANUP(str_done) Str text = str_limited(OUT_MAX);
            static MigLayout wanted[MIG_GPUS_MAX];
            bool asked[MIG_GPUS_MAX];
            Err err = {0};
            const int count = (of_gpu ? MIG_INSTANCE_MAX : MIG_COMPUTE_MAX) + more;

            str_add(&text, "{\"Version\":\"v1\",\"MigState\":{\"Devices\":[{\"UUID\":\"GPU-0\",\"MigMode\":1,"
                           "\"GpuInstances\":[");
            if (!of_gpu)
                str_add(&text, "{\"ProfileID\":4,\"Placement\":{\"Start\":0},\"ComputeInstances\":[");
            for (int i = 0; i < count; i++)
                str_addf(&text, "%s%s", i ? "," : "", of_gpu ? INSTANCE("0", "0", "") : COMPUTE("0"));
            str_add(&text, of_gpu ? "]}]}}" : "]}]}]}}");
            const int rc = mig_state_read(text.text, text.len, &node, wanted, asked, &err);
            if (of_gpu && !more)
                assert_int_equal(rc, 0);
            else if (of_gpu)
                assert_string_equal(err.text, "GPU-0: more than 16 instances");
            else /* eight slices are more than any GPU has: what is said differs */
                assert_string_equal(err.text, more ? "GPU-0: 'ComputeInstances' is no list of at most 8"
                                                   : "GPU-0: the compute instances are larger than their GPU instance");
        }
}

static void what_is_no_change_is_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "line 1"},
        {"{\"version\":0}", "it needs \"version\": 1"},
        {"{\"version\":2}", "it needs \"version\": 1"},
        {"{\"version\":1}", "no state of MIG layouts"},
        {"{\"version\":1,\"before\":" STATE("") "}", "no state of MIG layouts"},
        {"{\"version\":1,\"before\":" STATE("") ",\"after\":" DEVICE("0", "") "}", "GPU-0 is in only one of"},
        {"{\"version\":1,\"before\":" DEVICE("0", "") ",\"after\":" STATE("") "}", "GPU-0 is in only one of"},
    };

    (void)state;
    split_two();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        static MigChange read;
        Err err = {0};

        assert_int_equal(mig_change_read(cases[i].text, strlen(cases[i].text), &node, &read, &err), -EINVAL);
        if (!strstr(err.text, cases[i].why))
            fail_msg("%s: %s", cases[i].text, err.text);
    }
}

/* --- suggestions -------------------------------------------------------------------------------------------------- */

/* A day, of which the ledger knows 22 hours of one GPU. */
static const MigPast a_day = {.since_real_ns = 1000 * NS_PER_H,
                              .until_real_ns = 1024 * NS_PER_H,
                              .known_ns = 22.0 * 3600e9,
                              .period = "the last 24h",
                              .node_name = "node-7",
                              .agent = true,
                              .node = &node};

static MigPast open_past(void)
{
    static char known_gpu[] = "gpu/GPU-0";
    MigPast past = a_day;

    vec_push(&past.gpus, known_gpu);
    return past;
}

static void close_past(MigPast *past)
{
    vec_done(&past->demands);
    vec_done(&past->gpus);
    vec_done(&past->lost);
}

/* What ran on GPU 0 in an instance, on GPU 1 in a whole one, and on GPU 3, which is not considered. */
static void add_demands(MigPast *past)
{
    const MigDemand ann = {.owner = "ann",
                           .device = 0, /* 1g.10gb */
                           .memory_peak_bytes = UINT64_C(5) << 30,
                           .sm_peak = .254,
                           .sm_mean = .1,
                           .idle = .333,
                           .held_ns = 90 * NS_PER_MIN,
                           .need_mib = 5632,
                           .need_sms = 15,
                           .risks = 1u << MIG_RISK_TIGHT_MEMORY | 1u << MIG_RISK_STARTED};
    MigDemand other = ann;

    vec_push(&past->demands, ann);
    other.gpu = 1;
    other.device = other.profile = MIG_WHOLE_GPU;
    other.risks = 1u << MIG_RISK_MEMORY_UNKNOWN | 1u << MIG_RISK_SM_UNKNOWN | 1u << MIG_RISK_STARTED;
    vec_push(&past->demands, other);
    other.owner = "bob";
    vec_push(&past->demands, other);
    other.owner = "cid";
    vec_push(&past->demands, other);
    other.gpu = 3;
    other.owner = "dan";
    other.risks |= 1u << MIG_RISK_UTIL; /* nobody else has it */
    vec_push(&past->demands, other);
}

static void add_suggestion(const char *title, const MigPast *past, const MigSuggestion *s, Str *to)
{
    str_addf(to, "# %s\n", title);
    mig_suggest_text(past, s, to);
}

static void a_suggestion_is_told_in_words_and_as_json(void **state)
{
    const MigBoard *h100 = board_of("H100-80GB");
    CLEANUP(str_done) Str out = str_limited(OUT_MAX);
    static char lost_gpu[] = "gpu/GPU-9";
    static MigSuggestion s;
    MigPast past = open_past();

    (void)state;
    split_gpu(add_gpu("H100-80GB"), layout_of(h100, "3g.40gb", "1g.10gb", "1g.10gb", NULL));
    for (size_t i = 0; i < 3; i++)
        add_gpu("H100-80GB");
    s = (MigSuggestion){.used = 2, .freed = 1, .at_once = 3, .busiest_ns = past.since_real_ns + NS_PER_H};
    s.gpus[0] = (MigGpuSuggestion){.advice = MIG_ADVICE_CHANGE,
                                   .wanted = layout_of(h100, "2g.20gb", "1g.10gb", "1g.10gb", NULL),
                                   .slices_before = 5,
                                   .slices_used = 4,
                                   .idle_count = 2,
                                   .idle = {0, 2}};
    s.gpus[1] = (MigGpuSuggestion){.advice = MIG_ADVICE_KEEP, .why = "ann needs a whole GPU"};
    s.gpus[2] = (MigGpuSuggestion){.advice = MIG_ADVICE_FREE};
    s.gpus[3] = (MigGpuSuggestion){.advice = MIG_ADVICE_NONE, .why = "its board has no MIG"};
    add_demands(&past);
    add_suggestion("a GPU is freed", &past, &s, &out);
    mig_suggest_json(&past, &s, &out);
    s.freed = 0;
    s.gpus[2] = (MigGpuSuggestion){
        .advice = MIG_ADVICE_CHANGE, .wanted = layout_of(h100, "7g.80gb", NULL), .slices_before = 1, .slices_used = 1};
    past.agent = false;
    past.known_ns = 21.5 * 3600e9;
    vec_push(&past.lost, lost_gpu);
    s.larger_shared = s.unproven = true;
    add_suggestion("slices are freed; all notes", &past, &s, &out);
    s.gpus[2].slices_used = 2; /* as many as before */
    add_suggestion("larger instances are needed", &past, &s, &out);
    s.gpus[0].advice = s.gpus[2].advice = MIG_ADVICE_KEEP;
    s.gpus[1].advice = MIG_ADVICE_UNUSED;
    s.gpus[1].idle_count = 1; /* that nobody held it is told already */
    add_suggestion("the layout stays", &past, &s, &out);
    s.used = s.at_once = 0;
    add_suggestion("nobody held one", &past, &s, &out);
    for (size_t i = 0; i < 3; i++)
        s.gpus[i].advice = MIG_ADVICE_NONE;
    add_suggestion("none can be split", &past, &s, &out);
    mig_suggest_json(&past, &s, &out);
    assert_golden(GOLDEN "/suggest.txt", &out);
    close_past(&past);
}

/* Without a driver each GPU gets a command of its own; of much work the first 30 are listed. */
static void a_suggestion_by_a_table_has_a_command_for_each(void **state)
{
    CLEANUP(str_done) Str out = str_limited(OUT_MAX);
    const MigBoard *h100 = board_of("H100-80GB");
    static MigSuggestion s;
    MigPast past = open_past();

    (void)state;
    for (size_t i = 0; i < table_count; i++)
        if (&tables[i].board == h100)
            past.table = &tables[i];
    add_gpu("H100-80GB");
    add_gpu("H100-80GB");
    s = (MigSuggestion){.used = 2, .freed = 1, .at_once = 31};
    for (size_t i = 0; i < 2; i++)
        s.gpus[i] = (MigGpuSuggestion){.advice = MIG_ADVICE_CHANGE, .wanted = layout_of(h100, "7g.80gb", NULL)};
    for (size_t i = 0; i < 30; i++)
        vec_push(&past.demands, ((MigDemand){.owner = "ann", .device = MIG_WHOLE_GPU, .profile = 2}));
    mig_suggest_text(&past, &s, &out);
    assert_null(strstr(out.text, "more: --json has all"));
    vec_push(&past.demands, ((MigDemand){.owner = "zed", .device = MIG_WHOLE_GPU, .profile = 2}));
    mig_suggest_text(&past, &s, &out);
    assert_non_null(strstr(out.text, "\n  and 1 more: --json has all\n"));
    assert_null(strstr(out.text, "zed"));
    assert_non_null(strstr(out.text, "By the table of H100-80GB (measured), not by a driver: every GPU"));
    assert_non_null(strstr(out.text, "stoker mig plan --board H100-80GB gpu0=7g.80gb; "
                                     "stoker mig plan --board H100-80GB gpu0=7g.80gb\n"));
    str_clear(&out);
    past.demands.len = 0;
    s.used = s.at_once = 0;
    s.gpus[0].advice = s.gpus[1].advice = MIG_ADVICE_NONE;
    mig_suggest_text(&past, &s, &out); /* the board is known to have MIG */
    assert_ptr_equal(strstr(out.text, "Nobody held a GPU in the last 24h"), out.text);
    close_past(&past);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_plan_is_told_in_words_and_as_json, set_up),
        cmocka_unit_test_setup(a_plan_changes_something_or_nothing, set_up),
        cmocka_unit_test_setup(equal_gpus_are_exported_together, set_up),
        cmocka_unit_test_setup(a_state_is_read_as_it_was_written, set_up),
        cmocka_unit_test_setup(what_is_no_state_is_refused, set_up),
        cmocka_unit_test_setup(a_state_has_limits, set_up),
        cmocka_unit_test_setup(what_is_no_change_is_refused, set_up),
        cmocka_unit_test_setup(a_suggestion_is_told_in_words_and_as_json, set_up),
        cmocka_unit_test_setup(a_suggestion_by_a_table_has_a_command_for_each, set_up),
    };
    load_tables(argc > 1 ? argv[1] : "data/mig/boards.yaml");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&board_arena);
    return failed;
}
