/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * MIG layouts: which instances fit beside each other on one GPU, and how to get from one layout to another while as
 * little as possible is destroyed. Pure: what the driver reports about profiles and placements goes in, a plan comes
 * out; nothing here calls a driver. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/yaml.h"
#include "model/mig.h"

/* --- board.c: profiles and names ---------------------------------------------------------------------------------- */

/* The profile of a name such as "3g.40gb" or "1c.3g.40gb", exactly as the board's driver names it; *ret_compute is the
 * number of slices of the compute instance (that of the profile without "Nc."). NULL with a reason in *err: the name
 * has no such form (-EINVAL), or the board has no such profile (-ENOENT, with the names that are nearest). */
const MigProfile *mig_profile_find(const MigBoard *board, const char *name, uint8_t *ret_compute, Err *err);

/* The name of a compute instance in an instance: "1c.3g.40gb", or "3g.40gb" where it has all slices. */
void mig_compute_name(const MigBoard *board, const MigInstance *instance, uint8_t slices, Str *to);

/* Adds `count` MIG devices of one name to a wanted layout. Compute instances smaller than their GPU instance share one
 * while it has slices. -ENOSPC: more than a GPU can have. */
int mig_layout_add(const MigBoard *board, MigLayout *wanted, const char *name, unsigned count, Err *err);

/* "4 x 1g.10gb, 3g.40gb", by profile, without placements; "no instances"; "MIG disabled". */
void mig_layout_text(const MigBoard *board, const MigLayout *layout, Str *to);
/* Its compute instances as mig_layout_word has them. */
void mig_layout_devices(const MigBoard *board, const MigLayout *layout, char to[MIG_LAYOUT_CAP]);

/* Same instances at the same places; `places` false: wherever they are. */
bool mig_layout_equal(const MigLayout *a, const MigLayout *b, bool places);

/* --- plan.c ------------------------------------------------------------------------------------------------------- */

typedef enum MigOutcome {
    MIG_POSSIBLE,
    MIG_TOO_MANY,     /* more of one profile than the board allows */
    MIG_NO_ENGINES,   /* more decoders, encoders, JPEG or OFA engines than there are */
    MIG_NO_SLICES,    /* more compute slices than there are */
    MIG_NO_PLACEMENT, /* no way to put them beside each other */
    MIG_NOT_KNOWN,    /* placements of a profile are not known */
} MigOutcome;

/* What happens to one GPU. Indices are into the current layout, `create` has placements. Order of the work: compute
 * instances and then instances of `destroy` in its order, then `create` in its order, each followed by its compute
 * instances, then those of kept instances. */
typedef struct MigPlan {
    MigOutcome outcome;
    bool mode_change; /* MIG mode goes on or off first */
    size_t keep_count, destroy_count, create_count;
    uint8_t keep[MIG_INSTANCE_MAX]; /* identical placements: not touched but for compute instances */
    uint8_t destroy[MIG_INSTANCE_MAX];
    MigInstance create[MIG_INSTANCE_MAX];
    uint32_t recompute; /* bit i: the compute instances of current instance i (kept) are made anew ... */
    MigInstance after[MIG_INSTANCE_MAX]; /* ... as in after[i] */
    size_t blocked_count;                /* instances that a process uses and that the plan destroys or changes */
    uint8_t blocked[MIG_INSTANCE_MAX];
    char reason[160]; /* why it is not possible; "" where it is */
} MigPlan;

/* Chooses a place for each wanted instance and what of `now` stays. Of all ways the one that destroys the fewest
 * instances in use, then the fewest instances, then changes the fewest compute instances, then leaves the most
 * placements of large profiles free; then the lowest starts. Always the same answer to the same question. */
void mig_plan(const MigBoard *board, const MigLayout *now, const MigLayout *wanted, MigPlan *ret);

/* The same for a GPU as a driver reports it: a mode that waits for a reset and is not the wanted one is set back too.
 */
void mig_plan_gpu(const MigGpu *gpu, const MigLayout *wanted, MigPlan *ret);

/* Whether there is a way to place all instances of a layout. */
bool mig_layout_fits(const MigBoard *board, const MigLayout *layout);

/* How many more instances of one profile could be made beside those of `now`, which stay where they are. 0 where
 * placements are not known. */
unsigned mig_count_free(const MigBoard *board, const MigLayout *now, uint8_t profile);

