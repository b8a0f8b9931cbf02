/* SPDX-License-Identifier: Apache-2.0 */
/* Events and signs as they come in: what was told already is left out, the rest becomes an IncidentInput. */
#include "engine/health/incidents_inside.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/number.h"

enum { XID_RECOVERY = 154 };

/* What the driver asks for (XID 154 and NVML's recovery action): 0 none, 1 reset, 2 reboot, 3 end what uses peer to
 * peer, 4 drain and reset, 5 recover the IMEX domain. */
static const FaultAction recoveries[] = {
    ACTION_NONE,        ACTION_RESET_GPU,       ACTION_REBOOT_NODE,
    ACTION_RESTART_APP, ACTION_DRAIN_AND_RESET, ACTION_RESTART_FABRIC,
};

enum { RECOVERIES = sizeof recoveries / sizeof recoveries[0] };

static bool of_log(const Event *event)
{
    return event->origin == EVENT_FROM_KMSG || event->origin == EVENT_FROM_JOURNAL;
}

static Device device_of(const Event *event)
{
    bool on_switch = event->kind == EVENT_SXID || event->kind == EVENT_FABRIC_LOG;
    Device device;

    device_init(&device, !event->has_pci && event->uuid[0] == '\0' ? DEVICE_NODE
                         : on_switch                               ? DEVICE_SWITCH
                                                                   : DEVICE_GPU);
    device.vendor = DEVICE_NVIDIA;
    device.has_pci = event->has_pci;
    device.pci = event->pci;
    device.gpu_instance = event->gpu_instance;
    device.compute_instance = event->compute_instance;
    device.link = event->link;
    if (!on_switch)
        memcpy(device.uuid, event->uuid, sizeof device.uuid);
    return device;
}

/* The same record of the kernel's log a second time: after the reader was started anew. */
static bool read_before(Incidents *incidents, const Event *event)
{
    uint64_t hash, *slot = &incidents->records[event->sequence % INCIDENTS_RECORDS];

    if (event->origin != EVENT_FROM_KMSG || event->sequence == 0)
        return false;
    hash = map_hash(event->text, strlen(event->text), event->sequence ^ (uint64_t)event->kind << 48) | 1;
    if (*slot == hash)
        return true;
    *slot = hash;
    return false;
}

/* --- the same XID of log and library --- */

static IncidentTwin *find_twin(Incidents *incidents, uint64_t place, int32_t code)
{
    IncidentTwin *oldest = &incidents->twins[0];

    for (size_t i = 0; i < INCIDENTS_TWINS; i++) {
        IncidentTwin *twin = &incidents->twins[i];

        if (twin->place == place && twin->code == code && place != 0)
            return twin;
        if (number_max_u64(twin->log_ns, twin->library_ns) < number_max_u64(oldest->log_ns, oldest->library_ns))
            oldest = twin;
    }
    *oldest = (IncidentTwin){.place = place, .code = code};
    return oldest;
}

static bool close_by(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) <= INCIDENTS_TWIN_NS;
}

/* Whether the other source told it already; otherwise it is remembered for the other. */
static bool matched(IncidentTwin *twin, bool log, uint64_t time_ns)
{
    uint32_t *other = log ? &twin->library_count : &twin->log_count;
    uint32_t *mine = log ? &twin->log_count : &twin->library_count;
    uint64_t *last = log ? &twin->log_ns : &twin->library_ns;

    if (!close_by(time_ns, log ? twin->library_ns : twin->log_ns))
        *other = 0;
    if (!close_by(time_ns, *last))
        *mine = 0;
    if (*other > 0) {
        --*other;
        return true;
    }
    *last = time_ns;
    ++*mine;
    return false;
}

/* The log's line for what the library told first. It knows more, and perhaps another class or thing: then the
 * library's incident becomes that one. */
