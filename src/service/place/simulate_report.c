/* SPDX-License-Identifier: Apache-2.0 */
#include "service/place/simulate_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/json.h"

enum { LABEL_WIDTH = 26, COLUMN_WIDTH = 16, TEXT_MAX = 1 << 20 };

/* --- the rows of the comparison --------------------------------------------------------------------------------- */

typedef enum RowUnit { PER_CENT, SECONDS, PLAIN, KILOWATTS, HOURS } RowUnit;

typedef struct Row {
    const char *key, *label;
    RowUnit unit;
    double (*read)(const SimulateRun *run);
} Row;

static double read_allocated(const SimulateRun *run)
{
    return run->result->mean[SERIES_ALLOCATED];
}

static double read_fragmented(const SimulateRun *run)
{
    return run->result->mean[SERIES_FRAGMENTED];
}

static double read_wait_mean(const SimulateRun *run)
{
    return run->result->classes[SIMULATE_ALL].wait_mean_s;
}

static double read_wait_p50(const SimulateRun *run)
{
    return run->result->classes[SIMULATE_ALL].wait_p50_s;
}

static double read_wait_p95(const SimulateRun *run)
{
    return run->result->classes[SIMULATE_ALL].wait_p95_s;
}

static double read_wait_large(const SimulateRun *run)
{
    return run->result->classes[SIMULATE_MANY].wait_p95_s;
}

static double read_never(const SimulateRun *run)
{
    return (double)run->result->classes[SIMULATE_ALL].never;
}

static double read_unended(const SimulateRun *run)
{
    const SimulateJobs *all = &run->result->classes[SIMULATE_ALL];

    return (double)(all->jobs - all->ended - all->never);
}

static double read_late(const SimulateRun *run)
{
    return (double)run->result->classes[SIMULATE_ALL].late;
}

static double read_gpu_hours(const SimulateRun *run)
{
    return run->result->classes[SIMULATE_ALL].gpu_hours;
}

static double read_lost(const SimulateRun *run)
{
    return run->result->classes[SIMULATE_ALL].lost_gpu_hours;
}

static double read_stops(const SimulateRun *run)
{
    return (double)run->result->classes[SIMULATE_ALL].stops;
}

static double read_failures(const SimulateRun *run)
{
    return (double)run->result->node_failures;
}

/* Of the jobs of several pods, those that are on one node or within one domain of a tier. */
static double read_near(const SimulateRun *run)
{
    uint64_t near = 0;

    for (size_t i = 0; i <= CLUSTER_RACK + 1; i++)
        near += run->result->gang_tiers[i];
    return run->result->gangs ? 100 * (double)near / (double)run->result->gangs : (double)NAN;
}

static double read_power(const SimulateRun *run)
{
    return run->result->mean[SERIES_POWER];
}

static double read_span(const SimulateRun *run)
{
    return (double)(run->result->end_s - run->result->begin_s);
}

static double read_price(const SimulateRun *run)
{
    return run->result->price > 0 ? run->result->price : (double)NAN;
}

static double read_price_of_work(const SimulateRun *run)
{
    const SimulateJobs *all = &run->result->classes[SIMULATE_ALL];

    return run->result->price > 0 && all->gpu_hours > all->lost_gpu_hours
               ? run->result->price / (all->gpu_hours - all->lost_gpu_hours)
               : (double)NAN;
}

static const Row rows[] = {
    {"allocated_percent", "GPUs allocated", PER_CENT, read_allocated},
    {"fragmented_percent", "free, but of no use", PER_CENT, read_fragmented},
    {"wait_mean_s", "wait, mean", SECONDS, read_wait_mean},
    {"wait_p50_s", "wait, median", SECONDS, read_wait_p50},
    {"wait_p95_s", "wait, 95 %", SECONDS, read_wait_p95},
    {"wait_p95_large_s", "wait, 95 %, 8 GPUs or more", SECONDS, read_wait_large},
    {"never_started", "jobs that never started", PLAIN, read_never},
    {"never_ended", "jobs that never ended", PLAIN, read_unended},
    {"late", "deadlines missed", PLAIN, read_late},
    {"gpu_hours", "GPU hours held", HOURS, read_gpu_hours},
    {"lost_gpu_hours", "GPU hours lost", HOURS, read_lost},
    {"stops", "jobs stopped", PLAIN, read_stops},
    {"node_failures", "nodes lost", PLAIN, read_failures},
    {"near_percent", "gangs within a rack", PER_CENT, read_near},
    {"power_w", "power, mean", KILOWATTS, read_power},
    {"span_s", "until the last job ended", SECONDS, read_span},
    {"price", "price of the nodes", HOURS, read_price},
    {"price_of_gpu_hour", "price of a useful GPU hour", PLAIN, read_price_of_work},
};

