/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each demand gets the smallest profile that holds it. Profiles are a chain (mig_suggest_chain), so that the work of
 * every moment has its instances if, for each profile, there are as many instances of it or larger ones as there were
 * demands for such at once. These instances are packed on the fewest GPUs by a search over the multisets that fit on
 * one.
 */
#include "engine/mig/suggest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

enum { CLASS_MAX = 8, CODES_MAX = 4096, STEPS_MAX = 20000 };

const WordRow mig_risks[] = {MIG_RISK_TABLE(WORD_ROW)};
const WordRow mig_advices[] = {MIG_ADVICE_TABLE(WORD_ROW)};

/* --- what a demand needs ------------------------------------------------------------------------------------------ */

static bool is_plain(const MigProfile *p)
{
    return !strpbrk(p->name, "+-");
}

static const MigProfile *find_whole(const MigBoard *board)
{
    for (size_t i = 0; i < board->profile_count; i++)
        if (board->profiles[i].slices == board->slices && is_plain(&board->profiles[i]))
            return &board->profiles[i];
    return NULL;
}

static bool is_smaller(const MigProfile *a, const MigProfile *b)
{
    if (a->memory_mib != b->memory_mib)
        return a->memory_mib < b->memory_mib;
    return a->sm_count != b->sm_count ? a->sm_count < b->sm_count : a->slices < b->slices;
}

size_t mig_suggest_chain(const MigBoard *board, uint8_t ret[MIG_PROFILE_MAX])
{
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < board->profile_count; i++) {
        const MigProfile *p = &board->profiles[i];
        if (!is_plain(p) || p->slices == board->slices || !p->memory_mib || !p->sm_count || !p->starts)
            continue;
        size_t at = count++;
        for (; at > 0 && is_smaller(p, &board->profiles[ret[at - 1]]); at--)
            ret[at] = ret[at - 1];
        ret[at] = (uint8_t)i;
    }
    for (size_t i = 0; i < count && kept < CLASS_MAX; i++)
        if (kept == 0 || board->profiles[ret[i]].sm_count >= board->profiles[ret[kept - 1]].sm_count)
            ret[kept++] = ret[i];
    return kept;
}

static bool has_risk(const MigDemand *d, MigRisk risk)
{
    return d->risks >> risk & 1;
}

static uint32_t add_margin(double value, unsigned percent, uint32_t most)
{
    const double need = ceil(value * (100 + percent) / 100);
    return need < most ? (uint32_t)need : most;
}

static void set_need(const MigBoard *board, MigDemand *d)
{
    uint8_t chain[MIG_PROFILE_MAX];
    const size_t count = mig_suggest_chain(board, chain);
    const MigProfile *device = d->device == MIG_WHOLE_GPU ? find_whole(board) : &board->profiles[d->device];
    const double mib = (double)d->memory_peak_bytes / MIB;
    d->profile = MIG_WHOLE_GPU;
    if (!device || !device->memory_mib || !device->sm_count)
        return;
    d->need_mib = has_risk(d, MIG_RISK_MEMORY_UNKNOWN) ? device->memory_mib
                                                       : add_margin(mib, MIG_MEMORY_MARGIN_PERCENT, device->memory_mib);
    d->need_sms = has_risk(d, MIG_RISK_SM_UNKNOWN)
                      ? device->sm_count
                      : add_margin(d->sm_peak * device->sm_count, MIG_SM_MARGIN_PERCENT, device->sm_count);
    if (has_risk(d, MIG_RISK_SHORTAGE))
        d->need_mib = device->memory_mib + 1;
    if (has_risk(d, MIG_RISK_MEDIA) || (has_risk(d, MIG_RISK_SEVERAL) && d->device == MIG_WHOLE_GPU))
        return;
    for (size_t i = 0; i < count && d->profile == MIG_WHOLE_GPU; i++) {
        const MigProfile *p = &board->profiles[chain[i]];
        if (p->memory_mib < d->need_mib || p->sm_count < d->need_sms)
            continue;
        d->profile = chain[i];
        d->risks |= (uint32_t)(mib * 100 > MIG_TIGHT_PERCENT * (double)p->memory_mib) << MIG_RISK_TIGHT_MEMORY;
        d->risks |= (uint32_t)(d->sm_peak * device->sm_count * 100 > MIG_TIGHT_PERCENT * (double)p->sm_count)
                    << MIG_RISK_TIGHT_SM;
    }
}

