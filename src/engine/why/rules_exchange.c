/* SPDX-License-Identifier: Apache-2.0 */
/* What moves: copies over PCIe, exchange between GPUs and over the network, and the ranks of a job on this node. */
#include "engine/why/rule.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes per second in one direction: 2.5 and 5 GT/s with 8b/10b, 128b/130b from generation 3 on (PCI-SIG). */
static double pcie_limit(const WhyCase *c)
{
    double gen = 0;

    for (int i = c->from; i < ACTIVITY_WINDOW_S; i++)
        gen = fmax(gen, c->in->rows[WHY_OF_PCIE_GEN][i]);
    if (!(gen >= 1) || !(c->in->pcie_lanes >= 1))
        return NAN;
    return c->in->pcie_lanes * (gen < 3 ? 250e6 * gen : 985e6 * exp2(gen - 3));
}

bool why_find_pcie(const WhyCase *c, WhyVerdict *v)
{
    const double limit = pcie_limit(c), share = fmax(c->mean[WHY_OF_PCIE_TX], c->mean[WHY_OF_PCIE_RX]) / limit;

    if (!(share >= limit_PCIE))
        return false;
    v->confidence = why_choose_confidence(share >= limit_PCIE_SURE);
    v->share = fmin(share, 1);
    CITE(c, v, WHY_OF_PCIE_RX, WHY_OF_PCIE_TX, WHY_OF_UTIL, WHY_OF_SM);
    why_cite_number(v, metric_get(METRIC_PCIE_LINK_GEN)->name, "what the link can carry", WHY_UNIT_BYTES_PER_SECOND,
                    limit);
    why_write_text(v, "bound by copies over PCIe: they take %d %% of what the link can carry", why_percent(share));
    return true;
}

static bool is_exchange(const WhyInput *in, int i)
{
    return in->rows[WHY_OF_UTIL][i] >= limit_ALWAYS && in->rows[WHY_OF_SM][i] <= limit_EXCHANGE_SM &&
           in->rows[WHY_OF_TENSOR][i] <= limit_EXCHANGE_TENSOR && in->rows[WHY_OF_LINK][i] >= limit_EXCHANGE_LINK;
}

/* The adapter whose link is fullest in one direction, and how full; NULL: none whose link is known. */
static const WhyAdapter *find_fullest(const WhyCase *c, double *ret_share)
{
    const WhyAdapter *most = NULL;

    *ret_share = NAN;
    for (size_t i = 0; i < c->in->adapter_count; i++) {
        const WhyAdapter *a = &c->in->adapters[i];
        const double share = fmax(a->sent, a->received) / a->link;

        if (isfinite(share) && !(share <= *ret_share)) {
            *ret_share = share;
            most = a;
        }
    }
    return most;
}

static void cite_adapter(WhyVerdict *v, const WhyAdapter *a)
{
    const bool out = a->sent >= a->received;

    why_cite_named(v, a->name, "/sys/class/infiniband, /sys/class/net", out ? "sent" : "received",
                   WHY_UNIT_BYTES_PER_SECOND, out ? a->sent : a->received);
    why_cite_named(v, a->name, "/sys/class/infiniband, /sys/class/net", "link", WHY_UNIT_BYTES_PER_SECOND, a->link);
    if (a->retries > 0)
        why_cite_named(v, a->name, "hw_counters", "packets sent again, per second", WHY_UNIT_COUNT, a->retries);
    if (a->notices > 0)
        why_cite_named(v, a->name, "hw_counters", "congestion notices, per second", WHY_UNIT_COUNT, a->notices);
}

/* Most seconds are exchange between GPUs; the adapters tell whether it is the network behind NVLink. */
bool why_find_network(const WhyCase *c, WhyVerdict *v)
{
    const double share = why_share_of_seconds(c, is_exchange, NULL);
    double full;
    const WhyAdapter *fullest = find_fullest(c, &full);
    char behind[WHY_TEXT_CAP / 2];

    if (share < limit_EXCHANGE_SHARE)
        return false;
    v->confidence = why_choose_confidence(full >= limit_NETWORK_SURE);
    v->share = share;
    CITE(c, v, WHY_OF_LINK, WHY_OF_SM, WHY_OF_TENSOR, WHY_OF_UTIL);
    if (!fullest)
        snprintf(behind, sizeof behind,
                 "NVLink or the network behind it, whose adapters' counters are not to be read on this node");
    else if (full >= limit_NETWORK)
        snprintf(behind, sizeof behind, "adapter %.31s carries %d %% of its link", fullest->name, why_percent(full));
    else if (full <= limit_NETWORK_REST)
        snprintf(behind, sizeof behind, "its network adapters are at rest, so it is NVLink");
    else
        snprintf(behind, sizeof behind, "no adapter is full here; the fullest, %.31s, carries %d %% of its link",
                 fullest->name, why_percent(full));
    if (fullest)
        cite_adapter(v, fullest);
    why_write_text(v,
                   "bound by the exchange between GPUs: %d %% of the time bytes move and next to nothing computes; %s",
                   why_percent(share), behind);
    return true;
}

