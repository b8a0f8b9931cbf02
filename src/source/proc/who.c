/* SPDX-License-Identifier: Apache-2.0 */
/* Names come from whoever made a cgroup or may write into the kubelet's folder: matched, never trusted, never opened.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "source/proc/task.h"
#include "source/proc/who.h"

/* --- cgroups --- */

enum {
    CONTAINER_DIGITS = 64,
    UUID_LEN = 36,
    HASH_LEN = 32,
    NAMESPACE_MAX = 63,
    POD_MAX = 253,
    JOB_DIGITS = 19,
    STEP_BYTES = 11, /* "interactive" */
    SLUID_LEN = 14,
};

static const char hex_digits[] = "0123456789abcdef", digits[] = "0123456789";

/* What names of containers and steps are made of: nothing that a terminal would obey. */
static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-";

/* What follows a prefix, NULL where the text has another one. */
static const char *skip_prefix(const char *text, const char *prefix)
{
    const size_t len = strlen(prefix);

    return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

/* True for a text of 1 to `max` of these bytes and no other. */
static bool consists_of(const char *text, const char *bytes, size_t max)
{
    const size_t len = strspn(text, bytes);

    return len > 0 && len <= max && !text[len];
}

/* A UUID, or the 32 hexadecimal digits of a static pod, one from a file of the node. */
static bool is_pod_uid(const char *text)
{
    static const char hex[] = "0123456789abcdefABCDEF";
    static const size_t groups[] = {8, 4, 4, 4, 12};
    size_t len = strlen(text);

    if (len == HASH_LEN)
        return strspn(text, hex) == HASH_LEN;
    if (len != UUID_LEN)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        if (strspn(text, hex) != groups[i] || text[groups[i]] != (i + 1 < ARRAY_LEN(groups) ? '-' : '\0'))
            return false;
        text += groups[i] + 1;
    }
    return true;
}

/* Prefixes of container ids in systemd units, and their runtimes. */
static const struct {
    const char *prefix, *runtime;
} scopes[] = {{"docker-", "docker"},
              {"cri-containerd-", "containerd"},
              {"nerdctl-", "containerd"},
              {"crio-", "cri-o"},
              {"libpod-", "podman"},
              {"containerd-", "containerd"},
              {"libpod-payload-", "podman"},
              {"libpod_pod_", "podman"},
              {":cri-containerd:", "containerd"},
              {":crio:", "cri-o"},
              {":docker:", "docker"},
              {":libpod:", "podman"},
              {"", ""}};

/* "docker-<64 hex>.scope", "cri-containerd-<64 hex>.scope", "<64 hex>" below /docker or a pod. A runtime that takes a
 * slice of systemd's for a folder makes "kubepods-pod<uid>.slice:cri-containerd:<64 hex>". */
static void parse_container(const char *part, const char *above, ProcessOwner *owner)
{
    const char *name = part + strcspn(part, ":");

    if (!*name)
        name = part;
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
        const char *id = skip_prefix(name, scopes[i].prefix);

        if (!id || strspn(id, hex_digits) != CONTAINER_DIGITS || (id[CONTAINER_DIGITS] && id[CONTAINER_DIGITS] != '.'))
            continue;
        snprintf(owner->container, sizeof(owner->container), "%.*s", CONTAINER_DIGITS, id);
        snprintf(owner->runtime, sizeof(owner->runtime), "%s",
                 id == part && skip_prefix(above, "docker") ? "docker" : scopes[i].runtime);
        return;
    }
}

/* "/lxc/NAME" and "/lxc.payload.NAME", the monitor's own left out. */
static void parse_lxc(const char *part, const char *above, ProcessOwner *owner)
{
    const char *name = skip_prefix(part, "lxc.payload.");

    if (!name && strcmp(above, "lxc") == 0)
        name = part;
    if (!name || !consists_of(name, plain, sizeof(owner->container) - 1))
        return;
    snprintf(owner->container, sizeof(owner->container), "%s", name);
    snprintf(owner->runtime, sizeof(owner->runtime), "lxc");
}

