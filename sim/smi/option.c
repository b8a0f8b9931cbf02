/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the command line: "-i 0", "-i=0", "--id=0", "--id 0". */
#include "sim/smi/option.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"

typedef enum OptionKind { OPTION_FLAG, OPTION_TEXT, OPTION_SECONDS, OPTION_MILLISECONDS } OptionKind;

typedef struct Option {
    const char *letter, *word;
    OptionKind kind;
    size_t off;
    const char *about;
} Option;

static const Option options[] = {
    {"-h", "--help", OPTION_FLAG, offsetof(Options, help), "this text"},
    {"--version", "--version", OPTION_FLAG, offsetof(Options, version), "versions"},
    {"-L", "--list-gpus", OPTION_FLAG, offsetof(Options, list), "a line per GPU and MIG device"},
    {"-B", "--list-excluded-gpus", OPTION_FLAG, offsetof(Options, excluded), "GPUs that the driver leaves alone"},
    {"-q", "--query", OPTION_FLAG, offsetof(Options, log), "everything about each GPU"},
    {"-x", "--xml-format", OPTION_FLAG, offsetof(Options, xml), "with -q: as XML"},
    {"-d", "--display", OPTION_TEXT, offsetof(Options, display), "with -q: only these sections"},
    {"-i", "--id", OPTION_TEXT, offsetof(Options, ids), "only these GPUs: index, UUID or bus id"},
    {"-f", "--filename", OPTION_TEXT, offsetof(Options, file), "write to a file"},
    {"--format", "--format", OPTION_TEXT, offsetof(Options, format), "csv[,noheader][,nounits]"},
    {"-l", "--loop", OPTION_SECONDS, offsetof(Options, loop_ms), "again every so many seconds"},
    {"-lms", "--loop-ms", OPTION_MILLISECONDS, offsetof(Options, loop_ms), "again every so many milliseconds"},
};

typedef struct Args {
    int argc, at;
    char **argv;
    const char *name; /* the present one, up to '=' */
    size_t name_length;
    const char *value; /* after '=', NULL */
} Args;

static bool is(const Args *args, const char *letter, const char *word)
{
    return (strlen(letter) == args->name_length && strncmp(letter, args->name, args->name_length) == 0) ||
           (strlen(word) == args->name_length && strncmp(word, args->name, args->name_length) == 0);
}

/* The value after '=' or the next argument; NULL where there is none. */
static const char *value_of(Args *args, bool only_number)
{
    if (args->value)
        return args->value;
    if (args->at + 1 >= args->argc)
        return NULL;
    const char *next = args->argv[args->at + 1];
    if (only_number ? !isdigit((unsigned char)next[0]) : next[0] == '-' && isalpha((unsigned char)next[1]))
        return NULL;
    args->at++;
    return next;
}

static int bad(const char *text)
{
    printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help. (%s)\n", text);
    return NVML_ERROR_INVALID_ARGUMENT;
}

static int set_loop(Args *args, unsigned int *ret, unsigned int scale, unsigned int fallback)
{
    const char *text = value_of(args, true);
    char *end;
    unsigned long number = text ? strtoul(text, &end, 10) : fallback;

    if (text && (*end || !number || number > 1000000))
        return bad(text);
    *ret = (unsigned int)number * scale;
    return 0;
}

static int set_option(Args *args, const Option *option, Options *ret)
{
    void *at = (char *)ret + option->off;

    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)at = true;
        return 0;
    case OPTION_SECONDS:
        return set_loop(args, at, 1000, 5);
    case OPTION_MILLISECONDS:
        return set_loop(args, at, 1, 5000);
    default:
        *(const char **)at = value_of(args, false);
        return *(const char **)at ? 0 : bad(option->word);
    }
}

static int set_change(Args *args, const Change *change, Options *ret)
{
    const char *value = change->takes == CHANGE_NO_VALUE ? "" : value_of(args, false);

    if (!value && change->takes == CHANGE_VALUE)
        return bad(change->word);
    if (ret->change_count == OPTIONS_CHANGES_MAX)
        return bad("too many changes");
    ret->changes[ret->change_count].change = change;
    ret->changes[ret->change_count++].value = value ? value : "";
    return 0;
}

/* --query-NAME and --help-query-NAME. 1: neither. */
static int set_query(Args *args, Options *ret)
{
    static const char *const starts[] = {"--query-", "--help-query-"};
    char name[64];

    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        size_t skip = strlen(starts[i]);
        if (args->name_length <= skip || strncmp(args->name, starts[i], skip) != 0)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(args->name_length - skip), args->name + skip);
        const Query *query = query_find(name);
        if (!query)
            return bad(args->name);
        if (i == 1) {
            ret->help_query = query;
            return 0;
        }
        ret->query = query;
        ret->fields = value_of(args, false);
        return ret->fields ? 0 : bad(args->name);
    }
    return 1;
}

static int read_one(Args *args, Options *ret)
{
    const char *arg = args->argv[args->at], *equals = strchr(arg, '=');

    args->name = arg;
    args->name_length = equals ? (size_t)(equals - arg) : strlen(arg);
    args->value = equals ? equals + 1 : NULL;
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        if (is(args, options[i].letter, options[i].word))
            return set_option(args, &options[i], ret);
    }
    for (size_t i = 0; i < change_count; i++) {
        if (is(args, changes[i].letter, changes[i].word))
            return set_change(args, &changes[i], ret);
    }
    int rc = set_query(args, ret);
    return rc == 1 ? bad(arg) : rc;
}

int options_read(int argc, char **argv, Options *ret)
{
    Args args = {.argc = argc, .argv = argv};

    *ret = (Options){0};
    for (args.at = 1; args.at < argc; args.at++) {
        int rc = read_one(&args, ret);
        if (rc)
            return rc;
    }
    if (ret->xml && !ret->log)
        return bad("-x without -q");
    return 0;
}

void options_help(void)
{
    puts("nvidia-smi of a simulated node. It reads GPUs through the NVML library, and answers the options that other\n"
         "programs run the driver's tool with.\n\n"
         "  nvidia-smi [OPTION]..      without options: a summary\n"
         "  nvidia-smi topo | nvlink | mig ..\n");
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        printf("    %-5s %-28s %s\n", options[i].letter[1] == '-' ? "" : options[i].letter, options[i].word,
               options[i].about);
    puts("\n  Chosen fields, with --format=csv:");
    for (const Query *query = queries; query->name; query++)
        printf("          --query-%-20s %s; --help-query-%s lists the fields\n", query->name, query->about,
               query->name);
    puts("\n  Changes, for all GPUs or those of -i:");
    for (size_t i = 0; i < change_count; i++)
        printf("    %-5s %-28s %s\n", changes[i].letter, changes[i].word, changes[i].about);
}
