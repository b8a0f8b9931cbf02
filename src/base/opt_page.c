/* SPDX-License-Identifier: Apache-2.0 */
/* Options as pages: --help, the man page, completion for bash. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/opt_row.h"

/* -- help ------------------------------------------------------------------------------------------------------------
 */

enum {
    WIDTH_DEFAULT = 80,
    WIDTH_MIN = 40,
    WIDTH_MAX = 120,
    HELP_COLUMN = 30,
    HELP_COLUMN_NARROW = 12,
    WIDTH_NARROW = 64,
    LINE_MAX_BYTES = 4096
};

/* Columns of a UTF-8 text without wide characters. */
static size_t count_columns(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static void add_blanks(Str *out, size_t count)
{
    while (count--)
        str_addc(out, ' ');
}

/* Appends words from column `at` on, breaking before `width`; further lines begin at `indent`. Ends the line. */
static void add_wrapped(Str *out, const char *text, size_t at, size_t indent, size_t width)
{
    bool first = true;

    while (*text) {
        size_t len = strcspn(text, " \n"), wide = count_columns(text, len);

        if (!first && at + 1 + wide > width) {
            str_addc(out, '\n');
            add_blanks(out, indent);
            at = indent;
        } else if (!first) {
            str_addc(out, ' ');
            at++;
        }
        str_addn(out, text, len);
        at += wide;
        text += len;
        text += strspn(text, " \n");
        first = false;
    }
    str_addc(out, '\n');
}

static void add_row(Str *out, const char *left, const char *right, size_t width)
{
    size_t at = count_columns(left, strlen(left)), column = width < WIDTH_NARROW ? HELP_COLUMN_NARROW : HELP_COLUMN;

    str_add(out, left);
    if (at + 2 > column) {
        str_addc(out, '\n');
        at = 0;
    }
    add_blanks(out, column - at);
    add_wrapped(out, right, column, column, width);
}

static void add_option(Str *out, const OptSpec *spec, size_t width)
{
    CLEANUP(str_done) Str left;
    CLEANUP(str_done) Str right;
    size_t before;

    str_init(&left, LINE_MAX_BYTES);
    str_init(&right, LINE_MAX_BYTES);
    str_add(&left, spec->short_flag ? "  " : "      ");
    opt_row_add_flags(spec, &left);
    str_add(&right, spec->help ? spec->help : "");
    before = right.len;
    str_add(&right, " (");
    opt_row_add_notes(spec, false, &right);
    if (right.len == before + 2)
        str_cut(&right, before);
    else
        str_addc(&right, ')');
    add_row(out, left.text, right.text, width);
}

static void add_options(Str *out, const OptPage *page, size_t width)
{
    bool help = true;

    str_add(out, "\nOptions:\n");
    for (size_t i = 0; i < page->count; i++) {
        const OptSpec *spec = &page->opts[i];

        if (!opt_row_has_flag(spec) || !opt_row_is_shown(spec))
            continue;
        add_option(out, spec, width);
        help &= spec->short_flag != 'h';
    }
    add_row(out, help ? "  -h, --help" : "      --help", "show this help", width);
}

/* Paragraphs are wrapped one by one; lines that begin with a blank stay as they are. */
static void add_paragraphs(Str *out, const char *text, size_t width)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        CLEANUP(str_done) Str part;

        str_init(&part, LINE_MAX_BYTES * 4);
        str_addn(&part, text, len);
        str_addc(out, '\n');
        if (part.text[0] == ' ')
            str_addf(out, "%s\n", part.text);
        else
            add_wrapped(out, part.text, 0, 0, width);
        text += len;
        text += strspn(text, "\n");
    }
}

static void add_lines(Str *out, const char *title, const char *text)
{
    str_addf(out, "\n%s:\n", title);
    while (*text) {
        size_t len = strcspn(text, "\n");

        str_addf(out, "  %.*s\n", (int)len, text);
        text += len + (text[len] == '\n');
    }
}

void opt_help(const OptPage *page, size_t width, Str *out)
{
    if (!width)
        width = WIDTH_DEFAULT;
    if (width < WIDTH_MIN)
        width = WIDTH_MIN;
    if (width > WIDTH_MAX)
        width = WIDTH_MAX;
    str_add(out, "Usage: ");
    opt_row_add_name(page, " ", out);
    if (*opt_row_usage(page))
        str_addf(out, " %s", opt_row_usage(page));
    str_add(out, "\n\n");
    opt_row_add_name(page, " ", out);
    str_add(out, " - ");
    add_wrapped(out, page->summary, strlen(page->program) + (page->verb ? strlen(page->verb) + 1 : 0) + 3, 4, width);
    if (page->description)
        add_paragraphs(out, page->description, width);
    add_options(out, page, width);
    if (page->exit_codes)
        add_lines(out, "Exit codes", page->exit_codes);
    if (page->examples)
        add_lines(out, "Examples", page->examples);
}