/* Why a GPU has to stay as it is. */
static void explain_whole(const MigBoard *board, const MigDemand *d, char *to, size_t size)
{
    const char *in = d->device == MIG_WHOLE_GPU ? "a whole GPU" : board->profiles[d->device].name;
    if (has_risk(d, MIG_RISK_SEVERAL) && d->device == MIG_WHOLE_GPU)
        snprintf(to, size, "%.100s held several GPUs at once: it needs whole GPUs", d->owner);
    else if (has_risk(d, MIG_RISK_MEDIA))
        snprintf(to, size, "%.100s runs in a %s, which is kept for its engines", d->owner, in);
    else if (has_risk(d, MIG_RISK_SHORTAGE))
        snprintf(to, size, "%.100s ran short of memory on %s, and no instance has more", d->owner, in);
    else if (d->need_mib == 0)
        snprintf(to, size, "what %s of this board has is not known", in);
    else
        snprintf(to, size, "%.100s needs %u MiB and %u SMs with a margin: no instance has that", d->owner, d->need_mib,
                 d->need_sms);
}

/* --- how much at once --------------------------------------------------------------------------------------------- */

typedef struct Edge {
    uint64_t ns;
    size_t demand;
    bool begins;
} Edge;

/* All in the order of time; of one instant the ends first. */
typedef struct Edges {
    Edge *at;
    size_t count;
} Edges;

