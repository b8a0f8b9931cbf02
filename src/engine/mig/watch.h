/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * When the MIG layout of a GPU changed, and by whom: compares the layout of each GPU (NodeGpu.mig_layout) with the last
 * one that is known, also of the time before a restart. A layout counts once it has stood still for MIG_SETTLE_NS; one
 * that is not known (the GPU hangs, is lost or released) is no change. `stoker mig apply` says what it changes:
 * between its "begun" and its end nothing is reported but by itself. Pure; one thread.
 */

#include "base/duration.h"
#include "base/err.h"
#include "base/str.h"
#include "model/node.h"

#define MIG_SETTLE_NS (3 * NS_PER_S)

enum { MIG_WHO_CAP = 64, MIG_VERB_CAP = 16 };

/* WORD(id, key, text): what `stoker mig apply` or `restore` says about one GPU. */
#define MIG_NOTICE_TABLE(WORD)                                                                                         \
    WORD(MIG_NOTICE_BEGUN, "begun", "begun")                                                                           \
    WORD(MIG_NOTICE_APPLIED, "applied", "applied")                                                                     \
    WORD(MIG_NOTICE_PUT_BACK, "put-back", "failed and put back")                                                       \
    WORD(MIG_NOTICE_PARTIAL, "partial", "failed and left half done")                                                   \
    WORD(MIG_NOTICE_UNDONE, "undone", "cut off earlier and now undone")

typedef enum MigNoticeKind { MIG_NOTICE_TABLE(WORD_ID) MIG_NOTICE_END } MigNoticeKind;
extern const WordRow mig_notices[MIG_NOTICE_END];

typedef struct MigNotice {
    MigNoticeKind kind;
    char before[MIG_LAYOUT_CAP], after[MIG_LAYOUT_CAP]; /* what stood, what was wanted; of UNDONE: what stands now */
    char who[MIG_WHO_CAP];                              /* the user */
    char verb[MIG_VERB_CAP];                            /* of `stoker mig` */
    uint32_t pid;
    char why[MIG_WHY_SIZE]; /* --reason or the configuration, and what failed; "" nothing */
} MigNotice;

/* "KIND UUID BEFORE AFTER WHO PID VERB [WHY...]" without newline, as the words of the control socket; back from such
 * words. -EINVAL. `uuid` is borrowed from the words. */
void mig_notice_write(const MigNotice *notice, const char *uuid, Str *to);
int mig_notice_read(const char *const *words, size_t count, MigNotice *ret, const char **ret_uuid, Err *err);

typedef struct MigWatch MigWatch;

/* What the watch finds out, for its owner. */
typedef struct MigWatchSink {
    /* The layout that is known now; `change`: the text of the event about it, NULL where it is none. `pid`: who changed
     * it, 0 not known. */
    void (*known)(void *self, const char *uuid, const char *layout, const char *change, uint32_t pid);
    bool (*runs)(void *self, uint32_t pid); /* whether this process still runs */
    void *self;
} MigWatchSink;

MigWatch *mig_watch_new(const MigWatchSink *sink);
void mig_watch_free(MigWatch *watch); /* accepts NULL */

/* The layout that was known when the agent last ran. */
void mig_watch_recall(MigWatch *watch, const char *uuid, const char *layout);
void mig_watch_tell(MigWatch *watch, const char *uuid, const MigNotice *notice);
void mig_watch_tick(MigWatch *watch, const Node *node);