/* "pod<uid>" (cgroupfs), "kubepods-burstable-pod<uid>.slice" with '_' for '-' (systemd), which begins with the
 * kubelet's
 * --cgroup-root where it has one ("kubelet-kubepods-..."). */
static void parse_pod(const char *part, ProcessOwner *owner)
{
    const char *pods = strstr(part, "kubepods"), *slice = pods ? strstr(pods, "-pod") : NULL;
    const char *at = slice ? slice + strlen("-pod") : skip_prefix(part, "pod");
    const size_t len = at ? strcspn(at, ".") : 0;
    char uid[POD_UID_CAP] = "";

    if (len >= sizeof(uid))
        return;
    for (size_t i = 0; i < len; i++)
        uid[i] = at[i] == '_' ? '-' : at[i];
    if (is_pod_uid(uid))
        memcpy(owner->pod_uid, uid, sizeof(uid));
}

/* The number in "job_4711". */
static const char *find_job_number(const char *part, bool slurm)
{
    const char *job = slurm ? skip_prefix(part, "job_") : NULL;

    return job && consists_of(job, digits, JOB_DIGITS) ? job : NULL;
}

/* ".../job_4711/step_0/...": of the steps the numbered ones; "step_batch" is the job's script. */
static void parse_job(const char *part, bool slurm, ProcessOwner *owner)
{
    const size_t used = strlen(owner->job);
    const char *job = find_job_number(part, slurm), *step = skip_prefix(part, "step_");

    if (job)
        snprintf(owner->job, sizeof(owner->job), "%s", job);
    else if (used && !strchr(owner->job, '.') && step && consists_of(step, plain, STEP_BYTES))
        snprintf(owner->job + used, sizeof(owner->job) - used, ".%s", step);
}

/* The path of a cgroup; it is cut into its parts. Below "user@UID.service" a user names cgroups: no jobs are there. */
static void parse_path(char *path, ProcessOwner *owner)
{
    const char *above = "";
    bool slurm = false, users = false;
    char *rest = NULL;

    for (const char *part = strtok_r(path, "/", &rest); part; part = strtok_r(NULL, "/", &rest)) {
        users |= skip_prefix(part, "user@") != NULL;
        slurm |= !users && strstr(part, "slurm") != NULL;
        parse_pod(part, owner);
        parse_container(part, above, owner);
        parse_lxc(part, above, owner);
        parse_job(part, slurm, owner);
        above = part;
    }
}

/* "s8FXKTA79XAR00" below "slurmstepd.scope": a job of Slurm 26.05 and later. */
static bool is_unnumbered_job(const char *part, const char *above)
{
    const size_t len = strlen(above), scope = strlen("slurmstepd.scope");

    return len >= scope && strcmp(above + len - scope, "slurmstepd.scope") == 0 && part[0] == 's' &&
           strlen(part) == SLUID_LEN && consists_of(part + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", SLUID_LEN);
}

size_t process_cgroup_job(const char *path)
{
    CLEANUP_FREE char *copy = xstrdup(path);
    const char *above = "";
    bool slurm = false;
    char *rest = NULL;

    for (const char *part = strtok_r(copy, "/", &rest); part; part = strtok_r(NULL, "/", &rest)) {
        if (skip_prefix(part, "user@") || strcmp(part, "..") == 0)
            return 0;
        slurm |= strstr(part, "slurm") != NULL;
        if (find_job_number(part, slurm) || is_unnumbered_job(part, above))
            return (size_t)(part - copy) + strlen(part);
        above = part;
    }
    return 0;
}

/* How much of a cgroup's path leads to that of the innermost container or job; 0: it is in none. */
static size_t find_work(const char *path)
{
    CLEANUP_FREE char *copy = xstrdup(path);
    bool slurm = false, users = false;
    const char *above = "";
    char *rest = NULL;
    size_t len = 0;

    for (const char *part = strtok_r(copy, "/", &rest); part; part = strtok_r(NULL, "/", &rest)) {
        ProcessOwner found = {.pid = 0};

        users |= skip_prefix(part, "user@") != NULL;
        slurm |= !users && strstr(part, "slurm") != NULL;
        parse_container(part, above, &found);
        parse_lxc(part, above, &found);
        if (found.container[0] || find_job_number(part, slurm) || (!users && is_unnumbered_job(part, above)))
            len = (size_t)(part - copy) + strlen(part);
        above = part;
    }
    return len;
}

/* Whether `text` has the line: a hierarchy and the path of a work, `len` bytes of it. */
static bool has_work(const char *text, const char *line, size_t len)
{
    for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        if ((size_t)(end - at) < len || strncmp(at, line, len) != 0 || (at[len] != '/' && at[len] != '\n'))
            continue;
        CLEANUP_FREE char *whole = xmemdup0(at, (size_t)(end - at));
        const char *path = strchr(strchr(whole, ':') + 1, ':') + 1;
        return (size_t)(path - whole) + find_work(path) == len;
    }
    return false;
}

