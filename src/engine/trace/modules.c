/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where GPU work comes from: kernel, operator, module and line of the user's code. A module is an event "nn.Module:
 * NAME_n" of the Python thread; modules within each other make a tree. Without any such event it is what operators say
 * of the modules around them. The backward pass runs on a thread without Python: its work counts for the module and
 * line of the forward operator that has the same sequence number and thread. Linear in events; takes 4 bytes per
 * operator where sequence numbers are known, and 8 per host event of a profile with Python or such modules.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "engine/trace/analyse.h"
#include "engine/trace/tables.h"

enum { DEPTH_MAX = 64, LANES_MAX = 16, ORIGIN_SEED = 2, ORIGIN_CACHE = 1024 };

#define MODULE "nn.Module: "

typedef enum Frame { FRAME_UNSEEN, FRAME_OTHER, FRAME_USER, FRAME_MODULE } Frame;

/* A module in its place; number 0 is the root, which is none. */
typedef struct Node {
    uint32_t parent;
    int depth; /* 0 of the root */
    const char *path;
    uint32_t child, next; /* for the order of rows: the first one in it, and the next one beside it; 0 none */
} Node;

/* Where a kernel came from. */
typedef struct Origin {
    uint32_t kernel, op, dims, node, line, backward; /* names but the node, PROFILE_NONE; backward 0 or 1 */
} Origin;

typedef struct Modules {
    const TraceJob *job;
    TraceRank *rank;
    uint8_t *frames;   /* name -> Frame */
    uint32_t *parent;  /* name of a module -> that of the one around it: 0 not seen, PROFILE_NONE several; else + 1 */
    uint32_t *node;    /* host row -> node of the innermost module that it is or lies in, 0 none */
    uint32_t *line;    /* host row -> name of the innermost frame of the user's that it is or lies in, PROFILE_NONE */
    bool placed;       /* else there are neither nodes nor lines, and both are NULL */
    uint32_t *forward; /* operator -> host row of the forward operator that it is the backward pass of, PROFILE_NONE;
                        * NULL where no sequence numbers are known */
    bool framed;       /* there are events of modules */
    Map numbers;       /* node and name (of recorded hierarchies: word) -> node of that name in it */
    Map words;         /* of recorded hierarchies -> number */
    VEC(Node) nodes;
    Map origins;                   /* hash of an Origin -> row + 1 */
    uint32_t cached[ORIGIN_CACHE]; /* the same for the last one that came to a place; 0 none */
    VEC(Origin) keys;
} Modules;

/* ---- frames ---- */

static Frame frame_of(const char *name)
{
    if (strncmp(name, MODULE, strlen(MODULE)) == 0)
        return FRAME_MODULE;
    if (!strstr(name, ".py("))
        return FRAME_OTHER;
    return trace_is_user_path(name) ? FRAME_USER : FRAME_OTHER;
}

static Frame row_frame(Modules *modules, uint32_t row)
{
    const Profile *profile = modules->job->index->profile;
    const uint32_t name = profile->host.name[row];

    if (profile->host.kind[row] != PROFILE_PYTHON)
        return FRAME_OTHER;
    if (modules->frames[name] == FRAME_UNSEEN)
        modules->frames[name] = (uint8_t)frame_of(profile_text(profile, name, NULL));
    return (Frame)modules->frames[name];
}

/* ---- the tree ---- */

/* Which module each is called from, as far as it is always the same one. */
static void learn_parents(Modules *modules)
{
    const TraceIndex *index = modules->job->index;
    uint32_t *around = modules->node; /* first: name of the innermost module, + 1 */

    for (uint32_t row = 0; row < index->profile->host.len; row++) {
        const uint32_t outer = index->parent[row] == PROFILE_NONE ? 0 : around[index->parent[row]];

        around[row] = outer;
        if (row_frame(modules, row) != FRAME_MODULE)
            continue;
        uint32_t *parent = &modules->parent[index->profile->host.name[row]];

        modules->framed = true;
        around[row] = index->profile->host.name[row] + 1;
        if (outer != 0)
            *parent = *parent == 0 || *parent == outer ? outer : PROFILE_NONE;
    }
}

