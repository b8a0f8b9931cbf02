/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "double.h"
#include "engine/health/incidents.h"

#define SECOND UINT64_C(1000000000)
#define MUST(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                                 \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { GPUS = 4 };

/* What was told of one incident last. */
typedef struct Record {
    bool open;
    uint64_t revision;
} Record;

typedef struct Stream {
    const uint8_t *data;
    size_t size;
    Incidents *incidents;
    Maintenance *maintenance;
    Map records;
    uint64_t now_ns, real_ns, last_id;
    Node node;
    NodeGpu gpus[GPUS];
    Incident kept[INCIDENTS_MAX];
} Stream;

static uint8_t next(Stream *s)
{
    if (s->size == 0)
        return 0;
    s->size--;
    return *s->data++;
}

static void check_incident(const Incident *it)
{
    MUST(it->first_len <= INCIDENT_FIRST && it->last_len <= INCIDENT_LAST && it->code_count <= INCIDENT_CODES);
    MUST(it->counter_len <= INCIDENT_COUNTERS && it->count > 0 && it->count < 1u << 30 && it->echo_count < 1u << 30);
    MUST(memchr(it->title, 0, sizeof it->title) && memchr(it->verdict, 0, sizeof it->verdict));
    MUST(it->severity < SEVERITY_END && it->action < ACTION_END && it->route < ROUTE_END && it->cause < CAUSE_END);
    for (uint32_t i = 0; i < it->code_count; i++)
        for (uint32_t j = 0; j < i; j++)
            MUST(it->codes[i] != it->codes[j]);
    MUST(strcmp(it->class, "trial") != 0 || it->route == ROUTE_NONE);
    MUST(strcmp(it->class, "off") != 0);
}

/* Nothing is told of one that was not opened, nothing twice, and in the order of revisions. */
static void on_told(void *self, const Incident *it, IncidentChange change)
{
    Stream *s = self;
    Record *record = map_get(&s->records, it->id);

    check_incident(it);
    MUST(it->state == (change == INCIDENT_CHANGE_CLEARED ? INCIDENT_CLEARED : INCIDENT_OPEN));
    MUST((it->end == INCIDENT_END_NOT_ENDED) == (it->state == INCIDENT_OPEN));
    MUST(it->title[0] != '\0' && it->verdict[0] != '\0');
    if (change == INCIDENT_CHANGE_OPENED) {
        MUST(!record);
        MUST(incident_id_number(it->id) > s->last_id);
        s->last_id = incident_id_number(it->id);
        record = calloc(1, sizeof *record);
        map_put(&s->records, it->id, record);
    }
    if (!record)
        abort();
    MUST(it->revision == record->revision + 1);
    MUST(change == INCIDENT_CHANGE_OPENED || record->open == (change != INCIDENT_CHANGE_REOPENED));
    record->open = change != INCIDENT_CHANGE_CLEARED;
    record->revision = it->revision;
}

static bool same_key(const Incident *a, const Incident *b)
{
    const FaultClass *class = catalogue_class(NULL, a->class);

    return strcmp(a->class, b->class) == 0 && a->device.kind == b->device.kind &&
           a->device.has_pci == b->device.has_pci && pci_compare(a->device.pci, b->device.pci) == 0 &&
           a->device.link == b->device.link && a->device.gpu_instance == b->device.gpu_instance &&
           a->device.compute_instance == b->device.compute_instance && class &&
           (!class->by_code || a->code == b->code) && (!class->by_process || strcmp(a->process, b->process) == 0);
}

static void check(Stream *s)
{
    size_t count = incidents_count(s->incidents);

    MUST(count <= INCIDENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        const Incident *it = incidents_at(s->incidents, i);
        const Record *record = map_get(&s->records, it->id);

        check_incident(it);
        MUST((it->state == INCIDENT_PENDING) == (it->id[0] == '\0'));
        MUST(it->state == INCIDENT_PENDING || (record && record->open == (it->state == INCIDENT_OPEN)));
        if (i + 1 < count && incidents_at(s->incidents, i + 1)->state != INCIDENT_PENDING)
            MUST(it->state != INCIDENT_PENDING && strcmp(it->id, incidents_at(s->incidents, i + 1)->id) > 0);
        for (size_t j = 0; j < i && it->state == INCIDENT_OPEN; j++)
            MUST(incidents_at(s->incidents, j)->state != INCIDENT_OPEN || !same_key(it, incidents_at(s->incidents, j)));
    }
}

