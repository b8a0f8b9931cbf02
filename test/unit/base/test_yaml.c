/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/yaml.c. */
#include "base/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/str.h"

static Arena arena;

static int tear_down(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

static const YamlNode *load(const char *text)
{
    const YamlNode *root = NULL;
    Err err = {0};

    if (yaml_load("a.yaml", text, strlen(text), &arena, &root, &err) < 0)
        fail_msg("%s", err.text);
    return root;
}

static void test_tree(void **state)
{
    const YamlNode *root = load("# settings\n"
                                "sample:\n"
                                "  interval: 1s\n"
                                "  fields: [150, \"203\", x y]\n"
                                "name: |\n"
                                "  two\n"
                                "  lines\n"
                                "empty:\n"
                                "none: {}\n");
    const YamlNode *sample = yaml_get(root, "sample"), *fields = yaml_get(sample, "fields");

    (void)state;
    assert_int_equal(root->kind, YAML_MAP);
    assert_int_equal(root->len, 4);
    assert_string_equal(root->pairs[0].key->text, "sample");
    assert_int_equal(root->pairs[0].key->line, 2);
    assert_int_equal(root->pairs[0].key->column, 1);
    assert_int_equal(sample->line, 3);
    assert_int_equal(sample->column, 3);
    assert_string_equal(sample->file, "a.yaml");
    assert_string_equal(yaml_text(yaml_get(sample, "interval")), "1s");
    assert_int_equal(fields->kind, YAML_SEQ);
    assert_int_equal(fields->len, 3);
    assert_int_equal(fields->items[1]->column, 17);
    assert_true(fields->items[1]->quoted);
    assert_false(fields->items[0]->quoted);
    assert_string_equal(fields->items[2]->text, "x y");
    assert_int_equal(fields->items[2]->len, 3);
    assert_string_equal(yaml_text(yaml_get(root, "name")), "two\nlines\n");
    assert_true(yaml_get(root, "name")->quoted);
    assert_int_equal(yaml_get(root, "none")->len, 0);
}

static void test_getters_accept_anything(void **state)
{
    const YamlNode *root = load("a: ~\nb: null\nc: 'null'\nd: \"\"\ne: [1]\nf:\n");

    (void)state;
    assert_null(yaml_get(root, "zz"));
    assert_null(yaml_get(NULL, "a"));
    assert_null(yaml_get(yaml_get(root, "e"), "a"));
    assert_null(yaml_text(NULL));
    assert_null(yaml_text(root));
    assert_true(yaml_is_null(NULL));
    assert_true(yaml_is_null(yaml_get(root, "a")));
    assert_true(yaml_is_null(yaml_get(root, "b")));
    assert_false(yaml_is_null(yaml_get(root, "c")));
    assert_false(yaml_is_null(yaml_get(root, "d")));
    assert_false(yaml_is_null(yaml_get(root, "e")));
    assert_true(yaml_is_null(yaml_get(root, "f")));
}

static void test_empty(void **state)
{
    (void)state;
    assert_null(load(""));
    assert_null(load("# only a comment\n"));
    assert_int_equal(load("---\na: 1\n...\n")->len, 1);
}

static void test_errors_have_positions(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"a: 1\nb: 2\na: 3\n", "a.yaml:3:1: key 'a' is already in line 1"},
        {"x: {k: 1, k: 2}\n", "a.yaml:1:11: key 'k' is already in line 1"},
        {"a: &x 1\n", "a.yaml:1:4: anchors (&name) are not accepted"},
        {"- &x [1]\n", "a.yaml:1:3: anchors (&name) are not accepted"},
        {"a: *x\n", "a.yaml:1:4: aliases (*name) are not accepted, write the value out"},
        {"a: !!int 3\n", "a.yaml:1:4: tags (!name) are not accepted"},
        {"a: !own {}\n", "a.yaml:1:4: tags (!name) are not accepted"},
        {"a: 1\n---\nb: 2\n", "a.yaml:2:1: a second document, only one is accepted"},
        {"[1]: 2\n", "a.yaml:1:1: a key must be a text"},
        {"a: \"x\\0y\"\n", "a.yaml:1:4: a text with a NUL byte inside"},
        {"a: 1\n\tb: 2\n", "a.yaml:2:1: "},
        {"a: [1, 2\nb: 3\n", "a.yaml:2:2: "},
        {"a: 'open\n", "a.yaml:2:1: "},
        {"ok: \xc3\xbc\nbad: \xff\n", "a.yaml:2:6: "},
        {"\xc3\xbc: 1\n\xc3\xbc: 2\n", "a.yaml:2:1: key '\xc3\xbc' is already in line 1"},
        {"{\xc3\xbc: &a 1}\n", "a.yaml:1:5: anchors"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const YamlNode *root = (const YamlNode *)&arena;
        Err err = {0};

        assert_int_equal(yaml_load("a.yaml", rows[i].text, strlen(rows[i].text), &arena, &root, &err), -EINVAL);
        if (strncmp(err.text, rows[i].error, strlen(rows[i].error)) != 0)
            fail_msg("row %zu: %s", i, err.text);
        assert_ptr_equal(root, &arena);
    }
}

