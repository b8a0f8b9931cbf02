/* SPDX-License-Identifier: Apache-2.0 */
/* service/cost: rows of the ledger summed up: what adds up, what is waste, and what it costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "service/cost/cost.h"

#define FROM_NS (UINT64_C(490000) * NS_PER_H)

/* A row of so many hours. */
static LedgerRow row_of(const char *user, const char *device, double hours)
{
    LedgerRow row = {.from_real_ns = FROM_NS, .until_real_ns = FROM_NS + NS_PER_DAY, .held = user[0] != '\0'};

    snprintf(row.owner.user, sizeof row.owner.user, "%s", user);
    snprintf(row.device, sizeof row.device, "%s", device);
    row.amounts[LEDGER_ALLOC_NS] = (uint64_t)(hours * (double)NS_PER_H);
    return row;
}

static void set_hours(LedgerRow *row, LedgerAmount amount, double hours)
{
    row->amounts[amount] = (uint64_t)(hours * (double)NS_PER_H);
}

static void set_price(LedgerRow *row, const char *price)
{
    snprintf(row->price, sizeof row->price, "%s", price);
}

/* A day of two GPUs: ann 20 h, bob 10 h of an instance, nobody 12, broken 4 of them bob's, not known 2. */
static void fill_report(CostReport *report, CostBy by)
{
    LedgerRow ann = row_of("ann", "gpu/GPU-1", 20), bob = row_of("bob", "gpu/GPU-2/gi/1/ci/0", 10),
              nobody = row_of("", "gpu/GPU-2", 12);

    set_price(&ann, "h100 on_demand 3 EUR");
    set_hours(&ann, LEDGER_MEASURED_NS, 18);
    set_hours(&ann, LEDGER_IDLE_NS, 4);
    set_hours(&ann, LEDGER_EFF_NS, 9);
    set_hours(&ann, LEDGER_THROTTLED_NS, 1);
    ann.amounts[LEDGER_ACTIVE_MJ] = 36000000000;
    ann.amounts[LEDGER_IDLE_MJ] = 3600000000;
    snprintf(ann.owner.job, sizeof ann.owner.job, "4711");
    snprintf(ann.owner.account, sizeof ann.owner.account, "physics");
    set_price(&bob, "h100 on_demand 3 EUR");
    set_hours(&bob, LEDGER_UNHEALTHY_NS, 4);
    snprintf(bob.owner.pod, sizeof bob.owner.pod, "web-0");
    snprintf(bob.owner.namespace, sizeof bob.owner.namespace, "prod");
    snprintf(bob.owner.container, sizeof bob.owner.container, "main, first");
    set_price(&nobody, "h100-2 on_demand 2 EUR");
    set_hours(&nobody, LEDGER_GAPS_NS, 2);
    cost_init(report, by, "node7");
    cost_add(report, &bob);
    cost_add(report, &ann);
    cost_add(report, &nobody);
    cost_finish(report);
}

static json_t *read_json(const CostReport *report)
{
    CLEANUP(str_done) Str out = str_limited(1 << 20);
    json_error_t error;

    cost_json(report, &out);
    json_t *root = json_loads(out.text, 0, &error);
    if (!root)
        fail_msg("%s: %s", error.text, out.text);
    return root;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value))
        fail_msg("no number '%s'", key);
    return json_number_value(value);
}

#define assert_near(value, expected) assert_true(fabs((value) - (expected)) < 1e-9)

static void all_adds_up(void **state UNUSED)
{
    CostReport report;
    double sum = 0;

    fill_report(&report, COST_BY_USER);
    json_t *root = read_json(&report);
    const json_t *owners = json_object_get(root, "owners");
    for (size_t i = 0; i < json_array_size(owners); i++)
        sum += number_of(json_array_get(owners, i), "gpu_hours");
    sum += number_of(root, "unallocated_gpu_hours") + number_of(root, "unhealthy_gpu_hours") +
           number_of(root, "unknown_gpu_hours");
    assert_near(sum, 48);
    assert_near(number_of(root, "total_gpu_hours"), 48);
    assert_near(number_of(root, "unallocated_gpu_hours"), 12);
    assert_near(number_of(root, "unhealthy_gpu_hours"), 4);
    assert_near(number_of(root, "unknown_gpu_hours"), 2);
    assert_int_equal(json_integer_value(json_object_get(root, "gpus")), 2);
    const json_t *ann = json_array_get(owners, 0);
    assert_string_equal(json_string_value(json_object_get(ann, "owner")), "ann");
    assert_near(number_of(ann, "gpu_hours"), 20);
    assert_near(number_of(ann, "effective_gpu_hours"), 9);
    assert_near(number_of(ann, "energy_kwh"), 11);
    assert_near(number_of(ann, "idle_energy_kwh"), 1);
    assert_near(number_of(ann, "cost"), 60);
    assert_near(number_of(json_array_get(owners, 1), "cost"), 30); /* not the hours in which it was broken */
    assert_near(number_of(root, "cost"), 60 + 30 + 12 + 24);
    json_decref(root);
    cost_done(&report);
}

