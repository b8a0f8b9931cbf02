/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of a job, shared by the readers and the checks of this folder; not for others. */

#include <jansson.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "engine/nccl/nccl.h"
#include "engine/nccl/span.h"

/* What an input may make a job hold. Beyond it things are counted in left_out (nccl_has_room). */
enum {
    NCCL_INPUTS_MAX = 65536,
    NCCL_PROCESSES_MAX = 65536,
    NCCL_MEMBERS_MAX = 1 << 20,
    NCCL_COMMS_MAX = 1 << 16,
    NCCL_WAYS_MAX = 1023,
    NCCL_EDGES_MAX = 1 << 20,
    NCCL_SETTINGS_MAX = 1 << 18, /* of one process each */
    NCCL_WORDS_MAX = 1 << 20,
    NCCL_WORD_MAX = 512, /* bytes of a text that is kept */
    NCCL_BENCHES_MAX = 1024,
    NCCL_ROWS_MAX = 1024,
    NCCL_NODES_MAX = 16384, /* of one topology */
    NCCL_DEPTH_MAX = 64,
    NCCL_CALLS_MAX = 8 << 20,
    NCCL_TIMEOUTS_MAX = 4096,
    NCCL_ADAPTERS_MAX = 65536,
    NCCL_CALLS_KEPT = 1024, /* calls of a communicator that are compared */
    NCCL_COMMS_COMPARED_MAX = 1024,
    NCCL_FINDINGS_MAX = 2048,
};

CLEANUP_POINTER(json_t, json_decref);

typedef VEC(int64_t) Ranks;

static inline void ranks_done(Ranks *ranks)
{
    vec_done(ranks);
}

typedef enum NcclRule {
#define NCCL_RULE(name, severity, id, title, setting, advice) NCCL_RULE_##name,
#include "engine/nccl/rule.def"
#undef NCCL_RULE
    NCCL_RULE_COUNT
} NcclRule;

/* A variable as one process has it. */
typedef struct NcclEnv {
    uint32_t process;
    const char *name, *value; /* interned */
    NcclPlace place;
} NcclEnv;

/* A node by the log. */
typedef struct NcclHost {
    const char *name;            /* interned */
    uint32_t world;              /* ranks of the world that were seen here */
    int64_t local_ranks, lowest; /* ranks of the world that are here; the lowest that was seen */
    const NcclComm *counted;     /* the last communicator whose nodes were counted */
    unsigned listed;             /* adapters that a process lists */
    NcclPlace listed_place;
    uint64_t used, channels; /* adapters that edges name, and the channels of these edges, as bits */
    uint32_t gpus, known;    /* GPUs that ranks use; those of them in the current topology */
    bool taken;              /* a topology is compared with it */
} NcclHost;

/* An adapter as a log with NCCL_DEBUG_SUBSYS=NET describes it. */
typedef struct NcclAdapter {
    const char *host, *name; /* interned */
    uint64_t bus;            /* number of its PCI device */
    int64_t mbps;
    NcclPlace place;
} NcclAdapter;

/* A watchdog's line. */
typedef struct NcclTimeout {
    const char *group, *op; /* interned */
    int64_t rank, seq, numel_in, ran_ms, last_enqueued, last_completed;
    NcclPlace place;
} NcclTimeout;

/* The progress of a process group by one dump. */
typedef struct NcclStatus {
    uint32_t dump, group;
    int64_t enqueued, completed;
} NcclStatus;

/* Calls of one communicator, by count modulo NCCL_CALLS_KEPT. */
typedef struct NcclSignature {
    const char *op; /* NULL: none yet */
    uint64_t count, number;
    int64_t rank, datatype, root;
    NcclPlace place;
} NcclSignature;

/* A line about rings or trees from before its communicator is known: until 2.13 a rank logs that last. */
typedef struct NcclEarly {
    uint32_t member;
    Span text;
    NcclPlace place;
} NcclEarly;

/* A version that stands without a process's name, and the processes of its input. */
typedef struct NcclBanner {
    const char *version; /* NULL: none */
    NcclPlace place;
    uint32_t process; /* the first one, NCCL_NO_INDEX: none yet */
    bool several;
} NcclBanner;

/* Who wrote the message being read. */
typedef struct NcclSource {
    uint32_t process; /* NCCL_NO_INDEX: unknown */
    uint64_t tid;
    int dev;
    bool warn;
} NcclSource;

typedef struct NcclTopoReader NcclTopoReader;

