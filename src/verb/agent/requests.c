/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent answers on its control socket:
 *   status text WIDTH STYLE [HEIGHT]
 *                               the screen of `stoker status`; STYLE: 1 colour, 2 UTF-8, 3 both, 0 neither; HEIGHT:
 *                               what it has to fit into, 0 or none: any
 *   status json
 *   history DEVICE METRICS RESOLUTION FROM TO   as /api/v1/gpus/DEVICE/history
 *   release SECONDS             let go of the driver for so long; 0 takes it up again
 *   reload                      read the configuration again
 *   check PROFILE SINCE GPUS    what is against work on these GPUs; see check/findings.h
 *   incidents open|all          as /api/v1/incidents
 *   incident ID
 *   events FROM                 as /api/v1/events?from=FROM
 *   clear ID WHO                a GPU that it missed is not missed again
 *   maintenance start SECONDS GPUS WHO REASON...   GPUS: "all" or indexes with commas
 *   maintenance stop ID|all WHO
 *   maintenance list
 *   journal                     the file
 *   clock SECONDS               step the wall clock, of an agent whose clock is a test's
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "service/incident/incident.h"
#include "service/status/status.h"
#include "verb/agent/agent.h"
#include "verb/check/findings.h"
#include "verb/verb.h"

enum { RELEASE_MAX_S = 24 * 3600, WINDOW_MAX_S = 366 * 24 * 3600 };

static size_t open_incidents(const Agent *agent, const Incident *out[INCIDENTS_MAX])
{
    const Incidents *all = agent->triage.incidents;
    size_t count = 0;

    for (size_t i = 0; i < incidents_count(all) && count < INCIDENTS_MAX; i++)
        if (incidents_at(all, i)->state == INCIDENT_OPEN)
            out[count++] = incidents_at(all, i);
    return count;
}

Snapshot agent_snapshot(const Agent *agent, const Incident *incidents[INCIDENTS_MAX])
{
    return (Snapshot){.node = board_reader_node(agent->sampling.reader),
                      .allocations = agent->pods ? podresources_table(agent->pods) : NULL,
                      .processes = host_processes(agent->triage.host),
                      .places = host_places(agent->triage.host),
                      .boot_id = host_facts(agent->triage.host)->boot_id,
                      .boot_real_ns = host_facts(agent->triage.host)->boot_real_ns,
                      .incidents = incidents,
                      .incident_count = open_incidents(agent, incidents),
                      .maintenance = agent->triage.maintenance};
}

/* --- lists, which HTTP answers too ---------------------------------------------------------------------------------
 */

static bool is_about(const Agent *agent, const Incident *incident, const char *device)
{
    char key[DEVICE_KEY_CAP];
    const NodeGpu *gpu;

    if (device_key(&incident->device, key) >= 0 && strcmp(key, device) == 0)
        return true;
    return api_find(board_reader_node(agent->sampling.reader), device, &gpu) && incident->device.has_pci &&
           pci_compare(incident->device.pci, gpu->reading.device.pci) == 0;
}

void agent_incidents_json(const Agent *agent, bool open_only, const char *device, Str *out)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    const Incidents *all = agent->triage.incidents;
    const Incident *list[INCIDENTS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < incidents_count(all) && count < INCIDENTS_MAX; i++) {
        const Incident *incident = incidents_at(all, i);

        if (incident->state == INCIDENT_PENDING || (open_only && incident->state != INCIDENT_OPEN))
            continue;
        if (!device || is_about(agent, incident, device))
            list[count++] = incident;
    }
    incidents_json(list, count, node->hostname, node->real_ns, out);
}

void agent_events_json(const Agent *agent, uint64_t from, Str *out)
{
    json_open(out, NULL, '{');
    json_open(out, "events", '[');
    const uint64_t next = triage_events_json(&agent->triage, from, out);
    json_close(out, ']');
    json_add_u64(out, "next", next);
    json_add_time(out, "started", agent->start_real_ns);
    str_add(out, "}\n");
}

