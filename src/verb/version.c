/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker version`. */
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"
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
    if (o->json)
        printf("{\"version\": \"%s\", \"compiler\": \"%s\"}\n", STOKER_VERSION, __VERSION__);
    else
        printf("stoker %s\n", STOKER_VERSION);
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
