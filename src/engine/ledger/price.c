/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ledger/price.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/number.h"
#include "model/device.h"

enum { HOURS_A_YEAR = 8766 };
#define PRICE_HIGHEST 1e9
#define CARBON_HIGHEST 100000
#define CARBON_WORD "g="

const WordRow price_kinds[] = {PRICE_KIND_TABLE(WORD_ROW)};

/* --- the configuration -------------------------------------------------------------------------------------------- */

/* Of `owned:`. Capital, residual value and upkeep per year in money, life in years. */
typedef struct Owned {
    double capital, residual, life, utilization, power_w, pue, kwh, upkeep;
} Owned;

static const struct {
    const char *key;
    size_t offset;
    double min, max, def; /* NaN: it must be given */
} owned_keys[] = {
    {"capital", offsetof(Owned, capital), 0, PRICE_HIGHEST, (double)NAN},
    {"residual", offsetof(Owned, residual), 0, PRICE_HIGHEST, 0},
    {"life_years", offsetof(Owned, life), 0.1, 100, (double)NAN},
    {"utilization", offsetof(Owned, utilization), 0.01, 1, 1},
    {"power_w", offsetof(Owned, power_w), 0, 100000, 0},
    {"pue", offsetof(Owned, pue), 1, 10, 1},
    {"price_per_kwh", offsetof(Owned, kwh), 0, 1000, 0},
    {"upkeep_per_year", offsetof(Owned, upkeep), 0, PRICE_HIGHEST, 0},
};

static int read_number(const YamlNode *node, const char *key, double min, double max, double *ret, Err *err)
{
    double value;

    TRY(yaml_want(node, YAML_SCALAR, key, err));
    if (number_parse_double(node->text, min, max, &value, NULL) < 0)
        return yaml_fail(node, err, "'%s' must be a number from %g to %g, not '%.40s'", key, min, max, node->text);
    *ret = value;
    return 0;
}

static int read_owned(const YamlNode *node, double *ret_per_hour, Err *err)
{
    Owned owned;

    TRY(yaml_want(node, YAML_MAP, "owned", err));
    for (size_t i = 0; i < node->len; i++) {
        size_t k = 0;

        while (k < ARRAY_LEN(owned_keys) && strcmp(node->pairs[i].key->text, owned_keys[k].key) != 0)
            k++;
        if (k == ARRAY_LEN(owned_keys))
            return yaml_fail(node->pairs[i].key, err, "'%.40s' is no key of 'owned'", node->pairs[i].key->text);
    }
    for (size_t k = 0; k < ARRAY_LEN(owned_keys); k++) {
        const YamlNode *value = yaml_get(node, owned_keys[k].key);
        double *into = (double *)(void *)((char *)&owned + owned_keys[k].offset);

        if (!value && isnan(owned_keys[k].def))
            return yaml_fail(node, err, "'owned' needs '%s'", owned_keys[k].key);
        *into = owned_keys[k].def;
        if (value)
            TRY(read_number(value, owned_keys[k].key, owned_keys[k].min, owned_keys[k].max, into, err));
    }
    if (owned.residual > owned.capital)
        return yaml_fail(yaml_get(node, "residual"), err, "'residual' is more than 'capital'");
    *ret_per_hour = (owned.capital - owned.residual) / (owned.life * HOURS_A_YEAR * owned.utilization) +
                    owned.power_w / 1000 * owned.pue * owned.kwh + owned.upkeep / HOURS_A_YEAR;
    return 0;
}

static bool is_word(const char *text, size_t cap)
{
    const size_t len = strlen(text);

    return len > 0 && len < cap &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len;
}

/* A day, or an instant. */
static int read_from(const YamlNode *node, uint64_t *ret, Err *err)
{
    char text[64];

    TRY(yaml_want(node, YAML_SCALAR, "from", err));
    snprintf(text, sizeof text, "%.30s%s", node->text, node->len == strlen("2026-01-31") ? "T00:00:00Z" : "");
    if (clock_parse(text, ret, NULL) < 0)
        return yaml_fail(node, err,
                         "'from' must be a day (2026-01-31) or an instant (2026-01-31T08:00:00Z), not '%.40s'",
                         node->text);
    return 0;
}

static int read_text(const YamlNode *node, const char *key, Arena *arena, const char **ret, Err *err)
{
    TRY(yaml_want(node, YAML_SCALAR, key, err));
    *ret = arena_strdup(arena, node->text);
    return 0;
}

