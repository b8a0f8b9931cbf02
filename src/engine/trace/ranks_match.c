/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rows of the ranks are one operation. Rows are taken apart by group (name, members, size; sends and receives by
 * the two ranks as well), in the order in which the ranks ran them, which for one group is the same on all of them.
 * Where every row has a sequence number, equal numbers match. Otherwise the rank with most rows is compared with each
 * of the others (ranks_pair.c).
 */
#include "engine/trace/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/owner.h"

/* A row and the number of its group. */
typedef struct Entry {
    uint32_t group, rank, row;
} Entry;

typedef struct Group {
    int64_t size; /* -1 unknown */
    bool point_to_point;
} Group;

typedef struct Groups {
    RankMatch *match;
    Map numbers; /* text -> 1 + number */
    VEC(Group) groups;
    VEC(Entry) entries;
} Groups;

static CollectiveKind kind_of(const TraceCollective *row)
{
    return collective_kind(row->name, strlen(row->name));
}

/* ---- groups ---- */

/* The n-th number of "[0, 4, 8]", or `n` itself where the list does not say. */
static int64_t group_member(const char *ranks, int64_t n)
{
    int64_t at = 0;
    for (const char *text = ranks; *text;) {
        if (*text < '0' || *text > '9') {
            text++;
            continue;
        }
        char *end;
        long long number = strtoll(text, &end, 10);
        if (at++ == n)
            return number;
        text = end;
    }
    return n;
}

static uint32_t group_of(Groups *groups, uint32_t rank, const TraceCollective *row, Arena *arena)
{
    CollectiveKind kind = kind_of(row);
    Group group = {.size = row->group_size};
    int64_t own = groups->match->report->ranks.at[rank].rank, other = group_member(row->ranks, row->peer);
    int64_t from = -1, to = -1;
    if ((kind == COLLECTIVE_SEND || kind == COLLECTIVE_RECV) && row->peer >= 0) {
        group.point_to_point = true;
        from = kind == COLLECTIVE_SEND ? own : other;
        to = kind == COLLECTIVE_SEND ? other : own;
        group.size = 2;
    }
    const char *key = arena_printf(arena, "%s\x1f%s\x1f%lld\x1f%lld>%lld", row->group, row->ranks,
                                   (long long)row->group_size, (long long)from, (long long)to);
    uintptr_t number = (uintptr_t)map_get(&groups->numbers, key);
    if (number == 0) {
        vec_push(&groups->groups, group);
        number = groups->groups.len;
        map_put(&groups->numbers, key, (void *)number); /* NOLINT(performance-no-int-to-ptr) */
    }
    arena_reset(arena);
    return (uint32_t)number - 1;
}

