/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: hung, slow, gone, wrong, out of reach; and the monitoring itself: what it no longer sees. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/health/detect/detector.h"

/* --- why the driver cannot be used -------------------------------------------------------------------------------- */

typedef struct DriverWord {
    NodeDriver driver;
    const char *text; /* a sentence; NULL where it is FINE */
} DriverWord;

enum { PROBES_SURE = 2 }; /* one that is refused may have come at a bad moment */

/* What samplers report, and otherwise what new clients of the driver get; in the light of what the host shows. */
static DriverWord find_driver_word(const DetectTick *tick)
{
    const Node *node = tick->node;
    DriverWord word = {NODE_DRIVER_FINE, NULL};

    if (node->driver != NODE_DRIVER_FINE)
        word = (DriverWord){node->driver, node->driver_why};
    else if (node->probe.driver != NODE_DRIVER_FINE && node->probe.count >= PROBES_SURE)
        word = (DriverWord){node->probe.driver, node->probe.why};
    if (word.driver == NODE_DRIVER_FINE || word.driver == NODE_DRIVER_HANGS || word.driver == NODE_DRIVER_MISMATCH)
        return word;
    if (tick->facts->proc_known && !tick->facts->module_loaded)
        word.driver = NODE_DRIVER_UNLOADED;
    else if (tick->facts->device_denied && word.driver != NODE_DRIVER_UNLOADED)
        word.driver = NODE_DRIVER_DENIED;
    return word;
}

/* --- driver-hang -------------------------------------------------------------------------------------------------- */

static DetectOutcome check_driver_hang(const DetectCase *c)
{
    const DriverWord word = find_driver_word(c->tick);

    if (c->tick->released)
        return DETECT_NO_DATA;
    return word.driver == NODE_DRIVER_HANGS ? detect_hold(c, "%s", word.text) : DETECT_FINE;
}

static DetectOutcome check_gpu_hang(const DetectCase *c)
{
    if (c->gpu->state == GPU_HUNG)
        return detect_hold(c, "%s", c->gpu->why[0] ? c->gpu->why : gpu_states[GPU_HUNG].text);
    /* one that starts is being tried again */
    return c->gpu->state == GPU_STARTING || c->gpu->state == GPU_RELEASED ? DETECT_NO_DATA : DETECT_FINE;
}

const DetectImpl detect_driver_hang = {.of_node = check_driver_hang, .of_gpu = check_gpu_hang, .alone = true};

/* --- driver-slow -------------------------------------------------------------------------------------------------- */

/* A call that comes back too late makes a GPU look hung for a moment, again and again. */
#define HUNG_BRIEFLY_NS (10 * NS_PER_S)

typedef struct SlowMemory {
    Trail slow;      /* 1 while passes are slow */
    uint64_t missed; /* calls that came too late, up to the tick before */
} SlowMemory;

/* Whether the driver's pace can be measured now; a GPU that hangs for longer is another detector's. */
static bool has_pace(const DetectCase *c)
{
    if (c->gpu->state == GPU_HUNG)
        return detect_age(c, c->gpu->state_since_ns) < HUNG_BRIEFLY_NS;
    return c->gpu->state == GPU_UP && c->gpu->last_sample_ns != 0 &&
           detect_age(c, c->gpu->last_sample_ns) <= NS_PER_MIN;
}

static DetectOutcome check_pace(const DetectCase *c)
{
    SlowMemory *memory = c->memory;
    const uint64_t window_ns = detect_time(c, DRIVER_SLOW_WINDOW);
    const NodeGpu *gpu = c->gpu;
    const bool missed = gpu->missed_calls > memory->missed;
    char pass[DURATION_TEXT_MAX];
    double share;

    memory->missed = gpu->missed_calls;
    if (!has_pace(c))
        return DETECT_NO_DATA;
    const bool slow = gpu->state == GPU_HUNG || missed || gpu->pass_ns >= detect_time(c, DRIVER_SLOW_SECONDS);
    trail_gauge(&memory->slow, c->tick->now_ns, slow, window_ns);
    if (!trail_rate(&memory->slow, window_ns, 0.5, &share))
        return DETECT_NO_DATA;
    if (share < detect_param(c, DRIVER_SLOW_SHARE))
        return DETECT_FINE;
    return detect_hold(
        c, "reading it took %s at last, and was slow for %.0f %% of the time; %" PRIu64 " calls came too late",
        detect_span_text(gpu->pass_ns, pass), share * 100, gpu->missed_calls);
}

