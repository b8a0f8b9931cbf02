/* SPDX-License-Identifier: Apache-2.0 */
/* Names, threads, streams, labels, pairs of begin and end, and ids of events. */
#include "base/alloc.h"
#include "base/number.h"
#include "engine/trace/scan/inside.h"

#include <stdlib.h>
#include <string.h>

/* ---- numbers of ids for the next reading ---- */

TraceKnown *trace_known_new(void)
{
    return xcalloc(1, sizeof(TraceKnown));
}

void trace_known_free(TraceKnown *known)
{
    if (!known)
        return;
    vec_done(&known->devices);
    vec_done(&known->lanes);
    vec_done(&known->ids);
    vec_done(&known->halves);
    arena_done(&known->arena);
    free(known);
}

/* By the uint64_t that elements begin with. */
static int by_front(const void *a, const void *b)
{
    return number_compare_u64(*(const uint64_t *)a, *(const uint64_t *)b);
}

const KnownHalf *half_known(const TraceScan *scan, uint64_t byte)
{
    const TraceKnown *known = scan->options.known;
    const KnownHalf key = {.byte = byte};

    return known && known->halves.len ? bsearch(&key, known->halves.at, known->halves.len, sizeof key, by_front) : NULL;
}

/* A small cache in front of the profile's names. Hashes a few words of a text and compares all of it. Each slot has a
 * neighbour, so that two texts of one slot do not evict each other in turns. */

void caches_init(Caches *caches)
{
    arena_init(&caches->raw, 64 << 10);
    caches->generation = 1;
    caches->copy_name = PROFILE_NONE;
}

void caches_done(Caches *caches)
{
    arena_done(&caches->raw);
    free(caches->room);
}

void caches_forget(Caches *caches)
{
    arena_reset(&caches->raw);
    memset(&caches->own, 0, sizeof caches->own);
    caches->generation++;
    caches->copy_name = PROFILE_NONE;
}

/* Long names of kernels often begin and end alike: their middle counts as well. */
static inline uint32_t place_of(const char *p, uint32_t len)
{
    const uint64_t even = UINT64_C(0x9e3779b97f4a7c15), odd = UINT64_C(0xbf58476d1ce4e5b9);
    uint64_t h = len;

    if (len > 32)
        h += (value_eight_bytes(p + len / 2) ^ (value_eight_bytes(p + len / 4) << 1)) * odd ^
             value_eight_bytes(p + len / 4 * 3);
    if (len >= 8)
        h = (h ^ value_eight_bytes(p)) * even ^ value_eight_bytes(p + len - 8);
    else if (len)
        h ^= value_eight_bytes(p) << (64 - 8 * len);
    h ^= h >> 31;
    return (uint32_t)(h * odd >> 52) % NAME_CACHE;
}

/* The evicted text moves to the neighbour. */
static void put_entry(Caches *caches, const Slice *slice, const char *raw, uint32_t name)
{
    const uint32_t place = place_of(slice->at, slice->len);

    caches->name[place ^ 1] = caches->name[place];
    caches->name[place] =
        (NameEntry){.raw = raw, .len = slice->len, .name = name, .kind = slice->kind, .generation = caches->generation};
}

static uint32_t put_name(Caches *caches, Profile *profile, const Slice *slice, bool *ret_cut)
{
    if (slice->kind != SLICE_ESCAPED && slice->len <= TRACE_NAME_BYTES_MAX) {
        const uint32_t name = profile_name(profile, slice->at, slice->len);

        put_entry(caches, slice, profile_text(profile, name, NULL), name);
        return name;
    }
    if (!caches->room)
        caches->room = xmalloc(TRACE_NAME_BYTES_MAX + 16);
    const size_t len = value_unescape(slice, caches->room, TRACE_NAME_BYTES_MAX);
    const uint32_t name = profile_name(profile, caches->room, len);

    *ret_cut |= slice->kind == SLICE_ESCAPED ? len >= TRACE_NAME_BYTES_MAX - 4 && slice->len > TRACE_NAME_BYTES_MAX
                                             : slice->len > TRACE_NAME_BYTES_MAX;
    if (slice->len <= 1024 && caches->raw.used < 4 << 20)
        put_entry(caches, slice, arena_strndup(&caches->raw, slice->at, slice->len), name);
    return name;
}

