/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/scenario/owner.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/core/num.h"

enum { RUNTIME_NONE, RUNTIME_DOCKER, RUNTIME_CONTAINERD, RUNTIME_CRIO, RUNTIME_PODMAN };
const char *const owner_runtimes[] = {"none", "docker", "containerd", "cri-o", "podman", NULL};

enum {
    NAME_MAX_BYTES = 58, /* of a pod: a rank may follow */
    NAMESPACE_MAX_BYTES = 63,
    USER_MAX_BYTES = 31,
    COMMAND_MAX_BYTES = 255,
    JOB_MAX_DIGITS = 18,
    STEP_MAX_BYTES = 9,
    UID_OTHERS = 100000, /* where a directory service begins */
};

#define UID_MAX UINT32_C(4000000000)

/* ---- users ---- */

static const struct {
    uint32_t uid;
    const char *name;
} people[] = {{0, "root"},    {1000, "ops"},  {1001, "alice"}, {1002, "bob"},   {1003, "carol"},
              {1004, "dave"}, {1005, "erin"}, {1006, "frank"}, {1007, "grace"}, {1008, "heidi"},
              {1009, "ivan"}, {1010, "judy"}, {1011, "kim"},   {1012, "leo"},   {65534, "nobody"}};

static uint64_t text_number(const char *text)
{
    uint64_t number = 1;
    for (; *text; text++)
        number = sim_hash(number, (unsigned char)*text, 0x74657874);
    return number;
}

static bool is_user_name(const char *text)
{
    const size_t len = strlen(text);
    return len > 0 && len <= USER_MAX_BYTES && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len &&
           strspn(text, "0123456789-") == 0;
}

static int read_user(const char *text, const YamlNode *node, Owner *ret, Err *err)
{
    const size_t digits = strspn(text, "0123456789");
    const bool number = digits > 0 && digits <= 10 && !text[digits] && strtoull(text, NULL, 10) <= UID_MAX;
    if (!number && !is_user_name(text))
        return field_fail(yaml_get(node, "user"), err,
                          "'user' must be a number up to %u, or a name of small letters, digits, '_' and '-' of at "
                          "most %d bytes",
                          UID_MAX, USER_MAX_BYTES);
    ret->uid = number ? (uint32_t)strtoul(text, NULL, 10) : UID_OTHERS + (uint32_t)(text_number(text) % 800000);
    ret->user = number ? "" : text;
    for (size_t i = 0; i < ARRAY_LEN(people); i++)
        if (number ? people[i].uid == ret->uid : strcmp(people[i].name, text) == 0) {
            ret->uid = people[i].uid;
            ret->user = people[i].name;
        }
    return 0;
}

/* ---- commands ---- */

/* What programs of that name are usually started with, for a work of some name. */
static const struct {
    const char *process, *before, *after;
} commands[] = {
    {"python", "python -u ", ".py"},
    {"python3", "python3 -u ", ".py"},
    {"ipykernel", "python3 -m ipykernel_launcher -f /run/jupyter/", ".json"},
    {"vllm", "vllm serve /models/", " --gpu-memory-utilization 0.95"},
    {"tritonserver", "/opt/tritonserver/bin/tritonserver --model-repository=/models/", ""},
    {"ffmpeg", "ffmpeg -hwaccel cuda -i /media/", ".ts -c:v h264_nvenc -f mpegts -"},
};

static const char *usual_command(const ScenarioWork *work, Arena *arena)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(commands[i].process, work->process) == 0)
            return arena_printf(arena, "%s%s%s", commands[i].before, work->name, commands[i].after);
    return work->process;
}

static int read_command(const OwnerArgs *args, const ScenarioWork *work, const YamlNode *node, Arena *arena, Owner *ret,
                        Err *err)
{
    ret->command = args->command ? args->command : usual_command(work, arena);
    if (!ret->command[0] || strlen(ret->command) > COMMAND_MAX_BYTES || strpbrk(ret->command, "\r\n\t"))
        return field_fail(yaml_get(node, "command"), err, "'command' must be one line of 1 to %d bytes",
                          COMMAND_MAX_BYTES);
    return 0;
}

