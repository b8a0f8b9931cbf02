/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/agent/judge_inside.h"

#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "source/proc/task.h"

enum { EARLY_MAX = 4096 };

#define EARLY_NS (3 * NS_PER_S)

uint64_t judge_now(void *clock)
{
    const Judge *judge = clock;

    return board_now(judge->eyes->board);
}

uint64_t judge_real(void *clock)
{
    const Judge *judge = clock;

    return eyes_real(judge->eyes);
}

static bool has_code(const Incident *incident, int32_t code)
{
    for (uint32_t i = 0; i < incident->code_count; i++)
        if (incident->codes[i] == code)
            return true;
    return false;
}

/* The incident that took the event: one that lasted then, about its device, with its code among those it has seen. */
static const char *taken_by(const Judge *judge, const Event *event)
{
    for (size_t i = 0; i < incidents_count(judge->incidents); i++) {
        const Incident *incident = incidents_at(judge->incidents, i);
        const Device *device = &incident->device;

        if (incident->state == INCIDENT_CLEARED || event->time_ns < incident->first_ns ||
            event->time_ns > incident->last_sign_ns)
            continue;
        if (device->has_pci && event->has_pci && pci_compare(device->pci, event->pci) != 0)
            continue;
        if (event->code ? has_code(incident, event->code) : event->has_pci && device->has_pci)
            return incident->id;
    }
    return "";
}

/* How far the logs were read goes with what was read of them. */
static void save_position(Judge *judge)
{
    KmsgState state;

    if (!judge->kmsg || !judge->ready)
        return;
    kmsg_state(judge->kmsg, &state);
    if (state.sequence == judge->position_sequence)
        return;
    judge->position_sequence = state.sequence;
    journal_put_position(judge->journal, state.boot_id, state.sequence, state.fabric_offset, state.fabric_inode);
}

/* Once it is known where events belong. */
static void settle_events(Judge *judge)
{
    if (judge->event_settled == judge->event_count)
        return;
    while (judge->event_settled < judge->event_count) {
        JudgeEvent *kept = &judge->events[judge->event_settled++ % JUDGE_EVENTS];

        snprintf(kept->incident, sizeof kept->incident, "%s", taken_by(judge, &kept->event));
        journal_put_event(judge->journal, &kept->event, kept->incident);
        if (judge->happened)
            judge->happened(judge->self, kept);
    }
    save_position(judge);
}

void judge_take_event(Judge *judge, const Event *event)
{
    if (judge->event_count - judge->event_settled == JUDGE_EVENTS)
        settle_events(judge); /* before the ring comes round */
    incidents_event(judge->incidents, event);
    judge->events[judge->event_count % JUDGE_EVENTS] = (JudgeEvent){.number = judge->event_count + 1, .event = *event};
    judge->event_count++;
}

static void turn(Judge *judge, uint64_t now_ns, uint64_t real_ns)
{
    maintenance_turn(judge->maintenance, real_ns);
    incidents_turn(judge->incidents, now_ns, real_ns);
    settle_events(judge);
}

void judge_settle(Judge *judge)
{
    turn(judge, judge_now(judge), judge_real(judge));
}

/* The lines that the loop has read in one go are judged together. */
static void lines_read(uv_idle_t *idle)
{
    Judge *judge = idle->data;

    uv_idle_stop(idle);
    judge_settle(judge);
}

void judge_line_came(void *self, const Event *event)
{
    Judge *judge = self;

    if (!judge->ready) {
        vec_push(&judge->early, *event);
        return;
    }
    judge_take_event(judge, event);
    uv_idle_start(&judge->idle, lines_read);
}

/* Alerts name GPUs by index and UUID: what the logs say waits until those are known, for a moment at most. */
static void take_early(Judge *judge, const Node *node)
{
    bool known = node->gpu_count > 0;

    if (judge->ready)
        return;
    for (size_t i = 0; i < node->gpu_count; i++)
        known &= node->gpus[i].reading.device.uuid[0] != '\0';
    if (!known && judge->early.len < EARLY_MAX && node->time_ns - judge->opened_ns < EARLY_NS)
        return;
    judge->ready = true;
    for (size_t i = 0; i < judge->early.len; i++)
        judge_take_event(judge, &judge->early.at[i]);
    vec_done(&judge->early);
}

static void take_driver_event(Judge *judge, const XidEvent *from)
{
    const uint64_t now = judge_now(judge), real = judge_real(judge);
    Event event;

    event_init(&event, EVENT_XID, EVENT_FROM_NVML);
    event.time_ns = from->time_ns;
    event.real_ns = real - (now > from->time_ns ? now - from->time_ns : 0);
    event.has_pci = true;
    event.pci = from->gpu;
    event.gpu_instance = from->gpu_instance;
    event.compute_instance = from->compute_instance;
    event.code = (int32_t)from->xid;
    snprintf(event.text, sizeof event.text, "XID %d, reported by the driver's library", event.code);
    judge_take_event(judge, &event);
}

/* What samplers have put onto the board since; the view counts those that are lost. */
static bool take_driver_events(Judge *judge)
{
    bool any = false;

    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        XidEvent some[BOARD_EVENTS_LEN];
        uint64_t lost;
        const size_t n = board_take_events(&judge->eyes->board->samplers[i], &judge->event_heads[i], some, &lost);

        for (size_t k = 0; k < n; k++)
            take_driver_event(judge, &some[k]);
        any |= n > 0;
    }
    return any;
}

void judge_peek(void *self)
{
    Judge *judge = self;

    if (judge->ready && take_driver_events(judge))
        judge_settle(judge);
}

