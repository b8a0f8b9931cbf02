/* SPDX-License-Identifier: Apache-2.0 */
/* From bytes to items (a record, a kernel's symbol, an agent), from an item to its fields, from fields to an event. */
#include "source/profile/rocprof.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/number.h"
#include "base/str.h"
#include "base/vec.h"
#include "source/profile/made_text.h"

enum {
    HEAD = 64, /* bytes in which the first key stands */
    BLOCK = 256 * 1024,
    ITEM_MAX = 256 * 1024,
    WINDOW = ITEM_MAX + BLOCK,
    TEXT_MAX = 2 * ITEM_MAX, /* of one item */
    DEPTH_MAX = 16,
    AHEAD = 256, /* bytes that the beginning of an item or of a list lies in */
    KEY_MAX = 64,
    AGENT_GPU = 2,       /* rocprofiler_agent_type_t */
    PROCESS_SHIFT = 40,  /* correlations of one process are below 2^40 */
    DEVICES_MAX = 65536, /* a larger number is none */
};

/* A piece of the file. A text is what stands between its quotes, with its escapes. */
typedef struct Piece {
    const char *at;
    size_t len;
} Piece;

#define PIECE(text)                                                                                                    \
    {                                                                                                                  \
        (text), sizeof(text) - 1                                                                                       \
    }

static bool is_same(Piece a, Piece b)
{
    return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

bool rocprof_is_results(const char *bytes, size_t len)
{
    static const char key[] = "\"rocprofiler-sdk-tool\"";

    return len && bytes[0] == '{' && memmem(bytes, len < HEAD ? len : HEAD, key, sizeof key - 1);
}

/* ---- what items say ---- */

/* The members of items that are looked at. `inside`: the object that has it, "" the item itself. */
#define MEMBERS(NUMBER, TEXT)                                                                                          \
    NUMBER("", "kind", kind)                                                                                           \
    NUMBER("", "operation", operation)                                                                                 \
    NUMBER("", "thread_id", thread)                                                                                    \
    NUMBER("", "start_timestamp", start)                                                                               \
    NUMBER("", "end_timestamp", end)                                                                                   \
    NUMBER("", "bytes", bytes)                                                                                         \
    NUMBER("correlation_id", "internal", correlation)                                                                  \
    NUMBER("agent_id", "handle", agent)                                                                                \
    NUMBER("src_agent_id", "handle", source)                                                                           \
    NUMBER("dst_agent_id", "handle", target)                                                                           \
    NUMBER("queue_id", "handle", queue)                                                                                \
    NUMBER("stream_id", "handle", stream)                                                                              \
    NUMBER("dispatch_info", "kernel_id", dispatched)                                                                   \
    NUMBER("dispatch_info", "group_segment_size", shared)                                                              \
    NUMBER("workgroup_size", "x", group[0])                                                                            \
    NUMBER("workgroup_size", "y", group[1])                                                                            \
    NUMBER("workgroup_size", "z", group[2])                                                                            \
    NUMBER("grid_size", "x", grid[0])                                                                                  \
    NUMBER("grid_size", "y", grid[1])                                                                                  \
    NUMBER("grid_size", "z", grid[2])                                                                                  \
    NUMBER("", "pid", pid)                                                                                             \
    TEXT("node", "hostname", host)                                                                                     \
    NUMBER("id", "handle", handle)                                                                                     \
    NUMBER("", "type", type)                                                                                           \
    NUMBER("", "gpu_index", gpu)                                                                                       \
    NUMBER("", "cu_count", units)                                                                                      \
    NUMBER("", "wave_front_size", wave)                                                                                \
    NUMBER("", "max_waves_per_cu", waves)                                                                              \
    NUMBER("", "gfx_target_version", version)                                                                          \
    TEXT("", "product_name", product)                                                                                  \
    TEXT("", "name", name)                                                                                             \
    NUMBER("", "kernel_id", symbol)                                                                                    \
    NUMBER("", "arch_vgpr_count", vgprs)                                                                               \
    NUMBER("", "accum_vgpr_count", accum_vgprs)                                                                        \
    TEXT("", "kernel_name", mangled)                                                                                   \
    TEXT("", "demangled_kernel_name", demangled)                                                                       \
    NUMBER("", "key", key)                                                                                             \
    TEXT("", "value", value)

enum { GRID_SIDES = 3 };

typedef struct Number {
    bool known;
    uint64_t value;
} Number;

typedef struct Item {
    Number kind, operation, thread, start, end, bytes, correlation, agent, source, target, queue, stream, dispatched,
        shared, group[GRID_SIDES], grid[GRID_SIDES], pid, handle, type, gpu, units, wave, waves, version, symbol, vgprs,
        accum_vgprs, key;
    Piece host, product, name, mangled, demangled, value;
    VEC(Piece) operations; /* the list of this name */
} Item;

static const struct {
    Piece inside, key;
    size_t offset;
    bool text;
} members[] = {
#define NUMBER(inside, key, member) {PIECE(inside), PIECE(key), offsetof(Item, member), false},
#define TEXT(inside, key, member) {PIECE(inside), PIECE(key), offsetof(Item, member), true},
    MEMBERS(NUMBER, TEXT)
#undef NUMBER
#undef TEXT
};

/* An item on the way through its bytes: the key of the object around, its own. */
typedef struct Reading {
    const char *at, *end;
    Item *item;
} Reading;

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static void skip_blanks(Reading *reading)
{
    while (reading->at < reading->end && is_blank(*reading->at))
        reading->at++;
}

static bool skip_byte(Reading *reading, char c)
{
    skip_blanks(reading);
    if (reading->at == reading->end || *reading->at != c)
        return false;
    reading->at++;
    return true;
}

/* An item has no control characters in its texts and ends where its bytes do (find_item_end). */
static bool read_text(Reading *reading, Piece *ret)
{
    if (!skip_byte(reading, '"'))
        return false;
    ret->at = reading->at;
    for (; reading->at < reading->end && *reading->at != '"'; reading->at++)
        reading->at += *reading->at == '\\' && reading->at + 1 < reading->end;
    if (reading->at == reading->end)
        return false;
    ret->len = (size_t)(reading->at++ - ret->at);
    return true;
}

static bool ends_word(char c)
{
    return c == ',' || c == ':' || c == '"' || c == '{' || c == '}' || c == '[' || c == ']';
}

static bool read_word(Reading *reading, Piece *ret)
{
    ret->at = reading->at;
    while (reading->at < reading->end && !is_blank(*reading->at) && !ends_word(*reading->at))
        reading->at++;
    ret->len = (size_t)(reading->at - ret->at);
    return ret->len > 0;
}

static Number number_of(Piece piece)
{
    Number number = {0};

    number.known = number_parsen_u64(piece.at, piece.len, 0, UINT64_MAX, &number.value, NULL) == 0;
    return number;
}

/* `outermost`: a member of the item itself; what is in a list of objects is none though it has no key around it. */
static void note_member(Item *item, Piece inside, Piece key, bool outermost, Piece value)
{
    static const Piece list = PIECE("operations");

    if (is_same(inside, list)) {
        vec_push(&item->operations, value);
        return;
    }
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        void *member = (char *)item + members[i].offset;

        if (!is_same(key, members[i].key) || outermost != (members[i].inside.len == 0) ||
            !is_same(inside, members[i].inside))
            continue;
        if (members[i].text)
            *(Piece *)member = value;
        else
            *(Number *)member = number_of(value);
    }
}

