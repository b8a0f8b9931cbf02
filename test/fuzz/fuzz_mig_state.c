/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a checkpoint of MIG layouts, and a change that was cut off. What is taken can be written and read again.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "service/mig/mig_report.h"

enum { TEXT_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_node(MigNode *node)
{
    *node = (MigNode){.count = 2};
    for (unsigned i = 0; i < node->count; i++) {
        MigGpu *gpu = &node->gpus[i];
        *gpu = (MigGpu){.index = i,
                        .capable = true,
                        .board = {.name = "board",
                                  .profiles = {{.name = "1g.10gb", .slices = 1, .max = 7, .size = 1, .starts = 0x7f},
                                               {.name = "4g.40gb", .index = 3, .slices = 4, .max = 1, .size = 4}},
                                  .profile_count = 2}};
        memcpy(gpu->uuid, i ? "GPU-b" : "GPU-a", 6);
    }
}

static void check_change(const MigChange *change, const MigNode *node)
{
    static MigChange again;
    Str text = str_limited(TEXT_MAX);
    Err err = {0};
    mig_change_write(change, node, &text);
    assert(mig_change_read(text.text, text.len, node, &again, &err) == 0 && again.count == change->count);
    for (size_t i = 0; i < change->count; i++)
        assert(mig_layout_equal(&again.gpus[i].before, &change->gpus[i].before, true) &&
               mig_layout_equal(&again.gpus[i].after, &change->gpus[i].after, true));
    str_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static MigNode node;
    static MigChange change;
    MigLayout wanted[MIG_GPUS_MAX];
    bool asked[MIG_GPUS_MAX];
    Err err = {0};
    make_node(&node);
    if (mig_state_read((const char *)data, size, &node, wanted, asked, &err) == 0)
        assert(!asked[0] || wanted[0].count <= MIG_INSTANCE_MAX);
    else
        assert(err.text[0]);
    if (mig_change_read((const char *)data, size, &node, &change, &err) == 0)
        check_change(&change, &node);
    return 0;
}