/* Columns of a table of nccl-tests. */
enum { BENCH_COLUMNS_MAX = 40, BENCH_WORDS_MAX = BENCH_COLUMNS_MAX + 8 };
typedef struct BenchColumn BenchColumn;

typedef struct BenchReader {
    bool open; /* benches' last one belongs to this input and is not concluded */
    const BenchColumn *columns[BENCH_COLUMNS_MAX];
    size_t count;
    const char *hosts[64]; /* of "# Rank" lines */
    size_t host_count;
    char torn[512]; /* the front of a row whose rest has not come yet */
    size_t torn_len;
} BenchReader;

struct NcclJob {
    Arena arena;
    Map words;          /* interned texts */
    Map comm_by_id;     /* text -> comm + 1 */
    Map process_by_key; /* "host:pid" -> process + 1 */
    Map member_by_address, member_by_thread, edge_by_key;
    Map setting_by_key; /* process, name -> setting + 1 */
    Map signatures;     /* comm -> NcclSignature[NCCL_CALLS_KEPT] */
    Map group_by_key;
    Map host_by_name;    /* text -> host + 1 */
    Map adapter_known;   /* "host name" */
    Map member_by_rank;  /* -> NcclMember; made by nccl_check_comms */
    Map gpu_by_bus;      /* of each topology; made by nccl_index_gpus */
    VEC(NcclHost) hosts; /* by the first line of each */
    VEC(NcclEnv) env;
    VEC(NcclTimeout) timeouts;
    VEC(NcclAdapter) adapters; /* each once per host */
    VEC(NcclStatus) statuses;
    VEC(NcclEarly) early;
    size_t early_bytes;
    NcclReport report;
    bool finished;
    /* The input being read. */
    uint32_t input;
    bool reading, decided;
    Str head; /* its first bytes, until its kind is decided */
    Str line; /* an unfinished line, or all of a JSON or pickle */
    uint64_t line_number;
    bool cut; /* the message being read was cut off by another one on the same line */
    NcclSource from;
    Str scratch;
    Str bare; /* a line without its colours */
    NcclTopoReader *topo;
    BenchReader bench;
    NcclBanner banner;
};

static inline void *nccl_box(uint32_t index) /* an index as the value of a Map */
{
    return (void *)((uintptr_t)index + 1);
}

static inline uint32_t nccl_unbox(const void *value)
{
    return value ? (uint32_t)((uintptr_t)value - 1) : NCCL_NO_INDEX;
}

/* The same for a member, which may move while inputs are read. */
static inline void *nccl_box_member(const NcclJob *job, const NcclMember *m)
{
    return nccl_box((uint32_t)(m - job->report.members.at));
}

static inline NcclMember *nccl_unbox_member(const NcclJob *job, const void *value)
{
    return value ? &job->report.members.at[nccl_unbox(value)] : NULL;
}

static inline uint64_t nccl_make_rank_key(uint32_t comm, int64_t rank)
{
    return (uint64_t)comm << 32 | (uint32_t)rank;
}

/* The last process that says it has this rank, NULL; after nccl_check_comms. */
static inline const NcclMember *nccl_find_rank(const NcclJob *job, uint32_t comm, int64_t rank)
{
    return map_u64_get(&job->member_by_rank, nccl_make_rank_key(comm, rank));
}

static inline NcclPlace nccl_current_place(const NcclJob *job)
{
    return (NcclPlace){job->input, job->line_number};
}

static inline NcclHost *nccl_host_of(const NcclJob *job, const NcclMember *m)
{
    return &job->hosts.at[job->report.processes.at[m->process].host_index];
}

NcclInput *nccl_input(NcclJob *job);
/* Whether a list of `len` may grow; if not, what does not fit is counted in left_out. */
bool nccl_has_room(NcclJob *job, size_t len, size_t max);

