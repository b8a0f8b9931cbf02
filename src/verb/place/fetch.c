/* SPDX-License-Identifier: Apache-2.0 */
/* One request after the other, each for a page of a list. */
#include "verb/place/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/log.h"
#include "source/kubernetes/kubernetes.h"

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

enum { PAGE_OBJECTS = 100, PAGES_MAX = 10000 };

/* `older`: asked where `path` is not found. */
static const struct {
    const char *path, *older;
    bool required;
} lists[] = {
    {"/api/v1/nodes", NULL, true},
    {"/api/v1/pods", NULL, true},
    {"/apis/policy/v1/poddisruptionbudgets", NULL, false},
    {"/apis/batch/v1/jobs", NULL, false},
    {"/apis/apps/v1/statefulsets", NULL, false},
    {"/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1beta1/resourceslices", false},
    {"/apis/resource.k8s.io/v1/resourceclaims", "/apis/resource.k8s.io/v1beta1/resourceclaims", false},
    {"/apis/resource.k8s.io/v1/resourceclaimtemplates", "/apis/resource.k8s.io/v1beta1/resourceclaimtemplates", false},
    {"/apis/kueue.x-k8s.io/v1beta1/clusterqueues", NULL, false},
    {"/apis/kueue.x-k8s.io/v1beta1/cohorts", "/apis/kueue.x-k8s.io/v1alpha1/cohorts", false},
    {"/apis/kueue.x-k8s.io/v1beta1/localqueues", NULL, false},
    {"/apis/kueue.x-k8s.io/v1beta1/workloads", NULL, false},
    {"/apis/scheduling.run.ai/v2/queues", NULL, false},
    {"/apis/jobset.x-k8s.io/v1alpha2/jobsets", NULL, false},
    {"/apis/kubeflow.org/v1/pytorchjobs", NULL, false},
    {"/apis/kubeflow.org/v2beta1/mpijobs", "/apis/kubeflow.org/v1/mpijobs", false},
    {"/apis/ray.io/v1/rayjobs", NULL, false},
    {"/apis/ray.io/v1/rayclusters", NULL, false},
    {"/apis/batch.volcano.sh/v1alpha1/jobs", NULL, false},
    {"/apis/scheduling.volcano.sh/v1beta1/podgroups", NULL, false},
    {"/apis/scheduling.x-k8s.io/v1alpha1/podgroups", NULL, false},
};

typedef struct Fetching {
    VerbCall *call;
    KubeApi *api;
    KubeCall *request;
    PlaceTexts *texts;
    size_t list, pages; /* that is read; pages of all lists */
    bool older;
    int rc;
} Fetching;

static void ask_page(Fetching *f, const char *token);

static const char *list_path(const Fetching *f)
{
    return f->older ? lists[f->list].older : lists[f->list].path;
}

static void end_fetching(Fetching *f, int rc)
{
    f->rc = rc;
    kube_api_close(TAKE(f->api));
}

static void ask_list(Fetching *f, size_t list, bool older)
{
    f->list = list;
    f->older = older;
    if (list < ARRAY_LEN(lists))
        ask_page(f, NULL);
    else
        end_fetching(f, 0);
}

static int keep_page(Fetching *f, const json_t *object, Err *err)
{
    char *text = json_dumps(object, JSON_COMPACT);
    KubeText kept = {.name = list_path(f)};

    if (!text || f->pages++ == PAGES_MAX) {
        free(text);
        return err_set(err, -E2BIG, "%s: more than %d pages of %d objects", kept.name, PAGES_MAX, PAGE_OBJECTS);
    }
    kept.len = strlen(text);
    kept.text = arena_strndup(f->call->arena, text, kept.len);
    free(text);
    vec_push(f->texts, kept);
    return 0;
}

static void refuse_list(Fetching *f, const KubeReply *reply)
{
    if (reply->state == KUBE_NOT_FOUND && !f->older && lists[f->list].older) {
        ask_list(f, f->list, true);
        return;
    }
    if (lists[f->list].required || (reply->state != KUBE_NOT_FOUND && reply->state != KUBE_DENIED)) {
        end_fetching(f, err_set(&f->call->err, -EIO, "%s: %s%s", list_path(f), reply->text,
                                reply->state == KUBE_NO_ACCOUNT ? " (give --kubeconfig FILE or --cluster FILE)" : ""));
        return;
    }
    if (reply->state == KUBE_DENIED)
        fprintf(stderr, "%s: without %s, which may not be listed: %s\n", f->call->path, list_path(f), reply->text);
    ask_list(f, f->list + 1, false);
}

static void on_page(void *self, const KubeReply *reply)
{
    Fetching *f = self;
    const char *token = json_string_value(json_object_get(json_object_get(reply->object, "metadata"), "continue"));

    if (reply->state != KUBE_OK)
        refuse_list(f, reply);
    else if (keep_page(f, reply->object, &f->call->err) < 0)
        end_fetching(f, f->call->err.code);
    else if (token && *token)
        ask_page(f, token);
    else
        ask_list(f, f->list + 1, false);
}

static void ask_page(Fetching *f, const char *token)
{
    const char *path = arena_printf(f->call->arena, "%s?limit=%d%s%s", list_path(f), PAGE_OBJECTS,
                                    token ? "&continue=" : "", token ? token : "");

    kube_call_new(f->api, &(KubeRequest){.method = "GET", .path = path}, on_page, f, &f->request);
}

/* As kubectl does outside of a pod. */
static const char *find_kubeconfig(VerbCall *call, const char *named)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *home = getenv("HOME");
    const char *path = home ? arena_printf(call->arena, "%s/.kube/config", home) : "";

    if ((named && *named) || (host && *host) || access(path, R_OK) != 0)
        return named;
    return path;
}

int place_fetch_texts(VerbCall *call, const char *kubeconfig, PlaceTexts *ret)
{
    Fetching f = {.call = call, .texts = ret};
    KubeApiConfig config = {.account = ACCOUNT,
                            .kubeconfig = find_kubeconfig(call, kubeconfig),
                            .soon_ns = NS_PER_S,
                            .again_ns = NS_PER_S,
                            .timeout_ns = 30 * NS_PER_S};
    uv_loop_t loop;
    Log log;

    log_init(&log, LOG_LEVEL_WARN, LOG_FORMAT_TEXT, "stoker", clock_kernel());
    config.log = &log;
    uv_loop_init(&loop);
    int rc = kube_api_new(&loop, &config, NULL, 0, &f.api, &call->err);
    if (rc == 0) {
        ask_list(&f, 0, false);
        uv_run(&loop, UV_RUN_DEFAULT);
        rc = f.rc;
    }
    uv_loop_close(&loop);
    log_done(&log);
    return rc;
}
