/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/check/findings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "base/vec.h"
#include "engine/health/detect.h"
#include "engine/health/incidents.h"
#include "service/api/api.h"
#include "verb/verb.h"

enum { PIDS_SHOWN = 4 };

const char *const check_profile_names[] = {
#define PROFILE(id, key, text) key,
    CHECK_PROFILE_TABLE(PROFILE)
#undef PROFILE
        NULL,
};

const char *const check_format_names[] = {"line", "json", "reason", NULL};

typedef struct Finding {
    uint32_t gpu;                   /* DEVICE_NO_NUMBER: the node */
    char class[INCIDENT_CLASS_CAP]; /* of the incident, else a key of api_causes */
    FaultSeverity severity;
    const Incident *incident; /* NULL: none */
    char text[CHECK_TEXT_CAP];
} Finding;

typedef struct Check {
    const Snapshot *seen;
    CheckProfile profile;
    CheckFormat format;
    uint64_t since_real_ns, shared;
    bool agent;
    const char *const *gpus;
    size_t gpu_count;          /* 0: all */
    bool asked[NODE_GPUS_MAX]; /* by place in the node */
    uint32_t asked_count;
    bool unknown;       /* one that is asked about was not sampled yet */
    VEC(Finding) found; /* the worst first */
} Check;

/* --- which GPUs --------------------------------------------------------------------------------------------------- */

/* `gpu` NULL: the node. */
__attribute__((format(printf, 6, 7))) static void add_finding(Check *c, const NodeGpu *gpu, const char *class,
                                                              FaultSeverity severity, const Incident *incident,
                                                              const char *fmt, ...)
{
    Finding *to = vec_add(&c->found);
    va_list args;

    to->gpu = gpu ? gpu->reading.device.index : DEVICE_NO_NUMBER;
    to->severity = severity;
    to->incident = incident;
    snprintf(to->class, sizeof to->class, "%s", class);
    va_start(args, fmt);
    vsnprintf(to->text, sizeof to->text, fmt, args);
    va_end(args);
}

static bool has_sample(const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].last_sample_ns)
            return true;
    return false;
}

/* Never sampled, which says nothing about it. */
static bool is_starting(const NodeGpu *gpu)
{
    return gpu->state == GPU_STARTING && !gpu->last_sample_ns;
}

/* Whether the GPUs of the node are known: indices and UUIDs come with the first samples. */
static bool knows_gpus(const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        if (is_starting(&node->gpus[i]))
            return false;
    return has_sample(node) || node->driver_why[0];
}

static void choose_gpus(Check *c)
{
    const Node *node = c->seen->node;

    for (size_t i = 0; i < node->gpu_count; i++)
        c->asked[i] = c->gpu_count == 0;
    for (size_t i = 0; i < c->gpu_count; i++) {
        const NodeGpu *gpu;

        if (api_find(node, c->gpus[i], &gpu))
            c->asked[gpu - node->gpus] = true;
        else if (!knows_gpus(node))
            c->unknown = true;
        else
            add_finding(c, NULL, "gpu-missing", SEVERITY_FATAL, NULL, "there is no GPU %.64s here", c->gpus[i]);
    }
    for (size_t i = 0; i < node->gpu_count; i++) {
        c->asked_count += c->asked[i];
        c->unknown |= c->asked[i] && is_starting(&node->gpus[i]);
    }
    c->unknown |= !has_sample(node);
}

static bool is_asked(const Check *c, const NodeGpu *gpu)
{
    return !gpu || c->asked[gpu - c->seen->node->gpus];
}

/* --- what is against it ------------------------------------------------------------------------------------------- */

/* An incident of a GPU that is not in the list any more is one of the node, unless others were asked for. */
static bool concerns_case(const Check *c, const Incident *incident, const NodeGpu *gpu)
{
    const DeviceKind kind = incident->device.kind;

    if (gpu)
        return is_asked(c, gpu);
    return c->gpu_count == 0 || kind == DEVICE_NODE || kind == DEVICE_SWITCH || kind == DEVICE_SWITCH_LINK ||
           incident->scope == SCOPE_FABRIC;
}

static bool is_against(const Check *c, const Incident *incident)
{
    const bool older = c->since_real_ns && incident->first_real_ns < c->since_real_ns;

    /* Between two jobs a reset costs nothing: after a job what wants one is a finding, however mild and old. */
    const bool wants_reset =
        incident_is_problem(incident) && incident->cause != CAUSE_APPLICATION && incident->action == ACTION_RESET_GPU;

    if (c->profile == CHECK_EPILOG)
        return wants_reset || (incident_use(incident) != INCIDENT_USE_GOES_ON && !older);
    if (c->profile == CHECK_SLURM && incident->silenced) /* in maintenance */
        return false;
    return incident_use(incident) != INCIDENT_USE_GOES_ON;
}

