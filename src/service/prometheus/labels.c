/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices have series (dcgm-exporter's selector), under which labels, in which order, as text. Pure but for
 * memory, one thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "service/prometheus/labels.h"

enum { GPU_ID_MAX = 63, INSTANCE_ID_MAX = 255, DRA_LABELS = 7 };

static int refuse_selector(const char *text, Err *err)
{
    return err_set(err, -EINVAL, "'%s' selects no devices: use f, g, i, g:0,2-4, i:7, i:0.7 or two of them as g:0+i:7",
                   text);
}

/* Reads digits from *at; false where there are none or too many. */
static bool parse_number(const char **at, uint64_t max, uint32_t *ret)
{
    size_t len = strspn(*at, "0123456789");
    uint64_t value;

    if (!len || number_parsen_u64(*at, len, 0, max, &value, NULL) < 0)
        return false;
    *at += len;
    *ret = (uint32_t)value;
    return true;
}

/* N, N-M and, of instances, G.N and G.N-M. */
static bool parse_range(const char **at, ExporterDevices *devices, bool instances)
{
    uint32_t gpu = DEVICE_NO_NUMBER, first, last;

    if (!parse_number(at, instances ? INSTANCE_ID_MAX : GPU_ID_MAX, &first))
        return false;
    if (instances && **at == '.') {
        (*at)++;
        gpu = first;
        if (gpu > GPU_ID_MAX || !parse_number(at, INSTANCE_ID_MAX, &first))
            return false;
    }
    last = first;
    if (**at == '-') {
        (*at)++;
        if (!parse_number(at, instances ? INSTANCE_ID_MAX : GPU_ID_MAX, &last) || last < first)
            return false;
    }
    for (uint32_t id = first; id <= last; id++) {
        if (!instances) {
            devices->gpu_ids |= UINT64_C(1) << id;
        } else {
            if (devices->instance_id_count == ARRAY_LEN(devices->instance_ids))
                return false;
            devices->instance_ids[devices->instance_id_count].gpu = gpu;
            devices->instance_ids[devices->instance_id_count++].instance = id;
        }
    }
    return true;
}

/* One of the parts between '+'. */
static bool parse_part(const char **at, ExporterDevices *devices)
{
    bool instances = **at == 'i';
    bool *kind = instances ? &devices->instances : &devices->gpus;

    if ((**at != 'g' && !instances) || *kind)
        return false;
    *kind = true;
    if (*++*at != ':')
        return true;
    do {
        (*at)++;
        if (!parse_range(at, devices, instances))
            return false;
    } while (**at == ',');
    return true;
}

int exporter_devices_parse(const char *text, ExporterDevices *ret, Err *err)
{
    ExporterDevices devices = {0};
    const char *at = text;

    if (strcmp(text, "f") == 0) {
        devices.flex = true;
        *ret = devices;
        return 0;
    }
    if (!parse_part(&at, &devices))
        return refuse_selector(text, err);
    if (*at == '+') {
        at++;
        if (!parse_part(&at, &devices))
            return refuse_selector(text, err);
    }
    if (*at)
        return refuse_selector(text, err);
    *ret = devices;
    return 0;
}

static bool has_instances(const NodeGpu *gpu)
{
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].instance_head)
            return true;
    return false;
}

static bool wants_instance(const ExporterDevices *devices, uint32_t gpu, uint32_t instance)
{
    if (!devices->instance_id_count)
        return true;
    for (size_t i = 0; i < devices->instance_id_count; i++) {
        uint32_t of = devices->instance_ids[i].gpu;

        if (devices->instance_ids[i].instance == instance && (of == DEVICE_NO_NUMBER || of == gpu))
            return true;
    }
    return false;
}