static void format_cell(RowUnit unit, double value, char out[HUMAN_MAX])
{
    if (isnan(value))
        snprintf(out, HUMAN_MAX, "-");
    else if (unit == PER_CENT)
        snprintf(out, HUMAN_MAX, "%.1f %%", value);
    else if (unit == SECONDS)
        human_age(out, (uint64_t)(value * NS_PER_S));
    else if (unit == KILOWATTS)
        snprintf(out, HUMAN_MAX, "%.1f kW", value / 1000);
    else if (unit == HOURS)
        human_count(out, (int64_t)llround(value));
    else
        snprintf(out, HUMAN_MAX, value == floor(value) ? "%.0f" : "%.2f", value);
}

/* --- text ------------------------------------------------------------------------------------------------------- */

static void add_line(const char *name, const SimulateJobs *jobs, Str *out)
{
    char p50[HUMAN_MAX], p95[HUMAN_MAX], most[HUMAN_MAX], hours[HUMAN_MAX], lost[HUMAN_MAX];

    if (jobs->jobs > 0)
        str_addf(out, "  %-20.20s %8" PRIu64 " %12s %8s %8s %10s %8s %8" PRIu64 "\n", name, jobs->jobs,
                 human_age(p50, (uint64_t)(jobs->wait_p50_s * NS_PER_S)),
                 human_age(p95, (uint64_t)(jobs->wait_p95_s * NS_PER_S)),
                 human_age(most, (uint64_t)(jobs->wait_max_s * NS_PER_S)), human_count(hours, llround(jobs->gpu_hours)),
                 human_count(lost, llround(jobs->lost_gpu_hours)), jobs->stops);
}

static void add_classes(const SimulateRun *run, Str *out)
{
    str_addf(out, "\n%-22.22s     jobs  wait median     95 %%  longest  GPU hours     lost  stopped\n", run->label);
    for (SimulateClass class = 0; class < SIMULATE_CLASS_END; class ++)
        add_line(simulate_classes[class].key, &run->result->classes[class], out);
    for (size_t i = 0; i < run->cluster->queue_count; i++)
        add_line(run->cluster->queues[i].name, &run->result->queues[i], out);
}

static void add_head(const SimulateRun *run, Str *out)
{
    char jobs[HUMAN_MAX], gpus[HUMAN_MAX], span[HUMAN_MAX];
    uint64_t sum = 0;

    for (size_t i = 0; i < run->cluster->node_count; i++)
        sum += run->cluster->nodes[i].gpu_count;
    str_addf(out, "%s jobs on %zu nodes with %s GPUs; they come over %s\n\n",
             human_count(jobs, (int64_t)run->cluster->job_count), run->cluster->node_count,
             human_count(gpus, (int64_t)sum),
             human_age(span, (run->result->arrivals_end_s - run->result->begin_s) * NS_PER_S));
}

void simulate_text(const SimulateRun *runs, size_t count, Str *out)
{
    char cell[HUMAN_MAX];

    add_head(&runs[0], out);
    str_addf(out, "%-*s", LABEL_WIDTH, "");
    for (size_t i = 0; i < count; i++)
        str_addf(out, " %*s", COLUMN_WIDTH, runs[i].label);
    str_addc(out, '\n');
    for (const Row *row = rows; row < rows + ARRAY_LEN(rows); row++) {
        str_addf(out, "%-*s", LABEL_WIDTH, row->label);
        for (size_t i = 0; i < count; i++) {
            format_cell(row->unit, row->read(&runs[i]), cell);
            str_addf(out, " %*s", COLUMN_WIDTH, cell);
        }
        str_addc(out, '\n');
    }
    for (size_t i = 0; i < count; i++)
        add_classes(&runs[i], out);
}

/* --- JSON ------------------------------------------------------------------------------------------------------- */

static void add_jobs(const char *name, const SimulateJobs *jobs, Str *out)
{
    json_open(out, name, '{');
    json_add_u64(out, "jobs", jobs->jobs);
    json_add_u64(out, "ended", jobs->ended);
    json_add_u64(out, "never_started", jobs->never);
    json_add_double(out, "wait_mean_s", jobs->wait_mean_s);
    json_add_double(out, "wait_p50_s", jobs->wait_p50_s);
    json_add_double(out, "wait_p95_s", jobs->wait_p95_s);
    json_add_double(out, "wait_max_s", jobs->wait_max_s);
    json_add_double(out, "gpu_hours", jobs->gpu_hours);
    json_add_double(out, "lost_gpu_hours", jobs->lost_gpu_hours);
    json_add_u64(out, "stops", jobs->stops);
    json_add_u64(out, "late", jobs->late);
    json_close(out, '}');
}

