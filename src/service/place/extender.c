/* SPDX-License-Identifier: Apache-2.0 */
#include "service/place/extender.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_walk.h"
#include "base/vec.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"

enum { SCORE_BEST = 10, SCORE_OTHERS = 9, WHY_MAX = 512 };

CLEANUP_POINTER(json_t, json_decref);

static bool is_name_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

const WordRow extender_outcomes[EXTENDER_OUTCOME_END] = {EXTENDER_OUTCOME_TABLE(WORD_ROW)};

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* One node of a request; the name lies in the request. */
typedef struct Row {
    const char *name;
    size_t len;
    LiveFit fit;
    double score; /* of one that fits */
    const LiveNode *node;
} Row;

typedef struct Args {
    VEC(Row) rows;
    bool has_names, has_pod;
    ClusterRequest request;
} Args;

static void args_done(Args *args)
{
    vec_done(&args->rows);
}

/* A list of names, which need no escape. By hand: with jansson, thousands of them take longer than all else. */
static int walk_names(Args *args, JsonWalk *walk, Err *err)
{
    bool more = !json_walk_take(walk, ']');

    args->has_names = true;
    while (more) {
        const char *name = json_walk_take(walk, '"') ? walk->at : walk->end;

        while (walk->at < walk->end && is_name_letter(*walk->at))
            walk->at++;
        if (walk->at <= name || walk->at == walk->end || *walk->at++ != '"')
            return err_set(err, -EINVAL, "NodeNames[%zu] is no name of a node", args->rows.len);
        vec_push(&args->rows, ((Row){.name = name, .len = (size_t)(walk->at - 1 - name)}));
        more = json_walk_take(walk, ',');
        if (!more && !json_walk_take(walk, ']'))
            return err_set(err, -EINVAL, "the request is no JSON: NodeNames does not end");
    }
    return 0;
}

static int walk_member(const Live *live, Args *args, JsonWalk *walk, Err *err)
{
    CLEANUP(json_decref_at) json_t *key = json_walk_value(walk, err), *value = NULL;

    if (!json_is_string(key) || !json_walk_take(walk, ':'))
        return err_set(err, -EINVAL, "the request is no JSON object");
    if (strcmp(json_string_value(key), "NodeNames") == 0 && json_walk_take(walk, '['))
        return walk_names(args, walk, err);
    value = json_walk_value(walk, err);
    if (!value)
        return -EINVAL;
    if (strcmp(json_string_value(key), "Pod") == 0 && json_is_object(value)) {
        args->has_pod = true;
        args->request = live_read_request(live, value);
    }
    return 0;
}

static int read_args(const Live *live, const char *body, size_t len, Args *args, Err *err)
{
    JsonWalk walk = {.at = body, .end = body + len, .what = "the request"};
    bool more = true;

    if (!json_walk_take(&walk, '{'))
        return err_set(err, -EINVAL, "the request is no JSON object");
    for (; more; more = json_walk_take(&walk, ','))
        TRY(walk_member(live, args, &walk, err));
    if (!json_walk_take(&walk, '}'))
        return err_set(err, -EINVAL, "the request is no JSON object: it does not end");
    if (!args->has_pod)
        return err_set(err, -EINVAL, "the request has no Pod");
    return args->has_names ? 0
                           : err_set(err, -EINVAL,
                                     "the request has no NodeNames: set nodeCacheCapable: true for this extender; "
                                     "'stoker place config' prints a configuration");
}

/* Judges each node. */
static ExtenderOutcome judge_request(Live *live, bool trusted, const char *body, size_t len, Args *args, Err *err)
{
    if (read_args(live, body, len, args, err) < 0)
        return EXTENDER_REFUSED;
    if (args->request.gpu_count == 0 || !trusted) /* of no node anything is known */
        return args->request.gpu_count == 0 ? EXTENDER_PASSED : EXTENDER_OPEN;
    for (size_t i = 0; i < args->rows.len; i++) {
        Row *row = &args->rows.at[i];

        row->node = live_find(live, row->name, row->len);
        row->fit = live_judge(live, &args->request, row->node, &row->score);
    }
    return EXTENDER_DECIDED;
}

static void write_name(const Row *row, Str *out)
{
    json_add_key(out, NULL);
    str_addc(out, '"');
    str_addn(out, row->name, row->len);
    str_addc(out, '"');
}

/* --- filter ------------------------------------------------------------------------------------------------------- */

/* FailedNodes: room could be made by preemption. FailedAndUnresolvableNodes: not even then. */
static void write_failed(const Args *args, LiveFit which, const char *member, Str *out)
{
    CLEANUP(str_done) Str why = str_limited(WHY_MAX);

    json_open(out, member, '{');
    for (size_t i = 0; i < args->rows.len; i++) {
        const Row *row = &args->rows.at[i];

        if (row->fit != which)
            continue;
        str_clear(&why);
        str_add(&why, "stoker: ");
        live_explain(row->node, &args->request, &why);
        write_name(row, out);
        str_addc(out, ':');
        str_add_json(out, why.text);
    }
    json_close(out, '}');
}

ExtenderOutcome extender_filter(Live *live, bool trusted, const char *body, size_t len, Str *out)
{
    Err err = {.text = ""};
    CLEANUP(args_done) Args args = {0};
    const ExtenderOutcome outcome = judge_request(live, trusted, body, len, &args, &err);

    if (outcome == EXTENDER_REFUSED)
        vec_clear(&args.rows);
    json_open(out, NULL, '{');
    json_open(out, "NodeNames", '[');
    for (size_t i = 0; i < args.rows.len; i++)
        if (args.rows.at[i].fit <= LIVE_FITS)
            write_name(&args.rows.at[i], out);
    json_close(out, ']');
    write_failed(&args, LIVE_FULL, "FailedNodes", out);
    write_failed(&args, LIVE_TOO_SMALL, "FailedAndUnresolvableNodes", out);
    json_add_text(out, "Error", err.text);
    json_close(out, '}');
    return outcome;
}