/* `name` tells texts apart. */
static uint32_t node_named(Modules *modules, uint32_t parent, uint32_t name, const char *text)
{
    const uint64_t key = (uint64_t)parent << 32 | name;
    uintptr_t number = (uintptr_t)map_u64_get(&modules->numbers, key);

    if (modules->nodes.at[parent].depth == DEPTH_MAX) /* what lies deeper counts for that one */
        return parent;
    if (number == 0) {
        const Node around = modules->nodes.at[parent]; /* the list may move */
        const char *path = parent == 0 ? arena_strdup(modules->job->arena, text)
                                       : arena_printf(modules->job->arena, "%s/%s", around.path, text);

        number = modules->nodes.len;
        vec_push(&modules->rank->modules,
                 ((TraceModule){
                     .path = path, .name = path + (parent ? strlen(around.path) + 1 : 0), .depth = around.depth}));
        vec_push(&modules->nodes, ((Node){.parent = parent, .depth = around.depth + 1, .path = path}));
        map_u64_put(&modules->numbers, key, (void *)number); /* NOLINT(performance-no-int-to-ptr) */
    }
    return (uint32_t)number;
}

static uint32_t node_under(Modules *modules, uint32_t parent, uint32_t name)
{
    const char *text = profile_text(modules->job->index->profile, name, NULL) + strlen(MODULE);

    return node_named(modules, parent, name, text);
}

/* The place of a module that is called outside of any: where it is called from at other times. */
static uint32_t place_of(Modules *modules, uint32_t name, int depth)
{
    const uint32_t parent = modules->parent[name];

    if (parent == 0 || parent == PROFILE_NONE || depth == DEPTH_MAX)
        return 0;
    return node_under(modules, place_of(modules, parent - 1, depth + 1), parent - 1);
}

static void find_places(Modules *modules)
{
    const TraceIndex *index = modules->job->index;
    const ProfileEvents *host = &index->profile->host;

    for (uint32_t row = 0; row < host->len; row++) {
        const uint32_t parent = index->parent[row];
        const Frame frame = row_frame(modules, row);
        uint32_t outer = parent == PROFILE_NONE ? 0 : modules->node[parent];

        modules->line[row] = frame == FRAME_USER      ? host->name[row]
                             : parent == PROFILE_NONE ? PROFILE_NONE
                                                      : modules->line[parent];
        if (frame == FRAME_MODULE) {
            outer = node_under(modules, outer ? outer : place_of(modules, host->name[row], 0), host->name[row]);
            modules->rank->modules.at[outer - 1].calls++;
        }
        modules->node[row] = outer;
    }
}

/* ---- modules that operators name ---- */

/* A number as a map's value, which is never NULL. */
static void *row_value(uint32_t row)
{
    return (void *)((uintptr_t)row + 1); /* NOLINT(performance-no-int-to-ptr) */
}

/* A word of a hierarchy, "fc1(Linear)", under its node. */
static uint32_t node_of_word(Modules *modules, uint32_t parent, const char *word, size_t len)
{
    uintptr_t number = (uintptr_t)map_getn(&modules->words, word, len);

    if (number == 0) {
        number = modules->words.len + 1;
        map_putn(&modules->words, word, len, (void *)number); /* NOLINT(performance-no-int-to-ptr) */
    }
    return node_named(modules, parent, (uint32_t)number, arena_strndup(modules->job->arena, word, len));
}

/* "TOP(Net)::forward.SELF(Net)::inner.fc1(Linear)::forward": another function of the same module is no other place. */
static uint32_t node_of_hierarchy(Modules *modules, const char *text)
{
    uint32_t node = 0;

    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = strchrnul(text, '.');
        const char *function = memmem(text, (size_t)(end - text), ")::", 3);

        if (function && strncmp(text, "SELF(", 5) != 0)
            node = node_of_word(modules, node, text, (size_t)(function + 1 - text));
    }
    return node;
}

