/* SPDX-License-Identifier: Apache-2.0 */
#include "source/openb/openb.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/number.h"
#include "base/str.h"
#include "base/vec.h"

enum { FILE_MAX_BYTES = 256 << 20, COLUMNS = 16, REQUIRED = 5, NODES_MAX = 1 << 20 };

/* Watts of a GPU, idle and as soon as a part of it is used: PWR (CCGrid 2025); it assumes that G2 is an A10 and G3 an
 * A100. */
static const struct Model {
    const char *name;
    double idle_w, full_w;
} known_models[] = {
    {"A10", 30, 150},  {"A100", 50, 400}, {"G2", 30, 150},      {"G3", 50, 400},
    {"P100", 25, 250}, {"T4", 10, 70},    {"V100M16", 30, 300}, {"V100M32", 30, 300},
};

typedef struct Cells {
    const char *at[COLUMNS]; /* NULL: the line has none */
    size_t len[COLUMNS];
} Cells;

typedef VEC(struct Model) ModelVec;

typedef struct Reader {
    const char *path, *text, *end; /* of what is left */
    unsigned long line;
    const char *const *names; /* of the wanted columns, the REQUIRED ones first; NULL-ended */
    int place[COLUMNS];       /* in a line; -1: the file has no such column */
    Cells cells;
    ModelVec *models; /* their places are their numbers */
    Err *err;
} Reader;

typedef struct Named {
    const char *name;
    size_t len;
    ClusterRequest request;
    const char *models;
    size_t models_len;
    ClusterJob job; /* without its request */
} Named;

typedef VEC(ClusterNode) NodeVec;
typedef VEC(Named) NamedVec;
typedef VEC(const Named *) ListVec;

/* The text of a file, unpacked where it is gzip. */
static int read_text(const char *path, Str *out, Err *err)
{
    CLEANUP(str_done) Str raw = str_limited(FILE_MAX_BYTES);

    TRY(file_read(path, FILE_MAX_BYTES, &raw, err));
    if (!inflate_is_gzip(raw.text, raw.len)) {
        str_addn(out, raw.text, raw.len);
        return 0;
    }
    const int rc = gzip_unpack(raw.text, raw.len, out, err);
    return rc < 0 ? err_add(err, "%s", path) : 0;
}

static int open_reader(const char *path, const char *const *names, ModelVec *models, Str *text, Err *err, Reader *ret)
{
    TRY(read_text(path, text, err));
    *ret = (Reader){
        .path = path, .text = text->text, .end = text->text + text->len, .names = names, .models = models, .err = err};
    return 0;
}

static int refuse_line(const Reader *r, const char *what)
{
    return err_set(r->err, -EINVAL, "%s:%lu: %s", r->path, r->line, what);
}

/* Splits the next line; false at the end. Empty lines are skipped. */
static bool next_line(Reader *r, const char **ret_at, size_t *ret_len)
{
    while (r->text < r->end) {
        const char *feed = memchr(r->text, '\n', (size_t)(r->end - r->text)), *at = r->text;
        size_t len = (size_t)((feed ? feed : r->end) - at);

        r->text = feed ? feed + 1 : r->end;
        r->line++;
        len -= len > 0 && at[len - 1] == '\r';
        if (len == 0)
            continue;
        *ret_at = at;
        *ret_len = len;
        return true;
    }
    return false;
}

/* The part before the next `by`; false behind the last one. *at NULL: it was taken. */
static bool next_part(const char **at, size_t *len, char by, const char **ret, size_t *ret_len)
{
    const char *end = *at ? memchr(*at, by, *len) : NULL;

    if (!*at)
        return false;
    *ret = *at;
    *ret_len = end ? (size_t)(end - *at) : *len;
    *len -= end ? *ret_len + 1 : *ret_len;
    *at = end ? end + 1 : NULL;
    return true;
}

