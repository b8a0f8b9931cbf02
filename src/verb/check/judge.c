/* SPDX-License-Identifier: Apache-2.0 */
/* See judge.h. */
#include "verb/check/judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "engine/health/incidents.h"
#include "verb/verb.h"

enum { FINDINGS_ALL = 256, LEFT_MIB = 512, PIDS_SHOWN = 4 };

const char *const check_profile_names[] = {
#define PROFILE(id, key, text) key,
    CHECK_PROFILE_TABLE(PROFILE)
#undef PROFILE
        NULL,
};

/* --- which GPUs --------------------------------------------------------------------------------------------------- */

typedef struct Case {
    const Snapshot *seen;
    const CheckAsk *ask;
    CheckResult *result;
    bool all;
    bool asked[NODE_GPUS_MAX]; /* by place in the node */
    CheckFinding *found;       /* FINDINGS_ALL */
    size_t found_len;
} Case;

__attribute__((format(printf, 3, 4))) static CheckFinding *add(Case *c, CheckFinding finding, const char *fmt, ...)
{
    CheckFinding *to = c->found_len < FINDINGS_ALL ? &c->found[c->found_len++] : NULL;
    va_list args;

    c->result->count++;
    if (!to)
        return NULL;
    *to = finding;
    va_start(args, fmt);
    vsnprintf(to->text, sizeof to->text, fmt, args);
    va_end(args);
    return to;
}

static CheckFinding make_finding(uint32_t gpu, const char *class, FaultSeverity severity)
{
    CheckFinding finding = {.gpu = gpu, .incident = "", .action = "", .severity = severity};

    snprintf(finding.class, sizeof finding.class, "%s", class);
    return finding;
}

static void choose_gpus(Case *c)
{
    const Node *node = c->seen->node;

    c->all = c->ask->gpu_count == 0;
    for (size_t i = 0; i < node->gpu_count; i++)
        c->asked[i] = c->all;
    for (size_t i = 0; i < c->ask->gpu_count; i++) {
        const NodeGpu *gpu;

        if (api_find(node, c->ask->gpus[i], &gpu))
            c->asked[gpu - node->gpus] = true;
        else
            add(c, make_finding(DEVICE_NO_NUMBER, "gpu-missing", SEVERITY_FATAL), "there is no GPU %.64s here",
                c->ask->gpus[i]);
    }
    for (size_t i = 0; i < node->gpu_count; i++)
        c->result->asked += c->asked[i];
}

static bool is_asked(const Case *c, const NodeGpu *gpu)
{
    return !gpu || c->asked[gpu - c->seen->node->gpus];
}

static const NodeGpu *gpu_of(const Node *node, const Incident *incident)
{
    for (size_t i = 0; incident->device.has_pci && i < node->gpu_count; i++)
        if (node->gpus[i].reading.device.has_pci &&
            pci_compare(node->gpus[i].reading.device.pci, incident->device.pci) == 0)
            return &node->gpus[i];
    return NULL;
}

/* --- what is against it ------------------------------------------------------------------------------------------- */

/* An incident of a GPU that is not in the list any more is one of the node, unless others were asked for. */
static bool concerns_case(const Case *c, const Incident *incident, const NodeGpu *gpu)
{
    const DeviceKind kind = incident->device.kind;

    if (gpu)
        return is_asked(c, gpu);
    return c->all || kind == DEVICE_NODE || kind == DEVICE_SWITCH || kind == DEVICE_SWITCH_LINK ||
           incident->scope == SCOPE_FABRIC;
}

/* Between two jobs a reset costs nothing: after a job what wants one is a finding, however mild and old. */
static bool wants_reset(const Incident *incident)
{
    return incident_is_problem(incident) && incident->cause != CAUSE_APPLICATION &&
           incident->action == ACTION_RESET_GPU;
}

static bool is_against(const Case *c, const Incident *incident)
{
    const bool older = c->ask->since_real_ns && incident->first_real_ns < c->ask->since_real_ns;

    if (c->ask->profile == CHECK_EPILOG)
        return wants_reset(incident) || (incident_use(incident) != INCIDENT_USE_GOES_ON && !older);
    if (c->ask->profile == CHECK_SLURM && incident->silenced) /* in maintenance */
        return false;
    return incident_use(incident) != INCIDENT_USE_GOES_ON;
}

static void check_incident(Case *c, const Incident *incident)
{
    const NodeGpu *gpu = gpu_of(c->seen->node, incident);
    CheckFinding finding =
        make_finding(gpu ? gpu->reading.device.index : DEVICE_NO_NUMBER, incident->class, incident->severity);

    if (!is_against(c, incident) || !concerns_case(c, incident, gpu))
        return;
    finding.incident = incident->id;
    finding.action = fault_actions[incident->action].key;
    add(c, finding, "%s; %s", incident->title, fault_actions[incident->action].text);
}

