/* SPDX-License-Identifier: Apache-2.0 */
/* service/mig/mig_past: rows of the ledger as demands, and what makes each risk. */
#include "boards.h"

#include "base/duration.h"
#include "service/mig/mig_suggest.h"

#define SINCE (1000 * NS_PER_H)
#define GIB (UINT64_C(1) << 30)

typedef struct Rig {
    MigNode node;
    MigPast past;
    Arena arena;
} Rig;

static int set_up(void **state)
{
    Rig *rig = calloc(1, sizeof *rig);
    if (!rig)
        return -1;
    rig->node.count = 3;
    for (size_t i = 0; i < rig->node.count; i++) {
        rig->node.gpus[i] = (MigGpu){.index = (unsigned)i, .capable = true, .board = *board_of("H100-80GB")};
        snprintf(rig->node.gpus[i].uuid, sizeof rig->node.gpus[i].uuid, "GPU-%zu", i);
    }
    rig->past = (MigPast){.since_real_ns = SINCE, .period = "the last 24h", .node = &rig->node, .arena = &rig->arena};
    mig_past_init(&rig->past);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    Rig *rig = *state;
    mig_past_done(&rig->past);
    arena_done(&rig->arena);
    free(rig);
    return 0;
}

/* Minutes after SINCE. */
static LedgerRow row_of(const char *user, const char *device, int from, int until)
{
    const uint64_t ns = (uint64_t)(until - from) * NS_PER_MIN;
    LedgerRow row = {.from_real_ns = SINCE + (uint64_t)((int64_t)from * (int64_t)NS_PER_MIN),
                     .until_real_ns = SINCE + (uint64_t)until * NS_PER_MIN,
                     .held = true,
                     .share_kind = ATTRIBUTION_EXCLUSIVE,
                     .quality = LEDGER_QUALITY_GPM};
    snprintf(row.owner.user, sizeof row.owner.user, "%s", user);
    snprintf(row.device, sizeof row.device, "%s", device);
    row.amounts[LEDGER_ALLOC_NS] = row.amounts[LEDGER_MEASURED_NS] = ns;
    row.amounts[LEDGER_EFF_NS] = ns / 10;
    row.amounts[LEDGER_MEMORY_BYTE_S] = 1;
    row.peaks[LEDGER_PEAK_MEMORY] = GIB;
    row.peaks[LEDGER_PEAK_SM] = 250000;
    return row;
}

static void add_row(Rig *rig, LedgerRow row)
{
    mig_past_add(&rig->past, &row);
}

static void rows_are_demands(void **state)
{
    Rig *rig = *state;
    LedgerRow row = row_of("ann", "gpu/GPU-0", -30, 30); /* half of it before */
    add_row(rig, row);
    row = row_of("ann", "gpu/GPU-0", 30, 90);
    row.peaks[LEDGER_PEAK_MEMORY] = 3 * GIB;
    row.amounts[LEDGER_IDLE_NS] = row.amounts[LEDGER_ALLOC_NS];
    add_row(rig, row);
    add_row(rig, row_of("bob", "gpu/GPU-0", 90, 91));
    add_row(rig, row_of("ann", "gpu/GPU-1", -30, 0)); /* before */
    add_row(rig, row_of("ann", "gpu/GPU-9", 0, 60));
    row = row_of("", "gpu/GPU-2", 0, 60);
    row.held = false;
    add_row(rig, row);
    row = row_of("", "gpu/GPU-2", 60, 91);
    add_row(rig, row);
    mig_past_finish(&rig->past);
    assert_int_equal(rig->past.demands.len, 3);
    const MigDemand *d = &rig->past.demands.at[0];
    assert_string_equal(d->owner, "ann");
    assert_int_equal(d->device, MIG_WHOLE_GPU);
    assert_int_equal(d->memory_peak_bytes, 3 * GIB);
    assert_true(d->sm_peak == 0.25 && d->idle == 0.5 && d->sm_mean > 0.0999 && d->sm_mean < 0.1001);
    assert_int_equal(d->risks, 0);
    assert_string_equal(rig->past.demands.at[2].owner, "unknown owner");
    assert_int_equal(rig->past.demands.at[2].gpu, 2);
    assert_int_equal(rig->past.uses.at[0].from_ns, SINCE);
    assert_int_equal(rig->past.lost.len, 1);
    assert_int_equal(rig->past.gpus.len, 2);
    assert_true(rig->past.known_ns == (30 + 60 + 1 + 60 + 31) * (double)NS_PER_MIN);
    assert_int_equal(rig->past.until_real_ns, SINCE + 91 * NS_PER_MIN);
}