static bool node_has(const Node *node, uint32_t gpu, uint32_t instance)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *at = &node->gpus[i];

        if (gpu != DEVICE_NO_NUMBER && at->reading.device.index != gpu)
            continue;
        if (instance == DEVICE_NO_NUMBER)
            return true;
        for (size_t k = 0; k < at->instance_count; k++)
            if (at->instances[k].device.gpu_instance == instance)
                return true;
    }
    return false;
}

void exporter_devices_add_missing(const ExporterDevices *devices, const Node *node, Str *out)
{
    for (uint32_t gpu = 0; gpu <= GPU_ID_MAX; gpu++)
        if (devices->gpu_ids >> gpu & 1 && !node_has(node, gpu, DEVICE_NO_NUMBER))
            str_addf(out, "%sGPU %" PRIu32, out->len ? ", " : "", gpu);
    for (size_t i = 0; i < devices->instance_id_count; i++) {
        const uint32_t gpu = devices->instance_ids[i].gpu, instance = devices->instance_ids[i].instance;

        if (node_has(node, gpu, instance))
            continue;
        str_addf(out, "%sinstance %" PRIu32, out->len ? ", " : "", instance);
        if (gpu != DEVICE_NO_NUMBER)
            str_addf(out, " of GPU %" PRIu32, gpu);
    }
}

/* Whether this GPU (instance NULL) or GPU instance has series. */
static bool devices_show(const ExporterDevices *devices, const NodeGpu *gpu, const Reading *instance)
{
    uint32_t index = gpu->reading.device.index;

    if (devices->flex)
        return instance || !has_instances(gpu);
    if (instance)
        return devices->instances && wants_instance(devices, index, instance->device.gpu_instance);
    if (!devices->gpus)
        return false;
    return !devices->gpu_ids || (index <= GPU_ID_MAX && devices->gpu_ids >> index & 1);
}

/* Whether DCGM_EXP_ series, which belong to GPUs, are shown for this one: it is shown, or an instance of it. */
static bool devices_derive(const ExporterDevices *devices, const NodeGpu *gpu)
{
    if (devices->flex || devices_show(devices, gpu, NULL))
        return true;
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (devices_show(devices, gpu, &gpu->instances[i]))
            return true;
    return false;
}

/* Gathering the labels of one target. */
typedef struct LabelList {
    Arena *arena;
    Label *at; /* in order */
    size_t len, most;
    bool sorted; /* by name */
} LabelList;

bool labels_sorted(ExporterProfile profile)
{
    return profile != EXPORTER_4_8_2;
}

static int label_order(const Label *a, const Label *b, bool sorted)
{
    if (!sorted && a->group != b->group)
        return (int)a->group - (int)b->group;
    return strcmp(a->name, b->name);
}

/* Leaves out a label with an empty value, or whose name is taken in one of its views. */
static void label_list_add(LabelList *list, LabelGroup group, unsigned views, const char *name, const char *value)
{
    if (!*value || list->len == list->most)
        return;
    for (size_t i = 0; i < list->len; i++)
        if (list->at[i].views & views && strcmp(list->at[i].name, name) == 0)
            return;
    Label label = {
        .name = name, .value = arena_strdup(list->arena, value), .group = (uint8_t)group, .views = (uint8_t)views};
    size_t at = list->len++;

    for (; at > 0 && label_order(&label, &list->at[at - 1], list->sorted) < 0; at--)
        list->at[at] = list->at[at - 1];
    list->at[at] = label;
}

/* As dcgm-exporter does it: runs of blanks become one '-'. */
static const char *model_name(Arena *arena, const char *name, bool replace_blanks)
{
    char *text, *to;

    if (!replace_blanks)
        return name;
    to = text = arena_strdup(arena, name + strspn(name, " \t"));
    for (const char *from = text; *from; from++) {
        if (*from != ' ' && *from != '\t')
            *to++ = *from;
        else if (from[1] && from[1] != ' ' && from[1] != '\t')
            *to++ = '-';
    }
    *to = '\0';
    return text;
}

