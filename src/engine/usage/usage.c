/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/usage/usage.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "engine/health/incidents.h"

#define TICK_MAX_NS (10 * NS_PER_S) /* longer is a gap: the machine slept, or we were stopped */
#define TAIL_MAX_NS (3 * NS_PER_S)  /* a counter that was not read for longer says nothing of the end */

static const double worth_advice = 0.1; /* a cause of a smaller share of the time gets no advice */

const WordRow usage_throttles[] = {USAGE_THROTTLE_TABLE(WORD_ROW)};
const WordRow usage_means[] = {USAGE_MEAN_TABLE(WORD_ROW)};
const WordRow usage_energies[] = {USAGE_ENERGY_TABLE(WORD_ROW)};

/* Clock reasons and the counters of the same, in nanoseconds. */
static const struct {
    UsageThrottle throttle;
    MetricId counter;
    uint64_t bit;
} held_down[USAGE_COUNTERS] = {
    {USAGE_THROTTLE_POWER, METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, CLOCK_REASON_POWER_CAP},
    {USAGE_THROTTLE_THERMAL, METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS, CLOCK_REASON_SW_HEAT},
    {USAGE_THROTTLE_THERMAL, METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS, CLOCK_REASON_HW_HEAT},
    {USAGE_THROTTLE_BRAKE, METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS, CLOCK_REASON_POWER_BRAKE},
};

static const struct {
    MetricId metric;
    double scale;
    bool whole; /* of the whole GPU, where an instance has none */
} means[USAGE_MEAN_END] = {
    [USAGE_SM] = {METRIC_PROF_SM_ACTIVE, 1, false},
    [USAGE_UTIL] = {METRIC_GPU_UTIL, 0.01, false},
    [USAGE_TENSOR] = {METRIC_PROF_PIPE_TENSOR_ACTIVE, 1, false},
    [USAGE_DRAM] = {METRIC_PROF_DRAM_ACTIVE, 1, false},
    [USAGE_POWER] = {METRIC_POWER_USAGE, 1, true},
};

void usage_init(Usage *usage)
{
    memset(usage, 0, offsetof(Usage, devices)); /* a device is cleared when it is added */
    usage->memory_peak_bytes = NAN;
}

/* --- whose part --------------------------------------------------------------------------------------------------- */

