/* SPDX-License-Identifier: Apache-2.0 */
/* What a GPU or the node has several of, from the JSON of lists.c and gpus.c. */
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "service/api/node_read_inside.h"

static const char *const link_errors[] = {
#define NODE_LINK_ERROR(id, key) key,
    NODE_LINK_ERROR_TABLE(NODE_LINK_ERROR)
#undef NODE_LINK_ERROR
};

static void read_link(Reader *r, const JsonItem *from, NodeLink *link)
{
    const JsonItem *errors = reader_object(r, from, "errors");
    const char *remote = reader_text(r, from, "remote");
    const uint64_t now = r->read->node.time_ns;
    PciAddress pci;
    uint64_t count;
    bool up;

    if (reader_bool(r, from, "active", &up))
        sample_set_int64(&link->active, now, up);
    else
        sample_set_absent(&link->active, now, reader_absence(r, from, "absent"));
    for (size_t i = 0; i < NODE_LINK_ERROR_END; i++)
        if (reader_u64(r, errors, link_errors[i], INT64_MAX, &count))
            sample_set_int64(&link->errors[i], now, (int64_t)count);
    if (!remote)
        return;
    if (pci_parse(remote, &pci) == 0)
        sample_set_int64(&link->remote, now, pci_pack(pci));
    else
        reader_fail(r, "remote", "PCI address");
}

/* Links that the board does not have are not told of. */
void reader_links(Reader *r, const JsonItem *from, NodeGpu *gpu)
{
    const JsonItem *list = reader_list(r, from, "nvlinks", NODE_LINKS_MAX);
    NodeLink *links;

    if (!list)
        return;
    links = arena_calloc(&r->read->arena, NODE_LINKS_MAX, sizeof *links);
    for (size_t i = 0; i < NODE_LINKS_MAX; i++)
        sample_set_absent(&links[i].active, r->read->node.time_ns, ABSENCE_NOT_SUPPORTED);
    gpu->link_count = 1;
    gpu->links = links;
    for (const JsonItem *one = json_first(list); one; one = one->next) {
        uint64_t number;

        if (!reader_u64(r, one, "link", NODE_LINKS_MAX - 1, &number)) {
            reader_fail(r, "link", "number of a link");
            return;
        }
        read_link(r, one, &links[number]);
        if (number >= gpu->link_count)
            gpu->link_count = (uint32_t)number + 1;
    }
}

static void read_peer(Reader *r, const JsonItem *from, NodePeer *peer)
{
    const char *key = reader_text(r, from, "nvlink_status");
    const uint64_t now = r->read->node.time_ns;
    uint64_t age = 0;

    if (!reader_u32(r, from, "gpu", &peer->index))
        reader_fail(r, "gpu", "number of a GPU");
    reader_seconds(r, from, "age_seconds", &age);
    sample_set_absent(&peer->status, now, reader_absence(r, from, "absent"));
    for (PeerStatus status = 0; key && status < PEER_STATUS_END; status++)
        if (strcmp(peer_status_key(status), key) == 0)
            sample_set_int64(&peer->status, now > age ? now - age : 0, status);
}

void reader_peers(Reader *r, const JsonItem *from, NodeGpu *gpu)
{
    const JsonItem *list = reader_list(r, from, "peers", NODE_GPUS_MAX);
    NodePeer *peers;

    if (!list)
        return;
    peers = arena_calloc(&r->read->arena, json_count(list), sizeof *peers);
    gpu->peers = peers;
    for (const JsonItem *one = json_first(list); one; one = one->next)
        read_peer(r, one, &peers[gpu->peer_count++]);
}

static void read_who(Reader *r, const JsonItem *from, ProcessOwner *who)
{
    const char *state = reader_text(r, from, "state");

    reader_u32(r, from, "uid", &who->uid);
    READER_COPY(r, from, "name", who->name);
    READER_COPY(r, from, "user", who->user);
    READER_COPY(r, from, "runtime", who->runtime);
    READER_COPY(r, from, "container", who->container);
    READER_COPY(r, from, "pod_uid", who->pod_uid);
    READER_COPY(r, from, "pod", who->pod);
    READER_COPY(r, from, "namespace", who->namespace);
    READER_COPY(r, from, "job", who->job);
    READER_COPY(r, from, "command", who->command);
    who->state = state ? state[0] : '\0';
    reader_u64(r, from, "rss_bytes", INT64_MAX, &who->rss_bytes);
    reader_seconds(r, from, "cpu_seconds", &who->cpu_ns);
    reader_seconds(r, from, "start_seconds", &who->start_ns);
}

static void read_process(Reader *r, const JsonItem *from, NodeProcess *process)
{
    const char *kind = reader_text(r, from, "kind");
    uint64_t percent;
    ProcessOwner who;

    *process = (NodeProcess){.gpu_instance = DEVICE_NO_NUMBER,
                             .compute_instance = DEVICE_NO_NUMBER,
                             .graphics = kind && strcmp(kind, "graphics") == 0,
                             .used_bytes = UINT64_MAX,
                             .sm_percent = UINT8_MAX,
                             .memory_percent = UINT8_MAX};
    if (!reader_u32(r, from, "pid", &process->pid))
        reader_fail(r, "pid", "number of a process");
    reader_u32(r, from, "gpu_instance", &process->gpu_instance);
    reader_u32(r, from, "compute_instance", &process->compute_instance);
    reader_u64(r, from, "used_bytes", INT64_MAX, &process->used_bytes);
    if (reader_u64(r, from, "sm_percent", UINT8_MAX, &percent))
        process->sm_percent = (uint8_t)percent;
    if (reader_u64(r, from, "memory_percent", UINT8_MAX, &percent))
        process->memory_percent = (uint8_t)percent;
    process_owner_init(&who, process->pid);
    read_who(r, from, &who);
    if (who.start_ns || who.name[0])
        vec_push(&r->read->processes, who);
}

