/* SPDX-License-Identifier: Apache-2.0 */
/* A bash completion script: verbs and verbs of verbs, then the options of the verb, then the values of an option. */
#include <stdio.h>
#include <string.h>

#include "base/opt_row.h"

static void add_flag_words(Str *out, const OptPage *page)
{
    char room[OPT_FLAG_MAX];

    for (size_t i = 0; i < page->count; i++) {
        const OptSpec *spec = &page->opts[i];

        if (!opt_row_has_flag(spec) || !opt_row_is_shown(spec))
            continue;
        str_addf(out, "--%s ", opt_flag(spec, room));
        if (spec->type == OPT_BOOL && spec->def && !strcmp(spec->def, "true"))
            str_addf(out, "--no-%s ", opt_flag(spec, room));
    }
    str_add(out, "--help");
}

/* The compgen arguments for an option's value; NULL where anything may follow. */
static const char *compgen_action(const OptSpec *spec)
{
    const char *metavar = opt_metavar(spec);

    if (metavar && !strcmp(metavar, "FILE"))
        return "-f";
    if (metavar && !strcmp(metavar, "DIR"))
        return "-d";
    return NULL;
}

static void add_value_case(Str *out, const char *verb, const OptSpec *spec)
{
    const char *action = compgen_action(spec);
    char room[OPT_FLAG_MAX];

    if (!opt_row_has_flag(spec) || !opt_row_is_shown(spec) || spec->type == OPT_BOOL)
        return;
    str_addf(out, "    %s:--%s", verb, opt_flag(spec, room));
    if (spec->short_flag)
        str_addf(out, "|%s:-%c", verb, spec->short_flag);
    str_add(out, ") ");
    if (spec->type == OPT_ENUM) {
        str_add(out, "COMPREPLY=($(compgen -W '");
        for (size_t i = 0; spec->names[i]; i++)
            str_addf(out, "%s%s", i ? " " : "", spec->names[i]);
        str_add(out, "' -- \"$cur\")); ");
    } else if (action) {
        str_addf(out, "COMPREPLY=($(compgen %s -- \"$cur\")); ", action);
    }
    str_add(out, "return ;;\n");
}

enum { KEY_MAX = 128 };

/* A page's place among the verbs: "sim_run" for program "stoker sim" and verb "run", "" for the program itself. */
static const char *key_of(const OptPage *page, char out[KEY_MAX])
{
    const char *deeper = page->program + strcspn(page->program, " ");

    snprintf(out, KEY_MAX, "%s%s%s", *deeper ? deeper + 1 : "", *deeper && page->verb ? "_" : "",
             page->verb ? page->verb : "");
    for (char *p = out; *p; p++)
        if (*p == ' ')
            *p = '_';
    return out;
}

/* The word of `key` that follows `prefix`: its length and *ret, or 0 where the key does not go on from there. */
static size_t word_after(const char *key, const char *prefix, const char **ret)
{
    size_t n = strlen(prefix);

    if (strncmp(key, prefix, n) != 0 || (n && key[n] != '_'))
        return 0;
    *ret = key + n + (n > 0);
    return strcspn(*ret, "_");
}

/* Whether an earlier page than `at` has the same first `len` bytes of key, as a whole word. */
static bool named_before(const OptPage *pages, size_t at, const char *key, size_t len)
{
    char other[KEY_MAX];

    for (size_t i = 0; i < at; i++) {
        key_of(&pages[i], other);
        if (strncmp(other, key, len) == 0 && (other[len] == '\0' || other[len] == '_'))
            return true;
    }
    return false;
}

/* The words that may follow `prefix`, each once, with a blank before. */
static void add_children(Str *out, const OptPage *pages, size_t count, const char *prefix)
{
    char key[KEY_MAX];

    for (size_t i = 0; i < count; i++) {
        const char *word = NULL;
        size_t len = word_after(key_of(&pages[i], key), prefix, &word);

        if (len > 0 && !named_before(pages, i, key, (size_t)(word - key) + len))
            str_addf(out, " %.*s", (int)len, word);
    }
}

/* Calls for every key and every beginning of one, the empty one first, each once. */
static void each_prefix(const OptPage *pages, size_t count, Str *out,
                        void (*fn)(Str *out, const OptPage *pages, size_t count, const char *prefix))
{
    char key[KEY_MAX];

    fn(out, pages, count, "");
    for (size_t i = 0; i < count; i++) {
        key_of(&pages[i], key);
        for (size_t len = strcspn(key, "_"); len > 0; len += key[len] ? 1 + strcspn(key + len + 1, "_") : 0) {
            char end = key[len];

            key[len] = '\0';
            if (!named_before(pages, i, key, len))
                fn(out, pages, count, key);
            key[len] = end;
            if (!end)
                break;
        }
    }
}

static void add_known(Str *out, const OptPage *pages, size_t count, const char *prefix)
{
    (void)pages;
    (void)count;
    str_addf(out, " %s", prefix);
}

/* One branch: flags of the page with that key, verbs below it. */
static void add_branch(Str *out, const OptPage *pages, size_t count, const char *prefix)
{
    char key[KEY_MAX];
    bool page = false;

    str_addf(out, "    '%s') words='", prefix);
    for (size_t i = 0; i < count && !page; i++) {
        page = !strcmp(key_of(&pages[i], key), prefix);
        if (page)
            add_flag_words(out, &pages[i]);
    }
    str_add(out, page ? "' verbs='" : "--help' verbs='");
    add_children(out, pages, count, prefix);
    str_add(out, "' ;;\n");
}

void opt_bash(const OptPage *pages, size_t count, Str *out)
{
    const char *all = count ? pages[0].program : "";
    int len = (int)strcspn(all, " ");
    char key[KEY_MAX];

    str_addf(out, "# bash completion for %.*s\n_%.*s()\n{\n", len, all, len, all);
    str_add(out, "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
                 "    local verb='' verbs='' words='' next i known='");
    each_prefix(pages, count, out, add_known);
    /* bash makes a word of its own of the '=' in --flag=value */
    str_add(
        out,
        " '\n"
        "    if [[ $cur == '=' ]]; then cur=''; elif [[ $prev == '=' ]]; then prev=\"${COMP_WORDS[COMP_CWORD-2]}\"; "
        "fi\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        next=\"${verb:+${verb}_}${COMP_WORDS[i]}\"\n"
        "        [[ $known == *\" $next \"* ]] || break\n"
        "        verb=\"$next\"\n"
        "    done\n"
        "    COMPREPLY=()\n"
        "    case \"$verb:$prev\" in\n");
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < pages[i].count; j++)
            add_value_case(out, key_of(&pages[i], key), &pages[i].opts[j]);
    str_add(out, "    esac\n    case \"$verb\" in\n");
    each_prefix(pages, count, out, add_branch);
    str_add(out, "    esac\n"
                 "    [[ $i -eq $COMP_CWORD ]] && words=\"$words$verbs\"\n"
                 "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                 "}\n");
    str_addf(out, "complete -o default -F _%.*s %.*s\n", len, all, len, all);
}