/* A value and what is in it. A list's own key is that of the object around what it holds. False: no JSON. */
static bool read_value(Reading *reading, Piece inside, Piece key, unsigned int depth) /* NOLINT(misc-no-recursion) */
{
    Piece value;

    skip_blanks(reading);
    if (reading->at == reading->end || depth > DEPTH_MAX)
        return false;
    const char open = *reading->at;

    if (open != '{' && open != '[') {
        if (!(open == '"' ? read_text(reading, &value) : read_word(reading, &value)))
            return false;
        note_member(reading->item, inside, key, depth == 1, value);
        return true;
    }
    const char close = open == '{' ? '}' : ']';

    reading->at++;
    if (skip_byte(reading, close))
        return true;
    do {
        Piece name = {reading->at, 0};

        if (open == '{' && (!read_text(reading, &name) || !skip_byte(reading, ':')))
            return false;
        if (!read_value(reading, key, name, depth + 1))
            return false;
    } while (skip_byte(reading, ','));
    return skip_byte(reading, close);
}

/* ---- the file ---- */

typedef struct Symbol {
    Piece name;
    uint32_t registers;
} Symbol;

typedef struct Kind {
    Piece *operations;
    size_t len;
} Kind;

typedef struct Agent {
    int32_t device;
    uint64_t units, wave;
} Agent;

/* What is open, from the outside in. */
typedef enum Level { LEVEL_FILE, LEVEL_PROCESSES, LEVEL_PROCESS, LEVEL_GROUP, LEVEL_ITEMS } Level;

