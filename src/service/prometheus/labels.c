/* SPDX-License-Identifier: Apache-2.0 */
/* One set of labels: which a device has, their order, their text. Pure but for memory, one thread. */

#include "service/prometheus/labels.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "service/prometheus/escape.h"
#include "service/prometheus/label_list.h"
#include "service/prometheus/values.h"

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

static int order_by_name(const void *a, const void *b)
{
    return label_order(a, b, true);
}

static int order_by_group(const void *a, const void *b)
{
    return label_order(a, b, false);
}

void label_list_init(LabelList *list, Arena *arena, size_t most)
{
    *list = (LabelList){.arena = arena, .at = arena_calloc(arena, most, sizeof *list->at), .most = most};
}

void label_list_add(LabelList *list, LabelGroup group, unsigned views, const char *name, const char *value)
{
    if (!*value || list->len == list->most)
        return;
    for (size_t i = 0; i < list->len; i++)
        if (list->at[i].views & views && strcmp(list->at[i].name, name) == 0)
            return;
    list->at[list->len++] = (Label){
        .name = name,
        .value = arena_strdup(list->arena, value),
        .group = (uint8_t)group,
        .views = (uint8_t)views,
    };
}

void label_list_sort(LabelList *list, bool sorted)
{
    qsort(list->at, list->len, sizeof *list->at, sorted ? order_by_name : order_by_group);
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

const char *label_row_value(const LabelRow *row, const Reading *reading, Arena *arena)
{
    ReadingText text = reading_text_of(row->metric);
    char number[VALUE_TEXT_MAX + 1];
    double value;

    if (text != READING_TEXT_END)
        return reading->text[text];
    if (!sample_double(&reading->sample[row->metric], &value))
        return "";
    number[value_write_go(number, value)] = '\0';
    return arena_strdup(arena, number);
}

void label_list_device(LabelList *list, const LabelInput *input, const Node *node, const Reading *gpu,
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

void label_list_owner(LabelList *list, const ExporterConfig *config, const Owner *owner, bool shared)
{
    bool old = config->old_namespace;

    label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, old ? "pod_name" : "pod", owner->pod);
    label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, old ? "pod_namespace" : "namespace", owner->namespace);
    label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, old ? "container_name" : "container", owner->container);
    if (config->pod_uid || config->virtual_gpus)
        label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, "pod_uid", owner->pod_uid);
    if (shared || config->virtual_gpus)
        label_list_add(list, LABEL_ATTRIBUTE, LABELS_ALL_VIEWS, "vgpu", owner->device.replica);
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