static bool has_pid(const UsageGroup *group, uint32_t pid)
{
    size_t low = 0, high = group->pid_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (group->pids[middle] < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < group->pid_count && group->pids[low] == pid;
}

static bool is_on(const NodeProcess *process, const Reading *instance)
{
    return instance ? node_process_is_on(process, &instance->device) : process->gpu_instance == DEVICE_NO_NUMBER;
}

static bool is_selected(const UsageGroup *group, const Device *gpu)
{
    PciAddress address;
    char index[16];

    snprintf(index, sizeof index, "%u", gpu->index);
    for (size_t i = 0; i < group->selected_count; i++)
        if (strcmp(group->selected[i], index) == 0 || strcasecmp(group->selected[i], gpu->uuid) == 0 ||
            (gpu->has_pci && pci_parse(group->selected[i], &address) == 0 && pci_compare(address, gpu->pci) == 0))
            return true;
    return false;
}

bool usage_has_gpu(const Usage *usage, const char *name)
{
    const UsageGroup one = {.selected = &name, .selected_count = 1};
    bool found = false;

    for (uint32_t i = 0; i < usage->device_count && !found; i++)
        found = is_selected(&one, &usage->devices[i].device);
    return found;
}

/* Of processes that compute at different rates each has its part; of idle ones, and where the driver does not tell,
 * they have equal parts. */
static void share_device(UsagePart *part, uint32_t all, double own_percent, double percent, bool sampled)
{
    if (sampled && percent > 0) {
        part->attribution = ATTRIBUTION_SAMPLED;
        part->share = own_percent / percent;
    } else {
        part->attribution = ATTRIBUTION_EVEN;
        part->share = (double)part->processes / all;
    }
}

UsagePart usage_find_part(const NodeGpu *gpu, const Reading *instance, const UsageGroup *group)
{
    UsagePart part = {.memory_bytes = 0};
    double own_percent = 0, percent = 0;
    bool sampled = true;
    uint32_t all = 0;

    for (size_t i = 0; i < gpu->process_count; i++) {
        const NodeProcess *process = &gpu->processes[i];
        const bool own = has_pid(group, process->pid);

        if (!is_on(process, instance))
            continue;
        all++;
        sampled &= process->sm_percent != UINT8_MAX;
        percent += process->sm_percent;
        if (!own)
            continue;
        part.processes++;
        own_percent += process->sm_percent;
        if (process->used_bytes == UINT64_MAX || part.memory_bytes == UINT64_MAX)
            part.memory_bytes = UINT64_MAX;
        else
            part.memory_bytes += process->used_bytes;
    }
    part.held = group->selected_count > 0 ? is_selected(group, &gpu->reading.device) : group->all || part.processes > 0;
    part.share = part.held ? 1 : 0;
    if (part.held && part.processes == all && all > 0)
        part.attribution = instance ? ATTRIBUTION_MIG : ATTRIBUTION_EXCLUSIVE;
    else if (part.held && part.processes > 0)
        share_device(&part, all, own_percent, percent, sampled);
    if (part.processes == 0)
        part.memory_bytes = UINT64_MAX;
    return part;
}

/* --- one device, one tick ----------------------------------------------------------------------------------------- */

void usage_device_init(UsageDevice *d, const Reading *gpu, const Reading *reading)
{
    memset(d, 0, sizeof *d);
    d->device = reading->device;
    d->gpu_index = gpu->device.index;
    d->gpu_share = reading == gpu ? 1 : reading_mig_share(gpu, reading);
    memcpy(d->profile, reading->profile, sizeof d->profile);
    memcpy(d->board, gpu->device.name, sizeof d->board);
    d->temperature_max_c = d->memory_before_bytes = d->memory_total_bytes = NAN;
    d->memory_peak_bytes = d->device_peak_bytes = d->energy_mj = d->power_w = NAN;
    for (size_t i = 0; i < USAGE_COUNTERS; i++)
        d->throttle_ns[i] = NAN;
}

static UsageDevice *find_device(Usage *usage, const Reading *gpu, const Reading *reading)
{
    for (uint32_t i = 0; i < usage->device_count; i++)
        if (device_equal(&usage->devices[i].device, &reading->device)) {
            usage->devices[i].gpu_index = gpu->device.index;
            return &usage->devices[i];
        }
    if (usage->device_count == USAGE_DEVICES_MAX) {
        usage->lost_devices = 1;
        return NULL;
    }
    usage_device_init(&usage->devices[usage->device_count], gpu, reading);
    return &usage->devices[usage->device_count++];
}

static double read_mebibytes(const Reading *reading, MetricId id)
{
    double mib;

    return sample_double(&reading->sample[id], &mib) ? mib * 1048576 : (double)NAN;
}

/* Before the group comes: what is in use, if it was read before the list of processes that has none of the group. Then
 * its own peak, and that of the device. */
static void note_memory(UsageDevice *d, const NodeGpu *gpu, const Reading *reading)
{
    const double used = read_mebibytes(reading, METRIC_FB_USED);
    const double own = d->now.memory_bytes == UINT64_MAX ? (double)NAN : (double)d->now.memory_bytes;

    d->memory_total_bytes = fmax(d->memory_total_bytes, read_mebibytes(reading, METRIC_FB_TOTAL));
    if (!d->now.held) {
        if (d->held_s <= 0 && reading->sample[METRIC_FB_USED].time_ns <= gpu->process_list.time_ns)
            d->memory_before_bytes = used;
        return;
    }
    if (!isfinite(d->memory_before_bytes) && isfinite(used))
        d->memory_before_bytes = fmax(used - (isfinite(own) ? own : 0), 0);
    d->device_peak_bytes = fmax(d->device_peak_bytes, used);
    d->memory_peak_bytes = fmax(d->memory_peak_bytes, isfinite(own) ? own : used - d->memory_before_bytes);
}

static void add_energy(UsageDevice *d, double joules, double share, UsageEnergy basis)
{
    d->energy_j += joules * share * d->gpu_share;
    if (d->energy_basis != USAGE_ENERGY_POWER)
        d->energy_basis = basis;
}

/* The counter's difference since it was last read, times the group's mean share in that time; power times the tick
 * where there is no counter, or it was reset. */
static void count_energy(UsageDevice *d, const Reading *gpu, double tick_s)
{
    const Sample *sample = &gpu->sample[METRIC_TOTAL_ENERGY_CONSUMPTION];
    double now_mj = NAN;

    (void)sample_double(sample, &now_mj);
    if (!sample_double(&gpu->sample[METRIC_POWER_USAGE], &d->power_w))
        d->power_w = NAN;
    d->span_s += tick_s;
    d->span_share_s += d->now.held ? d->now.share * tick_s : 0;
    if (isfinite(now_mj) && sample->time_ns == d->energy_time_ns)
        return;
    if (now_mj >= d->energy_mj && d->span_share_s > 0)
        add_energy(d, (now_mj - d->energy_mj) / 1000, d->span_share_s / d->span_s, USAGE_ENERGY_COUNTER);
    else if (d->now.held && isfinite(d->power_w) && (!isfinite(now_mj) || now_mj < d->energy_mj))
        add_energy(d, d->power_w * tick_s, d->now.share, USAGE_ENERGY_POWER);
    d->span_s = d->span_share_s = 0;
    if (isfinite(now_mj)) {
        d->energy_mj = now_mj;
        d->energy_time_ns = sample->time_ns;
    }
}

static void count_throttling(UsageDevice *d, const Reading *gpu, double tick_s)
{
    double by[USAGE_THROTTLE_END] = {0}, any = 0, bits = NAN;
    bool counted = false;

    (void)sample_double(&gpu->sample[METRIC_CLOCKS_EVENT_REASONS], &bits);
    for (size_t i = 0; i < USAGE_COUNTERS; i++) {
        double now_ns, part = NAN;

        if (sample_double(&gpu->sample[held_down[i].counter], &now_ns)) {
            part = now_ns >= d->throttle_ns[i] ? fmin((now_ns - d->throttle_ns[i]) / 1e9, tick_s) : (double)NAN;
            d->throttle_ns[i] = now_ns;
            counted = true;
        } else if (isfinite(bits)) {
            part = (uint64_t)bits & held_down[i].bit ? tick_s : 0;
        }
        if (!isfinite(part) || !d->now.held)
            continue;
        d->throttle_known = true;
        by[held_down[i].throttle] = fmax(by[held_down[i].throttle], part);
        if (held_down[i].bit & CLOCK_REASONS_THROTTLED)
            any = fmax(any, part);
    }
    if (!counted && d->now.held && isfinite(bits) && (uint64_t)bits & CLOCK_REASON_HW_SLOWDOWN)
        any = tick_s; /* of no kind that is told */
    for (UsageThrottle t = 0; t < USAGE_THROTTLE_END; t++)
        d->throttle_s[t] += by[t];
    d->throttled_s += any;
}

static void add_means(UsageDevice *d, const Reading *gpu, const Reading *reading, double tick_s)
{
    double value;

    for (UsageMean m = 0; m < USAGE_MEAN_END; m++) {
        const Reading *from = means[m].whole ? gpu : reading;

        if (!sample_double(&from->sample[means[m].metric], &value))
            continue;
        d->known_s[m] += tick_s;
        d->sum[m] += value * means[m].scale * tick_s;
        d->own[m] += value * means[m].scale * tick_s * d->now.share * (means[m].whole ? d->gpu_share : 1);
    }
    if (sample_double(&gpu->sample[METRIC_GPU_TEMP], &value))
        d->temperature_max_c = fmax(d->temperature_max_c, value);
}

static void count_activity(UsageDevice *d, const Activity *activity, const Why *why, double tick_s)
{
    static const Why unknown = {.verdicts = {{.cause = WHY_UNKNOWN}}};
    const WhyVerdict *verdicts = (why && why->count > 0 ? why : &unknown)->verdicts;
    const double part = why ? why_first_part(why) : 1;

    d->activity_s[activity->word][activity->word == ACTIVITY_WAITING ? activity->cause : 0] += tick_s;
    d->verdict_s[activity->word][verdicts[0].cause][verdicts[0].confidence] += tick_s * part;
    if (part < 1)
        d->verdict_s[activity->word][verdicts[1].cause][verdicts[1].confidence] += tick_s * (1 - part);
}

void usage_device_update(UsageDevice *d, const NodeGpu *gpu, const Reading *instance, const UsagePart *part,
                         double tick_s)
{
    const Reading *reading = instance ? instance : &gpu->reading;
    const Activity *activity = &gpu->activity;
    const Why *why = gpu->verdicts;

    if (part)
        d->now = *part;
    if (d->now.held) {
        d->held_s += tick_s;
        d->attribution_s[d->now.attribution] += tick_s;
        d->share_s += d->now.share * tick_s;
        d->processes = d->now.processes > d->processes ? d->now.processes : d->processes;
    }
    if (instance) {
        activity = gpu->instance_activity ? &gpu->instance_activity[instance - gpu->instances] : NULL;
        why = gpu->instance_verdicts ? &gpu->instance_verdicts[instance - gpu->instances] : NULL;
    }
    if (gpu->state != GPU_UP) {
        d->gap_s += d->now.held ? tick_s : 0;
        if (d->now.held && activity && activity->word == ACTIVITY_UNUSABLE)
            count_activity(d, activity, why, tick_s);
        return;
    }
    if (d->now.held && activity)
        count_activity(d, activity, why, tick_s);
    if (d->now.held)
        add_means(d, &gpu->reading, reading, tick_s);
    note_memory(d, gpu, reading);
    count_energy(d, &gpu->reading, tick_s);
    count_throttling(d, &gpu->reading, tick_s);
}

static void scale_values(double *values, size_t count, double factor)
{
    for (size_t i = 0; i < count; i++)
        values[i] *= factor;
}

/* Scales all of its time, so that means and shares stay. */
static void shorten_time(UsageDevice *d, double factor)
{
    scale_values(&d->held_s, 1, factor);
    scale_values(&d->gap_s, 1, factor);
    scale_values(&d->share_s, 1, factor);
    scale_values(d->attribution_s, ATTRIBUTION_END, factor);
    scale_values(d->sum, USAGE_MEAN_END, factor);
    scale_values(d->own, USAGE_MEAN_END, factor);
    scale_values(d->known_s, USAGE_MEAN_END, factor);
    scale_values(d->activity_s[0], sizeof d->activity_s / sizeof(double), factor);
    scale_values(d->verdict_s[0][0], sizeof d->verdict_s / sizeof(double), factor);
    scale_values(&d->throttled_s, 1, factor);
    scale_values(d->throttle_s, USAGE_THROTTLE_END, factor);
}

void usage_device_begin(UsageDevice *d, double seconds)
{
    if (seconds < 0) {
        shorten_time(d, d->held_s > 0 ? fmax(1 + seconds / d->held_s, 0) : 1);
        return;
    }
    d->held_s += seconds;
    d->share_s += seconds * d->now.share;
    d->attribution_s[d->now.attribution] += seconds;
    d->activity_s[ACTIVITY_IDLE_HELD][0] += seconds;
    d->verdict_s[ACTIVITY_IDLE_HELD][WHY_IDLE_HELD][WHY_HIGH] += seconds;
}

/* A GPU that gives no readings, or no list of its processes: the group is where it was. */
static void update_device(Usage *usage, const NodeGpu *gpu, const Reading *instance, const UsageGroup *group,
                          double tick_s)
{
    UsageDevice *d = find_device(usage, &gpu->reading, instance ? instance : &gpu->reading);

    if (!d)
        return;
    const UsagePart part = usage_find_part(gpu, instance, group);
    usage_device_update(d, gpu, instance, gpu->state == GPU_UP && gpu->process_list.valid ? &part : NULL, tick_s);
}

/* --- the node ----------------------------------------------------------------------------------------------------- */

static bool has_readings(const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].last_sample_ns > 0)
            return true;
    return false;
}