static void add_curves(const Simulation *result, Str *out)
{
    json_open(out, "curves", '{');
    json_add_u64(out, "step_s", result->stretch_s);
    for (SimulateSeries series = 0; series < SERIES_END; series++) {
        json_open(out, simulate_series[series].key, '[');
        for (size_t i = 0; i < result->point_count; i++)
            json_add_double(out, NULL, result->points[i][series]);
        json_close(out, ']');
    }
    json_close(out, '}');
}

static void add_run(const SimulateRun *run, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "label", run->label);
    for (const Row *row = rows; row < rows + ARRAY_LEN(rows); row++)
        json_add_double(out, row->key, row->read(run));
    json_add_double(out, "energy_kwh", run->result->energy_kwh);
    json_open(out, "classes", '{');
    for (SimulateClass class = 0; class < SIMULATE_CLASS_END; class ++)
        add_jobs(simulate_classes[class].key, &run->result->classes[class], out);
    json_close(out, '}');
    json_open(out, "queues", '{');
    for (size_t i = 0; i < run->cluster->queue_count; i++)
        add_jobs(run->cluster->queues[i].name, &run->result->queues[i], out);
    json_close(out, '}');
    add_curves(run->result, out);
    json_close(out, '}');
}

void simulate_json(const SimulateRun *runs, size_t count, Str *out)
{
    json_open(out, NULL, '{');
    json_open(out, "runs", '[');
    for (size_t i = 0; i < count; i++)
        add_run(&runs[i], out);
    json_close(out, ']');
    json_close(out, '}');
    str_addc(out, '\n');
}

/* --- a page ----------------------------------------------------------------------------------------------------- */

enum { CHART_WIDTH = 900, CHART_HEIGHT = 180 };

static const struct {
    SimulateSeries series;
    const char *title, *unit;
    double scale;
} charts[] = {
    {SERIES_ALLOCATED, "GPUs allocated", "%", 1},
    {SERIES_FRAGMENTED, "Free GPUs that no typical job can use", "% of all GPUs", 1},
    {SERIES_WAITING_GPUS, "GPUs that waiting jobs need", "GPUs", 1},
    {SERIES_POWER, "Power", "kW", 1e-3},
    {SERIES_NODES_DOWN, "Nodes lost", "nodes", 1},
};

static const char page_head[] = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
                                "content=\"width=device-width\"><title>";
static const char page_style[] =
    "</title><style>:root{--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#996800;--c5:#56b4e9}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222;"
    "background:#fff}pre{font:13px/1.45 ui-monospace,monospace;overflow-x:auto;background:#f6f6f4;padding:1rem;"
    "border-radius:6px}svg{width:100%;height:auto;display:block;overflow:visible}polyline{fill:none;stroke-width:1.8}"
    "line{stroke:#ccc}text{font:12px system-ui,sans-serif;fill:#666}h2{font-size:1.05rem;margin:1.6rem 0 .3rem}"
    ".k{margin-right:1.2rem;white-space:nowrap}.k::before{content:\"\";display:inline-block;width:1.2em;height:.25em;"
    "margin-right:.4em;vertical-align:middle;background:var(--k)}"
    "@media(prefers-color-scheme:dark){:root{--c0:#56b4e9;--c1:#e69f00;--c2:#2fc79a;--c3:#e6a3c8;--c4:#d8b04a;"
    "--c5:#9ad0f5}body{color:#ddd;background:#161616}pre{background:#222}line{stroke:#444}text{fill:#aaa}}"
    "@media(max-width:600px){text{font-size:26px}}</style>";

enum { COLOURS = 6 };

static double find_most(const SimulateRun *runs, size_t count, SimulateSeries series)
{
    double most = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < runs[i].result->point_count; k++)
            most = fmax(most, runs[i].result->points[k][series]);
    return most;
}

static uint64_t find_end(const SimulateRun *runs, size_t count)
{
    uint64_t end_s = 1;

    for (size_t i = 0; i < count; i++)
        if (runs[i].result->end_s - runs[i].result->begin_s > end_s)
            end_s = runs[i].result->end_s - runs[i].result->begin_s;
    return end_s;
}

static void add_curve(const Simulation *result, size_t colour, SimulateSeries series, double most, double end_s,
                      Str *out)
{
    str_addf(out, "<polyline stroke=\"var(--c%zu)\" points=\"", colour % COLOURS);
    for (size_t i = 0; i < result->point_count; i++)
        str_addf(out, "%.1f,%.1f ", CHART_WIDTH * ((double)i + 0.5) * (double)result->stretch_s / end_s,
                 CHART_HEIGHT * (1 - result->points[i][series] / most));
    str_add(out, "\"/>");
}

/* Until there new jobs come. */
static void add_arrivals_end(const Simulation *result, double end_s, Str *out)
{
    const double x = CHART_WIDTH * (double)(result->arrivals_end_s - result->begin_s) / end_s;

    str_addf(out,
             "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%d\" stroke-dasharray=\"4 4\"/>"
             "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">last job comes</text>",
             x, x, CHART_HEIGHT, x, CHART_HEIGHT + 24);
}