/* How many works the lines name, SIZE_MAX where `other` has not all of them. A line without an end was cut. */
static size_t count_shared(const char *text, const char *other)
{
    size_t count = 0;

    /* "4:memory:/path", "0::/path" */
    for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        CLEANUP_FREE char *line = xmemdup0(at, (size_t)(end - at));
        const char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
        const size_t len = second ? find_work(second + 1) : 0;

        if (len > 0 && !has_work(other, line, (size_t)(second + 1 - line) + len))
            return SIZE_MAX;
        count += len > 0;
    }
    return count;
}

bool process_cgroup_is_shared(const char *a, const char *b)
{
    const size_t count = count_shared(a, b);

    return count > 0 && count != SIZE_MAX && count_shared(b, a) != SIZE_MAX;
}

/* Adds what another hierarchy says: Slurm may use the freezer alone, and name a step in some of them only. */
static void add_hierarchy(ProcessOwner *owner, const ProcessOwner *other)
{
    const size_t used = strlen(owner->job);

    if (!owner->container[0]) {
        memcpy(owner->container, other->container, sizeof(owner->container));
        memcpy(owner->runtime, other->runtime, sizeof(owner->runtime));
    }
    if (!owner->pod_uid[0])
        memcpy(owner->pod_uid, other->pod_uid, sizeof(owner->pod_uid));
    if (!used || (strncmp(owner->job, other->job, used) == 0 && other->job[used] == '.'))
        memcpy(owner->job, other->job, sizeof(owner->job));
}

void process_cgroup(const char *text, ProcessOwner *owner)
{
    CLEANUP_FREE char *copy = xstrdup(text);
    char *rest = NULL;

    /* "4:memory:/path", "0::/path" */
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
        ProcessOwner other = {.pid = owner->pid};

        if (!second)
            continue;
        parse_path(second + 1, &other);
        add_hierarchy(owner, &other);
    }
}

/* --- users --- */

enum { PASSWD_MAX = 4 << 20 };

struct UserNames {
    Str passwd;
};

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

    str_init(&names->passwd, PASSWD_MAX);
    (void)read_passwd(root, &names->passwd);
    return names;
}

void user_names_free(UserNames *names)
{
    if (!names)
        return;
    str_done(&names->passwd);
    free(names);
}

/* Whether the line is that of a user: "name:x:1000:1000:..." */
static bool is_line_of(const char *line, size_t len, uint32_t uid, size_t *ret_name_len)
{
    const char *colon = memchr(line, ':', len);
    const char *again = colon ? memchr(colon + 1, ':', len - (size_t)(colon + 1 - line)) : NULL;
    char *end;

    if (!again || colon == line || again[1] < '0' || again[1] > '9')
        return false;
    *ret_name_len = (size_t)(colon - line);
    return strtoul(again + 1, &end, 10) == uid && *end == ':';
}

