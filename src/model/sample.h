/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One measured value with its time, or the reason why there is none. All zero bytes are a valid Sample: absent, not yet
 * sampled. An absent value has no number: reading it through sample_int64/sample_double fails. No pointers inside, so
 * it may lie in shared memory. Owned by whoever embeds it; one writer.
 */

#include <stdbool.h>
#include <stdint.h>

#include "model/word.h"

/* Why a value is absent. The first is what zeroed memory means. WORD(id, key, text) */
#define ABSENCE_TABLE(WORD)                                                                                            \
    WORD(ABSENCE_NOT_YET, "not_yet", "not sampled yet")                                                                \
    WORD(ABSENCE_NOT_SUPPORTED, "not_supported", "this device does not have it")                                       \
    WORD(ABSENCE_DRIVER_LACKS, "driver_lacks", "this driver is too old to tell")                                       \
    WORD(ABSENCE_DEPRECATED, "deprecated", "newer drivers no longer tell")                                             \
    WORD(ABSENCE_MIG_MODE, "mig_mode", "not measured while MIG is on")                                                 \
    WORD(ABSENCE_NO_PERMISSION, "no_permission", "more permissions are needed")                                        \
    WORD(ABSENCE_NO_LIBRARY, "no_library", "the vendor's library is missing")                                          \
    WORD(ABSENCE_IN_USE, "in_use", "another tool holds the counters")                                                  \
    WORD(ABSENCE_NO_DATA, "no_data", "the driver had no value to give")                                                \
    WORD(ABSENCE_TIMED_OUT, "timed_out", "the driver did not answer in time")                                          \
    WORD(ABSENCE_GPU_LOST, "gpu_lost", "the GPU is lost")                                                              \
    WORD(ABSENCE_RESET_REQUIRED, "reset_required", "the GPU needs a reset")                                            \
    WORD(ABSENCE_RELEASED, "released", "the driver was let go for maintenance")                                        \
    WORD(ABSENCE_GONE, "gone", "the device or instance no longer exists")                                              \
    WORD(ABSENCE_TURNED_OFF, "turned_off", "not collected by choice")                                                  \
    WORD(ABSENCE_FAILED, "failed", "the driver reported an error")

typedef enum Absence { ABSENCE_TABLE(WORD_ID) ABSENCE_END } Absence;

typedef enum SampleKind { SAMPLE_INT64, SAMPLE_DOUBLE } SampleKind;

typedef struct Sample {
    uint64_t time_ns; /* when the value was read, or last tried; 0 before the first try */
    union {
        int64_t i;
        double d;
    } value;         /* only where valid; read it with the functions below */
    uint8_t kind;    /* SampleKind, only where valid */
    uint8_t absence; /* Absence, only where not valid */
    bool valid;
} Sample;

/* Set a value read at time_ns. */
void sample_set_int64(Sample *sample, uint64_t time_ns, int64_t value);

/* The same; a NaN becomes absent with NO_DATA, as the driver marks blanks so. Infinities are values. */
void sample_set_double(Sample *sample, uint64_t time_ns, double value);

/* Take the value away: from time_ns on there is none, because of `why`. */
void sample_set_absent(Sample *sample, uint64_t time_ns, Absence why);

/* The value as a double, whichever kind it is. False, with ret_value untouched, if it is absent. */
bool sample_double(const Sample *sample, double *ret_value);

/* The value of an integer sample. False, with ret_value untouched, if it is absent or a double. */
bool sample_int64(const Sample *sample, int64_t *ret_value);

/* Nanoseconds since the value was read. False, with ret_age_ns untouched, if it is absent. A clock that went back is 0.
 */
bool sample_age(const Sample *sample, uint64_t now_ns, uint64_t *ret_age_ns);

extern const WordRow absences[ABSENCE_END];
