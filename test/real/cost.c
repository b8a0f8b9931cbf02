/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent and its samplers cost: processor time and memory of an agent of its own over some seconds, after the
 * first ones, in which a driver is loaded. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "real.h"
#include "verbs.h"

enum { SETTLE_MS = 4000, MEASURE_MS = 20 * 1000, PROC_TEXT_MAX = 65536, PROCESSES_MAX = 16 };

typedef struct Use {
    pid_t pid;
    char name[32];
    double cpu_ms; /* since it began */
    unsigned long long rss_kb, private_kb;
} Use;

static int read_proc(pid_t pid, const char *name, Str *out)
{
    char path[512];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    str_clear(out);
    return file_read(path, PROC_TEXT_MAX, out, NULL);
}

/* Nanoseconds on a processor of all threads by schedstat; where the kernel has none, the ticks of stat. */
static double read_cpu_ms(pid_t pid, Str *text)
{
    char path[64];
    double ns = 0;
    bool known = false;
    CLEANUP(closedir_at) DIR *dir = NULL;
    const struct dirent *entry;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    dir = opendir(path);
    while (dir && (entry = readdir(dir)) != NULL) {
        char name[300];

        snprintf(name, sizeof name, "task/%s/schedstat", entry->d_name);
        if (entry->d_name[0] != '.' && read_proc(pid, name, text) == 0) {
            ns += strtod(text->text, NULL);
            known = true;
        }
    }
    if (!known && read_proc(pid, "stat", text) == 0) {
        unsigned long long user = 0, kernel = 0;
        const char *rest = strrchr(text->text, ')');

        if (rest && sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &kernel) == 2)
            ns = (double)(user + kernel) * 1e9 / (double)sysconf(_SC_CLK_TCK);
    }
    return ns / 1e6;
}

static unsigned long long read_field(const Str *text, const char *field)
{
    const char *at = strstr(text->text, field);

    return at ? strtoull(at + strlen(field), NULL, 10) : 0;
}

static void read_use(pid_t pid, Use *ret)
{
    CLEANUP(str_done) Str text = str_limited(PROC_TEXT_MAX);

    *ret = (Use){.pid = pid, .name = "?"};
    if (read_proc(pid, "comm", &text) == 0)
        snprintf(ret->name, sizeof ret->name, "%.*s", (int)strcspn(text.text, "\n"), text.text);
    if (read_proc(pid, "status", &text) == 0) {
        ret->rss_kb = read_field(&text, "VmRSS:");
        ret->private_kb = read_field(&text, "RssAnon:");
    }
    ret->cpu_ms = read_cpu_ms(pid, &text);
}

/* The agent and its children, which are its samplers. */
static size_t list_family(pid_t agent, Use ret[PROCESSES_MAX])
{
    CLEANUP(str_done) Str text = str_limited(PROC_TEXT_MAX);
    CLEANUP(closedir_at) DIR *proc = opendir("/proc");
    const struct dirent *entry;
    size_t n = 0;

    read_use(agent, &ret[n++]);
    while (proc && n < PROCESSES_MAX && (entry = readdir(proc)) != NULL) {
        const pid_t pid = (pid_t)atoi(entry->d_name);

        if (pid > 0 && read_proc(pid, "status", &text) == 0 && read_field(&text, "PPid:") == (unsigned long long)agent)
            read_use(pid, &ret[n++]);
    }
    return n;
}

