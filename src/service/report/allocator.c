/* SPDX-License-Identifier: Apache-2.0 */
/* A memory snapshot: findings first, then each device. */
#include "service/report/allocator.h"

#include <inttypes.h>
#include <math.h>

#include "base/json.h"
#include "service/report/table.h"

enum { JSON_VERSION = 1 };

/* ---- JSON ---- */

#define ROW AllocatorSite
const Field allocator_site_fields[] = {N(KNOWN_TEXT, name), N(I64, bytes), N(I64, blocks), END};
#undef ROW

#define ROW AllocatorPoint
const Field allocator_point_fields[] = {N(I64, event), N(KNOWN, time_us), F(I64, allocated, "allocated_bytes"),
                                        F(I64, reserved, "reserved_bytes"), END};
#undef ROW

#define ROW AllocatorOom
const Field allocator_oom_fields[] = {N(KNOWN, time_us),
                                      F(I64, asked, "asked_bytes"),
                                      F(KNOWN, device_free, "device_free_bytes"),
                                      F(KNOWN, allocated, "allocated_bytes"),
                                      F(KNOWN, reserved, "reserved_bytes"),
                                      F(KNOWN_TEXT, site, "name"),
                                      END};
#undef ROW

#define ROW AllocatorFinding
const Field allocator_finding_fields[] = {N(TEXT, id),       N(I64, device),  N(I64, bytes),
                                          N(TEXT, evidence), N(TEXT, advice), END};
#undef ROW

#define ROW AllocatorDevice
const Field allocator_device_fields[] = {N(I64, device),
                                         N(I64, segments),
                                         N(I64, expandable_segments),
                                         F(I64, reserved, "reserved_bytes"),
                                         F(I64, allocated, "allocated_bytes"),
                                         F(I64, requested, "requested_bytes"),
                                         F(I64, awaiting, "awaiting_bytes"),
                                         F(I64, inactive, "inactive_bytes"),
                                         F(I64, largest_free, "largest_free_bytes"),
                                         F(I64, releasable, "releasable_bytes"),
                                         N(DOUBLE, fragmentation),
                                         N(I64, events),
                                         F(KNOWN, peak, "peak_bytes"),
                                         N(KNOWN, peak_event),
                                         N(KNOWN, peak_time_us),
                                         F(KNOWN, peak_reserved, "peak_reserved_bytes"),
                                         F(KNOWN, largest_reserved, "largest_reserved_bytes"),
                                         F(KNOWN, before, "before_bytes"),
                                         LIST(sites, allocator_site_fields),
                                         LIST(peak_sites, allocator_site_fields),
                                         LIST(points, allocator_point_fields),
                                         LIST(ooms, allocator_oom_fields),
                                         END};
#undef ROW

#define ROW AllocatorReport
static const Field field_snapshot[] = {LIST(findings, allocator_finding_fields), LIST(devices, allocator_device_fields),
                                       END};
#undef ROW

int allocator_json(const AllocatorReport *report, ReportSink sink, Err *err)
{
    Out out;

    out_init(&out, sink, err);
    json_open(&out.room, NULL, '{');
    json_add_i64(&out.room, "version", JSON_VERSION);
    json_open(&out.room, "memory_snapshot", '{');
    field_json(&out, field_snapshot, report, report);
    json_close(&out.room, '}');
    json_close(&out.room, '}');
    out_addc(&out, '\n');
    return out_done(&out);
}

/* ---- text ---- */

#define ROW AllocatorSite
static const Column site_columns[] = {
    COLUMN("bytes", RIGHT, 0, SHOWN(BYTES, I64, bytes)), COLUMN("", RIGHT, 0, SHOWN(SHARE, I64, bytes)),
    COLUMN("blocks", RIGHT, 1, SHOWN(COUNT, I64, blocks)), COLUMN("allocated by", NAME, 0, SHOWN(TEXT, TEXT, name))};
#undef ROW

static void print_sites(Pen *pen, const char *title, const AllocatorSites *sites, int64_t whole, int64_t before)
{
    const size_t shown = sites->len < pen->options.top ? sites->len : pen->options.top;
    Table table;

    if (shown == 0 && before <= 0)
        return;
    pen_section(pen, title, shown < sites->len ? arena_printf(&pen->arena, "%zu of %zu lines", shown, sites->len) : "");
    table_init(&table, pen, site_columns, ARRAY_LEN(site_columns));
    table.whole = (double)whole;
    for (size_t i = 0; i < shown; i++) {
        TableCell *cells = table_fill(&table, &sites->at[i]);
        cells[3].text = sites->at[i].name[0] ? sites->at[i].name : "(not recorded)";
    }
    if (before > 0)
        table_fill(&table, &(AllocatorSite){.name = "(before the first event)", .bytes = before})[2].text = NULL;
    table_print(&table);
}