static void add_chart(const SimulateRun *runs, size_t count, size_t chart, Str *out)
{
    const SimulateSeries series = charts[chart].series;
    const double most = charts[chart].series == SERIES_ALLOCATED ? 100 : find_most(runs, count, series);
    const uint64_t end_s = find_end(runs, count);
    char age[HUMAN_MAX];

    if (!(most > 0))
        return;
    str_addf(out, "<h2>%s, %s</h2><svg viewBox=\"0 -14 %d %d\" role=\"img\" aria-label=\"%s by time\">",
             charts[chart].title, charts[chart].unit, CHART_WIDTH, CHART_HEIGHT + 40, charts[chart].title);
    for (int i = 0; i <= 2; i++)
        str_addf(out, "<line x1=\"0\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/><text x=\"2\" y=\"%d\">%.*f</text>", CHART_WIDTH,
                 CHART_HEIGHT * i / 2, CHART_HEIGHT * i / 2, CHART_HEIGHT * i / 2 - 3, most * charts[chart].scale < 10,
                 most * charts[chart].scale * (2 - i) / 2);
    for (size_t i = 0; i < count; i++)
        add_curve(runs[i].result, i, series, most, (double)end_s, out);
    add_arrivals_end(runs[0].result, (double)end_s, out);
    str_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text></svg>", CHART_WIDTH, CHART_HEIGHT + 24,
             human_age(age, end_s * NS_PER_S));
}

void simulate_page(const SimulateRun *runs, size_t count, const char *title, Str *out)
{
    CLEANUP(str_done) Str text = str_limited(TEXT_MAX);

    simulate_text(runs, count, &text);
    str_add(out, page_head);
    str_add_html(out, title);
    str_add(out, page_style);
    str_add(out, "<h1>");
    str_add_html(out, title);
    str_add(out, "</h1><p>");
    for (size_t i = 0; i < count; i++) {
        str_addf(out, "<span class=\"k\" style=\"--k:var(--c%zu)\">", i % COLOURS);
        str_add_html(out, runs[i].label);
        str_add(out, "</span>");
    }
    str_add(out, "</p>");
    for (size_t i = 0; i < ARRAY_LEN(charts); i++)
        add_chart(runs, count, i, out);
    str_add(out, "<h2>Figures</h2><pre>");
    str_add_html(out, text.text);
    str_add(out, "</pre></html>\n");
}

/* --- what to buy ------------------------------------------------------------------------------------------------ */

double simulate_waited_h(const Simulation *result)
{
    const SimulateJobs *all = &result->classes[SIMULATE_ALL];

    return all->wait_mean_s * (double)(all->jobs - all->never) / 3600;
}

static int compare_offers(const void *a, const void *b)
{
    const SimulateOffer *x = a, *y = b;

    return (x->price > 0) != (y->price > 0)
               ? (x->price > 0) - (y->price > 0)
               : (x->less_for_money < y->less_for_money) - (x->less_for_money > y->less_for_money);
}

void simulate_rank_offers(SimulateOffer *offers, size_t count)
{
    qsort(offers, count, sizeof *offers, compare_offers);
}

void simulate_offers_text(const SimulateOffer *offers, size_t count, Str *out)
{
    char p95[HUMAN_MAX];

    str_addf(out, "%-30s %10s %12s %26s %14s\n", "offer", "an hour", "wait, 95 %", "hours less waited", "for each 1");
    for (size_t i = 0; i < count; i++) {
        const SimulateOffer *o = &offers[i];

        human_age(p95, (uint64_t)(o->wait_p95_s * NS_PER_S));
        if (o->price > 0)
            str_addf(out, "%-30s %10.2f %12s %15.0f +- %7.0f %14.3f\n", o->label, o->price, p95, o->less_h,
                     o->less_spread_h, o->less_for_money);
        else
            str_addf(out, "%-30s %10s %12s\n", o->label, "", p95);
    }
}

void simulate_offers_json(const SimulateOffer *offers, size_t count, Str *out)
{
    json_open(out, NULL, '{');
    json_open(out, "offers", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(out, NULL, '{');
        json_add_text(out, "offer", offers[i].label);
        json_add_double(out, "price_per_hour", offers[i].price);
        json_add_double(out, "wait_p95_s", offers[i].wait_p95_s);
        json_add_double(out, "waited_hours_less", offers[i].less_h);
        json_add_double(out, "waited_hours_less_spread", offers[i].less_spread_h);
        json_add_double(out, "waited_hours_less_per_money", offers[i].less_for_money);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_close(out, '}');
    str_addc(out, '\n');
}