void user_name(const UserNames *names, uint32_t uid, char out[PROCESS_USER_CAP])
{
    size_t len, name_len;

    out[0] = '\0';
    if (uid == UINT32_MAX)
        return;
    for (const char *line = names ? names->passwd.text : ""; *line; line += len + (line[len] == '\n')) {
        len = strcspn(line, "\n");
        if (!is_line_of(line, len, uid, &name_len))
            continue;
        snprintf(out, PROCESS_USER_CAP, "%.*s", (int)name_len, line);
        return;
    }
    snprintf(out, PROCESS_USER_CAP, "%u", uid);
}

/* --- processes --- */

enum { PID_CAP = 16, STATUS_CAP = 4096, CGROUP_CAP = 8192, IO_CAP = 512 };

/* A process names itself as it likes: what a terminal would obey, or what is no UTF-8, is shown as '?'. */
static void hide_controls(char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        size_t bytes = utf8_read(text + i, len - i, &c);

        if (bytes == 0 || utf8_columns(c) < 0) {
            bytes = bytes ? bytes : 1;
            memset(text + i, '?', bytes);
        }
        i += bytes;
    }
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

/* proc(5): only its user and root may read it. */
static void read_written(const char *root, const char *pid, ProcessOwner *ret)
{
    char text[IO_CAP];
    const char *at;

    if (proc_text(root, pid, "io", text, sizeof(text), NULL) < 0)
        return;
    at = strstr(text, "\nwrite_bytes: ");
    if (at)
        ret->written_bytes = strtoull(at + strlen("\nwrite_bytes: "), NULL, 10);
}

/* What `known` has of the same program of the same process stays. */
static int read_owner(const char *root, uint32_t pid, const ProcessOwner *known, ProcessOwner *ret, Err *err)
{
    char name[PID_CAP], text[CGROUP_CAP];
    ProcTask stat;

    process_owner_init(ret, pid);
    snprintf(name, sizeof(name), "%u", pid);
    TRY(proc_stat(root, name, &stat, err));
    hide_controls(stat.name, strlen(stat.name));
    const uint64_t start_ns = stat.start_ns ? stat.start_ns : 1;
    if (known && known->start_ns == start_ns && strcmp(known->name, stat.name) == 0) {
        *ret = *known;
        ret->children = 0;
        ret->child_cpu_ns = 0;
        ret->written_bytes = UINT64_MAX;
    } else {
        read_user(root, name, ret);
        if (proc_text(root, name, "cgroup", text, sizeof(text), NULL) == 0)
            process_cgroup(text, ret);
    }
    memcpy(ret->name, stat.name, sizeof(ret->name));
    ret->start_ns = start_ns;
    ret->rss_bytes = stat.rss_bytes;
    ret->cpu_ns = stat.cpu_ns;
    ret->state = stat.state;
    read_written(root, name, ret);
    return 0;
}

int process_identify(const char *root, uint32_t pid, bool with_command, ProcessOwner *ret, Err *err)
{
    char name[PID_CAP];

    TRY(read_owner(root, pid, NULL, ret, err));
    snprintf(name, sizeof(name), "%u", pid);
    if (with_command)
        read_command(root, name, ret);
    return 0;
}

/* --- the folders of pods --- */

/* Bytes of a name of Kubernetes up to the first other byte: lower case letters, digits, dashes, and dots in pods'. */
static size_t name_len(const char *text, bool dots)
{
    return strspn(text, dots ? "abcdefghijklmnopqrstuvwxyz0123456789-." : "abcdefghijklmnopqrstuvwxyz0123456789-");
}

bool poddir_parse(const char *name, size_t *ret_key_len, char uid[POD_UID_CAP])
{
    size_t namespace_len = name_len(name, false), pod_len;
    const char *pod = name + namespace_len + 1;

    if (!namespace_len || namespace_len > NAMESPACE_MAX || name[namespace_len] != '_')
        return false;
    pod_len = name_len(pod, true);
    if (!pod_len || pod_len > POD_MAX || pod[pod_len] != '_' || !is_pod_uid(pod + pod_len + 1))
        return false;
    *ret_key_len = namespace_len + 1 + pod_len;
    memcpy(uid, pod + pod_len + 1, strlen(pod + pod_len + 1) + 1);
    return true;
}