const DetectImpl detect_driver_slow = {.size = sizeof(SlowMemory), .of_gpu = check_pace};

/* --- driver-state ------------------------------------------------------------------------------------------------- */

/* The memory: whether /proc/driver/nvidia was ever there; some systems never have it. */
static DetectOutcome check_driver_state(const DetectCase *c)
{
    bool *was_loaded = c->memory;
    const bool unloaded = detect_choice(c, DRIVER_STATE_STATE) == 0;
    const DriverWord word = find_driver_word(c->tick);
    const Facts *facts = c->tick->facts;
    const Node *node = c->tick->node;

    *was_loaded |= facts->module_loaded;
    if (c->tick->released || (node->driver != NODE_DRIVER_FINE && node->gpus_on_bus + node->gpus_expected == 0))
        return DETECT_NO_DATA;
    if (word.driver == (unloaded ? NODE_DRIVER_UNLOADED : NODE_DRIVER_REFUSES))
        return detect_hold(c, "%.150s; %" PRIu32 " GPUs on the PCI bus", word.text, node->gpus_on_bus);
    /* It went away, whatever a sampler that has it open still says. */
    if (unloaded && *was_loaded && facts->proc_known && !facts->module_loaded && node->gpus_on_bus > 0)
        return detect_hold(c, "the kernel module is no longer loaded; %" PRIu32 " GPUs on the PCI bus",
                           node->gpus_on_bus);
    return DETECT_FINE;
}

const DetectImpl detect_driver_state = {.size = sizeof(bool), .of_node = check_driver_state};

/* --- driver-mismatch ---------------------------------------------------------------------------------------------- */

/* Whether the driver that the samplers speak to is another one than the module that is loaded. */
static bool has_two_versions(const DetectTick *tick)
{
    const char *module = tick->facts->module_version, *used = "";

    for (size_t i = 0; i < tick->count; i++)
        if (tick->gpus[i].up_ns && tick->gpus[i].gpu->reading.text[READING_DRIVER_VERSION][0])
            used = tick->gpus[i].gpu->reading.text[READING_DRIVER_VERSION];
    return tick->facts->module_loaded && module[0] && used[0] && strcmp(module, used) != 0;
}

/* The memory: since when there are two versions. They must be seen for half a minute: which is read first after a
 * reload is chance. */
static DetectOutcome check_mismatch(const DetectCase *c)
{
    uint64_t *since_ns = c->memory;
    const char *module = c->tick->facts->module_version;
    const DriverWord word = find_driver_word(c->tick);
    const uint64_t lasts_ns = detect_lasts(c, has_two_versions(c->tick), since_ns);

    if (c->tick->released)
        return DETECT_NO_DATA;
    if (word.driver == NODE_DRIVER_MISMATCH)
        return detect_hold(c, "%.150s%s%.30s", word.text, module[0] ? "; the loaded module is " : "", module);
    if (lasts_ns >= 30 * NS_PER_S)
        return detect_hold(c, "the kernel module is %.30s, but the driver in use is %.30s", module,
                           c->tick->node->driver_version);
    return *since_ns && c->finding->holds ? DETECT_NO_DATA : DETECT_FINE;
}

const DetectImpl detect_driver_mismatch = {.size = sizeof(uint64_t), .of_node = check_mismatch};

/* --- driver-reload ------------------------------------------------------------------------------------------------ */

typedef struct ReloadMemory {
    bool known, loaded;
    uint64_t scan_ns;
    char version[READING_TEXT_CAP]; /* of the last that was loaded */
} ReloadMemory;

static DetectOutcome check_reload(const DetectCase *c)
{
    ReloadMemory *memory = c->memory;
    const Facts *facts = c->tick->facts;

    if (!c->tick->facts_known || !facts->proc_known)
        return DETECT_SAME;
    /* nobody can take the module from under a sampler */
    const bool other = memory->version[0] && strcmp(memory->version, facts->module_version) != 0 &&
                       !detect_is_any_up(c->tick, memory->scan_ns);
    if (memory->known && facts->module_loaded && (!memory->loaded || other)) {
        detect_hold(c, "the driver was loaded: version %.30s%s%.30s", facts->module_version,
                    other ? ", before it was " : "", other ? memory->version : "");
        detect_report_moment(c, NULL, -1);
    }
    memory->known = true;
    memory->scan_ns = facts->time_ns;
    memory->loaded = facts->module_loaded;
    if (facts->module_loaded)
        memcpy(memory->version, facts->module_version, sizeof memory->version);
    return DETECT_SAME;
}

