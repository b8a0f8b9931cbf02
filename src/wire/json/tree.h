/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A JSON text (RFC 8259) as a tree that is only read, in one arena: for what is read every second, where a table and an
 * allocation per value cost too much. Strict: UTF-8, no NUL in texts, no lone surrogates, nothing behind the value.
 * Pure; any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

typedef enum JsonKind {
    JSON_IS_NULL,
    JSON_IS_BOOL,
    JSON_IS_WHOLE, /* a number without fraction and exponent that fits int64_t */
    JSON_IS_REAL,  /* any other number */
    JSON_IS_TEXT,
    JSON_IS_LIST,
    JSON_IS_MAP,
} JsonKind;

typedef struct JsonItem JsonItem;
struct JsonItem {
    const char *name;     /* of a map's member, else NULL */
    const JsonItem *next; /* of the list or map that it is in */
    union {
        bool truth;
        int64_t whole;
        double real;
        const char *text;
        const JsonItem *first; /* of a list or map; NULL: it is empty */
    };
    const char *raw; /* of a list or map: the text it was read from */
    size_t raw_len;
    uint32_t count; /* of a list or map */
    uint8_t kind;   /* JsonKind */
};

enum { JSON_TREE_DEPTH_MAX = 64 };

/* The items and their texts lie in the arena; `raw` points into `text`. -EINVAL with the byte where it is wrong;
 * -ERANGE for a number that no double holds. */
int json_tree_read(const char *text, size_t len, Arena *arena, const JsonItem **ret, Err *err);

/* The member of this name (the first of several); NULL where there is none, or `item` is NULL or no map. */
const JsonItem *json_member(const JsonItem *item, const char *name);
/* Whether it is there and of this kind. */
bool json_is(const JsonItem *item, JsonKind kind);
/* Either kind of number. */
bool json_number(const JsonItem *item, double *ret);
/* The text, NULL where it is none. */
const char *json_text(const JsonItem *item);
/* Items of a list or map; 0 of anything else. */
size_t json_count(const JsonItem *item);
/* The first of a list or map, for walking it by `next`; NULL of anything else. */
const JsonItem *json_first(const JsonItem *item);
