/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker cost`: rows of the ledger summed up by owner, and written as text, JSON (docs/cost.schema.json), CSV and
 * FOCUS. Pure, one thread.
 */

#include "base/map.h"
#include "base/str.h"
#include "engine/ledger/ledger.h"

enum { COST_NAME_CAP = 400, COST_NODE_CAP = 256 };

/* WORD(id, key): what owners are summed up by. */
#define COST_BY_TABLE(WORD)                                                                                            \
    OWNER_KEY_TABLE(WORD, COST_BY_)                                                                                    \
    WORD(COST_BY_GPU, "gpu")

typedef enum CostBy { COST_BY_TABLE(WORD_ID) COST_BY_END } CostBy;

/* WORD(id, key, text): GPU time that brought nothing. The last is a part of time that brought something. */
#define COST_WASTE_TABLE(WORD)                                                                                         \
    WORD(COST_UNALLOCATED, "unallocated", "nobody held it")                                                            \
    WORD(COST_HELD_IDLE, "held_idle", "held, and nothing ran")                                                         \
    WORD(COST_INEFFICIENT, "inefficient", "held, and its multiprocessors waited")                                      \
    WORD(COST_UNHEALTHY, "unhealthy", "could not be used")                                                             \
    WORD(COST_THROTTLED, "throttled", "heat or a power brake held the clocks down")

typedef enum CostWaste { COST_WASTE_TABLE(WORD_ID) COST_WASTE_END } CostWaste;

/* Sums of rows: not whole numbers, as the nanoseconds of 585 GPU years do not fit into 64 bits. Money is in the
 * report's currency, over the time that has a price. */
typedef struct CostSum {
    double amounts[LEDGER_AMOUNT_END];
    double waste_ns[COST_WASTE_END];
    double cost, waste_cost[COST_WASTE_END];
    double unpriced_ns; /* of what would cost */
    double carbon_g;    /* of the energy for which an intensity is known */
} CostSum;

typedef struct CostOwner {
    char name[COST_NAME_CAP]; /* "" not known by what is asked for */
    CostSum sum;              /* alloc_ns: its GPU time */
} CostOwner;

typedef struct CostPeriod {
    char node[COST_NODE_CAP];
    uint64_t from_real_ns, until_real_ns;
    size_t gpu_count;
    char currency[PRICE_CURRENCY_CAP]; /* for FOCUS: of rows without a price */
} CostPeriod;

typedef struct CostReport {
    CostBy by;
    char node[COST_NODE_CAP];
    char currency[PRICE_CURRENCY_CAP]; /* "" no row has a price */
    bool carbon;                       /* a carbon intensity is known */
    bool mixed;                        /* rows in several currencies: no cost can be said */
    uint64_t from_real_ns, until_real_ns;
    size_t gpu_count;
    VEC(CostPeriod) merged; /* reports of nodes that it is made of */
    CostSum all;
    VEC(CostOwner *) owners; /* after cost_finish: the most expensive first */
    Map by_name;             /* the same */
    VEC(char *) gpus;
} CostReport;

void cost_init(CostReport *report, CostBy by, const char *node);
void cost_add(CostReport *report, const LedgerRow *row);
void cost_finish(CostReport *report);
void cost_done(CostReport *report); /* accepts a zeroed one */

typedef struct CostStyle {
    size_t width;
} CostStyle;

/* Adds the report of a node, as cost_json wrote it; `name` is the file's, for errors. -EINVAL for another text or one
 * that is summed up by something else, -EEXIST where the node's time is in the report already, -EDOM where its parts do
 * not add up to its total; the report is of no use then.
 */
int cost_merge(CostReport *into, const char *name, const char *text, size_t len, Err *err);

void cost_text(const CostReport *report, const CostStyle *style, Str *out);
void cost_json(const CostReport *report, Str *out);
void cost_csv(const CostReport *report, Str *out);

/* FOCUS 1.2 as CSV: a line per row of a billing period (a calendar month), and one for what of it was unhealthy; what
 * is not known is no charge. */
void cost_focus_head(Str *out);
void cost_focus_row(const CostPeriod *period, const LedgerRow *row, Str *out);

/* One row of the ledger as a JSON object on one line: id, boot_id, from, to, device, model, profile, held, owner (null:
 * nobody), share_kind, quality, price, and the amounts by their names. */
void cost_row_json(const LedgerRow *row, Str *out);

/* For the other files of this folder: amounts as numbers of the JSON, the owner with this name (made where there is
 * none), and a cell of CSV. */
#define COST_HOUR_NS 3.6e12
#define COST_KWH_MJ 3.6e9
typedef struct CostField {
    const char *key;
    LedgerAmount amount;
    double scale; /* amount for a unit of the number */
} CostField;
extern const CostField cost_fields[];
extern const size_t cost_field_count;
CostSum *cost_find_owner(CostReport *report, const char *name);
void cost_csv_text(Str *out, const char *text);
/* Grams of carbon dioxide of the row's energy; 0 where no intensity is known. */
double cost_row_carbon(const LedgerRow *row);

extern const WordRow cost_bys[COST_BY_END], cost_wastes[COST_WASTE_END];
