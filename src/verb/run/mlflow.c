/* SPDX-License-Identifier: Apache-2.0 */
/* The experiment's id, a new run, batches of points, the run's end: each a request, in that order, as far as needed. */
#include "verb/run/mlflow.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/str.h"
#include "wire/fetch/fetch.h"

/* Limits of a request: 1,000 metrics and 1 MB (MLflow's REST API, "Log Batch"). A queue of so many batches outlives a
 * server that is away for some minutes. */
enum { BATCH_MAX = 1000, BATCH_BYTES = 900 * 1024, QUEUE_MAX = 16, ANSWER_BYTES = 64 * 1024, ID_CAP = 64 };
enum { REQUEST_MS = 10000, MB = 1000 * 1000, MIB = 1 << 20 };
#define SEND_NS (5 * NS_PER_S) /* between two batches: points are kept together */

typedef enum Stage { STAGE_EXPERIMENT, STAGE_CREATE, STAGE_LOG, STAGE_UPDATE, STAGE_OVER } Stage;

typedef struct Batch {
    Str points; /* JSON objects with commas between */
    uint32_t count;
} Batch;

struct Mlflow {
    Fetch *fetch;
    FetchCall *call; /* NULL: none is under way */
    const char *uri, *name;
    Stage stage;
    bool made;     /* the run was made here */
    bool ending;   /* nothing is added any more; what fails now is not tried again */
    bool end_lost; /* the run's end could not be told */
    char run[ID_CAP], experiment[ID_CAP];
    Batch queue[QUEUE_MAX];
    size_t first, count; /* of the queue; the first may be under way */
    uint64_t start_ms, end_ms, step, sent_ns;
    uint64_t logged, lost; /* points */
    const char *end_state;
    char why[128]; /* the last failure */
};

/* Names as in mlflow/system_metrics/metrics/gpu_monitor.py, and those that it has not. */
static const struct {
    const char *name;
    MetricId metric;
    double scale;
    MetricId of; /* a share of this; METRIC_END: a value */
    bool gpu;    /* read from the GPU around an instance */
} points[] = {
    {"utilization_percentage", METRIC_GPU_UTIL, 1, METRIC_END, false},
    {"memory_usage_megabytes", METRIC_FB_USED, (double)MIB / MB, METRIC_END, false},
    {"memory_usage_percentage", METRIC_FB_USED, 100, METRIC_FB_TOTAL, false},
    {"power_usage_watts", METRIC_POWER_USAGE, 1, METRIC_END, true},
    {"power_usage_percentage", METRIC_POWER_USAGE, 100, METRIC_ENFORCED_POWER_LIMIT, true},
    {"temperature_celsius", METRIC_GPU_TEMP, 1, METRIC_END, true},
    {"sm_active_percentage", METRIC_PROF_SM_ACTIVE, 100, METRIC_END, false},
    {"tensor_active_percentage", METRIC_PROF_PIPE_TENSOR_ACTIVE, 100, METRIC_END, false},
    {"memory_active_percentage", METRIC_PROF_DRAM_ACTIVE, 100, METRIC_END, false},
};

static void send_next(Mlflow *m);

/* --- the queue ---------------------------------------------------------------------------------------------------- */

static Batch *queue_at(Mlflow *m, size_t i)
{
    return &m->queue[(m->first + i) % QUEUE_MAX];
}

static void drop_batch(Mlflow *m)
{
    Batch *batch = queue_at(m, 0);

    str_done(&batch->points);
    *batch = (Batch){0};
    m->first = (m->first + 1) % QUEUE_MAX;
    m->count--;
}

/* The one to add to; NULL: the queue is full. One that is under way stays as it is. */
static Batch *open_batch(Mlflow *m)
{
    const bool sending = m->call && m->stage == STAGE_LOG && m->count == 1;
    Batch *last = m->count > 0 && !sending ? queue_at(m, m->count - 1) : NULL;

    if (last && last->count < BATCH_MAX && last->points.len < BATCH_BYTES)
        return last;
    if (m->count == QUEUE_MAX)
        return NULL;
    last = queue_at(m, m->count++);
    *last = (Batch){.points = str_limited(2 * BATCH_BYTES)};
    return last;
}

