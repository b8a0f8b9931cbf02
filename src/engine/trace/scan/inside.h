/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of one scan, shared between the files of this folder. */

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "engine/trace/scan/scan.h"
#include "engine/trace/scan/walk.h"

typedef struct TraceScan TraceScan;

/* A fuzzer's tables are smaller: entries are evicted by few events, and little is made for each of its inputs. */
#ifndef SCAN_TABLES_SHARE
#define SCAN_TABLES_SHARE 1
#endif

enum {
    SCAN_HEAD_MAX = 32 << 20, /* without an event list until here it is no trace */
    SCAN_DURATION_DAYS = 7,   /* longer ones are overflows of the profiler's */

    /* bytes that are read and walked over at once: they stay in the second cache */
    SCAN_BLOCK = (256 << 10) / SCAN_TABLES_SHARE,
    /* slots of the caches that stand before the profile's own tables */
    NAME_CACHE = 4096 / SCAN_TABLES_SHARE,
    LANE_CACHE = 256 / SCAN_TABLES_SHARE,
    LAUNCH_CACHE = 512 / SCAN_TABLES_SHARE,
    LAUNCH_BYTES = 300,
    OP_CACHE = 512 / SCAN_TABLES_SHARE,
    NEEDS_CACHE = 1024 / SCAN_TABLES_SHARE,
};

/* --- values (value.c) ----------------------------------------------------------------------------------------------
 */

/* Eight bytes as a number, the first one lowest. */
static inline uint64_t value_eight_bytes(const char *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return le64toh(v);
}

/* What slices mean: numbers, times, texts. Pure. Eight bytes behind a slice must be readable (SCAN_PAD sees to it). */

/* Times are kept below this, so that a start and a duration can be added. */
#define TIME_MAX ((INT64_C(1) << 61) - 1)

/* An integer as a word or a text, decimal or 0x...; a fraction is cut off, 2^63..2^64-1 become negative, larger ones
 * do not count. False: something else. */
bool value_integer(const Slice *slice, int64_t *ret);

/* Microseconds, exactly: nanoseconds rounded to the nearest (half away from 0) and kept within TIME_MAX.
 * *ret_fraction becomes true where there are digits below a microsecond, and stays else. */
bool value_nanoseconds(const Slice *slice, int64_t *ret_ns, bool *ret_fraction);

/* A finite number; NaN otherwise. */
double value_double(const Slice *slice);

/* Up to three integers of a list, 0 for what is missing. */
void value_triple(const Slice *slice, uint32_t ret[3]);

/* The text of a slice without its escapes, at most `max` bytes; a wrong escape stays as it is. `room` holds at least
 * min(slice->len, max) + 4 bytes. Returns the length. A lone surrogate becomes its three bytes. */
size_t value_unescape(const Slice *slice, char *room, size_t max);

/* --- texts ------------------------------------------------------------------------------------------------------ */

typedef struct NameEntry {
    const char *raw; /* as in the file; lives as long as the profile or the cache */
    uint32_t len, name;
    SliceKind kind;
    uint32_t generation; /* an entry of an earlier one is none */
} NameEntry;

/* --- ids -------------------------------------------------------------------------------------------------------- */

typedef enum WideField { WIDE_GPU_LINK, WIDE_GPU_EXTERNAL, WIDE_HOST_LINK, WIDE_SYNC_LINK, WIDE_SYNC_WAIT } WideField;

/* An id that does not fit 32 bits and the row that it belongs to; gets its number at the end. */
typedef struct Wide {
    uint64_t id; /* first: the list is sorted by it */
    size_t row;
    WideField field;
} Wide;

typedef VEC(Wide) Wides;

/* Gives each wide id a number that no other id has, in the order of ids, and writes it into the rows.
 * `learn` (may be NULL) hears of the numbers. */
void wides_number(Wides *wides, Profile *profile, TraceKnown *learn);

/* --- begin and end ---------------------------------------------------------------------------------------------- */

typedef struct ThreadKey {
    int64_t pid, tid;
    uint32_t pid_name, tid_name;
} ThreadKey;

