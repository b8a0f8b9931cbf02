/* SPDX-License-Identifier: Apache-2.0 */
#include "service/usage/usage_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/human.h"
#include "base/json.h"
#include "service/report/table.h"
#include "service/status/status.h"

static const double wh_joules = 3600, kwh_joules = 3.6e6;
static const double worth_saying = 0.005; /* a smaller share of the time is not in the text */
enum { TEXT_INDENT = 13, TEXT_WIDTH = 100 };

static bool is_used(const UsageDevice *d)
{
    return d->held_s > 0 || d->now.held;
}

static uint32_t count_used(const Usage *usage)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < usage->device_count; i++)
        count += is_used(&usage->devices[i]);
    return count;
}

/* Less than the whole device was the group's. */
static bool is_shared(const UsageDevice *d)
{
    return d->held_s > 0 && d->share_s / d->held_s < 1 - worth_saying;
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static void add_seconds(Str *out, double seconds)
{
    char text[DURATION_TEXT_MAX];

    if (seconds < 100) {
        str_addf(out, "%.2f s", seconds);
        return;
    }
    duration_format(text, (uint64_t)llround(seconds) * NS_PER_S);
    str_add(out, text);
}

static void add_energy(Str *out, double joules)
{
    if (joules < wh_joules)
        str_addf(out, "%.0f J", joules);
    else if (joules < kwh_joules)
        str_addf(out, "%.1f Wh", joules / wh_joules);
    else
        str_addf(out, "%.2f kWh", joules / kwh_joules);
}

static void add_percent(Str *out, const char *name, double share)
{
    if (isfinite(share))
        str_addf(out, "%s%s %.0f %%", out->text[out->len - 1] == ' ' ? "" : ", ", name, 100 * share);
}

/* "working 83 %, waiting (input) 12 %", the longest first. */
static void add_activities(const UsageDevice *d, Str *out)
{
    double left[ACTIVITY_END][ACTIVITY_CAUSE_END];

    memcpy(left, d->activity_s, sizeof left);
    for (bool first = true;; first = false) {
        size_t word = 0, cause = 0;

        for (size_t w = 0; w < ACTIVITY_END; w++)
            for (size_t c = 0; c < ACTIVITY_CAUSE_END; c++)
                if (left[w][c] > left[word][cause]) {
                    word = w;
                    cause = c;
                }
        if (!(left[word][cause] / d->held_s >= worth_saying))
            return;
        str_addf(out, "%s%s", first ? "" : ", ", activity_words[word].key);
        if (cause)
            str_addf(out, " (%s)", activity_causes[cause].key);
        str_addf(out, " %.0f %%", 100 * left[word][cause] / d->held_s);
        left[word][cause] = 0;
    }
}

static void add_attribution(const UsageDevice *d, Str *out)
{
    const double share = 100 * d->share_s / d->held_s;

    switch (usage_attribution(d)) {
    case ATTRIBUTION_EXCLUSIVE:
        str_add(out, ", alone on it");
        break;
    case ATTRIBUTION_MIG:
        str_add(out, ", alone on the instance");
        break;
    case ATTRIBUTION_SAMPLED:
        str_addf(out, ", shared: %.0f %% of its work is this command's, by the driver's samples", share);
        break;
    case ATTRIBUTION_EVEN:
        str_addf(out, ", shared: %.0f %% of it counted, an equal part per process", share);
        break;
    default:
        str_add(out, ", counted whole: whose work it does is not known");
    }
}

static void add_line(Str *out, const char *name)
{
    str_addf(out, "  %-10s ", name);
}

static void add_device_name(const UsageDevice *d, Str *out)
{
    if (d->gpu_index != DEVICE_NO_NUMBER)
        str_addf(out, "GPU %" PRIu32, d->gpu_index);
    else
        str_add(out, "GPU");
    if (d->device.kind == DEVICE_COMPUTE_INSTANCE)
        str_addf(out, " instance %" PRIu32 "/%" PRIu32 " (%s)", d->device.gpu_instance, d->device.compute_instance,
                 d->profile);
    else
        str_addf(out, " %s", status_model(&d->device));
}

static void add_work(const UsageDevice *d, Str *out)
{
    add_line(out, "work");
    add_percent(out, "SM active", usage_own_mean(d, USAGE_SM));
    add_percent(out, "tensor cores", usage_own_mean(d, USAGE_TENSOR));
    add_percent(out, "memory interface", usage_own_mean(d, USAGE_DRAM));
    add_percent(out, isfinite(usage_mean(d, USAGE_SM)) ? "a kernel ran" : "utilisation (a kernel ran)",
                usage_own_mean(d, USAGE_UTIL));
    if (out->text[out->len - 1] == ' ')
        str_add(out, "not known: the driver gave no reading");
    else if (is_shared(d))
        str_addf(out, "; of all programs: %s %.0f %%", isfinite(usage_mean(d, USAGE_SM)) ? "SM active" : "utilisation",
                 100 * usage_mean(d, isfinite(usage_mean(d, USAGE_SM)) ? USAGE_SM : USAGE_UTIL));
    str_addc(out, '\n');
}

/* What took the time, and what to do about the most of it. */
static void add_verdicts(const UsageDevice *d, Str *out)
{
    UsageVerdict verdicts[USAGE_VERDICTS_MAX];
    const size_t count = usage_verdicts(d, verdicts);
    const char *advice = usage_advice(d);

    for (size_t i = 0; i < count; i++) {
        const struct WhyRow *row = &why_causes[verdicts[i].cause];
        const double share = verdicts[i].seconds / d->held_s;

        if (share < worth_saying)
            break;
        add_line(out, i ? "" : "verdict");
        str_addf(out, "%s: %.0f %%", row->title, 100 * share);
        if (verdicts[i].confidence < WHY_HIGH && verdicts[i].cause != WHY_UNKNOWN)
            str_addf(out, " (%s confidence)", why_confidences[verdicts[i].confidence].key);
        str_addc(out, '\n');
    }
    if (!advice[0])
        return;
    add_line(out, "advice");
    str_add_wrapped(out, advice, TEXT_INDENT, TEXT_INDENT, TEXT_WIDTH);
}

static void add_cost(Str *out, double cost, const char *currency)
{
    str_addf(out, "%.*f %s", cost < 1 ? 4 : 2, cost, currency);
}

static void add_device_cost(const UsageDevice *d, Str *out)
{
    PriceTag tag;
    const double cost = usage_device_cost(d, &tag);

    if (!isfinite(cost))
        return;
    add_line(out, "cost");
    add_cost(out, cost, tag.currency);
    str_addf(out, " (%s, %.2f %s an hour of a whole GPU)\n", tag.id, tag.per_hour, tag.currency);
}

static void add_memory(const UsageDevice *d, Str *out)
{
    char peak[HUMAN_MAX], total[HUMAN_MAX], before[HUMAN_MAX];

    if (!isfinite(d->memory_peak_bytes))
        return;
    add_line(out, "memory");
    str_addf(out, "%s at its peak", human_bytes(peak, d->memory_peak_bytes));
    if (isfinite(d->memory_total_bytes))
        str_addf(out, " of %s", human_bytes(total, d->memory_total_bytes));
    if (isfinite(d->memory_before_bytes))
        str_addf(out, "; %s in use before", human_bytes(before, d->memory_before_bytes));
    str_addc(out, '\n');
}

static void add_power(const UsageDevice *d, bool utf8, Str *out)
{
    const double watt = usage_own_mean(d, USAGE_POWER);

    if (!isfinite(watt) && d->energy_basis == USAGE_ENERGY_UNKNOWN)
        return;
    add_line(out, "power");
    if (isfinite(watt))
        str_addf(out, "%.0f W on average, ", watt);
    add_energy(out, d->energy_j);
    if (isfinite(d->temperature_max_c))
        str_addf(out, ", at most %.0f %sC", d->temperature_max_c, utf8 ? "\u00b0" : "");
    str_addc(out, '\n');
}

static void add_throttling(const UsageDevice *d, Str *out)
{
    const double limited_s = d->throttle_s[USAGE_THROTTLE_POWER];

    if (!d->throttle_known)
        return;
    if (d->throttled_s / d->held_s >= worth_saying) {
        add_line(out, "throttled");
        str_addf(out, "%.0f %% of the time", 100 * d->throttled_s / d->held_s);
        for (UsageThrottle t = 0; t < USAGE_THROTTLE_END; t++)
            if (t != USAGE_THROTTLE_POWER && d->throttle_s[t] / d->held_s >= worth_saying)
                str_addf(out, ", %s %.0f %%", usage_throttles[t].text, 100 * d->throttle_s[t] / d->held_s);
        str_addc(out, '\n');
    }
    if (limited_s / d->held_s >= worth_saying) {
        add_line(out, "at limit");
        str_addf(out, "%.0f %% of the time at its power limit\n", 100 * limited_s / d->held_s);
    }
}

static void add_trouble(const UsageDevice *d, Str *out)
{
    if (d->gap_s > 0) {
        add_line(out, "gap");
        add_seconds(out, d->gap_s);
        str_add(out, " without a reading\n");
    }
    for (uint32_t i = 0; i < d->xid_count; i++) {
        add_line(out, i ? "" : "problem");
        str_addf(out, "XID %" PRIu64 ", %" PRIu64 " time%s; 'stoker xid %" PRIu64 "' explains it\n", d->xids[i].xid,
                 d->xids[i].count, d->xids[i].count > 1 ? "s" : "", d->xids[i].xid);
    }
}

static void add_device(const UsageDevice *d, bool utf8, Str *out)
{
    str_addc(out, '\n');
    add_device_name(d, out);
    str_add(out, ": held for ");
    add_seconds(out, d->held_s);
    if (d->held_s > 0)
        add_attribution(d, out);
    str_addc(out, '\n');
    if (!(d->held_s > 0))
        return;
    add_line(out, "activity");
    add_activities(d, out);
    str_addc(out, '\n');
    add_verdicts(d, out);
    add_work(d, out);
    add_memory(d, out);
    add_power(d, utf8, out);
    add_device_cost(d, out);
    add_throttling(d, out);
    add_trouble(d, out);
}

static void add_head(const Usage *usage, const UsageRun *run, Str *out)
{
    const double joules = usage_energy_j(usage);
    const uint32_t used = count_used(usage);
    char currency[PRICE_CURRENCY_CAP];
    const double cost = usage_cost(usage, currency);
    char peak[HUMAN_MAX];

    str_addf(out, "stoker run: %s: ", run->command);
    add_seconds(out, (double)run->wall_ns / 1e9);
    if (run->signal)
        str_addf(out, ", ended by signal %d", run->signal);
    else
        str_addf(out, ", exit status %d", run->exit_status);
    if (used > 0)
        str_addf(out, "; %" PRIu32 " GPU%s", used, used > 1 ? "s" : "");
    else if (usage->measured_s > 0)
        str_add(out, "; no process of it was on a GPU");
    if (isfinite(joules)) {
        str_add(out, ", ");
        add_energy(out, joules);
    }
    if (isfinite(usage->memory_peak_bytes))
        str_addf(out, ", %s of GPU memory at its peak", human_bytes(peak, usage->memory_peak_bytes));
    if (isfinite(cost)) {
        str_add(out, ", ");
        add_cost(out, cost, currency);
    }
    str_addc(out, '\n');
}

/* It may quote a server. */
static void add_note(const char *note, bool utf8, Str *out)
{
    str_add(out, "  note: ");
    clean_add(out, note, utf8);
    str_addc(out, '\n');
}

void usage_text(const Usage *usage, const UsageRun *run, bool utf8, Str *out)
{
    add_head(usage, run, out);
    for (size_t i = 0; i < run->note_count; i++)
        add_note(run->notes[i], utf8, out);
    for (uint32_t i = 0; i < usage->device_count; i++)
        if (is_used(&usage->devices[i]))
            add_device(&usage->devices[i], utf8, out);
    for (uint32_t i = 0; i < usage->problem_count; i++)
        if (usage->problems[i].severity >= SEVERITY_WARNING)
            str_addf(out, "%sProblem: %s\n", i ? "" : "\n", usage->problems[i].title);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

/* gpu, instance: as everywhere. */
static void add_place(Str *out, const UsageDevice *d)
{
    if (d->gpu_index == DEVICE_NO_NUMBER)
        json_add_null(out, "gpu");
    else
        json_add_u64(out, "gpu", d->gpu_index);
    if (d->device.kind != DEVICE_COMPUTE_INSTANCE) {
        json_add_null(out, "instance");
        return;
    }
    json_open(out, "instance", '{');
    json_add_u64(out, "gpu_instance", d->device.gpu_instance);
    json_add_u64(out, "compute_instance", d->device.compute_instance);
    json_close(out, '}');
}

static void add_bytes(Str *out, const char *name, double bytes)
{
    if (isfinite(bytes))
        json_add_u64(out, name, (uint64_t)bytes);
    else
        json_add_null(out, name);
}

static void add_throttle_json(const UsageDevice *d, Str *out)
{
    json_add_double(out, "throttled_share",
                    d->throttle_known && d->held_s > 0 ? d->throttled_s / d->held_s : (double)NAN);
    json_open(out, "throttled_s", '{');
    for (UsageThrottle t = 0; t < USAGE_THROTTLE_END; t++)
        if (t != USAGE_THROTTLE_POWER)
            json_add_double(out, usage_throttles[t].key, d->throttle_known ? d->throttle_s[t] : (double)NAN);
    json_close(out, '}');
    json_add_double(out, "power_limit_s", d->throttle_known ? d->throttle_s[USAGE_THROTTLE_POWER] : (double)NAN);
}

static void add_attribution_json(const UsageDevice *d, Str *out)
{
    json_add_text(out, "attribution", attributions[usage_attribution(d)].key);
    json_add_double(out, "share", d->held_s > 0 ? d->share_s / d->held_s : (double)NAN);
    json_open(out, "attribution_s", '{');
    for (Attribution a = 0; a < ATTRIBUTION_END; a++)
        if (d->attribution_s[a] > 0)
            json_add_double(out, attributions[a].key, d->attribution_s[a]);
    json_close(out, '}');
}

static void add_cost_json(const UsageDevice *d, Str *out)
{
    PriceTag tag = {.id = ""};

    json_add_double(out, "cost", usage_device_cost(d, &tag));
    json_add_text(out, "price", tag.id[0] ? tag.id : NULL);
}

static void add_gpu_json(const UsageDevice *d, Str *out)
{
    char pci[PCI_TEXT_CAP];

    json_open(out, NULL, '{');
    add_place(out, d);
    json_add_text(out, "uuid", d->device.uuid[0] ? d->device.uuid : NULL);
    json_add_text(out, "pci", d->device.has_pci ? pci_format(d->device.pci, PCI_FORM_NVML, pci) : NULL);
    json_add_text(out, "model", status_model(&d->device));
    json_add_text(out, "profile", d->profile[0] ? d->profile : NULL);
    json_add_double(out, "held_s", d->held_s);
    json_add_double(out, "gap_s", d->gap_s);
    json_add_u64(out, "processes", d->processes);
    add_attribution_json(d, out);
    for (UsageMean m = 0; m < USAGE_MEAN_END; m++)
        json_add_double(out, usage_means[m].key, usage_own_mean(d, m));
    json_open(out, "device", '{');
    for (UsageMean m = 0; m < USAGE_MEAN_END; m++)
        json_add_double(out, usage_means[m].key, usage_mean(d, m));
    add_bytes(out, "memory_peak_bytes", d->device_peak_bytes);
    json_close(out, '}');
    add_bytes(out, "memory_peak_bytes", d->memory_peak_bytes);
    add_bytes(out, "memory_before_bytes", d->memory_before_bytes);
    add_bytes(out, "memory_total_bytes", d->memory_total_bytes);
    json_add_double(out, "energy_j", d->energy_basis == USAGE_ENERGY_UNKNOWN ? (double)NAN : d->energy_j);
    json_add_text(out, "energy_basis", usage_energies[d->energy_basis].key);
    add_cost_json(d, out);
    json_add_double(out, "temperature_max_c", d->temperature_max_c);
    add_throttle_json(d, out);
    json_open(out, "xids", '[');
    for (uint32_t i = 0; i < d->xid_count; i++) {
        json_open(out, NULL, '{');
        json_add_u64(out, "xid", d->xids[i].xid);
        json_add_u64(out, "count", d->xids[i].count);
        json_add_time(out, "first", d->xids[i].first_real_ns);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_close(out, '}');
}

static void add_verdicts_json(const UsageDevice *d, Str *out)
{
    UsageVerdict verdicts[USAGE_VERDICTS_MAX];
    const size_t count = usage_verdicts(d, verdicts);

    for (size_t i = 0; i < count; i++) {
        const struct WhyRow *row = &why_causes[verdicts[i].cause];

        json_open(out, NULL, '{');
        add_place(out, d);
        json_add_text(out, "activity", activity_words[verdicts[i].activity].key);
        json_add_text(out, "cause", row->key);
        json_add_text(out, "title", row->title);
        json_add_text(out, "confidence", why_confidences[verdicts[i].confidence].key);
        json_add_double(out, "seconds", verdicts[i].seconds);
        json_add_double(out, "share", verdicts[i].seconds / d->held_s);
        json_add_text(out, "advice", row->advice);
        json_close(out, '}');
    }
}

static void add_problems_json(const Usage *usage, Str *out)
{
    json_open(out, "problems", '[');
    for (uint32_t i = 0; i < usage->problem_count; i++) {
        const UsageProblem *p = &usage->problems[i];

        json_open(out, NULL, '{');
        json_add_text(out, "class", p->class);
        json_add_text(out, "severity", fault_severities[p->severity].key);
        if (p->gpu_index == DEVICE_NO_NUMBER)
            json_add_null(out, "gpu");
        else
            json_add_u64(out, "gpu", p->gpu_index);
        json_add_text(out, "title", p->title);
        json_add_time(out, "first", p->first_real_ns);
        json_close(out, '}');
    }
    json_close(out, ']');
}

static void add_run_json(const Usage *usage, const UsageRun *run, Str *out)
{
    char currency[PRICE_CURRENCY_CAP];
    const double cost = usage_cost(usage, currency);

    json_add_u64(out, "version", 1);
    json_add_text(out, "stoker", run->version);
    json_add_text(out, "command", run->command);
    json_add_text(out, "node", usage->hostname[0] ? usage->hostname : NULL);
    json_add_text(out, "driver", usage->driver_version[0] ? usage->driver_version : NULL);
    json_add_time(out, "started", run->started_real_ns);
    json_add_time(out, "ended", run->started_real_ns + run->wall_ns);
    json_add_double(out, "wall_s", (double)run->wall_ns / 1e9);
    json_add_i64(out, "exit_status", run->exit_status);
    if (run->signal)
        json_add_i64(out, "signal", run->signal);
    else
        json_add_null(out, "signal");
    json_add_double(out, "measured_s", usage->measured_s);
    json_add_double(out, "energy_j", usage_energy_j(usage));
    add_bytes(out, "memory_peak_bytes", usage->memory_peak_bytes);
    json_add_double(out, "cost", cost);
    json_add_text(out, "currency", isfinite(cost) ? currency : NULL);
}

void usage_json(const Usage *usage, const UsageRun *run, Str *out)
{
    json_open(out, NULL, '{');
    add_run_json(usage, run, out);
    json_open(out, "notes", '[');
    for (size_t i = 0; i < run->note_count; i++)
        json_add_text(out, NULL, run->notes[i]);
    json_close(out, ']');
    json_open(out, "gpus", '[');
    for (uint32_t i = 0; i < usage->device_count; i++)
        if (is_used(&usage->devices[i]))
            add_gpu_json(&usage->devices[i], out);
    json_close(out, ']');
    json_open(out, "verdicts", '[');
    for (uint32_t i = 0; i < usage->device_count; i++)
        if (is_used(&usage->devices[i]))
            add_verdicts_json(&usage->devices[i], out);
    json_close(out, ']');
    add_problems_json(usage, out);
    json_close(out, '}');
    str_addc(out, '\n');
}

/* --- the series --------------------------------------------------------------------------------------------------- */

static double read_now(const Reading *reading, MetricId id, double scale)
{
    double value;

    return sample_double(&reading->sample[id], &value) ? value * scale : (double)NAN;
}

static void add_now_json(const UsageDevice *d, const NodeGpu *gpu, const Reading *instance, Str *out)
{
    const Reading *reading = instance ? instance : &gpu->reading;
    const Activity *activity = !instance                ? &gpu->activity
                               : gpu->instance_activity ? &gpu->instance_activity[instance - gpu->instances]
                                                        : NULL;
    const Why *why = !instance                ? gpu->verdicts
                     : gpu->instance_verdicts ? &gpu->instance_verdicts[instance - gpu->instances]
                                              : NULL;

    json_open(out, NULL, '{');
    add_place(out, d);
    json_add_text(out, "uuid", d->device.uuid[0] ? d->device.uuid : NULL);
    json_add_text(out, "activity", activity ? activity_words[activity->word].key : NULL);
    json_add_text(out, "cause", why && why->count > 0 ? why_causes[why->verdicts[0].cause].key : NULL);
    json_add_text(out, "attribution", attributions[d->now.attribution].key);
    json_add_double(out, "share", d->now.share);
    json_add_double(out, "sm_active", read_now(reading, METRIC_PROF_SM_ACTIVE, 1));
    json_add_double(out, "utilization", read_now(reading, METRIC_GPU_UTIL, 0.01));
    json_add_double(out, "tensor_active", read_now(reading, METRIC_PROF_PIPE_TENSOR_ACTIVE, 1));
    json_add_double(out, "dram_active", read_now(reading, METRIC_PROF_DRAM_ACTIVE, 1));
    json_add_double(out, "power_w", read_now(&gpu->reading, METRIC_POWER_USAGE, 1));
    json_add_double(out, "temperature_c", read_now(&gpu->reading, METRIC_GPU_TEMP, 1));
    add_bytes(out, "memory_bytes", d->now.memory_bytes == UINT64_MAX ? (double)NAN : (double)d->now.memory_bytes);
    json_add_double(out, "energy_j", d->energy_basis == USAGE_ENERGY_UNKNOWN ? (double)NAN : d->energy_j);
    json_close(out, '}');
}

static void add_now_gpus(const Usage *usage, const Node *node, Str *out)
{
    json_add_time(out, "time", node->real_ns);
    json_open(out, "gpus", '[');
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];
        const UsageDevice *d = usage_find_held(usage, &gpu->reading.device);

        if (d)
            add_now_json(d, gpu, NULL, out);
        for (size_t k = 0; k < gpu->instance_count; k++)
            if ((d = usage_find_held(usage, &gpu->instances[k].device)))
                add_now_json(d, gpu, &gpu->instances[k], out);
    }
    json_close(out, ']');
}

void usage_json_line(const Usage *usage, const Node *node, Str *out)
{
    json_open(out, NULL, '{');
    add_now_gpus(usage, node, out);
    json_close(out, '}');
    str_addc(out, '\n');
}

void usage_json_self(const Usage *usage, const Node *node, uint32_t pid, const char *name, Str *out)
{
    json_open(out, NULL, '{');
    json_add_u64(out, "pid", pid);
    json_add_text(out, "name", name);
    add_now_gpus(usage, node, out);
    json_close(out, '}');
    str_addc(out, '\n');
}
