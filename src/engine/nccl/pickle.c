/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict reader of pickles (protocols 2 to 5) that hold plain values only. The machine has a stack and a memo;
 * nothing in it imports or calls. What the memo gives back is shared and cannot be changed any more; a container that
 * is still being filled is copied out instead, so no value is part of itself. Depth and number of values are bounded.
 */
#include <math.h>
#include <string.h>

#include "base/attribute.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "engine/nccl/job.h"
#include "engine/nccl/pickle.h"

enum { HEIGHT_MAX = 64, MEMO_GAP_MAX = 1 << 20 };

typedef struct Slot {
    json_t *value; /* owned */
    unsigned height;
    bool callable; /* stands for a function that makes a list of its argument */
    bool shared;   /* from the memo, or a tuple: must not be changed */
    size_t weight; /* values in it, what is shared counted each time */
    size_t kept;   /* its place in the memo and 1; 0: none */
} Slot;

typedef struct Kept {
    json_t *value; /* owned, NULL none */
    unsigned height;
    size_t weight;
    bool open; /* a container that is still on the stack: height and weight are not known yet */
} Kept;

typedef struct Unpickler {
    Span in;
    VEC(Slot) stack;
    VEC(size_t) marks; /* where the stack ended then, oldest first */
    VEC(Kept) memo;
    const PickleLimits *limits;
    size_t values;
    const char *why;
} Unpickler;

static bool refuse_pickle(Unpickler *m, const char *why)
{
    if (!m->why)
        m->why = why;
    return false;
}

static void unpickler_done(Unpickler *m)
{
    for (size_t i = 0; i < m->stack.len; i++)
        json_decref(m->stack.at[i].value);
    for (size_t i = 0; i < m->memo.len; i++)
        json_decref(m->memo.at[i].value);
    vec_done(&m->stack);
    vec_done(&m->marks);
    vec_done(&m->memo);
}

/* `len` bytes, little-endian as a number where len <= 8. */
static bool read_bytes(Unpickler *m, size_t len, Span *ret)
{
    if (m->in.len < len)
        return refuse_pickle(m, "it ends in the middle");
    *ret = span_cut(m->in, 0, len);
    m->in = span_from(m->in, len);
    return true;
}

static bool read_little_endian(Unpickler *m, size_t len, uint64_t *ret)
{
    Span s;

    if (!read_bytes(m, len, &s))
        return false;
    *ret = 0;
    for (size_t i = len; i-- > 0;)
        *ret = *ret << 8 | (unsigned char)s.at[i];
    return true;
}

static bool push_slot(Unpickler *m, Slot slot)
{
    if (m->values++ >= m->limits->values || !slot.value) {
        json_decref(slot.value);
        return refuse_pickle(m, "it holds too many values");
    }
    vec_push(&m->stack, slot);
    return true;
}

static bool push_value(Unpickler *m, json_t *value)
{
    return push_slot(m, (Slot){.value = value, .weight = 1});
}

static bool push_mark(Unpickler *m, UNUSED size_t unused)
{
    if (m->values++ >= m->limits->values)
        return refuse_pickle(m, "it holds too many values");
    vec_push(&m->marks, m->stack.len);
    return true;
}

static bool push_text(Unpickler *m, size_t width)
{
    uint64_t len;
    Span s;

    if (!read_little_endian(m, width, &len) || !read_bytes(m, len, &s))
        return false;
    json_t *text = json_stringn(s.at, s.len);
    return push_value(m, text ? text : json_string("?"));
}

/* Of a length that stands in one byte. */
static bool push_long(Unpickler *m, size_t width)
{
    uint64_t len, value, sign;

    if (!read_little_endian(m, width, &len) || len > 9)
        return refuse_pickle(m, "a number of more than 64 bits");
    if (!read_little_endian(m, len < 8 ? len : 8, &value))
        return false;
    if (len == 9) { /* from 2^63 to 2^64 - 1: the ninth byte is the sign */
        if (!read_little_endian(m, 1, &sign))
            return false;
        return sign ? refuse_pickle(m, "a number of more than 64 bits") : push_value(m, json_real((double)value));
    }
    if (len && len < 8 && value >> (len * 8 - 1))
        value |= ~0ull << (len * 8);
    return push_value(m, json_integer((json_int_t)value));
}