static void waste_by_kind(void **state UNUSED)
{
    static const struct {
        const char *kind;
        double hours, cost;
    } kinds[] = {
        {"unallocated", 12, 24}, {"held_idle", 4, 12}, {"inefficient", 5, 15},
        {"unhealthy", 4, 12},    {"throttled", 1, 3},
    };
    CostReport report;

    fill_report(&report, COST_BY_USER);
    json_t *root = read_json(&report);
    const json_t *waste = json_object_get(root, "waste");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const json_t *row = json_array_get(waste, i);

        assert_string_equal(json_string_value(json_object_get(row, "kind")), kinds[i].kind);
        assert_near(number_of(row, "gpu_hours"), kinds[i].hours);
        assert_near(number_of(row, "cost"), kinds[i].cost);
    }
    json_decref(root);
    cost_done(&report);
}

static void summed_up_by(void **state UNUSED)
{
    static const char *const names[COST_BY_END][2] = {
        [COST_BY_USER] = {"ann", "bob"},
        [COST_BY_JOB] = {"4711", ""},
        [COST_BY_POD] = {"", "prod/web-0"},
        [COST_BY_NAMESPACE] = {"", "prod"},
        [COST_BY_ACCOUNT] = {"physics", ""},
        [COST_BY_CONTAINER] = {"", "prod/web-0/main, first"},
        [COST_BY_GPU] = {"gpu/GPU-1", "gpu/GPU-2"},
    };

    for (int by = 0; by < COST_BY_END; by++) {
        CostReport report;

        fill_report(&report, (CostBy)by);
        assert_int_equal(report.owners.len, 2);
        assert_string_equal(report.owners.at[0]->name, names[by][0]);
        assert_string_equal(report.owners.at[1]->name, names[by][1]);
        cost_done(&report);
    }
}

/* Without a price there is no cost, and none in two currencies. */
static void without_a_price(void **state UNUSED)
{
    LedgerRow ann = row_of("ann", "gpu/GPU-1", 20), bob = row_of("bob", "gpu/GPU-1", 2);
    CostReport report;

    cost_init(&report, COST_BY_USER, "");
    cost_add(&report, &ann);
    cost_finish(&report);
    json_t *root = read_json(&report);
    assert_true(json_is_null(json_object_get(root, "cost")));
    assert_true(json_is_null(json_object_get(root, "currency")));
    assert_near(number_of(root, "unpriced_gpu_hours"), 20);
    json_decref(root);
    set_price(&ann, "a spot 1 EUR");
    set_price(&bob, "b spot 1 USD");
    cost_add(&report, &ann);
    assert_false(report.mixed);
    cost_add(&report, &bob);
    assert_true(report.mixed);
    root = read_json(&report);
    assert_true(json_is_null(json_object_get(root, "cost")));
    json_decref(root);
    cost_done(&report);
}

static void as_csv(void **state UNUSED)
{
    CLEANUP(str_done) Str out = str_limited(1 << 20);
    CostReport report;

    fill_report(&report, COST_BY_CONTAINER);
    cost_csv(&report, &out);
    assert_string_equal(out.text, "kind,owner,gpu_hours,effective_gpu_hours,energy_kwh,cost,currency\n"
                                  "owner,,20,9,11,60,EUR\n"
                                  "owner,\"prod/web-0/main, first\",10,0,0,30,EUR\n"
                                  "unallocated,,12,,,24,EUR\n"
                                  "unhealthy,,4,,,12,EUR\n"
                                  "unknown,,2,,,,\n"
                                  "total,,48,9,11,126,EUR\n");
    cost_done(&report);
}