static JudgeGpu *gpu_of(Judge *judge, PciAddress pci)
{
    for (size_t i = 0; i < judge->gpu_count; i++)
        if (pci_compare(judge->gpus[i].pci, pci) == 0)
            return &judge->gpus[i];
    if (judge->gpu_count == NODE_GPUS_MAX)
        return NULL;
    judge->gpus[judge->gpu_count] = (JudgeGpu){.pci = pci};
    return &judge->gpus[judge->gpu_count++];
}

static void tell_reset(Judge *judge, const Node *node, PciAddress pci)
{
    Event event;

    event_init(&event, EVENT_RESET, EVENT_FROM_AGENT);
    event.time_ns = node->time_ns;
    event.real_ns = node->real_ns;
    event.has_pci = true;
    event.pci = pci;
    snprintf(event.text, sizeof event.text, "its counters began anew: it was reset, or its driver was loaded again");
    judge_take_event(judge, &event);
}

/* A reset leaves no line in any log; what counts from it on begins at 0 again. */
static void look_for_resets(Judge *judge, const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const Reading *reading = &node->gpus[i].reading;
        JudgeGpu *gpu = gpu_of(judge, reading->device.pci);
        double energy;

        if (!gpu || !sample_double(&reading->sample[METRIC_TOTAL_ENERGY_CONSUMPTION], &energy))
            continue;
        if (energy < gpu->energy_mj)
            tell_reset(judge, node, gpu->pci);
        gpu->energy_mj = energy;
    }
}

static void sign_given(void *self, const Sign *sign)
{
    Judge *judge = self;
    Sign named = *sign;
    char pid[16];
    Err err;

    if (sign->pid > 0 && !sign->process[0]) {
        const char *root = judge->config->o.root;

        snprintf(pid, sizeof pid, "%d", sign->pid);
        if (proc_text(root ? root : "", pid, "comm", named.process, sizeof named.process, &err) == 0)
            named.process[strcspn(named.process, "\n")] = '\0';
        else
            named.process[0] = '\0';
    }
    incidents_sign(judge->incidents, &named);
}

/* --- a tick ------------------------------------------------------------------------------------------------------- */

static void fill_logs(const Judge *judge, Facts *facts)
{
    KmsgState state = {0};

    if (judge->kmsg)
        kmsg_state(judge->kmsg, &state);
    facts->log = judge->kmsg ? state.log : FACTS_LOG_OFF;
    memcpy(facts->log_why, state.why, sizeof facts->log_why);
    facts->log_lost = state.lost;
    facts->fabric_log = state.fabric_log;
}

static void want_processes(Judge *judge, const Node *node)
{
    uint32_t pids[HOST_PROCESSES_MAX];

    host_want(judge->host, pids, node_pids(node, pids, HOST_PROCESSES_MAX));
}

static void look_at_host(Judge *judge, const Node *node)
{
    pid_t samplers[NODE_SAMPLERS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < node->sampler_count; i++)
        if (node->samplers[i].pid > 0)
            samplers[count++] = node->samplers[i].pid;
    want_processes(judge, node);
    host_turn(judge->host, node->time_ns, samplers, count);
    fill_logs(judge, host_facts(judge->host));
}

/* A damaged file was begun anew: what is still known goes into the new one. */
static void refill_journal(Judge *judge)
{
    JournalState state;

    journal_state(judge->journal, &state);
    if (strcmp(state.set_aside, judge->set_aside) == 0)
        return;
    snprintf(judge->set_aside, sizeof judge->set_aside, "%s", state.set_aside);
    log_write(judge->log, LOG_LEVEL_ERROR, "the journal was damaged (%s); it was set aside as '%s' and begun anew",
              state.why, state.set_aside);
    for (size_t i = 0; i < incidents_count(judge->incidents); i++)
        journal_put_incident(judge->journal, incidents_at(judge->incidents, i));
    remembered_refill(&judge->remembered);
}

size_t judge_cleared(Judge *judge, const Incident *incident, const char *who)
{
    if (strcmp(incident->class, "gpu-missing") != 0)
        return 0;
    return remembered_forget(&judge->remembered, view_node(judge->eyes->view), &incident->device, who);
}

void judge_turn(Judge *judge, const Node *node)
{
    incidents_look(judge->incidents, node);
    look_at_host(judge, node);
    take_early(judge, node);
    if (judge->ready)
        take_driver_events(judge);
    look_for_resets(judge, node);
    detectors_turn(judge->detectors, node, host_facts(judge->host), sign_given, judge);
    turn(judge, node->time_ns, node->real_ns);
    save_position(judge);
    remembered_turn(&judge->remembered, node);
    judge_close_boxes(judge, node->time_ns);
    refill_journal(judge);
}

void judge_wants(const Judge *judge, BoardPlan *plan)
{
    detectors_wanted(judge->detectors, plan->wanted);
    plan->want_links = detectors_want_links(judge->detectors);
    plan->want_processes = true; /* who is on a GPU, is shown */
}

const Facts *judge_facts(const Judge *judge)
{
    return host_facts(judge->host);
}

ProcessList judge_processes(const Judge *judge)
{
    return host_processes(judge->host);
}

PlaceList judge_places(const Judge *judge)
{
    return host_places(judge->host);
}

uint64_t judge_each_event(const Judge *judge, uint64_t from, void (*fn)(void *self, const JudgeEvent *event),
                          void *self)
{
    const uint64_t oldest = judge->event_count > JUDGE_EVENTS ? judge->event_count - JUDGE_EVENTS : 0;

    for (uint64_t n = from > oldest ? from : oldest; n < judge->event_count; n++)
        fn(self, &judge->events[n % JUDGE_EVENTS]);
    return judge->event_count;
}
