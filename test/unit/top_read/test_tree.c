/* SPDX-License-Identifier: Apache-2.0 */
/* wire/json/tree.c against jansson: the same texts are taken and refused, and the values are the same. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/owner.h"
#include "base/str.h"
#include "random.h"
#include "wire/json/tree.h"

static void same_value(const JsonItem *item, const json_t *other);

static void same_members(const JsonItem *item, const json_t *other)
{
    const JsonItem *one = json_first(item);
    size_t i = 0;

    assert_int_equal(json_count(item), json_is_object(other) ? json_object_size(other) : json_array_size(other));
    for (; one; one = one->next, i++) {
        const json_t *with = one->name ? json_object_get(other, one->name) : json_array_get(other, i);

        assert_ptr_equal(one->name ? json_member(item, one->name) : one, one);
        same_value(one, with);
    }
    assert_int_equal(i, json_count(item));
}

static void same_value(const JsonItem *item, const json_t *other)
{
    double value;

    assert_non_null(other);
    switch ((JsonKind)item->kind) {
    case JSON_IS_NULL:
        assert_true(json_is_null(other));
        break;
    case JSON_IS_BOOL:
        assert_true(json_is_boolean(other) && json_is_true(other) == item->truth);
        break;
    case JSON_IS_WHOLE:
        assert_true(json_is_integer(other) && json_integer_value(other) == item->whole);
        break;
    case JSON_IS_REAL:
        assert_true(json_number(item, &value) && json_is_real(other));
        assert_true(!(json_real_value(other) < value) && !(json_real_value(other) > value));
        break;
    case JSON_IS_TEXT:
        assert_string_equal(json_text(item), json_string_value(other));
        break;
    case JSON_IS_LIST:
        assert_true(json_is_array(other));
        same_members(item, other);
        break;
    case JSON_IS_MAP:
        assert_true(json_is_object(other));
        same_members(item, other);
        break;
    }
}

/* Whether it was taken. */
static bool compare(const char *text, size_t len)
{
    CLEANUP(arena_done) Arena arena = {0};
    const JsonItem *root = NULL;
    json_error_t error;
    Err err;
    const int rc = json_tree_read(text, len, &arena, &root, &err);
    json_t *other = json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);

    if (!other && json_error_code(&error) == json_error_duplicate_key)
        return false;
    if (!other && json_error_code(&error) == json_error_numeric_overflow) {
        return false; /* we take a whole number that is too large for int64_t as a real one */
    }
    if ((rc == 0) != (other != NULL))
        fail_msg("'%.*s': we say %s, the other one %s", (int)len, text, rc == 0 ? "fine" : err.text,
                 other ? "fine" : error.text);
    if (rc == 0)
        same_value(root, other);
    else
        assert_int_equal(rc, err.code);
    json_decref(other);
    return rc == 0;
}

static const char *const taken[] = {
    "null",
    "true",
    " false ",
    "0",
    "-0",
    "-1",
    "9223372036854775807",
    "1.5",
    "-1e3",
    "1E+2",
    "2.5e-3",
    "\"\"",
    "[]",
    "{}",
    "[1,2, 3\n]",
    "{\"a\":{\"b\":[null,{\"c\":\"d\"}]},\"e\":-7}",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\\u00e4\\u20ac\\ud83d\\ude00\"",
    "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"",
    "[\"a\",\"\",\"b\"]",
    "\t{ \"x\" : [ ] } ",
};

static const char *const refused[] = {
    "",
    " ",
    "nul",
    "tru",
    "True",
    "01",
    "-",
    "+1",
    "1.",
    ".5",
    "1e",
    "1e+",
    "0x10",
    "NaN",
    "Infinity",
    "\"",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\u0x12\"",
    "\"\\ud83d\"",
    "\"\\ud83dx\"",
    "\"\\ude00\"",
    "\"\\u0000\"",
    "\"\x01\"",
    "\"\xff\"",
    "\"\xc0\x80\"",
    "\"\xed\xa0\x80\"",
    "[",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1 2]",
    "{",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":1",
    "{\"a\":1,}",
    "{a:1}",
    "{1:2}",
    "{\"a\" 1}",
    "[1]]",
    "{} {}",
    "1 2",
    "[1}",
    "{\"a\":1]",
    "'a'",
    "// x\n1",
};

