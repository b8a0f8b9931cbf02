/* SPDX-License-Identifier: Apache-2.0 */
/* Which metrics of the catalogue the queries name, and the list of counters that has them all. Pure, any thread. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "model/metric.h"
#include "service/dashboard/panel.h"

enum { NAME_MAX_LEN = 96, TEXT_MAX = 4096 };

_Static_assert(METRIC_END <= NEEDS_WORDS * 64, "a bit per metric");

static bool has(const Needs *needs, MetricId id)
{
    return needs->bits[id / 64] >> (id % 64) & 1;
}

void needs_of(const char *query, Needs *needs)
{
    while (*query) {
        char name[NAME_MAX_LEN];
        size_t len = 0;

        while (isalnum((unsigned char)query[len]) || query[len] == '_')
            len++;
        if (len > 0 && len < sizeof name) {
            snprintf(name, sizeof name, "%.*s", (int)len, query);
            const MetricName *found = strncmp(name, "DCGM_", 5) == 0 ? metric_find(name) : NULL;

            if (found)
                needs->bits[found->metric / 64] |= UINT64_C(1) << (found->metric % 64);
        }
        query += len ? len : 1;
    }
}

static bool is_dcgms(const Metric *metric)
{
    return strncmp(metric->name, "DCGM_", 5) == 0;
}

const char *needs_text(const Needs *needs, Arena *arena)
{
    char room[TEXT_MAX];
    Str out;

    str_init_room(&out, room, sizeof room);
    for (MetricId id = 0; id < METRIC_END; id++)
        if (has(needs, id) && !metric_get(id)->on)
            str_addf(&out, "%s%s", out.len ? ", " : "", metric_get(id)->name);
    return arena_strdup(arena, room);
}

static void all_needs(Needs *needs)
{
    for (PanelId id = 0; id < PANEL_END; id++)
        for (size_t q = 0; q < PANEL_QUERIES; q++) {
            const PanelQuery *query = &panel_get(id)->queries[q];
            const char *const texts[] = {query->both, query->stoker, query->dcgm};

            for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                if (texts[i])
                    needs_of(texts[i], needs);
        }
}

/* Go's encoding/csv reads it: a field with a comma stands in quotes, right behind the comma. */
static void add_row(const Metric *metric, Str *out)
{
    const char *quote = strchr(metric->help, ',') ? "\"" : "";

    str_addf(out, "%s,%s,%s%s%s\n", metric->name, metric_type_text(metric->csv_type), quote, metric->help, quote);
}

void dashboard_write_counters(Str *out)
{
    Needs needs = {0};

    all_needs(&needs);
    str_add(out,
            "# What the dashboards of stoker dashboard need: name, type, help. First the rows that are on anyway.\n");
    for (MetricId id = 0; id < METRIC_END; id++)
        if (metric_get(id)->on && is_dcgms(metric_get(id)))
            add_row(metric_get(id), out);
    str_add(out, "# And those that are not.\n");
    for (MetricId id = 0; id < METRIC_END; id++)
        if (!metric_get(id)->on && has(&needs, id))
            add_row(metric_get(id), out);
}
