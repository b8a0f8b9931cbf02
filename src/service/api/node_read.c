/* SPDX-License-Identifier: Apache-2.0 */
#include "service/api/node_read.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/api/node_read_inside.h"

enum { SECONDS_MAX = 1000000000 };

/* --- members ------------------------------------------------------------------------------------------------------ */

void reader_fail(Reader *r, const char *name, const char *wanted)
{
    if (r->rc == 0)
        r->rc = err_set(r->err, -EINVAL, "%s: '%.60s' is no %s", r->place, name, wanted);
}

static const JsonItem *member(const JsonItem *object, const char *name)
{
    const JsonItem *value = json_member(object, name);

    return json_is(value, JSON_IS_NULL) ? NULL : value;
}

const char *reader_text(Reader *r, const JsonItem *object, const char *name)
{
    const JsonItem *value = member(object, name);

    if (value && !json_text(value))
        reader_fail(r, name, "text");
    return json_text(value);
}

void reader_copy(Reader *r, const JsonItem *object, const char *name, char *out, size_t cap)
{
    const char *text = reader_text(r, object, name);

    if (text)
        snprintf(out, cap, "%s", text);
}

bool reader_bool(Reader *r, const JsonItem *object, const char *name, bool *ret)
{
    const JsonItem *value = member(object, name);

    if (value && !json_is(value, JSON_IS_BOOL))
        reader_fail(r, name, "true or false");
    if (!json_is(value, JSON_IS_BOOL))
        return false;
    *ret = value->truth;
    return true;
}

bool reader_u64(Reader *r, const JsonItem *object, const char *name, uint64_t max, uint64_t *ret)
{
    const JsonItem *value = member(object, name);

    if (!value)
        return false;
    if (value->kind != JSON_IS_WHOLE || value->whole < 0 || (uint64_t)value->whole > max) {
        reader_fail(r, name, "number that it can be");
        return false;
    }
    *ret = (uint64_t)value->whole;
    return true;
}

bool reader_u32(Reader *r, const JsonItem *object, const char *name, uint32_t *ret)
{
    uint64_t value;

    if (!reader_u64(r, object, name, UINT32_MAX, &value))
        return false;
    *ret = (uint32_t)value;
    return true;
}

bool reader_seconds(Reader *r, const JsonItem *object, const char *name, uint64_t *ret_ns)
{
    const JsonItem *value = member(object, name);
    double seconds = -1;
    const bool fine = json_number(value, &seconds) && seconds >= 0 && seconds <= SECONDS_MAX;

    if (value && !fine)
        reader_fail(r, name, "number of seconds");
    if (fine)
        *ret_ns = (uint64_t)llround(seconds * 1e3) * NS_PER_MS;
    return fine;
}

bool reader_time(Reader *r, const JsonItem *object, const char *name, uint64_t *ret_ns)
{
    const char *text = reader_text(r, object, name);

    if (!text)
        return false;
    if (clock_parse(text, ret_ns, NULL) == 0)
        return true;
    reader_fail(r, name, "time");
    return false;
}

const JsonItem *reader_list(Reader *r, const JsonItem *object, const char *name, size_t max)
{
    const JsonItem *value = member(object, name);

    if (!value || (json_is(value, JSON_IS_LIST) && value->count <= max))
        return value;
    reader_fail(r, name, "list of as many as there can be");
    return NULL;
}

const JsonItem *reader_object(Reader *r, const JsonItem *object, const char *name)
{
    const JsonItem *value = member(object, name);

    if (!value || json_is(value, JSON_IS_MAP))
        return value;
    reader_fail(r, name, "object");
    return NULL;
}

Absence reader_absence(Reader *r, const JsonItem *object, const char *name)
{
    const char *key = reader_text(r, object, name);
    Absence why = ABSENCE_NO_DATA;

    if (key && !absence_find(key, &why))
        why = ABSENCE_FAILED;
    return why;
}

/* --- a reading ---------------------------------------------------------------------------------------------------- */

static uint64_t before(const Reader *r, uint64_t age_ns)
{
    return r->read->node.time_ns > age_ns ? r->read->node.time_ns - age_ns : 0;
}

static void read_sample(Reader *r, const JsonItem *from, const Metric *metric, Sample *sample)
{
    const JsonItem *value = member(from, "value");
    uint64_t age = 0;
    double real;

    if (!json_is(from, JSON_IS_MAP) || (value && !json_number(value, &real))) {
        reader_fail(r, from->name, "value of a metric");
        return;
    }
    reader_seconds(r, from, "age_seconds", &age);
    if (!value)
        sample_set_absent(sample, r->read->node.time_ns, reader_absence(r, from, "absent"));
    else if (value->kind == JSON_IS_WHOLE && metric->value == METRIC_INT64)
        sample_set_int64(sample, before(r, age), value->whole);
    else
        sample_set_double(sample, before(r, age), real);
}

