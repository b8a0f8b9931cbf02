/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the GPU driver without a code: what cannot be started, what fell off, which version it is. Some messages
 * take several records; the reader remembers the first. */
#include <string.h>

#include "base/cleanup.h"
#include "source/kmsg/line_inside.h"

static bool say(Event *event, EventKind kind, Cursor c)
{
    event_init(event, kind, EVENT_FROM_KMSG);
    cursor_show(c.at, (size_t)(c.end - c.at), event->text, sizeof event->text);
    return true;
}

static bool say_of(Event *event, EventKind kind, Cursor c, PciAddress pci)
{
    say(event, kind, c);
    event->has_pci = true;
    event->pci = pci;
    return true;
}

/* "GPU at PCI:0000:18:00: GPU-<uuid>": who a bus address is, said once before the first XID. */
static void learn_gpu(LineReader *reader, Cursor c)
{
    PciAddress pci;
    size_t i = 0;

    if (!cursor_pci(&c, &pci) || !cursor_skip(&c, ": "))
        return;
    while (i < reader->gpu_count && pci_compare(reader->gpus[i].pci, pci) != 0)
        i++;
    if (i == LINE_GPUS)
        return;
    reader->gpu_count += i == reader->gpu_count;
    reader->gpus[i].pci = pci;
    cursor_show(c.at, (size_t)(c.end - c.at), reader->gpus[i].uuid, sizeof reader->gpus[i].uuid);
}

static size_t version_len(Cursor c)
{
    size_t len = 0;

    while (c.at + len < c.end && ((c.at[len] >= '0' && c.at[len] <= '9') || c.at[len] == '.'))
        len++;
    while (len > 0 && c.at[len - 1] == '.')
        len--;
    return len;
}

/* The first thing in it that looks like a version: digits, a point, digits. */
static void find_version(Cursor c, char out[EVENT_NAME_CAP])
{
    for (; c.at < c.end; c.at++) {
        const size_t len = version_len(c);

        if (len >= 5 && *c.at != '.' && memchr(c.at, '.', len)) {
            cursor_show(c.at, len, out, EVENT_NAME_CAP);
            return;
        }
        c.at += len;
    }
}

/* "GPU 0000:18:00.0: <what>" */
static bool of_gpu(LineReader *reader, Cursor all, Cursor c, Event *event)
{
    const bool init = reader->init;
    PciAddress pci;

    reader->init = false;
    if (!cursor_pci(&c, &pci) || !cursor_skip(&c, ": "))
        return false;
    if (cursor_has(c, "fallen off the bus"))
        return say_of(event, EVENT_OFF_BUS, all, pci);
    if (cursor_has(c, "RmInitAdapter failed")) {
        reader->init = true;
        reader->pci = pci;
        return say_of(event, EVENT_INIT_FAILED, all, pci);
    }
    if (cursor_has(c, "rm_init_adapter failed")) /* says the same once more */
        return !(init && pci_compare(reader->pci, pci) == 0) && say_of(event, EVENT_INIT_FAILED, all, pci);
    return false;
}

/* "The NVIDIA GPU 0000:41:00.0 / (PCI ID: 10de:2330) installed in this system has / fallen off the bus ..." */
static bool off_bus(LineReader *reader, Cursor c, Event *event)
{
    Cursor in = c;

    if (cursor_skip(&in, "The NVIDIA GPU ") && cursor_pci(&in, &reader->pci)) {
        reader->off_bus = true;
        if (!cursor_has(in, "fallen off the bus"))
            return false;
    } else if (reader->off_bus && cursor_has(c, "installed in this system")) {
        return false;
    }
    if (!reader->off_bus || !cursor_has(c, "fallen off the bus"))
        return false;
    reader->off_bus = false;
    return say_of(event, EVENT_OFF_BUS, c, reader->pci);
}

/* "API mismatch: the client 'x' (pid 12) / has the version A, but this kernel module has / the version B. ..." */
static bool mismatch(LineReader *reader, Cursor c, Event *event)
{
    Event *half = &reader->half;
    uint32_t pid;

    if (cursor_skip(&c, "API mismatch: ")) {
        say(half, EVENT_API_MISMATCH, c);
        if (cursor_find(&c, "client '"))
            cursor_until(&c, "'", true, half->process, sizeof half->process);
        if (cursor_find(&c, "(pid ") && cursor_number(&c, &pid))
            half->pid = (int32_t)pid;
        reader->mismatch = true;
    }
    if (!reader->mismatch)
        return false;
    Cursor in = c;
    if (!half->version[0][0] && cursor_find(&in, "the version ")) {
        find_version(in, half->version[0]);
        if (!cursor_find(&in, "kernel module has"))
            return false;
        c = in;
    }
    in = c;
    if (half->version[0][0] && cursor_find(&in, "the version ")) {
        find_version(in, half->version[1]);
        reader->mismatch = false;
        *event = *half;
        return true;
    }
    return false;
}

static bool is_load(Cursor c)
{
    return cursor_skip(&c, "loading NVIDIA UNIX") && cursor_has(c, "Kernel Module");
}

bool line_driver(LineReader *reader, Cursor c, Event *event)
{
    Cursor in = c;

    if (cursor_skip(&in, "GPU at ")) {
        learn_gpu(reader, in);
        return false;
    }
    if (cursor_skip(&in, "GPU "))
        return of_gpu(reader, c, in, event);
    if (off_bus(reader, c, event) || mismatch(reader, c, event))
        return true;
    if (is_load(c)) {
        say(event, EVENT_MODULE_LOADED, c);
        find_version(c, event->version[1]);
        return true;
    }
    if (cursor_has(c, "Slow RPC response from GPU"))
        return say(event, EVENT_GSP_SLOW, c);
    if (cursor_has(c, "nvidia-peermem") && cursor_has(c, "ERROR"))
        return say(event, EVENT_PEERMEM, c);
    if (cursor_skip(&in, "knvlink") && (cursor_has(c, "Failed") || cursor_has(c, "failed")))
        return say(event, EVENT_NVLINK_DRIVER, c);
    return false;
}
