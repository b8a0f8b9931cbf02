/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger puts rows that grow; by how much a row grew in a tick is whose the tick's time was. */
#include "test/scenario/truths/whose.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/file.h"
#include "engine/ledger/ledger.h"

/* After a change: /proc and the driver's lists are read each second or two, and a tick is of who is there at its end.
 */
#define LATE_NS (4 * NS_PER_S)
#define SAMPLED_OFF 0.05 /* of a share by the driver's samples, which are whole percents of windows */

enum { COMPLAINTS_MAX = 12, OWNERS_CAP = 64 };

/* What a row was at the last tick, and how it grew in this one. */
typedef struct Row {
    LedgerRow row;
    uint64_t ns, grown_ns; /* of its three kinds of time */
} Row;

/* One GPU or MIG device in this tick. */
typedef struct Spot {
    uint32_t gpu;
    int32_t mig; /* SIM_NONE: the whole GPU, or what its MIG devices leave */
    char key[DEVICE_KEY_CAP];
} Spot;

struct Whose {
    const Scenario *scenario;
    const SimImage *image;
    Ledger *ledger;
    VEC(Row) rows;
    AllocationTable pods;
    JobAllocation jobs[OWNERS_CAP];
    uint64_t got_ns[OWNERS_CAP], want_ns[OWNERS_CAP]; /* by position in the scenario's owners */
    uint64_t last_ns;
    int wrong;
};

/* --- what is declared --- */

/* "<namespace>_<name>_<UID>" of the work that runs in the pod; NULL where none does. */
static const SimWork *find_pod_work(const Whose *w, const ScenarioOwner *given, const char *container)
{
    const size_t len = strlen(given->namespace), name_len = strlen(given->pod);

    for (uint32_t i = 0; i < w->image->work_count; i++) {
        const SimWork *work = &w->image->works[i];
        const char *pod = work->owner.pod;

        if (strncmp(pod, given->namespace, len) == 0 && pod[len] == '_' &&
            strncmp(pod + len + 1, given->pod, name_len) == 0 && pod[len + 1 + name_len] == '_' &&
            (!container || strcmp(container, work->entry) == 0))
            return work;
    }
    return NULL;
}

/* As the kubelet does: <pod>_<namespace>_<container>-<id>.log. The container is the work of its name. */
static void link_log(const Whose *w, const ScenarioOwner *given, const char *root)
{
    const SimWork *work = given->container ? find_pod_work(w, given, given->container) : NULL;
    const char *id = work ? strrchr(work->owner.cgroup, '-') : NULL;
    char path[1024];

    if (!id)
        return;
    snprintf(path, sizeof path, "%s/var/log/containers/%s_%s_%s-%.64s.log", root, given->pod, given->namespace,
             given->container, id + 1);
    if (symlink("/var/log/pods", path) < 0)
        perror(path);
}

Whose *whose_new(const Scenario *scenario, const SimImage *image, const char *root)
{
    static const LedgerRows none;
    char path[1024];
    Whose *w;

    if (scenario->owner_count == 0)
        return NULL;
    if (scenario->owner_count > OWNERS_CAP || scenario->given_count > OWNERS_CAP)
        abort();
    w = xcalloc(1, sizeof *w);
    w->scenario = scenario;
    w->image = image;
    w->ledger = ledger_new(&none, "b0c1d2e3-0000-4000-8000-000000000000", 1);
    allocation_table_init(&w->pods);
    snprintf(path, sizeof path, "%s/var/log/containers", root);
    (void)file_make_dirs(path, 0755, &(Err){0});
    for (size_t i = 0; i < scenario->given_count; i++)
        link_log(w, &scenario->given[i], root);
    return w;
}

static bool is_at(const ScenarioOwner *owner, uint64_t t_ns)
{
    return owner->from_ns < t_ns && t_ns <= owner->until_ns;
}

static void declare_pod(Whose *w, const ScenarioOwner *given, const Reading *reading)
{
    const SimWork *work = find_pod_work(w, given, NULL);
    const char *uid = work ? strrchr(work->owner.pod, '_') + 1 : "";
    Allocation row = {.pod = given->pod,
                      .namespace = given->namespace,
                      .container = given->container ? given->container : "main",
                      .pod_uid = uid,
                      .owner_kind = "",
                      .owner_name = ""};

    row.device.minor = row.device.gpu_instance = row.device.compute_instance = DEVICE_NO_NUMBER;
    snprintf(row.device.uuid, sizeof row.device.uuid, "%s", reading->device.uuid);
    allocation_table_add(&w->pods, &row);
}

