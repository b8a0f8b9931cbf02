/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Series of who holds each device, by engine/owner, with the labels of the device's other series: of so many holdings as
 * the configuration allows, as an owner is a new one with each job or pod. Pure, one thread.
 */
#include "service/prometheus/page.h"

#include <math.h>

#include "base/cleanup.h"
#include "base/number.h"

static void add_identity(Line *line, const Page *page, const Holding *holding)
{
    const Device *gpu = &page->node->gpus[holding->gpu].reading.device;
    const Owner *owner = &holding->owner;

    if (holding->gpu_instance != DEVICE_NO_NUMBER)
        line_add_number(line, "GPU_I_ID", holding->gpu_instance);
    line_add(line, "UUID", gpu->uuid);
    line_add(line, "account", owner->account);
    if (holding->compute_instance != DEVICE_NO_NUMBER)
        line_add_number(line, "compute_instance", holding->compute_instance);
    line_add(line, "container", owner->container);
    if (gpu->index != DEVICE_NO_NUMBER)
        line_add_number(line, "gpu", gpu->index);
    line_add(line, "hpc_job", owner->job);
    line_add(line, "namespace", owner->namespace);
    line_add(line, "pod", owner->pod);
}

/* How many have series: those of the first devices. */
static size_t count_shown(const Page *page)
{
    return number_min_u64(page->input->snapshot->holding_count, page->config->owners_max);
}

static void write_owners(Page *page, const Family *family,
                         double (*value)(const Holding *holding, const char **ret_label))
{
    for (size_t i = 0; i < count_shown(page); i++) {
        const Holding *holding = &page->input->snapshot->holdings[i];
        const char *label = "";
        const double number = value(holding, &label);
        Line line = {.len = 0};

        add_identity(&line, page, holding);
        line_add(&line, "attribution", label);
        line_add(&line, "user", holding->owner.user);
        page_line(page, family, NULL, &line, number);
    }
}

static double read_share(const Holding *holding, const char **ret_label)
{
    *ret_label = attributions[holding->attribution].key;
    return holding->share;
}

static double read_memory(const Holding *holding, const char **ret_label)
{
    (void)ret_label;
    return (double)holding->memory_bytes;
}

static double read_idle(const Holding *holding, const char **ret_label)
{
    (void)ret_label;
    return holding->state == HOLDING_IDLE_HELD || holding->state == HOLDING_RESERVED;
}

static double read_unmanaged(const Holding *holding, const char **ret_label)
{
    (void)ret_label;
    return holding->state == HOLDING_UNMANAGED;
}

static void write_shares(Page *page, const Family *family)
{
    write_owners(page, family, read_share);
}

static void write_memory(Page *page, const Family *family)
{
    write_owners(page, family, read_memory);
}

static void write_idle(Page *page, const Family *family)
{
    write_owners(page, family, read_idle);
}

static void write_unmanaged(Page *page, const Family *family)
{
    write_owners(page, family, read_unmanaged);
}

static void write_left_out(Page *page, const Family *family)
{
    page_value(page, family, NULL, (double)(page->input->snapshot->holding_count - count_shown(page)));
}

const OwnFamily own_owner_families[] = {
    {"stoker_owner_idle", COUNTER_GAUGE, "Whether the owner holds the device and nothing of it runs there",
     .write = write_idle},
    {"stoker_owner_memory_bytes", COUNTER_GAUGE, "Memory of the device that the owner's processes use",
     .write = write_memory},
    {"stoker_owner_share", COUNTER_GAUGE, "The owner's share of the device; those of one device sum to 1",
     .write = write_shares},
    {"stoker_owner_unmanaged", COUNTER_GAUGE, "Whether the owner is on a device that it was not given",
     .write = write_unmanaged},
    {"stoker_owners_left_out", COUNTER_GAUGE, "Owners of devices beyond the number that may have series",
     .write = write_left_out},
};
const size_t own_owner_family_count = ARRAY_LEN(own_owner_families);
