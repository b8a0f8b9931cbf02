/* SPDX-License-Identifier: Apache-2.0 */
/* source/slurm/cluster.c: the output of scontrol in the forms of 22.05 and 24.05, as a cluster. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "source/slurm/cluster.h"

#define NODE(name, rest) "NodeName=" name " Arch=x86_64 CPUTot=64 CPULoad=0.1 " rest "\n"
#define PLAIN " RealMemory=256000 State=IDLE Partitions=gpu,all ActiveFeatures=ib,nvme Gres=gpu:h100:8 CPUAlloc=0"
#define FOUR NODE("g1", PLAIN) NODE("g2", PLAIN) NODE("g3", PLAIN) NODE("g4", PLAIN)
/* two more, of other kinds */
#define SIX                                                                                                            \
    FOUR NODE("mig1", "RealMemory=1000 State=IDLE Partitions=gpu ActiveFeatures=mig "                                  \
                      "Gres=gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:7")                                                     \
        NODE("login1", "RealMemory=1000 State=IDLE Partitions=cpu ActiveFeatures=(null) Gres=(null)")

static int read_all(const char *nodes, const char *jobs, const char *topology, Arena *arena, SlurmCluster *ret,
                    Err *err)
{
    const SlurmText texts[] = {{"nodes", nodes, strlen(nodes)},
                               {"jobs", jobs, jobs ? strlen(jobs) : 0},
                               {"topology", topology, topology ? strlen(topology) : 0}};

    return slurm_cluster_read(&texts[0], &texts[1], &texts[2], arena, ret, err);
}

/* Reads what has to be fine. */
static SlurmCluster read_fine(const char *nodes, const char *jobs, const char *topology, Arena *arena)
{
    SlurmCluster read = {0};
    Err err = {0};

    if (read_all(nodes, jobs, topology, arena, &read, &err) < 0)
        fail_msg("%s", err.text);
    return read;
}

static bool has_note(const SlurmCluster *read, const char *part)
{
    for (size_t i = 0; i < read->note_count; i++)
        if (strstr(read->notes[i], part))
            return true;
    return false;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *rest; /* of the line */
    uint32_t cpu_milli, memory_mib, gpus;
    bool closed;
    const char *model, *reason, *note; /* NULL: none */
} nodes[] = {
    {PLAIN, 64000, 256000, 8, false, "h100", "", NULL},
    {"CPUEfctv=60 RealMemory=1000 MemSpecLimit=100 State=MIXED Gres=gpu:2(S:0)", 60000, 900, 2, false, "gpu", "", NULL},
    {"State=IDLE+DRAIN Reason=bad fan [x] and = more [root@2026-11-30T00:56:33]", 64000, 0, 0, true, NULL,
     "bad fan [x] and = more [root@2026-11-30T00:56:33]", NULL},
    {"State=DOWN* Reason=a b [root@2026-01-01] Comment=c", 64000, 0, 0, true, NULL, "a b [root@2026-01-01]", NULL},
    {"State=IDLE Reason=State=DOWN x", 64000, 0, 0, false, NULL, "State=DOWN x", NULL},
    {"State=MIXED+NOT_RESPONDING", 64000, 0, 0, true, NULL, "", NULL},
    {"State=IDLE*", 64000, 0, 0, true, NULL, "", NULL},
    {"State=IDLE+MAINTENANCE", 64000, 0, 0, false, NULL, "", NULL},
    {"State=IDLE+MAINT", 64000, 0, 0, true, NULL, "", NULL},
    {"State=RESERVED", 64000, 0, 0, true, NULL, "", NULL},
    {"State=UNKNOWN+DRAIN+INVALID_REG", 64000, 0, 0, true, NULL, "", NULL},
    {"State=IDLE+CLOUD+POWERED_DOWN", 64000, 0, 0, false, NULL, "", NULL},
    {"State=ALLOCATED+COMPLETING+PLANNED", 64000, 0, 0, false, NULL, "", NULL},
    {"Gres=(null) CfgTRES=cpu=64,mem=250G,billing=64,gres/gpu=4,gres/gpu:a100=4", 64000, 0, 4, false, "a100", "", NULL},
    {"Gres=gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:7", 64000, 0, 7, false, "a100_1g.5gb", "", "2 types of GPU"},
    {"Gres=gpu:a100_1g.5gb:56", 64000, 0, 16, false, "a100_1g.5gb", "", "56 GPUs; 16"},
    {"Unknown=1 AnotherKey= =x State=IDLE", 64000, 0, 0, false, NULL, "", NULL},
};

