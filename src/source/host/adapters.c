/* SPDX-License-Identifier: Apache-2.0 */
/* Ports below /sys/class/infiniband (InfiniBand, RoCE, EFA), then Ethernet devices of hardware below /sys/class/net. */
#include "source/host/adapters.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "source/pci/pci.h"

enum { PORTS_MAX = 4, PATH_CAP = 512 };

/* Port counters of InfiniBand are in words of four octets whatever the width of the link. */
#define OCTETS_PER_WORD 4

static DIR *open_folder(const char *root, const char *below)
{
    char path[PATH_CAP];

    return snprintf(path, sizeof path, "%s%s", root, below) < (int)sizeof path ? opendir(path) : NULL;
}

/* A whole number in a file of `dir`; false where there is none ("N/A (no PMA)"). */
static bool read_count(int dir, const char *name, uint64_t *ret)
{
    char text[PCI_ATTRIBUTE_CAP];

    pci_read_text(dir, name, text);
    return number_parse_u64(text, 0, UINT64_MAX, ret, NULL) == 0;
}

/* The sum of those of these counts that are there. */
static uint64_t sum_counts(int dir, const char *const *names, size_t count)
{
    uint64_t sum = 0, one;

    for (size_t i = 0; i < count; i++)
        if (read_count(dir, names[i], &one))
            sum += one;
    return sum;
}

/* "400 Gb/sec (4X NDR)" */
static double read_rate(int port)
{
    char text[PCI_ATTRIBUTE_CAP], *end;

    pci_read_text(port, "rate", text);
    const double rate = strtod(text, &end);
    return end != text && strncmp(end, " Gb/sec", 7) == 0 && rate > 0 ? rate * 1e9 / 8 : (double)NAN;
}

static bool read_port(int port, FactsAdapter *ret)
{
    static const char *const retries[] = {"hw_counters/packet_seq_err", "hw_counters/local_ack_timeout_err",
                                          "hw_counters/retrans_pkts"};
    static const char *const notices[] = {"hw_counters/rp_cnp_handled"};
    char state[PCI_ATTRIBUTE_CAP];

    pci_read_text(port, "state", state);
    if (strncmp(state, "4:", 2) != 0)
        return false;
    if (read_count(port, "counters/port_xmit_data", &ret->sent_bytes) &&
        read_count(port, "counters/port_rcv_data", &ret->received_bytes)) {
        ret->sent_bytes *= OCTETS_PER_WORD;
        ret->received_bytes *= OCTETS_PER_WORD;
    } else if (!read_count(port, "hw_counters/tx_bytes", &ret->sent_bytes) ||
               !read_count(port, "hw_counters/rx_bytes", &ret->received_bytes)) {
        return false;
    }
    ret->link = read_rate(port);
    ret->retries = sum_counts(port, retries, ARRAY_LEN(retries));
    ret->congestion_notices = sum_counts(port, notices, ARRAY_LEN(notices));
    return true;
}

/* The ports of one adapter, which has few. */
static void add_ports(int dir, const char *name, Facts *facts)
{
    for (int number = 1; number <= PORTS_MAX && facts->adapter_count < FACTS_ADAPTERS_MAX; number++) {
        FactsAdapter *to = &facts->adapters[facts->adapter_count];
        char path[PATH_CAP];

        snprintf(path, sizeof path, "%.200s/ports/%d", name, number);
        CLEANUP_FD int port = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (port < 0)
            return;
        *to = (FactsAdapter){0};
        if (!read_port(port, to))
            continue;
        if (number == 1)
            snprintf(to->name, sizeof to->name, "%.31s", name);
        else
            snprintf(to->name, sizeof to->name, "%.19s/%d", name, number);
        facts->adapter_count++;
    }
}

/* A virtual device has no device below it. Where the driver knows no speed there is -1, or the file cannot be read. */
static bool read_ethernet(int device, FactsAdapter *ret)
{
    char state[PCI_ATTRIBUTE_CAP];
    uint64_t speed;

    pci_read_text(device, "operstate", state);
    if (strcmp(state, "up") != 0 || faccessat(device, "device", F_OK, 0) != 0)
        return false;
    if (!read_count(device, "statistics/tx_bytes", &ret->sent_bytes) ||
        !read_count(device, "statistics/rx_bytes", &ret->received_bytes))
        return false;
    ret->link =
        read_count(device, "speed", &speed) && speed > 0 && speed < UINT32_MAX ? (double)speed * 1e6 / 8 : (double)NAN;
    return true;
}

static void add_ethernet(int dir, const char *name, Facts *facts)
{
    CLEANUP_FD int device = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FactsAdapter *to = &facts->adapters[facts->adapter_count];

    *to = (FactsAdapter){0};
    if (device < 0 || !read_ethernet(device, to))
        return;
    snprintf(to->name, sizeof to->name, "%.31s", name);
    facts->adapter_count++;
}

static void add_folder(const char *root, const char *below, void (*add)(int dir, const char *name, Facts *facts),
                       Facts *facts)
{
    DIR *dir = open_folder(root, below);
    const struct dirent *entry;

    while (dir && facts->adapter_count < FACTS_ADAPTERS_MAX && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            add(dirfd(dir), entry->d_name, facts);
    if (dir)
        closedir(dir);
}

void adapters_read(const char *root, Facts *facts)
{
    facts->adapter_count = 0;
    add_folder(root, "/sys/class/infiniband", add_ports, facts);
    add_folder(root, "/sys/class/net", add_ethernet, facts);
}
