/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: hung, slow, gone, wrong, out of reach. */
#include "engine/health/detect/detect_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct DriverMem {
    DetectVerdict verdict;
    Trail slow;      /* 1 while passes are slow */
    uint64_t missed; /* calls that came too late, up to the tick before */
} DriverMem;

/* ---- why the driver cannot be used ---- */

typedef struct DriverWord {
    NodeDriver driver;
    const char *text; /* a sentence; NULL where it is FINE */
} DriverWord;

enum { PROBES_SURE = 2 }; /* one that is refused may have come at a bad moment */

/* What samplers report, and otherwise what new clients of the driver get. */
static DriverWord was_reported(const Node *node)
{
    if (node->driver != NODE_DRIVER_FINE)
        return (DriverWord){node->driver, node->driver_why};
    if (node->probe.driver != NODE_DRIVER_FINE && node->probe.count >= PROBES_SURE)
        return (DriverWord){node->probe.driver, node->probe.why};
    return (DriverWord){NODE_DRIVER_FINE, NULL};
}

/* The same, in the light of what the host shows. */
static DriverWord word_of(const DetectTurn *turn)
{
    const Facts *facts = turn->facts;
    DriverWord word = was_reported(turn->node);

    if (word.driver == NODE_DRIVER_FINE || word.driver == NODE_DRIVER_HANGS || word.driver == NODE_DRIVER_MISMATCH)
        return word;
    if (facts->proc_known && !facts->module_loaded)
        word.driver = NODE_DRIVER_UNLOADED;
    else if (facts->device_denied && word.driver != NODE_DRIVER_UNLOADED)
        word.driver = NODE_DRIVER_DENIED;
    return word;
}

/* ---- driver-hang ---- */

static void hang_look(DetectWatch *watch, const DetectTurn *turn)
{
    const DriverWord word = word_of(turn);

    if (turn->released)
        detect_silent(turn, &watch->node, NULL);
    else if (word.driver == NODE_DRIVER_HANGS)
        detect_holds(turn, &watch->node, "%s", word.text);
    else
        detect_fine(turn, &watch->node);
}

static void hang_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    DriverMem *mem = detect_memory(watch, seen->slot);

    switch (seen->gpu->state) {
    case GPU_HUNG:
        detect_holds(turn, &mem->verdict, "%s", seen->gpu->why[0] ? seen->gpu->why : gpu_state_text(GPU_HUNG));
        break;
    case GPU_STARTING: /* being tried again */
    case GPU_RELEASED:
        detect_silent(turn, &mem->verdict, seen);
        break;
    default:
        detect_fine(turn, &mem->verdict);
    }
}

const DetectImpl detect_driver_hang = {.size = sizeof(DriverMem), .look = hang_look, .each = hang_each, .alone = true};

/* ---- driver-slow ---- */

/* A call that comes back too late makes a GPU look hung for a moment, again and again. */
#define HUNG_BRIEFLY_NS (10 * NS_PER_S)

/* Whether the driver's pace can be measured now; a GPU that hangs for longer is another detector's. */
static bool has_pace(const DetectTurn *turn, const NodeGpu *gpu)
{
    if (gpu->state == GPU_HUNG)
        return detect_since(turn->now_ns, gpu->state_since_ns) < HUNG_BRIEFLY_NS;
    return gpu->state == GPU_UP && gpu->last_sample_ns != 0 &&
           detect_since(turn->now_ns, gpu->last_sample_ns) <= NS_PER_MIN;
}

static void slow_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    DriverMem *mem = detect_memory(watch, seen->slot);
    const uint64_t window_ns = detect_time(watch, DRIVER_SLOW_WINDOW);
    const NodeGpu *gpu = seen->gpu;
    char pass[DURATION_TEXT_MAX];
    double share;

    const bool missed = gpu->missed_calls > mem->missed;
    mem->missed = gpu->missed_calls;
    if (!has_pace(turn, gpu)) {
        detect_silent(turn, &mem->verdict, seen);
        return;
    }
    const bool slow = gpu->state == GPU_HUNG || missed || gpu->pass_ns >= detect_time(watch, DRIVER_SLOW_SECONDS);
    trail_gauge(&mem->slow, turn->now_ns, slow, window_ns);
    if (!trail_rate(&mem->slow, window_ns, 0.5, &share))
        detect_silent(turn, &mem->verdict, seen);
    else if (share >= detect_param(watch, DRIVER_SLOW_SHARE))
        detect_holds(turn, &mem->verdict,
                     "reading it took %s at last, and was slow for %.0f %% of the time; %" PRIu64
                     " calls came too late",
                     detect_span_text(gpu->pass_ns, pass), share * 100, gpu->missed_calls);
    else
        detect_fine(turn, &mem->verdict);
}

