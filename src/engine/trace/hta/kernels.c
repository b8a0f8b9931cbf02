/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels by name. Where HTA joins the smaller ones as "others", it works its numbers out again over the
 * sums, for every row of that class. */
#include "engine/trace/hta/frame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Item {
    const char *name;
    int64_t duration;
} Item;

typedef VEC(HtaKernelRow) Kernels;

static const struct {
    HtaType type;
    const char *word;
} types[] = {{HTA_COMPUTATION, "COMPUTATION"}, {HTA_COMMUNICATION, "COMMUNICATION"}, {HTA_MEMORY, "MEMORY"}};

static int by_name(const void *a, const void *b)
{
    const Item *left = a, *right = b;
    int order = strcmp(left->name, right->name);

    if (order != 0)
        return order;
    return left->duration < right->duration ? -1 : left->duration > right->duration;
}

/* `items` have one name. */
static HtaKernelRow sum_up(const Item *items, size_t count)
{
    HtaKernelRow out = {.name = items[0].name, .min_ns = items[0].duration, .max_ns = items[count - 1].duration};
    double squares = 0, sum = 0;

    for (size_t i = 0; i < count; i++) {
        out.sum_ns = hta_sum(out.sum_ns, items[i].duration);
        sum += (double)items[i].duration;
    }
    out.mean_ns = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += ((double)items[i].duration - out.mean_ns) * ((double)items[i].duration - out.mean_ns);
    out.std_ns = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
    return out;
}

static void group(Item *items, size_t count, Kernels *ret)
{
    if (count)
        qsort(items, count, sizeof *items, by_name);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first; end < count && strcmp(items[end].name, items[first].name) == 0;)
            end++;
        vec_push(ret, sum_up(items + first, end - first));
    }
}

static int by_sum(const void *a, const void *b)
{
    const HtaKernelRow *left = a, *right = b;

    if (left->sum_ns != right->sum_ns)
        return left->sum_ns > right->sum_ns ? -1 : 1;
    return strcmp(left->name, right->name);
}

/* `kernels` by their sums, largest first. */
static void join_small(Kernels *kernels, const HtaOptions *options)
{
    VEC(Item) sums = {0};
    HtaNumbers running = {0};
    double total = 0, limit;

    for (size_t i = 0; i < kernels->len; i++) {
        total += (double)kernels->at[i].sum_ns;
        vec_push(&running, total);
    }
    limit = hta_quantile(running.at, running.len, options->duration_ratio);
    for (size_t i = 0; i < kernels->len; i++) {
        bool small = running.at[i] > limit || i >= options->kernel_count;
        vec_push(&sums, ((Item){small ? "others" : kernels->at[i].name, kernels->at[i].sum_ns}));
    }
    vec_clear(kernels);
    group(sums.at, sums.len, kernels);
    vec_done(&sums);
    vec_done(&running);
}

static void add_type(const HtaFrame *frame, size_t type, HtaReport *report)
{
    VEC(Item) items = {0};
    Kernels kernels = {0};

    for (size_t i = 0; i < frame->gpu.len; i++) {
        const HtaRow *row = hta_gpu(frame, i);
        const HtaName *name = &frame->rows->names.at[row->name];

        if (name->type == types[type].type)
            vec_push(&items, ((Item){name->text, row->duration}));
    }
    group(items.at, items.len, &kernels);
    if (kernels.len)
        qsort(kernels.at, kernels.len, sizeof *kernels.at, by_sum);
    if (kernels.len > report->options.kernel_count)
        join_small(&kernels, &report->options);
    for (size_t i = 0; i < kernels.len; i++) {
        HtaKernelRow *row = &kernels.at[i];

        row->type = types[type].word;
        row->rank = frame->rows->rank;
        row->name = arena_strdup(&report->arena, row->name);
        vec_push(&report->kernels, *row);
    }
    vec_done(&items);
    vec_done(&kernels);
}

void hta_kernels(const HtaFrame *frame, HtaReport *report)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        add_type(frame, i, report);
}
