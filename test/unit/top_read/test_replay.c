/* SPDX-License-Identifier: Apache-2.0 */
/* verb/top/{feed,recording,processes}.c and the names of keys: what `stoker top` does with time, files, keys and
 * processes. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/duration.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "random.h"
#include "source/host/host.h"
#include "source/proc/task.h"
#include "verb/top/feed.h"
#include "service/top/top.h"
#include "verb/top/processes.h"
#include "verb/top/recording.h"

#define FROM_NS (1767614400 * NS_PER_S)

/* --- time -----------------------------------------------------------------------------------------------------------
 */

static void test_play_moves_with_the_clock(void **state)
{
    Play p = {0};

    (void)state;
    play_begin(&p, FROM_NS, FROM_NS + 100 * NS_PER_S, FROM_NS, 1000);
    assert_int_equal(play_advance(&p, 1000 + 3 * NS_PER_S), FROM_NS + 3 * NS_PER_S);
    play_set_speed(&p, 10, 1000 + 3 * NS_PER_S);
    assert_int_equal(play_advance(&p, 1000 + 4 * NS_PER_S), FROM_NS + 13 * NS_PER_S);
    assert_int_equal(play_due(&p, FROM_NS + 13 * NS_PER_S), 0);
    assert_int_equal(play_due(&p, FROM_NS + 23 * NS_PER_S), 1000 + 5 * NS_PER_S);
    play_pause(&p, true, 1000 + 4 * NS_PER_S);
    assert_int_equal(play_advance(&p, 1000 + 50 * NS_PER_S), FROM_NS + 13 * NS_PER_S);
    assert_true(play_due(&p, FROM_NS + 14 * NS_PER_S) == UINT64_MAX);
    play_seek(&p, -5, 1000 + 50 * NS_PER_S);
    assert_int_equal(p.at_ns, FROM_NS + 8 * NS_PER_S);
    play_seek(&p, -500, 1000 + 50 * NS_PER_S);
    assert_int_equal(p.at_ns, FROM_NS);
    play_pause(&p, false, 1000 + 50 * NS_PER_S);
    assert_true(p.at_ns < p.to_ns);
    play_advance(&p, 1000 + 5000 * NS_PER_S);
    assert_int_equal(p.at_ns, p.to_ns);
    play_seek(&p, -0.25, 1000 + 5000 * NS_PER_S);
    assert_int_equal(p.at_ns, FROM_NS + 99750 * NS_PER_MS);
}

static void test_play_never_leaves_its_span(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 200; seed++) {
        Random random = {seed};
        uint64_t now = random_below(&random, NS_PER_DAY);
        Play p = {0};

        play_begin(&p, FROM_NS, FROM_NS + random_below(&random, NS_PER_DAY), random_u64(&random), now);
        for (int i = 0; i < 200; i++) {
            const uint64_t before = p.at_ns;

            now += random_below(&random, 100 * NS_PER_S);
            switch (random_below(&random, 4)) {
            case 0:
                play_seek(&p, (double)(int64_t)random_u64(&random) / 1e9, now);
                break;
            case 1:
                play_set_speed(&p, p.speed * (random_once(&random, 2) ? 2 : 0.5), now);
                break;
            case 2:
                play_pause(&p, !p.paused, now);
                break;
            default:
                assert_true(play_advance(&p, now) >= before);
            }
            assert_true(p.at_ns >= p.from_ns && p.at_ns <= p.to_ns && p.speed > 0 && p.speed <= PLAY_SPEED_MAX);
        }
    }
}

/* --- recordings -----------------------------------------------------------------------------------------------------
 */

static char folder[] = "/tmp/stoker-top-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void line_at(uint64_t second, char *line, size_t cap)
{
    snprintf(line, cap,
             "{\"status\":\"ok\",\"incidents\":[],\"node\":{\"time\":\"2026-01-05T12:%02u:%02u.500Z\",\"gpus\":[]}}",
             (unsigned)(second / 60), (unsigned)(second % 60));
}

static void record(const char *path, uint64_t from, uint64_t to)
{
    Recorder *recorder;
    char line[256];

    assert_int_equal(recorder_open(path, NS_PER_S, &recorder, NULL), 0);
    for (uint64_t s = from; s < to; s++) {
        line_at(s, line, sizeof line);
        assert_int_equal(recorder_write(recorder, line, strlen(line), NULL), 0);
    }
    assert_int_equal(recorder->snapshots, to - from);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(recorder->bytes, (uint64_t)st.st_size);
    assert_int_equal(recorder_close(recorder, NULL), 0);
}

