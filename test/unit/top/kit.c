/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "test/unit/screen/print.h"

enum { LOOK_MAX = 64 << 20, BOOTED_BEFORE_S = 3 * 86400 };

static void fail(const char *what, const Err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    exit(3);
}

static void load(Kit *kit, const char *path)
{
    CLEANUP(str_done) Str packed;
    Err err = {0};

    str_init(&packed, KIT_RECORDING_MAX);
    str_init(&kit->text, KIT_RECORDING_MAX);
    if (file_read(path, KIT_RECORDING_MAX, &packed, &err) < 0)
        fail(path, &err);
    if (gzip_unpack(packed.text, packed.len, &kit->text, &err) < 0)
        fail(path, &err);
}

void kit_open(Kit *kit, const char *path, const TopOptions *options)
{
    const TopOptions none = {0};
    Err err = {0};

    memset(kit, 0, sizeof *kit);
    load(kit, path);
    kit->look = snapshot_buffer_new();
    kit->before = snapshot_buffer_new();
    kit->history = history_new(true);
    if (top_new(options ? options : &none, kit->history, &kit->top, &err) < 0)
        fail("top_new", &err);
    grid_init(&kit->grid, 100, 30, true);
    kit->feed = (FeedState){.kind = FEED_AGENT, .where = "agent", .play.speed = 1};
}

void kit_close(Kit *kit)
{
    top_free(kit->top);
    history_free(kit->history);
    snapshot_buffer_free(kit->look);
    snapshot_buffer_free(kit->before);
    grid_done(&kit->grid);
    str_done(&kit->text);
}

void kit_show(Kit *kit)
{
    top_see(kit->top, &kit->look->snapshot, &kit->feed);
}

bool kit_next(Kit *kit)
{
    const char *line = kit->text.text + kit->at;
    const size_t len = strcspn(line, "\n");
    SnapshotBuffer *before = kit->look;
    Err err = {0};

    if (len == 0)
        return false;
    kit->look = kit->before;
    kit->before = before;
    kit->at += len + (line[len] == '\n');
    if (snapshot_read(kit->look, line, len, &err) < 0)
        fail("snapshot_read", &err);
    Snapshot *snapshot = &kit->look->snapshot;
    if (snapshot->boot_real_ns == 0)
        snapshot->boot_real_ns = kit->look->node.real_ns - BOOTED_BEFORE_S * NS_PER_S;
    history_add(kit->history, snapshot->node, 0, UINT64_MAX);
    kit_show(kit);
    return true;
}

/* --- a past ------------------------------------------------------------------------------------------------------- */

static const Reading *reading_of(const Node *node, const Device *device)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        if (device_equal(&gpu->reading.device, device))
            return &gpu->reading;
        for (size_t k = 0; k < gpu->instance_count; k++)
            if (device_equal(&gpu->instances[k].device, device))
                return &gpu->instances[k];
    }
    return NULL;
}

static void fill(Kit *kit, const HistoryWant *want)
{
    const Reading *reading = reading_of(&kit->look->node, &want->device);
    double value;

    if (!reading || !sample_double(&reading->sample[want->metric], &value))
        return;
    for (unsigned s = 599; s > 0; s--) {
        const unsigned wave = (s + metric_get(want->metric)->dcgm_id * 17U) % 180;
        const float dip = s % 4 == 0 ? 0.8F : 1;
        const float mean = dip * (float)value * (1 - (float)(wave < 90 ? wave : 180 - wave) / 225);
        const uint64_t at = kit->look->node.real_ns - s * NS_PER_S;

        history_fill(kit->history, want, at, at + NS_PER_S, (PlotPoint){.min = mean, .mean = mean, .max = mean});
    }
}

void kit_past(Kit *kit)
{
    HistoryWant want;

    while (kit->look->snapshot.node && history_next_wanted(kit->history, &want)) {
        fill(kit, &want);
        history_end_fill(kit->history, &want);
    }
}

void kit_draw(Kit *kit, bool inks, Str *out)
{
    top_draw(kit->top, &kit->grid);
    kit_past(kit);
    top_draw(kit->top, &kit->grid);
    print_inks(&kit->grid, inks, out);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint32_t key;
} keys[] = {
    {"Up", TOP_KEY_UP},
    {"Down", TOP_KEY_DOWN},
    {"Left", TOP_KEY_LEFT},
    {"Right", TOP_KEY_RIGHT},
    {"PageUp", TOP_KEY_PAGE_UP},
    {"PageDown", TOP_KEY_PAGE_DOWN},
    {"Home", TOP_KEY_HOME},
    {"End", TOP_KEY_END},
    {"Enter", TOP_KEY_ENTER},
    {"Escape", TOP_KEY_ESCAPE},
    {"Tab", TOP_KEY_TAB},
    {"BackTab", TOP_KEY_BACK_TAB},
    {"Backspace", TOP_KEY_BACKSPACE},
    {"Space", ' '},
};

uint32_t kit_key(const char *name)
{
    uint32_t key = 0;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (strcmp(keys[i].name, name) == 0)
            return keys[i].key;
    if (name[0] == 'F' && name[1] >= '1' && name[1] <= '9')
        return TOP_KEY_F1 + (uint32_t)strtoul(name + 1, NULL, 10) - 1;
    if (utf8_read(name, strlen(name), &key) != strlen(name))
        return 0;
    return key;
}
