/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The command line. */
#include <stdbool.h>

#include "sim/smi/query.h"
#include "sim/smi/set.h"

enum { OPTIONS_CHANGES_MAX = 16 };

typedef struct Options {
    const char *ids, *file, *format, *display, *fields;
    const Query *query, *help_query;
    bool list, excluded, log, xml, help, version;
    unsigned int loop_ms; /* 0: once */
    struct {
        const Change *change;
        const char *value;
    } changes[OPTIONS_CHANGES_MAX];
    size_t change_count;
} Options;

/* Reads argv[1..]. 0, or the exit code after a message. */
int options_read(int argc, char **argv, Options *ret);
void options_help(void);
