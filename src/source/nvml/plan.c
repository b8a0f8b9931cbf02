/* SPDX-License-Identifier: Apache-2.0 */
/* Making the agent's plan ready. Fields that several metrics share are asked for once. */

#include "source/nvml/plan.h"

#include <assert.h>
#include <string.h>

#include "base/duration.h"
#include "source/nvml/convert.h"

static uint16_t add_field(NvmlBatch *batch, NvmlField field)
{
    assert(batch->field_count < NVML_FIELDS_MAX);
    batch->fields[batch->field_count] = field;
    return batch->field_count++;
}

static uint16_t field_at(NvmlBatch *batch, uint16_t id, uint32_t scope)
{
    const NvmlField field = {.id = id, .scope = scope, .per_link = (id == 138 || id == 139) && scope < NVML_LINKS_MAX};

    for (uint16_t i = 0; i < batch->field_count; i++)
        if (batch->fields[i].id == id && batch->fields[i].scope == scope)
            return i;
    return add_field(batch, field);
}

static void add_use(NvmlBatch *batch, const Metric *metric)
{
    const MetricSource *source = &metric->source;
    NvmlFieldUse use = {.metric = metric->id, .second = NVML_NO_FIELD};

    assert(batch->use_count < NVML_USES_MAX);
    if (source->scope == METRIC_EACH_LINK) {
        use.first = batch->field_count;
        use.links = NVML_LINKS_MAX;
        for (uint32_t link = 0; link < NVML_LINKS_MAX; link++)
            add_field(batch, (NvmlField){.id = source->id, .scope = link, .per_link = true});
    } else {
        use.first = field_at(batch, source->id, source->scope);
        if (source->second_id)
            use.second = field_at(batch, source->second_id, source->scope);
    }
    batch->uses[batch->use_count++] = use;
}

static void add_gpm(NvmlGpmList *list, MetricId metric)
{
    assert(list->count < NVML_GPM_MAX);
    list->metrics[list->count++] = metric;
}

static bool is_known(const MetricSource *source, unsigned int driver_major)
{
    if (source->kind == METRIC_FROM_GPM)
        return source->id < nvml_known_gpm(driver_major);
    return source->id < nvml_known_fields(driver_major) && source->second_id < nvml_known_fields(driver_major);
}

static void add_metric(NvmlPlan *plan, const Metric *metric, unsigned int driver_major)
{
    const MetricSourceKind kind = metric->source.kind;

    if (kind != METRIC_FROM_FIELD && kind != METRIC_FROM_GPM)
        return;
    if (!is_known(&metric->source, driver_major)) {
        plan->lacking[metric->id] = true;
        return;
    }
    if (kind == METRIC_FROM_FIELD) {
        add_use(&plan->batches[metric->pace], metric);
        return;
    }
    add_gpm(&plan->gpm_gpu, metric->id);
    if (metric->scope != METRIC_SCOPE_GPU)
        add_gpm(&plan->gpm_instance, metric->id);
}

void nvml_plan_make(NvmlPlan *plan, const BoardPlan *board, unsigned int driver_major)
{
    const uint32_t number = plan->number;

    memset(plan, 0, sizeof *plan);
    plan->board = *board;
    plan->number = number + 1;
    for (MetricId id = 0; id < METRIC_END; id++)
        if (board_wants(board, id))
            add_metric(plan, metric_get(id), driver_major);
}

uint64_t nvml_plan_period(const NvmlPlan *plan, MetricPace pace)
{
    static const uint64_t usual[METRIC_PACE_END] = {
        [METRIC_PACE_FAST] = 100 * NS_PER_MS,
        [METRIC_PACE_NORMAL] = NS_PER_S,
        [METRIC_PACE_SLOW] = 10 * NS_PER_S,
        [METRIC_PACE_BLOCKING] = 5 * NS_PER_S,
    };

    return plan->board.period_ns[pace] ? plan->board.period_ns[pace] : usual[pace];
}
