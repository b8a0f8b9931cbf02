/* SPDX-License-Identifier: Apache-2.0 */
/* From the command line to a verb: finding it, parsing its options, running it. */
#include "verb/verb.h"

#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "version.h"

#define VERB(name) extern const Verb verb_##name;
#include "verb/verbs.def"
#undef VERB

const Verb *const verbs[] = {
#define VERB(name) &verb_##name,
#include "verb/verbs.def"
#undef VERB
    NULL,
};

const char verb_common_codes[] = "0  fine\n"
                                 "1  a finding: what was asked about is not well\n"
                                 "2  the command line or a file is wrong\n"
                                 "3  could not tell: something that is needed does not answer";

int verb_fail(const VerbCall *call, int code)
{
    fprintf(stderr, "%s: %s\n", call->path, call->err.text);
    return code;
}

int verb_failf(VerbCall *call, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(call->err.text, sizeof call->err.text, fmt, args);
    va_end(args);
    return verb_fail(call, code);
}

bool verb_flush(void)
{
    return fflush(stdout) == 0 && !ferror(stdout); /* a line that failed leaves nothing for fflush to fail on */
}

int verb_end(VerbCall *call, int code)
{
    if (verb_flush())
        return code;
    return verb_failf(call, EXIT_UNKNOWN, "the output could not be written: it is incomplete");
}

bool verb_is_id(const char *text, size_t max)
{
    const size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");

    return len > 0 && len <= max && !text[len];
}

size_t verb_width(void)
{
    struct winsize ws;
    const char *columns = getenv("COLUMNS");
    if (columns && atoi(columns) > 0)
        return (size_t)atoi(columns);
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0 ? ws.ws_col : 80;
}

const char *const verb_colour_names[] = {"auto", "always", "never", NULL};

bool verb_coloured(int colour, bool here)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    if (colour != VERB_COLOUR_AUTO)
        return colour == VERB_COLOUR_ALWAYS;
    return here && isatty(STDOUT_FILENO) && !(no && no[0]) && term && strcmp(term, "dumb") != 0;
}

bool verb_utf8(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    bool utf8 = locale && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;

    if (locale)
        freelocale(locale);
    return utf8;
}

const char *verb_program_dir(Arena *arena)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return ".";
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    return arena_strdup(arena, path);
}

const char *verb_runtime_dir(Arena *arena)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0)
        return "/run/stoker";
    if (runtime && runtime[0])
        return arena_printf(arena, "%s/stoker", runtime);
    return arena_printf(arena, "/tmp/stoker-%u", (unsigned)geteuid());
}

const char *verb_child_program(Arena *arena, const char *folder, const char *name)
{
    const char *dir = verb_program_dir(arena);
    const char *const places[] = {
        arena_printf(arena, "%s/%s/%s", dir, folder, name),
        arena_printf(arena, "%s/../" STOKER_LIBEXECDIR "/stoker/%s", dir, name),
        arena_printf(arena, "%s/%s", dir, name),
    };

    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return places[1];
}

int verb_read_file(const char *path, size_t max, Str *to, Err *err)
{
    return file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, max, to, err);
}

const char *verb_data_path(Arena *arena, const char *name)
{
    const char *set = getenv("STOKER_DATA"), *dir = verb_program_dir(arena);
    const char *built = arena_printf(arena, "%s/data/%s", dir, name);

    if (set && *set)
        return arena_printf(arena, "%s/%s", set, name);
    return access(built, F_OK) == 0 ? built : arena_printf(arena, "%s/../share/stoker/%s", dir, name);
}

static const char *nearest_of(const Verb *const *list, const char *word)
{
    const char *names[64];
    size_t n = 0;
    for (; list[n] && n < ARRAY_LEN(names); n++)
        names[n] = list[n]->name;
    return opt_nearest(word, names, n);
}

const Verb *verb_find(const Verb *const *list, const char *const *words, size_t count, const char **ret_nearest)
{
    *ret_nearest = NULL;
    for (size_t i = 0; count > 0 && list && list[i]; i++) {
        if (strcmp(list[i]->name, words[0]) != 0)
            continue;
        return count == 1 ? list[i] : verb_find(list[i]->subs, words + 1, count - 1, ret_nearest);
    }
    if (count > 0 && list)
        *ret_nearest = nearest_of(list, words[0]);
    return NULL;
}

/* "VERB..." and a paragraph that lists the subverbs, for a verb that has some. */
static const char *subs_text(const Verb *verb)
{
    static char text[4096];
    size_t used = 0;
    for (size_t i = 0; verb->subs[i] && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s: %s", i ? "\n\n" : "", verb->subs[i]->name,
                                 verb->subs[i]->summary);
    return text;
}

