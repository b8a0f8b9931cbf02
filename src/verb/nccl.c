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
#include "base/inflate.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "service/report/nccl.h"
#include "verb/trace/progress.h"
#include "verb/verb.h"

enum { CHUNK = 256 * 1024, MAGIC = 2, PATH_CAP = 4096 };

/* A file whose first bytes were read to detect gzip. */
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

static int source_begin(Source *source, Err *err)
{
    while (source->len < MAGIC) {
        ssize_t got = read(source->fd, source->front + source->len, MAGIC - source->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_errno(err, "read");
        if (got == 0)
            return 0;
        source->len += (size_t)got;
    }
    return 0;
}

/* An error after the first bytes ends the input and is a finding. */
static int read_fd(NcclJob *job, int fd, const char *name, Progress *progress, Err *err)
{
    CLEANUP_FREE char *chunk = xmalloc(CHUNK);
    CLEANUP(inflate_free_at) Inflate *inflate = NULL;
    Source source = {.fd = fd, .progress = progress};
    Err trouble = {0};
    ssize_t got;

    TRY(source_begin(&source, err));
    if (inflate_is_gzip(source.front, source.len))
        inflate = inflate_new(source_read, &source);
    nccl_begin(job, name);
    while ((got = inflate ? inflate_read(inflate, chunk, CHUNK, &trouble)
                          : source_read(&source, chunk, CHUNK, &trouble)) > 0)
        nccl_feed(job, chunk, (size_t)got);
    nccl_end(job, got < 0 ? trouble.text : NULL);
    return 0;
}

static int read_file(NcclJob *job, const char *path, Progress *progress, Err *err)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(err, "open '%s'", path);
    if (read_fd(job, fd, path, progress, err) < 0)
        return err_add(err, "'%s'", path);
    return 0;
}

typedef VEC(char *) Names;

static void names_done(Names *names)
{
    for (size_t i = 0; i < names->len; i++)
        free(names->at[i]);
    vec_done(names);
}

static int compare_names(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

static int read_folder(NcclJob *job, const char *path, Progress *progress, Err *err)
{
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    CLEANUP(names_done) Names names = {0};
    const struct dirent *entry;
    struct stat st;

    if (!dir)
        return err_errno(err, "open '%s'", path);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.' && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            vec_push(&names, xstrdup(entry->d_name));
    if (names.len)
        qsort(names.at, names.len, sizeof *names.at, compare_names);
    for (size_t i = 0; i < names.len; i++) {
        char file[PATH_CAP];
        int len = snprintf(file, sizeof file, "%s/%s", path, names.at[i]);
        if (len >= PATH_CAP)
            return err_set(err, -ENAMETOOLONG, "'%s/%s': the path is too long", path, names.at[i]);
        TRY(read_file(job, file, progress, err));
    }
    return 0;
}

/* Reads `path` ("-": stdin; a folder: the files in it, by name, not those in folders below) to its end. A file that is
 * damaged on the way is an input with trouble, not an error; one that cannot be opened is one: -errno. */
static int read_path(NcclJob *job, const char *path, Progress *progress, Err *err)
{
    struct stat st;

    if (strcmp(path, "-") == 0)
        return read_fd(job, STDIN_FILENO, "stdin", progress, err);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return read_folder(job, path, progress, err);
    return read_file(job, path, progress, err);
}

/* Bytes of a file or of the files of a folder, 0 where that is not known (stdin). */
static uint64_t count_bytes(const char *path)
{
    struct stat st;
    uint64_t sum = 0;

    if (stat(path, &st) < 0)
        return 0;
    if (!S_ISDIR(st.st_mode))
        return S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    return sum;
}

enum { OUTPUT_MAX = 1 << 30 };

typedef struct NcclOptions {
    bool json, csv, verbose;
    int colour;
    uint64_t width;
} NcclOptions;

static const OptSpec nccl_opts[] = {
    {.key = "json",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(NcclOptions, json),
     .help = "everything that was found out, as JSON"},
    {.key = "csv",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(NcclOptions, csv),
     .help = "the tables of nccl-tests as CSV"},
    {.key = "verbose",
     .short_flag = 'v',
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(NcclOptions, verbose),
     .help = "all communicators, rings, settings and topologies"},
    {.key = "width",
     .flags = OPT_CLI_ONLY,
     .type = OPT_UINT,
     .off = offsetof(NcclOptions, width),
     .max = 1000,
     .metavar = "COLUMNS",
     .help = "width of the text; 0: the terminal's"},
    {.key = "colour",
     .flags = OPT_CLI_ONLY,
     .type = OPT_ENUM,
     .off = offsetof(NcclOptions, colour),
     .def = "auto",
     .names = verb_colour_names,
     .help = "colours in the text"},
};

CLEANUP_POINTER(NcclJob, nccl_free);

static void write_report(const NcclOptions *o, const NcclReport *report, Str *out)
{
    NcclStyle style = {.width = o->width ? (size_t)o->width : verb_width(), .verbose = o->verbose};

    if (o->json)
        nccl_report_json(report, out);
    else if (o->csv)
        nccl_report_csv(report, out);
    else {
        style.colour = verb_coloured(o->colour, true);
        style.utf8 = verb_utf8();
        nccl_report_text(report, &style, out);
    }
}

static int read_all(VerbCall *call, NcclJob *job)
{
    Progress progress;
    uint64_t total = 0;
    int rc = 0;

    for (size_t i = 0; i < call->args.len; i++)
        total += count_bytes(call->args.items[i]);
    progress_begin(&progress, isatty(STDERR_FILENO), total);
    for (size_t i = 0; i < call->args.len && rc == 0; i++)
        rc = read_path(job, call->args.items[i], &progress, &call->err);
    progress_end(&progress);
    return rc;
}

static int nccl_run(VerbCall *call, const void *options)
{
    const NcclOptions *o = options;
    CLEANUP(nccl_free_at) NcclJob *job = NULL;
    CLEANUP(str_done) Str out = {0};

    if (call->args.len == 0)
        return verb_failf(call, EXIT_USAGE, "needs at least one file, folder or '-'");
    if (o->json && o->csv)
        return verb_failf(call, EXIT_USAGE, "--json and --csv exclude each other");
    job = nccl_new();
    if (read_all(call, job) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    const NcclReport *report = nccl_finish(job);
    str_init(&out, OUTPUT_MAX);
    write_report(o, report, &out);
    if (str_check(&out, "the report", &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    fwrite(out.text, 1, out.len, stdout);
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
    .opts = nccl_opts,
    .opt_count = ARRAY_LEN(nccl_opts),
    .opt_size = sizeof(NcclOptions),
    .run = nccl_run,
};
