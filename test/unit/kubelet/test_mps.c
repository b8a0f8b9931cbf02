/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper of MPS daemons with stand-ins of NVIDIA's programs, in a root of their own: starts, deaths, hangs, other
 * settings, and kill -9 of the keeper's process after each command. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../memory_folder.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/file.h"
#include "service/kubelet/mps.h"

enum { PATIENCE_S = 60, TEXT_MAX = 1 << 20, STEPS_MAX = 64 };

static char top[128], fake[4096];
static bool own_shm;

typedef struct Rig {
    uv_loop_t loop;
    MpsKeeper *keeper;
    Log log;
} Rig;

static const char *const two[] = {"GPU-0", "GPU-1"}, *const third[] = {"GPU-2"};
static const uint64_t limits[] = {40ULL << 30, 20ULL << 30};

static MpsDaemonConfig first_daemon(void)
{
    return (MpsDaemonConfig){"nvidia.com/gpu", two, 2, limits, 25};
}

static MpsDaemonConfig other_daemon(unsigned percent)
{
    return (MpsDaemonConfig){"claim", third, 1, NULL, percent};
}

/* --- the folder --------------------------------------------------------------------------------------------------- */

PRINTF_LIKE(1, 2)
static const char *path_of(const char *fmt, ...)
{
    static char paths[4][512];
    static unsigned at;
    char *path = paths[at++ % 4];
    va_list args;

    va_start(args, fmt);
    const int len = snprintf(path, sizeof paths[0], "%s/", top);
    vsnprintf(path + len, sizeof paths[0] - (size_t)len, fmt, args);
    va_end(args);
    return path;
}

static void read_into(Str *to, const char *path)
{
    str_clear(to);
    (void)file_read(path, TEXT_MAX, to, NULL);
}

static bool file_has(const char *path, const char *text)
{
    CLEANUP(str_done) Str there = str_limited(TEXT_MAX);

    read_into(&there, path);
    return strstr(there.len ? there.text : "", text);
}

static size_t count_text(const char *path, const char *text)
{
    CLEANUP(str_done) Str there = str_limited(TEXT_MAX);
    size_t count = 0;

    read_into(&there, path);
    for (const char *at = there.len ? there.text : ""; (at = strstr(at, text)); at += strlen(text))
        count++;
    return count;
}

static void make_knob(const char *name)
{
    assert_int_equal(file_write(path_of("driver/state/%s", name), "", 0, 0644, NULL), 0);
}

static void drop_knob(const char *name)
{
    assert_int_equal(unlink(path_of("driver/state/%s", name)), 0);
}

static bool has_mode(unsigned gpu, const char *mode)
{
    return file_has(path_of("driver/state/mode-GPU-%u", gpu), mode);
}

/* Daemons that live; *ret_pid is one of them. A zombie does not. */
static size_t count_lives(pid_t *ret_pid)
{
    CLEANUP(closedir_at) DIR *dir = opendir(path_of("driver/state/lives"));
    size_t count = 0;
    char to[16];

    for (struct dirent *entry; (entry = readdir(dir));) {
        char exe[300];

        snprintf(exe, sizeof exe, "/proc/%s/exe", entry->d_name);
        if (entry->d_name[0] == '.' || readlink(exe, to, sizeof to) < 0)
            continue;
        count++;
        *ret_pid = (pid_t)atoi(entry->d_name);
    }
    return count;
}

static pid_t only_daemon(void)
{
    pid_t pid = 0;

    assert_int_equal(count_lives(&pid), 1);
    return pid;
}

static bool lives_none(void)
{
    return count_lives(&(pid_t){0}) == 0;
}