/* The instance is known by its profile, whether or not it is still there. */
static void instances(void **state)
{
    static const struct {
        const char *profile, *name;
        unsigned risks;
    } cases[] = {{"3g.40gb", "3g.40gb", 0},
                 {"1c.2g.20gb", "2g.20gb", 0},
                 {"1g.10gb+me", "1g.10gb+me", 1u << MIG_RISK_MEDIA},
                 {"9g.90gb", NULL, 0}};
    Rig *rig = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        LedgerRow row = row_of("ann", "gpu/GPU-1/gi/7/ci/0", (int)i, (int)i + 1);
        snprintf(row.profile, sizeof row.profile, "%s", cases[i].profile);
        add_row(rig, row);
        const MigDemand *d = &rig->past.demands.at[i];
        assert_int_equal(d->instance_id, 7);
        assert_int_equal(d->gpu, 1);
        assert_int_equal(d->risks, cases[i].risks);
        if (cases[i].name)
            assert_string_equal(rig->node.gpus[1].board.profiles[d->device].name, cases[i].name);
        else
            assert_int_equal(d->device, MIG_WHOLE_GPU);
    }
}

/* Each row with one thing changed, and the risk that it makes. */
static void risks_of_rows(void **state)
{
    static const struct {
        uint64_t memory_peak, sm_peak, measured_percent;
        LedgerQuality quality;
        Attribution share;
        unsigned risks;
    } cases[] = {
        {1, 1, 100, LEDGER_QUALITY_GPM, ATTRIBUTION_EXCLUSIVE, 0},
        {0, 1, 100, LEDGER_QUALITY_GPM, ATTRIBUTION_EXCLUSIVE, 1u << MIG_RISK_MEMORY_UNKNOWN},
        {1, 0, 100, LEDGER_QUALITY_GPM, ATTRIBUTION_EXCLUSIVE, 1u << MIG_RISK_SM_UNKNOWN},
        {1, 1, 91, LEDGER_QUALITY_GPM, ATTRIBUTION_EXCLUSIVE, 0},
        {1, 1, 89, LEDGER_QUALITY_GPM, ATTRIBUTION_EXCLUSIVE, 1u << MIG_RISK_SM_UNKNOWN},
        {1, 1, 100, LEDGER_QUALITY_UTIL, ATTRIBUTION_EXCLUSIVE, 1u << MIG_RISK_UTIL},
        {1, 1, 100, LEDGER_QUALITY_GPM, ATTRIBUTION_SAMPLED, 1u << MIG_RISK_SHARED},
        {1, 1, 100, LEDGER_QUALITY_GPM, ATTRIBUTION_EVEN, 1u << MIG_RISK_SHARED},
    };
    Rig *rig = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        LedgerRow row = row_of("", "gpu/GPU-0", 0, 60);
        snprintf(row.owner.job, sizeof row.owner.job, "%zu", i);
        row.peaks[LEDGER_PEAK_MEMORY] = cases[i].memory_peak;
        row.peaks[LEDGER_PEAK_SM] = cases[i].sm_peak;
        row.amounts[LEDGER_MEASURED_NS] = row.amounts[LEDGER_ALLOC_NS] / 100 * cases[i].measured_percent;
        row.quality = cases[i].quality;
        row.share_kind = cases[i].share;
        add_row(rig, row);
    }
    mig_past_finish(&rig->past);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(rig->past.demands.at[i].risks, cases[i].risks);
}

