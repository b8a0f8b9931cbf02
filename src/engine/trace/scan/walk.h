/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Walking over one event: finds where its values lie, in one pass. A writer always puts the same bytes between two
 * values ('", "name": "'), so the walk learns them: a node is a key, an edge the bytes from the end of its value to
 * the beginning of the next one. Where an edge matches, no byte of it is looked at again; where none does,
 * learn_step reads the bytes by the grammar, and both give the same result. Values that are often the same ("ph": "X",
 * a process, a block of threads) become part of longer edges, in which their places are known. The only thing
 * that an edge can change is the time taken.
 *
 * The grammar is JSON, where a value may also be any bare word (NaN, N/A), a text may hold any byte and any escape,
 * and brackets are counted but not told apart inside values that are walked over. What is not in it is a WALK_FAULT.
 *
 * Pads: SCAN_PAD bytes behind `end` must be readable. Results never depend on them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCAN_PAD = 320 };

typedef enum SliceKind { SLICE_TEXT, SLICE_ESCAPED, SLICE_WORD, SLICE_NEST } SliceKind;

/* What follows an edge other than a value: the event's end; a key that no edge knows. */
enum { BEHIND_END = SLICE_NEST + 1, BEHIND_UNKNOWN };

/* A value as it stands in the text: what is between the quotes (ESCAPED: there is a backslash in it), a bare word
 * (numbers, true, null), an array or object with its brackets. */
typedef struct Slice {
    const char *at;
    uint32_t len;
    SliceKind kind;
} Slice;

/* Where the values of key.def are put, in its order: members of "args" behind SLOT_ARGS. */
typedef enum Slot {
#define KEY(level, name, value) SLOT_##value,
#define ALIAS(level, name, value)
#include "engine/trace/scan/key.def"
#undef ALIAS
#undef KEY
    SLOT_SKIP = 63, /* the value of any other key */
    SLOT_COUNT
} Slot;

#define SLOT_BIT(slot) (UINT64_C(1) << (slot))
#define SLOTS_EVENT (SLOT_BIT(SLOT_ARGS + 1) - 1) /* those that are not in "args" */

enum {
    EDGE_BYTES = 256,
    EDGE_BLOCK = 64, /* EDGE_BYTES are whole ones */
    EDGES = 10,      /* of one node; the least used one is evicted */
    EDGES_FIRST = 2, /* that there is room for */
    CONSTANTS = 12,  /* values within an edge */
    OFTEN = 4,
    NODES = 256,
    NODE_NONE = 0,  /* in the table */
    NODE_START = 1, /* before an event's '{' */
    NODE_EVENT = 2, /* behind a value of a key that was not learned, in the event or in its args */
    NODE_ARGS = 3,
    NODE_TABLE = 1024,
    TRAIL_STEPS = 48,
    FUSE_SOON = 4, /* events between two samples, while the text is new */
    USES_FIRST = 16,
    USES_MAX = 64
};

/* Where a step leads. */
typedef struct Step {
    struct Node *next; /* the value's key */
    uint64_t keep;     /* slots that stay valid: "args" opened again forgets the earlier ones */
    uint16_t advance;  /* bytes up to the value */
    uint8_t slot, kind;
} Step;

/* A value that is part of an edge. */
typedef struct Constant {
    uint32_t at;
    uint32_t slot;
    uint32_t len;
    SliceKind kind;
} Constant;

/* What came behind an edge lately: a value, and the edge behind it. */
typedef struct Often {
    uint32_t hash, count;
} Often;

typedef struct Edge {
    Step step;
    uint64_t add;  /* slots of its constants and of the value behind it */
    uint64_t mask; /* a bit for each byte of the last block of text */
    uint16_t len;  /* bytes that must be equal: up to the value, and the bracket of a NEST */
    uint8_t constants;
    uint8_t uses;
    char text[EDGE_BYTES] __attribute__((aligned(64)));
    Constant constant[CONSTANTS];
    Often often[OFTEN];
} Edge;

typedef struct Node {
    uint8_t edges, cap, slot;
    bool args; /* the key stands in "args" */
    uint16_t len;
    const char *key; /* as in the text, owned by the walk */
    Edge *edge;      /* behind the last one stands one without text, which always matches: BEHIND_UNKNOWN */
    void *room;      /* what they lie in; NULL: there are none yet */
} Node;

/* The way through one event. */
typedef struct Trail {
    struct {
        const char *from; /* where the edge begins */
        uint8_t node, edge, kind;
    } step[TRAIL_STEPS];
    unsigned int steps; /* TRAIL_STEPS and more: too long */
    bool learned;       /* edges have moved */
} Trail;

typedef struct Walk {
    Slice slot[SLOT_COUNT];
    uint64_t present;          /* bits of the slots that were found */
    const char *after;         /* behind the event; after a WALK_FAULT, as far as it got */
    Step slow;                 /* one that no edge knows */
    unsigned int until, pause; /* events until the next one that is looked at for longer edges, and between two */
    unsigned int nodes;
    uint8_t table[NODE_TABLE]; /* hash of (level, key) -> node */
    void *room;                /* what it lies in */
    Edge unknown;              /* of nodes without edges */
    Node node[NODES];
} Walk;

typedef enum WalkResult { WALK_DONE, WALK_MORE, WALK_FAULT } WalkResult;

/* An event that begins at `p` ('{'), in text that goes up to `end`: slot, present and after are set where it is
 * WALK_DONE. WALK_MORE: it does not end before `end`. */
typedef WalkResult WalkEvent(Walk *walk, const char *p, const char *end);

/* The ways to walk of this build, best first, and whether this processor can go them. */
typedef struct Walker {
    const char *name;
    WalkEvent *event;
    bool (*usable)(void);
} Walker;

WalkEvent walk_event_avx2, walk_event_neon, walk_event_plain;
bool walk_always_usable(void);
extern const Walker walkers[];
extern const size_t walkers_count;

Walk *walk_new(void);
void walk_free(Walk *walk);

/* One step by the grammar: from the end of a value of `node` (for NODE_START: from '{') to the beginning of the next
 * value, behind the quote of a text. Learns it. After a WALK_FAULT *p is near it, after WALK_MORE where it was. */
WalkResult learn_step(Walk *walk, Node *node, const char **p, const char *end, Step *ret);

/* Samples a walked event: makes longer edges of frequent values. */
void fuse(Walk *walk, const Trail *trail);

/* Reader for the rare cases. Returns the position behind the value, NULL if `end` came first or at a fault, which
 * *ret_fault is near (otherwise NULL). */
const char *walk_value(const char *p, const char *end, Slice *ret, const char **ret_fault);

/* A byte of a bare word: letters, digits and _ + - . / */
static inline bool walk_word_byte(char c)
{
    const unsigned char letter = (unsigned char)(c | 0x20);

    return (letter >= 'a' && letter <= 'z') || (c >= '+' && c <= '9' && c != ',') || c == '_';
}

static inline bool walk_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
