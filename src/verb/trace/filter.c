/* SPDX-License-Identifier: Apache-2.0 */
/* --filter. */
#include "verb/trace/filter.h"

#define KEEP(vec, field)                                                                                               \
    do {                                                                                                               \
        size_t kept_ = 0;                                                                                              \
        for (size_t i_ = 0; i_ < (vec)->len; i_++)                                                                     \
            if (regexec(names, (vec)->at[i_].field, 0, NULL, 0) == 0)                                                  \
                (vec)->at[kept_++] = (vec)->at[i_];                                                                    \
        (vec)->len = kept_;                                                                                            \
    } while (0)

void trace_filter_report(TraceReport *report, const regex_t *names)
{
    for (size_t r = 0; r < report->ranks.len; r++) {
        TraceRank *rank = &report->ranks.at[r];
        KEEP(&rank->kernels, name);
        KEEP(&rank->operators, name);
        KEEP(&rank->calls, name);
        KEEP(&rank->annotations, name);
    }
    KEEP(&report->collectives, name);
}

void trace_filter_diff(TraceDiff *diff, const regex_t *names)
{
    KEEP(&diff->kernels, name);
    KEEP(&diff->operators, name);
}