static int read_head(Reader *r)
{
    const char *at, *name;
    size_t len, name_len;

    for (size_t i = 0; i < COLUMNS; i++)
        r->place[i] = -1;
    if (!next_line(r, &at, &len))
        return refuse_line(r, "the file is empty");
    for (int column = 0; next_part(&at, &len, ',', &name, &name_len); column++)
        for (size_t i = 0; r->names[i]; i++)
            if (strlen(r->names[i]) == name_len && memcmp(r->names[i], name, name_len) == 0)
                r->place[i] = column;
    for (size_t i = 0; i < REQUIRED; i++)
        if (r->place[i] < 0)
            return err_set(r->err, -EINVAL, "%s:%lu: no column '%s'", r->path, r->line, r->names[i]);
    return 0;
}

/* 1: a row is in r->cells; 0: the end. */
static int read_row(Reader *r)
{
    const char *at, *cell;
    size_t len, cell_len;

    if (!next_line(r, &at, &len))
        return 0;
    memset(&r->cells, 0, sizeof r->cells);
    for (int column = 0; next_part(&at, &len, ',', &cell, &cell_len); column++)
        for (size_t i = 0; r->names[i]; i++)
            if (r->place[i] == column) {
                r->cells.at[i] = cell;
                r->cells.len[i] = cell_len;
            }
    for (size_t i = 0; i < REQUIRED; i++)
        if (!r->cells.at[i])
            return err_set(r->err, -EINVAL, "%s:%lu: no value of '%s'", r->path, r->line, r->names[i]);
    return 1;
}

/* Says which cell is wrong, and why. */
static int refuse_cell(const Reader *r, size_t column, const Err *why)
{
    return err_set(r->err, -EINVAL, "%s:%lu: %s: %s", r->path, r->line, r->names[column], why->text);
}

static int read_number(const Reader *r, size_t column, uint64_t max, uint64_t *ret)
{
    Err why;

    if (number_parsen_u64(r->cells.at[column], r->cells.len[column], 0, max, ret, &why) < 0)
        return refuse_cell(r, column, &why);
    return 0;
}

static int find_model(const ModelVec *models, const char *name, size_t len)
{
    for (size_t i = 0; i < models->len; i++)
        if (strlen(models->at[i].name) == len && memcmp(models->at[i].name, name, len) == 0)
            return (int)i;
    return -1;
}

static int read_watts(const Reader *r, size_t column, double *ret)
{
    Err why;

    if (number_parsen_double(r->cells.at[column], r->cells.len[column], 0, 1e5, ret, &why) < 0)
        return refuse_cell(r, column, &why);
    return 0;
}

/* The number of a node's model and its watts: those of its row, else those of the model, which the first row with watts
 * tells if they are not known. */
static int read_model(Reader *r, Arena *arena, ClusterNode *node)
{
    enum { MODEL = 4, IDLE_W, FULL_W };
    const char *name = r->cells.at[MODEL];
    const size_t len = r->cells.len[MODEL];
    int number = find_model(r->models, name, len);

    if (number < 0) {
        if (r->models->len == CLUSTER_MODELS_MAX)
            return refuse_line(r, "more than 64 GPU models");
        vec_push(r->models, ((struct Model){arena_strndup(arena, name, len), NAN, NAN}));
        number = (int)r->models->len - 1;
    }
    struct Model *model = &r->models->at[number], of_row = *model;
    if (r->cells.len[IDLE_W] > 0 && r->cells.len[FULL_W] > 0) {
        TRY(read_watts(r, IDLE_W, &of_row.idle_w));
        TRY(read_watts(r, FULL_W, &of_row.full_w));
    }
    if (isnan(model->idle_w))
        *model = of_row;
    if (isnan(of_row.idle_w) && node->gpu_count > 0)
        return err_set(r->err, -EINVAL,
                       "%s:%lu: the watts of GPU model '%.*s' are not known: add columns gpu_idle_w and gpu_full_w",
                       r->path, r->line, (int)len, name);
    node->model = (uint8_t)number;
    node->gpu_idle_w = of_row.idle_w;
    node->gpu_full_w = of_row.full_w;
    return 0;
}

