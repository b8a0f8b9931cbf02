/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines of the kernel log and of the fabric manager, by forms that look like the lines themselves. */
#include "source/kmsg/line.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
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
    bool off_bus, mismatch, init, oops; /* the first line of such a message was the one before */
    PciAddress pci;                     /* of the first line */
    Event half;                         /* API mismatch, so far */
    EventWord record_word;              /* of the firmware's error record that is being printed */
};

/* --- forms ----------------------------------------------------------------------------------------------------------
 */

enum { DIGITS_MAX = 9, LONG_DIGITS_MAX = 20, HEX_MAX = 8, PCI_MAX = 32 };

static size_t bytes_left(const Cursor *c)
{
    return (size_t)(c->end - c->at);
}

static void skip_blanks(Cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
        c->at++;
}

static bool read_number(Cursor *c, size_t digits_max, uint64_t *ret)
{
    size_t len = 0;

    while (len < bytes_left(c) && isdigit((unsigned char)c->at[len]))
        len++;
    if (len > digits_max || number_parsen_u64(c->at, len, 0, UINT64_MAX, ret, NULL) < 0)
        return false;
    c->at += len;
    return true;
}

static bool read_hex(Cursor *c, uint32_t *ret)
{
    size_t len = 2;
    uint64_t value;

    if (bytes_left(c) < len || memcmp(c->at, "0x", len) != 0)
        return false;
    while (len < bytes_left(c) && isxdigit((unsigned char)c->at[len]))
        len++;
    if (len > 2 + HEX_MAX || number_parsen_hex(c->at, len, UINT32_MAX, &value, NULL) < 0)
        return false;
    c->at += len;
    *ret = (uint32_t)value;
    return true;
}

/* 4 to 8 digits of domain, with or without "PCI:" and function. */
static bool read_pci(Cursor *c, PciAddress *ret)
{
    const size_t front = bytes_left(c) > 4 && memcmp(c->at, "PCI:", 4) == 0 ? 4 : 0;
    const char *at = c->at + front;
    char text[PCI_MAX];
    size_t len = 0;

    for (; at + len < c->end && len + 1 < sizeof text && (isxdigit((unsigned char)at[len]) || strchr(":.", at[len]));
         len++)
        text[len] = at[len];
    while (len > 0 && (text[len - 1] == '.' || text[len - 1] == ':')) /* of the sentence, behind a name */
        len--;
    text[len] = '\0';
    if (len == 0 || pci_parse(text, ret) < 0)
        return false;
    c->at = at + len;
    return true;
}

/* Copies text as UTF-8 without control characters, cut at a character. */
static void show_text(const char *text, size_t len, char *out, size_t cap)
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

/* One field of a form, `stop` (`len` bytes) is what follows it there. */
static bool read_form_field(Cursor *c, char field, const char *stop, size_t len, va_list *to)
{
    const char *at = memmem(c->at, bytes_left(c), stop, len);
    uint64_t number = 0;
    char *text;

    switch (field) {
    case 'd':
        if (!read_number(c, DIGITS_MAX, &number))
            return false;
        *va_arg(*to, int32_t *) = (int32_t)number;
        return true;
    case 'u':
        if (!read_number(c, DIGITS_MAX, &number))
            return false;
        *va_arg(*to, uint32_t *) = (uint32_t)number;
        return true;
    case 'l':
        return read_number(c, LONG_DIGITS_MAX, va_arg(*to, uint64_t *));
    case 'x':
        return read_hex(c, va_arg(*to, uint32_t *));
    case 'p':
        return read_pci(c, va_arg(*to, PciAddress *));
    case 's':
        at = at ? at : c->end;
        text = va_arg(*to, char *);
        show_text(c->at, (size_t)(at - c->at), text, va_arg(*to, size_t));
        c->at = at;
        return true;
    default: /* '*' */
        c->at = at ? at : c->at;
        return at;
    }
}

