/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines of the kernel log and of the fabric manager. */
#include "source/kmsg/line.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "base/utf8.h"
#include "model/pci.h"

/* A text that is read from its left. Nothing in it is trusted: numbers that do not fit are refused, nothing is read
 * beyond the end. */
typedef struct Cursor {
    const char *at, *end;
} Cursor;

enum { LINE_GPUS = 64 };

/* Messages of several lines so far, and the UUIDs of GPUs that the driver has named. */
struct LineReader {
    char **patterns;
    size_t pattern_count;
    struct {
        PciAddress pci;
        char uuid[DEVICE_UUID_CAP];
    } gpus[LINE_GPUS];
    size_t gpu_count;
    bool off_bus, mismatch, init; /* the first line of such a message was the one before */
    PciAddress pci;               /* of the first line */
    Event half;                   /* API mismatch, so far */
};

/* --- a text read from its left ---------------------------------------------------------------------------------------
 */

enum { DIGITS_MAX = 9, HEX_MAX = 8, PCI_MAX = 32 };

/* Steps over `word` where it comes next. */
static bool cursor_skip(Cursor *c, const char *word)
{
    const size_t len = strlen(word);

    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
        return false;
    c->at += len;
    return true;
}

/* Steps behind the first `word`; untouched where there is none. */
static bool cursor_find(Cursor *c, const char *word)
{
    const char *at = memmem(c->at, (size_t)(c->end - c->at), word, strlen(word));

    if (!at)
        return false;
    c->at = at + strlen(word);
    return true;
}

static bool cursor_has(Cursor c, const char *word)
{
    return cursor_find(&c, word);
}

static void cursor_blanks(Cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
        c->at++;
}

/* A decimal number of 1 to 9 digits; "0x" and up to 8 hexadecimal ones. */
static bool cursor_number(Cursor *c, uint32_t *ret)
{
    const char *at = c->at;
    uint32_t value = 0;

    while (at < c->end && *at >= '0' && *at <= '9' && at - c->at < DIGITS_MAX)
        value = value * 10 + (uint32_t)(*at++ - '0');
    if (at == c->at || (at < c->end && *at >= '0' && *at <= '9'))
        return false;
    c->at = at;
    *ret = value;
    return true;
}

static bool cursor_hex(Cursor *c, uint32_t *ret)
{
    Cursor in = *c;
    size_t digits = 0;
    uint64_t value;

    if (!cursor_skip(&in, "0x"))
        return false;
    while (in.at + digits < in.end && isxdigit((unsigned char)in.at[digits]))
        digits++;
    if (digits > HEX_MAX || number_parsen_hex(in.at, digits, UINT32_MAX, &value, NULL) < 0)
        return false;
    c->at = in.at + digits;
    *ret = (uint32_t)value;
    return true;
}

/* A PCI address of 4 to 8 digits of domain, with or without "PCI:" and function. */
static bool cursor_pci(Cursor *c, PciAddress *ret)
{
    char text[PCI_MAX];
    const char *at = c->at;
    size_t n = 0;

    if (c->end - at > 4 && memcmp(at, "PCI:", 4) == 0)
        at += 4;
    while (at < c->end && n + 1 < sizeof text && (isxdigit((unsigned char)*at) || *at == ':' || *at == '.'))
        text[n++] = *at++;
    /* The full stop of a sentence, the colon behind a name. */
    while (n > 0 && (text[n - 1] == '.' || text[n - 1] == ':')) {
        n--;
        at--;
    }
    text[n] = '\0';
    if (n == 0 || pci_parse(text, ret) < 0)
        return false;
    c->at = at;
    return true;
}

/* Copies text as UTF-8 without control characters, cut at a character. */
static void cursor_show(const char *text, size_t len, char *out, size_t cap)
{
    size_t n = 0;

    for (size_t at = 0, step; at < len; at += step) {
        uint32_t c;

        step = utf8_read(text + at, len - at, &c);
        if (step == 0 || c < 0x20 || (c >= 0x7f && c < 0xa0)) {
            if (n + 2 > cap)
                break;
            out[n++] = step && (c == '\t' || c == '\n') ? ' ' : '?';
            step = step ? step : 1;
            continue;
        }
        if (n + step + 1 > cap)
            break;
        memcpy(out + n, text + at, step);
        n += step;
    }
    out[n] = '\0';
}

