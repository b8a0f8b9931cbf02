/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the engine as samples. What comes back is matched by field and entity: its order is not promised. */

#include "source/dcgm/inside.h"

enum { FRESH_PERIODS = 3 };
#define FRESH_MIN_US INT64_C(3000000)

typedef struct Reader {
    DcgmWatch *watch;
    DcgmNow now;
    int64_t fresh_us; /* how old a value may be */
    Sample *out;
} Reader;

static void set_double(Sample *sample, uint64_t time_ns, MetricValue kind, double value)
{
    Absence why;

    if (dcgm_blank_double(value, &why))
        sample_set_absent(sample, time_ns, why);
    else if (kind == METRIC_DOUBLE)
        sample_set_double(sample, time_ns, value);
    else if (value > -DCGM_BLANK_DOUBLE)
        sample_set_int64(sample, time_ns, (int64_t)value);
    else
        sample_set_absent(sample, time_ns, ABSENCE_FAILED);
}

static void set_int64(Sample *sample, uint64_t time_ns, MetricValue kind, int64_t value)
{
    Absence why;

    if (dcgm_blank_int64(value, &why))
        sample_set_absent(sample, time_ns, why);
    else if (kind == METRIC_DOUBLE)
        sample_set_double(sample, time_ns, (double)value);
    else
        sample_set_int64(sample, time_ns, value);
}

/* Nothing yet, before the first value; after it, no more. */
static Absence absence_of_field(const DcgmField *field)
{
    return field->had ? ABSENCE_NO_DATA : ABSENCE_NOT_YET;
}

static int64_t age_of_value(const Reader *reader, const DcgmFieldValue *value)
{
    if (value->time_us <= 0)
        return INT64_MAX;
    return reader->now.wall_us > value->time_us ? reader->now.wall_us - value->time_us : 0;
}

static void set_field(const Reader *reader, DcgmField *field, const DcgmFieldValue *value)
{
    Sample *sample = &reader->out[field->out];
    int64_t age_us = age_of_value(reader, value);
    uint64_t age_ns = (uint64_t)age_us * 1000, now_ns = reader->now.time_ns;

    if (value->status != DCGM_OK) {
        Absence why = dcgm_answer_absence(value->status, reader->watch->dcgm->permitted);
        sample_set_absent(sample, now_ns, why == ABSENCE_NO_DATA ? absence_of_field(field) : why);
    } else if (age_us > reader->fresh_us) {
        sample_set_absent(sample, now_ns, absence_of_field(field));
    } else if (value->type == DCGM_TYPE_DOUBLE) {
        set_double(sample, age_ns < now_ns ? now_ns - age_ns : now_ns, field->kind, value->value.f64);
    } else if (value->type == DCGM_TYPE_INT64) {
        set_int64(sample, age_ns < now_ns ? now_ns - age_ns : now_ns, field->kind, value->value.i64);
    } else {
        sample_set_absent(sample, now_ns, ABSENCE_FAILED);
    }
    field->had |= sample->valid;
}

static const DcgmFieldValue *find_value(const DcgmFieldValue *values, const DcgmPart *part, uint32_t which)
{
    for (uint32_t n = 0; n < part->asked; n++) {
        const DcgmFieldValue *value = &values[(which + n) % part->asked]; /* most likely at once */

        if (value->field == part->ids[which] && value->entity.group == part->entity.group &&
            value->entity.id == part->entity.id)
            return value;
    }
    return NULL;
}

static void read_part(const Reader *reader, DcgmPart *part)
{
    DcgmWatch *watch = reader->watch;
    DcgmFieldValue *values = watch->dcgm->values;
    int answer;

    if (!part->asked)
        return;
    for (uint32_t i = 0; i < part->asked; i++)
        values[i].field = 0;
    answer = DCGM_CALL(watch->dcgm, dcgmEntitiesGetLatestValues,
                       (watch->dcgm->engine, &part->entity, 1, part->ids, part->asked, 0, values));
    for (uint32_t i = 0; i < part->asked; i++) {
        DcgmField *field = &watch->fields[part->at[i]];
        const DcgmFieldValue *value = answer == DCGM_OK ? find_value(values, part, i) : NULL;
        Absence why = answer == DCGM_OK ? ABSENCE_NO_DATA : dcgm_answer_absence(answer, watch->dcgm->permitted);

        if (value)
            set_field(reader, field, value);
        else
            sample_set_absent(&reader->out[field->out], reader->now.time_ns,
                              why == ABSENCE_NO_DATA ? absence_of_field(field) : why);
    }
}

size_t dcgm_read(DcgmWatch *watch, DcgmNow now, Sample *out)
{
    int64_t periods_us = (int64_t)(watch->period_ns / 1000) * FRESH_PERIODS;
    Reader reader = {
        .watch = watch, .now = now, .out = out, .fresh_us = periods_us > FRESH_MIN_US ? periods_us : FRESH_MIN_US};
    size_t there = 0;

    for (uint32_t i = 0; i < watch->count; i++)
        sample_set_absent(&out[watch->fields[i].out], now.time_ns, (Absence)watch->fields[i].refused);
    for (uint32_t i = 0; i < watch->parts_count; i++)
        read_part(&reader, &watch->parts[i]);
    for (uint32_t i = 0; i < watch->count; i++)
        there += out[watch->fields[i].out].valid;
    return there;
}