static inline bool is_entry_of(const Caches *caches, const NameEntry *entry, const Slice *slice)
{
    return entry->generation == caches->generation && entry->len == slice->len && entry->kind == slice->kind &&
           memcmp(entry->raw, slice->at, slice->len) == 0;
}

/* PROFILE_NONE: not in the cache */
static uint32_t find_name(const Caches *caches, const Slice *slice)
{
    const uint32_t place = place_of(slice->at, slice->len);

    if (is_entry_of(caches, &caches->name[place], slice))
        return caches->name[place].name;
    if (is_entry_of(caches, &caches->name[place ^ 1], slice))
        return caches->name[place ^ 1].name;
    return PROFILE_NONE;
}

/* ---- threads and streams ---- */

enum { FORMS_ANY = 1 << 16, FORMS_STREAM = 1 << 17 };

__attribute__((noinline)) static uint32_t new_name(TraceScan *scan, const Slice *slice)
{
    bool cut = false;
    const uint32_t name = put_name(scan->caches, scan->profile, slice, &cut);

    if (cut)
        profile_lose(scan->profile, PROFILE_LOSS_TOO_LONG, scan->raw_byte, slice->at, slice->len);
    return name;
}

uint32_t name_of(TraceScan *scan, Slot slot)
{
    const Slice *slice = slice_of(scan, slot);

    if (!has_slot(scan, slot) || (slice->kind == SLICE_WORD && slice_is(slice, "null")))
        return PROFILE_NONE;
    const uint32_t name = find_name(scan->caches, slice);

    return name != PROFILE_NONE ? name : new_name(scan, slice);
}

static void key_part(TraceScan *scan, Slot slot, int64_t *number, uint32_t *name)
{
    *number = 0;
    *name = PROFILE_NONE;
    if (!has_slot(scan, slot) || value_integer(slice_of(scan, slot), number))
        return;
    *number = 0;
    if (slice_of(scan, slot)->kind <= SLICE_ESCAPED)
        *name = name_of(scan, slot);
}

ThreadKey thread_key(TraceScan *scan)
{
    ThreadKey key;

    key_part(scan, SLOT_PID, &key.pid, &key.pid_name);
    key_part(scan, SLOT_TID, &key.tid, &key.tid_name);
    return key;
}

uint32_t thread_lane(TraceScan *scan, const ThreadKey *key)
{
    return profile_thread(scan->profile, key->pid, key->pid_name, key->tid, key->tid_name);
}

/* The number at the end of a text ("stream 7"): false where there is none. */
static bool number_behind(const char *text, size_t len, int64_t *ret)
{
    int64_t value = 0;
    size_t from;

    while (len > 0 && text[len - 1] == ' ')
        len--;
    from = len;
    while (from > 0 && len - from < 9 && text[from - 1] >= '0' && text[from - 1] <= '9')
        from--;
    if (from == len || from == 0 || text[from - 1] != ' ')
        return false;
    for (; from < len; from++)
        value = value * 10 + (text[from] - '0');
    *ret = value;
    return true;
}

/* A number, or the one at the end of a text. */
static int64_t number_or_behind(TraceScan *scan, Slot slot)
{
    const Slice *slice = slice_of(scan, slot);
    int64_t value;

    if (!has_slot(scan, slot))
        return -1;
    if (value_integer(slice, &value) || (slice->kind <= SLICE_ESCAPED && number_behind(slice->at, slice->len, &value)))
        return value;
    return -1;
}

