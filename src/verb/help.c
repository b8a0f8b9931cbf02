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
    OPT_ROW("completion", OPT_BOOL, HelpOptions, completion,
            .help =
                "print the completion of all verbs for the shell that is named: bash, zsh or fish; bash if none is"),
    OPT_ROW("complete", OPT_BOOL, HelpOptions, complete, .help = "for a shell: print what may follow these words"),
};

enum { PAGES_MAX = 128, PATH_MAX_BYTES = 64 };

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

/* Appends stoker(1): what the program is, and its verbs. */
static void write_own_page(Str *out)
{
    static const OptPage page = {
        .program = "stoker",
        .summary = "GPU monitoring, health and performance for nodes with NVIDIA GPUs",
        .usage = "VERB [OPTION...]",
        .description =
            "Says for every GPU whether it is healthy, whether it is really working, who is using it and what to do. "
            "'stoker VERB --help' explains a verb; each has a man page of its own.",
        .exit_codes = verb_common_codes,
    };

    opt_man(&page, STOKER_VERSION, STOKER_DATE, out);
    str_add(out, ".SH VERBS\n");
    for (const Verb *const *verb = verbs; *verb; verb++)
        str_addf(out, ".TP\n.B stoker %s\n%s\n", (*verb)->name, (*verb)->summary);
}

static int write_page(const char *folder, const char *name, const Str *text, Err *err)
{
    CLEANUP(str_done) Str path;

    str_init(&path, 4096);
    str_addf(&path, "%s/%s.1", folder, name);
    return file_write(path.text, text->text, text->len, 0644, err);
}

/* Writes FOLDER/stoker.1, and FOLDER/stoker-sim-run.1 and the like, one for each page. */
static int write_man_pages(const Pages *pages, const char *folder, Err *err)
{
    CLEANUP(str_done) Str text;

    str_init(&text, 4 << 20);
    TRY(file_make_dirs(folder, 0755, err));
    write_own_page(&text);
    TRY(write_page(folder, "stoker", &text, err));
    for (size_t i = 0; i < pages->count; i++) {
        const OptPage *page = &pages->pages[i];
        char name[2 * PATH_MAX_BYTES];

        str_clear(&text);
        opt_man(page, STOKER_VERSION, STOKER_DATE, &text);
        snprintf(name, sizeof name, "%s-%s", page->program, page->verb);
        for (char *c = name; *c; c++)
            *c = *c == ' ' ? '-' : *c;
        TRY(write_page(folder, name, &text, err));
    }
    return 0;
}

/* Ask the program itself what may come, so that they are never out of date. bash makes a word of its own of the '=' in
 * --flag=value; the others leave it in the word that is being written. zsh's is a file below $fpath, or is read at
 * once. */
static const struct {
    const char *name, *script;
} shells[] = {
    {"bash",
     "# bash completion for stoker\n"
     "_stoker()\n"
     "{\n"
     "    local cur=\"${COMP_WORDS[COMP_CWORD]}\"\n"
     "    [[ $cur == '=' ]] && cur=''\n"
     "    COMPREPLY=($(compgen -W \"$(\"${COMP_WORDS[0]}\" help --complete -- \"${COMP_WORDS[@]:1:COMP_CWORD-1}\" "
     "2>/dev/null)\" -- \"$cur\"))\n"
     "}\n"
     "complete -o default -F _stoker stoker\n"},
    {"zsh", "#compdef stoker\n"
            "_stoker()\n"
            "{\n"
            "    local -a before replies\n"
            "    before=(\"${(@Q)words[2,CURRENT-1]}\")\n"
            "    [[ $PREFIX == --*=* ]] && before+=(\"${PREFIX%%=*}\") && compset -P '*='\n"
            "    replies=(${(f)\"$(\"${(Q)words[1]}\" help --complete -- \"${before[@]}\" 2>/dev/null)\"})\n"
            "    compadd -- \"${replies[@]}\" || _files\n"
            "}\n"
            "if [[ $funcstack[1] == _stoker ]]; then _stoker \"$@\"; else compdef _stoker stoker; fi\n"},
    {"fish", "# fish completion for stoker\n"
             "function __stoker_complete\n"
             "    set -l before (commandline -opc)\n"
             "    set -l program $before[1]\n"
             "    set -e before[1]\n"
             "    set -l flag (string match -r -- '^--[^=]*(?==)' (commandline -ct))\n"
             "    for reply in ($program help --complete -- $before $flag 2>/dev/null)\n"
             "        echo -- (string join = -- $flag $reply)\n"
             "    end\n"
             "end\n"
             "complete -c stoker -a '(__stoker_complete)'\n"},
};

/* Returns the script for the shell that is named, bash's without a name; NULL if there is none. */
static const char *find_completion(const OptArgs *args)
{
    for (size_t i = 0; i < ARRAY_LEN(shells); i++)
        if (args->len == 0 || (args->len == 1 && strcmp(args->items[0], shells[i].name) == 0))
            return shells[i].script;
    return NULL;
}

/* What may follow the words: verbs below the one that they name, its arguments, and its flags or the values of the last
 * one. */
static void write_completion(const OptArgs *words, Str *out)
{
    static const OptPage bare = {.program = "stoker", .summary = ""};
    const Verb *const *list = verbs;
    CLEANUP(arena_done) Arena arena = {0};
    const char *before = "", *near;
    const Verb *named = NULL;
    OptPage page = bare;
    size_t i = 0;

    for (const Verb *verb; list && i < words->len && (verb = verb_find(list, &words->items[i], 1, &near)); i++) {
        named = verb;
        page = verb->run ? verb_page(verb, "stoker") : bare;
        list = verb->subs;
    }
    for (size_t k = i; k < words->len; k++)
        if (strcmp(words->items[k], "=") != 0)
            before = words->items[k];
    opt_complete(&page, before, out);
    if (named && named->add_values && i == words->len)
        named->add_values(&arena, out);
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
    if (o->completion) {
        const char *script = find_completion(&call->args);
        if (!script)
            return verb_failf(call, EXIT_USAGE, "completion is there for bash, zsh and fish");
        fputs(script, stdout);
        return EXIT_FINE;
    }
    if (o->complete) {
        write_completion(&call->args, &text);
        fputs(text.text, stdout);
        return EXIT_FINE;
    }
    if (call->args.len == 0 && o->man) {
        write_own_page(&text);
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
    .usage = "[--man] [VERB...] | --completion [bash|zsh|fish]",
    .examples = "stoker help sim run         # the options of `sim run`\n"
                "stoker help --man sim run   # its man page\n"
                "stoker help --completion bash > /etc/bash_completion.d/stoker\n"
                "stoker help --completion fish > ~/.config/fish/completions/stoker.fish",
    VERB_OPTS(help_opts, HelpOptions),
    .run = help_run,
};
