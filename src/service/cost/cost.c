/* SPDX-License-Identifier: Apache-2.0 */
#include "service/cost/cost.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"

#define NS_HOURS(ns) ((ns) / COST_HOUR_NS)
#define GIB_HOUR (1073741824.0 * 3600)

const WordRow cost_bys[] = {COST_BY_TABLE(WORD_ROW)};
const WordRow cost_wastes[] = {COST_WASTE_TABLE(WORD_ROW)};

const CostField cost_fields[] = {
    {"gpu_hours", LEDGER_ALLOC_NS, COST_HOUR_NS},
    {"effective_gpu_hours", LEDGER_EFF_NS, COST_HOUR_NS},
    {"measured_gpu_hours", LEDGER_MEASURED_NS, COST_HOUR_NS},
    {"busy_gpu_hours", LEDGER_BUSY_NS, COST_HOUR_NS},
    {"tensor_gpu_hours", LEDGER_TENSOR_NS, COST_HOUR_NS},
    {"held_idle_gpu_hours", LEDGER_IDLE_NS, COST_HOUR_NS},
    {"throttled_gpu_hours", LEDGER_THROTTLED_NS, COST_HOUR_NS},
    {"unhealthy_gpu_hours", LEDGER_UNHEALTHY_NS, COST_HOUR_NS},
    {"memory_gib_hours", LEDGER_MEMORY_BYTE_S, GIB_HOUR},
    {"active_energy_kwh", LEDGER_ACTIVE_MJ, COST_KWH_MJ},
    {"idle_energy_kwh", LEDGER_IDLE_MJ, COST_KWH_MJ},
};
const size_t cost_field_count = ARRAY_LEN(cost_fields);

/* --- summing up --------------------------------------------------------------------------------------------------- */

void cost_init(CostReport *r, CostBy by, const char *node)
{
    *r = (CostReport){.by = by, .from_real_ns = UINT64_MAX};
    snprintf(r->node, sizeof r->node, "%s", node);
    map_init(&r->by_name);
}

void cost_done(CostReport *r)
{
    for (size_t i = 0; i < r->owners.len; i++)
        free(r->owners.at[i]);
    map_done(&r->by_name);
    for (size_t i = 0; i < r->gpus.len; i++)
        free(r->gpus.at[i]);
    vec_done(&r->gpus);
    vec_done(&r->owners);
    vec_done(&r->merged);
}

static_assert((int)COST_BY_GPU == (int)OWNER_KEY_END, "the keys of owners come first");
static_assert((int)COST_NAME_CAP == (int)OWNER_NAME_CAP, "a name of an owner is one of the report");

static void name_owner(CostBy by, const LedgerRow *row, char name[COST_NAME_CAP])
{
    if (by == COST_BY_GPU)
        snprintf(name, COST_NAME_CAP, "%.*s", (int)ledger_gpu_key_len(row->device), row->device);
    else
        owner_name(&row->owner, (OwnerKey)by, name);
}

CostSum *cost_find_owner(CostReport *r, const char *name)
{
    CostOwner *owner = map_get(&r->by_name, name);

    if (!owner) {
        owner = xcalloc(1, sizeof *owner);
        snprintf(owner->name, sizeof owner->name, "%s", name);
        vec_push(&r->owners, owner);
        map_put(&r->by_name, name, owner);
    }
    return &owner->sum;
}

static void note_gpu(CostReport *r, const char *device)
{
    const size_t len = ledger_gpu_key_len(device);

    for (size_t i = 0; i < r->gpus.len; i++)
        if (strncmp(r->gpus.at[i], device, len) == 0 && r->gpus.at[i][len] == '\0')
            return;
    vec_push(&r->gpus, xmemdup0(device, len));
    r->gpu_count++;
}

/* The price of an hour under which the row stood; NaN: none. */
static double find_price(CostReport *r, const LedgerRow *row)
{
    PriceTag tag;

    if (price_tag_read(row->price, &tag) < 0)
        return NAN;
    if (!r->currency[0])
        memcpy(r->currency, tag.currency, sizeof r->currency);
    r->mixed |= strcmp(r->currency, tag.currency) != 0;
    return tag.per_hour;
}