static void test_nodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        CLEANUP(arena_done) Arena arena = {0};
        char text[512];

        snprintf(text, sizeof text, "NodeName=n1 CPUTot=64 %s\n", nodes[i].rest);
        const SlurmCluster read = read_fine(text, NULL, NULL, &arena);
        const ClusterNode *n = &read.cluster.nodes[0];
        assert_int_equal(read.cluster.node_count, 1);
        assert_string_equal(n->name, "n1");
        assert_int_equal(n->cpu_milli, nodes[i].cpu_milli);
        assert_int_equal(n->memory_mib, nodes[i].memory_mib);
        assert_int_equal(n->gpu_count, nodes[i].gpus);
        assert_int_equal(n->closed, nodes[i].closed);
        assert_string_equal(read.nodes[0].reason, nodes[i].reason);
        if (nodes[i].model)
            assert_string_equal(read.cluster.models[n->model], nodes[i].model);
        assert_int_equal(read.note_count, nodes[i].note != NULL);
        assert_true(!nodes[i].note || has_note(&read, nodes[i].note));
    }
}

static const struct {
    const char *nodes, *jobs, *topology, *said;
    int rc;
} refused[] = {
    {"", NULL, NULL, "nodes: no line with NodeName=", -EINVAL},
    {"Slurm says nothing\n", NULL, NULL, "nodes: no line with NodeName=", -EINVAL},
    {"NodeName=a CPUTot=1\n\nNodeName=b CPUTot=x\n", NULL, NULL, "nodes:3: CPUTot=x: no number", -EINVAL},
    {"NodeName=a\nNodeName=a\n", NULL, NULL, "nodes:2: node a comes twice", -EINVAL},
    {FOUR, "JobId=1 JobState=RUNNING NumNodes=1 NodeList=g[4-1]\n", NULL, "jobs:1: NodeList: no range", -EINVAL},
    {FOUR, "JobId=1 JobState=PENDING NumNodes=1 ExcNodeList=g[1-70000]\n", NULL, "jobs:1: ExcNodeList: more than 65536",
     -E2BIG},
    {FOUR, "\nJobId=1 JobState=PENDING Priority=high\n", NULL, "jobs:2: Priority=high", -EINVAL},
    {FOUR, NULL, "SwitchName=s1 Nodes=g[1\n", "topology:1: no ']'", -EINVAL},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        CLEANUP(arena_done) Arena arena = {0};
        SlurmCluster read = {.note_count = 77};
        Err err = {0};

        assert_int_equal(read_all(refused[i].nodes, refused[i].jobs, refused[i].topology, &arena, &read, &err),
                         refused[i].rc);
        assert_int_equal(read.note_count, 77);
        if (!strstr(err.text, refused[i].said))
            fail_msg("%s", err.text);
    }
}

static void test_long_lines(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP(str_done) Str text = str_limited(2 << 20);
    SlurmCluster read;
    Err err = {0};

    (void)state;
    str_add(&text, "NodeName=a CPUTot=1 Comment=");
    while (text.len < 1 << 20)
        str_add(&text, "0123456789abcdef");
    assert_int_equal(read_all(text.text, NULL, NULL, &arena, &read, &err), -E2BIG);
    assert_non_null(strstr(err.text, "nodes:1: a line over"));
}

/* --- jobs that wait ----------------------------------------------------------------------------------------------- */

#define JOB "JobId=7 JobName=x UserId=al(7) GroupId=al(7) Priority=5 Account=phys QOS=normal JobState=PENDING "

typedef struct Share {
    uint32_t nodes, gpus, cpus, mib;
} Share;