/* One that is gone, as its GPU or its MIG layout is, has no process any more. */
static void drop_gone(Usage *usage, const Node *node)
{
    for (uint32_t k = 0; k < usage->device_count; k++) {
        UsageDevice *d = &usage->devices[k];
        bool found = false;

        for (size_t i = 0; i < node->gpu_count && d->now.held && !found; i++) {
            const NodeGpu *gpu = &node->gpus[i];

            found = device_equal(&gpu->reading.device, &d->device);
            for (size_t n = 0; n < gpu->instance_count && !found; n++)
                found = device_equal(&gpu->instances[n].device, &d->device);
        }
        if (!found)
            d->now = (UsagePart){0};
    }
}

static void note_memory_peak(Usage *usage)
{
    double sum = NAN;

    for (uint32_t i = 0; i < usage->device_count; i++) {
        const UsagePart *now = &usage->devices[i].now;

        if (now->held && now->memory_bytes != UINT64_MAX)
            sum = (isfinite(sum) ? sum : 0) + (double)now->memory_bytes;
    }
    usage->memory_peak_bytes = fmax(usage->memory_peak_bytes, sum);
}

void usage_update(Usage *usage, const Snapshot *snapshot, const UsageGroup *group)
{
    const Node *node = snapshot->node;
    const uint64_t passed = usage->last_ns ? node->time_ns - usage->last_ns : 0;
    const bool gap = passed > TICK_MAX_NS;
    const double tick_s = gap ? 0 : (double)passed / 1e9;

    snprintf(usage->driver_why, sizeof usage->driver_why, "%s", node->driver_why);
    memcpy(usage->hostname, node->hostname, sizeof usage->hostname);
    if (!has_readings(node))
        return;
    memcpy(usage->driver_version, node->driver_version, sizeof usage->driver_version);
    usage->first_ns = usage->first_ns ? usage->first_ns : node->time_ns;
    usage->last_ns = node->time_ns;
    usage->gap_s += gap ? (double)passed / 1e9 : 0;
    usage->measured_s += tick_s;
    drop_gone(usage, node);
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        if (gpu->state == GPU_STARTING)
            continue;
        for (size_t k = 0; k < gpu->instance_count; k++)
            update_device(usage, gpu, &gpu->instances[k], group, tick_s);
        update_device(usage, gpu, NULL, group, tick_s);
    }
    note_memory_peak(usage);
    for (size_t i = 0; i < snapshot->incident_count; i++)
        usage_add_problem(usage, snapshot->incidents[i]);
}

