/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles of a board, their names, and layouts as lists of names. */
#include "engine/mig/mig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- names -------------------------------------------------------------------------------------------------------- */

/* Reads "Nc." or "Ng." at *text; 0 where it is not there. */
static unsigned read_slices(const char **text, char unit)
{
    char *end;
    if (**text < '1' || **text > '9')
        return 0;
    unsigned long n = strtoul(*text, &end, 10);
    if (n > 64 || end[0] != unit || end[1] != '.')
        return 0;
    *text = end + 2;
    return (unsigned)n;
}

/* Whether a text has the form [Nc.]Ng.Ngb with attributes behind; *ret_base is where the part behind "Nc." begins. */
static bool split_name(const char *name, const char **ret_base, unsigned *ret_compute, unsigned *ret_slices)
{
    const char *at = name;
    char *end;
    *ret_compute = read_slices(&at, 'c');
    *ret_base = at;
    *ret_slices = read_slices(&at, 'g');
    if (!*ret_slices || *at < '0' || *at > '9')
        return false;
    strtoul(at, &end, 10);
    return strncmp(end, "gb", 2) == 0 && (end[2] == '\0' || end[2] == '+' || end[2] == '-');
}

/* Names of profiles with as many slices, or of all where none has. */
static void add_nearest(const MigBoard *board, unsigned slices, Str *to)
{
    bool same = false;
    for (size_t i = 0; i < board->profile_count; i++)
        same |= board->profiles[i].slices == slices;
    const char *between = "";
    for (size_t i = 0; i < board->profile_count; i++) {
        if (same && board->profiles[i].slices != slices)
            continue;
        str_addf(to, "%s%s", between, board->profiles[i].name);
        between = ", ";
    }
}

const MigProfile *mig_profile_find(const MigBoard *board, const char *name, uint8_t *ret_compute, Err *err)
{
    unsigned compute, slices;
    const char *base;
    if (!split_name(name, &base, &compute, &slices)) {
        err_set(err, -EINVAL, "'%s' is not the name of a MIG profile, as 3g.40gb or 1c.3g.40gb are", name);
        return NULL;
    }
    char room[ERR_TEXT_MAX / 2];
    Str names;
    str_init_room(&names, room, sizeof room);
    const MigProfile *found = NULL;
    for (size_t i = 0; !found && i < board->profile_count; i++)
        if (strcmp(board->profiles[i].name, base) == 0)
            found = &board->profiles[i];
    if (!found) {
        add_nearest(board, slices, &names);
        err_set(err, -ENOENT, "%s has no MIG profile '%s'; it has %s", board->name, base, names.text);
        return NULL;
    }
    if (compute && compute != found->slices && !(found->compute_slices >> compute & 1)) {
        const char *between = "";
        for (unsigned c = 1; c <= found->slices; c++)
            if (found->compute_slices >> c & 1) {
                str_addf(&names, "%s%uc", between, c);
                between = ", ";
            }
        err_set(err, -ENOENT, "a %s of %s cannot have a compute instance of %u slices; it can have %s", found->name,
                board->name, compute, names.text);
        return NULL;
    }
    *ret_compute = (uint8_t)(compute ? compute : found->slices);
    return found;
}

void mig_compute_name(const MigBoard *board, const MigInstance *instance, uint8_t slices, Str *to)
{
    const MigProfile *p = &board->profiles[instance->profile];
    if (slices != p->slices)
        str_addf(to, "%uc.", slices);
    str_add(to, p->name);
}

/* --- layouts ------------------------------------------------------------------------------------------------------ */

static unsigned sum_compute(const MigInstance *instance)
{
    unsigned sum = 0;
    for (size_t i = 0; i < instance->compute_count; i++)
        sum += instance->compute[i];
    return sum;
}

int mig_layout_add(const MigBoard *board, MigLayout *wanted, const char *name, unsigned count, Err *err)
{
    uint8_t compute;
    const MigProfile *p = mig_profile_find(board, name, &compute, err);
    if (!p)
        return err ? err->code : -EINVAL;
    uint8_t profile = (uint8_t)(p - board->profiles);
    for (unsigned n = 0; n < count; n++) {
        MigInstance *into = NULL;
        for (size_t i = 0; compute < p->slices && !into && i < wanted->count; i++) {
            MigInstance *old = &wanted->instances[i];
            if (old->profile == profile && old->compute_count < MIG_COMPUTE_MAX &&
                sum_compute(old) + compute <= p->slices)
                into = old;
        }
        if (!into) {
            if (wanted->count == MIG_INSTANCE_MAX)
                return err_set(err, -ENOSPC, "%u x %s are more than a GPU can have", count, name);
            into = &wanted->instances[wanted->count++];
            *into = (MigInstance){.profile = profile, .start = MIG_START_ANY};
        }
        mig_add_compute(into, compute);
    }
    return 0;
}

static bool same_compute(const MigInstance *a, const MigInstance *b)
{
    return a->compute_count == b->compute_count && memcmp(a->compute, b->compute, a->compute_count) == 0;
}

static bool is_same(const MigInstance *a, const MigInstance *b, bool places)
{
    return a->profile == b->profile && (!places || a->start == b->start) && same_compute(a, b);
}

void mig_layout_text(const MigBoard *board, const MigLayout *layout, Str *to)
{
    if (!layout->enabled || layout->count == 0) {
        str_add(to, layout->enabled ? "no instances" : "MIG disabled");
        return;
    }
    const char *between = "";
    for (size_t i = 0; i < layout->count; i++) {
        const MigInstance *one = &layout->instances[i];
        bool before = false;
        unsigned times = 0;
        for (size_t j = 0; j < layout->count; j++) {
            bool same = is_same(one, &layout->instances[j], false);
            before |= same && j < i;
            times += same;
        }
        if (before)
            continue;
        str_add(to, between);
        between = ", ";
        if (times > 1)
            str_addf(to, "%u x ", times);
        if (one->compute_count == 1 && one->compute[0] == board->profiles[one->profile].slices) {
            str_add(to, board->profiles[one->profile].name);
            continue;
        }
        str_add(to, board->profiles[one->profile].name);
        str_add(to, one->compute_count ? " (" : " without compute instances");
        for (size_t c = 0; c < one->compute_count; c++)
            str_addf(to, "%s%uc", c ? "+" : "", one->compute[c]);
        if (one->compute_count)
            str_addc(to, ')');
    }
}

void mig_layout_devices(const MigBoard *board, const MigLayout *layout, char to[MIG_LAYOUT_CAP])
{
    enum { DEVICES_MAX = MIG_INSTANCE_MAX * MIG_COMPUTE_MAX };
    char room[DEVICES_MAX][MIG_NAME_SIZE];
    const char *names[DEVICES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < layout->count; i++)
        for (size_t k = 0; k < layout->instances[i].compute_count; k++, count++) {
            Str name;
            str_init_room(&name, room[count], sizeof room[count]);
            mig_compute_name(board, &layout->instances[i], layout->instances[i].compute[k], &name);
            names[count] = room[count];
        }
    mig_layout_word(layout->enabled, names, count, to);
}

bool mig_layout_equal(const MigLayout *a, const MigLayout *b, bool places)
{
    if (a->enabled != b->enabled || a->count != b->count)
        return false;
    uint32_t taken = 0;
    for (size_t i = 0; i < a->count; i++) {
        size_t j = 0;
        while (j < b->count && (taken >> j & 1 || !is_same(&a->instances[i], &b->instances[j], places)))
            j++;
        if (j == b->count)
            return false;
        taken |= 1u << j;
    }
    return true;
}
