/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What an hour of a GPU costs: a schedule of prices by board and MIG profile, each from a day on, and how much carbon
 * dioxide a kilowatt hour stands for, from a day on too. Read from the
 * configuration; a row of the ledger keeps the price that was in force as a text, so that a later change never rewrites
 * the past. Pure; a Prices lies in the arena it was read into.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/yaml.h"
#include "model/word.h"

enum { PRICE_ID_CAP = 64, PRICE_CURRENCY_CAP = 8, PRICE_TEXT_CAP = 200, PRICES_MAX = 256 };

/* WORD(id, key) */
#define PRICE_KIND_TABLE(WORD)                                                                                         \
    WORD(PRICE_ON_DEMAND, "on_demand")                                                                                 \
    WORD(PRICE_RESERVED, "reserved")                                                                                   \
    WORD(PRICE_SPOT, "spot")                                                                                           \
    WORD(PRICE_OWNED, "owned")

typedef enum PriceKind { PRICE_KIND_TABLE(WORD_ID) PRICE_KIND_END } PriceKind;

typedef struct Price {
    char id[PRICE_ID_CAP];
    PriceKind kind;
    const char *board;     /* whole words of the product's name, any case; "" any */
    const char *profile;   /* of a MIG device; "" of whole GPUs, and of instances that have no price of their own */
    uint64_t from_real_ns; /* in force since then, until the next of the same board and profile */
    double per_hour;       /* of a whole GPU, or of an instance of `profile` */
} Price;

/* Of a kilowatt hour that a GPU took, with what the facility takes beside it. */
typedef struct Carbon {
    uint64_t from_real_ns;
    double g_per_kwh;
} Carbon;

typedef struct Prices {
    char currency[PRICE_CURRENCY_CAP];
    size_t carbon_count;
    const Carbon *carbon;
    size_t count;
    Price at[];
} Prices;

/* Reads `prices:` of the configuration; NULL gives *ret NULL. Errors name file, line and key. */
int prices_read(const YamlNode *node, Arena *arena, const Prices **ret, Err *err);

/*
 * The price in force for a device, as the text that a row keeps; "" where there is none. `slices` is the share of the
 * whole GPU that the device is (1: all of it): the text has the price of a whole GPU's hour, so that GPU time times it
 * is the cost. Where a carbon intensity is in force, it is the text's last word.
 */
void prices_find(const Prices *prices, const char *board, const char *profile, double slices, uint64_t real_ns,
                 char text[PRICE_TEXT_CAP]);

/* What price_find wrote: id, kind, hourly price of a whole GPU and currency. */
typedef struct PriceTag {
    char id[PRICE_ID_CAP], currency[PRICE_CURRENCY_CAP];
    PriceKind kind;
    double per_hour;
} PriceTag;
/* -EINVAL for a text without a price, "" too. */
int price_tag_read(const char *text, PriceTag *ret);
/* Grams of carbon dioxide for a kilowatt hour, as the text says; NaN where it does not. */
double price_read_carbon(const char *text);

extern const WordRow price_kinds[PRICE_KIND_END];