OptPage verb_page(const Verb *verb, const char *path)
{
    return (OptPage){.program = path,
                     .verb = verb->name,
                     .summary = verb->summary,
                     .usage = verb->run ? verb->usage : "VERB ...",
                     .description = verb->run ? verb->description : subs_text(verb),
                     .examples = verb->examples,
                     .exit_codes = verb->exit_codes ? verb->exit_codes : verb_common_codes,
                     .opts = verb->opts,
                     .count = verb->opt_count,
                     .config = verb->config};
}

static int print_help(const Verb *verb, const char *path, bool folded)
{
    CLEANUP(str_done) Str text;
    str_init(&text, 1 << 20);
    OptPage page = verb_page(verb, path);
    page.folded = folded;
    opt_help(&page, verb_width(), &text);
    fputs(text.text, stdout);
    return EXIT_FINE;
}

static int run_leaf(const Verb *verb, const char *before, int argc, char **argv)
{
    static Arena arena;
    VerbCall call = {.arena = &arena};
    call.path = arena_printf(&arena, "%s %s", before, verb->name);
    void *options = arena_alloc(&arena, verb->opt_size + 1);
    OptSet set = {
        .opts = verb->opts, .count = verb->opt_count, .into = options, .arena = &arena, .command = verb->command};
    Err of_env;
    if (opt_defaults(&set, &call.err) < 0)
        return verb_fail(&call, EXIT_USAGE);
    const int env = opt_env(&set, environ, &of_env); /* below the command line; what is wrong in it hides no help */
    call.argc = argc;
    call.argv = verb->rewrite ? verb->rewrite(&arena, argc, argv) : argv;
    int rc = opt_args(&set, argc, call.argv, &call.args, &call.err);
    if (rc > 0)
        return verb_end(&call, print_help(verb, before, rc == OPT_HELP_ALL));
    if (rc < 0)
        return verb_fail(&call, EXIT_USAGE);
    if (env < 0)
        return verb_failf(&call, EXIT_USAGE, "%s", of_env.text);
    const char *near;
    if (verb->no_args && call.args.len > 0 && verb_find(verb->subs, call.args.items, 1, &near))
        return verb_failf(&call, EXIT_USAGE, "options stand behind '%s': %s %s [OPTION...]", call.args.items[0],
                          call.path, call.args.items[0]);
    if (verb->no_args && call.args.len > 0)
        return verb_failf(&call, EXIT_USAGE, "takes no argument, got '%s'%s", call.args.items[0], verb->no_args);
    return verb_end(&call, verb->run(&call, options));
}

void verb_usage(FILE *to, const Verb *const *list, const char *path)
{
    fprintf(to, "usage: %s VERB [OPTION...]\n\n", path);
    for (size_t i = 0; list[i]; i++)
        fprintf(to, "  %-10s %s\n", list[i]->name, list[i]->summary);
    fprintf(to, "\n%s VERB --help says more.\n", path);
}

static int run_list(const Verb *const *list, const char *path, int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        verb_usage(argc < 2 ? stderr : stdout, list, path);
        return argc < 2 ? EXIT_USAGE : EXIT_FINE;
    }
    const char *near, *word = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    const Verb *verb = verb_find(list, &word, 1, &near);
    if (!verb) {
        fprintf(stderr, "%s: no verb '%s'%s%s%s; '%s --help' lists them\n", path, word, near ? "; did you mean '" : "",
                near ? near : "", near ? "'?" : "", path);
        return EXIT_USAGE;
    }
    const char *sub = argc > 2 ? argv[2] : "";
    if (!verb->subs || (verb->run && !verb_find(verb->subs, &sub, 1, &near)))
        return run_leaf(verb, path, argc - 1, argv + 1);
    char deeper[128];
    snprintf(deeper, sizeof deeper, "%s %s", path, verb->name);
    return run_list(verb->subs, deeper, argc - 1, argv + 1);
}

/* Under the name of the exporter whose place we take, every word is the agent's. */
static int run_as_exporter(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-v") == 0)) {
        puts("dcgm-exporter version " STOKER_VERSION " (stoker)");
        return EXIT_FINE;
    }
    return run_leaf(&verb_agent, "stoker", argc, argv);
}

int verb_main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL, *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";

    if (strcmp(name, "dcgm-exporter") == 0)
        return run_as_exporter(argc, argv);
    return run_list(verbs, "stoker", argc, argv);
}