/* GPUs that give no data and that no incident explains yet; at the readiness probe also those that are starting. */
static void check_causes(Case *c, bool ready)
{
    CLEANUP_FREE NodeCause *causes = xcalloc(API_CAUSES_MAX, sizeof *causes);
    const size_t count = api_causes(c->seen, ready, causes, API_CAUSES_MAX);

    for (size_t i = 0; i < count; i++) {
        const NodeGpu *gpu = causes[i].gpu;

        if (!ready && (causes[i].incident ||
                       (gpu ? gpu->state == GPU_STARTING || !is_asked(c, gpu) : c->seen->node->gpu_count > 0)))
            continue;
        add(c, make_finding(gpu ? gpu->reading.device.index : DEVICE_NO_NUMBER, causes[i].key, SEVERITY_ERROR), "%s",
            causes[i].text);
    }
}

static void check_processes(Case *c, const NodeGpu *gpu)
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
        add(c, make_finding(gpu->reading.device.index, "left-over-process", SEVERITY_ERROR),
            "GPU %" PRIu32 ": %zu process%s on it: %s%s", gpu->reading.device.index, count,
            count == 1 ? " is still" : "es are still", pids, count > PIDS_SHOWN ? ", ..." : "");
}

static void check_memory(Case *c, const NodeGpu *gpu)
{
    double used;

    if (gpu->process_count == 0 && gpu->process_list.valid && !gpu->reading.mig &&
        sample_double(&gpu->reading.sample[METRIC_FB_USED], &used) && used >= LEFT_MIB)
        add(c, make_finding(gpu->reading.device.index, "memory-orphaned", SEVERITY_ERROR),
            "GPU %" PRIu32 ": %.0f MiB are in use, by no process that is listed", gpu->reading.device.index, used);
}

static void check_left_over(Case *c)
{
    const Node *node = c->seen->node;

    for (size_t i = 0; i < node->gpu_count; i++) {
        if (!c->asked[i] || c->ask->shared || node->gpus[i].state != GPU_UP)
            continue;
        check_processes(c, &node->gpus[i]);
        check_memory(c, &node->gpus[i]);
    }
}

static int worst_first(const void *a, const void *b)
{
    const CheckFinding *x = a, *y = b;

    if (x->severity != y->severity)
        return (int)y->severity - (int)x->severity;
    return x->gpu < y->gpu ? -1 : x->gpu > y->gpu;
}

static bool any_sampled(const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].last_sample_ns)
            return true;
    return false;
}

static void check_work(Case *c)
{
    const bool of_a_job = c->ask->profile == CHECK_PROLOG || c->ask->profile == CHECK_EPILOG;

    choose_gpus(c);
    for (size_t i = 0; i < c->seen->incident_count; i++)
        check_incident(c, c->seen->incidents[i]);
    check_causes(c, false);
    if (of_a_job)
        check_left_over(c);
}

void check_judge(const Snapshot *seen, const CheckAsk *ask, CheckResult *ret)
{
    CLEANUP_FREE CheckFinding *found = calloc(FINDINGS_ALL, sizeof *found);
    Case c = {.seen = seen, .ask = ask, .result = ret, .found = found};

    *ret = (CheckResult){.code = EXIT_UNKNOWN};
    if (!found)
        return;
    if (ask->profile == CHECK_READINESS)
        check_causes(&c, true);
    else if (ask->profile != CHECK_LIVENESS)
        check_work(&c);
    if (c.found_len)
        qsort(found, c.found_len, sizeof *found, worst_first);
    ret->listed = c.found_len < CHECK_FINDINGS_MAX ? c.found_len : CHECK_FINDINGS_MAX;
    memcpy(ret->findings, found, ret->listed * sizeof *found);
    if (ret->count)
        ret->code = EXIT_FINDING;
    else if (ask->profile == CHECK_LIVENESS || ask->profile == CHECK_READINESS || any_sampled(seen->node))
        ret->code = EXIT_FINE;
}

/* --- in words ----------------------------------------------------------------------------------------------------- */

static void write_line(const CheckAsk *ask, const CheckResult *result, Str *out)
{
    if (result->code == EXIT_UNKNOWN)
        str_add(out, "unknown: no GPU has been sampled yet");
    else if (ask->profile == CHECK_LIVENESS)
        str_add(out, "ok: the agent answers");
    else if (result->code == EXIT_FINE && ask->profile == CHECK_READINESS)
        str_add(out, "ok: the agent is ready");
    else if (result->code == EXIT_FINE)
        str_addf(out, "ok: nothing against %" PRIu32 " GPU%s%s", result->asked, result->asked == 1 ? "" : "s",
                 ask->agent ? "" : " (no agent runs; one sample taken)");
    else
        str_add(out, result->findings[0].text);
    if (result->count > 1)
        str_addf(out, "; and %zu more", result->count - 1);
}

