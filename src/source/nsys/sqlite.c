/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of an export's tables: values, and what each becomes in the profile. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "base/map.h"
#include "source/nsys/nsys.h"

enum { COLUMNS_MAX = 24 };

typedef struct Reader {
    sqlite3 *db;
    Profile *into;
    Map strings;  /* id -> name + 1 */
    Map links;    /* process and correlation -> link + 1, where there are several processes */
    Map gpus;     /* process and CUDA device -> GPU + 1 */
    bool several; /* processes */
    size_t memory_max;
    const bool *stop;
} Reader;

typedef sqlite3_stmt *Row; /* the one that the query stands at */

typedef struct Table {
    const char *name;
    const char *columns[COLUMNS_MAX]; /* NULL-ended; row callbacks take them by their place */
    void (*row)(Reader *reader, Row row);
} Table;

/* In the order of reading: names first. The last one has no name. */

static int64_t read_number(Row row, int column, int64_t if_null)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? if_null : sqlite3_column_int64(row, column);
}

static bool is_null(Row row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL;
}

/* A text column, or a number in StringIds. */
static uint32_t read_text(Reader *reader, Row row, int column)
{
    if (sqlite3_column_type(row, column) == SQLITE_INTEGER) {
        const uintptr_t known = (uintptr_t)map_u64_get(&reader->strings, (uint64_t)sqlite3_column_int64(row, column));

        return known ? (uint32_t)(known - 1) : PROFILE_NONE;
    }
    const char *value = (const char *)sqlite3_column_text(row, column);

    return value ? profile_name(reader->into, value, (size_t)sqlite3_column_bytes(row, column)) : PROFILE_NONE;
}

static uint32_t text_or(Reader *reader, uint32_t name, const char *otherwise)
{
    return name != PROFILE_NONE ? name : profile_name(reader->into, otherwise, strlen(otherwise));
}

/* Nsight's global numbers: eight bits of hardware and virtual machine each, 24 bits of process, 24 of thread. */
static int64_t process_of(int64_t global)
{
    return (int64_t)((uint64_t)global >> 24 & 0xffffff);
}

static int64_t thread_of(int64_t global)
{
    return (int64_t)((uint64_t)global & 0xffffff);
}

/* Correlations are unique within a process alone. */
static uint32_t link_of(Reader *reader, int64_t global, int64_t correlation)
{
    if (correlation <= 0)
        return 0;
    if (!reader->several && correlation <= INT32_MAX)
        return (uint32_t)correlation;
    const uint64_t key = (uint64_t)process_of(global) << 40 ^ (uint64_t)correlation;
    uintptr_t link = (uintptr_t)map_u64_get(&reader->links, key);

    if (!link) {
        link = reader->links.len + 1;
        map_u64_put(&reader->links, key, (void *)link);
    }
    return (uint32_t)link;
}

static uint64_t gpu_key(int64_t process, int64_t device)
{
    return (uint64_t)process << 16 ^ ((uint64_t)device & 0xffff);
}

/* A process's device numbers follow its CUDA_VISIBLE_DEVICES. */
static int32_t gpu_of(Reader *reader, int64_t global, int64_t device)
{
    const uintptr_t gpu = (uintptr_t)map_u64_get(&reader->gpus, gpu_key(process_of(global), device));

    return gpu ? (int32_t)(gpu - 1) : (int32_t)device;
}

static bool read_times(Reader *reader, Row row, int64_t *ret_start, int64_t *ret_duration)
{
    const int64_t limit = INT64_C(1) << 60;
    const int64_t start = read_number(row, 0, -1), end = read_number(row, 1, start);

    reader->into->events++;
    if (is_null(row, 0) || start < -limit || start > limit || end > limit) {
        profile_lose(reader->into, PROFILE_LOSS_NO_TIME, 0, NULL, 0);
        return false;
    }
    if (end < start)
        profile_lose(reader->into, PROFILE_LOSS_BAD_DURATION, 0, NULL, 0);
    *ret_start = start;
    *ret_duration = end > start ? end - start : 0;
    return true;
}

static uint32_t thread_lane(Reader *reader, int64_t global)
{
    return profile_thread(reader->into, process_of(global), PROFILE_NONE, thread_of(global), PROFILE_NONE);
}