const UsageDevice *usage_find_held(const Usage *usage, const Device *device)
{
    for (uint32_t i = 0; i < usage->device_count; i++)
        if (usage->devices[i].now.held && device_equal(&usage->devices[i].device, device))
            return &usage->devices[i];
    return NULL;
}

void usage_add_xid(Usage *usage, const XidEvent *event, uint64_t real_ns)
{
    for (uint32_t i = 0; i < usage->device_count; i++) {
        UsageDevice *d = &usage->devices[i];
        uint32_t k = 0;

        if (pci_compare(d->device.pci, event->gpu) != 0 || (d->held_s <= 0 && !d->now.held) ||
            (d->device.kind == DEVICE_COMPUTE_INSTANCE && event->gpu_instance != DEVICE_NO_NUMBER &&
             event->gpu_instance != d->device.gpu_instance))
            continue;
        while (k < d->xid_count && d->xids[k].xid != event->xid)
            k++;
        if (k == USAGE_XIDS_MAX)
            continue;
        if (k == d->xid_count)
            d->xids[d->xid_count++] = (UsageXid){.xid = event->xid, .first_real_ns = real_ns};
        d->xids[k].count++;
    }
}

/* Whether it is about a device that the group held. */
static bool is_about_group(const Usage *usage, const Incident *incident)
{
    for (uint32_t i = 0; i < usage->device_count; i++) {
        const UsageDevice *d = &usage->devices[i];

        if ((d->held_s > 0 || d->now.held) && incident_hits(incident, &d->device))
            return true;
    }
    return false;
}

