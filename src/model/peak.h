/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* What boards do at most, by their data sheets (peak.def): dense arithmetic by type, and memory. Constant. */

typedef enum PeakType {
    PEAK_FP64,
    PEAK_FP32,
    PEAK_TF32,
    PEAK_FP16,
    PEAK_BF16,
    PEAK_FP8,
    PEAK_INT8,
    PEAK_FP4,
    PEAK_TYPE_COUNT
} PeakType;

extern const char *const peak_type_words[PEAK_TYPE_COUNT]; /* "fp64", ... */

typedef struct Peak {
    const char *board;
    const char *word, *also; /* of the GPU's name */
    int sm_count;
    double memory_gbs;              /* 10^9 bytes per second */
    double tflops[PEAK_TYPE_COUNT]; /* 10^12 per second; 0: has none, or not known */
} Peak;

/* Whether a GPU's name by its driver has this word, and somewhere `also`. */
bool peak_has_name(const char *gpu_name, const char *word, const char *also);

/* The row for a GPU by its driver's name ("NVIDIA H100 80GB HBM3"); NULL: there is none. */
const Peak *peak_find(const char *gpu_name);

/* Dense operations of a type per multiprocessor and clock, and the clock in Hz by which the sheet's figure is made; 0:
 * the board does not have the type. */
double peak_per_clock(const Peak *peak, PeakType type, double *ret_clock);

/* A MIG profile of a board: its slices of compute, those of memory of so many, and its multiprocessors. */
typedef struct PeakMig {
    const char *word; /* of the GPU's name */
    int slices, memory_slices, memory_of, sm_count;
} PeakMig;

/* The profile of a GPU's instance with these slices of compute that has `memory` of its memory, 0 to 1, but for what
 * the driver keeps; NULL: not known. */
const PeakMig *peak_find_mig(const char *gpu_name, int slices, double memory);

/* How many times as fast as 32-bit float off them the GPU's tensor cores (AMD: matrix cores) are at most; 0: it has
 * none, or not known. Compute capability: -1 where it is not known; of AMD's GPUs it does not count. */
double peak_find_tensor_speed(const char *gpu_name, bool amd, int major, int minor);
