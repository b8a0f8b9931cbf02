/* SPDX-License-Identifier: Apache-2.0 */
/* The report as one page: the same words as the text, with bars that are drawn. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "service/jobs/job_report.h"

enum { TEXT_MAX = 1 << 20, PAGE_WIDTH = 110, CHART_HEIGHT = 120, SLICE_WIDTH = 16 };

static const char head[] = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
                           "content=\"width=device-width\"><title>";
static const char style[] =
    "</title><style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}pre{font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap;background:#f6f6f4;"
    "padding:1rem;border-radius:6px}svg{width:100%;height:auto}rect.w{fill:#2a7f62}rect.r{fill:#e6e6e2}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}pre{background:#222}rect.r{fill:#333}}"
    "</style>";

/* A bar per slice: what was held, and of it the work. */
static void add_chart(const JobReport *r, Str *out)
{
    const uint32_t count = job_slice_count(r);

    str_addf(out, "<svg viewBox=\"0 0 %u %d\" role=\"img\" aria-label=\"work by time\">", count * SLICE_WIDTH,
             CHART_HEIGHT);
    for (uint32_t i = 0; i < count; i++) {
        const JobSlice *slice = &r->slices[i];
        const double work = slice->known > 0 ? fmin((double)(slice->busy / slice->known), 1) : 0;
        double most = 0;
        size_t cause = WHY_UNKNOWN;

        for (size_t w = 0; w < WHY_END; w++)
            if ((double)slice->why[w] > most) {
                most = (double)slice->why[w];
                cause = w;
            }
        if (!(slice->held > 0))
            continue;
        str_addf(out, "<g><rect class=\"r\" x=\"%u\" y=\"0\" width=\"%d\" height=\"%d\"/>", i * SLICE_WIDTH,
                 SLICE_WIDTH - 1, CHART_HEIGHT);
        str_addf(out, "<rect class=\"w\" x=\"%u\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/><title>", i * SLICE_WIDTH,
                 CHART_HEIGHT * (1 - work), SLICE_WIDTH - 1, CHART_HEIGHT * work);
        str_addf(out, "work %.0f %%, ", 100 * work);
        str_add_html(out, why_causes[cause].title);
        str_add(out, "</title></g>");
    }
    str_add(out, "</svg>");
}

void job_html(const JobReport *r, uint64_t real_ns, Str *out)
{
    CLEANUP(str_done) Str name = str_limited(TEXT_MAX), text = str_limited(TEXT_MAX);

    job_add_name(r, &name);
    job_text(r, &(JobStyle){.width = PAGE_WIDTH, .utf8 = true, .real_ns = real_ns}, &text);
    str_add(out, head);
    str_add_html(out, name.text);
    str_add(out, style);
    str_addf(out, "<h1>%s ", job_kinds[r->kind].key);
    str_add_html(out, name.text);
    str_add(out,
            "</h1><p>Work by time: the share of the multiprocessors' time, of what it held. Point at a bar for its "
            "verdict.</p>");
    add_chart(r, out);
    str_add(out, "<pre>");
    str_add_html(out, text.text);
    str_add(out, "</pre></html>\n");
}
