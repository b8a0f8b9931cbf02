/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two rings of the board: fast readings of a row, events of a sampler. One writer, which never waits and may be
 * killed anywhere; one reader, which remembers how far it came and finds out what was overwritten. The head counts all
 * that was ever written and wraps at 2^32, which the lengths divide. An entry's time is its first word and never 0: the
 * writer makes it 0, moves the head, writes the rest and then the time. So a reader who sees anything of a new entry
 * also sees the new head, and one who finds 0 knows that the entry is not whole.
 */

#include <assert.h>
#include <string.h>

#include "source/board/board.h"
#include "source/board/words.h"

typedef struct Tail {
    unsigned char *entries;
    size_t size; /* of an entry, time first */
    uint32_t len;
} Tail;

static_assert(offsetof(FastReading, time_ns) == 0 && offsetof(XidEvent, time_ns) == 0, "the time comes first");

static void push_entry(const Tail *tail, _Atomic uint32_t *head, uint64_t time_ns, const void *entry)
{
    static const uint64_t unfinished = 0;
    uint32_t at = atomic_load_explicit(head, memory_order_relaxed);
    unsigned char *place = tail->entries + at % tail->len * tail->size;
    const unsigned char *from = entry;
    uint64_t stamp = time_ns ? time_ns : 1;

    words_store(place, &unfinished, sizeof(unfinished));
    atomic_store_explicit(head, at + 1, memory_order_release);
    words_store(place + sizeof(stamp), from + sizeof(stamp), tail->size - sizeof(stamp));
    words_store(place, &stamp, sizeof(stamp));
}

typedef enum Got { GOT_ENTRY, GOT_NOTHING, GOT_UNFINISHED } Got;

/* Copies entry number `at` out, if it is still there. */
static Got copy_entry(const Tail *tail, const _Atomic uint32_t *head, uint32_t at, void *out)
{
    const unsigned char *place = tail->entries + at % tail->len * tail->size;
    uint64_t time_ns, again_ns = 0;
    uint32_t age;

    words_load(out, place, tail->size);
    memcpy(&time_ns, out, sizeof(time_ns));
    words_load(&again_ns, place, sizeof(again_ns));
    age = atomic_load_explicit(head, memory_order_acquire) - at;
    if (age <= tail->len && time_ns != 0 && time_ns == again_ns)
        return GOT_ENTRY;
    return age == 1 ? GOT_UNFINISHED : GOT_NOTHING;
}

/* Where to go on: *head, or where that is no place in this ring, the oldest entry there is. */
static uint32_t first_entry(uint32_t len, uint32_t now, uint32_t head, uint64_t *ret_lost)
{
    uint32_t from = (int32_t)(now - head) >= 0 ? head : 0;

    *ret_lost = now - from > len ? now - from - len : 0;
    return now - from > len ? now - len : from;
}

static size_t take_entries(const Tail *tail, const _Atomic uint32_t *ring_head, uint32_t *head, void *out, uint64_t *ret_lost)
{
    uint32_t now = atomic_load_explicit(ring_head, memory_order_acquire);
    uint32_t at = first_entry(tail->len, now, *head, ret_lost);
    unsigned char *to = out;
    size_t count = 0;

    for (; at != now; at++) {
        Got got = copy_entry(tail, ring_head, at, to + count * tail->size);

        if (got == GOT_UNFINISHED)
            break; /* the newest: next time */
        if (got == GOT_ENTRY)
            count++;
        else
            ++*ret_lost;
    }
    *head = at;
    return count;
}

void board_push_fast(BoardRow *row, const FastReading *fast)
{
    Tail tail = {(unsigned char *)row->fast, sizeof(*fast), BOARD_FAST_LEN};

    push_entry(&tail, &row->fast_head, fast->time_ns, fast);
}

void board_push_event(BoardSampler *sampler, const XidEvent *event)
{
    Tail tail = {(unsigned char *)sampler->events, sizeof(*event), BOARD_EVENTS_LEN};

    push_entry(&tail, &sampler->event_head, event->time_ns, event);
}

/* The reader does not write, but shares the struct with the writer. */
static Tail tail_of(const void *entries, size_t size, uint32_t len)
{
    union {
        const void *in;
        unsigned char *out;
    } at = {.in = entries};

    return (Tail){at.out, size, len};
}

size_t board_take_fast(const BoardRow *row, uint32_t *head, FastReading out[BOARD_FAST_LEN], uint64_t *ret_lost)
{
    Tail tail = tail_of(row->fast, sizeof(*out), BOARD_FAST_LEN);
    size_t count = take_entries(&tail, &row->fast_head, head, out, ret_lost);

    for (size_t i = 0; i < count; i++)
        out[i].valid &= (1U << READING_FAST_CAP) - 1;
    return count;
}

size_t board_take_events(const BoardSampler *sampler, uint32_t *head, XidEvent out[BOARD_EVENTS_LEN],
                         uint64_t *ret_lost)
{
    Tail tail = tail_of(sampler->events, sizeof(*out), BOARD_EVENTS_LEN);

    return take_entries(&tail, &sampler->event_head, head, out, ret_lost);
}