void whose_declare(Whose *w, const Node *node, uint64_t t_ns, Snapshot *ret)
{
    size_t jobs = 0;

    allocation_table_clear(&w->pods);
    for (size_t i = 0; i < w->scenario->given_count; i++) {
        const ScenarioOwner *given = &w->scenario->given[i];
        const NodeGpu *gpu = given->gpu < node->gpu_count ? &node->gpus[given->gpu] : NULL;
        const bool instance = given->mig != SIM_NONE;

        ret->pods_told |= given->pod != NULL;
        ret->jobs_told |= given->job != NULL;
        if (!gpu || !is_at(given, t_ns) || (instance && (size_t)given->mig >= gpu->instance_count))
            continue;
        const Reading *reading = instance ? &gpu->instances[given->mig] : &gpu->reading;
        if (given->pod)
            declare_pod(w, given, reading);
        else
            w->jobs[jobs++] =
                (JobAllocation){.gpu = given->gpu,
                                .gpu_instance = instance ? reading->device.gpu_instance : DEVICE_NO_NUMBER,
                                .job = given->job};
    }
    ret->allocations = &w->pods;
    ret->jobs = w->jobs;
    ret->job_count = jobs;
}

/* --- whose a second was --- */

static bool is_same_text(const char *wanted, const char *text)
{
    return strcmp(wanted ? wanted : "", text) == 0;
}

/* The container counts where the truth names it: that of a runtime alone is an id. */
static bool is_owner(const ScenarioOwner *wanted, const LedgerRow *row)
{
    return row->held && is_same_text(wanted->user, row->owner.user) && is_same_text(wanted->job, row->owner.job) &&
           is_same_text(wanted->pod, row->owner.pod) && is_same_text(wanted->namespace, row->owner.namespace) &&
           (!wanted->container || is_same_text(wanted->container, row->owner.container)) &&
           strcmp(truth_how_name(wanted->how), attributions[row->share_kind].key) == 0;
}

static bool is_of(const ScenarioOwner *owner, const Spot *spot)
{
    return owner->gpu == spot->gpu && owner->mig == spot->mig;
}

/* Whether the truth about the device changed less than LATE_NS before the end of this second. */
static bool has_changed(const Whose *w, const Spot *spot, uint64_t t_ns)
{
    bool changed = t_ns <= LATE_NS;

    for (size_t i = 0; i < w->scenario->owner_count; i++) {
        const ScenarioOwner *owner = &w->scenario->owners[i];

        changed |= is_of(owner, spot) && ((owner->from_ns < t_ns && t_ns - owner->from_ns <= LATE_NS) ||
                                          (owner->until_ns < t_ns && t_ns - owner->until_ns <= LATE_NS));
    }
    return changed;
}

static void complain(Whose *w, const Spot *spot, uint64_t t_ns, const Row *row, const char *what)
{
    CLEANUP(str_done) Str text;

    str_init(&text, 4096);
    if (row) {
        owner_add_text(&row->row.owner, &text);
        str_addf(&text, ", %s, %llu ms", attributions[row->row.share_kind].key,
                 (unsigned long long)(row->grown_ns / NS_PER_MS));
    }
    if (w->wrong++ < COMPLAINTS_MAX)
        printf("  GPU %u, MIG device %d, second %llu: %s%s%s\n", spot->gpu, spot->mig,
               (unsigned long long)(t_ns / NS_PER_S), what, row ? ": " : "", text.text);
}

/* The position of the truth that the row answers; SIZE_MAX: none. */
static size_t find_truth(const Whose *w, const Spot *spot, const LedgerRow *row, uint64_t t_ns)
{
    for (size_t i = 0; i < w->scenario->owner_count; i++) {
        const ScenarioOwner *owner = &w->scenario->owners[i];

        if (is_of(owner, spot) && is_at(owner, t_ns) && is_owner(owner, row))
            return i;
    }
    return SIZE_MAX;
}

static void check_row(Whose *w, const Spot *spot, const Row *row, uint64_t t_ns, bool any_owner)
{
    const size_t truth = find_truth(w, spot, &row->row, t_ns);

    if (row->row.amounts[LEDGER_UNHEALTHY_NS] || row->row.amounts[LEDGER_GAPS_NS])
        complain(w, spot, t_ns, row, "not known, or unhealthy");
    else if (!row->row.held && any_owner)
        complain(w, spot, t_ns, NULL, "nobody's");
    else if (row->row.held && truth == SIZE_MAX)
        complain(w, spot, t_ns, row, "not planted");
    else if (truth != SIZE_MAX)
        w->got_ns[truth] += row->grown_ns;
}

