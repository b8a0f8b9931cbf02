/* SPDX-License-Identifier: Apache-2.0 */
/* Taking units and giving them back. */

#include "engine/store/slab.h"

#include <assert.h>

uint32_t slab_take(Slab *slab)
{
    uint32_t unit = slab->free;

    slab->used++;
    if (unit == SLAB_NONE) {
        assert(slab->touched < slab->count);
        return slab->touched++;
    }
    slab->free = slab->next[unit];
    return unit;
}

void slab_give(Slab *slab, uint32_t unit, size_t count)
{
    for (; count > 0; count--) {
        uint32_t after = slab->next[unit];

        slab->next[unit] = slab->free;
        slab->free = unit;
        slab->used--;
        unit = after;
    }
}
