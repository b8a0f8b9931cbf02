/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, streams and ids of the event at hand. */
#include "engine/trace/scan/thread.h"

#include <endian.h>
#include <string.h>

enum { FORMS_ANY = 1 << 16, FORMS_STREAM = 1 << 17 };

__attribute__((noinline)) static uint32_t new_name(TraceScan *scan, const Slice *slice)
{
    bool cut = false;
    const uint32_t name = names_get(scan->names, scan->profile, slice, &cut);

    if (cut)
        scan_lose(scan, PROFILE_LOSS_TOO_LONG, scan->raw_byte, slice->at, slice->len);
    return name;
}

uint32_t name_of(TraceScan *scan, Slot slot)
{
    const Slice *slice = slice_of(scan, slot);

    if (!has(scan, slot) || (slice->kind == SLICE_WORD && slice->len == 4 && memcmp(slice->at, "null", 4) == 0))
        return PROFILE_NONE;
    const uint32_t name = names_seen(scan->names, slice);

    return name != PROFILE_NONE ? name : new_name(scan, slice);
}

static void key_part(TraceScan *scan, Slot slot, int64_t *number, uint32_t *name)
{
    *number = 0;
    *name = PROFILE_NONE;
    if (!has(scan, slot) || value_integer(slice_of(scan, slot), number))
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

static LaneEntry *lane_entry(TraceScan *scan, int64_t a, int64_t b)
{
    const uint64_t h = ((uint64_t)a * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)b) * UINT64_C(0xbf58476d1ce4e5b9);

    return &scan->caches->own.lane[(h >> 40) % LANE_CACHE];
}

uint32_t thread_lane(TraceScan *scan, const ThreadKey *key)
{
    LaneEntry *entry = lane_entry(scan, key->pid, key->tid);

    if (key->pid_name != PROFILE_NONE || key->tid_name != PROFILE_NONE)
        return profile_thread(scan->profile, key->pid, key->pid_name, key->tid, key->tid_name);
    if (entry->used != LANE_THREAD || entry->pid != key->pid || entry->tid != key->tid)
        *entry = (LaneEntry){.pid = key->pid,
                             .tid = key->tid,
                             .lane = profile_thread(scan->profile, key->pid, PROFILE_NONE, key->tid, PROFILE_NONE),
                             .used = LANE_THREAD};
    return entry->lane;
}

bool number_behind(const char *text, size_t len, int64_t *ret)
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

    if (!has(scan, slot))
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

    if (has(scan, SLOT_STREAM) && value_integer(slice_of(scan, SLOT_STREAM), &stream))
        return stream;
    return number_or_behind(scan, SLOT_TID);
}

uint32_t gpu_lane(TraceScan *scan, int32_t device, int64_t stream)
{
    LaneEntry *entry = lane_entry(scan, device, stream);

    if (entry->used != LANE_STREAM || entry->pid != device || entry->tid != stream)
        *entry = (LaneEntry){
            .pid = device, .tid = stream, .lane = profile_stream(scan->profile, device, stream), .used = LANE_STREAM};
    return entry->lane;
}

/* What is 1..8 bytes long, the last one on top. */
static inline uint64_t short_text(const Slice *slice)
{
    uint64_t v;

    memcpy(&v, slice->at, sizeof v);
    return le64toh(v) << (64 - 8 * slice->len);
}

/* The texts of two slots; forms tells what they are beside that. False: not there, or longer than eight bytes. */
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
    place.lane = gpu_lane(scan, gpu_device(scan), gpu_stream(scan));
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

uint32_t id_put(TraceScan *scan, int64_t id, WideField field, size_t row)
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
    return id_in(scan, slot) ? id_put(scan, id, field, row) : 0;
}

uint32_t id_known(const TraceScan *scan, int64_t id)
{
    if (is_plain(id))
        return (uint32_t)id;
    return scan->options.known ? known_number(scan->options.known, (uint64_t)id) : 0;
}