/* The text of a label row for this GPU; "" where there is none. */
static const char *label_row_value(const LabelRow *row, const Reading *reading, Arena *arena)
{
    ReadingText text = reading_text_of(row->metric);
    char number[NUMBER_DOUBLE_MAX + 1];
    double value;

    if (text != READING_TEXT_END)
        return reading->text[text];
    if (!sample_double(&reading->sample[row->metric], &value))
        return "";
    number[number_write_go(number, value)] = '\0';
    return arena_strdup(arena, number);
}

static void label_list_device(LabelList *list, const LabelInput *input, const Node *node, const Reading *gpu,
                              const Reading *instance)
{
    const ExporterConfig *config = input->config;
    const Device *device = &gpu->device;
    bool classic_case = config->profile == EXPORTER_4_8_2;
    char text[PCI_TEXT_CAP];

    if (device->index != DEVICE_NO_NUMBER) {
        label_list_add(list, LABEL_GPU, LABELS_ALL_VIEWS, "gpu", arena_printf(list->arena, "%" PRIu32, device->index));
        label_list_add(list, LABEL_DEVICE, LABELS_ALL_VIEWS, "device",
                       arena_printf(list->arena, "nvidia%" PRIu32, device->index));
    }
    label_list_add(list, LABEL_UUID, LABELS_ALL_VIEWS, config->old_namespace ? "uuid" : "UUID", device->uuid);
    if (device->has_pci)
        label_list_add(list, LABEL_BUS_ID, LABELS_ALL_VIEWS, "pci_bus_id",
                       pci_format(device->pci, PCI_FORM_NVML, text));
    label_list_add(list, LABEL_MODEL, LABELS_DCGM_VIEWS, "modelName",
                   model_name(list->arena, device->name, config->replace_blanks));
    if (instance) {
        label_list_add(list, LABEL_PROFILE, LABELS_ALL_VIEWS, "GPU_I_PROFILE", instance->profile);
        label_list_add(list, LABEL_INSTANCE, LABELS_ALL_VIEWS, "GPU_I_ID",
                       arena_printf(list->arena, "%" PRIu32, instance->device.gpu_instance));
    }
    if (!config->no_hostname)
        label_list_add(list, LABEL_HOSTNAME, LABELS_ALL_VIEWS, classic_case ? "Hostname" : "hostname", node->hostname);
    for (size_t i = 0; i < input->row_count; i++) {
        const LabelRow *row = &input->rows[i];
        const char *value = label_row_value(row, gpu, list->arena);

        label_list_add(list, LABEL_ROW, 1 << LABELS_CLASSIC, row->name, value);
        label_list_add(list, LABEL_ROW, 1 << LABELS_NEWER, row->newer_name, value);
    }
}

/* dcgm-exporter's labels of a link differ from those of its GPU. */
static void label_list_link(LabelList *list, const LabelInput *input, const Node *node, const Device *device,
                            uint32_t link)
{
    const ExporterConfig *config = input->config;
    char text[PCI_TEXT_CAP];

    label_list_add(list, LABEL_LINK, LABELS_ALL_VIEWS, "nvlink", arena_printf(list->arena, "%" PRIu32, link + 1));
    if (device->index != DEVICE_NO_NUMBER) {
        label_list_add(list, LABEL_GPU, LABELS_ALL_VIEWS, "gpu", arena_printf(list->arena, "%" PRIu32, device->index));
        label_list_add(list, LABEL_DEVICE, LABELS_ALL_VIEWS, "device",
                       arena_printf(list->arena, "nvidia%" PRIu32, device->index));
    }
    label_list_add(list, LABEL_UUID, LABELS_ALL_VIEWS, "gpu_uuid", device->uuid);
    if (device->has_pci)
        label_list_add(list, LABEL_BUS_ID, LABELS_ALL_VIEWS, "pci_bus_id",
                       pci_format(device->pci, PCI_FORM_NVML, text));
    label_list_add(list, LABEL_MODEL, LABELS_ALL_VIEWS, "model_name",
                   model_name(list->arena, device->name, config->replace_blanks));
    if (!config->no_hostname)
        label_list_add(list, LABEL_HOSTNAME, LABELS_ALL_VIEWS,
                       config->profile == EXPORTER_4_8_2 ? "Hostname" : "hostname", node->hostname);
}

