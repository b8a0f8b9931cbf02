/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker version`. */
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "verb/verb.h"
#include "version.h"

typedef struct VersionOptions {
    bool json;
} VersionOptions;

static const OptSpec version_opts[] = {
    OPT_ROW("json", OPT_BOOL, VersionOptions, json, .help = "as JSON"),
};

static int version_run(VerbCall *call, const void *options)
{
    const VersionOptions *o = options;

    (void)call;
    if (!o->json) {
        printf("stoker %s\n", STOKER_VERSION);
        return EXIT_FINE;
    }
    CLEANUP(str_done) Str out = str_limited(1024);
    json_open(&out, NULL, '{');
    json_add_text(&out, "version", STOKER_VERSION);
    json_add_text(&out, "compiler", __VERSION__);
    json_close(&out, '}');
    puts(out.text);
    return EXIT_FINE;
}

const Verb verb_version = {
    .name = "version",
    .summary = "say which Stoker this is",
    .usage = "[--json]",
    .examples = "stoker version",
    VERB_OPTS(version_opts, VersionOptions),
    .no_args = "",
    .run = version_run,
};
