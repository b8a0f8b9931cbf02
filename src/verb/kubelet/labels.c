/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker kubelet labels`: once, and then it ends. `stoker kubelet` starts it when something changed, so that a driver
 * that hangs holds up neither devices nor health. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/file.h"
#include "verb/kubelet/kubelet.h"

enum { LABELS_MAX_BYTES = 256 << 10, LINE_MAX_BYTES = 4096 };
#define TIMESTAMP "nvidia.com/gfd.timestamp="

/* The first line of a file below `root`; "" where it cannot be read. */
static const char *read_line(const char *root, const char *path, Arena *arena)
{
    CLEANUP(str_done) Str text = str_limited(LINE_MAX_BYTES);

    if (file_read(arena_printf(arena, "%s%s", root, path), LINE_MAX_BYTES, &text, NULL) < 0)
        return "";
    return arena_strndup(arena, text.text, strcspn(text.text, "\n"));
}

/* PCI class 0x0300 is a display controller, 0x0302 a 3D one. */
static const char *find_mode(const Node *node, const char *root, Arena *arena)
{
    const char *mode = NULL;

    for (size_t i = 0; i < node->gpu_count; i++) {
        const Device *gpu = &node->gpus[i].reading.device;
        char pci[PCI_TEXT_CAP];
        const char *class = read_line(
            root, arena_printf(arena, "/sys/bus/pci/devices/%s/class", pci_format(gpu->pci, PCI_FORM_SYSFS, pci)),
            arena);
        const char *here = strncmp(class, "0x0300", 6) == 0   ? "graphics"
                           : strncmp(class, "0x0302", 6) == 0 ? "compute"
                                                              : "unknown";

        if (mode && strcmp(mode, here) != 0)
            return "unknown";
        mode = here;
    }
    return mode ? mode : "unknown";
}

static int make_labels(VerbCall *call, const KubeletSettings *settings, Str *out)
{
    const KubeletOptions *o = &settings->o;
    CLEANUP(kubelet_made_done) KubeletMade made = {0};
    Offer offer = {0};

    TRY(kubelet_made_read(call, o, &made));
    offer_make(&made.now->snapshot, &settings->offer, NULL, 0, &offer);
    kubelet_judge_mps(NULL, o->mps_root, &made.now->snapshot, &offer);
    const LabelHost host = {.machine = read_line(o->root, o->machine_file, call->arena),
                            .mode = find_mode(&made.now->node, o->root, call->arena),
                            .real_s = o->no_timestamp ? 0 : clock_real(clock_kernel()) / NS_PER_S,
                            .physical = o->physical,
                            .mig = made.mig};
    offer_labels(&made.now->snapshot, made.make, &settings->offer, &offer, &host, out);
    offer_done(&offer);
    return 0;
}

/* The text without the line of the time. */
static void add_timeless(const Str *text, Str *out)
{
    const char *at = strstr(text->text, TIMESTAMP), *end = at ? strchr(at, '\n') : NULL;

    str_addn(out, text->text, at ? (size_t)(at - text->text) : text->len);
    if (end)
        str_add(out, end + 1);
}

/* Writes the file if it says anything else than before, but for the time. */
static int keep_file(const char *path, const Str *labels, Err *err)
{
    CLEANUP(str_done)
    Str there = str_limited(LABELS_MAX_BYTES), before = str_limited(LABELS_MAX_BYTES),
        now = str_limited(LABELS_MAX_BYTES);

    if (file_read(path, LABELS_MAX_BYTES, &there, NULL) == 0) {
        add_timeless(&there, &before);
        add_timeless(labels, &now);
        if (strcmp(before.text, now.text) == 0)
            return 0;
    }
    return file_write(path, labels->text, labels->len, 0644, err);
}

int kubelet_labels_run(VerbCall *call, const void *options UNUSED)
{
    CLEANUP(kubelet_settings_free_at) KubeletSettings *settings = NULL;
    CLEANUP(str_done) Str labels = str_limited(LABELS_MAX_BYTES);

    if (kubelet_settings_load(call, NULL, &settings, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (make_labels(call, settings, &labels) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (!settings->o.features_file) {
        fwrite(labels.text, 1, labels.len, stdout);
        return verb_end(call, EXIT_FINE);
    }
    return keep_file(settings->o.features_file, &labels, &call->err) < 0 ? verb_fail(call, EXIT_UNKNOWN) : EXIT_FINE;
}
