/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of `nsys stats --format csv`: a preamble of notices, a header that names columns and their units, rows. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/cleanup.h"
#include "source/nsys/nsys.h"

enum { CELLS_MAX = 40, PREAMBLE_MAX = 64 * 1024 };

typedef struct Cell {
    char *text; /* unquoted, in the arena */
    size_t len;
} Cell;

typedef struct Line {
    Cell cells[CELLS_MAX];
    size_t count;
    const char *start; /* in the file */
} Line;

/* What a column of a header is called, without its unit, in the versions of nsys. */
typedef enum Column {
    COLUMN_START,
    COLUMN_DURATION,
    COLUMN_CORRELATION,
    COLUMN_GRID_X,
    COLUMN_GRID_Y,
    COLUMN_GRID_Z,
    COLUMN_BLOCK_X,
    COLUMN_BLOCK_Y,
    COLUMN_BLOCK_Z,
    COLUMN_REGISTERS,
    COLUMN_BYTES,
    COLUMN_SOURCE,
    COLUMN_TARGET,
    COLUMN_DEVICE,
    COLUMN_STREAM,
    COLUMN_NAME,
    COLUMN_TOTAL,
    COLUMN_COUNT,
    COLUMN_MEAN,
    COLUMN_MIN,
    COLUMN_MAX,
    COLUMN_SD,
    COLUMN_NONE
} Column;

static const struct {
    const char *word;
    Column column;
} words[] = {
    {"Start", COLUMN_START},       {"Duration", COLUMN_DURATION}, {"CorrId", COLUMN_CORRELATION},
    {"GrdX", COLUMN_GRID_X},       {"GrdY", COLUMN_GRID_Y},       {"GrdZ", COLUMN_GRID_Z},
    {"BlkX", COLUMN_BLOCK_X},      {"BlkY", COLUMN_BLOCK_Y},      {"BlkZ", COLUMN_BLOCK_Z},
    {"Reg/Trd", COLUMN_REGISTERS}, {"Bytes", COLUMN_BYTES},       {"SrcMemKd", COLUMN_SOURCE},
    {"DstMemKd", COLUMN_TARGET},   {"Device", COLUMN_DEVICE},     {"Strm", COLUMN_STREAM},
    {"Name", COLUMN_NAME},         {"Operation", COLUMN_NAME},    {"Range", COLUMN_NAME},
    {"Total Time", COLUMN_TOTAL},  {"Instances", COLUMN_COUNT},   {"Count", COLUMN_COUNT},
    {"Num Calls", COLUMN_COUNT},   {"Operations", COLUMN_COUNT},  {"Avg", COLUMN_MEAN},
    {"Average", COLUMN_MEAN},      {"Min", COLUMN_MIN},           {"Minimum", COLUMN_MIN},
    {"Max", COLUMN_MAX},           {"Maximum", COLUMN_MAX},       {"StdDev", COLUMN_SD},
};

static const struct {
    const char *unit;
    double factor; /* to nanoseconds or bytes */
} units[] = {
    {"ns", 1},
    {"us", 1e3},
    {"usec", 1e3},
    {"ms", 1e6},
    {"s", 1e9},
    {"sec", 1e9},
    {"B", 1},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"KiB", 1024.0},
    {"MiB", 1024.0 * 1024},
    {"GiB", 1073741824.0},
};

typedef struct Header {
    size_t place[COLUMN_NONE]; /* cell, CELLS_MAX: none */
    double factor[COLUMN_NONE];
} Header;

typedef struct Text {
    const char *at, *end;
} Text;

/* One line into cells (RFC 4180: quotes doubled within quotes, line ends allowed there). False at the end. */
static bool next_line(Text *text, Arena *arena, Line *ret)
{
    *ret = (Line){.start = text->at};
    if (text->at >= text->end)
        return false;
    for (bool more = true; more;) {
        char *out;
        bool quoted = false;
        const char *p = text->at, *stop = p;

        /* where the cell ends, then its room */
        for (; stop < text->end && (quoted || (*stop != ',' && *stop != '\n')); stop++)
            quoted ^= *stop == '"';
        out = arena_alloc(arena, (size_t)(stop - p) + 1);
        size_t len = 0;

        for (quoted = false; p < stop; p++) {
            if (*p == '"' && quoted && p + 1 < stop && p[1] == '"')
                out[len++] = *p++;
            else if (*p == '"')
                quoted = !quoted;
            else if (*p != '\r' || quoted)
                out[len++] = *p;
        }
        if (ret->count < CELLS_MAX)
            ret->cells[ret->count++] = (Cell){out, len};
        more = stop < text->end && *stop == ',';
        text->at = stop < text->end ? stop + 1 : stop;
    }
    return true;
}