static void check_lines(const Recording *r, uint64_t from, size_t count)
{
    CLEANUP(str_done) Str out = {0};
    char line[256];

    str_init(&out, 1 << 20);
    assert_int_equal(r->lines.len, count);
    for (size_t i = 0; i < count; i++) {
        line_at(from + i, line, sizeof line);
        assert_int_equal(recording_line(r, i, &out, NULL), 0);
        assert_string_equal(out.text, line);
        assert_int_equal(r->lines.at[i].real_ns, FROM_NS + (from + i) * NS_PER_S + 500 * NS_PER_MS);
        assert_int_equal(recording_find(r, r->lines.at[i].real_ns), i);
        assert_int_equal(recording_find(r, r->lines.at[i].real_ns + NS_PER_MS), i);
    }
    assert_int_equal(recording_find(r, 0), 0);
    assert_int_equal(recording_find(r, UINT64_MAX), count - 1);
}

static void test_what_was_recorded_is_replayed(void **state)
{
    static const char *const names[] = {"plain", "packed.gz"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *path = in_folder(names[i]);
        Recording *r;
        Err err;

        record(path, 0, 90);
        if (recording_open(path, &r, &err) < 0)
            fail_msg("%s", err.text);
        assert_string_equal(r->damage, "");
        check_lines(r, 0, 90);
        recording_close(r);
        Recorder *again; /* nothing is written over */
        assert_int_equal(recorder_open(path, NS_PER_S, &again, &err), -EEXIST);
    }
}

/* Whatever ended the writer: what is whole is shown. */
static void test_a_cut_recording_is_shown_as_far_as_it_goes(void **state)
{
    static const char *const names[] = {"cut", "cut.gz"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *path = in_folder(names[i]);
        struct stat st;
        Recording *r;

        record(path, 0, 20);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(truncate(path, st.st_size - 30), 0);
        assert_int_equal(recording_open(path, &r, NULL), 0);
        assert_true(r->damage[0] || r->lines.len == 20);
        assert_true(r->lines.len >= 19);
        recording_close(r);
    }
}

static void write_file(const char *path, const char *text)
{
    assert_int_equal(file_write(path, text, strlen(text), 0600, NULL), 0);
}

static void test_strange_files(void **state)
{
    const char *path = in_folder("strange");
    char a[256], b[256], text[1024];
    CLEANUP(str_done) Str out = {0};
    Recording *r;
    Err err;

    (void)state;
    str_init(&out, 1 << 20);
    line_at(7, a, sizeof a);
    line_at(3, b, sizeof b);
    /* out of order, something in between, none of ours at its head, no newline at its end */
    snprintf(text, sizeof text, "%s\n\nhello\n%s", a, b);
    write_file(path, text);
    assert_int_equal(recording_open(path, &r, NULL), 0);
    assert_int_equal(r->lines.len, 2);
    assert_int_equal(recording_line(r, 0, &out, NULL), 0);
    assert_string_equal(out.text, b);
    assert_string_equal(r->damage, "1 lines are no snapshots");
    /* it is cut while it is shown */
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(recording_line(r, 0, &out, &err), -EIO);
    recording_close(r);
    write_file(path, "");
    assert_int_equal(recording_open(path, &r, &err), -ENODATA);
    write_file(path, "\x1f\x8bnot packed");
    assert_int_equal(recording_open(path, &r, &err), -ENODATA);
    assert_int_equal(recording_open(folder, &r, &err), -EISDIR);
    assert_int_equal(recording_open(in_folder("none"), &r, &err), -ENOENT);
    assert_non_null(strstr(err.text, "none"));
}