/* On several whole GPUs in the same time; one after the other, or in instances, is not several. */
static void several_gpus_at_once(void **state)
{
    Rig *rig = *state;
    add_row(rig, row_of("ann", "gpu/GPU-0", 0, 60));
    add_row(rig, row_of("ann", "gpu/GPU-1", 60, 90));
    add_row(rig, row_of("bob", "gpu/GPU-0", 0, 200));
    add_row(rig, row_of("bob", "gpu/GPU-1", 10, 20));
    add_row(rig, row_of("bob", "gpu/GPU-2", 100, 101));
    add_row(rig, row_of("cid", "gpu/GPU-0/gi/1/ci/0", 0, 60));
    add_row(rig, row_of("cid", "gpu/GPU-1/gi/1/ci/0", 0, 60));
    for (size_t i = 5; i < 7; i++)
        rig->past.demands.at[i].device = 0;
    mig_past_finish(&rig->past);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(rig->past.demands.at[i].risks >> MIG_RISK_SEVERAL & 1, i >= 2 && i < 5);
}

/* Began in this time, and was there at the end of the ledger. */
static void still_running(void **state)
{
    Rig *rig = *state;
    add_row(rig, row_of("ann", "gpu/GPU-0", 10, 600)); /* the ledger begins with it */
    add_row(rig, row_of("bob", "gpu/GPU-1", 12, 599));
    add_row(rig, row_of("cid", "gpu/GPU-2", 12, 597));
    mig_past_finish(&rig->past);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rig->past.demands.at[i].risks >> MIG_RISK_STARTED & 1, i == 1);
}

static void shortage_of_memory(void **state)
{
    Rig *rig = *state;
    add_row(rig, row_of("ann", "gpu/GPU-0", 0, 60));
    add_row(rig, row_of("bob", "gpu/GPU-0", 0, 60));
    add_row(rig, row_of("cid", "gpu/GPU-1", 0, 60));
    mig_past_finish(&rig->past);
    const Owner bob = {.user = "bob"};
    mig_past_add_shortage(&rig->past, "gpu/GPU-0", &bob, 1);
    assert_int_equal(rig->past.demands.at[0].risks, 0);
    assert_int_equal(rig->past.demands.at[1].risks, 1u << MIG_RISK_SHORTAGE);
    mig_past_add_shortage(&rig->past, "gpu/GPU-0", NULL, 0); /* whose it was is not known */
    assert_int_equal(rig->past.demands.at[0].risks, 1u << MIG_RISK_SHORTAGE);
    assert_int_equal(rig->past.demands.at[2].risks, 0);
    add_row(rig, row_of("dan", "gpu/GPU-1/gi/1/ci/0", 0, 60));
    add_row(rig, row_of("dan", "gpu/GPU-1/gi/11/ci/0", 0, 60));
    rig->past.demands.at[3].risks = rig->past.demands.at[4].risks = 0;
    mig_past_add_shortage(&rig->past, "gpu/GPU-1/gi/1", NULL, 0);
    assert_int_equal(rig->past.demands.at[3].risks, 1u << MIG_RISK_SHORTAGE);
    assert_int_equal(rig->past.demands.at[4].risks, 0);
}

/* Without a driver GPUs come from the ledger. */
static void gpus_of_a_table(void **state)
{
    Rig *rig = *state;
    rig->node.count = 0;
    rig->past.table = &tables[0];
    add_row(rig, row_of("ann", "gpu/GPU-b", 0, 60));
    add_row(rig, row_of("bob", "gpu/GPU-a/gi/1/ci/0", 0, 60));
    add_row(rig, row_of("cid", "gpu/GPU-b", 0, 60));
    assert_int_equal(rig->node.count, 2);
    assert_string_equal(rig->node.gpus[1].uuid, "GPU-a");
    assert_string_equal(rig->node.gpus[1].board.name, tables[0].board.name);
    assert_int_equal(rig->past.demands.at[2].gpu, 0);
}

