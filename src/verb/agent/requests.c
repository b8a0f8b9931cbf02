/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent answers on its control socket:
 *   status text WIDTH STYLE [HEIGHT]
 *                               the screen of `stoker status`; STYLE: 1 colour, 2 UTF-8, 3 both, 0 neither; HEIGHT:
 *                               what it has to fit into, 0 or none: any
 *   status json
 *   history DEVICE METRICS RESOLUTION FROM TO   as /api/v1/gpus/DEVICE/history
 *   release SECONDS             let go of the driver for so long; 0 takes it up again
 *   reload                      read the configuration again
 *   check PROFILE SINCE GPUS    what is against work on these GPUs; see check/judge.h
 *   incidents, incident, events, clear, maintenance, journal: see incidents.c
 *   clock SECONDS               step the wall clock, of an agent whose clock is a test's
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"
#include "service/status/status.h"
#include "verb/agent/agent.h"
#include "verb/check/judge.h"
#include "verb/verb.h"

enum { RELEASE_MAX_S = 24 * 3600 };

static size_t open_incidents(const Agent *agent, const Incident *out[INCIDENTS_MAX])
{
    const Incidents *all = agent->judge.incidents;
    size_t count = 0;

    for (size_t i = 0; i < incidents_count(all) && count < INCIDENTS_MAX; i++)
        if (incidents_at(all, i)->state == INCIDENT_OPEN)
            out[count++] = incidents_at(all, i);
    return count;
}

Snapshot agent_snapshot(const Agent *agent, const Incident *incidents[INCIDENTS_MAX])
{
    return (Snapshot){.node = board_reader_node(agent->sampling.reader),
                      .owners = agent->pods ? podresources_table(agent->pods) : NULL,
                      .processes = judge_processes(&agent->judge),
                      .places = judge_places(&agent->judge),
                      .boot_id = judge_facts(&agent->judge)->boot_id,
                      .boot_real_ns = judge_facts(&agent->judge)->boot_real_ns,
                      .incidents = incidents,
                      .incident_count = open_incidents(agent, incidents),
                      .maintenance = agent->judge.maintenance};
}

void agent_status_json(const Agent *agent, Str *out)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot seen = agent_snapshot(agent, incidents);

    status_json(&seen, out);
}

static int answer_status(Agent *agent, const char *const *words, size_t count, bool owner, Str *out)
{
    (void)owner;
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
        str_add(out, "status: 'text WIDTH STYLE [HEIGHT]' or 'json' is needed\n");
        return EXIT_USAGE;
    }
    return status_code(&seen);
}

static int answer_history(Agent *agent, const char *const *words, size_t count, bool owner, Str *out)
{
    (void)owner;
    const Node *node = board_reader_node(agent->sampling.reader);
    const NodeGpu *gpu;
    HistoryQuery query;
    Err err;
    const Reading *reading = count == 6 ? api_find(node, words[1], &gpu) : NULL;

    if (count != 6) {
        str_add(out, "history: 'DEVICE METRICS second|minute FROM TO' is needed\n");
        return EXIT_USAGE;
    }
    if (!reading)
        (void)err_set(&err, -ENOENT, "there is no GPU or MIG device '%.100s'", words[1]);
    if (reading && api_history_query(words[2], words[3], words[4], words[5], node->real_ns, &query, &err) == 0 &&
        api_history(node, agent->store, reading, &query, out, &err) == 0)
        return EXIT_FINE;
    str_addf(out, "%s\n", err.text);
    return EXIT_UNKNOWN;
}

/* What Slurm, a probe, a prolog or an epilog asks; the words are those that `stoker check` makes. */
static int answer_check(Agent *agent, const char *const *words, size_t count, bool owner, Str *out)
{
    (void)owner;
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot seen = agent_snapshot(agent, incidents);

    return check_answer(&seen, words, count, out);
}

static int answer_release(Agent *agent, const char *const *words, size_t count, bool owner, Str *out)
{
    uint64_t seconds;

    if (count != 2 || number_parse_u64(words[1], 0, RELEASE_MAX_S, &seconds, NULL) < 0) {
        str_addf(out, "release: a number of seconds up to %d is needed\n", RELEASE_MAX_S);
        return EXIT_USAGE;
    }
    if (!owner) {
        str_add(out, "only root and the agent's own user may do this\n");
        return EXIT_UNKNOWN;
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
static int answer_released(Agent *agent, const char *const *words, size_t count, bool owner, Str *out)
{
    (void)words, (void)count, (void)owner;
    const Node *node = board_reader_node(agent->sampling.reader);
    size_t holding = 0;

    for (size_t i = 0; i < node->sampler_count; i++) {
        const NodeSampler *s = &node->samplers[i];

        if (s->state == SAMPLER_STUCK || s->state == SAMPLER_KILLED || s->state == SAMPLER_ABANDONED) {
            str_addf(out, "sampler %d is %s and still holds the driver\n", (int)s->pid, sampler_state_key(s->state));
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

static int answer_clock(Agent *agent, const char *const *words, size_t count, bool owner, Str *out)
{
    (void)count, (void)owner;
    int64_t seconds;

    if (agent->started->o.clock_speed == 1 || number_parse_i64(words[1], -1000000, 1000000, &seconds, NULL) < 0) {
        str_add(out, "clock: only an agent with --clock-speed has one to step\n");
        return EXIT_USAGE;
    }
    agent->sampling.real_step_ns += seconds * (int64_t)NS_PER_S;
    return EXIT_FINE;
}

static int answer_reload(Agent *agent, const char *const *words, size_t count, bool owner, Str *out)
{
    (void)words, (void)count, (void)owner, (void)out;
    agent_reload(agent, "asked to");
    return agent->config_fine ? EXIT_FINE : EXIT_FINDING;
}

static const struct {
    const char *word;
    size_t count; /* of words; 0: any, the function checks */
    bool owner;   /* for root and the agent's own user alone */
    int (*answer)(Agent *agent, const char *const *words, size_t count, bool owner, Str *out);
} requests[] = {
    {"status", 0, false, answer_status},   {"history", 0, false, answer_history},   {"check", 0, false, answer_check},
    {"release", 0, false, answer_release}, {"released", 1, false, answer_released}, {"reload", 1, true, answer_reload},
    {"clock", 2, true, answer_clock},
};

int agent_control(void *self, const char *const *words, size_t count, bool owner, Str *out)
{
    Agent *agent = self;
    int code;

    if (agent->stopping) {
        str_add(out, "the agent is being stopped\n");
        return EXIT_UNKNOWN;
    }
    if (agent_control_incidents(agent, words, count, owner, out, &code))
        return code;
    for (size_t i = 0; count > 0 && i < ARRAY_LEN(requests); i++)
        if (strcmp(requests[i].word, words[0]) == 0 && (requests[i].count == 0 || requests[i].count == count) &&
            (owner || !requests[i].owner))
            return requests[i].answer(agent, words, count, owner, out);
    str_add(out, "this agent does not know that word; is it of another version?\n");
    return EXIT_USAGE;
}