/* "system/gpu_0_...", of a MIG instance "system/gpu_0_mig_1_0_...". */
static void add_point(Mlflow *m, const UsageDevice *d, uint64_t time_ms, const char *name, double value)
{
    Batch *batch = open_batch(m);
    char instance[40] = "", key[128];

    if (!batch) {
        m->lost++;
        return;
    }
    if (d->device.kind == DEVICE_COMPUTE_INSTANCE)
        snprintf(instance, sizeof instance, "mig_%" PRIu32 "_%" PRIu32 "_", d->device.gpu_instance,
                 d->device.compute_instance);
    snprintf(key, sizeof key, "system/gpu_%" PRIu32 "_%s%s", d->gpu_index, instance, name);
    json_open(&batch->points, NULL, '{');
    json_add_text(&batch->points, "key", key);
    json_add_double(&batch->points, "value", value);
    json_add_u64(&batch->points, "timestamp", time_ms);
    json_add_u64(&batch->points, "step", m->step);
    json_close(&batch->points, '}');
    batch->count++;
}

static void add_device(Mlflow *m, const UsageDevice *d, const Reading *gpu, const Reading *reading, uint64_t time_ms)
{
    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        const Reading *from = points[i].gpu ? gpu : reading;
        double value, whole = 1;

        if (!sample_double(&from->sample[points[i].metric], &value) ||
            (points[i].of != METRIC_END && (!sample_double(&from->sample[points[i].of], &whole) || !(whole > 0))))
            continue;
        add_point(m, d, time_ms, points[i].name, value * points[i].scale / whole);
    }
    add_point(m, d, time_ms, "share_percentage", 100 * d->now.share);
    if (d->energy_basis != USAGE_ENERGY_UNKNOWN)
        add_point(m, d, time_ms, "energy_joules", d->energy_j);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* The text at a path of keys; "" where there is none. */
static void read_id(const FetchAnswer *answer, const char *const path[3], char out[ID_CAP])
{
    json_t *root = json_loadb(answer->body, answer->body_len, 0, NULL);
    const json_t *at = root;

    for (size_t i = 0; i < 3 && path[i]; i++)
        at = json_object_get(at, path[i]);
    const char *text = json_string_value(at);
    snprintf(out, ID_CAP, "%s", text && strlen(text) < ID_CAP ? text : "");
    json_decref(root);
}

static void note_failure(Mlflow *m, const FetchAnswer *answer)
{
    json_t *root = answer->body ? json_loadb(answer->body, answer->body_len, 0, NULL) : NULL;
    const char *message = json_string_value(json_object_get(root, "message"));

    if (answer->status == 0)
        snprintf(m->why, sizeof m->why, "%.120s", answer->text);
    else if (message)
        snprintf(m->why, sizeof m->why, "status %u: %.100s", answer->status, message);
    else
        snprintf(m->why, sizeof m->why, "status %u", answer->status);
    json_decref(root);
}

static void give_up(Mlflow *m)
{
    for (size_t i = 0; i < m->count; i++)
        m->lost += queue_at(m, i)->count;
    while (m->count > 0)
        drop_batch(m);
    m->end_lost = m->made;
    m->stage = STAGE_OVER;
}

static void handle_success(Mlflow *m, const FetchAnswer *answer)
{
    static const char *const experiment[] = {"experiment", "experiment_id", NULL}, *const run[] = {"run", "info",
                                                                                                   "run_id"};

    switch (m->stage) {
    case STAGE_EXPERIMENT:
        read_id(answer, experiment, m->experiment);
        m->stage = STAGE_CREATE;
        break;
    case STAGE_CREATE:
        read_id(answer, run, m->run);
        m->made = true;
        m->stage = STAGE_LOG;
        break;
    case STAGE_LOG:
        m->logged += queue_at(m, 0)->count;
        drop_batch(m);
        break;
    default:
        m->stage = STAGE_OVER;
    }
    if ((m->stage == STAGE_CREATE && !m->experiment[0]) || (m->stage == STAGE_LOG && !m->run[0])) {
        snprintf(m->why, sizeof m->why, "the answer names no %s: is this an MLflow server?",
                 m->stage == STAGE_LOG ? "run" : "experiment");
        give_up(m);
    }
}