static void read_word(const Cell *cell, size_t place, Header *header)
{
    const char *open = strchr(cell->text, '(');
    size_t len = open ? (size_t)(open - cell->text) : cell->len;
    double factor = 1;

    while (len && cell->text[len - 1] == ' ')
        len--;
    for (size_t u = 0; open && u < ARRAY_LEN(units); u++)
        if (strncmp(open + 1, units[u].unit, strlen(units[u].unit)) == 0 && open[1 + strlen(units[u].unit)] == ')')
            factor = units[u].factor;
    for (size_t w = 0; w < ARRAY_LEN(words); w++)
        if (strlen(words[w].word) == len && strncasecmp(cell->text, words[w].word, len) == 0 &&
            header->place[words[w].column] == CELLS_MAX) {
            header->place[words[w].column] = place;
            header->factor[words[w].column] = factor;
        }
}

static bool has_column(const Header *header, Column column)
{
    return header->place[column] != CELLS_MAX;
}

static bool line_has(const Line *line, const char *start)
{
    for (size_t i = 0; i < line->count; i++)
        if (strncasecmp(line->cells[i].text, start, strlen(start)) == 0)
            return true;
    return false;
}

/* Which table a line is the header of. */
static bool read_header(const Line *line, Header *ret, NsysTable *ret_table)
{
    for (size_t i = 0; i < COLUMN_NONE; i++)
        ret->place[i] = CELLS_MAX;
    for (size_t i = 0; i < line->count; i++)
        read_word(&line->cells[i], i, ret);
    if (!has_column(ret, COLUMN_NAME))
        return false;
    if (has_column(ret, COLUMN_START) && has_column(ret, COLUMN_DURATION) && has_column(ret, COLUMN_STREAM)) {
        *ret_table = NSYS_TABLE_TRACE;
        return true;
    }
    if (!has_column(ret, COLUMN_TOTAL) || !has_column(ret, COLUMN_COUNT))
        return false;
    *ret_table = line_has(line, "Operation")                          ? NSYS_TABLE_COPIES
                 : line_has(line, "Style") || line_has(line, "Range") ? NSYS_TABLE_RANGES
                 : line_has(line, "Num Calls")                        ? NSYS_TABLE_CALLS
                                                                      : NSYS_TABLE_KERNELS;
    return true;
}

static const Cell *find_cell(const Line *line, const Header *header, Column column)
{
    static const Cell none = {"", 0};

    return header->place[column] < line->count ? &line->cells[header->place[column]] : &none;
}

/* A decimal number times the column's unit, rounded; digits and a fraction are read as an integer, so that nanoseconds
 * stay exact. */
static bool read_value(const Line *line, const Header *header, Column column, int64_t *ret)
{
    const Cell *text = find_cell(line, header, column);
    uint64_t whole;
    double number;

    if (header->place[column] != CELLS_MAX && header->factor[column] == 1 &&
        number_parsen_u64(text->text, text->len, 0, INT64_MAX / 4, &whole, NULL) == 0) {
        *ret = (int64_t)whole;
        return true;
    }
    if (number_parsen_double(text->text, text->len, -1e17, 1e17, &number, NULL) < 0)
        return false;
    number *= header->factor[column];
    if (!(fabs(number) < 1e18))
        return false;
    *ret = llround(number);
    return true;
}

static int64_t value_or(const Line *line, const Header *header, Column column, int64_t otherwise)
{
    int64_t number;

    return read_value(line, header, column, &number) ? number : otherwise;
}

static double read_real(const Line *line, const Header *header, Column column)
{
    const Cell *text = find_cell(line, header, column);
    double number;

    if (number_parsen_double(text->text, text->len, -1e300, 1e300, &number, NULL) < 0)
        return (double)NAN;
    return number * header->factor[column];
}

/* "NVIDIA H100 80GB HBM3 (0)" */
static int32_t device_number(const Cell *text)
{
    const char *open = strrchr(text->text, '(');
    uint64_t number;

    if (number_parsen_u64(text->text, text->len, 0, INT32_MAX, &number, NULL) == 0)
        return (int32_t)number;
    if (!open || number_parsen_u64(open + 1, strspn(open + 1, "0123456789"), 0, INT32_MAX, &number, NULL) < 0)
        return -1;
    return (int32_t)number;
}

static uint32_t read_side(const Line *line, const Header *header, Column column)
{
    const int64_t number = value_or(line, header, column, 0);

    return number > 0 && number <= UINT32_MAX ? (uint32_t)number : 0;
}

static uint32_t copy_detail(Profile *into, const Line *line, const Header *header, const Cell *name)
{
    const Cell *source = find_cell(line, header, COLUMN_SOURCE), *target = find_cell(line, header, COLUMN_TARGET);
    ProfileCopy copy = {.bytes = value_or(line, header, COLUMN_BYTES, -1), .reported_gbs = (double)NAN};

    profile_copy_words(name->text, name->len, &copy);
    copy.source = (uint16_t)profile_memory_word(source->text, source->len);
    copy.target = (uint16_t)profile_memory_word(target->text, target->len);
    return profile_copy(into, &copy);
}