static bool push_double(Unpickler *m, size_t width)
{
    uint64_t bits;
    double value;

    if (!read_little_endian(m, width, &bits))
        return false;
    bits = __builtin_bswap64(bits); /* this one is big-endian */
    memcpy(&value, &bits, sizeof value);
    return push_value(m, isfinite(value) ? json_real(value) : json_null());
}

/* The first value behind the newest mark. */
static size_t find_bottom(const Unpickler *m)
{
    return m->marks.len ? m->marks.at[m->marks.len - 1] : 0;
}

static Slot *peek_slot(Unpickler *m, size_t below)
{
    if (m->stack.len > find_bottom(m) + below)
        return &m->stack.at[m->stack.len - 1 - below];
    refuse_pickle(m, "its stack runs empty");
    return NULL;
}

/* Removes the newest mark, which has `below` values of its own before it; *ret_from is the first value behind it. */
static bool pop_mark(Unpickler *m, size_t below, size_t *ret_from)
{
    if (m->marks.len == 0)
        return refuse_pickle(m, "a mark is missing");
    *ret_from = m->marks.at[--m->marks.len];
    return *ret_from >= find_bottom(m) + below || refuse_pickle(m, "a mark is missing");
}

static bool count_part(Unpickler *m, Slot *into, const Slot *part)
{
    if (part->callable)
        return refuse_pickle(m, "it wants to keep a function");
    if (into->shared)
        return refuse_pickle(m, "it changes a value that is used elsewhere");
    if (__builtin_add_overflow(into->weight, part->weight, &into->weight))
        into->weight = SIZE_MAX;
    if (into->weight > m->limits->expanded)
        return refuse_pickle(m, "it holds too many values");
    if (part->height + 1 > into->height)
        into->height = part->height + 1;
    return into->height < HEIGHT_MAX || refuse_pickle(m, "it is nested too deeply");
}

/* From here on nothing can change the value, so the memo may share it. */
static void close_kept(Unpickler *m, const Slot *slot)
{
    Kept *kept = slot->kept ? &m->memo.at[slot->kept - 1] : NULL;

    if (kept && kept->value == slot->value)
        *kept = (Kept){.value = kept->value, .height = slot->height, .weight = slot->weight};
}

static void drop_slots(Unpickler *m, size_t to)
{
    while (m->stack.len > to) {
        const Slot *slot = &m->stack.at[--m->stack.len];
        close_kept(m, slot);
        json_decref(slot->value);
    }
}

/* Moves stack[from..] into the list. */
static bool append_items(Unpickler *m, Slot *list, size_t from)
{
    if (!json_is_array(list->value))
        return refuse_pickle(m, "it appends to what is no list");
    for (size_t i = from; i < m->stack.len; i++) {
        if (!count_part(m, list, &m->stack.at[i]))
            return false;
        json_array_append(list->value, m->stack.at[i].value);
    }
    drop_slots(m, from);
    return true;
}

static bool set_item(Unpickler *m, Slot *dict, const Slot *key, const Slot *value)
{
    char room[32];

    if (!json_is_object(dict->value))
        return refuse_pickle(m, "it sets an item of what is no dict");
    if (!count_part(m, dict, value))
        return false;
    if (json_is_string(key->value))
        json_object_set(dict->value, json_string_value(key->value), value->value);
    else if (json_is_integer(key->value)) {
        snprintf(room, sizeof room, "%lld", (long long)json_integer_value(key->value));
        json_object_set(dict->value, room, value->value);
    } else
        return refuse_pickle(m, "a key is neither text nor number");
    return true;
}

/* Moves stack[from..], keys and values in turn, into the dict. */
static bool set_items(Unpickler *m, Slot *dict, size_t from)
{
    for (size_t i = from; i + 1 < m->stack.len; i += 2)
        if (!set_item(m, dict, &m->stack.at[i], &m->stack.at[i + 1]))
            return false;
    drop_slots(m, from);
    return true;
}

static bool close_list(Unpickler *m, UNUSED size_t unused)
{
    size_t from;

    return pop_mark(m, 1, &from) && append_items(m, &m->stack.at[from - 1], from);
}

static bool close_dict(Unpickler *m, UNUSED size_t unused)
{
    size_t from;

    if (!pop_mark(m, 1, &from))
        return false;
    if ((m->stack.len - from) % 2)
        return refuse_pickle(m, "a mark is missing");
    return set_items(m, &m->stack.at[from - 1], from);
}

