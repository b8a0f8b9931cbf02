/* SPDX-License-Identifier: Apache-2.0 */
/* FOCUS 1.2 (FinOps Open Cost and Usage Specification): its mandatory columns, and those that say who used what. An
 * empty cell is its null. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "service/cost/cost.h"

enum { TAGS_MAX = 8192, DETAILS_MAX = 512, SKU_CAP = DEVICE_NAME_CAP + READING_PROFILE_CAP + 8 };

/* What one line charges. */
typedef struct Charge {
    const CostPeriod *period;
    const LedgerRow *row;
    const char *waste; /* "" somebody used it */
    const Owner *owner;
    bool priced;
    double hours, per_hour; /* 0 without a price: what is billed is */
    PriceTag tag;
} Charge;

typedef void (*WriteCell)(const Charge *charge, Str *out);

static void write_number(double value, Str *out)
{
    char digits[NUMBER_DOUBLE_MAX];
    const size_t len = number_write_double(digits, value);
    char *exponent = memchr(digits, 'e', len);

    if (exponent)
        *exponent = 'E'; /* its NumericFormat */
    str_addn(out, digits, len);
}

static void write_time(uint64_t real_ns, Str *out)
{
    char text[CLOCK_TEXT_MAX];

    clock_format(text, real_ns);
    str_addf(out, "%.19sZ", text);
}

static void write_cost(const Charge *c, Str *out)
{
    write_number(c->hours * c->per_hour, out);
}

static void write_unit_price(const Charge *c, Str *out)
{
    write_number(c->per_hour, out);
}

static void write_hours(const Charge *c, Str *out)
{
    write_number(c->hours, out);
}

static void write_unit(const Charge *c UNUSED, Str *out)
{
    str_add(out, "GPU-Hours"); /* the specification's UnitFormat */
}

static void write_currency(const Charge *c, Str *out)
{
    str_add(out, c->priced ? c->tag.currency : c->period->currency);
}

static void write_node(const Charge *c, Str *out)
{
    cost_csv_text(out, c->period->node);
}

static void write_billing_start(const Charge *c, Str *out)
{
    write_time(c->period->from_real_ns, out);
}

static void write_billing_end(const Charge *c, Str *out)
{
    write_time(c->period->until_real_ns, out);
}

static void write_charge_start(const Charge *c, Str *out)
{
    write_time(c->row->from_real_ns, out);
}

/* The end is not part of it: a second that has begun is. */
static void write_charge_end(const Charge *c, Str *out)
{
    write_time(c->row->until_real_ns + NS_PER_S - 1, out);
}

static void write_usage(const Charge *c UNUSED, Str *out)
{
    str_add(out, "Usage");
}

static void write_nothing(const Charge *c UNUSED, Str *out UNUSED) {}

static const char *name_board(const Charge *c)
{
    return c->row->name[0] ? c->row->name : "GPU";
}

static void write_description(const Charge *c, Str *out)
{
    char text[256];

    snprintf(text, sizeof text, "%s, %s%s", name_board(c), c->waste[0] ? c->waste : "held by an owner",
             c->priced ? "" : ", without a price");
    cost_csv_text(out, text);
}

/* A reserved price is an agreed rate: "Committed" is for discounts whose purchase is a charge too. */
static void write_category(const Charge *c, Str *out)
{
    static const char *const categories[PRICE_KIND_END] = {[PRICE_ON_DEMAND] = "Standard",
                                                           [PRICE_RESERVED] = "Standard",
                                                           [PRICE_SPOT] = "Dynamic",
                                                           [PRICE_OWNED] = "Other"};

    str_add(out, c->priced ? categories[c->tag.kind] : "Other");
}

/* Board and MIG profile, as nvidia-smi writes them: what is sold, at whatever price. */
static void format_sku(const Charge *c, char sku[SKU_CAP])
{
    const char *profile = c->row->profile;

    snprintf(sku, SKU_CAP, "%s%s%s", name_board(c), profile[0] ? " MIG " : "", profile);
}

static void write_sku(const Charge *c, Str *out)
{
    char sku[SKU_CAP];

    format_sku(c, sku);
    cost_csv_text(out, sku);
}

static void write_meter(const Charge *c UNUSED, Str *out)
{
    str_add(out, "GPU Time");
}

/* A SKU price belongs to one SKU, and a price of the configuration may be of several boards. */
static void write_price_id(const Charge *c, Str *out)
{
    char sku[SKU_CAP], text[SKU_CAP + PRICE_ID_CAP + 1];

    format_sku(c, sku);
    snprintf(text, sizeof text, "%s/%s", c->priced ? c->tag.id : "unpriced", sku);
    cost_csv_text(out, text);
}

static void write_price_details(const Charge *c, Str *out)
{
    CLEANUP(str_done) Str json = str_limited(DETAILS_MAX);

    if (!c->priced)
        return;
    json_open(&json, NULL, '{');
    json_add_u64(&json, "GpuCount", 1);
    json_add_text(&json, "x_PriceId", c->tag.id);
    json_add_text(&json, "x_PriceKind", price_kinds[c->tag.kind].key);
    json_close(&json, '}');
    cost_csv_text(out, json.text);
}

static void write_provider(const Charge *c UNUSED, Str *out)
{
    str_add(out, "Stoker");
}

static void write_compute(const Charge *c UNUSED, Str *out)
{
    str_add(out, "Compute");
}

static void write_service(const Charge *c UNUSED, Str *out)
{
    str_add(out, "GPU");
}

static void write_resource(const Charge *c, Str *out)
{
    cost_csv_text(out, c->row->device);
}

