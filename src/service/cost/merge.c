/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of nodes, as cost_json wrote them, into one. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/number.h"
#include "service/cost/cost.h"

CLEANUP_POINTER(json_t, json_decref);

/* How far the sum of a report's parts may be from its total. */
#define LAW_SHARE 1e-6
#define AMOUNT_MAX 1e30

typedef struct Source {
    const char *name; /* of the file, for errors */
    const json_t *root;
} Source;

static int read_number(const Source *s, const json_t *object, const char *key, double *ret, Err *err)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value) || !(json_number_value(value) >= 0))
        return err_set(err, -EINVAL, "'%s': no number '%s'; it must be written by 'stoker cost --json'", s->name, key);
    *ret = json_number_value(value);
    return 0;
}

/* Money that is not known is null, a carbon intensity that is not known is missing. */
static int add_money(const Source *s, const json_t *object, const char *key, double scale, double *into, Err *err)
{
    const json_t *value = json_object_get(object, key);
    double amount = 0;

    if (value && !json_is_null(value))
        TRY(read_number(s, object, key, &amount, err));
    if (!(amount * scale < AMOUNT_MAX))
        return err_set(err, -ERANGE, "'%s': '%s' is too large", s->name, key);
    *into += scale * amount;
    return 0;
}

static int add_amount(const Source *s, const json_t *object, const char *key, double scale, double *into, Err *err)
{
    double value;

    TRY(read_number(s, object, key, &value, err));
    if (!(value * scale < AMOUNT_MAX))
        return err_set(err, -ERANGE, "'%s': '%s' is too large", s->name, key);
    *into += round(value * scale);
    return 0;
}

static int merge_sum(const Source *s, const json_t *object, CostSum *into, Err *err)
{
    for (size_t i = 0; i < cost_field_count; i++)
        TRY(add_amount(s, object, cost_fields[i].key, cost_fields[i].scale, &into->amounts[cost_fields[i].amount],
                       err));
    TRY(add_money(s, object, "cost", 1, &into->cost, err));
    return add_money(s, object, "carbon_kg", 1000, &into->carbon_g, err);
}

static int merge_owner(const Source *s, CostReport *into, const json_t *object, double *hours, double *cost, Err *err)
{
    const char *name = json_string_value(json_object_get(object, "owner"));
    double own_hours;

    if (!name || strlen(name) >= COST_NAME_CAP)
        return err_set(err, -EINVAL, "'%s': an owner without a name, or with one that is too long", s->name);
    TRY(read_number(s, object, "gpu_hours", &own_hours, err));
    *hours += own_hours;
    TRY(add_money(s, object, "cost", 1, cost, err));
    return merge_sum(s, object, cost_find_owner(into, name), err);
}

/* `cost`: of what no owner pays is added. */
static int merge_waste(const Source *s, CostReport *into, double *cost, Err *err)
{
    const json_t *list = json_object_get(s->root, "waste");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        const int kind = word_find(cost_wastes, COST_WASTE_END, json_string_value(json_object_get(row, "kind")));

        if (kind < 0)
            continue; /* of a newer Stoker */
        TRY(add_amount(s, row, "gpu_hours", COST_HOUR_NS, &into->all.waste_ns[kind], err));
        TRY(add_money(s, row, "cost", 1, &into->all.waste_cost[kind], err));
        if (kind == COST_UNALLOCATED || kind == COST_UNHEALTHY)
            TRY(add_money(s, row, "cost", 1, cost, err));
    }
    return 0;
}

/* A node's time counts once. */
static int merge_period(const Source *s, const json_t *object, CostReport *into, Err *err)
{
    static const char *const keys[] = {"from", "to"};
    const char *node = json_string_value(json_object_get(object, "node"));
    const json_t *gpus = json_object_get(object, "gpus");
    CostPeriod period = {0};
    uint64_t *const times[] = {&period.from_real_ns, &period.until_real_ns};

    if (!json_is_integer(gpus) || json_integer_value(gpus) < 0)
        return err_set(err, -EINVAL, "'%s' is no report of 'stoker cost --json'", s->name);
    period.gpu_count = (size_t)json_integer_value(gpus);
    snprintf(period.node, sizeof period.node, "%s", node ? node : "");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *text = json_string_value(json_object_get(object, keys[i]));

        if (!text || clock_parse(text, times[i], NULL) < 0)
            return err_set(err, -EINVAL, "'%s': '%s' is no instant; has the report any rows?", s->name, keys[i]);
    }
    for (size_t i = 0; i < into->merged.len; i++) {
        const CostPeriod *other = &into->merged.at[i];

        if (strcmp(other->node, period.node) == 0 && other->from_real_ns < period.until_real_ns &&
            period.from_real_ns < other->until_real_ns)
            return err_set(err, -EEXIST, "'%s': time of node '%s' is in a file before it already", s->name,
                           period.node);
    }
    into->from_real_ns = number_min_u64(into->from_real_ns, period.from_real_ns);
    into->until_real_ns = number_max_u64(into->until_real_ns, period.until_real_ns);
    vec_push(&into->merged, period);
    return 0;
}

/* Of one node, or of all that a sum of reports is made of. */
static int merge_periods(const Source *s, CostReport *into, Err *err)
{
    const json_t *nodes = json_object_get(s->root, "nodes");

    if (!nodes)
        return merge_period(s, s->root, into, err);
    for (size_t i = 0; i < json_array_size(nodes); i++)
        TRY(merge_period(s, json_array_get(nodes, i), into, err));
    return 0;
}

