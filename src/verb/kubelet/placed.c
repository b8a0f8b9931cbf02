/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/kubelet/placed.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "source/kubernetes/kubernetes.h"

enum { TIMEOUT_S = 10 };

struct PlacedPods {
    Arena arena; /* of the path */
    KubeApi *api;
    Kubelet *kubelet;
    Chosen *chosen;
};

void placed_pods_tick(PlacedPods *placed)
{
    if (placed)
        kubelet_follow(placed->kubelet, placed->chosen, kube_api_state(placed->api, 0) == KUBE_OK);
}

void placed_pods_describe(const PlacedPods *placed, Str *out)
{
    if (!placed)
        return;
    str_addf(out, " %s", kube_states[kube_api_state(placed->api, 0)].key);
    for (size_t i = 0; i < CHOSEN_OUTCOME_END; i++)
        str_addf(out, " %" PRIu64, chosen_counts(placed->chosen)[i]);
}

/* Of the pods those alone that do not run: a few, which the server finds in its cache. */
int placed_pods_new(uv_loop_t *loop, const KubeletOptions *o, Kubelet *kubelet, const Log *log, PlacedPods **ret,
                    Err *err)
{
    PlacedPods *placed = xcalloc(1, sizeof *placed);
    const KubeApiConfig config = {.account = o->account,
                                  .kubeconfig = o->kubeconfig,
                                  .soon_ns = NS_PER_S,
                                  .again_ns = o->node_period_ns,
                                  .timeout_ns = TIMEOUT_S * NS_PER_S,
                                  .log = log};
    if (!o->update_node)
        log_write(
            log, LOG_LEVEL_WARN,
            "--follow-placement without --update-node: 'stoker place serve' does not know which GPUs of this node "
            "go well together, and chooses the first free ones");
    placed->kubelet = kubelet;
    placed->chosen = chosen_new();
    kubelet_follow(kubelet, placed->chosen, false);
    const KubeRead read = {.what = KUBELET_PODS_READ,
                           .path =
                               arena_printf(&placed->arena, "%s%%2Cstatus.phase%%3DPending",
                                            kube_node_path(&placed->arena, "/api/v1/pods", "spec.nodeName", o->node)),
                           .list = true,
                           .begin = chosen_begin,
                           .add = chosen_add,
                           .end = chosen_end,
                           .self = placed->chosen};
    const int rc = kube_api_new(loop, &config, &read, 1, &placed->api, err);
    if (rc < 0)
        placed_pods_close(placed);
    else
        *ret = placed;
    return rc;
}

void placed_pods_close(PlacedPods *placed)
{
    if (!placed)
        return;
    kubelet_follow(placed->kubelet, NULL, false);
    kube_api_close(placed->api);
    chosen_free(placed->chosen);
    arena_done(&placed->arena);
    free(placed);
}