/* stack[from..] become one tuple. */
static bool make_tuple(Unpickler *m, size_t from)
{
    Slot tuple = {.value = json_array(), .weight = 1};

    if (append_items(m, &tuple, from)) {
        tuple.shared = true;
        return push_slot(m, tuple);
    }
    json_decref(tuple.value);
    return false;
}

static bool make_small_tuple(Unpickler *m, size_t count)
{
    return peek_slot(m, count - 1) && make_tuple(m, m->stack.len - count);
}

static bool close_tuple(Unpickler *m, UNUSED size_t unused)
{
    size_t from;

    return pop_mark(m, 0, &from) && make_tuple(m, from);
}

static bool put_memo(Unpickler *m, uint64_t at)
{
    Slot *slot = peek_slot(m, 0);

    if (!slot)
        return false;
    if (at >= m->limits->values || (at > m->memo.len && at >= MEMO_GAP_MAX))
        return refuse_pickle(m, "its memo is too large");
    if (slot->callable)
        return true;
    if (slot->kept)
        return refuse_pickle(m, "it keeps a value twice");
    while (m->memo.len <= at)
        vec_push(&m->memo, (Kept){0});
    json_decref(m->memo.at[at].value);
    m->memo.at[at] = (Kept){.value = json_incref(slot->value),
                            .height = slot->height,
                            .weight = slot->weight,
                            .open = !slot->shared && (json_is_array(slot->value) || json_is_object(slot->value))};
    slot->kept = m->memo.at[at].open ? at + 1 : 0;
    return true;
}

/* A counted copy; NULL where that is too much. Values are at most HEIGHT_MAX high. */
static json_t *copy_value(Unpickler *m, json_t *value, unsigned *height)
{
    unsigned below = 0;
    const char *key;
    json_t *part;
    size_t i;

    *height = 0;
    if (++m->values > m->limits->values)
        return NULL;
    if (!json_is_array(value) && !json_is_object(value))
        return json_incref(value);
    json_t *made = json_is_array(value) ? json_array() : json_object();
    json_array_foreach(value, i, part)
    {
        json_array_append_new(made, copy_value(m, part, &below));
        *height = below + 1 > *height ? below + 1 : *height;
    }
    json_object_foreach(value, key, part)
    {
        json_object_set_new(made, key, copy_value(m, part, &below));
        *height = below + 1 > *height ? below + 1 : *height;
    }
    return made;
}

static bool get_memo(Unpickler *m, uint64_t at)
{
    const size_t before = m->values;
    unsigned height;

    if (at >= m->memo.len || !m->memo.at[at].value)
        return refuse_pickle(m, "it recalls what it never kept");
    const Kept *kept = &m->memo.at[at];
    if (!kept->open)
        return push_slot(
            m,
            (Slot){.value = json_incref(kept->value), .height = kept->height, .weight = kept->weight, .shared = true});
    json_t *value = copy_value(m, kept->value, &height);
    return push_slot(m, (Slot){.value = value, .height = height, .weight = m->values - before});
}

/* The place of a value in the memo, in `width` bytes; 0: the next one. */
static bool put_indexed(Unpickler *m, size_t width)
{
    uint64_t at = m->memo.len;

    return (width == 0 || read_little_endian(m, width, &at)) && put_memo(m, at);
}

static bool get_indexed(Unpickler *m, size_t width)
{
    uint64_t at;

    return read_little_endian(m, width, &at) && get_memo(m, at);
}

/* The functions that make lists of numbers are known by name; any other ends the reading. */
static bool name_function(Unpickler *m, UNUSED size_t unused)
{
    Span module = span_until(&m->in, '\n'), name = span_until(&m->in, '\n');

    if (!span_is(module, "torch.jit._pickle") ||
        !(span_is(name, "build_intlist") || span_is(name, "build_doublelist") || span_is(name, "build_boollist")))
        return refuse_pickle(m, "it wants to call a function: refused");
    if (!push_value(m, json_null()))
        return false;
    m->stack.at[m->stack.len - 1].callable = true;
    return true;
}