/* A node with several reports has its GPUs once. */
static size_t count_gpus(const CostReport *r)
{
    size_t sum = 0;

    for (size_t i = 0; i < r->merged.len; i++) {
        size_t before = 0;

        for (size_t k = 0; k < i; k++)
            if (strcmp(r->merged.at[k].node, r->merged.at[i].node) == 0 && r->merged.at[k].gpu_count > before)
                before = r->merged.at[k].gpu_count;
        sum += r->merged.at[i].gpu_count > before ? r->merged.at[i].gpu_count - before : 0;
    }
    return sum;
}

static int merge_head(const Source *s, CostReport *into, Err *err)
{
    const char *by = json_string_value(json_object_get(s->root, "by"));
    const char *currency = json_string_value(json_object_get(s->root, "currency"));
    const int found = word_find(cost_bys, COST_BY_END, by);

    if (!by)
        return err_set(err, -EINVAL, "'%s' is no report of 'stoker cost --json'", s->name);
    if (found < 0)
        return err_set(err, -EINVAL, "'%s' is summed up by '%.40s', which this Stoker does not know", s->name, by);
    if (into->merged.len > 0 && found != (int)into->by)
        return err_set(err, -EINVAL, "'%s' is summed up by %s, the files before it by %s", s->name, by,
                       cost_bys[into->by].key);
    into->by = (CostBy)found;
    if (currency && !into->currency[0])
        snprintf(into->currency, sizeof into->currency, "%s", currency);
    into->mixed |= currency && strcmp(currency, into->currency) != 0;
    TRY(merge_periods(s, into, err));
    into->gpu_count = count_gpus(into);
    return 0;
}

/* What owners, unallocated and unhealthy hours cost against the whole. */
static int check_money(const Source *s, double sum, Err *err)
{
    double total = 0;

    TRY(add_money(s, s->root, "cost", 1, &total, err));
    if (fabs(sum - total) > LAW_SHARE * total)
        return err_set(err, -EDOM,
                       "'%s' does not add up: owners, unallocated and unhealthy hours cost %.6f, the whole %.6f",
                       s->name, sum, total);
    return 0;
}

/* Owners and the rest against the total. */
static int check_law(const Source *s, double owners, Err *err)
{
    static const char *const rest[] = {"unallocated_gpu_hours", "unhealthy_gpu_hours", "unknown_gpu_hours"};
    double total, part, sum = owners;

    TRY(read_number(s, s->root, "total_gpu_hours", &total, err));
    for (size_t i = 0; i < ARRAY_LEN(rest); i++) {
        TRY(read_number(s, s->root, rest[i], &part, err));
        sum += part;
    }
    if (fabs(sum - total) > LAW_SHARE * total)
        return err_set(err, -EDOM,
                       "'%s' does not add up: owners, unallocated, unhealthy and unknown are %.6f GPU hours, its total "
                       "is %.6f",
                       s->name, sum, total);
    return 0;
}

/* Whether a report has no cost because its prices are in several currencies: time with a price, and no currency. */
static bool is_mixed(const json_t *root)
{
    const double total = json_number_value(json_object_get(root, "total_gpu_hours")),
                 unknown = json_number_value(json_object_get(root, "unknown_gpu_hours")),
                 unpriced = json_number_value(json_object_get(root, "unpriced_gpu_hours"));

    return !json_is_string(json_object_get(root, "currency")) && total - unknown - unpriced > LAW_SHARE * total;
}

int cost_merge(CostReport *into, const char *name, const char *text, size_t len, Err *err)
{
    json_error_t error;
    CLEANUP(json_decref_at) json_t *root = json_loadb(text, len, 0, &error);
    const Source s = {.name = name, .root = root};
    const json_t *owners = json_object_get(root, "owners");
    double sum = 0, cost = 0;

    if (!root)
        return err_set(err, -EINVAL, "'%s':%d:%d: %s", name, error.line, error.column, error.text);
    TRY(merge_head(&s, into, err));
    for (size_t i = 0; i < json_array_size(owners); i++)
        TRY(merge_owner(&s, into, json_array_get(owners, i), &sum, &cost, err));
    TRY(check_law(&s, sum, err));
    TRY(merge_waste(&s, into, &cost, err));
    TRY(check_money(&s, cost, err));
    into->mixed |= is_mixed(root);
    into->all.amounts[LEDGER_ALLOC_NS] += round(sum * COST_HOUR_NS);
    TRY(add_amount(&s, root, "unallocated_gpu_hours", COST_HOUR_NS, &into->all.amounts[LEDGER_ALLOC_NS], err));
    TRY(add_amount(&s, root, "unhealthy_gpu_hours", COST_HOUR_NS, &into->all.amounts[LEDGER_UNHEALTHY_NS], err));
    TRY(add_amount(&s, root, "unknown_gpu_hours", COST_HOUR_NS, &into->all.amounts[LEDGER_GAPS_NS], err));
    TRY(add_amount(&s, root, "unpriced_gpu_hours", COST_HOUR_NS, &into->all.unpriced_ns, err));
    TRY(add_amount(&s, root, "effective_gpu_hours", COST_HOUR_NS, &into->all.amounts[LEDGER_EFF_NS], err));
    TRY(add_amount(&s, root, "measured_gpu_hours", COST_HOUR_NS, &into->all.amounts[LEDGER_MEASURED_NS], err));
    TRY(add_amount(&s, root, "energy_kwh", COST_KWH_MJ, &into->all.amounts[LEDGER_ACTIVE_MJ], err));
    TRY(add_money(&s, root, "cost", 1, &into->all.cost, err));
    TRY(add_money(&s, root, "carbon_kg", 1000, &into->all.carbon_g, err));
    into->carbon |= json_is_number(json_object_get(root, "carbon_kg"));
    return 0;
}
