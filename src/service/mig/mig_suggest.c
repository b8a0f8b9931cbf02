/* SPDX-License-Identifier: Apache-2.0 */
/* A suggestion in words and as JSON. */
#include "service/mig/mig_suggest.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"

#define MIB 1048576.0

enum { WORK_SHOWN = 30 };

/* --- what both say ------------------------------------------------------------------------------------------------ */

static const MigBoard *board_of(const MigPast *past, const MigDemand *d)
{
    return &past->node->gpus[d->gpu].board;
}

static bool is_considered(const MigSuggestion *s, const MigDemand *d)
{
    return s->gpus[d->gpu].advice != MIG_ADVICE_NONE;
}

static unsigned count_devices(const MigLayout *layout, uint8_t profile, uint8_t slices)
{
    unsigned count = 0;
    for (size_t i = 0; i < layout->count; i++)
        for (size_t c = 0; layout->instances[i].profile == profile && c < layout->instances[i].compute_count; c++)
            count += layout->instances[i].compute[c] == slices;
    return count;
}

/* "3g.40gb+2x1g.10gb", the words of a layout. */
static void add_words(const MigBoard *board, const MigLayout *layout, Str *to)
{
    const char *between = "";
    for (uint8_t p = 0; p < board->profile_count; p++)
        for (uint8_t slices = board->profiles[p].slices; slices > 0; slices--) {
            const MigInstance kind = {.profile = p};
            const unsigned count = count_devices(layout, p, slices);
            if (count == 0)
                continue;
            str_add(to, between);
            if (count > 1)
                str_addf(to, "%ux", count);
            mig_compute_name(board, &kind, slices, to);
            between = "+";
        }
}

/* One command; by a table one for each GPU, as a plan by a table is of one. */
static void add_command(const MigPast *past, const MigSuggestion *s, Str *to)
{
    for (size_t i = 0; i < past->node->count; i++) {
        CLEANUP(str_done) Str word = str_limited(1000);
        if (s->gpus[i].advice != MIG_ADVICE_CHANGE)
            continue;
        str_addf(&word, "gpu%u=", past->table ? 0 : past->node->gpus[i].index);
        add_words(&past->node->gpus[i].board, &s->gpus[i].wanted, &word);
        if (past->table)
            str_addf(to, "%sstoker mig plan --board %s %s", to->len ? "; " : "", past->table->board.name, word.text);
        else
            str_addf(to, "%s %s", to->len ? "" : "stoker mig plan", word.text);
    }
}

static void add_idle(const MigGpu *gpu, const MigGpuSuggestion *one, Str *to)
{
    MigLayout idle = {.enabled = true};
    for (size_t i = 0; i < one->idle_count; i++)
        idle.instances[idle.count++] = gpu->now.instances[one->idle[i]];
    mig_layout_text(&gpu->board, &idle, to);
}

static double window_ns(const MigPast *past)
{
    return past->until_real_ns > past->since_real_ns ? (double)(past->until_real_ns - past->since_real_ns) : 0;
}

