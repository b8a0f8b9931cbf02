/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the kernel itself: PCIe errors, machine checks, kills for memory, tasks that hang. */
#include <string.h>

#include "base/cleanup.h"
#include "source/kmsg/line_inside.h"

static bool say(Event *event, EventKind kind, Cursor c)
{
    event_init(event, kind, EVENT_FROM_KMSG);
    cursor_show(c.at, (size_t)(c.end - c.at), event->text, sizeof event->text);
    return true;
}

/* "pcieport 0000:00:03.1: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)"; the lines around
 * it ("AER: ... received", "device [...]", "[12] Timeout") are its details. */
static bool read_aer(Cursor c, Event *event)
{
    static const struct {
        const char *text;
        EventWord word;
    } words[] = {{"Uncorrect", EVENT_NONFATAL}, {"Correct", EVENT_CORRECTABLE}, {"Fatal", EVENT_FATAL}};
    Cursor at = c, severity = c;

    if (!cursor_find(&severity, "PCIe Bus Error: severity="))
        return false;
    say(event, EVENT_AER, c);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (cursor_skip(&severity, words[i].text)) {
            event->word = words[i].word;
            break;
        }
    if (event->word == EVENT_NONFATAL && cursor_has(severity, "(Fatal)"))
        event->word = EVENT_FATAL;
    if (cursor_find(&at, " "))
        event->has_pci = cursor_pci(&at, &event->pci);
    return true;
}

/* "Out of memory: Killed process 1532 (python) total-vm:...", "Memory cgroup out of memory: Killed process ..." */
static bool read_kill(Cursor c, Event *event)
{
    Cursor in = c;
    uint32_t pid;

    if (!(cursor_find(&in, "Killed process ") || cursor_find(&in, "Kill process ")) || !cursor_number(&in, &pid))
        return false;
    say(event, EVENT_OOM_KILL, c);
    event->pid = (int32_t)pid;
    cursor_blanks(&in);
    if (cursor_skip(&in, "("))
        cursor_until(&in, ")", true, event->process, sizeof event->process);
    return true;
}

/* "INFO: task jfsmount:136986 blocked for more than 120 seconds." The name may hold colons. */
static bool read_hung(Cursor c, Event *event)
{
    Cursor in = c, behind = c;
    const char *colon;
    uint32_t pid;

    if (!cursor_find(&in, "INFO: task ") || !cursor_find(&behind, " blocked for more than "))
        return false;
    say(event, EVENT_HUNG_TASK, c);
    behind.at -= strlen(" blocked for more than ");
    if (behind.at <= in.at || !(colon = memrchr(in.at, ':', (size_t)(behind.at - in.at))))
        return true;
    cursor_show(in.at, (size_t)(colon - in.at), event->process, sizeof event->process);
    Cursor number = {colon + 1, behind.at};
    if (cursor_number(&number, &pid))
        event->pid = (int32_t)pid;
    return true;
}

/* "pt_main_thread[2536443]: segfault at ... in libnccl.so.2[7f7c7ac00000+d3d3000]" */
static bool read_segfault(Cursor c, Event *event)
{
    static const char *const libraries[] = {" in libnccl", " in libcuda", " in libnvidia", " in libcudart"};
    Cursor in = c;
    uint32_t pid;
    bool ours = false;

    if (!cursor_has(c, "]: segfault at "))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
        ours |= cursor_has(c, libraries[i]);
    if (!ours)
        return false;
    say(event, EVENT_SEGFAULT, c);
    if (cursor_until(&in, "[", false, event->process, sizeof event->process) && cursor_number(&in, &pid))
        event->pid = (int32_t)pid;
    return true;
}

static bool read_memory(Cursor c, Event *event)
{
    const bool uncorrected = cursor_has(c, " UE ") || cursor_has(c, "Uncorrected");

    if (!(cursor_has(c, "EDAC MC") && (uncorrected || cursor_has(c, " CE "))) &&
        !cursor_has(c, "Machine check events logged"))
        return false;
    say(event, EVENT_MCE, c);
    event->word = uncorrected ? EVENT_FATAL : EVENT_CORRECTABLE;
    return true;
}

bool line_kernel(Cursor c, Event *event)
{
    if (read_aer(c, event) || read_kill(c, event) || read_hung(c, event) || read_segfault(c, event) ||
        read_memory(c, event))
        return true;
    if (cursor_has(c, "soft lockup - CPU#") || cursor_has(c, "detected hard LOCKUP"))
        return say(event, EVENT_LOCKUP, c);
    if (cursor_has(c, "Kernel panic - not syncing"))
        return say(event, EVENT_PANIC, c);
    if (cursor_has(c, "nvidia-nvlink: Unregistered") || cursor_has(c, "nvidia-modeset: Unloading"))
        return cursor_has(c, "nvidia-nvlink") && say(event, EVENT_MODULE_UNLOADED, c);
    if (cursor_has(c, "nvidia-peermem") && cursor_has(c, "ERROR"))
        return say(event, EVENT_PEERMEM, c);
    return false;
}
