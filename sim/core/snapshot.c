/* SPDX-License-Identifier: Apache-2.0 */
/* This thread's last look at each GPU, kept until the tick or the plan changes: what makes a getter cheap. */
#include <stdlib.h>

#include "sim/core/control.h"
#include "sim/core/state.h"

typedef struct Snapshots {
    SimImage *image;
    SimNow now[];
} Snapshots;

static __thread Snapshots *snapshots;
static pthread_key_t snapshots_key;
static pthread_once_t snapshots_once = PTHREAD_ONCE_INIT;

static void snapshots_key_make(void)
{
    pthread_key_create(&snapshots_key, free);
}

static Snapshots *snapshots_of(SimImage *image)
{
    pthread_once(&snapshots_once, snapshots_key_make);
    free(snapshots);
    snapshots = calloc(1, sizeof(Snapshots) + image->gpu_count * sizeof(SimNow));
    if (!snapshots)
        abort();
    snapshots->image = image;
    for (uint32_t i = 0; i < image->gpu_count; i++)
        snapshots->now[i].plan_seq = 1; /* never a published plan */
    pthread_setspecific(snapshots_key, snapshots);
    return snapshots;
}

const SimNow *sim_state_now(SimImage *image, uint32_t gpu)
{
    Snapshots *s = snapshots && snapshots->image == image ? snapshots : snapshots_of(image);
    SimNow *now = &s->now[gpu];
    uint64_t t = sim_clock_now(image);
    if (now->plan_seq != atomic_load_explicit(&image->plan_seq, memory_order_acquire) || t < now->from_ns ||
        t >= now->until_ns)
        sim_state_at(image, gpu, t, now);
    return now;
}