static Event event_of(Stream *s, EventKind kind)
{
    static const int32_t codes[] = {79, 48, 63, 64, 94, 95, 119, 154, 45, 43, 31, 13, 74, 149, 109, 110, 120, 46, 999};
    static const char *const programs[] = {"", "python", "vllm", "ray::Worker"};
    uint8_t what = next(s), more = next(s);
    Event event;

    event_init(&event, kind, more & 1 ? EVENT_FROM_NVML : EVENT_FROM_KMSG);
    event.time_ns = s->now_ns;
    event.real_ns = s->real_ns;
    event.has_pci = kind != EVENT_OOM_KILL && kind != EVENT_MCE;
    event.pci = (PciAddress){0, (uint8_t)(0x10 + (what >> 6) % GPUS), 0, 0};
    event.code = kind == EVENT_XID    ? codes[(what & 63) % (sizeof codes / sizeof codes[0])]
                 : kind == EVENT_SXID ? 20034
                                      : 0;
    event.link = more & 2 ? more >> 6 : DEVICE_NO_NUMBER;
    event.gpu_instance = more & 4 ? more >> 7 : DEVICE_NO_NUMBER;
    event.compute_instance = more & 8 && more & 4 ? 0 : DEVICE_NO_NUMBER;
    event.word = (EventWord)(more >> 4 & 3);
    if (event.code == 154)
        event.recovery_action = more >> 4 & 7;
    if (event.code == 45 && more & 16)
        event.caused_by = codes[more >> 5];
    event.gpc = event.tpc = more >> 6;
    event.pid = more >> 4;
    strcpy(event.process, programs[more >> 4 & 3]);
    snprintf(event.text, sizeof event.text, "line %u of %u", more, what);
    return event;
}

static void hold(Stream *s)
{
    uint8_t what = next(s), where = next(s);
    const FaultRule *rule = double_condition(double_class_at(what % double_classes())->id);
    Evidence evidence = {
        .verdict = fault_verdict(rule),
        .holds = where & 1,
        .time_ns = s->now_ns,
        .real_ns = s->real_ns,
        .pid = -1,
        .counter_count = 1,
        .counters = {{.name = "counter", .before = 1, .after = where}},
    };

    device_init(&evidence.device, where & 2 ? DEVICE_LINK : where & 4 ? DEVICE_NODE : DEVICE_GPU);
    evidence.device.has_pci = evidence.device.kind != DEVICE_NODE;
    evidence.device.pci = (PciAddress){0, (uint8_t)(0x10 + (where >> 4) % GPUS), 0, 0};
    if (where & 2)
        evidence.device.link = where >> 6;
    snprintf(evidence.text, sizeof evidence.text, "%s holds", rule->id);
    incidents_add_evidence(s->incidents, &evidence);
}

static void look(Stream *s)
{
    s->node.time_ns = s->now_ns;
    s->node.real_ns = s->real_ns;
    incidents_set_node(s->incidents, &s->node);
}

static void turn(Stream *s)
{
    maintenance_advance(s->maintenance, s->real_ns);
    incidents_advance(s->incidents, s->now_ns, s->real_ns);
}

static void restart(Stream *s)
{
    size_t count = 0;

    for (size_t i = 0; i < incidents_count(s->incidents); i++)
        if (incidents_at(s->incidents, i)->state != INCIDENT_PENDING)
            s->kept[count++] = *incidents_at(s->incidents, i);
    incidents_free(s->incidents);
    s->incidents = incidents_new((const Catalogue *)&s->node, s->maintenance, on_told, s);
    if (next(s) & 1) { /* with the machine */
        s->now_ns = 10 * SECOND;
    }
    incidents_restore(s->incidents, s->kept, count, s->now_ns, s->real_ns);
    MUST(incidents_count(s->incidents) == count);
}

static void change_gpu(Stream *s)
{
    uint8_t what = next(s);
    NodeGpu *gpu = &s->gpus[what % GPUS];

    gpu->state = (GpuState)((what >> 2) % GPU_STATE_END);
    if (what >> 6 == 3)
        snprintf(gpu->reading.device.uuid, sizeof gpu->reading.device.uuid, "GPU-%d", what >> 2 & 7);
    if (what >> 6 == 2)
        snprintf(s->node.driver_version, sizeof s->node.driver_version, "5%d.1", what & 7);
}