const DetectImpl detect_driver_reload = {.size = sizeof(ReloadMemory), .of_node = check_reload};

/* --- stuck-task --------------------------------------------------------------------------------------------------- */

/* A hung GPU is evidence of its own, and such tasks come with it. */
static bool is_any_hung(const DetectTick *tick)
{
    for (size_t i = 0; i < tick->count; i++)
        if (tick->gpus[i].gpu->state == GPU_HUNG)
            return true;
    return false;
}

static DetectOutcome check_stuck_tasks(const DetectCase *c)
{
    const Facts *facts = c->tick->facts;
    const FactsTask *oldest = NULL;
    char span[DURATION_TEXT_MAX], others[48] = "";
    size_t ours = 0;

    if (!c->tick->facts_known || !facts->proc_known)
        return DETECT_NO_DATA;
    for (size_t i = 0; i < facts->stuck_len && i < FACTS_STUCK_MAX; i++) {
        const FactsTask *task = &facts->stuck[i];

        ours += task->ours;
        if (!task->ours && (!oldest || task->since_ns < oldest->since_ns))
            oldest = task;
    }
    if (!oldest || detect_age(c, oldest->since_ns) < detect_time(c, STUCK_TASK_SECONDS) || is_any_hung(c->tick))
        return DETECT_FINE;
    if (facts->stuck_count > ours + 1)
        snprintf(others, sizeof others, "; so do %zu more", facts->stuck_count - ours - 1);
    return detect_hold(c, "%.31s (pid %d) has slept in the driver for %s and cannot be woken%s%.63s%s", oldest->name,
                       (int)oldest->pid, detect_span_text(detect_age(c, oldest->since_ns), span),
                       oldest->wchan[0] ? ", in " : "", oldest->wchan, others);
}

const DetectImpl detect_stuck_task = {.of_node = check_stuck_tasks};

/* --- access-denied ------------------------------------------------------------------------------------------------ */

/* The memory: whether a GPU was ever up. Access that was never there was not lost. */
static DetectOutcome check_access(const DetectCase *c)
{
    bool *was_up = c->memory;
    const DriverWord word = find_driver_word(c->tick);
    const Node *node = c->tick->node;

    for (size_t i = 0; i < c->tick->count; i++)
        *was_up |= c->tick->gpus[i].gpu->state == GPU_UP;
    if (c->tick->facts->device_denied && node->driver != NODE_DRIVER_FINE)
        return detect_hold(c, "/dev/nvidiactl may not be opened (EPERM): %.150s", node->driver_why);
    if (c->tick->facts->device_denied)
        return detect_hold(c, "/dev/nvidiactl may not be opened any more (EPERM); what is open still works");
    if (*was_up && word.driver == NODE_DRIVER_DENIED)
        return detect_hold(c, "%.150s; it could before", word.text);
    return c->tick->facts_known || word.driver == NODE_DRIVER_FINE ? DETECT_FINE : DETECT_NO_DATA;
}

const DetectImpl detect_access_denied = {.size = sizeof(bool), .of_node = check_access};

/* --- persistence -------------------------------------------------------------------------------------------------- */

static DetectOutcome check_persistence(const DetectCase *c)
{
    int64_t on;

    if (!detect_int(c, METRIC_PERSISTENCE_MODE, &on))
        return detect_absent(c, detect_sample(c, METRIC_PERSISTENCE_MODE));
    if (on || c->tick->facts->persistenced)
        return DETECT_FINE;
    return detect_hold(c, "persistence mode is off%s",
                       c->tick->facts->proc_known ? " and nvidia-persistenced does not run" : "");
}

const DetectImpl detect_persistence = {.of_gpu = check_persistence, .metrics = DETECT_METRICS(METRIC_PERSISTENCE_MODE)};

/* --- monitor-data ------------------------------------------------------------------------------------------------- */

enum { STARTING_SLOWER = 4 }; /* a driver that is not kept loaded takes its time for the first call */

/* The age of a GPU's data, in the states in which monitoring itself is to blame; other states are evidence of their
 * own. */
static uint64_t find_data_age(const DetectCase *c, const DetectCase *of)
{
    const NodeGpu *gpu = of->gpu;

    if (gpu->state == GPU_UP)
        return detect_age(c, gpu->last_sample_ns ? gpu->last_sample_ns : of->up_ns);
    return gpu->state == GPU_STARTING ? detect_age(c, gpu->state_since_ns) : 0;
}