int32_t gpu_device(TraceScan *scan)
{
    int64_t device = number_of(scan, SLOT_DEVICE, -1);

    if (device < 0)
        device = number_or_behind(scan, SLOT_PID);
    return device >= 0 && device <= INT32_MAX ? (int32_t)device : -1;
}

int64_t gpu_stream(TraceScan *scan)
{
    int64_t stream;

    if (has_slot(scan, SLOT_STREAM) && value_integer(slice_of(scan, SLOT_STREAM), &stream))
        return stream;
    return number_or_behind(scan, SLOT_TID);
}

/* What is 1..8 bytes long, the last one on top. */
static inline uint64_t short_text(const Slice *slice)
{
    return value_eight_bytes(slice->at) << (64 - 8 * slice->len);
}

/* The short texts of two slots as a key; `forms` holds lengths and kinds. False: missing, or longer than eight
 * bytes. */
static inline bool short_texts(const TraceScan *scan, Slot first, Slot second, PlaceEntry *ret)
{
    const Slice *a = slice_of(scan, first), *b = slice_of(scan, second);

    ret->forms = FORMS_ANY | a->len << 4 | a->kind | b->len << 12 | b->kind << 8;
    if ((~scan->walk->present & (SLOT_BIT(first) | SLOT_BIT(second))) || a->len - 1 >= 8 || b->len - 1 >= 8)
        return false;
    ret->text[0] = short_text(a);
    ret->text[1] = short_text(b);
    return true;
}

static PlaceEntry *place_entry(TraceScan *scan, const PlaceEntry *place)
{
    const uint64_t h = (place->text[0] * UINT64_C(0x9e3779b97f4a7c15) + place->text[1]) * UINT64_C(0xbf58476d1ce4e5b9);

    return &scan->caches->own.place[(h >> 40) % LANE_CACHE];
}

static bool same_place(const PlaceEntry *a, const PlaceEntry *b)
{
    return a->text[0] == b->text[0] && a->text[1] == b->text[1] && a->forms == b->forms;
}

uint32_t event_thread(TraceScan *scan)
{
    PlaceEntry place;
    const bool is_short = short_texts(scan, SLOT_PID, SLOT_TID, &place);
    PlaceEntry *entry = is_short ? place_entry(scan, &place) : NULL;

    if (entry && same_place(entry, &place))
        return entry->lane;
    const ThreadKey key = thread_key(scan);

    place.lane = thread_lane(scan, &key);
    if (entry)
        *entry = place;
    return place.lane;
}

uint32_t event_stream(TraceScan *scan)
{
    PlaceEntry place;
    int64_t stream;
    const bool is_short = short_texts(scan, SLOT_DEVICE, SLOT_STREAM, &place);
    PlaceEntry *entry = is_short ? place_entry(scan, &place) : NULL;

    place.forms |= FORMS_STREAM;
    if (entry && same_place(entry, &place))
        return entry->lane;
    place.lane = profile_stream(scan->profile, gpu_device(scan), gpu_stream(scan));
    /* only where the two alone decide */
    if (entry && number_of(scan, SLOT_DEVICE, -1) >= 0 && value_integer(slice_of(scan, SLOT_STREAM), &stream))
        *entry = place;
    return place.lane;
}

int64_t id_in(const TraceScan *scan, Slot slot)
{
    const int64_t id = number_of(scan, slot, 0);

    return id == -1 || id == UINT32_MAX ? 0 : id;
}

static bool is_plain(int64_t id)
{
    return id >= 0 && id < UINT32_MAX;
}

/* An id for `row` of a field's table: a placeholder (0) where it gets its number at the end. */
static uint32_t id_store(TraceScan *scan, int64_t id, WideField field, size_t row)
{
    if (is_plain(id))
        return (uint32_t)id;
    if (!scan->options.raw) /* with it rows come and go */
        vec_push(&scan->wides, ((Wide){.id = (uint64_t)id, .row = row, .field = field}));
    return 0;
}

