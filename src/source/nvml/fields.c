/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's plan made ready, and field values from the batch of a pace to samples. A field that several metrics share
 * is read once. */
#include <assert.h>
#include <string.h>

#include "base/duration.h"
#include "source/nvml/readers.h"
#include "source/nvml/convert.h"
#include "source/nvml/plan.h"

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

enum { FIELD_LINK_COUNT = 91, FIELD_ECC_FIRST = 3, FIELD_ECC_LAST = 28, FIELD_LINK_TX = 138, FIELD_LINK_RX = 139 };
enum { BYTES_PER_KIB = 1024 };

/* A call, and positions of a batch's entries in it; links that the GPU does not have are left out. */
typedef struct Asked {
    nvmlFieldValue_t *values;
    uint16_t count;
    uint16_t at[NVML_FIELDS_MAX];
} Asked;

static void fill_fields(const NvmlGpu *gpu, const NvmlBatch *batch, Asked *asked)
{
    asked->count = 0;
    for (uint16_t i = 0; i < batch->field_count; i++) {
        const NvmlField *field = &batch->fields[i];
        asked->at[i] = NVML_NO_FIELD;
        if (field->per_link && field->scope >= gpu->links)
            continue;
        asked->at[i] = asked->count;
        asked->values[asked->count++] = (nvmlFieldValue_t){.fieldId = field->id, .scopeId = field->scope};
    }
}

/* NULL where it was not asked for. */
static const nvmlFieldValue_t *entry_of(const Asked *asked, uint16_t field)
{
    return asked->at[field] == NVML_NO_FIELD ? NULL : &asked->values[asked->at[field]];
}

/* ECC counters without a time were never counted. */
static NvmlNumber entry_number(const Asked *asked, uint16_t field)
{
    const nvmlFieldValue_t *value = entry_of(asked, field);

    if (!value || (value->fieldId >= FIELD_ECC_FIRST && value->fieldId <= FIELD_ECC_LAST &&
                   value->nvmlReturn == NVML_SUCCESS && value->timestamp == 0))
        return nvml_lacking(ABSENCE_NOT_SUPPORTED);
    return nvml_field_number(value);
}

/* Over the links that have the counter; where none has, the reason of the first. */
static NvmlNumber sum_of_links(const Asked *asked, const NvmlFieldUse *use)
{
    NvmlNumber sum = nvml_lacking(ABSENCE_NOT_SUPPORTED);

    for (uint16_t i = 0; i < use->links; i++) {
        const NvmlNumber one = entry_number(asked, (uint16_t)(use->first + i));
        if (!one.valid && i == 0)
            sum = one;
        else if (one.valid)
            sum = sum.valid ? nvml_add(sum, one) : one;
    }
    return sum;
}

static NvmlNumber use_number(const Asked *asked, const NvmlFieldUse *use)
{
    NvmlNumber number;

    if (use->links)
        return sum_of_links(asked, use);
    number = entry_number(asked, use->first);
    return use->second == NVML_NO_FIELD ? number : nvml_add(number, entry_number(asked, use->second));
}

static void set_use(NvmlGpu *gpu, const Asked *asked, const NvmlFieldUse *use, uint64_t now)
{
    const Metric *metric = metric_get(use->metric);
    const nvmlFieldValue_t *first = entry_of(asked, use->first);
    NvmlNumber number = use_number(asked, use);

    if (metric->unit == UNIT_NVLINK_MB_PER_SECOND)
        number = nvml_rate_next(&gpu->rates[metric->id], number, first ? first->timestamp : 0, board_kernel_now());
    else if (metric->unit == UNIT_BYTE && (metric->source.id == FIELD_LINK_TX || metric->source.id == FIELD_LINK_RX) &&
             number.valid && __builtin_mul_overflow(number.i, BYTES_PER_KIB, &number.i))
        number = nvml_lacking(ABSENCE_NO_DATA);
    if (!number.valid)
        number.absence = nvml_absence_of(gpu, metric->id, number.absence);
    nvml_sample_set(metric, number, now, &gpu->reading.sample[metric->id]);
}

void nvml_fields_read(NvmlGpu *gpu, MetricPace pace)
{
    const NvmlBatch *batch = &gpu->reader->plan.batches[pace];
    Asked asked;
    nvmlReturn_t answer = NVML_SUCCESS;
    Absence why = ABSENCE_NO_DATA;

    if (batch->use_count == 0 || gpu->target.trouble)
        return;
    asked.values = gpu->reader->fields;
    fill_fields(gpu, batch, &asked);
    if (asked.count > 0) {
        answer = NVML_GPU_CALL(gpu, nvmlDeviceGetFieldValues, (gpu->handle, asked.count, asked.values));
        why = nvml_gpu_count_answer(gpu, answer);
    }
    for (uint16_t i = 0; i < batch->use_count; i++)
        if (answer == NVML_SUCCESS)
            set_use(gpu, &asked, &batch->uses[i], nvml_gpu_now(gpu));
        else
            sample_set_absent(&gpu->reading.sample[batch->uses[i].metric], nvml_gpu_now(gpu), why);
}

uint32_t nvml_fields_links(NvmlGpu *gpu)
{
    nvmlFieldValue_t value = {.fieldId = FIELD_LINK_COUNT};
    NvmlNumber number;

    if (NVML_GPU_CALL(gpu, nvmlDeviceGetFieldValues, (gpu->handle, 1, &value)) != NVML_SUCCESS)
        return 0;
    number = nvml_field_number(&value);
    if (!number.valid || number.i < 0)
        return 0;
    return number.i < NVML_LINKS_MAX ? (uint32_t)number.i : NVML_LINKS_MAX;
}