/* Of the energy of rows with an intensity; without any it is left out. */
static void carbon_of_the_energy(void **state UNUSED)
{
    CLEANUP(str_done) Str text = str_limited(1 << 20), json = str_limited(1 << 20), focus = str_limited(1 << 20);
    LedgerRow ann = row_of("ann", "gpu/GPU-1", 20), bob = row_of("bob", "gpu/GPU-1", 4),
              nobody = row_of("", "gpu/GPU-2", 12);
    CostReport report, sum;

    ann.amounts[LEDGER_ACTIVE_MJ] = 36000000000;
    ann.amounts[LEDGER_IDLE_MJ] = 3600000000;
    bob.amounts[LEDGER_ACTIVE_MJ] = nobody.amounts[LEDGER_IDLE_MJ] = 7200000000;
    set_price(&ann, "h100 on_demand 3 EUR g=500");
    set_price(&bob, "h100 on_demand 3 EUR");
    set_price(&nobody, "g=250");
    cost_init(&report, COST_BY_USER, "node7");
    cost_add(&report, &bob);
    json_t *root = NULL;
    cost_finish(&report);
    root = read_json(&report);
    assert_null(json_object_get(root, "carbon_kg"));
    json_decref(root);
    cost_add(&report, &ann);
    cost_add(&report, &nobody);
    cost_finish(&report);
    root = read_json(&report);
    assert_near(number_of(root, "carbon_kg"), 5.5 + 0.5);
    const json_t *owners = json_object_get(root, "owners");
    assert_near(number_of(json_array_get(owners, 0), "carbon_kg"), 5.5);
    assert_near(number_of(json_array_get(owners, 0), "cost"), 60);
    assert_near(number_of(json_array_get(owners, 1), "carbon_kg"), 0);
    json_decref(root);
    cost_text(&report, &(CostStyle){.width = 80}, &text);
    assert_non_null(strstr(text.text, "\n6.00 kg of carbon dioxide for the energy.\n"));
    cost_json(&report, &json);
    cost_init(&sum, COST_BY_USER, "");
    assert_int_equal(cost_merge(&sum, "node7.json", json.text, json.len, NULL), 0);
    cost_finish(&sum);
    root = read_json(&sum);
    assert_near(number_of(root, "carbon_kg"), 6);
    assert_near(number_of(json_array_get(json_object_get(root, "owners"), 0), "carbon_kg"), 5.5);
    json_decref(root);
    cost_focus_row(&(CostPeriod){.node = "node7"}, &ann, &focus);
    assert_non_null(strstr(focus.text, "\"\"stoker/co2_g\"\":5500"));
    cost_done(&sum);
    cost_done(&report);
}

static void as_text(void **state UNUSED)
{
    const CostStyle style = {.width = 80};
    CLEANUP(str_done) Str out = str_limited(1 << 20);
    CostReport report;

    fill_report(&report, COST_BY_JOB);
    cost_text(&report, &style, &out);
    assert_string_equal(out.text,
                        "node7, 2 GPUs, 2025-11-24T16:00:00 to 2025-11-25T16:00:00 UTC, money in EUR\n"
                        "\n"
                        "JOB                  GPU HOURS   EFFECTIVE         kWh          COST\n"
                        "4711                     20.00        50 %       11.00         60.00\n"
                        "(no job known)           10.00           -        0.00         30.00\n"
                        "unallocated              12.00           -           -         24.00\n"
                        "unhealthy                 4.00           -           -         12.00\n"
                        "unknown                   2.00           -           -             -\n"
                        "total                    48.00        50 %       11.00        126.00\n"
                        "\n"
                        "WASTE                GPU HOURS            COST\n"
                        "unallocated              12.00           24.00  nobody held it\n"
                        "held idle                 4.00           12.00  held, and nothing ran\n"
                        "inefficient               5.00           15.00  held, and its multiprocessors waited\n"
                        "unhealthy                 4.00           12.00  could not be used\n"
                        "throttled                 1.00            3.00  heat or a power brake held the clocks down\n");
    cost_done(&report);
}

static void as_text_without_all_prices(void **state UNUSED)
{
    LedgerRow ann = row_of("ann", "gpu/GPU-1", 20), bob = row_of("bob", "gpu/GPU-1", 4);
    CLEANUP(str_done) Str out = str_limited(1 << 20);
    CostReport report;

    cost_init(&report, COST_BY_USER, "");
    cost_finish(&report);
    cost_text(&report, &(CostStyle){.width = 80}, &out);
    assert_string_equal(out.text, "The ledger has no rows of this time.\n");
    cost_done(&report);
    cost_init(&report, COST_BY_USER, "");
    cost_add(&report, &bob);
    cost_finish(&report);
    str_clear(&out);
    cost_text(&report, &(CostStyle){.width = 80}, &out);
    assert_ptr_equal(strstr(out.text, "1 GPU, 2025-11-24T16:00:00 to 2025-11-25T16:00:00 UTC\n\nUSER "), out.text);
    assert_null(strstr(out.text, "COST"));
    assert_null(strstr(out.text, "no price"));
    set_price(&ann, "h100 on_demand 3 EUR");
    cost_add(&report, &ann);
    cost_finish(&report);
    str_clear(&out);
    cost_text(&report, &(CostStyle){.width = 80}, &out);
    assert_non_null(strstr(out.text, "\n4.00 GPU hours have no price.\n"));
    cost_done(&report);
}

/* --- FOCUS -------------------------------------------------------------------------------------------------------- */

/* Cell `column` of line `line`, with quotes taken off. */
static const char *find_cell(const char *csv, size_t line, const char *column, char cell[512])
{
    size_t at = 0, wanted = SIZE_MAX;

    for (const char *from = csv; line < SIZE_MAX; line--) {
        const bool head = from == csv;

        for (at = 0; *from && *from != '\n'; at++) {
            const bool quoted = *from == '"';
            size_t len = 0;

            from += quoted;
            while (*from && (quoted ? *from != '"' || from[1] == '"' : *from != ',' && *from != '\n')) {
                from += quoted && *from == '"';
                cell[len++] = *from++;
            }
            cell[len] = '\0';
            from += quoted;
            if (head && strcmp(cell, column) == 0)
                wanted = at;
            if (line == 0 && at == wanted)
                return cell;
            from += *from == ',';
            if (from[-1] == ',' && (*from == '\n' || !*from))
                cell[0] = '\0';
        }
        from += *from == '\n';
    }
    fail_msg("no cell %s", column);
    return NULL;
}

