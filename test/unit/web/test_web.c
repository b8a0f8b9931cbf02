/* SPDX-License-Identifier: Apache-2.0 */
/* The page's files in the program: which there are, what they weigh, their tags, and what a browser may do with them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/gzip.h"
#include "service/web/web.h"

enum { FILE_MAX = 1 << 20, WHOLE_MAX = 300000 };

static void unpack(const WebFile *file, Str *out)
{
    Err err;

    str_init(out, FILE_MAX);
    assert_int_equal(gzip_unpack(file->packed, file->packed_len, out, &err), 0);
    assert_int_equal(out->len, file->len);
}

static void files_are_found_by_path_alone(void **state)
{
    static const char *const none[] = {"/",           "web",          "web/",      "web/../", "main.js", "web/main.js ",
                                       "WEB/main.js", "web/main.js/", "index.html"};

    (void)state;
    assert_string_equal(web_files[0].path, "");
    for (size_t i = 0; i < web_file_count; i++)
        assert_ptr_equal(web_find(web_files[i].path), &web_files[i]);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_null(web_find(none[i]));
    assert_non_null(web_find("web/uplot.js"));
    assert_non_null(web_find("web/uplot-licence.txt"));
}

static void tags_are_of_what_is_inside(void **state)
{
    (void)state;
    for (size_t i = 0; i < web_file_count; i++) {
        assert_true(strlen(web_files[i].etag) > 10 && web_files[i].etag[0] == '"');
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(web_files[i].etag, web_files[k].etag);
    }
}

static void all_of_it_is_small(void **state)
{
    size_t all = 0;

    (void)state;
    for (size_t i = 0; i < web_file_count; i++) {
        Str text;

        unpack(&web_files[i], &text);
        all += text.len;
        assert_true(web_files[i].packed_len < text.len || text.len < 1000);
        str_done(&text);
    }
    assert_in_range(all, 50000, WHOLE_MAX);
}

/* Nothing inline (the policy would refuse it), nothing from elsewhere, and every file of ours that it names is there.
 */
static void the_page_asks_for_its_own_files_alone(void **state)
{
    Str text;

    (void)state;
    unpack(web_find(""), &text);
    assert_null(strstr(text.text, "://"));
    assert_null(strstr(text.text, "<style"));
    assert_null(strstr(text.text, " style="));
    assert_null(strstr(text.text, "onclick"));
    size_t named = 0;
    for (const char *at = text.text; (at = strpbrk(at, "=")) != NULL; at++) {
        char path[64] = "";

        if (strncmp(at, "=\"/", 3) == 0)
            fail_msg("an address that begins at the root: %.40s", at);
        if (sscanf(at, "=\"web/%50[^\"]\"", path) != 1)
            continue;
        memmove(path + 4, path, sizeof path - 4);
        memcpy(path, "web/", 4);
        path[sizeof path - 1] = '\0';
        if (!web_find(path))
            fail_msg("%s is not there", path);
        named++;
    }
    assert_int_equal(named, web_file_count - 1);
    str_done(&text);
}

static void scripts_make_no_markup_of_texts(void **state)
{
    static const char *const sinks[] = {"innerHTML", "outerHTML",    "insertAdjacentHTML", "document.write",
                                        "eval(",     "new Function", "javascript:",        "DOMParser"};

    (void)state;
    for (size_t i = 0; i < web_file_count; i++) {
        Str text;

        if (strncmp(web_files[i].type, "text/javascript", 15) != 0 || strcmp(web_files[i].path, "web/uplot.js") == 0)
            continue;
        unpack(&web_files[i], &text);
        for (size_t k = 0; k < sizeof sinks / sizeof sinks[0]; k++)
            if (strstr(text.text, sinks[k]))
                fail_msg("%s has %s", web_files[i].path, sinks[k]);
        str_done(&text);
    }
}

static void a_browser_that_has_it_is_known(void **state)
{
    const WebFile *file = web_find("");
    char header[256];

    (void)state;
    assert_false(web_is_known(file, NULL));
    assert_false(web_is_known(file, ""));
    assert_false(web_is_known(file, "\"other\""));
    assert_true(web_is_known(file, "*"));
    assert_true(web_is_known(file, file->etag));
    snprintf(header, sizeof header, "\"other\", W/%s", file->etag);
    assert_true(web_is_known(file, header));
    snprintf(header, sizeof header, "\"other\",%s , \"more\"", file->etag);
    assert_true(web_is_known(file, header));
    snprintf(header, sizeof header, "%.10s", file->etag);
    assert_false(web_is_known(file, header));
    snprintf(header, sizeof header, "%sx", file->etag);
    assert_false(web_is_known(file, header));
}

static void the_policy_allows_its_own_place_alone(void **state)
{
    static const char *const parts[] = {"default-src 'none'", "script-src 'self'",     "style-src 'self'",
                                        "connect-src 'self'", "img-src 'self'",        "base-uri 'none'",
                                        "form-action 'none'", "frame-ancestors 'none'"};

    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_non_null(strstr(web_policy, parts[i]));
    assert_null(strstr(web_policy, "unsafe"));
    assert_null(strstr(web_policy, "*"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_found_by_path_alone),
        cmocka_unit_test(tags_are_of_what_is_inside),
        cmocka_unit_test(all_of_it_is_small),
        cmocka_unit_test(the_page_asks_for_its_own_files_alone),
        cmocka_unit_test(scripts_make_no_markup_of_texts),
        cmocka_unit_test(a_browser_that_has_it_is_known),
        cmocka_unit_test(the_policy_allows_its_own_place_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