/* Operators within one that says nothing lie where that one does. */
static void find_recorded_places(Modules *modules)
{
    const TraceIndex *index = modules->job->index;
    const Profile *profile = index->profile;
    Map nodes, known; /* external id, and name of a hierarchy, -> node + 1 */

    map_u64_init(&nodes);
    map_u64_init(&known);
    for (size_t i = 0; i < profile->places.len; i++) {
        const ProfilePlace *place = &profile->places.at[i];
        void *node = map_u64_get(&known, place->modules);

        if (!node) {
            node = row_value(node_of_hierarchy(modules, profile_text(profile, place->modules, NULL)));
            map_u64_put(&known, place->modules, node);
        }
        map_u64_put(&nodes, place->op_id, node);
    }
    for (uint32_t row = 0; row < profile->host.len; row++) {
        const uint32_t parent = index->parent[row];
        const uint32_t id = profile->host.kind[row] == PROFILE_OP ? profile->host.link[row] : 0;
        const uintptr_t own = id ? (uintptr_t)map_u64_get(&nodes, id) : 0;

        modules->node[row] = own ? (uint32_t)own - 1 : parent == PROFILE_NONE ? 0 : modules->node[parent];
    }
    map_done(&nodes);
    map_done(&known);
}

static void find_modules(Modules *modules)
{
    const Profile *profile = modules->job->index->profile;
    const size_t names = profile_name_count(profile) + 1, rows = profile->host.len + 1;

    modules->frames = xcalloc(names, sizeof *modules->frames);
    modules->parent = xcalloc(names, sizeof *modules->parent);
    modules->node = xmalloc(rows * sizeof *modules->node);
    modules->line = xmalloc(rows * sizeof *modules->line);
    learn_parents(modules);
    find_places(modules);
    if (!modules->framed && profile->places.len)
        find_recorded_places(modules);
}

/* ---- backward to forward ---- */

/* Forward threads as lanes, which of them each thread number of the backward pass means, and where operators are. */
typedef struct Join {
    Map nodes;   /* external id -> index in profile->nodes + 1 */
    Map forward; /* lane's place and sequence -> host row + 1 of the last operator that began with it */
    uint32_t lanes[LANES_MAX], threads[LANES_MAX];
    size_t lane_count, thread_count;
    size_t votes[LANES_MAX][LANES_MAX]; /* thread, lane: sequences that both have */
} Join;

/* The place of a value in a list, at its end where it is new; LANES_MAX: it is full. */
static size_t place_in(uint32_t *list, size_t *len, uint32_t value)
{
    size_t i = 0;

    while (i < *len && list[i] != value)
        i++;
    if (i == *len && i < LANES_MAX)
        list[(*len)++] = value;
    return i;
}

static const ProfileNode *node_of_row(const Join *join, const Profile *profile, uint32_t row)
{
    const uint32_t id = profile->host.kind[row] == PROFILE_OP ? profile->host.link[row] : 0;
    const uintptr_t number = id ? (uintptr_t)map_u64_get(&join->nodes, id) : 0;

    return number ? &profile->nodes.at[number - 1] : NULL;
}

static uint32_t find_forward(const Join *join, size_t lane, uint32_t sequence)
{
    return (uint32_t)(uintptr_t)map_u64_get(&join->forward, (uint64_t)lane << 32 | sequence) - 1;
}

static void collect_forward(Join *join, const Profile *profile)
{
    for (size_t i = 0; i < profile->nodes.len; i++)
        map_u64_put(&join->nodes, profile->nodes.at[i].op_id, row_value((uint32_t)i));
    for (uint32_t row = 0; row < profile->host.len; row++) {
        const ProfileNode *node = node_of_row(join, profile, row);

        if (!node || node->forward_thread != 0)
            continue;
        const size_t lane = place_in(join->lanes, &join->lane_count, profile->host.lane[row]);

        if (lane < LANES_MAX)
            map_u64_put(&join->forward, (uint64_t)lane << 32 | node->sequence, row_value(row));
    }
}

/* Of operators that are there: a part of a profile has the numbers of all. */
static void count_votes(Join *join, const Profile *profile)
{
    for (uint32_t row = 0; row < profile->host.len; row++) {
        const ProfileNode *node = node_of_row(join, profile, row);

        if (!node || node->forward_thread == 0)
            continue;
        const size_t thread = place_in(join->threads, &join->thread_count, node->forward_thread);

        for (size_t lane = 0; thread < LANES_MAX && lane < join->lane_count; lane++)
            join->votes[thread][lane] += find_forward(join, lane, node->sequence) != PROFILE_NONE;
    }
}

/* The lane that has most of the thread's sequences; LANES_MAX where none or several have. */
static size_t choose_lane(const Join *join, uint32_t forward_thread)
{
    size_t best = LANES_MAX, most = 0, thread = 0;

    while (thread < join->thread_count && join->threads[thread] != forward_thread)
        thread++;
    for (size_t lane = 0; thread < join->thread_count && lane < join->lane_count; lane++) {
        if (join->votes[thread][lane] == most)
            best = LANES_MAX;
        if (join->votes[thread][lane] > most) {
            most = join->votes[thread][lane];
            best = lane;
        }
    }
    return best;
}

