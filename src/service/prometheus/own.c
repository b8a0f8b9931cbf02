/* SPDX-License-Identifier: Apache-2.0 */
/* Our own families of the node, its samplers and this program. What is not known is left out. Pure, one thread. */

#include "service/prometheus/own.h"

#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/owner.h"
#include "service/prometheus/page.h"

enum { NUMBER_TEXT_MAX = 24 };

static double scaled(const OwnFamily *own, uint64_t value)
{
    return own->scale > 0 ? (double)value / own->scale : (double)value;
}

static uint64_t number_at(const void *of, size_t at)
{
    uint64_t number;

    memcpy(&number, (const char *)of + at, sizeof number);
    return number;
}

/* ---- of this program ---- */

static void self_number(Page *page, const Family *family)
{
    if (page->self)
        page_plain(page, family, scaled(family->own, number_at(page->self, family->own->at)));
}

/* A 0 means that it could not be read. */
static void self_known(Page *page, const Family *family)
{
    if (page->self && number_at(page->self, family->own->at))
        self_number(page, family);
}

static void build_info(Page *page, const Family *family)
{
    const Label label = {.name = "version", .value = page->self ? page->self->version : NULL};

    if (label.value)
        page_labelled(page, family, &label, 1, 1);
}

static void config_fine(Page *page, const Family *family)
{
    if (page->self)
        page_plain(page, family, page->self->config_fine);
}

static bool pods_on(const Page *page)
{
    return page->self && page->self->pods_state && strcmp(page->self->pods_state, "off") != 0;
}

static void pods_state(Page *page, const Family *family)
{
    if (page->self && page->self->pods_state)
        page_labelled(page, family, &(Label){.name = "state", .value = page->self->pods_state}, 1, 1);
}

static void pods_number(Page *page, const Family *family)
{
    if (pods_on(page))
        self_number(page, family);
}

static void pods_age(Page *page, const Family *family)
{
    if (pods_on(page) && page->self->pods_age_ns != UINT64_MAX)
        self_number(page, family);
}

/* ---- of the node ---- */

static void node_count(Page *page, const Family *family)
{
    uint32_t count;

    memcpy(&count, (const char *)page->node + family->own->at, sizeof count);
    page_plain(page, family, count);
}

static void node_number(Page *page, const Family *family)
{
    page_plain(page, family, scaled(family->own, number_at(page->node, family->own->at)));
}

static void released(Page *page, const Family *family)
{
    page_plain(page, family, page->node->release_until_ns != 0);
}

static void driver_up(Page *page, const Family *family)
{
    page_plain(page, family, page->node->driver_why[0] == '\0');
}

/* ---- samplers ---- */

static void sampler_states(Page *page, const Family *family)
{
    size_t count[SAMPLER_STATE_END] = {0};

    for (size_t i = 0; i < page->node->sampler_count; i++)
        count[page->node->samplers[i].state]++;
    for (SamplerState state = SAMPLER_STARTING; state < SAMPLER_STATE_END; state++)
        page_labelled(page, family, &(Label){.name = "state", .value = sampler_state_key(state)}, 1,
                      (double)count[state]);
}

static void sampler_stuck(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->node->sampler_count; i++) {
        const NodeSampler *sampler = &page->node->samplers[i];
        char slot[NUMBER_TEXT_MAX], bus_id[PCI_TEXT_CAP];
        Label labels[4];
        size_t count = 0;
        PciAddress pci;

        if (sampler->state < SAMPLER_STUCK)
            continue;
        snprintf(slot, sizeof slot, "%zu", i);
        if (sampler->function[0])
            labels[count++] = (Label){.name = "function", .value = sampler->function};
        if (sampler->gpu[0]) {
            bool form = pci_parse(sampler->gpu, &pci) == 0;

            labels[count++] =
                (Label){.name = "pci_bus_id", .value = form ? pci_format(pci, PCI_FORM_NVML, bus_id) : sampler->gpu};
        }
        labels[count++] = (Label){.name = "slot", .value = slot};
        if (sampler->wchan[0])
            labels[count++] = (Label){.name = "wchan", .value = sampler->wchan};
        page_labelled(page, family, labels, count,
                      (double)(page->node->time_ns - sampler->since_ns) / (double)NS_PER_S);
    }
}

static void sampler_number(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->node->sampler_count; i++) {
        const NodeSampler *sampler = &page->node->samplers[i];
        uint64_t number = number_at(sampler, family->own->at);
        char slot[NUMBER_TEXT_MAX];

        if (sampler->state == SAMPLER_FREE || !number)
            continue;
        snprintf(slot, sizeof slot, "%zu", i);
        page_labelled(page, family, &(Label){.name = "slot", .value = slot}, 1, scaled(family->own, number));
    }
}

#define SELF(field) .at = offsetof(ExporterSelf, field)
#define NODE(field) .at = offsetof(Node, field)
#define SAMPLER(field) .at = offsetof(NodeSampler, field)