/*
 * Whether the text goes on like `form`; the cursor steps behind it then, and stays otherwise (but fields before the one
 * that does not fit are set). What is no field stands for itself. Fields, and what they are read into:
 *   %*  anything, up to the first place where what follows in the form stands
 *   %s  the same as a text, or all that is left (char *, size_t), cleaned for display
 *   %d %u %l  1 to 9 decimal digits (int32_t *, uint32_t *), as many as fit (uint64_t *)
 *   %x  "0x" and 1 to 8 hexadecimal digits (uint32_t *)
 *   %p  a PCI address (PciAddress *)
 */
static bool scan_form(Cursor *cursor, const char *form, ...)
{
    Cursor c = *cursor;
    bool fits = true;
    va_list to;

    va_start(to, form);
    while (fits && *form) {
        const char field = *form == '%' ? form[1] : '\0';

        form += field ? 2 : 0;
        const size_t len = strcspn(form, "%");
        fits = !field || read_form_field(&c, field, form, len, &to);
        fits = fits && bytes_left(&c) >= len && memcmp(c.at, form, len) == 0;
        c.at += fits ? len : 0;
        form += len;
    }
    va_end(to);
    if (fits)
        *cursor = c;
    return fits;
}

static bool has_word(Cursor c, const char *word)
{
    return memmem(c.at, bytes_left(&c), word, strlen(word));
}

/* An event that has nothing but its text yet; one that is too long ends behind a word. */
static void begin_event(Event *event, EventKind kind, Cursor c)
{
    event_init(event, kind, EVENT_FROM_KMSG);
    show_text(c.at, bytes_left(&c), event->text, sizeof event->text);
    char *blank = bytes_left(&c) >= sizeof event->text ? strrchr(event->text, ' ') : NULL;
    if (blank && blank > event->text + sizeof event->text / 2)
        *blank = '\0';
}

/* "Fatal", "Non-fatal", ... if it comes next; of error records of the firmware "recoverable", "corrected", ... */
static EventWord read_word(Cursor *c)
{
    static const struct {
        const char *text;
        EventWord word;
    } words[] = {{"Fatal", EVENT_FATAL},         {"fatal", EVENT_FATAL},          {"Non-fatal", EVENT_NONFATAL},
                 {"Nonfatal", EVENT_NONFATAL},   {"recoverable", EVENT_NONFATAL}, {"Uncorrect", EVENT_NONFATAL},
                 {"Correct", EVENT_CORRECTABLE}, {"corrected", EVENT_CORRECTABLE}};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (scan_form(c, words[i].text))
            return words[i].word;
    return EVENT_NO_WORD;
}

/* Lines that a form alone reads. At most one field of it is kept: %p is where it happened, %u how many they are. */
typedef struct PlainLine {
    const char *form;
    EventKind kind; /* EVENT_KIND_END: the line says nothing */
    EventWord word;
} PlainLine;

/* The first form that fits counts. */
static bool read_plain_line(const PlainLine *lines, size_t count, Cursor c, Event *event)
{
    for (size_t i = 0; i < count; i++) {
        const bool has_pci = strstr(lines[i].form, "%p");
        PciAddress pci = {0};
        uint32_t number = 1;

        if (has_pci ? !scan_form(&c, lines[i].form, &pci) : !scan_form(&c, lines[i].form, &number))
            continue;
        event->kind = lines[i].kind;
        event->word = lines[i].word;
        event->has_pci = has_pci;
        event->pci = pci;
        event->count = number;
        return lines[i].kind != EVENT_KIND_END;
    }
    return false;
}

/* --- XIDs and SXids --------------------------------------------------------------------------------------------------
 */

enum { RECOVERY_XID = 154, NVLINK_XID = 74, LINK_FIRST_XID = 144, LINK_LAST_XID = 150, SM_XID = 13 };

/* "pid=7062, ", "pid=2239, name=python, ", "pid='<unknown>', name=<unknown>, " */
static void read_process(Cursor *c, Event *event)
{
    if (!scan_form(c, "pid=%d, ", &event->pid) && !scan_form(c, "pid='<unknown>', ") &&
        !scan_form(c, "pid=<unknown>, "))
        return;
    scan_form(c, "name=%s, ", event->process, sizeof event->process);
    if (strcmp(event->process, "<unknown>") == 0)
        event->process[0] = '\0';
}

