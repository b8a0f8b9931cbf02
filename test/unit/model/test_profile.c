/* SPDX-License-Identifier: Apache-2.0 */
/* A profile's columns: what goes in comes out in one order, whatever order and however many parts it came in. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/profile.h"

static uint64_t state = 88172645463325252U;

static uint64_t any(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static uint32_t named(Profile *p, const char *text)
{
    return profile_name(p, text, strlen(text));
}

static void test_names(void **unused)
{
    Profile p;

    (void)unused;
    profile_init(&p);
    const uint32_t b = named(&p, "b"), a = named(&p, "a"), odd = profile_name(&p, "x\0y", 3);

    assert_int_equal(named(&p, "b"), b);
    assert_int_not_equal(a, b);
    assert_int_equal(profile_name_find(&p, "a"), a);
    assert_int_equal(profile_name_find(&p, "c"), PROFILE_NONE);
    size_t len;

    assert_memory_equal(profile_text(&p, odd, &len), "x\0y", 4);
    assert_int_equal(len, 3);
    assert_string_equal(profile_text(&p, PROFILE_NONE, &len), "");
    profile_seal(&p, 1);
    assert_string_equal(profile_text(&p, 0, NULL), "a");
    assert_string_equal(profile_text(&p, 1, NULL), "b");
    assert_int_equal(profile_name_find(&p, "b"), 1);
    profile_done(&p);
    profile_done(&p);
}

static void test_many_names(void **unused)
{
    Profile p;
    char text[32];

    (void)unused;
    profile_init(&p);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(profile_name(&p, text, (size_t)snprintf(text, sizeof(text), "kernel_%d", i)), i);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(profile_name(&p, text, (size_t)snprintf(text, sizeof(text), "kernel_%d", i)), i);
    assert_int_equal(profile_name_count(&p), 5000);
    profile_done(&p);
}

static void test_copy_words(void **unused)
{
    static const struct {
        const char *name;
        int kind, source, target;
    } rows[] = {
        {"Memcpy HtoD (Pageable -> Device)", PROFILE_COPY_HTOD, PROFILE_MEMORY_PAGEABLE, PROFILE_MEMORY_DEVICE},
        {"Memcpy DtoH (Device -> Pinned)", PROFILE_COPY_DTOH, PROFILE_MEMORY_DEVICE, PROFILE_MEMORY_PINNED},
        {"Memcpy PtoP (Device -> Device)", PROFILE_COPY_PTOP, PROFILE_MEMORY_DEVICE, PROFILE_MEMORY_DEVICE},
        {"Memset (Device)", PROFILE_COPY_SET, PROFILE_MEMORY_UNKNOWN, PROFILE_MEMORY_DEVICE},
        {"CopyHostToDevice", PROFILE_COPY_HTOD, 0, 0},
        {"[CUDA memcpy Device-to-Host]", PROFILE_COPY_DTOH, 0, 0},
        {"[CUDA memset]", PROFILE_COPY_SET, 0, 0},
        {"Memcpy", PROFILE_COPY_UNKNOWN, 0, 0},
        {"", PROFILE_COPY_UNKNOWN, 0, 0},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ProfileCopy copy;

        profile_copy_words(rows[i].name, strlen(rows[i].name), &copy);
        assert_int_equal(copy.kind, rows[i].kind);
        assert_int_equal(copy.source, rows[i].source);
        assert_int_equal(copy.target, rows[i].target);
    }
}

enum { EVENTS = 4000 };

typedef struct Made {
    ProfileKind kind;
    int64_t start, duration;
    int name, lane;
    uint32_t link, grid;
} Made;

/* An event as a reader would add it, with everything it needs. */
static void put(Profile *p, const Made *m)
{
    char text[32];
    const uint32_t name = profile_name(p, text, (size_t)snprintf(text, sizeof(text), "name %d", m->name));
    ProfileEvent event = {.kind = m->kind,
                          .start = m->start,
                          .duration = m->duration,
                          .name = name,
                          .link = m->link,
                          .extra = PROFILE_NONE,
                          .external = m->grid};

    if (m->kind <= PROFILE_SET) {
        event.lane = profile_stream(p, m->lane % 3, m->lane);
        if (m->kind == PROFILE_KERNEL)
            event.extra = profile_launch(p, &(ProfileLaunch){.grid = {m->grid, 1, 1}, .collective = PROFILE_NONE});
        else
            event.extra = profile_copy(p, &(ProfileCopy){.bytes = m->grid, .reported_gbs = (double)NAN});
    } else {
        event.lane = m->lane % 2 ? profile_thread(p, 1, PROFILE_NONE, m->lane, PROFILE_NONE)
                                 : profile_thread(p, 0, named(p, "Spans"), 0, name);
        if (m->kind == PROFILE_OP)
            event.extra = profile_op(p, &(ProfileOp){name, PROFILE_NONE, PROFILE_NONE, PROFILE_NONE, -1});
    }
    profile_add(p, &event);
    p->events++;
}