static void handle_answer(void *self, const FetchAnswer *answer)
{
    Mlflow *m = self;
    const bool later = answer->status == 0 || answer->status == 429 || answer->status >= 500;

    m->call = NULL;
    if (answer->status == 200) {
        handle_success(m, answer);
        send_next(m);
        return;
    }
    note_failure(m, answer);
    if (m->stage == STAGE_LOG && !later) { /* it will not be taken another time either */
        m->lost += queue_at(m, 0)->count;
        drop_batch(m);
        send_next(m);
    } else if (!later || m->ending) {
        give_up(m);
    }
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void send_request(Mlflow *m, const char *path, const Str *body)
{
    static const char *const headers[] = {"Content-Type: application/json"};
    const char *user = getenv("MLFLOW_TRACKING_USERNAME"), *token = getenv("MLFLOW_TRACKING_TOKEN");
    CLEANUP(str_done) Str url = str_limited(8192);
    size_t len = strlen(m->uri);
    Err err;

    while (len > 0 && m->uri[len - 1] == '/')
        len--;
    str_addf(&url, "%.*s/api/2.0/mlflow/%s", (int)len, m->uri, path);
    const FetchRequest request = {.url = url.text,
                                  .headers = headers,
                                  .header_count = ARRAY_LEN(headers),
                                  .body = body ? body->text : NULL,
                                  .body_len = body ? body->len : 0,
                                  .user = user,
                                  .password = user ? getenv("MLFLOW_TRACKING_PASSWORD") : NULL,
                                  .bearer = user ? NULL : token,
                                  .tls = {.ca_file = getenv("MLFLOW_TRACKING_SERVER_CERT_PATH")},
                                  .timeout_ms = m->ending ? MLFLOW_END_MS : REQUEST_MS,
                                  .answer_max = ANSWER_BYTES};
    if (fetch_send(m->fetch, &request, handle_answer, m, &m->call, &err) == 0)
        return;
    snprintf(m->why, sizeof m->why, "%.120s", err.text);
    give_up(m);
}

static void ask_experiment(Mlflow *m, const char *name)
{
    CLEANUP(str_done) Str path = str_limited(4096);

    str_add(&path, "experiments/get-by-name?experiment_name=");
    for (; *name; name++)
        if (strchr("-._~", *name) || (*name >= '0' && *name <= '9') || ((*name | 32) >= 'a' && (*name | 32) <= 'z'))
            str_addc(&path, *name);
        else
            str_addf(&path, "%%%02X", (unsigned char)*name);
    send_request(m, path.text, NULL);
}

static void create_run(Mlflow *m)
{
    CLEANUP(str_done) Str body = str_limited(BATCH_BYTES);

    json_open(&body, NULL, '{');
    json_add_text(&body, "experiment_id", m->experiment);
    json_add_u64(&body, "start_time", m->start_ms);
    json_add_text(&body, "run_name", m->name);
    json_open(&body, "tags", '[');
    json_open(&body, NULL, '{');
    json_add_text(&body, "key", "mlflow.source.name");
    json_add_text(&body, "value", m->name);
    str_add(&body, "}]}");
    send_request(m, "runs/create", &body);
}

static void log_batch(Mlflow *m)
{
    CLEANUP(str_done) Str body = str_limited(3 * BATCH_BYTES);

    json_open(&body, NULL, '{');
    json_add_text(&body, "run_id", m->run);
    json_open(&body, "metrics", '[');
    str_add(&body, queue_at(m, 0)->points.text);
    str_add(&body, "]}");
    m->sent_ns = clock_monotonic(clock_kernel());
    send_request(m, "runs/log-batch", &body);
}

static void update_run(Mlflow *m)
{
    CLEANUP(str_done) Str body = str_limited(BATCH_BYTES);

    json_open(&body, NULL, '{');
    json_add_text(&body, "run_id", m->run);
    json_add_text(&body, "status", m->end_state);
    json_add_u64(&body, "end_time", m->end_ms);
    json_close(&body, '}');
    send_request(m, "runs/update", &body);
}

static bool is_due(const Mlflow *m)
{
    return m->ending || m->count > 1 || m->sent_ns == 0 || clock_monotonic(clock_kernel()) >= m->sent_ns + SEND_NS;
}

static void send_next(Mlflow *m)
{
    if (m->call)
        return;
    if (m->count == 0 && m->stage < STAGE_UPDATE) { /* no run is made for a command without a GPU */
        if (!m->ending)
            return;
        m->stage = m->made ? STAGE_UPDATE : STAGE_OVER;
    }
    switch (m->stage) {
    case STAGE_EXPERIMENT:
        ask_experiment(m, getenv("MLFLOW_EXPERIMENT_NAME"));
        break;
    case STAGE_CREATE:
        create_run(m);
        break;
    case STAGE_LOG:
        if (is_due(m))
            log_batch(m);
        break;
    case STAGE_UPDATE:
        update_run(m);
        break;
    case STAGE_OVER:
        break;
    }
}

/* --- its life ----------------------------------------------------------------------------------------------------- */

/* A variable's value where it fits; "" else. */
static const char *read_variable(const char *name)
{
    const char *value = getenv(name);

    return value && strlen(value) < ID_CAP ? value : "";
}

int mlflow_new(uv_loop_t *loop, const char *uri, const char *name, uint64_t start_real_ns, Mlflow **ret, Err *err)
{
    Mlflow *m = xcalloc(1, sizeof *m);
    const char *experiment = read_variable("MLFLOW_EXPERIMENT_ID"), *run = read_variable("MLFLOW_RUN_ID");
    const char *by_name = getenv("MLFLOW_EXPERIMENT_NAME");

    m->uri = uri;
    m->name = name;
    m->start_ms = start_real_ns / NS_PER_MS;
    snprintf(m->run, sizeof m->run, "%s", run);
    snprintf(m->experiment, sizeof m->experiment, "%s", experiment[0] ? experiment : "0"); /* the default one */
    m->stage = run[0] ? STAGE_LOG : !experiment[0] && by_name && by_name[0] ? STAGE_EXPERIMENT : STAGE_CREATE;
    const int rc = fetch_new(loop, &m->fetch, err);
    if (rc < 0) {
        free(m);
        return rc;
    }
    *ret = m;
    return 0;
}

void mlflow_add(Mlflow *m, const Usage *usage, const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];
        const UsageDevice *d = usage_find_held(usage, &gpu->reading.device);

        if (d)
            add_device(m, d, &gpu->reading, &gpu->reading, node->real_ns / NS_PER_MS);
        for (size_t k = 0; k < gpu->instance_count; k++)
            if ((d = usage_find_held(usage, &gpu->instances[k].device)))
                add_device(m, d, &gpu->reading, &gpu->instances[k], node->real_ns / NS_PER_MS);
    }
    m->step++;
    send_next(m);
}

void mlflow_finish(Mlflow *m, uint64_t end_real_ns, int exit_status, int signal)
{
    m->ending = true;
    m->end_ms = end_real_ns / NS_PER_MS;
    m->end_state = signal ? "KILLED" : exit_status ? "FAILED" : "FINISHED";
    send_next(m);
}

bool mlflow_is_over(const Mlflow *m)
{
    return m->stage == STAGE_OVER && !m->call;
}

const char *mlflow_why(const Mlflow *m, char out[MLFLOW_WHY_CAP])
{
    uint64_t left = m->lost;

    for (size_t i = 0; i < m->count; i++)
        left += m->queue[(m->first + i) % QUEUE_MAX].count;
    out[0] = '\0';
    if (left > 0)
        snprintf(out, MLFLOW_WHY_CAP, "%" PRIu64 " of %" PRIu64 " points were not logged to MLflow: %s", left,
                 left + m->logged, m->why[0] ? m->why : "the server did not answer in time");
    else if (m->end_lost || m->stage == STAGE_UPDATE)
        snprintf(out, MLFLOW_WHY_CAP, "the end of the run was not logged to MLflow: %s",
                 m->why[0] ? m->why : "the server did not answer in time");
    return out;
}
