/* SPDX-License-Identifier: Apache-2.0 */
#include "service/place/replay_report.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"

/* Per cents of arrived demand that the text has. */
static const size_t shown[] = {30, 60, 90, 95, 100, 110, 120, 130};

/* What of each bin the JSON has. */
static const struct {
    const char *name;
    size_t at;
} series[] = {
    {"alloc_at", offsetof(ReplayBin, alloc_percent)},
    {"fragmented_at", offsetof(ReplayBin, fragmented_percent)},
    {"power_w_at", offsetof(ReplayBin, power_w)},
};

void replay_text(const Replay *replay, const char *mode, double decisions_per_s, Str *out)
{
    str_addf(out, "%s: %" PRIu64 " of %" PRIu64 " pods placed, %.2f %% of %.0f GPUs allocated", mode, replay->placed,
             replay->pods,
             replay->gpu_milli ? 100. * (double)replay->gpu_milli_allocated / (double)replay->gpu_milli : 0,
             (double)replay->gpu_milli / CLUSTER_GPU);
    if (isfinite(decisions_per_s))
        str_addf(out, ", %.0f decisions a second", decisions_per_s);
    str_add(out, "\nnot placed:");
    for (ReplayClass class = 0; class < REPLAY_CLASS_END; class ++)
        str_addf(out, "%s %" PRIu64 " %s", class > 0 ? "," : "", replay->failed[class], replay_classes[class].key);
    str_add(out, "\n\narrived  allocated  fragmented     power\n");
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        const ReplayBin *bin = &replay->bins[shown[i]];

        if (bin->pods > 0)
            str_addf(out, "%5zu %%    %5.2f %%     %5.2f %%  %5.0f kW\n", shown[i], bin->alloc_percent,
                     bin->fragmented_percent, bin->power_w / 1000);
    }
}

static void add_series(const Replay *replay, const char *name, size_t at, Str *out)
{
    char percent[24];
    double value;

    json_open(out, name, '{');
    for (size_t i = 0; i < REPLAY_BINS; i++) {
        if (replay->bins[i].pods == 0)
            continue;
        snprintf(percent, sizeof percent, "%zu", i);
        memcpy(&value, (const char *)&replay->bins[i] + at, sizeof value);
        json_add_double(out, percent, value);
    }
    json_close(out, '}');
}

void replay_json(const Replay *replay, const char *mode, double decisions_per_s, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "mode", mode);
    json_add_u64(out, "pods", replay->pods);
    json_add_u64(out, "placed", replay->placed);
    json_add_double(out, "gpus", (double)replay->gpu_milli / CLUSTER_GPU);
    json_add_double(out, "gpus_asked", (double)replay->gpu_milli_asked / CLUSTER_GPU);
    json_add_double(out, "gpus_allocated", (double)replay->gpu_milli_allocated / CLUSTER_GPU);
    json_open(out, "failed", '{');
    for (ReplayClass class = 0; class < REPLAY_CLASS_END; class ++)
        json_add_u64(out, replay_classes[class].key, replay->failed[class]);
    json_close(out, '}');
    json_add_double(out, "decisions_per_s", decisions_per_s);
    for (size_t i = 0; i < ARRAY_LEN(series); i++)
        add_series(replay, series[i].name, series[i].at, out);
    json_close(out, '}');
    str_addc(out, '\n');
}
