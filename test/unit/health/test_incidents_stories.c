/* SPDX-License-Identifier: Apache-2.0 */
/* Drawn stories of a node, written down with all that was told and with what was kept at their end, against
 * stories.txt. Their steps in time are those of the engine's windows, so that evidence comes exactly at their ends, and
 * around them. */
#include "kit.h"

#include <math.h>
#include <stdio.h>

#include "../golden.h"
#include "base/alloc.h"
#include "base/cleanup.h"

enum { STORIES = 40, STEPS = 30, NEAR_GPUS = 3 };

typedef struct Story {
    Kit kit;
    uint64_t seed;
    size_t written;
    int first_job;
    bool is_about_programs; /* events of programs alone */
    Str *out;
} Story;

static uint32_t draw(Story *s, size_t below)
{
    s->seed ^= s->seed << 13;
    s->seed ^= s->seed >> 7;
    s->seed ^= s->seed << 17;
    return (uint32_t)((s->seed >> 20) % below);
}

static void write_device(Str *out, const Device *device)
{
    char key[DEVICE_KEY_CAP] = "";

    device_key(device, key);
    str_addf(out, "%s %s", device_kinds[device->kind].key, key);
}

/* Which incident of its story it is. */
static size_t find_number(const Kit *kit, const char *id)
{
    size_t number = 0;

    for (size_t i = 0; i < kit->told_count; i++) {
        number += kit->told[i].change == INCIDENT_CHANGE_OPENED;
        if (strcmp(kit->told[i].incident.id, id) == 0)
            return number;
    }
    return 0;
}

/* What is news of it, without the advice of double.c. */
static void write_change(Str *out, size_t number, const KitTold *told)
{
    const Incident *it = &told->incident;
    const char *advice = strstr(it->verdict, "Do as");

    str_addf(out, "  %s %zu: %llu+%llu%s%s%s%s\n", incident_changes[told->change].key, number,
             (unsigned long long)it->count, (unsigned long long)it->echo_count, it->before ? ", before" : "",
             it->silenced ? ", silenced" : "", it->end ? ", " : "", incident_ends[it->end].key);
    if (told->change == INCIDENT_CHANGE_OPENED || told->change == INCIDENT_CHANGE_ESCALATED)
        str_addf(out, "   %s\n   %s %s %s, %s: %.*s\n", it->title, fault_severities[it->severity].key,
                 fault_actions[it->action].key, fault_routes[it->route].key, it->rule,
                 advice ? (int)(advice - it->verdict) - 1 : INCIDENT_VERDICT_CAP, it->verdict);
}

static void write_changes(Story *s)
{
    for (; s->written < s->kit.told_count; s->written++)
        write_change(s->out, find_number(&s->kit, s->kit.told[s->written].incident.id), &s->kit.told[s->written]);
}

static void write_evidence(Story *s, const IncidentEvidence *evidence)
{
    str_addf(s->out, "  %lld: %s %d %s%s\n",
             ((long long)evidence->real_ns - (long long)s->kit.real_ns) / (long long)SECOND,
             fault_severities[evidence->severity].key, evidence->code, evidence->text, evidence->echo ? ", echo" : "");
}

static void write_end(Story *s)
{
    for (size_t i = 0; i < incidents_count(s->kit.incidents); i++) {
        const Incident *it = incidents_at(s->kit.incidents, i);

        str_addf(s->out, " %s %zu: %s by %s, ", incident_states[it->state].key, find_number(&s->kit, it->id), it->class,
                 fault_causes[it->cause].key);
        write_device(s->out, &it->device);
        str_addf(s->out, ", %d %s %s, %s%s%s, revision %llu, risen %u, back %u, codes", it->pid, it->process,
                 it->driver_version, it->job, it->part.known ? ", of a part" : "", it->window[0] ? ", in a window" : "",
                 (unsigned long long)it->revision, it->escalations, it->reopened);
        for (uint32_t k = 0; k < it->code_count; k++)
            str_addf(s->out, " %d", it->codes[k]);
        for (uint32_t k = 0; k < it->counter_len; k++)
            str_addf(s->out, ", %s %g to %g", it->counters[k].name, it->counters[k].before, it->counters[k].after);
        str_addf(s->out, "\n");
        for (uint32_t k = 0; k < it->first_len; k++)
            write_evidence(s, &it->first[k]);
        for (uint32_t k = 0; k < it->last_len; k++)
            write_evidence(s, &it->last[k]);
    }
}