/* A disk that is full leaves whole lines. */
static void test_a_full_disk(void **state)
{
    const char *path = in_folder("full");
    const struct rlimit small = {.rlim_cur = 3000, .rlim_max = RLIM_INFINITY};
    struct rlimit before;
    Recorder *recorder;
    Recording *r;
    char line[256];
    uint64_t looks = 0;
    Err err;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(recorder_open(path, NS_PER_S, &recorder, NULL), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    line_at(0, line, sizeof line);
    while (recorder_write(recorder, line, strlen(line), &err) == 0)
        looks++;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(err.code, -EFBIG);
    assert_true(looks > 10);
    assert_true(recorder_write(recorder, line, strlen(line), &err) < 0); /* it is over */
    assert_int_equal(recorder_close(recorder, NULL), 0);
    assert_int_equal(recording_open(path, &r, NULL), 0);
    assert_int_equal(r->lines.len, looks);
    assert_string_equal(r->damage, "");
    recording_close(r);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree("/tmp", strrchr(folder, '/') + 1, NULL);
}

/* --- keys -----------------------------------------------------------------------------------------------------------
 */

static void test_keys_by_their_names(void **state)
{
    static const uint32_t wanted[] = {'j',  TOP_KEY_ENTER, TOP_KEY_F1 + 5, '/', ' ',
                                      0xe4, TOP_KEY_F12,   TOP_KEY_ESCAPE, 'F'};
    KeyList keys = {0};
    Err err;

    (void)state;
    assert_int_equal(keys_parse("  j enter F6 / space \xc3\xa4 f12 Esc F ", &keys, NULL), 0);
    assert_int_equal(keys.len, ARRAY_LEN(wanted));
    assert_memory_equal(keys.at, wanted, sizeof wanted);
    assert_int_equal(keys_parse("j entr", &keys, &err), -EINVAL);
    assert_non_null(strstr(err.text, "'entr' is no key"));
    assert_int_equal(keys_parse("F13", &keys, &err), -EINVAL);
    assert_int_equal(keys_parse("F0", &keys, &err), -EINVAL);
    vec_done(&keys);
}

/* --- signals --------------------------------------------------------------------------------------------------------
 */

static pid_t sleeper(void)
{
    const pid_t pid = fork();

    if (pid == 0) {
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    return pid;
}

static void test_a_signal_reaches_the_one_that_was_seen(void **state)
{
    const pid_t pid = sleeper();
    TopSignal signal = {.pid = pid, .number = SIGTERM, .name = "SIGTERM"};
    HostBoot here;
    ProcTask task;
    Err err;
    int status;

    (void)state;
    host_boot("", &here);
    assert_int_equal(strlen(here.id), 36);
    assert_int_equal(proc_task_read("", pid, &task, NULL), 0);
    assert_int_equal(process_signal(&signal, here.id, &err), -EINVAL); /* nobody knows which one was seen */
    signal.start_ns = task.start_ns + 20 * NS_PER_MS;
    assert_int_equal(process_signal(&signal, here.id, &err), -ESRCH);
    assert_non_null(strstr(err.text, "is another one by now"));
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    signal.start_ns = task.start_ns;
    assert_int_equal(process_signal(&signal, here.id, &err), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_int_equal(process_signal(&signal, here.id, &err), -ESRCH);
    assert_non_null(strstr(err.text, "has ended already"));
    signal.pid = 0; /* no group, not everybody */
    assert_int_equal(process_signal(&signal, here.id, &err), -EINVAL);
    signal.pid = -1;
    assert_int_equal(process_signal(&signal, here.id, &err), -EINVAL);
}

/* A simulated node has pids too, and so has every other machine: the same number, even the same start, is somebody else
 * here. */
static void test_no_signal_leaves_the_machine_that_was_seen(void **state)
{
    const pid_t pid = sleeper();
    TopSignal signal = {.pid = pid, .number = SIGKILL, .name = "SIGKILL"};
    HostBoot here;
    ProcTask task;
    Err err;
    int status;

    (void)state;
    host_boot("", &here);
    assert_int_equal(proc_task_read("", pid, &task, NULL), 0);
    signal.start_ns = task.start_ns;
    here.id[0] = here.id[0] == 'f' ? '0' : 'f';
    assert_int_equal(process_signal(&signal, here.id, &err), -EXDEV);
    assert_non_null(strstr(err.text, "another machine's, or a simulated one"));
    assert_int_equal(process_signal(&signal, "", &err), -EINVAL);
    assert_int_equal(process_signal(&signal, NULL, &err), -EINVAL);
    assert_non_null(strstr(err.text, "no signal was sent"));
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* it lives */
    host_boot("", &here);
    assert_int_equal(process_signal(&signal, here.id, &err), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_play_moves_with_the_clock),
        cmocka_unit_test(test_play_never_leaves_its_span),
        cmocka_unit_test(test_what_was_recorded_is_replayed),
        cmocka_unit_test(test_a_cut_recording_is_shown_as_far_as_it_goes),
        cmocka_unit_test(test_strange_files),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_keys_by_their_names),
        cmocka_unit_test(test_a_signal_reaches_the_one_that_was_seen),
        cmocka_unit_test(test_no_signal_leaves_the_machine_that_was_seen),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