const DetectImpl detect_driver_slow = {.size = sizeof(DriverMem), .each = slow_each};

/* ---- driver-state, driver-mismatch ---- */

typedef struct StateMem {
    bool was_loaded; /* /proc/driver/nvidia was there: some systems never have it */
} StateMem;

/* Whether the module went away, whatever a sampler that has it open still says. */
static bool went_away(const DetectTurn *turn, StateMem *mem)
{
    mem->was_loaded |= turn->facts->module_loaded;
    return mem->was_loaded && turn->facts->proc_known && !turn->facts->module_loaded;
}

static void state_look(DetectWatch *watch, const DetectTurn *turn)
{
    StateMem *mem = detect_memory(watch, DETECT_NODE);
    const bool unloaded = (int)detect_param(watch, DRIVER_STATE_STATE) == 0;
    const DriverWord word = word_of(turn);
    const Node *node = turn->node;
    const bool away = went_away(turn, mem) && unloaded && node->gpus_on_bus > 0;

    if (turn->released || (node->driver != NODE_DRIVER_FINE && node->gpus_on_bus + node->gpus_expected == 0))
        detect_silent(turn, &watch->node, NULL);
    else if (word.driver == (unloaded ? NODE_DRIVER_UNLOADED : NODE_DRIVER_REFUSES))
        detect_holds(turn, &watch->node, "%.150s; %" PRIu32 " GPUs on the PCI bus", word.text, node->gpus_on_bus);
    else if (away)
        detect_holds(turn, &watch->node, "the kernel module is no longer loaded; %" PRIu32 " GPUs on the PCI bus",
                     node->gpus_on_bus);
    else
        detect_fine(turn, &watch->node);
}

const DetectImpl detect_driver_state = {.size = sizeof(StateMem), .look = state_look};

typedef struct MismatchMem {
    uint64_t since_ns; /* since when two versions are seen; 0: one */
} MismatchMem;

/* The driver that the samplers speak to is not the module that is loaded. For half a minute: who reads which first
 * after a reload is chance. */
static bool is_different(const DetectTurn *turn, MismatchMem *mem)
{
    const char *module = turn->facts->module_version, *spoken = "";

    for (size_t i = 0; i < turn->count; i++)
        if (turn->at[i].up_ns && turn->at[i].gpu->reading.text[READING_DRIVER_VERSION][0])
            spoken = turn->at[i].gpu->reading.text[READING_DRIVER_VERSION];
    if (!turn->facts->module_loaded || !module[0] || !spoken[0] || strcmp(module, spoken) == 0)
        mem->since_ns = 0;
    else if (mem->since_ns == 0)
        mem->since_ns = turn->now_ns;
    return mem->since_ns && detect_since(turn->now_ns, mem->since_ns) >= 30 * NS_PER_S;
}

static void mismatch_look(DetectWatch *watch, const DetectTurn *turn)
{
    MismatchMem *mem = detect_memory(watch, DETECT_NODE);
    const char *module = turn->facts->module_version;
    const DriverWord word = word_of(turn);
    const bool two = is_different(turn, mem);

    if (turn->released)
        detect_silent(turn, &watch->node, NULL);
    else if (word.driver == NODE_DRIVER_MISMATCH)
        detect_holds(turn, &watch->node, "%.150s%s%.30s", word.text, module[0] ? "; the loaded module is " : "",
                     module);
    else if (two)
        detect_holds(turn, &watch->node, "the kernel module is %.30s, but the driver in use is %.30s", module,
                     turn->node->driver_version);
    else if (mem->since_ns && watch->node.holds)
        detect_silent(turn, &watch->node, NULL);
    else
        detect_fine(turn, &watch->node);
}

const DetectImpl detect_driver_mismatch = {.size = sizeof(MismatchMem), .look = mismatch_look};

/* ---- driver-reload ---- */

typedef struct ReloadMem {
    bool known, loaded;
    uint64_t looked_ns;
    char version[READING_TEXT_CAP]; /* of the last that was loaded */
} ReloadMem;

/* Nobody can take the module from under a sampler. */
static bool any_up_since(const DetectTurn *turn, uint64_t then_ns)
{
    for (size_t i = 0; i < turn->count; i++)
        if (turn->at[i].up_ns && turn->at[i].up_ns <= then_ns)
            return true;
    return false;
}

