/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: an option table read from words, from environment variables and from YAML, and its pages written. The
 * first byte says which; words and variables stand one on a line. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "../unit/base/opt_sample.h"

enum { WORDS_MAX = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int split(char *text, char **words)
{
    int n = 0;
    words[n++] = text;
    for (; *text && n < WORDS_MAX - 1; text++)
        if (*text == '\n') {
            *text = '\0';
            words[n++] = text + 1;
        }
    words[n] = NULL;
    return n;
}

/* Whatever was read, the fields keep to their rows. */
static void check(const Sample *s)
{
    if (s->interval_ns < 100 * NS_PER_MS || s->interval_ns > 60 * NS_PER_S || s->history_bytes < 4096 ||
        s->offset < -5 || s->offset > 5 || !(s->share >= 0 && s->share <= 1) || s->color < 0 || s->color > 2)
        abort();
    for (size_t i = 0; i < s->fields.len; i++)
        if (!s->fields.items[i])
            abort();
}

static void pages(const char *text)
{
    CLEANUP(str_done) Str out;
    OptPage page = sample_page;
    page.description = text;
    str_init(&out, 1 << 20);
    opt_help(&page, strlen(text) % 200, &out);
    opt_man(&page, "1.0", "today", &out);
    opt_complete(&page, text, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena arena = {0};
    Err err = {0};
    Sample sample = {0};
    char *words[WORDS_MAX];
    OptArgs rest = {0};
    const YamlNode *root = NULL;
    int rc = 0;
    if (size < 1)
        return 0;
    OptPlace places[ARRAY_LEN(sample_opts)] = {0};
    const OptSet set = {
        .opts = sample_opts, .count = ARRAY_LEN(sample_opts), .into = &sample, .arena = &arena, .places = places};
    if (opt_defaults(&set, &err) < 0)
        abort();
    char *text = arena_strndup(&arena, (const char *)data + 1, size - 1);
    int kind = data[0] % 4;
    if (kind == 0 && yaml_load("fuzz", text, strlen(text), &arena, &root, &err) == 0)
        rc = opt_yaml(&set, root, &err);
    else if (kind == 1)
        rc = opt_args(&set, split(text, words), words, &rest, &err);
    else if (kind == 2 && split(text, words))
        rc = opt_env(&set, words, &err);
    else if (kind == 3)
        pages(text);
    if (rc < 0 && err.text[0] == '\0')
        abort();
    check(&sample);
    arena_done(&arena);
    return 0;
}
