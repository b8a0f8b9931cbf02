/* SPDX-License-Identifier: Apache-2.0 */
/* Rooflines as text, and as a page with a picture. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/bench/roof.h"
#include "service/bench/bench_report.h"
#include "service/report/table.h"

enum { LABEL_WIDTH = 24, TEXT_MAX = 1 << 20 };

static void add_clean(Str *out, const char *text)
{
    clean_add(out, text[0] ? text : "?", true);
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static void add_share(double percent, Str *out)
{
    if (isfinite(percent))
        str_addf(out, "  %4.0f %%", percent);
    else
        str_addf(out, "  %6s", "-");
}

static void add_bandwidth(const char *label, double gbs, double share_percent, Str *out)
{
    char value[BENCH_NAME_CAP];

    if (!isfinite(gbs))
        return;
    bench_number(gbs, value);
    str_addf(out, "  %-*s %8s %-7s %8s", LABEL_WIDTH, label, value, "GB/s", "");
    add_share(share_percent, out);
    str_addc(out, '\n');
}

static void add_ceiling(const BenchCeiling *c, Str *out)
{
    char label[BENCH_NAME_CAP], value[BENCH_NAME_CAP], clock[BENCH_NAME_CAP], ridge[BENCH_NAME_CAP],
        l2_ridge[BENCH_NAME_CAP];

    bench_label(c->id, label);
    bench_number(c->tera, value);
    bench_number(c->sm_mhz, clock);
    bench_number(c->ridge, ridge);
    bench_number(c->l2_ridge, l2_ridge);
    str_addf(out, "  %-*s %8s %-7s %8s", LABEL_WIDTH, label, value, bench_measures[c->id].unit, clock);
    add_share(c->share_percent, out);
    str_addf(out, "  %8s %8s\n", ridge, l2_ridge);
}

static void add_roof(const BenchRoof *roof, Str *out)
{
    if (roof->count == 0 && !isfinite(roof->memory_gbs)) {
        str_add(out, "  neither memory nor arithmetic was measured\n");
        return;
    }
    str_addf(out, "  %-*s %8s %-7s %8s  %6s  %8s %8s\n", LABEL_WIDTH, "", "reached", "", "at MHz", "sheet", "memory",
             "L2");
    add_bandwidth("memory read", roof->memory_gbs, roof->memory_share_percent, out);
    add_bandwidth("L2 read", roof->l2_gbs, (double)NAN, out);
    for (size_t i = 0; i < roof->count; i++)
        add_ceiling(&roof->ceilings[i], out);
}

static const char legend[] = "sheet: share of the data sheet. memory, L2: operations per byte below which it is the "
                             "limit, and not arithmetic.\n";

void bench_write_roof(const BenchRun *run, Str *out)
{
    for (uint32_t gpu = 0; gpu < run->gpus.len; gpu++) {
        const BenchRoof roof = bench_roof(run, gpu);

        str_addf(out, "GPU %" PRIu32 ", ", run->gpus.at[gpu].index);
        add_clean(out, run->gpus.at[gpu].device.name);
        str_addc(out, '\n');
        add_roof(&roof, out);
        str_addc(out, '\n');
    }
    str_add(out, legend);
}

/* --- the picture -------------------------------------------------------------------------------------------------- */

/* Both axes are logarithmic: operations per byte, and 10^12 operations per second. */
enum { PICTURE_WIDTH = 860, PICTURE_HEIGHT = 420, X_FROM = -1, X_TO = 4, Y_FROM = -1, Y_TO = 4, RIGHT_ROOM = 260 };

static const char page_head[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
    "<title>Roofline</title><style>:root{--c0:#0072b2;--c1:#d55e00;--c2:#009e73}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222;"
    "background:#fff}pre{font:13px/1.45 ui-monospace,monospace;overflow-x:auto;background:#f6f6f4;padding:1rem;"
    "border-radius:6px}svg{width:100%;height:auto;display:block}svg line{stroke:#ddd}"
    "svg .m{stroke:var(--c0);stroke-width:2}svg .l{stroke:var(--c2);stroke-width:2}"
    "svg .c{stroke:var(--c1);stroke-width:1.5}text{font:12px system-ui,sans-serif;fill:#666}"
    "h2{font-size:1.05rem;margin:1.6rem 0 .3rem}@media(prefers-color-scheme:dark){:root{--c0:#56b4e9;--c1:#e69f00;"
    "--c2:#2fc79a}body{color:#ddd;background:#161616}pre{background:#222}svg line{stroke:#333}text{fill:#aaa}}"
    "</style><h1>Roofline</h1>";

static double place_x(double intensity)
{
    return (log10(intensity) - X_FROM) / (X_TO - X_FROM) * PICTURE_WIDTH;
}

static double place_y(double tera)
{
    return PICTURE_HEIGHT - (log10(tera) - Y_FROM) / (Y_TO - Y_FROM) * PICTURE_HEIGHT;
}

static double clip_decades(double value, int from, int to)
{
    return fmin(fmax(value, pow(10, from)), pow(10, to));
}

static void add_grid(Str *out)
{
    for (int i = X_FROM; i <= X_TO; i++)
        str_addf(out,
                 "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%d\"/><text x=\"%.1f\" y=\"%d\" "
                 "text-anchor=\"middle\">%g</text>",
                 place_x(pow(10, i)), place_x(pow(10, i)), PICTURE_HEIGHT, place_x(pow(10, i)), PICTURE_HEIGHT + 16,
                 pow(10, i));
    for (int i = Y_FROM; i <= Y_TO; i++)
        str_addf(out,
                 "<line x1=\"0\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"-6\" y=\"%.1f\" "
                 "text-anchor=\"end\">%g</text>",
                 PICTURE_WIDTH, place_y(pow(10, i)), place_y(pow(10, i)), place_y(pow(10, i)) + 4, pow(10, i));
}

static void add_line(const char *class, double x1, double y1, double x2, double y2, Str *out)
{
    str_addf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", class, place_x(x1),
             place_y(y1), place_x(x2), place_y(y2));
}

