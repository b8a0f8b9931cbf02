/* SPDX-License-Identifier: Apache-2.0 */
/* Which series there are (labels.h). Pure but for memory, one thread. */

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/owner.h"
#include "base/vec.h"
#include "service/prometheus/devices.h"
#include "service/prometheus/label_list.h"

enum { LABELS_BESIDE_ROWS = 16, BODY_MAX = 256 * 1024 };

typedef VEC(Target) TargetVec;

/* One making of the targets. */
typedef struct Maker {
    Targets *targets;
    const Node *node;
    const LabelInput *input;
    bool sorted;
    TargetVec series;
    Str text;
} Maker;

void targets_init(Targets *targets)
{
    memset(targets, 0, sizeof *targets);
}

void targets_done(Targets *targets)
{
    arena_done(&targets->arena);
    targets_init(targets);
}

/* ---- what they are made from ---- */

static uint64_t mark_text(uint64_t mark, const char *text)
{
    return map_hash(text, strlen(text) + 1, mark);
}

static uint64_t mark_number(uint64_t mark, uint64_t number)
{
    return map_hash(&number, sizeof number, mark);
}

static uint64_t mark_gpu(uint64_t mark, const NodeGpu *gpu, const LabelInput *input)
{
    const Device *device = &gpu->reading.device;

    mark = mark_number(mark, (uint64_t)device->index << 32 | device->minor);
    mark = mark_number(mark, (uint64_t)device->has_pci << 63 | (uint64_t)device->pci.domain << 24 |
                                 (uint64_t)device->pci.bus << 16 | (uint64_t)device->pci.device << 8 |
                                 device->pci.function);
    mark = mark_text(mark_text(mark, device->uuid), device->name);
    for (size_t i = 0; i < input->row_count; i++) {
        ReadingText text = reading_text_of(input->rows[i].metric);
        double value = 0;

        if (text != READING_TEXT_END)
            mark = mark_text(mark, gpu->reading.text[text]);
        else if (sample_double(&gpu->reading.sample[input->rows[i].metric], &value))
            mark = map_hash(&value, sizeof value, mark);
    }
    mark = mark_number(mark, gpu->instance_count);
    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Reading *instance = &gpu->instances[i];

        mark = mark_number(mark, (uint64_t)instance->device.gpu_instance << 32 | instance->device.compute_instance);
        mark = mark_number(mark, instance->instance_head);
        mark = mark_text(mark_text(mark, instance->device.uuid), instance->profile);
    }
    return mark;
}

static uint64_t mark_owner(uint64_t mark, const Owner *owner)
{
    mark = mark_text(mark_text(mark, owner->device.uuid), owner->device.replica);
    mark = mark_number(mark, (uint64_t)owner->device.gpu_instance << 32 | owner->device.compute_instance);
    mark = mark_number(mark, owner->device.minor);
    mark = mark_text(mark_text(mark, owner->pod), owner->namespace);
    return mark_text(mark_text(mark, owner->container), owner->pod_uid);
}

static uint64_t mark_all(const Node *node, const LabelInput *input)
{
    uint64_t mark = mark_text(node->gpu_count, node->hostname);

    for (size_t i = 0; i < node->gpu_count; i++)
        mark = mark_gpu(mark, &node->gpus[i], input);
    for (size_t i = 0; input->owners && i < input->owners->len; i++)
        mark = mark_owner(mark, &input->owners->at[i]);
    mark = mark_number(mark, input->owners ? input->owners->len : 0);
    for (size_t i = 0; i < input->job_count; i++) {
        mark = mark_number(mark, (uint64_t)input->jobs[i].gpu << 32 | input->jobs[i].instance);
        mark = mark_text(mark, input->jobs[i].job);
    }
    return mark;
}

/* ---- making ---- */

static void render_labels(Maker *maker, Target *target)
{
    ExporterProfile profile = maker->input->config->profile;

    for (LabelView view = 0; view < LABELS_END; view++) {
        if ((view == LABELS_CLASSIC && profile == EXPORTER_4_9) ||
            (view == LABELS_NEWER && profile != EXPORTER_4_9 && profile != EXPORTER_BOTH))
            continue;
        str_clear(&maker->text);
        labels_render(&maker->text, target->labels, target->label_count, view, maker->sorted, NULL, 0);
        target->body[view].text = arena_strndup(&maker->targets->arena, maker->text.text, maker->text.len);
        target->body[view].len = maker->text.len;
    }
}

/* Labels of `target`, which knows its device, with an owner and a job, each NULL where there is none. */
static void make_labels(Maker *maker, Target *target, const Owner *owner, bool shared, const char *job)
{
    const NodeGpu *gpu = &maker->node->gpus[target->gpu];
    const Reading *instance = target->instance == TARGET_WHOLE_GPU ? NULL : &gpu->instances[target->instance];
    LabelList list;

    label_list_init(&list, &maker->targets->arena, LABELS_BESIDE_ROWS + 2 * maker->input->row_count);
    label_list_device(&list, maker->input, maker->node, &gpu->reading, instance);
    if (owner)
        label_list_owner(&list, maker->input->config, owner, shared);
    if (job)
        label_list_add(&list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, "hpc_job", job);
    label_list_sort(&list, maker->sorted);
    target->labels = list.at;
    target->label_count = list.len;
    render_labels(maker, target);
}

