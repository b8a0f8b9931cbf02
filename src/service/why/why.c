/* SPDX-License-Identifier: Apache-2.0 */
#include "service/why/why.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/human.h"
#include "base/json.h"
#include "base/number.h"
#include "service/api/api.h"
#include "service/status/status.h"

enum {
    WIDTH_MIN = 40,
    INDENT = 12,
    ROWS_MAX = NODE_GPUS_MAX * (NODE_INSTANCES_MAX + 1),
    PIDS_MAX = NODE_PROCESSES_MAX
};

/* A device with its verdicts: what one element of the JSON and one paragraph is about. */
typedef struct Row {
    const NodeGpu *gpu;
    const Reading *instance; /* NULL: the whole GPU */
    const Activity *activity;
    const Why *why;
} Row;

/* --- what is asked about ------------------------------------------------------------------------------------------ */

static bool is_on_instance(const NodeProcess *process, const Reading *instance)
{
    return !instance || node_process_is_on(process, &instance->device);
}

/* POD, NAMESPACE/POD. */
static bool is_pod(const char *pod, const char *namespace, const char *name)
{
    const char *slash = strchr(name, '/');
    const size_t len = slash ? (size_t)(slash - name) : 0;

    if (slash && (strlen(namespace) != len || strncmp(namespace, name, len) != 0))
        return false;
    return pod[0] && strcmp(pod, slash ? slash + 1 : name) == 0;
}

/* A container's id, or its first 12 digits or more. */
static bool is_container(const char *container, const char *name)
{
    const size_t len = strlen(name);

    return len >= 12 && strncmp(container, name, len) == 0;
}

/* The job with its step or without, the pod by its name or UID, the container by its id. */
static bool is_work_of(const ProcessOwner *owner, const char *name)
{
    const size_t len = strlen(name);

    if (owner->job[0] && strncmp(owner->job, name, len) == 0 && (owner->job[len] == '\0' || owner->job[len] == '.'))
        return true;
    return strcmp(owner->pod_uid, name) == 0 || is_pod(owner->pod, owner->namespace, name) ||
           is_container(owner->container, name);
}

static bool is_asked_holding(const WhyAsk *ask, const Holding *h)
{
    for (size_t i = 0; ask->pid && i < h->process_count; i++)
        if (h->processes[i].pid == ask->pid)
            return true;
    return ask->job[0] && (strcmp(h->owner.job, ask->job) == 0 || is_pod(h->owner.pod, h->owner.namespace, ask->job) ||
                           is_container(h->owner.container, ask->job));
}

/* Who holds a device is known too where the driver cannot be asked for its processes, and where it lists none. */
static bool is_held(const Snapshot *seen, const WhyAsk *ask, const NodeGpu *gpu, const Reading *instance)
{
    for (size_t i = 0; i < seen->holding_count; i++) {
        const Holding *h = &seen->holdings[i];

        if (&seen->node->gpus[h->gpu] == gpu &&
            (!instance || (h->gpu_instance == instance->device.gpu_instance &&
                           h->compute_instance == instance->device.compute_instance)) &&
            is_asked_holding(ask, h))
            return true;
    }
    return false;
}

static bool is_asked_process(const Snapshot *seen, const WhyAsk *ask, const NodeProcess *process)
{
    const ProcessOwner *owner = process_list_find(&seen->processes, process->pid);

    if (ask->pid && process->pid != ask->pid)
        return false;
    return !ask->job[0] || (owner && is_work_of(owner, ask->job));
}

static bool is_asked(const Snapshot *seen, const WhyAsk *ask, const NodeGpu *gpu, const Reading *instance)
{
    if ((ask->gpu && ask->gpu != gpu) || (ask->instance && ask->instance != instance))
        return false;
    if (!ask->pid && !ask->job[0])
        return true;
    for (size_t i = 0; i < gpu->process_count; i++)
        if (is_on_instance(&gpu->processes[i], instance) && is_asked_process(seen, ask, &gpu->processes[i]))
            return true;
    return is_held(seen, ask, gpu, instance);
}

static bool has_any(const Snapshot *seen, const WhyAsk *ask)
{
    for (size_t i = 0; i < seen->node->gpu_count; i++)
        if (is_asked(seen, ask, &seen->node->gpus[i], NULL))
            return true;
    return false;
}

