/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "source/cuda/options.h"

enum {
    SECONDS_MAX = 24 * 3600,
    KEEP_MIB_MAX = 1 << 20,
    DELAY_MS_MAX = 600 * 1000,
    SHAPE_MAX = 32768,
    TILE = 128,
    DEPTH = 32,
};

/* The part of *at up to the separator, which is skipped; NULL at its end. */
static const char *next_word(const char **at, size_t *ret_len)
{
    const char *word = *at;

    if (!word)
        return NULL;
    *ret_len = strcspn(word, ",");
    *at = word[*ret_len] ? word + *ret_len + 1 : NULL;
    return word;
}

static bool key_is(const char *key, const char *word, size_t len)
{
    return strlen(key) == len && strncmp(key, word, len) == 0;
}

/* Stages of one GPU and of several; the two ends are no stages to ask for. */
static bool stage_fits(BenchStage stage, bool links)
{
    const bool of_links = stage >= BENCH_STAGE_HOST && stage <= BENCH_STAGE_COLLECTIVES;

    return stage != BENCH_STAGE_START && stage != BENCH_STAGE_END_OF_WORK && of_links == links;
}

static int parse_stages(const char *text, BenchOptions *o, Err *err)
{
    const char *word;
    size_t len = 0;

    o->stage_count = 0;
    while ((word = next_word(&text, &len))) {
        BenchStage stage = 0;

        while (stage < BENCH_STAGE_COUNT && !key_is(bench_stages[stage].key, word, len))
            stage++;
        if (stage == BENCH_STAGE_COUNT || !stage_fits(stage, o->links))
            return err_set(err, -EINVAL, "no stage '%.*s' for %s", (int)len, word, o->links ? "links" : "a GPU");
        for (uint32_t i = 0; i < o->stage_count; i++)
            if (o->stages[i] == stage)
                return err_set(err, -EINVAL, "stage '%.*s' twice", (int)len, word);
        o->stages[o->stage_count++] = stage;
    }
    return 0;
}

static int parse_probes(const char *text, BenchOptions *o, Err *err)
{
    const char *word;
    size_t len = 0;

    o->all_probes = text[0] == '\0';
    while (!o->all_probes && (word = next_word(&text, &len))) {
        BenchMeasureId id = BENCH_FMA_FP32;

        while (id <= BENCH_TCGEN05_BF16 && !key_is(bench_measures[id].key, word, len))
            id++;
        if (id > BENCH_TCGEN05_BF16)
            return err_set(err, -EINVAL, "no probe '%.*s'", (int)len, word);
        o->probes[id] = true;
    }
    return 0;
}

static int parse_shape(const char *text, BenchOptions *o, Err *err)
{
    uint32_t *const sides[] = {&o->m, &o->n, &o->k};

    for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
        const size_t len = strcspn(text, "x");
        const uint64_t step = i == 2 ? DEPTH : TILE;
        uint64_t value = 0;

        if (number_parsen_u64(text, len, step, SHAPE_MAX, &value, err) < 0 || value % step != 0 ||
            (text[len] == '\0') != (i == 2))
            return err_set(err, -EINVAL, "MxNxK, M and N multiples of %d, K of %d, up to %d", TILE, DEPTH, SHAPE_MAX);
        *sides[i] = (uint32_t)value;
        text += len + 1;
    }
    return 0;
}

static int parse_flood(const char *text, BenchOptions *o, Err *err)
{
    const int flood = word_find(bench_floods, BENCH_FLOOD_END, text);

    if (flood < 0)
        return err_set(err, -EINVAL, "no flood '%s'", text);
    o->flood = (BenchFlood)flood;
    return 0;
}

static int parse_text(const char *text, const char **ret, Err *err)
{
    if (text[0] == '\0')
        return err_set(err, -EINVAL, "is empty");
    *ret = text;
    return 0;
}

/* Numbers go through a table, the others have a form of their own. */
static int parse_number(const char *key, size_t len, const char *text, BenchOptions *o, Err *err)
{
    uint64_t value = 0;
    const struct {
        const char *key;
        uint64_t min, max;
        uint32_t *ret;
    } rows[] = {
        {"seconds", 1, SECONDS_MAX, &o->seconds},      {"windows", 1, BENCH_SAMPLES_MAX, &o->windows},
        {"memory_percent", 1, 95, &o->memory_percent}, {"delay_ms", 0, DELAY_MS_MAX, &o->delay_ms},
        {"keep_mib", 0, KEEP_MIB_MAX, &o->keep_mib},   {"wait", 0, 1, &o->wait},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!key_is(rows[i].key, key, len))
            continue;
        TRY(number_parse_u64(text, rows[i].min, rows[i].max, &value, err));
        *rows[i].ret = (uint32_t)value;
        return 0;
    }
    return err_set(err, -EINVAL, "no such argument");
}

static int parse_argument(const char *argument, BenchOptions *o, Err *err)
{
    const char *equals = strchr(argument, '=');
    const size_t len = equals ? (size_t)(equals - argument) : 0;

    if (!equals)
        return err_set(err, -EINVAL, "not KEY=VALUE");
    if (key_is("stages", argument, len))
        return parse_stages(equals + 1, o, err);
    if (key_is("probes", argument, len))
        return parse_probes(equals + 1, o, err);
    if (key_is("shape", argument, len))
        return parse_shape(equals + 1, o, err);
    if (key_is("flood", argument, len))
        return parse_flood(equals + 1, o, err);
    if (key_is("mps", argument, len))
        return parse_text(equals + 1, &o->mps, err);
    if (key_is("library", argument, len))
        return parse_text(equals + 1, &o->library, err);
    if (key_is("root", argument, len))
        return parse_text(equals + 1, &o->root, err);
    return parse_number(argument, len, equals + 1, o, err);
}

int bench_options_parse(int argc, char **argv, BenchOptions *ret, Err *err)
{
    BenchOptions o = {.seconds = 8,
                      .windows = 5,
                      .memory_percent = 90,
                      .keep_mib = 512,
                      .all_probes = true,
                      .mps = "",
                      .library = "",
                      .root = ""};

    if (argc < 2 || (strcmp(argv[1], "gpu") != 0 && strcmp(argv[1], "links") != 0))
        return err_set(err, -EINVAL, "usage: stoker-bench gpu|links KEY=VALUE...");
    o.links = strcmp(argv[1], "links") == 0;
    for (int i = 2; i < argc; i++)
        if (parse_argument(argv[i], &o, err) < 0)
            return err_add(err, "%s", argv[i]);
    *ret = o;
    return 0;
}