static uint32_t launch_detail(Profile *into, const Line *line, const Header *header)
{
    const ProfileLaunch launch = {
        .grid = {read_side(line, header, COLUMN_GRID_X), read_side(line, header, COLUMN_GRID_Y),
                 read_side(line, header, COLUMN_GRID_Z)},
        .block = {read_side(line, header, COLUMN_BLOCK_X), read_side(line, header, COLUMN_BLOCK_Y),
                  read_side(line, header, COLUMN_BLOCK_Z)},
        .registers = read_side(line, header, COLUMN_REGISTERS),
        NSYS_LAUNCH_UNKNOWN,
    };

    return profile_launch(into, &launch);
}

static bool add_event(Profile *into, const Line *line, const Header *header)
{
    const Cell *name = find_cell(line, header, COLUMN_NAME);
    ProfileEvent event = {.kind = PROFILE_KERNEL};

    if (!name->len || !read_value(line, header, COLUMN_START, &event.start) ||
        !read_value(line, header, COLUMN_DURATION, &event.duration) || event.duration < 0)
        return false;
    if (name->text[0] == '[')
        event.kind = strcasestr(name->text, "memset") ? PROFILE_SET : PROFILE_COPY;
    event.name = profile_name(into, name->text, name->len);
    event.lane = profile_stream(into, device_number(find_cell(line, header, COLUMN_DEVICE)),
                                value_or(line, header, COLUMN_STREAM, -1));
    event.link = read_side(line, header, COLUMN_CORRELATION);
    event.extra =
        event.kind == PROFILE_KERNEL ? launch_detail(into, line, header) : copy_detail(into, line, header, name);
    profile_add(into, &event);
    return true;
}

static bool add_summary(NsysSummary *summary, const Line *line, const Header *header)
{
    const Cell *name = find_cell(line, header, COLUMN_NAME);
    NsysSummaryRow row = {.name = name->text,
                          .mean_ns = read_real(line, header, COLUMN_MEAN),
                          .sd_ns = read_real(line, header, COLUMN_SD)};

    if (!name->len || !read_value(line, header, COLUMN_TOTAL, &row.total_ns) ||
        !read_value(line, header, COLUMN_COUNT, &row.count) || row.count < 0 || row.total_ns < 0)
        return false;
    row.min_ns = value_or(line, header, COLUMN_MIN, -1);
    row.max_ns = value_or(line, header, COLUMN_MAX, -1);
    vec_push(&summary->rows, row);
    return true;
}

bool nsys_is_csv(const char *bytes, size_t len)
{
    Text text = {.at = bytes, .end = bytes + len};
    Arena arena = {0};
    Line line;
    Header header;
    NsysTable table;
    bool found = false;

    while (text.at < text.end && strchr(" \t\r\n", *text.at) && *text.at)
        text.at++;
    const size_t left = (size_t)(text.end - text.at);

    if (left && (*text.at == '{' || (*text.at == '[' && memchr(text.at, '{', left < 64 ? left : 64))))
        return false; /* JSON; "[1/3] Executing ..." is a notice */
    while (!found && next_line(&text, &arena, &line))
        found = read_header(&line, &header, &table);
    arena_done(&arena);
    return found;
}

int nsys_read_csv(const char *bytes, size_t len, Profile *into, NsysSummary *ret, Arena *arena, Err *err)
{
    Text text = {.at = bytes, .end = bytes + len};
    Arena lines = {0};
    Line line;
    Header header;
    bool found = false;

    *ret = (NsysSummary){0};
    while (!found && next_line(&text, &lines, &line))
        found = read_header(&line, &header, &ret->table);
    into->framework = profile_name(into, "nsys", 4);
    for (; found && next_line(&text, &lines, &line); arena_reset(&lines)) {
        if (line.count <= 1 && !line.cells[0].len)
            continue;
        into->events++;
        const bool good =
            ret->table == NSYS_TABLE_TRACE ? add_event(into, &line, &header) : add_summary(ret, &line, &header);

        if (!good)
            profile_lose(into, PROFILE_LOSS_SYNTAX, (uint64_t)(line.start - bytes), line.start,
                         (size_t)(text.at - line.start) - (text.at[-1] == '\n'));
        else if (ret->table != NSYS_TABLE_TRACE)
            ret->rows.at[ret->rows.len - 1].name = arena_strdup(arena, ret->rows.at[ret->rows.len - 1].name);
    }
    arena_done(&lines);
    into->bytes = len;
    return found ? 0
                 : err_set(err, -EBADMSG,
                           "no table of nsys stats: no header with 'Start', 'Duration' and 'Strm', or with "
                           "'Total Time' and a count, is in it");
}

void nsys_summary_done(NsysSummary *summary)
{
    vec_done(&summary->rows);
}