static int by_group(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static void collect_groups(Groups *groups)
{
    CLEANUP(arena_done) Arena arena = {0};
    const TraceReport *report = groups->match->report;
    for (uint32_t rank = 0; rank < report->ranks.len; rank++) {
        for (uint32_t row = 0; row < report->ranks.at[rank].collectives.len; row++) {
            uint32_t group = group_of(groups, rank, &report->ranks.at[rank].collectives.at[row], &arena);
            vec_push(&groups->entries, ((Entry){.group = group, .rank = rank, .row = row}));
        }
    }
    if (groups->entries.len > 0)
        qsort(groups->entries.at, groups->entries.len, sizeof(*groups->entries.at), by_group);
}

/* ---- one group: entries [0, len) by rank and row ---- */

static const TraceCollective *entry_row(const RankMatch *match, const Entry *entry)
{
    return &match->report->ranks.at[entry->rank].collectives.at[entry->row];
}

/* Closes the set whose parts were pushed since `first`. */
static void add_set(RankMatch *match, size_t first, CollectiveKind kind, size_t ranks)
{
    size_t count = match->parts.len - first;
    if (count < 2) {
        match->parts.len = first;
        return;
    }
    for (size_t i = first; i < match->parts.len; i++)
        match->found[match->parts.at[i].rank]++;
    vec_push(&match->sets,
             ((RankSet){.first = first, .count = (uint32_t)count, .kind = kind, .complete = count == ranks}));
}

static int64_t number_of(const RankMatch *match, uint32_t rank)
{
    return match->report->ranks.at[rank].rank;
}

/* How many ranks there are; two files of one rank count once. */
static size_t rank_count(const RankMatch *match, const Entry *entries, size_t len)
{
    size_t ranks = 1;
    for (size_t i = 1; i < len; i++)
        ranks += number_of(match, entries[i].rank) != number_of(match, entries[i - 1].rank);
    return ranks;
}

typedef struct Numbered {
    int64_t sequence;
    CollectiveKind kind;
    Entry entry;
} Numbered;

static int by_sequence(const void *a, const void *b)
{
    const Numbered *x = a, *y = b;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return by_group(&x->entry, &y->entry);
}

static bool same_operation(const Numbered *x, const Numbered *y)
{
    return x->sequence == y->sequence && x->kind == y->kind;
}

/* False: numbers are missing, or one rank has a number twice. */
static bool match_by_sequence(RankMatch *match, const Entry *entries, size_t len)
{
    CLEANUP_FREE Numbered *rows = xcalloc(len, sizeof(*rows));
    size_t ranks = rank_count(match, entries, len);
    for (size_t i = 0; i < len; i++) {
        const TraceCollective *row = entry_row(match, &entries[i]);
        if (row->sequence < 0)
            return false;
        rows[i] = (Numbered){.sequence = row->sequence, .kind = kind_of(row), .entry = entries[i]};
    }
    qsort(rows, len, sizeof(*rows), by_sequence);
    for (size_t i = 1; i < len; i++) {
        if (same_operation(&rows[i - 1], &rows[i]) && rows[i - 1].entry.rank == rows[i].entry.rank)
            return false;
    }
    for (size_t i = 0; i < len;) {
        size_t first = match->parts.len, from = i;
        for (; i < len && same_operation(&rows[from], &rows[i]); i++) {
            const Entry *entry = &rows[i].entry;
            if (i == from || number_of(match, entry->rank) != number_of(match, rows[i - 1].entry.rank))
                vec_push(&match->parts, ((RankPart){.rank = entry->rank, .row = entry->row}));
        }
        add_set(match, first, rows[from].kind, ranks);
    }
    return true;
}

typedef struct Track {
    size_t first, len; /* of the group's entries */
} Track;
typedef VEC(Track) TrackVec;

static RankTrack track_of(const RankMatch *match, const Entry *entries, const Track *track, const uint32_t *rows)
{
    uint32_t rank = entries[track->first].rank;
    return (RankTrack){.report = match->report,
                       .rank = rank,
                       .base = match->clocks[rank].base,
                       .rows = rows + track->first,
                       .len = track->len};
}

static void match_by_order(RankMatch *match, const Entry *entries, size_t len)
{
    TrackVec tracks = {0};
    CLEANUP_FREE uint32_t *rows = xcalloc(len, sizeof(*rows));
    CLEANUP_FREE int64_t *pairs = xcalloc(len, sizeof(*pairs)); /* per entry: row number of the hub's track */
    size_t hub = 0;
    bool again = false;
    for (size_t i = 0; i < len; i++) {
        rows[i] = entries[i].row;
        if (i > 0 && entries[i].rank != entries[i - 1].rank)
            again = number_of(match, entries[i].rank) == number_of(match, entries[i - 1].rank);
        if (again) /* a second file of the rank: only sequence numbers could tell which is which */
            continue;
        if (i == 0 || entries[i].rank != entries[i - 1].rank)
            vec_push(&tracks, ((Track){.first = i}));
        tracks.at[tracks.len - 1].len++;
    }
    for (size_t i = 1; i < tracks.len; i++)
        hub = tracks.at[i].len > tracks.at[hub].len ? i : hub;
    RankTrack most = track_of(match, entries, &tracks.at[hub], rows);
    for (size_t i = 0; i < tracks.len; i++) {
        RankTrack track = track_of(match, entries, &tracks.at[i], rows);
        if (i != hub)
            rank_pair(&most, &track, pairs + tracks.at[i].first);
    }
    CLEANUP_FREE size_t *next = xcalloc(tracks.len, sizeof(*next));
    for (size_t at = 0; at < most.len; at++) {
        size_t first = match->parts.len;
        for (size_t i = 0; i < tracks.len; i++) {
            const Track *track = &tracks.at[i];
            if (i == hub) {
                vec_push(&match->parts, ((RankPart){.rank = most.rank, .row = most.rows[at]}));
                continue;
            }
            while (next[i] < track->len && pairs[track->first + next[i]] < (int64_t)at)
                next[i]++;
            if (next[i] < track->len && pairs[track->first + next[i]] == (int64_t)at) {
                const Entry *entry = &entries[track->first + next[i]];
                vec_push(&match->parts, ((RankPart){.rank = entry->rank, .row = entry->row}));
            }
        }
        add_set(match, first, kind_of(entry_row(match, &entries[tracks.at[hub].first + at])), tracks.len);
    }
    vec_done(&tracks);
}

static void match_group(RankMatch *match, const Group *group, const Entry *entries, size_t len)
{
    size_t ranks = rank_count(match, entries, len);
    if (ranks < 2 || (group->size > 0 && (int64_t)ranks > group->size))
        return; /* alone; or several groups of one name, whose members nobody knows */
    for (size_t i = 0; i < len; i++)
        match->recorded[entries[i].rank]++;
    if (group->point_to_point || !match_by_sequence(match, entries, len))
        match_by_order(match, entries, len);
}

void rank_match(RankMatch *match)
{
    Groups groups = {.match = match};
    map_init(&groups.numbers);
    collect_groups(&groups);
    for (size_t i = 0; i < groups.entries.len;) {
        size_t from = i;
        while (i < groups.entries.len && groups.entries.at[i].group == groups.entries.at[from].group)
            i++;
        match_group(match, &groups.groups.at[groups.entries.at[from].group], groups.entries.at + from, i - from);
    }
    map_done(&groups.numbers);
    vec_done(&groups.groups);
    vec_done(&groups.entries);
}
