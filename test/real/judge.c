/* SPDX-License-Identifier: Apache-2.0 */
/* What makes two readings the same: pure, so that a test can look at every limit. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "real.h"

const char *const compare_words[COMPARE_END] = {"same",        "differs",        "moving", "neither reports it",
                                                "only Stoker", "only the driver"};

CompareVerdict compare_judge(double before, double smi, double after, double limit, bool counter,
                             double *ret_difference)
{
    const double low = fmin(before, after), high = fmax(before, after);
    double outside;

    *ret_difference = NAN;
    if (!isfinite(before) || !isfinite(after))
        return isfinite(smi) ? COMPARE_ONLY_SMI : COMPARE_NEITHER;
    if (!isfinite(smi))
        return COMPARE_ONLY_STOKER;
    outside = smi < low ? smi - low : smi > high ? smi - high : 0;
    *ret_difference = outside;
    if (counter)
        return before <= after && fabs(outside) <= limit ? COMPARE_SAME : COMPARE_DIFFERS;
    if (high - low > limit)
        return COMPARE_MOVING;
    return fabs(outside) <= limit ? COMPARE_SAME : COMPARE_DIFFERS;
}

double compare_read_text(const char *text)
{
    /* NVML's numbers for nvidia-smi's words. */
    static const struct {
        const char *word;
        double number;
    } words[] = {
        {"Enabled", 1},          {"Disabled", 0},   {"Yes", 1},         {"No", 0},        {"Default", 0},
        {"Exclusive_Thread", 1}, {"Prohibited", 2}, {"None", 0},        {"Reset", 1},     {"Exclusive_Process", 3},
        {"GPU Reset", 1},        {"Reboot", 2},     {"Node Reboot", 2}, {"Drain P2P", 3}, {"Drain and Reset", 4}};
    char *end;
    double number;

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(text, words[i].word) == 0)
            return words[i].number;
    if (text[0] == 'P' && isdigit((unsigned char)text[1]))
        text++;
    number = strncmp(text, "0x", 2) == 0 ? (double)strtoull(text, &end, 16) : strtod(text, &end);
    return end != text && *end == '\0' && isfinite(number) ? number : NAN;
}