static void better_told(Incidents *incidents, const IncidentTwin *twin, const IncidentInput *in)
{
    IncidentEntry *old = twin->entry, *entry;
    bool echo, alone;

    if (!old || old->it.state == INCIDENT_CLEARED) {
        incidents_take(incidents, in, &echo);
        return;
    }
    alone = !twin->echo && old->it.count == 1;
    if (!twin->echo && incidents_key_equal(&old->key, &in->key) && old->silent == in->silent) {
        incidents_refine(incidents, old, in);
        return;
    }
    if (alone && old->it.state == INCIDENT_OPEN && old->key.class == in->key.class && !incidents_taker(incidents, in)) {
        old->key = in->key;
        incidents_refine(incidents, old, in);
        return;
    }
    if (alone && old->it.state == INCIDENT_PENDING) { /* nobody has heard of it */
        incidents_release(incidents, old);
        old = NULL;
    } else if (!alone) {
        incidents_unsay(old, twin);
        incidents->counts.echoes -= twin->echo && incidents->counts.echoes > 0;
    }
    entry = incidents_take(incidents, in, &echo);
    if (alone && old && entry != old)
        incidents_close(incidents, old, INCIDENT_END_MERGED);
}

static void take_xid(Incidents *incidents, const Event *event, const IncidentInput *in)
{
    IncidentTwin *twin = find_twin(incidents, in->key.place, event->code);
    IncidentEntry *entry;
    bool echo;

    if (matched(twin, of_log(event), event->time_ns)) {
        incidents->counts.dropped_repeats++;
        if (of_log(event))
            better_told(incidents, twin, in);
        return;
    }
    entry = incidents_taker(incidents, in);
    if (entry) {
        twin->sign_ns = entry->it.last_sign_ns;
        twin->sign_real_ns = entry->last_real_ns;
        twin->near_ns = entry->near_ns;
        twin->code_count = entry->it.code_count;
    }
    entry = incidents_take(incidents, in, &echo);
    if (event->origin == EVENT_FROM_NVML) {
        twin->entry = entry;
        twin->echo = echo;
    }
}

/* --- from before the start --- */

/* Whether what the journal kept was made of this already: the same incident or one that stands above it. */
static bool known_before(const Incidents *incidents, const IncidentInput *in)
{
    for (size_t i = 0; i < incidents->order_count; i++) {
        const IncidentEntry *entry = incidents->order[i];
        const Incident *it = &entry->it;
        uint64_t until = number_max_u64(entry->last_real_ns, it->cleared_real_ns), window = 0;
        bool peer, same = incidents_key_equal(&entry->key, &in->key);

        if (it->state == INCIDENT_PENDING || !entry->class)
            continue;
        if (!same && !(incidents_related(&entry->key, &in->key, &peer) &&
                       incidents_ancestor(incidents, in->class, entry->class->id, &window)))
            continue;
        if (in->real_ns + window >= it->first_real_ns && in->real_ns <= until + window)
            return true;
    }
    return false;
}

/* --- making inputs --- */

static void set_verdict(IncidentInput *in, const FaultVerdict *verdict)
{
    const FaultRule *rule = verdict->rule;

    in->class = rule->fault;
    in->rule = rule->id;
    in->scope = rule->scope;
    in->for_ns = rule->for_ns;
    in->keep_ns = rule->keep_ns;
    in->cause = verdict->cause;
    in->severity = verdict->severity;
    in->action = verdict->action;
    in->route = rule->fault->observe ? ROUTE_NONE : verdict->route;
    in->silent = rule->silent;
}

/* The driver's own verdict. Whether anything is to be done with it. */
static bool set_recovery(const Incidents *incidents, const Event *event, IncidentInput *in)
{
    const FaultClass *class = catalogue_class(incidents->catalogue, INCIDENTS_RESET_CLASS);

    if (event->recovery_action < 0 || event->recovery_action >= RECOVERIES || !class)
        return true;
    in->action = recoveries[event->recovery_action];
    in->decides = true;
    if (in->class != class) {
        in->class = class;
        in->scope = class->scope;
        in->severity = class->severity;
        in->route = class->observe ? ROUTE_NONE : class->route;
        in->cause = class->cause;
    }
    in->silent = false;
    return event->recovery_action != 0;
}

/* Nothing is asked for any more. */
static void recovered(Incidents *incidents, const IncidentInput *in)
{
    IncidentEntry *entry = incidents_live(incidents, &in->key);

    if (entry)
        incidents_close(incidents, entry, INCIDENT_END_GONE);
}

/* AER of a device that is no GPU is another's business; that of the port above a GPU is found by its counters. */
static bool foreign(const Incidents *incidents, const Event *event, const Device *device)
{
    return event->kind == EVENT_AER && event->has_pci && incidents->gpu_count > 0 &&
           !incidents_gpu(incidents, incidents_place(device));
}