static const struct {
    const char *rest;
    Share shares[2];
    const char *model; /* of the first; NULL: any */
} asked[] = {
    /* 22.05 */
    {"NumNodes=4-4 NumCPUs=4 TRES=cpu=4,mem=4G,node=4,billing=4 TresPerNode=gres:gpu:8", {{4, 8, 1, 1024}}, NULL},
    {"NumNodes=1 NumCPUs=6 TRES=cpu=6,mem=1000M,node=1 TresPerNode=gres:gpu:h100:2", {{1, 2, 6, 1000}}, "h100"},
    {"NumNodes=2-2 NumCPUs=5 TRES=cpu=5,node=2 TresPerJob=gres:gpu:3", {{1, 2, 3, 0}, {1, 1, 3, 0}}, NULL},
    {"NumNodes=2-2 NumCPUs=2 NumTasks=6 TRES=node=2 TresPerTask=gres:gpu:1", {{2, 3, 1, 0}}, NULL},
    /* what does not fit on the nodes told, is on more of them, unless the number is fixed */
    {"NumNodes=1 NumCPUs=16 TRES=cpu=16,mem=16G,node=1 TresPerJob=gres:gpu:16", {{2, 8, 8, 16384}}, NULL},
    {"NumNodes=1-1 NumCPUs=1 TresPerJob=gres:gpu:16", {{1, 16, 1, 0}}, NULL},
    /* 24.05 */
    {"NumNodes=2-2 NumCPUs=8 ReqTRES=cpu=8,mem=64G,node=2,billing=8,gres/gpu=8,gres/gpu:h100=8 AllocTRES=(null) "
     "TresPerNode=gres/gpu:h100:4",
     {{2, 4, 4, 32768}},
     "h100"},
    {"NumNodes=1 NumCPUs=2 NumTasks=2 ReqTRES=cpu=2,mem=1G,node=1 AllocTRES=(null) TresPerTask=cpu=1,gres/gpu=2",
     {{1, 4, 2, 1024}},
     NULL},
    {"NumNodes=1 NumCPUs=2 ReqTRES=cpu=2,mem=1G,node=1,gres/gpu=1 AllocTRES=(null)", {{1, 1, 2, 1024}}, NULL},
    {"NumNodes=3 NumCPUs=9", {{3, 0, 3, 0}}, NULL},
    {"", {{1, 0, 0, 0}}, NULL},
};

static void test_asked(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        CLEANUP(arena_done) Arena arena = {0};
        char text[512];

        snprintf(text, sizeof text, JOB "%s \n", asked[i].rest);
        const SlurmCluster read = read_fine(SIX, text, NULL, &arena);
        const ClusterJob *job = &read.cluster.jobs[0];
        assert_int_equal(job->role_count, 1 + (asked[i].shares[1].nodes > 0));
        for (size_t k = 0; k < job->role_count; k++) {
            const ClusterRequest *r = &job->roles[k].request;

            assert_int_equal(job->roles[k].min, asked[i].shares[k].nodes);
            assert_int_equal(job->roles[k].max, asked[i].shares[k].nodes);
            assert_int_equal(r->gpu_count, asked[i].shares[k].gpus);
            assert_int_equal(r->gpu_milli, r->gpu_count ? CLUSTER_GPU : 0);
            assert_int_equal(r->cpu_milli, asked[i].shares[k].cpus * 1000);
            assert_int_equal(r->memory_mib, asked[i].shares[k].mib);
        }
        const uint64_t models = job->roles[0].request.models;
        assert_int_equal(models != 0, asked[i].model != NULL);
        if (models)
            assert_string_equal(read.cluster.models[__builtin_ctzll(models)], asked[i].model);
    }
}

