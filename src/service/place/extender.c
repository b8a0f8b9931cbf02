/* SPDX-License-Identifier: Apache-2.0 */
#include "service/place/extender.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/vec.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"

enum { SCORE_BEST = 10, SCORE_OTHERS = 9, WHY_MAX = 512 };

CLEANUP_POINTER(json_t, json_decref);

const WordRow extender_outcomes[EXTENDER_OUTCOME_END] = {EXTENDER_OUTCOME_TABLE(WORD_ROW)};

/* --- requests ----------------------------------------------------------------------------------------------------- */

typedef struct Args {
    const json_t *names;
    ClusterRequest request;
    ExtenderOutcome outcome; /* before any node is looked at */
} Args;

static json_t *read_object(const char *body, size_t len, Err *err)
{
    json_error_t error;
    json_t *root = json_loadb(body, len, 0, &error);

    if (!json_is_object(root)) {
        (void)err_set(err, -EINVAL, "the request is no JSON object: line %d: %.100s", root ? 1 : error.line,
                      root ? "another value" : error.text);
        json_decref(root);
        return NULL;
    }
    return root;
}

static int read_args(const Live *live, bool trusted, const json_t *root, Args *ret, Err *err)
{
    const json_t *pod = json_object_get(root, "Pod");

    ret->names = json_object_get(root, "NodeNames");
    if (!json_is_object(pod))
        return err_set(err, -EINVAL, "the request has no Pod");
    if (!json_is_array(ret->names))
        return err_set(err, -EINVAL,
                       "the request has no NodeNames: set nodeCacheCapable: true for this extender; 'stoker place "
                       "config' prints a configuration");
    for (size_t i = 0; i < json_array_size(ret->names); i++)
        if (!json_is_string(json_array_get(ret->names, i)))
            return err_set(err, -EINVAL, "NodeNames[%zu] is no text", i);
    ret->request = live_read_request(live, pod);
    ret->outcome = ret->request.gpu_count == 0 ? EXTENDER_PASSED : trusted ? EXTENDER_DECIDED : EXTENDER_OPEN;
    return 0;
}

static const char *name_at(const Args *args, size_t i)
{
    return json_string_value(json_array_get(args->names, i));
}

/* --- filter ------------------------------------------------------------------------------------------------------- */

static LiveFit judge_node(Live *live, const Args *args, size_t i)
{
    double score;

    return args->outcome == EXTENDER_DECIDED ? live_judge(live, &args->request, name_at(args, i), &score)
                                             : LIVE_UNKNOWN;
}

/* FailedNodes: room could be made by preemption. FailedAndUnresolvableNodes: not even then. */
static void write_failed(const Live *live, const Args *args, const LiveFit *fits, LiveFit which, const char *member,
                         Str *out)
{
    json_open(out, member, '{');
    for (size_t i = 0; i < json_array_size(args->names); i++) {
        CLEANUP(str_done) Str why = str_limited(WHY_MAX);

        if (fits[i] != which)
            continue;
        str_add(&why, "stoker: ");
        live_explain(live, &args->request, name_at(args, i), &why);
        json_add_text(out, NULL, name_at(args, i));
        str_addc(out, ':');
        str_add_json(out, why.text);
    }
    json_close(out, '}');
}

ExtenderOutcome extender_filter(Live *live, bool trusted, const char *body, size_t len, Str *out)
{
    Err err = {.text = ""};
    CLEANUP(json_decref_at) json_t *root = read_object(body, len, &err);
    CLEANUP_VEC VEC(LiveFit) fits = {0};
    Args args = {.outcome = EXTENDER_REFUSED};
    const bool fine = root && read_args(live, trusted, root, &args, &err) == 0;
    const size_t count = fine ? json_array_size(args.names) : 0;

    json_open(out, NULL, '{');
    json_open(out, "NodeNames", '[');
    for (size_t i = 0; i < count; i++) {
        vec_push(&fits, judge_node(live, &args, i));
        if (fits.at[i] <= LIVE_FITS)
            json_add_text(out, NULL, name_at(&args, i));
    }
    json_close(out, ']');
    if (fine) {
        write_failed(live, &args, fits.at, LIVE_FULL, "FailedNodes", out);
        write_failed(live, &args, fits.at, LIVE_TOO_SMALL, "FailedAndUnresolvableNodes", out);
    }
    json_add_text(out, "Error", err.text);
    json_close(out, '}');
    return fine ? args.outcome : EXTENDER_REFUSED;
}

/* --- prioritize --------------------------------------------------------------------------------------------------- */

/* NaN: not scored. */
static double score_node(Live *live, const Args *args, size_t i)
{
    double score = (double)NAN;

    if (args->outcome != EXTENDER_DECIDED || live_judge(live, &args->request, name_at(args, i), &score) != LIVE_FITS)
        return (double)NAN;
    return score;
}

ExtenderOutcome extender_prioritize(Live *live, bool trusted, const char *body, size_t len, Str *out, Err *err)
{
    CLEANUP(json_decref_at) json_t *root = read_object(body, len, err);
    CLEANUP_VEC VEC(double) scores = {0};
    double least = INFINITY, most = -INFINITY;
    size_t best = SIZE_MAX;
    Args args;

    if (!root || read_args(live, trusted, root, &args, err) < 0)
        return EXTENDER_REFUSED;
    for (size_t i = 0; i < json_array_size(args.names); i++) {
        const double score = score_node(live, &args, i);

        vec_push(&scores, score);
        least = fmin(least, score); /* a NaN is passed over */
        if (score > most) {
            most = score;
            best = i;
        }
    }
    json_open(out, NULL, '[');
    for (size_t i = 0; i < scores.len; i++) {
        const double part = most > least ? (scores.at[i] - least) / (most - least) : 1;

        json_open(out, NULL, '{');
        json_add_text(out, "Host", name_at(&args, i));
        json_add_i64(out, "Score", i == best ? SCORE_BEST : isnan(scores.at[i]) ? 0 : (int64_t)(part * SCORE_OTHERS));
        json_close(out, '}');
    }
    json_close(out, ']');
    return args.outcome;
}

/* --- bind --------------------------------------------------------------------------------------------------------- */

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
    char list[4 * CLUSTER_GPUS_MAX] = "";
    size_t len = 0;

    for (unsigned i = 0; i < CLUSTER_GPUS_MAX; i++)
        if (gpus >> i & 1)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%u", len ? "," : "", i);
    json_open(out, "annotations", '{');
    json_add_text(out, LIVE_GPUS_KEY, list);
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