/* One device: each row that grew is of a planted owner, and their times add up to the shares (whose_end). */
static void check_spot(Whose *w, const Spot *spot, uint64_t t_ns)
{
    const bool changed = has_changed(w, spot, t_ns);
    uint64_t sum_ns = 0;
    bool any_owner = false;

    for (size_t i = 0; i < w->scenario->owner_count; i++)
        any_owner |= is_of(&w->scenario->owners[i], spot) && is_at(&w->scenario->owners[i], t_ns);
    for (size_t i = 0; i < w->rows.len; i++) {
        const Row *row = &w->rows.at[i];

        if (row->grown_ns == 0 || strcmp(row->row.device, spot->key) != 0)
            continue;
        sum_ns += row->grown_ns;
        if (!changed)
            check_row(w, spot, row, t_ns, any_owner);
    }
    for (size_t i = 0; i < w->scenario->owner_count && !changed; i++)
        if (is_of(&w->scenario->owners[i], spot) && is_at(&w->scenario->owners[i], t_ns))
            w->want_ns[i] += (uint64_t)llround(w->scenario->owners[i].share * (double)sum_ns);
}

/* The law: what the rows of the GPU grew by is the time that passed. */
static void check_gpu(Whose *w, const NodeGpu *gpu, uint32_t index, uint64_t dt_ns, uint64_t t_ns)
{
    Spot spot = {.gpu = index, .mig = SIM_NONE};
    uint64_t sum_ns = 0;

    (void)device_key(&gpu->reading.device, spot.key);
    for (size_t i = 0; i < w->rows.len; i++)
        if (strncmp(w->rows.at[i].row.device, spot.key, strlen(spot.key)) == 0)
            sum_ns += w->rows.at[i].grown_ns;
    if (dt_ns && sum_ns != dt_ns && t_ns > LATE_NS)
        complain(w, &spot, t_ns, NULL, "its rows do not add up to the time that passed");
    check_spot(w, &spot, t_ns);
    for (size_t i = 0; i < gpu->instance_count; i++) {
        spot.mig = (int32_t)i;
        (void)device_key(&gpu->instances[i].device, spot.key);
        check_spot(w, &spot, t_ns);
    }
}

static bool keep_row(void *self, const LedgerRow *row)
{
    Whose *w = self;
    const uint64_t ns =
        row->amounts[LEDGER_ALLOC_NS] + row->amounts[LEDGER_UNHEALTHY_NS] + row->amounts[LEDGER_GAPS_NS];

    for (size_t i = 0; i < w->rows.len; i++)
        if (w->rows.at[i].row.id == row->id) {
            w->rows.at[i] = (Row){.row = *row, .ns = ns, .grown_ns = ns - w->rows.at[i].ns};
            return true;
        }
    vec_push(&w->rows, ((Row){.row = *row, .ns = ns, .grown_ns = ns}));
    return true;
}

void whose_tick(Whose *w, const Node *node, const Holdings *holdings, uint64_t t_ns)
{
    const uint64_t dt_ns = w->last_ns ? node->time_ns - w->last_ns : 0;
    size_t count;
    const Holding *list = holdings_list(holdings, &count);

    for (size_t i = 0; i < w->rows.len; i++)
        w->rows.at[i].grown_ns = 0;
    ledger_update(w->ledger, node, list, count, keep_row, w);
    w->last_ns = node->time_ns;
    for (size_t i = 0; i < node->gpu_count; i++)
        check_gpu(w, &node->gpus[i], (uint32_t)i, dt_ns, t_ns);
}

int whose_end(const Whose *w)
{
    int wrong = w->wrong;

    for (size_t i = 0; i < w->scenario->owner_count; i++) {
        const ScenarioOwner *owner = &w->scenario->owners[i];
        const double got = (double)w->got_ns[i], want = (double)w->want_ns[i];
        const double off = strcmp(truth_how_name(owner->how), "sampled") == 0 ? SAMPLED_OFF / owner->share : 1e-6;

        if (want > 0 && fabs(got / want - 1) <= off)
            continue;
        printf("  owner %zu, GPU %u, MIG device %d: %.3f s, planted %.3f s\n", i, owner->gpu, owner->mig, got / 1e9,
               want / 1e9);
        wrong++;
    }
    return wrong;
}
