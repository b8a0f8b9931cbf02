/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The structs of reports as tables of fields: JSON, CSV and the tables of text and page read values through them. A
 * list of Field ends with a NULL name. The macros below make a row of it from a member of the struct ROW (a macro of
 * the place). Not for others than the files of this folder. */

#include "base/cleanup.h"
#include "base/vec.h"
#include "service/report/out.h"

typedef enum FieldType {
    FIELD_I64,
    FIELD_U64,
    FIELD_I32,
    FIELD_U32,
    FIELD_KNOWN,      /* int64_t, unknown below 0 */
    FIELD_KNOWN32,    /* int32_t, unknown below 0 */
    FIELD_INDEX,      /* uint32_t, unknown UINT32_MAX */
    FIELD_LINE,       /* uint64_t, unknown 0 */
    FIELD_BITS,       /* uint64_t, how many are set */
    FIELD_TIME,       /* int64_t, unknown INT64_MIN */
    FIELD_DOUBLE,     /* unknown NaN */
    FIELD_TEXT,       /* const char *, "" is a text */
    FIELD_KNOWN_TEXT, /* const char *, unknown "" */
    FIELD_BOOL,
    FIELD_WORD,   /* an enum, of `words`; unknown "" */
    FIELD_FLAG,   /* bool, of two `words` */
    FIELD_TRIPLE, /* uint32_t[3], unknown 0 */
    /* What JSON nests; CSV takes FIELD_SUMS and FIELD_ROWS where they have a `column`. */
    FIELD_STRUCT, /* a struct with `fields`: an object */
    FIELD_INLINE, /* the same without an object of its own */
    FIELD_REF, /* uint32_t, the index of a row of the report's VEC at `list`, inlined; its fields unknown without one */
    FIELD_LIST,  /* a VEC of rows; one field without a name makes elements that are values */
    FIELD_ARRAY, /* the same for rows in the struct itself, `count` or as many as the unsigned at `list` says */
    FIELD_SUMS,  /* int64_t[], an object by `words` */
    FIELD_ROWS,  /* structs by `words`, each an object that begins with "cause" */
} FieldType;

typedef struct Field {
    const char *name;
    FieldType type;
    bool sparse; /* leaves out sums of 0, and rows whose first field is unknown */
    size_t offset;
    const struct Field *fields;
    size_t size; /* of a row of what is inside */
    size_t list;
    const char *const *words;
    unsigned count;     /* of words */
    const char *column; /* front of the CSV columns "<column><word>_ns" */
    size_t cell;        /* FIELD_ROWS: offset of that column's int64_t in a row */
} Field;

#define FIELD(key, kind, member, ...)                                                                                  \
    {                                                                                                                  \
        .name = key, .type = FIELD_##kind, .offset = offsetof(ROW, member), __VA_ARGS__                                \
    }
#define F(kind, member, key) FIELD(key, kind, member, .sparse = false)
#define N(kind, member) F(kind, member, #member)
#define WORD(member, key, list) FIELD(key, WORD, member, .words = list, .count = ARRAY_LEN(list))
#define STRUCT(member, key, inner) FIELD(key, STRUCT, member, .fields = inner)
#define INLINE(member, inner) FIELD(#member, INLINE, member, .fields = inner)
#define ROWS_SIZE(row, rows) .size = sizeof(*((row *)0)->rows.at)
#define LIST_AS(member, key, inner) FIELD(key, LIST, member, .fields = inner, ROWS_SIZE(ROW, member))
#define LIST(member, inner) LIST_AS(member, #member, inner)
#define END                                                                                                            \
    {                                                                                                                  \
        .name = NULL                                                                                                   \
    }

/* A value read by its type. */
typedef struct Value {
    enum { VALUE_NONE, VALUE_I64, VALUE_U64, VALUE_DOUBLE, VALUE_TEXT, VALUE_BOOL, VALUE_TRIPLE } is;
    union {
        int64_t i64;
        uint64_t u64;
        double number;
        const char *text;
        bool truth;
        const uint32_t *triple;
    };
} Value;

/* The rows of the VEC at `offset` of a struct. */
typedef VEC(char) FieldRows;
FieldRows field_rows(const void *owner, size_t offset);

bool field_is_plain(const Field *field);               /* one value */
Value field_read(const Field *field, const void *row); /* of a plain field; `row` NULL: none */
void field_add_json(Str *out, const char *key, const Field *field, const void *row); /* of a plain field */

/* "key":value of every field of `row`, without braces; `root` is the report. */
void field_json(Out *out, const Field *fields, const void *row, const void *root);

/* Cells, each with a comma behind it, and the line of such cells with its end. Unknown values are empty. */
void csv_add_text(Str *line, const char *text);
void csv_add_cells(Str *line, const Field *fields, const void *row, const void *root);
void csv_end_line(Out *out, Str *line, const char *end);

/* A table as CSV (RFC 4180): a header, then the columns of each level beside those of the levels above it, for every
 * row of the last. */
typedef struct CsvLevel {
    const Field *columns; /* NULL: the end */
    size_t offset, size;  /* rows: a VEC there, in a row of the level above; size 0: one row, the struct itself */
} CsvLevel;
enum { CSV_LEVELS_MAX = 4 };
void csv_write(Out *out, const CsvLevel *levels, const void *root);