/* "(0x0, 0x0, ...)", with commas or blanks between. */
static void read_registers(Cursor c, Event *event)
{
    if (!scan_form(&c, "%*("))
        return;
    while (event->register_count < EVENT_REGISTERS && scan_form(&c, "%x", &event->registers[event->register_count])) {
        event->register_count++;
        scan_form(&c, ",");
        skip_blanks(&c);
    }
}

static void read_payload(Cursor c, Event *event)
{
    Cursor tail = c;
    uint32_t action;

    scan_form(&tail, "%* caused by previous Xid %d", &event->caused_by);
    if (event->code == NVLINK_XID && scan_form(&c, "%*link ")) {
        scan_form(&c, "%u", &event->link);
        read_registers(c, event);
    } else if (event->code >= LINK_FIRST_XID && event->code <= LINK_LAST_XID) {
        /* "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x...)"; a link of -1 is none */
        scan_form(&c, "%s ", event->unit, sizeof event->unit);
        event->word = read_word(&c);
        scan_form(&c, "%*Link %u", &event->link);
        read_registers(c, event);
    } else if (event->code == RECOVERY_XID && scan_form(&c, "%* to %x", &action)) {
        event->recovery_action = action <= INT8_MAX ? (int32_t)action : EVENT_NO_ACTION;
    } else if (event->code == SM_XID && scan_form(&c, "%*(GPC %d, TPC %d", &event->gpc, &event->tpc)) {
        scan_form(&c, ", SM %d", &event->sm);
    }
}

static void name_gpu(const LineReader *reader, Event *event)
{
    for (size_t i = 0; event->has_pci && i < reader->gpu_count; i++)
        if (pci_compare(reader->gpus[i].pci, event->pci) == 0)
            memcpy(event->uuid, reader->gpus[i].uuid, sizeof event->uuid);
}

/* What XIDs and SXids begin with: "Xid (PCI:0000:01:00 GPU-I:05): 94, ". */
static bool read_code(Cursor *c, EventKind kind, Event *event)
{
    begin_event(event, kind, *c);
    scan_form(c, "%*(");
    event->has_pci = scan_form(c, "%p", &event->pci);
    scan_form(c, " GPU-I:%u", &event->gpu_instance);
    scan_form(c, " GPU-CI:%u", &event->compute_instance);
    if (!scan_form(c, "%*): %d", &event->code))
        return false;
    scan_form(c, ",");
    skip_blanks(c);
    return true;
}

static bool read_xid(const LineReader *reader, Cursor c, Event *event)
{
    if (!read_code(&c, EVENT_XID, event) || event->code > INT16_MAX)
        return false;
    read_process(&c, event);
    read_payload(c, event);
    name_gpu(reader, event);
    return true;
}

/* The driver prints three records of one error: "Non-fatal, Link 44 ...", and as details of that "Severity 0 Engine
 * instance 44 Sub-engine instance 00" and "Data {...}" (error_nvswitch.c). */
static bool read_sxid(Cursor c, Event *event)
{
    uint32_t severity;

    if (!read_code(&c, EVENT_SXID, event) || scan_form(&c, "Data {") || scan_form(&c, "Severity %u Engine", &severity))
        return false;
    event->word = read_word(&c);
    scan_form(&c, "%*Link %u", &event->link);
    return true;
}

/* --- other lines of the driver ---------------------------------------------------------------------------------------
 */

/* "GPU at PCI:0000:18:00: GPU-<uuid>": who a bus address is, said once before the first XID. */
static void learn_gpu(LineReader *reader, PciAddress pci, Cursor uuid)
{
    size_t i = 0;

    while (i < reader->gpu_count && pci_compare(reader->gpus[i].pci, pci) != 0)
        i++;
    if (i == LINE_GPUS)
        return;
    reader->gpu_count += i == reader->gpu_count;
    reader->gpus[i].pci = pci;
    show_text(uuid.at, bytes_left(&uuid), reader->gpus[i].uuid, sizeof reader->gpus[i].uuid);
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
            show_text(c.at, len, out, EVENT_NAME_CAP);
            return;
        }
        c.at += len;
    }
}

/* "GPU 0000:18:00.0: RmInitAdapter failed! (0x24:0x65:1589)", and without the address in old drivers; then
 * "rm_init_adapter failed, device minor number 0", which says the same once more. */