double owner_cores(const char *kind)
{
    static const struct {
        const char *kind;
        double cores;
    } rows[] = {{"idle-context", 0.01}, {"desktop", 0.04}, {"inference", 0.55}, {"leak", 0.55},
                {"quantized", 0.7},     {"video", 0.6},    {"hpc-fp64", 1.0},   {"train-starved", 0.8}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].kind, kind) == 0)
            return rows[i].cores;
    return 1; /* waits for the GPU by looking again and again */
}

/* ---- pods and jobs ---- */

/* Of Kubernetes: small letters, digits and '-' within. */
static bool is_label(const char *text, size_t len, size_t max)
{
    static const char fine[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (len == 0 || len > max || text[0] == '-' || text[len - 1] == '-')
        return false;
    return strspn(text, fine) >= len;
}

static int read_pod(const OwnerArgs *args, const YamlNode *node, Arena *arena, Owner *ret, Err *err)
{
    if (!args->pod)
        return 0;
    const char *slash = strchr(args->pod, '/');
    const char *name = slash ? slash + 1 : args->pod;
    if (!is_label(name, strlen(name), NAME_MAX_BYTES) ||
        (slash && !is_label(args->pod, (size_t)(slash - args->pod), NAMESPACE_MAX_BYTES)))
        return field_fail(yaml_get(node, "pod"), err,
                          "'pod' must be a name of at most %d small letters, digits and '-', or namespace/name",
                          NAME_MAX_BYTES);
    if (args->container == RUNTIME_PODMAN)
        return field_fail(yaml_get(node, "container"), err, "'container': podman runs no pods of Kubernetes");
    ret->pod = name;
    ret->namespace = slash ? arena_strndup(arena, args->pod, (size_t)(slash - args->pod)) : "default";
    if (ret->container == RUNTIME_NONE)
        ret->container = RUNTIME_CONTAINERD;
    return 0;
}

static bool is_step(const char *text)
{
    const size_t len = strlen(text);
    if (len > 0 && len <= STEP_MAX_BYTES && strspn(text, "0123456789") == len)
        return true;
    return strcmp(text, "batch") == 0 || strcmp(text, "extern") == 0 || strcmp(text, "interactive") == 0;
}

static int read_job(const OwnerArgs *args, const YamlNode *node, Arena *arena, Owner *ret, Err *err)
{
    if (!args->job)
        return 0;
    const size_t digits = strspn(args->job, "0123456789");
    const char *step = args->job[digits] == '.' ? args->job + digits + 1 : "0";
    if (digits == 0 || digits > JOB_MAX_DIGITS || (args->job[digits] && args->job[digits] != '.') || !is_step(step))
        return field_fail(yaml_get(node, "job"), err,
                          "'job' must be a number of Slurm's like 4711, or with a step: 4711.0, 4711.batch");
    if (args->pod || args->container != RUNTIME_NONE)
        return field_fail(yaml_get(node, "job"), err, "'job' does not go with 'pod' or 'container'");
    ret->job = arena_strndup(arena, args->job, digits);
    ret->step = step;
    return 0;
}

int owner_read(const OwnerArgs *args, const ScenarioWork *work, const YamlNode *node, Arena *arena, Owner *ret,
               Err *err)
{
    Owner owner = {.container = args->container};
    TRY(read_user(args->user, node, &owner, err));
    TRY(read_command(args, work, node, arena, &owner, err));
    TRY(read_pod(args, node, arena, &owner, err));
    TRY(read_job(args, node, arena, &owner, err));
    *ret = owner;
    return 0;
}

/* ---- cgroups ---- */

static const char *container_id(uint64_t seed, uint64_t of, Arena *arena)
{
    return arena_printf(arena, "%016llx%016llx%016llx%016llx", (unsigned long long)sim_hash(seed, of, 1),
                        (unsigned long long)sim_hash(seed, of, 2), (unsigned long long)sim_hash(seed, of, 3),
                        (unsigned long long)sim_hash(seed, of, 4));
}

/* The same for all containers of a pod. */
static const char *pod_uid(uint64_t seed, const char *namespace, const char *pod, Arena *arena)
{
    const uint64_t a = sim_hash(seed, text_number(namespace), text_number(pod)), b = sim_hash(seed, a, 5);
    return arena_printf(arena, "%08x-%04x-4%03x-a%03x-%012llx", (unsigned)(a >> 32), (unsigned)(a >> 16) & 0xffff,
                        (unsigned)a & 0xfff, (unsigned)(b >> 48) & 0xfff, (unsigned long long)b & 0xffffffffffff);
}

/* kubelet: cgroup_manager_linux.go; in names of slices '-' stands for a step down and is written '_'. */
static const char *pod_path(const Owner *owner, uint32_t cgroups, const char *uid, const char *id, Arena *arena)
{
    static const char *const scopes[] = {"", "docker", "cri-containerd", "crio"};
    if (cgroups != SIM_CGROUPS_SYSTEMD)
        return arena_printf(arena, "/kubepods/burstable/pod%s/%s%s", uid,
                            owner->container == RUNTIME_CRIO ? "crio-" : "", id);
    char *plain = arena_strdup(arena, uid);
    for (char *at = plain; (at = strchr(at, '-')); at++)
        *at = '_';
    return arena_printf(arena, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%s.slice/%s-%s.scope",
                        plain, scopes[owner->container], id);
}

static const char *container_path(const Owner *owner, uint32_t cgroups, const char *id, Arena *arena)
{
    static const struct {
        const char *before, *after, *plain;
    } forms[] = {[RUNTIME_DOCKER] = {"/system.slice/docker-", ".scope", "/docker/"},
                 [RUNTIME_CONTAINERD] = {"/system.slice/nerdctl-", ".scope", "/default/"},
                 [RUNTIME_CRIO] = {"/system.slice/crio-", ".scope", "/crio-"},
                 [RUNTIME_PODMAN] = {"/machine.slice/libpod-", ".scope", "/libpod_parent/libpod-"}};
    if (cgroups != SIM_CGROUPS_SYSTEMD)
        return arena_printf(arena, "%s%s", forms[owner->container].plain, id);
    return arena_printf(arena, "%s%s%s", forms[owner->container].before, id, forms[owner->container].after);
}

/* Slurm's plug-ins cgroup/v2 and cgroup/v1. */
static const char *job_path(const Owner *owner, uint32_t cgroups, uint32_t rank, Arena *arena)
{
    if (cgroups == SIM_CGROUPS_V1)
        return arena_printf(arena, "/slurm/uid_%u/job_%s/step_%s/task_%u", owner->uid, owner->job, owner->step, rank);
    return arena_printf(arena, "/system.slice/slurmstepd.scope/job_%s/step_%s/user/task_%u", owner->job, owner->step,
                        rank);
}

static const char *login_path(const Owner *owner, const char *kind, uint32_t number, Arena *arena)
{
    if (strcmp(kind, "desktop") == 0)
        return "/system.slice/display-manager.service";
    return arena_printf(arena, "/user.slice/user-%u.slice/session-%u.scope", owner->uid, number + 2);
}

void owner_fill(const Owner *owner, const Parse *parse, uint32_t number, bool alone, ScenarioWork *work)
{
    const uint64_t seed = parse->out->node.seed, of = number * 4096u + (alone ? work->rank : 0);
    const uint32_t cgroups = parse->node.cgroups;
    Arena *arena = parse->arena;
    work->uid = owner->uid;
    work->user = owner->user;
    work->command = owner->command;
    work->pod = "";
    if (owner->pod) {
        const char *name = alone ? arena_printf(arena, "%s-%u", owner->pod, work->rank) : owner->pod;
        const char *uid = pod_uid(seed, owner->namespace, name, arena);
        work->pod = arena_printf(arena, "%s_%s_%s", owner->namespace, name, uid);
        work->cgroup = pod_path(owner, cgroups, uid, container_id(seed, of, arena), arena);
    } else if (owner->container != RUNTIME_NONE) {
        work->cgroup = container_path(owner, cgroups, container_id(seed, of, arena), arena);
    } else if (owner->job) {
        work->cgroup = job_path(owner, cgroups, work->rank, arena);
    } else {
        work->cgroup = login_path(owner, work->kind, number, arena);
    }
}
