/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Words: enums whose values each have a key, stable, for labels and JSON, and mostly a text for people. A table
 * X_TABLE(WORD) of rows WORD(id, key, text) makes the enum and its words, an array in the order of the enum; the last
 * value of the enum is their number. All arrays are in word.c. Const data, any thread.
 */

#include <stddef.h>

#define WORD_ID(id, ...) id,
#define WORD_ROW(id, ...) [id] = WORD_PAIR(__VA_ARGS__, NULL, NULL),
#define WORD_PAIR(key, text, ...)                                                                                      \
    {                                                                                                                  \
        key, text                                                                                                      \
    }

typedef struct WordRow {
    const char *key, *text; /* text NULL where the table has none */
} WordRow;

/* The number of the word with this key among `count`; -1 where there is none, and for NULL. */
int word_find(const WordRow *words, size_t count, const char *key);