static int read_nodes(Reader *r, Arena *arena, NodeVec *out)
{
    enum { NAME, CPU, MEMORY, GPUS };
    uint64_t cpu, memory, gpus;
    int rc;

    TRY(read_head(r));
    while ((rc = read_row(r)) > 0) {
        TRY(read_number(r, CPU, UINT32_MAX, &cpu));
        TRY(read_number(r, MEMORY, UINT32_MAX, &memory));
        TRY(read_number(r, GPUS, CLUSTER_GPUS_MAX, &gpus));
        ClusterNode node = {.name = arena_strndup(arena, r->cells.at[NAME], r->cells.len[NAME]),
                            .cpu_milli = (uint32_t)cpu,
                            .memory_mib = (uint32_t)memory,
                            .gpu_count = (uint8_t)gpus};
        TRY(read_model(r, arena, &node));
        vec_push(out, node);
    }
    return rc < 0 ? rc : out->len == 0 ? refuse_line(r, "no node") : 0;
}

/* "A|B" as bits. */
static int read_models(const Reader *r, const char *at, size_t len, uint64_t *ret)
{
    const char *name, *list = len > 0 ? at : NULL;
    size_t name_len;

    *ret = 0;
    while (next_part(&list, &len, '|', &name, &name_len)) {
        const int number = find_model(r->models, name, name_len);

        if (number < 0)
            return err_set(r->err, -EINVAL, "%s:%lu: no node has GPU model '%.*s'", r->path, r->line, (int)name_len,
                           name);
        *ret |= UINT64_C(1) << number;
    }
    return 0;
}

/* 0 where the cell is empty or not there. */
static int read_optional(const Reader *r, size_t column, uint64_t max, uint64_t *ret)
{
    *ret = 0;
    return r->cells.len[column] > 0 ? read_number(r, column, max, ret) : 0;
}

/* What a row says of the pod as a job: all of it may be missing. */
static int read_job(const Reader *r, Arena *arena, ClusterJob *ret)
{
    enum { CREATED = 6, DELETED, PODS, QUEUE, PRIORITY, PREEMPTIBLE, CHECKPOINT, RESTART };
    uint64_t created, deleted, pods, priority, preemptible, checkpoint, restart;

    TRY(read_optional(r, CREATED, UINT64_MAX >> 1, &created));
    TRY(read_optional(r, DELETED, UINT64_MAX >> 1, &deleted));
    TRY(read_optional(r, PODS, UINT16_MAX, &pods));
    TRY(read_optional(r, PRIORITY, INT32_MAX, &priority));
    TRY(read_optional(r, PREEMPTIBLE, 1, &preemptible));
    TRY(read_optional(r, CHECKPOINT, UINT32_MAX, &checkpoint));
    TRY(read_optional(r, RESTART, UINT32_MAX, &restart));
    if (deleted > 0 && deleted < created)
        return refuse_line(r, "it ends before it begins (deletion_time before creation_time)");
    *ret = (ClusterJob){.name = arena_strndup(arena, r->cells.at[0], r->cells.len[0]),
                        .queue =
                            r->cells.len[QUEUE] ? arena_strndup(arena, r->cells.at[QUEUE], r->cells.len[QUEUE]) : NULL,
                        .kind = "Pod",
                        .role_count = 1,
                        .tier = CLUSTER_TIER_END,
                        .preemptible = preemptible,
                        .priority = (int32_t)priority,
                        .submitted_s = created,
                        .duration_s = deleted > created ? deleted - created : 0,
                        .checkpoint_s = checkpoint,
                        .restart_s = restart};
    ret->roles[0].min = ret->roles[0].max = pods > 0 ? (uint32_t)pods : 1;
    ret->roles[0].name = "";
    return 0;
}

