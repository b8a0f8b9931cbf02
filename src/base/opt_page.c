/* SPDX-License-Identifier: Apache-2.0 */
/* Options as pages: --help, the man page, the words that a shell may complete. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/opt.h"
#include "base/utf8.h"

/* -- a row ----------------------------------------------------------------------------------------------------------
 */

static bool has_shown_flag(const OptSpec *spec)
{
    char room[OPT_FLAG_MAX];

    return !(spec->flags & OPT_HIDDEN) && opt_flag(spec, room);
}

static bool is_on_by_default(const OptSpec *spec)
{
    return spec->type == OPT_BOOL && spec->def && !strcmp(spec->def, "true");
}

static void add_note(Str *out, size_t start, const char *text)
{
    if (out->len > start)
        str_add(out, "; ");
    str_add(out, text);
}

static void add_notes(const OptSpec *spec, bool key, Str *out)
{
    size_t start = out->len;

    if (spec->type == OPT_ENUM) {
        add_note(out, start, "one of ");
        for (size_t i = 0; spec->names[i]; i++)
            str_addf(out, "%s%s", i ? ", " : "", spec->names[i]);
    }
    if (opt_has_range(spec)) {
        add_note(out, start, "");
        opt_add_range(spec, out);
    }
    if (spec->def && *spec->def && !(spec->type == OPT_BOOL && !strcmp(spec->def, "false"))) {
        add_note(out, start, "default ");
        str_add(out, spec->def);
    }
    if (spec->env) {
        add_note(out, start, "env ");
        str_add(out, spec->env);
    }
    if (key && !(spec->flags & OPT_CLI_ONLY)) {
        add_note(out, start, "config ");
        str_add(out, spec->key);
    }
}

/* What a row is for, with its notes in brackets. */
static void add_purpose(const OptSpec *spec, bool key, Str *out)
{
    size_t before;

    str_add(out, spec->help ? spec->help : "");
    before = out->len;
    str_add(out, " (");
    add_notes(spec, key, out);
    if (out->len == before + 2)
        str_cut(out, before);
    else
        str_addc(out, ')');
}

static void add_flags(const OptSpec *spec, Str *out)
{
    char room[OPT_FLAG_MAX];
    const char *metavar = opt_metavar(spec);

    if (spec->short_flag)
        str_addf(out, "-%c, ", spec->short_flag);
    str_addf(out, "--%s%s", is_on_by_default(spec) ? "[no-]" : "", opt_flag(spec, room));
    if (metavar)
        str_addf(out, " %s", metavar);
}

static void add_name(const OptPage *page, const char *between, Str *out)
{
    str_add(out, page->program);
    if (page->verb)
        str_addf(out, "%s%s", between, page->verb);
}

static const char *usage_of(const OptPage *page)
{
    if (page->usage)
        return page->usage;
    return page->count ? "[OPTION...]" : "";
}

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

static void add_row(Str *out, const char *left, const char *right, size_t width)
{
    size_t at = utf8_count(left, strlen(left)), column = width < WIDTH_NARROW ? HELP_COLUMN_NARROW : HELP_COLUMN;

    str_add(out, left);
    if (at + 2 > column) {
        str_addc(out, '\n');
        at = 0;
    }
    str_addf(out, "%*s", (int)(column - at), "");
    str_add_wrapped(out, right, column, column, width);
}

static void add_option(Str *out, const OptSpec *spec, size_t width)
{
    CLEANUP(str_done) Str left = str_limited(LINE_MAX_BYTES);
    CLEANUP(str_done) Str right = str_limited(LINE_MAX_BYTES);

    str_add(&left, spec->short_flag ? "  " : "      ");
    add_flags(spec, &left);
    add_purpose(spec, false, &right);
    add_row(out, left.text, right.text, width);
}