static bool read_init_failed(LineReader *reader, Cursor c, Event *event)
{
    PciAddress pci = {0};
    const bool has_pci = scan_form(&c, "GPU %p: ", &pci), first = has_word(c, "RmInitAdapter failed");
    const bool said = reader->init && pci_compare(reader->pci, pci) == 0;

    if (!first && !has_word(c, "rm_init_adapter failed") && !has_word(c, "rm_init_adapter("))
        return false;
    reader->init = first;
    reader->pci = pci;
    event->kind = EVENT_INIT_FAILED;
    event->has_pci = has_pci;
    event->pci = pci;
    return first || !said;
}

/* "The NVIDIA GPU 0000:41:00.0 / (PCI ID: 10de:2330) installed in this system has / fallen off the bus ..." */
static bool read_off_bus(LineReader *reader, Cursor c, Event *event)
{
    Cursor in = c;

    reader->off_bus |= scan_form(&in, "The NVIDIA GPU %p", &reader->pci);
    if (!reader->off_bus || !has_word(c, "fallen off the bus"))
        return false;
    reader->off_bus = false;
    event->kind = EVENT_OFF_BUS;
    event->has_pci = true;
    event->pci = reader->pci;
    return true;
}

/* "API mismatch: the client 'x' (pid 12) / has the version A, but this kernel module has / the version B. ..." */
static bool read_mismatch(LineReader *reader, Cursor c, Event *event)
{
    Event *half = &reader->half;

    if (scan_form(&c, "API mismatch: ")) {
        begin_event(half, EVENT_API_MISMATCH, c);
        scan_form(&c, "%*client '%s'", half->process, sizeof half->process);
        scan_form(&c, "%*(pid %d", &half->pid);
        reader->mismatch = true;
    }
    if (!reader->mismatch)
        return false;
    if (!half->version[0][0] && scan_form(&c, "%*the version ")) {
        find_version(c, half->version[0]);
        if (!scan_form(&c, "%*kernel module has"))
            return false;
    }
    if (!half->version[0][0] || !scan_form(&c, "%*the version "))
        return false;
    find_version(c, half->version[1]);
    reader->mismatch = false;
    *event = *half;
    return true;
}

static bool read_driver_line(LineReader *reader, Cursor c, Event *event)
{
    static const PlainLine lines[] = {
        {"GPU %p: GPU has fallen off the bus", EVENT_OFF_BUS, EVENT_NO_WORD},
        {"GPU at %p has fallen off the bus", EVENT_OFF_BUS, EVENT_NO_WORD}, /* until R331 or so */
        {"loading NVIDIA UNIX%*Kernel Module", EVENT_MODULE_LOADED, EVENT_NO_WORD},
        {"%*Slow RPC response from GPU", EVENT_GSP_SLOW, EVENT_NO_WORD},
        {"%*Back to back GSP RPC timeout detected", EVENT_GSP_DEAD, EVENT_NO_WORD},
        {"%*uvm encountered global fatal error", EVENT_UVM_FATAL, EVENT_NO_WORD},
        {"%*[NV_ERR_RESET_REQUIRED]", EVENT_RESET_NEEDED, EVENT_NO_WORD},
        {"%*nvidia-peermem%*ERROR", EVENT_PEERMEM, EVENT_NO_WORD},
        {"knvlink%*Failed", EVENT_NVLINK_DRIVER, EVENT_NO_WORD},
        {"knvlink%*failed", EVENT_NVLINK_DRIVER, EVENT_NO_WORD},
    };
    Cursor in = c;
    PciAddress pci;

    begin_event(event, EVENT_LINE, c);
    if (scan_form(&in, "GPU at %p: ", &pci)) {
        learn_gpu(reader, pci, in);
        return false;
    }
    if (read_init_failed(reader, c, event) || read_off_bus(reader, c, event) || read_mismatch(reader, c, event))
        return true;
    if (!read_plain_line(lines, ARRAY_LEN(lines), c, event))
        return false;
    if (event->kind == EVENT_MODULE_LOADED)
        find_version(c, event->version[1]);
    return true;
}

