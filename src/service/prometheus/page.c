/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the exposition. Pure but for memory, one thread. */
#include <math.h>
#include <string.h>

#include "base/duration.h"
#include "base/number.h"
#include "service/prometheus/page.h"
#include "service/prometheus/text.h"

enum { HEAD_MAX = 256 * 1024 };

/* ---- HELP and TYPE ---- */

static const char *type_text(const Family *family, ExporterFormat format, bool total)
{
    switch (family->type) {
    case FAMILY_COUNTER:
        /* OpenMetrics knows no counter without _total; rather an unknown than another name */
        return format == EXPORTER_OPENMETRICS && !total ? "unknown" : "counter";
    case FAMILY_GAUGE:
        return "gauge";
    default:
        return format == EXPORTER_OPENMETRICS ? "unknown" : "untyped";
    }
}

void page_make_head(Family *family, Arena *arena)
{
    static const char suffix[] = "_total";
    size_t cut = sizeof suffix - 1;
    bool total = family->name_len > cut && strcmp(family->name + family->name_len - cut, suffix) == 0;
    Str text;

    str_init(&text, HEAD_MAX);
    for (ExporterFormat format = EXPORTER_TEXT; format <= EXPORTER_OPENMETRICS; format++) {
        bool shorter = format == EXPORTER_OPENMETRICS && total && family->type == FAMILY_COUNTER;
        int len = (int)(family->name_len - (shorter ? cut : 0));

        str_clear(&text);
        str_addf(&text, "# HELP %.*s ", len, family->name);
        escape_add(&text, family->help, format == EXPORTER_TEXT ? ESCAPE_HELP : ESCAPE_OPEN_HELP);
        str_addf(&text, "\n# TYPE %.*s %s\n", len, family->name, type_text(family, format, total));
        family->head[format].text = arena_strndup(arena, text.text, text.len);
        family->head[format].len = text.len;
    }
    str_done(&text);
}

/* ---- lines ---- */

enum { LINE_BESIDE = VALUE_TEXT_MAX + 2 };

/* Makes room for a line, and writes the head before the family's first line. False where the page is full. */
static bool begin_line(Page *page, const Family *family, size_t len)
{
    size_t head = page->open == family ? 0 : family->head[page->format].len;

    if (page->out->overflow || !str_reserve(page->out, head + family->name_len + len + LINE_BESIDE))
        return false;
    if (head) {
        str_addn(page->out, family->head[page->format].text, head);
        page->open = family;
    }
    return true;
}

static char *append_bytes(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

static void finish_line(Str *out, char *end)
{
    *end++ = '\n';
    *end = '\0';
    out->len = (size_t)(end - out->text);
}

static void write_double(Page *page, const Family *family, const char *labels, size_t len, double value)
{
    char *at;

    if (!begin_line(page, family, len))
        return;
    at = append_bytes(page->out->text + page->out->len, family->name, family->name_len);
    at = append_bytes(at, labels, len);
    finish_line(page->out, at + (family->fixed ? value_write_fixed(at, value) : value_write_go(at, value)));
}

void page_int64(Page *page, const Family *family, const char *labels, size_t len, int64_t value)
{
    char *at;

    if (!begin_line(page, family, len))
        return;
    at = append_bytes(page->out->text + page->out->len, family->name, family->name_len);
    at = append_bytes(at, labels, len);
    if (family->fixed || (value > -1000000 && value < 1000000))
        finish_line(page->out, at + number_write_i64(at, value));
    else
        finish_line(page->out, at + value_write_go(at, (double)value));
}

void page_plain(Page *page, const Family *family, double value)
{
    write_double(page, family, " ", 1, value);
}

/* A line whose labels are rendered in place; removed where it does not fit. */
static void write_rendered(Page *page, const Family *family, const Target *target, const Label *extra, size_t count,
                           double value)
{
    size_t start;
    char *at;

    if (!begin_line(page, family, 0))
        return;
    start = page->out->len;
    str_addn(page->out, family->name, family->name_len);
    labels_render(page->out, target ? target->labels : NULL, target ? target->label_count : 0, family->view,
                  labels_sorted(page->config->profile), extra, count);
    if (page->out->overflow || !str_reserve(page->out, LINE_BESIDE)) {
        str_cut(page->out, start);
        return;
    }
    at = page->out->text + page->out->len;
    if (family->fixed && fabs(value) < 1e15 && value == (double)(int64_t)value)
        finish_line(page->out, at + number_write_i64(at, (int64_t)value));
    else
        finish_line(page->out, at + value_write_go(at, value));
}

void page_labelled(Page *page, const Family *family, const Label *labels, size_t count, double value)
{
    write_rendered(page, family, NULL, labels, count, value);
}

void page_target(Page *page, const Family *family, const Target *target, double value)
{
    write_double(page, family, target->body[family->view].text, target->body[family->view].len, value);
}

void page_extra(Page *page, const Family *family, const Target *target, const Label *extra, size_t count, double value)
{
    write_rendered(page, family, target, extra, count, value);
}

bool page_fresh(const Page *page, const Sample *sample, MetricPace pace)
{
    uint64_t now = page->node->time_ns;

    return sample->valid && (now <= sample->time_ns || now - sample->time_ns <= page->fresh_ns[pace]);
}

const NodeGpu *page_gpu(const Page *page, const Target *target)
{
    return &page->node->gpus[target->gpu];
}

double page_scaled(double value, double factor)
{
    return factor < 1 ? value / round(1 / factor) : value * factor;
}

double page_real_seconds(const Page *page, uint64_t time_ns)
{
    uint64_t age = page->node->time_ns > time_ns ? page->node->time_ns - time_ns : 0;

    return (double)(page->node->real_ns > age ? page->node->real_ns - age : 0) / (double)NS_PER_S;
}
