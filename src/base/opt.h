/* SPDX-License-Identifier: Apache-2.0 */
/* Options as data. One const row per option generates the command-line parser, defaults, range checks, YAML and
 * environment reading, --help, the man page, shell completion and the schema of the config file.
 * Values are written into the caller's struct at the row's offset; texts and lists lie in the caller's arena.
 * The caller's order of calls is the precedence: usually opt_defaults, opt_yaml, opt_env, opt_args.
 * One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attribute.h"
#include "base/duration.h"
#include "base/err.h"
#include "base/str.h"
#include "base/yaml.h"

/* What the field at `off` is, and how its text reads. */
typedef enum OptType {
    OPT_BOOL,     /* bool: true/false, yes/no, on/off, 1/0; as a flag --x and --no-x */
    OPT_INT,      /* int64_t */
    OPT_UINT,     /* uint64_t */
    OPT_DOUBLE,   /* double */
    OPT_DURATION, /* uint64_t nanoseconds: "1h30m" */
    OPT_SIZE,     /* uint64_t bytes: "64MiB", "1.5GiB", "10MB", "4096" */
    OPT_STRING,   /* const char *, NULL where never set and without default */
    OPT_ENUM,     /* int: index into names */
    OPT_LIST,     /* OptList: "a,b", repeated flags, or a YAML list */
    OPT_NODE,     /* const YamlNode *: a subtree the caller reads itself; config file only */
} OptType;

typedef struct OptList {
    const char *const *items;
    size_t len;
} OptList;

enum {                           /* OptSpec.flags */
       OPT_HIDDEN = 1 << 0,      /* works, but is in no help, man page, completion or schema */
       OPT_CLI_ONLY = 1 << 1,    /* no key of the config file, where there is one */
       OPT_CONFIG_ONLY = 1 << 2, /* no command-line flag */
       OPT_WHOLE = 1 << 3,       /* OPT_LIST: do not split a text at commas */
       OPT_ALIAS = 1 << 4,       /* another flag for the field of another row: it has no default of its own */
       OPT_RESTART = 1 << 5,     /* a running program cannot take a new value over */
       OPT_FOLDED = 1 << 6,      /* for compatibility alone: --help leaves it out, --help-all has it */
};

typedef struct OptSpec {
    const char *key;     /* "sample.interval": key interval in mapping sample of the config file */
    const char *flag;    /* long flag without dashes; NULL: the key with '.' and '_' as '-' */
    char short_flag;     /* 0: none */
    unsigned char flags; /* OPT_HIDDEN | ... */
    OptType type;
    const char *env; /* environment variable, NULL: none */
    size_t off;      /* offsetof the field */
    const char *def; /* default as text, NULL: zero, empty */
    double min, max; /* inclusive, in the field's unit; both 0: whatever the type holds; max under min: no upper bound;
                        OPT_STRING: bytes of the text */
    const char *const *names; /* OPT_ENUM: allowed texts, NULL-terminated; OPT_STRING: those that a shell offers */
    const char *metavar;      /* what help calls the value; NULL: by type */
    const char *help;         /* a phrase, lower case, no full stop */
    const char *group;        /* the heading of the options from this row on; NULL: that of the row before */
} OptSpec;

/* A row by its key, type and field `member` of struct `owner`; the other members follow as `.help = "..."`. */
#define OPT_ROW(name, kind, owner, member, ...)                                                                        \
    {                                                                                                                  \
        .key = name, .type = kind, .off = offsetof(owner, member), __VA_ARGS__                                         \
    }

/* Where a value came from. */
typedef struct OptPlace {
    const OptSpec *row;   /* that was given, of an alias its own; NULL: none, the value is the default */
    const YamlNode *node; /* its value in a file; NULL: the environment or the command line */
    bool env;
} OptPlace;

/* A table, the struct it fills and the arena for texts. All borrowed. */
typedef struct OptSet {
    const OptSpec *opts;
    size_t count;
    void *into;
    Arena *arena;
    OptPlace *places; /* room for `count`, zeroed: where each row's value came from; NULL: not kept */
    bool command;     /* the first positional argument ends the options: what follows is a command's own */
} OptSet;

/* Positional arguments, in order, what follows "--" included. Pointers into argv; the array lies in the arena. */
typedef struct OptArgs {
    const char *const *items;
    size_t len;
} OptArgs;

