/* SPDX-License-Identifier: Apache-2.0 */
#include "service/top/gpus_row.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "service/top/value.h"

void gpu_number(Grid *grid, Area cell, const GpuRow *row)
{
    const uint32_t index = row->gpu->reading.device.index;
    const bool wrong = row->wrong && row->severity > SEVERITY_INFO;
    char text[16] = "?";

    if (index != DEVICE_NO_NUMBER)
        snprintf(text, sizeof text, "%" PRIu32, index);
    const Ink ink = wrong ? severity_ink(row->severity) : row->gpu->state == GPU_UP ? INK_STRONG : INK_WARN;
    if (wrong)
        grid_text(grid, cell, 0, 0, ink, ">");
    grid_right(grid, cell, cell.width, 0, ink, text);
}

const char *gpu_down(const Top *top, const NodeGpu *gpu, char out[TOP_TEXT_CAP * 2])
{
    const uint64_t now = top->snapshot->node->time_ns;
    char age[32], word[32];
    size_t i = 0;

    for (const char *key = gpu_state_key(gpu->state); key[i] && i + 1 < sizeof word; i++)
        word[i] = key[i] == '_' ? ' ' : (char)toupper((unsigned char)key[i]);
    word[i] = '\0';
    if (gpu->state_since_ns > 0 && now > gpu->state_since_ns)
        snprintf(out, TOP_TEXT_CAP * 2, "%s for %s", word, text_age(now - gpu->state_since_ns, age));
    else
        snprintf(out, TOP_TEXT_CAP * 2, "%s", word);
    return out;
}

static bool in_maintenance(const Top *top, const GpuRow *row)
{
    const Maintenance *maintenance = top->snapshot->maintenance;

    return maintenance && maintenance_covers(maintenance, &row->gpu->reading.device);
}

/* Nothing is wrong: what it does. */
static const char *quiet_note(const Top *top, const GpuRow *row, Ink *ret_ink)
{
    const char *throttle = value_throttle(row->reading, ret_ink);

    if (in_maintenance(top, row)) {
        *ret_ink = INK_WARN;
        return "maintenance";
    }
    if (row->gpu->drained) {
        *ret_ink = INK_WARN;
        return "drained";
    }
    if (*ret_ink == INK_BAD)
        return throttle;
    if (value_spins(row->reading)) {
        *ret_ink = INK_WARN;
        return "little work";
    }
    if (value_use(row->gpu) == USE_HELD) {
        *ret_ink = INK_WARN;
        return "only held";
    }
    return throttle;
}

const char *gpu_note(const Top *top, const GpuRow *row, char out[TOP_TEXT_CAP * 2], Ink *ret_ink)
{
    out[0] = '\0';
    *ret_ink = INK_DIM;
    if (row->instance) {
        gpu_owner(top, row, out);
    } else if (row->incident) {
        *ret_ink = severity_ink(row->incident->severity);
        snprintf(out, TOP_TEXT_CAP * 2, "%s: %s", row->incident->class, fault_actions[row->incident->action].key);
    } else if (row->wrong) {
        const char *text = strstr(row->wrong, ": ");
        *ret_ink = severity_ink(row->severity);
        snprintf(out, TOP_TEXT_CAP * 2, "%s", text ? text + 2 : row->wrong);
    } else {
        snprintf(out, TOP_TEXT_CAP * 2, "%s", quiet_note(top, row, ret_ink));
    }
    return out;
}

const char *gpu_owner(const Top *top, const GpuRow *row, char out[TOP_TEXT_CAP])
{
    const OwnerTable *owners = top->snapshot->owners;
    size_t count = 0;

    out[0] = '\0';
    for (size_t i = 0; owners && i < owners->len; i++)
        if (owner_device_is(&owners->at[i].device, &row->gpu->reading, row->instance ? row->reading : NULL) &&
            count++ == 0)
            snprintf(out, TOP_TEXT_CAP, "%.40s/%.50s", owners->at[i].namespace, owners->at[i].pod);
    if (count > 1)
        snprintf(out + strlen(out), TOP_TEXT_CAP - strlen(out), " +%zu", count - 1);
    for (size_t i = 0; !out[0] && i < row->gpu->process_count; i++) {
        const NodeProcess *p = &row->gpu->processes[i];

        if (row->instance && (p->gpu_instance != row->reading->device.gpu_instance ||
                              p->compute_instance != row->reading->device.compute_instance))
            continue;
        owner_label(process_list_find(&top->snapshot->processes, p->pid), out);
    }
    return out;
}

const char *instance_name(const Reading *reading, char out[TOP_TEXT_CAP])
{
    const Device *d = &reading->device;

    if (d->compute_instance != DEVICE_NO_NUMBER)
        snprintf(out, TOP_TEXT_CAP, "%s %" PRIu32 "/%" PRIu32, reading->profile, d->gpu_instance, d->compute_instance);
    else
        snprintf(out, TOP_TEXT_CAP, "%s", reading->profile);
    return out;
}