/* Half an event. */
typedef struct Half {
    ThreadKey thread;
    bool begin;
    bool wanted; /* by the options, but for its time */
    int64_t time;
    uint64_t byte;
    ProfileEvent event; /* of a begin; lane is set at the end where it is a thread's */
    bool on_gpu;
    int64_t link, external; /* as in the text, 0 none */
} Half;

typedef VEC(Half) Halves;

/* Pairs begins with ends and adds them. */
void halves_pair(TraceScan *scan);

/* --- labels ----------------------------------------------------------------------------------------------------- */

typedef enum LabelKind { LABEL_THREAD, LABEL_PROCESS } LabelKind;

/* A metadata event of a thread or a process. Texts are the profile's names until the scan ends. */
typedef struct Label {
    ThreadKey thread; /* of a process: tid 0 */
    LabelKind kind;
    uint32_t text;
    uint64_t order;
} Label;

typedef VEC(Label) Labels;

/* Gives lanes their names. Of labels of one kind the last one of each thread or process is left. */
void labels_apply(Labels *labels, Profile *profile);

/* --- events that only their process's name makes GPU work -------------------------------------------------------- */

/* The details of such an event, as texts until the end of the scan shows whether it is GPU work. */
typedef struct Bare {
    size_t row; /* of the host table */
    uint32_t kernel, copy;
    float occupancy; /* < 0: unknown */
    uint32_t registers;
} Bare;

typedef VEC(Bare) Bares;

/* Notes the details of the current event, which becomes the next row of the host table. */
void bare_note(TraceScan *scan);

/* Moves the rows of threads that are a GPU's streams according to `known` to the GPU's tables, turns rows that
 * launched into calls, and drops lines that repeat the streams. After labels_apply. */
void bares_resolve(TraceScan *scan, const TraceKnown *known);

/* --- the scan --------------------------------------------------------------------------------------------------- */

typedef enum ScanState {
    SCAN_TOP,  /* among the members of the object around the list, before or behind it */
    SCAN_LIST, /* between events */
    SCAN_LOST, /* behind a fault: looking for a place to go on */
} ScanState;

/* Key of a cache: the bytes of a process and a thread, or of a device and a stream, if both are short. */
typedef struct PlaceEntry {
    uint64_t text[2];
    uint32_t forms; /* lengths and kinds; 0: no entry */
    uint32_t lane;
} PlaceEntry;

/* A launch: the part of the event that holds all its values, as bytes of the file. Longer ones are not cached. */
typedef struct LaunchEntry {
    uint32_t launch;
    uint32_t forms;      /* kinds of the values, with a bit on top of each one present */
    uint32_t generation; /* as in NameEntry */
    uint16_t len;
    bool in_graph;
    char text[LAUNCH_BYTES];
} LaunchEntry;

typedef struct OpEntry {
    uint32_t dims, types, arguments, op;
    bool used;
} OpEntry;

/* What stands before the profile's own tables: a trace repeats few texts millions of times. */
typedef struct Caches {
    uint32_t generation; /* grows with each profile; an entry of an earlier one is none */
    NameEntry name[NAME_CACHE];
    Arena raw;  /* of those names that are not in the profile as they stand in the file */
    char *room; /* to take escapes off in */
    struct {    /* entries of one profile, which the next one begins without */
        PlaceEntry place[LANE_CACHE];
        OpEntry op[OP_CACHE];
        uint32_t needs[NEEDS_CACHE]; /* 1 + 2 * name, and 1 more where that operator's arguments are kept; 0: none */
    } own;
    LaunchEntry launch[LAUNCH_CACHE];
    uint32_t copy_name; /* PROFILE_NONE: none yet */
    ProfileCopy copy;   /* its parsed words */
} Caches;

void caches_init(Caches *caches);
void caches_done(Caches *caches);
void caches_forget(Caches *caches); /* begins with another profile */

/* What the scans of one thread hand on: learned edges, and memory. */
typedef struct ScanTools {
    Walk *walk;
    Caches caches;
} ScanTools;