/* --- prioritize --------------------------------------------------------------------------------------------------- */

/* The first one with the highest score, and the range of scores; NULL where no node has one. */
static const Row *find_best(const Args *args, double *ret_least, double *ret_most)
{
    const Row *best = NULL;

    for (size_t i = 0; i < args->rows.len; i++) {
        const Row *row = &args->rows.at[i];

        if (row->fit != LIVE_FITS)
            continue;
        *ret_least = best ? fmin(*ret_least, row->score) : row->score;
        if (!best || row->score > best->score)
            best = row;
    }
    *ret_most = best ? best->score : 0;
    return best;
}

ExtenderOutcome extender_prioritize(Live *live, bool trusted, const char *body, size_t len, Str *out, Err *err)
{
    CLEANUP(args_done) Args args = {0};
    const ExtenderOutcome outcome = judge_request(live, trusted, body, len, &args, err);
    double least = 0, most = 0;

    if (outcome == EXTENDER_REFUSED)
        return outcome;
    const Row *best = find_best(&args, &least, &most);
    json_open(out, NULL, '[');
    for (size_t i = 0; i < args.rows.len; i++) {
        const Row *row = &args.rows.at[i];
        const double part = most > least ? (row->score - least) / (most - least) : 1;
        const int score = row == best ? SCORE_BEST : row->fit == LIVE_FITS ? (int)(part * SCORE_OTHERS) : 0;

        str_add(out, i ? ",{\"Host\":" : "{\"Host\":");
        write_name(row, out);
        json_add_i64(out, "Score", score);
        json_close(out, '}');
    }
    json_close(out, ']');
    return outcome;
}

/* --- bind --------------------------------------------------------------------------------------------------------- */

static json_t *read_object(const char *body, size_t len, Err *err)
{
    json_error_t error;
    json_t *root = json_loadb(body, len, JSON_REJECT_DUPLICATES, &error);

    if (json_is_object(root))
        return root;
    (void)err_set(err, -EINVAL, "the request is no JSON object: %.100s", root ? "it is another value" : error.text);
    json_decref(root);
    return NULL;
}

/* A DNS name, or with `letters` another word. */
static int read_name(const json_t *root, const char *key, const char *letters, char *out, size_t room, Err *err)
{
    const char *text = json_string_value(json_object_get(root, key));

    if (!text || !text[0] || text[0] == '.' || strlen(text) >= room || text[strspn(text, letters)])
        return err_set(err, -EINVAL, "%s is missing or no name", key);
    snprintf(out, room, "%s", text);
    return 0;
}

int extender_read_bind(const char *body, size_t len, ExtenderBind *ret, Err *err)
{
    CLEANUP(json_decref_at) json_t *root = read_object(body, len, err);
    ExtenderBind bind;

    if (!root)
        return -EINVAL;
    TRY(read_name(root, "PodName", LETTERS "-.", bind.pod, sizeof bind.pod, err));
    TRY(read_name(root, "PodNamespace", LETTERS "-", bind.namespace, sizeof bind.namespace, err));
    TRY(read_name(root, "Node", LETTERS "-.", bind.node, sizeof bind.node, err));
    TRY(read_name(root, "PodUID", LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ-", bind.uid, sizeof bind.uid, err));
    *ret = bind;
    return 0;
}

int extender_read_pod(const Live *live, const ExtenderBind *bind, const json_t *pod, ClusterRequest *ret, Err *err)
{
    const char *uid = json_string_value(json_object_get(json_object_get(pod, "metadata"), "uid"));
    const char *node = json_string_value(json_object_get(json_object_get(pod, "spec"), "nodeName"));

    if (!uid || strcmp(uid, bind->uid) != 0)
        return err_set(err, -ESTALE, "pod %s/%s is another one now, of UID %.63s", bind->namespace, bind->pod,
                       uid ? uid : "none");
    if (node && strcmp(node, bind->node) != 0)
        return err_set(err, -EEXIST, "pod %s/%s is on node %.253s already", bind->namespace, bind->pod, node);
    if (node)
        return 1;
    *ret = live_read_request(live, pod);
    return 0;
}

static void write_annotations(uint16_t gpus, Str *out)
{
    char list[CLUSTER_GPUS_CAP];

    json_open(out, "annotations", '{');
    json_add_text(out, CLUSTER_GPUS_KEY, cluster_write_gpus(gpus, list));
    json_add_text(out, LIVE_PLACED_BY_KEY, "stoker");
    json_close(out, '}');
}

void extender_write_binding(const ExtenderBind *bind, uint16_t gpus, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "apiVersion", "v1");
    json_add_text(out, "kind", "Binding");
    json_open(out, "metadata", '{');
    json_add_text(out, "name", bind->pod);
    json_add_text(out, "namespace", bind->namespace);
    json_add_text(out, "uid", bind->uid);
    if (gpus)
        write_annotations(gpus, out);
    json_close(out, '}');
    json_open(out, "target", '{');
    json_add_text(out, "apiVersion", "v1");
    json_add_text(out, "kind", "Node");
    json_add_text(out, "name", bind->node);
    json_close(out, '}');
    json_close(out, '}');
}

void extender_write_result(const char *error, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "Error", error ? error : "");
    json_close(out, '}');
}