void usage_add_problem(Usage *usage, const Incident *incident)
{
    const uint32_t index = incident->device.kind == DEVICE_NODE ? DEVICE_NO_NUMBER : incident->device.index;

    if (usage->problem_count == USAGE_PROBLEMS_MAX || !is_about_group(usage, incident))
        return;
    for (uint32_t i = 0; i < usage->problem_count; i++)
        if (strcmp(usage->problems[i].class, incident->class) == 0 && usage->problems[i].gpu_index == index)
            return;
    UsageProblem *problem = &usage->problems[usage->problem_count++];
    *problem =
        (UsageProblem){.severity = incident->severity, .gpu_index = index, .first_real_ns = incident->first_real_ns};
    memcpy(problem->class, incident->class, sizeof problem->class);
    memcpy(problem->title, incident->title, sizeof problem->title);
}

void usage_end(Usage *usage, uint64_t time_ns)
{
    for (uint32_t i = 0; i < usage->device_count; i++) {
        UsageDevice *d = &usage->devices[i];
        const uint64_t tail = time_ns > d->energy_time_ns ? time_ns - d->energy_time_ns : 0;

        if (d->now.held && d->energy_basis == USAGE_ENERGY_COUNTER && isfinite(d->power_w) && tail < TAIL_MAX_NS)
            add_energy(d, d->power_w * (double)tail / 1e9, d->now.share, USAGE_ENERGY_COUNTER);
    }
}