static int make_folder(void **state)
{
    static const char *const folders[] = {"driver/usr/bin", "driver/mnt", "driver/dev/shm", "driver/state/lives",
                                          "cgroup/stoker-mps"};

    own_shm = *state;
    snprintf(top, sizeof top, "%s/stoker-mps-XXXXXX", own_shm ? "/tmp" : memory_folder());
    assert_non_null(mkdtemp(top));
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        assert_int_equal(file_make_dirs(path_of("%s", folders[i]), 0755, NULL), 0);
    CLEANUP(str_done) Str program = str_limited(64 << 20);
    assert_int_equal(file_read(fake, program.max, &program, NULL), 0);
    assert_int_equal(file_write(path_of("driver/usr/bin/nvidia-smi"), program.text, program.len, 0755, NULL), 0);
    assert_int_equal(
        file_write(path_of("driver/usr/bin/nvidia-cuda-mps-control"), program.text, program.len, 0755, NULL), 0);
    assert_int_equal(file_write(path_of("cgroup/stoker-mps/cgroup.procs"), "", 0, 0644, NULL), 0);
    return 0;
}

static int remove_folder(void **state UNUSED)
{
    for (pid_t pid; count_lives(&pid) > 0;)
        (void)kill(pid, SIGKILL);
    (void)umount2(path_of("mps/shm"), MNT_DETACH); /* where the folder is no tmpfs itself */
    assert_int_equal(file_remove_tree(own_shm ? "/tmp" : memory_folder(), strrchr(top, '/') + 1, NULL), 0);
    return 0;
}

/* --- the keeper --------------------------------------------------------------------------------------------------- */

static void open_keeper(Rig *rig)
{
    const char *root = path_of("mps"), *driver = path_of("driver"), *cgroup = path_of("cgroup");

    uv_loop_init(&rig->loop);
    log_init(&rig->log, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "test", clock_kernel());
    rig->log.fd = open(path_of("keeper.log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    rig->keeper = mps_keeper_new(&rig->loop, &(MpsKeeperConfig){.root = root,
                                                                .driver_root = driver,
                                                                .cgroup_root = cgroup,
                                                                .own_shm = own_shm,
                                                                .period_ns = 20 * NS_PER_MS,
                                                                .retry_ns = 100 * NS_PER_MS,
                                                                .limit_ns = 400 * NS_PER_MS,
                                                                .log = &rig->log});
}

static void close_keeper(Rig *rig)
{
    mps_keeper_close(rig->keeper);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    close(rig->log.fd);
}

static MpsState state_of(const Rig *rig, const char *name, const char *uuid, const char *says)
{
    char why[MPS_WHY_CAP];
    const MpsState state = mps_keeper_state(rig->keeper, name, uuid, why);

    return strstr(why, says) ? state : MPS_STATE_END;
}

/* Runs the loop until the condition holds. */
#define UNTIL(rig, condition)                                                                                          \
    do {                                                                                                               \
        const uint64_t end_ = uv_hrtime() + PATIENCE_S * NS_PER_S;                                                     \
        while (!(condition)) {                                                                                         \
            assert_true(uv_hrtime() < end_);                                                                           \
            uv_run(&(rig)->loop, UV_RUN_NOWAIT);                                                                       \
            usleep(500);                                                                                               \
        }                                                                                                              \
    } while (0)

#define UNTIL_STATE(rig, name, state, says) UNTIL(rig, state_of(rig, name, NULL, says) == (state))