/* What an operator of the backward pass has in forward[] where its forward operator is not in the profile. */
#define NO_FORWARD (PROFILE_NONE - 1)

static void join_backward(Modules *modules)
{
    const TraceIndex *index = modules->job->index;
    const Profile *profile = index->profile;
    CLEANUP_FREE Join *join = xcalloc(1, sizeof *join);

    if (profile->nodes.len == 0)
        return;
    modules->forward = xmalloc((index->op_count + 1) * sizeof *modules->forward);
    map_u64_init(&join->nodes);
    map_u64_init(&join->forward);
    collect_forward(join, profile);
    count_votes(join, profile);
    for (uint32_t op = 0; op < index->op_count; op++) {
        const uint32_t row = index->op_rows[op], around = trace_operator_around(index, op);
        const ProfileNode *node = node_of_row(join, profile, row);

        modules->forward[op] = around == PROFILE_NONE ? PROFILE_NONE : modules->forward[around];
        if (!node || node->forward_thread == 0)
            continue;
        const size_t lane = choose_lane(join, node->forward_thread);
        const uint32_t found = lane < LANES_MAX ? find_forward(join, lane, node->sequence) : PROFILE_NONE;

        modules->forward[op] = found == PROFILE_NONE ? NO_FORWARD : found;
    }
    map_done(&join->nodes);
    map_done(&join->forward);
}

/* ---- GPU work ---- */

static Origin find_origin(const Modules *modules, size_t gpu_row, uint32_t host_row)
{
    const TraceIndex *index = modules->job->index;
    const Profile *profile = index->profile;
    const uint32_t op_row = index->op[gpu_row], detail = op_row == PROFILE_NONE ? op_row : profile->host.extra[op_row];
    const uint32_t forward =
        op_row == PROFILE_NONE || !modules->forward ? PROFILE_NONE : modules->forward[index->op_at[op_row]];
    Origin origin = {.kernel = profile->gpu.name[gpu_row],
                     .op = op_row == PROFILE_NONE ? op_row : profile->host.name[op_row],
                     .dims = detail < profile->ops.len ? profile->ops.at[detail].dims : PROFILE_NONE,
                     .node = modules->placed ? modules->node[host_row] : 0,
                     .line = modules->placed ? modules->line[host_row] : PROFILE_NONE};

    origin.backward = forward != PROFILE_NONE && origin.node == 0;
    if (origin.backward && forward != NO_FORWARD && modules->placed) {
        origin.node = modules->node[forward];
        origin.line = modules->line[forward];
    }
    return origin;
}

/* The row of an origin, + 1; a new one where it has none. */
static uint32_t number_origin(Modules *modules, const Origin *origin)
{
    const uint64_t hash = map_hash(origin, sizeof *origin, ORIGIN_SEED);
    uintptr_t number = (uintptr_t)map_u64_get(&modules->origins, hash);

    if (number == 0) {
        vec_push(&modules->keys, *origin);
        vec_push(&modules->rank->origins, ((TraceOrigin){.backward = origin->backward != 0}));
        number = modules->keys.len;
        map_u64_put(&modules->origins, hash, (void *)number); /* NOLINT(performance-no-int-to-ptr) */
    }
    return (uint32_t)number;
}

static void add_origin(Modules *modules, const Origin *origin, int64_t duration)
{
    const uint32_t place = (origin->kernel * 31 + origin->op) * 31 + origin->dims + origin->line * 7 + origin->node;
    uint32_t *cached = &modules->cached[place % ORIGIN_CACHE], number = *cached;

    if (number == 0 || memcmp(&modules->keys.at[number - 1], origin, sizeof *origin) != 0)
        number = *cached = number_origin(modules, origin);
    modules->rank->origins.at[number - 1].count++;
    modules->rank->origins.at[number - 1].total_ns =
        trace_sum(modules->rank->origins.at[number - 1].total_ns, duration);
}

