/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker kubelet devices`: once, and then it ends; as labels. */
#include <stdio.h>

#include "base/cleanup.h"
#include "engine/kubelet/claim.h"
#include "source/mig/mig_driver.h"
#include "verb/agent/control.h"
#include "verb/kubelet/kubelet.h"

enum { ANSWER_MS = 25000, CALL_MS = 20000, DEVICES_MAX_BYTES = 4 << 20 };

CLEANUP_POINTER(MigDriver, mig_driver_close);
CLEANUP_POINTER(SnapshotBuffer, snapshot_buffer_free);

static int list_devices(VerbCall *call, const KubeletSettings *settings, Str *out)
{
    const KubeletOptions *o = &settings->o;
    CLEANUP(snapshot_buffer_free_at) SnapshotBuffer *now = snapshot_buffer_new();
    CLEANUP(mig_driver_close_at) MigDriver *driver = NULL;
    CLEANUP(str_done) Str answer = str_limited(CONTROL_REPLY_MAX);
    OfferConfig config = settings->offer;
    const MakeNode *make;
    const MigNode *mig;
    uint64_t revision;
    Offer offer = {0};
    int code;

    config.mig = OFFER_MIG_MIXED;
    TRY(control_ask(control_path(o->control, call->arena), "devices", ANSWER_MS, &answer, &code, &call->err));
    TRY(kubelet_read_answer(&answer, now, &revision, &call->err));
    TRY(mig_driver_open(o->library ? o->library : "", CALL_MS, &driver, &call->err));
    TRY(mig_driver_read(driver, &mig, &call->err));
    MigNode *layouts = arena_memdup(call->arena, mig, sizeof *mig); /* the next reading overwrites it */
    TRY(mig_driver_read_make(driver, &make, &call->err));
    offer_make(&now->snapshot, &config, NULL, 0, &offer);
    claim_devices(&now->snapshot, make, layouts, &offer, out);
    str_addc(out, '\n');
    offer_done(&offer);
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
