/* SPDX-License-Identifier: Apache-2.0 */
/* The container, pod or job that a cgroup is named after. Names come from whoever made the cgroup: matched, never
 * trusted. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "source/proc/task.h"
#include "source/proc/who.h"

enum { CONTAINER_DIGITS = 64, UUID_LEN = 36, HASH_LEN = 32 };

static bool starts_with(const char *text, size_t len, const char *with)
{
    return len >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

static bool contains_text(const char *text, size_t len, const char *what)
{
    for (size_t i = 0; i < len; i++)
        if (starts_with(text + i, len - i, what))
            return true;
    return false;
}

static bool all_hex(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!memchr("0123456789abcdef", text[i], 16))
            return false;
    return true;
}

/* Prefixes of container ids in systemd units, and their runtimes. */
static const struct {
    const char *prefix, *runtime;
} scopes[] = {{"docker-", "docker"}, {"cri-containerd-", "containerd"}, {"nerdctl-", "containerd"}, {"crio-", "cri-o"},
              {"libpod-", "podman"}, {"containerd-", "containerd"},     {"libpod_pod_", "podman"},  {"", ""}};

/* "docker-<64 hex>.scope", "cri-containerd-<64 hex>.scope", "<64 hex>" below /docker or a pod. */
static void parse_container(const char *part, size_t len, const char *above, size_t above_len, ProcessOwner *owner)
{
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
        const size_t prefix = strlen(scopes[i].prefix);

        if (!starts_with(part, len, scopes[i].prefix) || len < prefix + CONTAINER_DIGITS ||
            !all_hex(part + prefix, CONTAINER_DIGITS) ||
            (len > prefix + CONTAINER_DIGITS && part[prefix + CONTAINER_DIGITS] != '.'))
            continue;
        snprintf(owner->container, sizeof(owner->container), "%.*s", CONTAINER_DIGITS, part + prefix);
        snprintf(owner->runtime, sizeof(owner->runtime), "%s",
                 prefix == 0 && starts_with(above, above_len, "docker") ? "docker" : scopes[i].runtime);
        return;
    }
}

/* What names of containers and steps are made of: nothing that a terminal would obey. */
static bool all_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !memchr("_.+-", text[i], 4))
            return false;
    return true;
}

/* "/lxc/NAME" and "/lxc.payload.NAME", the monitor's own left out. */
static void parse_lxc(const char *part, size_t len, const char *above, size_t above_len, ProcessOwner *owner)
{
    static const char payload[] = "lxc.payload.";
    const size_t before = starts_with(part, len, payload) ? sizeof(payload) - 1 : 0;

    if (!before && !(above_len == 3 && starts_with(above, above_len, "lxc")))
        return;
    if (len == before || len - before >= sizeof(owner->container) || !all_plain(part + before, len - before))
        return;
    snprintf(owner->container, sizeof(owner->container), "%.*s", (int)(len - before), part + before);
    snprintf(owner->runtime, sizeof(owner->runtime), "lxc");
}

/* "pod<uid>" (cgroupfs), "kubepods-burstable-pod<uid>.slice" with '_' for '-' (systemd). A UID is a UUID, or a static
 * pod's 32 hexadecimal digits. */
static void parse_pod(const char *part, size_t len, ProcessOwner *owner)
{
    const char *at = starts_with(part, len, "pod") ? part + 3 : NULL;
    char uid[UUID_LEN + 1] = "";
    size_t left, digits = 0, i;

    for (size_t k = 0; !at && k + 4 < len && starts_with(part, len, "kubepods"); k++)
        if (memcmp(part + k, "-pod", 4) == 0)
            at = part + k + 4;
    if (!at)
        return;
    left = len - (size_t)(at - part);
    for (i = 0; i < left && i < UUID_LEN && at[i] != '.'; i++) {
        uid[i] = at[i] == '_' ? '-' : at[i];
        digits += all_hex(at + i, 1);
        if (uid[i] != '-' && !all_hex(at + i, 1))
            return;
    }
    if ((i == UUID_LEN || i == HASH_LEN) && digits == HASH_LEN && (i == left || at[i] == '.'))
        memcpy(owner->pod_uid, uid, i + 1);
}