uint32_t id_of(TraceScan *scan, Slot slot, WideField field, size_t row)
{
    const int64_t id = number_of(scan, slot, 0);

    if ((uint64_t)id < UINT32_MAX)
        return (uint32_t)id;
    return id_in(scan, slot) ? id_store(scan, id, field, row) : 0;
}

uint32_t id_known(const TraceScan *scan, int64_t id)
{
    if (is_plain(id))
        return (uint32_t)id;
    const TraceKnown *known = scan->options.known;
    const KnownId key = {.id = (uint64_t)id}, *found = NULL;

    if (known && known->ids.len)
        found = bsearch(&key, known->ids.at, known->ids.len, sizeof key, by_front);
    return found ? found->number : 0;
}

/* Names and orders of threads and streams, from metadata events, which may stand anywhere: the last one counts. Lanes
 * that nothing happened on get none. */

static int compare_keys(const ThreadKey *x, const ThreadKey *y)
{
#define ORDER(member)                                                                                                  \
    if (x->member != y->member)                                                                                        \
        return x->member < y->member ? -1 : 1;
    ORDER(pid)
    ORDER(tid)
    ORDER(pid_name)
    ORDER(tid_name)
#undef ORDER
    return 0;
}

static int by_label(const void *a, const void *b)
{
    const Label *x = a, *y = b;
    const int order = compare_keys(&x->thread, &y->thread);

    if (order || x->kind != y->kind)
        return order ? order : x->kind < y->kind ? -1 : 1;
    return number_compare_u64(x->order, y->order);
}

/* Of each kind of label of a thread or a process the last one stays, with order 0. */
static void sort_labels(Labels *labels)
{
    size_t kept = 0;

    vec_sort(labels, by_label);
    for (size_t i = 0; i < labels->len; i++) {
        Label label = labels->at[i];

        label.order = 0;
        if (kept && by_label(&labels->at[kept - 1], &label) == 0)
            kept--;
        labels->at[kept++] = label;
    }
    labels->len = kept;
}

static const Label *find_label(const Labels *labels, const ThreadKey *thread, LabelKind kind)
{
    const Label key = {.thread = *thread, .kind = kind};

    return labels->len ? bsearch(&key, labels->at, labels->len, sizeof key, by_label) : NULL;
}

static void label_lane(const Labels *labels, ThreadKey thread, ProfileLane *lane)
{
    const Label *name = find_label(labels, &thread, LABEL_THREAD);

    lane->label = name ? name->text : lane->label;
}

/* Streams by their number alone: "stream 7" of the first traces is 7 of the later ones. */
static void label_streams(const Labels *labels, Profile *profile)
{
    Labels streams = {0};

    for (size_t i = 0; i < labels->len; i++) {
        Label label = labels->at[i];

        if (label.thread.pid_name != PROFILE_NONE || label.kind == LABEL_PROCESS)
            continue;
        if (label.thread.tid_name != PROFILE_NONE) {
            size_t len;
            const char *text = profile_text(profile, label.thread.tid_name, &len);

            if (!number_behind(text, len, &label.thread.tid))
                continue;
            label.thread.tid_name = PROFILE_NONE;
        }
        vec_push(&streams, label);
    }
    sort_labels(&streams);
    for (size_t i = 0; i < profile->lanes.len; i++) {
        ProfileLane *lane = &profile->lanes.at[i];

        if (lane->gpu)
            label_lane(&streams, (ThreadKey){lane->device, lane->tid, PROFILE_NONE, PROFILE_NONE}, lane);
    }
    vec_done(&streams);
}

void labels_apply(Labels *labels, Profile *profile)
{
    if (labels->len == 0)
        return;
    for (size_t i = 0; i < labels->len; i++)
        labels->at[i].order = i + 1;
    label_streams(labels, profile);
    sort_labels(labels);
    for (size_t i = 0; i < profile->lanes.len; i++) {
        ProfileLane *lane = &profile->lanes.at[i];

        if (!lane->gpu)
            label_lane(labels, (ThreadKey){lane->pid, lane->tid, lane->pid_name, lane->tid_name}, lane);
    }
}