/* Where a scan is in its text: buffer[0] is byte `origin`; bytes before `at` are consumed. */
typedef struct ScanText {
    char *buffer;
    size_t len, cap, at;
    uint64_t origin;
    size_t wait; /* goes on only when there are so many bytes behind `at` */
    bool final;

    ScanState state;
    size_t lost_skip; /* SCAN_LOST: bytes behind `at` already looked at */

    /* How far a damaged event may be followed: bytes looked at in vain are paid from it, progress earns it back. So
     * the work is bounded by a fixed multiple of the text's length. */
    int64_t credit;
    uint64_t credit_at; /* the byte up to which progress was counted */

    /* parts of a text: where the next one begins, and whether the scan arrived between two events there; UINT64_MAX */
    uint64_t stop, arrived;
} ScanText;

struct TraceScan {
    Profile *profile;
    TraceScanOptions options;
    WalkEvent *walk_event;
    Walk *walk;
    Caches *caches;
    ScanTools *own; /* walk and caches of a scan that was lent none */
    Wides wides;
    Halves halves;
    Labels labels;
    Bares bares;
    bool bare_links; /* rows of no kind may have a correlation */

    ScanText text;

    /* The bytes between two events, with the '{' of the second one: up to eight. */
    uint64_t gap, gap_mask;
    unsigned int gap_len; /* 0: not known */

    bool began;       /* the first byte was looked at */
    bool listed;      /* an event list was found */
    bool bare;        /* ... an array that is all of the text */
    bool object;      /* an object is open around the list */
    bool object_told; /* `object` was seen by this scan, not taken over */
    bool fraction;    /* digits below a microsecond */
    bool timed;       /* any time at all */

    uint64_t raw_byte; /* of the current event */
};

/* Adds the event whose values are in scan->walk; `text` is its bytes in the file. */
void event_add(TraceScan *scan, const char *text, size_t len, uint64_t byte);

void scan_free(TraceScan *scan); /* accepts NULL */

/* -ENOSPC over memory_max. */
int scan_check_memory(const TraceScan *scan, Err *err);

/* Walks on as far as the bytes reach. 0; -ENOSPC over memory_max; -EBADMSG as soon as it is clear that this is no trace
 * at all (neither an object nor an array, or no event list within the first megabytes). */
int scan_run(TraceScan *scan, Err *err);

/* The end of the text: pairs begins and ends, notes what is cut. -EBADMSG where no event list was found. */
int scan_finish(TraceScan *scan, Err *err);

ScanTools *scan_tools_new(void);
void scan_tools_free(ScanTools *tools); /* accepts NULL */
CLEANUP_POINTER(ScanTools, scan_tools_free);

/* A scan from the beginning of a text. `options` may be NULL, `tools` too: its own. It borrows tools for as long as it
 * runs; one scan at a time has them. */
TraceScan *scan_new_head(Profile *into, const TraceScanOptions *options, ScanTools *tools);

/* A scan that begins within the event list, at byte `origin` of the text, with tools as above. */
TraceScan *scan_new_part(Profile *into, const TraceScanOptions *options, uint64_t origin, ScanTools *tools);

/* The room behind the buffered bytes, at least one block; scan_filled sets how much of it was used. */
char *scan_room(TraceScan *scan, size_t *ret_len);
void scan_filled(TraceScan *scan, size_t len);

/* Gives a new scan its text, and the allocation of cap + SCAN_PAD bytes that holds it. */
void scan_give(TraceScan *scan, char *text, size_t len, size_t cap);

/* --- damaged text (scan.c) ---------------------------------------------------------------------------------------- */

/* The next place in [from, end) that looks like the beginning of an event: '{', a key that only events have, ':'; not
 * the value of a key. Looks back as far as `origin`. NULL: none. */
const char *scan_find_event(const char *from, const char *end, const char *origin);

/* --- around the list (about.c) ------------------------------------------------------------------------------------ */

/* A member of the object around the list. */
void about_read(TraceScan *scan, const Slice *key, const Slice *value);

/* TraceKnown within this folder: filled at the end of one scan, asked by another one. Texts are its own. */

/* What the rows of a thread are. */
typedef enum LaneUse { LANE_HOST, LANE_OPERATIONS, LANE_STEPS, LANE_REPEATS } LaneUse;