void usage_find_prices(Usage *usage, const Prices *prices, uint64_t real_ns)
{
    for (uint32_t i = 0; i < usage->device_count; i++) {
        UsageDevice *d = &usage->devices[i];

        prices_find(prices, d->board, d->profile, d->gpu_share, real_ns, d->price);
    }
}

void usage_set_price(Usage *usage, const char *uuid, const char *text)
{
    for (uint32_t i = 0; i < usage->device_count; i++)
        if (uuid[0] && strcmp(usage->devices[i].device.uuid, uuid) == 0)
            snprintf(usage->devices[i].price, sizeof usage->devices[i].price, "%s", text);
}

/* --- numbers of a report ------------------------------------------------------------------------------------------ */

static int compare_verdicts(const void *a, const void *b)
{
    const UsageVerdict *left = a, *right = b;

    return (left->seconds < right->seconds) - (left->seconds > right->seconds);
}

/* Zero seconds: it was never so. */
static UsageVerdict sum_verdict(const UsageDevice *device, ActivityWord activity, WhyCause cause)
{
    const double *by = device->verdict_s[activity][cause];
    UsageVerdict verdict = {.activity = activity, .cause = cause};

    for (WhyConfidence c = 0; c < WHY_CONFIDENCE_END; c++) {
        verdict.seconds += by[c];
        if (by[c] > by[verdict.confidence])
            verdict.confidence = c;
    }
    return verdict;
}

size_t usage_verdicts(const UsageDevice *device, UsageVerdict out[USAGE_VERDICTS_MAX])
{
    size_t count = 0;

    for (ActivityWord w = 0; w < ACTIVITY_END; w++)
        for (WhyCause c = 0; c < WHY_END; c++) {
            out[count] = sum_verdict(device, w, c);
            count += out[count].seconds > 0;
        }
    qsort(out, count, sizeof out[0], compare_verdicts);
    return count;
}

const char *usage_advice(const UsageDevice *device)
{
    UsageVerdict verdicts[USAGE_VERDICTS_MAX];
    const size_t count = usage_verdicts(device, verdicts);

    for (size_t i = 0; i < count && verdicts[i].seconds / device->held_s >= worth_advice; i++)
        if (verdicts[i].confidence > WHY_LOW && why_causes[verdicts[i].cause].advice[0])
            return why_causes[verdicts[i].cause].advice;
    return "";
}

double usage_device_cost(const UsageDevice *device, PriceTag *ret_tag)
{
    PriceTag tag;

    if (price_tag_read(device->price, &tag) < 0)
        return NAN;
    if (ret_tag)
        *ret_tag = tag;
    return device->share_s * device->gpu_share * tag.per_hour / 3600;
}

double usage_cost(const Usage *usage, char currency[PRICE_CURRENCY_CAP])
{
    double sum = NAN;

    currency[0] = '\0';
    for (uint32_t i = 0; i < usage->device_count; i++) {
        PriceTag tag;
        const double cost = usage_device_cost(&usage->devices[i], &tag);

        if (!isfinite(cost) || usage->devices[i].held_s <= 0)
            continue;
        if (currency[0] && strcmp(currency, tag.currency) != 0)
            return NAN;
        memcpy(currency, tag.currency, PRICE_CURRENCY_CAP);
        sum = (isfinite(sum) ? sum : 0) + cost;
    }
    return sum;
}

double usage_mean(const UsageDevice *device, UsageMean mean)
{
    return device->known_s[mean] > 0 ? device->sum[mean] / device->known_s[mean] : (double)NAN;
}

double usage_own_mean(const UsageDevice *device, UsageMean mean)
{
    return device->known_s[mean] > 0 ? device->own[mean] / device->known_s[mean] : (double)NAN;
}

Attribution usage_attribution(const UsageDevice *device)
{
    Attribution most = ATTRIBUTION_UNKNOWN;

    for (Attribution a = 0; a < ATTRIBUTION_END; a++)
        if (device->attribution_s[a] > device->attribution_s[most])
            most = a;
    return most;
}

double usage_energy_j(const Usage *usage)
{
    double sum = NAN;

    for (uint32_t i = 0; i < usage->device_count; i++)
        if (usage->devices[i].energy_basis != USAGE_ENERGY_UNKNOWN)
            sum = (isfinite(sum) ? sum : 0) + usage->devices[i].energy_j;
    return sum;
}