static void label_list_claim(LabelList *list, const Allocation *owner)
{
    const AllocationClaim *claim = &owner->claim;
    const struct {
        const char *name, *value;
    } labels[DRA_LABELS] = {
        {"dra_claim_name", claim->name},
        {"dra_claim_namespace", claim->namespace},
        {"dra_driver_name", claim->driver},
        {"dra_pool_name", claim->pool},
        {"dra_device_name", claim->device},
        {"dra_mig_profile", claim->profile},
        {"dra_mig_device_uuid", *claim->profile ? owner->device.uuid : ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(labels); i++)
        label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, labels[i].name, labels[i].value);
}

static void label_list_owner(LabelList *list, const ExporterConfig *config, const Allocation *owner, bool shared)
{
    bool old = config->old_namespace;

    label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, old ? "pod_name" : "pod", owner->pod);
    label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, old ? "pod_namespace" : "namespace", owner->namespace);
    label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, old ? "container_name" : "container", owner->container);
    if (config->pod_uid || config->virtual_gpus)
        label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, "pod_uid", owner->pod_uid);
    if (shared || config->virtual_gpus)
        label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, "vgpu", owner->device.replica);
    if (*owner->claim.name)
        label_list_claim(list, owner);
    for (size_t i = 0; i < owner->label_count; i++)
        label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, owner->labels[i].name, owner->labels[i].value);
}

void escape_add(Str *out, const char *text, EscapeKind kind)
{
    static const char *const escapes[][STR_ESCAPES] = {
        [ESCAPE_VALUE] = {['\\'] = "\\\\", ['\n'] = "\\n", ['"'] = "\\\""},
        [ESCAPE_HELP] = {['\\'] = "\\\\", ['\n'] = "\\n"},
    };

    str_add_escaped(out, text, NULL, escapes[kind]);
}

static void render_one(Str *out, const Label *label, bool *first)
{
    if (!*first)
        str_addc(out, ',');
    *first = false;
    str_add(out, label->name);
    str_add(out, "=\"");
    escape_add(out, label->value, ESCAPE_VALUE);
    str_addc(out, '"');
}

void labels_render(Str *out, const Label *labels, size_t count, LabelView view, bool sorted, const Label *extra,
                   size_t extra_count)
{
    size_t e = 0;
    bool first = true;

    str_addc(out, '{');
    for (size_t i = 0; i < count; i++) {
        if (!(labels[i].views & 1u << view))
            continue;
        while (e < extra_count && label_order(&extra[e], &labels[i], sorted) < 0)
            render_one(out, &extra[e++], &first);
        render_one(out, &labels[i], &first);
    }
    while (e < extra_count)
        render_one(out, &extra[e++], &first);
    str_add(out, "} ");
}

enum { LABELS_BESIDE_ROWS = 16 + DRA_LABELS, LABELS_OF_LINK = 8, BODY_MAX = 256 * 1024 };

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
    mark = mark_number(mark, (uint64_t)device->has_pci << 63 | (uint64_t)pci_pack(device->pci));
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
    mark = mark_number(mark, input->links ? gpu->link_count : 0);
    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Reading *instance = &gpu->instances[i];

        mark = mark_number(mark, (uint64_t)instance->device.gpu_instance << 32 | instance->device.compute_instance);
        mark = mark_number(mark, instance->instance_head);
        mark = mark_text(mark_text(mark, instance->device.uuid), instance->profile);
    }
    return mark;
}

