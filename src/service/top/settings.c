/* SPDX-License-Identifier: Apache-2.0 */
/* What a user has chosen, as a small YAML file that is kept from one run to the next. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/opt.h"
#include "base/yaml.h"
#include "service/top/inside.h"

static const char *const usual_plots[] = {"busy", "memory", "power", "temperature"};

const TopSettings top_settings_usual = {
    .theme = THEME_AUTO,
    .span = SPAN_TEN,
    .sort = "memory",
    .group = true,
    .dots = true,
    .processes = true,
    .plots = {usual_plots, ARRAY_LEN(usual_plots)},
};

static const char *const span_names[] = {"1m", "10m", "1h", "24h", NULL};

static const OptSpec rows[] = {
    OPT_ROW("theme", OPT_ENUM, TopSettings, theme, .names = theme_names),
    OPT_ROW("span", OPT_ENUM, TopSettings, span, .names = span_names),
    OPT_ROW("sort", OPT_STRING, TopSettings, sort, .help = "column that processes are sorted by"),
    OPT_ROW("group", OPT_BOOL, TopSettings, group, .help = "one line for the processes of a job"),
    OPT_ROW("dots", OPT_BOOL, TopSettings, dots, .help = "plots of dots"),
    OPT_ROW("processes", OPT_BOOL, TopSettings, processes, .help = "processes below the GPUs"),
    OPT_ROW("plots", OPT_LIST, TopSettings, plots, .help = "what is plotted"),
};

/* SIZE_MAX where there is none. */
static size_t find_plot(const char *title)
{
    for (size_t i = 0; i < top_plot_count; i++)
        if (strcmp(top_plots[i].title, title) == 0)
            return i;
    return SIZE_MAX;
}

int top_settings_read(const char *path, Arena *arena, TopSettings *ret, Err *err)
{
    TopSettings settings = top_settings_usual;
    const OptSet set = {.opts = rows, .count = ARRAY_LEN(rows), .into = &settings, .arena = arena};
    const YamlNode *root;
    size_t column = 0;

    TRY(yaml_load_file(path, arena, &root, err));
    TRY(opt_yaml(&set, root, err));
    while (column < process_column_count && strcmp(process_columns[column].column.key, settings.sort) != 0)
        column++;
    if (column == process_column_count)
        return err_set(err, -EINVAL, "%s: no column '%s' to sort by", path, settings.sort);
    for (size_t i = 0; i < settings.plots.len; i++)
        if (find_plot(settings.plots.items[i]) == SIZE_MAX)
            return err_set(err, -EINVAL, "%s: no plot '%s'", path, settings.plots.items[i]);
    *ret = settings;
    return 0;
}

void top_apply_settings(Top *top, const TopSettings *settings)
{
    top->theme = (Theme)settings->theme;
    top->span = (TopSpan)settings->span;
    top->tree = settings->group;
    top->dots = settings->dots;
    top->list_processes = settings->processes;
    for (size_t i = 0; i < settings->plots.len; i++)
        top->plotted[find_plot(settings->plots.items[i])] = true;
}

void top_settings_write(const Top *top, Str *out)
{
    static const char *const words[] = {"false", "true"};
    const char *between = "";

    str_addf(out, "# Kept by stoker top.\ntheme: %s\nspan: %s\nsort: %s\ngroup: %s\ndots: %s\nprocesses: %s\nplots: [",
             theme_names[top->theme], span_names[top->span], process_columns[top->sort].column.key, words[top->tree],
             words[top->dots], words[top->list_processes]);
    for (size_t i = 0; i < top_plot_count; i++)
        if (top->plotted[i]) {
            str_addf(out, "%s%s", between, top_plots[i].title);
            between = ", ";
        }
    str_add(out, "]\n");
}