/* Few different times, so that ties are common; with `sorted` mostly rising, as files are. */
static void make(Made *made, size_t count, bool sorted)
{
    for (size_t i = 0; i < count; i++)
        made[i] = (Made){.kind = (ProfileKind)any(PROFILE_KIND_COUNT),
                         .start = (int64_t)any(500) + (sorted ? (int64_t)i * 10 : 0) - 300,
                         .duration = (int64_t)any(4),
                         .name = (int)any(20),
                         .lane = (int)any(7),
                         .link = (uint32_t)any(2) * (uint32_t)(1 + i),
                         .grid = (uint32_t)any(5)};
}

static void same_table(const Profile *a, const Profile *b, const ProfileEvents *x, const ProfileEvents *y)
{
    assert_int_equal(x->len, y->len);
    for (size_t i = 0; i < x->len; i++) {
        assert_int_equal(x->start[i], y->start[i]);
        assert_int_equal(x->duration[i], y->duration[i]);
        assert_string_equal(profile_text(a, x->name[i], NULL), profile_text(b, y->name[i], NULL));
        assert_int_equal(x->name[i], y->name[i]);
        assert_int_equal(x->lane[i], y->lane[i]);
        assert_int_equal(x->link[i], y->link[i]);
        assert_int_equal(x->kind[i], y->kind[i]);
        if (x->kind[i] == PROFILE_KERNEL)
            assert_int_equal(a->launches.at[x->extra[i]].grid[0], b->launches.at[y->extra[i]].grid[0]);
        if (x->kind[i] == PROFILE_COPY)
            assert_int_equal(a->copies.at[x->extra[i]].bytes, b->copies.at[y->extra[i]].bytes);
    }
}

static void same(const Profile *a, const Profile *b)
{
    same_table(a, b, &a->gpu, &b->gpu);
    same_table(a, b, &a->host, &b->host);
    same_table(a, b, &a->mark, &b->mark);
    assert_int_equal(a->lanes.len, b->lanes.len);
    assert_int_equal(a->launches.len, b->launches.len);
    assert_int_equal(a->copies.len, b->copies.len);
    assert_int_equal(a->ops.len, b->ops.len);
    assert_int_equal(a->events, b->events);
}

static void ordered(const Profile *p)
{
    const ProfileEvents *g = &p->gpu, *h = &p->host;

    for (size_t i = 1; i < g->len; i++) {
        const int32_t before = p->lanes.at[g->lane[i - 1]].device, device = p->lanes.at[g->lane[i]].device;

        assert_true(before < device || (before == device && g->start[i - 1] <= g->start[i]));
    }
    for (size_t i = 1; i < h->len; i++)
        assert_true(h->lane[i - 1] < h->lane[i] ||
                    (h->lane[i - 1] == h->lane[i] &&
                     (h->start[i - 1] < h->start[i] ||
                      (h->start[i - 1] == h->start[i] && h->duration[i - 1] >= h->duration[i]))));
}

static void test_order(void **unused)
{
    static Made made[EVENTS];

    (void)unused;
    for (int round = 0; round < 12; round++) {
        Profile straight, shuffled, parts[3];

        make(made, EVENTS, round % 2 == 0);
        profile_init(&straight);
        profile_init(&shuffled);
        for (int i = 0; i < 3; i++)
            profile_init(&parts[i]);
        for (size_t i = 0; i < EVENTS; i++)
            put(&straight, &made[i]);
        for (size_t i = 0; i < EVENTS; i++)
            put(&parts[i * 3 / EVENTS], &made[i]);
        for (size_t i = EVENTS; i > 1; i--) {
            const size_t other = any(i);
            const Made swap = made[i - 1];

            made[i - 1] = made[other];
            made[other] = swap;
        }
        for (size_t i = 0; i < EVENTS; i++)
            put(&shuffled, &made[i]);
        profile_append(&parts[0], &parts[1]);
        profile_append(&parts[0], &parts[2]);
        profile_seal(&straight, 1);
        profile_seal(&shuffled, 1);
        profile_seal(&parts[0], 1);
        ordered(&straight);
        same(&straight, &shuffled);
        same(&straight, &parts[0]);
        assert_true(profile_bytes(&straight) > EVENTS * PROFILE_EVENT_BYTES);
        profile_done(&straight);
        profile_done(&shuffled);
        for (int i = 0; i < 3; i++)
            profile_done(&parts[i]);
    }
}