/* "stoker: gpu3 gpu-lost drain-and-reboot 1jf8v3k2m0, +2": short, without anything that a shell could take up. */
static void write_reason(const CheckResult *result, Str *out)
{
    const CheckFinding *first = &result->findings[0];

    if (result->code != EXIT_FINDING)
        return;
    str_add(out, "stoker:");
    if (first->gpu != DEVICE_NO_NUMBER)
        str_addf(out, " gpu%" PRIu32, first->gpu);
    str_addf(out, " %s", first->class);
    if (first->action[0])
        str_addf(out, " %s", first->action);
    if (first->incident[0])
        str_addf(out, " %s", first->incident);
    if (result->count > 1)
        str_addf(out, " +%zu", result->count - 1);
}

static const char *status_word(int code)
{
    return code == EXIT_FINE ? "fine" : code == EXIT_FINDING ? "finding" : "unknown";
}

static void begin_json(CheckProfile profile, int code, const char *line, Str *out)
{
    str_addf(out, "{\"profile\":\"%s\",\"status\":\"%s\",\"code\":%d,\"line\":", check_profile_names[profile],
             status_word(code), code);
    str_add_json(out, line);
}

static void add_text(Str *out, const char *key, const char *text)
{
    str_addf(out, ",\"%s\":", key);
    if (text[0])
        str_add_json(out, text);
    else
        str_add(out, "null");
}

static void write_json(const CheckAsk *ask, const CheckResult *result, Str *out)
{
    CLEANUP(str_done) Str line = {0};

    str_init(&line, 2 * CHECK_TEXT_CAP);
    write_line(ask, result, &line);
    begin_json(ask->profile, result->code, line.text, out);
    str_addf(out, ",\"agent\":%s,\"gpus\":%" PRIu32 ",\"count\":%zu,\"findings\":[", ask->agent ? "true" : "false",
             result->asked, result->count);
    for (size_t i = 0; i < result->listed; i++) {
        const CheckFinding *finding = &result->findings[i];

        str_addf(out, "%s{\"severity\":\"%s\"", i ? "," : "", fault_severities[finding->severity].key);
        if (finding->gpu == DEVICE_NO_NUMBER)
            str_add(out, ",\"gpu\":null");
        else
            str_addf(out, ",\"gpu\":%" PRIu32, finding->gpu);
        add_text(out, "class", finding->class);
        add_text(out, "action", finding->action);
        add_text(out, "incident", finding->incident);
        add_text(out, "text", finding->text);
        str_addc(out, '}');
    }
    str_add(out, "]}");
}

void check_write(const CheckAsk *ask, const CheckResult *result, CheckFormat format, Str *out)
{
    if (format == CHECK_JSON)
        write_json(ask, result, out);
    else if (format == CHECK_REASON)
        write_reason(result, out);
    else
        write_line(ask, result, out);
    str_addc(out, '\n');
}

void check_write_unknown(CheckProfile profile, int code, const char *why, CheckFormat format, Str *out)
{
    char line[CHECK_TEXT_CAP];

    snprintf(line, sizeof line, "%s: %s", code == EXIT_UNKNOWN ? "unknown" : "not ready", why);
    if (format == CHECK_JSON) {
        begin_json(profile, code, line, out);
        str_add(out, ",\"agent\":false,\"gpus\":0,\"count\":0,\"findings\":[]}");
    } else if (format == CHECK_LINE) {
        str_add(out, line);
    }
    str_addc(out, '\n');
}

static int word_of(const char *const *names, const char *word)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return -1;
}

int check_answer(const Snapshot *seen, const char *const *words, size_t count, Str *out)
{
    static const char *const formats[] = {"line", "json", "reason", NULL};
    const int profile = count > 1 ? word_of(check_profile_names, words[1]) : -1;
    const int format = count > 2 ? word_of(formats, words[2]) : -1;
    uint64_t since_ms = 0, shared = 0;
    CheckAsk ask = {0};
    CLEANUP_FREE CheckResult *result = calloc(1, sizeof *result);

    if (!result || count < 5 || profile < 0 || format < 0 ||
        number_parse_u64(words[3], 0, UINT64_MAX / NS_PER_MS, &since_ms, NULL) < 0 ||
        number_parse_u64(words[4], 0, 1, &shared, NULL) < 0) {
        str_add(out, "check: PROFILE line|json|reason SINCE_MS SHARED GPU...\n");
        return EXIT_USAGE;
    }
    ask = (CheckAsk){.profile = (CheckProfile)profile,
                     .since_real_ns = since_ms * NS_PER_MS,
                     .shared = shared,
                     .agent = true,
                     .gpus = words + 5,
                     .gpu_count = count - 5};
    check_judge(seen, &ask, result);
    check_write(&ask, result, (CheckFormat)format, out);
    return result->code;
}