static void test_text_tag_is_quotes(void **state)
{
    (void)state;
    assert_true(yaml_get(load("a: !!str 3\n"), "a")->quoted);
}

/* A large mapping takes the other way of finding twins. */
static void test_large_mapping(void **state)
{
    CLEANUP(str_done) Str text;
    const YamlNode *root;
    Err err = {0};

    (void)state;
    str_init(&text, 1 << 20);
    for (int i = 0; i < 1000; i++)
        str_addf(&text, "key%d: %d\n", i, i);
    root = load(text.text);
    assert_int_equal(root->len, 1000);
    assert_string_equal(yaml_text(yaml_get(root, "key999")), "999");
    for (int i = 0; i < 1000; i += 37) {
        size_t len = text.len;

        str_addf(&text, "key%d: again\n", i);
        assert_int_equal(yaml_load("a.yaml", text.text, text.len, &arena, &root, &err), -EINVAL);
        assert_non_null(strstr(err.text, "a.yaml:1001:1: key 'key"));
        str_cut(&text, len);
    }
}

static void nest(Str *text, int depth)
{
    str_clear(text);
    for (int i = 0; i < depth; i++)
        str_addc(text, '[');
    for (int i = 0; i < depth; i++)
        str_addc(text, ']');
}

static void test_caps(void **state)
{
    CLEANUP(str_done) Str text;
    const YamlNode *root;
    Err err = {0};

    (void)state;
    str_init(&text, YAML_BYTES_MAX + 10);
    nest(&text, YAML_DEPTH_MAX);
    assert_non_null(load(text.text));
    nest(&text, YAML_DEPTH_MAX + 1);
    assert_int_equal(yaml_load("a", text.text, text.len, &arena, &root, &err), -E2BIG);
    assert_string_equal(err.text, "a:1:65: nested deeper than 64 levels");
    str_clear(&text);
    for (int i = 0; i < YAML_NODES_MAX; i++)
        str_add(&text, "- 1\n");
    assert_int_equal(yaml_load("a", text.text, text.len, &arena, &root, &err), -E2BIG);
    assert_string_equal(err.text, "a:200000:3: too large, more than 200000 values");
    str_cut(&text, text.len - 4);
    assert_int_equal(yaml_load("a", text.text, text.len, &arena, &root, &err), 0);
    assert_int_equal(root->len, YAML_NODES_MAX - 1);
    str_clear(&text);
    while (text.len <= YAML_BYTES_MAX)
        str_add(&text, "# comment\n");
    assert_int_equal(yaml_load("a", text.text, text.len, &arena, &root, &err), -E2BIG);
}

static void test_fail_and_want(void **state)
{
    const YamlNode *root = load("a:\n  - b\n");
    Err err = {0};

    (void)state;
    assert_int_equal(yaml_fail(yaml_get(root, "a")->items[0], &err, "no '%s'", "b"), -EINVAL);
    assert_string_equal(err.text, "a.yaml:2:5: no 'b'");
    assert_int_equal(yaml_want(yaml_get(root, "a"), YAML_SEQ, "a", &err), 0);
    assert_int_equal(yaml_want(yaml_get(root, "a"), YAML_MAP, "a", &err), -EINVAL);
    assert_string_equal(err.text, "a.yaml:2:3: 'a' must be a mapping, not a list");
}

static void test_file(void **state)
{
    char path[] = "/tmp/stoker-yaml-XXXXXX";
    int fd = mkstemp(path);
    const YamlNode *root = NULL;
    Err err = {0};

    (void)state;
    assert_int_equal(write(fd, "a: 1\na: 2\n", 10), 10);
    close(fd);
    assert_int_equal(yaml_load_file(path, &arena, &root, &err), -EINVAL);
    assert_memory_equal(err.text, path, strlen(path));
    assert_string_equal(err.text + strlen(path), ":2:1: key 'a' is already in line 1");
    assert_int_equal(truncate(path, 5), 0);
    assert_int_equal(yaml_load_file(path, &arena, &root, &err), 0);
    assert_string_equal(yaml_text(yaml_get(root, "a")), "1");
    unlink(path);
    assert_int_equal(yaml_load_file(path, &arena, &root, &err), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_tree, tear_down),
        cmocka_unit_test_teardown(test_getters_accept_anything, tear_down),
        cmocka_unit_test_teardown(test_empty, tear_down),
        cmocka_unit_test_teardown(test_errors_have_positions, tear_down),
        cmocka_unit_test_teardown(test_text_tag_is_quotes, tear_down),
        cmocka_unit_test_teardown(test_large_mapping, tear_down),
        cmocka_unit_test_teardown(test_caps, tear_down),
        cmocka_unit_test_teardown(test_fail_and_want, tear_down),
        cmocka_unit_test_teardown(test_file, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