static size_t number_len(const char *text, size_t len)
{
    size_t digits = 0;

    while (digits < len && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    return digits;
}

/* ".../job_4711/step_0/...": of the steps the numbered ones; "step_batch" is the job's script. */
static void parse_job(const char *part, size_t len, bool slurm, ProcessOwner *owner)
{
    const size_t used = strlen(owner->job);

    if (slurm && starts_with(part, len, "job_") && number_len(part + 4, len - 4) == len - 4 && len > 4 && len - 4 < 20)
        snprintf(owner->job, sizeof(owner->job), "%.*s", (int)(len - 4), part + 4);
    else if (used && !strchr(owner->job, '.') && starts_with(part, len, "step_") && len > 5 && len - 5 < 10 &&
             all_plain(part + 5, len - 5))
        snprintf(owner->job + used, sizeof(owner->job) - used, ".%.*s", (int)(len - 5), part + 5);
}

static void parse_path(const char *path, size_t len, ProcessOwner *owner)
{
    const char *above = "";
    size_t above_len = 0;
    bool slurm = false;

    for (size_t at = 0; at < len;) {
        const char *part = path + at;
        const char *slash = memchr(part, '/', len - at);
        const size_t part_len = slash ? (size_t)(slash - part) : len - at;

        slurm |= contains_text(part, part_len, "slurm");
        parse_pod(part, part_len, owner);
        parse_container(part, part_len, above, above_len, owner);
        parse_lxc(part, part_len, above, above_len, owner);
        parse_job(part, part_len, slurm, owner);
        above = part;
        above_len = part_len;
        at += part_len + 1;
    }
}

void process_cgroup(const char *text, ProcessOwner *owner)
{
    /* "4:memory:/path", "0::/path"; hierarchies that do not follow the container say less and change nothing. */
    for (const char *line = text; *line;) {
        const size_t len = strcspn(line, "\n");
        const char *first = memchr(line, ':', len);
        const char *second = first ? memchr(first + 1, ':', len - (size_t)(first + 1 - line)) : NULL;

        if (second && !owner->container[0] && !owner->pod_uid[0] && !owner->job[0])
            parse_path(second + 1, len - (size_t)(second + 1 - line), owner);
        line += len + (line[len] == '\n');
    }
}

enum { PASSWD_MAX = 4 << 20 };

typedef struct User {
    uint32_t uid;
    char name[PROCESS_USER_CAP];
} User;

struct UserNames {
    VEC(User) users; /* by uid */
};

static int by_uid(const void *a, const void *b)
{
    const User *left = a, *right = b;

    return (left->uid > right->uid) - (left->uid < right->uid);
}

/* "name:x:1000:1000:..." */
static void parse_passwd_line(UserNames *names, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len), *again;
    char *end;
    User *user;

    again = colon ? memchr(colon + 1, ':', len - (size_t)(colon + 1 - line)) : NULL;
    if (!again || colon == line || again[1] < '0' || again[1] > '9')
        return;
    const unsigned long uid = strtoul(again + 1, &end, 10);
    if (*end != ':' || uid >= UINT32_MAX)
        return;
    user = vec_add(&names->users);
    user->uid = (uint32_t)uid;
    snprintf(user->name, sizeof(user->name), "%.*s", (int)(colon - line), line);
}

/* The node's own: in a container the file beside us is another's, but that of the first process is the node's where its
 * pids are ours. */
static int read_passwd(const char *root, Str *text)
{
    char path[PROC_PATH_CAP];

    if (root[0])
        return snprintf(path, sizeof(path), "%s/etc/passwd", root) < (int)sizeof(path)
                   ? file_read(path, PASSWD_MAX, text, NULL)
                   : -ENAMETOOLONG;
    if (file_read("/proc/1/root/etc/passwd", PASSWD_MAX, text, NULL) == 0)
        return 0;
    if (getenv("KUBERNETES_SERVICE_HOST") || access("/.dockerenv", F_OK) == 0 ||
        access("/run/.containerenv", F_OK) == 0)
        return -ENOENT;
    return file_read("/etc/passwd", PASSWD_MAX, text, NULL);
}

