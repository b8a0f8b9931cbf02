/* SPDX-License-Identifier: Apache-2.0 */
/* Manual pages in the man macros of roff (man(7)). */
#include <ctype.h>
#include <string.h>

#include "base/opt_row.h"
#include "base/cleanup.h"

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

static void add_option(Str *out, const OptSpec *spec)
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

static void add_options(Str *out, const OptPage *page)
{
    str_add(out, ".SH OPTIONS\n");
    for (size_t i = 0; i < page->count; i++)
        if (opt_row_has_flag(&page->opts[i]) && opt_row_is_shown(&page->opts[i]))
            add_option(out, &page->opts[i]);
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

static void add_paragraphs(Str *out, const char *text)
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
static void add_lines(Str *out, const char *title, const char *text)
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
        add_paragraphs(out, page->description);
    }
    add_options(out, page);
    add_environment(out, page);
    if (page->exit_codes)
        add_lines(out, "EXIT STATUS", page->exit_codes);
    if (page->examples)
        add_lines(out, "EXAMPLES", page->examples);
}
