/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent answers on its control socket:
 *   status text WIDTH STYLE [HEIGHT]
 *                               the screen of `stoker status`; STYLE: 1 colour, 2 UTF-8, 3 both, 0 neither; HEIGHT:
 *                               what it has to fit into, 0 or none: any
 *   status json
 *   status brief                one line
 *   devices [REVISION [STATE COUNT...]]
 *                               a line with the revision, then the devices and the open incidents as JSON; waits while
 *                               that is the revision, and for the first look at the host; STATE and a COUNT for each
 *                               ChosenOutcome, from root or the agent's own user, go into metrics
 *   why text WIDTH STYLE [NAME]  why json [NAME]
 *                               as `stoker why NAME`
 *   history DEVICE METRICS RESOLUTION FROM TO   as /api/v1/gpus/DEVICE/history
 *   release SECONDS             let go of the driver for so long; 0 takes it up again
 *   reload                      read the configuration again
 *   check PROFILE SINCE GPUS    what is against work on these GPUs; see check/findings.h
 *   incidents open|all          as /api/v1/incidents
 *   incident ID
 *   events FROM                 as /api/v1/events?from=FROM
 *   jobs                        as /api/v1/jobs
 *   job NAME                    as /api/v1/jobs/NAME
 *   clear ID WHO                a GPU that it missed is not missed again
 *   maintenance start SECONDS GPUS WHO REASON...   GPUS: "all" or indexes with commas
 *   maintenance stop ID|all WHO
 *   maintenance list
 *   mig KIND UUID BEFORE AFTER WHO PID VERB WHY...   see mig_notice_write
 *   bench begin SECONDS UUID... these GPUs are under test for so long; 0: no more
 *   bench end FILE              a test has ended with this result
 *   bench history               the last results, the newest first, a line of JSON each
 *   journal                     the file
 *   prices                      a line per GPU and MIG instance that has one: UUID and the price in force
 *   clock SECONDS               step the wall clock, of an agent whose clock is a test's
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "model/facts.h"
#include "service/incident/incident.h"
#include "service/status/status.h"
#include "service/why/why.h"
#include "verb/agent/agent.h"
#include "verb/check/findings.h"
#include "verb/verb.h"

enum { DEVICES_WORDS = 3 + CHOSEN_OUTCOME_END };
enum { RELEASE_MAX_S = 24 * 3600, WINDOW_MAX_S = 366 * 24 * 3600, BENCH_MAX_S = 2 * 24 * 3600 };

Snapshot agent_snapshot(const Agent *agent, const Incident *incidents[INCIDENTS_MAX])
{
    Snapshot s = {.node = board_reader_node(agent->sampling.reader),
                  .allocations = agent->pods ? podresources_table(agent->pods) : NULL,
                  .jobs = agent->jobs.table.at,
                  .job_count = agent->jobs.table.len,
                  .pods_told = agent->pods && podresources_state(agent->pods) == PODRESOURCES_OK,
                  .jobs_told = agent->jobs.dir && agent->jobs_told,
                  .processes = host_processes(agent->triage.host),
                  .holders_why = host_unlisted(agent->triage.host).holders_why,
                  .host_usages = host_usages(agent->triage.host),
                  .places = host_places(agent->triage.host),
                  .facts = host_facts(agent->triage.host),
                  .boot_id = host_facts(agent->triage.host)->boot_id,
                  .boot_real_ns = host_facts(agent->triage.host)->boot_real_ns,
                  .incidents = incidents,
                  .incident_count = incidents ? incidents_list_open(agent->triage.incidents, incidents) : 0,
                  .maintenance = agent->triage.maintenance};

    if (agent->slurm)
        s.job_infos = slurm_jobs(agent->slurm);
    s.holdings = holdings_list(agent->triage.holdings, &s.holding_count);
    return s;
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

unsigned agent_history_json(const Agent *agent, const char *const query[5], const char *hint, Str *out, Err *err)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    const NodeGpu *gpu;
    HistoryQuery wanted;
    const Reading *reading = api_find(node, query[0], &gpu);

    if (!reading)
        (void)err_set(err, -ENOENT, "there is no GPU or MIG device '%.100s'%s", query[0], hint);
    else if (api_history_query(query[1], query[2], query[3], query[4], node->real_ns, &wanted, err) < 0)
        return 400;
    return reading && api_history(node, agent->store, reading, &wanted, out, err) == 0 ? 200 : 404;
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

/* What was asked; the answer goes to `out`. */
typedef struct Request {
    Agent *agent;
    const char *const *words;
    size_t count;
    bool owner; /* root or the agent's own user asks */
    Str *out;
} Request;

__attribute__((format(printf, 3, 4))) static int refuse_request(const Request *r, int code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    str_addv(r->out, fmt, args);
    va_end(args);
    str_addc(r->out, '\n');
    return code;
}

static int answer_status(const Request *r)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot seen = agent_snapshot(r->agent, incidents);
    uint64_t width = 80, height = 0, bits = 0;

    if (r->count == 2 && strcmp(r->words[1], "json") == 0) {
        status_json(&seen, r->out);
    } else if (r->count == 2 && strcmp(r->words[1], "brief") == 0) {
        status_brief(&seen, r->out);
    } else if ((r->count == 4 || r->count == 5) && strcmp(r->words[1], "text") == 0 &&
               number_parse_u64(r->words[2], 0, 10000, &width, NULL) == 0 &&
               number_parse_u64(r->words[3], 0, 3, &bits, NULL) == 0 &&
               (r->count == 4 || number_parse_u64(r->words[4], 0, 10000, &height, NULL) == 0)) {
        StatusStyle style = {.width = width, .height = height, .colour = bits & 1, .utf8 = bits & 2};

        status_text(&seen, &style, r->out);
    } else {
        return refuse_request(r, EXIT_USAGE, "status: 'text WIDTH STYLE [HEIGHT]', 'brief' or 'json' is needed");
    }
    return status_code(&seen);
}