static void want(Rig *rig, const MpsDaemonConfig *one)
{
    mps_keeper_want(rig->keeper, one, one != NULL);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void test_two_daemons(void **state UNUSED)
{
    char log[512];
    MpsDaemonConfig both[] = {first_daemon(), other_daemon(0)};
    Rig rig;
    pid_t pid;

    snprintf(log, sizeof log, "%s", path_of("driver/state/log"));
    open_keeper(&rig);
    mps_keeper_want(rig.keeper, both, 2);
    UNTIL_STATE(&rig, "nvidia.com/gpu", MPS_READY, "");
    UNTIL_STATE(&rig, "claim", MPS_READY, "");
    assert_int_equal(count_lives(&pid), 2);
    assert_true(has_mode(0, "EXCLUSIVE_PROCESS") && has_mode(1, "EXCLUSIVE_PROCESS") && has_mode(2, "EXCLUSIVE"));
    assert_true(file_has(log, "start GPU-0,GPU-1\n") && file_has(log, "start GPU-2\n"));
    assert_true(file_has(log, "set_default_device_pinned_mem_limit GPU-0 40960M\n"
                              "set_default_device_pinned_mem_limit GPU-1 20480M\n"
                              "set_default_active_thread_percentage 25\n"));
    assert_int_equal(count_text(log, "set_"), 3); /* nothing for the one without settings */
    assert_true(file_has(path_of("cgroup/stoker-mps/cgroup.procs"), "0"));
    assert_int_equal(access(path_of("mps/nvidia.com/gpu/pipe/control"), F_OK), 0);
    assert_int_equal(access(path_of("mps/shm/server"), F_OK), 0); /* its /dev/shm is that of clients */
    want(&rig, &both[1]);
    UNTIL_STATE(&rig, "nvidia.com/gpu", MPS_ABSENT, "");
    assert_true(has_mode(0, "DEFAULT") && has_mode(1, "DEFAULT") && has_mode(2, "EXCLUSIVE_PROCESS"));
    assert_int_equal(access(path_of("mps/nvidia.com/gpu"), F_OK), -1);
    pid = only_daemon();
    both[1].thread_percent = 50;
    want(&rig, &both[1]);
    UNTIL_STATE(&rig, "claim", MPS_STARTING, "");
    UNTIL_STATE(&rig, "claim", MPS_READY, "");
    assert_true(only_daemon() != pid && file_has(log, "percentage 50\n"));
    want(&rig, NULL);
    UNTIL(&rig, lives_none() && has_mode(2, "DEFAULT"));
    close_keeper(&rig);
}

static void test_deaths_are_said_once(void **state UNUSED)
{
    const MpsDaemonConfig config = first_daemon();
    Rig rig;

    open_keeper(&rig);
    want(&rig, &config);
    for (unsigned i = 0; i < 3; i++) {
        UNTIL_STATE(&rig, config.name, MPS_READY, "");
        assert_int_equal(kill(only_daemon(), SIGKILL), 0);
        UNTIL_STATE(&rig, config.name, MPS_FAILED, "ended by itself");
    }
    const uint64_t since = uv_hrtime();
    UNTIL_STATE(&rig, config.name, MPS_READY, "");
    assert_true(uv_hrtime() - since > 300 * NS_PER_MS); /* 400 ms, after 100 ms the first time */
    assert_true(only_daemon() > 0);
    assert_int_equal(count_text(path_of("keeper.log"), "ended by itself"), 1);
    assert_int_equal(count_text(path_of("keeper.log"), "is ready"), 2);
    close_keeper(&rig);
    assert_true(only_daemon() > 0); /* it outlives its keeper */
}

static void test_hangs(void **state UNUSED)
{
    const MpsDaemonConfig config = first_daemon();
    Rig rig;

    open_keeper(&rig);
    make_knob("hang-start");
    want(&rig, &config);
    UNTIL_STATE(&rig, config.name, MPS_FAILED, "took too long");
    drop_knob("hang-start");
    UNTIL_STATE(&rig, config.name, MPS_READY, "");
    const pid_t pid = only_daemon();
    make_knob("hang-ask");
    UNTIL_STATE(&rig, config.name, MPS_FAILED, "does not answer");
    drop_knob("hang-ask");
    UNTIL_STATE(&rig, config.name, MPS_READY, "");
    assert_int_equal(only_daemon(), pid);
    close_keeper(&rig);
}

static void test_a_gpu_that_refuses_is_left_out(void **state UNUSED)
{
    const MpsDaemonConfig config = first_daemon();
    char why[MPS_WHY_CAP];
    Rig rig;

    open_keeper(&rig);
    make_knob("refuse-GPU-1");
    want(&rig, &config);
    UNTIL_STATE(&rig, config.name, MPS_READY, "");
    assert_true(file_has(path_of("driver/state/log"), "start GPU-0\n"));
    assert_false(file_has(path_of("driver/state/log"), "mem_limit GPU-1"));
    assert_int_equal(state_of(&rig, config.name, "GPU-0", ""), MPS_READY);
    assert_int_equal(state_of(&rig, config.name, "GPU-1", "without this GPU"), MPS_FAILED);
    assert_int_equal(mps_read_state(path_of("mps"), config.name, "GPU-1", why), MPS_FAILED);
    assert_int_equal(mps_read_state(path_of("mps"), config.name, NULL, why), MPS_READY);
    assert_int_equal(mps_read_state(path_of("mps"), "none", NULL, why), MPS_ABSENT);
    assert_true(file_has(path_of("keeper.log"), "GPU-1 is refused"));
    make_knob("refuse-smi"); /* and all of them */
    want(&rig, &(MpsDaemonConfig){.name = "claim", .uuids = third, .uuid_count = 1});
    UNTIL_STATE(&rig, "claim", MPS_FAILED, "none of its GPUs");
    close_keeper(&rig);
}

static void test_a_missing_program(void **state UNUSED)
{
    const MpsDaemonConfig config = first_daemon();
    Rig rig;

    assert_int_equal(unlink(path_of("driver/usr/bin/nvidia-cuda-mps-control")), 0);
    open_keeper(&rig);
    want(&rig, &config);
    UNTIL_STATE(&rig, config.name, MPS_FAILED, "nvidia-cuda-mps-control");
    assert_int_equal(state_of(&rig, config.name, NULL, "where the driver has to be installed"), MPS_FAILED);
    close_keeper(&rig);
}

static void test_clients_are_waited_for(void **state UNUSED)
{
    MpsDaemonConfig config = first_daemon();
    Rig rig;

    open_keeper(&rig);
    want(&rig, &config);
    UNTIL_STATE(&rig, config.name, MPS_READY, "");
    const pid_t pid = only_daemon();
    make_knob("quit-waits");
    config.thread_percent = 50;
    want(&rig, &config);
    UNTIL_STATE(&rig, config.name, MPS_STARTING, "when its clients have ended");
    config.name = "claim"; /* the same GPUs for another daemon */
    want(&rig, &config);
    UNTIL_STATE(&rig, "claim", MPS_STARTING, "waits until the one of nvidia.com/gpu");
    assert_int_equal(only_daemon(), pid);
    UNTIL_STATE(&rig, "nvidia.com/gpu", MPS_ENDING, "not wanted any more");
    drop_knob("quit-waits");
    UNTIL_STATE(&rig, "claim", MPS_READY, "");
    assert_true(only_daemon() != pid && has_mode(0, "EXCLUSIVE_PROCESS"));
    close_keeper(&rig);
}

static void test_the_next_keeper_takes_over(void **state UNUSED)
{
    MpsDaemonConfig config = first_daemon();
    Rig rig;

    open_keeper(&rig);
    want(&rig, &config);
    UNTIL_STATE(&rig, config.name, MPS_READY, "");
    close_keeper(&rig);
    const pid_t pid = only_daemon();
    const size_t commands = count_text(path_of("driver/state/log"), "\n");

    open_keeper(&rig); /* a GPU whose memory is not known now, and one that is gone, change nothing */
    config.limit_bytes = (const uint64_t[]){MPS_LIMIT_UNKNOWN};
    config.uuid_count = 1;
    want(&rig, &config);
    UNTIL_STATE(&rig, config.name, MPS_READY, "");
    close_keeper(&rig);
    assert_int_equal(only_daemon(), pid);
    assert_int_equal(count_text(path_of("driver/state/log"), "\n"), commands);

    open_keeper(&rig); /* one that was killed while nobody looked: no gap is noticed but its own */
    assert_int_equal(kill(pid, SIGKILL), 0);
    want(&rig, &config);
    UNTIL_STATE(&rig, config.name, MPS_READY, "");
    assert_true(only_daemon() != pid);
    close_keeper(&rig);

    open_keeper(&rig); /* none is wanted any more */
    want(&rig, NULL);
    UNTIL(&rig, lives_none() && has_mode(0, "DEFAULT") && access(path_of("mps/nvidia.com/gpu"), F_OK) < 0);
    close_keeper(&rig);
}

/* On a disk, where a tmpfs has to be mounted. */
static void test_shared_memory_of_its_own(void **state UNUSED)
{
    const MpsDaemonConfig config = other_daemon(0);
    struct statfs fs;
    Rig rig;

    open_keeper(&rig);
    want(&rig, &config);
    UNTIL_STATE(&rig, config.name, MPS_READY, "");
    assert_int_equal(statfs(path_of("mps/claim/shm"), &fs), 0);
    assert_int_equal(fs.f_type, TMPFS_MAGIC);
    want(&rig, NULL);
    UNTIL_STATE(&rig, config.name, MPS_ABSENT, "");
    assert_int_equal(access(path_of("mps/claim"), F_OK), -1);
    close_keeper(&rig);
}

/* A process that keeps the daemon, then does not want it any more; killed when there are `lines` commands. */
static void run_and_kill(size_t lines, bool ends)
{
    const MpsDaemonConfig config = first_daemon();
    const pid_t child = fork();

    if (child == 0) {
        Rig rig;

        open_keeper(&rig);
        want(&rig, &config);
        UNTIL_STATE(&rig, config.name, MPS_READY, "");
        if (ends)
            want(&rig, NULL);
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        _exit(0);
    }
    while (count_text(path_of("driver/state/log"), "\n") < lines)
        usleep(200);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_killed_after_each_command(void **state UNUSED)
{
    const MpsDaemonConfig config = first_daemon();
    const size_t start_lines = 6, end_lines = 3; /* two modes, start, three settings; quit, two modes */
    Rig rig;

    for (size_t lines = 1; lines <= start_lines + end_lines; lines++) {
        (void)unlink(path_of("driver/state/log"));
        run_and_kill(lines, lines > start_lines);
        open_keeper(&rig);
        want(&rig, lines <= start_lines ? &config : NULL);
        if (lines <= start_lines) {
            UNTIL_STATE(&rig, config.name, MPS_READY, "");
            assert_true(only_daemon() > 0);
            assert_true(has_mode(0, "EXCLUSIVE_PROCESS") && has_mode(1, "EXCLUSIVE_PROCESS"));
            CLEANUP(str_done) Str log = str_limited(TEXT_MAX);
            read_into(&log, path_of("driver/state/log"));
            const char *start = log.text;
            for (const char *at = log.text; (at = strstr(at, "start ")); at++)
                start = at;
            assert_non_null(strstr(start, "GPU-0 40960M\n")); /* the one that runs has its settings */
            assert_non_null(strstr(start, "percentage 25\n"));
            want(&rig, NULL);
        }
        UNTIL(&rig, lives_none() && access(path_of("mps/nvidia.com/gpu"), F_OK) < 0);
        assert_true(has_mode(0, "DEFAULT") && has_mode(1, "DEFAULT"));
        close_keeper(&rig);
    }
}

static bool can_mount(void)
{
    const pid_t child = fork();
    int status = 0;

    if (child == 0)
        _exit(unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0);
    return waitpid(child, &status, 0) == child && status == 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_two_daemons),
        TEST(test_deaths_are_said_once),
        TEST(test_hangs),
        TEST(test_a_gpu_that_refuses_is_left_out),
        TEST(test_a_missing_program),
        TEST(test_clients_are_waited_for),
        TEST(test_the_next_keeper_takes_over),
        cmocka_unit_test_prestate_setup_teardown(test_shared_memory_of_its_own, make_folder, remove_folder, &own_shm),
        TEST(test_killed_after_each_command),
    };

    if (argc != 2 || !can_mount()) {
        puts("1..0 # SKIP mount namespaces need root");
        return 0;
    }
    snprintf(fake, sizeof fake, "%s", argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
