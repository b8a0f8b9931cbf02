/* SPDX-License-Identifier: Apache-2.0 */
#include "service/who/who.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/attribute.h"
#include "base/cleanup.h"
#include "base/human.h"
#include "base/json.h"
#include "base/number.h"
#include "engine/owner/holdings.h"
#include "service/api/api.h"

enum { CELL_CAP = 384, COLUMNS_MAX = 8, ID_DIGITS = 64, ID_SHOWN = 12 };

/* All that one owner holds. */
typedef struct Sum {
    char name[OWNER_NAME_CAP];    /* "" unknown */
    double gpus, instances, idle; /* shares of whole GPUs and of MIG instances; of both, what nothing runs on */
    uint64_t memory_bytes;
    size_t processes;
} Sum;

typedef VEC(Sum) Sums;

int who_query_read(const Snapshot *snapshot, const char *by, const char *gpu, WhoQuery *ret, Err *err)
{
    WhoQuery query = {.by = OWNER_KEY_END};
    const int number = by ? word_find(owner_keys, OWNER_KEY_END, by) : OWNER_KEY_END;

    if (number < 0)
        return err_set(err, -EINVAL, "by '%.40s': user, job, pod, namespace, account or container is allowed", by);
    query.by = (OwnerKey)number;
    const Reading *reading = gpu && snapshot->node ? api_find(snapshot->node, gpu, &query.gpu) : NULL;
    const char *unnamed = gpu && snapshot->node && !reading ? node_unnamed_why(snapshot->node) : NULL;
    if (unnamed)
        return err_set(err, -EIO, "no GPU '%.100s' is known, and the GPUs cannot be read: %s", gpu, unnamed);
    if (gpu && !reading)
        return err_set(err, -ENOENT,
                       "there is no GPU or MIG device '%.100s'; an index, a UUID or a PCI address names one", gpu);
    if (reading && reading != &query.gpu->reading)
        query.instance = reading;
    *ret = query;
    return 0;
}