static void write_resource_name(const Charge *c, Str *out)
{
    cost_csv_text(out, c->row->name);
}

static void write_resource_type(const Charge *c, Str *out)
{
    cost_csv_text(out, c->row->profile[0] ? c->row->profile : "GPU");
}

static void write_account(const Charge *c, Str *out)
{
    cost_csv_text(out, c->owner->namespace[0] ? c->owner->namespace : c->owner->account);
}

static void write_account_type(const Charge *c, Str *out)
{
    if (c->owner->namespace[0])
        str_add(out, "Namespace");
    else if (c->owner->account[0])
        str_add(out, "Slurm account");
}

static void write_status(const Charge *c, Str *out)
{
    str_add(out, c->waste[0] ? "Unused" : "Used");
}

/* Tags of a provider have a prefix of its own. */
#define TAG(name) "stoker/" name

static void add_tag(Str *json, const char *name, const char *value)
{
    if (value[0])
        json_add_text(json, name, value);
}

static void write_tags(const Charge *c, Str *out)
{
    const bool used = !c->waste[0];
    const uint64_t *a = c->row->amounts;
    CLEANUP(str_done) Str json = str_limited(TAGS_MAX);

    json_open(&json, NULL, '{');
    add_tag(&json, TAG("user"), c->owner->user);
    add_tag(&json, TAG("job"), c->owner->job);
    add_tag(&json, TAG("account"), c->owner->account);
    add_tag(&json, TAG("namespace"), c->owner->namespace);
    add_tag(&json, TAG("pod"), c->owner->pod);
    add_tag(&json, TAG("container"), c->owner->container);
    add_tag(&json, TAG("waste_class"), c->waste);
    if (used) {
        json_add_double(&json, TAG("eff_gpu_h"), (double)a[LEDGER_EFF_NS] / (double)NS_PER_H);
        json_add_double(&json, TAG("held_idle_gpu_h"), (double)a[LEDGER_IDLE_NS] / (double)NS_PER_H);
        json_add_text(&json, TAG("quality"), ledger_qualities[c->row->quality].key);
        json_add_text(&json, TAG("share_kind"), attributions[c->row->share_kind].key);
    }
    if (strcmp(c->waste, "unhealthy") != 0)
        json_add_double(&json, TAG("energy_kwh"), ((double)a[LEDGER_ACTIVE_MJ] + (double)a[LEDGER_IDLE_MJ]) / 3.6e9);
    if (strcmp(c->waste, "unhealthy") != 0 && cost_row_carbon(c->row) > 0)
        json_add_double(&json, TAG("co2_g"), cost_row_carbon(c->row));
    json_close(&json, '}');
    cost_csv_text(out, json.text);
}

/* Names and order as the specification has them, sorted by name. */
static const struct {
    const char *name;
    WriteCell write;
} columns[] = {
    {"BilledCost", write_cost},
    {"BillingAccountId", write_node},
    {"BillingAccountName", write_node},
    {"BillingCurrency", write_currency},
    {"BillingPeriodEnd", write_billing_end},
    {"BillingPeriodStart", write_billing_start},
    {"CapacityReservationId", write_node},
    {"CapacityReservationStatus", write_status},
    {"ChargeCategory", write_usage},
    {"ChargeClass", write_nothing},
    {"ChargeDescription", write_description},
    {"ChargePeriodEnd", write_charge_end},
    {"ChargePeriodStart", write_charge_start},
    {"ConsumedQuantity", write_hours},
    {"ConsumedUnit", write_unit},
    {"ContractedCost", write_cost},
    {"ContractedUnitPrice", write_unit_price},
    {"EffectiveCost", write_cost},
    {"InvoiceIssuerName", write_provider},
    {"ListCost", write_cost},
    {"ListUnitPrice", write_unit_price},
    {"PricingCategory", write_category},
    {"PricingQuantity", write_hours},
    {"PricingUnit", write_unit},
    {"ProviderName", write_provider},
    {"PublisherName", write_provider},
    {"ResourceId", write_resource},
    {"ResourceName", write_resource_name},
    {"ResourceType", write_resource_type},
    {"ServiceCategory", write_compute},
    {"ServiceName", write_service},
    {"SkuId", write_sku},
    {"SkuMeter", write_meter},
    {"SkuPriceDetails", write_price_details},
    {"SkuPriceId", write_price_id},
    {"SubAccountId", write_account},
    {"SubAccountName", write_account},
    {"SubAccountType", write_account_type},
    {"Tags", write_tags},
};

void cost_focus_head(Str *out)
{
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        str_addf(out, "%s%s", i ? "," : "", columns[i].name);
    str_addc(out, '\n');
}

static void write_charge(Charge *c, uint64_t ns, Str *out)
{
    c->hours = (double)ns / (double)NS_PER_H;
    if (ns == 0)
        return;
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        if (i > 0)
            str_addc(out, ',');
        columns[i].write(c, out);
    }
    str_addc(out, '\n');
}

void cost_focus_row(const CostPeriod *period, const LedgerRow *row, Str *out)
{
    static const Owner nobody;
    Charge c = {.period = period, .row = row, .waste = row->held ? "" : "unallocated"};

    c.owner = row->held ? &row->owner : &nobody;
    c.priced = price_tag_read(row->price, &c.tag) == 0;
    c.per_hour = c.priced ? c.tag.per_hour : 0;
    write_charge(&c, row->amounts[LEDGER_ALLOC_NS], out);
    c.owner = &nobody; /* nobody pays for a broken device */
    c.waste = "unhealthy";
    write_charge(&c, row->amounts[LEDGER_UNHEALTHY_NS], out);
}