bool poddir_make_key(const char *namespace, const char *pod, char key[PODDIR_KEY_ROOM])
{
    size_t namespace_len = name_len(namespace, false), pod_len = name_len(pod, true);

    if (!namespace_len || namespace_len > NAMESPACE_MAX || namespace[namespace_len] || !pod_len || pod_len > POD_MAX ||
        pod[pod_len])
        return false;
    (void)snprintf(key, PODDIR_KEY_ROOM, "%s_%s", namespace, pod);
    return true;
}

static uint64_t statx_ns(struct statx_timestamp at)
{
    return at.tv_sec < 0 ? 0 : (uint64_t)at.tv_sec * NS_PER_S + at.tv_nsec;
}

/* A link, or a folder that is gone meanwhile, is none. When a folder was made counts, not its ctime: that also moves
 * when something is made or removed in it, so that one that is being removed can look like the newer one. */
static int read_pod_folder(int dir_fd, const char *name, const Map *pods, Err *err)
{
    char uid[POD_UID_CAP];
    struct statx seen;
    size_t key_len;
    PodDir *pod;

    if (!poddir_parse(name, &key_len, uid) || !(pod = map_getn(pods, name, key_len)))
        return 0;
    if (statx(dir_fd, name, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_CTIME | STATX_BTIME, &seen) < 0)
        return errno == ENOENT ? 0 : err_errno(err, "look at a folder");
    const uint64_t made_ns = statx_ns(seen.stx_mask & STATX_BTIME ? seen.stx_btime : seen.stx_ctime);
    if (!S_ISDIR(seen.stx_mode))
        return 0;
    /* by name where both are of one instant, so that it is always the same one */
    if (!pod->uid[0] || made_ns > pod->made_ns || (made_ns == pod->made_ns && strcmp(uid, pod->uid) > 0)) {
        memcpy(pod->uid, uid, sizeof(uid));
        pod->made_ns = made_ns;
    }
    return 0;
}

int poddir_read(const char *path, const Map *pods, Err *err)
{
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    const struct dirent *entry;
    size_t names = 0;

    if (!dir)
        return err_errno(err, "open '%s'", path);
    for (;;) {
        errno = 0;
        entry = readdir(dir);
        if (!entry)
            return errno ? err_errno(err, "read '%s'", path) : 0;
        if (++names > PODDIR_NAMES_MAX)
            return err_set(err, -E2BIG, "'%s' holds more than %d names", path, PODDIR_NAMES_MAX);
        if (read_pod_folder(dirfd(dir), entry->d_name, pods, err) < 0)
            return err_add(err, "'%s'", path);
    }
}

/* --- names of pods and containers --- */

void pod_names_done(PodNames *names)
{
    vec_done(&names->pods);
    vec_done(&names->containers);
}

/* False where one is not known. */
static bool set_pod_names(const PodNames *names, ProcessOwner *owners, size_t count)
{
    bool all = true;

    for (size_t i = 0; i < count; i++) {
        size_t at = 0;

        while (at < names->pods.len && strcmp(names->pods.at[at].uid, owners[i].pod_uid) != 0)
            at++;
        all &= at < names->pods.len || !owners[i].pod_uid[0];
        if (at == names->pods.len)
            continue;
        const char *key = names->pods.at[at].key, *dash = strchr(key, '_');
        snprintf(owners[i].namespace, sizeof(owners[i].namespace), "%.*s", (int)(dash - key), key);
        snprintf(owners[i].pod, sizeof(owners[i].pod), "%s", dash + 1);
    }
    return all;
}

static bool is_asked(const ProcessOwner *owners, size_t count, const char *uid)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(owners[i].pod_uid, uid) == 0)
            return true;
    return false;
}

