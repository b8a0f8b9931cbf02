/* SPDX-License-Identifier: Apache-2.0 */
/* show_facts ROOT: one look, as JSON. */

#include <inttypes.h>
#include <stdio.h>

#include "source/host/host.h"

static void show_gpu(const FactsGpu *gpu, bool first)
{
    char pci[PCI_TEXT_CAP];

    printf("%s{\"pci\": \"%s\", \"lost\": %d, \"driver\": \"%s\", \"current\": [%u, %u], \"max\": [%u, %u], "
           "\"slot\": [%u, %u], \"has_aer\": %d, \"aer\": [%" PRIu64 ", %" PRIu64 ", %" PRIu64 "], "
           "\"port_aer\": [%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]}",
           first ? "" : ", ", pci_format(gpu->pci, PCI_FORM_SYSFS, pci), gpu->config_lost, gpu->driver,
           gpu->current.speed_mts, gpu->current.width, gpu->max.speed_mts, gpu->max.width, gpu->slot.speed_mts,
           gpu->slot.width, gpu->has_aer, gpu->aer[0], gpu->aer[1], gpu->aer[2], gpu->port_aer[0], gpu->port_aer[1],
           gpu->port_aer[2]);
}

int main(int argc, char **argv)
{
    static HostScan scan;

    if (argc != 2)
        return 1;
    host_scan_read(argv[1], &scan);
    vec_done(&scan.places);
    const Facts facts = scan.facts;
    if (scan.rc < 0) {
        fprintf(stderr, "%s\n", scan.err.text);
        return 1;
    }
    printf("{\"module\": \"%s\", \"loaded\": %d, \"boot_id\": \"%s\", \"boot_s\": %" PRIu64
           ", \"persistenced\": %d, \"fabric_manager\": %d, \"switches\": %d, \"denied\": %d, \"gpus\": [",
           facts.module_version, facts.module_loaded, facts.boot_id, facts.boot_real_ns / 1000000000,
           facts.persistenced, facts.fabric_manager, facts.has_switches, facts.device_denied);
    for (size_t i = 0; i < facts.gpu_count; i++)
        show_gpu(&facts.gpus[i], i == 0);
    printf("], \"stuck\": [");
    for (size_t i = 0; i < facts.stuck_len; i++)
        printf("%s[\"%s\", \"%s\"]", i ? ", " : "", facts.stuck[i].name, facts.stuck[i].wchan);
    printf("]}\n");
    return 0;
}