/* Placements that profiles of more than one memory slice could take beside the `used` slices: how many of each size, at
 * MIG_GRID_MAX less the size. Of two ways the one is better that keeps more of the largest size, then of the next. */
void mig_count_placements(const MigBoard *board, uint32_t used, uint8_t ret[MIG_GRID_MAX + 1]);

/* The layout that stands when the plan was carried out, with placements, by start. */
void mig_plan_result(const MigLayout *now, const MigPlan *plan, bool enabled, MigLayout *ret);

/* Up to `max` layouts that are possible and as near to `wanted` as can be: with the fewest instances taken away, and
 * then, of these, with the most compute slices and memory left. Returns how many. */
size_t mig_nearest(const MigBoard *board, const MigLayout *wanted, MigLayout *ret, size_t max);

/* --- tables.c: profiles of boards, for planning without a GPU (data/mig/boards.yaml) --------------------------------
 */

enum { MIG_DEVICES_MAX = 8 };

typedef struct MigTable {
    MigBoard board;
    const char *verified; /* "measured", "inferred" or "unverified" */
    size_t device_count;
    uint32_t devices[MIG_DEVICES_MAX]; /* PCI device and vendor, as 0x233010DE */
} MigTable;

/* Reads all boards of a document. They lie in the arena, and so does the text of `root`. */
int mig_tables_read(const YamlNode *root, Arena *arena, const MigTable **ret_tables, size_t *ret_count, Err *err);

/* --- request.c: wanted layouts, from a file or the command line ------------------------------------------------------
 */

enum { MIG_FILTERS_MAX = 32, MIG_NAMES_MAX = 24 };

/* One line of a request: some GPUs and what they shall have. */
typedef struct MigEntry {
    const char *where; /* for messages: "config.yaml:7:5", or the word of the command line */
    bool all;          /* every GPU, else those of `gpus` (bit i: index i) or the one of `uuid` */
    uint64_t gpus;
    const char *uuid;    /* or NULL */
    size_t filter_count; /* 0: any board */
    struct {
        uint32_t device, subsystem; /* 0: any subsystem */
    } filters[MIG_FILTERS_MAX];
    bool enabled;
    bool balanced; /* the layout that has some of each size, instead of names */
    size_t name_count;
    struct {
        const char *name;
        unsigned count;
    } names[MIG_NAMES_MAX];
} MigEntry;

typedef struct MigRequest {
    const char *name; /* of the configuration in the file; "" without */
    const MigEntry *entries;
    size_t count;
} MigRequest;

/* What an entry is compared with. */
typedef struct MigTarget {
    unsigned index;
    const char *uuid;
    uint32_t device, subsystem; /* PCI ids as in MigTable.devices */
} MigTarget;

/* The configuration `name` of a file in mig-parted's format v1; NULL: the only one. Unknown keys, other versions,
 * counts that are no numbers and everything that mig-parted's own reader refuses are errors with their place. -ENOENT:
 * the file has no such configuration, and the message lists those it has. The result lies in the arena. */
int mig_request_read(const YamlNode *root, const char *name, Arena *arena, MigRequest *ret, Err *err);

/* Words such as "gpu0=3g.40gb+4g.40gb", "all=7x1g.10gb", "GPU-...=none", "gpu1=off", "all=balanced". */
int mig_request_parse(const char *const *words, size_t count, Arena *arena, MigRequest *ret, Err *err);

typedef enum MigMeant {
    MIG_NOT_MEANT,
    MIG_MEANT_AS_ANY,  /* as one of all, or of all of a board */
    MIG_MEANT_BY_NAME, /* by its index or UUID */
} MigMeant;

/* How the request means a GPU that could not be read: one whose board is not known (device 0) may be of any board. */
MigMeant mig_request_means(const MigRequest *request, const MigTarget *gpu);
/* The UUID of an entry that is none of these GPUs'; NULL. */
const char *mig_request_stranger(const MigRequest *request, const MigTarget *gpus, size_t count);

/* The layout that the request wants of a GPU. 1: it says nothing of this GPU. -EINVAL: two entries speak of it, or a
 * name is no profile's; -ENOENT: its board has no such profile; -ENOSPC. */
int mig_request_resolve(const MigRequest *request, const MigTarget *gpu, const MigBoard *board, MigLayout *ret,
                        Err *err);
