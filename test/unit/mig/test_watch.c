/* SPDX-License-Identifier: Apache-2.0 */
/* engine/mig/watch.h: one event for each change that settles, by whom, none for what is not known. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "engine/mig/watch.h"

#define SMALL "7x1g.10gb"
#define LARGE "3g.40gb+4g.40gb"

/* One GPU, and what the watch said of it. */
typedef struct Rig {
    MigWatch *watch;
    Node node;
    NodeGpu gpu;
    bool runs;
    unsigned changes, layouts;
    char layout[MIG_LAYOUT_CAP], change[2 * NODE_CHANGE_CAP];
    uint32_t pid;
} Rig;

static void note_known(void *self, const char *uuid, const char *layout, const char *change, uint32_t pid)
{
    Rig *rig = self;

    assert_string_equal(uuid, "GPU-a");
    rig->layouts++;
    snprintf(rig->layout, sizeof rig->layout, "%s", layout);
    if (!change)
        return;
    rig->changes++;
    rig->pid = pid;
    snprintf(rig->change, sizeof rig->change, "%s", change);
}

static bool process_runs(void *self, uint32_t pid)
{
    assert_int_equal(pid, 4711);
    return ((Rig *)self)->runs;
}

static int make_rig(void **state)
{
    Rig *rig = calloc(1, sizeof *rig);

    rig->watch = mig_watch_new(&(MigWatchSink){note_known, process_runs, rig});
    rig->node = (Node){.time_ns = 1000 * NS_PER_S, .gpu_count = 1, .gpus = &rig->gpu};
    reading_init(&rig->gpu.reading, DEVICE_GPU);
    snprintf(rig->gpu.reading.device.uuid, sizeof rig->gpu.reading.device.uuid, "GPU-a");
    rig->gpu.state = GPU_UP;
    *state = rig;
    return 0;
}

static int free_rig(void **state)
{
    Rig *rig = *state;

    mig_watch_free(rig->watch);
    free(rig);
    return 0;
}

static void see(Rig *rig, const char *layout, uint64_t for_ns)
{
    snprintf(rig->gpu.mig_layout, sizeof rig->gpu.mig_layout, "%s", layout);
    for (const uint64_t end = rig->node.time_ns + for_ns; rig->node.time_ns < end;) {
        mig_watch_tick(rig->watch, &rig->node);
        rig->node.time_ns += NS_PER_S / 2;
    }
    mig_watch_tick(rig->watch, &rig->node);
}

static void tell(Rig *rig, const char *words)
{
    char copy[512];
    const char *at[40], *uuid;
    size_t count = 0;
    MigNotice notice;
    CLEANUP(str_done) Str back = str_limited(512);
    char *rest = copy;
    Err err;

    snprintf(copy, sizeof copy, "%s", words);
    for (char *word; (word = strsep(&rest, " "));)
        at[count++] = word;
    assert_int_equal(mig_notice_read(at, count, &notice, &uuid, &err), 0);
    mig_notice_write(&notice, uuid, &back);
    assert_string_equal(back.text, words);
    mig_watch_tell(rig->watch, uuid, &notice);
}

static void the_first_layout_is_no_change(void **state)
{
    Rig *rig = *state;

    see(rig, SMALL, MIG_SETTLE_NS - NS_PER_S / 2);
    assert_int_equal(rig->layouts, 0);
    see(rig, SMALL, 2 * MIG_SETTLE_NS);
    assert_int_equal(rig->layouts, 1);
    assert_string_equal(rig->layout, SMALL);
    assert_int_equal(rig->changes, 0);
}

/* Seven instances go one by one, then two come. */
static void a_change_is_one_event_once_it_has_settled(void **state)
{
    Rig *rig = *state;

    see(rig, SMALL, MIG_SETTLE_NS);
    for (const char *const *step = (const char *const[]){"6x1g.10gb", "2x1g.10gb", "none", "4g.40gb", NULL}; *step;
         step++)
        see(rig, *step, MIG_SETTLE_NS - NS_PER_S);
    assert_int_equal(rig->changes, 0);
    see(rig, LARGE, 3 * MIG_SETTLE_NS);
    assert_int_equal(rig->changes, 1);
    assert_string_equal(rig->change, SMALL " -> " LARGE ", not by stoker");
    assert_string_equal(rig->layout, LARGE);
    see(rig, SMALL, NS_PER_S);
    see(rig, LARGE, 2 * MIG_SETTLE_NS);
    assert_int_equal(rig->changes, 1);
}

static void what_is_not_known_is_no_change(void **state)
{
    Rig *rig = *state;

    see(rig, SMALL, MIG_SETTLE_NS);
    see(rig, "", 4 * MIG_SETTLE_NS);
    for (GpuState s = GPU_STARTING; s < GPU_STATE_END; s++) {
        rig->gpu.state = s;
        if (s != GPU_UP)
            see(rig, "none", 4 * MIG_SETTLE_NS);
    }
    rig->gpu.state = GPU_UP;
    see(rig, "none", MIG_SETTLE_NS - NS_PER_S / 2); /* what it was while it was not up does not count */
    see(rig, SMALL, MIG_SETTLE_NS);
    assert_int_equal(rig->changes, 0);
    assert_int_equal(rig->layouts, 1);
}

static void over_a_restart(void **state)
{
    Rig *rig = *state;

    mig_watch_recall(rig->watch, "GPU-a", SMALL);
    see(rig, LARGE, MIG_SETTLE_NS);
    assert_int_equal(rig->changes, 1);
    assert_string_equal(rig->change, SMALL " -> " LARGE ", while no agent ran");
    see(rig, SMALL, MIG_SETTLE_NS);
    assert_string_equal(rig->change, LARGE " -> " SMALL ", not by stoker");
    mig_watch_recall(rig->watch, "GPU-a", SMALL);
    see(rig, SMALL, MIG_SETTLE_NS);
    assert_int_equal(rig->changes, 2);
}