/* FNV-1a. */
static uint64_t hash_text(const Str *text)
{
    uint64_t hash = 0xcbf29ce484222325;

    for (size_t i = 0; i < text->len; i++)
        hash = (hash ^ (unsigned char)text->text[i]) * 0x100000001b3;
    return hash;
}

static void note_placed(const Request *r)
{
    struct AgentPlaced placed = {.told_ns = r->agent->last_tick_ns};
    const int state = word_find(kube_states, KUBE_STATE_END, r->words[2]);

    if (!r->owner || state < 0)
        return;
    placed.state = kube_states[state].key;
    for (size_t i = 0; i < CHOSEN_OUTCOME_END; i++)
        if (number_parse_u64(r->words[3 + i], 0, UINT64_MAX, &placed.counts[i], NULL) < 0)
            return;
    r->agent->placed = placed;
}

static int answer_devices(const Request *request)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot snapshot = agent_snapshot(request->agent, incidents);
    uint64_t known = 0;

    if (request->count == DEVICES_WORDS)
        note_placed(request);
    if (snapshot.facts->time_ns == 0) /* nobody has looked yet where the devices are */
        return CONTROL_HOLD;
    status_devices_json(&snapshot, false, request->out);
    const uint64_t revision = hash_text(request->out);
    str_clear(request->out);
    if (request->count >= 2 && number_parse_u64(request->words[1], 0, UINT64_MAX, &known, NULL) == 0 &&
        known == revision)
        return CONTROL_HOLD;
    str_addf(request->out, "%" PRIu64 "\n", revision);
    status_devices_json(&snapshot, true, request->out);
    return EXIT_FINE;
}

static int answer_why(const Request *r)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot seen = agent_snapshot(r->agent, incidents);
    const bool json = r->count >= 2 && strcmp(r->words[1], "json") == 0;
    const size_t named = json ? 2 : 4;
    uint64_t width = 80, bits = 0;
    WhyAsk ask;
    Err err;

    if (r->count > named + 1 || (!json && (r->count < 4 || strcmp(r->words[1], "text") != 0 ||
                                           number_parse_u64(r->words[2], 0, 10000, &width, NULL) < 0 ||
                                           number_parse_u64(r->words[3], 0, 3, &bits, NULL) < 0)))
        return refuse_request(r, EXIT_USAGE, "why: 'text WIDTH STYLE [NAME]' or 'json [NAME]' is needed");
    if (why_find_subject(&seen, r->count > named ? r->words[named] : "", &ask, &err) < 0)
        return refuse_request(r, EXIT_UNKNOWN, "%s", err.text);
    if (json)
        why_json(&seen, &ask, r->out);
    else
        why_text(&seen, &ask, &(WhyStyle){.width = width, .colour = bits & 1, .utf8 = bits & 2}, r->out);
    return EXIT_FINE;
}

