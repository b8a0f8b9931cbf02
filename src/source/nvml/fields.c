/* SPDX-License-Identifier: Apache-2.0 */
/* Field values, from the batch of a pace to samples. */

#include "source/nvml/fields.h"

#include "source/nvml/rows.h"

enum { FIELD_LINK_COUNT = 91, FIELD_ECC_FIRST = 3, FIELD_ECC_LAST = 28, FIELD_LINK_TX = 138, FIELD_LINK_RX = 139 };
enum { BYTES_PER_KIB = 1024 };

/* Where the entries of a batch lie in the call; links that the GPU does not have are not asked for. */
typedef struct Asked {
    uint16_t count;
    uint16_t at[NVML_FIELDS_MAX];
} Asked;

static void fill(const NvmlGpu *gpu, const NvmlBatch *batch, nvmlFieldValue_t *values, Asked *asked)
{
    asked->count = 0;
    for (uint16_t i = 0; i < batch->field_count; i++) {
        const NvmlField *field = &batch->fields[i];
        asked->at[i] = NVML_NO_FIELD;
        if (field->per_link && field->scope >= gpu->links)
            continue;
        asked->at[i] = asked->count;
        values[asked->count++] = (nvmlFieldValue_t){.fieldId = field->id, .scopeId = field->scope};
    }
}

/* ECC counters without a time were never counted. */
static NvmlNumber number_of(const nvmlFieldValue_t *value)
{
    if (value->fieldId >= FIELD_ECC_FIRST && value->fieldId <= FIELD_ECC_LAST && value->nvmlReturn == NVML_SUCCESS &&
        value->timestamp == 0)
        return nvml_lacking(ABSENCE_NOT_SUPPORTED);
    return nvml_field_number(value);
}

typedef struct Answers {
    const nvmlFieldValue_t *values;
    const Asked *asked;
} Answers;

static NvmlNumber entry(const Answers *answers, uint16_t field)
{
    const uint16_t at = answers->asked->at[field];

    return at == NVML_NO_FIELD ? nvml_lacking(ABSENCE_NOT_SUPPORTED) : number_of(&answers->values[at]);
}

static int64_t stamp(const Answers *answers, uint16_t field)
{
    const uint16_t at = answers->asked->at[field];

    return at == NVML_NO_FIELD ? 0 : answers->values[at].timestamp;
}

/* Over the links that have the counter; where none has, the reason of the first. */
static NvmlNumber sum_of_links(const Answers *answers, const NvmlFieldUse *use)
{
    NvmlNumber sum = nvml_lacking(ABSENCE_NOT_SUPPORTED);

    for (uint16_t i = 0; i < use->links; i++) {
        const NvmlNumber one = entry(answers, (uint16_t)(use->first + i));
        if (!one.valid && i == 0)
            sum = one;
        else if (one.valid)
            sum = sum.valid ? nvml_add(sum, one) : one;
    }
    return sum;
}

static NvmlNumber use_number(const Answers *answers, const NvmlFieldUse *use)
{
    NvmlNumber number;

    if (use->links)
        return sum_of_links(answers, use);
    number = entry(answers, use->first);
    return use->second == NVML_NO_FIELD ? number : nvml_add(number, entry(answers, use->second));
}

static NvmlNumber bytes_of(NvmlNumber kib)
{
    if (kib.valid && __builtin_mul_overflow(kib.i, BYTES_PER_KIB, &kib.i))
        return nvml_lacking(ABSENCE_NO_DATA);
    return kib;
}

static void set_use(NvmlGpu *gpu, const Answers *answers, const NvmlFieldUse *use, uint64_t now)
{
    const Metric *metric = metric_get(use->metric);
    NvmlNumber number = use_number(answers, use);

    if (metric->unit == UNIT_NVLINK_MB_PER_SECOND)
        number = nvml_rate_next(&gpu->rates[metric->id], number, stamp(answers, use->first), board_kernel_now());
    else if (metric->unit == UNIT_BYTE && (metric->source.id == FIELD_LINK_TX || metric->source.id == FIELD_LINK_RX))
        number = bytes_of(number);
    if (!number.valid)
        number.absence = nvml_reason(gpu, metric->id, number.absence);
    nvml_sample_set(metric, number, now, &gpu->reading.sample[metric->id]);
}

static void lose_uses(NvmlGpu *gpu, const NvmlBatch *batch, Absence why, uint64_t now)
{
    for (uint16_t i = 0; i < batch->use_count; i++)
        sample_set_absent(&gpu->reading.sample[batch->uses[i].metric], now, why);
}

void nvml_fields_read(NvmlGpu *gpu, MetricPace pace)
{
    const NvmlBatch *batch = &gpu->reader->plan.batches[pace];
    nvmlFieldValue_t *values = gpu->reader->fields;
    Asked asked;
    const Answers answers = {.values = values, .asked = &asked};
    nvmlReturn_t answer = NVML_SUCCESS;
    Absence why = ABSENCE_NO_DATA;

    if (batch->use_count == 0 || gpu->target.trouble)
        return;
    fill(gpu, batch, values, &asked);
    if (asked.count > 0) {
        answer = NVML_ASK(gpu, nvmlDeviceGetFieldValues, (gpu->handle, asked.count, values));
        why = nvml_gpu_note(gpu, answer);
    }
    if (answer != NVML_SUCCESS) {
        lose_uses(gpu, batch, why, nvml_gpu_now(gpu));
        return;
    }
    for (uint16_t i = 0; i < batch->use_count; i++)
        set_use(gpu, &answers, &batch->uses[i], nvml_gpu_now(gpu));
}

uint32_t nvml_fields_links(NvmlGpu *gpu)
{
    nvmlFieldValue_t value = {.fieldId = FIELD_LINK_COUNT};
    NvmlNumber number;

    if (NVML_ASK(gpu, nvmlDeviceGetFieldValues, (gpu->handle, 1, &value)) != NVML_SUCCESS)
        return 0;
    number = nvml_field_number(&value);
    if (!number.valid || number.i < 0)
        return 0;
    return number.i < NVML_LINKS_MAX ? (uint32_t)number.i : NVML_LINKS_MAX;
}