static void an_apply_says_who_and_why(void **state)
{
    Rig *rig = *state;

    rig->runs = true;
    see(rig, SMALL, MIG_SETTLE_NS);
    tell(rig, "begun GPU-a " SMALL " " LARGE " alice 4711 apply for chat");
    see(rig, "2x1g.10gb", 5 * MIG_SETTLE_NS); /* it takes long */
    assert_int_equal(rig->changes, 0);
    tell(rig, "applied GPU-a " SMALL " " LARGE " alice 4711 apply for chat");
    assert_int_equal(rig->changes, 1);
    assert_string_equal(rig->change, SMALL " -> " LARGE ", applied by alice (stoker mig apply, pid 4711): for chat");
    assert_int_equal(rig->pid, 4711);
    assert_string_equal(rig->layout, LARGE);
    see(rig, "2x1g.10gb", NS_PER_S); /* the samplers are behind */
    see(rig, LARGE, 3 * MIG_SETTLE_NS);
    assert_int_equal(rig->changes, 1);
    see(rig, "none", MIG_SETTLE_NS);
    assert_string_equal(rig->change, LARGE " -> none, not by stoker");
    assert_int_equal(rig->pid, 0);
}

static void an_apply_that_fails_is_an_event(void **state)
{
    Rig *rig = *state;

    rig->runs = true;
    see(rig, SMALL, MIG_SETTLE_NS);
    tell(rig, "begun GPU-a " SMALL " " LARGE " alice 4711 apply ");
    tell(rig, "put-back GPU-a " SMALL " " LARGE " alice 4711 apply GPU 0: refused");
    see(rig, SMALL, 3 * MIG_SETTLE_NS);
    assert_int_equal(rig->changes, 1);
    assert_string_equal(rig->change, SMALL
                        " -> " LARGE ", failed and put back by alice (stoker mig apply, pid 4711): GPU 0: refused");
    assert_string_equal(rig->layout, SMALL);
    tell(rig, "partial GPU-a " SMALL " " LARGE " alice 4711 apply ");
    see(rig, "4g.40gb", 3 * MIG_SETTLE_NS);
    assert_int_equal(rig->changes, 2);
    assert_string_equal(rig->layout, "4g.40gb");
    tell(rig, "undone GPU-a 4g.40gb " SMALL " root 4711 restore ");
    assert_string_equal(rig->change,
                        "4g.40gb -> " SMALL ", cut off earlier and now undone by root (stoker mig restore, "
                        "pid 4711)");
}

static void an_apply_that_was_killed_is_named(void **state)
{
    Rig *rig = *state;

    rig->runs = true;
    see(rig, SMALL, MIG_SETTLE_NS);
    tell(rig, "begun GPU-a " SMALL " " LARGE " alice 4711 apply ");
    see(rig, "2x1g.10gb", 3 * MIG_SETTLE_NS);
    assert_int_equal(rig->changes, 0);
    rig->runs = false;
    see(rig, "2x1g.10gb", NS_PER_S);
    assert_int_equal(rig->changes, 1);
    assert_string_equal(rig->change, SMALL " -> 2x1g.10gb, begun and cut off by alice (stoker mig apply, pid 4711)");
    see(rig, "none", MIG_SETTLE_NS);
    assert_string_equal(rig->change, "2x1g.10gb -> none, not by stoker");
}

static void wrong_words_are_refused(void **state UNUSED)
{
    char large[MIG_LAYOUT_CAP + 1];
    const char *const right[] = {"applied", "GPU-a", "off", "none", "alice", "1", "apply"};
    const char *words[7], *uuid;
    MigNotice notice;
    Err err;

    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_int_equal(mig_notice_read(right, 7, &notice, &uuid, &err), 0);
    assert_int_equal(mig_notice_read(right, 6, &notice, &uuid, &err), -EINVAL);
    for (size_t i = 0; i < 7; i++) {
        memcpy(words, right, sizeof words);
        words[i] = i == 5 ? "0" : large;
        assert_int_equal(mig_notice_read(words, 7, &notice, &uuid, &err), -EINVAL);
    }
}

static void layouts_are_words(void **state UNUSED)
{
    const char *names[] = {"1g.10gb", "3g.40gb", "1c.3g.40gb", "1g.10gb", "1g.10gb+me"};
    char word[MIG_LAYOUT_CAP];

    mig_layout_word(true, names, ARRAY_LEN(names), word);
    assert_string_equal(word, "3g.40gb+1g.10gb+me+2x1g.10gb+1c.3g.40gb");
    mig_layout_word(true, names, 0, word);
    assert_string_equal(word, "none");
    mig_layout_word(false, names, 0, word);
    assert_string_equal(word, "off");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_layout_is_no_change, make_rig, free_rig),
        cmocka_unit_test_setup_teardown(a_change_is_one_event_once_it_has_settled, make_rig, free_rig),
        cmocka_unit_test_setup_teardown(what_is_not_known_is_no_change, make_rig, free_rig),
        cmocka_unit_test_setup_teardown(over_a_restart, make_rig, free_rig),
        cmocka_unit_test_setup_teardown(an_apply_says_who_and_why, make_rig, free_rig),
        cmocka_unit_test_setup_teardown(an_apply_that_fails_is_an_event, make_rig, free_rig),
        cmocka_unit_test_setup_teardown(an_apply_that_was_killed_is_named, make_rig, free_rig),
        cmocka_unit_test(wrong_words_are_refused),
        cmocka_unit_test(layouts_are_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