/* Begins and ends of ranges ("B", "E"), paired when all of them are known: they may stand in any order, and those of
 * one time count in the order of the file. */

enum { MATCH_DEPTH = 64 }; /* how far an end looks for a begin of its name */

static int by_half(const void *a, const void *b)
{
    const Half *x = a, *y = b;
    int order = compare_keys(&x->thread, &y->thread);

    if (!order)
        order = (x->time > y->time) - (x->time < y->time);
    return order ? order : (x->byte > y->byte) - (x->byte < y->byte);
}

/* Losses. Threads come in the order of their names' numbers, which is arbitrary: losses are reported in the order of
 * the file. */
typedef struct Lost {
    const Half *half;
    ProfileLossReason reason;
} Lost;

typedef struct Pairing {
    TraceScan *scan;
    VEC(const Half *) open;
    VEC(Lost) lost;
} Pairing;

static void lose_half(Pairing *pairing, const Half *half, ProfileLossReason reason)
{
    vec_push(&pairing->lost, ((Lost){half, reason}));
}

static int by_byte(const void *a, const void *b)
{
    const Lost *x = a, *y = b;

    return (x->half->byte > y->half->byte) - (x->half->byte < y->half->byte);
}

static void report_lost(Pairing *pairing)
{
    vec_sort(&pairing->lost, by_byte);
    for (size_t i = 0; i < pairing->lost.len; i++) {
        const Half *half = pairing->lost.at[i].half;
        size_t len = 0;
        const char *text = profile_text(pairing->scan->profile, half->event.name, &len);

        profile_lose(pairing->scan->profile, pairing->lost.at[i].reason, half->byte, text, len);
    }
}

/* The ids of the begin, or of the end where that one has none. */
static void set_pair_ids(TraceScan *scan, ProfileEvent *event, const Half *begin, const Half *end)
{
    const int64_t link = begin->link ? begin->link : end->link;
    const int64_t external = begin->external ? begin->external : end->external;

    if (event->kind <= PROFILE_SET) {
        event->link = id_store(scan, link, WIDE_GPU_LINK, scan->profile->gpu.len);
        event->external = id_store(scan, external, WIDE_GPU_EXTERNAL, scan->profile->gpu.len);
    } else if (event->kind == PROFILE_CALL || event->kind == PROFILE_OTHER) {
        event->link = id_store(scan, link, WIDE_HOST_LINK, scan->profile->host.len);
        scan->bare_links |= event->kind == PROFILE_OTHER && link != 0;
    } else if (event->kind == PROFILE_OP) {
        event->link = id_store(scan, external, WIDE_HOST_LINK, scan->profile->host.len);
    }
}

static void known_add_pair(TraceScan *scan, const Half *begin, const Half *end)
{
    const ProfileLane *lane = begin->on_gpu ? &scan->profile->lanes.at[begin->event.lane] : NULL;
    KnownHalf half = {.byte = begin->byte,
                      .start = begin->time,
                      .duration = end->time - begin->time,
                      .kind = begin->event.kind,
                      .device = lane ? lane->device : -1,
                      .stream = lane ? lane->tid : -1,
                      .link = begin->link ? begin->link : end->link};

    vec_push(&scan->options.learn->halves, half);
    half.byte = end->byte;
    vec_push(&scan->options.learn->halves, half);
}