double cost_row_carbon(const LedgerRow *row)
{
    const double g_per_kwh = price_read_carbon(row->price);
    const double mj = (double)row->amounts[LEDGER_ACTIVE_MJ] + (double)row->amounts[LEDGER_IDLE_MJ];

    return isnan(g_per_kwh) ? 0 : mj / COST_KWH_MJ * g_per_kwh;
}

/* Adds a row, of which `cost_ns` cost. */
static void add_sum(CostSum *sum, const LedgerRow *row, const double waste_ns[COST_WASTE_END], double cost_ns,
                    double price)
{
    sum->carbon_g += cost_row_carbon(row);
    for (int i = 0; i < LEDGER_AMOUNT_END; i++)
        sum->amounts[i] += (double)row->amounts[i];
    for (int i = 0; i < COST_WASTE_END; i++)
        sum->waste_ns[i] += waste_ns[i];
    if (isnan(price)) {
        sum->unpriced_ns += cost_ns;
        return;
    }
    sum->cost += NS_HOURS(cost_ns) * price;
    for (int i = 0; i < COST_WASTE_END; i++)
        sum->waste_cost[i] += NS_HOURS(waste_ns[i]) * price;
}

void cost_add(CostReport *r, const LedgerRow *row)
{
    const uint64_t *a = row->amounts;
    const double alloc_ns = (double)a[LEDGER_ALLOC_NS], unhealthy_ns = (double)a[LEDGER_UNHEALTHY_NS],
                 idle_ns = (double)a[LEDGER_IDLE_NS], price = find_price(r, row);
    const double waste_ns[COST_WASTE_END] = {
        [COST_UNALLOCATED] = row->held ? 0 : alloc_ns,
        [COST_HELD_IDLE] = idle_ns,
        [COST_INEFFICIENT] = fmax((double)a[LEDGER_MEASURED_NS] - idle_ns - (double)a[LEDGER_EFF_NS], 0),
        [COST_UNHEALTHY] = unhealthy_ns,
        [COST_THROTTLED] = (double)a[LEDGER_THROTTLED_NS],
    };
    char name[COST_NAME_CAP];

    r->from_real_ns = number_min_u64(r->from_real_ns, row->from_real_ns);
    r->until_real_ns = number_max_u64(r->until_real_ns, row->until_real_ns);
    r->carbon |= !isnan(price_read_carbon(row->price));
    note_gpu(r, row->device);
    add_sum(&r->all, row, waste_ns, alloc_ns + unhealthy_ns, price);
    if (!row->held)
        return;
    name_owner(r->by, row, name);
    add_sum(cost_find_owner(r, name), row, waste_ns, alloc_ns, price);
}

static int compare_owners(const void *x, const void *y)
{
    const CostOwner *const *a = x, *const *b = y;
    const CostSum *s = &(*a)->sum, *t = &(*b)->sum;

    if (s->cost != t->cost)
        return s->cost > t->cost ? -1 : 1;
    if (s->amounts[LEDGER_ALLOC_NS] != t->amounts[LEDGER_ALLOC_NS])
        return s->amounts[LEDGER_ALLOC_NS] > t->amounts[LEDGER_ALLOC_NS] ? -1 : 1;
    return strcmp((*a)->name, (*b)->name);
}

