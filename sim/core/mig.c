/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MIG arithmetic: interval packing on the memory-slice axis, the ids and identities that follow from a placement.
 * Everything is a pure function of the board's profile table and the GPU's condition.
 */
#include "sim/core/control.h"

#include <stdio.h>
#include <string.h>

#include "sim/core/num.h"

/* Memory slices in use, as a bit mask. */
static uint32_t used_mask(const SimCond *cond)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (cond->gi[i].used)
            mask |= ((1u << cond->gi[i].size) - 1) << cond->gi[i].start;
    return mask;
}

static uint32_t span_mask(const SimProfile *p, uint32_t start)
{
    return ((1u << p->place_size) - 1) << start;
}

typedef struct Spent {
    uint32_t slices, dec, jpg, ofa, enc, same;
} Spent;

static Spent sum_spent(const SimBoard *board, const SimCond *cond, uint32_t profile)
{
    Spent s = {0};
    for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
        if (!cond->gi[i].used)
            continue;
        const SimProfile *p = &board->profiles[cond->gi[i].profile];
        s.slices += p->slices;
        s.dec += p->dec;
        s.enc += p->enc;
        s.jpg += p->jpg;
        s.ofa += p->ofa;
        s.same += cond->gi[i].profile == profile;
    }
    return s;
}

/* Slices, engines and the profile's own count allow one more. */
static int is_affordable(const SimBoard *board, const SimCond *cond, uint32_t profile)
{
    const SimProfile *p = &board->profiles[profile];
    Spent s = sum_spent(board, cond, profile);
    return s.same < p->max_instances && s.slices + p->slices <= board->mig_slices &&
           s.dec + p->dec <= board->dec_engines && s.enc + p->enc <= board->enc_engines &&
           s.jpg + p->jpg <= board->jpg_engines && s.ofa + p->ofa <= board->ofa_engines;
}

/* Number of free starts of larger profiles that a placement would block. */
static uint32_t count_spoiled(const SimBoard *board, uint32_t used, const SimProfile *p, uint32_t start)
{
    uint32_t count = 0, taken = used | span_mask(p, start);
    for (uint32_t i = 0; i < board->profile_count; i++) {
        const SimProfile *big = &board->profiles[i];
        if (big->place_size < p->place_size || (big->place_size == p->place_size && big->slices <= p->slices))
            continue;
        for (uint32_t k = 0; k < big->place_count; k++) {
            uint32_t want = span_mask(big, big->place_start[k]);
            count += !(want & used) && (want & taken);
        }
    }
    return count;
}

int sim_mig_place(const SimBoard *board, const SimCond *cond, uint32_t profile, int start)
{
    if (profile >= board->profile_count || !is_affordable(board, cond, profile))
        return SIM_NONE;
    const SimProfile *p = &board->profiles[profile];
    uint32_t used = used_mask(cond), best_cost = UINT32_MAX;
    int best = SIM_NONE;
    for (uint32_t k = 0; k < p->place_count; k++) {
        uint32_t at = p->place_start[k];
        if ((start >= 0 && at != (uint32_t)start) || (span_mask(p, at) & used))
            continue;
        uint32_t cost = count_spoiled(board, used, p, at);
        if (cost < best_cost) { /* among equals the lowest start */
            best_cost = cost;
            best = (int)at;
        }
    }
    return best;
}

uint32_t sim_mig_capacity(const SimBoard *board, const SimCond *cond, uint32_t profile)
{
    SimCond trial = *cond;
    uint32_t made = 0;
    for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
        if (trial.gi[i].used)
            continue;
        int start = sim_mig_place(board, &trial, profile, SIM_NONE);
        if (start < 0)
            break;
        trial.gi[i] = (SimGi){.used = 1,
                              .profile = (uint8_t)profile,
                              .start = (uint8_t)start,
                              .size = (uint8_t)board->profiles[profile].place_size};
        made++;
    }
    return made;
}

/* Ids are numbered like a heap over the grid: the whole is 0, halves 1 and 2, quarters 3.., units 7.. on 8 slices. */
uint32_t sim_mig_gi_id(const SimBoard *board, const SimCond *cond, uint32_t size, uint32_t start)
{
    uint32_t parts = size ? board->mig_grid / size : 1;
    uint32_t id = parts - 1 + (size ? start / size : 0);
    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (cond->gi[i].used && cond->gi[i].id == id)
            return id + 2 * board->mig_grid; /* cannot happen with disjoint placements */
    return id;
}