static void check_incident(Check *c, const Incident *incident)
{
    const NodeGpu *gpu = incident->device.has_pci ? node_find_gpu(c->seen->node, incident->device.pci) : NULL;

    if (is_against(c, incident) && concerns_case(c, incident, gpu))
        add_finding(c, gpu, incident->class, incident->severity, incident, "%s; %s", incident->title,
                    incident_action(incident));
}

/* GPUs that give no data and that no incident explains yet; at the readiness probe also those that are starting. */
static void check_causes(Check *c, bool ready)
{
    CLEANUP_FREE NodeCause *causes = xcalloc(API_CAUSES_MAX, sizeof *causes);
    const size_t count = api_causes(c->seen, ready, causes, API_CAUSES_MAX);

    for (size_t i = 0; i < count; i++) {
        const NodeGpu *gpu = causes[i].gpu;

        if (!ready && (causes[i].incident ||
                       (gpu ? gpu->state == GPU_STARTING || !is_asked(c, gpu) : c->seen->node->gpu_count > 0)))
            continue;
        add_finding(c, gpu, causes[i].key, SEVERITY_ERROR, NULL, "%s", causes[i].text);
    }
}

static void check_processes(Check *c, const NodeGpu *gpu)
{
    char pids[64] = "";
    size_t count = 0;

    for (size_t i = 0; i < gpu->process_count; i++) {
        if (gpu->processes[i].graphics)
            continue;
        if (count++ < PIDS_SHOWN)
            snprintf(pids + strlen(pids), sizeof pids - strlen(pids), "%s%" PRIu32, count > 1 ? ", " : "",
                     gpu->processes[i].pid);
    }
    if (count)
        add_finding(c, gpu, "left-over-process", SEVERITY_ERROR, NULL, "GPU %" PRIu32 ": %zu process%s on it: %s%s",
                    gpu->reading.device.index, count, count == 1 ? " is still" : "es are still", pids,
                    count > PIDS_SHOWN ? ", ..." : "");
}

static void check_memory(Check *c, const NodeGpu *gpu)
{
    double used;

    if (detect_left_memory(gpu, &used))
        add_finding(c, gpu, "memory-orphaned", SEVERITY_ERROR, NULL,
                    "GPU %" PRIu32 ": %.0f MiB are in use, by no process that is listed", gpu->reading.device.index,
                    used);
}

/* Processes that were not listed yet are not none. */
static void check_left_over(Check *c)
{
    const Node *node = c->seen->node;

    for (size_t i = 0; i < node->gpu_count; i++) {
        if (!c->asked[i] || c->shared || node->gpus[i].state != GPU_UP)
            continue;
        c->unknown |= !node->gpus[i].process_list.valid && node->gpus[i].process_list.absence == ABSENCE_NOT_YET;
        check_processes(c, &node->gpus[i]);
        check_memory(c, &node->gpus[i]);
    }
}

static int compare_findings(const void *a, const void *b)
{
    const Finding *x = a, *y = b;

    if (x->severity != y->severity)
        return (int)y->severity - (int)x->severity;
    return x->gpu < y->gpu ? -1 : x->gpu > y->gpu;
}

/* Looks for what is against work; returns an exit code. */
static int find_findings(Check *c)
{
    const bool of_agent = c->profile == CHECK_LIVENESS || c->profile == CHECK_READINESS;

    if (!of_agent) {
        choose_gpus(c);
        for (size_t i = 0; i < c->seen->incident_count; i++)
            check_incident(c, c->seen->incidents[i]);
    }
    if (c->profile != CHECK_LIVENESS)
        check_causes(c, c->profile == CHECK_READINESS);
    if (c->profile == CHECK_PROLOG || c->profile == CHECK_EPILOG)
        check_left_over(c);
    if (c->found.len > 0)
        qsort(c->found.at, c->found.len, sizeof *c->found.at, compare_findings);
    return c->found.len > 0 ? EXIT_FINDING : c->unknown ? EXIT_UNKNOWN : EXIT_FINE;
}

/* --- in words ----------------------------------------------------------------------------------------------------- */

static const char *find_unknown_words(const Check *c)
{
    const Node *node = c->seen->node;

    if (!has_sample(node))
        return "no GPU has been sampled yet";
    for (size_t i = 0; i < node->gpu_count; i++)
        if (c->asked[i] && is_starting(&node->gpus[i]))
            return "not every GPU has been sampled yet";
    return knows_gpus(node) ? "the processes of not every GPU have been listed yet"
                            : "not every GPU has been sampled yet";
}

