/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The tables of classify.def behind one matcher. A table is prepared once per process: rows hang on the hash of their
 * first two letters, so that a name is walked once however many rows there are, and only rows that could begin at a
 * byte are compared there. Prepared tables are read-only.
 */

#include "engine/trace/classify.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/owner.h"

enum { BUCKETS = 1024, ROWS_MAX = 512, NO_ROW = UINT16_MAX };

/* Which kinds of host events a row speaks of. */
enum {
    KINDS_CALL = 1 << PROFILE_CALL,
    KINDS_RANGE = 1 << PROFILE_OP | 1 << PROFILE_ANNOTATION | 1 << PROFILE_OTHER,
    KINDS_PYTHON = 1 << PROFILE_PYTHON,
    KINDS_ANY = (1 << PROFILE_KIND_COUNT) - 1
};

typedef struct WordRow {
    const char *pattern;
    uint16_t kinds;
    uint8_t value;
} WordRow;

static const WordRow gpu_rows[] = {
#define GPU(pattern_, class_) {.pattern = pattern_, .kinds = KINDS_ANY, .value = TRACE_##class_},
#include "engine/trace/classify.def"
};

static const WordRow tensor_rows[] = {
#define TENSOR(pattern_, yes_) {.pattern = pattern_, .kinds = KINDS_ANY, .value = yes_},
#include "engine/trace/classify.def"
};

static const WordRow matrix_rows[] = {
#define MATRIX(pattern_, yes_) {.pattern = pattern_, .kinds = KINDS_ANY, .value = yes_},
#include "engine/trace/classify.def"
};

static const WordRow host_rows[] = {
#define HOST(kinds_, pattern_, class_) {.pattern = pattern_, .kinds = KINDS_##kinds_, .value = TRACE_HOST_##class_},
#include "engine/trace/classify.def"
};

_Static_assert(ARRAY_LEN(host_rows) < ROWS_MAX && ARRAY_LEN(tensor_rows) < ROWS_MAX, "room for all rows");

typedef struct WordTable {
    const WordRow *rows;
    size_t len;
    uint16_t first[BUCKETS]; /* of the rows that may begin with these two letters, in order; NO_ROW */
    uint16_t next[ROWS_MAX];
} WordTable;

static WordTable gpu_table, tensor_table, matrix_table, host_table;
static uint8_t lower[256];

const char *const trace_class_words[TRACE_CLASS_COUNT] = {"compute", "communication", "copy"};

const char *const trace_host_words[TRACE_HOST_CLASS_COUNT] = {
    [TRACE_HOST_OTHER] = "other",     [TRACE_HOST_OP] = "op",
    [TRACE_HOST_LAUNCH] = "launch",   [TRACE_HOST_SYNC] = "synchronisation",
    [TRACE_HOST_COPY] = "copy",       [TRACE_HOST_ALLOCATOR] = "allocator",
    [TRACE_HOST_DATA] = "data",       [TRACE_HOST_COLLECTIVE] = "collective_wait",
    [TRACE_HOST_COMPILE] = "compile", [TRACE_HOST_RUNTIME] = "runtime",
    [TRACE_HOST_PYTHON] = "python",   [TRACE_HOST_MARK] = "annotation",
};

static size_t bucket_of(uint8_t first, uint8_t second)
{
    return ((size_t)first * 33 ^ second) % BUCKETS;
}

static void table_prepare(WordTable *table, const WordRow *rows, size_t len)
{
    table->rows = rows;
    table->len = len;
    memset(table->first, 0xff, sizeof(table->first));
    for (size_t i = len; i-- > 0;) { /* backwards: chains run in the order of the table */
        const char *text = rows[i].pattern + (rows[i].pattern[0] == '^');
        size_t bucket = bucket_of(lower[(uint8_t)text[0]], lower[(uint8_t)text[1]]);

        assert(text[0] && text[1] && text[0] != '*' && text[1] != '*' && text[1] != '$');
        table->next[i] = table->first[bucket];
        table->first[bucket] = (uint16_t)i;
    }
}

static void prepare_tables(void)
{
    for (int c = 0; c < 256; c++)
        lower[c] = (uint8_t)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    table_prepare(&gpu_table, gpu_rows, ARRAY_LEN(gpu_rows));
    table_prepare(&tensor_table, tensor_rows, ARRAY_LEN(tensor_rows));
    table_prepare(&matrix_table, matrix_rows, ARRAY_LEN(matrix_rows));
    table_prepare(&host_table, host_rows, ARRAY_LEN(host_rows));
}

/* Whether the plain text of a pattern, up to '*', '$' or its end, stands at name[at]; *ret_len is its length. */
static bool stands_at(const char *plain, const char *name, size_t len, size_t at, size_t *ret_len)
{
    size_t i = 0;

    for (; plain[i] && plain[i] != '*' && plain[i] != '$'; i++)
        if (at + i >= len || lower[(uint8_t)name[at + i]] != (uint8_t)plain[i])
            return false;
    *ret_len = i;
    return true;
}

/* Whether the pattern, whose first letters are at name[at], goes on from there to its end. What follows a '*' is taken
 * where it comes first, which is enough as no part but the last is tied to a place. */
static bool goes_on(const char *pattern, const char *name, size_t len, size_t at)
{
    size_t part;

    if (!stands_at(pattern, name, len, at, &part))
        return false;
    for (;;) {
        at += part;
        pattern += part;
        if (*pattern != '*')
            return *pattern == '\0' || at == len;
        pattern++;
        while (at < len && !stands_at(pattern, name, len, at, &part))
            at++;
        if (at >= len)
            return false;
    }
}

/* The value of the first row of the table that matches, -1 where none does. */
static int look_up(const WordTable *table, ProfileKind kind, const char *name, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t best = table->len;

    pthread_once(&once, prepare_tables);
    best = table->len;
    for (size_t at = 0; at + 1 < len; at++) {
        size_t row = table->first[bucket_of(lower[(uint8_t)name[at]], lower[(uint8_t)name[at + 1]])];

        for (; row < best; row = table->next[row]) { /* NO_ROW is over all of them */
            const char *pattern = table->rows[row].pattern;
            bool tied = pattern[0] == '^';

            if ((table->rows[row].kinds >> kind & 1) && (!tied || at == 0) && goes_on(pattern + tied, name, len, at))
                best = row;
        }
    }
    return best < table->len ? table->rows[best].value : -1;
}

TraceClass trace_classify(ProfileKind kind, const char *name, size_t len)
{
    int value;

    if (kind == PROFILE_COPY || kind == PROFILE_SET)
        return TRACE_COPY;
    value = look_up(&gpu_table, kind, name, len);
    return value < 0 ? TRACE_COMPUTE : (TraceClass)value;
}

bool trace_is_tensor_core(const char *name, size_t len)
{
    return look_up(&tensor_table, PROFILE_KERNEL, name, len) > 0;
}

bool trace_is_matrix_op(const char *name, size_t len)
{
    return look_up(&matrix_table, PROFILE_OP, name, len) > 0;
}

TraceHostClass trace_classify_host(ProfileKind kind, const char *name, size_t len)
{
    static const uint8_t by_kind[PROFILE_KIND_COUNT] = {
        [PROFILE_CALL] = TRACE_HOST_RUNTIME,
        [PROFILE_OP] = TRACE_HOST_OP,
        [PROFILE_ANNOTATION] = TRACE_HOST_MARK,
        [PROFILE_PYTHON] = TRACE_HOST_PYTHON,
    };
    int value = look_up(&host_table, kind, name, len);

    return (TraceHostClass)(value < 0 ? by_kind[kind] : value);
}