static bool is_asked_for(const Snapshot *snapshot, const WhoQuery *query, const Holding *holding)
{
    if (query->gpu && &snapshot->node->gpus[holding->gpu] != query->gpu)
        return false;
    return !query->instance || (holding->gpu_instance == query->instance->device.gpu_instance &&
                                holding->compute_instance == query->instance->device.compute_instance);
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

static Sum *find_sum(Sums *sums, const char *name)
{
    Sum *sum;

    for (size_t i = 0; i < sums->len; i++)
        if (strcmp(sums->at[i].name, name) == 0)
            return &sums->at[i];
    sum = vec_add(sums);
    snprintf(sum->name, sizeof sum->name, "%s", name);
    return sum;
}

/* The one who holds most first. */
static int compare_sums(const void *a, const void *b)
{
    const Sum *x = a, *y = b;

    if (x->gpus != y->gpus)
        return x->gpus < y->gpus ? 1 : -1;
    if (x->instances != y->instances)
        return x->instances < y->instances ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void sum_up(const Snapshot *snapshot, const WhoQuery *query, Sums *sums)
{
    for (size_t i = 0; i < snapshot->holding_count; i++) {
        const Holding *holding = &snapshot->holdings[i];
        char name[OWNER_NAME_CAP];
        Sum *sum;

        if (!is_asked_for(snapshot, query, holding))
            continue;
        owner_name(&holding->owner, query->by, name);
        sum = find_sum(sums, name);
        *(holding->gpu_instance == DEVICE_NO_NUMBER ? &sum->gpus : &sum->instances) += holding->share;
        if (holding->state == HOLDING_IDLE_HELD || holding->state == HOLDING_RESERVED)
            sum->idle += holding->share;
        sum->memory_bytes += holding->memory_bytes;
        sum->processes += holding->process_count;
    }
    vec_sort(sums, compare_sums);
}

/* --- words for other screens -------------------------------------------------------------------------------------- */

const Holding *who_list(const Snapshot *snapshot, const NodeGpu *gpu, const Reading *instance, size_t *ret_count)
{
    const WhoQuery query = {.gpu = gpu, .instance = instance};
    size_t first = 0, count = 0;

    for (size_t i = 0; i < snapshot->holding_count; i++) {
        const Holding *holding = &snapshot->holdings[i];

        if (!is_asked_for(snapshot, &query, holding) || (!instance && holding->gpu_instance != DEVICE_NO_NUMBER))
            continue;
        first = count++ == 0 ? i : first;
    }
    *ret_count = count;
    return count ? &snapshot->holdings[first] : NULL;
}

/* One of `count` holdings of a device: "job 4711 of alice"; of several with its share and how that was found:
 * "pod serving/chat-0 75 % (sampled)". "(unmanaged)", "(reserved)" where it is so. */
static void add_holder(const Holding *holding, size_t count, Str *out)
{
    static const char *const notes[HOLDING_STATE_END] = {
        [HOLDING_IDLE_HELD] = "idle", [HOLDING_UNMANAGED] = "unmanaged", [HOLDING_RESERVED] = "reserved"};
    const bool shared = count > 1, idle = holding->state == HOLDING_IDLE_HELD;
    const char *note = idle && !shared ? NULL : notes[holding->state];

    owner_add_text(&holding->owner, out);
    if (shared)
        str_addf(out, " %.0f %% (%s%s%s)", 100 * holding->share, attributions[holding->attribution].key,
                 note ? ", " : "", note ? note : "");
    else if (note)
        str_addf(out, " (%s)", note);
}

void who_add_holders(const Holding *list, size_t count, size_t width, Str *out)
{
    const size_t start = out->len;

    for (size_t i = 0; i < count; i++) {
        str_add(out, i > 0 ? ", " : "");
        add_holder(&list[i], count, out);
    }
    if (count == 0 || out->len - start <= width)
        return;
    str_cut(out, start);
    if (count > 1)
        str_addf(out, "%zu owners", count);
    else
        owner_add_brief(&list[0].owner, out);
}

/* --- a table ------------------------------------------------------------------------------------------------------ */

/* Cells of a table, row by row; the columns are as wide as they need. */
typedef struct Table {
    size_t columns;
    bool right[COLUMNS_MAX];
    VEC(Str) cells;
} Table;

static void add_cell(Table *table, const char *format, ...) PRINTF_LIKE(2, 3);

static void add_cell(Table *table, const char *format, ...)
{
    Str *cell = vec_add(&table->cells);
    va_list args;

    str_init(cell, CELL_CAP);
    va_start(args, format);
    str_addv(cell, format, args);
    va_end(args);
}

static void print_table(Table *table, Str *out)
{
    int widths[COLUMNS_MAX] = {0};

    for (size_t i = 0; i < table->cells.len; i++)
        if ((int)table->cells.at[i].len > widths[i % table->columns])
            widths[i % table->columns] = (int)table->cells.at[i].len;
    for (size_t i = 0; i < table->cells.len; i++) {
        const size_t column = i % table->columns;
        const char *text = table->cells.at[i].len ? table->cells.at[i].text : "";

        str_add(out, column > 0 ? "  " : "");
        if (column + 1 == table->columns && !table->right[column])
            str_addf(out, "%s\n", text);
        else
            str_addf(out, "%*s%s", table->right[column] ? widths[column] : -widths[column], text,
                     column + 1 == table->columns ? "\n" : "");
    }
    for (size_t i = 0; i < table->cells.len; i++)
        str_done(&table->cells.at[i]);
    vec_done(&table->cells);
}

static void add_memory(Table *table, uint64_t bytes)
{
    char text[HUMAN_MAX];

    add_cell(table, "%s", bytes ? human_bytes(text, (double)bytes) : "-");
}

static void name_device(const Device *gpu, const Device *instance, char out[CELL_CAP])
{
    char pci[PCI_TEXT_CAP] = "?", name[CELL_CAP];

    if (gpu->has_pci)
        pci_format(gpu->pci, PCI_FORM_SYSFS, pci);
    if (gpu->index == DEVICE_NO_NUMBER)
        snprintf(name, sizeof name, "%s", pci);
    else
        snprintf(name, sizeof name, "%" PRIu32, gpu->index);
    if (instance)
        snprintf(out, CELL_CAP, "%.64s MIG %" PRIu32 "/%" PRIu32, name, instance->gpu_instance,
                 instance->compute_instance);
    else
        snprintf(out, CELL_CAP, "%s", name);
}

static void add_holding(Table *table, const Snapshot *snapshot, const Holding *holding)
{
    const Owner *owner = &holding->owner;
    const Device instance = {.gpu_instance = holding->gpu_instance, .compute_instance = holding->compute_instance};
    char device[CELL_CAP];
    Str who = str_limited(CELL_CAP);

    name_device(&snapshot->node->gpus[holding->gpu].reading.device,
                holding->gpu_instance == DEVICE_NO_NUMBER ? NULL : &instance, device);
    owner_add_text(owner, &who);
    const JobInfo *job = job_info_find(&snapshot->job_infos, owner->job);
    if (job && job->name[0])
        str_addf(&who, ", %s", job->name);
    if (owner->pod[0] && owner->container[0]) /* its name, or its id */
        str_addf(&who, ", %.*s", strlen(owner->container) < ID_DIGITS ? ID_DIGITS : ID_SHOWN, owner->container);
    if (holding->workload.name[0])
        str_addf(&who, ", of %s%s%s%s", holding->workload.kind, holding->workload.kind[0] ? " " : "",
                 holding->workload.name, holding->workload.derived ? " by its name" : "");
    if (holding->basis == HOLDING_BY_OPEN_FILE)
        str_add(&who, ", has it open");
    add_cell(table, "%s", device);
    add_cell(table, "%s", holding_states[holding->state].key);
    add_cell(table, "%s", activity_words[holding_activity(holding, snapshot->node)].key);
    add_cell(table, "%.0f %%", 100 * holding->share);
    add_cell(table, "%s", attributions[holding->attribution].key);
    add_memory(table, holding->memory_bytes);
    add_cell(table, "%zu", holding->process_count);
    add_cell(table, "%s", who.text);
    str_done(&who);
}

static void add_head(Table *table, const char *const *names)
{
    for (size_t i = 0; i < table->columns; i++)
        add_cell(table, "%s", names[i]);
}

static void print_holdings(const Snapshot *snapshot, const WhoQuery *query, Str *out)
{
    static const char *const names[] = {"GPU", "STATE", "ACTIVITY", "SHARE", "BY", "MEMORY", "PROCESSES", "OWNER"};
    Table table = {.columns = COLUMNS_MAX, .right = {[3] = true, [5] = true, [6] = true}};

    add_head(&table, names);
    for (size_t i = 0; i < snapshot->holding_count; i++)
        if (is_asked_for(snapshot, query, &snapshot->holdings[i]))
            add_holding(&table, snapshot, &snapshot->holdings[i]);
    print_table(&table, out);
}

static void print_sums(const Snapshot *snapshot, const WhoQuery *query, Str *out)
{
    static const char *const heads[] = {"USER", "JOB", "POD", "NAMESPACE", "ACCOUNT", "CONTAINER"};
    const char *const names[] = {"GPUS", "MIG", "IDLE", "MEMORY", "PROCESSES", heads[query->by]};
    Table table = {.columns = 6, .right = {true, true, true, true, true}};
    Sums sums = {0};

    add_head(&table, names);
    sum_up(snapshot, query, &sums);
    for (size_t i = 0; i < sums.len; i++) {
        const Sum *sum = &sums.at[i];

        add_cell(&table, "%.2f", sum->gpus);
        add_cell(&table, "%.2f", sum->instances);
        add_cell(&table, "%.2f", sum->idle);
        add_memory(&table, sum->memory_bytes);
        add_cell(&table, "%zu", sum->processes);
        add_cell(&table, "%s", sum->name[0] ? sum->name : "-");
    }
    print_table(&table, out);
    vec_done(&sums);
}

static bool is_held(const Snapshot *snapshot, size_t gpu, const Reading *instance)
{
    for (size_t i = 0; i < snapshot->holding_count; i++) {
        const Holding *holding = &snapshot->holdings[i];

        if (holding->gpu == gpu && (!instance || (holding->gpu_instance == instance->device.gpu_instance &&
                                                  holding->compute_instance == instance->device.compute_instance)))
            return true;
    }
    return false;
}

/* The devices without a known holder: "Nobody holds GPU 4, 5 (idle held), 6 MIG 9/0", the word where it is not "free".
 * Of a GPU whose processes are not known: "Not known who holds GPU 7 (the driver does not answer for it)". */
static void print_unheld(const Snapshot *snapshot, const WhoQuery *query, bool unread, Str *out)
{
    const Node *node = snapshot->node;
    bool any = false;

    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];
        const char *why = node_unread_why(gpu);

        for (size_t k = 0; (!query->gpu || query->gpu == gpu) && k < (gpu->instance_count ? gpu->instance_count : 1);
             k++) {
            const Reading *instance = gpu->instance_count ? &gpu->instances[k] : NULL;
            const ActivityWord word = node_activity(gpu, instance)->word;
            char name[CELL_CAP];

            if (unread != (why != NULL) || is_held(snapshot, i, instance) ||
                (query->instance && query->instance != instance))
                continue;
            name_device(&gpu->reading.device, instance ? &instance->device : NULL, name);
            str_addf(out, "%s %s", any ? "," : unread ? "Not known who holds GPU" : "Nobody holds GPU", name);
            if (unread || word != ACTIVITY_FREE)
                str_addf(out, " (%s)", unread ? why : activity_words[word].key);
            any = true;
        }
    }
    str_add(out, any ? "\n" : "");
}