static void add_pair(Pairing *pairing, const Half *begin, const Half *end)
{
    TraceScan *scan = pairing->scan;
    ProfileEvent event = begin->event;

    event.start = begin->time;
    event.duration = end->time - begin->time;
    if (event.duration > DURATION_MAX) {
        lose_half(pairing, begin, PROFILE_LOSS_NO_TIME);
        return;
    }
    if (scan->options.learn)
        known_add_pair(scan, begin, end);
    if (!begin->wanted || !window_touches(&scan->options, event.start, event.duration))
        return;
    if (!begin->on_gpu)
        event.lane = thread_lane(scan, &begin->thread);
    set_pair_ids(scan, &event, begin, end);
    profile_add(scan->profile, &event);
}

/* The begin that an end of this name belongs to: the last open one of that name, else (for an end without a name) the
 * last one. open.len: none. */
static size_t find_begin(const Pairing *pairing, const Half *end)
{
    const size_t len = pairing->open.len;

    if (len == 0)
        return len;
    if (end->event.name == PROFILE_NONE)
        return len - 1;
    for (size_t i = 0; i < len && i < MATCH_DEPTH; i++)
        if (pairing->open.at[len - 1 - i]->event.name == end->event.name)
            return len - 1 - i;
    return len;
}

/* All that are open from `first` on stay alone. */
static void leave_open(Pairing *pairing, size_t first)
{
    for (size_t i = first; i < pairing->open.len; i++)
        lose_half(pairing, pairing->open.at[i], PROFILE_LOSS_UNPAIRED);
    pairing->open.len = first;
}

static void pair_half(Pairing *pairing, const Half *half)
{
    if (half->begin) {
        vec_push(&pairing->open, half);
        return;
    }
    const size_t at = find_begin(pairing, half);

    if (at == pairing->open.len) {
        lose_half(pairing, half, PROFILE_LOSS_UNPAIRED);
        return;
    }
    leave_open(pairing, at + 1);
    add_pair(pairing, pairing->open.at[at], half);
    pairing->open.len = at;
}

void halves_pair(TraceScan *scan)
{
    Halves *halves = &scan->halves;
    Pairing pairing = {.scan = scan};

    if (halves->len == 0)
        return;
    vec_sort(halves, by_half);
    for (size_t i = 0; i < halves->len; i++) {
        pair_half(&pairing, &halves->at[i]);
        if (i + 1 == halves->len || compare_keys(&halves->at[i].thread, &halves->at[i + 1].thread) != 0)
            leave_open(&pairing, 0);
    }
    report_lost(&pairing);
    if (scan->options.learn)
        vec_sort(&scan->options.learn->halves, by_front);
    vec_done(&pairing.open);
    vec_done(&pairing.lost);
    vec_done(halves);
}

/* Ids over 32 bits (other vendors' correlations): numbered in their own order, above all others. */

static uint32_t *field_at(Profile *profile, const Wide *wide)
{
    uint32_t *const columns[] = {[WIDE_GPU_LINK] = profile->gpu.link,
                                 [WIDE_GPU_EXTERNAL] = profile->gpu.external,
                                 [WIDE_HOST_LINK] = profile->host.link};

    if (wide->field <= WIDE_HOST_LINK)
        return &columns[wide->field][wide->row];
    ProfileSync *sync = &profile->syncs.at[wide->row];

    return wide->field == WIDE_SYNC_LINK ? &sync->link : &sync->wait_link;
}

static uint32_t largest_id(const uint32_t *ids, size_t count, uint32_t max)
{
    for (size_t i = 0; i < count; i++)
        max = ids[i] > max ? ids[i] : max;
    return max;
}

void wides_number(Wides *wides, Profile *profile, TraceKnown *learn)
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
    vec_sort(wides, by_front);
    for (size_t i = 0; i < wides->len; i++) {
        const bool another = i == 0 || wides->at[i].id != wides->at[i - 1].id;

        if (another && ++number == 0)
            number = 1; /* only where ids go up to 2^32 already: it wraps */
        if (another && learn)
            vec_push(&learn->ids, ((KnownId){.id = wides->at[i].id, .number = number}));
        *field_at(profile, &wides->at[i]) = number;
    }
    vec_clear(wides);
}
