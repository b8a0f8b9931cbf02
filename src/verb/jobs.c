/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker jobs`: reports of jobs, pods and containers, from the running agent and its journal. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "service/jobs/job_report.h"
#include "service/journal/journal.h"
#include "verb/agent/control.h"
#include "verb/past.h"
#include "verb/trace/outfile.h"

enum { OUT_MAX = 256 << 20, LIST_MAX = 1000 };

typedef struct ListOptions {
    PastOptions past;
    const char *since, *user;
    bool json;
} ListOptions;

typedef struct ShowOptions {
    PastOptions past;
    bool json, line, comment;
    const char *html;
} ShowOptions;

static const OptSpec list_opts[] = {
    OPT_ROW("since", OPT_STRING, ListOptions, since, .metavar = "TIME", .def = "1d",
            .help = "jobs that were seen since then: 7d, or 2026-01-05T08:00:00Z"),
    OPT_ROW("user", OPT_STRING, ListOptions, user, .short_flag = 'u', .metavar = "USER",
            .help = "only jobs of this user"),
    OPT_ROW("json", OPT_BOOL, ListOptions, json, .help = "as JSON (docs/jobs.schema.json)"),
    PAST_OPTS(ListOptions),
};

static const OptSpec show_opts[] = {
    OPT_ROW("json", OPT_BOOL, ShowOptions, json, .help = "as JSON (docs/jobs.schema.json)"),
    OPT_ROW("line", OPT_BOOL, ShowOptions, line, .help = "as one line, for an epilog or a job's comment"),
    OPT_ROW("comment", OPT_BOOL, ShowOptions, comment,
            .help = "as the AdminComment (JS1:) that jobstats reads, of this node alone"),
    OPT_ROW("html", OPT_STRING, ShowOptions, html, .metavar = "FILE",
            .help = "write it to FILE as an HTML page (-: to standard output)"),
    PAST_OPTS(ShowOptions),
};

/* What is read, and where the first error came. */
typedef struct Collected {
    JobReports reports;
    size_t agents; /* the first so many are the agent's: newer than the journal's */
    VerbCall *call;
} Collected;

static bool has_report(const Collected *c, const char *id)
{
    for (size_t i = 0; i < c->agents; i++)
        if (strcmp(c->reports.at[i].id, id) == 0)
            return true;
    return false;
}

/* One of the journal that the agent did not give. One that cannot be read is left out. */
static void add_kept(void *self, const char *json, size_t len)
{
    Collected *c = self;
    const size_t before = c->reports.len;
    Err err;

    if (jobs_read(json, len, &c->reports, &err) < 0) {
        fprintf(stderr, "%s: a report in the journal cannot be read: %s\n", c->call->path, err.text);
    } else if (c->reports.len > before && has_report(c, c->reports.at[before].id)) {
        job_report_done(&c->reports.at[before]);
        c->reports.len--;
    }
}

/* What the agent answers; nothing where it does not know it, or is of an older version. */
static int ask_agent(const Past *past, const char *line, Collected *c)
{
    CLEANUP(str_done) Str out = {0};
    int code;

    str_init(&out, CONTROL_REPLY_MAX);
    TRY(past_ask(past, line, &out, &code));
    if (code == EXIT_FINE)
        TRY(jobs_read(out.text, out.len, &c->reports, &past->call->err));
    c->agents = c->reports.len;
    return 0;
}

/* Without an agent a report that was saved last says what was known then. */
static void say_no_agent(const Past *past)
{
    if (!past->agent)
        fprintf(stderr, "%s: no agent runs; this is what the journal '%s' knew last\n", past->call->path,
                past->journal);
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static bool is_wanted(const JobReport *r, const ListOptions *o, uint64_t since_real_ns)
{
    return (r->ending == JOB_RUNS || r->last_real_ns >= since_real_ns) &&
           (!o->user || strcmp(r->owner.user, o->user) == 0);
}

/* Those that run first, then the last that ended. */
static int compare_reports(const void *a, const void *b)
{
    const JobReport *one = *(const JobReport *const *)a, *other = *(const JobReport *const *)b;
    const bool runs = one->ending == JOB_RUNS, others = other->ending == JOB_RUNS;

    if (runs != others)
        return runs ? -1 : 1;
    if (one->last_real_ns != other->last_real_ns)
        return one->last_real_ns > other->last_real_ns ? -1 : 1;
    return strcmp(one->id, other->id);
}

static void print_list(const Collected *c, const ListOptions *o, uint64_t since_real_ns)
{
    const uint64_t now = clock_real(clock_kernel());
    const JobStyle style = {.width = verb_width(), .utf8 = verb_utf8(), .real_ns = now};
    VEC(const JobReport *) wanted = {0};
    CLEANUP(str_done) Str out = {0};

    for (size_t i = 0; i < c->reports.len; i++)
        if (is_wanted(&c->reports.at[i], o, since_real_ns))
            vec_push(&wanted, &c->reports.at[i]);
    vec_sort(&wanted, compare_reports);
    str_init(&out, OUT_MAX);
    if (o->json)
        jobs_json(wanted.at, wanted.len, wanted.len > 0 ? wanted.at[0]->node : "", now, &out);
    else
        jobs_text(wanted.at, wanted.len, &style, &out);
    fwrite(out.text, 1, out.len, stdout);
    vec_done(&wanted);
}

static int collect_list(const Past *past, uint64_t since_real_ns, Collected *c)
{
    int rc = 0;

    if (past->agent)
        TRY(ask_agent(past, "jobs", c));
    if (past->journal[0])
        rc = journal_read_jobs(past->journal, since_real_ns, LIST_MAX, add_kept, c, &past->call->err);
    else if (!past->agent)
        rc = -ENOENT;
    if (rc == -ENOENT && !past->agent)
        return past_fail_nothing(past);
    if (rc < 0 && past->agent) {
        fprintf(stderr, "%s: %s; older ones are not shown\n", past->call->path, past->call->err.text);
        rc = 0;
    }
    return rc;
}

static int jobs_run(VerbCall *call, const void *options)
{
    const ListOptions *o = options;
    Collected c = {.call = call};
    uint64_t since = 0;
    Past past;
    int code = EXIT_FINE;

    if (past_since(o->since, clock_real(clock_kernel()), &since, &call->err) < 0)
        return verb_failf(call, EXIT_USAGE, "--since: '%s' is neither a duration (1d) nor an instant", o->since);
    if (past_open(call, &o->past, &past) < 0 || collect_list(&past, since, &c) < 0)
        code = verb_fail(call, EXIT_UNKNOWN);
    else {
        say_no_agent(&past);
        print_list(&c, o, since);
    }
    job_reports_done(&c.reports);
    return code;
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

static int collect_one(const Past *past, const char *name, Collected *c)
{
    char line[CONTROL_LINE_MAX];
    int rc = 0;

    snprintf(line, sizeof line, "job %s", name);
    if (past->agent)
        TRY(ask_agent(past, line, c));
    if (c->reports.len > 0)
        return 0;
    if (!past->agent && !past->journal[0])
        return past_fail_nothing(past);
    if (past->journal[0])
        rc = journal_read_job(past->journal, name, add_kept, c, &past->call->err);
    if (rc == -ENOENT && !past->agent)
        return past_fail_nothing(past);
    if (rc < 0 && rc != -ENOENT)
        return rc;
    if (c->reports.len == 0)
        return err_set(&past->call->err, -ENOENT,
                       "no report of '%.100s': it held no GPU here while an agent ran, or the report is too old; "
                       "'stoker jobs' lists the reports",
                       name);
    return 0;
}

static int write_page(VerbCall *call, const char *path, const Str *page)
{
    CLEANUP(outfile_drop_at) OutFile *out = NULL;

    if (outfile_open(path, &out, &call->err) < 0 || outfile_write(out, page->text, page->len, &call->err) < 0 ||
        outfile_commit(TAKE(out), &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    return EXIT_FINE;
}

static int print_comment(VerbCall *call, const JobReport *const *reports, size_t count)
{
    CLEANUP(str_done) Str out = str_limited(OUT_MAX), gaps = str_limited(OUT_MAX);
    char *rest = NULL;

    if (job_comment(reports, count, &out, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    job_comment_gaps(reports, count, &gaps);
    for (const char *line = gaps.len > 0 ? strtok_r(gaps.text, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        fprintf(stderr, "%s: %s\n", call->path, line);
    puts(out.text);
    return EXIT_FINE;
}

static int print_report(VerbCall *call, const ShowOptions *o, const JobReport *report)
{
    const uint64_t now = clock_real(clock_kernel());
    CLEANUP(str_done) Str out = {0};

    str_init(&out, OUT_MAX);
    if (o->html) {
        job_html(report, now, &out);
        return write_page(call, o->html, &out);
    }
    if (o->comment)
        return print_comment(call, &report, 1);
    if (o->json)
        job_json(report, &out);
    else if (o->line)
        job_line(report, &out);
    else
        job_text(report, &(JobStyle){.width = verb_width(), .utf8 = verb_utf8(), .real_ns = now}, &out);
    if (o->json || o->line)
        str_addc(&out, '\n');
    fwrite(out.text, 1, out.len, stdout);
    return EXIT_FINE;
}

static int show_run(VerbCall *call, const void *options)
{
    const ShowOptions *o = options;
    Collected c = {.call = call};
    Past past;
    int code;

    if (call->args.len != 1 || strcspn(call->args.items[0], " \t\n") != strlen(call->args.items[0]))
        return verb_failf(call, EXIT_USAGE, "which one? it takes a job's number, a pod, a container or a report's id");
    if (o->json + o->line + o->comment + (o->html != NULL) > 1)
        return verb_failf(call, EXIT_USAGE,
                          "--json, --line, --comment and --html are different outputs: give one of them");
    if (past_open(call, &o->past, &past) < 0 || collect_one(&past, call->args.items[0], &c) < 0)
        code = verb_fail(call, EXIT_UNKNOWN);
    else {
        say_no_agent(&past);
        code = print_report(call, o, &c.reports.at[0]);
    }
    job_reports_done(&c.reports);
    return code;
}

static const Verb verb_show = {
    .name = "show",
    .summary = "the report of one job, pod or container",
    .usage = "[--json|--line|--comment|--html FILE] NAME",
    .description =
        "Shows what a job, pod or container did with the GPUs of this node: utilisation, memory, energy, verdicts by "
        "time, incidents on its GPUs, cost if a price is known, and advice. NAME is a job's number, a pod "
        "(NAMESPACE/POD or POD), a container's id (12 digits or more) or a report's id. If several reports match, "
        "the last one is shown. A job that still runs is shown as it is now, so an epilog need not wait.",
    .examples = "stoker jobs show 4711\n"
                "stoker jobs show 4711 --html report.html\n"
                "sacctmgr -i modify job where jobid=4711 set comment=\"$(stoker jobs show 4711 --line)\"",
    .exit_codes = "0  it is shown\n"
                  "2  the command line is wrong\n"
                  "3  there is no such report, or neither an agent nor a journal",
    VERB_OPTS(show_opts, ShowOptions),
    .run = show_run,
};

/* --- jobstats' comment of a job on several nodes ------------------------------------------------------------------ */

static int read_report_file(VerbCall *call, const char *path, JobReports *reports)
{
    CLEANUP(str_done) Str text = str_limited(CONTROL_REPLY_MAX);

    Err err = {0};

    if (file_read(path, CONTROL_REPLY_MAX, &text, &err) == 0 && jobs_read(text.text, text.len, reports, &err) == 0)
        return EXIT_FINE;
    return verb_failf(call, EXIT_UNKNOWN, "%s: %s", path, err.text);
}

/* All must be of one job, each of another node. */
static int check_reports(VerbCall *call, const JobReports *reports)
{
    for (size_t i = 0; i < reports->len; i++) {
        const JobReport *first = &reports->at[0], *one = &reports->at[i];

        if (one->kind != JOB_OF_MANAGER)
            return verb_failf(call, EXIT_UNKNOWN, "report '%s' is of no job of a workload manager", one->id);
        if (strcmp(first->owner.job, one->owner.job) != 0)
            return verb_failf(call, EXIT_UNKNOWN, "these are reports of jobs '%s' and '%s'", first->owner.job,
                              one->owner.job);
        for (size_t k = 0; k < i; k++)
            if (strcmp(reports->at[k].node, one->node) == 0)
                return verb_failf(call, EXIT_UNKNOWN, "two of the reports are of node '%s'", one->node);
    }
    return reports->len > 0 ? EXIT_FINE : verb_failf(call, EXIT_UNKNOWN, "no report is in these files");
}

static int comment_run(VerbCall *call, const void *options)
{
    JobReports reports = {0};
    VEC(const JobReport *) list = {0};
    int code = EXIT_FINE;

    (void)options;
    if (call->args.len == 0)
        return verb_failf(call, EXIT_USAGE, "which ones? it takes the report of each node as a file of JSON");
    for (size_t i = 0; code == EXIT_FINE && i < call->args.len; i++)
        code = read_report_file(call, call->args.items[i], &reports);
    if (code == EXIT_FINE)
        code = check_reports(call, &reports);
    for (size_t i = 0; code == EXIT_FINE && i < reports.len; i++)
        vec_push(&list, &reports.at[i]);
    if (code == EXIT_FINE)
        code = print_comment(call, list.at, list.len);
    vec_done(&list);
    job_reports_done(&reports);
    return code;
}

static const Verb verb_comment = {
    .name = "comment",
    .summary = "the AdminComment of a job on several nodes, as jobstats reads it",
    .usage = "FILE...",
    .description =
        "Reads the reports of one job from each of its nodes (the JSON of 'stoker jobs show JOB --json' or of "
        "/api/v1/jobs/JOB) and prints one comment (JS1: and compressed JSON) for sacctmgr: utilisation and memory of "
        "the GPUs; CPU time, processors and memory of the job's cgroup on each node. Unknown numbers are left out "
        "and named on stderr.",
    .examples = "stoker jobs comment node1.json node2.json",
    .exit_codes = "0  it is printed\n"
                  "2  the command line is wrong\n"
                  "3  a file cannot be read, or they are not of one job",
    .run = comment_run,
};

static const Verb *const subs[] = {&verb_show, &verb_comment, NULL};

const Verb verb_jobs = {
    .name = "jobs",
    .summary = "show what each job, pod and container does or did with the GPUs",
    .usage = "[--since TIME] [--user USER] [--json] | show NAME | comment FILE...",
    .description =
        "Lists the agent's reports of jobs, pods and containers that held GPUs: first those that still run, then "
        "those that ended last. WORK is the share of the multiprocessors' time that they used while they held the "
        "GPUs. Asks the running agent and reads its journal; without an agent it reads only the journal.",
    .examples = "stoker jobs\n"
                "stoker jobs --since 7d --user alice\n"
                "stoker jobs --json | jq -r '.jobs[] | [.job, .user, .gpu_hours, .sm_active] | @tsv'",
    .exit_codes = "0  it is shown\n"
                  "2  the command line is wrong\n"
                  "3  neither an agent nor a journal answers",
    VERB_OPTS(list_opts, ListOptions),
    .no_args = "; 'show NAME' takes one, 'comment FILE...' takes files",
    .run = jobs_run,
    .subs = subs,
};