/* The object that a key stands in. */
typedef enum Group { GROUP_PROCESS, GROUP_STRINGS, GROUP_RECORDS } Group;

struct Rocprof {
    InflatePull pull;
    void *context;
    char *window;
    size_t at, len;  /* of the window: what is not read yet */
    uint64_t origin; /* the window's first byte in the file */
    bool file_ended, begun, cut;
    Err failure; /* of the source */

    Level level;
    Group group;
    const struct Section *section; /* whose items are read */

    MadeText made;
    bool listing; /* a list of events is open */

    /* names of the process */
    Arena arena;
    Map symbols, messages, agents; /* kernel_id to Symbol, correlation to Piece, handle to Agent; in the arena */
    VEC(Kind) kinds;
    bool kinds_lost; /* from the first damaged one on: they are told apart by their place alone */
    uint64_t pid, processes;
    int32_t gpus;

    Map devices; /* numbers that were written, of all processes */
    Item item;
};

typedef struct Section {
    Group group;
    const char *key;
    bool list; /* of items; else one item */
    void (*take)(Rocprof *rocprof);
    const char *first[2]; /* keys that an item begins with */
} Section;

static void init_names(Rocprof *rocprof)
{
    map_u64_init(&rocprof->symbols);
    map_u64_init(&rocprof->messages);
    map_u64_init(&rocprof->agents);
}

static void forget_names(Rocprof *rocprof)
{
    map_done(&rocprof->symbols);
    map_done(&rocprof->messages);
    map_done(&rocprof->agents);
    vec_clear(&rocprof->kinds);
    arena_reset(&rocprof->arena);
}

Rocprof *rocprof_new(InflatePull pull, void *context)
{
    Rocprof *rocprof = xcalloc(1, sizeof *rocprof);

    rocprof->pull = pull;
    rocprof->context = context;
    rocprof->window = xmalloc(WINDOW);
    str_init(&rocprof->made.text, TEXT_MAX);
    arena_init(&rocprof->arena, 0);
    init_names(rocprof);
    map_u64_init(&rocprof->devices);
    return rocprof;
}

void rocprof_free(Rocprof *rocprof)
{
    if (!rocprof)
        return;
    forget_names(rocprof);
    map_done(&rocprof->devices);
    vec_done(&rocprof->kinds);
    vec_done(&rocprof->item.operations);
    arena_done(&rocprof->arena);
    str_done(&rocprof->made.text);
    free(rocprof->window);
    free(rocprof);
}

uint64_t rocprof_given(const Rocprof *rocprof)
{
    return rocprof->made.given;
}

static Piece keep_piece(Rocprof *rocprof, Piece piece)
{
    char *kept = arena_alloc(&rocprof->arena, piece.len + 1);

    if (piece.len)
        memcpy(kept, piece.at, piece.len);
    return (Piece){kept, piece.len};
}

/* ---- text ---- */

static void write_piece(Rocprof *rocprof, Piece piece)
{
    str_addn(&rocprof->made.text, piece.at, piece.len);
}

static void write_number(Rocprof *rocprof, const char *before, uint64_t value)
{
    char digits[NUMBER_U64_MAX];

    str_add(&rocprof->made.text, before);
    str_addn(&rocprof->made.text, digits, number_write_u64(digits, value));
}

