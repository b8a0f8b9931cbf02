/* SPDX-License-Identifier: Apache-2.0 */
#include "source/host/look.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/owner.h"
#include "source/host/host.h"
#include "source/pci/detail.h"
#include "source/proc/stat.h"

enum { LINE_CAP = 512, STAT_MORE_CAP = 65536 };

/* ---- the PCI bus ---- */

static FactsPcie link_of(PciLink link)
{
    return (FactsPcie){.speed_mts = link.speed_mts, .width = link.width};
}

static void fill_gpu(const char *root, const PciGpu *from, FactsGpu *gpu)
{
    PciDetail detail;

    *gpu = (FactsGpu){.pci = from->address,
                      .present = true,
                      .config_lost = from->lost,
                      .asleep = from->asleep,
                      .current = link_of(from->current),
                      .max = link_of(from->max)};
    memcpy(gpu->driver, from->driver, sizeof(gpu->driver));
    static_assert(sizeof(gpu->driver) == sizeof(from->driver), "both have the same room");
    if (!pci_detail(root, from->address, &detail))
        return;
    gpu->slot = link_of(detail.slot);
    gpu->has_aer = detail.has_aer;
    for (size_t i = 0; i < FACTS_AER_END; i++) {
        gpu->aer[i] = detail.aer[i];
        gpu->port_aer[i] = detail.port_aer[i];
    }
}

static int look_bus(const char *root, Facts *facts, Err *err)
{
    PciGpu found[NODE_GPUS_MAX];
    size_t count = 0, switches = 0;

    TRY(pci_scan(root, found, NODE_GPUS_MAX, &count, err));
    TRY(pci_count(root, PCI_CLASS_NVSWITCH, &switches, err));
    facts->gpu_count = count < NODE_GPUS_MAX ? count : NODE_GPUS_MAX;
    for (size_t i = 0; i < facts->gpu_count; i++)
        fill_gpu(root, &found[i], &facts->gpus[i]);
    facts->has_switches = switches > 0;
    return 0;
}

static void look_places(const char *root, const Facts *facts, HostPlaces *places)
{
    PciAddress gpus[NODE_GPUS_MAX];

    for (size_t i = 0; i < facts->gpu_count; i++)
        gpus[i] = facts->gpus[i].pci;
    host_places_look(root, gpus, facts->gpu_count, places);
}

/* ---- /proc ---- */

/* The word in "Kernel Module  590.48.01  Release Build" that is a version. */
static void find_version(char *text, char version[READING_TEXT_CAP])
{
    char *rest = NULL;

    text[strcspn(text, "\n")] = '\0';
    for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        const size_t len = strlen(word);
        if (!isdigit((unsigned char)word[0]) || strspn(word, "0123456789.") != len || !strchr(word, '.') ||
            len >= READING_TEXT_CAP)
            continue;
        memcpy(version, word, len + 1);
        return;
    }
}

bool host_module(const char *root, char ret_version[READING_TEXT_CAP])
{
    char text[LINE_CAP];

    ret_version[0] = '\0';
    if (proc_text(root, "driver/nvidia", "version", text, sizeof(text), NULL) < 0)
        return false;
    find_version(text, ret_version);
    return true;
}

void host_boot(const char *root, HostBoot *ret)
{
    CLEANUP_FREE char *more = malloc(STAT_MORE_CAP);
    const char *line;

    *ret = (HostBoot){0};
    if (proc_text(root, "sys/kernel/random", "boot_id", ret->id, sizeof(ret->id), NULL) < 0)
        ret->id[0] = '\0';
    ret->id[strcspn(ret->id, "\n")] = '\0';
    if (!more || proc_text(root, ".", "stat", more, STAT_MORE_CAP, NULL) < 0)
        return;
    line = strstr(more, "\nbtime ");
    if (line)
        ret->real_ns = strtoull(line + strlen("\nbtime "), NULL, 10) * NS_PER_S;
}

static void look_boot(const char *root, Facts *facts)
{
    HostBoot boot;

    host_boot(root, &boot);
    memcpy(facts->boot_id, boot.id, sizeof(facts->boot_id));
    static_assert(sizeof(facts->boot_id) == sizeof(boot.id), "both have the same room");
    facts->boot_real_ns = boot.real_ns;
}