#define assert_cell(csv, line, column, expected)                                                                       \
    assert_string_equal(find_cell(csv, line, column, (char[512]){0}), expected)

static void as_focus(void **state UNUSED)
{
    const CostPeriod period = {"node7", FROM_NS, FROM_NS + 31 * NS_PER_DAY, 1, "EUR"};
    LedgerRow row = row_of("ann", "gpu/GPU-1", 6), nobody = row_of("", "gpu/GPU-1", 2);
    CLEANUP(str_done) Str out = str_limited(1 << 20);

    snprintf(row.name, sizeof row.name, "NVIDIA H100, 80GB");
    snprintf(row.owner.namespace, sizeof row.owner.namespace, "prod");
    set_price(&row, "h100 spot 2.5 EUR");
    set_hours(&row, LEDGER_UNHEALTHY_NS, 3);
    set_hours(&row, LEDGER_EFF_NS, 1.5);
    cost_focus_head(&out);
    cost_focus_row(&period, &row, &out);
    cost_focus_row(&period, &nobody, &out);
    assert_cell(out.text, 1, "BilledCost", "15");
    assert_cell(out.text, 1, "EffectiveCost", "15");
    assert_cell(out.text, 1, "BillingCurrency", "EUR");
    assert_cell(out.text, 1, "BillingPeriodStart", "2025-11-24T16:00:00Z");
    assert_cell(out.text, 1, "ChargePeriodEnd", "2025-11-25T16:00:00Z");
    assert_cell(out.text, 1, "ChargeCategory", "Usage");
    assert_cell(out.text, 1, "ChargeDescription", "NVIDIA H100, 80GB, held by an owner");
    assert_cell(out.text, 1, "CapacityReservationStatus", "Used");
    assert_cell(out.text, 1, "ConsumedQuantity", "6");
    assert_cell(out.text, 1, "ConsumedUnit", "GPU-Hours");
    assert_cell(out.text, 1, "PricingCategory", "Dynamic");
    assert_cell(out.text, 1, "ResourceId", "gpu/GPU-1");
    assert_cell(out.text, 1, "ServiceCategory", "Compute");
    assert_cell(out.text, 1, "SkuId", "NVIDIA H100, 80GB");
    assert_cell(out.text, 1, "SkuMeter", "GPU Time");
    assert_cell(out.text, 1, "SkuPriceDetails", "{\"GpuCount\":1,\"x_PriceId\":\"h100\",\"x_PriceKind\":\"spot\"}");
    assert_cell(out.text, 1, "SkuPriceId", "h100/NVIDIA H100, 80GB");
    assert_cell(out.text, 1, "SubAccountId", "prod");
    assert_cell(out.text, 1, "SubAccountType", "Namespace");
    assert_cell(out.text, 1, "Tags",
                "{\"stoker/user\":\"ann\",\"stoker/namespace\":\"prod\",\"stoker/eff_gpu_h\":1.5,"
                "\"stoker/held_idle_gpu_h\":0,\"stoker/quality\":\"none\",\"stoker/share_kind\":\"unknown\","
                "\"stoker/energy_kwh\":0}");
    assert_cell(out.text, 2, "BilledCost", "7.5");
    assert_cell(out.text, 2, "SubAccountId", "");
    assert_cell(out.text, 2, "CapacityReservationStatus", "Unused");
    assert_cell(out.text, 2, "Tags", "{\"stoker/waste_class\":\"unhealthy\"}");
    assert_cell(out.text, 2, "SubAccountType", "");
    assert_cell(out.text, 3, "BilledCost", "0");
    assert_cell(out.text, 3, "PricingQuantity", "2");
}

