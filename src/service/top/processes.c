/* SPDX-License-Identifier: Apache-2.0 */
/* The processes on all GPUs as rows: filtered, sorted, as a tree. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "service/top/inside.h"

const char *owner_label(const ProcessOwner *owner, char out[TOP_TEXT_CAP])
{
    out[0] = '\0';
    if (!owner)
        return out;
    if (owner->job[0])
        snprintf(out, TOP_TEXT_CAP, "job %s", owner->job);
    else if (owner->pod[0])
        snprintf(out, TOP_TEXT_CAP, "pod %.*s/%.*s", 40, owner->namespace, 48, owner->pod);
    else if (owner->pod_uid[0])
        snprintf(out, TOP_TEXT_CAP, "pod %s", owner->pod_uid);
    else if (owner->container[0])
        snprintf(out, TOP_TEXT_CAP, "%s %.12s", owner->runtime[0] ? owner->runtime : "container", owner->container);
    return out;
}

bool top_age(const Top *top, const ProcessOwner *owner, uint64_t *ret_ns)
{
    const uint64_t boot = top->snapshot->boot_real_ns, now = top->real_ns;

    if (!owner || boot == 0 || owner->start_ns == 0 || boot + owner->start_ns > now)
        return false;
    *ret_ns = now - boot - owner->start_ns;
    return true;
}

/* --- CPU ---------------------------------------------------------------------------------------------------------- */