static void test_what_a_job_is(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    const SlurmCluster read = read_fine(
        FOUR,
        "JobId=7 JobName=a b UserId=al(7) GroupId=al(7) Priority=4294901757 Account=phys QOS=high JobState=PENDING "
        "Reason=Priority Dependency=afterok:3(unfulfilled) Requeue=1 TimeLimit=1-02:00:00 "
        "SubmitTime=2026-11-30T00:00:01 "
        "StartTime=2026-11-30T02:00:00 EndTime=Unknown NumNodes=1 Licenses=matlab:2 Switches=1@00:05:00 \n"
        "JobId=9 ArrayJobId=8 ArrayTaskId=4-9%2 JobName=c UserId=bo(8) Priority=4294901759 Account=(null) "
        "JobState=PENDING Requeue=0 Reason=NewInThisRelease\n"
        "JobId=10 ArrayJobId=8 ArrayTaskId=3 JobState=PENDING Priority=0\n"
        "JobId=12 HetJobId=11 HetJobOffset=1 JobName=h HetJobIdSet=11-12 JobState=PENDING Reason=None Priority=1\n"
        "JobId=13 JobState=COMPLETED Reason=None\nJobId=14 JobState=CANCELLED\nNo jobs\n",
        NULL, &arena);
    const ClusterJob *jobs = read.cluster.jobs;

    (void)state;
    assert_int_equal(read.cluster.job_count, 4);
    assert_string_equal(jobs[0].name, "7");
    assert_string_equal(jobs[0].queue, "phys");
    assert_string_equal(jobs[0].said, "Priority: jobs with a higher priority wait for the same nodes");
    assert_int_equal(jobs[0].submitted_s, 1795996801);
    assert_int_equal(jobs[0].started_s, 0);
    assert_int_equal(jobs[0].duration_s, 26 * 3600);
    assert_int_equal(jobs[0].tier, CLUSTER_RACK);
    assert_false(jobs[0].tier_required);
    assert_null(jobs[0].places);
    assert_true(jobs[0].preemptible);
    assert_false(jobs[1].preemptible || jobs[2].preemptible);
    assert_string_equal(read.jobs[0].user, "al");
    assert_string_equal(read.jobs[0].licenses, "matlab:2");
    assert_string_equal(read.jobs[0].dependency, "afterok:3(unfulfilled)");
    assert_int_equal(read.jobs[0].expected_s, 1796004000);
    assert_string_equal(jobs[1].name, "8_[4-9%2]");
    assert_null(jobs[1].queue);
    assert_int_equal(jobs[1].tier, CLUSTER_TIER_END);
    assert_string_equal(jobs[1].said, "NewInThisRelease");
    assert_string_equal(jobs[2].name, "8_3");
    assert_string_equal(jobs[3].name, "11+1");
    assert_int_equal(jobs[1].priority, INT32_MAX);
    assert_int_equal(jobs[0].priority, INT32_MAX - 2);
    assert_true(jobs[2].priority < jobs[3].priority && jobs[3].priority < jobs[0].priority);
    assert_int_equal(slurm_cluster_find_job(&read, "8_3"), 2);
    assert_int_equal(slurm_cluster_find_job(&read, "10"), 2);
    assert_int_equal(slurm_cluster_find_job(&read, "13"), 4);
}

/* A name that a user chose is not believed to be another's account. */
static void test_a_job_that_lies(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    const SlurmCluster read = read_fine(
        FOUR,
        "JobId=7 JobName=x Account=free NumNodes=1 Nodes=g1 GRES=gpu:8 JobState=RUNNING UserId=al(7) Account=phys "
        "JobState=RUNNING NodeList=g2 NumNodes=1 NumCPUs=1\n"
        "JobId=8 JobName=x Account=free UserId=al(7) Account=phys JobState=PENDING NumNodes=1\n",
        NULL, &arena);

    (void)state;
    assert_int_equal(read.cluster.job_count, 1);
    assert_string_equal(read.cluster.jobs[0].name, "8");
    assert_null(read.cluster.jobs[0].queue);
}

/* --- which nodes a job may use ------------------------------------------------------------------------------------ */

static const struct {
    const char *rest, *allowed; /* a digit per node of SIX */
    const char *text;           /* of the first rule */
} rules[] = {
    {"", "111111", NULL},
    {"Partition=gpu", "111110", "partition gpu"},
    {"Partition=cpu,all", "111101", "partition cpu,all"},
    {"Features=ib&nvme", "111100", "constraint ib&nvme"},
    {"Features=ib|mig", "111110", "constraint ib|mig"},
    {"Features=nvme|mig&mig", "000010", "constraint nvme|mig&mig"}, /* from left to right, measured */
    {"Features=mig&mig|ib", "111110", NULL},
    {"Features=(ib&nvme)|mig", "111110", NULL},
    {"Features=ib&(nvme|mig)", "111100", NULL},
    {"Features=[ib*2&mig*1]", "000000", NULL},
    {"Features=ib*2", "111100", NULL},
    {"Features=mi", "000000", NULL},
    {"Features=((((((((((ib))))))))))", "000000", NULL},
    {"ReqNodeList=g[2-3] NumNodes=2-2", "011000", "nodelist g[2-3]"},
    {"ReqNodeList=g2 NumNodes=2-2", "111111", NULL}, /* the other one may be any */
    {"ExcNodeList=g[2-3],gone", "100111", "exclude g[2-3],gone"},
    {"Partition=gpu Features=ib ExcNodeList=g1", "011100", "partition gpu"},
};