/* Nanoseconds as microseconds. */
static void write_time(Rocprof *rocprof, const char *before, uint64_t ns)
{
    const char digits[] = {'.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10), (char)('0' + ns % 10)};

    write_number(rocprof, before, ns / 1000);
    str_addn(&rocprof->made.text, digits, sizeof digits);
}

/* Members of the trace stand between lists of events, each with a comma behind. */
static void end_list(Rocprof *rocprof)
{
    if (rocprof->listing)
        str_add(&rocprof->made.text, "{\"ph\":\"M\"}],\n");
    rocprof->listing = false;
}

static void begin_list(Rocprof *rocprof)
{
    if (!rocprof->listing)
        str_add(&rocprof->made.text, "\"traceEvents\":[\n");
    rocprof->listing = true;
}

static void begin_event(Rocprof *rocprof, const char *category, Piece name)
{
    begin_list(rocprof);
    str_add(&rocprof->made.text, "{\"ph\":\"X\",\"cat\":\"");
    str_add(&rocprof->made.text, category);
    str_add(&rocprof->made.text, "\",\"name\":\"");
    write_piece(rocprof, name);
    str_addc(&rocprof->made.text, '"');
}

/* What is not known is left out: the reader of events says what is lost. */
static void write_times(Rocprof *rocprof)
{
    const Number start = rocprof->item.start, end = rocprof->item.end;

    if (start.known)
        write_time(rocprof, ",\"ts\":", start.value);
    if (start.known && end.known)
        write_time(rocprof, end.value < start.value ? ",\"dur\":-" : ",\"dur\":",
                   end.value < start.value ? start.value - end.value : end.value - start.value);
}

/* The event's last member. */
static void end_event(Rocprof *rocprof, const char *before)
{
    const uint64_t correlation = rocprof->item.correlation.value;

    write_number(rocprof, before, correlation ? (rocprof->processes << PROCESS_SHIFT) + correlation : 0);
    str_add(&rocprof->made.text, "}},\n");
}

/* ---- names ---- */

static void take_metadata(Rocprof *rocprof)
{
    rocprof->pid = rocprof->item.pid.value;
    if (!rocprof->item.host.len)
        return;
    end_list(rocprof);
    str_add(&rocprof->made.text, "\"host_name\":\"");
    write_piece(rocprof, rocprof->item.host);
    str_add(&rocprof->made.text, "\",\n");
}

static void write_device(Rocprof *rocprof, const Agent *agent)
{
    const Item *item = &rocprof->item;

    if (map_u64_put(&rocprof->devices, (uint64_t)agent->device + 1, rocprof))
        return;
    end_list(rocprof);
    write_number(rocprof, "\"deviceProperties\":[{\"id\":", (uint64_t)agent->device);
    str_add(&rocprof->made.text, ",\"name\":\"");
    write_piece(rocprof, item->product.len ? item->product : item->name);
    write_number(rocprof, "\",\"numSms\":", agent->units);
    write_number(rocprof, ",\"warpSize\":", agent->wave);
    write_number(rocprof, ",\"maxThreadsPerMultiprocessor\":", item->waves.value * agent->wave);
    write_number(rocprof, ",\"computeMajor\":", item->version.value / 10000);
    write_number(rocprof, ",\"computeMinor\":", item->version.value / 100 % 100);
    str_add(&rocprof->made.text, "}],\n");
}

/* Without a number of its own a GPU is numbered by its place in the list. */
static void take_agent(Rocprof *rocprof)
{
    const Item *item = &rocprof->item;

    if (!item->handle.known || item->type.value != AGENT_GPU)
        return;
    Agent *agent = arena_alloc(&rocprof->arena, sizeof *agent);

    *agent = (Agent){item->gpu.known && item->gpu.value < DEVICES_MAX ? (int32_t)item->gpu.value : rocprof->gpus,
                     item->units.value, item->wave.value};
    rocprof->gpus++;
    map_u64_put(&rocprof->agents, item->handle.value, agent);
    write_device(rocprof, agent);
}

static void take_kind(Rocprof *rocprof)
{
    const Item *item = &rocprof->item;
    Kind kind = {arena_alloc(&rocprof->arena, (item->operations.len + 1) * sizeof(Piece)), item->operations.len};

    for (size_t i = 0; i < kind.len; i++)
        kind.operations[i] = keep_piece(rocprof, item->operations.at[i]);
    if (!rocprof->kinds_lost)
        vec_push(&rocprof->kinds, kind);
}

static void take_message(Rocprof *rocprof)
{
    Piece *message = arena_alloc(&rocprof->arena, sizeof *message);

    *message = keep_piece(rocprof, rocprof->item.value);
    map_u64_put(&rocprof->messages, rocprof->item.key.value, message);
}

/* Not behind a backslash, which may belong to the first byte that would go. */
static void cut_end(Piece *name, const char *end)
{
    const size_t len = strlen(end);

    if (name->len > len && memcmp(name->at + name->len - len, end, len) == 0 && name->at[name->len - len - 1] != '\\')
        name->len -= len;
}

/* The symbol is that of the kernel's descriptor: ".kd" behind the kernel's own name. */
static void take_symbol(Rocprof *rocprof)
{
    const Item *item = &rocprof->item;
    Symbol *symbol = arena_alloc(&rocprof->arena, sizeof *symbol);

    symbol->name = keep_piece(rocprof, item->demangled.len ? item->demangled : item->mangled);
    symbol->registers = (uint32_t)(item->vgprs.value + item->accum_vgprs.value);
    cut_end(&symbol->name, " [clone .kd]");
    cut_end(&symbol->name, ".kd");
    map_u64_put(&rocprof->symbols, item->symbol.value, symbol);
}

/* ---- records ---- */

static Piece operation_name(const Rocprof *rocprof)
{
    const Number kind = rocprof->item.kind, operation = rocprof->item.operation;
    static const char unknown[] = "unknown call";

    if (kind.known && operation.known && kind.value < rocprof->kinds.len &&
        operation.value < rocprof->kinds.at[kind.value].len)
        return rocprof->kinds.at[kind.value].operations[operation.value];
    return (Piece){unknown, sizeof unknown - 1};
}

static void write_triple(Rocprof *rocprof, const char *before, const uint64_t sides[GRID_SIDES])
{
    write_number(rocprof, before, sides[0]);
    write_number(rocprof, ",", sides[1]);
    write_number(rocprof, ",", sides[2]);
    str_addc(&rocprof->made.text, ']');
}

/* A dispatch's grid counts work items. */
static void write_grid(Rocprof *rocprof, const Agent *agent)
{
    const Item *item = &rocprof->item;
    uint64_t grid[GRID_SIDES], group[GRID_SIDES];
    double groups = 1, items = 1;

    for (size_t i = 0; i < GRID_SIDES; i++) {
        group[i] = item->group[i].value;
        grid[i] = group[i] ? item->grid[i].value / group[i] + (item->grid[i].value % group[i] != 0) : 0;
        groups *= (double)grid[i];
        items *= (double)group[i];
    }
    write_triple(rocprof, ",\"grid\":[", grid);
    write_triple(rocprof, ",\"block\":[", group);
    if (groups > 0 && agent && agent->units && agent->wave)
        str_addf(&rocprof->made.text, ",\"blocks per SM\":%.9g,\"warps per SM\":%.9g", groups / (double)agent->units,
                 groups * __builtin_ceil(items / (double)agent->wave) / (double)agent->units);
}

/* A stream of HIP, where it is not recorded the queue. */
static void write_place(Rocprof *rocprof, const Agent *agent)
{
    const Number stream = rocprof->item.stream.known ? rocprof->item.stream : rocprof->item.queue;

    write_times(rocprof);
    str_add(&rocprof->made.text, ",\"args\":{");
    if (agent)
        write_number(rocprof, "\"device\":", (uint64_t)agent->device);
    if (stream.known)
        write_number(rocprof, agent ? ",\"stream\":" : "\"stream\":", stream.value);
    if (agent || stream.known)
        str_addc(&rocprof->made.text, ',');
}

static void take_kernel(Rocprof *rocprof)
{
    const Item *item = &rocprof->item;
    const Agent *agent = map_u64_get(&rocprof->agents, item->agent.value);
    const Symbol *symbol = map_u64_get(&rocprof->symbols, item->dispatched.value);
    char name[NUMBER_U64_MAX + sizeof "kernel "] = "kernel ";
    const size_t len = strlen(name) + number_write_u64(name + strlen(name), item->dispatched.value);

    begin_event(rocprof, "kernel", symbol ? symbol->name : (Piece){name, len});
    write_place(rocprof, agent);
    write_number(rocprof, "\"shared memory\":", item->shared.value);
    write_grid(rocprof, agent);
    if (symbol && symbol->registers)
        write_number(rocprof, ",\"registers per thread\":", symbol->registers);
    end_event(rocprof, ",\"correlation\":");
}

/* A copy between two GPUs is of the one that it comes from; one within the host is no GPU work. */
static void take_copy(Rocprof *rocprof)
{
    const Item *item = &rocprof->item;
    const Agent *source = map_u64_get(&rocprof->agents, item->source.value);
    const Agent *target = map_u64_get(&rocprof->agents, item->target.value);
    const char *name = "Memcpy";

    if (!source && !target && rocprof->agents.len)
        return;
    if (source && target)
        name = source == target ? "Memcpy DtoD" : "Memcpy PtoP";
    else if (source || target)
        name = source ? "Memcpy DtoH" : "Memcpy HtoD";
    begin_event(rocprof, "gpu_memcpy", (Piece){name, strlen(name)});
    write_place(rocprof, source ? source : target);
    if (item->bytes.known)
        write_number(rocprof, "\"bytes\":", item->bytes.value);
    end_event(rocprof, item->bytes.known ? ",\"correlation\":" : "\"correlation\":");
}

static void write_thread(Rocprof *rocprof)
{
    write_number(rocprof, ",\"pid\":", rocprof->pid);
    write_number(rocprof, ",\"tid\":", rocprof->item.thread.value);
    write_times(rocprof);
}

static void take_call(Rocprof *rocprof)
{
    begin_event(rocprof, "cuda_runtime", operation_name(rocprof));
    write_thread(rocprof);
    end_event(rocprof, ",\"args\":{\"correlation\":");
}

/* Ranges; a mark has no duration, and other calls of ROCTx have no message. */
static void take_marker(Rocprof *rocprof)
{
    const Item *item = &rocprof->item;
    const Piece *message = map_u64_get(&rocprof->messages, item->correlation.value);

    if (!message || (item->start.known && item->end.known && item->end.value == item->start.value))
        return;
    begin_event(rocprof, "user_annotation", *message);
    write_thread(rocprof);
    str_add(&rocprof->made.text, "},\n");
}

/* ---- the lists, and how far a value goes ---- */

static const Section sections[] = {
    {GROUP_PROCESS, "metadata", false, take_metadata, {NULL}},
    {GROUP_PROCESS, "agents", true, take_agent, {"size", "id"}},
    {GROUP_STRINGS, "buffer_records", true, take_kind, {"kind"}},
    {GROUP_STRINGS, "marker_api", true, take_message, {"key"}},
    {GROUP_PROCESS, "kernel_symbols", true, take_symbol, {"size", "kernel_id"}},
    {GROUP_RECORDS, "kernel_dispatch", true, take_kernel, {"size", "kind"}},
    {GROUP_RECORDS, "hip_api", true, take_call, {"size", "kind"}},
    {GROUP_RECORDS, "hsa_api", true, take_call, {"size", "kind"}},
    {GROUP_RECORDS, "marker_api", true, take_marker, {"size", "kind"}},
    {GROUP_RECORDS, "rccl_api", true, take_call, {"size", "kind"}},
    {GROUP_RECORDS, "memory_copy", true, take_copy, {"size", "kind"}},
};

/* Another block behind the bytes that are not read yet. False: there is none, or no room. */
static bool fill_window(Rocprof *rocprof)
{
    memmove(rocprof->window, rocprof->window + rocprof->at, rocprof->len - rocprof->at);
    rocprof->origin += rocprof->at;
    rocprof->len -= rocprof->at;
    rocprof->at = 0;
    if (rocprof->file_ended || WINDOW - rocprof->len < BLOCK)
        return false;
    const ssize_t n = rocprof->pull(rocprof->context, rocprof->window + rocprof->len, BLOCK, &rocprof->failure);

    if (n < 0)
        rocprof->failure.code = (int)n;
    rocprof->file_ended = n <= 0;
    rocprof->len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* The next byte that is no blank, not taken; 0 at the end. */
static char peek_byte(Rocprof *rocprof)
{
    for (;;) {
        while (rocprof->at < rocprof->len && is_blank(rocprof->window[rocprof->at]))
            rocprof->at++;
        if (rocprof->at < rocprof->len)
            return rocprof->window[rocprof->at];
        if (!fill_window(rocprof))
            return '\0';
    }
}

typedef enum Found { FOUND_END, FOUND_FAULT, FOUND_CUT } Found;

/* How far a value goes: a bracket to its partner, a text to its quote, a word to what is behind it. */
typedef struct Extent {
    unsigned int depth;
    bool quoted, escaped, begun;
} Extent;

/* Whether the value ends with `c` (1), before it (2), or not yet (0); -1: a text goes over the end of a line. */
static int step_extent(Extent *extent, char c)
{
    if (extent->quoted) {
        if (extent->escaped)
            extent->escaped = false;
        else if (c == '"')
            extent->quoted = false;
        else if ((unsigned char)c < ' ')
            return -1;
        else
            extent->escaped = c == '\\';
        return !extent->quoted && extent->depth == 0;
    }
    switch (c) {
    case '"':
        extent->quoted = true;
        break;
    case '{':
    case '[':
        extent->depth++;
        break;
    case '}':
    case ']':
        if (extent->depth == 0)
            return 2;
        return --extent->depth == 0;
    case ',':
        if (extent->depth == 0)
            return 2;
        break;
    default:
        break;
    }
    return 0;
}

/* The value at rocprof->at: *ret_len bytes of the window; none where it is only `skipped`. At a fault all but the last
 * byte of what was looked at is skipped. */
static Found find_extent(Rocprof *rocprof, bool skipped, size_t *ret_len)
{
    Extent extent = {0};
    size_t len = 0;

    for (;;) {
        for (; rocprof->at + len < rocprof->len; len++) {
            const int step = step_extent(&extent, rocprof->window[rocprof->at + len]);

            if (step > 0) {
                *ret_len = len + (step == 1);
                rocprof->at += skipped ? *ret_len : 0;
                return FOUND_END;
            }
            if (step < 0 || (!skipped && len == ITEM_MAX)) {
                rocprof->at += len;
                return FOUND_FAULT;
            }
        }
        if (skipped) {
            rocprof->at += len;
            len = 0;
        }
        if (!fill_window(rocprof))
            return FOUND_CUT;
    }
}

/* ---- damage ---- */

/* A key and a colon at `*at`, which becomes the place of what follows them. */
static bool match_key(const Rocprof *rocprof, size_t *at, const char *key)
{
    Reading reading = {rocprof->window + *at, rocprof->window + rocprof->len, NULL};
    Piece found;

    if (!read_text(&reading, &found) || !is_same(found, (Piece){key, strlen(key)}) || !skip_byte(&reading, ':'))
        return false;
    skip_blanks(&reading);
    *at = (size_t)(reading.at - rocprof->window);
    return true;
}

/* The beginning of an item of the section; the first of two keys has a number. */
static bool match_item(const Rocprof *rocprof, const Section *section)
{
    size_t at = rocprof->at + 1;

    if (!match_key(rocprof, &at, section->first[0]))
        return false;
    while (at < rocprof->len && rocprof->window[at] >= '0' && rocprof->window[at] <= '9')
        at++;
    at += at < rocprof->len && rocprof->window[at] == ',';
    return !section->first[1] || match_key(rocprof, &at, section->first[1]);
}

/* The beginning of a list that is read, of the open group or of the process. */
static bool match_list(Rocprof *rocprof)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        size_t at = rocprof->at;

        if (!sections[i].list || (sections[i].group != rocprof->group && sections[i].group != GROUP_PROCESS) ||
            !match_key(rocprof, &at, sections[i].key) || at == rocprof->len || rocprof->window[at] != '[')
            continue;
        rocprof->group = sections[i].group;
        return true;
    }
    size_t at = rocprof->at;

    if (!match_key(rocprof, &at, "buffer_records") || at == rocprof->len || rocprof->window[at] != '{')
        return false;
    rocprof->group = GROUP_PROCESS;
    return true;
}

