/* SPDX-License-Identifier: Apache-2.0 */
/* Longer edges (walk.c) change nothing but the time: a walk that has seen thousands of events says of the next one
 * what a new walk says, whole, cut or damaged, in every way of walking. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "engine/trace/scan/walk.h"

enum { EVENT_ROOM = 2048, EVENTS = 3000 };

static uint32_t seed;
static char room[EVENT_ROOM + SCAN_PAD];

static uint32_t below(uint32_t count)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 9) % count;
}

#define PICK(list) (list)[below(sizeof(list) / sizeof(list)[0])]

static size_t operator_text(char *out)
{
    static const char *const names[] = {"aten::mm", "aten::mm", "aten::add", "a\\\"b", ""};
    static const char *const tids[] = {"7", "7", "7", "7", "71", "\"7\"", "[7]", "-7.0e1"};
    static const char *const shapes[] = {"[[4096], [8192, 1024]]", "[[4096], [8192, 1024]]", "[]",
                                         "[\"]\", {\"a\": 1}]", "null"};

    return (size_t)sprintf(
        out,
        "{\n  \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": 1200, \"tid\": %s,\n  "
        "\"ts\": %u.%03u, \"dur\": %u,\n  \"args\": {\n    \"External id\": %u,\"Record function id\": 0, "
        "\"Input Dims\": %s, \"Ev Idx\": %u\n  }\n}",
        PICK(names), PICK(tids), below(1000000), below(1000), below(20), below(100000), PICK(shapes), below(9));
}

static size_t kernel_text(char *out)
{
    static const char *const grids[] = {"[32, 1, 1]", "[32, 1, 1]", "[64, 1, 1]"};
    static const char *const ends[] = {"}}", "}}", "}}", "}, \"args\": {\"device\": 1}}", "}, \"s\": \"t\"}", "} }"};

    return (size_t)sprintf(
        out,
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k%u\", \"pid\": 0, \"tid\": %u, \"ts\": %u, "
        "\"dur\": 5, \"args\": {\"queued\": 0, \"device\": 0, \"context\": 1, \"stream\": 7, "
        "\"correlation\": %u, \"registers per thread\": 168, \"shared memory\": 196608, \"blocks per "
        "SM\": 1.939394, \"grid\": %s, \"block\": [128, 1, 1], \"stream\": %u%s",
        below(3), 7 + below(2) * 13, below(1000000), below(100000), PICK(grids), below(20) ? 7 : 70, PICK(ends));
}

static size_t flow_text(char *out)
{
    return (size_t)sprintf(
        out,
        "{\"ph\": \"%c\", \"id\": %u, \"pid\": 0, \"tid\": 7, \"ts\": %u, \"cat\": \"ac2g\", \"name\": \"ac2g\"%s}",
        below(2) ? 's' : 'f', below(1000), below(1000000), below(2) ? "" : ", \"bp\": \"e\"");
}

/* An event in `room`, with what it might be mistaken for behind it; returns its length. */
static size_t event_text(void)
{
    static size_t (*const kinds[])(char *) = {operator_text, operator_text, kernel_text, flow_text};
    static const char marks[] = "\"{}[],: \\0x";
    const size_t len = PICK(kinds)(room);

    for (uint32_t i = below(12) ? 0 : 1 + below(2); i > 0; i--)
        room[below((uint32_t)len)] = marks[below(sizeof marks - 1)];
    for (size_t at = len; at < len + SCAN_PAD; at++)
        room[at] = room[at - len];
    return len;
}

static void assert_same(const Walk *walk, const Walk *fresh)
{
    assert_ptr_equal(walk->after, fresh->after);
    assert_true(walk->present == fresh->present);
    for (unsigned int slot = 0; slot < SLOT_COUNT; slot++) {
        if (!(walk->present & SLOT_BIT(slot)))
            continue;
        assert_ptr_equal(walk->slot[slot].at, fresh->slot[slot].at);
        assert_int_equal(walk->slot[slot].len, fresh->slot[slot].len);
        assert_int_equal(walk->slot[slot].kind, fresh->slot[slot].kind);
    }
}

static unsigned int fused_edges(const Walk *walk, unsigned int *constants)
{
    unsigned int count = 0;

    *constants = 0;
    for (unsigned int n = 0; n < walk->nodes; n++)
        for (unsigned int i = 0; i < walk->node[n].edges; i++) {
            const Edge *edge = &walk->node[n].edge[i];

            count += edge->constants > 0;
            *constants = edge->constants > *constants ? edge->constants : *constants;
        }
    return count;
}

static void walk_events(const Walker *walker)
{
    Walk *walk = walk_new();
    unsigned int done = 0, constants;

    for (unsigned int i = 0; i < EVENTS; i++) {
        const size_t len = event_text(), cut = below(4) ? len : below((uint32_t)len + 1);
        Walk *fresh = walk_new();
        const WalkResult result = walker->event(walk, room, room + cut);

        assert_int_equal(result, walker->event(fresh, room, room + cut));
        if (result == WALK_DONE)
            assert_same(walk, fresh);
        done += result == WALK_DONE;
        walk_free(fresh);
    }
    assert_true(done > EVENTS / 2);
    assert_true(fused_edges(walk, &constants) >= 5);
    assert_true(constants >= 4);
    walk_free(walk);
}

static void edges_change_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < walkers_count; i++)
        for (seed = 1; walkers[i].usable() && seed < 3; seed++) {
            const uint32_t round = seed;

            walk_events(&walkers[i]);
            seed = round;
        }
}

static unsigned int all_edges(const Walk *walk)
{
    unsigned int count = 0;

    for (unsigned int n = 0; n < walk->nodes; n++)
        count += walk->node[n].edges;
    return count;
}

/* However long an edge is, the text that it was learned from takes it: nothing is learned again. */
static void an_edge_is_learned_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < walkers_count; i++)
        for (int spaces = 0; walkers[i].usable() && spaces < 110; spaces++) {
            Walk *walk = walk_new();
            const int len = sprintf(room, "{\"ph\": \"X\",%*s\"name\": \"a\", \"dur\": 5}", spaces, "");
            unsigned int learned;

            memset(room + len, 0, SCAN_PAD);
            assert_int_equal(walkers[i].event(walk, room, room + len), WALK_DONE);
            learned = all_edges(walk);
            assert_int_equal(learned, 4);
            assert_int_equal(walkers[i].event(walk, room, room + len), WALK_DONE);
            assert_int_equal(all_edges(walk), learned);
            walk_free(walk);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(edges_change_nothing),
                                       cmocka_unit_test(an_edge_is_learned_once)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