static void read_metrics(Reader *r, const JsonItem *from, Reading *reading)
{
    for (const JsonItem *one = json_first(reader_object(r, from, "metrics")); one; one = one->next) {
        const MetricName *found = metric_find(one->name);

        if (found && found->naming == METRIC_NAME_CLASSIC && metric_get(found->metric)->type != METRIC_LABEL)
            read_sample(r, one, metric_get(found->metric), &reading->sample[found->metric]);
    }
}

static void read_identity(Reader *r, const JsonItem *from, Device *device)
{
    const char *pci = reader_text(r, from, "pci");

    device->vendor = DEVICE_NVIDIA;
    reader_u32(r, from, "index", &device->index);
    READER_COPY(r, from, "uuid", device->uuid);
    READER_COPY(r, from, "name", device->name);
    READER_COPY(r, from, "serial", device->serial);
    READER_COPY(r, from, "board", device->board);
    if (!pci)
        return;
    device->has_pci = pci_parse(pci, &device->pci) == 0;
    if (!device->has_pci)
        reader_fail(r, "pci", "PCI address");
}

static void read_texts(Reader *r, const JsonItem *from, Reading *reading)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        const ReadingText slot = reading_text_of(id);

        if (slot != READING_TEXT_END)
            READER_COPY(r, from, metric_get(id)->name, reading->text[slot]);
    }
}

static void read_share(Reader *r, const JsonItem *from, const char *name, double *ret)
{
    const JsonItem *value = member(from, name);

    *ret = NAN;
    if (value && !json_number(value, ret))
        reader_fail(r, name, "number");
}

/* A word, cause or basis that this program does not know is none. */
static void read_activity(Reader *r, const JsonItem *device, Activity *ret)
{
    const JsonItem *from = reader_object(r, device, "activity");
    const char *word = reader_text(r, from, "word"), *cause = reader_text(r, from, "cause");
    const char *basis = reader_text(r, from, "basis");

    if (word)
        activity_find(word, &ret->word);
    if (cause)
        activity_cause_find(cause, &ret->cause);
    if (basis)
        activity_basis_find(basis, &ret->basis);
    reader_time(r, from, "since", &ret->since_ns);
    READER_COPY(r, from, "text", ret->text);
    READER_COPY(r, from, "incident", ret->incident);
    reader_bool(r, from, "held", &ret->held);
    reader_u32(r, from, "window_s", &ret->window_s);
    read_share(r, from, "sm_active", &ret->sm_active);
    read_share(r, from, "utilization", &ret->utilization);
    read_share(r, from, "power_share", &ret->power_share);
    read_share(r, from, "clock_share", &ret->clock_share);
    read_share(r, from, "tensor", &ret->tensor);
    read_share(r, from, "dram", &ret->dram);
}

static void read_instance(Reader *r, const JsonItem *from, const Device *gpu, Reading *instance)
{
    reading_init(instance, DEVICE_COMPUTE_INSTANCE);
    instance->device.pci = gpu->pci;
    instance->device.has_pci = gpu->has_pci;
    memcpy(instance->device.parent_uuid, gpu->uuid, sizeof gpu->uuid);
    read_identity(r, from, &instance->device);
    reader_u32(r, from, "gpu_instance", &instance->device.gpu_instance);
    reader_u32(r, from, "compute_instance", &instance->device.compute_instance);
    READER_COPY(r, from, "profile", instance->profile);
    read_metrics(r, from, instance);
    reader_owners(r, from, &instance->device);
}

static void read_instances(Reader *r, const JsonItem *from, NodeGpu *gpu)
{
    const JsonItem *list = reader_list(r, from, "instances", NODE_INSTANCES_MAX);

    gpu->instances = arena_calloc(&r->read->arena, json_count(list), sizeof *gpu->instances);
    for (const JsonItem *one = json_first(list); one; one = one->next) {
        const size_t i = gpu->instance_count++;
        Reading *instance = &gpu->instances[i];

        read_instance(r, one, &gpu->reading.device, instance);
        if (json_member(one, "activity") && !gpu->instance_activity)
            gpu->instance_activity = arena_calloc(&r->read->arena, json_count(list), sizeof *gpu->instance_activity);
        if (gpu->instance_activity)
            read_activity(r, one, &gpu->instance_activity[i]);
        instance->instance_head = i == 0 || instance[-1].device.gpu_instance != instance->device.gpu_instance;
    }
}

/* --- a GPU and the node ------------------------------------------------------------------------------------------- */