static int read_pods(Reader *r, Arena *arena, NamedVec *out)
{
    enum { NAME, CPU, MEMORY, GPUS, MILLI, SPEC };
    uint64_t cpu, memory, gpus, milli;
    int rc;

    TRY(read_head(r));
    while ((rc = read_row(r)) > 0) {
        Named pod = {.name = r->cells.at[NAME],
                     .len = r->cells.len[NAME],
                     .models = r->cells.at[SPEC] ? r->cells.at[SPEC] : "",
                     .models_len = r->cells.len[SPEC]};

        TRY(read_number(r, CPU, UINT32_MAX, &cpu));
        TRY(read_number(r, MEMORY, UINT32_MAX, &memory));
        TRY(read_number(r, GPUS, CLUSTER_GPUS_MAX, &gpus));
        TRY(read_number(r, MILLI, UINT32_MAX, &milli));
        TRY(read_models(r, pod.models, pod.models_len, &pod.request.models));
        milli = number_min_u64(milli, CLUSTER_GPU);
        if (gpus > 1 && milli < CLUSTER_GPU)
            return refuse_line(r, "a part of more than one GPU (gpu_milli under 1000 with num_gpu over 1)");
        if (gpus == 1 && milli == 0)
            return refuse_line(r, "a GPU of which nothing is asked (gpu_milli 0)");
        pod.request.cpu_milli = (uint32_t)cpu;
        pod.request.memory_mib = (uint32_t)memory;
        pod.request.gpu_count = (uint8_t)gpus;
        pod.request.gpu_milli = gpus ? (uint16_t)milli : 0;
        TRY(read_job(r, arena, &pod.job));
        vec_push(out, pod);
    }
    return rc < 0 ? rc : out->len == 0 ? refuse_line(r, "no pod") : 0;
}

static int compare_texts(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const int by_bytes = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return by_bytes ? by_bytes : number_compare_u64(a_len, b_len);
}

static int compare_names(const void *a, const void *b)
{
    const Named *x = a, *y = b;

    return compare_texts(x->name, x->len, y->name, y->len);
}

static int compare_lists(const void *a, const void *b)
{
    const Named *x = *(const Named *const *)a, *y = *(const Named *const *)b;

    return compare_texts(x->models, x->models_len, y->models, y->models_len);
}

/* Gives each list of models its number, in the order of their texts. */
static void number_lists(NamedVec *pods)
{
    CLEANUP_VEC ListVec lists = {0};
    uint16_t number = 0;

    for (size_t i = 0; i < pods->len; i++)
        vec_push(&lists, &pods->at[i]);
    vec_sort(&lists, compare_lists);
    for (size_t i = 0; i < lists.len; i++) {
        number = (uint16_t)(number + (i > 0 && compare_lists(&lists.at[i - 1], &lists.at[i]) != 0));
        pods->at[lists.at[i] - pods->at].request.models_written = number;
    }
}

/* --- the order -------------------------------------------------------------------------------------------------- */

static int next_number(Reader *r, uint64_t max, const char *what, uint64_t *ret)
{
    const char *at;
    size_t len;
    Err why;

    while (r->text < r->end && (*r->text == ' ' || *r->text == '\n' || *r->text == '\r')) {
        r->line += *r->text == '\n';
        r->text++;
    }
    at = r->text;
    while (r->text < r->end && *r->text != ' ' && *r->text != '\n' && *r->text != '\r')
        r->text++;
    len = (size_t)(r->text - at);
    if (len == 0)
        return err_set(r->err, -EINVAL, "%s:%lu: it ends before %s", r->path, r->line, what);
    if (number_parsen_u64(at, len, 0, max, ret, &why) < 0)
        return err_set(r->err, -EINVAL, "%s:%lu: %s: %s", r->path, r->line, what, why.text);
    return 0;
}

static int read_numbers(Reader *r, Arena *arena, size_t count, uint64_t max, const char *what, uint32_t **ret)
{
    uint32_t *numbers = arena_calloc(arena, count, sizeof *numbers);
    uint64_t number;

    for (size_t i = 0; i < count; i++) {
        TRY(next_number(r, max, what, &number));
        numbers[i] = (uint32_t)number;
    }
    *ret = numbers;
    return 0;
}

static int read_order(Reader *r, Arena *arena, OpenbWorkload *ret)
{
    uint64_t pods, nodes, skipped;

    r->line = 1;
    TRY(next_number(r, (uint64_t)(r->end - r->text), "how many pods come", &pods));
    TRY(next_number(r, NODES_MAX, "how many nodes there are", &nodes));
    TRY(next_number(r, UINT64_MAX, "a third number", &skipped));
    if (nodes != ret->node_count)
        return err_set(r->err, -EINVAL, "%s: it is of %llu nodes, not of %zu", r->path, (unsigned long long)nodes,
                       ret->node_count);
    ret->order_count = (size_t)pods;
    TRY(read_numbers(r, arena, ret->order_count, ret->pod_count - 1, "the number of a pod", &ret->order));
    TRY(read_numbers(r, arena, ret->node_count, ret->node_count - 1, "the place of a node", &ret->node_order));
    bool *taken = arena_calloc(arena, ret->node_count, sizeof *taken);
    for (size_t i = 0; i < ret->node_count; i++) {
        if (taken[ret->node_order[i]])
            return err_set(r->err, -EINVAL, "%s: two nodes have the place %u", r->path, ret->node_order[i]);
        taken[ret->node_order[i]] = true;
    }
    return 0;
}