static int compare_uses(const void *a, const void *b)
{
    const MigUse *x = a, *y = b;
    if (x->demand != y->demand)
        return x->demand < y->demand ? -1 : 1;
    return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static int compare_edges(const void *a, const void *b)
{
    const Edge *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    return (int)x->begins - (int)y->begins;
}

/* Times of one demand that touch are one. */
static Edges sort_edges(MigUse *uses, size_t count, MigDemand *demands, Arena *arena)
{
    Edges edges = {.at = arena_calloc(arena, 2 * count + 1, sizeof(Edge))};
    if (count > 1)
        qsort(uses, count, sizeof *uses, compare_uses);
    for (size_t i = 0; i < count; i++) {
        Edge *last = edges.count ? &edges.at[edges.count - 1] : NULL;
        if (uses[i].from_ns >= uses[i].until_ns)
            continue;
        if (last && last->demand == uses[i].demand && uses[i].from_ns <= last->ns) {
            last->ns = last->ns > uses[i].until_ns ? last->ns : uses[i].until_ns;
            continue;
        }
        edges.at[edges.count++] = (Edge){uses[i].from_ns, uses[i].demand, true};
        edges.at[edges.count++] = (Edge){uses[i].until_ns, uses[i].demand, false};
    }
    for (size_t i = 0; i < edges.count; i += 2)
        demands[edges.at[i].demand].held_ns += edges.at[i + 1].ns - edges.at[i].ns;
    if (edges.count > 1)
        qsort(edges.at, edges.count, sizeof *edges.at, compare_edges);
    return edges;
}

/* GPUs of one board, between which work may move. */
typedef struct Group {
    const MigNode *node;
    const MigBoard *board;
    size_t members[MIG_GPUS_MAX]; /* positions in the node */
    size_t count;
    size_t class_count;
    uint8_t classes[MIG_PROFILE_MAX]; /* the chain of profiles */
    unsigned need[CLASS_MAX];         /* instances of each */
    bool shortage;                    /* some work needs more than it had */
    bool larger_shared;
} Group;

static bool has_member(const Group *group, size_t gpu)
{
    for (size_t i = 0; i < group->count; i++)
        if (group->members[i] == gpu)
            return true;
    return false;
}

static size_t find_class(const Group *group, const MigDemand *d)
{
    size_t i = 0;
    while (group->classes[i] != d->profile)
        i++;
    return i;
}

/* Sets `need`: for each class as many instances of it or larger ones as there were demands for such at once. */
static void count_need(Group *group, const MigDemand *demands, const Edges *edges)
{
    unsigned now[CLASS_MAX] = {0}, most[CLASS_MAX + 1] = {0}, own[CLASS_MAX] = {0}, sum = 0;
    for (size_t i = 0; i < edges->count; i++) {
        const MigDemand *d = &demands[edges->at[i].demand];
        if (!has_member(group, d->gpu))
            continue;
        const size_t class = find_class(group, d);
        now[class] += edges->at[i].begins ? 1u : -1u;
        own[class] = now[class] > own[class] ? now[class] : own[class];
        group->shortage |= has_risk(d, MIG_RISK_SHORTAGE);
        unsigned larger = 0;
        for (size_t c = group->class_count; c-- > 0;) {
            larger += now[c];
            most[c] = larger > most[c] ? larger : most[c];
        }
    }
    for (size_t c = 0; c < group->class_count; c++) {
        group->need[c] = most[c] - most[c + 1];
        sum += own[c];
    }
    group->larger_shared = sum > most[0];
}

/* --- packing ------------------------------------------------------------------------------------------------------ */

typedef struct Bin {
    uint8_t times[CLASS_MAX];
} Bin;

/* The multisets of classes that fit on one GPU, each with a number: its digits are how often a class is in it. */
typedef struct Packer {
    const Group *group;
    size_t code_count, radix[CLASS_MAX];
    bool *fits;  /* by number */
    Bin *digits; /* by number */
    unsigned left[CLASS_MAX];
    Bin bins[MIG_GPUS_MAX];
    size_t bin_count;
    unsigned steps;
} Packer;

static void add_bin(const Group *group, const Bin *bin, MigLayout *to)
{
    for (size_t c = group->class_count; c-- > 0;)
        for (unsigned n = 0; n < bin->times[c] && to->count < MIG_INSTANCE_MAX; n++) {
            MigInstance *one = &to->instances[to->count++];
            *one = (MigInstance){.profile = group->classes[c], .start = MIG_START_ANY};
            mig_add_compute(one, group->board->profiles[one->profile].slices);
        }
}

static unsigned sum_slices(const Group *group, const Bin *bin)
{
    unsigned sum = 0;
    for (size_t c = 0; c < group->class_count; c++)
        sum += bin->times[c] * group->board->profiles[group->classes[c]].slices;
    return sum;
}

static bool bin_fits(const Group *group, const Bin *bin)
{
    unsigned instances = 0;
    MigLayout layout = {.enabled = true};
    for (size_t c = 0; c < group->class_count; c++)
        instances += bin->times[c];
    if (instances > MIG_INSTANCE_MAX || sum_slices(group, bin) > group->board->slices)
        return false;
    add_bin(group, bin, &layout);
    return mig_layout_fits(group->board, &layout);
}

static void packer_init(Packer *p, const Group *group, Arena *arena)
{
    *p = (Packer){.group = group, .code_count = 1};
    for (size_t c = 0; c < group->class_count; c++) {
        const size_t digits = group->board->profiles[group->classes[c]].max + 1u;
        p->radix[c] = p->code_count;
        p->code_count *= p->code_count * digits <= CODES_MAX ? digits : 1;
    }
    p->fits = arena_calloc(arena, p->code_count, sizeof *p->fits);
    p->digits = arena_calloc(arena, p->code_count, sizeof *p->digits);
    for (size_t code = 0; code < p->code_count; code++) {
        for (size_t c = 0; c < group->class_count; c++) {
            const size_t next = c + 1 < group->class_count ? p->radix[c + 1] : p->code_count;
            p->digits[code].times[c] = (uint8_t)(code % next / p->radix[c]);
        }
        p->fits[code] = bin_fits(group, &p->digits[code]);
    }
}

/* Whether a bin takes only what is left, and nothing more of that would fit. */
static bool is_full(const Packer *p, size_t code)
{
    const Bin *bin = &p->digits[code];
    for (size_t c = 0; c < p->group->class_count; c++)
        if (bin->times[c] > p->left[c])
            return false;
    for (size_t c = 0; c < p->group->class_count; c++) {
        const size_t more = code + p->radix[c];
        if (bin->times[c] < p->left[c] && more < p->code_count && p->digits[more].times[c] == bin->times[c] + 1 &&
            p->fits[more])
            return false;
    }
    return true;
}

/* The fewest GPUs that what is left could need. */
static size_t bound_bins(const Packer *p)
{
    const MigBoard *board = p->group->board;
    unsigned slices = 0, memory = 0;
    for (size_t c = 0; c < p->group->class_count; c++) {
        slices += p->left[c] * board->profiles[p->group->classes[c]].slices;
        memory += p->left[c] * board->profiles[p->group->classes[c]].size;
    }
    const unsigned by_slices = (slices + board->slices - 1u) / board->slices,
                   by_memory = (memory + board->grid - 1u) / board->grid;
    return by_slices > by_memory ? by_slices : by_memory;
}

/* Packs what is left into at most `bins` more: one of them has an instance of the largest class. */
static bool pack_left(Packer *p, size_t bins)
{
    size_t top = p->group->class_count;
    while (top > 0 && p->left[top - 1] == 0)
        top--;
    if (top == 0)
        return true;
    if (bound_bins(p) > bins || ++p->steps > STEPS_MAX)
        return false;
    for (size_t code = p->code_count; code-- > 0;) {
        const Bin *bin = &p->digits[code];
        if (!p->fits[code] || bin->times[top - 1] == 0 || !is_full(p, code))
            continue;
        for (size_t c = 0; c < top; c++)
            p->left[c] -= bin->times[c];
        p->bins[p->bin_count++] = *bin;
        if (pack_left(p, bins - 1))
            return true;
        p->bin_count--;
        for (size_t c = 0; c < top; c++)
            p->left[c] += bin->times[c];
    }
    return false;
}

/* False: it does not fit on `most` GPUs. *unproven is set where fewer may do. */
static bool pack_bins(Packer *p, size_t most, bool *unproven)
{
    memcpy(p->left, p->group->need, sizeof p->left);
    for (size_t bins = bound_bins(p); bins <= most; bins++) {
        p->steps = 0;
        p->bin_count = 0;
        memcpy(p->left, p->group->need, sizeof p->left);
        if (pack_left(p, bins))
            return true;
        *unproven |= p->steps > STEPS_MAX;
    }
    return false;
}

/* --- which GPU gets which layout ---------------------------------------------------------------------------------- */

/* The bin on this GPU, and beside it the instances that nobody held as far as they fit. */
static void make_wanted(const Group *group, const Bin *bin, size_t gpu, const MigGpuSuggestion *one, MigLayout *to)
{
    const MigLayout *now = &group->node->gpus[gpu].now;
    *to = (MigLayout){.enabled = true};
    add_bin(group, bin, to);
    for (size_t i = 0; i < one->idle_count && to->count < MIG_INSTANCE_MAX; i++) {
        to->instances[to->count] = now->instances[one->idle[i]];
        to->instances[to->count++].start = MIG_START_ANY;
        if (!mig_layout_fits(group->board, to))
            to->count--;
    }
}

/* What is asked of people and jobs where this GPU gets the bin; less is better. */
static unsigned rate_gpu(const Group *group, const Bin *bin, size_t gpu, const MigGpuSuggestion *one)
{
    MigLayout wanted;
    MigPlan plan;
    make_wanted(group, bin, gpu, one, &wanted);
    mig_plan_gpu(&group->node->gpus[gpu], &wanted, &plan);
    return (unsigned)plan.mode_change << 16 | (unsigned)!one->used << 15 | (unsigned)plan.blocked_count << 8 |
           (unsigned)plan.destroy_count;
}

static void set_gpu(const Group *group, const Bin *bin, size_t gpu, MigSuggestion *s)
{
    MigGpuSuggestion *one = &s->gpus[gpu];
    make_wanted(group, bin, gpu, one, &one->wanted);
    one->slices_used = sum_slices(group, bin);
    one->advice = MIG_ADVICE_CHANGE;
    if (!mig_layout_equal(&group->node->gpus[gpu].now, &one->wanted, false))
        return;
    one->advice = MIG_ADVICE_KEEP;
    snprintf(one->why, sizeof one->why, "its layout holds the work");
}

static void set_group(const Group *group, const Packer *p, MigSuggestion *s)
{
    bool taken[MIG_GPUS_MAX] = {false};
    for (size_t b = 0; b < p->bin_count; b++) {
        size_t best = group->count;
        unsigned best_rate = 0;
        for (size_t i = 0; i < group->count; i++) {
            const unsigned rate =
                taken[i] ? 0 : rate_gpu(group, &p->bins[b], group->members[i], &s->gpus[group->members[i]]);
            if (taken[i] || (best < group->count && rate >= best_rate))
                continue;
            best = i;
            best_rate = rate;
        }
        taken[best] = true;
        set_gpu(group, &p->bins[b], group->members[best], s);
    }
    for (size_t i = 0; i < group->count; i++)
        if (!taken[i] && s->gpus[group->members[i]].used)
            s->gpus[group->members[i]].advice = MIG_ADVICE_FREE;
}

/* The work of one GPU, on itself: worth it where it takes fewer slices, or needs more memory than it had. False: it
 * needs more and does not fit. */
static bool suggest_alone(const Group *all, size_t gpu, const MigDemand *demands, const Edges *edges, Arena *arena,
                          MigSuggestion *s)
{
    Group group = *all;
    Packer p;
    MigGpuSuggestion *one = &s->gpus[gpu];
    bool unproven = false;
    group.members[0] = gpu;
    group.count = 1;
    count_need(&group, demands, edges);
    packer_init(&p, &group, arena);
    one->advice = MIG_ADVICE_KEEP;
    snprintf(one->why, sizeof one->why, "another layout would free nothing");
    if (!pack_bins(&p, 1, &unproven)) {
        snprintf(one->why, sizeof one->why, "what it held at once does not fit on instances");
        return !group.shortage;
    }
    if (p.bin_count == 1 && (group.shortage || sum_slices(&group, &p.bins[0]) < one->slices_before)) {
        set_gpu(&group, &p.bins[0], gpu, s);
        s->larger_shared |= group.larger_shared;
    }
    return true;
}

static void suggest_group(Group *group, const MigDemand *demands, const Edges *edges, Arena *arena, MigSuggestion *s)
{
    Packer p;
    unsigned used = 0;
    bool met = true;
    for (size_t i = 0; i < group->count; i++)
        used += s->gpus[group->members[i]].used;
    count_need(group, demands, edges);
    packer_init(&p, group, arena);
    const bool packed = pack_bins(&p, group->count, &s->unproven);
    for (size_t i = 0; i < group->count && !(packed && p.bin_count < used); i++)
        if (s->gpus[group->members[i]].used)
            met &= suggest_alone(group, group->members[i], demands, edges, arena, s);
    if (!packed || (p.bin_count >= used && met))
        return;
    s->larger_shared |= group->larger_shared;
    s->freed += used > p.bin_count ? used - (unsigned)p.bin_count : 0;
    set_group(group, &p, s);
}

/* --- the node ----------------------------------------------------------------------------------------------------- */

/* What was used of the GPU as it is now. */
static void note_use(const MigGpu *gpu, size_t at, const MigDemand *demands, size_t count, MigGpuSuggestion *one)
{
    uint32_t held = 0;
    for (size_t i = 0; i < count; i++) {
        const MigDemand *d = &demands[i];
        if (d->gpu != at)
            continue;
        one->used = true;
        for (size_t k = 0; k < gpu->now.count; k++)
            held |= (uint32_t)(d->device == gpu->now.instances[k].profile && d->instance_id == gpu->now.instances[k].id)
                    << k;
    }
    for (size_t k = 0; k < gpu->now.count; k++)
        if (held >> k & 1)
            one->slices_before += gpu->board.profiles[gpu->now.instances[k].profile].slices;
        else
            one->idle[one->idle_count++] = (uint8_t)k;
    if (one->used && !gpu->now.enabled)
        one->slices_before = gpu->board.slices;
}

/* UNUSED where its work may move, else NONE or KEEP with the reason. */
static void sort_gpu(const MigGpu *gpu, size_t at, bool asked, MigDemand *demands, size_t count, MigGpuSuggestion *one)
{
    *one = (MigGpuSuggestion){.advice = MIG_ADVICE_NONE};
    if (gpu->why[0] || !gpu->capable || !asked) {
        snprintf(one->why, sizeof one->why, "%s",
                 gpu->why[0]     ? gpu->why
                 : !gpu->capable ? "its board has no MIG"
                                 : "not asked for");
        return;
    }
    note_use(gpu, at, demands, count, one);
    one->advice = MIG_ADVICE_UNUSED;
    for (size_t i = 0; i < count; i++) {
        if (demands[i].gpu != at)
            continue;
        set_need(&gpu->board, &demands[i]);
        if (demands[i].profile != MIG_WHOLE_GPU || one->advice == MIG_ADVICE_KEEP)
            continue;
        one->advice = MIG_ADVICE_KEEP;
        explain_whole(&gpu->board, &demands[i], one->why, sizeof one->why);
    }
}

static bool is_like(const MigGpu *a, const MigGpu *b)
{
    return a->device == b->device && strcmp(a->board.name, b->board.name) == 0;
}

static void find_busiest(const MigDemand *demands, const Edges *edges, MigSuggestion *s)
{
    unsigned now = 0;
    for (size_t i = 0; i < edges->count; i++) {
        if (s->gpus[demands[edges->at[i].demand].gpu].advice == MIG_ADVICE_NONE)
            continue;
        now += edges->at[i].begins ? 1u : -1u;
        if (now > s->at_once) {
            s->at_once = now;
            s->busiest_ns = edges->at[i].ns;
        }
    }
}

void mig_suggest(const MigNode *node, const bool *asked, MigDemand *demands, size_t demand_count, MigUse *uses,
                 size_t use_count, Arena *arena, MigSuggestion *ret)
{
    const Edges edges = sort_edges(uses, use_count, demands, arena);
    bool grouped[MIG_GPUS_MAX] = {false};
    *ret = (MigSuggestion){.used = 0};
    for (size_t i = 0; i < node->count; i++) {
        sort_gpu(&node->gpus[i], i, asked[i], demands, demand_count, &ret->gpus[i]);
        ret->used += ret->gpus[i].used;
        grouped[i] = ret->gpus[i].advice != MIG_ADVICE_UNUSED;
    }
    find_busiest(demands, &edges, ret);
    for (size_t i = 0; i < node->count; i++) {
        Group group = {.node = node, .board = &node->gpus[i].board};
        for (size_t k = i; k < node->count; k++)
            if (!grouped[k] && is_like(&node->gpus[i], &node->gpus[k])) {
                grouped[k] = true;
                group.members[group.count++] = k;
            }
        group.class_count = group.count ? mig_suggest_chain(group.board, group.classes) : 0;
        if (group.class_count)
            suggest_group(&group, demands, &edges, arena, ret);
    }
}