static void read_state(Reader *r, const JsonItem *from, NodeGpu *gpu)
{
    const char *state = reader_text(r, from, "state");
    uint64_t age;

    if (!state || !gpu_state_find(state, &gpu->state))
        reader_fail(r, "state", "state of a GPU");
    reader_time(r, from, "since", &gpu->state_since_ns);
    READER_COPY(r, from, "why", gpu->why);
    if (reader_seconds(r, from, "last_sample_age_seconds", &age))
        gpu->last_sample_ns = before(r, age);
    reader_bool(r, from, "mig", &gpu->reading.mig);
    reader_bool(r, from, "own_sampler", &gpu->own_sampler);
    reader_u64(r, from, "missed_calls", INT64_MAX, &gpu->missed_calls);
    reader_u64(r, from, "failed_passes", INT64_MAX, &gpu->failed_passes);
    reader_bool(r, from, "drained", &gpu->drained);
    gpu->gpm_known = reader_bool(r, from, "gpm", &gpu->gpm);
}

static void read_gpu(Reader *r, const JsonItem *from, size_t i, NodeGpu *gpu)
{
    reading_init(&gpu->reading, DEVICE_GPU);
    snprintf(r->place, sizeof r->place, "gpus[%zu]", i);
    read_identity(r, from, &gpu->reading.device);
    reader_place(r, from, &gpu->reading.device);
    read_state(r, from, gpu);
    read_activity(r, from, &gpu->activity);
    read_texts(r, from, &gpu->reading);
    reader_owners(r, from, &gpu->reading.device);
    read_metrics(r, from, &gpu->reading);
    reader_peers(r, from, gpu);
    reader_links(r, from, gpu);
    reader_processes(r, from, gpu);
    read_instances(r, from, gpu);
}

static void read_head(Reader *r, const JsonItem *root, Node *node)
{
    const JsonItem *from = reader_object(r, root, "node");
    uint64_t released;

    snprintf(r->place, sizeof r->place, "node");
    if (!reader_time(r, root, "time", &node->real_ns) || node->real_ns == 0)
        reader_fail(r, "time", "time");
    node->time_ns = node->real_ns;
    reader_u64(r, root, "tick", INT64_MAX, &node->tick);
    READER_COPY(r, from, "hostname", node->hostname);
    READER_COPY(r, from, "driver_version", node->driver_version);
    READER_COPY(r, from, "nvml_version", node->nvml_version);
    READER_COPY(r, from, "driver_why", node->driver_why);
    node->driver = node->driver_why[0] ? NODE_DRIVER_REFUSES : NODE_DRIVER_FINE;
    reader_u32(r, from, "gpus_expected", &node->gpus_expected);
    reader_u32(r, from, "gpus_found", &node->gpus_found);
    reader_u32(r, from, "gpus_on_bus", &node->gpus_on_bus);
    if (reader_seconds(r, from, "released_for_seconds", &released))
        node->release_until_ns = node->time_ns + released;
}

static int by_pid(const void *a, const void *b)
{
    const ProcessOwner *one = a, *other = b;

    return (one->pid > other->pid) - (one->pid < other->pid);
}

/* A process is told of by each GPU that it is on. */
static void sort_processes(ProcessOwnerList *list)
{
    size_t kept = 0;

    if (list->len > 0)
        qsort(list->at, list->len, sizeof *list->at, by_pid);
    for (size_t i = 0; i < list->len; i++)
        if (kept == 0 || list->at[kept - 1].pid != list->at[i].pid)
            list->at[kept++] = list->at[i];
    list->len = kept;
}

static void read_all(Reader *r, const JsonItem *root)
{
    NodeRead *read = r->read;
    const JsonItem *gpus;

    if (!json_is(root, JSON_IS_MAP))
        reader_fail(r, "this", "JSON of a node");
    read_head(r, root, &read->node);
    gpus = reader_list(r, root, "gpus", NODE_GPUS_MAX);
    if (!gpus)
        reader_fail(r, "gpus", "list");
    read->node.gpus = arena_calloc(&read->arena, json_count(gpus), sizeof *read->node.gpus);
    for (const JsonItem *one = json_first(gpus); one && r->rc == 0; one = one->next) {
        const size_t i = read->node.gpu_count++;

        read_gpu(r, one, i, &read->node.gpus[i]);
    }
    reader_adapters(r, root);
    reader_samplers(r, root);
    sort_processes(&read->processes);
}

void node_read_init(NodeRead *read)
{
    memset(read, 0, sizeof *read);
    arena_init(&read->arena, 256 << 10);
    owner_table_init(&read->owners);
}

static void forget(NodeRead *read)
{
    arena_reset(&read->arena);
    owner_table_clear(&read->owners);
    vec_clear(&read->processes);
    vec_clear(&read->places);
    memset(&read->node, 0, sizeof read->node);
}

void node_read_done(NodeRead *read)
{
    arena_done(&read->arena);
    owner_table_done(&read->owners);
    vec_done(&read->processes);
    vec_done(&read->places);
}

int node_read(NodeRead *read, const JsonItem *root, Err *err)
{
    Reader r = {.read = read, .place = "node", .err = err};

    forget(read);
    read_all(&r, root);
    if (r.rc < 0)
        forget(read);
    return r.rc;
}