/* --- other lines of the kernel ---------------------------------------------------------------------------------------
 */

/* "pcieport 0000:00:03.1: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)"; the lines around
 * it ("AER: ... received", "device [...]", "[12] Timeout") are its details. */
static bool read_aer(Cursor c, Event *event)
{
    Cursor severity = c;

    if (!scan_form(&severity, "%*PCIe Bus Error: severity="))
        return false;
    event->kind = EVENT_AER;
    event->word = read_word(&severity);
    if (event->word == EVENT_NONFATAL && has_word(severity, "(Fatal)"))
        event->word = EVENT_FATAL;
    event->has_pci = scan_form(&c, "%* ") && scan_form(&c, "%p", &event->pci);
    return true;
}

/* "Out of memory: Killed process 1532 (python) total-vm:...", "Memory cgroup out of memory: Killed process ..." */
static bool read_kill(Cursor c, Event *event)
{
    if (!scan_form(&c, "%*Killed process %d", &event->pid) && !scan_form(&c, "%*Kill process %d", &event->pid))
        return false;
    event->kind = EVENT_OOM_KILL;
    skip_blanks(&c);
    scan_form(&c, "(%s)", event->process, sizeof event->process);
    return true;
}

/* "INFO: task jfsmount:136986 blocked for more than 120 seconds." The name may hold colons. */
static bool read_hung(Cursor c, Event *event)
{
    Cursor behind = c;
    const char *colon;

    if (!scan_form(&c, "%*INFO: task ") || !scan_form(&behind, "%* blocked for more than "))
        return false;
    event->kind = EVENT_HUNG_TASK;
    c.end = behind.at - strlen(" blocked for more than ");
    if (c.end <= c.at || !(colon = memrchr(c.at, ':', bytes_left(&c))))
        return true;
    show_text(c.at, (size_t)(colon - c.at), event->process, sizeof event->process);
    c.at = colon;
    scan_form(&c, ":%d", &event->pid);
    return true;
}

/* "pt_main_thread[2536443]: segfault at ... in libnccl.so.2[7f7c7ac00000+d3d3000]", and the driver's own services. */
static bool read_segfault(Cursor c, Event *event)
{
    static const char *const parts[] = {" in libnccl", " in libcuda", " in libnvidia", "nv-fabricmanage[",
                                        "nvidia-imex["};
    size_t i = 0;

    if (!has_word(c, "]: segfault at "))
        return false;
    while (i < ARRAY_LEN(parts) && !has_word(c, parts[i]))
        i++;
    if (i == ARRAY_LEN(parts))
        return false;
    event->kind = EVENT_SEGFAULT;
    scan_form(&c, "%s[%d", event->process, sizeof event->process, &event->pid);
    return true;
}

/* "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 9: 8c00004000010091": bit 61 of the bank's status says that it
 * was not corrected (Intel SDM volume 3B, 16.3.2.2). */
static bool read_machine_check(Cursor c, Event *event)
{
    if (!scan_form(&c, "%*[Hardware Error]: CPU %*: Machine Check: %* Bank %*: ") || bytes_left(&c) < 16)
        return false;
    event->kind = EVENT_MCE;
    event->word = strchr("2367abefABEF", *c.at) ? EVENT_NONFATAL : EVENT_CORRECTABLE;
    return true;
}

/* An error record of the firmware (APEI, the kernel's cper.c): "event severity: recoverable", for each of its sections
 * " Error 0, type: recoverable" and "section_type: memory error"; the section of a PCIe error names the device in a
 * later line. Records of before a crash (BERT) are printed at the next start. */
static bool read_firmware_record(LineReader *reader, Cursor c, Event *event)
{
    Cursor in;

    if (!scan_form(&c, "%*[Hardware Error]: "))
        return false;
    skip_blanks(&c);
    in = c;
    if (scan_form(&c, "event severity: ") || scan_form(&c, "Error %*, type: ")) {
        reader->record_word = read_word(&c);
        return false;
    }
    if (reader->record_word == EVENT_NO_WORD)
        return false;
    event->kind = EVENT_MCE;
    event->word = reader->record_word;
    if (scan_form(&c, "device_id: %p", &event->pci)) {
        event->kind = EVENT_AER;
        event->has_pci = true;
        return true;
    }
    return (scan_form(&in, "section_type: ") || scan_form(&in, "section type: ")) && !has_word(in, "PCIe error");
}