/* Text that is no event, so that the reader of events counts and shows it. */
static void write_damage(Rocprof *rocprof)
{
    begin_list(rocprof);
    write_number(rocprof, "{\"ph\":\"X\",\"damaged at byte ", rocprof->origin + rocprof->at);
    str_add(&rocprof->made.text, " of the file\"},\n");
}

static void end_file(Rocprof *rocprof)
{
    rocprof->cut = rocprof->made.ended = true;
}

/* Goes on with the next item of the list, or with the next list. */
static void recover_reading(Rocprof *rocprof)
{
    write_damage(rocprof);
    if (rocprof->group == GROUP_STRINGS)
        rocprof->kinds_lost = true;
    for (rocprof->at++;; rocprof->at++) {
        if (rocprof->len - rocprof->at < AHEAD)
            fill_window(rocprof);
        if (rocprof->at == rocprof->len) {
            end_file(rocprof);
            return;
        }
        const char c = rocprof->window[rocprof->at];

        if (c == '{' && rocprof->level == LEVEL_ITEMS && match_item(rocprof, rocprof->section))
            return;
        if (c == '"' && match_list(rocprof)) {
            rocprof->level = rocprof->group == GROUP_PROCESS ? LEVEL_PROCESS : LEVEL_GROUP;
            return;
        }
    }
}

