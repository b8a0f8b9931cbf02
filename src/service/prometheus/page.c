/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of families and lines of the exposition. Pure but for memory, one thread. */
#include "service/prometheus/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"

/* ---- families ---- */

enum { HEAD_MAX = 256 * 1024 };

static const char *type_text(CounterType type, ExporterFormat format, bool total)
{
    switch (type) {
    case COUNTER_COUNTER:
        /* OpenMetrics knows no counter without _total; rather an unknown than another name */
        return format == EXPORTER_OPENMETRICS && !total ? "unknown" : "counter";
    case COUNTER_GAUGE:
        return "gauge";
    default:
        return format == EXPORTER_OPENMETRICS ? "unknown" : "untyped";
    }
}

Family family_make(const char *name, CounterType type, const char *help, Arena *arena)
{
    static const char suffix[] = "_total";
    size_t cut = sizeof suffix - 1;
    Family family = {.name = name, .name_len = strlen(name), .type = type, .help = help, .view = LABELS_OWN};
    bool total = family.name_len > cut && strcmp(name + family.name_len - cut, suffix) == 0;
    CLEANUP(str_done) Str text = str_limited(HEAD_MAX);

    for (ExporterFormat format = EXPORTER_TEXT; format <= EXPORTER_OPENMETRICS; format++) {
        bool shorter = format == EXPORTER_OPENMETRICS && total && type == COUNTER_COUNTER;
        int len = (int)(family.name_len - (shorter ? cut : 0));

        str_clear(&text);
        str_addf(&text, "# HELP %.*s ", len, name);
        escape_add(&text, help, format == EXPORTER_TEXT ? ESCAPE_HELP : ESCAPE_VALUE);
        str_addf(&text, "\n# TYPE %.*s %s\n", len, name, type_text(type, format, total));
        family.head[format].text = arena_strndup(arena, text.text, text.len);
        family.head[format].len = text.len;
    }
    return family;
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

/* A target's labels as "{...} ". */
static char *append_name(Page *page, const Family *family, const Target *target)
{
    char *at = append_bytes(page->out->text + page->out->len, family->name, family->name_len);

    return target ? append_bytes(at, target->body[family->view].text, target->body[family->view].len)
                  : append_bytes(at, " ", 1);
}

size_t value_write_fixed(char out[VALUE_TEXT_MAX], double value)
{
    double size = fabs(value);
    uint64_t thousandths = size < 1e9 ? (uint64_t)(size * 1000 + 0.5) : 0;
    size_t len = 0;
    int written;

    if (!isfinite(value))
        return number_write_double(out, value);
    /* Below 1e9 a double lies nearer to its shortest text than half of the sixth decimal: whole thousandths, which most
     * measurements are, need no correct rounding of their own. */
    if (thousandths && (double)thousandths / 1000 == size) {
        if (value < 0)
            out[len++] = '-';
        len += number_write_u64(out + len, thousandths / 1000);
        out[len++] = '.';
        for (uint64_t unit = 100; unit; unit /= 10)
            out[len++] = (char)('0' + thousandths / unit % 10);
        memcpy(out + len, "000", 3);
        return len + 3;
    }
    written = snprintf(out, VALUE_TEXT_MAX, "%f", value);
    return written > 0 ? (size_t)written : 0;
}

static size_t labels_len(const Family *family, const Target *target)
{
    return target ? target->body[family->view].len : 1;
}

void page_value(Page *page, const Family *family, const Target *target, double value)
{
    char *at;

    if (!begin_line(page, family, labels_len(family, target)))
        return;
    at = append_name(page, family, target);
    finish_line(page->out, at + (family->fixed ? value_write_fixed(at, value) : number_write_go(at, value)));
}

void page_int64(Page *page, const Family *family, const Target *target, int64_t value)
{
    char *at;

    if (!family->fixed && (value <= -1000000 || value >= 1000000)) {
        page_value(page, family, target, (double)value);
        return;
    }
    if (!begin_line(page, family, labels_len(family, target)))
        return;
    at = append_name(page, family, target);
    finish_line(page->out, at + number_write_i64(at, value));
}

void line_add(Line *line, const char *name, const char *value)
{
    size_t at = line->len;

    if (!value[0] || line->len == LINE_LABELS_MAX)
        return;
    for (; at > 0 && strcmp(name, line->at[at - 1].name) < 0; at--)
        line->at[at] = line->at[at - 1];
    line->at[at] = (Label){.name = name, .value = value, .group = LABEL_ATTRIBUTE};
    line->len++;
}

void line_add_number(Line *line, const char *name, uint64_t number)
{
    char *text = line->number[line->numbers++];

    snprintf(text, LINE_NUMBER_CAP, "%" PRIu64, number);
    line_add(line, name, text);
}

/* Its labels are rendered in place; it is removed where it does not fit. */
void page_line(Page *page, const Family *family, const Target *target, const Line *line, double value)
{
    size_t start;
    char *at;

    if (!begin_line(page, family, 0))
        return;
    start = page->out->len;
    str_addn(page->out, family->name, family->name_len);
    labels_render(page->out, target ? target->labels : NULL, target ? target->label_count : 0, family->view,
                  labels_sorted(page->config->profile), line->at, line->len);
    if (page->out->overflow || !str_reserve(page->out, LINE_BESIDE)) {
        str_cut(page->out, start);
        return;
    }
    at = page->out->text + page->out->len;
    if (family->fixed && fabs(value) < 1e15 && value == (double)(int64_t)value)
        finish_line(page->out, at + number_write_i64(at, (int64_t)value));
    else
        finish_line(page->out, at + number_write_go(at, value));
}

void page_field(Page *page, const Family *family, const Target *target, const Line *line, const void *of)
{
    const OwnFamily *own = family->own;
    const void *at = (const char *)of + own->at;
    uint64_t number;
    double value;

    if (own->size == sizeof(uint64_t))
        number = *(const uint64_t *)at;
    else if (own->size == sizeof(uint32_t))
        number = *(const uint32_t *)at;
    else
        number = *(const bool *)at;
    if (!number && own->skip_zero)
        return;
    value = own->scale > 0 ? (double)number / own->scale : (double)number;
    if (line)
        page_line(page, family, target, line, value);
    else
        page_value(page, family, target, value);
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