const OwnFamily own_node_families[] = {
    {"process_cpu_seconds_total", FAMILY_COUNTER, "CPU time of this process", self_known, SELF(cpu_ns), .scale = 1e9},
    {"process_open_fds", FAMILY_GAUGE, "File descriptors this process has open", self_known, SELF(open_fds)},
    {"process_resident_memory_bytes", FAMILY_GAUGE, "Memory this process keeps resident", self_known, SELF(rss_bytes)},
    {"process_start_time_seconds", FAMILY_GAUGE, "When this process started, in seconds since 1970", self_known,
     SELF(start_real_ns), .scale = 1e9},
    {"stoker_build_info", FAMILY_GAUGE, "Which version this is; the value is always 1", .write = build_info},
    {"stoker_config_last_reload_successful", FAMILY_GAUGE, "Whether the configuration was last read without an error",
     .write = config_fine},
    {"stoker_config_reload_failures_total", FAMILY_COUNTER, "Times the configuration could not be read again",
     self_number, SELF(config_reload_failures)},
    {"stoker_config_reloads_total", FAMILY_COUNTER, "Times the configuration was read again", self_number,
     SELF(config_reloads)},
    {"stoker_csv_rows_left_out", FAMILY_GAUGE, "Rows of the list of metrics that could not be used", self_number,
     SELF(counters_left_out)},
    {"stoker_driver_up", FAMILY_GAUGE, "Whether the driver and its library can be used", .write = driver_up},
    {"stoker_events_lost_total", FAMILY_COUNTER, "Events of the driver that were overwritten before they were read",
     node_number, NODE(events_lost)},
    {"stoker_gpus_expected", FAMILY_GAUGE, "GPUs this node should have: as configured, or as on the PCI bus",
     node_count, NODE(gpus_expected)},
    {"stoker_gpus_found", FAMILY_GAUGE, "GPUs the driver gives access to", node_count, NODE(gpus_found)},
    {"stoker_gpus_on_bus", FAMILY_GAUGE, "GPUs on the PCI bus", node_count, NODE(gpus_on_bus)},
    {"stoker_http_auth_failures_total", FAMILY_COUNTER, "Requests with missing or wrong credentials", self_number,
     SELF(http_auth_failures)},
    {"stoker_http_connections", FAMILY_GAUGE, "HTTP connections open now", self_number, SELF(http_connections)},
    {"stoker_http_refused_total", FAMILY_COUNTER, "Requests and connections refused because there were too many",
     self_number, SELF(http_refused)},
    {"stoker_http_requests_total", FAMILY_COUNTER, "HTTP requests answered", self_number, SELF(http_requests)},
    {"stoker_late_ticks_total", FAMILY_COUNTER, "Ticks that began later than they should have", self_number,
     SELF(late_ticks)},
    {"stoker_pods_age_seconds", FAMILY_GAUGE, "Time since the owners of devices were last learned", pods_age,
     SELF(pods_age_ns), .scale = 1e9},
    {"stoker_pods_failures_total", FAMILY_COUNTER, "Times the kubelet could not be asked for the owners of devices",
     pods_number, SELF(pods_failures)},
    {"stoker_pods_mapped", FAMILY_GAUGE, "Pods that have a device", pods_number, SELF(pods_count)},
    {"stoker_pods_state", FAMILY_GAUGE, "How the mapping of devices to pods is doing; the value is always 1",
     .write = pods_state},
    {"stoker_released", FAMILY_GAUGE, "Whether the driver is let go for maintenance", .write = released},
    {"stoker_sampler_cpu_seconds_total", FAMILY_COUNTER, "CPU time of a process that talks to the driver",
     sampler_number, SAMPLER(cpu_ns), .scale = 1e9},
    {"stoker_sampler_resident_memory_bytes", FAMILY_GAUGE,
     "Memory that a process that talks to the driver keeps resident", sampler_number, SAMPLER(rss_bytes)},
    {"stoker_sampler_stuck_seconds", FAMILY_GAUGE, "How long a sampler has been stuck in a call, and where",
     .write = sampler_stuck},
    {"stoker_samplers", FAMILY_GAUGE, "Processes that talk to the driver, by what they do", .write = sampler_states},
    {"stoker_samplers_abandoned_total", FAMILY_COUNTER, "Samplers given up because they could not be ended",
     node_number, NODE(samplers_abandoned)},
    {"stoker_samplers_started_total", FAMILY_COUNTER, "Samplers started", node_number, NODE(samplers_started)},
    {"stoker_store_memory_bytes", FAMILY_GAUGE, "Memory of the history", self_number, SELF(store_bytes)},
    {"stoker_store_refused_total", FAMILY_COUNTER, "Series the history had no room for", self_number,
     SELF(store_refused)},
    {"stoker_store_series", FAMILY_GAUGE, "Series in the history", self_number, SELF(store_series)},
    {"stoker_ticks_total", FAMILY_COUNTER, "Ticks of this program", self_number, SELF(ticks)},
};
const size_t own_node_family_count = ARRAY_LEN(own_node_families);