void cost_finish(CostReport *r)
{
    vec_sort(&r->owners, compare_owners);
    if (r->from_real_ns > r->until_real_ns)
        r->from_real_ns = r->until_real_ns;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static double find_hours(const CostSum *sum, LedgerAmount amount)
{
    return NS_HOURS(sum->amounts[amount]);
}

static double find_total_hours(const CostSum *sum)
{
    return find_hours(sum, LEDGER_ALLOC_NS) + find_hours(sum, LEDGER_UNHEALTHY_NS) + find_hours(sum, LEDGER_GAPS_NS);
}

static double find_kwh(const CostSum *sum)
{
    return (sum->amounts[LEDGER_ACTIVE_MJ] + sum->amounts[LEDGER_IDLE_MJ]) / COST_KWH_MJ;
}

/* NaN where there are no prices, or several currencies. */
static double find_money(const CostReport *r, double cost)
{
    return r->currency[0] && !r->mixed ? cost : (double)NAN;
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void add_carbon_json(const CostReport *r, const CostSum *sum, Str *out)
{
    if (r->carbon)
        json_add_double(out, "carbon_kg", sum->carbon_g / 1000);
}

static void add_owner_json(const CostReport *r, const CostOwner *owner, Str *out)
{
    const CostSum *sum = &owner->sum;

    json_open(out, NULL, '{');
    json_add_text(out, "owner", owner->name);
    for (size_t i = 0; i < cost_field_count; i++)
        json_add_double(out, cost_fields[i].key, sum->amounts[cost_fields[i].amount] / cost_fields[i].scale);
    json_add_double(out, "energy_kwh", find_kwh(sum));
    add_carbon_json(r, sum, out);
    json_add_double(out, "cost", find_money(r, sum->cost));
    json_close(out, '}');
}

/* What a sum of reports is made of, so that no node's time is added to it once more. */
static void add_periods(const CostReport *r, Str *out)
{
    if (r->merged.len == 0)
        return;
    json_open(out, "nodes", '[');
    for (size_t i = 0; i < r->merged.len; i++) {
        const CostPeriod *period = &r->merged.at[i];

        json_open(out, NULL, '{');
        json_add_text(out, "node", period->node);
        json_add_time(out, "from", period->from_real_ns);
        json_add_time(out, "to", period->until_real_ns);
        json_add_u64(out, "gpus", period->gpu_count);
        json_close(out, '}');
    }
    json_close(out, ']');
}

void cost_json(const CostReport *r, Str *out)
{
    const CostSum *all = &r->all;

    json_open(out, NULL, '{');
    json_add_text(out, "node", r->node);
    json_add_time(out, "from", r->from_real_ns);
    json_add_time(out, "to", r->until_real_ns);
    json_add_text(out, "by", cost_bys[r->by].key);
    json_add_text(out, "currency", r->currency[0] && !r->mixed ? r->currency : NULL);
    json_add_u64(out, "gpus", r->gpu_count);
    json_add_double(out, "total_gpu_hours", find_total_hours(all));
    json_open(out, "owners", '[');
    for (size_t i = 0; i < r->owners.len; i++)
        add_owner_json(r, r->owners.at[i], out);
    json_close(out, ']');
    json_add_double(out, "unallocated_gpu_hours", NS_HOURS(all->waste_ns[COST_UNALLOCATED]));
    json_add_double(out, "unhealthy_gpu_hours", find_hours(all, LEDGER_UNHEALTHY_NS));
    json_add_double(out, "unknown_gpu_hours", find_hours(all, LEDGER_GAPS_NS));
    json_add_double(out, "effective_gpu_hours", find_hours(all, LEDGER_EFF_NS));
    json_add_double(out, "measured_gpu_hours", find_hours(all, LEDGER_MEASURED_NS));
    json_add_double(out, "energy_kwh", find_kwh(all));
    add_carbon_json(r, all, out);
    json_add_double(out, "cost", find_money(r, all->cost));
    json_add_double(out, "unpriced_gpu_hours", NS_HOURS(all->unpriced_ns));
    json_open(out, "waste", '[');
    for (int i = 0; i < COST_WASTE_END; i++) {
        json_open(out, NULL, '{');
        json_add_text(out, "kind", cost_wastes[i].key);
        json_add_double(out, "gpu_hours", NS_HOURS(all->waste_ns[i]));
        json_add_double(out, "cost", find_money(r, all->waste_cost[i]));
        json_close(out, '}');
    }
    json_close(out, ']');
    add_periods(r, out);
    str_add(out, "}\n");
}

static void add_text(Str *out, const char *name, const char *text)
{
    json_add_text(out, name, text[0] ? text : NULL);
}

static void add_row_owner(const LedgerRow *row, Str *out)
{
    if (!row->held) {
        json_add_null(out, "owner");
        return;
    }
    json_open(out, "owner", '{');
    add_text(out, "user", row->owner.user);
    add_text(out, "job", row->owner.job);
    add_text(out, "account", row->owner.account);
    add_text(out, "pod", row->owner.pod);
    add_text(out, "namespace", row->owner.namespace);
    add_text(out, "container", row->owner.container);
    json_close(out, '}');
}

void cost_row_json(const LedgerRow *row, Str *out)
{
    json_open(out, NULL, '{');
    json_add_u64(out, "id", row->id);
    add_text(out, "boot_id", row->boot_id);
    json_add_time(out, "from", row->from_real_ns);
    json_add_time(out, "to", row->until_real_ns);
    json_add_text(out, "device", row->device);
    add_text(out, "model", row->name);
    add_text(out, "profile", row->profile);
    json_add_bool(out, "held", row->held);
    add_row_owner(row, out);
    json_add_text(out, "share_kind", row->held ? attributions[row->share_kind].key : NULL);
    json_add_text(out, "quality", ledger_qualities[row->quality].key);
    add_text(out, "price", row->price);
    for (int i = 0; i < LEDGER_AMOUNT_END; i++)
        json_add_u64(out, ledger_amounts[i].key, row->amounts[i]);
    for (int i = 0; i < LEDGER_PEAK_END; i++)
        json_add_u64(out, ledger_peaks[i].key, row->peaks[i]);
    json_close(out, '}');
}

/* --- text and CSV: the same lines --------------------------------------------------------------------------------- */

/* A line of the table. Numbers that mean nothing are NaN. */
typedef struct Line {
    const char *kind, *name;
    double hours, effective, measured, kwh, cost;
} Line;

typedef void (*WriteLine)(const CostReport *r, const Line *line, void *context);

static void write_lines(const CostReport *r, WriteLine write, void *context)
{
    const CostSum *all = &r->all;
    const Line totals[] = {
        {"unallocated", "", NS_HOURS(all->waste_ns[COST_UNALLOCATED]), NAN, NAN, NAN,
         find_money(r, all->waste_cost[COST_UNALLOCATED])},
        {"unhealthy", "", find_hours(all, LEDGER_UNHEALTHY_NS), NAN, NAN, NAN,
         find_money(r, all->waste_cost[COST_UNHEALTHY])},
        {"unknown", "", find_hours(all, LEDGER_GAPS_NS), NAN, NAN, NAN, NAN},
        {"total", "", find_total_hours(all), find_hours(all, LEDGER_EFF_NS), find_hours(all, LEDGER_MEASURED_NS),
         find_kwh(all), find_money(r, all->cost)},
    };

    for (size_t i = 0; i < r->owners.len; i++) {
        const CostOwner *owner = r->owners.at[i];
        const Line line = {"owner",
                           owner->name,
                           find_hours(&owner->sum, LEDGER_ALLOC_NS),
                           find_hours(&owner->sum, LEDGER_EFF_NS),
                           find_hours(&owner->sum, LEDGER_MEASURED_NS),
                           find_kwh(&owner->sum),
                           find_money(r, owner->sum.cost)};

        write(r, &line, context);
    }
    for (size_t i = 0; i < ARRAY_LEN(totals); i++)
        write(r, &totals[i], context);
}

void cost_csv_text(Str *out, const char *text)
{
    if (!strpbrk(text, ",\"\n\r")) {
        str_add(out, text);
        return;
    }
    str_addc(out, '"');
    for (; *text; text++) {
        if (*text == '"')
            str_addc(out, '"');
        str_addc(out, *text);
    }
    str_addc(out, '"');
}

static void add_csv_number(Str *out, double value)
{
    char digits[NUMBER_DOUBLE_MAX];

    str_addc(out, ',');
    if (isfinite(value))
        str_addn(out, digits, number_write_double(digits, value));
}

static void write_csv_line(const CostReport *r, const Line *line, void *context)
{
    Str *out = context;
    const double values[] = {line->hours, line->effective, line->kwh, line->cost};

    str_addf(out, "%s,", line->kind);
    cost_csv_text(out, line->name);
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        add_csv_number(out, values[i]);
    str_addf(out, ",%s\n", isfinite(line->cost) ? r->currency : "");
}

void cost_csv(const CostReport *r, Str *out)
{
    str_add(out, "kind,owner,gpu_hours,effective_gpu_hours,energy_kwh,cost,currency\n");
    write_lines(r, write_csv_line, out);
}

typedef struct TextTable {
    Str *out;
    int name_width;
    bool money;
} TextTable;

static void add_cell(Str *out, int width, double value, int places)
{
    if (isfinite(value))
        str_addf(out, "  %*.*f", width, places, value);
    else
        str_addf(out, "  %*s", width, "-");
}

static const char *find_line_name(const CostReport *r, const Line *line, char room[64])
{
    if (strcmp(line->kind, "owner") != 0)
        return line->kind;
    if (line->name[0])
        return line->name;
    snprintf(room, 64, "(no %s known)", cost_bys[r->by].key);
    return room;
}

static void write_text_line(const CostReport *r, const Line *line, void *context)
{
    const TextTable *t = context;
    char room[64];

    str_addf(t->out, "%-*.*s", t->name_width, t->name_width, find_line_name(r, line, room));
    add_cell(t->out, 12, line->hours, 2);
    if (line->measured > 0)
        str_addf(t->out, "  %8.0f %%", 100 * line->effective / line->measured);
    else
        str_addf(t->out, "  %10s", "-");
    add_cell(t->out, 10, line->kwh, 2);
    if (t->money)
        add_cell(t->out, 12, line->cost, 2);
    str_addc(t->out, '\n');
}

/* Columns of numbers, with and without money. */
enum { NUMBERS_WIDTH = 38, MONEY_WIDTH = 14, NAME_LEAST = 16, NAME_MOST = 60 };

static int find_name_width(const CostReport *r, const CostStyle *style, bool money)
{
    const int room = (int)style->width - NUMBERS_WIDTH - (money ? MONEY_WIDTH : 0);
    size_t longest = NAME_LEAST;
    char name[64];

    for (size_t i = 0; i < r->owners.len; i++) {
        const size_t len = strlen(find_line_name(r, &(Line){.kind = "owner", .name = r->owners.at[i]->name}, name));

        longest = len > longest ? len : longest;
    }
    const int width = longest > NAME_MOST ? NAME_MOST : (int)longest;
    return width > room ? (room < NAME_LEAST ? NAME_LEAST : room) : width;
}

static void add_waste_text(const CostReport *r, const TextTable *t)
{
    str_addf(t->out, "\n%-*s  %12s%s%s\n", t->name_width, "WASTE", "GPU HOURS", t->money ? "            " : "",
             t->money ? "COST" : "");
    for (int i = 0; i < COST_WASTE_END; i++) {
        char name[32];

        snprintf(name, sizeof name, "%s", cost_wastes[i].key);
        for (char *at = name; *at; at++)
            *at = *at == '_' ? ' ' : *at;
        str_addf(t->out, "%-*s", t->name_width, name);
        add_cell(t->out, 12, NS_HOURS(r->all.waste_ns[i]), 2);
        if (t->money)
            add_cell(t->out, 14, find_money(r, r->all.waste_cost[i]), 2);
        str_addf(t->out, "  %s\n", cost_wastes[i].text);
    }
}

void cost_text(const CostReport *r, const CostStyle *style, Str *out)
{
    const bool money = r->currency[0] && !r->mixed;
    TextTable t = {.out = out, .name_width = find_name_width(r, style, money), .money = money};
    char from[CLOCK_TEXT_MAX], until[CLOCK_TEXT_MAX], by[32];

    if (r->gpu_count == 0 || r->until_real_ns == 0) {
        str_add(out, "The ledger has no rows of this time.\n");
        return;
    }
    clock_format(from, r->from_real_ns);
    clock_format(until, r->until_real_ns);
    str_addf(out, "%s%s%zu GPU%s, %.19s to %.19s UTC%s%s\n\n", r->node, r->node[0] ? ", " : "", r->gpu_count,
             r->gpu_count == 1 ? "" : "s", from, until, money ? ", money in " : "", money ? r->currency : "");
    snprintf(by, sizeof by, "%s", cost_bys[r->by].key);
    for (char *at = by; *at; at++)
        *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    str_addf(out, "%-*s  %12s  %10s  %10s%s\n", t.name_width, by, "GPU HOURS", "EFFECTIVE", "kWh",
             money ? "          COST" : "");
    write_lines(r, write_text_line, &t);
    add_waste_text(r, &t);
    if (r->carbon)
        str_addf(out, "\n%.2f kg of carbon dioxide for the energy.\n", r->all.carbon_g / 1000);
    if (money && r->all.unpriced_ns > 0)
        str_addf(out, "\n%.2f GPU hours have no price.\n", NS_HOURS(r->all.unpriced_ns));
}
