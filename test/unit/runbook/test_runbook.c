/* SPDX-License-Identifier: Apache-2.0 */
/* The table of pages, both forms of each page, where they are served, and packs that are refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "service/runbook/runbook.h"

enum { PAGE_MAX = 1 << 20 };

static Str pages;

static void pages_stand_in_order_and_are_found(void **state)
{
    (void)state;
    assert_true(runbook_row_count - 1 > 0);
    for (size_t i = 0; i < runbook_row_count - 1; i++) {
        const Runbook *runbook = &runbook_rows[i + 1];

        assert_ptr_equal(runbook_find(runbook->class), runbook);
        assert_true(runbook->title[0] != '\0');
        if (i > 0)
            assert_true(strcmp(runbook_rows[i].class, runbook->class) < 0);
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
    assert_int_equal(runbook_read(&pages, &runbook->text, &text, &err), 0);
    assert_int_equal(runbook_read(&pages, &runbook->html, &html, &err), 0);
    const char *class = runbook->class;
    snprintf(head, sizeof head, "# %s%s%s\n", class, *class ? ": " : "", runbook->title);
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
    check_forms(&runbook_rows[0]);
    for (size_t i = 0; i < runbook_row_count - 1; i++)
        check_forms(&runbook_rows[i + 1]);
}

static void a_page_is_appended_and_a_ceiling_is_kept(void **state)
{
    Str out;
    Err err;

    (void)state;
    str_init(&out, PAGE_MAX);
    str_add(&out, "before ");
    assert_int_equal(runbook_read(&pages, &runbook_rows[1].text, &out, &err), 0);
    assert_int_equal(strncmp(out.text, "before # ", 9), 0);
    str_done(&out);
    str_init(&out, 20);
    assert_int_equal(runbook_read(&pages, &runbook_rows[1].text, &out, &err), -EFBIG);
    str_done(&out);
}

static void check_refused(const char *path, int wanted)
{
    Str none;
    Str out;
    Err err;

    assert_int_equal(runbook_open(&none, path, &err), wanted);
    assert_non_null(strstr(err.text, path));
    str_init(&out, PAGE_MAX);
    assert_int_equal(runbook_read(&none, &runbook_rows[0].html, &out, &err), -ENODATA);
    str_done(&out);
    str_done(&none);
}

/* Missing, empty, cut, and of another build: the same length with another checksum. */
static void a_pack_of_another_build_is_refused(void **state)
{
    const size_t lens[] = {0, 4, pages.len - 1, pages.len};
    char path[] = "/tmp/runbook-XXXXXX";
    const int fd = mkstemp(path);
    Str copy;

    (void)state;
    assert_true(fd >= 0);
    str_init(&copy, PAGE_MAX);
    str_addn(&copy, pages.text, pages.len);
    copy.text[copy.len - 8] ^= 1;
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, copy.text, lens[i], 0), (ssize_t)lens[i]);
        check_refused(path, -EBADMSG);
    }
    unlink(path);
    check_refused(path, -ENOENT);
    str_done(&copy);
    close(fd);
}

static int open_pages(void **state)
{
    Err err;

    (void)state;
    return runbook_open(&pages, getenv("RUNBOOKS"), &err);
}

static int close_pages(void **state)
{
    (void)state;
    str_done(&pages);
    return 0;
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
        cmocka_unit_test(a_pack_of_another_build_is_refused),
        cmocka_unit_test(the_address_of_a_page),
    };

    return cmocka_run_group_tests(tests, open_pages, close_pages);
}
