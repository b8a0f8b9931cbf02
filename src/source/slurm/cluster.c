/* SPDX-License-Identifier: Apache-2.0 */
#include "source/slurm/cluster.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/number.h"
#include "base/str.h"
#include "base/vec.h"
#include "source/slurm/hostlist.h"
#include "source/slurm/places.h"
#include "source/slurm/reason.h"

enum {
    NODES_MAX = 1 << 17,
    JOBS_MAX = 1 << 20,
    PLACES_MAX = 1 << 22,
    EXPANDED_MAX = 1 << 26,
    RULES_MAX_BYTES = 256 << 20,
    DEPTH_MAX = 8,
};

/* What is read, and how far. */
typedef struct Reader {
    SlurmRecords text; /* that is read now */
    Arena *arena;
    Err *err;
    Map numbers; /* of nodes by name: an address in `nodes_base` */
    VEC(ClusterNode) nodes;
    VEC(SlurmNode) node_facts;
    VEC(ClusterJob) jobs;
    VEC(SlurmJob) job_facts;
    VEC(ClusterPlace) places; /* of the job that is read now */
    VEC(const char *) models;
    Map rules, rule_lists; /* bits by a rule's text, lists by the texts of all */
    size_t rule_bytes, place_count, expanded;
    uint8_t largest; /* GPUs of a node */
    SlurmCluster out;
} Reader;

/* --- records and their fields ------------------------------------------------------------------------------------- */

static void add_note(Reader *r, const char *text)
{
    if (r->out.note_count == SLURM_NOTES_MAX) {
        r->out.notes_left_out++;
        return;
    }
    r->out.notes[r->out.note_count++] = text;
}

/* What a terminal would obey becomes '?'. */
static const char *keep_word(const Reader *r, SlurmWord word)
{
    char *text = arena_strndup(r->arena, word.at ? word.at : "", word.len);

    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    return text;
}

static int refuse_value(const Reader *r, const char *key, SlurmWord value, const char *what)
{
    return err_set(r->err, -EINVAL, "%s:%lu: %s=%.*s: %s", r->text.name, r->text.line, key,
                   (int)number_min_u64(value.len, 60), value.at, what);
}

/* A number, 0 where there is none; "4-8" is 4. */
static int read_number(const Reader *r, const char *key, SlurmWord value, uint32_t *ret)
{
    const char *dash = value.at ? memchr(value.at, '-', value.len) : NULL;
    uint64_t number = 0;

    if (value.at &&
        number_parsen_u64(value.at, dash ? (size_t)(dash - value.at) : value.len, 0, UINT32_MAX, &number, NULL) < 0)
        return refuse_value(r, key, value, "no number");
    *ret = (uint32_t)number;
    return 0;
}

static uint32_t cap_u32(double value)
{
    return value >= UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* A core of Slurm's is a CPU of ours, whether it is a core or a thread. */
static uint32_t make_cpu_milli(uint64_t cpus)
{
    return (uint32_t)number_min_u64(cpus * 1000, UINT32_MAX);
}

static bool is_one_of(SlurmWord word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slurm_word_is(word, words[i]))
            return true;
    return false;
}

/* --- lists of nodes ----------------------------------------------------------------------------------------------- */

/* A call for each node of a list that the cluster has. */
typedef struct Walk {
    Reader *r;
    void (*each)(struct Walk *walk, uint32_t node);
    void *self;
    size_t known, unknown;
} Walk;

static void walk_name(void *at, const char *name, size_t len)
{
    Walk *walk = at;
    const void *found = map_getn(&walk->r->numbers, name, len);

    if (!found) {
        walk->unknown++;
        return;
    }
    walk->known++;
    if (walk->each)
        walk->each(walk, (uint32_t)(uintptr_t)found - 1);
}