static void print_findings(Pen *pen, const AllocatorReport *report)
{
    if (report->findings.len == 0)
        pen_text(pen, STYLE_GOOD, "Nothing stands out\n");
    for (size_t i = 0; i < report->findings.len; i++) {
        const AllocatorFinding *finding = &report->findings.at[i];
        out_addf(&pen->out, "%s%3zu  ", i ? "" : "Verdict\n", i + 1);
        pen_text(pen, STYLE_BOLD, finding->id);
        out_addf(&pen->out, "  GPU %" PRId64 "%s%s\n     ", finding->device, pen_dot(pen),
                 pen_bytes(pen, (double)finding->bytes));
        pen_wrap(pen, STYLE_PLAIN, 5, finding->evidence);
        out_add(&pen->out, pen->options.utf8 ? "   \xe2\x86\x92 " : "   > ");
        pen_wrap(pen, STYLE_PLAIN, 5, finding->advice);
    }
}

static void print_oom(Pen *pen, const AllocatorOom *oom)
{
    out_addf(&pen->out, "  asked for %s", pen_bytes(pen, (double)oom->asked));
    if (oom->device_free >= 0)
        out_addf(&pen->out, ", GPU had %s free", pen_bytes(pen, (double)oom->device_free));
    if (oom->reserved >= 0)
        out_addf(&pen->out, ", %s reserved, %s of it allocated", pen_bytes(pen, (double)oom->reserved),
                 pen_bytes(pen, (double)oom->allocated));
    out_add(&pen->out, oom->site[0] ? pen_dot(pen) : "");
    pen_foreign(pen, STYLE_PLAIN, oom->site);
    out_add(&pen->out, "\n");
}

static void print_timeline(Pen *pen, const AllocatorDevice *device)
{
    if (device->events == 0)
        return;
    if (!device->timeline) {
        pen_wrapf(pen, STYLE_WARN, 0, "The %s recorded events do not fit the blocks: no timeline and no peak.",
                  pen_count(pen, device->events));
        return;
    }
    out_add(&pen->out, "  ");
    pen_wrapf(pen, STYLE_PLAIN, 4, "Peak of %s events: %s allocated (as asked for), %s reserved then, %s at most",
              pen_count(pen, device->events), pen_bytes(pen, (double)device->peak),
              pen_bytes(pen, (double)device->peak_reserved), pen_bytes(pen, (double)device->largest_reserved));
    print_sites(pen, "What stood at the peak", &device->peak_sites, device->peak, device->before);
}

/* What is held at the snapshot, in bytes. */
static void print_totals(Pen *pen, const AllocatorDevice *device)
{
    pen_section(pen, arena_printf(&pen->arena, "GPU %" PRId64, device->device), "");
    out_add(&pen->out, "  ");
    pen_wrapf(pen, STYLE_PLAIN, 4,
              "%s reserved in %s segments (%" PRId64
              " expandable), %s allocated (%s asked for), %s awaiting another stream, %s free",
              pen_bytes(pen, (double)device->reserved), pen_count(pen, device->segments), device->expandable_segments,
              pen_bytes(pen, (double)device->allocated), pen_bytes(pen, (double)device->requested),
              pen_bytes(pen, (double)device->awaiting), pen_bytes(pen, (double)device->inactive));
    if (device->inactive == 0)
        return;
    out_add(&pen->out, "  ");
    pen_wrapf(pen, STYLE_PLAIN, 4, "Largest free block %s (fragmentation %s), %s in empty segments",
              pen_bytes(pen, (double)device->largest_free), pen_percent(pen, device->fragmentation * 100),
              pen_bytes(pen, (double)device->releasable));
}

static void print_device(Pen *pen, const AllocatorDevice *device)
{
    print_totals(pen, device);
    print_timeline(pen, device);
    for (size_t i = 0; i < device->ooms.len; i++) {
        if (i == 0)
            pen_section(pen, "Failed allocations", "the last one first");
        if (i < pen->options.top)
            print_oom(pen, &device->ooms.at[i]);
    }
    print_sites(pen, "Allocated at the snapshot", &device->sites, device->allocated, 0);
}

int allocator_text(const AllocatorReport *report, const ReportOptions *options, ReportSink sink, Err *err)
{
    Pen pen;

    pen_init(&pen, options, sink, err);
    pen_text(&pen, STYLE_BOLD, "stoker trace");
    pen_text(&pen, STYLE_DIM, "  memory snapshot\n\n");
    print_findings(&pen, report);
    for (size_t i = 0; i < report->devices.len; i++)
        print_device(&pen, &report->devices.at[i]);
    if (report->devices.len == 0)
        out_add(&pen.out, "It holds no segment and no event.\n");
    return pen_done(&pen);
}