static int read_member(const YamlPair *pair, Arena *arena, Price *price, size_t *kinds, Err *err)
{
    const char *key = pair->key->text;
    const int kind = word_find(price_kinds, PRICE_KIND_END, key);

    if (kind >= 0) {
        price->kind = (PriceKind)kind;
        ++*kinds;
        return kind == PRICE_OWNED ? read_owned(pair->value, &price->per_hour, err)
                                   : read_number(pair->value, key, 0, PRICE_HIGHEST, &price->per_hour, err);
    }
    if (strcmp(key, "board") == 0)
        return read_text(pair->value, key, arena, &price->board, err);
    if (strcmp(key, "mig") == 0)
        return read_text(pair->value, key, arena, &price->profile, err);
    if (strcmp(key, "from") == 0)
        return read_from(pair->value, &price->from_real_ns, err);
    if (strcmp(key, "id") != 0)
        return yaml_fail(pair->key, err, "'%.40s' is no key of a price", key);
    TRY(yaml_want(pair->value, YAML_SCALAR, key, err));
    if (!is_word(pair->value->text, PRICE_ID_CAP))
        return yaml_fail(pair->value, err, "'id' must be 1 to %d letters, digits, '.', '_' and '-'", PRICE_ID_CAP - 1);
    snprintf(price->id, sizeof price->id, "%s", pair->value->text);
    return 0;
}

static int read_price(const YamlNode *node, Arena *arena, Price *price, Err *err)
{
    size_t kinds = 0;

    *price = (Price){.board = "", .profile = ""};
    TRY(yaml_want(node, YAML_MAP, "a price", err));
    for (size_t i = 0; i < node->len; i++)
        TRY(read_member(&node->pairs[i], arena, price, &kinds, err));
    if (!price->id[0])
        return yaml_fail(node, err, "a price needs an 'id'");
    if (kinds != 1)
        return yaml_fail(node, err, "price '%s' needs one of 'on_demand', 'reserved', 'spot' and 'owned'", price->id);
    return 0;
}

static int read_intensity(const YamlNode *node, Carbon *carbon, Err *err)
{
    const YamlNode *from = yaml_get(node, "from"), *grams = yaml_get(node, "g_per_kwh"), *pue = yaml_get(node, "pue");
    double factor = 1;

    *carbon = (Carbon){0};
    TRY(yaml_want(node, YAML_MAP, "an intensity", err));
    for (size_t i = 0; i < node->len; i++)
        if (node->pairs[i].value != from && node->pairs[i].value != grams && node->pairs[i].value != pue)
            return yaml_fail(node->pairs[i].key, err, "'%.40s' is no key of 'carbon'", node->pairs[i].key->text);
    if (!grams)
        return yaml_fail(node, err, "an intensity of 'carbon' needs 'g_per_kwh'");
    TRY(read_number(grams, "g_per_kwh", 0, CARBON_HIGHEST, &carbon->g_per_kwh, err));
    if (from)
        TRY(read_from(from, &carbon->from_real_ns, err));
    if (pue)
        TRY(read_number(pue, "pue", 1, 10, &factor, err));
    carbon->g_per_kwh *= factor;
    return 0;
}

static int read_carbon(const YamlNode *list, Arena *arena, Prices *prices, Err *err)
{
    TRY(yaml_want(list, YAML_SEQ, "carbon", err));
    if (list->len > PRICES_MAX)
        return yaml_fail(list, err, "more than %d intensities", PRICES_MAX);
    Carbon *carbon = arena_alloc(arena, list->len * sizeof *carbon);
    for (size_t i = 0; i < list->len; i++)
        TRY(read_intensity(list->items[i], &carbon[i], err));
    prices->carbon = carbon;
    prices->carbon_count = list->len;
    return 0;
}

int prices_read(const YamlNode *node, Arena *arena, const Prices **ret, Err *err)
{
    const YamlNode *currency = yaml_get(node, "currency"), *list = yaml_get(node, "list"),
                   *carbon = yaml_get(node, "carbon");

    if (yaml_is_null(node)) {
        *ret = NULL;
        return 0;
    }
    TRY(yaml_want(node, YAML_MAP, "prices", err));
    for (size_t i = 0; i < node->len; i++)
        if (node->pairs[i].value != currency && node->pairs[i].value != list && node->pairs[i].value != carbon)
            return yaml_fail(node->pairs[i].key, err, "'%.40s' is no key of 'prices'", node->pairs[i].key->text);
    if (!list)
        return yaml_fail(node, err, "'prices' needs a 'list'");
    TRY(yaml_want(list, YAML_SEQ, "list", err));
    if (currency && (currency->kind != YAML_SCALAR || !is_word(currency->text, PRICE_CURRENCY_CAP)))
        return yaml_fail(currency, err, "'currency' must be a code such as USD");
    if (list->len > PRICES_MAX)
        return yaml_fail(list, err, "more than %d prices", PRICES_MAX);
    Prices *prices = arena_alloc(arena, sizeof *prices + list->len * sizeof prices->at[0]);
    *prices = (Prices){.currency = "USD", .count = list->len};
    if (carbon)
        TRY(read_carbon(carbon, arena, prices, err));
    if (currency)
        snprintf(prices->currency, sizeof prices->currency, "%s", currency->text);
    for (size_t i = 0; i < list->len; i++) {
        TRY(read_price(list->items[i], arena, &prices->at[i], err));
        for (size_t k = 0; k < i; k++)
            if (strcmp(prices->at[k].id, prices->at[i].id) == 0)
                return yaml_fail(list->items[i], err, "there are two prices '%s'", prices->at[i].id);
    }
    *ret = prices;
    return 0;
}

