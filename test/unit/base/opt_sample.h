/* SPDX-License-Identifier: Apache-2.0 */
/* The table that test_opt.c and test_opt_page.c read: one row of each kind. */
#pragma once

#include <stddef.h>

#include "base/opt.h"
#include "base/cleanup.h"

typedef struct Sample {
    uint64_t interval_ns;
    OptList fields;
    const char *address;
    uint64_t history_bytes;
    int64_t offset;
    uint64_t port;
    double share;
    int color;
    bool quiet;
    bool cache;
    OptList where;
    const YamlNode *rules;
    uint64_t secret;
} Sample;

static const char *const sample_colors[] = {"auto", "always", "never", NULL};

static const OptSpec sample_opts[] = {
    {.key = "sample.interval",
     .flag = "interval",
     .short_flag = 'i',
     .type = OPT_DURATION,
     .env = "STOKER_INTERVAL",
     .off = offsetof(Sample, interval_ns),
     .def = "1s",
     .min = 100 * NS_PER_MS,
     .max = 60 * NS_PER_S,
     .help = "time between samples"},
    {.key = "sample.fields",
     .type = OPT_LIST,
     .off = offsetof(Sample, fields),
     .def = "temp,power",
     .help = "what to sample"},
    {.key = "server.http.address",
     .type = OPT_STRING,
     .off = offsetof(Sample, address),
     .metavar = "ADDRESS",
     .def = ":9400",
     .help = "where to listen"},
    {.key = "history_size",
     .type = OPT_SIZE,
     .off = offsetof(Sample, history_bytes),
     .def = "16MiB",
     .min = 4096,
     .help = "memory for history"},
    {.key = "offset", .type = OPT_INT, .off = offsetof(Sample, offset), .min = -5, .max = 5, .help = "a number"},
    {.key = "port", .short_flag = 'p', .type = OPT_UINT, .off = offsetof(Sample, port), .help = "another number"},
    {.key = "share", .type = OPT_DOUBLE, .off = offsetof(Sample, share), .def = "0.5", .max = 1, .help = "a share"},
    {.key = "color",
     .type = OPT_ENUM,
     .off = offsetof(Sample, color),
     .names = sample_colors,
     .def = "auto",
     .env = "STOKER_COLOR",
     .help = "when to use colors"},
    {.key = "quiet",
     .short_flag = 'q',
     .type = OPT_BOOL,
     .flags = OPT_CLI_ONLY,
     .off = offsetof(Sample, quiet),
     .help = "say less"},
    {.key = "cache",
     .short_flag = 'c',
     .type = OPT_BOOL,
     .off = offsetof(Sample, cache),
     .def = "true",
     .help = "keep what was read"},
    {.key = "where",
     .type = OPT_LIST,
     .flags = OPT_WHOLE | OPT_CLI_ONLY,
     .off = offsetof(Sample, where),
     .metavar = "EXPR",
     .help = "expressions to match"},
    {.key = "rules", .type = OPT_NODE, .off = offsetof(Sample, rules), .help = "rules, as in Prometheus"},
    {.key = "secret", .type = OPT_UINT, .flags = OPT_HIDDEN, .off = offsetof(Sample, secret), .help = "not shown"},
};

static const OptPage sample_page = {
    .program = "stoker",
    .verb = "top",
    .summary = "watch the GPUs in the terminal",
    .usage = "[OPTION...] [GPU...]",
    .description =
        "Draws a line per GPU, once per sample, until you press q or the time that was asked for is over.\n\n"
        ".hidden begins this paragraph, which has a back\\slash.",
    .examples = "stoker top -i 500ms    # twice a second\nstoker top 0 1",
    .exit_codes = "0  fine\n2  usage",
    .opts = sample_opts,
    .count = ARRAY_LEN(sample_opts),
    .config = true,
};