/* Without a price: what may be no null is what was billed, in the currency of the others. */
static void focus_without_a_price(void **state UNUSED)
{
    static const char *const never_null[] = {
        "BilledCost",         "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd",
        "BillingPeriodStart", "ChargeCategory",   "ChargeDescription",  "ChargePeriodEnd", "ChargePeriodStart",
        "ConsumedQuantity",   "ConsumedUnit",     "ContractedCost",     "EffectiveCost",   "InvoiceIssuerName",
        "ListCost",           "PricingQuantity",  "PricingUnit",        "ProviderName",    "PublisherName",
        "ResourceId",         "ResourceType",     "ServiceCategory",    "ServiceName",     "SkuId",
        "SkuMeter",
    };
    const CostPeriod period = {"node7", FROM_NS, FROM_NS + 31 * NS_PER_DAY, 1, "EUR"};
    LedgerRow row = row_of("ann", "gpu/GPU-1/gi/7/ci/0", 0);
    CLEANUP(str_done) Str out = str_limited(1 << 20);

    row.amounts[LEDGER_ALLOC_NS] = 72 * NS_PER_MS;
    snprintf(row.name, sizeof row.name, "NVIDIA H100");
    snprintf(row.profile, sizeof row.profile, "1g.10gb");
    snprintf(row.owner.account, sizeof row.owner.account, "physics");
    cost_focus_head(&out);
    cost_focus_row(&period, &row, &out);
    for (size_t i = 0; i < ARRAY_LEN(never_null); i++)
        assert_string_not_equal(find_cell(out.text, 1, never_null[i], (char[512]){0}), "");
    assert_cell(out.text, 1, "BillingCurrency", "EUR");
    assert_cell(out.text, 1, "ChargeDescription", "NVIDIA H100, held by an owner, without a price");
    assert_cell(out.text, 1, "ConsumedQuantity", "2E-05");
    assert_cell(out.text, 1, "ContractedUnitPrice", "0");
    assert_cell(out.text, 1, "ListUnitPrice", "0");
    assert_cell(out.text, 1, "PricingCategory", "Other");
    assert_cell(out.text, 1, "SkuId", "NVIDIA H100 MIG 1g.10gb");
    assert_cell(out.text, 1, "SkuPriceDetails", "");
    assert_cell(out.text, 1, "SkuPriceId", "unpriced/NVIDIA H100 MIG 1g.10gb");
    assert_cell(out.text, 1, "SubAccountType", "Slurm account");
    str_clear(&out);
    set_price(&row, "h100 reserved 2.5 EUR");
    cost_focus_head(&out);
    cost_focus_row(&period, &row, &out);
    assert_cell(out.text, 1, "PricingCategory", "Standard"); /* "Committed" needs the purchase's row */
    assert_cell(out.text, 1, "SkuId", "NVIDIA H100 MIG 1g.10gb");
}

/* --- several nodes ------------------------------------------------------------------------------------------------ */

static Str text_of(CostBy by, const char *node)
{
    Str out = str_limited(1 << 20);
    CostReport report;

    fill_report(&report, by);
    snprintf(report.node, sizeof report.node, "%s", node);
    cost_json(&report, &out);
    cost_done(&report);
    return out;
}

static void nodes_are_merged(void **state UNUSED)
{
    static const char *const names[] = {"a", "b"};
    CLEANUP(str_done) Str csv = str_limited(1 << 20);
    CostReport report;
    Err err;

    cost_init(&report, COST_BY_JOB, "");
    for (size_t i = 0; i < 2; i++) {
        CLEANUP(str_done) Str text = text_of(COST_BY_CONTAINER, names[i]);

        if (cost_merge(&report, names[i], text.text, text.len, &err) < 0)
            fail_msg("%s", err.text);
    }
    cost_finish(&report);
    cost_csv(&report, &csv);
    assert_string_equal(csv.text, "kind,owner,gpu_hours,effective_gpu_hours,energy_kwh,cost,currency\n"
                                  "owner,,40,18,22,120,EUR\n"
                                  "owner,\"prod/web-0/main, first\",20,0,0,60,EUR\n"
                                  "unallocated,,24,,,48,EUR\n"
                                  "unhealthy,,8,,,24,EUR\n"
                                  "unknown,,4,,,,\n"
                                  "total,,96,18,22,252,EUR\n");
    json_t *root = read_json(&report);
    assert_near(number_of(json_array_get(json_object_get(root, "waste"), COST_INEFFICIENT), "gpu_hours"), 10);
    assert_int_equal(json_integer_value(json_object_get(root, "gpus")), 4);
    json_decref(root);
    cost_done(&report);
}

