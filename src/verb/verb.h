/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A verb of the command line is one const Verb: its texts, its option table and its function. Help, man page,
 * completion and dispatch come from it. Verbs wire the floors together; nothing knows verbs but main.c.
 */
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"

/* Exit codes of every verb. */
enum { EXIT_FINE = 0, EXIT_FINDING = 1, EXIT_USAGE = 2, EXIT_UNKNOWN = 3 };
extern const char verb_common_codes[]; /* as lines of a page */

typedef struct VerbCall {
    const char *path; /* what errors begin with: "stoker sim run" */
    Arena *arena;     /* lives as long as the process */
    OptArgs args;     /* positional arguments */
    int argc;         /* the words that were parsed, the verb's own first: for a verb that parses them again */
    char **argv;
    Err err; /* room for the verb's error */
} VerbCall;

typedef struct Verb {
    const char *name, *summary;
    const char *usage, *description, *examples, *exit_codes; /* for help; NULL: none, or the common ones */
    const OptSpec *opts;
    size_t opt_count;
    size_t opt_size;     /* of the struct that the options fill */
    const char *no_args; /* it takes no argument: what to say behind that, mostly ""; NULL: `run` looks at them */
    bool config;         /* the keys of `opts` are those of a configuration file */
    bool command;        /* its first argument begins a command, whose options are not its own */
    int (*run)(VerbCall *call, const void *options);        /* returns an exit code */
    char **(*rewrite)(Arena *arena, int argc, char **argv); /* other spellings of the words, before parsing; or NULL */
    void (*add_values)(Arena *arena, Str *out); /* for a shell's completion: what an argument may be, a line each; or
                                                   NULL */
    const struct Verb *const *subs;             /* NULL-ended; a verb has these, `run`, or both: then `run` takes what
                          names none of these */
} Verb;

/* Of a Verb: its table of options and the struct that they fill. */
#define VERB_OPTS(table, Options) .opts = table, .opt_count = ARRAY_LEN(table), .opt_size = sizeof(Options)
/* The rest of a row of the option kubeconfig, which every verb has that speaks to the API server. */
#define VERB_KUBECONFIG                                                                                                \
    .env = "KUBECONFIG", .metavar = "FILE", .help = "server and credentials of a kubeconfig, not the service account's"

extern const Verb *const verbs[]; /* NULL-ended, in the order of the help */

/* Parses and runs: argv[0] is the program. Returns the exit code. */
int verb_main(int argc, char **argv);

/* Prints "PATH: text" from call->err (or a format) to stderr and returns `code`. */
int verb_fail(const VerbCall *call, int code);
/* Writes out what was printed; false where some of it could not be written: the disk is full, the terminal gone. */
bool verb_flush(void);
int verb_failf(VerbCall *call, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Flushes stdout: EXIT_UNKNOWN and a message when the output could not be written (a full disk), else `code`. */
int verb_end(VerbCall *call, int code);

/* Prints usage and the list of verbs of `path` ("stoker sim"); `to` is stdout or stderr. */
void verb_usage(FILE *to, const Verb *const *list, const char *path);

/* The verb that words[0..count-1] name, from `list`; NULL and the nearest name in *ret_nearest otherwise. */
const Verb *verb_find(const Verb *const *list, const char *const *words, size_t count, const char **ret_nearest);
/* Help page of a verb; `path` is what stands before its own name ("stoker sim"). */
OptPage verb_page(const Verb *verb, const char *path);
/* The folder of the running program, "." where that cannot be told. Lies in the arena. */
const char *verb_program_dir(Arena *arena);
/* Where sockets and locks of this user lie: /run/stoker for root, below $XDG_RUNTIME_DIR, or in /tmp by user id. */
const char *verb_runtime_dir(Arena *arena);
/* A program of ours that is started as a child, as built in `folder` of the build, or as installed. */
const char *verb_child_program(Arena *arena, const char *folder, const char *name);
/* The path of an installed data file: in $STOKER_DATA, in the build folder the program was started from, or in its
 * prefix's share/stoker. */
const char *verb_data_path(Arena *arena, const char *name);
/* Appends what a file named on the command line has, "-" being stdin; as file_read. */
int verb_read_file(const char *path, size_t max, Str *to, Err *err);
/* Whether it is an id: 1 to `max` letters, digits, '-' and '_'. */
bool verb_is_id(const char *text, size_t max);
/* Columns of the terminal, 80 where there is none. */
size_t verb_width(void);

/* An option `colour`: names of its values, and whether to colour stdout. `here`: the text goes to stdout and not into a
 * file; auto also wants a terminal that can, and no NO_COLOR. */
enum { VERB_COLOUR_AUTO, VERB_COLOUR_ALWAYS, VERB_COLOUR_NEVER };
extern const char *const verb_colour_names[];
bool verb_coloured(int colour, bool here);
/* Whether the user's locale writes UTF-8. */
bool verb_utf8(void);