/* What is said first, and what is not known. */
static void the_answer(void **state)
{
    Rig *rig = *state;
    CLEANUP(str_done) Str out = str_limited(100000);
    bool asked[MIG_GPUS_MAX] = {true, true, true};
    MigSuggestion s;
    LedgerRow ann = row_of("ann", "gpu/GPU-0", 0, 60), bob = row_of("bob", "gpu/GPU-1", 0, 60);
    ann.quality = bob.quality = LEDGER_QUALITY_UTIL;
    add_row(rig, ann);
    add_row(rig, bob);
    LedgerRow gap = row_of("", "gpu/GPU-2", 60, 240);
    gap.held = false;
    memset(gap.amounts, 0, sizeof gap.amounts);
    gap.amounts[LEDGER_GAPS_NS] = gap.until_real_ns - gap.from_real_ns;
    add_row(rig, gap);
    mig_past_finish(&rig->past);
    mig_suggest(&rig->node, asked, rig->past.demands.at, rig->past.demands.len, rig->past.uses.at, rig->past.uses.len,
                &rig->arena, &s);
    mig_suggest_text(&rig->past, &s, &out);
    assert_string_equal(
        out.text,
        "The work of the last 24h fits on 1 of the 2 GPUs that it held: GPU 1 would be free.\n"
        "\n"
        "GPU 0: MIG disabled -> 2 x 3g.40gb; the work needs 6 of 7 slices\n"
        "GPU 1: MIG disabled; its work fits on other GPUs\n"
        "GPU 2: MIG disabled; nobody held it in this time\n"
        "\n"
        "Work, at most 2 at once (1970-02-11T16:00:00.000Z)\n"
        "  who                              where                memory SM peak (mean)      held    idle  needs\n"
        "  ann                              GPU 0               1.0 GiB    25 % (10 %)        1h     0 %  3g.40gb\n"
        "  bob                              GPU 1               1.0 GiB    25 % (10 %)        1h     0 %  3g.40gb\n"
        "\n"
        "Risks\n"
        "  ann and 1 more: SM activity is not reported: the time in which any kernel ran counts\n"
        "\n"
        "Not known\n"
        "  The ledger knows 40m of 4h: work in the rest of it is not counted.\n"
        "  No agent runs: work since the end of the ledger is not counted.\n"
        "  Not seen: bursts shorter than a minute, peer access over PCIe, use of media engines.\n"
        "\n"
        "stoker mig plan gpu0=2x3g.40gb\n");
}

static void without_mig(void **state)
{
    Rig *rig = *state;
    CLEANUP(str_done) Str out = str_limited(100000);
    bool asked[MIG_GPUS_MAX] = {true};
    MigSuggestion s;
    rig->node.count = 1;
    rig->node.gpus[0].capable = false;
    add_row(rig, row_of("ann", "gpu/GPU-0", 0, 60));
    rig->past.agent = true;
    mig_past_finish(&rig->past);
    mig_suggest(&rig->node, asked, rig->past.demands.at, rig->past.demands.len, rig->past.uses.at, rig->past.uses.len,
                &rig->arena, &s);
    mig_suggest_text(&rig->past, &s, &out);
    assert_string_equal(out.text,
                        "No GPU here can be split: there is nothing to suggest.\n\n"
                        "GPU 0: its board has no MIG\n\n"
                        "Not known\n"
                        "  Not seen: bursts shorter than a minute, peer access over PCIe, use of media engines.\n");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_demands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(instances, set_up, tear_down),
        cmocka_unit_test_setup_teardown(risks_of_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(several_gpus_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(still_running, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shortage_of_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gpus_of_a_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_mig, set_up, tear_down),
    };
    load_tables(argc > 1 ? argv[1] : "data/mig/boards.yaml");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&board_arena);
    return failed;
}