/* -- man -------------------------------------------------------------------------------------------------------------
 */

/* Text as roff shows it unchanged: backslashes, hyphens that are minus signs, and no macro at a line's begin. */
static void add_roff(Str *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\')
            str_add(out, "\\e");
        else if (text[i] == '-')
            str_add(out, "\\-");
        else if ((text[i] == '.' || text[i] == '\'') && (!out->len || out->text[out->len - 1] == '\n'))
            str_addf(out, "\\&%c", text[i]);
        else
            str_addc(out, text[i]);
    }
}

static void add_text(Str *out, const char *text)
{
    add_roff(out, text, strlen(text));
}

/* The page's own name, one word: "stoker-sim-run". */
static void add_page_name(Str *out, const OptPage *page, bool upper)
{
    CLEANUP(str_done) Str name;

    str_init(&name, 256);
    opt_row_add_name(page, "-", &name);
    for (const char *p = name.text; *p; p++) {
        if (*p == '-' || *p == ' ')
            str_add(out, "\\-");
        else
            str_addc(out, upper ? (char)toupper((unsigned char)*p) : *p);
    }
}

static void add_name_section(Str *out, const OptPage *page, const char *version, const char *date)
{
    int program = (int)strcspn(page->program, " ");

    str_add(out, ".TH ");
    add_page_name(out, page, true);
    str_addf(out, " 1 \"%s\" \"%.*s %s\" \"User Commands\"\n.SH NAME\n", date, program, page->program, version);
    add_page_name(out, page, false);
    str_add(out, " \\- ");
    add_text(out, page->summary);
    str_add(out, "\n.SH SYNOPSIS\n.B ");
    opt_row_add_name(page, " ", out);
    str_addc(out, '\n');
    add_text(out, opt_row_usage(page));
    str_addc(out, '\n');
}

static void add_man_option(Str *out, const OptSpec *spec)
{
    CLEANUP(str_done) Str text;
    size_t before;

    str_init(&text, 4096);
    opt_row_add_flags(spec, &text);
    str_add(out, ".TP\n.B ");
    add_text(out, text.text);
    str_addc(out, '\n');
    str_clear(&text);
    str_add(&text, spec->help ? spec->help : "");
    before = text.len;
    str_add(&text, " (");
    opt_row_add_notes(spec, true, &text);
    str_addc(&text, ')');
    if (text.len == before + 3)
        str_cut(&text, before);
    add_text(out, text.text);
    str_addc(out, '\n');
}

static void add_man_options(Str *out, const OptPage *page)
{
    str_add(out, ".SH OPTIONS\n");
    for (size_t i = 0; i < page->count; i++)
        if (opt_row_has_flag(&page->opts[i]) && opt_row_is_shown(&page->opts[i]))
            add_man_option(out, &page->opts[i]);
    str_add(out, ".TP\n.B \\-\\-help\nshow a short help\n");
}

static void add_environment(Str *out, const OptPage *page)
{
    bool any = false;

    for (size_t i = 0; i < page->count; i++) {
        const OptSpec *spec = &page->opts[i];

        if (!spec->env || !opt_row_is_shown(spec))
            continue;
        str_addf(out, "%s.TP\n.B %s\n", any ? "" : ".SH ENVIRONMENT\n", spec->env);
        add_text(out, spec->help ? spec->help : "");
        str_addc(out, '\n');
        any = true;
    }
}

static void add_man_paragraphs(Str *out, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);

        str_add(out, *text == ' ' ? ".PP\n.nf\n" : ".PP\n");
        add_roff(out, text, len);
        str_add(out, *text == ' ' ? "\n.fi\n" : "\n");
        text += len;
        text += strspn(text, "\n");
    }
}

/* A section of lines that stay lines. */
static void add_man_lines(Str *out, const char *title, const char *text)
{
    size_t len = strlen(text);

    str_addf(out, ".SH %s\n.nf\n", title);
    add_roff(out, text, len);
    str_add(out, len && text[len - 1] == '\n' ? ".fi\n" : "\n.fi\n");
}

void opt_man(const OptPage *page, const char *version, const char *date, Str *out)
{
    add_name_section(out, page, version, date);
    if (page->description) {
        str_add(out, ".SH DESCRIPTION\n");
        add_man_paragraphs(out, page->description);
    }
    add_man_options(out, page);
    add_environment(out, page);
    if (page->exit_codes)
        add_man_lines(out, "EXIT STATUS", page->exit_codes);
    if (page->examples)
        add_man_lines(out, "EXAMPLES", page->examples);
}

/* -- completion ------------------------------------------------------------------------------------------------------
 */

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

/* The word of `key` that follows `prefix`: its length and *ret, or 0 if the key does not go on from there. */
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