static void reload_look(DetectWatch *watch, const DetectTurn *turn)
{
    ReloadMem *mem = detect_memory(watch, DETECT_NODE);
    const Facts *facts = turn->facts;
    DetectVerdict moment = {0};

    if (!turn->facts_known || !facts->proc_known)
        return;
    const bool other =
        mem->version[0] && strcmp(mem->version, facts->module_version) != 0 && !any_up_since(turn, mem->looked_ns);
    if (mem->known && facts->module_loaded && (!mem->loaded || other)) {
        detect_holds(turn, &moment, "the driver was loaded: version %.30s%s%.30s", facts->module_version,
                     other ? ", before it was " : "", other ? mem->version : "");
        detect_give_event(turn, watch, &moment, NULL, -1);
    }
    mem->known = true;
    mem->looked_ns = facts->time_ns;
    mem->loaded = facts->module_loaded;
    if (facts->module_loaded)
        memcpy(mem->version, facts->module_version, sizeof mem->version);
}

const DetectImpl detect_driver_reload = {.size = sizeof(ReloadMem), .look = reload_look};

/* ---- stuck-task ---- */

/* A hung GPU has a sign of its own, and such tasks come with it. */
static bool any_hung(const DetectTurn *turn)
{
    for (size_t i = 0; i < turn->count; i++)
        if (turn->at[i].gpu->state == GPU_HUNG)
            return true;
    return false;
}

static void stuck_look(DetectWatch *watch, const DetectTurn *turn)
{
    const Facts *facts = turn->facts;
    const FactsTask *oldest = NULL;
    uint64_t age_ns;
    char span[DURATION_TEXT_MAX];
    size_t ours = 0;

    if (!turn->facts_known || !facts->proc_known) {
        detect_silent(turn, &watch->node, NULL);
        return;
    }
    for (size_t i = 0; i < facts->stuck_len && i < FACTS_STUCK_MAX; i++) {
        const FactsTask *task = &facts->stuck[i];

        ours += task->ours;
        if (!task->ours && (!oldest || task->since_ns < oldest->since_ns))
            oldest = task;
    }
    age_ns = oldest ? detect_since(turn->now_ns, oldest->since_ns) : 0;
    if (!oldest || age_ns < detect_time(watch, STUCK_TASK_SECONDS) || any_hung(turn)) {
        detect_fine(turn, &watch->node);
        return;
    }
    const size_t more = facts->stuck_count > ours + 1 ? facts->stuck_count - ours - 1 : 0;
    char others[48] = "";
    if (more)
        snprintf(others, sizeof others, "; so do %zu more", more);
    detect_holds(turn, &watch->node, "%.31s (pid %d) has slept in the driver for %s and cannot be woken%s%.63s%s",
                 oldest->name, (int)oldest->pid, detect_span_text(age_ns, span), oldest->wchan[0] ? ", in " : "",
                 oldest->wchan, others);
}

const DetectImpl detect_stuck_task = {.look = stuck_look};

/* ---- access-denied ---- */

typedef struct AccessMem {
    bool was_up; /* access that was never there was not lost */
} AccessMem;

static void access_look(DetectWatch *watch, const DetectTurn *turn)
{
    AccessMem *mem = detect_memory(watch, DETECT_NODE);
    const DriverWord word = word_of(turn);
    const bool denied = turn->facts->device_denied;

    for (size_t i = 0; i < turn->count; i++)
        mem->was_up |= turn->at[i].gpu->state == GPU_UP;
    if (denied && turn->node->driver != NODE_DRIVER_FINE)
        detect_holds(turn, &watch->node, "/dev/nvidiactl may not be opened (EPERM): %.150s", turn->node->driver_why);
    else if (denied)
        detect_holds(turn, &watch->node, "/dev/nvidiactl may not be opened any more (EPERM); what is open still works");
    else if (mem->was_up && word.driver == NODE_DRIVER_DENIED)
        detect_holds(turn, &watch->node, "%.150s; it could before", word.text);
    else if (turn->facts_known || word.driver == NODE_DRIVER_FINE)
        detect_fine(turn, &watch->node);
    else
        detect_silent(turn, &watch->node, NULL);
}

const DetectImpl detect_access_denied = {.size = sizeof(AccessMem), .look = access_look};

/* ---- persistence ---- */

static void persistence_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    DriverMem *mem = detect_memory(watch, seen->slot);
    int64_t on;

    if (!detect_int(turn, seen, METRIC_PERSISTENCE_MODE, &on))
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_PERSISTENCE_MODE));
    else if (on || turn->facts->persistenced)
        detect_fine(turn, &mem->verdict);
    else
        detect_holds(turn, &mem->verdict, "persistence mode is off%s",
                     turn->facts->proc_known ? " and nvidia-persistenced does not run" : "");
}

const DetectImpl detect_persistence = {
    .size = sizeof(DriverMem),
    .each = persistence_each,
    .metrics = (const MetricId[]){METRIC_PERSISTENCE_MODE, METRIC_END},
};
