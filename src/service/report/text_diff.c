/* SPDX-License-Identifier: Apache-2.0 */
/* The difference of two profiles as text. */
#include <math.h>

#include "base/owner.h"
#include "service/report/text.h"

static const char *signed_ns(Pen *pen, double ns)
{
    const char *text = pen_ns(pen, ns);

    return ns > 0 ? arena_printf(&pen->arena, "+%s", text) : text;
}

static const char *change_text(Pen *pen, double before, double after)
{
    if (!(before > 0))
        return after > 0 ? "new" : NULL;
    if (!(after > 0))
        return "gone";
    return arena_printf(&pen->arena, "%+.1f %%", fmin(100 * (after - before) / before, 1e9));
}

static Style change_style(double before, double after)
{
    return after > before * 1.01 ? STYLE_IDLE : after < before * 0.99 ? STYLE_GOOD : STYLE_PLAIN;
}

static void sum_row(Table *table, const char *what, double before, double after, bool less_is_better)
{
    TableCell *cell = table_row(table);

    if (!isfinite(before) || !isfinite(after))
        before = after = NAN;
    cell[0].text = what;
    cell[1].text = pen_ns(table->pen, before);
    cell[2].text = pen_ns(table->pen, after);
    cell[3].text = signed_ns(table->pen, after - before);
    cell[4].text = change_text(table->pen, before, after);
    cell[3].style = cell[4].style = less_is_better ? change_style(before, after) : STYLE_PLAIN;
}

static void print_rows(Pen *pen, const char *title, const TraceDiffRow *rows, size_t len, bool per_step)
{
    static const Column columns[] = {{"difference", COLUMN_RIGHT, 0}, {"", COLUMN_RIGHT, 1},
                                     {"before", COLUMN_RIGHT, 2},     {"after", COLUMN_RIGHT, 0},
                                     {"count", COLUMN_RIGHT, 4},      {"then", COLUMN_RIGHT, 3},
                                     {"name", COLUMN_NAME, 0}};
    size_t shown = len < pen->options.top ? len : pen->options.top;
    Table table;

    if (!shown)
        return;
    pen_section(pen, title,
                pen_of(pen, shown, len, per_step ? "per step, what got slower first" : "what got slower first"));
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++) {
        double before = per_step ? rows[i].per_step_before_ns : (double)rows[i].total_before_ns;
        double after = per_step ? rows[i].per_step_after_ns : (double)rows[i].total_after_ns;
        TableCell *cell = table_row(&table);

        cell[0].text = signed_ns(pen, after - before);
        cell[1].text = change_text(pen, before, after);
        cell[0].style = cell[1].style = change_style(before, after);
        cell[2].text = pen_ns(pen, before);
        cell[3].text = pen_ns(pen, after);
        cell[4].text = pen_count(pen, rows[i].count_before);
        cell[5].text = pen_count(pen, rows[i].count_after);
        cell[6].text = rows[i].name;
    }
    table_print(&table);
}

int trace_diff_text(const TraceDiff *diff, const ReportOptions *options, ReportSink sink, Err *err)
{
    static const Column columns[] = {{"", COLUMN_LEFT, 0},
                                     {"before", COLUMN_RIGHT, 0},
                                     {"after", COLUMN_RIGHT, 0},
                                     {"difference", COLUMN_RIGHT, 0},
                                     {"", COLUMN_RIGHT, 0}};
    Table table;
    Pen pen;

    pen_init(&pen, options, sink, err);
    pen_text(&pen, STYLE_BOLD, "stoker trace");
    pen_text(&pen, STYLE_DIM, "  difference of two profiles\n");
    if (pen.options.also[0])
        pen_wrap(&pen, STYLE_PLAIN, 0, pen.options.also);
    out_add(&pen.out, "\n");
    table_init(&table, &pen, columns, ARRAY_LEN(columns));
    if (isfinite(diff->step_before_ns) && isfinite(diff->step_after_ns))
        sum_row(&table, "step", diff->step_before_ns, diff->step_after_ns, true);
    sum_row(&table, "GPU busy", (double)diff->busy_before_ns, (double)diff->busy_after_ns, !diff->per_step);
    sum_row(&table, "GPU idle", (double)diff->idle_before_ns, (double)diff->idle_after_ns, !diff->per_step);
    table_print(&table);
    print_rows(&pen, "Kernels", diff->kernels.at, diff->kernels.len, diff->per_step);
    print_rows(&pen, "Operators", diff->operators.at, diff->operators.len, diff->per_step);
    return pen_done(&pen);
}