/* Without a file of its own: the pods by name, once. */
static void order_by_name(Arena *arena, OpenbWorkload *ret)
{
    ret->order_count = ret->pod_count;
    ret->order = arena_calloc(arena, ret->pod_count, sizeof *ret->order);
    for (uint32_t i = 0; i < ret->pod_count; i++)
        ret->order[i] = i;
}

/* --- all of it -------------------------------------------------------------------------------------------------- */

int openb_read_nodes(const char *path, Arena *arena, OpenbWorkload *ret, Err *err)
{
    static const char *const columns[] = {"sn",    "cpu_milli",  "memory_mib", "gpu",
                                          "model", "gpu_idle_w", "gpu_full_w", NULL};
    CLEANUP(str_done) Str text = str_limited(FILE_MAX_BYTES);
    CLEANUP_VEC NodeVec nodes = {0};
    CLEANUP_VEC ModelVec models = {0};
    Reader reader;

    for (size_t i = 0; i < ARRAY_LEN(known_models); i++)
        vec_push(&models, known_models[i]);
    TRY(open_reader(path, columns, &models, &text, err, &reader));
    TRY(read_nodes(&reader, arena, &nodes));
    const char **names = arena_calloc(arena, models.len, sizeof *names);
    for (size_t i = 0; i < models.len; i++)
        names[i] = models.at[i].name;
    *ret = (OpenbWorkload){.nodes = arena_memdup(arena, nodes.at, nodes.len * sizeof *nodes.at),
                           .node_count = nodes.len,
                           .models = names,
                           .model_count = models.len};
    return 0;
}

int openb_read_pods(const char *path, Arena *arena, OpenbWorkload *work, Err *err)
{
    static const char *const columns[] = {"name",     "cpu_milli",     "memory_mib",    "num_gpu",   "gpu_milli",
                                          "gpu_spec", "creation_time", "deletion_time", "pods",      "queue",
                                          "priority", "preemptible",   "checkpoint_s",  "restart_s", NULL};
    CLEANUP(str_done) Str text = str_limited(FILE_MAX_BYTES);
    CLEANUP_VEC NamedVec pods = {0};
    CLEANUP_VEC ModelVec models = {0};
    Reader reader;

    for (size_t i = 0; i < work->model_count; i++)
        vec_push(&models, ((struct Model){.name = work->models[i]}));
    TRY(open_reader(path, columns, &models, &text, err, &reader));
    TRY(read_pods(&reader, arena, &pods));
    vec_sort(&pods, compare_names);
    number_lists(&pods);
    work->pod_count = pods.len;
    work->pods = arena_calloc(arena, pods.len, sizeof *work->pods);
    work->jobs = arena_calloc(arena, pods.len, sizeof *work->jobs);
    for (size_t i = 0; i < pods.len; i++) {
        work->pods[i] = pods.at[i].request;
        work->jobs[i] = pods.at[i].job;
        work->jobs[i].roles[0].request = pods.at[i].request;
    }
    return 0;
}

int openb_read(const char *nodes_path, const char *pods_path, const char *order_path, Arena *arena, OpenbWorkload *ret,
               Err *err)
{
    CLEANUP(str_done) Str text = str_limited(FILE_MAX_BYTES);
    OpenbWorkload read;
    Reader reader;

    TRY(openb_read_nodes(nodes_path, arena, &read, err));
    TRY(openb_read_pods(pods_path, arena, &read, err));
    if (!order_path) {
        order_by_name(arena, &read);
    } else {
        TRY(open_reader(order_path, NULL, NULL, &text, err, &reader));
        TRY(read_order(&reader, arena, &read));
    }
    *ret = read;
    return 0;
}