int why_find_subject(const Snapshot *seen, const char *name, WhyAsk *ret, Err *err)
{
    WhyAsk ask = {0};
    const Reading *reading;
    uint64_t pid = 0;
    const char *unread = seen->node->driver_why[0] ? seen->node->driver_why : NULL;

    *ret = ask;
    if (!name || !name[0])
        return 0;
    reading = api_find(seen->node, name, &ask.gpu);
    if (reading) {
        ask.instance = reading == &ask.gpu->reading ? NULL : reading;
        *ret = ask;
        return 0;
    }
    ask.gpu = NULL;
    if (number_parse_u64(name, 1, UINT32_MAX, &pid, NULL) == 0) {
        ask.pid = (uint32_t)pid;
        if (has_any(seen, &ask)) {
            *ret = ask;
            return 0;
        }
    }
    ask.pid = 0;
    snprintf(ask.job, sizeof ask.job, "%s", name);
    if (strlen(name) < sizeof ask.job && has_any(seen, &ask)) {
        *ret = ask;
        return 0;
    }
    for (size_t i = 0; i < seen->node->gpu_count && !unread; i++)
        unread = node_unread_why(&seen->node->gpus[i]);
    if (unread)
        return err_set(err, -EIO, "'%.100s' is not found, and not all GPUs can be read: %s", name, unread);
    return err_set(
        err, -ENOENT,
        "'%.100s' is no GPU, no pid of a process on a GPU, and no job, pod or container with a process on a GPU; "
        "stoker status lists the GPUs, stoker top their processes",
        name);
}