static void read_pod_names(PodNames *names, const char *root, const ProcessOwner *owners, size_t count)
{
    char path[PROC_PATH_CAP];
    const struct dirent *entry;
    PodName name = {0};
    size_t key_len;

    vec_clear(&names->pods);
    if (snprintf(path, sizeof(path), "%s/var/log/pods", root) >= (int)sizeof(path))
        return;
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    for (size_t i = 0; dir && i < PODDIR_NAMES_MAX && (entry = readdir(dir)); i++) {
        if (!poddir_parse(entry->d_name, &key_len, name.uid) || !is_asked(owners, count, name.uid))
            continue;
        snprintf(name.key, sizeof(name.key), "%.*s", (int)key_len, entry->d_name);
        vec_push(&names->pods, name);
    }
}

/* False where one in a pod is not known. */
static bool set_container_names(const PodNames *names, ProcessOwner *owners, size_t count)
{
    bool all = true;

    for (size_t i = 0; i < count; i++) {
        size_t at = 0;

        if (!owners[i].pod_uid[0] || !owners[i].container[0])
            continue;
        while (at < names->containers.len && strcmp(names->containers.at[at].id, owners[i].container) != 0)
            at++;
        all &= at < names->containers.len;
        if (at < names->containers.len)
            memcpy(owners[i].container_name, names->containers.at[at].name, sizeof(owners[i].container_name));
    }
    return all;
}

/* "<pod>_<namespace>_<container>-<64 digits>.log"; the kubelet cuts a name that is too long for a file, which then has
 * no id at its end. */
static bool parse_container_link(const char *link, ContainerName *ret)
{
    const size_t len = strlen(link), tail = CONTAINER_DIGITS + strlen(".log");
    const char *first = strchr(link, '_'), *second = first ? strchr(first + 1, '_') : NULL;
    const char *id = len > tail ? link + len - tail : link;

    if (!second || id <= second + 2 || id[-1] != '-' || strcmp(id + CONTAINER_DIGITS, ".log") != 0 ||
        strspn(id, hex_digits) != CONTAINER_DIGITS)
        return false;
    const size_t room = (size_t)(id - 1 - (second + 1));
    if (room > NAMESPACE_MAX || name_len(second + 1, false) < room) /* a DNS label */
        return false;
    snprintf(ret->id, sizeof(ret->id), "%.*s", CONTAINER_DIGITS, id);
    snprintf(ret->name, sizeof(ret->name), "%.*s", (int)room, second + 1);
    return true;
}

static bool is_container_asked(const ProcessOwner *owners, size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (owners[i].pod_uid[0] && strcmp(owners[i].container, id) == 0)
            return true;
    return false;
}

static void read_container_names(PodNames *names, const char *root, const ProcessOwner *owners, size_t count)
{
    char path[PROC_PATH_CAP];
    const struct dirent *entry;
    ContainerName name = {.id = ""};

    vec_clear(&names->containers);
    if (snprintf(path, sizeof(path), "%s/var/log/containers", root) >= (int)sizeof(path))
        return;
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    for (size_t i = 0; dir && i < PODDIR_NAMES_MAX && (entry = readdir(dir)); i++)
        if (parse_container_link(entry->d_name, &name) && is_container_asked(owners, count, name.id))
            vec_push(&names->containers, name);
}

void pod_names_fill(PodNames *names, const char *root, ProcessOwner *owners, size_t count)
{
    if (!set_pod_names(names, owners, count)) {
        read_pod_names(names, root, owners, count);
        (void)set_pod_names(names, owners, count);
    }
    if (!set_container_names(names, owners, count)) {
        read_container_names(names, root, owners, count);
        (void)set_container_names(names, owners, count);
    }
}

void process_owners_fill(const char *root, PodNames *pods, ProcessOwner *owners, size_t count)
{
    UserNames *users = count > 0 ? user_names_read(root) : NULL;

    for (size_t i = 0; i < count; i++) {
        const ProcessOwner known = owners[i];

        (void)read_owner(root, known.pid, &known, &owners[i], NULL);
        user_name(users, owners[i].uid, owners[i].user);
    }
    user_names_free(users);
    pod_names_fill(pods, root, owners, count);
}
