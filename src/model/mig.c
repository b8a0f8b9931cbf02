/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

void mig_board_seal(MigBoard *board)
{
    board->slices = board->grid = 0;
    memset(board->engines, 0, sizeof board->engines);
    for (size_t i = 0; i < board->profile_count; i++) {
        const MigProfile *p = &board->profiles[i];
        board->slices = p->slices > board->slices ? p->slices : board->slices;
        board->grid = p->size > board->grid ? p->size : board->grid;
        for (int e = 0; e < MIG_ENGINE_END; e++)
            board->engines[e] = p->engines[e] > board->engines[e] ? p->engines[e] : board->engines[e];
    }
}

/* A 3-slice compute instance is not offered in a 4-slice GPU instance. */
uint32_t mig_compute_sizes(unsigned slices)
{
    static const unsigned sizes[] = {1, 2, 3, 4, 7};
    uint32_t bits = 0;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        if (sizes[i] <= slices && !(sizes[i] == 3 && slices == 4))
            bits |= 1u << sizes[i];
    return bits;
}

void mig_add_compute(MigInstance *instance, uint8_t slices)
{
    size_t at = instance->compute_count++;
    for (; at > 0 && instance->compute[at - 1] < slices; at--)
        instance->compute[at] = instance->compute[at - 1];
    instance->compute[at] = slices;
}

static const uint8_t compute_slices[] = {1, 2, 3, 4, 7, 8, 6}; /* by enumerator */

unsigned mig_compute_slices(unsigned index)
{
    return index < ARRAY_LEN(compute_slices) ? compute_slices[index] : 0;
}

unsigned mig_compute_index(unsigned slices)
{
    for (unsigned i = 0; i < ARRAY_LEN(compute_slices); i++)
        if (compute_slices[i] == slices)
            return i;
    return UINT32_MAX;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)b, *(const char *const *)a);
}

void mig_layout_word(bool enabled, const char **names, size_t count, char to[MIG_LAYOUT_CAP])
{
    Str out;
    str_init_room(&out, to, MIG_LAYOUT_CAP);
    if (!enabled || count == 0)
        str_add(&out, enabled ? "none" : "off");
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0, same; enabled && i < count; i += same) {
        for (same = 1; i + same < count && strcmp(names[i], names[i + same]) == 0;)
            same++;
        str_add(&out, i ? "+" : "");
        if (same > 1)
            str_addf(&out, "%zux", same);
        str_add(&out, names[i]);
    }
}