static int answer_history(const Request *r)
{
    Err err;

    if (r->count != 6)
        return refuse_request(r, EXIT_USAGE, "history: 'DEVICE METRICS second|minute FROM TO' is needed");
    if (agent_history_json(r->agent, &r->words[1], "", r->out, &err) != 200)
        return refuse_request(r, EXIT_UNKNOWN, "%s", err.text);
    return EXIT_FINE;
}

/* What Slurm, a probe, a prolog or an epilog asks; the words are those that `stoker check` makes. */
static int answer_check(const Request *r)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot seen = agent_snapshot(r->agent, incidents);

    return check_answer(&seen, true, r->words, r->count, r->out);
}

static int answer_release(const Request *r)
{
    uint64_t seconds;

    if (number_parse_u64(r->words[1], 0, RELEASE_MAX_S, &seconds, NULL) < 0)
        return refuse_request(r, EXIT_USAGE, "release: a number of seconds up to %d is needed", RELEASE_MAX_S);
    uint64_t now = board_now(r->agent->sampling.board);
    supervisor_release(r->agent->sampling.supervisor, seconds ? now + seconds * NS_PER_S : 0);
    if (seconds)
        log_write(&r->agent->log, LOG_LEVEL_INFO, "the driver is let go for %llu s, as asked",
                  (unsigned long long)seconds);
    else
        log_write(&r->agent->log, LOG_LEVEL_INFO, "the driver is taken up again, as asked");
    return EXIT_FINE;
}

/* How many samplers still have the driver: what `stoker release` waits for. One that died left its last word behind;
 * one that lives shows it. */
static int answer_released(const Request *r)
{
    const Node *node = board_reader_node(r->agent->sampling.reader);
    size_t holding = 0;

    for (size_t i = 0; i < node->sampler_count; i++) {
        const NodeSampler *s = &node->samplers[i];

        if (s->state == SAMPLER_STUCK || s->state == SAMPLER_KILLED || s->state == SAMPLER_ABANDONED)
            return refuse_request(r, EXIT_FINDING, "sampler %d is %s and still holds the driver", (int)s->pid,
                                  sampler_states[s->state].key);
    }
    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        const BoardSampler *s = &r->agent->sampling.board->samplers[i];

        holding += atomic_load(&s->driver) == BOARD_DRIVER_FINE &&
                   atomic_load(&s->beat_ns) + r->agent->config->limits.beat_ns > board_kernel_now();
    }
    str_addf(r->out, "%zu\n", holding);
    return EXIT_FINE;
}

static int answer_clock(const Request *r)
{
    int64_t seconds;

    if (r->agent->started->o.clock_speed == 1 || number_parse_i64(r->words[1], -1000000, 1000000, &seconds, NULL) < 0)
        return refuse_request(r, EXIT_USAGE, "clock: only an agent with --clock-speed has one to step");
    r->agent->sampling.real_step_ns += seconds * (int64_t)NS_PER_S;
    return EXIT_FINE;
}

static int answer_reload(const Request *r)
{
    agent_reload(r->agent, "asked to");
    return r->agent->config_fine ? EXIT_FINE : EXIT_FINDING;
}

static int answer_incidents(const Request *r)
{
    agent_incidents_json(r->agent, strcmp(r->words[1], "all") != 0, NULL, r->out);
    return EXIT_FINE;
}

static int answer_incident(const Request *r)
{
    const Incident *incident = incidents_find(r->agent->triage.incidents, r->words[1]);

    if (!incident)
        return EXIT_UNKNOWN; /* the journal may know it */
    incident_json(incident, r->out);
    str_addc(r->out, '\n');
    return EXIT_FINE;
}

static int answer_events(const Request *r)
{
    uint64_t from;

    if (number_parse_u64(r->words[1], 0, UINT64_MAX, &from, NULL) < 0)
        return refuse_request(r, EXIT_USAGE, "events: FROM");
    agent_events_json(r->agent, from, r->out);
    return EXIT_FINE;
}

static int answer_jobs(const Request *r)
{
    return agent_jobs_json(r->agent, r->count > 1 ? r->words[1] : NULL, r->out) || r->count == 1
               ? EXIT_FINE
               : EXIT_UNKNOWN; /* the journal may know it */
}