/* Kernels that spin or nearly rest while an adapter is full: it exchanges over the network. The adapter may carry
 * another job's bytes, so a collective that hangs is not excluded. */
bool why_find_full_adapter(const WhyCase *c, WhyVerdict *v)
{
    double full;
    const WhyAdapter *fullest = find_fullest(c, &full);

    if (!(full >= limit_NETWORK) || !(c->mean[WHY_OF_TENSOR] <= limit_EXCHANGE_TENSOR) ||
        !(c->mean[WHY_OF_SM] <= limit_EXCHANGE_SM) || !(c->mean[WHY_OF_UTIL] >= limit_ALWAYS))
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = fmin(full, 1);
    why_add_between(v, WHY_COLLECTIVE);
    cite_adapter(v, fullest);
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_TENSOR);
    why_write_text(
        v,
        "100 %% busy by utilisation, yet it waits for the network: adapter %.31s carries %d %% of its link and "
        "%d %% of the multiprocessors work",
        fullest->name, why_percent(full), why_percent(c->mean[WHY_OF_SM]));
    return true;
}

bool why_find_collective(const WhyCase *c, WhyVerdict *v)
{
    v->confidence = WHY_HIGH;
    v->share = 1;
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_TENSOR, WHY_OF_DRAM, WHY_OF_LINK, WHY_OF_POWER);
    why_write_text(
        v,
        "100 %% busy by utilisation, yet idle: it spins in a collective; %d %% of the multiprocessors, no tensor "
        "work, no traffic",
        why_percent(c->mean[WHY_OF_SM]));
    return true;
}

bool why_find_other_rank(const WhyCase *c, WhyVerdict *v)
{
    (void)why_find_collective(c, v);
    why_write_text(v, "100 %% busy by utilisation, yet idle: it %s", c->activity->text);
    return true;
}

/* --- the ranks of a job on this node ------------------------------------------------------------------------------ */

/* Of the job's GPUs the one whose multiprocessors are active for longer than those of all others: it computes while
 * they wait. 0: this one, i + 1: peer i; SIZE_MAX: none stands apart. */
static size_t find_late_rank(const WhyCase *c, double *ret_median)
{
    double values[NODE_GPUS_MAX], apart[NODE_GPUS_MAX];
    const size_t count = c->in->peer_count + 1;
    size_t top = 0, above = 0;

    if (count < 3 || count > NODE_GPUS_MAX || !(c->mean[WHY_OF_UTIL] >= limit_ALWAYS))
        return SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        values[i] = i == 0 ? c->mean[WHY_OF_SM] : c->in->peers[i - 1].sm;
        if (!isfinite(values[i]))
            return SIZE_MAX;
        top = values[i] > values[top] ? i : top;
    }
    memcpy(apart, values, count * sizeof *values);
    const double median = why_median(apart, count);
    for (size_t i = 0; i < count; i++)
        apart[i] = fabs(values[i] - median);
    const double least = fmax(limit_RANK_APART, 3 * 1.4826 * why_median(apart, count));
    for (size_t i = 0; i < count; i++)
        above += values[i] > median + least;
    *ret_median = median;
    return above == 1 ? top : SIZE_MAX;
}

/* Beside another cause: part of each step is waiting. */
bool why_find_late_peer(const WhyCase *c, WhyVerdict *v)
{
    double median;
    const size_t late = find_late_rank(c, &median);

    if (late == SIZE_MAX || late == 0)
        return false;
    const WhyPeer *peer = &c->in->peers[late - 1];
    v->confidence = WHY_MEDIUM;
    v->share = peer->sm - c->mean[WHY_OF_SM];
    CITE(c, v, WHY_OF_SM);
    why_cite_number(v, metric_get(METRIC_PROF_SM_ACTIVE)->name, "SM active of the late rank", WHY_UNIT_RATIO, peer->sm);
    why_write_text(v,
                   "waits a part of each step for GPU %" PRIu32 " of its job, which computes %d %% of the time longer",
                   peer->index, why_percent(v->share));
    return true;
}

bool why_find_straggler(const WhyCase *c, WhyVerdict *v)
{
    double median;

    if (find_late_rank(c, &median) != 0)
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = c->mean[WHY_OF_SM] - median;
    CITE(c, v, WHY_OF_SM, WHY_OF_CLOCK);
    why_cite_number(v, metric_get(METRIC_PROF_SM_ACTIVE)->name, "SM active of its job's GPUs, median", WHY_UNIT_RATIO,
                    median);
    why_write_text(v,
                   "the other GPUs of its job wait for it, at about %d %% of its speed: it computes %d %% of the time "
                   "longer than they",
                   why_percent(median / c->mean[WHY_OF_SM]), why_percent(v->share));
    return true;
}
