/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* JSON in fewer bytes, for golden.h: a member a line, and the rows of a list under their names, which stand once. Of a
 * long list or text only the beginning is kept, with a sum of all of it. */

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "test/unit/golden.h"

enum {
    GOLDEN_ROWS = 10,
    GOLDEN_CELL_ROWS = 4,
    GOLDEN_TEXT = 600,
    GOLDEN_DIGITS = 15,
    GOLDEN_LISTS = 3,
    GOLDEN_PAGE_MAX = 1 << 23
};

static inline uint64_t golden_sum(uint64_t sum, const char *text)
{
    for (; *text; text++)
        sum = 31 * sum + (unsigned char)*text;
    return sum;
}

static inline bool golden_is_table(const json_t *value)
{
    return json_is_object(json_array_get(value, 0)) || json_is_array(json_array_get(value, 0));
}

/* Whether a row holds so much that it is no line. */
static inline bool golden_is_tall(const json_t *row)
{
    size_t lists = 0;
    const char *key;
    json_t *cell;

    json_object_foreach((json_t *)(uintptr_t)row, key, cell) lists += json_is_array(cell) || json_is_object(cell);
    return lists > GOLDEN_LISTS;
}

static inline void golden_add_value(Str *out, const json_t *value);

/* Its members' names or values. */
static inline void golden_add_row(Str *out, const json_t *row, bool names)
{
    const char *key;
    json_t *cell;

    json_object_foreach((json_t *)(uintptr_t)row, key, cell)
    {
        str_addc(out, ' ');
        if (names)
            str_add(out, key);
        else
            golden_add_value(out, cell);
    }
    for (size_t i = 0; !names && i < json_array_size(row); i++) {
        str_addc(out, ' ');
        golden_add_value(out, json_array_get(row, i));
    }
}

/* The names of a table's rows and each row behind `front`; of more than `most` the first ones. */
static inline void golden_add_rows(Str *out, const json_t *table, const char *front, size_t most)
{
    CLEANUP(str_done) Str line = str_limited(GOLDEN_MAX);
    uint64_t sum = 0;
    json_t *row;
    size_t i;

    golden_add_row(out, json_array_get(table, 0), true);
    json_array_foreach(table, i, row)
    {
        str_cut(&line, 0);
        golden_add_row(&line, row, false);
        if (i < most)
            str_addf(out, "%s%s", front, line.text);
        sum = golden_sum(sum, line.text);
    }
    if (i > most)
        str_addf(out, "%s ... %zu, sum %" PRIx64, front, i, sum);
}

/* "(names; row; row)" for a list of rows, else JSON. */
static inline void golden_add_value(Str *out, const json_t *value)
{
    if (golden_is_table(value)) {
        str_addc(out, '(');
        golden_add_rows(out, value, ";", GOLDEN_CELL_ROWS);
        str_addc(out, ')');
        return;
    }
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(GOLDEN_DIGITS));

    assert_non_null(text);
    str_addf(out, "%.*s", GOLDEN_TEXT, text);
    if (strlen(text) > GOLDEN_TEXT)
        str_addf(out, "... %zu, sum %" PRIx64, strlen(text), golden_sum(0, text));
    free(text);
}

static inline void golden_add_object(Str *out, const char *front, const json_t *object)
{
    const char *key;
    json_t *value, *row;
    char name[128];
    size_t i;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        snprintf(name, sizeof name, "%s%s.", front, key);
        if (json_is_object(value)) {
            golden_add_object(out, name, value);
        } else if (golden_is_tall(json_array_get(value, 0))) {
            json_array_foreach(value, i, row)
            {
                snprintf(name, sizeof name, "%s%s.%zu.", front, key, i);
                golden_add_object(out, name, row);
            }
        } else if (golden_is_table(value)) {
            str_addf(out, "%s%s:", front, key);
            golden_add_rows(out, value, "\n ", GOLDEN_ROWS);
            str_addc(out, '\n');
        } else {
            str_addf(out, "%s%s: ", front, key);
            golden_add_value(out, value);
            str_addc(out, '\n');
        }
    }
}

/* Read: golden_add_object writes it, json_decref ends it. */
static inline json_t *golden_read_json(const Str *text)
{
    json_t *root = json_loadb(text->text, text->len, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(root);
    return root;
}

static inline void golden_add_json(Str *out, const Str *text)
{
    json_t *root = golden_read_json(text);

    golden_add_object(out, "", root);
    json_decref(root);
}

/* The data of a page that was made for people: what stands in its element `data`. */
static inline void golden_add_page(Str *out, const Str *page)
{
    static const char mark[] = "id=\"data\">";
    const char *begin = strstr(page->text, mark), *end = begin ? strstr(begin, "</script>") : NULL;
    CLEANUP(str_done) Str data = str_limited(GOLDEN_PAGE_MAX);

    assert_non_null(end);
    begin += sizeof mark - 1;
    str_addn(&data, begin, (size_t)(end - begin));
    golden_add_json(out, &data);
}