void agent_maintenance_json(const Agent *agent, Str *out)
{
    const Maintenance *maintenance = agent->triage.maintenance;

    json_open(out, NULL, '{');
    json_open(out, "windows", '[');
    for (size_t i = 0; i < maintenance_count(maintenance); i++) {
        json_add_key(out, NULL);
        maintenance_window_json(maintenance_at(maintenance, i), out);
    }
    str_add(out, "]}\n");
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static int answer_usage(Str *out, const char *what)
{
    str_addf(out, "%s\n", what);
    return EXIT_USAGE;
}

static int answer_problem(Str *out, const char *what)
{
    str_addf(out, "%s\n", what);
    return EXIT_UNKNOWN;
}

static int answer_status(Agent *agent, const char *const *words, size_t count, Str *out)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot seen = agent_snapshot(agent, incidents);
    uint64_t width = 80, height = 0, bits = 0;

    if (count == 2 && strcmp(words[1], "json") == 0) {
        status_json(&seen, out);
    } else if ((count == 4 || count == 5) && strcmp(words[1], "text") == 0 &&
               number_parse_u64(words[2], 0, 10000, &width, NULL) == 0 &&
               number_parse_u64(words[3], 0, 3, &bits, NULL) == 0 &&
               (count == 4 || number_parse_u64(words[4], 0, 10000, &height, NULL) == 0)) {
        StatusStyle style = {.width = width, .height = height, .colour = bits & 1, .utf8 = bits & 2};

        status_text(&seen, &style, out);
    } else {
        return answer_usage(out, "status: 'text WIDTH STYLE [HEIGHT]' or 'json' is needed");
    }
    return status_code(&seen);
}

static int answer_history(Agent *agent, const char *const *words, size_t count, Str *out)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    const NodeGpu *gpu;
    HistoryQuery query;
    Err err;
    const Reading *reading = count == 6 ? api_find(node, words[1], &gpu) : NULL;

    if (count != 6)
        return answer_usage(out, "history: 'DEVICE METRICS second|minute FROM TO' is needed");
    if (!reading)
        (void)err_set(&err, -ENOENT, "there is no GPU or MIG device '%.100s'", words[1]);
    if (reading && api_history_query(words[2], words[3], words[4], words[5], node->real_ns, &query, &err) == 0 &&
        api_history(node, agent->store, reading, &query, out, &err) == 0)
        return EXIT_FINE;
    return answer_problem(out, err.text);
}

/* What Slurm, a probe, a prolog or an epilog asks; the words are those that `stoker check` makes. */
static int answer_check(Agent *agent, const char *const *words, size_t count, Str *out)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot seen = agent_snapshot(agent, incidents);

    return check_answer(&seen, true, words, count, out);
}

static int answer_release(Agent *agent, const char *const *words, size_t count, Str *out)
{
    uint64_t seconds;

    (void)count;
    if (number_parse_u64(words[1], 0, RELEASE_MAX_S, &seconds, NULL) < 0) {
        str_addf(out, "release: a number of seconds up to %d is needed\n", RELEASE_MAX_S);
        return EXIT_USAGE;
    }
    uint64_t now = board_now(agent->sampling.board);
    supervisor_release(agent->sampling.supervisor, seconds ? now + seconds * NS_PER_S : 0);
    if (seconds)
        log_write(&agent->log, LOG_LEVEL_INFO, "the driver is let go for %llu s, as asked",
                  (unsigned long long)seconds);
    else
        log_write(&agent->log, LOG_LEVEL_INFO, "the driver is taken up again, as asked");
    return EXIT_FINE;
}

/* How many samplers still have the driver: what `stoker release` waits for. One that died left its last word behind;
 * one that lives shows it. */
static int answer_released(Agent *agent, const char *const *words, size_t count, Str *out)
{
    (void)words, (void)count;
    const Node *node = board_reader_node(agent->sampling.reader);
    size_t holding = 0;

    for (size_t i = 0; i < node->sampler_count; i++) {
        const NodeSampler *s = &node->samplers[i];

        if (s->state == SAMPLER_STUCK || s->state == SAMPLER_KILLED || s->state == SAMPLER_ABANDONED) {
            str_addf(out, "sampler %d is %s and still holds the driver\n", (int)s->pid, sampler_states[s->state].key);
            return EXIT_FINDING;
        }
    }
    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        const BoardSampler *s = &agent->sampling.board->samplers[i];

        holding += atomic_load(&s->driver) == BOARD_DRIVER_FINE &&
                   atomic_load(&s->beat_ns) + agent->config->limits.beat_ns > board_kernel_now();
    }
    str_addf(out, "%zu\n", holding);
    return EXIT_FINE;
}