/* access(2) asks permission bits (EACCES) and the device cgroup (EPERM), never the driver. */
static bool is_denied(const char *root)
{
    char path[PROC_PATH_CAP];

    if (snprintf(path, sizeof(path), "%s/dev/nvidiactl", root) >= (int)sizeof(path))
        return false;
    return access(path, R_OK | W_OK) < 0 && errno == EPERM;
}

static void look_processes(const char *root, HostLook *look)
{
    HostProcesses *processes = &look->processes;
    UserNames *users;

    if (processes->len == 0)
        return;
    if (!look->pods)
        look->pods = pod_names_new();
    users = user_names_read(root);
    process_owners_fill(root, users, look->pods, processes->at, processes->len);
    user_names_free(users);
}

/* ---- one look ---- */

void host_look_make(const char *root, HostLook *ret)
{
    const HostProcesses wanted = ret->processes;
    const HostPlaces room = ret->places;

    *ret = (HostLook){.processes = wanted, .places = room, .pods = ret->pods};
    ret->rc = look_bus(root, &ret->facts, &ret->err);
    look_places(root, &ret->facts, &ret->places);
    host_tasks_look(root, &ret->tasks);
    ret->facts.proc_known = ret->tasks.known;
    ret->facts.persistenced = ret->tasks.persistenced;
    ret->facts.fabric_manager = ret->tasks.fabric_manager;
    ret->facts.stuck_count = ret->tasks.stuck_count;
    ret->facts.stuck_len = ret->tasks.stuck_len;
    memcpy(ret->facts.stuck, ret->tasks.stuck, sizeof(ret->facts.stuck));
    ret->facts.module_loaded = host_module(root, ret->facts.module_version);
    look_boot(root, &ret->facts);
    ret->facts.device_denied = is_denied(root);
    look_processes(root, ret);
}

int host_look(const char *root, Facts *ret, Err *err)
{
    HostLook look = {0};

    host_look_make(root, &look);
    vec_done(&look.places);
    *ret = look.facts;
    if (look.rc < 0 && err)
        *err = look.err;
    return look.rc;
}

/* ---- from one look to the next ---- */

static bool has_gpu(const Facts *facts, PciAddress pci)
{
    for (size_t i = 0; i < facts->gpu_count; i++)
        if (pci_compare(facts->gpus[i].pci, pci) == 0)
            return true;
    return false;
}

static void keep_gpus(const HostLook *known, const HostLook *fresh, Facts *facts)
{
    if (fresh->rc < 0) {
        facts->gpu_count = known->facts.gpu_count;
        facts->has_switches = known->facts.has_switches;
        memcpy(facts->gpus, known->facts.gpus, sizeof(facts->gpus));
        return;
    }
    for (size_t i = 0; i < known->facts.gpu_count && facts->gpu_count < NODE_GPUS_MAX; i++)
        if (!has_gpu(facts, known->facts.gpus[i].pci))
            facts->gpus[facts->gpu_count++] = (FactsGpu){.pci = known->facts.gpus[i].pci};
}

static uint64_t since_of(const HostLook *known, const HostLook *fresh, size_t at, uint64_t time_ns)
{
    for (size_t i = 0; i < known->tasks.stuck_len; i++)
        if (known->tasks.stuck[i].pid == fresh->tasks.stuck[at].pid && known->tasks.start[i] == fresh->tasks.start[at])
            return known->facts.stuck[i].since_ns;
    return time_ns;
}

void host_look_take(HostLook *known, const HostLook *fresh, uint64_t time_ns)
{
    const Facts *before = &known->facts;
    Facts facts = fresh->facts;

    facts.time_ns = time_ns ? time_ns : 1;
    keep_gpus(known, fresh, &facts);
    for (size_t i = 0; i < facts.stuck_len; i++)
        facts.stuck[i].since_ns = since_of(known, fresh, i, facts.time_ns);
    facts.log = before->log;
    memcpy(facts.log_why, before->log_why, sizeof(facts.log_why));
    facts.log_lost = before->log_lost;
    facts.log_silent_ns = before->log_silent_ns;
    facts.fabric_log = before->fabric_log;
    known->facts = facts;
    known->tasks = fresh->tasks;
}
