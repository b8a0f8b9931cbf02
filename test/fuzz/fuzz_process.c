/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what /proc tells of a process (source/proc/who), parted by form feeds: cgroup, comm, status, cmdline,
 * stat, and /etc/passwd. The names of cgroups come from anyone; what is taken from them is of the form that is
 * promised. Files are written for a share of the inputs only. */
#include <ctype.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "source/proc/who.h"
#include "test/fuzz/share.h"
#include "test/unit/memory_folder.h"

enum { PID = 7, PARTS = 6, STAT_PART = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[64];
static const char *const folders[] = {"", "/proc", "/proc/7", "/etc"};
static const char *const files[PARTS] = {"/proc/7/cgroup",  "/proc/7/comm", "/proc/7/status",
                                         "/proc/7/cmdline", "/proc/7/stat", "/etc/passwd"};

static void must(int holds)
{
    if (!holds)
        abort();
}

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s%s", root, name);
    return path;
}

static void remove_root(void)
{
    for (size_t i = 0; i < PARTS; i++)
        unlink(path_of(files[i]));
    for (size_t i = ARRAY_LEN(folders); i > 0; i--)
        rmdir(path_of(folders[i - 1]));
}

static void make_root(void)
{
    snprintf(root, sizeof root, "%s/stoker-fuzz-XXXXXX", memory_folder());
    must(mkdtemp(root) != NULL && atexit(remove_root) == 0);
    for (size_t i = 1; i < ARRAY_LEN(folders); i++)
        must(mkdir(path_of(folders[i]), 0700) == 0);
}

static void put(size_t part, const void *bytes, size_t len)
{
    static int fds[PARTS] = {-1, -1, -1, -1, -1, -1};

    if (!root[0])
        make_root();
    if (fds[part] < 0)
        fds[part] = open(path_of(files[part]), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(fds[part] >= 0 && ftruncate(fds[part], 0) == 0 && pwrite(fds[part], bytes, len, 0) == (ssize_t)len);
}

/* Ends within its room, and nothing but these characters. */
static void must_be(const char *text, size_t cap, const char *characters)
{
    must(memchr(text, '\0', cap) != NULL);
    must(!characters || text[strspn(text, characters)] == '\0');
}

/* Ends within its room, and a terminal shows all of it. */
static void must_be_shown(const char *text, size_t cap)
{
    must(memchr(text, '\0', cap) != NULL);
    for (const char *c = text; *c; c++)
        must(!iscntrl((unsigned char)*c));
}

static void check(const ProcessOwner *owner)
{
    static const char hex[] = "0123456789abcdef";
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-";
    const size_t uid = strlen(owner->pod_uid);

    must_be(owner->runtime, sizeof owner->runtime, NULL);
    must_be(owner->container, sizeof owner->container, strcmp(owner->runtime, "lxc") == 0 ? plain : hex);
    must(!owner->container[0] || strcmp(owner->runtime, "lxc") == 0 || strlen(owner->container) == 64);
    must_be(owner->pod_uid, sizeof owner->pod_uid, "0123456789abcdef-");
    must(uid == 0 || uid == 32 || uid == 36);
    must_be(owner->job, sizeof owner->job, plain);
    must(!owner->job[0] || isdigit((unsigned char)owner->job[0]));
    must_be_shown(owner->name, sizeof owner->name);
    must_be_shown(owner->command, sizeof owner->command);
}

static void check_cgroup(const uint8_t *text, size_t len)
{
    char *exact = malloc(len + 1);
    ProcessOwner owner, again;

    must(exact != NULL);
    memcpy(exact, text, len);
    exact[len] = '\0';
    process_owner_init(&owner, PID);
    process_cgroup(exact, &owner);
    check(&owner);
    process_owner_init(&again, PID);
    process_cgroup(exact, &again);
    must(strcmp(owner.container, again.container) == 0 && strcmp(owner.job, again.job) == 0);
    free(exact);
}

static void check_files(const uint8_t *data, size_t size)
{
    static const char stat[] = "7 (a) S 1 7 7 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 4711 1000000 200";
    char user[PROCESS_USER_CAP];
    ProcessOwner owner;
    Err err = {0};

    for (size_t i = 0; i < PARTS; i++) {
        const uint8_t *end = size ? memchr(data, '\f', size) : NULL;
        const size_t len = end ? (size_t)(end - data) : size;

        put(i, i == STAT_PART && len == 0 ? (const void *)stat : data,
            i == STAT_PART && len == 0 ? sizeof stat - 1 : len);
        size -= end ? len + 1 : size;
        data += end ? len + 1 : len;
    }
    if (process_identify(root, PID, true, &owner, &err) == 0) {
        check(&owner);
        must(owner.start_ns > 0);
    } else {
        must(err.code < 0 && owner.pid == PID && owner.uid == UINT32_MAX && owner.start_ns == 0);
        check(&owner);
    }
    UserNames *names = user_names_read(root);
    user_name(names, owner.uid, user);
    must_be(user, sizeof user, NULL);
    user_names_free(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\f', size) : NULL;
    uint32_t dice = share_dice(data, size);

    check_cgroup(data, end ? (size_t)(end - data) : size);
    if (share_drawn(&dice, 8))
        check_files(data, size);
    return 0;
}