static int answer_clear(const Request *r)
{
    const char *id = r->words[1];
    Err err;

    if (incidents_clear(r->agent->triage.incidents, id, r->words[2], board_now(r->agent->sampling.board),
                        clock_real(&r->agent->sampling.clock), &err) < 0)
        return refuse_request(r, EXIT_UNKNOWN, "%s", err.text);
    const Incident *over = incidents_find(r->agent->triage.incidents, id);
    const size_t forgotten = over ? triage_forget_missing(&r->agent->triage, over, r->words[2]) : 0;
    if (forgotten > 0)
        str_addf(r->out, "%zu GPU%s no longer missed\n", forgotten, forgotten == 1 ? " is" : "s are");
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

static int start_window(const Request *r)
{
    const Node *node = board_reader_node(r->agent->sampling.reader);
    MaintenanceWindow window = {0};
    char id[INCIDENT_ID_CAP];
    uint64_t seconds;
    Err err;

    if (r->count < 5 || number_parse_u64(r->words[2], 1, WINDOW_MAX_S, &seconds, NULL) < 0)
        return refuse_request(r, EXIT_USAGE, "maintenance start: SECONDS GPUS WHO REASON...");
    if (!read_gpus(node, r->words[3], &window))
        return refuse_request(r, EXIT_USAGE, "there is no GPU '%s'; an index, a UUID or a PCI address names one",
                              r->words[3]);
    snprintf(window.who, sizeof window.who, "%s", r->words[4]);
    for (size_t i = 5; i < r->count; i++)
        snprintf(window.reason + strlen(window.reason), sizeof window.reason - strlen(window.reason), "%s%s",
                 i > 5 ? " " : "", r->words[i]);
    window.from_real_ns = node->real_ns;
    window.until_real_ns = node->real_ns + seconds * NS_PER_S;
    if (maintenance_start(r->agent->triage.maintenance, &window, node->real_ns, id, &err) < 0)
        return refuse_request(r, EXIT_UNKNOWN, "%s", err.text);
    memcpy(window.id, id, sizeof window.id);
    journal_put_window(r->agent->triage.journal, &window, false);
    log_write(&r->agent->log, LOG_LEVEL_INFO, "maintenance %s began, for %llu s: %s (%s)", id,
              (unsigned long long)seconds, window.reason, window.who);
    str_addf(r->out, "%s\n", id);
    return EXIT_FINE;
}

static int stop_window(const Request *r)
{
    const Node *node = board_reader_node(r->agent->sampling.reader);
    Maintenance *maintenance = r->agent->triage.maintenance;
    Err err;

    if (r->count != 4)
        return refuse_request(r, EXIT_USAGE, "maintenance stop: ID|all WHO");
    for (size_t i = 0; i < maintenance_count(maintenance); i++) {
        const MaintenanceWindow *window = maintenance_at(maintenance, i);

        if (!window->recurring && (strcmp(r->words[2], "all") == 0 || strcmp(r->words[2], window->id) == 0))
            journal_put_window(r->agent->triage.journal, window, true);
    }
    if (maintenance_stop(maintenance, r->words[2], node->real_ns, &err) < 0)
        return refuse_request(r, EXIT_UNKNOWN, "%s", err.text);
    log_write(&r->agent->log, LOG_LEVEL_INFO, "maintenance %s was ended by %s", r->words[2], r->words[3]);
    return EXIT_FINE;
}

static int answer_maintenance(const Request *r)
{
    int code;

    if (strcmp(r->words[1], "start") == 0)
        code = start_window(r);
    else if (strcmp(r->words[1], "stop") == 0)
        code = stop_window(r);
    else
        return refuse_request(r, EXIT_USAGE, "maintenance: start, stop or list");
    triage_advance(&r->agent->triage); /* what it covers is marked at once */
    return code;
}

static int answer_windows(const Request *r)
{
    agent_maintenance_json(r->agent, r->out);
    return EXIT_FINE;
}

static int answer_mig(const Request *r)
{
    MigNotice notice;
    const char *uuid;
    Err err;

    if (mig_notice_read(r->words + 1, r->count - 1, &notice, &uuid, &err) < 0)
        return refuse_request(r, EXIT_USAGE, "%s", err.text);
    triage_tell_layout(&r->agent->triage, uuid, &notice);
    return EXIT_FINE;
}

static int answer_bench(const Request *r)
{
    agent_bench_history(r->agent, r->out);
    return EXIT_FINE;
}

static int begin_bench(const Request *r)
{
    uint64_t seconds;
    Err err;

    if (r->count < 4 || number_parse_u64(r->words[2], 0, BENCH_MAX_S, &seconds, NULL) < 0)
        return refuse_request(r, EXIT_USAGE, "bench begin: SECONDS UUID...");
    for (size_t i = 3; i < r->count; i++)
        if (agent_begin_bench(r->agent, r->words[i], seconds, &err) < 0)
            return refuse_request(r, EXIT_UNKNOWN, "%s", err.text);
    return EXIT_FINE;
}

static int change_bench(const Request *r)
{
    Err err;

    if (strcmp(r->words[1], "begin") == 0)
        return begin_bench(r);
    if (strcmp(r->words[1], "end") != 0 || r->count != 3)
        return refuse_request(r, EXIT_USAGE, "bench: 'begin SECONDS UUID...', 'end FILE' or 'history' is needed");
    return agent_end_bench(r->agent, r->words[2], &err) < 0 ? refuse_request(r, EXIT_UNKNOWN, "%s", err.text)
                                                            : EXIT_FINE;
}

static int answer_journal(const Request *r)
{
    str_addf(r->out, "%s\n", agent_journal_path(r->agent->started));
    return EXIT_FINE;
}

static void add_price(const Request *r, const NodeGpu *gpu, const Reading *reading, double share)
{
    char text[PRICE_TEXT_CAP];

    prices_find(r->agent->config->prices, gpu->reading.device.name, reading->profile, share,
                clock_real(&r->agent->sampling.clock), text);
    if (text[0] && reading->device.uuid[0])
        str_addf(r->out, "%s %s\n", reading->device.uuid, text);
}

static int answer_prices(const Request *r)
{
    const Node *node = board_reader_node(r->agent->sampling.reader);

    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        add_price(r, gpu, &gpu->reading, 1);
        for (size_t k = 0; k < gpu->instance_count; k++)
            add_price(r, gpu, &gpu->instances[k], reading_mig_share(&gpu->reading, &gpu->instances[k]));
    }
    return EXIT_FINE;
}