/* One owner for each two processes; of a device without a process two. */
static uint32_t find_owners(void *self, const Device *device, int32_t pid, Owner out[INCIDENT_OWNERS])
{
    const Story *s = self;
    const uint32_t count = pid >= 0 || device->kind == DEVICE_LINK ? 1 : 2;

    for (uint32_t i = 0; i < count; i++) {
        out[i] = (Owner){.pid = pid >= 0 ? pid : (int32_t)(200 + i)};
        snprintf(out[i].job, sizeof out[i].job, "%d", s->first_job + out[i].pid / 2);
    }
    return count;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void pass_time(Story *s)
{
    static const uint32_t steps_s[] = {1, 5, 10, 30, 60, 61, 120, 180, 600, 601, 1800, 3600, 86400, 172801};
    const uint32_t step = steps_s[draw(s, ARRAY_LEN(steps_s))];

    str_addf(s->out, " +%u s\n", step);
    kit_tick(&s->kit, step * SECOND);
}

static void write_event(Str *out, const Event *event)
{
    str_addf(out, " %s%s", event->text, event->before ? ", before" : "");
    if (event->link != DEVICE_NO_NUMBER)
        str_addf(out, ", link %u", event->link);
    if (event->gpu_instance != DEVICE_NO_NUMBER)
        str_addf(out, ", instance %u", event->gpu_instance);
    if (event->recovery_action >= 0)
        str_addf(out, ", asks for %d", event->recovery_action);
    if (event->caused_by != 0)
        str_addf(out, ", after %d", event->caused_by);
    if (event->gpc >= 0)
        str_addf(out, ", at %d/%d", event->gpc, event->tpc);
    if (event->pid >= 0)
        str_addf(out, ", of %s %d", event->process, event->pid);
    str_addf(out, "%s\n", event->word == EVENT_FATAL ? ", fatal" : "");
}

static void add_event(Story *s)
{
    static const struct {
        EventKind kind;
        int32_t code;
    } events[] = {
        {EVENT_XID, 79},     {EVENT_XID, 48},     {EVENT_XID, 95},     {EVENT_XID, 63},  {EVENT_XID, 64},
        {EVENT_XID, 94},     {EVENT_XID, 119},    {EVENT_XID, 154},    {EVENT_XID, 45},  {EVENT_XID, 43},
        {EVENT_XID, 31},     {EVENT_XID, 31},     {EVENT_XID, 13},     {EVENT_XID, 13},  {EVENT_XID, 74},
        {EVENT_XID, 149},    {EVENT_XID, 109},    {EVENT_XID, 110},    {EVENT_XID, 120}, {EVENT_XID, 46},
        {EVENT_XID, 77},     {EVENT_OFF_BUS, 0},  {EVENT_OOM_KILL, 0}, {EVENT_MCE, 0},   {EVENT_AER, 0},
        {EVENT_SXID, 20034}, {EVENT_SXID, 20035},
    };
    static const char *const programs[] = {"python", "vllm", "train"};
    const size_t which = s->is_about_programs ? 8 + draw(s, 6) : draw(s, ARRAY_LEN(events));
    const int gpu = (int)draw(s, NEAR_GPUS);
    Event event = kit_xid(&s->kit, gpu, events[which].code);

    event.kind = events[which].kind;
    event.has_pci = event.kind != EVENT_OOM_KILL && event.kind != EVENT_MCE && draw(s, 12) != 0;
    if (event.code == 74 || event.code == 149 || event.kind == EVENT_SXID)
        event.link = draw(s, 2);
    if (event.code == 154)
        event.recovery_action = (int32_t)draw(s, FAULT_RECOVERIES);
    if (event.code == 45 && draw(s, 2))
        event.caused_by = events[draw(s, 8)].code;
    if (event.code == 13)
        event.gpc = (int32_t)draw(s, 2), event.tpc = (int32_t)draw(s, 2);
    if (event.code == 31 || event.code == 13 || event.code == 45 || event.code == 43 || event.kind == EVENT_OOM_KILL) {
        event.pid = 100 + (int32_t)draw(s, 3);
        strcpy(event.process, programs[draw(s, ARRAY_LEN(programs))]);
    }
    if (event.kind == EVENT_XID && draw(s, 8) == 0)
        event.gpu_instance = draw(s, 2);
    if (event.kind == EVENT_AER && draw(s, 2))
        event.word = EVENT_FATAL;
    if (event.kind == EVENT_AER && draw(s, 2)) /* of the port above all, or above one */
        event.pci = (PciAddress){0, (uint8_t)(1 + draw(s, 1 + NEAR_GPUS)), 0, 0};
    if (draw(s, 10) == 0) {
        const uint64_t ago = (1 + draw(s, 4)) * 30 * SECOND;

        event.before = true;
        event.time_ns -= ago;
        event.real_ns -= ago;
    }
    snprintf(event.text, sizeof event.text, "%s %d of GPU %d", event_kinds[event.kind].key, event.code,
             event.has_pci ? gpu : -1);
    for (uint32_t words = event.code == 0 && draw(s, 3) == 0 ? 1 + draw(s, 40) : 0; words > 0; words--)
        strncat(event.text, words % 3 ? " word" : " longer", sizeof event.text - strlen(event.text) - 1);
    write_event(s->out, &event);
    kit_give(&s->kit, &event);
    if (draw(s, 3))
        kit_turn(&s->kit);
}

static void hold_condition(Story *s)
{
    static const uint32_t lengths_s[] = {1, 30, 31, 60, 61, 90};
    const FaultClass *class = double_class_at(draw(s, double_classes()));
    const uint32_t length = lengths_s[draw(s, ARRAY_LEN(lengths_s))];
    const bool of_link = class->scope == SCOPE_LINK;
    const int gpu = class->scope == SCOPE_NODE || class->scope == SCOPE_FABRIC ? -1 : (int)draw(s, NEAR_GPUS);

    str_addf(s->out, " %s holds on GPU %d for %u s\n", class->id, gpu, length);
    kit_hold_for(&s->kit, class->id, gpu, of_link ? draw(s, 2) : DEVICE_NO_NUMBER, length * SECOND);
}

/* A count as a detector has it: new, or one more than before. */
static void count_once(Story *s)
{
    static const char *const classes[] = {"ecc-uncorrectable", "row-remap-pending", "pcie-errors", "inforom-corrupt"};
    const FaultRule *rule = double_condition(classes[draw(s, ARRAY_LEN(classes))]);
    const uint32_t gpu = draw(s, NEAR_GPUS), count = 1 + draw(s, 3);
    Evidence evidence = {
        .verdict = fault_verdict(rule),
        .time_ns = s->kit.now_ns,
        .real_ns = s->kit.real_ns,
        .pid = -1,
        .counter_count = 1,
        .counters = {{.name = "count", .before = draw(s, 2) ? (double)NAN : (double)count - 1, .after = (double)count}},
    };

    device_init(&evidence.device, DEVICE_GPU);
    evidence.device.has_pci = true;
    evidence.device.pci = kit_pci((int)gpu);
    snprintf(evidence.text, sizeof evidence.text, "%s of GPU %u: %g to %u", rule->id, gpu, evidence.counters[0].before,
             count);
    str_addf(s->out, " %s\n", evidence.text);
    incidents_add_evidence(s->kit.incidents, &evidence);
    kit_turn(&s->kit);
}

static void end_faults(Story *s)
{
    static const EventKind kinds[] = {EVENT_RESET, EVENT_RESET, EVENT_MODULE_LOADED, EVENT_REBOOT, EVENT_REPLACED};
    const int gpu = (int)draw(s, NEAR_GPUS + 1);
    Event event = kit_xid(&s->kit, gpu, 0);

    event.kind = kinds[draw(s, ARRAY_LEN(kinds))];
    event.has_pci = gpu < NEAR_GPUS && event.kind != EVENT_MODULE_LOADED && event.kind != EVENT_REBOOT;
    str_addf(s->out, " %s of GPU %d\n", event_kinds[event.kind].key, event.has_pci ? gpu : -1);
    kit_give(&s->kit, &event);
    kit_turn(&s->kit);
}

static void change_gpu(Story *s)
{
    static const GpuState states[] = {GPU_UP, GPU_UP, GPU_LOST, GPU_HUNG, GPU_GONE, GPU_STARTING};
    static const MetricId told[] = {METRIC_GPU_RECOVERY_ACTION, METRIC_ECC_DBE_VOL_TOTAL, METRIC_ROW_REMAP_PENDING};
    const uint32_t gpu = draw(s, NEAR_GPUS);
    NodeGpu *now = &s->kit.gpus[gpu];
    const MetricId metric = told[draw(s, ARRAY_LEN(told))];

    now->state = states[draw(s, ARRAY_LEN(states))];
    now->last_sample_ns = s->kit.now_ns;
    sample_set_int64(&now->reading.sample[metric], s->kit.now_ns, draw(s, 2));
    if (draw(s, 6) == 0)
        snprintf(now->reading.device.uuid, sizeof now->reading.device.uuid, "GPU-%08u", 10 + draw(s, 2));
    str_addf(s->out, " GPU %u is %s, %s, %s %lld\n", gpu, gpu_states[now->state].key, now->reading.device.uuid,
             metric_get(metric)->name, (long long)now->reading.sample[metric].value.i);
    kit_tick(&s->kit, SECOND);
}

static void start_anew(Story *s)
{
    Kit *kit = &s->kit;
    const size_t count = incidents_count(kit->incidents);
    Incident *kept = xcalloc(count + 1, sizeof *kept);

    for (size_t i = 0; i < count; i++)
        kept[i] = *incidents_at(kit->incidents, i);
    kit_restart(kit);
    incidents_set_owners(kit->incidents, find_owners, s);
    incidents_restore(kit->incidents, kept, count, kit->now_ns, kit->real_ns);
    free(kept);
    str_addf(s->out, " started anew with %zu of %zu\n", incidents_count(kit->incidents), count);
    kit_tick(kit, SECOND);
}

static void change_window(Story *s)
{
    MaintenanceWindow window = {.gpus = draw(s, 4), .until_real_ns = s->kit.real_ns + 60 * SECOND};
    char id[INCIDENT_ID_CAP];

    str_addf(s->out, " a window of GPUs %llx\n", (unsigned long long)window.gpus);
    maintenance_start(s->kit.maintenance, &window, s->kit.real_ns, id, NULL);
    kit_turn(&s->kit);
}

static void clear_one(Story *s)
{
    const size_t count = incidents_count(s->kit.incidents);
    char id[INCIDENT_ID_CAP];

    if (count == 0)
        return;
    const size_t which = draw(s, count);
    memcpy(id, incidents_at(s->kit.incidents, which)->id, sizeof id);
    str_addf(s->out, " clear %zu: %d\n", which,
             incidents_clear(s->kit.incidents, id, "me", s->kit.now_ns, s->kit.real_ns, NULL));
}

/* Other settings, another driver, or what the host says of the bus: a port above all GPUs, and one above each. */
static void change_node(Story *s)
{
    static const char *const classes[] = {"pcie-errors", "ecc-contained", "app-fault", "nvswitch"};
    const char *class = classes[draw(s, ARRAY_LEN(classes))];
    const bool hide = draw(s, 2);
    Place places[KIT_GPUS];

    switch (draw(s, 3)) {
    case 0:
        double_hide(class, hide);
        incidents_set_catalogue(s->kit.incidents, (const Catalogue *)&s->kit.node);
        double_hide(class, false);
        str_addf(s->out, " new settings%s%s\n", hide ? " without " : "", hide ? class : "");
        break;
    case 1:
        snprintf(s->kit.node.driver_version, sizeof s->kit.node.driver_version, "57%u.1", draw(s, 3));
        str_addf(s->out, " driver %s\n", s->kit.node.driver_version);
        kit_tick(&s->kit, SECOND);
        break;
    default:
        for (int i = 0; i < KIT_GPUS; i++) {
            places[i] = (Place){.pci = kit_pci(i)};
            snprintf(places[i].path, sizeof places[i].path, "pci0000:00/0000:01:00.0/0000:0%d:00.0/0000:%02x:00.0",
                     2 + i, 0x10 + i);
        }
        incidents_set_host(s->kit.incidents, &(PlaceList){places, KIT_GPUS}, s->kit.real_ns - HOUR);
        str_addf(s->out, " places\n");
        break;
    }
}

static void write_story(Story *s)
{
    static void (*const steps[])(Story *) = {
        pass_time,  pass_time,  pass_time,  pass_time,      add_event,      add_event,      add_event,   add_event,
        add_event,  add_event,  add_event,  hold_condition, hold_condition, hold_condition, count_once,  count_once,
        end_faults, change_gpu, change_gpu, start_anew,     change_window,  change_node,    change_node, clear_one};

    kit_init(&s->kit);
    incidents_set_owners(s->kit.incidents, find_owners, s);
    kit_tick(&s->kit, 0);
    s->written = 0;
    for (int i = 0; i < STEPS; i++) {
        steps[draw(s, ARRAY_LEN(steps))](s);
        write_changes(s);
    }
    write_end(s);
    kit_done(&s->kit);
}

static void test_stories(void **state)
{
    CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX);

    (void)state;
    for (uint64_t i = 1; i <= STORIES; i++) {
        Story story = {.seed = i * 88172645463325252u, .out = &out, .first_job = 1000, .is_about_programs = i % 4 == 0};

        str_addf(&out, "story %llu\n", (unsigned long long)i);
        write_story(&story);
    }
    assert_golden(STORIES_TEXT, &out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stories)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