static uint64_t mark_owner(uint64_t mark, const Allocation *owner)
{
    const AllocationClaim *claim = &owner->claim;

    mark = map_hash(&owner->device, sizeof owner->device, mark);
    mark = mark_text(mark_text(mark, owner->pod), owner->namespace);
    mark = mark_text(mark_text(mark, owner->container), owner->pod_uid);
    mark = mark_text(mark_text(mark_text(mark, claim->namespace), claim->name), claim->driver);
    mark = mark_text(mark_text(mark_text(mark, claim->pool), claim->device), claim->profile);
    mark = mark_number(mark, owner->label_count);
    for (size_t i = 0; i < owner->label_count; i++)
        mark = mark_text(mark_text(mark, owner->labels[i].name), owner->labels[i].value);
    return mark;
}

static uint64_t mark_all(const Node *node, const LabelInput *input)
{
    uint64_t mark = mark_text(node->gpu_count, node->hostname);

    for (size_t i = 0; i < node->gpu_count; i++)
        mark = mark_gpu(mark, &node->gpus[i], input);
    for (size_t i = 0; input->allocations && i < input->allocations->len; i++)
        mark = mark_owner(mark, &input->allocations->at[i]);
    mark = mark_number(mark, input->allocations ? input->allocations->len : 0);
    for (size_t i = 0; i < input->job_count; i++) {
        mark = mark_number(mark, (uint64_t)input->jobs[i].gpu << 32 | input->jobs[i].gpu_instance);
        mark = mark_text(mark, input->jobs[i].job);
    }
    return mark | 1;
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

/* Makes the labels of `target` for an owner and a job, each NULL for none. */
static void make_labels(Maker *maker, Target *target, const Allocation *owner, bool shared, const char *job)
{
    const NodeGpu *gpu = &maker->node->gpus[target->gpu];
    const Reading *instance = target->instance == TARGET_WHOLE_GPU ? NULL : &gpu->instances[target->instance];
    Arena *arena = &maker->targets->arena;
    LabelList list = {.arena = arena,
                      .most = LABELS_BESIDE_ROWS + 2 * maker->input->row_count + (owner ? owner->label_count : 0),
                      .sorted = maker->sorted};

    list.at = arena_calloc(arena, list.most, sizeof *list.at);
    label_list_device(&list, maker->input, maker->node, &gpu->reading, instance);
    if (owner)
        label_list_owner(&list, maker->input->config, owner, shared);
    if (job)
        label_list_add(&list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, "hpc_job", job);
    target->labels = list.at;
    target->label_count = list.len;
    render_labels(maker, target);
}

/* Whether an owner has the target's device; of a GPU instance, any of its compute instances. */
static bool is_owner_of(const Allocation *owner, const NodeGpu *gpu, const Target *target)
{
    uint32_t id;

    if (target->instance == TARGET_WHOLE_GPU)
        return allocation_device_is(&owner->device, &gpu->reading, NULL);
    id = gpu->instances[target->instance].device.gpu_instance;
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].device.gpu_instance == id &&
            allocation_device_is(&owner->device, &gpu->reading, &gpu->instances[i]))
            return true;
    return false;
}

static bool runs_on(const JobAllocation *job, const NodeGpu *gpu, const Target *target)
{
    if (job->gpu != gpu->reading.device.index)
        return false;
    if (job->gpu_instance == DEVICE_NO_NUMBER)
        return true;
    return target->instance != TARGET_WHOLE_GPU &&
           gpu->instances[target->instance].device.gpu_instance == job->gpu_instance;
}

static void add_jobs(Maker *maker, Target target, const Allocation *owner, bool shared)
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

static bool is_same_owner(const Allocation *a, const Allocation *b)
{
    return strcmp(a->pod, b->pod) == 0 && strcmp(a->namespace, b->namespace) == 0 &&
           strcmp(a->container, b->container) == 0;
}