/* A GPU, or its instances where it is split. */
static size_t list_rows(const Snapshot *seen, const WhyAsk *ask, Row *rows)
{
    size_t count = 0;

    for (size_t i = 0; i < seen->node->gpu_count; i++) {
        const NodeGpu *gpu = &seen->node->gpus[i];

        if (gpu->instance_count == 0 && is_asked(seen, ask, gpu, NULL))
            rows[count++] = (Row){gpu, NULL, node_activity(gpu, NULL), node_why(gpu, NULL)};
        for (size_t k = 0; k < gpu->instance_count && count < ROWS_MAX; k++)
            if (is_asked(seen, ask, gpu, &gpu->instances[k]))
                rows[count++] = (Row){gpu, &gpu->instances[k], node_activity(gpu, &gpu->instances[k]),
                                      node_why(gpu, &gpu->instances[k])};
    }
    return count;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

/* Whose number it is; NULL: the device's own. */
static const char *name_evidence(const WhyVerdict *v, const WhyEvidence *e)
{
    return e->name > 0 && e->name <= WHY_NAMES_MAX ? v->names[e->name - 1] : NULL;
}

const char *why_evidence_text(const WhyVerdict *verdict, uint32_t at, char out[WHY_NAME_CAP])
{
    const WhyEvidence *e = &verdict->evidence[at];
    const char *name = name_evidence(verdict, e);
    char number[HUMAN_MAX] = "";

    switch (e->unit) {
    case WHY_UNIT_RATIO:
        snprintf(number, sizeof number, e->value > 0 && e->value < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * e->value);
        break;
    case WHY_UNIT_BYTES_PER_SECOND:
        snprintf(number, sizeof number, "%.3g %s/s", e->value >= 1e9 ? e->value / 1e9 : e->value / 1e6,
                 e->value >= 1e9 ? "GB" : "MB");
        break;
    case WHY_UNIT_BYTES:
        human_bytes(number, e->value);
        break;
    case WHY_UNIT_CORES:
        snprintf(number, sizeof number, "%.1f cores", e->value);
        break;
    case WHY_UNIT_SECONDS:
        snprintf(number, sizeof number, "%.0f s", e->value);
        break;
    default:
        snprintf(number, sizeof number, "%.6g", e->value);
    }
    snprintf(out, WHY_NAME_CAP, "%.60s%s%.48s %s", e->label, name ? " of " : "", name ? name : "", number);
    return out;
}

/* The index; the PCI address of one that has none. */
static const char *name_gpu(const Device *gpu, char out[WHY_NAME_CAP])
{
    if (gpu->index == DEVICE_NO_NUMBER && gpu->has_pci)
        return pci_format(gpu->pci, PCI_FORM_SYSFS, out);
    snprintf(out, WHY_NAME_CAP, gpu->index == DEVICE_NO_NUMBER ? "?" : "%" PRIu32, gpu->index);
    return out;
}

/* "7", "7/0"; "" a whole GPU. */
static const char *name_instance(const Reading *instance, char out[WHY_NAME_CAP])
{
    out[0] = '\0';
    if (instance && instance->device.compute_instance != DEVICE_NO_NUMBER)
        snprintf(out, WHY_NAME_CAP, "%" PRIu32 "/%" PRIu32, instance->device.gpu_instance,
                 instance->device.compute_instance);
    else if (instance)
        snprintf(out, WHY_NAME_CAP, "%" PRIu32, instance->device.gpu_instance);
    return out;
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void add_verdict(const WhyVerdict *v, Str *out)
{
    char text[WHY_NAME_CAP];

    json_add_text(out, "cause", why_causes[v->cause].key);
    json_add_text(out, "title", why_causes[v->cause].title);
    json_add_text(out, "text", v->text);
    json_add_double(out, "share", v->share);
    json_add_text(out, "confidence", why_confidences[v->confidence].key);
    json_open(out, "between", '[');
    for (uint32_t i = 0; i < v->between_count; i++)
        json_add_text(out, NULL, why_causes[v->between[i]].key);
    json_close(out, ']');
    json_open(out, "evidence", '[');
    for (uint32_t i = 0; i < v->evidence_count; i++) {
        json_open(out, NULL, '{');
        json_add_text(out, "counter", v->evidence[i].counter);
        json_add_text(out, "label", v->evidence[i].label);
        json_add_text(out, "unit", why_units[v->evidence[i].unit].key);
        json_add_double(out, "value", v->evidence[i].value);
        json_add_text(out, "of", name_evidence(v, &v->evidence[i]));
        json_add_text(out, "text", why_evidence_text(v, i, text));
        json_close(out, '}');
    }
    json_close(out, ']');
    json_add_text(out, "advice", why_causes[v->cause].advice);
    json_add_text(out, "next", why_causes[v->cause].next);
}

static void add_processes(const Snapshot *seen, const WhyAsk *ask, const Row *row, Str *out)
{
    json_open(out, "processes", '[');
    for (size_t i = 0; i < row->gpu->process_count; i++) {
        const NodeProcess *process = &row->gpu->processes[i];
        const ProcessOwner *owner = process_list_find(&seen->processes, process->pid);

        if (!is_on_instance(process, row->instance) || !is_asked_process(seen, ask, process))
            continue;
        json_open(out, NULL, '{');
        json_add_u64(out, "pid", process->pid);
        json_add_text(out, "name", owner && owner->name[0] ? owner->name : NULL);
        json_add_text(out, "user", owner && owner->user[0] ? owner->user : NULL);
        json_add_text(out, "job", owner && owner->job[0] ? owner->job : NULL);
        json_add_text(out, "pod", owner && owner->pod[0] ? owner->pod : NULL);
        json_close(out, '}');
    }
    json_close(out, ']');
}

static void add_row(const Snapshot *seen, const WhyAsk *ask, const Row *row, Str *out)
{
    static const WhyVerdict unknown = {.share = NAN, .text = "not decided yet"};
    const Device *device = &row->gpu->reading.device;

    json_open(out, NULL, '{');
    if (device->index != DEVICE_NO_NUMBER)
        json_add_u64(out, "gpu", device->index);
    else
        json_add_null(out, "gpu");
    json_add_text(out, "uuid", row->instance ? row->instance->device.uuid : device->uuid);
    api_instance(row->instance ? &row->instance->device : &(Device){.gpu_instance = DEVICE_NO_NUMBER}, out);
    json_add_text(out, "model", device->name);
    json_add_text(out, "activity", activity_words[row->activity->word].key);
    json_add_text(out, "activity_cause",
                  activity_causes[row->activity->cause].key[0] ? activity_causes[row->activity->cause].key : NULL);
    json_add_u64(out, "window_s", row->why->window_s);
    add_verdict(row->why->count > 0 ? &row->why->verdicts[0] : &unknown, out);
    api_roof(&row->why->roof, out);
    json_add_text(out, "incident", row->activity->incident[0] ? row->activity->incident : NULL);
    json_open(out, "beside", '[');
    for (uint32_t i = 1; i < row->why->count; i++) {
        json_open(out, NULL, '{');
        add_verdict(&row->why->verdicts[i], out);
        json_close(out, '}');
    }
    json_close(out, ']');
    add_processes(seen, ask, row, out);
    json_close(out, '}');
}

void why_json(const Snapshot *seen, const WhyAsk *ask, Str *out)
{
    Row rows[ROWS_MAX];
    const size_t count = list_rows(seen, ask, rows);

    json_open(out, NULL, '{');
    json_add_text(out, "node", seen->node->hostname);
    json_add_time(out, "time", seen->node->real_ns);
    json_open(out, "gpus", '[');
    for (size_t i = 0; i < count; i++)
        add_row(seen, ask, &rows[i], out);
    json_close(out, ']');
    json_close(out, '}');
    str_addc(out, '\n');
}

/* --- text --------------------------------------------------------------------------------------------------------- */

typedef struct Paper {
    const WhyStyle *style;
    size_t width;
    Str *out;
} Paper;

static void set_colour(const Paper *p, const char *code)
{
    if (p->style->colour)
        str_addf(p->out, "\033[%sm", code);
}

/* Words behind a name of INDENT columns, wrapped; nothing for an empty text. */
static void add_words(const Paper *p, const char *name, const char *text)
{
    if (!text[0])
        return;
    set_colour(p, "2");
    str_addf(p->out, "  %-*s", INDENT - 2, name);
    set_colour(p, "0");
    str_add_wrapped(p->out, text, INDENT, INDENT, p->width);
}

/* Whether a paragraph about one says all about the other too: causes, confidence and work. */
static bool is_alike(const Snapshot *seen, const Row *a, const Row *b)
{
    if (a->instance || b->instance || a->why->count == 0 || a->why->count != b->why->count ||
        a->activity->word == ACTIVITY_UNUSABLE || a->activity->word != b->activity->word)
        return false;
    for (uint32_t i = 0; i < a->why->count; i++)
        if (a->why->verdicts[i].cause != b->why->verdicts[i].cause ||
            a->why->verdicts[i].confidence != b->why->verdicts[i].confidence)
            return false;
    const ProcessOwner *one =
        a->gpu->process_count ? process_list_find(&seen->processes, a->gpu->processes[0].pid) : NULL;
    const ProcessOwner *two =
        b->gpu->process_count ? process_list_find(&seen->processes, b->gpu->processes[0].pid) : NULL;
    return (!one && !two) || (one && two && strcmp(one->job, two->job) == 0 && strcmp(one->pod, two->pod) == 0 &&
                              strcmp(one->name, two->name) == 0);
}

static void add_evidence(const Paper *p, const WhyVerdict *v)
{
    CLEANUP(str_done) Str text = str_limited(4096);
    char one[WHY_NAME_CAP];

    for (uint32_t i = 0; i < v->evidence_count; i++)
        str_addf(&text, "%s%s", i > 0 ? ", " : "", why_evidence_text(v, i, one));
    if (text.len > 0)
        add_words(p, "numbers", text.text);
}

/* What else it may be, or what it may be at all. */
static void add_between(const Paper *p, const WhyVerdict *v)
{
    CLEANUP(str_done) Str text = str_limited(4096);

    for (uint32_t i = 0; i < v->between_count; i++)
        str_addf(&text, "%s%s", i > 0 ? "; " : "", why_causes[v->between[i]].title);
    if (text.len > 0)
        add_words(p, v->cause == WHY_UNCLEAR ? "one of" : "or", text.text);
}

static void add_sureness(const Paper *p, const Why *why, const WhyVerdict *v)
{
    char text[WHY_NAME_CAP];

    if (isfinite(v->share))
        snprintf(text, sizeof text, "%.0f %% of %" PRIu32 " s, confidence %s", 100 * v->share, why->window_s,
                 why_confidences[v->confidence].key);
    else
        snprintf(text, sizeof text, "confidence %s, by %" PRIu32 " s", why_confidences[v->confidence].key,
                 why->window_s);
    if (why->window_s > 0)
        add_words(p, "share", text);
}

static void add_work(const Paper *p, const Snapshot *seen, const WhyAsk *ask, const Row *row)
{
    CLEANUP(str_done) Str text = str_limited(4096);

    for (size_t i = 0; i < row->gpu->process_count; i++) {
        const NodeProcess *process = &row->gpu->processes[i];
        const ProcessOwner *owner = process_list_find(&seen->processes, process->pid);

        if (!is_on_instance(process, row->instance) || !is_asked_process(seen, ask, process))
            continue;
        str_addf(&text, "%s%s (%" PRIu32 ")", text.len > 0 ? ", " : "",
                 owner && owner->name[0] ? owner->name : "process", process->pid);
        if (owner && owner->user[0])
            str_addf(&text, " of %s", owner->user);
        if (owner && owner->job[0])
            str_addf(&text, ", job %s", owner->job);
        if (owner && owner->pod[0])
            str_addf(&text, ", pod %s", owner->pod);
    }
    if (text.len > 0)
        add_words(p, "process", text.text);
}

static void add_paragraph(const Paper *p, const Snapshot *seen, const WhyAsk *ask, const Row *row)
{
    const WhyVerdict *v = &row->why->verdicts[0];

    if (row->why->count == 0) {
        add_words(p, "why", "not decided yet");
        return;
    }
    add_words(p, "why", v->text);
    add_between(p, v);
    add_sureness(p, row->why, v);
    add_evidence(p, v);
    add_words(p, "roof", row->why->roof.text);
    add_work(p, seen, ask, row);
    add_words(p, "fix", why_causes[v->cause].advice);
    add_words(p, v->cause == WHY_UNCLEAR ? "to know" : "next", why_causes[v->cause].next);
    for (uint32_t i = 1; i < row->why->count; i++) {
        add_words(p, "also", row->why->verdicts[i].text);
        add_words(p, "", why_causes[row->why->verdicts[i].cause].advice);
    }
}

static const char *colour_of(ActivityWord word)
{
    return word == ACTIVITY_WORKING ? "32" : word == ACTIVITY_UNUSABLE ? "31" : word == ACTIVITY_FREE ? "2" : "33";
}

static void add_title(const Paper *p, const Row *rows, size_t first, size_t count, const bool *alike)
{
    char instance[WHY_NAME_CAP], gpu[WHY_NAME_CAP];
    const Row *row = &rows[first];
    size_t others = 0;

    set_colour(p, "1");
    str_addf(p->out, "GPU %s", name_gpu(&row->gpu->reading.device, gpu));
    for (size_t i = first + 1; i < count; i++)
        if (alike[i]) {
            str_addf(p->out, ", %s", name_gpu(&rows[i].gpu->reading.device, gpu));
            others++;
        }
    if (row->instance)
        str_addf(p->out, " instance %s %s", name_instance(row->instance, instance), row->instance->profile);
    set_colour(p, "0");
    str_addf(p->out, "  %s  ", status_model(&row->gpu->reading.device));
    set_colour(p, colour_of(row->activity->word));
    str_add(p->out, activity_words[row->activity->word].key);
    set_colour(p, "0");
    if (others > 0)
        str_addf(p->out, "  (numbers of GPU %s)", name_gpu(&row->gpu->reading.device, gpu));
    str_addc(p->out, '\n');
}

void why_text(const Snapshot *seen, const WhyAsk *ask, const WhyStyle *style, Str *out)
{
    const Paper p = {.style = style, .width = style->width < WIDTH_MIN ? WIDTH_MIN : style->width, .out = out};
    Row rows[ROWS_MAX];
    bool told[ROWS_MAX] = {false}, alike[ROWS_MAX];
    const size_t count = list_rows(seen, ask, rows);

    if (count == 0)
        str_addf(out, "No GPU: %s\n", seen->node->driver_why[0] ? seen->node->driver_why : "the driver lists none");
    for (size_t i = 0; i < count; i++) {
        if (told[i])
            continue;
        for (size_t k = i + 1; k < count; k++) {
            alike[k] = !told[k] && !ask->gpu && is_alike(seen, &rows[i], &rows[k]);
            told[k] |= alike[k];
        }
        if (i > 0)
            str_addc(out, '\n');
        add_title(&p, rows, i, count, alike);
        add_paragraph(&p, seen, ask, &rows[i]);
    }
}