bool who_is_known(const Snapshot *snapshot, const WhoQuery *query)
{
    const Node *node = snapshot->node;
    bool any = node->gpu_count == 0 && !node->driver_why[0];

    for (size_t i = 0; i < node->gpu_count && !any; i++)
        any = (!query->gpu || query->gpu == &node->gpus[i]) &&
              (!node_unread_why(&node->gpus[i]) || is_held(snapshot, i, NULL));
    return any;
}

void who_text(const Snapshot *snapshot, const WhoQuery *query, Str *out)
{
    size_t count = 0;

    for (size_t i = 0; i < snapshot->holding_count; i++)
        count += is_asked_for(snapshot, query, &snapshot->holdings[i]);
    if (count > 0)
        (query->by == OWNER_KEY_END ? print_holdings : print_sums)(snapshot, query, out);
    print_unheld(snapshot, query, false, out);
    print_unheld(snapshot, query, true, out);
    if (snapshot->holders_why && snapshot->holders_why[0])
        str_addf(out, "The driver lists no process for a held GPU, and not all other processes could be searched: %s\n",
                 snapshot->holders_why);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void add_sums(const Snapshot *snapshot, const WhoQuery *query, Str *out)
{
    Sums sums = {0};

    sum_up(snapshot, query, &sums);
    json_add_text(out, "by", owner_keys[query->by].key);
    json_open(out, "owners", '[');
    for (size_t i = 0; i < sums.len; i++) {
        const Sum *sum = &sums.at[i];

        json_open(out, NULL, '{');
        json_add_text(out, "owner", sum->name[0] ? sum->name : NULL);
        json_add_double(out, "gpus", sum->gpus);
        json_add_double(out, "instances", sum->instances);
        json_add_double(out, "idle", sum->idle);
        json_add_u64(out, "memory_bytes", sum->memory_bytes);
        json_add_u64(out, "processes", sum->processes);
        json_close(out, '}');
    }
    json_close(out, ']');
    vec_done(&sums);
}

/* GPUs whose processes are not known, held or not. Missing where there is none. */
static void add_unread(const Snapshot *snapshot, const WhoQuery *query, Str *out)
{
    const Node *node = snapshot->node;
    bool any = false;

    for (size_t i = 0; i < node->gpu_count; i++) {
        const Device *device = &node->gpus[i].reading.device;
        const char *why = node_unread_why(&node->gpus[i]);
        char pci[PCI_TEXT_CAP];

        if (!why || (query->gpu && query->gpu != &node->gpus[i]))
            continue;
        if (!any)
            json_open(out, "not_known", '[');
        any = true;
        json_open(out, NULL, '{');
        if (device->index == DEVICE_NO_NUMBER)
            json_add_null(out, "gpu");
        else
            json_add_u64(out, "gpu", device->index);
        json_add_text(out, "uuid", device->uuid[0] ? device->uuid : NULL);
        json_add_text(out, "pci", device->has_pci ? pci_format(device->pci, PCI_FORM_NVML, pci) : NULL);
        json_add_text(out, "reason", why);
        json_close(out, '}');
    }
    if (any)
        json_close(out, ']');
}

void who_json(const Snapshot *snapshot, const WhoQuery *query, Str *out)
{
    json_open(out, NULL, '{');
    json_add_time(out, "time", snapshot->node->real_ns);
    json_add_text(out, "node", snapshot->node->hostname[0] ? snapshot->node->hostname : NULL);
    json_open(out, "allocations", '[');
    for (size_t i = 0; i < snapshot->holding_count; i++)
        if (is_asked_for(snapshot, query, &snapshot->holdings[i]))
            api_holding(snapshot, &snapshot->holdings[i], out);
    json_close(out, ']');
    add_unread(snapshot, query, out);
    if (snapshot->holders_why && snapshot->holders_why[0])
        json_add_text(out, "unlisted_why", snapshot->holders_why);
    json_open(out, "jobs", '[');
    for (size_t i = 0; i < snapshot->job_infos.len; i++)
        api_job(&snapshot->job_infos.at[i], out);
    json_close(out, ']');
    if (query->by != OWNER_KEY_END)
        add_sums(snapshot, query, out);
    str_add(out, "}\n");
}

/* --- the past ----------------------------------------------------------------------------------------------------- */

#define NS_PER_HOUR 3.6e12

void who_past_init(WhoPast *past)
{
    map_init(&past->known);
}

void who_past_done(WhoPast *past)
{
    for (size_t i = 0; i < past->at.len; i++)
        free(past->at.at[i]);
    vec_done(&past->at);
    map_done(&past->known);
}

/* The device, or one on it. */
static bool is_wanted(const WhoPast *past, const char *device)
{
    const size_t len = strlen(past->device);

    return strncmp(device, past->device, len) == 0 && (len == 0 || device[len] == '\0' || device[len] == '/');
}

static WhoHeld *find_held(WhoPast *past, const LedgerRow *row)
{
    const Owner *o = &row->owner;
    char name[OWNER_NAME_CAP] = "";
    CLEANUP(str_done) Str key = str_limited(4096);

    if (past->by != OWNER_KEY_END)
        owner_name(o, past->by, name);
    str_add(&key, name);
    if (past->by == OWNER_KEY_END)
        str_addf(&key, "%s\n%d\n%s\n%s\n%s\n%s\n%s\n%s", row->device, (int)row->share_kind, o->user, o->job, o->account,
                 o->namespace, o->pod, o->container);
    WhoHeld *held = map_get(&past->known, key.text ? key.text : "");
    if (held)
        return held;
    held = xcalloc(1, sizeof *held);
    *held = (WhoHeld){.owner = *o, .attribution = row->share_kind, .from_real_ns = UINT64_MAX};
    memcpy(held->device, row->device, sizeof held->device);
    memcpy(held->name, name, sizeof held->name);
    map_put(&past->known, key.text ? key.text : "", held);
    vec_push(&past->at, held);
    return held;
}

void who_past_add(void *self, const LedgerRow *row)
{
    WhoPast *past = self;
    const double hours = (double)row->amounts[LEDGER_ALLOC_NS] / NS_PER_HOUR;

    if (!is_wanted(past, row->device))
        return;
    if (!row->held) {
        past->unheld_hours += hours;
        return;
    }
    if (hours <= 0)
        return;
    WhoHeld *held = find_held(past, row);
    held->hours += hours;
    held->idle_hours += (double)row->amounts[LEDGER_IDLE_NS] / NS_PER_HOUR;
    held->from_real_ns = number_min_u64(held->from_real_ns, row->from_real_ns);
    held->until_real_ns = number_max_u64(held->until_real_ns, row->until_real_ns);
}

static int compare_held(const void *a, const void *b)
{
    const WhoHeld *x = *(WhoHeld *const *)a, *y = *(WhoHeld *const *)b;
    const int device = strcmp(x->device, y->device);

    if (device != 0)
        return device;
    return x->hours != y->hours ? (x->hours < y->hours ? 1 : -1) : strcmp(x->name, y->name);
}

void who_past_finish(WhoPast *past)
{
    for (size_t i = 0; past->by != OWNER_KEY_END && i < past->at.len; i++)
        past->at.at[i]->device[0] = '\0'; /* of several */
    vec_sort(&past->at, compare_held);
}

/* "GPU-..", "GPU-../gi/7/ci/0". */
static const char *short_key(const char *device)
{
    const char *slash = strchr(device, '/');

    return slash ? slash + 1 : device;
}

void who_past_text(const WhoPast *past, Str *out)
{
    static const char *const heads[] = {"USER", "JOB", "POD", "NAMESPACE", "ACCOUNT", "CONTAINER"};
    const bool sums = past->by != OWNER_KEY_END;
    const char *const of_devices[] = {"HOURS", "HELD IDLE", "BY", "GPU", "OWNER"};
    const char *const of_sums[] = {"GPU HOURS", "HELD IDLE", sums ? heads[past->by] : ""};
    Table table = {.columns = sums ? 3 : 5, .right = {true, true}};

    if (past->at.len > 0)
        add_head(&table, sums ? of_sums : of_devices);
    for (size_t i = 0; i < past->at.len; i++) {
        const WhoHeld *held = past->at.at[i];
        CLEANUP(str_done) Str who = str_limited(CELL_CAP);

        add_cell(&table, "%.2f", held->hours);
        add_cell(&table, "%.2f", held->idle_hours);
        if (sums) {
            add_cell(&table, "%s", held->name[0] ? held->name : "-");
            continue;
        }
        owner_add_text(&held->owner, &who);
        add_cell(&table, "%s", attributions[held->attribution].key);
        add_cell(&table, "%s", short_key(held->device));
        add_cell(&table, "%s", who.text);
    }
    print_table(&table, out);
    str_addf(out, "Nobody held %.2f GPU hours\n", past->unheld_hours);
}

static void add_held(const WhoHeld *held, bool sum, Str *out)
{
    json_open(out, NULL, '{');
    if (sum)
        json_add_text(out, "owner", held->name[0] ? held->name : NULL);
    else {
        json_add_text(out, "device", held->device);
        api_owner(&held->owner, out);
        json_add_text(out, "attribution", attributions[held->attribution].key);
        json_add_time(out, "from", held->from_real_ns);
        json_add_time(out, "until", held->until_real_ns);
    }
    json_add_double(out, "gpu_hours", held->hours);
    json_add_double(out, "held_idle_gpu_hours", held->idle_hours);
    json_close(out, '}');
}

void who_past_json(const WhoPast *past, Str *out)
{
    const bool sums = past->by != OWNER_KEY_END;

    json_open(out, NULL, '{');
    json_add_time(out, "time", past->now_real_ns);
    json_add_text(out, "node", past->node && past->node[0] ? past->node : NULL);
    json_add_time(out, "since", past->since_real_ns);
    json_add_double(out, "unheld_gpu_hours", past->unheld_hours);
    if (sums)
        json_add_text(out, "by", owner_keys[past->by].key);
    json_open(out, sums ? "owners" : "held", '[');
    for (size_t i = 0; i < past->at.len; i++)
        add_held(past->at.at[i], sums, out);
    json_close(out, ']');
    str_add(out, "}\n");
}
