/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What maintenance.c and maintenance_recur.c share. */

#include "engine/health/maintenance.h"

/* A window of the configuration: on these days of the week from this time of day on. */
typedef struct Recurrence {
    uint8_t days; /* bit per day, Sunday is 0 */
    bool utc;     /* else the node's own time zone */
    int hour, minute;
    uint64_t duration_ns;
    uint64_t skip_until_ns; /* those that begin before are left out */
} Recurrence;

/* Reads one entry of the list; `window` gets its id from the caller. */
int recurrence_read(const YamlNode *entry, Recurrence *ret, MaintenanceWindow *ret_window, Err *err);
/* Its present occurrence, the one that ends last where several overlap, or the next one. False: there is none within a
 * fortnight, as the wall clock is out of bounds. */
bool recurrence_next(const Recurrence *recurrence, uint64_t real_ns, uint64_t *ret_from_ns, uint64_t *ret_until_ns);
/* Whether two mean the same, whatever is skipped. */
bool recurrence_equal(const Recurrence *a, const Recurrence *b);