static void add_host(Reader *reader, Row row, ProfileKind kind, int64_t global, uint32_t name, uint32_t link)
{
    ProfileEvent event = {.kind = kind, .name = name, .link = link, .extra = PROFILE_NONE};

    if (!read_times(reader, row, &event.start, &event.duration))
        return;
    event.lane = thread_lane(reader, global);
    profile_add(reader->into, &event);
}

static void on_string(Reader *reader, Row row)
{
    const char *value = (const char *)sqlite3_column_text(row, 1);

    if (value) {
        const uint32_t name = profile_name(reader->into, value, (size_t)sqlite3_column_bytes(row, 1));

        map_u64_put(&reader->strings, (uint64_t)read_number(row, 0, 0), (void *)((uintptr_t)name + 1));
    }
}

/* gpuId, cudaId, pid */
static void on_cuda_device(Reader *reader, Row row)
{
    map_u64_put(&reader->gpus, gpu_key(read_number(row, 2, 0), read_number(row, 1, 0)),
                (void *)((uintptr_t)(read_number(row, 0, 0) & 0xffff) + 1));
}

/* id, name, totalMemory, smCount, computeMajor, computeMinor, threadsPerWarp, maxWarpsPerSm */
static void on_gpu(Reader *reader, Row row)
{
    const int64_t warp = read_number(row, 6, 32);
    const ProfileDevice device = {.id = (int32_t)read_number(row, 0, 0),
                                  .name = read_text(reader, row, 1),
                                  .memory_bytes = (uint64_t)read_number(row, 2, 0),
                                  .sm_count = (uint32_t)read_number(row, 3, 0),
                                  .major = (int32_t)read_number(row, 4, 0),
                                  .minor = (int32_t)read_number(row, 5, 0),
                                  .warp_size = (uint32_t)warp,
                                  .threads_per_sm = (uint32_t)(warp * read_number(row, 7, 0))};

    vec_push(&reader->into->devices, device);
}

/* A row that begins with GPU_COLUMNS. */
static void add_gpu(Reader *reader, Row row, ProfileKind kind, uint32_t name, uint32_t extra)
{
    const int64_t global = read_number(row, 5, 0);
    ProfileEvent event = {.kind = kind, .name = name, .extra = extra};

    if (!read_times(reader, row, &event.start, &event.duration))
        return;
    event.lane = profile_stream(reader->into, gpu_of(reader, global, read_number(row, 2, -1)), read_number(row, 3, -1));
    event.link = link_of(reader, global, read_number(row, 4, 0));
    profile_add(reader->into, &event);
}

static uint32_t grid_side(Row row, int column)
{
    const int64_t side = read_number(row, column, 0);

    return side > 0 && side <= UINT32_MAX ? (uint32_t)side : 0;
}

/* start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName, gridX, gridY, gridZ, blockX,
 * blockY, blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory, graphNodeId */
static void on_kernel(Reader *reader, Row row)
{
    const ProfileLaunch launch = {
        .grid = {grid_side(row, 8), grid_side(row, 9), grid_side(row, 10)},
        .block = {grid_side(row, 11), grid_side(row, 12), grid_side(row, 13)},
        .registers = grid_side(row, 14),
        .shared_bytes = grid_side(row, 15) + grid_side(row, 16),
        NSYS_LAUNCH_UNKNOWN,
        .in_graph = read_number(row, 17, 0) > 0,
    };
    const uint32_t full = read_text(reader, row, 6);

    add_gpu(reader, row, PROFILE_KERNEL,
            text_or(reader, full != PROFILE_NONE ? full : read_text(reader, row, 7), "kernel"),
            profile_launch(reader->into, &launch));
}

/* CUPTI's numbers of copies; the arrays are a kind of device memory. */
static const char *const copy_kinds[] = {
    [1] = "HtoD", [2] = "DtoH", [3] = "HtoD", [4] = "DtoH", [5] = "DtoD",
    [6] = "DtoD", [7] = "DtoD", [8] = "DtoD", [9] = "HtoH", [10] = "PtoP",
};

/* nsys's numbers of memory kinds (its table ENUM_CUDA_MEM_KIND). */
static const char *const memory_kinds[] = {"Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed"};

static const char *word_of(Row row, int column, const char *const *words, size_t count)
{
    const int64_t kind = read_number(row, column, -1);

    return kind >= 0 && kind < (int64_t)count && words[kind] ? words[kind] : "Unknown";
}