static bool call_function(Unpickler *m, UNUSED size_t unused)
{
    Slot *args = peek_slot(m, 0), *function = peek_slot(m, 1);

    if (!args || !function || !function->callable || json_array_size(args->value) != 1)
        return refuse_pickle(m, "it wants to call a function: refused");
    json_t *list = json_incref(json_array_get(args->value, 0));
    const Slot made = {.value = list, .height = args->height, .weight = args->weight, .shared = true};
    drop_slots(m, m->stack.len - 2);
    return push_slot(m, made);
}

/* The one of four bytes has a sign. */
static bool push_integer(Unpickler *m, size_t width)
{
    uint64_t value;

    if (!read_little_endian(m, width, &value))
        return false;
    return push_value(m, json_integer(width == 4 ? (json_int_t)(int32_t)value : (json_int_t)value));
}

static bool push_null(Unpickler *m, UNUSED size_t unused)
{
    return push_value(m, json_null());
}

static bool push_boolean(Unpickler *m, size_t value)
{
    return push_value(m, json_boolean(value));
}

static bool push_container(Unpickler *m, size_t is_dict)
{
    return push_value(m, is_dict ? json_object() : json_array());
}

static bool skip_bytes(Unpickler *m, size_t len)
{
    Span skipped;

    return read_bytes(m, len, &skipped);
}

static bool append_one(Unpickler *m, UNUSED size_t unused)
{
    Slot *list = peek_slot(m, 1);

    return list && append_items(m, list, m->stack.len - 1);
}

static bool set_one(Unpickler *m, UNUSED size_t unused)
{
    Slot *dict = peek_slot(m, 2);

    return dict && set_items(m, dict, m->stack.len - 2);
}

static const struct {
    bool (*run)(Unpickler *m, size_t argument);
    size_t argument;
} operations[256] = {
    [0x80] = {skip_bytes, 1}, /* PROTO */
    [0x95] = {skip_bytes, 8}, /* FRAME */
    ['N'] = {push_null, 0},          [0x88] = {push_boolean, true},   [0x89] = {push_boolean, false},
    ['K'] = {push_integer, 1},       ['M'] = {push_integer, 2},       ['J'] = {push_integer, 4},
    [0x8a] = {push_long, 1},         ['G'] = {push_double, 8},        ['X'] = {push_text, 4},
    [0x8c] = {push_text, 1},         [0x8d] = {push_text, 8},         ['}'] = {push_container, true},
    [']'] = {push_container, false}, [')'] = {push_container, false}, ['('] = {push_mark, 0},
    ['a'] = {append_one, 0},         ['e'] = {close_list, 0},         ['s'] = {set_one, 0},
    ['u'] = {close_dict, 0},         ['t'] = {close_tuple, 0},        [0x85] = {make_small_tuple, 1},
    [0x86] = {make_small_tuple, 2},  [0x87] = {make_small_tuple, 3},  ['q'] = {put_indexed, 1},
    ['r'] = {put_indexed, 4},        [0x94] = {put_indexed, 0}, /* MEMOIZE */
    ['h'] = {get_indexed, 1},        ['j'] = {get_indexed, 4},        ['c'] = {name_function, 0},
    ['R'] = {call_function, 0},
};

json_t *nccl_parse_pickle(Span in, const PickleLimits *limits, const char **ret_why)
{
    CLEANUP(unpickler_done) Unpickler m = {.in = in, .limits = limits};

    while (m.in.len) {
        unsigned char op = (unsigned char)m.in.at[0];
        m.in = span_from(m.in, 1);
        if (op == '.') {
            const Slot *result = peek_slot(&m, 0);
            *ret_why = m.why ? m.why : result->callable ? "it is a function" : NULL;
            return *ret_why ? NULL : json_incref(result->value);
        }
        if (!operations[op].run) {
            refuse_pickle(&m, "it has an operation that plain values do not need");
            break;
        }
        if (!operations[op].run(&m, operations[op].argument))
            break;
    }
    *ret_why = m.why ? m.why : "it ends in the middle";
    return NULL;
}

void nccl_read_pickle(NcclJob *job, Span in)
{
    static const PickleLimits limits = {.values = 8 << 20, .expanded = 8 << 20};
    const char *why;
    CLEANUP(json_decref_at) json_t *top_value = nccl_parse_pickle(in, &limits, &why);

    if (top_value)
        nccl_read_flight(job, top_value);
    else {
        nccl_input(job)->kind = NCCL_KIND_OTHER;
        nccl_input(job)->trouble = nccl_printf(job, "a pickle that cannot be read: %s", why);
    }
}
