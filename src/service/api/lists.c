/* SPDX-License-Identifier: Apache-2.0 */
/* What a GPU has several of, beside readings: NVLinks, processes. */
#include <inttypes.h>
#include <string.h>

#include "base/duration.h"
#include "service/api/lists.h"
#include "service/api/write.h"

static const char *const link_errors[] = {
#define NODE_LINK_ERROR(id, key) key,
    NODE_LINK_ERROR_TABLE(NODE_LINK_ERROR)
#undef NODE_LINK_ERROR
};

/* Counters that the driver tells. */
static void write_errors(Str *out, const NodeLink *link)
{
    const char *comma = "";

    str_add(out, ",\"errors\":{");
    for (size_t i = 0; i < NODE_LINK_ERROR_END; i++) {
        if (!link->errors[i].valid)
            continue;
        str_addf(out, "%s\"%s\":", comma, link_errors[i]);
        write_sample(out, &link->errors[i]);
        comma = ",";
    }
    str_addc(out, '}');
}

void write_links(Str *out, const NodeGpu *gpu)
{
    const char *comma = "";

    if (gpu->link_count == 0)
        return;
    str_add(out, ",\"nvlinks\":[");
    for (uint32_t i = 0; i < gpu->link_count; i++) {
        const NodeLink *link = &gpu->links[i];
        char pci[PCI_TEXT_CAP];
        PciAddress at;
        int64_t up, remote;

        if (!link->active.valid && link->active.absence == ABSENCE_NOT_SUPPORTED)
            continue; /* the board has no such link */
        str_addf(out, "%s{\"link\":%" PRIu32 ",\"active\":", comma, i);
        if (sample_int64(&link->active, &up))
            str_add(out, up ? "true" : "false");
        else
            str_addf(out, "null,\"absent\":\"%s\"", absence_key(link->active.absence));
        if (sample_int64(&link->remote, &remote) && pci_unpack(remote, &at))
            write_text(out, "remote", pci_format(at, PCI_FORM_SYSFS, pci));
        write_errors(out, link);
        str_addc(out, '}');
        comma = ",";
    }
    str_addc(out, ']');
}

/* The pod whose UID it runs under, else, for a process in some pod, the only one that was given its GPU. */
static const Owner *pod_of(const ProcessOwner *who, const OwnerTable *owners, const NodeGpu *gpu)
{
    const Owner *only = NULL;
    bool several = false;

    for (size_t i = 0; who->pod_uid[0] && owners && i < owners->len; i++) {
        const Owner *o = &owners->at[i];

        if (o->pod_uid && strcmp(o->pod_uid, who->pod_uid) == 0)
            return o;
        if ((o->pod_uid && o->pod_uid[0]) || !owner_device_is(&o->device, &gpu->reading, NULL))
            continue;
        several |= only && (strcmp(only->pod, o->pod) != 0 || strcmp(only->namespace, o->namespace) != 0);
        only = o;
    }
    return several ? NULL : only;
}

static void write_who(Str *out, const ProcessOwner *who, const OwnerTable *owners, const NodeGpu *gpu)
{
    const Owner *pod = pod_of(who, owners, gpu);

    write_text(out, "name", who->name);
    write_text(out, "user", who->user);
    if (who->uid != UINT32_MAX)
        str_addf(out, ",\"uid\":%" PRIu32, who->uid);
    write_text(out, "runtime", who->runtime);
    write_text(out, "container", who->container);
    write_text(out, "pod_uid", who->pod_uid);
    write_text(out, "pod", pod ? pod->pod : who->pod);
    write_text(out, "namespace", pod ? pod->namespace : who->namespace);
    write_text(out, "job", who->job);
    write_text(out, "command", who->command);
    if (who->start_ns == 0)
        return;
    if (who->state)
        str_addf(out, ",\"state\":\"%c\"", who->state);
    str_addf(out, ",\"rss_bytes\":%" PRIu64 ",\"cpu_seconds\":", who->rss_bytes);
    write_seconds(out, who->cpu_ns);
    str_add(out, ",\"start_seconds\":");
    write_seconds(out, who->start_ns);
}

static void write_process(Str *out, const NodeProcess *process, const ApiBeside *beside, const NodeGpu *gpu)
{
    const ProcessOwner *owner = process_list_find(&beside->processes, process->pid);

    str_addf(out, "{\"pid\":%" PRIu32 ",\"kind\":\"%s\"", process->pid, process->graphics ? "graphics" : "compute");
    if (process->gpu_instance != DEVICE_NO_NUMBER)
        str_addf(out, ",\"gpu_instance\":%" PRIu32, process->gpu_instance);
    if (process->compute_instance != DEVICE_NO_NUMBER)
        str_addf(out, ",\"compute_instance\":%" PRIu32, process->compute_instance);
    if (process->used_bytes != UINT64_MAX)
        str_addf(out, ",\"used_bytes\":%" PRIu64, process->used_bytes);
    if (process->sm_percent != UINT8_MAX)
        str_addf(out, ",\"sm_percent\":%u", process->sm_percent);
    if (process->memory_percent != UINT8_MAX)
        str_addf(out, ",\"memory_percent\":%u", process->memory_percent);
    if (owner)
        write_who(out, owner, beside->owners, gpu);
    str_addc(out, '}');
}

void write_processes(Str *out, const NodeGpu *gpu, const ApiBeside *beside)
{
    int64_t count;

    if (!sample_int64(&gpu->process_list, &count)) {
        if (gpu->process_list.absence != ABSENCE_NOT_YET)
            str_addf(out, ",\"processes\":null,\"processes_absent\":\"%s\"", absence_key(gpu->process_list.absence));
        return;
    }
    str_addf(out, ",\"process_count\":%" PRId64 ",\"processes\":[", count);
    for (size_t i = 0; i < gpu->process_count; i++) {
        if (i)
            str_addc(out, ',');
        write_process(out, &gpu->processes[i], beside, gpu);
    }
    str_addc(out, ']');
}