void reader_processes(Reader *r, const JsonItem *from, NodeGpu *gpu)
{
    const JsonItem *list = reader_list(r, from, "processes", NODE_PROCESSES_MAX);
    const uint64_t now = r->read->node.time_ns;
    NodeProcess *processes;
    uint64_t count;

    if (!list) {
        if (reader_text(r, from, "processes_absent"))
            sample_set_absent(&gpu->process_list, now, reader_absence(r, from, "processes_absent"));
        return;
    }
    processes = arena_calloc(&r->read->arena, json_count(list), sizeof *processes);
    gpu->processes = processes;
    for (const JsonItem *one = json_first(list); one; one = one->next)
        read_process(r, one, &processes[gpu->process_count++]);
    count = gpu->process_count;
    reader_u64(r, from, "process_count", INT64_MAX, &count);
    sample_set_int64(&gpu->process_list, now, (int64_t)count);
}

void reader_owners(Reader *r, const JsonItem *from, const Device *device)
{
    const JsonItem *list = reader_list(r, from, "owners", 4096);

    for (const JsonItem *one = device->uuid[0] ? json_first(list) : NULL; one; one = one->next) {
        Owner owner = {.device = {.minor = DEVICE_NO_NUMBER,
                                  .gpu_instance = DEVICE_NO_NUMBER,
                                  .compute_instance = DEVICE_NO_NUMBER}};

        memcpy(owner.device.uuid, device->uuid, sizeof owner.device.uuid);
        READER_COPY(r, one, "replica", owner.device.replica);
        owner.pod = reader_text(r, one, "pod");
        owner.namespace = reader_text(r, one, "namespace");
        owner.container = reader_text(r, one, "container");
        owner.pod_uid = reader_text(r, one, "pod_uid");
        owner_table_add(&r->read->owners, &owner);
    }
}

static void read_sampler(Reader *r, const JsonItem *from, NodeSampler *sampler)
{
    const char *key = reader_text(r, from, "state");
    SamplerState state = 0;
    uint64_t pid = 0;

    while (key && state < SAMPLER_STATE_END && strcmp(sampler_state_key(state), key) != 0)
        state++;
    if (!key || state == SAMPLER_STATE_END)
        reader_fail(r, "state", "state of a sampler");
    else
        sampler->state = state;
    reader_u64(r, from, "pid", INT32_MAX, &pid);
    sampler->pid = (pid_t)pid;
    reader_u32(r, from, "gpus", &sampler->gpu_count);
    reader_time(r, from, "since", &sampler->since_ns);
    READER_COPY(r, from, "stuck_gpu", sampler->gpu);
    READER_COPY(r, from, "stuck_function", sampler->function);
    READER_COPY(r, from, "wchan", sampler->wchan);
    reader_u64(r, from, "rss_bytes", INT64_MAX, &sampler->rss_bytes);
}

void reader_samplers(Reader *r, const JsonItem *root)
{
    const JsonItem *list = reader_list(r, root, "samplers", NODE_SAMPLERS_MAX);
    NodeSampler *samplers = arena_calloc(&r->read->arena, json_count(list), sizeof *samplers);

    snprintf(r->place, sizeof r->place, "samplers");
    r->read->node.samplers = samplers;
    for (const JsonItem *one = json_first(list); one; one = one->next)
        read_sampler(r, one, &samplers[r->read->node.sampler_count++]);
}

static void read_place(Reader *r, const JsonItem *from, Place *place)
{
    const char *path = reader_text(r, from, "pcie_path");
    const PciAddress pci = place->pci;
    uint64_t node;

    place->numa_node = -1;
    if (reader_u64(r, from, "numa_node", INT32_MAX, &node))
        place->numa_node = (int32_t)node;
    READER_COPY(r, from, "cpus", place->cpus);
    if (path && !place_set_path(place, path))
        reader_fail(r, "pcie_path", "path of PCI functions");
    place->pci = pci;
}

void reader_place(Reader *r, const JsonItem *from, const Device *gpu)
{
    Place place = {.pci = gpu->pci};

    read_place(r, from, &place);
    if (gpu->has_pci && (place.path[0] || place.cpus[0] || place.numa_node >= 0))
        vec_push(&r->read->places, place);
}

void reader_adapters(Reader *r, const JsonItem *root)
{
    const JsonItem *list = reader_list(r, reader_object(r, root, "node"), "adapters", PLACE_ADAPTERS_MAX);

    snprintf(r->place, sizeof r->place, "adapters");
    for (const JsonItem *one = json_first(list); one; one = one->next) {
        const char *pci = reader_text(r, one, "pci");
        Place place = {0};

        READER_COPY(r, one, "name", place.adapter);
        if (!place.adapter[0] || !pci || pci_parse(pci, &place.pci) < 0)
            reader_fail(r, place.adapter[0] ? "pci" : "name", "name and PCI address of an adapter");
        read_place(r, one, &place);
        vec_push(&r->read->places, place);
    }
}
