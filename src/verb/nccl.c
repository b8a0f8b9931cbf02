/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker nccl`: reads logs, topologies, benchmarks and flight recorder dumps of a job and prints findings. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/gzip.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "service/report/nccl.h"
#include "verb/trace/progress.h"
#include "verb/verb.h"

enum {
    CHUNK = 256 * 1024,
    MAGIC = 2,
};

/* A file, "-" for stdin, whose first bytes were read to detect gzip. */
typedef struct Source {
    int fd;
    char front[MAGIC];
    size_t len, at; /* of front */
    Progress *progress;
} Source;

static ssize_t source_read(void *context, void *buffer, size_t len, Err *err)
{
    Source *source = context;
    ssize_t got;

    if (source->at < source->len) {
        size_t n = source->len - source->at < len ? source->len - source->at : len;
        memcpy(buffer, source->front + source->at, n);
        source->at += n;
        return (ssize_t)n;
    }
    do
        got = read(source->fd, buffer, len);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_errno(err, "read");
    source->progress->bytes += (uint64_t)got;
    progress_draw(source->progress);
    return got;
}

/* Reads an input to its end. What fails behind its first bytes is trouble of the input, not an error. */
static int read_file(NcclJob *job, const char *path, Progress *progress, Err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    CLEANUP_FD int fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP_FREE char *chunk = xmalloc(CHUNK);
    CLEANUP(inflate_free_at) Inflate *inflate = NULL;
    Source source = {.fd = fd, .progress = progress};
    Err trouble = {0};
    size_t len = 0;
    ssize_t got = 1;

    if (fd < 0)
        return err_errno(err, "open '%s'", path);
    for (; len < MAGIC && got > 0; len += (size_t)got)
        if ((got = source_read(&source, source.front + len, MAGIC - len, err)) < 0)
            return err_add(err, "'%s'", path);
    source.len = len;
    if (inflate_is_gzip(source.front, source.len))
        inflate = inflate_new(source_read, &source);
    nccl_begin(job, is_stdin ? "stdin" : path);
    while ((got = inflate ? inflate_read(inflate, chunk, CHUNK, &trouble)
                          : source_read(&source, chunk, CHUNK, &trouble)) > 0)
        nccl_feed(job, chunk, (size_t)got);
    nccl_end(job, got < 0 ? trouble.text : NULL);
    return 0;
}

/* What the arguments name: files, folders opened up, "-". */
typedef VEC(const char *) Paths;

static void paths_done(Paths *paths)
{
    vec_done(paths);
}

static int is_shown_name(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* The files in a folder by name, not those in folders below. */
static int add_folder(Paths *paths, const char *folder, uint64_t *total, Arena *arena, Err *err)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_shown_name, versionsort);
    struct stat st;

    if (count < 0)
        return err_errno(err, "open '%s'", folder);
    for (int i = 0; i < count; i++) {
        const char *path = arena_printf(arena, "%s/%s", folder, entries[i]->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
            vec_push(paths, path);
            *total += (uint64_t)st.st_size;
        }
        free(entries[i]);
    }
    free(entries);
    return 0;
}

/* *total: bytes of the files whose size is known. */
static int list_paths(VerbCall *call, Paths *paths, uint64_t *total)
{
    struct stat st;

    *total = 0;
    for (size_t i = 0; i < call->args.len; i++) {
        const char *path = call->args.items[i];
        bool known = strcmp(path, "-") != 0 && stat(path, &st) == 0;
        if (known && S_ISDIR(st.st_mode)) {
            TRY(add_folder(paths, path, total, call->arena, &call->err));
            continue;
        }
        vec_push(paths, path);
        *total += known && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    }
    return 0;
}

typedef struct NcclOptions {
    bool json, csv, verbose;
    int colour;
    uint64_t width;
} NcclOptions;

static const OptSpec nccl_opts[] = {
    OPT_ROW("json", OPT_BOOL, NcclOptions, json, .help = "everything that was found out, as JSON"),
    OPT_ROW("csv", OPT_BOOL, NcclOptions, csv, .help = "the tables of nccl-tests as CSV"),
    OPT_ROW("verbose", OPT_BOOL, NcclOptions, verbose, .short_flag = 'v',
            .help = "all communicators, rings, settings and topologies"),
    OPT_ROW("width", OPT_UINT, NcclOptions, width, .max = 1000, .metavar = "COLUMNS",
            .help = "width of the text; 0: the terminal's"),
    OPT_ROW("colour", OPT_ENUM, NcclOptions, colour, .def = "auto", .names = verb_colour_names,
            .help = "colours in the text"),
};

CLEANUP_POINTER(NcclJob, nccl_free);

static int write_stdout(void *context, const char *text, size_t len, Err *err)
{
    (void)context;
    (void)err;
    fwrite(text, 1, len, stdout); /* verb_end tells what failed */
    return 0;
}

static int write_report(const NcclOptions *o, const NcclReport *report, Err *err)
{
    const ReportSink sink = {.write = write_stdout};
    const ReportOptions options = {.width = o->width ? (unsigned)o->width : (unsigned)verb_width(),
                                   .verbose = o->verbose,
                                   .colour = verb_coloured(o->colour, true),
                                   .utf8 = verb_utf8()};

    if (o->json)
        return nccl_report_json(report, sink, err);
    return o->csv ? nccl_report_csv(report, sink, err) : nccl_report_text(report, &options, sink, err);
}

static int read_all(VerbCall *call, NcclJob *job)
{
    CLEANUP(paths_done) Paths paths = {0};
    Progress progress;
    uint64_t total;
    int rc = 0;

    TRY(list_paths(call, &paths, &total));
    progress_begin(&progress, isatty(STDERR_FILENO), total);
    for (size_t i = 0; i < paths.len && rc == 0; i++)
        rc = read_file(job, paths.at[i], &progress, &call->err);
    progress_end(&progress);
    return rc;
}

static int nccl_run(VerbCall *call, const void *options)
{
    const NcclOptions *o = options;
    CLEANUP(nccl_free_at) NcclJob *job = NULL;

    if (call->args.len == 0)
        return verb_failf(call, EXIT_USAGE, "needs at least one file, folder or '-'");
    if (o->json && o->csv)
        return verb_failf(call, EXIT_USAGE, "--json and --csv exclude each other");
    job = nccl_new();
    if (read_all(call, job) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    const NcclReport *report = nccl_finish(job);
    if (write_report(o, report, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    return verb_end(call, nccl_exit_code(report));
}

const Verb verb_nccl = {
    .name = "nccl",
    .summary = "what is wrong with a job's communication: logs, topology, nccl-tests, flight recorder",
    .usage = "[--json | --csv] FILE...",
    .description =
        "Reads any mix of NCCL and RCCL logs (NCCL_DEBUG=INFO), topology and graph XML (NCCL_TOPO_DUMP_FILE, "
        "NCCL_GRAPH_DUMP_FILE), output of nccl-tests (text or -J), and dumps of PyTorch's flight recorder (JSON or "
        "pickle, which is never executed). What a file is, its content says; gzip is unpacked; a folder stands for the "
        "files in it, - for stdin.\n\n"
        "Says what is wrong, where that stands, and what to set; then which way data takes between ranks, rings and "
        "trees, "
        "settings, the topology as a tree, and bandwidths.",
    .examples = "stoker nccl rank*.log\n"
                "stoker nccl job.log topo.xml             # and check one against the other\n"
                "stoker nccl /tmp/nccl_trace_rank_*       # who is behind in a deadlock\n"
                "stoker nccl --csv 8gpus.txt 16gpus.txt   # tables of nccl-tests\n"
                "kubectl logs job/train | stoker nccl - --json | jq '.findings[].id'",
    .exit_codes = "0  no problem found\n"
                  "1  a problem was found\n"
                  "2  the command line is wrong\n"
                  "3  could not tell: a file cannot be read, or there is no NCCL data in it",
    VERB_OPTS(nccl_opts, NcclOptions),
    .run = nccl_run,
};