static int walk_nodes(Walk *walk, const char *key, SlurmWord list)
{
    Reader *r = walk->r;

    if (!list.at)
        return 0;
    if (hostlist_expand(list.at, list.len, walk_name, walk, r->err) < 0)
        return err_add(r->err, "%s:%lu: %s", r->text.name, r->text.line, key);
    r->expanded += walk->known + walk->unknown;
    if (r->expanded > EXPANDED_MAX)
        return err_set(r->err, -E2BIG, "%s:%lu: its node lists have too many names", r->text.name, r->text.line);
    return 0;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

#define NODE_KEY_TABLE(KEY)                                                                                            \
    KEY(NODE_NAME, "NodeName")                                                                                         \
    KEY(NODE_CPUS, "CPUTot")                                                                                           \
    KEY(NODE_CPUS_USABLE, "CPUEfctv")                                                                                  \
    KEY(NODE_CPUS_ALLOCATED, "CPUAlloc")                                                                               \
    KEY(NODE_MEMORY, "RealMemory")                                                                                     \
    KEY(NODE_MEMORY_KEPT, "MemSpecLimit")                                                                              \
    KEY(NODE_GRES, "Gres")                                                                                             \
    KEY(NODE_TRES, "CfgTRES")                                                                                          \
    KEY(NODE_STATE, "State")                                                                                           \
    KEY(NODE_PARTITIONS, "Partitions")                                                                                 \
    KEY(NODE_FEATURES, "ActiveFeatures")                                                                               \
    KEY(NODE_WEIGHT, "Weight")                                                                                         \
    KEY(NODE_REASON, "Reason")

enum NodeKey { NODE_KEY_TABLE(SLURM_KEY_ID) NODE_KEYS };
static const char *const node_keys[NODE_KEYS] = {NODE_KEY_TABLE(SLURM_KEY_TEXT)};

/* States in which nothing new starts on a node. */
static const char *const closed_states[] = {
    "DOWN",        "DRAIN",   "DRAINED", "DRAINING",   "ERROR",          "FAIL",     "FAILING", "FUTURE",
    "INVALID_REG", "BLOCKED", "MAINT",   "NO_RESPOND", "NOT_RESPONDING", "RESERVED", "UNKNOWN",
};

/* "IDLE+DRAIN", "DOWN*": a '*' does not respond, a '$' is in maintenance. */
static bool is_closed(SlurmWord state)
{
    SlurmWord flag;

    while (slurm_word_next(&state, '+', &flag)) {
        for (; flag.len > 0 && strchr("*$~#!%@^-", flag.at[flag.len - 1]); flag.len--)
            if (strchr("*$", flag.at[flag.len - 1]))
                return true;
        if (is_one_of(flag, closed_states, ARRAY_LEN(closed_states)))
            return true;
    }
    return false;
}

/* The number of a GPU type; a new one where there is room, else -1. */
static int find_model(Reader *r, SlurmWord type)
{
    if (!type.at)
        type = (SlurmWord){"gpu", 3};
    for (size_t i = 0; i < r->models.len; i++)
        if (slurm_word_is(type, r->models.at[i]))
            return (int)i;
    if (r->models.len == CLUSTER_MODELS_MAX)
        return -1;
    vec_push(&r->models, keep_word(r, type));
    return (int)r->models.len - 1;
}

static int read_node_gpus(Reader *r, SlurmWord gres, ClusterNode *node)
{
    const SlurmGpus gpus = slurm_read_gpus(gres);
    const uint32_t count = gpus.kinds ? gpus.of_type : gpus.count;
    const int model = count ? find_model(r, gpus.type) : 0;

    if (model < 0)
        return err_set(r->err, -E2BIG, "%s:%lu: more than %d types of GPU", r->text.name, r->text.line,
                       CLUSTER_MODELS_MAX);
    node->model = (uint8_t)model;
    node->gpu_count = (uint8_t)number_min_u64(count, CLUSTER_GPUS_MAX);
    if (gpus.kinds > 1)
        add_note(r, arena_printf(r->arena, "node %s has %u types of GPU; only %s (%u) is counted", node->name,
                                 gpus.kinds, r->models.at[model], count));
    if (count > CLUSTER_GPUS_MAX)
        add_note(r, arena_printf(r->arena, "node %s has %u GPUs; %d are counted", node->name, count, CLUSTER_GPUS_MAX));
    if (node->gpu_count > r->largest)
        r->largest = node->gpu_count;
    return 0;
}

/* The text behind Reason=, up to the "[user@time]" that ends it, else to the end of the line. */
static SlurmWord find_reason(SlurmWord record, SlurmWord value)
{
    if (!value.at)
        return value;
    value.len = (size_t)(record.at + record.len - value.at);
    const char *feed = memchr(value.at, '\n', value.len);
    value.len = feed ? (size_t)(feed - value.at) : value.len;
    for (size_t i = 0, open = 0, user = 0; i < value.len; i++) {
        if (value.at[i] == '[')
            open = i + 1, user = 0;
        user = user || (open && value.at[i] == '@');
        if (value.at[i] == ']' && user)
            value.len = i + 1;
    }
    return value;
}

static int read_node(Reader *r, SlurmWord record)
{
    SlurmWord f[NODE_KEYS];
    ClusterNode node = {0};
    SlurmNode facts = {0};
    uint32_t cpus, usable, kept;

    slurm_record_fields(record, node_keys, NODE_KEYS, false, f);
    if (!f[NODE_NAME].at)
        return 0;
    node.name = keep_word(r, f[NODE_NAME]);
    if (map_get(&r->numbers, node.name))
        return err_set(r->err, -EINVAL, "%s:%lu: node %s comes twice", r->text.name, r->text.line, node.name);
    TRY(read_number(r, node_keys[NODE_CPUS], f[NODE_CPUS], &cpus));
    TRY(read_number(r, node_keys[NODE_CPUS_USABLE], f[NODE_CPUS_USABLE], &usable));
    TRY(read_number(r, node_keys[NODE_CPUS_ALLOCATED], f[NODE_CPUS_ALLOCATED], &facts.cpus_allocated));
    TRY(read_number(r, node_keys[NODE_MEMORY], f[NODE_MEMORY], &node.memory_mib));
    TRY(read_number(r, node_keys[NODE_MEMORY_KEPT], f[NODE_MEMORY_KEPT], &kept));
    TRY(read_number(r, node_keys[NODE_WEIGHT], f[NODE_WEIGHT], &facts.weight));
    node.cpu_milli = make_cpu_milli(usable ? usable : cpus);
    node.memory_mib -= (uint32_t)number_min_u64(kept, node.memory_mib);
    node.closed = is_closed(f[NODE_STATE]);
    TRY(read_node_gpus(r, f[NODE_GRES].at ? f[NODE_GRES] : f[NODE_TRES], &node));
    facts.state = keep_word(r, f[NODE_STATE]);
    facts.partitions = keep_word(r, f[NODE_PARTITIONS]);
    facts.features = keep_word(r, f[NODE_FEATURES]);
    facts.reason = keep_word(r, find_reason(record, f[NODE_REASON]));
    if (r->nodes.len == NODES_MAX)
        return err_set(r->err, -E2BIG, "%s:%lu: more than %d nodes", r->text.name, r->text.line, NODES_MAX);
    vec_push(&r->nodes, node);
    vec_push(&r->node_facts, facts);
    map_put(&r->numbers, node.name, (void *)(uintptr_t)r->nodes.len);
    return 0;
}

static int read_nodes(Reader *r, const SlurmText *text)
{
    SlurmWord record;
    int rc;

    r->text = slurm_records_of(text);
    while ((rc = slurm_records_next(&r->text, &record, r->err)) > 0)
        TRY(read_node(r, record));
    if (rc == 0 && r->nodes.len == 0)
        return err_set(r->err, -EINVAL, "%s: no line with NodeName=; 'scontrol show node --oneliner' prints such",
                       text->name);
    return rc;
}

/* --- which nodes a job may use ------------------------------------------------------------------------------------ */

static bool has_item(const char *list, SlurmWord name)
{
    SlurmWord rest = {list, strlen(list)}, item;

    while (slurm_word_next(&rest, ',', &item))
        if (item.len == name.len && memcmp(item.at, name.at, name.len) == 0)
            return true;
    return false;
}

static bool match_features(SlurmWord *expr, const char *features, int depth);

/* A name with its "*count", or what brackets hold together. */
static bool match_feature(SlurmWord *expr, const char *features, int depth)
{
    size_t len = 0;
    bool fits;

    if (expr->len > 0 && (*expr->at == '(' || *expr->at == '[')) {
        *expr = (SlurmWord){expr->at + 1, expr->len - 1};
        fits = match_features(expr, features, depth + 1);
        len = expr->len > 0;
    } else {
        while (len < expr->len && !strchr("&|()[]*", expr->at[len]))
            len++;
        fits = has_item(features, (SlurmWord){expr->at, len});
    }
    while (len < expr->len && !strchr("&|)]", expr->at[len]))
        len++;
    *expr = (SlurmWord){expr->at + len, expr->len - len};
    return fits;
}

/* "a&b|c", from left to right: Slurm has no precedence here. Up to a closing bracket. */
static bool match_features(SlurmWord *expr, const char *features, int depth)
{
    if (depth > DEPTH_MAX)
        return false;
    bool fits = match_feature(expr, features, depth);
    while (expr->len > 0 && strchr("&|", *expr->at)) {
        const bool both = *expr->at == '&';

        *expr = (SlurmWord){expr->at + 1, expr->len - 1};
        const bool more = match_feature(expr, features, depth);
        fits = both ? fits && more : fits || more;
    }
    return fits;
}

static void mark_node(Walk *walk, uint32_t node)
{
    uint64_t *bits = walk->self;

    bits[node / 64] |= UINT64_C(1) << node % 64;
}

static int fill_partition(Reader *r, SlurmWord value, uint64_t *bits)
{
    SlurmWord name;

    while (slurm_word_next(&value, ',', &name))
        for (size_t i = 0; i < r->nodes.len; i++)
            if (has_item(r->node_facts.at[i].partitions, name))
                bits[i / 64] |= UINT64_C(1) << i % 64;
    return 0;
}

static int fill_features(Reader *r, SlurmWord value, uint64_t *bits)
{
    for (size_t i = 0; i < r->nodes.len; i++) {
        SlurmWord expr = value;

        if (match_features(&expr, r->node_facts.at[i].features, 0))
            bits[i / 64] |= UINT64_C(1) << i % 64;
    }
    return 0;
}

static int fill_required(Reader *r, SlurmWord value, uint64_t *bits)
{
    return walk_nodes(&(Walk){.r = r, .each = mark_node, .self = bits}, "ReqNodeList", value);
}

static int fill_excluded(Reader *r, SlurmWord value, uint64_t *bits)
{
    TRY(walk_nodes(&(Walk){.r = r, .each = mark_node, .self = bits}, "ExcNodeList", value));
    for (size_t i = 0; i < r->nodes.len; i++)
        bits[i / 64] ^= UINT64_C(1) << i % 64;
    return 0;
}

#define JOB_KEY_TABLE(KEY)                                                                                             \
    KEY(JOB_ID, "JobId")                                                                                               \
    KEY(JOB_ARRAY, "ArrayJobId")                                                                                       \
    KEY(JOB_TASK, "ArrayTaskId")                                                                                       \
    KEY(JOB_HET, "HetJobId")                                                                                           \
    KEY(JOB_HET_OFFSET, "HetJobOffset")                                                                                \
    KEY(JOB_USER, "UserId")                                                                                            \
    KEY(JOB_ACCOUNT, "Account")                                                                                        \
    KEY(JOB_PARTITION, "Partition")                                                                                    \
    KEY(JOB_QOS, "QOS")                                                                                                \
    KEY(JOB_STATE, "JobState")                                                                                         \
    KEY(JOB_REASON, "Reason")                                                                                          \
    KEY(JOB_PRIORITY, "Priority")                                                                                      \
    KEY(JOB_NODES, "NumNodes")                                                                                         \
    KEY(JOB_CPUS, "NumCPUs")                                                                                           \
    KEY(JOB_TASKS, "NumTasks")                                                                                         \
    KEY(JOB_TRES, "TRES")                                                                                              \
    KEY(JOB_REQ_TRES, "ReqTRES")                                                                                       \
    KEY(JOB_ALLOC_TRES, "AllocTRES")                                                                                   \
    KEY(JOB_PER_NODE, "TresPerNode")                                                                                   \
    KEY(JOB_PER_JOB, "TresPerJob")                                                                                     \
    KEY(JOB_PER_TASK, "TresPerTask")                                                                                   \
    KEY(JOB_FEATURES, "Features")                                                                                      \
    KEY(JOB_REQUIRED, "ReqNodeList")                                                                                   \
    KEY(JOB_EXCLUDED, "ExcNodeList")                                                                                   \
    KEY(JOB_LIST, "NodeList")                                                                                          \
    KEY(JOB_REQUEUE, "Requeue")                                                                                        \
    KEY(JOB_LIMIT, "TimeLimit")                                                                                        \
    KEY(JOB_SUBMITTED, "SubmitTime")                                                                                   \
    KEY(JOB_STARTED, "StartTime")                                                                                      \
    KEY(JOB_ENDS, "EndTime")                                                                                           \
    KEY(JOB_DEPENDENCY, "Dependency")                                                                                  \
    KEY(JOB_LICENSES, "Licenses")                                                                                      \
    KEY(JOB_SWITCHES, "Switches")

enum JobKey { JOB_KEY_TABLE(SLURM_KEY_ID) JOB_KEYS };
static const char *const job_keys[JOB_KEYS] = {JOB_KEY_TABLE(SLURM_KEY_TEXT)};
_Static_assert((int)JOB_KEYS <= SLURM_KEYS_MAX && (int)NODE_KEYS <= SLURM_KEYS_MAX, "slurm_record_fields has room");

static const struct RuleKind {
    enum JobKey key;
    const char *text;
    int (*fill)(Reader *r, SlurmWord value, uint64_t *bits);
} rule_kinds[] = {
    {JOB_PARTITION, "partition", fill_partition},
    {JOB_FEATURES, "constraint", fill_features},
    {JOB_REQUIRED, "nodelist", fill_required},
    {JOB_EXCLUDED, "exclude", fill_excluded},
};
_Static_assert(ARRAY_LEN(rule_kinds) <= CLUSTER_RULES_MAX, "a request has room for all rules");

/* Equal rules share their bits. */
static int find_rule(Reader *r, const struct RuleKind *kind, SlurmWord value, ClusterRule *ret)
{
    const size_t bytes = (r->nodes.len + 63) / 64 * sizeof(uint64_t);
    const char *text = arena_printf(r->arena, "%s %s", kind->text, keep_word(r, value));
    uint64_t *bits = map_get(&r->rules, text);

    if (!bits) {
        if ((r->rule_bytes += bytes) > RULES_MAX_BYTES)
            return err_set(r->err, -E2BIG, "%s:%lu: too many different rules of jobs", r->text.name, r->text.line);
        bits = arena_alloc(r->arena, bytes);
        TRY(kind->fill(r, value, bits));
        map_put(&r->rules, text, bits);
    }
    *ret = (ClusterRule){bits, text};
    return 0;
}

/* Nodes that a job names are all of its nodes only where it asks for no more. */
static int drop_partial_nodelist(Reader *r, SlurmWord *f, uint32_t nodes)
{
    Walk walk = {.r = r};

    TRY(walk_nodes(&walk, job_keys[JOB_REQUIRED], f[JOB_REQUIRED]));
    if (walk.known + walk.unknown >= nodes)
        return 0;
    add_note(r, arena_printf(r->arena, "job %s names %s but wants more nodes: its list is not counted",
                             keep_word(r, f[JOB_ID]), keep_word(r, f[JOB_REQUIRED])));
    f[JOB_REQUIRED] = (SlurmWord){0};
    return 0;
}

/* Equal lists of rules are one. */
static int find_rules(Reader *r, SlurmWord *f, uint32_t nodes, ClusterRequest *request)
{
    CLEANUP(str_done) Str key = str_limited(4 * SLURM_RECORD_MAX);
    ClusterRule rules[CLUSTER_RULES_MAX];
    uint8_t count = 0;

    if (f[JOB_REQUIRED].at)
        TRY(drop_partial_nodelist(r, f, nodes));
    for (size_t i = 0; i < ARRAY_LEN(rule_kinds); i++)
        if (f[rule_kinds[i].key].at) {
            TRY(find_rule(r, &rule_kinds[i], f[rule_kinds[i].key], &rules[count]));
            str_addf(&key, "%s\n", rules[count++].text);
        }
    if (count == 0)
        return 0;
    request->rule_count = count;
    request->rules = map_get(&r->rule_lists, key.text);
    if (!request->rules) {
        request->rules = arena_memdup(r->arena, rules, count * sizeof *rules);
        map_put(&r->rule_lists, key.text, (void *)(uintptr_t)request->rules);
    }
    return 0;
}

/* --- what a job asks for ------------------------------------------------------------------------------------------ */

/* GPUs of a whole job or of each node. */
typedef struct Asked {
    SlurmGpus gpus;
    bool per_node;
    uint32_t nodes, cpus, tasks;
    double mib; /* of a node */
} Asked;

static const struct {
    enum JobKey key;
    bool per_node, per_task;
} asked_in[] = {
    {.key = JOB_PER_NODE, .per_node = true},
    {.key = JOB_PER_JOB},
    {.key = JOB_PER_TASK, .per_task = true},
    {.key = JOB_REQ_TRES},
    {.key = JOB_TRES},
    {.key = JOB_ALLOC_TRES},
};

static void read_gpus(const SlurmWord *f, Asked *a)
{
    for (size_t i = 0; i < ARRAY_LEN(asked_in) && !a->gpus.count; i++) {
        a->gpus = slurm_read_gpus(f[asked_in[i].key]);
        a->per_node = asked_in[i].per_node;
        if (asked_in[i].per_task)
            a->gpus.count = (uint32_t)number_min_u64((uint64_t)a->gpus.count * (a->tasks ? a->tasks : 1), UINT32_MAX);
    }
}

/* Slurm tells the nodes that are needed at least: where the GPUs do not fit on these, there have to be more. */
static void spread_nodes(const Reader *r, const SlurmWord *f, Asked *a)
{
    const bool fixed = f[JOB_NODES].at && memchr(f[JOB_NODES].at, '-', f[JOB_NODES].len);

    if (!fixed && !a->per_node && r->largest)
        a->nodes = (uint32_t)number_max_u64(a->nodes, ((uint64_t)a->gpus.count + r->largest - 1) / r->largest);
}

static int read_asked(Reader *r, const SlurmWord *f, Asked *a)
{
    const SlurmWord tres = f[JOB_ALLOC_TRES].at ? f[JOB_ALLOC_TRES] : f[JOB_TRES].at ? f[JOB_TRES] : f[JOB_REQ_TRES];
    uint32_t nodes;

    *a = (Asked){0};
    TRY(read_number(r, job_keys[JOB_NODES], f[JOB_NODES], &a->nodes));
    TRY(read_number(r, job_keys[JOB_CPUS], f[JOB_CPUS], &a->cpus));
    TRY(read_number(r, job_keys[JOB_TASKS], f[JOB_TASKS], &a->tasks));
    TRY(read_number(r, "node", slurm_find_tres(tres, "node"), &nodes));
    a->nodes = a->nodes ? a->nodes : 1;
    if (slurm_read_mib(slurm_find_tres(tres, "mem"), &a->mib))
        a->mib /= nodes ? nodes : a->nodes;
    read_gpus(f, a);
    spread_nodes(r, f, a);
    return 0;
}

static ClusterRequest make_request(Reader *r, const char *job, uint64_t cpus, double mib, uint32_t gpus, SlurmWord type)
{
    ClusterRequest request = {.cpu_milli = make_cpu_milli(cpus), .memory_mib = cap_u32(ceil(mib))};
    const int model = gpus && type.at ? find_model(r, type) : -1;

    if (gpus > CLUSTER_GPUS_MAX)
        add_note(r,
                 arena_printf(r->arena, "job %s has %u GPUs on a node; %d are counted", job, gpus, CLUSTER_GPUS_MAX));
    request.gpu_count = (uint8_t)number_min_u64(gpus, CLUSTER_GPUS_MAX);
    request.gpu_milli = gpus ? CLUSTER_GPU : 0;
    request.models = model >= 0 ? UINT64_C(1) << model : 0;
    request.models_written = (uint16_t)(model + 1);
    return request;
}

void slurm_add_shares(ClusterJob *job, const ClusterRequest *base, uint32_t nodes, uint32_t gpus)
{
    const uint32_t counts[] = {gpus % nodes, nodes - gpus % nodes};

    for (uint32_t i = 0; i < ARRAY_LEN(counts); i++) {
        const uint32_t each = gpus / nodes + (i == 0);

        if (!counts[i])
            continue;
        ClusterRole *role = &job->roles[job->role_count++];
        *role = (ClusterRole){.name = "", .min = counts[i], .max = counts[i], .request = *base};
        role->request.gpu_count = (uint8_t)number_min_u64(each, CLUSTER_GPUS_MAX);
        role->request.gpu_milli = each ? CLUSTER_GPU : 0;
    }
}

static int add_waiting(Reader *r, SlurmWord *f, const Asked *a, ClusterJob *job)
{
    const uint64_t gpus = a->per_node ? (uint64_t)a->gpus.count * a->nodes : a->gpus.count;
    ClusterRequest base =
        make_request(r, job->name, ((uint64_t)a->cpus + a->nodes - 1) / a->nodes, a->mib,
                     (uint32_t)number_min_u64((gpus + a->nodes - 1) / a->nodes, UINT32_MAX), a->gpus.type);

    TRY(find_rules(r, f, a->nodes, &base));
    slurm_add_shares(job, &base, a->nodes, (uint32_t)number_min_u64(gpus, UINT32_MAX));
    return 0;
}

/* --- where a job runs --------------------------------------------------------------------------------------------- */

/* Nodes that have the same of a job. */
typedef struct Group {
    ClusterJob *job;
    SlurmWord nodes;
    uint32_t cpus;
    double mib;
    SlurmGpus gpus;
    uint8_t role;
} Group;

static uint8_t find_role(Reader *r, const Group *g)
{
    ClusterJob *job = g->job;
    const ClusterRequest request = make_request(r, job->name, g->cpus, g->mib, g->gpus.count, g->gpus.type);
    uint8_t i = 0;

    for (; i < job->role_count; i++) {
        const ClusterRequest *old = &job->roles[i].request;

        if (old->cpu_milli == request.cpu_milli && old->memory_mib == request.memory_mib &&
            old->gpu_count == request.gpu_count && old->models == request.models)
            return i;
    }
    if (i == CLUSTER_ROLES_MAX) {
        add_note(r, arena_printf(r->arena, "job %s has more than %d different shares of nodes", job->name,
                                 CLUSTER_ROLES_MAX));
        return CLUSTER_ROLES_MAX - 1;
    }
    job->roles[job->role_count++] = (ClusterRole){.name = "", .request = request};
    return i;
}

static void add_place(Walk *walk, uint32_t node)
{
    const Group *g = walk->self;
    const ClusterNode *at = &walk->r->nodes.at[node];
    const bool same = !g->gpus.type.at || slurm_word_is(g->gpus.type, walk->r->models.at[at->model]);
    const uint16_t devices = g->gpus.devices;
    const bool known = (uint32_t)__builtin_popcount(devices) == g->gpus.count && devices >> at->gpu_count == 0;

    vec_push(&walk->r->places, ((ClusterPlace){.node = node, .gpus = same && known ? devices : 0, .role = g->role}));
    g->job->roles[g->role].min = ++g->job->roles[g->role].max;
}

static int add_group(Reader *r, Group *g)
{
    Walk walk = {.r = r, .each = add_place, .self = g};

    g->role = find_role(r, g);
    TRY(walk_nodes(&walk, "Nodes", g->nodes));
    if (walk.unknown)
        add_note(r, arena_printf(r->arena, "job %s runs on %zu nodes that are not listed", g->job->name, walk.unknown));
    if ((r->place_count += walk.known) > PLACES_MAX)
        return err_set(r->err, -E2BIG, "%s:%lu: jobs on too many nodes", r->text.name, r->text.line);
    return 0;
}

static void count_one(void *at, uint64_t number)
{
    (void)number;
    ++*(uint32_t *)at;
}

/* "0-3,8" */
static uint32_t count_cpus(const Reader *r, SlurmWord list)
{
    uint32_t count = 0;

    return list.at && number_walk_list(keep_word(r, list), 65535, count_one, &count) ? count : 0;
}

/* What `-d` adds behind NumNodes: "Nodes=gpu[01-02] CPU_IDs=0-3 Mem=1000 GRES=gpu:h100:2(IDX:0-1)", for each group. */
static int read_groups(Reader *r, SlurmWord rest, ClusterJob *job)
{
    Group g = {.job = job};
    SlurmWord word, key, value;

    while (slurm_record_word(&rest, &word)) {
        if (!slurm_record_split(word, &key, &value))
            continue;
        if (slurm_key_is(key, "Nodes"))
            g = (Group){.job = job, .nodes = value};
        else if (slurm_key_is(key, "CPU_IDs"))
            g.cpus = count_cpus(r, value);
        else if (slurm_key_is(key, "Mem"))
            (void)slurm_read_mib(value, &g.mib);
        else if (slurm_key_is(key, "GRES") && g.nodes.at) {
            g.gpus = slurm_read_gpus(value);
            TRY(add_group(r, &g));
            g.nodes = (SlurmWord){0};
        }
    }
    return 0;
}

/* Without `-d` a job's share is taken to be the same on each of its nodes. */
static int add_even(Reader *r, const SlurmWord *f, const Asked *a, ClusterJob *job)
{
    Walk walk = {.r = r};
    Group g = {.job = job, .nodes = f[JOB_LIST], .mib = a->mib, .gpus = a->gpus};

    TRY(walk_nodes(&walk, job_keys[JOB_LIST], f[JOB_LIST]));
    const size_t nodes = number_max_u64(walk.known + walk.unknown, 1);
    g.cpus = (uint32_t)((a->cpus + nodes - 1) / nodes);
    g.gpus.devices = 0;
    if (!a->per_node)
        g.gpus.count = (uint32_t)((a->gpus.count + nodes - 1) / nodes);
    return add_group(r, &g);
}

static int add_running(Reader *r, SlurmWord record, const SlurmWord *f, const Asked *a, ClusterJob *job)
{
    vec_clear(&r->places);
    if (f[JOB_NODES].at)
        TRY(read_groups(r, (SlurmWord){f[JOB_NODES].at, (size_t)(record.at + record.len - f[JOB_NODES].at)}, job));
    if (r->places.len == 0)
        TRY(add_even(r, f, a, job));
    job->place_count = r->places.len;
    if (r->places.len)
        job->places = arena_memdup(r->arena, r->places.at, r->places.len * sizeof *r->places.at);
    return 0;
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

/* States in which a job has its nodes, and those in which it waits for some. */
static const char *const running_states[] = {"RUNNING",   "COMPLETING", "CONFIGURING", "RESIZING",
                                             "SIGNALING", "STAGE_OUT",  "STOPPED",     "SUSPENDED"};
static const char *const waiting_states[] = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"};

/* "4711", "4700_3", "4700_[4-9%2]", "4800+1" */
static const char *make_name(const Reader *r, const SlurmWord *f)
{
    const SlurmWord task = f[JOB_TASK];

    if (f[JOB_ARRAY].at && task.at) {
        const bool one = task.len == strspn(keep_word(r, task), "0123456789");

        return arena_printf(r->arena, one ? "%s_%s" : "%s_[%s]", keep_word(r, f[JOB_ARRAY]), keep_word(r, task));
    }
    if (f[JOB_HET].at && f[JOB_HET_OFFSET].at)
        return arena_printf(r->arena, "%s+%s", keep_word(r, f[JOB_HET]), keep_word(r, f[JOB_HET_OFFSET]));
    return keep_word(r, f[JOB_ID]);
}

static void read_times(const Reader *r, const SlurmWord *f, bool running, ClusterJob *job, SlurmJob *facts)
{
    const uint64_t start_s = slurm_read_time(f[JOB_STARTED]), end_s = slurm_read_time(f[JOB_ENDS]);

    job->submitted_s = slurm_read_time(f[JOB_SUBMITTED]);
    job->duration_s = slurm_read_limit(keep_word(r, f[JOB_LIMIT]));
    if (!running) {
        facts->expected_s = start_s;
        return;
    }
    job->started_s = start_s;
    if (start_s && end_s > start_s)
        job->duration_s = end_s - start_s;
}

static const char *explain_reason(const Reader *r, SlurmWord reason)
{
    const SlurmReason *row = reason.at ? slurm_reason_find(reason.at, reason.len) : NULL;
    const char *word = keep_word(r, reason);

    return !reason.at ? NULL : row ? arena_printf(r->arena, "%s: %s", word, row->meaning) : word;
}

static int add_job(Reader *r, SlurmWord record, SlurmWord *f, bool running)
{
    ClusterJob job = {.name = make_name(r, f),
                      .kind = "Slurm job",
                      .tier = CLUSTER_TIER_END,
                      .apart = true,
                      .preemptible = slurm_word_is(f[JOB_REQUEUE], "1")};
    SlurmJob facts = {.id = keep_word(r, f[JOB_ID]),
                      .partition = keep_word(r, f[JOB_PARTITION]),
                      .qos = keep_word(r, f[JOB_QOS]),
                      .reason = keep_word(r, f[JOB_REASON]),
                      .dependency = keep_word(r, f[JOB_DEPENDENCY]),
                      .licenses = keep_word(r, f[JOB_LICENSES])};
    SlurmWord user = f[JOB_USER], name = {0};
    Asked asked;

    (void)slurm_word_next(&user, '(', &name);
    facts.user = keep_word(r, (SlurmWord){name.at, name.at ? strcspn(keep_word(r, name), "(") : 0});
    TRY(read_number(r, job_keys[JOB_PRIORITY], f[JOB_PRIORITY], &facts.priority));
    TRY(read_asked(r, f, &asked));
    read_times(r, f, running, &job, &facts);
    job.queue = f[JOB_ACCOUNT].at ? keep_word(r, f[JOB_ACCOUNT]) : NULL;
    job.said = running ? NULL : explain_reason(r, f[JOB_REASON]);
    if (f[JOB_SWITCHES].len > 1 && memcmp(f[JOB_SWITCHES].at, "1@", 2) == 0)
        job.tier = CLUSTER_RACK;
    TRY(running ? add_running(r, record, f, &asked, &job) : add_waiting(r, f, &asked, &job));
    if (r->jobs.len == JOBS_MAX)
        return err_set(r->err, -E2BIG, "%s:%lu: more than %d jobs", r->text.name, r->text.line, JOBS_MAX);
    vec_push(&r->jobs, job);
    vec_push(&r->job_facts, facts);
    return 0;
}

static int read_jobs(Reader *r, const SlurmText *text)
{
    SlurmWord record, f[JOB_KEYS];
    int rc;

    r->text = slurm_records_of(text);
    while ((rc = slurm_records_next(&r->text, &record, r->err)) > 0) {
        slurm_record_fields(record, job_keys, JOB_KEYS, true, f);
        const bool running = is_one_of(f[JOB_STATE], running_states, ARRAY_LEN(running_states));

        if (f[JOB_ID].at && (running || is_one_of(f[JOB_STATE], waiting_states, ARRAY_LEN(waiting_states))))
            TRY(add_job(r, record, f, running));
    }
    return rc;
}

/* Slurm's priorities reach to 2^32: where one is over what ours hold, all are lowered by the same. */
static void set_priorities(Reader *r)
{
    uint32_t max = INT32_MAX;

    for (size_t i = 0; i < r->jobs.len; i++)
        max = (uint32_t)number_max_u64(max, r->job_facts.at[i].priority);
    for (size_t i = 0; i < r->jobs.len; i++)
        r->jobs.at[i].priority = (int32_t)((int64_t)r->job_facts.at[i].priority - (max - INT32_MAX));
}

/* Slurm may hide the jobs of others (PrivateData=jobs). */
static void note_hidden_jobs(Reader *r)
{
    uint64_t *used = arena_calloc(r->arena, r->nodes.len, sizeof *used);
    size_t hidden = 0;

    for (size_t i = 0; i < r->jobs.len; i++)
        for (size_t k = 0; k < r->jobs.at[i].place_count; k++) {
            const ClusterPlace *place = &r->jobs.at[i].places[k];

            used[place->node] += r->jobs.at[i].roles[place->role].request.cpu_milli;
        }
    for (size_t i = 0; i < r->nodes.len; i++)
        hidden += (uint64_t)r->node_facts.at[i].cpus_allocated * 1000 > used[i];
    if (hidden)
        add_note(r, arena_printf(r->arena,
                                 "%zu nodes have more CPUs allocated than the listed jobs hold: jobs of others may be "
                                 "hidden (PrivateData), and less is free than counted",
                                 hidden));
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

#define KEEP(r, vec) ((vec).len ? arena_memdup((r)->arena, (vec).at, (vec).len * sizeof *(vec).at) : NULL)

static void hand_out(Reader *r)
{
    Cluster *c = &r->out.cluster;

    set_priorities(r);
    c->node_count = r->nodes.len;
    c->nodes = KEEP(r, r->nodes);
    c->job_count = r->jobs.len;
    c->jobs = KEEP(r, r->jobs);
    c->model_count = r->models.len;
    c->models = KEEP(r, r->models);
    r->out.nodes = KEEP(r, r->node_facts);
    r->out.jobs = KEEP(r, r->job_facts);
}

static void free_reader(Reader *r)
{
    map_done(&r->numbers);
    map_done(&r->rules);
    map_done(&r->rule_lists);
    vec_done(&r->nodes);
    vec_done(&r->node_facts);
    vec_done(&r->jobs);
    vec_done(&r->job_facts);
    vec_done(&r->places);
    vec_done(&r->models);
}

int slurm_cluster_read(const SlurmText *nodes, const SlurmText *jobs, const SlurmText *topology, Arena *arena,
                       SlurmCluster *ret, Err *err)
{
    CLEANUP(free_reader) Reader r = {.arena = arena, .err = err};

    map_init(&r.numbers);
    map_init(&r.rules);
    map_init(&r.rule_lists);
    TRY(read_nodes(&r, nodes));
    if (jobs && jobs->text) {
        TRY(read_jobs(&r, jobs));
        note_hidden_jobs(&r);
    }
    hand_out(&r);
    if (topology && topology->text)
        TRY(slurm_topology_read(topology, arena, &r.out.cluster, err));
    *ret = r.out;
    return 0;
}

size_t slurm_cluster_find_job(const SlurmCluster *cluster, const char *id)
{
    size_t i = 0;

    while (i < cluster->cluster.job_count && strcmp(cluster->jobs[i].id, id) != 0 &&
           strcmp(cluster->cluster.jobs[i].name, id) != 0)
        i++;
    return i;
}