static int answer_clock(Agent *agent, const char *const *words, size_t count, Str *out)
{
    (void)count;
    int64_t seconds;

    if (agent->started->o.clock_speed == 1 || number_parse_i64(words[1], -1000000, 1000000, &seconds, NULL) < 0)
        return answer_usage(out, "clock: only an agent with --clock-speed has one to step");
    agent->sampling.real_step_ns += seconds * (int64_t)NS_PER_S;
    return EXIT_FINE;
}

static int answer_reload(Agent *agent, const char *const *words, size_t count, Str *out)
{
    (void)words, (void)count, (void)out;
    agent_reload(agent, "asked to");
    return agent->config_fine ? EXIT_FINE : EXIT_FINDING;
}

static int answer_incidents(Agent *agent, const char *const *words, size_t count, Str *out)
{
    (void)count;
    agent_incidents_json(agent, strcmp(words[1], "all") != 0, NULL, out);
    return EXIT_FINE;
}

static int answer_incident(Agent *agent, const char *const *words, size_t count, Str *out)
{
    const Incident *incident = incidents_find(agent->triage.incidents, words[1]);

    (void)count;
    if (!incident)
        return EXIT_UNKNOWN; /* the journal may know it */
    incident_json(incident, out);
    str_addc(out, '\n');
    return EXIT_FINE;
}

static int answer_events(Agent *agent, const char *const *words, size_t count, Str *out)
{
    uint64_t from;

    (void)count;
    if (number_parse_u64(words[1], 0, UINT64_MAX, &from, NULL) < 0)
        return answer_usage(out, "events: FROM");
    agent_events_json(agent, from, out);
    return EXIT_FINE;
}

static int answer_clear(Agent *agent, const char *const *words, size_t count, Str *out)
{
    const char *id = words[1];
    Err err;

    (void)count;
    if (incidents_clear(agent->triage.incidents, id, words[2], board_now(agent->sampling.board),
                        sampling_real_ns(&agent->sampling), &err) < 0)
        return answer_problem(out, err.text);
    const Incident *over = incidents_find(agent->triage.incidents, id);
    const size_t forgotten = over ? triage_forget_missing(&agent->triage, over, words[2]) : 0;
    if (forgotten > 0)
        str_addf(out, "%zu GPU%s no longer missed\n", forgotten, forgotten == 1 ? " is" : "s are");
    return EXIT_FINE;
}

/* "all", or indexes with commas, of GPUs that there are. */
static bool read_gpus(const Node *node, const char *text, MaintenanceWindow *window)
{
    size_t uuids = 0;

    if (strcmp(text, "all") == 0)
        return true;
    while (*text) {
        const size_t len = strcspn(text, ",");
        char one[DEVICE_UUID_CAP];
        const NodeGpu *gpu;

        snprintf(one, sizeof one, "%.*s", (int)len, text);
        if (len >= sizeof one || !api_find(node, one, &gpu) || gpu->reading.device.index >= 64)
            return false;
        window->gpus |= UINT64_C(1) << gpu->reading.device.index;
        if (uuids < ARRAY_LEN(window->uuids))
            memcpy(window->uuids[uuids++], gpu->reading.device.uuid, DEVICE_UUID_CAP);
        text += len + (text[len] == ',');
    }
    return window->gpus != 0;
}

static int start_window(Agent *agent, const char *const *words, size_t count, Str *out)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    MaintenanceWindow window = {0};
    char id[INCIDENT_ID_CAP];
    uint64_t seconds;
    Err err;

    if (count < 5 || number_parse_u64(words[2], 1, WINDOW_MAX_S, &seconds, NULL) < 0)
        return answer_usage(out, "maintenance start: SECONDS GPUS WHO REASON...");
    if (!read_gpus(node, words[3], &window)) {
        str_addf(out, "there is no GPU '%s'; an index, a UUID or a PCI address names one\n", words[3]);
        return EXIT_USAGE;
    }
    snprintf(window.who, sizeof window.who, "%s", words[4]);
    for (size_t i = 5; i < count; i++)
        snprintf(window.reason + strlen(window.reason), sizeof window.reason - strlen(window.reason), "%s%s",
                 i > 5 ? " " : "", words[i]);
    window.from_real_ns = node->real_ns;
    window.until_real_ns = node->real_ns + seconds * NS_PER_S;
    if (maintenance_start(agent->triage.maintenance, &window, node->real_ns, id, &err) < 0)
        return answer_problem(out, err.text);
    memcpy(window.id, id, sizeof window.id);
    journal_put_window(agent->triage.journal, &window, false);
    log_write(&agent->log, LOG_LEVEL_INFO, "maintenance %s began, for %llu s: %s (%s)", id, (unsigned long long)seconds,
              window.reason, window.who);
    str_addf(out, "%s\n", id);
    return EXIT_FINE;
}

