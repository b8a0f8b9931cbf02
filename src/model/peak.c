/* SPDX-License-Identifier: Apache-2.0 */
/* The table of peaks, and the row of a GPU's name. */
#include "model/peak.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"

const char *const peak_type_words[PEAK_TYPE_COUNT] = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4"};

static const Peak peaks[] = {
#define PEAK(board, word, also, sm_count, memory_gbs, ...) {board, word, also, sm_count, memory_gbs, {__VA_ARGS__}},
#include "model/peak.def"
};

static bool has_word(const char *name, const char *word)
{
    const size_t len = strlen(word);

    for (const char *at = name; (at = strstr(at, word)); at++)
        if ((at == name || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[len]))
            return true;
    return false;
}

bool peak_has_name(const char *gpu_name, const char *word, const char *also)
{
    return has_word(gpu_name, word) && strstr(gpu_name, also);
}

const Peak *peak_find(const char *gpu_name)
{
    for (size_t i = 0; i < ARRAY_LEN(peaks); i++)
        if (peak_has_name(gpu_name, peaks[i].word, peaks[i].also))
            return &peaks[i];
    return NULL;
}

double peak_per_clock(const Peak *peak, PeakType type, double *ret_clock)
{
    const double rated_least = 1.35e9; /* boards have 1.37 to 2.66 GHz: of one board's rates one alone fits */
    double rate = 1, clock = peak->tflops[type] * 1e12 / peak->sm_count;

    *ret_clock = 0;
    if (!(clock > 0))
        return 0;
    for (; clock >= 2 * rated_least; clock /= 2)
        rate *= 2;
    *ret_clock = clock;
    return rate;
}

const PeakMig *peak_find_mig(const char *gpu_name, int slices, double memory)
{
    static const PeakMig rows[] = {
#define PEAK_MIG(...) {__VA_ARGS__},
#include "model/peak.def"
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const double part = memory * rows[i].memory_of;

        if (rows[i].slices == slices && has_word(gpu_name, rows[i].word) && part > rows[i].memory_slices - 0.6 &&
            part < rows[i].memory_slices + 0.4)
            return &rows[i];
    }
    return NULL;
}

double peak_find_tensor_speed(const char *gpu_name, bool amd, int major, int minor)
{
    static const struct {
        const char *word;
        int major, minor;
        double times;
    } families[] = {
#define PEAK_FAMILY(word, major, minor, times, reason) {word, major, minor, times},
#include "model/peak.def"
    };
    const Peak *peak = amd ? NULL : peak_find(gpu_name);

    if (peak)
        return peak->tflops[PEAK_FP16] / peak->tflops[PEAK_FP32];
    for (size_t i = 0; i < ARRAY_LEN(families); i++)
        if (amd ? families[i].major < 0 && strstr(gpu_name, families[i].word)
                : families[i].major == major && families[i].minor == minor && strstr(gpu_name, families[i].word))
            return families[i].times;
    return 0;
}