static void window(Stream *s)
{
    uint8_t what = next(s);
    MaintenanceWindow one = {.gpus = what & 7, .until_real_ns = s->real_ns + (1 + what) * SECOND};
    char id[INCIDENT_ID_CAP];

    if (what & 128)
        maintenance_stop(s->maintenance, "all", s->real_ns, NULL);
    else
        maintenance_start(s->maintenance, &one, s->real_ns, id, NULL);
}

static void clear_one(Stream *s)
{
    size_t count = incidents_count(s->incidents);
    char id[INCIDENT_ID_CAP];

    if (count == 0)
        return;
    memcpy(id, incidents_at(s->incidents, next(s) % count)->id, sizeof id);
    incidents_clear(s->incidents, id, "somebody", s->now_ns, s->real_ns, NULL);
}

static void event(Stream *s, EventKind kind, bool before)
{
    Event one = event_of(s, kind);

    if (before) {
        uint64_t ago = (uint64_t)next(s) * 60 * SECOND;

        one.before = true;
        one.time_ns = one.time_ns > ago ? one.time_ns - ago : 0;
        one.real_ns -= ago;
    }
    incidents_add_event(s->incidents, &one);
}

static void step(Stream *s)
{
    static const EventKind ends[] = {EVENT_RESET, EVENT_MODULE_LOADED, EVENT_REBOOT, EVENT_REPLACED};
    static const EventKind others[] = {EVENT_SXID, EVENT_OOM_KILL, EVENT_MCE, EVENT_OFF_BUS, EVENT_AER};
    uint8_t op = next(s);
    uint64_t past;

    switch (op & 15) {
    case 0: /* time goes on */
        past = (uint64_t)(op >> 4) * (uint64_t)(op >> 4) * (op >> 4) * SECOND / 8;
        s->now_ns += past;
        s->real_ns += past;
        break;
    case 1:
    case 2:
    case 3:
        event(s, EVENT_XID, false);
        break;
    case 4:
    case 5:
        hold(s);
        break;
    case 6:
    case 7:
        turn(s);
        break;
    case 8:
    case 9:
        look(s);
        break;
    case 10:
        event(s, others[(op >> 4) % 5], false);
        break;
    case 11:
        event(s, op & 16 ? ends[op >> 5 & 3] : EVENT_XID, (op & 128) != 0);
        break;
    case 12: /* the wall clock jumps */
        s->real_ns = op & 16 ? s->real_ns + (uint64_t)(op >> 5) * 3600 * SECOND
                             : s->real_ns - (uint64_t)(op >> 5) * 3600 * SECOND;
        break;
    case 13:
        change_gpu(s);
        break;
    case 14:
        if (op & 16)
            restart(s);
        else
            window(s);
        break;
    default:
        if (op & 16)
            clear_one(s);
        else
            incidents_set_catalogue(s->incidents, (const Catalogue *)&s->node);
        break;
    }
}

static void init(Stream *s, const uint8_t *data, size_t size)
{
    s->data = data;
    s->size = size;
    s->now_ns = 100 * 3600 * SECOND;
    s->real_ns = UINT64_C(1767225600) * SECOND;
    map_init(&s->records);
    s->maintenance = maintenance_new();
    s->incidents = incidents_new((const Catalogue *)&s->node, s->maintenance, on_told, s);
    s->node.gpus = s->gpus;
    s->node.gpu_count = GPUS;
    for (int i = 0; i < GPUS; i++) {
        Device *device = &s->gpus[i].reading.device;

        device_init(device, DEVICE_GPU);
        device->index = (uint32_t)i;
        device->has_pci = true;
        device->pci = (PciAddress){0, (uint8_t)(0x10 + i), 0, 0};
        snprintf(device->uuid, sizeof device->uuid, "GPU-%d", i);
        s->gpus[i].state = GPU_UP;
    }
}

void stream_run(const uint8_t *data, size_t size)
{
    Stream *s = calloc(1, sizeof *s);
    const MapEntry *entry;
    size_t cursor = 0;

    if (!s)
        abort();
    init(s, data, size);
    for (int i = 1; s->size > 0; i++) {
        step(s);
        if (i % 16 == 0 || s->size == 0)
            check(s); /* looks at every pair */
    }
    while ((entry = map_next(&s->records, &cursor)))
        free(entry->value);
    map_done(&s->records);
    incidents_free(s->incidents);
    maintenance_free(s->maintenance);
    free(s);
}