static int stop_window(Agent *agent, const char *const *words, size_t count, Str *out)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    Maintenance *maintenance = agent->triage.maintenance;
    Err err;

    if (count != 4)
        return answer_usage(out, "maintenance stop: ID|all WHO");
    for (size_t i = 0; i < maintenance_count(maintenance); i++) {
        const MaintenanceWindow *window = maintenance_at(maintenance, i);

        if (!window->recurring && (strcmp(words[2], "all") == 0 || strcmp(words[2], window->id) == 0))
            journal_put_window(agent->triage.journal, window, true);
    }
    if (maintenance_stop(maintenance, words[2], node->real_ns, &err) < 0)
        return answer_problem(out, err.text);
    log_write(&agent->log, LOG_LEVEL_INFO, "maintenance %s was ended by %s", words[2], words[3]);
    return EXIT_FINE;
}

static int answer_maintenance(Agent *agent, const char *const *words, size_t count, Str *out)
{
    int code;

    if (strcmp(words[1], "start") == 0)
        code = start_window(agent, words, count, out);
    else if (strcmp(words[1], "stop") == 0)
        code = stop_window(agent, words, count, out);
    else
        return answer_usage(out, "maintenance: start, stop or list");
    triage_advance(&agent->triage); /* what it covers is marked at once */
    return code;
}

static int answer_windows(Agent *agent, const char *const *words, size_t count, Str *out)
{
    (void)words, (void)count;
    agent_maintenance_json(agent, out);
    return EXIT_FINE;
}

static int answer_journal(Agent *agent, const char *const *words, size_t count, Str *out)
{
    (void)words, (void)count;
    str_addf(out, "%s\n", agent_journal_path(agent->started));
    return EXIT_FINE;
}

/* The first row with these words answers. */
static const struct {
    const char *word, *second;
    size_t least, most; /* words */
    bool changes;       /* for root and the agent's own user alone */
    int (*answer)(Agent *agent, const char *const *words, size_t count, Str *out);
} requests[] = {
    {"status", NULL, 1, 5, false, answer_status},
    {"history", NULL, 1, CONTROL_WORDS_MAX, false, answer_history},
    {"check", NULL, 1, CONTROL_WORDS_MAX, false, answer_check},
    {"incidents", NULL, 2, 2, false, answer_incidents},
    {"incident", NULL, 2, 2, false, answer_incident},
    {"events", NULL, 2, 2, false, answer_events},
    {"journal", NULL, 1, 1, false, answer_journal},
    {"released", NULL, 1, 1, false, answer_released},
    {"maintenance", "list", 2, 3, false, answer_windows},
    {"maintenance", NULL, 2, CONTROL_WORDS_MAX, true, answer_maintenance},
    {"clear", NULL, 3, 3, true, answer_clear},
    {"release", NULL, 2, 2, true, answer_release},
    {"reload", NULL, 1, 1, true, answer_reload},
    {"clock", NULL, 2, 2, true, answer_clock},
};

int agent_control(void *self, const char *const *words, size_t count, bool owner, Str *out)
{
    Agent *agent = self;

    if (agent->stopping)
        return answer_problem(out, "the agent is being stopped");
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        if (count < requests[i].least || count > requests[i].most || strcmp(words[0], requests[i].word) != 0 ||
            (requests[i].second && strcmp(words[1], requests[i].second) != 0))
            continue;
        if (requests[i].changes && !owner)
            return answer_problem(out, "only root and the agent's own user may do this");
        return requests[i].answer(agent, words, count, out);
    }
    return answer_usage(out, "this agent does not know that word; is it of another version?");
}
