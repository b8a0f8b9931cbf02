/* SPDX-License-Identifier: Apache-2.0 */
/* Drawn stories of two GPUs, one of them with two MIG instances: who holds them, what they do, restarts, a full
 * journal; and all rows that were kept at the end, against stories.txt. */
#include "../golden.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/yaml.h"
#include "engine/ledger/ledger.h"

enum { STORIES = 24, STEPS = 40, GPUS = 2, OWNERS = 6, PROCESSES = 2 };

typedef struct Story {
    uint64_t seed;
    Ledger *ledger;
    const Prices *prices;
    Node node;
    NodeGpu gpus[GPUS];
    Reading instances[2];
    Activity activities[2];
    Holding holdings[GPUS * OWNERS];
    HoldingProcess processes[GPUS * OWNERS][PROCESSES];
    size_t holding_count;
    double energy_mj[GPUS];
    int64_t charged_ns, begun_ns;
    uint64_t charged_mj;
    LedgerRows rows;
    bool full; /* no row can be kept */
    Str *out;
} Story;

static uint32_t draw(Story *s, size_t below)
{
    s->seed ^= s->seed << 13;
    s->seed ^= s->seed >> 7;
    s->seed ^= s->seed << 17;
    return (uint32_t)((s->seed >> 20) % below);
}

static void set_metric(Reading *reading, MetricId id, double value)
{
    if (metric_get(id)->value == METRIC_INT64)
        sample_set_int64(&reading->sample[id], 1, (int64_t)value);
    else
        sample_set_double(&reading->sample[id], 1, value);
}