/* ---- from bytes to items ---- */

static void read_item(Rocprof *rocprof, const Section *section)
{
    Item *item = &rocprof->item;
    size_t len;
    const Found found = find_extent(rocprof, false, &len);

    if (found != FOUND_END) {
        (found == FOUND_CUT ? end_file : recover_reading)(rocprof);
        return;
    }
    Reading reading = {rocprof->window + rocprof->at, rocprof->window + rocprof->at + len, item};

    vec_clear(&item->operations);
    *item = (Item){.operations = {item->operations.at, 0, item->operations.cap}};
    if (read_value(&reading, (Piece){"", 0}, (Piece){"", 0}, 0) && reading.at == reading.end)
        section->take(rocprof);
    else
        write_damage(rocprof);
    rocprof->at += len;
}

static void skip_value(Rocprof *rocprof)
{
    size_t len;
    const Found found = find_extent(rocprof, true, &len);

    if (found != FOUND_END)
        (found == FOUND_CUT ? end_file : recover_reading)(rocprof);
}

/* Enters a group or a list, or reads what is one item. */
static void enter_value(Rocprof *rocprof, const char *key, char open)
{
    const bool group = rocprof->level == LEVEL_PROCESS && open == '{';

    if (rocprof->level == LEVEL_FILE && open == '[' && strcmp(key, "rocprofiler-sdk-tool") == 0) {
        rocprof->level = LEVEL_PROCESSES;
        rocprof->at++;
        return;
    }
    if (group && (strcmp(key, "strings") == 0 || strcmp(key, "buffer_records") == 0)) {
        rocprof->group = key[0] == 's' ? GROUP_STRINGS : GROUP_RECORDS;
        rocprof->level = LEVEL_GROUP;
        rocprof->at++;
        return;
    }
    for (size_t i = 0; i < sizeof sections / sizeof *sections && rocprof->level != LEVEL_FILE; i++) {
        const Section *section = &sections[i];

        if (section->group != rocprof->group || strcmp(section->key, key) != 0 || open != (section->list ? '[' : '{'))
            continue;
        if (!section->list) {
            read_item(rocprof, section);
            return;
        }
        rocprof->section = section;
        rocprof->level = LEVEL_ITEMS;
        rocprof->at++;
        return;
    }
    skip_value(rocprof);
}