static void write_line(const Check *c, int code, Str *out)
{
    if (code == EXIT_UNKNOWN)
        str_addf(out, "unknown: %s", find_unknown_words(c));
    else if (c->found.len > 0)
        str_add(out, c->found.at[0].text);
    else if (c->profile == CHECK_LIVENESS)
        str_add(out, "ok: the agent answers");
    else if (c->profile == CHECK_READINESS)
        str_add(out, "ok: the agent is ready");
    else
        str_addf(out, "ok: nothing against %" PRIu32 " GPU%s%s", c->asked_count, c->asked_count == 1 ? "" : "s",
                 c->agent ? "" : " (no agent runs; one sample taken)");
    if (c->found.len > 1)
        str_addf(out, "; and %zu more", c->found.len - 1);
}

/* "stoker: gpu3 gpu-lost drain-and-reboot 1jf8v3k2m0, +2": short, without anything that a shell could take up. */
static void write_reason(const Check *c, Str *out)
{
    const Finding *first = c->found.at;

    if (c->found.len == 0)
        return;
    str_add(out, "stoker:");
    if (first->gpu != DEVICE_NO_NUMBER)
        str_addf(out, " gpu%" PRIu32, first->gpu);
    str_addf(out, " %s", first->class);
    if (first->incident)
        str_addf(out, " %s %s", fault_actions[first->incident->action].key, first->incident->id);
    if (c->found.len > 1)
        str_addf(out, " +%zu", c->found.len - 1);
}

static void write_finding(const Finding *finding, Str *out)
{
    const Incident *incident = finding->incident;

    json_open(out, NULL, '{');
    json_add_text(out, "severity", fault_severities[finding->severity].key);
    if (finding->gpu == DEVICE_NO_NUMBER)
        json_add_null(out, "gpu");
    else
        json_add_u64(out, "gpu", finding->gpu);
    json_add_text(out, "class", finding->class);
    json_add_text(out, "action", incident ? fault_actions[incident->action].key : NULL);
    json_add_text(out, "incident", incident ? incident->id : NULL);
    json_add_text(out, "text", finding->text);
    json_close(out, '}');
}

static void write_json(const Check *c, int code, const char *line, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "profile", check_profile_names[c->profile]);
    json_add_text(out, "status", code == EXIT_FINE ? "fine" : code == EXIT_FINDING ? "finding" : "unknown");
    json_add_i64(out, "code", code);
    json_add_text(out, "line", line);
    json_add_bool(out, "agent", c->agent);
    json_add_u64(out, "gpus", c->asked_count);
    json_add_u64(out, "count", c->found.len);
    json_open(out, "findings", '[');
    for (size_t i = 0; i < c->found.len && i < CHECK_FINDINGS_MAX; i++)
        write_finding(&c->found.at[i], out);
    json_close(out, ']');
    json_close(out, '}');
}

static void write_answer(const Check *c, int code, const char *line, Str *out)
{
    if (c->format == CHECK_JSON)
        write_json(c, code, line, out);
    else if (c->format == CHECK_REASON)
        write_reason(c, out);
    else
        str_add(out, line);
    str_addc(out, '\n');
}

void check_write_line(CheckProfile profile, CheckFormat format, int code, const char *line, Str *out)
{
    const Check none = {.profile = profile, .format = format};

    write_answer(&none, code, line, out);
}

static int find_word(const char *const *names, const char *word)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return -1;
}

int check_answer(const Snapshot *seen, bool agent, const char *const *words, size_t count, Str *out)
{
    const int profile = count > 1 ? find_word(check_profile_names, words[1]) : -1;
    const int format = count > 2 ? find_word(check_format_names, words[2]) : -1;
    Check c = {.seen = seen, .agent = agent};
    CLEANUP(str_done) Str line = {0};
    uint64_t since_ms;

    if (count < 5 || profile < 0 || format < 0 ||
        number_parse_u64(words[3], 0, UINT64_MAX / NS_PER_MS, &since_ms, NULL) < 0 ||
        number_parse_u64(words[4], 0, 1, &c.shared, NULL) < 0) {
        str_add(out, "check: PROFILE line|json|reason SINCE_MS SHARED GPU...\n");
        return EXIT_USAGE;
    }
    c.profile = (CheckProfile)profile;
    c.format = (CheckFormat)format;
    c.since_real_ns = since_ms * NS_PER_MS;
    c.gpus = words + 5;
    c.gpu_count = count - 5;
    const int code = find_findings(&c);
    str_init(&line, 2 * CHECK_TEXT_CAP);
    write_line(&c, code, &line);
    write_answer(&c, code, line.text, out);
    vec_done(&c.found);
    return code;
}
