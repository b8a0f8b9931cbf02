/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger in the journal: a table of numbers, and one of the texts that they name (device, owner, price, ...), which
 * repeat. A view shows both together. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "service/journal/db.h"

enum { ROW_BYTES = 128 };

/* Columns of amounts and peaks, as in their tables. */
#define AMOUNT_COLUMN(id, key) ", " key " INTEGER"
#define PEAK_ADD(id, key) "ALTER TABLE ledger ADD COLUMN " key " INTEGER;"
#define AMOUNT_OLD(id, key) ", l." key

/* clang-format off */
#define LEDGER_VIEW                                                                                                    \
    "CREATE VIEW ledger_rows AS SELECT l.id AS id, l.from_ns AS from_ns, l.until_ns AS until_ns, l.mono_ns AS mono_ns,"\
    " b.text AS boot, d.text AS device, o.text AS owner, p.text AS price, k.text AS kind"                              \
    LEDGER_AMOUNT_TABLE(AMOUNT_OLD) LEDGER_PEAK_TABLE(AMOUNT_OLD) " FROM ledger l"                                     \
    " JOIN ledger_names b ON b.id = l.boot JOIN ledger_names d ON d.id = l.device"                                     \
    " JOIN ledger_names o ON o.id = l.owner JOIN ledger_names p ON p.id = l.price"                                     \
    " JOIN ledger_names k ON k.id = l.kind;"

const char db_ledger_tables[] =
    "CREATE TABLE ledger_names(id INTEGER PRIMARY KEY, text TEXT UNIQUE) STRICT;"
    "CREATE TABLE ledger(id INTEGER PRIMARY KEY, from_ns INTEGER, until_ns INTEGER, mono_ns INTEGER, boot INTEGER,"
    " device INTEGER, owner INTEGER, price INTEGER, kind INTEGER" LEDGER_AMOUNT_TABLE(AMOUNT_COLUMN)
    LEDGER_PEAK_TABLE(AMOUNT_COLUMN) ") STRICT;" LEDGER_VIEW;

const char db_ledger_peaks[] = LEDGER_PEAK_TABLE(PEAK_ADD) "DROP VIEW IF EXISTS ledger_rows;" LEDGER_VIEW;

const char db_ledger_put_name[] =
    "INSERT INTO ledger_names(text) VALUES(?1) ON CONFLICT(text) DO UPDATE SET text = ?1 RETURNING id";

const char db_ledger_put[] =
    "INSERT OR REPLACE INTO ledger(id, from_ns, until_ns, mono_ns, boot, device, owner, price, kind"
    LEDGER_AMOUNT_TABLE(DB_LEDGER_AMOUNT) LEDGER_PEAK_TABLE(DB_LEDGER_AMOUNT) ")"
    " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)";
/* clang-format on */

_Static_assert((int)DB_LEDGER_PEAKS + (int)LEDGER_PEAK_END == 23, "the values of db_ledger_put");

/* --- texts -------------------------------------------------------------------------------------------------------- */

typedef struct Text {
    const char *from; /* to be written; or */
    char *to;         /* room to read into */
    size_t cap;
} Text;

#define ROW_TEXT(field)                                                                                                \
    {                                                                                                                  \
        (field), (field), sizeof(field)                                                                                \
    }

/* Texts with tabs between. */
static void join_texts(const Text *texts, size_t count, char joined[DB_LEDGER_NAME])
{
    Str out;

    str_init_room(&out, joined, DB_LEDGER_NAME);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            str_addc(&out, '\t');
        for (const char *at = texts[i].from; *at; at++)
            str_addc(&out, *at == '\t' ? ' ' : *at);
    }
}

static void split_texts(const char *text, const Text *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t len = strcspn(text, "\t");

        snprintf(texts[i].to, texts[i].cap, "%.*s", (int)len, text);
        text += len + (text[len] == '\t');
    }
}

#define OWNER_TEXTS(o)                                                                                                 \
    {                                                                                                                  \
        ROW_TEXT((o)->user), ROW_TEXT((o)->job), ROW_TEXT((o)->account), ROW_TEXT((o)->pod), ROW_TEXT((o)->namespace), \
            ROW_TEXT((o)->container)                                                                                   \
    }
#define DEVICE_TEXTS(r)                                                                                                \
    {                                                                                                                  \
        ROW_TEXT((r)->device), ROW_TEXT((r)->name), ROW_TEXT((r)->profile)                                             \
    }

/* In the place of the kind of share, where nobody holds the device. */
static const char unheld[] = "free";

void db_ledger_names(const LedgerRow *from, char names[DB_LEDGER_NAMES][DB_LEDGER_NAME])
{
    LedgerRow copy = *from, *row = &copy;
    const Text owner[] = OWNER_TEXTS(&row->owner), device[] = DEVICE_TEXTS(row);

    join_texts(device, ARRAY_LEN(device), names[DB_LEDGER_DEVICE]);
    join_texts(owner, ARRAY_LEN(owner), names[DB_LEDGER_OWNER]);
    snprintf(names[DB_LEDGER_PRICE], DB_LEDGER_NAME, "%s", row->price);
    snprintf(names[DB_LEDGER_KIND], DB_LEDGER_NAME, "%s\t%s", row->held ? attributions[row->share_kind].key : unheld,
             ledger_qualities[row->quality].key);
}

