/* SPDX-License-Identifier: Apache-2.0 */
/* CSV as RFC 4180 has it, cut in place: commas, cells in double quotes, "" for a quote; lines from # are comments. */

#include "facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20 };

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "facts: %s\n", what);
    exit(99);
}

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, FILE_BYTES_MAX);
    size_t length;

    if (!file || !text)
        give_up("cannot open the file");
    length = fread(text, 1, FILE_BYTES_MAX - 1, file);
    fclose(file);
    if (length == 0 || length == FILE_BYTES_MAX - 1 || text[length - 1] != '\n')
        give_up("the file is empty, too long or cut off");
    return text;
}

/* Cuts one cell off, ending in ',' or '\n'; returns which. */
static char take_cell(char **at, char **ret_cell)
{
    char *in = *at, *out = *at, end;

    *ret_cell = out;
    if (*in == '"') {
        for (in++; *in != '"' || in[1] == '"'; in++) {
            if (*in == '\0')
                give_up("a quote is open at the end");
            if (*in == '"')
                in++;
            *out++ = *in;
        }
        in++;
    } else {
        while (*in != ',' && *in != '\n')
            *out++ = *in++;
    }
    end = *in;
    if (end != ',' && end != '\n')
        give_up("text after a closing quote");
    *out = '\0';
    *at = in + 1;
    return end;
}

void facts_read(Facts *facts, const char *path)
{
    char *at;

    *facts = (Facts){.text = read_all(path)};
    at = strstr(facts->text, "field_id,name,");
    if (!at)
        give_up("no heading");
    at = strchr(at, '\n') + 1;
    while (*at != '\0') {
        if (facts->count == sizeof facts->rows / sizeof facts->rows[0])
            give_up("too many rows");
        for (int i = 0; i < FACT_COLUMNS; i++) {
            char end = take_cell(&at, &facts->rows[facts->count].cell[i]);

            if ((end == '\n') != (i == FACT_COLUMNS - 1))
                give_up("a row has the wrong number of cells");
        }
        facts->count++;
    }
}

void facts_done(Facts *facts)
{
    free(facts->text);
    *facts = (Facts){0};
}