/* --- the price in force ------------------------------------------------------------------------------------------- */

/* Whether the product's name has these words: an "NVIDIA L40S" is no "L4". */
static bool has_words(const char *name, const char *words)
{
    const size_t len = strlen(words);

    for (const char *at = name; len > 0 && (at = strcasestr(at, words)); at++)
        if ((at == name || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[len]))
            return true;
    return len == 0;
}

/* 0: not of this device. A price of its profile goes before one of whole GPUs, then the one that names more of its
 * board. */
static int rank_price(const Price *price, const char *board, const char *profile, uint64_t real_ns)
{
    if (price->from_real_ns > real_ns || !has_words(board, price->board) ||
        (price->profile[0] && strcmp(price->profile, profile) != 0))
        return 0;
    return 1 + (int)strlen(price->board) + (price->profile[0] ? DEVICE_NAME_CAP : 0);
}

/* The last that is in force; NULL: none. */
static const Carbon *find_carbon(const Prices *prices, uint64_t real_ns)
{
    const Carbon *best = NULL;

    for (size_t i = 0; prices && i < prices->carbon_count; i++)
        if (prices->carbon[i].from_real_ns <= real_ns &&
            (!best || prices->carbon[i].from_real_ns >= best->from_real_ns))
            best = &prices->carbon[i];
    return best;
}

void prices_find(const Prices *prices, const char *board, const char *profile, double slices, uint64_t real_ns,
                 char text[PRICE_TEXT_CAP])
{
    const Price *best = NULL;
    int best_rank = 0;

    for (size_t i = 0; prices && i < prices->count; i++) {
        const int rank = rank_price(&prices->at[i], board, profile, real_ns);

        if (rank > best_rank || (rank > 0 && rank == best_rank && prices->at[i].from_real_ns >= best->from_real_ns)) {
            best = &prices->at[i];
            best_rank = rank;
        }
    }
    const Carbon *carbon = find_carbon(prices, real_ns);
    Str out;

    str_init_room(&out, text, PRICE_TEXT_CAP);
    if (best)
        str_addf(&out, "%s %s %.9g %s", best->id, price_kinds[best->kind].key,
                 best->profile[0] ? best->per_hour / slices : best->per_hour, prices->currency);
    if (carbon)
        str_addf(&out, "%s" CARBON_WORD "%.9g", best ? " " : "", carbon->g_per_kwh);
}

/* Where the carbon's word begins in a price's text; its end: it has none. */
static size_t find_carbon_word(const char *text)
{
    const char *last = strrchr(text, ' ');
    const char *word = last ? last + 1 : text;

    return strncmp(word, CARBON_WORD, strlen(CARBON_WORD)) == 0 ? (size_t)(word - text) : strlen(text);
}

double price_read_carbon(const char *text)
{
    const char *word = text + find_carbon_word(text);
    double grams;

    return *word && number_parse_double(word + strlen(CARBON_WORD), 0, (double)INFINITY, &grams, NULL) == 0
               ? grams
               : (double)NAN;
}

int price_tag_read(const char *text, PriceTag *ret)
{
    char words[4][PRICE_ID_CAP] = {"", "", "", ""};
    PriceTag tag = {.id = ""};
    char price[PRICE_TEXT_CAP];
    size_t end = find_carbon_word(text);

    end -= text[end] && end > 0; /* the space before it */
    snprintf(price, sizeof price, "%.*s", (int)end, text);
    text = price;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        const size_t len = strcspn(text, " ");

        snprintf(words[i], sizeof words[i], "%.*s", (int)len, text);
        text += len + (text[len] == ' ');
    }
    const int kind = word_find(price_kinds, PRICE_KIND_END, words[1]);
    if (text[0] || kind < 0 || !is_word(words[0], PRICE_ID_CAP) || !is_word(words[3], PRICE_CURRENCY_CAP) ||
        number_parse_double(words[2], 0, (double)INFINITY, &tag.per_hour, NULL) < 0)
        return -EINVAL;
    tag.kind = (PriceKind)kind;
    memcpy(tag.id, words[0], sizeof tag.id);
    snprintf(tag.currency, sizeof tag.currency, "%.*s", PRICE_CURRENCY_CAP - 1, words[3]);
    *ret = tag;
    return 0;
}