static void read_member(Rocprof *rocprof)
{
    char key[KEY_MAX] = "";
    size_t len;
    const Found found = find_extent(rocprof, false, &len);

    if (found != FOUND_END) {
        (found == FOUND_CUT ? end_file : recover_reading)(rocprof);
        return;
    }
    if (len - 2 < sizeof key)
        memcpy(key, rocprof->window + rocprof->at + 1, len - 2);
    rocprof->at += len;
    if (peek_byte(rocprof) != ':') {
        recover_reading(rocprof);
        return;
    }
    rocprof->at++;
    enter_value(rocprof, key, peek_byte(rocprof));
}

static void begin_process(Rocprof *rocprof)
{
    forget_names(rocprof);
    init_names(rocprof);
    rocprof->kinds_lost = false;
    rocprof->pid = 0;
    rocprof->gpus = 0;
    rocprof->group = GROUP_PROCESS;
    rocprof->level = LEVEL_PROCESS;
    rocprof->at++;
}

/* The end of what is open. */
static void leave_level(Rocprof *rocprof)
{
    rocprof->at++;
    switch (rocprof->level) {
    case LEVEL_ITEMS:
        rocprof->level = rocprof->group == GROUP_PROCESS ? LEVEL_PROCESS : LEVEL_GROUP;
        break;
    case LEVEL_GROUP:
        rocprof->level = LEVEL_PROCESS;
        rocprof->group = GROUP_PROCESS;
        break;
    case LEVEL_PROCESS:
        rocprof->level = LEVEL_PROCESSES;
        rocprof->processes++;
        break;
    case LEVEL_PROCESSES:
        rocprof->level = LEVEL_FILE;
        break;
    case LEVEL_FILE:
        rocprof->made.ended = true;
    }
}