static void add_operation(Modules *modules, size_t gpu_row)
{
    const TraceIndex *index = modules->job->index;
    const int64_t duration = index->profile->gpu.duration[gpu_row];
    const uint32_t host = index->launch[gpu_row] != PROFILE_NONE ? index->launch[gpu_row] : index->op[gpu_row];
    TraceOriginSum *sum = &modules->rank->origin_sum;

    sum->total_ns = trace_sum(sum->total_ns, duration);
    if (host == PROFILE_NONE)
        return;
    const Origin origin = find_origin(modules, gpu_row, host);

    add_origin(modules, &origin, duration);
    if (origin.backward)
        sum->backward_ns = trace_sum(sum->backward_ns, duration);
    if (origin.backward && (origin.node || origin.line != PROFILE_NONE))
        sum->joined_ns = trace_sum(sum->joined_ns, duration);
    if (origin.node == 0)
        return;
    TraceModule *module = &modules->rank->modules.at[origin.node - 1];

    sum->module_ns = trace_sum(sum->module_ns, duration);
    module->kernel_count++;
    module->own_ns = trace_sum(module->own_ns, duration);
    if (origin.backward)
        module->own_backward_ns = trace_sum(module->own_backward_ns, duration);
}

/* ---- rows ---- */

static void add_totals(Modules *modules)
{
    TraceModule *rows = modules->rank->modules.at;

    for (size_t i = modules->nodes.len; i-- > 1;) {
        TraceModule *row = &rows[i - 1];
        const uint32_t parent = modules->nodes.at[i].parent;

        row->total_ns = trace_sum(row->total_ns, row->own_ns);
        row->backward_ns = trace_sum(row->backward_ns, row->own_backward_ns);
        row->per_step_ns =
            modules->rank->steps.len ? (double)row->total_ns / (double)modules->rank->steps.len : (double)NAN;
        if (parent == 0)
            continue;
        rows[parent - 1].total_ns = trace_sum(rows[parent - 1].total_ns, row->total_ns);
        rows[parent - 1].backward_ns = trace_sum(rows[parent - 1].backward_ns, row->backward_ns);
    }
}

typedef struct Ranked {
    int64_t total_ns;
    const char *path;
    uint32_t node;
} Ranked;

