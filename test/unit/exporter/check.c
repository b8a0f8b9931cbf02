/* SPDX-License-Identifier: Apache-2.0 */
/* A strict reader of the exposition formats (check.h). */

#include "check.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/number.h"

enum { NAME_MAX_LEN = 256 };

typedef struct Checker {
    bool open; /* OpenMetrics */
    Str *why;
    Map families, series;
    char family[NAME_MAX_LEN], type[16];
    bool helped, typed;
    size_t lines; /* of this family */
} Checker;

static bool fault(Checker *checker, const char *what, const char *line)
{
    str_addf(checker->why, "%s: %.*s", what, (int)strcspn(line, "\n"), line);
    return false;
}

static size_t name_len(const char *at, bool colons)
{
    size_t len = 0;

    while (isalpha((unsigned char)at[len]) || at[len] == '_' || (colons && at[len] == ':') ||
           (len && isdigit((unsigned char)at[len])))
        len++;
    return len;
}

/* Bytes of one well formed character that is not ASCII; 0 where there is none. */
static size_t wide_len(const unsigned char *at)
{
    size_t len = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    unsigned code = at[0] & (0x7fu >> len);

    if (at[0] < 0xc2 || at[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    if ((len == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) ||
        (len == 4 && (code < 0x10000 || code > 0x10ffff)))
        return 0;
    return len;
}

/* Walks text up to `stop`; NULL where an escape or a byte is wrong. */
static const char *text_end(const char *at, char stop, bool quotes)
{
    while (*at && *at != stop && *at != '\n') {
        if (*at == '\\') {
            if (at[1] != '\\' && at[1] != 'n' && !(quotes && at[1] == '"'))
                return NULL;
            at += 2;
        } else if ((unsigned char)*at < 0x80) {
            at++;
        } else {
            size_t len = wide_len((const unsigned char *)at);

            if (!len)
                return NULL;
            at += len;
        }
    }
    return at;
}

/* The labels at '{'; returns what follows, NULL where they are wrong. */
static const char *labels_end(Checker *checker, const char *line, const char *at)
{
    Map names;
    bool fine = true;

    map_init(&names);
    at++;
    while (fine && *at != '}') {
        size_t len = name_len(at, false);

        fine = len && at[len] == '=' && at[len + 1] == '"' && !map_putn(&names, at, len, checker);
        if (!fine)
            break;
        at = text_end(at + len + 2, '"', true);
        fine = at && *at == '"';
        if (!fine)
            break;
        at++;
        fine = *at == '}' || (*at == ',' && at[1] != '}');
        at += *at == ',';
    }
    map_done(&names);
    if (fine)
        return at + 1;
    fault(checker, "labels", line);
    return NULL;
}

static bool check_value(Checker *checker, const char *line, const char *at)
{
    size_t len = strcspn(at, "\n");
    double value;

    if (len == 3 && strncmp(at, "NaN", 3) == 0)
        return true;
    if (number_parsen_double(at, len, -INFINITY, INFINITY, &value, NULL) < 0)
        return fault(checker, "value", line);
    if (strcmp(checker->type, "counter") == 0 && value < 0)
        return fault(checker, "negative counter", line);
    return true;
}

static bool check_sample_name(Checker *checker, const char *line, size_t len)
{
    size_t family = strlen(checker->family);
    bool counter = checker->open && strcmp(checker->type, "counter") == 0;

    if (len != family + (counter ? strlen("_total") : 0) || strncmp(line, checker->family, family) != 0)
        return fault(checker, "not of the family before it", line);
    if (counter && strncmp(line + family, "_total", 6) != 0)
        return fault(checker, "counter without _total", line);
    return true;
}

static bool check_sample(Checker *checker, const char *line)
{
    size_t len = name_len(line, true);
    const char *at = line + len;

    if (!len)
        return fault(checker, "name", line);
    if (!checker->helped || !checker->typed)
        return fault(checker, "no head", line);
    if (!check_sample_name(checker, line, len))
        return false;
    if (*at == '{') {
        at = labels_end(checker, line, at);
        if (!at)
            return false;
    }
    if (*at != ' ')
        return fault(checker, "no blank before the value", line);
    if (map_putn(&checker->series, line, (size_t)(at - line), checker))
        return fault(checker, "series twice", line);
    checker->lines++;
    return check_value(checker, line, at + 1);
}

static bool check_help(Checker *checker, const char *line)
{
    const char *name = line + strlen("# HELP "), *end;
    size_t len = name_len(name, true);

    if (checker->helped && !checker->lines)
        return fault(checker, "family without lines before", line);
    if (!len || len >= NAME_MAX_LEN || name[len] != ' ')
        return fault(checker, "HELP", line);
    if (map_putn(&checker->families, name, len, checker))
        return fault(checker, "family twice", line);
    end = text_end(name + len + 1, '\n', checker->open);
    if (!end || *end != '\n' || end == name + len + 1)
        return fault(checker, "help text", line);
    memcpy(checker->family, name, len);
    checker->family[len] = '\0';
    checker->helped = true;
    checker->typed = false;
    checker->lines = 0;
    return true;
}

static bool check_type(Checker *checker, const char *line)
{
    static const char *const types[] = {"gauge", "counter", "untyped", "unknown"};
    const char *at = line + strlen("# TYPE "), *type = at + strlen(checker->family) + 1;
    size_t len = strcspn(type, "\n");

    if (checker->typed || !checker->helped || strncmp(at, checker->family, strlen(checker->family)) != 0)
        return fault(checker, "TYPE", line);
    for (size_t i = 0; i < 4; i++)
        if (strlen(types[i]) == len && strncmp(types[i], type, len) == 0 && i != (checker->open ? 2u : 3u)) {
            memcpy(checker->type, types[i], len + 1);
            checker->typed = true;
        }
    len = strlen(checker->family);
    if (checker->open && strcmp(checker->type, "counter") == 0 && len > 6 &&
        strcmp(checker->family + len - 6, "_total") == 0)
        return fault(checker, "_total in the name of a counter's family", line);
    return checker->typed || fault(checker, "type", line);
}

static bool check_line(Checker *checker, const char *line)
{
    if (strncmp(line, "# HELP ", 7) == 0)
        return check_help(checker, line);
    if (strncmp(line, "# TYPE ", 7) == 0)
        return check_type(checker, line);
    return check_sample(checker, line);
}

bool check_page(const char *page, bool openmetrics, Str *why)
{
    Checker checker = {.open = openmetrics, .why = why};
    bool fine = true, ended = false;

    map_init(&checker.families);
    map_init(&checker.series);
    for (const char *at = page; fine && *at;) {
        const char *end = strchr(at, '\n');

        if (!end || ended)
            fine = fault(&checker, end ? "a line after EOF" : "a line without its end", at);
        else if (openmetrics && strncmp(at, "# EOF\n", 6) == 0)
            ended = true;
        else
            fine = check_line(&checker, at);
        at = end ? end + 1 : at;
    }
    if (fine && checker.helped && !checker.lines)
        fine = fault(&checker, "family without lines", checker.family);
    if (fine && openmetrics && !ended)
        fine = fault(&checker, "no EOF", "");
    map_done(&checker.families);
    map_done(&checker.series);
    return fine;
}
