/* SPDX-License-Identifier: Apache-2.0 */
/* Pages in the program: which there are, both forms of each, and where they are served. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "service/runbook/runbook.h"

enum { PAGE_MAX = 1 << 20 };

static void pages_stand_in_order_and_are_found(void **state)
{
    (void)state;
    assert_true(runbook_count() > 0);
    for (size_t i = 0; i < runbook_count(); i++) {
        const Runbook *runbook = runbook_at(i);

        assert_ptr_equal(runbook_find(runbook_class(runbook)), runbook);
        assert_true(runbook_title(runbook)[0] != '\0');
        if (i > 0)
            assert_true(strcmp(runbook_class(runbook_at(i - 1)), runbook_class(runbook)) < 0);
    }
}

static void what_is_no_class_has_no_page(void **state)
{
    static const char *const names[] = {"", "README", "gpu", "gpu-lost ", "GPU-LOST", "../gpu-lost", "gpu-lost.md"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_null(runbook_find(names[i]));
}

static void check_forms(const Runbook *runbook)
{
    char head[512];
    Str text, html;
    Err err;

    str_init(&text, PAGE_MAX);
    str_init(&html, PAGE_MAX);
    assert_int_equal(runbook_text(runbook, &text, &err), 0);
    assert_int_equal(runbook_html(runbook, &html, &err), 0);
    const char *class = runbook_class(runbook);
    snprintf(head, sizeof head, "# %s%s%s\n", class, *class ? ": " : "", runbook_title(runbook));
    assert_int_equal(strncmp(text.text, head, strlen(head)), 0);
    assert_int_equal(text.text[text.len - 1], '\n');
    assert_null(strstr(text.text, "SPDX"));
    assert_int_equal(strncmp(html.text, "<!doctype html>\n", 16), 0);
    assert_string_equal(html.text + html.len - strlen("</html>\n"), "</html>\n");
    assert_null(strstr(html.text, "{{"));
    str_done(&text);
    str_done(&html);
}

static void every_page_has_both_forms(void **state)
{
    (void)state;
    check_forms(runbook_index());
    for (size_t i = 0; i < runbook_count(); i++)
        check_forms(runbook_at(i));
}

static void a_page_is_appended_and_a_ceiling_is_kept(void **state)
{
    Str out;
    Err err;

    (void)state;
    str_init(&out, PAGE_MAX);
    str_add(&out, "before ");
    assert_int_equal(runbook_text(runbook_at(0), &out, &err), 0);
    assert_int_equal(strncmp(out.text, "before # ", 9), 0);
    str_done(&out);
    str_init(&out, 20);
    assert_int_equal(runbook_text(runbook_at(0), &out, &err), -EFBIG);
    str_done(&out);
}

static void the_address_of_a_page(void **state)
{
    static const struct {
        const char *base, *class, *url;
    } rows[] = {
        {"http://node7:9400/", "gpu-lost", "http://node7:9400/runbooks/gpu-lost"},
        {"http://node7:9400", "gpu-lost", "http://node7:9400/runbooks/gpu-lost"},
        {"https://x.example/stoker/", "fan", "https://x.example/stoker/runbooks/fan"},
        {"http://node7:9400/", "lab-door", ""},
        {"http://node7:9400/", "", ""},
        {"", "gpu-lost", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char url[64] = "as it was";

        runbook_url(rows[i].base, rows[i].class, url, sizeof url);
        assert_string_equal(url, rows[i].url);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_stand_in_order_and_are_found),
        cmocka_unit_test(what_is_no_class_has_no_page),
        cmocka_unit_test(every_page_has_both_forms),
        cmocka_unit_test(a_page_is_appended_and_a_ceiling_is_kept),
        cmocka_unit_test(the_address_of_a_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
