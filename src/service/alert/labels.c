/* SPDX-License-Identifier: Apache-2.0 */
#include "service/alert/config.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

void alert_labels_set(AlertLabels *labels, const char *name, const char *value)
{
    size_t i = 0;

    while (i < labels->len && strcmp(labels->at[i].name, name) < 0)
        i++;
    const bool there = i < labels->len && !strcmp(labels->at[i].name, name);
    if (there && !*value) {
        labels->len--;
        memmove(&labels->at[i], &labels->at[i + 1], (labels->len - i) * sizeof(labels->at[0]));
    } else if (there) {
        labels->at[i].value = value;
    } else if (*value && labels->len < ALERT_LABELS_MAX) {
        memmove(&labels->at[i + 1], &labels->at[i], (labels->len - i) * sizeof(labels->at[0]));
        labels->at[i] = (AlertLabel){name, value};
        labels->len++;
    }
}

const char *alert_labels_get(const AlertLabels *labels, const char *name)
{
    for (size_t i = 0; i < labels->len; i++)
        if (!strcmp(labels->at[i].name, name))
            return labels->at[i].value;
    return "";
}

bool alert_label_name_fits(const char *name)
{
    size_t len = strlen(name);

    if (!len || len > ALERT_LABEL_NAME_MAX || isdigit((unsigned char)*name))
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_')
            return false;
    return true;
}

void alert_labels_json(const AlertLabels *labels, Str *out)
{
    str_addc(out, '{');
    for (size_t i = 0; i < labels->len; i++) {
        if (i)
            str_addc(out, ',');
        str_add_json(out, labels->at[i].name);
        str_addc(out, ':');
        str_add_json(out, labels->at[i].value);
    }
    str_addc(out, '}');
}

/* "gpu-lost" -> "GpuLost" */
static void alert_name(const char *class, char out[ALERT_NAME_CAP])
{
    size_t len = 0;
    bool start = true;

    for (; *class; class ++) {
        if (!isalnum((unsigned char)*class)) {
            start = true;
            continue;
        }
        out[len++] = (char)(start ? toupper((unsigned char)*class) : *class);
        start = false;
    }
    out[len] = '\0';
}

static void set_number(AlertLabels *labels, Arena *arena, const char *name, uint32_t number)
{
    if (number != DEVICE_NO_NUMBER)
        alert_labels_set(labels, name, arena_printf(arena, "%u", number));
}

/* Names as the metrics have them. */
static void set_device(const Device *device, Arena *arena, AlertLabels *labels)
{
    char pci[PCI_TEXT_CAP];
    bool of_switch = device_is_switch(device);

    if (device->kind == DEVICE_NODE)
        return;
    if (!of_switch)
        set_number(labels, arena, "gpu", device->index);
    /* An instance is told by its number beside its GPU's identity. */
    alert_labels_set(labels, "UUID", *device->parent_uuid ? device->parent_uuid : device->uuid);
    if (device->has_pci)
        alert_labels_set(labels, "pci_bus_id", arena_strdup(arena, pci_format(device->pci, PCI_FORM_NVML, pci)));
    set_number(labels, arena, "GPU_I_ID", device->gpu_instance);
    set_number(labels, arena, "GPU_C_ID", device->compute_instance);
    set_number(labels, arena, "link", device->link);
    if (of_switch)
        alert_labels_set(labels, "device", "switch");
}

/* The owners' values of one kind, each once, as "alice,bob". */
static void set_owners(const Incident *incident, size_t offset, const char *name, Arena *arena, AlertLabels *labels)
{
    char values[ALERT_LABEL_VALUE_MAX] = "";
    Str list;

    str_init_room(&list, values, sizeof values);
    for (uint32_t i = 0; i < incident->owner_count && i < INCIDENT_OWNERS; i++) {
        const char *value = (const char *)&incident->owners[i] + offset;
        bool there = !*value || list.len + strlen(value) + 2 > sizeof values;

        for (uint32_t k = 0; k < i && !there; k++)
            there = strcmp((const char *)&incident->owners[k] + offset, value) == 0;
        if (!there)
            str_addf(&list, "%s%s", list.len ? "," : "", value);
    }
    alert_labels_set(labels, name, *values ? arena_strdup(arena, values) : "");
}

static const struct {
    const char *name;
    size_t offset;
} owner_labels[] = {
    {"user", offsetof(Owner, user)},           {"job", offsetof(Owner, job)},
    {"namespace", offsetof(Owner, namespace)}, {"pod", offsetof(Owner, pod)},
    {"container", offsetof(Owner, container)},
};

bool alert_label_fits(const char *glob, const AlertLabels *labels, const char *name)
{
    const char *value = alert_labels_get(labels, name);
    bool of_owners = false;
    char one[ALERT_LABEL_VALUE_MAX];

    for (size_t i = 0; i < ARRAY_LEN(owner_labels); i++)
        of_owners |= strcmp(owner_labels[i].name, name) == 0;
    if (!of_owners || !*value || fnmatch(glob, value, 0) == 0)
        return fnmatch(glob, value, 0) == 0;
    for (const char *at = value; *at; at += strspn(at, ",")) {
        const size_t len = strcspn(at, ",");

        snprintf(one, sizeof one, "%.*s", (int)len, at);
        if (fnmatch(glob, one, 0) == 0)
            return true;
        at += len;
    }
    return false;
}

void alert_labels_of(const Incident *incident, const char *hostname, Arena *arena, AlertLabels *ret)
{
    char name[ALERT_NAME_CAP];

    ret->len = 0;
    alert_name(incident->class, name);
    alert_labels_set(ret, "alertname", arena_strdup(arena, name));
    alert_labels_set(ret, "class", incident->class);
    alert_labels_set(ret, "severity", fault_severities[incident->severity].key);
    alert_labels_set(ret, "cause", fault_causes[incident->cause].key);
    alert_labels_set(ret, "action", fault_actions[incident->action].key);
    alert_labels_set(ret, "route", fault_routes[incident->route].key);
    alert_labels_set(ret, "hostname", hostname);
    /* Faults of programs are kept apart by both. */
    if (incident->code)
        alert_labels_set(ret, "code", arena_printf(arena, "%d", incident->code));
    alert_labels_set(ret, "process", incident->process);
    for (size_t i = 0; i < ARRAY_LEN(owner_labels); i++)
        set_owners(incident, owner_labels[i].offset, owner_labels[i].name, arena, ret);
    set_device(&incident->device, arena, ret);
}