/* Whether an owner has the target's device; of a GPU instance, any of its compute instances. */
static bool is_owner_of(const Owner *owner, const NodeGpu *gpu, const Target *target)
{
    uint32_t id;

    if (target->instance == TARGET_WHOLE_GPU)
        return owner_device_is(&owner->device, &gpu->reading, NULL);
    id = gpu->instances[target->instance].device.gpu_instance;
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].device.gpu_instance == id &&
            owner_device_is(&owner->device, &gpu->reading, &gpu->instances[i]))
            return true;
    return false;
}

static bool runs_on(const ExporterJob *job, const NodeGpu *gpu, const Target *target)
{
    if (job->gpu != gpu->reading.device.index)
        return false;
    if (job->instance == DEVICE_NO_NUMBER)
        return true;
    return target->instance != TARGET_WHOLE_GPU &&
           gpu->instances[target->instance].device.gpu_instance == job->instance;
}

static void add_jobs(Maker *maker, Target target, const Owner *owner, bool shared)
{
    const NodeGpu *gpu = &maker->node->gpus[target.gpu];
    size_t before = maker->series.len;

    for (size_t i = 0; i < maker->input->job_count; i++)
        if (runs_on(&maker->input->jobs[i], gpu, &target)) {
            make_labels(maker, &target, owner, shared, maker->input->jobs[i].job);
            vec_push(&maker->series, target);
        }
    if (maker->series.len > before)
        return;
    make_labels(maker, &target, owner, shared, NULL);
    vec_push(&maker->series, target);
}

static void add_owners(Maker *maker, Target target)
{
    const OwnerTable *owners = maker->input->config->kubernetes ? maker->input->owners : NULL;
    const NodeGpu *gpu = &maker->node->gpus[target.gpu];
    size_t count = 0;

    for (size_t i = 0; owners && i < owners->len; i++)
        count += is_owner_of(&owners->at[i], gpu, &target);
    if (!count)
        add_jobs(maker, target, NULL, false);
    for (size_t i = 0; count && i < owners->len; i++)
        if (is_owner_of(&owners->at[i], gpu, &target))
            add_jobs(maker, target, &owners->at[i], count > 1);
}

static void add_gpu(Maker *maker, size_t at)
{
    const NodeGpu *gpu = &maker->node->gpus[at];
    const ExporterDevices *devices = &maker->input->config->devices;
    Target target = {.gpu = at, .instance = TARGET_WHOLE_GPU, .derives = devices_derive(devices, gpu)};

    target.shown = devices_show(devices, gpu, NULL);
    if (target.shown || target.derives)
        add_owners(maker, target);
    for (size_t i = 0; i < gpu->instance_count; i++) {
        target = (Target){.gpu = at, .instance = (ptrdiff_t)i, .shown = true};
        if (gpu->instances[i].instance_head && devices_show(devices, gpu, &gpu->instances[i]))
            add_owners(maker, target);
    }
}

/* Prometheus' own order: fewer labels first, then by values. */
static int series_order(const void *a, const void *b)
{
    const Target *one = a, *two = b;
    int order = 0;

    if (one->label_count != two->label_count)
        return one->label_count < two->label_count ? -1 : 1;
    for (size_t i = 0; i < one->label_count && order == 0; i++) {
        order = strcmp(one->labels[i].name, two->labels[i].name);
        if (order == 0)
            order = strcmp(one->labels[i].value, two->labels[i].value);
    }
    return order;
}

/* Two series with the same labels make a page that nobody can read: the later one goes. Our own labels are part of all
 * others, so that it is enough to compare these. */
static size_t drop_equal(Target *targets, size_t count)
{
    Map seen;
    size_t kept = 0;

    map_init(&seen);
    for (size_t i = 0; i < count; i++) {
        Target *target = &targets[i];

        if (!map_putn(&seen, target->body[LABELS_OWN].text, target->body[LABELS_OWN].len, target))
            targets[kept++] = *target;
    }
    map_done(&seen);
    return kept;
}

static void make_gpus(Maker *maker)
{
    Targets *targets = maker->targets;

    targets->node_gpus = maker->node->gpu_count;
    targets->gpus = arena_calloc(&targets->arena, targets->node_gpus, sizeof *targets->gpus);
    for (size_t i = 0; i < targets->node_gpus; i++) {
        targets->gpus[i] = (Target){.gpu = i, .instance = TARGET_WHOLE_GPU};
        make_labels(maker, &targets->gpus[i], NULL, false, NULL);
    }
    targets->gpu_count = drop_equal(targets->gpus, targets->node_gpus);
}

bool targets_update(Targets *targets, const Node *node, const LabelInput *input)
{
    Maker maker = {.targets = targets, .node = node, .input = input, .sorted = labels_sorted(input->config->profile)};
    uint64_t mark = mark_all(node, input);

    if (targets->made && mark == targets->mark)
        return false;
    arena_reset(&targets->arena);
    str_init(&maker.text, BODY_MAX);
    for (size_t i = 0; i < node->gpu_count; i++)
        add_gpu(&maker, i);
    if (maker.sorted && maker.series.len)
        qsort(maker.series.at, maker.series.len, sizeof *maker.series.at, series_order);
    make_gpus(&maker);
    targets->series_count = drop_equal(maker.series.at, maker.series.len);
    targets->series = arena_calloc(&targets->arena, targets->series_count, sizeof *targets->series);
    for (size_t i = 0; i < targets->series_count; i++)
        targets->series[i] = maker.series.at[i];
    targets->mark = mark;
    targets->made = true;
    vec_done(&maker.series);
    str_done(&maker.text);
    return true;
}