static void reports_that_do_not_fit(void **state UNUSED)
{
    CLEANUP(str_done)
    Str first = text_of(COST_BY_USER, "a"), other = text_of(COST_BY_JOB, "b"), wrong = text_of(COST_BY_USER, "c");
    CLEANUP(str_done) Str dear = text_of(COST_BY_USER, "d"), cheap = text_of(COST_BY_USER, "e");
    char *hours = strstr(wrong.text, "\"gpu_hours\":20"), *more = strstr(dear.text, "\"cost\":60"),
         *less = strstr(cheap.text, "\"cost\":60");
    const struct {
        const char *text, *error;
        int rc;
    } cases[] = {
        {first.text, "of node 'a' is in a file before it already", -EEXIST},
        {other.text, "summed up by job, the files before it by user", -EINVAL},
        {wrong.text, "does not add up", -EDOM},
        {dear.text, "hours cost 136.000000, the whole 126.000000", -EDOM},
        {cheap.text, "no number 'cost'", -EINVAL},
        {"{}", "no report", -EINVAL},
        {"[", "'x':1:", -EINVAL},
        {"{\"by\":\"colour\",\"gpus\":1}", "'colour', which", -EINVAL},
        {"{\"by\":\"user\",\"gpus\":1,\"from\":null}", "has the report any rows", -EINVAL},
        {"{\"by\":\"user\",\"gpus\":0,\"from\":null}", "has the report any rows", -EINVAL}, /* a node may have none */
        {"{\"by\":\"user\",\"gpus\":-1}", "no report", -EINVAL},
    };

    assert_non_null(hours);
    memcpy(hours, "\"gpu_hours\":21", strlen("\"gpu_hours\":21"));
    assert_non_null(more);
    memcpy(more, "\"cost\":70", strlen("\"cost\":70"));
    assert_non_null(less);
    memcpy(less, "\"cost\":-6", strlen("\"cost\":-6"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CostReport report;
        Err err = {0};

        cost_init(&report, COST_BY_USER, "");
        assert_int_equal(cost_merge(&report, "first", first.text, first.len, &err), 0);
        assert_int_equal(cost_merge(&report, "x", cases[i].text, strlen(cases[i].text), &err), cases[i].rc);
        if (!strstr(err.text, cases[i].error))
            fail_msg("%s: not '%s'", err.text, cases[i].error);
        cost_done(&report);
    }
}

/* Replaces the first `from` behind `behind`. */
static void change_text(Str *text, const char *behind, const char *from, const char *to)
{
    CLEANUP(str_done) Str rest = str_limited(1 << 20);
    const char *at = strstr(strstr(text->text, behind), from);

    assert_non_null(at);
    str_add(&rest, at + strlen(from));
    str_cut(text, (size_t)(at - text->text));
    str_add(text, to);
    str_add(text, rest.text);
}

static void damaged_reports_are_refused(void **state UNUSED)
{
    static const struct {
        const char *behind, *from, *to, *error; /* error NULL: it is merged */
        int rc;
    } cases[] = {
        {"\"owners\"", "\"owner\":\"ann\"", "\"ouner\":\"ann\"",
         "an owner without a name, or with one that is too long", -EINVAL},
        {"\"waste\"", "\"kind\":\"unallocated\"", "\"kind\":\"another one\"", "cost 102.000000, the whole 126.000000",
         -EDOM},
        {"\"waste\"", "\"kind\":\"throttled\"", "\"kind\":\"new_waste\"", NULL, 0},
        {"\"owners\"", "\"effective_gpu_hours\":9,", "\"effective_gpu_hours\":9e99,",
         "'effective_gpu_hours' is too large", -ERANGE},
        {"\"owners\"", "\"cost\":60", "\"cost\":1e300", "'cost' is too large", -ERANGE},
        {"\"owners\"", "\"cost\":60", "\"cost\":[]", "no number 'cost'", -EINVAL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(str_done) Str text = text_of(COST_BY_USER, "a");
        CostReport report;
        Err err = {0};

        change_text(&text, cases[i].behind, cases[i].from, cases[i].to);
        cost_init(&report, COST_BY_USER, "");
        const int rc = cost_merge(&report, "x", text.text, text.len, &err);
        if (rc != cases[i].rc || (cases[i].error && !strstr(err.text, cases[i].error)))
            fail_msg("row %zu: %d, %s", i, rc, err.text);
        cost_done(&report);
    }
}

static void merge_text(CostReport *report, const char *name, const Str *text)
{
    Err err;

    if (cost_merge(report, name, text->text, text->len, &err) < 0)
        fail_msg("%s", err.text);
}

/* The rows of 600 GPUs and a year: more nanoseconds than a number of 64 bits holds, and more bytes times seconds. */
static void a_large_fleet_is_added_up(void **state UNUSED)
{
    LedgerRow row = row_of("ann", "gpu/GPU-1", 100.0 * 8766);
    CLEANUP(str_done) Str text = str_limited(1 << 20);
    CostReport node, fleet;

    row.amounts[LEDGER_MEMORY_BYTE_S] = UINT64_C(1) << 62;
    cost_init(&node, COST_BY_USER, "a");
    for (int i = 0; i < 6; i++)
        cost_add(&node, &row);
    cost_finish(&node);
    cost_json(&node, &text);
    cost_init(&fleet, COST_BY_USER, "");
    merge_text(&fleet, "a", &text);
    const CostReport *const reports[] = {&node, &fleet};
    for (size_t i = 0; i < ARRAY_LEN(reports); i++) {
        json_t *root = read_json(reports[i]);
        const json_t *ann = json_array_get(json_object_get(root, "owners"), 0);

        assert_near(number_of(ann, "gpu_hours") / (600.0 * 8766), 1);
        assert_near(number_of(root, "total_gpu_hours") / (600.0 * 8766), 1);
        assert_near(number_of(ann, "memory_gib_hours") / (6.0 * (UINT64_C(1) << 32) / 3600), 1);
        json_decref(root);
    }
    cost_done(&node);
    cost_done(&fleet);
}

/* A sum of reports is a report too; it says which nodes are in it. */
static void sums_are_merged(void **state UNUSED)
{
    CLEANUP(str_done) Str a = text_of(COST_BY_USER, "a"), b = text_of(COST_BY_USER, "b"), sum = str_limited(1 << 20);
    CostReport first, both;
    Err err = {0};

    cost_init(&first, COST_BY_USER, "");
    merge_text(&first, "a", &a);
    cost_finish(&first);
    cost_json(&first, &sum);
    cost_init(&both, COST_BY_USER, "");
    merge_text(&both, "b", &b);
    merge_text(&both, "sum", &sum);
    assert_int_equal(both.gpu_count, 4);
    assert_int_equal(cost_merge(&both, "a again", a.text, a.len, &err), -EEXIST);
    assert_non_null(strstr(err.text, "time of node 'a' is in a file before it"));
    cost_done(&first);
    cost_done(&both);
}

/* A node's two months are one node's GPUs. */
static void gpus_count_once(void **state UNUSED)
{
    CLEANUP(str_done) Str text = text_of(COST_BY_USER, "a"), later = str_limited(1 << 20);
    CostReport report;

    str_add(&later, text.text);
    memcpy(strstr(later.text, "2025-11-24T"), "2025-12-24T", strlen("2025-12-24T"));
    memcpy(strstr(later.text, "2025-11-25T"), "2025-12-25T", strlen("2025-12-25T"));
    cost_init(&report, COST_BY_USER, "");
    merge_text(&report, "november", &text);
    merge_text(&report, "december", &later);
    assert_int_equal(report.gpu_count, 2);
    assert_near(report.all.amounts[LEDGER_GAPS_NS], 4.0 * NS_PER_H);
    cost_done(&report);
}

/* A report whose own prices are in several currencies has no cost: the sum has none, instead of too little. */
static void a_cost_that_is_not_known_stays_so(void **state UNUSED)
{
    CLEANUP(str_done) Str euro = text_of(COST_BY_USER, "a"), both = str_limited(1 << 20);
    LedgerRow row = row_of("ann", "gpu/GPU-1", 1);
    CostReport report;

    cost_init(&report, COST_BY_USER, "b");
    set_price(&row, "a on_demand 3 EUR");
    cost_add(&report, &row);
    set_price(&row, "b on_demand 3 USD");
    cost_add(&report, &row);
    cost_finish(&report);
    cost_json(&report, &both);
    cost_done(&report);
    cost_init(&report, COST_BY_USER, "");
    merge_text(&report, "a", &euro);
    assert_false(report.mixed);
    merge_text(&report, "b", &both);
    assert_true(report.mixed);
    cost_done(&report);

    str_clear(&both); /* each has one currency, and not the same */
    cost_init(&report, COST_BY_USER, "b");
    cost_add(&report, &row);
    cost_finish(&report);
    assert_false(report.mixed);
    cost_json(&report, &both);
    cost_done(&report);
    cost_init(&report, COST_BY_USER, "");
    merge_text(&report, "a", &euro);
    merge_text(&report, "b", &both);
    assert_true(report.mixed);
    cost_done(&report);
}

/* One row as it is: all of its names and amounts. */
static void a_row_is_written_whole(void **state UNUSED)
{
    static const struct {
        const char *key, *value;
    } texts[] = {{"boot_id", "b1"},  {"device", "gpu/GPU-1"}, {"model", "NVIDIA H100"}, {"profile", "1g.10gb"},
                 {"quality", "gpm"}, {"share_kind", "even"},  {"price", "a spot 1 EUR"}},
      owners[] = {{"user", "ann"},  {"job", "4711"},       {"account", "physics"},
                  {"pod", "web-0"}, {"namespace", "prod"}, {"container", "main"}};
    LedgerRow row = row_of("ann", "gpu/GPU-1", 1);
    CLEANUP(str_done) Str out = str_limited(1 << 20), nobody = str_limited(1 << 20);

    row.id = 7;
    snprintf(row.boot_id, sizeof row.boot_id, "b1");
    snprintf(row.name, sizeof row.name, "NVIDIA H100");
    snprintf(row.profile, sizeof row.profile, "1g.10gb");
    snprintf(row.owner.job, sizeof row.owner.job, "4711");
    snprintf(row.owner.account, sizeof row.owner.account, "physics");
    snprintf(row.owner.pod, sizeof row.owner.pod, "web-0");
    snprintf(row.owner.namespace, sizeof row.owner.namespace, "prod");
    snprintf(row.owner.container, sizeof row.owner.container, "main");
    set_price(&row, "a spot 1 EUR");
    row.quality = LEDGER_QUALITY_GPM;
    row.share_kind = ATTRIBUTION_EVEN;
    for (uint64_t i = 0; i < LEDGER_AMOUNT_END; i++)
        row.amounts[i] = 100 + i;
    row.peaks[LEDGER_PEAK_MEMORY] = 7;
    cost_row_json(&row, &out);
    json_t *root = json_loads(out.text, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "id")), 7);
    assert_string_equal(json_string_value(json_object_get(root, "from")), "2025-11-24T16:00:00.000Z");
    assert_string_equal(json_string_value(json_object_get(root, "to")), "2025-11-25T16:00:00.000Z");
    assert_true(json_is_true(json_object_get(root, "held")));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_string_equal(json_string_value(json_object_get(root, texts[i].key)), texts[i].value);
    for (size_t i = 0; i < ARRAY_LEN(owners); i++)
        assert_string_equal(json_string_value(json_object_get(json_object_get(root, "owner"), owners[i].key)),
                            owners[i].value);
    for (int i = 0; i < LEDGER_AMOUNT_END; i++)
        assert_int_equal(json_integer_value(json_object_get(root, ledger_amounts[i].key)), 100 + i);
    assert_int_equal(json_integer_value(json_object_get(root, "memory_peak_bytes")), 7);
    json_decref(root);
    row.held = false;
    row.profile[0] = '\0';
    cost_row_json(&row, &nobody);
    root = json_loads(nobody.text, 0, NULL);
    assert_non_null(root);
    assert_true(json_is_null(json_object_get(root, "owner")) && json_is_null(json_object_get(root, "share_kind")));
    assert_true(json_is_null(json_object_get(root, "profile")) && json_is_false(json_object_get(root, "held")));
    json_decref(root);
}