static bool put_row(void *self, const LedgerRow *row)
{
    Story *s = self;

    for (size_t i = 0; i < s->rows.len && !s->full; i++)
        if (s->rows.at[i].id == row->id) {
            s->rows.at[i] = *row;
            return true;
        }
    if (!s->full)
        vec_push(&s->rows, *row);
    return !s->full;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void change_reading(Story *s)
{
    static const struct {
        MetricId id;
        double values[3];
    } metrics[] = {
        {METRIC_PROF_SM_ACTIVE, {0, 0.5, 1.1}},
        {METRIC_PROF_GR_ENGINE_ACTIVE, {0, 0.75, 1}},
        {METRIC_GPU_UTIL, {0, 40, 100}},
        {METRIC_PROF_PIPE_TENSOR_ACTIVE, {0, 0.25, 0.5}},
        {METRIC_FB_USED, {0, 1000, 60000}},
        {METRIC_POWER_USAGE, {0, 90, 700}},
        {METRIC_CLOCKS_EVENT_REASONS, {0, 0x40, 0x80}},
    };
    const size_t which = draw(s, ARRAY_LEN(metrics)), at = draw(s, 3 + 2);
    Reading *reading = at < GPUS + 1 ? &s->gpus[at % GPUS].reading : &s->instances[at % 2];

    if (draw(s, 4) == 0)
        sample_set_absent(&reading->sample[metrics[which].id], 1, ABSENCE_NO_DATA);
    else
        set_metric(reading, metrics[which].id, metrics[which].values[draw(s, 3)]);
}

static void change_gpu(Story *s)
{
    static const GpuState states[] = {GPU_UP, GPU_UP, GPU_LOST};
    static const ActivityWord words[] = {ACTIVITY_WORKING, ACTIVITY_IDLE_HELD, ACTIVITY_UNUSABLE};
    NodeGpu *gpu = &s->gpus[draw(s, GPUS)];

    gpu->state = states[draw(s, ARRAY_LEN(states))];
    gpu->activity.word = words[draw(s, ARRAY_LEN(words))];
    s->activities[draw(s, 2)].word = words[draw(s, ARRAY_LEN(words))];
    gpu->gpm = draw(s, 2);
    gpu->process_list.valid = draw(s, 4) != 0;
}

/* A holder; one that is not known yet has a process alone. */
static void make_holding(Story *s, Holding *h, HoldingProcess *processes, size_t gpu)
{
    static const char *const users[] = {"", "ann", "bob"}, *const jobs[] = {"", "7", "8"};
    static const HoldingState states[] = {HOLDING_USED, HOLDING_USED, HOLDING_IDLE_HELD, HOLDING_RESERVED};
    const uint32_t pid = 100 + draw(s, 4);

    *h = (Holding){.gpu = gpu,
                   .gpu_instance = DEVICE_NO_NUMBER,
                   .compute_instance = DEVICE_NO_NUMBER,
                   .state = states[draw(s, ARRAY_LEN(states))],
                   .attribution = (Attribution)draw(s, ATTRIBUTION_END),
                   .share = (1 + draw(s, 3)) * 0.25,
                   .sm_share = NAN,
                   .memory_bytes = draw(s, 2) * 4096,
                   .process_count = 1 + draw(s, PROCESSES),
                   .processes = processes};
    if (gpu == 1 && s->gpus[1].instance_count > 0)
        h->gpu_instance = s->instances[draw(s, 2)].device.gpu_instance;
    snprintf(h->owner.user, sizeof h->owner.user, "%s", users[draw(s, ARRAY_LEN(users))]);
    snprintf(h->owner.job, sizeof h->owner.job, "%s", jobs[draw(s, ARRAY_LEN(jobs))]);
    snprintf(h->owner.account, sizeof h->owner.account, "%s", draw(s, 2) ? "physics" : "");
    h->owner.pid = (int32_t)pid;
    for (uint32_t i = 0; i < h->process_count; i++)
        processes[i] = (HoldingProcess){.pid = pid + i};
    if (h->owner.job[0] && draw(s, 2))
        h->given_real_ns = s->node.real_ns - draw(s, 6) * NS_PER_S / 2;
}

static void change_holdings(Story *s)
{
    s->holding_count = 0;
    for (size_t gpu = 0; gpu < GPUS; gpu++)
        for (uint32_t count = draw(s, 3); count > 0; count--, s->holding_count++)
            make_holding(s, &s->holdings[s->holding_count], s->processes[s->holding_count], gpu);
    str_addf(s->out, " %zu holdings\n", s->holding_count);
}

static void pass_time(Story *s)
{
    static const uint32_t steps_ms[] = {500, 1000, 1000, 1000, 2000, 9000, 10000, 10001, 30000, 61000};
    const uint32_t step_ms = steps_ms[draw(s, ARRAY_LEN(steps_ms))], ticks = 1 + draw(s, 15);

    for (uint32_t i = 0; i < ticks; i++) {
        s->node.time_ns += step_ms * NS_PER_MS;
        s->node.real_ns += step_ms * NS_PER_MS;
        for (size_t gpu = 0; gpu < GPUS; gpu++)
            set_metric(&s->gpus[gpu].reading, METRIC_TOTAL_ENERGY_CONSUMPTION,
                       s->energy_mj[gpu] += step_ms * (100 + 300.0 * (double)gpu));
        ledger_update(s->ledger, &s->node, s->holdings, s->holding_count, put_row, s);
        for (size_t k = 0; k < s->holding_count; k++) {
            const LedgerCharge *charge = &ledger_charges(s->ledger)[k];

            s->charged_ns += charge->gpu_ns;
            s->charged_mj += charge->energy_mj;
            s->begun_ns += charge->begin_ns;
        }
    }
    str_addf(s->out, " %u times %u ms: charged %lld ns, %llu mJ, begun %lld ns before; closed below %llu\n", ticks,
             step_ms, (long long)s->charged_ns, (unsigned long long)s->charged_mj, (long long)s->begun_ns,
             (unsigned long long)ledger_closed_id(s->ledger));
}

static void change_other(Story *s)
{
    switch (draw(s, 6)) {
    case 0: /* the wall clock is set */
        s->node.real_ns += (1 + draw(s, 2)) * NS_PER_S;
        break;
    case 1:
        s->full = !s->full;
        break;
    case 2:
        s->node.gpu_count = 1 + draw(s, 2);
        s->holding_count = 0;
        break;
    case 3:
        s->gpus[1].instance_count = s->gpus[1].instance_count ? 0 : 2;
        s->holding_count = 0;
        break;
    case 4:
        ledger_set_prices(s->ledger, draw(s, 2) ? s->prices : NULL);
        break;
    default:
        s->energy_mj[draw(s, GPUS)] = 0; /* the counter begins anew */
        break;
    }
}

static void begin_ledger(Story *s)
{
    LedgerRows last = {0};
    uint64_t next_id = 100;

    for (size_t i = s->rows.len; i-- > 0;) {
        ledger_find_last(&last, &s->rows.at[i]);
        next_id = s->rows.at[i].id >= next_id ? s->rows.at[i].id + 1 : next_id;
    }
    s->ledger = ledger_new(&last, draw(s, 3) ? "boot" : "another", next_id);
    ledger_set_prices(s->ledger, s->prices);
    vec_done(&last);
}

static void start_anew(Story *s)
{
    ledger_free(s->ledger);
    s->node.time_ns += 90 * NS_PER_S;
    s->node.real_ns += 90 * NS_PER_S;
    begin_ledger(s);
    str_addf(s->out, " started anew\n");
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void write_row(Str *out, const LedgerRow *row, uint64_t began_real_ns)
{
    str_addf(out, " %llu %s%s%s [%.3f, %.3f) %s, %s/%s/%s/%d, %s, %s, '%s':", (unsigned long long)row->id, row->device,
             row->profile[0] ? " " : "", row->profile, ((double)row->from_real_ns - (double)began_real_ns) / NS_PER_S,
             ((double)row->until_real_ns - (double)began_real_ns) / NS_PER_S, row->held ? "held" : "free",
             row->owner.user, row->owner.job, row->owner.account, row->owner.pid, attributions[row->share_kind].key,
             ledger_qualities[row->quality].key, row->price);
    for (size_t i = 0; i < LEDGER_AMOUNT_END; i++)
        if (row->amounts[i])
            str_addf(out, " %s %llu", ledger_amounts[i].key, (unsigned long long)row->amounts[i]);
    for (size_t i = 0; i < LEDGER_PEAK_END; i++)
        if (row->peaks[i])
            str_addf(out, " %s %llu", ledger_peaks[i].key, (unsigned long long)row->peaks[i]);
    str_addf(out, "\n");
}

static void init_gpus(Story *s)
{
    s->node = (Node){.time_ns = 1000 * NS_PER_S,
                     .real_ns = UINT64_C(490000) * NS_PER_H + 3000 * NS_PER_S,
                     .gpu_count = GPUS,
                     .gpus = s->gpus};
    for (uint32_t i = 0; i < GPUS; i++) {
        NodeGpu *gpu = &s->gpus[i];

        reading_init(&gpu->reading, DEVICE_GPU);
        gpu->reading.device.index = i;
        snprintf(gpu->reading.device.uuid, sizeof gpu->reading.device.uuid, "GPU-%u", i);
        snprintf(gpu->reading.device.name, sizeof gpu->reading.device.name, "NVIDIA H100 80GB HBM3");
        gpu->state = GPU_UP;
        gpu->process_list.valid = true;
        gpu->instances = s->instances;
        gpu->instance_activity = s->activities;
        reading_init(&s->instances[i], DEVICE_GPU_INSTANCE);
        s->instances[i].device.gpu_instance = i + 1;
        snprintf(s->instances[i].device.parent_uuid, sizeof s->instances[i].device.parent_uuid, "GPU-1");
        snprintf(s->instances[i].profile, sizeof s->instances[i].profile, i ? "2g.20gb" : "3g.40gb");
    }
}

static void write_story(Story *s)
{
    static void (*const steps[])(Story *) = {pass_time,      pass_time,       pass_time,       pass_time,
                                             pass_time,      change_reading,  change_reading,  change_reading,
                                             change_reading, change_holdings, change_holdings, change_holdings,
                                             change_gpu,     change_other,    start_anew};

    init_gpus(s);
    const uint64_t began_real_ns = s->node.real_ns;
    begin_ledger(s);
    for (int i = 0; i < STEPS; i++)
        steps[draw(s, ARRAY_LEN(steps))](s);
    for (size_t i = 0; i < s->rows.len; i++)
        write_row(s->out, &s->rows.at[i], began_real_ns);
    for (size_t i = 0; i < GPUS; i++)
        str_addf(s->out, " idle GPU %zu: %.3f mW%s\n", i, ledger_idle(s->ledger, s->gpus[i].reading.device.uuid).mw,
                 ledger_idle(s->ledger, s->gpus[i].reading.device.uuid).held ? ", held" : "");
    ledger_free(s->ledger);
    vec_done(&s->rows);
}

static const char schedule[] = "currency: EUR\n"
                               "list:\n"
                               "  - {id: any, on_demand: 1}\n"
                               "  - {id: slice, board: h100, mig: 3g.40gb, spot: 0.5}\n";

static void stories_are_whole(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX);
    const YamlNode *root = NULL;
    const Prices *prices = NULL;

    (void)state;
    assert_int_equal(yaml_load("prices.yaml", schedule, strlen(schedule), &arena, &root, NULL), 0);
    Err err = {0};
    if (prices_read(root, &arena, &prices, &err) < 0)
        fail_msg("%s", err.text);
    for (uint64_t i = 1; i <= STORIES; i++) {
        Story story = {.seed = i * 88172645463325252u, .prices = prices, .out = &out};

        str_addf(&out, "story %llu\n", (unsigned long long)i);
        write_story(&story);
    }
    assert_golden(STORIES_TEXT, &out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stories_are_whole)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
