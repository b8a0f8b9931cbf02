/* SPDX-License-Identifier: Apache-2.0 */
/* systemd's journal: one datagram per notification in its native protocol, with fields that journalctl finds. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/owner.h"
#include "service/alert/inside.h"

enum { RECORD_MAX = 64 * 1024, EVIDENCE_MAX = 4000 };

static void add_field(Str *out, const char *name, const char *value)
{
    size_t len = strlen(value);

    if (!len)
        return;
    if (!strchr(value, '\n')) {
        str_addf(out, "%s=%s\n", name, value);
        return;
    }
    str_addf(out, "%s\n", name);
    for (int i = 0; i < 8; i++) /* its length, little-endian */
        str_addc(out, (char)(unsigned char)((uint64_t)len >> 8 * i));
    str_addf(out, "%s\n", value);
}

static const char *priority_of(const Incident *incident, TellChange change)
{
    static const char *const of_severity[SEVERITY_END] = {
        [SEVERITY_INFO] = "5", [SEVERITY_WARNING] = "4", [SEVERITY_ERROR] = "3", [SEVERITY_FATAL] = "2"};

    return change == TELL_CLEARED || change == TELL_MISSED ? "5" : of_severity[incident->severity];
}

static void add_device(const Device *device, Str *out)
{
    char text[PCI_TEXT_CAP];

    if (device->index != DEVICE_NO_NUMBER) {
        snprintf(text, sizeof(text), "%u", device->index);
        add_field(out, "STOKER_GPU", text);
    }
    add_field(out, "STOKER_UUID", *device->parent_uuid ? device->parent_uuid : device->uuid);
    if (device->has_pci)
        add_field(out, "STOKER_PCI_BUS_ID", pci_format(device->pci, PCI_FORM_NVML, text));
}

static void build(const MessageTell *told, Str *out)
{
    const Incident *incident = &told->tell->item->incident;
    CLEANUP(str_done) Str message = {0};
    char text[512];

    str_init(&message, EVIDENCE_MAX);
    str_addf(&message, "%s: %s", tell_change_key(told->change), incident->title);
    if (told->change != TELL_CLEARED && *incident->verdict)
        str_addf(&message, " %s", incident->verdict);
    add_field(out, "MESSAGE", message.text);
    add_field(out, "PRIORITY", priority_of(incident, told->change));
    add_field(out, "SYSLOG_IDENTIFIER", "stoker");
    add_field(out, "STOKER_INCIDENT", incident->id);
    add_field(out, "STOKER_CHANGE", tell_change_key(told->change));
    add_field(out, "STOKER_CLASS", incident->class);
    add_field(out, "STOKER_SEVERITY", fault_severities[incident->severity].key);
    add_field(out, "STOKER_CAUSE", fault_causes[incident->cause].key);
    add_field(out, "STOKER_ACTION", fault_actions[incident->action].key);
    add_field(out, "STOKER_ROUTE", fault_routes[incident->route].key);
    add_field(out, "STOKER_STATE", incident_state_key(incident->state));
    add_field(out, "STOKER_LABELS", told->tell->labels);
    add_device(&incident->device, out);
    payload_runbook(told->tell->receiver->alerts, told->tell->route, incident, text, sizeof(text));
    add_field(out, "STOKER_RUNBOOK", text);
    str_clear(&message);
    payload_evidence(incident, EVIDENCE_MAX, &message);
    add_field(out, "STOKER_EVIDENCE", message.text);
}

static int send_record(const char *path, const Str *record)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    if (sendto(fd, record->text, record->len, MSG_NOSIGNAL, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    return 0;
}

static void start(Message *message)
{
    const char *path = message->receiver->config->socket;
    CLEANUP(str_done) Str record = {0};
    char why[160] = "";
    int rc;

    str_init(&record, RECORD_MAX);
    build(&message->tells.at[0], &record);
    rc = send_record(path, &record);
    if (rc < 0)
        snprintf(why, sizeof(why), "send to '%.80s': %s", path, strerror(-rc));
    notify_done(message, rc == 0 ? OUTCOME_DELIVERED : OUTCOME_FAILED, 0, why);
}

static void cancel(Message *message UNUSED) {}

const SenderOps journald_ops = {start, cancel};