/* The most expensive first, of one cost the one with more time, then by name; GPUs are told apart by their whole names.
 */
static void owners_are_in_order(void **state UNUSED)
{
    static const struct {
        const char *user, *device, *price;
        double hours;
    } rows[] = {{"eve", "gpu/GPU-1", "", 2},
                {"dan", "gpu/GPU-2", "", 2},
                {"cat", "gpu/GPU-12", "", 3},
                {"bob", "gpu/GPU-1/gi/1/ci/0", "a spot 1 EUR", 1},
                {"ann", "gpu/GPU-1", "a spot 2 EUR", 1}};
    static const char *const order[] = {"ann", "bob", "cat", "dan", "eve"};
    CostReport report;

    cost_init(&report, COST_BY_USER, "");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        LedgerRow row = row_of(rows[i].user, rows[i].device, rows[i].hours);

        set_price(&row, rows[i].price);
        cost_add(&report, &row);
    }
    cost_finish(&report);
    assert_int_equal(report.gpu_count, 3);
    assert_int_equal(report.owners.len, ARRAY_LEN(order));
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        assert_string_equal(report.owners.at[i]->name, order[i]);
    cost_done(&report);
}

/* Names have the room that the numbers leave, 16 to 60 columns. */
static void names_fit_the_width(void **state UNUSED)
{
    static const struct {
        size_t width;
        bool money;
        size_t line, name; /* columns of the head line, letters of the name */
    } widths[] = {{200, false, 38 + 60, 60}, {98, false, 98, 60}, {97, false, 97, 59},    {60, false, 60, 22},
                  {20, false, 38 + 16, 16},  {80, true, 80, 28},  {10, true, 52 + 16, 16}};
    char name[101];

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        CLEANUP(str_done) Str out = str_limited(1 << 20);
        LedgerRow row = row_of("", "gpu/GPU-1", 1);
        CostReport report;

        snprintf(row.owner.pod, sizeof row.owner.pod, "%s", name);
        row.held = true;
        set_price(&row, widths[i].money ? "a spot 1 EUR" : "");
        cost_init(&report, COST_BY_POD, "n");
        cost_add(&report, &row);
        cost_finish(&report);
        cost_text(&report, &(CostStyle){.width = widths[i].width}, &out);
        const char *line = strstr(out.text, "\nxxx");
        assert_non_null(line);
        assert_int_equal(strcspn(line + 1, "\n"), widths[i].line);
        assert_int_equal(strspn(line + 1, "x"), widths[i].name);
        cost_done(&report);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_written_whole),
        cmocka_unit_test(owners_are_in_order),
        cmocka_unit_test(names_fit_the_width),
        cmocka_unit_test(all_adds_up),
        cmocka_unit_test(waste_by_kind),
        cmocka_unit_test(summed_up_by),
        cmocka_unit_test(without_a_price),
        cmocka_unit_test(carbon_of_the_energy),
        cmocka_unit_test(as_csv),
        cmocka_unit_test(as_text),
        cmocka_unit_test(as_text_without_all_prices),
        cmocka_unit_test(as_focus),
        cmocka_unit_test(focus_without_a_price),
        cmocka_unit_test(nodes_are_merged),
        cmocka_unit_test(reports_that_do_not_fit),
        cmocka_unit_test(damaged_reports_are_refused),
        cmocka_unit_test(a_large_fleet_is_added_up),
        cmocka_unit_test(sums_are_merged),
        cmocka_unit_test(gpus_count_once),
        cmocka_unit_test(a_cost_that_is_not_known_stays_so),
    };

    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
