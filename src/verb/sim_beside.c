/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/sim_beside.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "sim/core/control.h"

enum { BOOT_US = 100 * 1000 * 1000 }; /* the machine had been up for so long when the scenario began */

static int tree_start(Beside *b, const BesideOptions *o, const char *image_path, Arena *arena, Err *err)
{
    const char *slash = strrchr(image_path, '/');
    b->tree_root = o->tree;
    if (!b->tree_root) {
        b->tree_dir = slash ? arena_strndup(arena, image_path, (size_t)(slash - image_path)) : ".";
        b->tree_own = arena_printf(arena, "%s.tree", slash ? slash + 1 : image_path);
        b->tree_root = arena_printf(arena, "%s/%s", b->tree_dir, b->tree_own);
    }
    return node_tree_write(b->image, b->tree_root, sim_clock_now(b->image),
                           NODE_TREE_DEVICES | (o->boot_now ? NODE_TREE_BOOT_NOW : 0), &b->tree, err);
}

/* Of a tree it is the device's own place, begun anew. */
static int log_in_tree(const Beside *b, Arena *arena, const char **ret, Err *err)
{
    *ret = arena_printf(arena, "%s/dev/kmsg", b->tree_root);
    TRY(file_make_dirs(arena_printf(arena, "%s/dev", b->tree_root), 0755, err));
    if (unlink(*ret) < 0 && errno != ENOENT)
        return err_errno(err, "remove '%s'", *ret);
    return 0;
}

static int log_start(Beside *b, const BesideOptions *o, Arena *arena, Err *err)
{
    KernelLogSpec spec = {.path = o->kernel_log, .format = (KernelLogFormat)o->kernel_log_format, .boot_us = BOOT_US};
    if (!spec.path) {
        spec.format = KERNEL_LOG_KMSG;
        TRY(log_in_tree(b, arena, &spec.path, err));
    } else if (strcmp(o->kernel_log, "kmsg") == 0) {
        spec.path = "/dev/kmsg";
        spec.format = KERNEL_LOG_DEVICE;
    }
    b->logs = true;
    return kernel_log_open(&b->log, b->image, &spec, err);
}

int beside_start(Beside *b, const BesideOptions *o, SimImage *image, const char *image_path, Arena *arena, Err *err)
{
    memset(b, 0, sizeof *b);
    b->image = image;
    if (o->tree || o->enter || !o->no_tree)
        TRY(tree_start(b, o, image_path, arena, err));
    if (o->kernel_log || (b->tree_root && !o->enter))
        TRY(log_start(b, o, arena, err));
    if (o->processes) {
        lend_start(&b->lend, image);
        b->lends = true;
    }
    return beside_tend(b, err);
}

int beside_tend(Beside *b, Err *err)
{
    uint64_t now = sim_clock_now(b->image);
    int rc = 0, first = 0;
    if (b->lends && (rc = lend_update(&b->lend, now, err)) < 0)
        first = rc;
    if (b->tree_root && (rc = node_tree_update(&b->tree, now, first ? NULL : err)) < 0 && !first)
        first = rc;
    if (b->logs && (rc = kernel_log_write(&b->log, now, NULL, first ? NULL : err)) < 0 && !first)
        first = rc;
    return first;
}

void beside_stop(Beside *b)
{
    if (b->lends)
        lend_stop(&b->lend);
    if (b->logs)
        kernel_log_done(&b->log);
    if (b->tree_own)
        file_remove_tree(b->tree_dir, b->tree_own, NULL);
}