/* The name says what is copied in CUPTI's words. */
static void add_copy(Reader *reader, Row row, ProfileKind kind, const char *name)
{
    ProfileCopy copy = {.bytes = read_number(row, 6, -1), .reported_gbs = (double)NAN};

    profile_copy_words(name, strlen(name), &copy);
    add_gpu(reader, row, kind, profile_name(reader->into, name, strlen(name)), profile_copy(reader->into, &copy));
}

/* start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind */
static void on_copy(Reader *reader, Row row)
{
    char name[64];

    snprintf(name, sizeof(name), "Memcpy %s (%s -> %s)", word_of(row, 7, copy_kinds, ARRAY_LEN(copy_kinds)),
             word_of(row, 8, memory_kinds, ARRAY_LEN(memory_kinds)),
             word_of(row, 9, memory_kinds, ARRAY_LEN(memory_kinds)));
    add_copy(reader, row, PROFILE_COPY, name);
}

/* start, end, deviceId, streamId, correlationId, globalPid, bytes, memKind */
static void on_set(Reader *reader, Row row)
{
    char name[64];

    snprintf(name, sizeof(name), "Memset (%s)", word_of(row, 7, memory_kinds, ARRAY_LEN(memory_kinds)));
    add_copy(reader, row, PROFILE_SET, name);
}

/* start, end, deviceId, streamId, correlationId, globalPid: a graph that was recorded as one */
static void on_graph(Reader *reader, Row row)
{
    const ProfileLaunch launch = {NSYS_LAUNCH_UNKNOWN, .in_graph = true};

    add_gpu(reader, row, PROFILE_KERNEL, text_or(reader, PROFILE_NONE, "CUDA graph (recorded whole)"),
            profile_launch(reader->into, &launch));
}

/* start, end, globalTid, correlationId, nameId */
static void on_call(Reader *reader, Row row)
{
    const int64_t global = read_number(row, 2, 0);

    add_host(reader, row, PROFILE_CALL, global, text_or(reader, read_text(reader, row, 4), "CUDA call"),
             link_of(reader, global, read_number(row, 3, 0)));
}

/* start, end, globalTid, nameId */
static void on_os_call(Reader *reader, Row row)
{
    add_host(reader, row, PROFILE_OTHER, read_number(row, 2, 0), text_or(reader, read_text(reader, row, 3), "OS call"),
             0);
}

/* start, end, globalTid, eventType, text, textId; 59: push and pop, 60: start and end, of one thread or another */
static void on_range(Reader *reader, Row row)
{
    const int64_t type = read_number(row, 3, 59);

    if ((type != 59 && type != 60) || is_null(row, 1)) {
        reader->into->events++;
        reader->into->ignored++;
        return;
    }
    const uint32_t own = read_text(reader, row, 4);

    add_host(reader, row, PROFILE_ANNOTATION, read_number(row, 2, 0),
             text_or(reader, own != PROFILE_NONE ? own : read_text(reader, row, 5), "range"), 0);
}

