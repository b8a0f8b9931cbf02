/* SPDX-License-Identifier: Apache-2.0 */
/* See watch.h. A GPU is its UUID. */
#include "engine/mig/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/str.h"
#include "base/vec.h"

typedef struct Watched {
    char uuid[DEVICE_UUID_CAP];
    char known[MIG_LAYOUT_CAP]; /* "" not yet */
    char seen[MIG_LAYOUT_CAP];  /* at the last tick; "" not known */
    uint64_t seen_ns;           /* since when */
    bool recalled;              /* `known` is of an agent that ran before */
    bool told;                  /* `known` is what an apply said: the first layout seen after it is no change */
    bool changing;              /* an apply has begun and not said that it ended: `notice` */
    MigNotice notice;
} Watched;

struct MigWatch {
    MigWatchSink sink;
    VEC(Watched) gpus;
};

const WordRow mig_notices[] = {MIG_NOTICE_TABLE(WORD_ROW)};

/* --- notices ------------------------------------------------------------------------------------------------------ */

void mig_notice_write(const MigNotice *notice, const char *uuid, Str *to)
{
    str_addf(to, "%s %s %s %s %s %u %s ", mig_notices[notice->kind].key, uuid, notice->before, notice->after,
             notice->who, notice->pid, notice->verb);
    for (const char *at = notice->why; *at; at++)
        str_addc(to, (unsigned char)*at < ' ' || *at == 0x7f ? ' ' : *at);
}

static bool copy_word(char *to, size_t size, const char *word)
{
    return strlen(word) < size && snprintf(to, size, "%s", word) > 0;
}

int mig_notice_read(const char *const *words, size_t count, MigNotice *ret, const char **ret_uuid, Err *err)
{
    MigNotice notice = {.kind = MIG_NOTICE_BEGUN};
    uint64_t pid;
    size_t len = 0;

    const int kind = count >= 7 ? word_find(mig_notices, MIG_NOTICE_END, words[0]) : -1;

    if (kind < 0 || strlen(words[1]) >= DEVICE_UUID_CAP || !copy_word(notice.before, sizeof notice.before, words[2]) ||
        !copy_word(notice.after, sizeof notice.after, words[3]) ||
        !copy_word(notice.who, sizeof notice.who, words[4]) ||
        number_parse_u64(words[5], 1, INT32_MAX, &pid, NULL) < 0 ||
        !copy_word(notice.verb, sizeof notice.verb, words[6]))
        return err_set(err, -EINVAL,
                       "mig: begun|applied|put-back|partial|undone UUID BEFORE AFTER WHO PID VERB WHY...");
    notice.kind = (MigNoticeKind)kind;
    notice.pid = (uint32_t)pid;
    for (size_t i = 7; i < count && len < sizeof notice.why; i++)
        len += (size_t)snprintf(notice.why + len, sizeof notice.why - len, "%s%s", i > 7 ? " " : "", words[i]);
    *ret = notice;
    *ret_uuid = words[1];
    return 0;
}

/* --- the GPUs ----------------------------------------------------------------------------------------------------- */

MigWatch *mig_watch_new(const MigWatchSink *sink)
{
    MigWatch *watch = xcalloc(1, sizeof *watch);

    watch->sink = *sink;
    return watch;
}

void mig_watch_free(MigWatch *watch)
{
    if (!watch)
        return;
    vec_done(&watch->gpus);
    free(watch);
}

static Watched *find_watched(MigWatch *watch, const char *uuid)
{
    for (size_t i = 0; i < watch->gpus.len; i++)
        if (strcmp(watch->gpus.at[i].uuid, uuid) == 0)
            return &watch->gpus.at[i];
    Watched *gpu = vec_add(&watch->gpus);
    snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
    return gpu;
}

void mig_watch_recall(MigWatch *watch, const char *uuid, const char *layout)
{
    Watched *gpu = find_watched(watch, uuid);

    gpu->recalled = layout[0] != '\0';
    snprintf(gpu->known, sizeof gpu->known, "%s", layout);
}

static void set_known(const MigWatch *watch, Watched *gpu, const char *layout, const char *change, uint32_t pid)
{
    const bool news = change || strcmp(gpu->known, layout) != 0;

    gpu->recalled = false;
    snprintf(gpu->known, sizeof gpu->known, "%s", layout);
    if (news)
        watch->sink.known(watch->sink.self, gpu->uuid, gpu->known, change, pid);
}

enum { CHANGE_MAX = 2 * MIG_LAYOUT_CAP + MIG_WHO_CAP + MIG_VERB_CAP + MIG_WHY_SIZE + 100 };

static void describe_notice(const MigNotice *notice, const char *result, char to[CHANGE_MAX])
{
    snprintf(to, CHANGE_MAX, "%s -> %s, %s by %s (stoker mig %s, pid %u)%s%s", notice->before, notice->after, result,
             notice->who, notice->verb, notice->pid, notice->why[0] ? ": " : "", notice->why);
}

void mig_watch_tell(MigWatch *watch, const char *uuid, const MigNotice *notice)
{
    Watched *gpu = find_watched(watch, uuid);
    const bool stays = notice->kind == MIG_NOTICE_PUT_BACK;
    char text[CHANGE_MAX];

    gpu->changing = notice->kind == MIG_NOTICE_BEGUN;
    gpu->notice = *notice;
    if (gpu->changing)
        return;
    describe_notice(notice, mig_notices[notice->kind].text, text);
    gpu->told = true;
    gpu->seen[0] = '\0'; /* what was seen until now may be older */
    set_known(watch, gpu, stays ? notice->before : notice->after, text, notice->pid);
}

/* A layout that has settled differs from the known one. */
static void report_change(const MigWatch *watch, Watched *gpu)
{
    const bool cut_off = gpu->changing;
    char text[CHANGE_MAX], layout[MIG_LAYOUT_CAP];

    memcpy(layout, gpu->seen, sizeof layout);
    if (cut_off) {
        snprintf(gpu->notice.before, sizeof gpu->notice.before, "%s", gpu->known);
        memcpy(gpu->notice.after, layout, sizeof layout);
        describe_notice(&gpu->notice, "begun and cut off", text);
    } else
        snprintf(text, sizeof text, "%s -> %s, %s", gpu->known, layout,
                 gpu->recalled ? "while no agent ran" : "not by stoker");
    set_known(watch, gpu, layout, text, cut_off ? gpu->notice.pid : 0);
}

static void watch_gpu(MigWatch *watch, Watched *gpu, const char *layout, uint64_t now_ns)
{
    if (strcmp(gpu->seen, layout) != 0) {
        snprintf(gpu->seen, sizeof gpu->seen, "%s", layout);
        gpu->seen_ns = now_ns;
    }
    if (!layout[0] || now_ns - gpu->seen_ns < MIG_SETTLE_NS ||
        (gpu->changing && watch->sink.runs(watch->sink.self, gpu->notice.pid)))
        return;
    if (!gpu->known[0] || gpu->told || strcmp(gpu->known, layout) == 0)
        set_known(watch, gpu, layout, NULL, 0);
    else
        report_change(watch, gpu);
    gpu->told = gpu->changing = false;
}

void mig_watch_tick(MigWatch *watch, const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        if (gpu->reading.device.uuid[0])
            watch_gpu(watch, find_watched(watch, gpu->reading.device.uuid), gpu->state == GPU_UP ? gpu->mig_layout : "",
                      node->time_ns);
    }
}
