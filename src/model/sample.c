/* SPDX-License-Identifier: Apache-2.0 */
/* Values that may be absent. No state, any thread. */

#include "model/sample.h"

#include <assert.h>
#include <math.h>

void sample_set_int64(Sample *sample, uint64_t time_ns, int64_t value)
{
    *sample = (Sample){.time_ns = time_ns, .value.i = value, .kind = SAMPLE_INT64, .valid = true};
}

void sample_set_double(Sample *sample, uint64_t time_ns, double value)
{
    if (isnan(value)) {
        sample_set_absent(sample, time_ns, ABSENCE_NO_DATA);
        return;
    }
    *sample = (Sample){.time_ns = time_ns, .value.d = value, .kind = SAMPLE_DOUBLE, .valid = true};
}

void sample_set_absent(Sample *sample, uint64_t time_ns, Absence why)
{
    assert(why < ABSENCE_END);
    *sample = (Sample){.time_ns = time_ns, .absence = (uint8_t)why};
}

bool sample_double(const Sample *sample, double *ret_value)
{
    if (!sample->valid)
        return false;
    *ret_value = sample->kind == SAMPLE_DOUBLE ? sample->value.d : (double)sample->value.i;
    return true;
}

bool sample_int64(const Sample *sample, int64_t *ret_value)
{
    if (!sample->valid || sample->kind != SAMPLE_INT64)
        return false;
    *ret_value = sample->value.i;
    return true;
}

bool sample_age(const Sample *sample, uint64_t now_ns, uint64_t *ret_age_ns)
{
    if (!sample->valid)
        return false;
    *ret_age_ns = now_ns > sample->time_ns ? now_ns - sample->time_ns : 0;
    return true;
}