static void test_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        CLEANUP(arena_done) Arena arena = {0};
        char text[512], allowed[7] = "111111";

        snprintf(text, sizeof text, JOB "%s\n", rules[i].rest);
        const SlurmCluster read = read_fine(SIX, text, NULL, &arena);
        const ClusterRequest *r = &read.cluster.jobs[0].roles[0].request;
        for (size_t k = 0; k < r->rule_count; k++)
            for (size_t n = 0; n < 6; n++)
                if (!(r->rules[k].nodes[0] >> n & 1))
                    allowed[n] = '0';
        assert_string_equal(allowed, rules[i].allowed);
        if (rules[i].text)
            assert_string_equal(r->rules[0].text, rules[i].text);
    }
}

static void test_equal_rules_are_one(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    const SlurmCluster read = read_fine(
        FOUR, JOB "Partition=gpu Features=ib\n" JOB "Partition=gpu Features=ib\n" JOB "Partition=gpu\n", NULL, &arena);
    const ClusterRule *first = read.cluster.jobs[0].roles[0].request.rules;

    (void)state;
    assert_ptr_equal(read.cluster.jobs[1].roles[0].request.rules, first);
    assert_ptr_not_equal(read.cluster.jobs[2].roles[0].request.rules, first);
    assert_ptr_equal(read.cluster.jobs[2].roles[0].request.rules[0].nodes, first[0].nodes);
}

/* --- jobs that run ------------------------------------------------------------------------------------------------ */

#define RUNS "JobId=7 JobName=x UserId=al(7) Priority=5 JobState=RUNNING StartTime=2026-11-30T00:00:00 "

static const struct {
    const char *rest;
    size_t count, roles;
    ClusterPlace places[4];
    Share shares[2]; /* nodes is not compared */
} running[] = {
    /* with -d, 22.05 */
    {"NodeList=g[1-2] NumNodes=2 NumCPUs=2 TRES=cpu=2,mem=2000M,node=2 JOB_GRES=gpu:h100:16   Nodes=g[1-2] CPU_IDs=0 "
     "Mem=1000 GRES=gpu:h100:8(IDX:0-7) MinCPUsNode=1 TresPerNode=gres:gpu:8",
     2,
     1,
     {{0, 255, 0, 0}, {1, 255, 0, 0}},
     {{0, 8, 1, 1000}}},
    {"NodeList=g[1-2] NumNodes=2 NumCPUs=5 JOB_GRES=gpu:h100:3 Nodes=g1 CPU_IDs=0-3 Mem=1000 GRES=gpu:h100:2(IDX:0,3) "
     "Nodes=g2 CPU_IDs=7 Mem=500 GRES=gpu:h100:1(IDX:5) MinCPUsNode=1",
     2,
     2,
     {{0, 9, 0, 0}, {1, 32, 1, 0}},
     {{0, 2, 4, 1000}, {0, 1, 1, 500}}},
    {"NodeList=login1 NumNodes=1 NumCPUs=2 Nodes=login1 CPU_IDs=0-1 Mem=0 GRES= MinCPUsNode=1",
     1,
     1,
     {{5, 0, 0, 0}},
     {{0, 0, 2, 0}}},
    /* fewer numbers than GPUs, and one that the node has not */
    {"NodeList=g1 NumNodes=1 Nodes=g1 CPU_IDs=0 Mem=0 GRES=gpu:h100:2(IDX:0) X=1",
     1,
     1,
     {{0, 0, 0, 0}},
     {{0, 2, 1, 0}}},
    {"NodeList=g1 NumNodes=1 Nodes=g1 CPU_IDs=0 Mem=0 GRES=gpu:h100:2(IDX:0,9) X=1",
     1,
     1,
     {{0, 0, 0, 0}},
     {{0, 2, 1, 0}}},
    /* another type than the node counts: which ones is not known */
    {"NodeList=mig1 NumNodes=1 NumCPUs=1 Nodes=mig1 CPU_IDs=0 Mem=0 GRES=gpu:a100_3g.20gb:1(IDX:0) X=1",
     1,
     1,
     {{4, 0, 0, 0}},
     {{0, 1, 1, 0}}},
    /* without -d, 24.05 */
    {"NodeList=g[3-4] NumNodes=2 NumCPUs=8 ReqTRES=cpu=8,mem=8G,node=2,gres/gpu=4 "
     "AllocTRES=cpu=8,mem=8G,node=2,billing=8,gres/gpu=4,gres/gpu:h100=4 TresPerNode=gres/gpu:2",
     2,
     1,
     {{2, 0, 0, 0}, {3, 0, 0, 0}},
     {{0, 2, 4, 4096}}},
    {"NodeList=g[3-4] NumNodes=2 NumCPUs=8 AllocTRES=cpu=8,mem=8G,node=2,gres/gpu=4",
     2,
     1,
     {{2, 0, 0, 0}, {3, 0, 0, 0}},
     {{0, 2, 4, 4096}}},
    {"NodeList=(null) NumNodes=1 NumCPUs=8", 0, 1, {{0}}, {{0, 0, 8, 0}}},
};