static const DetectCase *find_oldest(const DetectCase *c, size_t *ret_count)
{
    const DetectCase *found = NULL;

    *ret_count = 0;
    for (size_t i = 0; i < c->tick->count; i++) {
        const DetectCase *of = &c->tick->gpus[i];
        const uint64_t age_ns = find_data_age(c, of);

        if (age_ns < detect_time(c, MONITOR_DATA_AGE) * (of->gpu->state == GPU_STARTING ? STARTING_SLOWER : 1))
            continue;
        ++*ret_count;
        if (!found || age_ns > find_data_age(c, found) ||
            (age_ns == find_data_age(c, found) &&
             pci_compare(of->gpu->reading.device.pci, found->gpu->reading.device.pci) < 0))
            found = of;
    }
    return found;
}

/* Faults of neither driver nor GPU: no library, no sampler. */
static bool is_own_fault(const DetectTick *tick)
{
    const NodeDriver driver = tick->node->driver;
    const bool own =
        driver == NODE_DRIVER_NO_LIBRARY || driver == NODE_DRIVER_NO_SAMPLER || driver == NODE_DRIVER_DENIED;

    return own && tick->node->gpus_on_bus > 0 && (tick->facts->module_loaded || !tick->facts->proc_known);
}

/* The memory: the last scan of the host. */
static DetectOutcome check_data_age(const DetectCase *c)
{
    uint64_t *scan_ns = c->memory;
    char age[DURATION_TEXT_MAX];
    size_t count;
    const DetectCase *oldest = find_oldest(c, &count);

    if (c->tick->facts_known)
        *scan_ns = c->tick->facts->time_ns;
    if (c->tick->released)
        return DETECT_NO_DATA;
    if (is_own_fault(c->tick))
        return detect_hold(c, "%s", c->tick->node->driver_why);
    if (oldest)
        return detect_hold(c, "nothing new of %zu of %zu GPUs; of GPU %d for %s", count, c->tick->count,
                           (int)oldest->gpu->reading.device.index, detect_span_text(find_data_age(c, oldest), age));
    if (*scan_ns && !c->tick->facts_known) /* older than two minutes */
        return detect_hold(c, "the look at /proc and /sys has not come back for %s",
                           detect_span_text(detect_age(c, *scan_ns), age));
    return DETECT_FINE;
}

const DetectImpl detect_monitor_data = {.size = sizeof(uint64_t), .of_node = check_data_age};

/* --- monitor-log, monitor-self, monitor-journal --------------------------------------------------------------------
 */

static DetectOutcome check_kernel_log(const DetectCase *c)
{
    const Facts *facts = c->tick->facts;
    const char *colon = facts->log_why[0] ? ": " : "";
    char silent[DURATION_TEXT_MAX];

    if (!c->tick->facts_known)
        return DETECT_NO_DATA;
    if (facts->log == FACTS_LOG_DENIED)
        return detect_hold(c, "the kernel log cannot be read%s%.150s", colon, facts->log_why);
    if (facts->log == FACTS_LOG_OFF || facts->log_silent_ns < detect_time(c, MONITOR_LOG_AGE))
        return DETECT_FINE;
    return detect_hold(c, "the kernel log could not be read for %s%s%.150s",
                       detect_span_text(facts->log_silent_ns, silent), colon, facts->log_why);
}

const DetectImpl detect_monitor_log = {.of_node = check_kernel_log};

static DetectOutcome check_samplers(const DetectCase *c)
{
    const Node *node = c->tick->node;
    const NodeSampler *first = NULL;
    size_t count = 0;

    for (size_t i = 0; i < node->sampler_count; i++)
        if (node->samplers[i].state == SAMPLER_ABANDONED) {
            count++;
            if (!first || node->samplers[i].since_ns < first->since_ns)
                first = &node->samplers[i];
        }
    if (!first)
        return DETECT_FINE;
    return detect_hold(c, "sampler %d does not end on SIGKILL: it is in %.40s%s%.24s%s%.60s; %zu so far",
                       (int)first->pid, first->function[0] ? first->function : "a call of the driver",
                       first->gpu[0] ? " on GPU " : "", first->gpu, first->wchan[0] ? ", waiting in " : "",
                       first->wchan, count);
}

const DetectImpl detect_monitor_self = {.of_node = check_samplers};

static DetectOutcome check_journal(const DetectCase *c)
{
    const char *why = c->tick->facts->journal_why;

    return why[0] ? detect_hold(c, "the journal is not written: %.150s", why) : DETECT_FINE;
}

const DetectImpl detect_monitor_journal = {.of_node = check_journal};
