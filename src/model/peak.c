/* SPDX-License-Identifier: Apache-2.0 */
/* The table of peaks, and the row of a GPU's name. */
#include "model/peak.h"

#include <ctype.h>
#include <stdbool.h>
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

const Peak *peak_find(const char *gpu_name)
{
    for (size_t i = 0; i < ARRAY_LEN(peaks); i++)
        if (has_word(gpu_name, peaks[i].word) && strstr(gpu_name, peaks[i].also))
            return &peaks[i];
    return NULL;
}