/* What help, man page and completion are written from. Any text but program and summary may be NULL. */
typedef struct OptPage {
    const char *program; /* "stoker" */
    const char *verb;    /* "top"; NULL for a page about the program itself */
    const char *summary; /* one phrase, lower case */
    const char *usage; /* after program and verb: "[OPTION...] [GPU...]"; NULL: "[OPTION...]" where there are options */
    const char *description; /* paragraphs, parted by an empty line */
    const char *examples;    /* lines "command    # what it does" or bare commands */
    const char *exit_codes;  /* lines "0  fine", as they shall stand */
    const OptSpec *opts;
    size_t count;
    bool config; /* the rows' keys are those of a configuration file */
    bool folded; /* --help has the rows that are OPT_FOLDED too */
} OptPage;

enum { OPT_HELP = 1, OPT_HELP_ALL }; /* outcomes of opt_args */

/* Sets every field from its row's default. -EINVAL names a row whose default is wrong: a test calls this. */
int opt_defaults(const OptSet *set, Err *err);

/* Parses argv[1..argc-1], GNU style: --key value, --key=value, -k value, -kvalue, bundled short switches, --no-key for
 * a bool, unambiguous prefixes are NOT accepted, "--" ends the options, "-" is positional. Returns OPT_HELP as soon as
 * it meets --help or -h (unless a row owns that flag), OPT_HELP_ALL for --help-all where rows are folded. -EINVAL or
 * -ERANGE with a message that names the flag, and for an unknown one the nearest that exists. Fields set before the
 * error keep their new values. */
int opt_args(const OptSet *set, int argc, char *const *argv, OptArgs *ret_args, Err *err);

/* Sets the fields whose variable is in `envp` ("NAME=value", NULL-terminated) and not empty. -EINVAL or -ERANGE names
 * it. */
int opt_env(const OptSet *set, char *const *envp, Err *err);

/* Sets fields from a mapping; NULL (an empty file) sets none. Errors name file, line, column and key; an unknown key
 * lists the allowed ones and the nearest. */
int opt_yaml(const OptSet *set, const YamlNode *map, Err *err);

/* For what is found wrong later than by the functions above: puts before the error's text where the value of row `key`
 * came from: "FILE:LINE:COLUMN: 'key'", "environment variable NAME" or "option --flag"; nothing before that of a
 * default. `item`: which of a list, as it has a place of its own in a file. Needs `places`. Returns err->code. */
int opt_add_place(const OptSet *set, const char *key, size_t item, Err *err);

/* err_set with -EINVAL, and opt_add_place. */
int opt_fail(const OptSet *set, const char *key, size_t item, Err *err, const char *fmt, ...) PRINTF_LIKE(5, 6);

/* True if the fields of a row in two structs hold the same value; a NULL text is an empty one. Nodes are never the
 * same. */
bool opt_same(const OptSpec *spec, const void *a, const void *b);

/* Whether a row is OPT_FOLDED. */
bool opt_has_folded(const OptSpec *opts, size_t count);

/* The row with this key, NULL if there is none. */
const OptSpec *opt_find(const OptSpec *opts, size_t count, const char *key);

/* Parses a size in bytes: a decimal number and one of none, B, K/KiB, M/MiB, G/GiB, T/TiB (1024) or kB, MB, GB, TB
 * (1000). -EINVAL, -ERANGE. */
int opt_parse_size(const char *text, uint64_t *ret_bytes, Err *err);

/* Of `count` texts the one nearest to `text` by edit distance, NULL if none is near enough to be meant. */
const char *opt_nearest(const char *text, const char *const *names, size_t count);

/* Writers. They append to `out`; the caller looks at its overflow flag. */
void opt_help(const OptPage *page, size_t width, Str *out);                         /* width: columns, 0 for 80 */
void opt_man(const OptPage *page, const char *version, const char *date, Str *out); /* man(7) roff, section 1 */

/* What may follow the word `before` ("" for none) on a command line, a line each: the names of a flag's value, nothing
 * where its value may be anything, else the flags. */
void opt_complete(const OptPage *page, const char *before, Str *out);

/* Whether the value of a row is bounded, and its bounds: "100ms to 1m", "at least 1". */
bool opt_has_range(const OptSpec *spec);
void opt_add_range(const OptSpec *spec, Str *out);

/* The long flag of a row, without dashes, into `out`; NULL for a row without one. */
enum { OPT_FLAG_MAX = 64 };
const char *opt_flag(const OptSpec *spec, char out[OPT_FLAG_MAX]);

/* What help calls the value of a row: its metavar or a word by type; NULL for a bool. */
const char *opt_metavar(const OptSpec *spec);