/* start, end, deviceId, streamId, correlationId, globalPid, syncType */
static void on_sync(Reader *reader, Row row)
{
    static const char *const names[] = {"Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
    const int64_t type = read_number(row, 6, 0), stream = read_number(row, 3, -1), global = read_number(row, 5, 0);
    const char *name = names[type > 0 && type < (int64_t)ARRAY_LEN(names) ? type : 0];
    ProfileSync sync = {.name = profile_name(reader->into, name, strlen(name)),
                        .device = gpu_of(reader, global, read_number(row, 2, -1)),
                        .stream = stream >= 0 && stream < UINT32_MAX ? stream : -1,
                        .wait_stream = -1,
                        .link = link_of(reader, global, read_number(row, 4, 0))};

    if (read_times(reader, row, &sync.start, &sync.duration))
        vec_push(&reader->into->syncs, sync);
}

/* start, (none), globalPid, deviceId, address, bytes, memoryOperationType, memKind: 0 allocates, 1 releases */
static void on_memory(Reader *reader, Row row)
{
    const int64_t global = read_number(row, 2, 0), bytes = read_number(row, 5, 0);
    ProfileMemory memory = {.bytes = read_number(row, 6, 0) == 0 ? bytes : -bytes,
                            .allocated = -1,
                            .reserved = -1,
                            .address = (uint64_t)read_number(row, 4, 0),
                            .device_type = 1};
    int64_t none;

    if (read_number(row, 7, 2) != 2 && read_number(row, 7, 2) != 5) { /* not of the device */
        reader->into->events++;
        reader->into->ignored++;
        return;
    }
    if (!read_times(reader, row, &memory.start, &none))
        return;
    memory.device = (int16_t)gpu_of(reader, global, read_number(row, 3, 0));
    memory.lane = thread_lane(reader, global);
    vec_push(&reader->into->memory, memory);
    reader->into->with_memory = true;
}

/* nameId, globalTid */
static void on_thread_name(Reader *reader, Row row)
{
    const uint32_t lane = thread_lane(reader, read_number(row, 1, 0));

    reader->into->lanes.at[lane].label = read_text(reader, row, 0);
}

/* utcEpochNs */
static void on_session_start(Reader *reader, Row row)
{
    reader->into->base_ns = read_number(row, 0, 0);
}

/* name, value */
static void on_environment(Reader *reader, Row row)
{
    const char *name = (const char *)sqlite3_column_text(row, 0);

    if (name && strcasecmp(name, "Hostname") == 0)
        reader->into->host_name = read_text(reader, row, 1);
}

/* severity, text: 2 and above are warnings and errors */
static void on_diagnostic(Reader *reader, Row row)
{
    const char *value = (const char *)sqlite3_column_text(row, 1);

    if (value && read_number(row, 0, 0) >= 2)
        profile_lose(reader->into, PROFILE_LOSS_PROFILER, 0, value, strlen(value));
}

#define GPU_COLUMNS "start", "end", "deviceId", "streamId", "correlationId", "globalPid"

static const Table nsys_tables[] = {
    {"StringIds", {"id", "value"}, on_string},
    {"TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId", "pid"}, on_cuda_device},
    {"TARGET_INFO_GPU",
     {"id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor", "threadsPerWarp", "maxWarpsPerSm"},
     on_gpu},
    {"TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, on_session_start},
    {"TARGET_INFO_SYSTEM_ENV", {"name", "value"}, on_environment},
    {"ThreadNames", {"nameId", "globalTid"}, on_thread_name},
    {"CUPTI_ACTIVITY_KIND_KERNEL",
     {GPU_COLUMNS, "demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
      "registersPerThread", "staticSharedMemory", "dynamicSharedMemory", "graphNodeId"},
     on_kernel},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", {GPU_COLUMNS, "bytes", "copyKind", "srcKind", "dstKind"}, on_copy},
    {"CUPTI_ACTIVITY_KIND_MEMSET", {GPU_COLUMNS, "bytes", "memKind"}, on_set},
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {GPU_COLUMNS}, on_graph},
    {"CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "end", "globalTid", "correlationId", "nameId"}, on_call},
    {"CUPTI_ACTIVITY_KIND_DRIVER", {"start", "end", "globalTid", "correlationId", "nameId"}, on_call},
    {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {GPU_COLUMNS, "syncType"}, on_sync},
    {"NVTX_EVENTS", {"start", "end", "globalTid", "eventType", "text", "textId"}, on_range},
    {"OSRT_API", {"start", "end", "globalTid", "nameId"}, on_os_call},
    {"CUDA_GPU_MEMORY_USAGE_EVENTS",
     {"start", "none", "globalPid", "deviceId", "address", "bytes", "memoryOperationType", "memKind"},
     on_memory},
    {"DIAGNOSTIC_EVENT", {"severity", "text"}, on_diagnostic},
    {NULL, {NULL}, NULL},
};

/* ---- reading an export ---- */

/* The SQLite export. A table is a row of a const list: its columns by name, and what is done with a row of it.
 * Columns that are missing read as NULL. */

enum { SQL_MAX = 4096, CHECK_EVERY = 4096 };

bool nsys_is_sqlite(const char *bytes, size_t len)
{
    return len >= 16 && memcmp(bytes, "SQLite format 3", 16) == 0;
}

static int query_failed(Reader *reader, const char *what, Err *err)
{
    const int code = sqlite3_errcode(reader->db);

    if (code == SQLITE_NOMEM)
        return err_set(err, -ENOMEM, "%s: out of memory", what);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        return err_set(err, -EBADMSG, "%s: the file is damaged: %s", what, sqlite3_errmsg(reader->db));
    return err_set(err, -EIO, "%s: %s", what, sqlite3_errmsg(reader->db));
}

/* SQLITE_OK, SQLITE_ERROR where the table does not have the column, or where there is no table of this name (column
 * NULL), or another fault. */
static int find_column(const Reader *reader, const char *table, const char *column)
{
    return sqlite3_table_column_metadata(reader->db, NULL, table, column, NULL, NULL, NULL, NULL, NULL);
}

static void write_query(const Reader *reader, const Table *table, Str *sql)
{
    for (size_t i = 0; table->columns[i]; i++) {
        const bool there = find_column(reader, table->name, table->columns[i]) == SQLITE_OK;

        str_add(sql, i ? ", " : "SELECT ");
        str_addf(sql, there ? "\"%s\"" : "NULL AS %s", table->columns[i]);
    }
    str_addf(sql, " FROM %s", table->name);
}

static int read_rows(Reader *reader, const Table *table, sqlite3_stmt *query, Err *err)
{
    int rc;

    for (uint64_t rows = 1; (rc = sqlite3_step(query)) == SQLITE_ROW; rows++) {
        table->row(reader, query);
        if (rows % CHECK_EVERY)
            continue;
        if (reader->stop && *reader->stop)
            return err_set(err, -EINTR, "interrupted");
        if (reader->memory_max && profile_bytes(reader->into) > reader->memory_max)
            return err_set(err, -ENOSPC, "%s: over %zu bytes of memory", table->name, reader->memory_max);
    }
    return rc == SQLITE_DONE ? 0 : query_failed(reader, table->name, err);
}

/* Outcome 1: there is no such table. */
static int read_table(Reader *reader, const Table *table, Err *err)
{
    CLEANUP(str_done) Str sql = {0};
    sqlite3_stmt *query = NULL;
    const int found = find_column(reader, table->name, NULL);

    if (found == SQLITE_ERROR)
        return 1;
    if (found != SQLITE_OK)
        return query_failed(reader, table->name, err);
    str_init(&sql, SQL_MAX);
    write_query(reader, table, &sql);
    if (sqlite3_prepare_v2(reader->db, sql.text, -1, &query, NULL) != SQLITE_OK)
        return query_failed(reader, table->name, err);
    const int rc = read_rows(reader, table, query, err);

    sqlite3_finalize(query);
    return rc;
}

/* More than one process: correlations have to be told apart. */
static void count_processes(Reader *reader)
{
    sqlite3_stmt *query = NULL;

    if (sqlite3_prepare_v2(reader->db,
                           "SELECT COUNT(DISTINCT globalPid / 16777216 % 16777216) FROM CUPTI_ACTIVITY_KIND_KERNEL", -1,
                           &query, NULL) == SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW)
        reader->several = sqlite3_column_int64(query, 0) > 1;
    sqlite3_finalize(query);
}

/* Another profiler's database: its tables are named with a run's id behind. */
static bool is_rocpd(const Reader *reader)
{
    sqlite3_stmt *query = NULL;
    const bool found = sqlite3_prepare_v2(reader->db, "SELECT 1 FROM sqlite_master WHERE name GLOB 'rocpd_*'", -1,
                                          &query, NULL) == SQLITE_OK &&
                       sqlite3_step(query) == SQLITE_ROW;

    sqlite3_finalize(query);
    return found;
}

static int read_all(Reader *reader, const char *path, Err *err)
{
    size_t known = 0;

    if (sqlite3_open_v2(path, &reader->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        return query_failed(reader, "open", err);
    count_processes(reader);
    for (const Table *table = nsys_tables; table->name; table++) {
        const int rc = read_table(reader, table, err);

        TRY(rc);
        known += rc == 0 && (strncmp(table->name, "CUPTI_", 6) == 0 || strcmp(table->name, "NVTX_EVENTS") == 0);
    }
    if (!known && is_rocpd(reader))
        return err_set(
            err, -EBADMSG,
            "a database of rocprofv3 (rocpd), which is not read; record with: rocprofv3 --output-format json");
    return known ? 0
                 : err_set(err, -EBADMSG,
                           "a database, but no export of Nsight Systems: none of its tables of events is in "
                           "it; make one with: nsys export --type sqlite REPORT");
}

int nsys_read_sqlite(const char *path, size_t memory_max, const bool *stop, Profile *into, Err *err)
{
    Reader reader = {.into = into, .memory_max = memory_max, .stop = stop};

    map_u64_init(&reader.strings);
    map_u64_init(&reader.links);
    map_u64_init(&reader.gpus);
    into->framework = profile_name(into, "nsys", 4);
    const int rc = read_all(&reader, path, err);

    sqlite3_close(reader.db);
    map_done(&reader.strings);
    map_done(&reader.links);
    map_done(&reader.gpus);
    return rc;
}
