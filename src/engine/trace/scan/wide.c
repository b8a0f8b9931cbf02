/* SPDX-License-Identifier: Apache-2.0 */
/* Ids over 32 bits (other vendors' correlations): numbered in their own order, above all others. */
#include <stdlib.h>

#include "engine/trace/scan/inside.h"

static uint32_t *field_at(Profile *profile, const Wide *wide)
{
    switch (wide->field) {
    case WIDE_GPU_LINK:
        return &profile->gpu.link[wide->row];
    case WIDE_GPU_EXTERNAL:
        return &profile->gpu.external[wide->row];
    case WIDE_HOST_LINK:
        return &profile->host.link[wide->row];
    case WIDE_SYNC_LINK:
        return &profile->syncs.at[wide->row].link;
    case WIDE_SYNC_WAIT:
        break;
    }
    return &profile->syncs.at[wide->row].wait_link;
}

static uint32_t largest_id(const uint32_t *ids, size_t count, uint32_t max)
{
    for (size_t i = 0; i < count; i++)
        max = ids[i] > max ? ids[i] : max;
    return max;
}

static int by_id(const void *a, const void *b)
{
    const Wide *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

void wides_settle(Wides *wides, Profile *profile, TraceKnown *learn)
{
    uint32_t number;

    if (wides->len == 0)
        return;
    number = largest_id(profile->gpu.link, profile->gpu.len, 0);
    number = largest_id(profile->gpu.external, profile->gpu.len, number);
    number = largest_id(profile->host.link, profile->host.len, number);
    for (size_t i = 0; i < profile->syncs.len; i++) {
        const uint32_t both[] = {profile->syncs.at[i].link, profile->syncs.at[i].wait_link};

        number = largest_id(both, 2, number);
    }
    qsort(wides->at, wides->len, sizeof wides->at[0], by_id);
    for (size_t i = 0; i < wides->len; i++) {
        const bool another = i == 0 || by_id(&wides->at[i], &wides->at[i - 1]) != 0;

        if (another && ++number == 0)
            number = 1; /* only where ids go up to 2^32 already: it wraps */
        if (another && learn)
            known_add_id(learn, wides->at[i].id, number);
        *field_at(profile, &wides->at[i]) = number;
    }
    vec_clear(wides);
}