static void test_duplicates(void **unused)
{
    const Made kernel = {.kind = PROFILE_KERNEL, .start = 5, .duration = 2, .link = 7};
    const Made range = {.kind = PROFILE_ANNOTATION, .start = 5, .duration = 2, .link = 0};
    Profile p;

    (void)unused;
    profile_init(&p);
    for (int i = 0; i < 3; i++) {
        put(&p, &kernel);
        put(&p, &range);
    }
    profile_seal(&p, 1);
    assert_int_equal(p.gpu.len, 1);
    assert_int_equal(p.host.len, 3);
    assert_int_equal(p.lost_by_reason[PROFILE_LOSS_DUPLICATE], 2);
    assert_int_equal(profile_lost(&p), 2);
    profile_done(&p);
}

/* Enough rows for a thread of their own, some of them twice. */
static void test_threads(void **unused)
{
    enum { MANY = 100000 };
    static Made made[MANY];
    Profile alone, helped;

    (void)unused;
    make(made, MANY, true);
    profile_init(&alone);
    profile_init(&helped);
    for (size_t i = 0; i < MANY; i++)
        for (size_t times = i % 50 == 0 ? 2 : 1; times > 0; times--)
            put(&alone, &made[i]);
    for (size_t i = MANY; i-- > 0;)
        for (size_t times = i % 50 == 0 ? 2 : 1; times > 0; times--)
            put(&helped, &made[i]);
    profile_seal(&alone, 1);
    profile_seal(&helped, 2);
    ordered(&helped);
    same(&alone, &helped);
    assert_true(alone.lost_by_reason[PROFILE_LOSS_DUPLICATE] > 0);
    assert_int_equal(alone.lost_by_reason[PROFILE_LOSS_DUPLICATE], helped.lost_by_reason[PROFILE_LOSS_DUPLICATE]);
    profile_done(&alone);
    profile_done(&helped);
}

static bool starts_late(void *context, const Profile *p, const ProfileEvents *table, size_t row)
{
    (void)p;
    return table->start[row] >= *(int64_t *)context;
}

static void test_filter(void **unused)
{
    static Made made[200];
    Profile p;
    int64_t from = 100;
    size_t expected = 0;

    (void)unused;
    make(made, 200, false);
    profile_init(&p);
    for (size_t i = 0; i < 200; i++) {
        put(&p, &made[i]);
        expected += made[i].start >= from;
    }
    profile_seal(&p, 1);
    profile_filter(&p, starts_late, &from);
    assert_int_equal(p.gpu.len + p.host.len + p.mark.len, expected);
    ordered(&p);
    profile_done(&p);
}

static void test_losses(void **unused)
{
    Profile a, b;

    (void)unused;
    profile_init(&a);
    profile_init(&b);
    a.events = 10;
    b.events = 5;
    for (uint64_t i = 0; i < PROFILE_LOSSES_KEPT; i++)
        profile_lose(&a, PROFILE_LOSS_BAD_DURATION, i, NULL, 0);
    profile_lose(&b, PROFILE_LOSS_SYNTAX, 3, "{]", 2);
    profile_append(&a, &b);
    assert_int_equal(a.losses.len, PROFILE_LOSSES_KEPT);
    assert_int_equal(a.lost_by_reason[PROFILE_LOSS_BAD_DURATION], PROFILE_LOSSES_KEPT);
    assert_int_equal(profile_lost(&a), 1);
    assert_int_equal(a.events, 15);
    for (int i = 0; i < PROFILE_LOSS_COUNT; i++)
        assert_non_null(profile_loss_words[i]);
    profile_done(&a);
    profile_init(&a);
    profile_lose(&b, PROFILE_LOSS_SYNTAX, 3, "{]", 2);
    b.events = 4;
    a.events = 2;
    profile_append(&a, &b);
    assert_string_equal(a.losses.at[0].excerpt, "{]");
    assert_int_equal(a.losses.at[0].event, 2);
    profile_done(&a);
    profile_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),  cmocka_unit_test(test_many_names), cmocka_unit_test(test_copy_words),
        cmocka_unit_test(test_order),  cmocka_unit_test(test_duplicates), cmocka_unit_test(test_filter),
        cmocka_unit_test(test_losses), cmocka_unit_test(test_threads),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