static void test_running(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(running); i++) {
        CLEANUP(arena_done) Arena arena = {0};
        char text[512];

        snprintf(text, sizeof text, RUNS "%s\n", running[i].rest);
        const SlurmCluster read = read_fine(SIX, text, NULL, &arena);
        const ClusterJob *job = &read.cluster.jobs[0];
        assert_int_equal(job->place_count, running[i].count);
        assert_int_equal(job->role_count, running[i].roles);
        for (size_t k = 0; k < job->place_count; k++)
            assert_memory_equal(&job->places[k], &running[i].places[k], sizeof *job->places);
        for (size_t k = 0; k < job->role_count; k++) {
            assert_int_equal(job->roles[k].request.gpu_count, running[i].shares[k].gpus);
            assert_int_equal(job->roles[k].request.cpu_milli, running[i].shares[k].cpus * 1000);
            assert_int_equal(job->roles[k].request.memory_mib, running[i].shares[k].mib);
        }
        assert_null(job->said);
    }
}

static void test_times_of_running_jobs(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    const SlurmCluster read = read_fine(FOUR,
                                        RUNS "TimeLimit=01:00:00 EndTime=2026-11-30T02:00:00 NodeList=g1\n" RUNS
                                             "TimeLimit=UNLIMITED EndTime=Unknown NodeList=g1\n",
                                        NULL, &arena);

    (void)state;
    assert_int_equal(read.cluster.jobs[0].started_s, 1795996800);
    assert_int_equal(read.cluster.jobs[0].duration_s, 7200);
    assert_int_equal(read.cluster.jobs[1].duration_s, 0);
}

static void test_notes(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    const char busy[] = "NodeName=g1 CPUTot=8 CPUAlloc=4\nNodeName=g2 CPUTot=8 CPUAlloc=4\n";
    SlurmCluster read = read_fine(busy, RUNS "NodeList=g[1,9] NumNodes=2 NumCPUs=8\n", NULL, &arena);

    (void)state;
    assert_true(has_note(&read, "1 nodes that are not listed"));
    assert_true(has_note(&read, "1 nodes have more CPUs allocated"));
    read = read_fine(busy, RUNS "NodeList=g[1-2] NumNodes=2 NumCPUs=8\n", NULL, &arena);
    assert_int_equal(read.note_count, 0);
}

static void test_many_notes(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP(str_done) Str text = str_limited(4096);

    (void)state;
    for (int i = 0; i < SLURM_NOTES_MAX + 3; i++)
        str_addf(&text, "NodeName=n%d Gres=gpu:a:1,gpu:b:1\n", i);
    const SlurmCluster read = read_fine(text.text, NULL, NULL, &arena);
    assert_int_equal(read.note_count, SLURM_NOTES_MAX);
    assert_int_equal(read.notes_left_out, 3);
}

static void test_states(void **state)
{
    static const struct {
        const char *word;
        int jobs; /* 0: passed over, 1: waits, 2: runs */
    } states[] = {{"PENDING", 1},   {"REQUEUE_HOLD", 1}, {"SPECIAL_EXIT", 1}, {"RUNNING", 2},   {"COMPLETING", 2},
                  {"SUSPENDED", 2}, {"COMPLETED", 0},    {"CANCELLED", 0},    {"NODE_FAIL", 0}, {"(null)", 0}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        CLEANUP(arena_done) Arena arena = {0};
        char text[128];

        snprintf(text, sizeof text, "JobId=7 JobState=%s NumNodes=1 NodeList=g1\n", states[i].word);
        const SlurmCluster read = read_fine(FOUR, text, NULL, &arena);
        assert_int_equal(read.cluster.job_count, states[i].jobs > 0);
        if (states[i].jobs)
            assert_int_equal(read.cluster.jobs[0].places != NULL, states[i].jobs == 2);
    }
}

