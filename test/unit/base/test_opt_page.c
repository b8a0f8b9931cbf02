/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/opt_page.c. */
#include "base/opt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "opt_sample.h"

enum { PAGE_MAX = 64 * 1024 };

static Str page;

static int set_up(void **state)
{
    (void)state;
    str_init(&page, PAGE_MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    str_done(&page);
    return 0;
}

static void assert_has(const char *text)
{
    if (!strstr(page.text, text))
        fail_msg("'%s' is not in:\n%s", text, page.text);
}

static void assert_starts(const char *text)
{
    if (strncmp(page.text, text, strlen(text)) != 0)
        fail_msg("'%s' does not begin:\n%s", text, page.text);
}

/* Each row's flag (without its dashes) is on the page where it has one and is not hidden. */
static void assert_every_flag(const char *before)
{
    for (size_t i = 0; i < ARRAY_LEN(sample_opts); i++) {
        char room[OPT_FLAG_MAX], wanted[OPT_FLAG_MAX + 8];
        const char *flag = opt_flag(&sample_opts[i], room);

        if (!flag)
            continue;
        snprintf(wanted, sizeof(wanted), "%s%s", before, flag);
        if (sample_opts[i].flags & OPT_HIDDEN)
            assert_null(strstr(page.text, wanted));
        else
            assert_has(wanted);
    }
}

static void test_help(void **state)
{
    (void)state;
    opt_help(&sample_page, 80, &page);
    assert_starts("Usage: stoker top [OPTION...] [GPU...]\n\n"
                  "stoker top - watch the GPUs in the terminal\n\n"
                  "Draws a line per GPU, once per sample, until you press q or the time that was\n"
                  "asked for is over.\n\n");
    assert_has("\nOptions:\n"
               "  -i, --interval DURATION     time between samples (100ms to 1m; default 1s; env\n"
               "                              STOKER_INTERVAL)\n"
               "      --sample-fields LIST    what to sample (default temp,power)\n"
               "      --server-http-address ADDRESS\n"
               "                              where to listen (default :9400)\n"
               "      --history-size SIZE     memory for history (at least 4KiB; default 16MiB)\n");
    assert_has("  -q, --quiet                 say less\n");
    assert_has("  -c, --[no-]cache            keep what was read (default true)\n");
    assert_has("  -h, --help                  show this help\n");
    assert_has("\nExit codes:\n  0  fine\n  2  usage\n");
    assert_has("\nExamples:\n  stoker top -i 500ms    # twice a second\n  stoker top 0 1\n");
    assert_null(strstr(page.text, "not shown"));
    assert_null(strstr(page.text, "--rules"));
}

static void test_help_widths(void **state)
{
    (void)state;
    for (size_t width = 40; width <= 120; width++) {
        const char *line, *end;

        str_clear(&page);
        opt_help(&sample_page, width, &page);
        assert_false(page.overflow);
        line = strchr(page.text, '\n') + 1;
        end = strstr(page.text, "\nExit codes:");
        assert_non_null(end);
        for (; line < end; line += strcspn(line, "\n") + 1)
            assert_true(strcspn(line, "\n") <= width || !strchr(line, ' '));
    }
}

/* The shape that man(7) wants: every line that begins with a dot is a macro. */
static void test_man(void **state)
{
    (void)state;
    opt_man(&sample_page, "1.2.3", "2025-01-31", &page);
    assert_starts(".TH STOKER\\-TOP 1 \"2025-01-31\" \"stoker 1.2.3\" \"User Commands\"\n.SH NAME\n"
                  "stoker\\-top \\- watch the GPUs in the terminal\n");
    assert_has(".SH SYNOPSIS\n.B stoker top\n[OPTION...] [GPU...]\n");
    assert_has("\n\\&.hidden begins this paragraph, which has a back\\eslash.\n");
    assert_has(".TP\n.B \\-i, \\-\\-interval DURATION\n"
               "time between samples (100ms to 1m; default 1s; env STOKER_INTERVAL; config sample.interval)\n");
    assert_has(".TP\n.B \\-q, \\-\\-quiet\nsay less\n.TP");
    assert_has(".SH ENVIRONMENT\n.TP\n.B STOKER_INTERVAL\ntime between samples\n.TP\n.B STOKER_COLOR\n");
    assert_has(".SH EXIT STATUS\n.nf\n0  fine\n2  usage\n.fi\n");
    assert_has(".SH EXAMPLES\n.nf\nstoker top \\-i 500ms");
    for (const char *line = page.text; *line; line += strcspn(line, "\n") + 1)
        if (*line == '.')
            assert_true(line[1] >= 'A' && line[1] <= 'z');
}

static void test_complete(void **state)
{
    static const struct {
        const char *before, *expected;
    } rows[] = {{"--color", "auto\nalways\nnever\n"}, {"--interval", ""}, {"-i", ""}, {"--secret", NULL}, {"-", NULL}};

    (void)state;
    opt_complete(&sample_page, "", &page);
    assert_every_flag("--");
    assert_has("--no-cache\n");
    assert_has("\n--help\n");
    assert_null(strstr(page.text, "--sec"));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        str_clear(&page);
        opt_complete(&sample_page, rows[i].before, &page);
        if (rows[i].expected)
            assert_string_equal(page.text, rows[i].expected);
        else
            assert_has("--interval\n");
    }
}

typedef struct Grouped {
    bool plain, first, old;
} Grouped;

static const OptSpec grouped_opts[] = {
    OPT_ROW("plain", OPT_BOOL, Grouped, plain, .help = "before any group"),
    OPT_ROW("first", OPT_BOOL, Grouped, first, .group = "A group", .help = "in it"),
    OPT_ROW("old", OPT_BOOL, Grouped, old, .flags = OPT_FOLDED, .group = "Others", .help = "no effect"),
};

static void test_groups_and_what_is_folded(void **state)
{
    OptPage grouped = {.program = "p", .summary = "s", .opts = grouped_opts, .count = ARRAY_LEN(grouped_opts)};
    char *const all[] = {"p", "--help-all", NULL};
    Grouped into = {0};
    Arena arena = {0};
    Err err;
    OptSet set = {.opts = grouped_opts, .count = ARRAY_LEN(grouped_opts), .into = &into, .arena = &arena};

    (void)state;
    opt_help(&grouped, 80, &page);
    assert_has("Options:\n      --plain                 before any group\n\nA group:\n      --first                 in "
               "it\n\nHelp:\n  -h, --help                  show this help\n      --help-all");
    assert_null(strstr(page.text, "--old"));
    str_clear(&page);
    grouped.folded = true;
    opt_help(&grouped, 80, &page);
    assert_has("in it\n\nOthers:\n      --old                   no effect\n\nHelp:\n");
    assert_null(strstr(page.text, "--help-all"));
    str_clear(&page);
    opt_man(&grouped, "1", "2026-01-01", &page);
    assert_has(".SS Others\n.TP\n.B \\-\\-old\n");
    assert_int_equal(opt_args(&set, 2, all, &(OptArgs){0}, &err), OPT_HELP_ALL);
    set.count--; /* nothing is folded now */
    assert_int_equal(opt_args(&set, 2, all, &(OptArgs){0}, &err), -EINVAL);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_help, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_help_widths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_man, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_complete, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_groups_and_what_is_folded, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
