/* SPDX-License-Identifier: Apache-2.0 */
/* Putting rows of the ledger, and reading them beside the agent: as they are, or merged by owner. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/number.h"
#include "service/journal/db.h"

CLEANUP_POINTER(Db, db_close);

DbChange db_ledger_change(const LedgerRow *row)
{
    DbChange change = {DB_PUT_LEDGER,
                       {db_number(row->id), db_number(row->from_real_ns), db_number(row->until_real_ns),
                        db_number(row->until_ns), db_text(row->boot_id)}};
    char names[DB_LEDGER_NAMES][DB_LEDGER_NAME];

    db_ledger_names(row, names);
    for (int i = 0; i < DB_LEDGER_NAMES; i++)
        change.values[5 + i] = db_text(names[i]);
    for (int i = 0; i < LEDGER_AMOUNT_END; i++)
        change.values[DB_LEDGER_AMOUNTS + i] = db_number(row->amounts[i]);
    for (int i = 0; i < LEDGER_PEAK_END; i++)
        change.values[DB_LEDGER_PEAKS + i] = db_number(row->peaks[i]);
    return change;
}

static uint64_t get_number(sqlite3_stmt *row, int column)
{
    return (uint64_t)sqlite3_column_int64(row, column);
}

typedef struct Reader {
    const JournalLedgerQuery *query;
    JournalLedgerAdd add;
    void *self;
    Map merged; /* by the numbers of the names: LedgerRow */
    char text[DB_LEDGER_NAME];
} Reader;

static void add_row(void *self, sqlite3_stmt *from)
{
    Reader *r = self;
    LedgerRow row;

    db_ledger_read_row(from, &row);
    r->add(r->self, &row);
}

static LedgerRow *find_merged(Reader *r, sqlite3_stmt *from)
{
    int64_t names[DB_LEDGER_NAMES];

    for (int i = 0; i < DB_LEDGER_NAMES; i++)
        names[i] = sqlite3_column_int64(from, 3 + i);
    LedgerRow *row = map_getn(&r->merged, (const char *)names, sizeof names);
    if (!row) {
        row = xcalloc(1, sizeof *row);
        row->from_real_ns = UINT64_MAX;
        map_putn(&r->merged, (const char *)names, sizeof names, row);
    }
    return row;
}

/* Adds the part of a row that lies in the query's time. */
static void add_merged(void *self, sqlite3_stmt *from)
{
    Reader *r = self;
    LedgerRow *row = find_merged(r, from);
    const uint64_t begin = get_number(from, 1), end = get_number(from, 2);
    const uint64_t first = number_max_u64(begin, r->query->from_real_ns),
                   last = number_min_u64(end, r->query->to_real_ns);
    const bool whole = first == begin && last == end;
    const double share = end > begin ? (double)(last - first) / (double)(end - begin) : 1;

    row->id = number_max_u64(row->id, get_number(from, 0));
    row->from_real_ns = number_min_u64(row->from_real_ns, first);
    row->until_real_ns = number_max_u64(row->until_real_ns, last);
    for (int i = 0; i < LEDGER_AMOUNT_END; i++) {
        const uint64_t amount = get_number(from, 3 + DB_LEDGER_NAMES + i);

        row->amounts[i] += whole ? amount : (uint64_t)((double)amount * share + 0.5);
    }
    for (int i = 0; i < LEDGER_PEAK_END; i++)
        row->peaks[i] = number_max_u64(row->peaks[i], get_number(from, 3 + DB_LEDGER_NAMES + LEDGER_AMOUNT_END + i));
}

static void copy_text(void *self, sqlite3_stmt *from)
{
    Reader *r = self;

    const char *text = (const char *)sqlite3_column_text(from, 0);

    snprintf(r->text, sizeof r->text, "%s", text ? text : "");
}

static int find_name(Reader *r, Db *db, int64_t id, char text[DB_LEDGER_NAME], Err *err)
{
    r->text[0] = '\0';
    TRY(db_read_rows(db, "SELECT text FROM ledger_names WHERE id = ?1", (uint64_t[]){(uint64_t)id}, copy_text, r, err));
    memcpy(text, r->text, DB_LEDGER_NAME);
    return 0;
}

static int give_merged(Reader *r, Db *db, Err *err)
{
    const MapEntry *entry;
    size_t cursor = 0;

    while ((entry = map_next(&r->merged, &cursor))) {
        LedgerRow *row = entry->value;
        char texts[DB_LEDGER_NAMES][DB_LEDGER_NAME];
        int64_t names[DB_LEDGER_NAMES];

        memcpy(names, entry->key, sizeof names);
        for (int i = 0; i < DB_LEDGER_NAMES; i++)
            TRY(find_name(r, db, names[i], texts[i], err));
        db_ledger_set_names(row, (const char *[]){texts[0], texts[1], texts[2], texts[3]});
        r->add(r->self, row);
    }
    return 0;
}

static void free_merged(Map *merged)
{
    const MapEntry *entry;
    size_t cursor = 0;

    while ((entry = map_next(merged, &cursor)))
        free(entry->value);
    map_done(merged);
}

static void note_found(void *self, sqlite3_stmt *from UNUSED)
{
    *(bool *)self = true;
}

/* All that is read then is of one instant: names may be deleted meanwhile. */
static int begin_reading(Db *db, Err *err)
{
    bool found = false;

    TRY(db_read_rows(db, "BEGIN", NULL, NULL, NULL, err));
    TRY(db_read_rows(db, "SELECT 1 FROM pragma_table_info('ledger') WHERE name = 'memory_peak_bytes'", NULL, note_found,
                     &found, err));
    if (!found)
        return err_set(err, -ENODATA,
                       "no ledger in it, or that of an older Stoker; an agent that is started with it adds what is "
                       "missing");
    return 0;
}

int journal_read_ledger(const char *path, const JournalLedgerQuery *query, JournalLedgerAdd add, void *self, Err *err)
{
    static const char where[] = " WHERE until_ns > ?1 AND from_ns < ?2 AND id >= ?3 ORDER BY id LIMIT ?4";
    static const char numbers_of[] =
        "SELECT id, from_ns, until_ns, device, owner, price, kind" LEDGER_AMOUNT_TABLE(DB_LEDGER_AMOUNT)
            LEDGER_PEAK_TABLE(DB_LEDGER_AMOUNT) " FROM ledger";
    const uint64_t numbers[] = {query->from_real_ns, number_min_u64(query->to_real_ns, INT64_MAX), query->from_id,
                                query->limit ? query->limit : (uint64_t)INT64_MAX};
    CLEANUP(db_close_at) Db *db = NULL;
    Reader r = {.query = query, .add = add, .self = self};
    char sql[1024];

    TRY(db_open_for_reading(path, &db, err));
    map_init(&r.merged);
    snprintf(sql, sizeof sql, "%s%s", query->merge ? numbers_of : "SELECT * FROM ledger_rows", where);
    int rc = begin_reading(db, err);
    if (rc == 0)
        rc = db_read_rows(db, sql, numbers, query->merge ? add_merged : add_row, &r, err);
    if (rc == 0)
        rc = give_merged(&r, db, err);
    free_merged(&r.merged);
    if (rc < 0)
        err_add(err, "'%s'", path);
    return rc;
}