/* The text, clean and cut to NCCL_WORD_MAX, one address per text. */
const char *nccl_intern(NcclJob *job, Span text);
/* A clean text of its own in the arena, not interned. */
const char *nccl_copy_text(NcclJob *job, Span text);
const char *nccl_printf(NcclJob *job, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Ranks as "0-3 7", "" for none; sorts them. */
const char *nccl_print_ranks(NcclJob *job, Ranks *ranks);

/* Findings. One per rule and `detail`; detail NULL: one per rule. */
NcclFinding *nccl_add_finding(NcclJob *job, NcclRule rule, const char *detail);
NcclFinding *nccl_add_findingf(NcclJob *job, NcclRule rule, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* One more case: counted, and kept while there is room. */
void nccl_add_evidence(NcclJob *job, NcclFinding *finding, NcclPlace place, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* The same for a rule that has one finding, without detail. */
#define nccl_report(job, rule, place, ...)                                                                             \
    nccl_add_evidence((job), nccl_add_finding((job), (rule), NULL), (place), __VA_ARGS__)

/* Readers. A line has no line end. */
void nccl_read_line(NcclJob *job, Span line);
/* Text whose lines are each in a JSON object. */
bool nccl_is_wrapped(Span text);
void nccl_end_banner(NcclJob *job); /* gives the input's version to the process that printed it */
bool nccl_read_bench_line(NcclJob *job, Span line);
bool nccl_read_fault_line(NcclJob *job, Span line); /* false: nothing known */
bool nccl_read_watchdog_line(NcclJob *job, Span line);
void nccl_end_bench(NcclJob *job);

/* Log: processes, ranks, and lines. */
uint32_t nccl_add_process(NcclJob *job, Span host, uint64_t pid); /* NCCL_NO_INDEX over the cap */
uint32_t nccl_find_process(const NcclJob *job, Span host, uint64_t pid);
/* The rank that the thread, or else the device, of the message being read has begun: made where missing (NULL over the
 * cap or without a process); NULL where missing; begun. Valid until the next one is made. */
NcclMember *nccl_add_member(NcclJob *job);
NcclMember *nccl_find_member(const NcclJob *job);
NcclMember *nccl_new_member(NcclJob *job);
void nccl_set_member(NcclJob *job, const NcclMember *m);
bool nccl_read_comm_line(NcclJob *job, Span message);
bool nccl_read_call_line(NcclJob *job, Span message);
bool nccl_read_edge_line(NcclJob *job, Span message);
bool nccl_read_shape_line(NcclJob *job, Span message);
void nccl_apply_early_lines(NcclJob *job); /* after the last line: those that had to wait */
bool nccl_read_env_line(NcclJob *job, Span message);
bool nccl_read_net_line(NcclJob *job, Span message);
/* The next adapter's name in "[0]mlx5_0:1/IB [1]={[1] mlx5_1:1/IB, [2] mlx5_2:1/IB}"; false at the end. */
bool nccl_next_adapter(Span *list, Span *ret_name);

/* XML and JSON. */
NcclTopoReader *nccl_topo_new(NcclJob *job);
void nccl_topo_feed(NcclTopoReader *reader, const char *bytes, size_t len);
void nccl_topo_end(NcclTopoReader *reader, bool whole); /* frees */
void nccl_read_json(NcclJob *job, Span text);
void nccl_read_pickle(NcclJob *job, Span bytes);
/* Reads a dump: an object, or (first versions) the list of its entries. */
void nccl_read_flight(NcclJob *job, const json_t *top);

/* What the two readers of nccl-tests (text and JSON) share. */
NcclBench *nccl_new_bench(NcclJob *job); /* NULL over the cap */
NcclRow nccl_init_row(NcclPlace place);  /* nothing known */
void nccl_add_row(NcclJob *job, NcclBench *bench, const NcclRow *row);
const char *nccl_read_bench_name(NcclJob *job, Span path);

/* Checks, after the last input. */
void nccl_count_topologies(NcclJob *job); /* first: what others need of them */
void nccl_check_comms(NcclJob *job);
void nccl_check_ways(NcclJob *job);
void nccl_check_settings(NcclJob *job);
void nccl_check_timeouts(NcclJob *job);
void nccl_check_topologies(NcclJob *job);
void nccl_index_gpus(NcclJob *job);     /* what nccl_find_edge_tie needs */
void nccl_check_machines(NcclJob *job); /* topologies against logs */
void nccl_check_benches(NcclJob *job);
void nccl_check_flight(NcclJob *job);

/* What checks share. */
typedef enum NcclTie { NCCL_TIE_UNKNOWN, NCCL_TIE_NONE, NCCL_TIE_LINKED } NcclTie;
/* Whether NVLink or xGMI joins the two GPUs of an edge by a topology that has both; *ret_topology is that one. */
NcclTie nccl_find_edge_tie(const NcclJob *job, const NcclEdge *edge, const NcclTopology **ret_topology);
/* The other rank of an edge, NULL where it was not seen. */
const NcclMember *nccl_find_edge_peer(const NcclJob *job, const NcclEdge *edge);
/* A process's variable of this name and value (NULL: any), NULL. */
const NcclEnv *nccl_find_env(const NcclJob *job, const char *name, const char *value);