/* The first row with these words answers. */
static const struct {
    const char *word, *second;
    size_t least, most; /* words */
    bool changes;       /* for root and the agent's own user alone */
    int (*answer)(const Request *request);
} requests[] = {
    {"status", NULL, 1, 5, false, answer_status},
    {"devices", NULL, 1, DEVICES_WORDS, false, answer_devices},
    {"why", NULL, 2, 5, false, answer_why},
    {"history", NULL, 1, CONTROL_WORDS_MAX, false, answer_history},
    {"check", NULL, 1, CONTROL_WORDS_MAX, false, answer_check},
    {"incidents", NULL, 2, 2, false, answer_incidents},
    {"incident", NULL, 2, 2, false, answer_incident},
    {"events", NULL, 2, 2, false, answer_events},
    {"jobs", NULL, 1, 1, false, answer_jobs},
    {"job", NULL, 2, 2, false, answer_jobs},
    {"journal", NULL, 1, 1, false, answer_journal},
    {"prices", NULL, 1, 1, false, answer_prices},
    {"released", NULL, 1, 1, false, answer_released},
    {"maintenance", "list", 2, 3, false, answer_windows},
    {"maintenance", NULL, 2, CONTROL_WORDS_MAX, true, answer_maintenance},
    {"clear", NULL, 3, 3, true, answer_clear},
    {"bench", "history", 2, 2, false, answer_bench},
    {"bench", NULL, 2, CONTROL_WORDS_MAX, true, change_bench},
    {"mig", NULL, 2, CONTROL_WORDS_MAX, true, answer_mig},
    {"release", NULL, 2, 2, true, answer_release},
    {"reload", NULL, 1, 1, true, answer_reload},
    {"clock", NULL, 2, 2, true, answer_clock},
};

int agent_control(void *self, const char *const *words, size_t count, bool owner, Str *out)
{
    const Request request = {.agent = self, .words = words, .count = count, .owner = owner, .out = out};

    if (request.agent->stopping)
        return refuse_request(&request, EXIT_UNKNOWN, "the agent is being stopped");
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        if (count < requests[i].least || count > requests[i].most || strcmp(words[0], requests[i].word) != 0 ||
            (requests[i].second && strcmp(words[1], requests[i].second) != 0))
            continue;
        if (requests[i].changes && !owner)
            return refuse_request(&request, EXIT_UNKNOWN, "only root and the agent's own user may do this");
        const int code = requests[i].answer(&request);
        if (requests[i].changes)
            pages_clear(&request.agent->pages);
        return code;
    }
    return refuse_request(&request, EXIT_USAGE, "this agent does not know that word; is it of another version?");
}