static void test_empty_jobs(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};

    (void)state;
    assert_int_equal(read_fine(FOUR, "", "", &arena).cluster.job_count, 0);
    assert_int_equal(read_fine(FOUR, "No jobs in the system\n", NULL, &arena).cluster.job_count, 0);
}

/* Without --oneliner a record goes on on lines that begin with a blank. */
static void test_several_lines(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    const SlurmCluster read =
        read_fine("NodeName=g1 Arch=x86_64\n   CPUTot=8 State=DOWN\n   Reason=a b [r@2026]\n   X=1\n \n"
                  "NodeName=g2\n   CPUTot=4 \n\n",
                  "JobId=1 JobName=x\n   JobState=PENDING NumNodes=3\n\nJobId=2 JobName=y\n"
                  "   JobState=PENDING NumNodes=4\n\n",
                  NULL, &arena);

    (void)state;
    assert_int_equal(read.cluster.node_count, 2);
    assert_string_equal(read.nodes[0].reason, "a b [r@2026]");
    assert_int_equal(read.cluster.nodes[1].cpu_milli, 4000);
    assert_int_equal(read.cluster.job_count, 2);
    assert_int_equal(read.cluster.jobs[1].roles[0].min, 4);
}

/* --- topology ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *text, *domains; /* nvlink, rack, block of each node of FOUR */
    const char *names;          /* of all tiers */
} topologies[] = {
    {"SwitchName=s1 Level=0 LinkSpeed=1 Nodes=g[1-2]\nSwitchName=s2 Level=0 LinkSpeed=1 Nodes=g[3-4]\n"
     "SwitchName=top Level=1 LinkSpeed=1 Nodes=g[1-4] Switches=s[1-2]\n",
     "011 011 021 021", "s1 s2 top"},
    {"# a topology.conf\nswitchname=s1 nodes=g1 # the first\nSwitchName=s2 Nodes=g2\nSwitchName=s3 Nodes=g3\n"
     "SwitchName=b1 Switches=s[1-2]\nSwitchName=b2 Switches=s3\nSwitchName=root Switches=b[1-2]\n",
     "011 021 032 000", "s1 s2 s3 b1 b2"},
    {"BlockName=n1 BlockIndex=0 Nodes=g[1-2,9] BlockSize=2\nBlockName=n2 BlockIndex=1 Nodes=g[3-4] BlockSize=2\n"
     "BlockSizes=2\n",
     "100 100 200 200", "n1 n2"},
    {"SwitchName=s1 Switches=s1,none\n", "000 000 000 000", ""},
    {"", "000 000 000 000", ""},
};

static void test_topologies(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(topologies); i++) {
        CLEANUP(arena_done) Arena arena = {0};
        CLEANUP(str_done) Str domains = str_limited(64), names = str_limited(64);
        const SlurmCluster read = read_fine(FOUR, NULL, topologies[i].text, &arena);

        for (size_t n = 0; n < 4; n++) {
            str_add(&domains, n ? " " : "");
            for (size_t tier = 0; tier < CLUSTER_TIER_END; tier++)
                str_addf(&domains, "%u", read.cluster.nodes[n].domain[tier]);
        }
        for (size_t tier = 0; tier < CLUSTER_TIER_END; tier++)
            for (size_t k = 0; k < read.cluster.domain_counts[tier]; k++)
                str_addf(&names, "%s%s", names.len ? " " : "", read.cluster.domains[tier][k]);
        assert_string_equal(domains.text, topologies[i].domains);
        assert_string_equal(names.len ? names.text : "", topologies[i].names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_long_lines),    cmocka_unit_test(test_asked),
        cmocka_unit_test(test_what_a_job_is), cmocka_unit_test(test_a_job_that_lies),
        cmocka_unit_test(test_rules),         cmocka_unit_test(test_equal_rules_are_one),
        cmocka_unit_test(test_running),       cmocka_unit_test(test_times_of_running_jobs),
        cmocka_unit_test(test_notes),         cmocka_unit_test(test_many_notes),
        cmocka_unit_test(test_states),        cmocka_unit_test(test_empty_jobs),
        cmocka_unit_test(test_several_lines), cmocka_unit_test(test_topologies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