uint32_t sim_ci_slices(const SimProfile *profile, uint32_t ci_index, uint32_t *ret_sm)
{
    static const uint32_t slices_of[] = {1, 2, 3, 4, 7, 8, 6, 1};
    if (ci_index >= sizeof slices_of / sizeof slices_of[0])
        return 0;
    uint32_t slices = slices_of[ci_index];
    int offered = slices <= profile->slices && slices != 8 && slices != 6 && ci_index != 7;
    if (slices == 3 && profile->slices == 4)
        offered = 0;
    if (!offered)
        return 0;
    if (ret_sm) {
        uint32_t unit = profile->slices ? profile->sm / profile->slices : 0;
        if (profile->slices == 3 || profile->slices == 7)
            unit -= unit % 2 ? 1 : 0; /* TPCs come in pairs of SMs */
        if (profile->slices == 3 && unit > 16)
            unit = 16; /* a 3-slice instance keeps the rest for its full-size compute instance */
        if (profile->slices == 7 && unit > 16)
            unit = profile->sm >= 132 ? (profile->sm > 140 ? 18 : 16) : 14;
        *ret_sm = slices == profile->slices ? profile->sm : slices * unit;
    }
    return slices;
}

int sim_ci_place(const SimBoard *board, const SimCond *cond, const SimGi *gi, uint32_t slices, int start)
{
    uint32_t used = 0, want = (1u << slices) - 1, room = board->profiles[gi->profile].slices;
    for (uint32_t i = 0; i < SIM_CI_MAX; i++)
        if (cond->ci[i].used && cond->ci[i].gi_id == gi->id)
            used |= ((1u << cond->ci[i].size) - 1) << cond->ci[i].start;
    for (uint32_t at = 0; at + slices <= room; at++)
        if (!((want << at) & used) && (start < 0 || (uint32_t)start == at))
            return (int)at;
    return SIM_NONE;
}

static uint64_t order_key(const SimCond *cond, uint32_t ci)
{
    return ((uint64_t)cond->ci[ci].gi_id << 32) | cond->ci[ci].id;
}

int sim_mig_device(const SimCond *cond, uint32_t i, uint32_t *ret_gi, uint32_t *ret_ci)
{
    uint32_t found = SIM_CI_MAX;
    uint64_t last = 0;
    for (uint32_t rank = 0; rank <= i; rank++) { /* ascending by instance id, then compute instance id */
        found = SIM_CI_MAX;
        for (uint32_t c = 0; c < SIM_CI_MAX; c++) {
            if (!cond->ci[c].used || (rank > 0 && order_key(cond, c) <= last))
                continue;
            if (found == SIM_CI_MAX || order_key(cond, c) < order_key(cond, found))
                found = c;
        }
        if (found == SIM_CI_MAX)
            return 0;
        last = order_key(cond, found);
    }
    for (uint32_t g = 0; g < SIM_GI_MAX; g++) {
        if (cond->gi[g].used && cond->gi[g].id == cond->ci[found].gi_id) {
            *ret_gi = g;
            *ret_ci = found;
            return 1;
        }
    }
    return 0;
}

void sim_mig_uuid(const SimGpuId *gpu, const SimGi *gi, const SimCi *ci, char *buf)
{
    uint64_t base = 0;
    for (const char *p = gpu->uuid; *p; p++)
        base = base * 31 + (uint8_t)*p;
    uint64_t a = sim_hash(base, gi->id * 256u + gi->start, ci->id * 256u + ci->start);
    uint64_t b = sim_hash(a, gi->size, ci->size);
    snprintf(buf, 48, "MIG-%08x-%04x-5%03x-%04x-%012llx", (uint32_t)(a >> 32), (uint32_t)(a >> 16) & 0xffff,
             (uint32_t)a & 0xfff, 0x8000u | ((uint32_t)(b >> 48) & 0x3fff),
             (unsigned long long)(b & 0xffffffffffffull));
}

/* --- NVSwitches of a baseboard: how many are PCI functions, and where (as on DGX A100 and DGX H100) -------------- */

enum { AMPERE = 7, HOPPER = 9, AMPERE_SWITCHES = 6, HOPPER_SWITCHES = 4, AMPERE_BUS = 0xc4, HOPPER_BUS = 0x05 };

uint32_t sim_switch_count(const SimBoard *board)
{
    if (!board->link_count || !board->link_to_switch || board->arch > HOPPER)
        return 0;
    return board->arch <= AMPERE ? AMPERE_SWITCHES : HOPPER_SWITCHES;
}

uint32_t sim_switch_bus(const SimBoard *board, uint32_t n)
{
    return (board->arch <= AMPERE ? AMPERE_BUS : HOPPER_BUS) + n;
}