/* Waits, with a scrape a second where there is to be one; their times and the page's size go into the result. */
static void wait_scraping(const Real *real, uint64_t ms, bool scrape, json_t *result)
{
    const uint64_t start = clock_monotonic(clock_kernel());
    double most = 0, sum = 0;
    size_t bytes = 0;
    int n = 0;

    while (clock_monotonic(clock_kernel()) - start < ms * NS_PER_MS) {
        CLEANUP(str_done) Str page = str_limited(REAL_TEXT_MAX);
        const uint64_t asked = clock_monotonic(clock_kernel());
        double took;

        if (scrape && command_get_page(real->http, "/metrics", &page, NULL) == 0) {
            took = (double)(clock_monotonic(clock_kernel()) - asked) / 1e6;
            most = took > most ? took : most;
            sum += took;
            if (bytes == 0)
                command_save(real, "metrics.txt", &page, NULL);
            bytes = page.len;
            n++;
        }
        clock_sleep(clock_kernel(), NS_PER_S);
    }
    if (n > 0) {
        json_object_set_new(
            result, "scrape",
            json_pack("{s:i, s:f, s:f, s:i}", "count", n, "mean_ms", sum / n, "most_ms", most, "bytes", (int)bytes));
        real_add_line(result, "%d scrapes of %zu bytes: mean %.2f ms, longest %.2f ms", n, bytes, sum / n, most);
    }
}

static StepEnd measure_cost(const Real *real, const char *const *options, bool scrape, json_t *result, Err *err)
{
    Use before[PROCESSES_MAX], after[PROCESSES_MAX];
    CLEANUP(subproc_done) Subproc agent = {0};
    SubprocEnd end = {0};
    json_t *list = json_array();
    double percent = 0, seconds;
    unsigned long long rss = 0;
    size_t n, m;
    uint64_t start;

    json_object_set_new(result, "processes", list);
    if (command_start_agent(real, options, &agent, err) < 0)
        return STEP_FAILED;
    if (verbs_await_agent(real, result, err) != STEP_OK) {
        subproc_stop(&agent, 2000, &end, NULL);
        return STEP_FAILED;
    }
    clock_sleep(clock_kernel(), real_paced(real, SETTLE_MS) * NS_PER_MS);
    start = clock_monotonic(clock_kernel());
    n = list_family(agent.pid, before);
    wait_scraping(real, real_paced(real, MEASURE_MS), scrape, result);
    m = list_family(agent.pid, after);
    seconds = (double)(clock_monotonic(clock_kernel()) - start) / 1e9;
    for (size_t i = 0; i < m; i++)
        for (size_t k = 0; k < n; k++) {
            const double share = (after[i].cpu_ms - before[k].cpu_ms) / seconds / 10;

            if (after[i].pid != before[k].pid)
                continue;
            percent += share;
            rss += after[i].rss_kb;
            real_add_line(result, "%-16s %6.3f %% of a core, RSS %.1f MiB, of it private %.1f MiB", after[i].name,
                          share, (double)after[i].rss_kb / 1024, (double)after[i].private_kb / 1024);
            json_array_append_new(list,
                                  json_pack("{s:s, s:f, s:i, s:i}", "name", after[i].name, "core_percent", share,
                                            "rss_kb", (int)after[i].rss_kb, "private_kb", (int)after[i].private_kb));
        }
    subproc_stop(&agent, 2000, &end, NULL);
    if (json_array_size(list) < 2)
        return real_end(result, STEP_FAILED, "the agent or its sampler did not live through the %.0f s", seconds);
    return real_end(result, STEP_OK, "%.2f %% of a core and %.1f MiB for agent and sampler, over %.0f s", percent,
                    (double)rss / 1024, seconds);
}

StepEnd cost_of_1hz(const Real *real, json_t *result, Err *err)
{
    const char *options[] = {"--sample-fast", "1s", "--sample-normal", "1s", NULL};

    return measure_cost(real, options, false, result, err);
}

StepEnd cost_of_10hz(const Real *real, json_t *result, Err *err)
{
    const char *options[] = {"--sample-fast", "100ms", "--sample-normal", "100ms", NULL};

    return measure_cost(real, options, false, result, err);
}

StepEnd cost_as_shipped(const Real *real, json_t *result, Err *err)
{
    const char *options[] = {NULL};

    return measure_cost(real, options, true, result, err);
}
