/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whose work is on a GPU: an owner, and what one owner holds of one GPU or MIG instance at an instant. Made by
 * engine/owner from what was declared (model/allocation.h) and what was observed (processes); everybody else reads it.
 * Plain data, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "model/event.h"
#include "model/process.h"
#include "model/word.h"

/* Texts are "" where not known. */
typedef struct Owner {
    char user[PROCESS_USER_CAP];
    char job[PROCESS_JOB_CAP];      /* of a workload manager, without its step: "4711" */
    char account[PROCESS_USER_CAP]; /* that the workload manager charges */
    char pod[PROCESS_NAME_CAP * 4], namespace[PROCESS_NAME_CAP];
    char container[PROCESS_CONTAINER_CAP]; /* its name, as the kubelet says, else its id */
    char process[EVENT_NAME_CAP];          /* of several processes the first */
    int32_t pid;                           /* of the same; -1: none was seen, the device was given to it */
    uint64_t start_ns;                     /* of that process, after boot; 0: not known, and not in the JSON */
} Owner;

/* WORD(id, key): what owners are summed up by. `of` begins the names, so that an enum that has more of them begins with
 * these. */
#define OWNER_KEY_TABLE(WORD, of)                                                                                      \
    WORD(of##USER, "user")                                                                                             \
    WORD(of##JOB, "job")                                                                                               \
    WORD(of##POD, "pod") /* with its namespace */                                                                      \
    WORD(of##NAMESPACE, "namespace")                                                                                   \
    WORD(of##ACCOUNT, "account")                                                                                       \
    WORD(of##CONTAINER, "container") /* with its pod and namespace, where it has these */

typedef enum OwnerKey { OWNER_KEY_TABLE(WORD_ID, OWNER_BY_) OWNER_KEY_END } OwnerKey;

enum { OWNER_NAME_CAP = 400 };

/* WORD(id, key, text) */
#define HOLDING_STATE_TABLE(WORD)                                                                                      \
    WORD(HOLDING_USED, "used", "its processes run on the device")                                                      \
    WORD(HOLDING_IDLE_HELD, "idle_held", "it has processes on the device, and nothing runs")                           \
    WORD(HOLDING_UNMANAGED, "unmanaged", "on a device that it was not given")                                          \
    WORD(HOLDING_RESERVED, "reserved", "the device was given to it, and it has no process there")

typedef enum HoldingState { HOLDING_STATE_TABLE(WORD_ID) HOLDING_STATE_END } HoldingState;

/* WORD(id, key, text): how an owner's share of a device was found. */
#define ATTRIBUTION_TABLE(WORD)                                                                                        \
    WORD(ATTRIBUTION_UNKNOWN, "unknown", "whose processes these are is not known")                                     \
    WORD(ATTRIBUTION_EXCLUSIVE, "exclusive", "the only owner on a whole GPU")                                          \
    WORD(ATTRIBUTION_MIG, "mig", "the only owner on a MIG instance")                                                   \
    WORD(ATTRIBUTION_SAMPLED, "sampled", "one of several, by the driver's samples of each process")                    \
    WORD(ATTRIBUTION_EVEN, "even", "one of several, an equal part each")

typedef enum Attribution { ATTRIBUTION_TABLE(WORD_ID) ATTRIBUTION_END } Attribution;

/* WORD(id, key, text): how it is known that somebody holds the device. */
#define HOLDING_BASIS_TABLE(WORD)                                                                                      \
    WORD(HOLDING_BY_PROCESS, "process", "the driver lists its processes")                                              \
    WORD(HOLDING_BY_OPEN_FILE, "open_file", "it has the device open, and the driver lists no process")                 \
    WORD(HOLDING_BY_GRANT, "grant", "the device was given to it, and nothing of it is seen there")                     \
    WORD(HOLDING_BY_MEMORY, "memory", "the device's memory is in use, and nobody's processes are visible here")

typedef enum HoldingBasis { HOLDING_BASIS_TABLE(WORD_ID) HOLDING_BASIS_END } HoldingBasis;

/* WORD(id, key, text): who says that the device was given to the owner. */
#define HOLDING_GRANT_TABLE(WORD)                                                                                      \
    WORD(HOLDING_GRANT_NONE, "none", "nobody")                                                                         \
    WORD(HOLDING_GRANT_KUBELET, "kubelet", "the kubelet: a device plugin or a DRA claim")                              \
    WORD(HOLDING_GRANT_JOB_FILE, "job_file", "a file of the job-mapping directory")                                    \
    WORD(HOLDING_GRANT_ENVIRON, "environ", "the environment of the job's tasks")

typedef enum HoldingGrant { HOLDING_GRANT_TABLE(WORD_ID) HOLDING_GRANT_END } HoldingGrant;

typedef struct HoldingProcess {
    uint32_t pid;
    uint64_t start_ns;         /* after boot; 0: not known */
    char name[EVENT_NAME_CAP]; /* "" unknown */
    char user[PROCESS_USER_CAP];
} HoldingProcess;

/* A process of Stoker's own tests of GPUs. */
bool holding_process_is_test(const HoldingProcess *process);

/* What of Kubernetes made a pod. */
typedef struct Workload {
    char kind[64]; /* "Deployment", "Job", "PyTorchJob"; "" not known */
    char name[PROCESS_NAME_CAP * 4];
    bool derived; /* from the pod's name; else the API server says it */
} Workload;

/* Holdings of one device lie together; devices are in the order of the Node, a GPU before its instances. */
typedef struct Holding {
    size_t gpu;                              /* position in Node.gpus */
    uint32_t gpu_instance, compute_instance; /* DEVICE_NO_NUMBER: the whole GPU */
    Owner owner;
    Workload workload; /* name "": none is known */
    HoldingState state;
    HoldingBasis basis;
    HoldingGrant grant;     /* the first that says so */
    uint64_t given_real_ns; /* when its job was given its devices, wall clock, by the workload manager; 0: not known */
    Attribution attribution;
    double share;          /* 0 to 1 of the device; those of one device sum to 1 */
    double sm_share;       /* of the device's multiprocessors, by the driver's samples; NaN where not known */
    uint64_t memory_bytes; /* that its processes use, as far as it is known */
    size_t process_count;
    const HoldingProcess *processes; /* by pid; borrowed from the one who made the holding */
} Holding;

/* A test of ours that no job, pod or container runs for itself. */
bool holding_is_test(const Holding *holding);

enum { JOB_TEXT_CAP = 64, JOB_START_CAP = 24 };

/* What a workload manager says of a job. Texts are "" where not known. */
typedef struct JobInfo {
    char job[PROCESS_JOB_CAP];   /* its number, without a step */
    char array[PROCESS_JOB_CAP]; /* "4700_3", of a task of an array; "" */
    char started[JOB_START_CAP]; /* as Slurm writes it, in its own zone: tells two jobs of one number apart */
    char name[JOB_TEXT_CAP], partition[JOB_TEXT_CAP];
    char user[PROCESS_USER_CAP], account[PROCESS_USER_CAP];
    uint64_t started_real_ns; /* the same, wall clock; 0: not known */
    uint32_t nodes;           /* 0: not known */
    uint32_t cpus;            /* on all of them; 0: not known */
    uint64_t limit_s;         /* of its time; 0: none, or not known */
} JobInfo;

typedef struct JobInfoList {
    const JobInfo *at;
    size_t len;
} JobInfoList;

/* What a workload manager's job uses of its host, by its cgroup. NaN: not known. */
typedef struct HostUsage {
    char job[PROCESS_JOB_CAP];               /* without a step */
    double cpu_s;                            /* of the processors, since it began */
    double cpus;                             /* that it is bound to */
    double memory_bytes, memory_limit_bytes; /* anonymous and shared; the limit, or what the node has */
} HostUsage;

typedef struct HostUsageList {
    const HostUsage *at;
    size_t len;
} HostUsageList;

/* NULL where there is none. */
const HostUsage *host_usage_find(const HostUsageList *list, const char *job);

/* By the names that controllers give to pods. Of "name-x7k2p" the kind is not known: a Job, a DaemonSet or a ReplicaSet
 * make these. False for a name that none makes. */
bool workload_from_pod(const char *pod, Workload *ret);

/* NULL where there is none. */
const JobInfo *job_info_find(const JobInfoList *list, const char *job);

extern const WordRow owner_keys[OWNER_KEY_END];
extern const WordRow holding_states[HOLDING_STATE_END], attributions[ATTRIBUTION_END];
extern const WordRow holding_bases[HOLDING_BASIS_END], holding_grants[HOLDING_GRANT_END];

/* One user's work in one job, pod and container. Account, process and pid do not count. */
bool owner_is_same(const Owner *a, const Owner *b);
/* Anything is known but the process. */
bool owner_is_known(const Owner *owner);
/* Equal for owners that are the same; not for anything that is stored or sent. */
uint64_t owner_hash(const Owner *owner);
/* The same without the user: 0 where there is neither job nor pod nor container. */
uint64_t owner_work_hash(const Owner *owner);
/* What an owner is summed up as; "" where that is not known. */
void owner_name(const Owner *owner, OwnerKey key, char out[OWNER_NAME_CAP]);
/* "job 4711 of alice", "pod serving/chat-0", "container 0123456789ab of root", "python (4242) of bob". */
void owner_add_text(const Owner *owner, Str *out);
/* The same in one word or two: "job 4711", "chat-0", "0123456789ab", "bob". */
void owner_add_brief(const Owner *owner, Str *out);