/* Copies the text before `stop` (or, if `open`, before the end), cleaned for display; steps behind `stop`. */
static bool cursor_until(Cursor *c, const char *stop, bool open, char *out, size_t cap)
{
    const char *at = memmem(c->at, (size_t)(c->end - c->at), stop, strlen(stop));

    if (!at && !open)
        return false;
    const char *end = at ? at : c->end;

    cursor_show(c->at, (size_t)(end - c->at), out, cap);
    c->at = at ? at + strlen(stop) : c->end;
    return true;
}

/* --- XIDs and SXids --------------------------------------------------------------------------------------------------
 */

enum { RECOVERY_XID = 154, NVLINK_XID = 74, LINK_FIRST_XID = 144, LINK_LAST_XID = 150, SM_XID = 13 };

/* "Fatal", "Non-fatal", ... if it comes next. */
static EventWord read_event_word(Cursor *c)
{
    static const struct {
        const char *text;
        EventWord word;
    } words[] = {{"Fatal", EVENT_FATAL},
                 {"Non-fatal", EVENT_NONFATAL},
                 {"Nonfatal", EVENT_NONFATAL},
                 {"Correctable", EVENT_CORRECTABLE}};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (cursor_skip(c, words[i].text))
            return words[i].word;
    return EVENT_NO_WORD;
}

/* "pid=7062, ", "pid=2239, name=python, ", "pid='<unknown>', name=<unknown>, " */
static void read_process(Cursor *c, Event *event)
{
    uint32_t pid;

    if (!cursor_skip(c, "pid="))
        return;
    if (cursor_number(c, &pid))
        event->pid = (int32_t)pid;
    else if (!cursor_skip(c, "'<unknown>'") && !cursor_skip(c, "<unknown>"))
        return;
    if (!cursor_skip(c, ", "))
        return;
    if (cursor_skip(c, "name=")) {
        cursor_until(c, ", ", true, event->process, sizeof event->process);
        if (strcmp(event->process, "<unknown>") == 0)
            event->process[0] = '\0';
    }
}

/* "(0x0, 0x0, ...)", with commas or blanks between. */
static void read_registers(Cursor c, Event *event)
{
    if (!cursor_find(&c, "("))
        return;
    while (event->register_count < EVENT_REGISTERS && cursor_hex(&c, &event->registers[event->register_count])) {
        event->register_count++;
        cursor_skip(&c, ",");
        cursor_blanks(&c);
    }
}

/* "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x...)"; a link of -1 is none. */
static void read_nvlink5(Cursor c, Event *event)
{
    cursor_until(&c, " ", true, event->unit, sizeof event->unit);
    event->word = read_event_word(&c);
    if (cursor_find(&c, "Link ") && !cursor_number(&c, &event->link))
        event->link = DEVICE_NO_NUMBER;
    read_registers(c, event);
}

static void read_place(Cursor c, Event *event)
{
    uint32_t gpc, tpc, sm;

    if (!cursor_find(&c, "(GPC ") || !cursor_number(&c, &gpc) || !cursor_skip(&c, ", TPC ") || !cursor_number(&c, &tpc))
        return;
    event->gpc = (int32_t)gpc;
    event->tpc = (int32_t)tpc;
    if (cursor_skip(&c, ", SM ") && cursor_number(&c, &sm))
        event->sm = (int32_t)sm;
}

static void read_payload(Cursor c, Event *event)
{
    Cursor tail = c;
    uint32_t number;

    if (event->code == NVLINK_XID && cursor_find(&c, "link ")) {
        if (!cursor_number(&c, &event->link))
            event->link = DEVICE_NO_NUMBER;
        read_registers(c, event);
    } else if (event->code >= LINK_FIRST_XID && event->code <= LINK_LAST_XID) {
        read_nvlink5(c, event);
    } else if (event->code == RECOVERY_XID && cursor_find(&c, " to ") && cursor_hex(&c, &number)) {
        event->recovery_action = number <= INT8_MAX ? (int32_t)number : EVENT_NO_ACTION;
    } else if (event->code == SM_XID) {
        read_place(c, event);
    }
    if (cursor_find(&tail, " caused by previous Xid ") && cursor_number(&tail, &number))
        event->caused_by = (int32_t)number;
}