void db_ledger_set_names(LedgerRow *row, const char *const names[DB_LEDGER_NAMES])
{
    const Text owners[] = OWNER_TEXTS(&row->owner), devices[] = DEVICE_TEXTS(row);
    char share[32], quality[32];
    const Text kinds[] = {ROW_TEXT(share), ROW_TEXT(quality)};

    split_texts(names[DB_LEDGER_DEVICE], devices, ARRAY_LEN(devices));
    split_texts(names[DB_LEDGER_OWNER], owners, ARRAY_LEN(owners));
    split_texts(names[DB_LEDGER_KIND], kinds, ARRAY_LEN(kinds));
    snprintf(row->price, sizeof row->price, "%s", names[DB_LEDGER_PRICE]);
    const int share_kind = word_find(attributions, ATTRIBUTION_END, share),
              found = word_find(ledger_qualities, LEDGER_QUALITY_END, quality);
    row->held = strcmp(share, unheld) != 0;
    row->share_kind = share_kind < 0 ? ATTRIBUTION_UNKNOWN : (Attribution)share_kind;
    row->quality = found < 0 ? LEDGER_QUALITY_NONE : (LedgerQuality)found;
    row->owner.pid = -1;
}

/* --- rows ------------------------------------------------------------------------------------------------------ */

static const char *text_at(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);

    return text ? text : "";
}

static uint64_t number_at(sqlite3_stmt *row, int column)
{
    return (uint64_t)sqlite3_column_int64(row, column);
}

/* A row of the view. */
void db_ledger_read_row(sqlite3_stmt *from, LedgerRow *row)
{
    const char *const names[DB_LEDGER_NAMES] = {text_at(from, 5), text_at(from, 6), text_at(from, 7), text_at(from, 8)};

    *row = (LedgerRow){.id = number_at(from, 0),
                       .from_real_ns = number_at(from, 1),
                       .until_real_ns = number_at(from, 2),
                       .until_ns = number_at(from, 3)};
    snprintf(row->boot_id, sizeof row->boot_id, "%s", text_at(from, 4));
    db_ledger_set_names(row, names);
    for (int i = 0; i < LEDGER_AMOUNT_END; i++)
        row->amounts[i] = number_at(from, DB_LEDGER_AMOUNTS + i);
    for (int i = 0; i < LEDGER_PEAK_END; i++)
        row->peaks[i] = number_at(from, DB_LEDGER_PEAKS + i);
}

void db_ledger_add_last(void *self, sqlite3_stmt *from)
{
    JournalKept *kept = self;
    LedgerRow row;

    db_ledger_read_row(from, &row);
    kept->ledger_id = number_max_u64(kept->ledger_id, row.id);
    ledger_find_last(&kept->ledger, &row);
}

/* --- pruning ------------------------------------------------------------------------------------------------------ */

/* Names that no row has any more; only where rows were deleted just before. */
#define DELETE_NAMES                                                                                                   \
    "DELETE FROM ledger_names WHERE changes() > 0 AND id NOT IN (SELECT boot FROM ledger UNION SELECT device FROM"     \
    " ledger UNION SELECT owner FROM ledger UNION SELECT price FROM ledger UNION SELECT kind FROM ledger)"

/* A row is as old as the time that is covered behind it, by the monotonic clock of each boot: the wall clock may lie in
 * the future. A row that begins before its boot is of the time before it. */
void db_ledger_prune_older(char sql[DB_LEDGER_SQL], uint64_t keep_ns)
{
    snprintf(sql, DB_LEDGER_SQL,
             "WITH boots AS (SELECT boot, max(id) AS last, max(mono_ns) AS top, max(mono_ns)"
             " - min(max(0, mono_ns - (until_ns - from_ns))) AS covered FROM ledger GROUP BY boot),"
             " limits AS MATERIALIZED (SELECT boot, top - covered + sum(covered) OVER (ORDER BY last DESC) - %" PRIu64
             " AS below FROM boots)"
             "DELETE FROM ledger WHERE id IN (SELECT id FROM ledger JOIN limits USING (boot) WHERE mono_ns < below)"
             ";" DELETE_NAMES,
             keep_ns);
}

void db_ledger_prune_oldest(char sql[DB_LEDGER_SQL], uint64_t max_bytes)
{
    snprintf(
        sql, DB_LEDGER_SQL,
        "DELETE FROM ledger WHERE (SELECT count(*) FROM ledger) * %d > %" PRIu64
        " AND id IN (SELECT id FROM ledger ORDER BY id LIMIT 1 + (SELECT count(*) FROM ledger) / 10);" DELETE_NAMES,
        ROW_BYTES, max_bytes / 2);
}