UserNames *user_names_read(const char *root)
{
    UserNames *names = xcalloc(1, sizeof(*names));
    CLEANUP(str_done) Str text = {0};

    str_init(&text, PASSWD_MAX);
    if (read_passwd(root, &text) < 0)
        return names;
    for (const char *line = text.text; line && *line;) {
        const size_t len = strcspn(line, "\n");

        parse_passwd_line(names, line, len);
        line += len + (line[len] == '\n');
    }
    if (names->users.len)
        qsort(names->users.at, names->users.len, sizeof(User), by_uid);
    return names;
}

void user_names_free(UserNames *names)
{
    if (!names)
        return;
    vec_done(&names->users);
    free(names);
}

void user_name(const UserNames *names, uint32_t uid, char out[PROCESS_USER_CAP])
{
    const User key = {.uid = uid};
    const User *user =
        names && names->users.len ? bsearch(&key, names->users.at, names->users.len, sizeof(User), by_uid) : NULL;

    if (uid == UINT32_MAX)
        out[0] = '\0';
    else if (user)
        snprintf(out, PROCESS_USER_CAP, "%s", user->name);
    else
        snprintf(out, PROCESS_USER_CAP, "%u", uid);
}

enum { PID_CAP = 16, STATUS_CAP = 4096, CGROUP_CAP = 8192 };

/* A process names itself as it likes: what would move the cursor is shown as '?'. */
static void hide_controls(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (iscntrl((unsigned char)text[i]))
            text[i] = '?';
}

static void read_name(const char *root, const char *pid, ProcessOwner *owner)
{
    if (proc_text(root, pid, "comm", owner->name, sizeof(owner->name), NULL) < 0)
        owner->name[0] = '\0';
    owner->name[strcspn(owner->name, "\n")] = '\0';
    hide_controls(owner->name, strlen(owner->name));
}

/* "Uid:\t1000\t1000\t1000\t1000": the real one first. */
static void read_user(const char *root, const char *pid, ProcessOwner *owner)
{
    char text[STATUS_CAP];
    const char *line;

    if (proc_text(root, pid, "status", text, sizeof(text), NULL) < 0)
        return;
    line = strstr(text, "\nUid:");
    if (line && isdigit((unsigned char)line[5 + strspn(line + 5, " \t")]))
        owner->uid = (uint32_t)strtoul(line + 5, NULL, 10);
}

/* Arguments end with a zero byte each. */
static void read_command(const char *root, const char *pid, ProcessOwner *owner)
{
    size_t len = 0;

    memset(owner->command, 0, sizeof(owner->command));
    if (proc_text(root, pid, "cmdline", owner->command, sizeof(owner->command), NULL) < 0)
        return;
    for (size_t i = 0; i < sizeof(owner->command) - 1; i++)
        if (owner->command[i])
            len = i + 1;
    for (size_t i = 0; i < len; i++)
        if (!owner->command[i])
            owner->command[i] = ' ';
    hide_controls(owner->command, len);
}

int process_identify(const char *root, uint32_t pid, bool with_command, ProcessOwner *ret, Err *err)
{
    char name[PID_CAP], text[CGROUP_CAP];
    ProcStat stat;

    process_owner_init(ret, pid);
    snprintf(name, sizeof(name), "%u", pid);
    TRY(proc_stat(root, name, &stat, err));
    ret->start_ns = stat.start_ns ? stat.start_ns : 1;
    ret->rss_bytes = stat.rss_bytes;
    ret->cpu_ns = stat.cpu_ns;
    ret->state = stat.state;
    read_name(root, name, ret);
    read_user(root, name, ret);
    if (proc_text(root, name, "cgroup", text, sizeof(text), NULL) == 0)
        process_cgroup(text, ret);
    if (with_command)
        read_command(root, name, ret);
    return 0;
}
