/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker help`: the pages of the verbs, for a terminal, as man pages and as shell completion. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/cleanup.h"
#include "verb/verb.h"
#include "version.h"

typedef struct HelpOptions {
    bool man, completion, complete;
    const char *man_pages;
} HelpOptions;

static const OptSpec help_opts[] = {
    OPT_ROW("man", OPT_BOOL, HelpOptions, man, .help = "as a man page (roff)"),
    OPT_ROW("man-pages", OPT_STRING, HelpOptions, man_pages, .metavar = "FOLDER",
            .help = "write the man pages of all verbs there"),
    OPT_ROW("completion", OPT_BOOL, HelpOptions, completion, .help = "print the completion of all verbs for bash"),
    OPT_ROW("complete", OPT_BOOL, HelpOptions, complete, .help = "for a shell: print what may follow these words"),
};

enum { PAGES_MAX = 64, PATH_MAX_BYTES = 64 };

typedef struct Pages {
    OptPage pages[PAGES_MAX];
    char paths[PAGES_MAX][PATH_MAX_BYTES];
    size_t count;
} Pages;

static void pages_collect(Pages *pages, const Verb *const *list, const char *path)
{
    for (size_t i = 0; list[i] && pages->count < PAGES_MAX; i++) {
        if (list[i]->subs) {
            char deeper[PATH_MAX_BYTES];
            snprintf(deeper, sizeof deeper, "%s %s", path, list[i]->name);
            pages_collect(pages, list[i]->subs, deeper);
        }
        if (!list[i]->run || pages->count == PAGES_MAX)
            continue;
        char *own = pages->paths[pages->count];
        snprintf(own, PATH_MAX_BYTES, "%s", path);
        pages->pages[pages->count++] = verb_page(list[i], own);
    }
}

/* Writes FOLDER/stoker-sim-run.1 and the like, one for each page. */
static int write_man_pages(const Pages *pages, const char *folder, Err *err)
{
    CLEANUP(str_done) Str text;
    CLEANUP(str_done) Str path;

    str_init(&text, 4 << 20);
    str_init(&path, 4096);
    TRY(file_make_dirs(folder, 0755, err));
    for (size_t i = 0; i < pages->count; i++) {
        const OptPage *page = &pages->pages[i];

        str_clear(&text);
        opt_man(page, STOKER_VERSION, STOKER_DATE, &text);
        str_clear(&path);
        str_addf(&path, "%s/", folder);
        for (const char *c = page->program; *c; c++)
            str_addf(&path, "%c", *c == ' ' ? '-' : *c);
        str_addf(&path, "-%s.1", page->verb);
        TRY(file_write(path.text, text.text, text.len, 0644, err));
    }
    return 0;
}

/* Asks the program itself what may come, so that it is never out of date. bash makes a word of its own of the '=' in
 * --flag=value. */
static const char bash_completion[] =
    "# bash completion for stoker\n"
    "_stoker()\n"
    "{\n"
    "    local cur=\"${COMP_WORDS[COMP_CWORD]}\"\n"
    "    [[ $cur == '=' ]] && cur=''\n"
    "    COMPREPLY=($(compgen -W \"$(\"${COMP_WORDS[0]}\" help --complete -- \"${COMP_WORDS[@]:1:COMP_CWORD-1}\" "
    "2>/dev/null)\" -- \"$cur\"))\n"
    "}\n"
    "complete -o default -F _stoker stoker\n";

/* What may follow the words: verbs below the one that they name, and its flags or the values of the last one. */
static void write_completion(const OptArgs *words, Str *out)
{
    static const OptPage bare = {.program = "stoker", .summary = ""};
    const Verb *const *list = verbs;
    const char *before = "", *near;
    OptPage page = bare;
    size_t i = 0;

    for (const Verb *verb; list && i < words->len && (verb = verb_find(list, &words->items[i], 1, &near)); i++) {
        page = verb->run ? verb_page(verb, "stoker") : bare;
        list = verb->subs;
    }
    for (size_t k = i; k < words->len; k++)
        if (strcmp(words->items[k], "=") != 0)
            before = words->items[k];
    opt_complete(&page, before, out);
    for (; i == words->len && list && *list; list++)
        str_addf(out, "%s\n", (*list)->name);
}

static int help_run(VerbCall *call, const void *options)
{
    const HelpOptions *o = options;
    CLEANUP(str_done) Str text;
    str_init(&text, 4 << 20);
    if (o->man_pages) {
        static Pages pages;
        pages_collect(&pages, verbs, "stoker");
        return write_man_pages(&pages, o->man_pages, &call->err) < 0 ? verb_fail(call, EXIT_UNKNOWN) : EXIT_FINE;
    }
    if (o->completion || o->complete) {
        if (o->complete)
            write_completion(&call->args, &text);
        fputs(o->complete ? text.text : bash_completion, stdout);
        return EXIT_FINE;
    }
    if (call->args.len == 0) {
        verb_usage(stdout, verbs, "stoker");
        puts("'stoker help --man VERB' prints its man page.");
        return EXIT_FINE;
    }
    const char *near;
    const Verb *verb = verb_find(verbs, call->args.items, call->args.len, &near);
    if (!verb)
        return verb_failf(call, EXIT_USAGE, "no such verb%s%s%s", near ? "; did you mean '" : "", near ? near : "",
                          near ? "'?" : "");
    CLEANUP(str_done) Str path;
    str_init(&path, 256);
    str_add(&path, "stoker");
    for (size_t i = 0; i + 1 < call->args.len; i++)
        str_addf(&path, " %s", call->args.items[i]);
    OptPage page = verb_page(verb, path.text);
    if (o->man)
        opt_man(&page, STOKER_VERSION, STOKER_DATE, &text);
    else
        opt_help(&page, verb_width(), &text);
    fputs(text.text, stdout);
    return EXIT_FINE;
}

const Verb verb_help = {
    .name = "help",
    .summary = "explain a verb",
    .usage = "[--man] [VERB...]",
    .examples = "stoker help sim run         # the options of `sim run`\n"
                "stoker help --man sim run   # its man page\n"
                "stoker help --completion > /etc/bash_completion.d/stoker",
    VERB_OPTS(help_opts, HelpOptions),
    .run = help_run,
};