static void add_options(Str *out, const OptPage *page, size_t width)
{
    const char *group = NULL, *open = "Options";
    bool help = true;

    str_add(out, "\nOptions:\n");
    for (size_t i = 0; i < page->count; i++) {
        const OptSpec *spec = &page->opts[i];

        group = spec->group ? spec->group : group;
        if (!has_shown_flag(spec) || (spec->flags & OPT_FOLDED && !page->folded))
            continue;
        if (group && strcmp(group, open) != 0)
            str_addf(out, "\n%s:\n", open = group);
        add_option(out, spec, width);
        help &= spec->short_flag != 'h';
    }
    if (group)
        str_add(out, "\nHelp:\n");
    add_row(out, help ? "  -h, --help" : "      --help", "show this help", width);
    if (!page->folded && opt_has_folded(page->opts, page->count))
        add_row(out, "      --help-all", "show the options too that are there for compatibility alone", width);
}

/* Paragraphs are wrapped one by one; lines that begin with a blank stay as they are. */
static void add_paragraphs(Str *out, const char *text, size_t width)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        CLEANUP(str_done) Str part = str_limited(LINE_MAX_BYTES * 4);

        str_addn(&part, text, len);
        str_addc(out, '\n');
        if (part.text[0] == ' ')
            str_addf(out, "%s\n", part.text);
        else
            str_add_wrapped(out, part.text, 0, 0, width);
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
    add_name(page, " ", out);
    if (*usage_of(page))
        str_addf(out, " %s", usage_of(page));
    str_add(out, "\n\n");
    add_name(page, " ", out);
    str_add(out, " - ");
    str_add_wrapped(out, page->summary, strlen(page->program) + (page->verb ? strlen(page->verb) + 1 : 0) + 3, 4,
                    width);
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
    CLEANUP(str_done) Str name = str_limited(256);

    add_name(page, "-", &name);
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
    add_name(page, " ", out);
    str_addc(out, '\n');
    add_text(out, usage_of(page));
    str_addc(out, '\n');
}

static void add_man_option(Str *out, const OptPage *page, const OptSpec *spec)
{
    CLEANUP(str_done) Str text = str_limited(4096);

    add_flags(spec, &text);
    str_add(out, ".TP\n.B ");
    add_text(out, text.text);
    str_addc(out, '\n');
    str_clear(&text);
    add_purpose(spec, page->config, &text);
    add_text(out, text.text);
    str_addc(out, '\n');
}

static void add_man_options(Str *out, const OptPage *page)
{
    str_add(out, ".SH OPTIONS\n");
    for (size_t i = 0; i < page->count; i++) {
        if (page->opts[i].group)
            str_addf(out, ".SS %s\n", page->opts[i].group);
        if (has_shown_flag(&page->opts[i]))
            add_man_option(out, page, &page->opts[i]);
    }
    str_add(out, ".TP\n.B \\-\\-help\nshow a short help\n");
}

static void add_environment(Str *out, const OptPage *page)
{
    bool any = false;

    for (size_t i = 0; i < page->count; i++) {
        const OptSpec *spec = &page->opts[i];

        if (!spec->env || spec->flags & OPT_HIDDEN)
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

/* Whether `word` is the row's flag, long or short. */
static bool is_flag(const OptSpec *spec, const char *word)
{
    char room[OPT_FLAG_MAX];

    if (!has_shown_flag(spec) || word[0] != '-')
        return false;
    return word[1] == '-' ? !strcmp(word + 2, opt_flag(spec, room))
                          : spec->short_flag && word[1] == spec->short_flag && !word[2];
}

void opt_complete(const OptPage *page, const char *before, Str *out)
{
    char room[OPT_FLAG_MAX];

    for (size_t i = 0; i < page->count; i++) {
        const OptSpec *spec = &page->opts[i];

        if (spec->type == OPT_BOOL || !is_flag(spec, before))
            continue;
        for (size_t k = 0; spec->names && spec->names[k]; k++)
            str_addf(out, "%s\n", spec->names[k]);
        return;
    }
    for (size_t i = 0; i < page->count; i++) {
        if (!has_shown_flag(&page->opts[i]))
            continue;
        str_addf(out, "--%s\n", opt_flag(&page->opts[i], room));
        if (is_on_by_default(&page->opts[i]))
            str_addf(out, "--no-%s\n", opt_flag(&page->opts[i], room));
    }
    str_add(out, "--help\n");
}