/* An oops is announced ("BUG: kernel NULL pointer dereference"), then named with its number ("Oops: 0002 [#1] SMP"). */
static bool is_oops_again(LineReader *reader, Cursor c)
{
    const bool said = reader->oops;

    reader->oops = !has_word(c, "[#");
    return !reader->oops && said;
}

static bool read_kernel_line(LineReader *reader, Cursor c, Event *event)
{
    static const PlainLine lines[] = {
        {"%*soft lockup - CPU#", EVENT_LOCKUP, EVENT_NO_WORD},
        {"%*detected hard LOCKUP", EVENT_LOCKUP, EVENT_NO_WORD},
        {"%*self-detected stall on CPU", EVENT_RCU_STALL, EVENT_NO_WORD},
        {"%*detected stalls on CPUs/tasks", EVENT_RCU_STALL, EVENT_NO_WORD},
        {"%*detected expedited stalls on CPUs/tasks", EVENT_RCU_STALL, EVENT_NO_WORD},
        {"%*Kernel panic - not syncing", EVENT_PANIC, EVENT_NO_WORD},
        {"%*BUG: unable to handle ", EVENT_OOPS, EVENT_NO_WORD},
        {"%*BUG: kernel NULL pointer dereference", EVENT_OOPS, EVENT_NO_WORD},
        {"%*Unable to handle kernel %* at virtual address", EVENT_OOPS, EVENT_NO_WORD}, /* arm64 */
        {"%*kernel BUG at ", EVENT_OOPS, EVENT_NO_WORD},
        {"%*Oops%*[#", EVENT_OOPS, EVENT_NO_WORD},
        {"%*general protection fault%*[#", EVENT_OOPS, EVENT_NO_WORD},
        {"%*invalid opcode: %*[#", EVENT_OOPS, EVENT_NO_WORD},
        /* a port cuts its link: downstream port containment, and what hotplug makes of it */
        {"%*pcieport %p: DPC: containment event", EVENT_PORT_DOWN, EVENT_NO_WORD},
        {"%*pciehp: %*: Link Down/Up ignored", EVENT_KIND_END, EVENT_NO_WORD},
        {"%*pcieport %p: pciehp: %*: Link Down", EVENT_PORT_DOWN, EVENT_NO_WORD},
        {"%*pcieport %p: pciehp: %*: Card not present", EVENT_PORT_DOWN, EVENT_NO_WORD},
        {"%*pciehp %p:pcie%*: Link Down", EVENT_PORT_DOWN, EVENT_NO_WORD}, /* until 4.19 */
        {"%*pciehp %p:pcie%*: Card not present", EVENT_PORT_DOWN, EVENT_NO_WORD},
        /* memory and processors of the host */
        {"%*EDAC MC%*: %u UE ", EVENT_MCE, EVENT_FATAL},
        {"%*EDAC MC%*: %u CE ", EVENT_MCE, EVENT_CORRECTABLE},
        {"%*EDAC MC%*: UE ", EVENT_MCE, EVENT_FATAL}, /* until 3.5 */
        {"%*EDAC MC%*: CE ", EVENT_MCE, EVENT_CORRECTABLE},
        {"%*Machine check events logged", EVENT_MCE, EVENT_CORRECTABLE},
        {"%*[Hardware Error]: CPU %*: Machine Check Exception: ", EVENT_MCE, EVENT_FATAL},
        {"%*[Hardware Error]: System Fatal error", EVENT_MCE, EVENT_FATAL}, /* this and the next of AMD */
        {"%*[Hardware Error]: Uncorrected, software ", EVENT_MCE, EVENT_NONFATAL},
        {"%*[Hardware Error]: Deferred error", EVENT_MCE, EVENT_NONFATAL},
        {"%*[Hardware Error]: Corrected error", EVENT_MCE, EVENT_CORRECTABLE},
        {"%*Uncorrected hardware memory error in user-access", EVENT_MCE, EVENT_NONFATAL},
        {"%*Memory failure: %*: recovery action for ", EVENT_MCE, EVENT_NONFATAL},
        {"%*SError Interrupt on CPU", EVENT_MCE, EVENT_FATAL}, /* arm64 */
        {"%*uvm encountered global fatal error", EVENT_UVM_FATAL, EVENT_NO_WORD},
        {"%*nvidia-uvm: %*Encountered a global fatal error", EVENT_UVM_FATAL, EVENT_NO_WORD},
        {"%*nvidia-nvlink: Unregistered", EVENT_MODULE_UNLOADED, EVENT_NO_WORD},
        {"%*nvidia-peermem%*ERROR", EVENT_PEERMEM, EVENT_NO_WORD},
    };

    begin_event(event, EVENT_LINE, c);
    if (read_aer(c, event) || read_kill(c, event) || read_hung(c, event) || read_segfault(c, event) ||
        read_machine_check(c, event) || read_firmware_record(reader, c, event))
        return true;
    return read_plain_line(lines, ARRAY_LEN(lines), c, event) &&
           (event->kind != EVENT_OOPS || !is_oops_again(reader, c));
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

int kmsg_record(const char *bytes, size_t len, KmsgRecord *ret)
{
    Cursor c = {bytes, bytes + len};
    uint64_t priority, sequence, usec;
    const char *newline;

    if (!scan_form(&c, "%l,%l,%l", &priority, &sequence, &usec) || c.at == c.end || (*c.at != ',' && *c.at != ';') ||
        !scan_form(&c, "%*;"))
        return -EBADMSG;
    newline = memchr(c.at, '\n', bytes_left(&c));
    *ret = (KmsgRecord){.numbered = true,
                        .sequence = sequence,
                        .usec = usec,
                        .text = c.at,
                        .len = newline ? (size_t)(newline - c.at) : bytes_left(&c)};
    return 0;
}

static bool match_patterns(const LineReader *reader, Cursor c, Event *event)
{
    size_t i = 0;

    while (i < reader->pattern_count && !has_word(c, reader->patterns[i]))
        i++;
    if (i == reader->pattern_count)
        return false;
    begin_event(event, EVENT_LINE, c);
    return true;
}

bool line_read(LineReader *reader, const char *text, size_t len, Event *ret_event)
{
    const Cursor c = {text, text + len};
    Cursor in = c;
    Event event;
    bool found;

    if (scan_form(&in, "%*NVRM: Xid ("))
        found = read_xid(reader, (Cursor){in.at - strlen("Xid ("), in.end}, &event);
    else if (scan_form(&in, "%*SXid ("))
        found = read_sxid((Cursor){in.at - strlen("SXid ("), in.end}, &event);
    else if (scan_form(&in, "%*NVRM: "))
        found = read_driver_line(reader, in, &event);
    else
        found = read_kernel_line(reader, c, &event);
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

    if (!scan_form(&in, "[%s]", text, sizeof text))
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
static void read_switch_error(Cursor c, Event *event)
{
    if (!scan_form(&c, "%*detected NVSwitch "))
        return;
    const bool fatal = !scan_form(&c, "non-fatal ") && scan_form(&c, "fatal ");
    if (!scan_form(&c, "error %d", &event->code))
        return;
    event->kind = EVENT_SXID;
    event->word = fatal ? EVENT_FATAL : EVENT_NONFATAL;
    Cursor in = c;
    event->has_pci = scan_form(&in, "%*pci bus id %p", &event->pci);
    scan_form(&c, "%* port %u", &event->link);
}

bool line_read_fabric(const char *text, size_t len, Event *ret_event, uint64_t *ret_real_ns)
{
    Cursor c = {text, text + len};
    const uint64_t real_ns = read_time(&c);

    skip_blanks(&c);
    if (!scan_form(&c, "[ERROR]"))
        return false;
    skip_blanks(&c);
    scan_form(&c, "[tid %*]");
    skip_blanks(&c);
    begin_event(ret_event, EVENT_FABRIC_LOG, c);
    ret_event->origin = EVENT_FROM_FABRIC_LOG;
    read_switch_error(c, ret_event);
    *ret_real_ns = real_ns;
    return true;
}
