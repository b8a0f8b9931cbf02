/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Fields as data: one const row says what a key is called, how its text reads, what it may hold, where it goes and what
 * the documentation says about it. Boards, scenarios and steps are read through such rows, from a YAML mapping or from
 * words ("gpu=3 unc=1"), so that both speak the same language and every error can name the allowed values.
 * Texts lie in the caller's arena. One thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/yaml.h"

enum { FIELD_MAX = 96, FIELD_INDEX_MAX = 64, FIELD_TEXT_MAX = 1024, FIELD_WORDS_MAX = 32 };

/* The type of the member at `off` and how its text reads. */
typedef enum FieldType {
    FIELD_U32,      /* uint32_t */
    FIELD_I32,      /* int32_t */
    FIELD_U64,      /* uint64_t */
    FIELD_HEX,      /* uint32_t: 0x233010DE or decimal */
    FIELD_MILLI,    /* uint32_t, thousandths: "700" watts are 700000; a unit W or mW may follow */
    FIELD_DOUBLE,   /* double; '+' and a unit of the row may be written */
    FIELD_BOOL,     /* uint32_t 0 or 1: yes/no, on/off, true/false */
    FIELD_ENUM,     /* uint32_t: index in names */
    FIELD_CHARS,    /* char[size]: a text that must fit */
    FIELD_TEXT,     /* const char * */
    FIELD_DURATION, /* uint64_t nanoseconds: 90s, 1h30m, 0; "forever" where the maximum allows it */
    FIELD_MIB,      /* double MiB: "60GiB" */
    FIELD_INDEXES,  /* uint64_t: a set of numbers below 64: 3, 0-3, [0, 2], "0,2-4", all */
    FIELD_NODE,     /* const YamlNode *: the caller reads it; not from words */
} FieldType;

enum { FIELD_NEEDED = 1, FIELD_FIRST = 2 }; /* must be given; may stand without its key as the first word */
#define FIELD_ALL UINT64_MAX                /* FIELD_INDEXES: "all" */

typedef struct Field {
    const char *key; /* "clocks.sm_max": key sm_max in mapping clocks */
    FieldType type;
    uint32_t flags;
    size_t off, size; /* size: of a FIELD_CHARS */
    double min, max;  /* both 0: whatever the type holds; FIELD_INDEXES: highest number; FIELD_MILLI: in whole units */
    const char *const *names; /* FIELD_ENUM: NULL-ended */
    const char *def;          /* default as text; NULL: the member keeps its value */
    const char *unit;         /* "W": may follow the number; shown in the documentation */
    const char *help;
} Field;

typedef struct FieldSet {
    const Field *fields;
    size_t count;
    const char *what; /* what errors call it: "step 'xid'" */
} FieldSet;

/* Sets every field that has a default. The defaults are the programmer's: a wrong one is caught by a test. */
int field_defaults(const FieldSet *set, Arena *arena, void *into, Err *err);

/* Reads a mapping (NULL or null: nothing is given). seen[i] tells which row was given. -EINVAL with the position, what
 * is wrong and what is allowed: an unknown key, a missing one, a value of another shape or out of range. */
int field_read_map(const FieldSet *set, const YamlNode *map, Arena *arena, void *into, bool seen[FIELD_MAX], Err *err);

/* The same from words: "key=value", the value of the first field alone, or a bare word that is a value of one
 * enumeration or the name of a switch. */
int field_read_words(const FieldSet *set, int argc, const char *const *argv, Arena *arena, void *into,
                     bool seen[FIELD_MAX], Err *err);

/* One field from one text. `node` (may be NULL) gives the position for errors. */
int field_read_text(const Field *field, const char *text, const YamlNode *node, Arena *arena, void *into, Err *err);

/* Fails at `node`, or without a position where it is NULL. */
int field_fail(const YamlNode *node, Err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Fails with "unknown <what> '<text>' (did you mean 'x'?); allowed: a, b, c". names is NULL-ended. */
int field_unknown(const YamlNode *node, Err *err, const char *what, const char *text, const char *const *names);

/* Appends the documentation's table of some fields: key, what it takes, default, help. */
void fields_page(const Field *fields, size_t count, Str *out);

/* Texts of single values that the scenario language adds to the numbers, sizes and durations of src/base: signs, units,
 * switches, sets of numbers, points in time. Any thread. All return 0, or -EINVAL and leave the result untouched. */

/* A whole number, with or without '+' or '-', optional unit behind it (NULL: none); `hex` allows 0x. */
int value_whole(const char *text, const char *unit, int hex, int64_t *ret);

/* A finite number, with or without '+', optional unit, or '%' which divides by 100. */
int value_real(const char *text, const char *unit, double *ret);

/* A set of numbers 0..highest (at most 63): "3", "0-3", "0,2-4"; "all" gives UINT64_MAX. */
int value_indexes(const char *text, uint32_t highest, uint64_t *ret);

/* A point in time as in RFC 3339, in UTC: 2026-01-05T08:00:00Z. Microseconds since 1970; years 1971 to 2100. */
int value_time(const char *text, uint64_t *ret_us);
