/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker kubelet devices`: once, and then it ends; as labels. */
#include <stdio.h>

#include "base/cleanup.h"
#include "service/kubelet/dra.h"
#include "source/proc/task.h"
#include "verb/agent/control.h"
#include "verb/kubelet/kubelet.h"

enum { ANSWER_MS = 25000, CALL_MS = 20000, DEVICES_MAX_BYTES = 4 << 20, BOOT_CAP = 64 };

static bool has_mig(const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].reading.mig)
            return true;
    return false;
}

int kubelet_made_read(VerbCall *call, const KubeletOptions *o, KubeletMade *ret)
{
    CLEANUP(str_done) Str answer = str_limited(CONTROL_REPLY_MAX);
    uint64_t revision;
    int code;

    *ret = (KubeletMade){.now = snapshot_buffer_new()};
    TRY(control_ask(control_path(o->control, call->arena), "devices", ANSWER_MS, &answer, &code, &call->err));
    TRY(kubelet_read_answer(&answer, ret->now, &revision, &call->err));
    TRY(mig_driver_open(o->library ? o->library : "", CALL_MS, &ret->driver, &call->err));
    TRY(mig_driver_read_make(ret->driver, &ret->make, &call->err));
    return has_mig(&ret->now->node) ? mig_driver_read(ret->driver, &ret->mig, &call->err) : 0;
}

void kubelet_made_done(KubeletMade *made)
{
    mig_driver_close(made->driver);
    snapshot_buffer_free(made->now);
}

const char *kubelet_boot_id(const KubeletOptions *o, Arena *arena)
{
    char boot[BOOT_CAP] = "";

    (void)proc_text(o->root, "sys/kernel/random", "boot_id", boot, sizeof boot, NULL);
    return arena_strdup(arena, boot);
}

static int list_devices(VerbCall *call, const KubeletSettings *settings, Str *out)
{
    CLEANUP(kubelet_made_done) KubeletMade made = {0};
    CLEANUP(offer_done) Offer offer = {0};
    CLEANUP(prepared_free_all) Prepared *prepared = NULL;
    CLEANUP_VEC ClaimPlaces places = {0};
    const KubeletOptions *o = &settings->o;
    OfferConfig config = settings->offer;

    config.mig = OFFER_MIG_MIXED;
    TRY(kubelet_made_read(call, o, &made));
    if (o->make_mig)
        TRY(prepared_load(prepared_path(o->plugins, o->dra_driver, call->arena), o->dra_driver,
                          kubelet_boot_id(o, call->arena), &prepared, &call->err));
    prepared_places(prepared, &places);
    offer_make(&made.now->snapshot, &config, NULL, 0, &offer);
    claim_devices(&(ClaimNode){.snapshot = &made.now->snapshot,
                               .make = made.make,
                               .mig = made.mig,
                               .offer = &offer,
                               .makes_mig = o->make_mig,
                               .places = places.at,
                               .place_count = places.len},
                  out);
    str_addc(out, '\n');
    return 0;
}

int kubelet_devices_run(VerbCall *call, const void *options UNUSED)
{
    CLEANUP(kubelet_settings_free_at) KubeletSettings *settings = NULL;
    CLEANUP(str_done) Str devices = str_limited(DEVICES_MAX_BYTES);

    if (kubelet_settings_load(call, NULL, &settings, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (list_devices(call, settings, &devices) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    fwrite(devices.text, 1, devices.len, stdout);
    return verb_end(call, EXIT_FINE);
}