static void test_what_is_taken(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    const JsonItem *root;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        assert_true(compare(taken[i], strlen(taken[i])));
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        assert_false(compare(refused[i], strlen(refused[i])));
    assert_false(compare("\"a\0b\"", 5));
    assert_true(json_tree_read("1\0", 2, &arena, &root, NULL) < 0); /* the other one takes a NUL for the end */
}

static void test_an_error_says_where(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    const JsonItem *root = NULL;
    Err err;

    (void)state;
    assert_true(json_tree_read("{\"a\":tru}", 9, &arena, &root, &err) < 0);
    assert_string_equal(err.text, "byte 5 of the JSON: no value");
    assert_true(json_tree_read("1e999", 5, &arena, &root, &err) == -34);
    assert_null(root);
    assert_null(json_member(NULL, "a"));
    assert_null(json_text(NULL));
    assert_int_equal(json_count(NULL), 0);
}

static void test_depth_has_an_end(void **state)
{
    char text[2 * JSON_TREE_DEPTH_MAX + 8];
    CLEANUP(arena_done) Arena arena = {0};
    const JsonItem *root;

    (void)state;
    for (size_t depth = JSON_TREE_DEPTH_MAX - 1; depth <= JSON_TREE_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(json_tree_read(text, 2 * depth, &arena, &root, NULL) == 0, depth <= JSON_TREE_DEPTH_MAX);
    }
}

static void test_raw_is_what_was_read(void **state)
{
    static const char text[] = "{\"a\": [1, {\"b\":2}] , \"c\":{}}";
    CLEANUP(arena_done) Arena arena = {0};
    const JsonItem *root;

    (void)state;
    assert_int_equal(json_tree_read(text, sizeof text - 1, &arena, &root, NULL), 0);
    const JsonItem *list = json_member(root, "a");
    assert_int_equal(list->raw_len, strlen("[1, {\"b\":2}]"));
    assert_memory_equal(list->raw, "[1, {\"b\":2}]", list->raw_len);
    assert_int_equal(root->raw_len, sizeof text - 1);
}

/* Texts that are nearly JSON: valid ones, and such with a byte changed, taken out or doubled. */
static void random_value(Random *random, Str *out, int depth)
{
    static const char *const texts[] = {"a", "\\n", "\\u00e9", "\xc3\xa9", "key", "", "\\\"", "\\ud83d\\ude00"};
    const uint64_t kind = random_below(random, depth > 4 ? 5 : 8);

    if (kind == 0)
        str_add(out, random_once(random, 2) ? "null" : "true");
    else if (kind == 1)
        str_addf(out, "%lld", (long long)(int64_t)random_u64(random) >> random_below(random, 63));
    else if (kind == 2)
        str_addf(out, "%.17g", ((double)random_below(random, 1000000) - 5e5) / 7);
    else if (kind <= 4)
        str_addf(out, "\"%s%s\"", texts[random_below(random, 8)], texts[random_below(random, 8)]);
    else {
        const bool map = random_once(random, 2);
        const uint64_t count = random_below(random, 5);

        str_addc(out, map ? '{' : '[');
        for (uint64_t i = 0; i < count; i++) {
            str_add(out, i ? "," : "");
            if (map)
                str_addf(out, "\"%llu%s\": ", (unsigned long long)i, texts[random_below(random, 8)]);
            random_value(random, out, depth + 1);
        }
        str_addc(out, map ? '}' : ']');
    }
}

static void test_like_the_other_one(void **state)
{
    static const char bytes[] = "{}[]\",:\\0129.eEtfnu- \n\xc3\xa9";
    CLEANUP(str_done) Str text = {0};
    Random random = {7};
    size_t fine = 0;

    (void)state;
    str_init(&text, 1 << 20);
    for (int i = 0; i < 30000; i++) {
        str_clear(&text);
        random_value(&random, &text, 0);
        if (random_once(&random, 2)) {
            fine += compare(text.text, text.len);
            continue;
        }
        for (uint64_t n = 1 + random_below(&random, 3); n > 0 && text.len > 0; n--)
            text.text[random_below(&random, text.len)] = bytes[random_below(&random, sizeof bytes - 1)];
        fine += compare(text.text, text.len);
    }
    assert_true(fine > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_taken),      cmocka_unit_test(test_an_error_says_where),
        cmocka_unit_test(test_depth_has_an_end),   cmocka_unit_test(test_raw_is_what_was_read),
        cmocka_unit_test(test_like_the_other_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