/* What the suggestion cannot know, a line each. */
static void each_note(const MigPast *past, const MigSuggestion *s, void (*add)(const char *note, Str *to), Str *to)
{
    char line[400], known[DURATION_TEXT_MAX], window[DURATION_TEXT_MAX];
    const double known_s = past->gpus.len ? past->known_ns / (double)past->gpus.len / NS_PER_S : 0;
    if (past->table) {
        snprintf(line, sizeof line,
                 "By the table of %s (%s), not by a driver: every GPU of the ledger is taken for one.",
                 past->table->board.name, past->table->verified);
        add(line, to);
    }
    if (known_s * NS_PER_S < 0.9 * window_ns(past)) {
        snprintf(line, sizeof line, "The ledger knows %s of %s: work in the rest of it is not counted.",
                 duration_format_s(known, known_s), duration_format_s(window, window_ns(past) / NS_PER_S));
        add(line, to);
    }
    if (!past->agent)
        add("No agent runs: work since the end of the ledger is not counted.", to);
    if (past->lost.len) {
        snprintf(line, sizeof line, "%zu GPUs of the ledger are not in this node: their work is left out.",
                 past->lost.len);
        add(line, to);
    }
    if (s->larger_shared)
        add("At times small work uses instances of larger work that is not there then: it has to ask for the larger "
            "profile.",
            to);
    if (s->unproven)
        add("The search was given up: fewer GPUs may do.", to);
    if (past->demands.len)
        add("Not seen: bursts shorter than a minute, peer access over PCIe, use of media engines.", to);
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static void list_gpus(const MigPast *past, const MigSuggestion *s, MigAdvice advice, Str *to)
{
    const char *between = "GPU ";
    for (size_t i = 0; i < past->node->count; i++)
        if (s->gpus[i].advice == advice) {
            str_addf(to, "%s%u", between, past->node->gpus[i].index);
            between = ", ";
        }
}

static void add_answer(const MigPast *past, const MigSuggestion *s, Str *to)
{
    unsigned before = 0, used = 0, changed = 0;
    bool considered = past->table != NULL;
    for (size_t i = 0; i < past->node->count; i++) {
        considered |= s->gpus[i].advice != MIG_ADVICE_NONE;
        if (s->gpus[i].advice == MIG_ADVICE_CHANGE) {
            before += s->gpus[i].slices_before;
            used += s->gpus[i].slices_used;
            changed++;
        }
    }
    if (!considered)
        str_add(to, "No GPU here can be split: there is nothing to suggest.\n");
    else if (s->used == 0)
        str_addf(to, "Nobody held a GPU in %s: there is nothing to suggest.\n", past->period);
    else if (s->freed) {
        str_addf(to, "The work of %s fits on %u of the %u GPUs that it held: ", past->period, s->used - s->freed,
                 s->used);
        list_gpus(past, s, MIG_ADVICE_FREE, to);
        str_add(to, " would be free.\n");
    } else if (changed && used < before) {
        str_addf(to, "The work of %s needs %u of the %u compute slices that it held on ", past->period, used, before);
        list_gpus(past, s, MIG_ADVICE_CHANGE, to);
        str_add(to, "; no GPU would be free.\n");
    } else if (changed) {
        str_add(to, "Some work runs short of memory and needs larger instances, on ");
        list_gpus(past, s, MIG_ADVICE_CHANGE, to);
        str_add(to, ".\n");
    } else
        str_addf(to, "Keep the layout: for the work of %s no other one frees a GPU or a slice.\n", past->period);
}

static void add_gpu(const MigGpu *gpu, const MigGpuSuggestion *one, Str *to)
{
    str_addf(to, "GPU %u: ", gpu->index);
    if (one->advice == MIG_ADVICE_NONE) {
        str_addf(to, "%s\n", one->why);
        return;
    }
    mig_layout_text(&gpu->board, &gpu->now, to);
    if (one->advice == MIG_ADVICE_CHANGE) {
        str_add(to, " -> ");
        mig_layout_text(&gpu->board, &one->wanted, to);
        str_addf(to, "; the work needs %u of %u slices", one->slices_used, gpu->board.slices);
    } else if (one->advice == MIG_ADVICE_KEEP)
        str_addf(to, " stays: %s", one->why);
    else
        str_addf(to, "; %s", mig_advices[one->advice].text);
    if (one->idle_count && one->advice != MIG_ADVICE_UNUSED) {
        str_add(to, "; nobody held ");
        add_idle(gpu, one, to);
    }
    str_addc(to, '\n');
}

static void add_work(const MigPast *past, const MigDemand *d, Str *to)
{
    char held[DURATION_TEXT_MAX], device[MIG_NAME_SIZE + 16], memory[32] = "not known", sm[32] = "not known";
    const MigBoard *board = board_of(past, d);
    snprintf(device, sizeof device, "GPU %u%s%s", past->node->gpus[d->gpu].index, d->device == MIG_WHOLE_GPU ? "" : " ",
             d->device == MIG_WHOLE_GPU ? "" : board->profiles[d->device].name);
    if (!(d->risks >> MIG_RISK_MEMORY_UNKNOWN & 1))
        snprintf(memory, sizeof memory, "%.1f GiB", (double)d->memory_peak_bytes / MIB / 1024);
    if (!(d->risks >> MIG_RISK_SM_UNKNOWN & 1))
        snprintf(sm, sizeof sm, "%.0f %% (%.0f %%)", 100 * d->sm_peak, 100 * d->sm_mean);
    str_addf(to, "  %-32.60s %-16s %10s %14s  %8s %5.0f %%  %s\n", d->owner, device, memory, sm,
             duration_format_s(held, (double)(d->held_ns / NS_PER_S)), 100 * d->idle,
             d->profile == MIG_WHOLE_GPU ? "as it is" : board->profiles[d->profile].name);
}

static void add_works(const MigPast *past, const MigSuggestion *s, Str *to)
{
    char at[CLOCK_TEXT_MAX];
    size_t shown = 0, more = 0;
    if (s->at_once == 0)
        return;
    clock_format(at, s->busiest_ns);
    str_addf(to, "\nWork, at most %u at once (%s)\n", s->at_once, at);
    str_addf(to, "  %-32s %-16s %10s %14s  %8s %7s  %s\n", "who", "where", "memory", "SM peak (mean)", "held", "idle",
             "needs");
    for (size_t i = 0; i < past->demands.len; i++) {
        if (!is_considered(s, &past->demands.at[i]))
            continue;
        if (shown < WORK_SHOWN)
            add_work(past, &past->demands.at[i], to);
        more += shown++ >= WORK_SHOWN;
    }
    if (more)
        str_addf(to, "  and %zu more: --json has all\n", more);
}

/* The first owner, and how many more demands are of others. */
static void add_risk(const MigPast *past, const MigSuggestion *s, MigRisk risk, Str *to)
{
    const char *who = NULL;
    unsigned others = 0;
    for (size_t i = 0; i < past->demands.len; i++) {
        const MigDemand *d = &past->demands.at[i];
        if (!is_considered(s, d) || !(d->risks >> risk & 1))
            continue;
        others += who && strcmp(who, d->owner) != 0;
        who = who ? who : d->owner;
    }
    if (!who)
        return;
    str_addf(to, "  %s", who);
    if (others)
        str_addf(to, " and %u more", others);
    str_addf(to, ": %s\n", mig_risks[risk].text);
}

static void add_risks(const MigPast *past, const MigSuggestion *s, Str *to)
{
    CLEANUP(str_done) Str risks = str_limited(20000);
    for (MigRisk risk = 0; risk < MIG_RISK_END; risk++)
        add_risk(past, s, risk, &risks);
    if (risks.len)
        str_addf(to, "\nRisks\n%s", risks.text);
}

static void add_note_line(const char *note, Str *to)
{
    str_addf(to, "  %s\n", note);
}

void mig_suggest_text(const MigPast *past, const MigSuggestion *s, Str *to)
{
    CLEANUP(str_done) Str notes = str_limited(4000), command = str_limited(8000);
    add_answer(past, s, to);
    str_addc(to, '\n');
    for (size_t i = 0; i < past->node->count; i++)
        add_gpu(&past->node->gpus[i], &s->gpus[i], to);
    add_works(past, s, to);
    add_risks(past, s, to);
    each_note(past, s, add_note_line, &notes);
    if (notes.len)
        str_addf(to, "\nNot known\n%s", notes.text);
    add_command(past, s, &command);
    if (command.len)
        str_addf(to, "\n%s\n", command.text);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void add_gpu_json(const MigGpu *gpu, const MigGpuSuggestion *one, Str *to)
{
    CLEANUP(str_done) Str now = str_limited(1000), wanted = str_limited(1000);
    json_open(to, NULL, '{');
    json_add_u64(to, "gpu", gpu->index);
    json_add_text(to, "uuid", gpu->uuid);
    json_add_text(to, "advice", mig_advices[one->advice].key);
    json_add_text(to, "why", one->why);
    if (gpu->capable && !gpu->why[0]) {
        mig_layout_text(&gpu->board, &gpu->now, &now);
        json_add_text(to, "now", now.text);
    }
    if (one->advice == MIG_ADVICE_CHANGE) {
        mig_layout_text(&gpu->board, &one->wanted, &wanted);
        json_add_text(to, "suggested", wanted.text);
        json_add_u64(to, "slices_before", one->slices_before);
        json_add_u64(to, "slices_used", one->slices_used);
    }
    json_open(to, "idle_instances", '[');
    for (size_t i = 0; i < one->idle_count; i++)
        json_add_text(to, NULL, gpu->board.profiles[gpu->now.instances[one->idle[i]].profile].name);
    json_close(to, ']');
    json_close(to, '}');
}

static void add_profile(const char *name, const MigBoard *board, int profile, Str *to)
{
    json_add_text(to, name, profile == MIG_WHOLE_GPU ? NULL : board->profiles[profile].name);
}

static void add_demand_json(const MigPast *past, const MigDemand *d, Str *to)
{
    json_open(to, NULL, '{');
    json_add_text(to, "owner", d->owner);
    json_add_u64(to, "gpu", past->node->gpus[d->gpu].index);
    add_profile("instance", board_of(past, d), d->device, to);
    json_add_u64(to, "memory_peak_bytes", d->memory_peak_bytes);
    json_add_double(to, "sm_peak", d->sm_peak);
    json_add_double(to, "sm_mean", d->sm_mean);
    json_add_seconds(to, "held_s", d->held_ns);
    json_add_double(to, "idle_share", d->idle);
    json_add_u64(to, "need_mib", d->need_mib);
    json_add_u64(to, "need_sms", d->need_sms);
    add_profile("profile", board_of(past, d), d->profile, to);
    json_open(to, "risks", '[');
    for (int r = 0; r < MIG_RISK_END; r++)
        if (d->risks >> r & 1)
            json_add_text(to, NULL, mig_risks[r].key);
    json_close(to, ']');
    json_close(to, '}');
}

static void add_note_json(const char *note, Str *to)
{
    json_add_text(to, NULL, note);
}

void mig_suggest_json(const MigPast *past, const MigSuggestion *s, Str *to)
{
    CLEANUP(str_done) Str command = str_limited(8000);
    json_open(to, NULL, '{');
    json_add_text(to, "node", past->node_name);
    json_add_time(to, "since", past->since_real_ns);
    json_add_time(to, "until", past->until_real_ns);
    json_add_double(to, "known_gpu_hours", past->known_ns / NS_PER_H);
    json_add_u64(to, "used_gpus", s->used);
    json_add_u64(to, "freed_gpus", s->freed);
    json_add_bool(to, "proven", !s->unproven);
    json_add_u64(to, "at_once", s->at_once);
    json_add_time(to, "busiest", s->busiest_ns);
    json_open(to, "gpus", '[');
    for (size_t i = 0; i < past->node->count; i++)
        add_gpu_json(&past->node->gpus[i], &s->gpus[i], to);
    json_close(to, ']');
    json_open(to, "demands", '[');
    for (size_t i = 0; i < past->demands.len; i++)
        if (is_considered(s, &past->demands.at[i]))
            add_demand_json(past, &past->demands.at[i], to);
    json_close(to, ']');
    json_open(to, "notes", '[');
    each_note(past, s, add_note_json, to);
    json_close(to, ']');
    add_command(past, s, &command);
    json_add_text(to, "command", command.len ? command.text : NULL);
    json_close(to, '}');
    str_addc(to, '\n');
}