static int compare_ranked(const void *a, const void *b)
{
    const Ranked *x = a, *y = b;
    const int64_t keys[][2] = {{x->total_ns, y->total_ns}, {strcmp(y->path, x->path), 0}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* Each node's children, the largest first. */
static void link_children(Modules *modules)
{
    VEC(Ranked) ranked = {0};

    for (uint32_t i = 1; i < modules->nodes.len; i++)
        vec_push(&ranked, ((Ranked){modules->rank->modules.at[i - 1].total_ns, modules->nodes.at[i].path, i}));
    vec_sort(&ranked, compare_ranked);
    for (size_t i = 0; i < ranked.len; i++) {
        Node *node = &modules->nodes.at[ranked.at[i].node], *parent = &modules->nodes.at[node->parent];

        node->next = parent->child;
        parent->child = ranked.at[i].node;
    }
    vec_done(&ranked);
}

/* Rows in the order of the tree: each before what is in it. */
static void order_modules(Modules *modules)
{
    const Node *nodes = modules->nodes.at;
    TraceModule *rows = xcalloc(modules->nodes.len, sizeof *rows);
    size_t count = 0;

    add_totals(modules);
    link_children(modules);
    for (uint32_t at = nodes[0].child; at != 0;) {
        rows[count++] = modules->rank->modules.at[at - 1];
        if (nodes[at].child != 0) {
            at = nodes[at].child;
            continue;
        }
        while (at != 0 && nodes[at].next == 0)
            at = nodes[at].parent;
        at = nodes[at].next;
    }
    if (count > 0)
        memcpy(modules->rank->modules.at, rows, count * sizeof *rows);
    free(rows);
}

static int compare_origins(const void *a, const void *b)
{
    const TraceOrigin *x = a, *y = b;
    const int64_t keys[][2] = {{y->total_ns, x->total_ns},        {strcmp(x->kernel, y->kernel), 0},
                               {strcmp(x->op, y->op), 0},         {strcmp(x->dims, y->dims), 0},
                               {strcmp(x->module, y->module), 0}, {strcmp(x->line, y->line), 0},
                               {x->backward, y->backward}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static void name_origins(Modules *modules)
{
    TraceTexts texts, lists;

    trace_texts_init(&texts, modules->job);
    trace_texts_init(&lists, modules->job);
    for (size_t i = 0; i < modules->keys.len; i++) {
        const Origin *key = &modules->keys.at[i];
        TraceOrigin *row = &modules->rank->origins.at[i];

        row->kernel = trace_text(&texts, key->kernel);
        row->op = trace_text(&texts, key->op);
        row->dims = trace_list_text(&lists, key->dims);
        row->line = trace_text(&texts, key->line);
        row->module = key->node ? modules->nodes.at[key->node].path : "";
    }
    trace_texts_done(&texts);
    trace_texts_done(&lists);
    vec_sort(&modules->rank->origins, compare_origins);
}

void trace_modules(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    Modules modules = {.job = job,
                       .rank = rank,
                       .placed = profile->places.len > 0 ||
                                 (profile->host.len && memchr(profile->host.kind, PROFILE_PYTHON, profile->host.len))};

    map_u64_init(&modules.numbers);
    map_init(&modules.words);
    map_u64_init(&modules.origins);
    vec_push(&modules.nodes, (Node){0});
    if (modules.placed)
        find_modules(&modules);
    join_backward(&modules);
    for (size_t i = 0; i < profile->gpu.len; i++)
        add_operation(&modules, i);
    order_modules(&modules);
    name_origins(&modules);
    map_done(&modules.numbers);
    map_done(&modules.words);
    map_done(&modules.origins);
    vec_done(&modules.nodes);
    vec_done(&modules.keys);
    free(modules.frames);
    free(modules.parent);
    free(modules.node);
    free(modules.line);
    free(modules.forward);
}

/* ---- kernels ---- */

/* Time of a kernel by one of the texts of its origins. */
typedef struct Share {
    size_t kernel;
    const char *text;
    int64_t total_ns;
} Share;

typedef VEC(Share) Shares;

/* Equal texts of origins have one address. */
static void add_share(Map *numbers, Shares *shares, size_t kernel, const char *text, int64_t duration)
{
    const struct {
        size_t kernel;
        const char *text;
    } key = {kernel, text};
    const uint64_t hash = map_hash(&key, sizeof key, ORIGIN_SEED);
    uintptr_t number = (uintptr_t)map_u64_get(numbers, hash);

    if (number == 0) {
        vec_push(shares, ((Share){.kernel = kernel, .text = text}));
        number = shares->len;
        map_u64_put(numbers, hash, (void *)number); /* NOLINT(performance-no-int-to-ptr) */
    }
    shares->at[number - 1].total_ns = trace_sum(shares->at[number - 1].total_ns, duration);
}

/* For each kernel, the text at `member` of its origins that has most of its time, into `into` of its row. */
static void find_most(TraceRank *rank, const Map *kernels, size_t member, size_t into)
{
    CLEANUP_FREE int64_t *most = xcalloc(rank->kernels.len + 1, sizeof *most);
    Map numbers;
    Shares shares = {0};

    map_u64_init(&numbers);
    for (size_t i = 0; i < rank->origins.len; i++) {
        const char *text = *(const char *const *)(const void *)((const char *)&rank->origins.at[i] + member);
        const uintptr_t kernel = (uintptr_t)map_get(kernels, rank->origins.at[i].kernel);

        if (kernel != 0 && text[0])
            add_share(&numbers, &shares, kernel - 1, text, rank->origins.at[i].total_ns);
    }
    for (size_t i = 0; i < shares.len; i++) {
        const Share *share = &shares.at[i];
        const char **text = (const char **)(void *)((char *)&rank->kernels.at[share->kernel] + into);

        if (share->total_ns < most[share->kernel] ||
            (share->total_ns == most[share->kernel] && (*text)[0] && strcmp(*text, share->text) <= 0))
            continue;
        most[share->kernel] = share->total_ns;
        *text = share->text;
    }
    map_done(&numbers);
    vec_done(&shares);
}

void trace_name_launchers(TraceRank *rank)
{
    Map kernels;

    map_init(&kernels);
    for (size_t i = 0; i < rank->kernels.len; i++)
        trace_number_of(&kernels, rank->kernels.at[i].name);
    find_most(rank, &kernels, offsetof(TraceOrigin, op), offsetof(TraceKernel, op));
    find_most(rank, &kernels, offsetof(TraceOrigin, line), offsetof(TraceKernel, line));
    map_done(&kernels);
}