/* Reads on by a member or an item. */
static void read_on(Rocprof *rocprof)
{
    const bool list = rocprof->level == LEVEL_PROCESSES || rocprof->level == LEVEL_ITEMS;
    const char c = peek_byte(rocprof);

    if (c == '\0' && rocprof->at == rocprof->len)
        end_file(rocprof);
    else if (c == ',')
        rocprof->at++;
    else if (c == (list ? ']' : '}'))
        leave_level(rocprof);
    else if (c == '{' && rocprof->level == LEVEL_ITEMS)
        read_item(rocprof, rocprof->section);
    else if (c == '{' && rocprof->level == LEVEL_PROCESSES)
        begin_process(rocprof);
    else if (c == '"' && !list)
        read_member(rocprof);
    else
        recover_reading(rocprof);
}

static void write_begin(Rocprof *rocprof)
{
    rocprof->begun = true;
    str_add(&rocprof->made.text, "{\"rocprofv3\":true,\n");
    rocprof->at += peek_byte(rocprof) == '{';
}

static void write_end(Rocprof *rocprof)
{
    begin_list(rocprof);
    if (!rocprof->cut)
        str_add(&rocprof->made.text, "{\"ph\":\"M\"}]}\n");
}

/* The next part of the text, which may be empty. */
static void write_part(void *of)
{
    Rocprof *rocprof = of;

    if (!rocprof->begun)
        write_begin(rocprof);
    else
        read_on(rocprof);
    if (rocprof->made.ended)
        write_end(rocprof);
}

ssize_t rocprof_read(Rocprof *rocprof, void *buffer, size_t len, Err *err)
{
    const size_t got = made_text_read(&rocprof->made, write_part, rocprof, buffer, len);

    if (got == 0 && rocprof->failure.code)
        return err_set(err, rocprof->failure.code, "%s", rocprof->failure.text);
    return (ssize_t)got;
}
