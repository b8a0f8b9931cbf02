/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker cost`: the ledger summed up by owner, from the journal. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/number.h"
#include "service/cost/cost.h"
#include "service/journal/journal.h"
#include "verb/past.h"

enum { OUT_MAX = 64 << 20 };

typedef struct CostOptions {
    PastOptions past;
    int by;
    const char *from, *to;
    bool json, csv, focus;
} CostOptions;

typedef struct MergeOptions {
    bool json, csv;
} MergeOptions;

static const char *const by_names[] = {"user", "job", "pod", "namespace", "account", "container", "gpu", NULL};

static const OptSpec cost_opts[] = {
    OPT_ROW("by", OPT_ENUM, CostOptions, by, .def = "user", .names = by_names, .help = "the key to sum up by"),
    OPT_ROW("from", OPT_STRING, CostOptions, from, .metavar = "TIME", .def = "30d",
            .help = "start of the time: 7d, 2026-01-31, or 2026-01-31T08:00:00Z"),
    OPT_ROW("to", OPT_STRING, CostOptions, to, .metavar = "TIME", .help = "end of the time; without: now"),
    OPT_ROW("json", OPT_BOOL, CostOptions, json, .help = "as JSON (docs/cost.schema.json)"),
    OPT_ROW("csv", OPT_BOOL, CostOptions, csv, .help = "as CSV"),
    OPT_ROW("focus", OPT_BOOL, CostOptions, focus,
            .help = "as CSV with the columns of FOCUS 1.2, by owner, device, price and month"),
    PAST_OPTS(CostOptions),
};

static const OptSpec merge_opts[] = {
    OPT_ROW("json", OPT_BOOL, MergeOptions, json, .help = "as JSON (docs/cost.schema.json)"),
    OPT_ROW("csv", OPT_BOOL, MergeOptions, csv, .help = "as CSV"),
};

static int read_time(VerbCall *call, const char *flag, const char *text, uint64_t *ret)
{
    const bool day = strlen(text) == strlen("2026-01-31") && text[4] == '-';
    const char *full = day ? arena_printf(call->arena, "%sT00:00:00Z", text) : text;

    if (past_since(full, clock_real(clock_kernel()), ret, &call->err) == 0)
        return 0;
    return err_set(&call->err, -EINVAL,
                   "--%s: '%.60s' is neither a duration (7d), a day (2026-01-31) nor an instant "
                   "(2026-01-31T08:00:00Z)",
                   flag, text);
}

static int read_query(VerbCall *call, const CostOptions *o, JournalLedgerQuery *ret)
{
    JournalLedgerQuery query = {.to_real_ns = UINT64_MAX, .merge = true};

    TRY(read_time(call, "from", o->from, &query.from_real_ns));
    if (o->to)
        TRY(read_time(call, "to", o->to, &query.to_real_ns));
    if (query.to_real_ns <= query.from_real_ns)
        return err_set(&call->err, -EINVAL, "--to: '%.60s' is not after --from '%.60s'", o->to, o->from);
    if (o->json + o->csv + o->focus > 1)
        return err_set(&call->err, -EINVAL, "--json, --csv and --focus are different outputs: give one of them");
    *ret = query;
    return 0;
}

static void add_row(void *self, const LedgerRow *row)
{
    cost_add(self, row);
}

static int read_ledger(const Past *past, const JournalLedgerQuery *query, JournalLedgerAdd add, void *self)
{
    VerbCall *call = past->call;
    const int rc = past->journal[0] ? journal_read_ledger(past->journal, query, add, self, &call->err) : -ENOENT;

    if (rc == -ENOENT && past->agent)
        return err_set(&call->err, rc, "the agent keeps no journal, and so no ledger (its option --journal)");
    return rc == -ENOENT ? past_fail_nothing(past) : rc;
}

static int print_report(const CostReport *report, bool json, bool csv, Err *err)
{
    const CostStyle style = {.width = verb_width()};
    CLEANUP(str_done) Str out = {0};

    str_init(&out, OUT_MAX);
    if (json)
        cost_json(report, &out);
    else if (csv)
        cost_csv(report, &out);
    else
        cost_text(report, &style, &out);
    if (out.overflow)
        return err_set(err, -EFBIG, "the report is larger than %d MiB: use --from and --to, or another --by",
                       OUT_MAX >> 20);
    fwrite(out.text, 1, out.len, stdout);
    return 0;
}

static int print_sum(const Past *past, const CostOptions *o, const JournalLedgerQuery *query, CostReport *report)
{
    TRY(read_ledger(past, query, add_row, report));
    cost_finish(report);
    TRY(print_report(report, o->json, o->csv, &past->call->err));
    if (report->mixed)
        fprintf(stderr, "%s: the prices of this time are in several currencies; costs are left out\n",
                past->call->path);
    return 0;
}

/* --- FOCUS -------------------------------------------------------------------------------------------------------- */

typedef struct FocusLines {
    CostPeriod period;
    Str out;
} FocusLines;

static void add_focus_row(void *self, const LedgerRow *row)
{
    FocusLines *lines = self;

    cost_focus_row(&lines->period, row, &lines->out);
    fwrite(lines->out.text, 1, lines->out.len, stdout); /* a year of jobs need not fit into memory */
    str_clear(&lines->out);
}

/* The calendar month around an instant. */
static void find_month(uint64_t real_ns, CostPeriod *ret)
{
    const time_t at = (time_t)(real_ns / NS_PER_S);
    struct tm tm;

    gmtime_r(&at, &tm);
    tm.tm_mday = 1;
    tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
    ret->from_real_ns = (uint64_t)timegm(&tm) * NS_PER_S;
    tm.tm_mon++;
    ret->until_real_ns = (uint64_t)timegm(&tm) * NS_PER_S;
}

/* From the first row to the last, and a currency of theirs. */
static void note_span(void *self, const LedgerRow *row)
{
    CostPeriod *span = self;
    PriceTag tag;

    span->from_real_ns = number_min_u64(span->from_real_ns, row->from_real_ns);
    span->until_real_ns = number_max_u64(span->until_real_ns, row->until_real_ns);
    if (price_tag_read(row->price, &tag) == 0)
        memcpy(span->currency, tag.currency, sizeof span->currency);
}

static int print_focus(const Past *past, const char *node, const JournalLedgerQuery *query)
{
    FocusLines lines = {0};
    CostPeriod span = {.from_real_ns = UINT64_MAX, .currency = "USD"};
    int rc = read_ledger(past, query, note_span, &span);

    if (rc < 0)
        return rc;
    snprintf(lines.period.node, sizeof lines.period.node, "%s", node);
    memcpy(lines.period.currency, span.currency, sizeof span.currency);
    str_init(&lines.out, OUT_MAX);
    cost_focus_head(&lines.out);
    fwrite(lines.out.text, 1, lines.out.len, stdout);
    str_clear(&lines.out);
    for (uint64_t from = span.from_real_ns; rc == 0 && from < span.until_real_ns; from = lines.period.until_real_ns) {
        JournalLedgerQuery month = *query;

        find_month(from, &lines.period);
        month.from_real_ns = from;
        month.to_real_ns = number_min_u64(lines.period.until_real_ns, query->to_real_ns);
        rc = read_ledger(past, &month, add_focus_row, &lines);
    }
    str_done(&lines.out);
    return rc;
}

/* --- several nodes ------------------------------------------------------------------------------------------------ */

static int merge_file(CostReport *report, const char *path, Err *err)
{
    CLEANUP(str_done) Str text = {0};

    str_init(&text, OUT_MAX);
    TRY(file_read(path, OUT_MAX, &text, err));
    return cost_merge(report, path, text.text, text.len, err);
}

static int merge_run(VerbCall *call, const void *options)
{
    const MergeOptions *o = options;
    CostReport report;
    int rc = 0;

    if (call->args.len == 0)
        return verb_failf(call, EXIT_USAGE, "which reports? it takes files that 'stoker cost --json' wrote");
    if (o->json && o->csv)
        return verb_failf(call, EXIT_USAGE, "--json and --csv are different outputs: give one of them");
    cost_init(&report, COST_BY_USER, "");
    for (size_t i = 0; i < call->args.len && rc == 0; i++)
        rc = merge_file(&report, call->args.items[i], &call->err);
    if (rc == 0) {
        snprintf(report.node, sizeof report.node, "%zu report%s", report.merged.len, report.merged.len == 1 ? "" : "s");
        cost_finish(&report);
        rc = print_report(&report, o->json, o->csv, &call->err);
        if (report.mixed)
            fprintf(stderr, "%s: the reports are in several currencies; costs are left out\n", call->path);
    }
    cost_done(&report);
    return rc == 0 ? EXIT_FINE : verb_fail(call, rc == -EDOM ? EXIT_FINDING : EXIT_UNKNOWN);
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static int cost_run(VerbCall *call, const void *options)
{
    const CostOptions *o = options;
    JournalLedgerQuery query;
    CostReport report;
    char node[COST_NODE_CAP] = "";
    Past past;

    if (read_query(call, o, &query) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (past_open(call, &o->past, &past) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    (void)gethostname(node, sizeof node - 1);
    cost_init(&report, (CostBy)o->by, node);
    const int rc = o->focus ? print_focus(&past, node, &query) : print_sum(&past, o, &query, &report);
    cost_done(&report);
    return rc < 0 ? verb_fail(call, EXIT_UNKNOWN) : EXIT_FINE;
}

static const Verb verb_merge = {
    .name = "merge",
    .summary = "add up the reports of several nodes",
    .usage = "[--json|--csv] FILE...",
    .description =
        "Reads the output of 'stoker cost --json' of several nodes and adds it up by owner. Refuses a report whose "
        "hours and money do not add up to its own totals (to a millionth), and reports that are not all summed up by "
        "the same key.",
    .examples = "stoker cost merge node*.json\n"
                "stoker cost merge --json node*.json > cluster.json",
    .exit_codes = "0  it is shown\n"
                  "1  a report does not add up\n"
                  "2  the command line is wrong\n"
                  "3  a file cannot be read or is not a report",
    VERB_OPTS(merge_opts, MergeOptions),
    .run = merge_run,
};

static const Verb *const subs[] = {&verb_merge, NULL};

const Verb verb_cost = {
    .name = "cost",
    .summary = "who used how much GPU time and energy, what it cost, and what was wasted",
    .usage = "[--by user|job|pod|namespace|account|container|gpu] [--from TIME] [--to TIME] [--json|--csv|--focus] | "
             "merge FILE...",
    .description =
        "Sums up the ledger, which the agent keeps in its journal. For each owner: the GPU hours that it held, how "
        "much of them the multiprocessors worked, energy and cost. Also the hours in which nobody held a GPU, in "
        "which a GPU was not usable, and those that are unknown because no agent ran. All of them add up to GPUs "
        "times time. Prices are in the agent's configuration (docs/cost.md). The running agent only names its "
        "journal; without an agent the journal is read at its default path.",
    .examples = "stoker cost\n"
                "stoker cost --by namespace --from 2026-01-01 --to 2026-02-01\n"
                "stoker cost --json | jq -r '.owners[] | [.owner, .gpu_hours, .cost] | @tsv'",
    .exit_codes = "0  it is shown\n"
                  "2  the command line is wrong\n"
                  "3  there is no journal, or it cannot be read",
    VERB_OPTS(cost_opts, CostOptions),
    .no_args = "; 'merge' takes files",
    .run = cost_run,
    .subs = subs,
};