static const CpuSeen *cpu_find(const CpuSeens *list, uint32_t pid)
{
    size_t low = 0, high = list->len;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (list->at[middle].pid == pid)
            return &list->at[middle];
        if (list->at[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Share of one CPU between the last two looks: owners come ordered by pid. */
void processes_cpu(Top *top)
{
    const CpuSeens before = top->cpu;
    const double elapsed = (double)top->real_ns - (double)top->cpu_real_ns;

    top->cpu = top->cpu_before;
    top->cpu_before = before;
    vec_clear(&top->cpu);
    for (size_t i = 0; i < top->snapshot->processes.len; i++) {
        const ProcessOwner *owner = &top->snapshot->processes.at[i];
        const CpuSeen *old = cpu_find(&before, owner->pid);
        CpuSeen cpu = {.pid = owner->pid, .start_ns = owner->start_ns, .cpu_ns = owner->cpu_ns, .percent = (double)NAN};

        if (old && old->start_ns == owner->start_ns && elapsed == 0)
            cpu.percent = old->percent;
        else if (old && old->start_ns == owner->start_ns && elapsed > 0 && owner->cpu_ns >= old->cpu_ns)
            cpu.percent = 100 * (double)(owner->cpu_ns - old->cpu_ns) / elapsed;
        vec_push(&top->cpu, cpu);
    }
    top->cpu_real_ns = top->real_ns;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void group_of(const Top *top, const NodeGpu *gpu, const ProcessOwner *owner, char out[TOP_TEXT_CAP])
{
    if (top->tree == TREE_GPU && gpu->reading.device.index != DEVICE_NO_NUMBER)
        snprintf(out, TOP_TEXT_CAP, "GPU %" PRIu32, gpu->reading.device.index);
    else if (top->tree == TREE_GPU)
        snprintf(out, TOP_TEXT_CAP, "GPU without a number");
    else if (!owner_label(owner, out)[0] && owner && owner->user[0])
        snprintf(out, TOP_TEXT_CAP, "user %s", owner->user);
    else if (!out[0])
        snprintf(out, TOP_TEXT_CAP, "nobody known");
}

static void add_process(Top *top, const NodeGpu *gpu, const NodeProcess *process)
{
    ProcessRow row = {.gpu = gpu,
                      .process = process,
                      .cpu_percent = (double)NAN,
                      .sm_percent = (double)NAN,
                      .used_bytes = (double)NAN};
    const CpuSeen *cpu = cpu_find(&top->cpu, process->pid);

    row.owner = process_list_find(&top->snapshot->processes, process->pid);
    if (cpu)
        row.cpu_percent = cpu->percent;
    if (process->sm_percent != UINT8_MAX)
        row.sm_percent = process->sm_percent;
    if (process->used_bytes != UINT64_MAX)
        row.used_bytes = (double)process->used_bytes;
    if (top->tree != TREE_NONE)
        group_of(top, gpu, row.owner, row.label);
    if (process_row_has(&row, top->filter))
        vec_push(&top->spare, row);
}

static int compare(const Top *top, uint32_t left, uint32_t right)
{
    const ProcessRow *a = &top->spare.at[left], *b = &top->spare.at[right];
    int order = strcmp(a->label, b->label);

    if (top->tree == TREE_GPU && a->gpu != b->gpu)
        order = a->gpu < b->gpu ? -1 : 1;
    if (order == 0) {
        order = process_column_compare(top->sort, a, b);
        if (process_column_down(top->sort) != top->reverse)
            order = -order;
    }
    if (order == 0)
        order = (a->process->pid > b->process->pid) - (a->process->pid < b->process->pid);
    return order ? order : (a->gpu > b->gpu) - (a->gpu < b->gpu);
}

/* Merges the two sorted runs from..middle and middle..end by way of the spare. */
static void merge(Top *top, size_t from, size_t middle, size_t end)
{
    uint32_t *at = top->order.at, *spare = top->order_spare.at;
    size_t left = from, right = middle;

    for (size_t i = from; i < end; i++)
        spare[i] = left < middle && (right >= end || compare(top, at[left], at[right]) <= 0) ? at[left++] : at[right++];
    memcpy(at + from, spare + from, (end - from) * sizeof *at);
}

/* A merge sort of our own: qsort may allocate. */
static void sort(Top *top)
{
    const size_t count = top->spare.len;

    vec_reserve(&top->order, count);
    vec_reserve(&top->order_spare, count);
    for (size_t i = 0; i < count; i++)
        top->order.at[i] = (uint32_t)i;
    for (size_t width = 1; width < count; width *= 2)
        for (size_t from = 0; from + width < count; from += 2 * width)
            merge(top, from, from + width, from + 2 * width < count ? from + 2 * width : count);
}

static double sum(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a + b;
}

static void add_sorted(Top *top)
{
    size_t group = SIZE_MAX;

    for (size_t i = 0; i < top->spare.len; i++) {
        ProcessRow row = top->spare.at[top->order.at[i]];

        if (top->tree != TREE_NONE && (group == SIZE_MAX || strcmp(top->processes.at[group].label, row.label) != 0)) {
            ProcessRow head = {.group = true,
                               .gpu = row.gpu,
                               .cpu_percent = (double)NAN,
                               .sm_percent = (double)NAN,
                               .used_bytes = (double)NAN};
            if (group != SIZE_MAX)
                top->processes.at[top->processes.len - 1].last = true;
            group = top->processes.len;
            memcpy(head.label, row.label, sizeof head.label);
            vec_push(&top->processes, head);
        }
        row.depth = top->tree != TREE_NONE;
        if (group != SIZE_MAX) {
            ProcessRow *head = &top->processes.at[group];
            head->members++;
            head->used_bytes = sum(head->used_bytes, row.used_bytes);
            head->sm_percent = sum(head->sm_percent, row.sm_percent);
        }
        vec_push(&top->processes, row);
    }
    if (top->processes.len > 0)
        top->processes.at[top->processes.len - 1].last = true;
}

static void find_cursor(Top *top)
{
    top->process_list.count = top->processes.len;
    if (top->process_thing.kind == THING_NONE)
        top->process_list.selected = 0;
    for (size_t i = 0; i < top->processes.len; i++) {
        const Thing thing = process_row_thing(&top->processes.at[i]);

        if (thing_equal(&thing, &top->process_thing)) {
            top->process_list.selected = i;
            return;
        }
    }
    list_move(&top->process_list, 0);
}

void processes_see(Top *top)
{
    const Node *node = top->snapshot->node;

    vec_clear(&top->processes);
    vec_clear(&top->spare);
    for (size_t i = 0; node && i < node->gpu_count; i++)
        for (size_t k = 0; k < node->gpus[i].process_count; k++)
            add_process(top, &node->gpus[i], &node->gpus[i].processes[k]);
    sort(top);
    add_sorted(top);
    find_cursor(top);
}

Thing process_row_thing(const ProcessRow *row)
{
    Thing thing = {.kind = row->group ? THING_GROUP : THING_PROCESS};

    if (row->group) {
        memcpy(thing.text, row->label, sizeof thing.text);
        return thing;
    }
    thing.device = row->gpu->reading.device;
    thing.pid = row->process->pid;
    thing.start_ns = row->owner ? row->owner->start_ns : 0;
    thing.gpu_instance = row->process->gpu_instance;
    thing.compute_instance = row->process->compute_instance;
    return thing;
}

bool process_row_has(const ProcessRow *row, const char *word)
{
    const ProcessOwner *owner = row->owner;
    char text[TOP_TEXT_CAP];

    if (!word[0] || text_has(row->label, word))
        return true;
    if (row->group)
        return false;
    snprintf(text, sizeof text, "%" PRIu32, row->process->pid);
    if (text_has(text, word))
        return true;
    snprintf(text, sizeof text, "GPU %" PRIu32, row->gpu->reading.device.index);
    if (text_has(text, word))
        return true;
    return owner && (text_has(owner->name, word) || text_has(owner->user, word) || text_has(owner->command, word) ||
                     text_has(owner_label(owner, text), word) || text_has(owner->container, word) ||
                     text_has(owner->namespace, word));
}
