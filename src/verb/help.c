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
    bool man;
    const char *man_pages;
    bool completion;
} HelpOptions;

static const OptSpec help_opts[] = {
    {.key = "man",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(HelpOptions, man),
     .help = "as a man page (roff)"},
    {.key = "man-pages",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(HelpOptions, man_pages),
     .metavar = "FOLDER",
     .help = "write the man pages of all verbs there"},
    {.key = "completion",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(HelpOptions, completion),
     .help = "print the completion of all verbs for bash"},
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

static int help_run(VerbCall *call, const void *options)
{
    const HelpOptions *o = options;
    CLEANUP(str_done) Str text;
    str_init(&text, 4 << 20);
    if (o->completion || o->man_pages) {
        static Pages pages;
        pages_collect(&pages, verbs, "stoker");
        if (o->man_pages)
            return write_man_pages(&pages, o->man_pages, &call->err) < 0 ? verb_fail(call, EXIT_UNKNOWN) : EXIT_FINE;
        opt_bash(pages.pages, pages.count, &text);
        fputs(text.text, stdout);
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
    .opts = help_opts,
    .opt_count = ARRAY_LEN(help_opts),
    .opt_size = sizeof(HelpOptions),
    .run = help_run,
};
