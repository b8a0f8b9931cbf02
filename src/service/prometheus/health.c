/* SPDX-License-Identifier: Apache-2.0 */
/* Judging a GPU by the rules of health.def. Pure, any thread. */

#include "service/prometheus/health.h"

#include <math.h>
#include <string.h>

#include "service/prometheus/incidents.h"

typedef enum RuleKind { RULE_OVER, RULE_IS, RULE_BITS, RULE_RISE, RULE_REPLAY, RULE_XID } RuleKind;

typedef struct Rule {
    HealthWatch watch;
    HealthResult result;
    const char *code;
    RuleKind kind;
    unsigned subject; /* MetricId, or CountedRate of RISE and REPLAY */
    int64_t limit;
} Rule;

static const Rule rules[] = {
#define HEALTH_RULE(watch, result, code, kind, subject, limit)                                                         \
    {HEALTH_##watch, HEALTH_##result, code, RULE_##kind, subject, limit},
#include "service/prometheus/health.def"
#undef HEALTH_RULE
};

enum { RULE_COUNT = sizeof rules / sizeof rules[0] };

const char *const health_watch_names[HEALTH_END] = {
#define HEALTH_WATCH(id) [HEALTH_##id] = #id,
    HEALTH_WATCH_TABLE(HEALTH_WATCH)
#undef HEALTH_WATCH
};

typedef HealthInput Case;

/* Where a class of incidents belongs. */
static const struct {
    const char *class;
    HealthWatch watch;
    const char *code;
} classes[] = {
#define HEALTH_CLASS(class, watch, code) {class, HEALTH_##watch, code},
#include "service/prometheus/health_class.def"
#undef HEALTH_CLASS
};

/* Replays a minute that a sound link may have (DCGM's limit per lane and generation); 16 lanes of generation 4 where
 * the link does not say what it is. */
static double replay_limit(const Reading *reading)
{
    static const double per_lane[] = {0, .15, .3, .48, .96, 1.92, 3.84};
    int64_t generation = 4, width = 16;

    sample_int64(&reading->sample[METRIC_PCIE_LINK_GEN], &generation);
    sample_int64(&reading->sample[METRIC_PCIE_LINK_WIDTH], &width);
    if (generation < 1)
        generation = 1;
    if (generation > 6)
        generation = 6;
    return ceil(per_lane[generation] * (double)(width < 1 ? 1 : width));
}

static bool seen_xid(const Case *of, int64_t xid)
{
    for (size_t i = 0; of->counted && i < of->counted->xids.len; i++) {
        const XidCount *count = &of->counted->xids.at[i];

        if (count->xid == (uint64_t)xid)
            return count_window_sum(&count->window, of->xid_width_ns, of->now_ns) > 0;
    }
    return false;
}

/* False where it cannot be told; *ret_holds is then as it was. */
static bool judge_rule(const Rule *rule, const Case *of, bool *ret_holds)
{
    const Reading *reading = &of->gpu->reading;
    const RateCount *rate;
    int64_t value;

    switch (rule->kind) {
    case RULE_XID:
        *ret_holds = !of->judged && seen_xid(of, rule->limit);
        return *ret_holds || of->gpu->state == GPU_UP;
    case RULE_BITS:
        if (of->gpu->state != GPU_UP || !of->counted || !of->counted->bits_known)
            return false;
        *ret_holds = (of->counted->bits | of->counted->bits_now) & (uint64_t)rule->limit;
        return true;
    case RULE_RISE:
    case RULE_REPLAY:
        if (of->gpu->state != GPU_UP || !of->counted || !of->counted->rate[rule->subject].known)
            return false;
        rate = &of->counted->rate[rule->subject];
        *ret_holds = rule->kind == RULE_RISE ? rate->per_minute >= (double)rule->limit
                                             : rate->per_minute > replay_limit(reading);
        return true;
    default:
        if (!sample_int64(&reading->sample[rule->subject], &value))
            return false;
        *ret_holds = rule->kind == RULE_IS ? value == rule->limit : value > rule->limit;
        return true;
    }
}

static void find(Health *health, HealthResult result, const char *code)
{
    health->known = true;
    if (result <= health->result)
        return;
    health->result = result;
    health->code = code;
}

/* A GPU that is not up says nothing itself. */
static void judge_state(GpuState state, Health *driver)
{
    switch (state) {
    case GPU_LOST:
    case GPU_MISSING:
    case GPU_GONE:
        find(driver, HEALTH_FAIL, "DCGM_FR_FALLEN_OFF_BUS");
        break;
    case GPU_HUNG:
    case GPU_FAILED:
        find(driver, HEALTH_FAIL, "DCGM_FR_NVML_API");
        break;
    default:
        break;
    }
}

static void judge_incident(const Incident *incident, Health health[HEALTH_END])
{
    const HealthResult result = incident->severity >= SEVERITY_ERROR     ? HEALTH_FAIL
                                : incident->severity == SEVERITY_WARNING ? HEALTH_WARN
                                                                         : HEALTH_PASS;

    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (strcmp(classes[i].class, incident->class) == 0)
            find(&health[classes[i].watch], result, classes[i].code);
}

static void judge_incidents(const Case *of, Health health[HEALTH_END])
{
    for (size_t i = 0; i < of->incident_count; i++)
        if (of->incidents[i]->state == INCIDENT_OPEN && incident_on_gpu(of->incidents[i], &of->gpu->reading))
            judge_incident(of->incidents[i], health);
}

void health_judge(const HealthInput *of, Health health[HEALTH_END])
{
    for (HealthWatch w = 0; w < HEALTH_END; w++)
        health[w] = (Health){.code = ""};
    judge_state(of->gpu->state, &health[HEALTH_DRIVER]);
    for (size_t i = 0; i < RULE_COUNT; i++) {
        bool holds = false;

        if (judge_rule(&rules[i], of, &holds))
            find(&health[rules[i].watch], holds ? rules[i].result : HEALTH_PASS, rules[i].code);
    }
    judge_incidents(of, health);
    for (HealthWatch w = 0; w < HEALTH_ALL; w++)
        if (health[w].known)
            find(&health[HEALTH_ALL], health[w].result, health[w].code);
}

bool health_needs(MetricId id)
{
    if (id == METRIC_PCIE_LINK_GEN || id == METRIC_PCIE_LINK_WIDTH)
        return true;
    for (size_t i = 0; i < RULE_COUNT; i++) {
        bool rate = rules[i].kind == RULE_RISE || rules[i].kind == RULE_REPLAY;

        if (id == (rate ? counted_rate_metric(rules[i].subject) : rules[i].subject))
            return true;
    }
    return false;
}
