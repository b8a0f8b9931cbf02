/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker kubelet explain`: why a pod waits, and what it would get. */
#include <stdio.h>

#include "base/cleanup.h"
#include "verb/agent/control.h"
#include "verb/kubelet/kubelet.h"

enum { ANSWER_MS = 5000 };

CLEANUP_POINTER(SnapshotBuffer, snapshot_buffer_free);

/* Claims ask for devices by class, and for MIG devices by their profile too. */
static void name_classes(Offer *offer, const char *driver)
{
    for (size_t i = 0; i < offer->resources.len; i++) {
        OfferResource *resource = &offer->resources.at[i];
        const char *profile = resource->units.at[0].profile;

        if (profile[0])
            snprintf(resource->name, sizeof resource->name, "mig.nvidia.com %s", profile);
        else
            snprintf(resource->name, sizeof resource->name, "%.63s", driver);
    }
}

int kubelet_explain_run(VerbCall *call, const void *options UNUSED)
{
    CLEANUP(kubelet_settings_free_at) KubeletSettings *settings = NULL;
    CLEANUP(snapshot_buffer_free_at) SnapshotBuffer *now = snapshot_buffer_new();
    CLEANUP(str_done) Str answer = str_limited(CONTROL_REPLY_MAX), out = str_limited(CONTROL_REPLY_MAX);
    Offer offer = {0};
    int code;

    if (kubelet_settings_load(call, NULL, &settings, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (call->args.len > 1)
        return verb_failf(call, EXIT_USAGE, "one pod at most: NAME or NAMESPACE/NAME");
    const char *pod = call->args.len ? call->args.items[0] : NULL;
    if (control_ask(control_path(settings->o.control, call->arena), "status json", ANSWER_MS, &answer, &code,
                    &call->err) < 0 ||
        snapshot_read(now, answer.text, answer.len, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    offer_make(&now->snapshot, &settings->offer, NULL, 0, &offer);
    if (settings->o.dra_driver)
        name_classes(&offer, settings->o.dra_driver);
    kubelet_find_minors(settings, &offer);
    kubelet_judge_mps(NULL, settings->o.mps_root, &now->snapshot, &offer);
    const bool found = kubelet_explain(&offer, &now->snapshot, pod, settings->o.json, &out);
    offer_done(&offer);
    fwrite(out.text, 1, out.len, stdout);
    if (!found)
        fprintf(stderr, "%s: pod '%s' has no device of this node\n", call->path, pod);
    return verb_end(call, found ? EXIT_FINE : EXIT_FINDING);
}
