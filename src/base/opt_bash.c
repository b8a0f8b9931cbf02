/* SPDX-License-Identifier: Apache-2.0 */
/* A bash completion script: verbs, then the options of the verb, then the values of an option. */
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

static const char *verb_of(const OptPage *page)
{
    return page->verb ? page->verb : "";
}

static void add_verb_words(Str *out, const OptPage *pages, size_t count)
{
    bool any = false;

    str_add(out, "    local verbs='");
    for (size_t i = 0; i < count; i++) {
        if (!pages[i].verb)
            continue;
        str_addf(out, "%s%s", any ? " " : "", pages[i].verb);
        any = true;
    }
    str_add(out, "'\n");
}

void opt_bash(const OptPage *pages, size_t count, Str *out)
{
    const char *program = count ? pages[0].program : "";

    str_addf(out, "# bash completion for %s\n_%s()\n{\n", program, program);
    str_add(out, "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\" verb='' words=''\n");
    add_verb_words(out, pages, count);
    /* bash makes a word of its own of the '=' in --flag=value */
    str_add(
        out,
        "    if [[ $cur == '=' ]]; then cur=''; elif [[ $prev == '=' ]]; then prev=\"${COMP_WORDS[COMP_CWORD-2]}\"; "
        "fi\n"
        "    [[ $COMP_CWORD -gt 1 && \" $verbs \" == *\" ${COMP_WORDS[1]} \"* ]] && verb=\"${COMP_WORDS[1]}\"\n"
        "    COMPREPLY=()\n"
        "    case \"$verb:$prev\" in\n");
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < pages[i].count; j++)
            add_value_case(out, verb_of(&pages[i]), &pages[i].opts[j]);
    str_add(out, "    esac\n    case \"$verb\" in\n");
    for (size_t i = 0; i < count; i++) {
        str_addf(out, "    '%s') words='", verb_of(&pages[i]));
        add_flag_words(out, &pages[i]);
        str_add(out, "' ;;\n");
    }
    str_add(out, "    esac\n"
                 "    [[ $COMP_CWORD -eq 1 ]] && words=\"$words $verbs\"\n"
                 "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                 "}\n");
    str_addf(out, "complete -o default -F _%s %s\n", program, program);
}
