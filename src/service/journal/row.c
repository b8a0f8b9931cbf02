/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/row.h"

#include <stdio.h>
#include <string.h>

void row_create(const RowTable *table, Str *sql)
{
    str_addf(sql, "CREATE TABLE %s(", table->name);
    for (size_t i = 0; i < table->count; i++) {
        const RowColumn *c = &table->columns[i];

        str_addf(sql, "%s%s %s %s", i ? ", " : "", c->name,
                 c->type == ROW_TEXT || c->type == ROW_WORD ? "TEXT" : "INTEGER", c->more ? c->more : "");
    }
    str_addf(sql, "%s) STRICT;", table->more);
}

void row_names(const RowTable *table, Str *sql)
{
    for (size_t i = 0; i < table->count; i++)
        str_addf(sql, "%s%s", i ? ", " : "", table->columns[i].name);
}

void row_insert(const RowTable *table, const char *names, int extra, Str *sql)
{
    str_addf(sql, "INSERT OR REPLACE INTO %s(", table->name);
    row_names(table, sql);
    str_addf(sql, "%s) VALUES(", names);
    for (size_t i = 1; i <= table->count + (size_t)extra; i++)
        str_addf(sql, "%s?%zu", i > 1 ? ", " : "", i);
    str_add(sql, ")");
}

static void bind_u32(sqlite3_stmt *statement, int at, uint32_t value)
{
    if (value == UINT32_MAX)
        sqlite3_bind_null(statement, at);
    else
        sqlite3_bind_int64(statement, at, value);
}

static int word_of(const void *member)
{
    int word;

    memcpy(&word, member, sizeof word);
    return word;
}

static void bind_one(const RowColumn *c, sqlite3_stmt *statement, int at, const char *member)
{
    uint64_t u64;
    uint32_t u32;
    int32_t i32;

    switch (c->type) {
    case ROW_TEXT:
        sqlite3_bind_text(statement, at, member, (int)strnlen(member, c->size), SQLITE_STATIC);
        break;
    case ROW_WORD:
        sqlite3_bind_text(statement, at, c->key(word_of(member)), -1, SQLITE_STATIC);
        break;
    case ROW_U64:
        memcpy(&u64, member, sizeof u64);
        sqlite3_bind_int64(statement, at, (sqlite3_int64)u64);
        break;
    case ROW_U32:
        memcpy(&u32, member, sizeof u32);
        bind_u32(statement, at, u32);
        break;
    case ROW_I32:
        memcpy(&i32, member, sizeof i32);
        sqlite3_bind_int64(statement, at, i32);
        break;
    case ROW_BOOL:
        sqlite3_bind_int64(statement, at, *member != 0);
        break;
    }
}

void row_bind(const RowTable *table, sqlite3_stmt *statement, const void *row)
{
    for (size_t i = 0; i < table->count; i++)
        bind_one(&table->columns[i], statement, (int)i + 1, (const char *)row + table->columns[i].off);
}

static void read_word(const RowColumn *c, const char *text, char *member)
{
    for (int i = 0; text && i < c->count; i++)
        if (strcmp(c->key(i), text) == 0)
            memcpy(member, &i, sizeof i);
}

static void read_one(const RowColumn *c, sqlite3_stmt *statement, int at, char *member)
{
    const char *text = (const char *)sqlite3_column_text(statement, at);
    const sqlite3_int64 number = sqlite3_column_int64(statement, at);
    const uint64_t u64 = (uint64_t)number;
    const uint32_t u32 = text ? (uint32_t)number : UINT32_MAX;
    const int32_t i32 = (int32_t)number;

    switch (c->type) {
    case ROW_TEXT:
        snprintf(member, c->size, "%s", text ? text : "");
        break;
    case ROW_WORD:
        read_word(c, text, member);
        break;
    case ROW_U64:
        memcpy(member, &u64, sizeof u64);
        break;
    case ROW_U32:
        memcpy(member, &u32, sizeof u32);
        break;
    case ROW_I32:
        memcpy(member, &i32, sizeof i32);
        break;
    case ROW_BOOL:
        *(bool *)member = number != 0;
        break;
    }
}

void row_read(const RowTable *table, sqlite3_stmt *statement, void *row)
{
    for (size_t i = 0; i < table->count; i++)
        read_one(&table->columns[i], statement, (int)i, (char *)row + table->columns[i].off);
}