static bool input_of(const Incidents *incidents, const Event *event, IncidentInput *ret)
{
    FaultVerdict verdict;
    Device device = device_of(event);
    const IncidentGpu *gpu = incidents_gpu(incidents, incidents_place(&device));

    if (!catalogue_judge(incidents->catalogue, event, incidents->driver_major, gpu ? gpu->device.arch : 0, &verdict) ||
        !verdict.rule || !verdict.rule->fault || foreign(incidents, event, &device))
        return false;
    *ret = (IncidentInput){
        .origin = event->origin,
        .before = event->before,
        .time_ns = event->time_ns,
        .real_ns = event->real_ns,
        .device = device,
        .code = event->code,
        .pid = event->pid,
        .caused_by = event->caused_by,
        .process = event->process,
        .text = event->text,
    };
    set_verdict(ret, &verdict);
    return true;
}

static void judge_event(Incidents *incidents, const Event *event)
{
    IncidentInput in;
    bool act, echo;

    if (!input_of(incidents, event, &in))
        return;
    if (strcmp(in.rule, "xid-unknown") == 0 || strcmp(in.rule, "sxid-unknown") == 0)
        incidents->counts.unknown++;
    act = event->kind != EVENT_XID || event->code != XID_RECOVERY || set_recovery(incidents, event, &in);
    if (!in.class->enabled)
        return;
    incidents_normalise(incidents, in.scope, &in.device);
    in.key = incidents_key(in.class, &in.device, in.code, in.process, in.silent);
    if (!act)
        recovered(incidents, &in);
    else if (event->before && known_before(incidents, &in))
        ;
    else if (event->kind == EVENT_XID && !event->before)
        take_xid(incidents, event, &in);
    else
        incidents_take(incidents, &in, &echo);
    if (act)
        incidents_locality(incidents, event, &in);
}

void incidents_event(Incidents *incidents, const Event *event)
{
    Device device = device_of(event);

    if (read_before(incidents, event)) {
        incidents->counts.dropped_repeats++;
        return;
    }
    incidents->counts.events++;
    if (event->before) {
        incidents->replaying = true;
        incidents->replay_ns = 0; /* of the next turn */
    } else {
        incidents->now_ns = number_max_u64(incidents->now_ns, event->time_ns);
        incidents->real_ns = event->real_ns;
    }
    incidents_end_by(incidents, event->kind, event->has_pci ? incidents_place(&device) : 0, event->time_ns,
                     event->real_ns);
    judge_event(incidents, event);
    incidents_arrange(incidents);
}

/* What another incident has said already is its echo, and makes it no worse. */
static void explain(const Incidents *incidents, const char *class, IncidentInput *in)
{
    const IncidentEntry *by = class && class[0] ? incidents_explains(incidents, in, class) : NULL;

    if (!by)
        return;
    in->silent = true;
    in->caused_by = by->it.code;
}

void incidents_sign(Incidents *incidents, const Sign *sign)
{
    IncidentInput in = {
        .holds = sign->holds,
        .origin = sign->event ? sign->event->origin : EVENT_FROM_AGENT,
        .time_ns = sign->time_ns,
        .real_ns = sign->real_ns,
        .device = sign->device,
        .code = sign->code,
        .pid = sign->pid,
        .process = sign->process,
        .text = sign->text,
        .counter_count = number_min_u64(sign->counter_count, SIGN_COUNTERS),
        .counters = sign->counters,
    };
    bool echo;

    if (!sign->verdict.rule || !sign->verdict.rule->fault || !sign->verdict.rule->fault->enabled)
        return;
    set_verdict(&in, &sign->verdict);
    in.decides = strcmp(in.class->id, INCIDENTS_RESET_CLASS) == 0 && in.action != ACTION_NONE;
    incidents->now_ns = number_max_u64(incidents->now_ns, sign->time_ns);
    incidents->real_ns = sign->real_ns;
    incidents_normalise(incidents, in.scope, &in.device);
    in.key = incidents_key(in.class, &in.device, in.code, in.process, in.silent);
    explain(incidents, sign->verdict.rule->explained_by, &in);
    incidents_take(incidents, &in, &echo);
    incidents_arrange(incidents);
}