static void name_gpu(const LineReader *reader, Event *event)
{
    for (size_t i = 0; i < reader->gpu_count; i++)
        if (pci_compare(reader->gpus[i].pci, event->pci) == 0)
            memcpy(event->uuid, reader->gpus[i].uuid, sizeof event->uuid);
}

static bool read_xid(const LineReader *reader, Cursor c, Event *event)
{
    const char *from = c.at;
    uint32_t number;

    event_init(event, EVENT_XID, EVENT_FROM_KMSG);
    event->has_pci = cursor_pci(&c, &event->pci);
    if (cursor_skip(&c, " GPU-I:") && !cursor_number(&c, &event->gpu_instance))
        event->gpu_instance = DEVICE_NO_NUMBER;
    if (cursor_skip(&c, " GPU-CI:") && !cursor_number(&c, &event->compute_instance))
        event->compute_instance = DEVICE_NO_NUMBER;
    if (!cursor_find(&c, "): ") || !cursor_number(&c, &number) || number > INT16_MAX)
        return false;
    event->code = (int32_t)number;
    cursor_skip(&c, ",");
    cursor_blanks(&c);
    read_process(&c, event);
    read_payload(c, event);
    cursor_show(from - strlen("Xid ("), (size_t)(c.end - from) + strlen("Xid ("), event->text, sizeof event->text);
    if (event->has_pci)
        name_gpu(reader, event);
    return true;
}

static bool read_sxid(Cursor c, Event *event)
{
    const char *from = c.at;
    uint32_t number;

    event_init(event, EVENT_SXID, EVENT_FROM_KMSG);
    event->has_pci = cursor_pci(&c, &event->pci);
    if (!cursor_find(&c, "): ") || !cursor_number(&c, &number))
        return false;
    event->code = (int32_t)number;
    cursor_skip(&c, ",");
    cursor_blanks(&c);
    if (cursor_skip(&c, "Data {"))
        return false; /* a detail of the line before */
    event->word = read_event_word(&c);
    if (cursor_find(&c, "Link ") && !cursor_number(&c, &event->link))
        event->link = DEVICE_NO_NUMBER;
    cursor_show(from - strlen("SXid ("), (size_t)(c.end - from) + strlen("SXid ("), event->text, sizeof event->text);
    return true;
}

/* --- other lines of the driver ---------------------------------------------------------------------------------------
 */

static bool set_event(Event *event, EventKind kind, Cursor c)
{
    event_init(event, kind, EVENT_FROM_KMSG);
    cursor_show(c.at, (size_t)(c.end - c.at), event->text, sizeof event->text);
    return true;
}

static bool set_gpu_event(Event *event, EventKind kind, Cursor c, PciAddress pci)
{
    set_event(event, kind, c);
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
static bool read_gpu_line(LineReader *reader, Cursor all, Cursor c, Event *event)
{
    const bool init = reader->init;
    PciAddress pci;

    reader->init = false;
    if (!cursor_pci(&c, &pci) || !cursor_skip(&c, ": "))
        return false;
    if (cursor_has(c, "fallen off the bus"))
        return set_gpu_event(event, EVENT_OFF_BUS, all, pci);
    if (cursor_has(c, "RmInitAdapter failed")) {
        reader->init = true;
        reader->pci = pci;
        return set_gpu_event(event, EVENT_INIT_FAILED, all, pci);
    }
    if (cursor_has(c, "rm_init_adapter failed")) /* says the same once more */
        return !(init && pci_compare(reader->pci, pci) == 0) && set_gpu_event(event, EVENT_INIT_FAILED, all, pci);
    return false;
}

/* "The NVIDIA GPU 0000:41:00.0 / (PCI ID: 10de:2330) installed in this system has / fallen off the bus ..." */
static bool read_off_bus(LineReader *reader, Cursor c, Event *event)
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
    return set_gpu_event(event, EVENT_OFF_BUS, c, reader->pci);
}