/* A bandwidth, up to the highest ceiling. */
static void add_slope(const char *class, double gbs, double most, Str *out)
{
    if (!(gbs > 0) || !(most > 0))
        return;
    const double from = clip_decades(pow(10, Y_FROM) * 1e3 / gbs, X_FROM, X_TO),
                 to = clip_decades(most * 1e3 / gbs, X_FROM, X_TO);

    if (to > from)
        add_line(class, from, clip_decades(from * gbs / 1e3, Y_FROM, Y_TO), to,
                 clip_decades(to * gbs / 1e3, Y_FROM, Y_TO), out);
}

/* From the fastest slope on; names that would lie on each other are moved down. */
static void add_ceilings(const BenchRoof *roof, Str *out)
{
    double last_y = -100;

    for (size_t i = 0; i < roof->count; i++) {
        const BenchCeiling *c = &roof->ceilings[i];
        const double fastest = roof->l2_gbs > 0 ? roof->l2_gbs : roof->memory_gbs,
                     tera = clip_decades(c->tera, Y_FROM, Y_TO),
                     from = fastest > 0 ? clip_decades(tera * 1e3 / fastest, X_FROM, X_TO) : pow(10, X_FROM);
        const double y = fmax(place_y(tera) + 4, last_y + 13);
        char label[BENCH_NAME_CAP], value[BENCH_NAME_CAP];

        bench_label(c->id, label);
        bench_number(c->tera, value);
        add_line("c", from, tera, pow(10, X_TO), tera, out);
        str_addf(out, "<text x=\"%d\" y=\"%.1f\">%s, %s %s</text>", PICTURE_WIDTH + 6, y, label, value,
                 bench_measures[c->id].unit);
        last_y = y;
    }
}

static void add_picture(const BenchRoof *roof, Str *out)
{
    const double most = roof->count ? roof->ceilings[0].tera : 0;

    str_addf(out,
             "<svg viewBox=\"-50 -10 %d %d\" role=\"img\" aria-label=\"10^12 operations per second by operations per "
             "byte\">",
             PICTURE_WIDTH + RIGHT_ROOM + 50, PICTURE_HEIGHT + 50);
    add_grid(out);
    add_slope("m", roof->memory_gbs, most, out);
    add_slope("l", roof->l2_gbs, most, out);
    add_ceilings(roof, out);
    str_addf(out,
             "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">operations per byte</text><text x=\"6\" y=\"12\">10^12 "
             "operations per second; blue: memory, green: L2 cache</text></svg>",
             PICTURE_WIDTH, PICTURE_HEIGHT + 34);
}

static bool is_first_of_model(const BenchRun *run, uint32_t gpu)
{
    for (uint32_t i = 0; i < gpu; i++)
        if (strcmp(run->gpus.at[i].device.name, run->gpus.at[gpu].device.name) == 0)
            return false;
    return true;
}

void bench_write_roof_page(const BenchRun *run, Str *out)
{
    CLEANUP(str_done) Str text = str_limited(TEXT_MAX);

    bench_write_roof(run, &text);
    str_add(out, page_head);
    for (uint32_t gpu = 0; gpu < run->gpus.len; gpu++) {
        const BenchRoof roof = bench_roof(run, gpu);

        if (!is_first_of_model(run, gpu))
            continue;
        str_addf(out, "<h2>GPU %" PRIu32 ", ", run->gpus.at[gpu].index);
        str_add_html(out, run->gpus.at[gpu].device.name);
        str_add(out, "</h2>");
        add_picture(&roof, out);
    }
    str_add(out, "<h2>Figures</h2><pre>");
    str_add_html(out, text.text ? text.text : "");
    str_add(out, "</pre></html>\n");
}