typedef struct KnownPlace {
    LaneUse use;
    int32_t device;
    int64_t stream; /* -1 unknown */
} KnownPlace;

/* A thread by numbers, or by texts where it has none (NULL: the number). */
typedef struct KnownThread {
    int64_t pid, tid;
    const char *pid_text, *tid_text;
} KnownThread;

/* A process that is a GPU; `streams`: some of its threads are called streams. */
typedef struct KnownDevice {
    KnownThread process; /* first: the list is sorted by it */
    int32_t device;
    bool streams;
} KnownDevice;

/* A named thread of such a process. */
typedef struct KnownLane {
    KnownThread thread; /* first: the list is sorted by it */
    const char *label;
} KnownLane;

typedef struct KnownId {
    uint64_t id; /* first: the list is sorted by it */
    uint32_t number;
} KnownId;

/* A begin or an end that has its other half: what both make together. */
typedef struct KnownHalf {
    uint64_t byte; /* first: the list is sorted by it */
    int64_t start, duration;
    ProfileKind kind;
    int32_t device; /* of what ran on a GPU */
    int64_t stream;
    int64_t link; /* as in the text, 0 none */
} KnownHalf;

struct TraceKnown {
    Arena arena;
    VEC(KnownDevice) devices;
    VEC(KnownLane) lanes;
    VEC(KnownId) ids;
    VEC(KnownHalf) halves;
};

/* Copies what a scan has learned, after labels_apply. */
void known_learn(TraceKnown *known, const TraceScan *scan);

/* A thread of the profile by its texts, which are the profile's. */
KnownThread thread_known(const Profile *profile, const ThreadKey *key);

/* What a thread is, HOST where its process is no GPU. */
KnownPlace known_place(const TraceKnown *known, const KnownThread *thread);

/* The thread or stream of an event, and its ids. */

/* The thread of the current event by pid and tid; 0 for a missing one. */
ThreadKey thread_key(TraceScan *scan);
uint32_t thread_lane(TraceScan *scan, const ThreadKey *key);
uint32_t event_thread(TraceScan *scan); /* of the current event */

/* The event's device and stream: its args, else pid and tid; -1 where neither is a number. */
int32_t gpu_device(TraceScan *scan);
int64_t gpu_stream(TraceScan *scan);
uint32_t event_stream(TraceScan *scan);

/* The id in a slot as the text has it: 0 where there is none. */
int64_t id_in(const TraceScan *scan, Slot slot);

uint32_t id_of(TraceScan *scan, Slot slot, WideField field, size_t row);

/* What an earlier reading knows: the number of an id, 0 none; what the half at a byte became, NULL nothing. */
uint32_t id_known(const TraceScan *scan, int64_t id);
const KnownHalf *half_known(const TraceScan *scan, uint64_t byte);

static inline bool has_slot(const TraceScan *scan, Slot slot)
{
    return scan->walk->present & SLOT_BIT(slot);
}

static inline const Slice *slice_of(const TraceScan *scan, Slot slot)
{
    return &scan->walk->slot[slot];
}

static inline bool slice_is(const Slice *slice, const char *text)
{
    return slice->len == strlen(text) && memcmp(slice->at, text, slice->len) == 0;
}

/* A number in a slot, `none` if there is none. */
static inline int64_t number_of(const TraceScan *scan, Slot slot, int64_t none)
{
    int64_t value;

    return has_slot(scan, slot) && value_integer(slice_of(scan, slot), &value) ? value : none;
}

/* The name of a slot's text, PROFILE_NONE if missing; a bare word counts as text, except null. */
uint32_t name_of(TraceScan *scan, Slot slot);

/* An event's args beyond its time: launches, copies, operators, collectives, synchronisation, memory. */

/* Which times are kept. */

#define DURATION_MAX (INT64_C(86400) * 1000000000 * SCAN_DURATION_DAYS)

/* [start, start + duration) touches the window; an instant lies in it. */
static inline bool window_touches(const TraceScanOptions *options, int64_t start, int64_t duration)
{
    if (options->from == 0 && options->to == 0)
        return true;
    return start < options->to && (start >= options->from || start + duration > options->from);
}