/* "API mismatch: the client 'x' (pid 12) / has the version A, but this kernel module has / the version B. ..." */
static bool read_mismatch(LineReader *reader, Cursor c, Event *event)
{
    Event *half = &reader->half;
    uint32_t pid;

    if (cursor_skip(&c, "API mismatch: ")) {
        set_event(half, EVENT_API_MISMATCH, c);
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

static bool read_driver_line(LineReader *reader, Cursor c, Event *event)
{
    Cursor in = c;

    if (cursor_skip(&in, "GPU at ")) {
        learn_gpu(reader, in);
        return false;
    }
    if (cursor_skip(&in, "GPU "))
        return read_gpu_line(reader, c, in, event);
    if (read_off_bus(reader, c, event) || read_mismatch(reader, c, event))
        return true;
    if (is_load(c)) {
        set_event(event, EVENT_MODULE_LOADED, c);
        find_version(c, event->version[1]);
        return true;
    }
    if (cursor_has(c, "Slow RPC response from GPU"))
        return set_event(event, EVENT_GSP_SLOW, c);
    if (cursor_has(c, "nvidia-peermem") && cursor_has(c, "ERROR"))
        return set_event(event, EVENT_PEERMEM, c);
    if (cursor_skip(&in, "knvlink") && (cursor_has(c, "Failed") || cursor_has(c, "failed")))
        return set_event(event, EVENT_NVLINK_DRIVER, c);
    return false;
}

/* --- other lines of the kernel ---------------------------------------------------------------------------------------
 */

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
    set_event(event, EVENT_AER, c);
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
    set_event(event, EVENT_OOM_KILL, c);
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
    set_event(event, EVENT_HUNG_TASK, c);
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
    set_event(event, EVENT_SEGFAULT, c);
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
    set_event(event, EVENT_MCE, c);
    event->word = uncorrected ? EVENT_FATAL : EVENT_CORRECTABLE;
    return true;
}

static bool read_kernel_line(Cursor c, Event *event)
{
    if (read_aer(c, event) || read_kill(c, event) || read_hung(c, event) || read_segfault(c, event) ||
        read_memory(c, event))
        return true;
    if (cursor_has(c, "soft lockup - CPU#") || cursor_has(c, "detected hard LOCKUP"))
        return set_event(event, EVENT_LOCKUP, c);
    if (cursor_has(c, "Kernel panic - not syncing"))
        return set_event(event, EVENT_PANIC, c);
    if (cursor_has(c, "nvidia-nvlink: Unregistered") || cursor_has(c, "nvidia-modeset: Unloading"))
        return cursor_has(c, "nvidia-nvlink") && set_event(event, EVENT_MODULE_UNLOADED, c);
    if (cursor_has(c, "nvidia-peermem") && cursor_has(c, "ERROR"))
        return set_event(event, EVENT_PEERMEM, c);
    return false;
}

/* --- records, and any line -------------------------------------------------------------------------------------------
 */

LineReader *line_reader_new(const char *const *patterns, size_t count)
{
    LineReader *reader = xcalloc(1, sizeof *reader);

    reader->patterns = xcalloc(count + 1, sizeof *reader->patterns);
    for (size_t i = 0; i < count; i++)
        if (patterns[i][0])
            reader->patterns[reader->pattern_count++] = xmemdup0(patterns[i], strlen(patterns[i]));
    return reader;
}

void line_reader_free(LineReader *reader)
{
    if (!reader)
        return;
    for (size_t i = 0; i < reader->pattern_count; i++)
        free(reader->patterns[i]);
    free(reader->patterns);
    free(reader);
}

/* A number up to `stop`, stepping over it. */
static int read_field(Cursor *c, const char *stops, uint64_t *ret)
{
    uint64_t value = 0;
    const char *from = c->at;

    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        const uint64_t digit = (uint64_t)(*c->at++ - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return -EBADMSG;
        value = value * 10 + digit;
    }
    if (c->at == from || c->at == c->end || !strchr(stops, *c->at))
        return -EBADMSG;
    *ret = value;
    return 0;
}

int kmsg_record(const char *bytes, size_t len, KmsgRecord *ret)
{
    Cursor c = {bytes, bytes + len};
    uint64_t priority, sequence, usec;
    const char *end, *newline;

    if (read_field(&c, ",", &priority) < 0 || c.at++ == c.end || read_field(&c, ",", &sequence) < 0 ||
        c.at++ == c.end || read_field(&c, ",;", &usec) < 0)
        return -EBADMSG;
    c.at = memchr(c.at, ';', (size_t)(c.end - c.at));
    if (!c.at)
        return -EBADMSG;
    c.at++;
    newline = memchr(c.at, '\n', (size_t)(c.end - c.at));
    end = newline ? newline : c.end;
    *ret = (KmsgRecord){.facility = (unsigned int)(priority >> 3 & 0xff),
                        .level = (unsigned int)(priority & 7),
                        .sequence = sequence,
                        .usec = usec,
                        .text = c.at,
                        .len = (size_t)(end - c.at)};
    return 0;
}

static bool match_patterns(const LineReader *reader, Cursor c, Event *event)
{
    for (size_t i = 0; i < reader->pattern_count; i++) {
        if (!cursor_has(c, reader->patterns[i]))
            continue;
        event_init(event, EVENT_LINE, EVENT_FROM_KMSG);
        cursor_show(c.at, (size_t)(c.end - c.at), event->text, sizeof event->text);
        return true;
    }
    return false;
}

bool line_read(LineReader *reader, const char *text, size_t len, Event *ret_event)
{
    const Cursor c = {text, text + len};
    Cursor in = c;
    Event event;
    bool found;

    if (cursor_find(&in, "NVRM: Xid ("))
        found = read_xid(reader, in, &event);
    else if (cursor_find(&in, "SXid ("))
        found = read_sxid(in, &event);
    else if (cursor_find(&in, "NVRM: "))
        found = read_driver_line(reader, in, &event);
    else
        found = read_kernel_line(c, &event);
    if (!found && !match_patterns(reader, c, &event))
        return false;
    *ret_event = event;
    return true;
}

/* "[Jul 23 2024 07:53:55] " as UTC: the fabric manager writes local time and does not say which. */
static uint64_t read_time(Cursor *c)
{
    struct tm tm = {0};
    char text[32];
    Cursor in = *c;

    if (!cursor_skip(&in, "[") || !cursor_until(&in, "]", false, text, sizeof text))
        return 0;
    const char *end = strptime(text, "%b %d %Y %H:%M:%S", &tm);
    if (!end || *end)
        return 0;
    *c = in;
    tm.tm_isdst = -1;
    const time_t at = mktime(&tm);
    return at < 0 ? 0 : (uint64_t)at * 1000000000;
}

/* "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33" */
static bool read_switch_error(Cursor c, Event *event)
{
    uint32_t code;

    if (!cursor_find(&c, "detected NVSwitch "))
        return false;
    const bool fatal = !cursor_skip(&c, "non-fatal ") && cursor_skip(&c, "fatal ");
    if (!cursor_skip(&c, "error ") || !cursor_number(&c, &code))
        return false;
    event->kind = EVENT_SXID;
    event->code = (int32_t)code;
    event->word = fatal ? EVENT_FATAL : EVENT_NONFATAL;
    Cursor in = c;
    if (cursor_find(&in, "pci bus id "))
        event->has_pci = cursor_pci(&in, &event->pci);
    if (cursor_find(&c, " port ") && !cursor_number(&c, &event->link))
        event->link = DEVICE_NO_NUMBER;
    return true;
}

bool line_read_fabric(const char *text, size_t len, Event *ret_event, uint64_t *ret_real_ns)
{
    Cursor c = {text, text + len};
    const uint64_t real_ns = read_time(&c);
    Event event;

    cursor_blanks(&c);
    if (!cursor_skip(&c, "[ERROR]"))
        return false;
    cursor_blanks(&c);
    if (cursor_skip(&c, "[tid "))
        cursor_find(&c, "]");
    cursor_blanks(&c);
    event_init(&event, EVENT_FABRIC_LOG, EVENT_FROM_FABRIC_LOG);
    read_switch_error(c, &event);
    cursor_show(c.at, (size_t)(c.end - c.at), event.text, sizeof event.text);
    *ret_event = event;
    *ret_real_ns = real_ns;
    return true;
}
