/* SPDX-License-Identifier: Apache-2.0 */
/* How old a row is. A row has an instant of the wall clock alone, which may have been wrong then or be wrong now. The
 * table has a row per stretch in which the wall clock and the monotonic one ran together; how long they are together,
 * counted back from the last one, is what has passed for certain. Time in which the node was off, or no agent ran in a
 * boot, makes nothing older. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "service/journal/db.h"

#define STEP_NS (10 * NS_PER_MIN) /* between the clocks: the wall clock was set */

const char db_clock_table[] =
    "CREATE TABLE IF NOT EXISTS clocks(id INTEGER PRIMARY KEY, boot TEXT, first_ns INTEGER, last_ns INTEGER,"
    " first_mono_ns INTEGER, last_mono_ns INTEGER) STRICT;";

/* How far the wall clock is ahead of the monotonic one. */
static int64_t find_offset(const DbClock *clock)
{
    return (int64_t)(clock->real_ns - clock->mono_ns);
}

static bool run_together(const DbClock *before, const DbClock *now)
{
    const int64_t step = find_offset(now) - find_offset(before);

    return strcmp(before->boot_id, now->boot_id) == 0 && now->mono_ns > before->mono_ns && step < (int64_t)STEP_NS &&
           -step < (int64_t)STEP_NS;
}

void db_clock_note(char sql[DB_CLOCK_SQL], const DbClock *before, const DbClock *now)
{
    Str out;

    str_init_room(&out, sql, DB_CLOCK_SQL);
    str_addf(&out,
             "UPDATE clocks SET last_ns = %" PRIu64 ", last_mono_ns = %" PRIu64
             " WHERE id = (SELECT max(id) FROM clocks) AND boot = '%s' AND last_mono_ns <= %" PRIu64
             " AND abs(last_ns - last_mono_ns - %" PRId64 ") < %" PRIu64 ";",
             now->real_ns, now->mono_ns, now->boot_id, now->mono_ns, find_offset(now), STEP_NS);
    if (before && run_together(before, now))
        str_addf(&out,
                 "INSERT INTO clocks(boot, first_ns, last_ns, first_mono_ns, last_mono_ns) SELECT '%s', %" PRIu64
                 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 " WHERE changes() = 0;",
                 now->boot_id, before->real_ns, now->real_ns, before->mono_ns, now->mono_ns);
}

/* Stretches, and how long they are from each on to the last. */
#define SPANS                                                                                                          \
    "WITH spans AS (SELECT id, first_ns, last_ns, last_mono_ns - first_mono_ns AS span,"                               \
    " sum(last_mono_ns - first_mono_ns) OVER (ORDER BY id DESC) AS covered FROM clocks)"

/* The earliest instant that the wall clock showed within the last `keep_ns`. */
void db_clock_find(char sql[DB_CLOCK_SQL], uint64_t keep_ns)
{
    snprintf(sql, DB_CLOCK_SQL,
             SPANS " SELECT iif(max(covered) >= %" PRIu64 ", max(0, min(max(first_ns, last_ns - (%" PRIu64
                   " - (covered - span))))), 0) FROM spans WHERE covered - span < %" PRIu64,
             keep_ns, keep_ns, keep_ns);
}

void db_clock_prune(char sql[DB_CLOCK_SQL], uint64_t keep_ns)
{
    snprintf(sql, DB_CLOCK_SQL,
             SPANS "DELETE FROM clocks WHERE id IN (SELECT id FROM spans WHERE covered - span >= %" PRIu64 ")",
             keep_ns);
}