/* What tells the part of this one of several owners from those of the others. */
static void set_sharer(Maker *maker, Target *target, const Allocation *owner)
{
    const AllocationTable *allocations = maker->input->allocations;
    const NodeGpu *gpu = &maker->node->gpus[target->gpu];
    Arena *arena = &maker->targets->arena;

    target->pod = arena_strdup(arena, owner->pod);
    target->namespace = arena_strdup(arena, owner->namespace);
    target->container = arena_strdup(arena, owner->container);
    target->replicas = 0;
    for (size_t i = 0; i < allocations->len; i++)
        target->replicas += is_same_owner(&allocations->at[i], owner) && is_owner_of(&allocations->at[i], gpu, target);
}

static void add_owners(Maker *maker, Target target)
{
    const AllocationTable *allocations = maker->input->config->kubernetes ? maker->input->allocations : NULL;
    const NodeGpu *gpu = &maker->node->gpus[target.gpu];
    size_t count = 0;

    for (size_t i = 0; allocations && i < allocations->len; i++)
        count += is_owner_of(&allocations->at[i], gpu, &target);
    if (!count)
        add_jobs(maker, target, NULL, false);
    for (size_t i = 0; count && i < allocations->len; i++) {
        if (!is_owner_of(&allocations->at[i], gpu, &target))
            continue;
        if (count > 1)
            set_sharer(maker, &target, &allocations->at[i]);
        add_jobs(maker, target, &allocations->at[i], count > 1);
    }
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

/* Two series with the same labels make the page invalid: drops the later one. Our own labels are part of all others, so
 * comparing these is enough. */
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

static void make_links(Maker *maker)
{
    const ExporterConfig *config = maker->input->config;
    Targets *targets = maker->targets;
    TargetVec links = {0};

    for (size_t g = 0; maker->input->links && g < maker->node->gpu_count; g++) {
        const NodeGpu *gpu = &maker->node->gpus[g];
        const Device *device = &gpu->reading.device;

        for (uint32_t i = 0; devices_derive(&config->devices, gpu) && i < gpu->link_count; i++) {
            Target target = {.gpu = g, .instance = TARGET_WHOLE_GPU, .link = i, .shown = true};
            LabelList list = {.arena = &targets->arena, .most = LABELS_OF_LINK, .sorted = maker->sorted};

            if (!config->links.flex &&
                (!config->links.instances || !wants_instance(&config->links, device->index, i + 1)))
                continue;
            list.at = arena_calloc(&targets->arena, list.most, sizeof *list.at);
            label_list_link(&list, maker->input, maker->node, device, i);
            target.labels = list.at;
            target.label_count = list.len;
            render_labels(maker, &target);
            vec_push(&links, target);
        }
    }
    if (maker->sorted)
        vec_sort(&links, series_order);
    targets->link_count = drop_equal(links.at, links.len);
    targets->links = arena_calloc(&targets->arena, targets->link_count, sizeof *targets->links);
    if (targets->link_count)
        memcpy(targets->links, links.at, targets->link_count * sizeof *targets->links);
    vec_done(&links);
}

void targets_update(Targets *targets, const Node *node, const LabelInput *input)
{
    Maker maker = {.targets = targets, .node = node, .input = input, .sorted = labels_sorted(input->config->profile)};
    uint64_t mark = mark_all(node, input);

    if (mark == targets->mark)
        return;
    arena_reset(&targets->arena);
    str_init(&maker.text, BODY_MAX);
    for (size_t i = 0; i < node->gpu_count; i++)
        add_gpu(&maker, i);
    if (maker.sorted)
        vec_sort(&maker.series, series_order);
    make_gpus(&maker);
    make_links(&maker);
    targets->series_count = drop_equal(maker.series.at, maker.series.len);
    targets->series = arena_calloc(&targets->arena, targets->series_count, sizeof *targets->series);
    if (targets->series_count)
        memcpy(targets->series, maker.series.at, targets->series_count * sizeof *targets->series);
    targets->mark = mark;
    vec_done(&maker.series);
    str_done(&maker.text);
}
