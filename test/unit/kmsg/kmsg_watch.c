/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what source/kmsg gives, a line of JSON each, for the Python tests beside: kmsg_watch KMSG JOURNALCTL
 * FABRIC_LOG ROOT [BOOT_ID NEXT]. A line on stdin prints the state; its end closes and ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "source/kmsg/kmsg.h"

static Kmsg *kmsg;
static uv_poll_t input;

static void print(Str *out)
{
    str_addc(out, '\n');
    if (write(STDOUT_FILENO, out->text, out->len) < 0)
        exit(1);
    str_done(out);
}

static void given(void *self, const Event *event)
{
    char pci[PCI_TEXT_CAP] = "";
    Str out;

    (void)self;
    str_init(&out, 1 << 16);
    str_addf(&out,
             "{\"kind\":\"%s\",\"origin\":\"%s\",\"code\":%d,\"before\":%s,\"undated\":%s,\"sequence\":%llu,\"real\":%"
             "llu,\"pci\":",
             event_kinds[event->kind].key, event_origins[event->origin].key, event->code,
             event->before ? "true" : "false", event->undated ? "true" : "false", (unsigned long long)event->sequence,
             (unsigned long long)event->real_ns);
    str_add_json(&out, event->has_pci ? pci_format(event->pci, PCI_FORM_SYSFS, pci) : "");
    str_add(&out, ",\"text\":");
    str_add_json(&out, event->text);
    str_addc(&out, '}');
    print(&out);
}

static void asked(uv_poll_t *poll, int status, int events)
{
    char buffer[256];
    KmsgState state;
    Str out;

    (void)status;
    (void)events;
    if (read(STDIN_FILENO, buffer, sizeof buffer) <= 0) {
        kmsg_close(kmsg);
        uv_close((uv_handle_t *)poll, NULL);
        return;
    }
    kmsg_state(kmsg, &state);
    str_init(&out, 1 << 16);
    str_addf(&out,
             "{\"log\":%d,\"next\":%llu,\"read\":%s,\"lost\":%llu,\"caught_up\":%s,\"fabric_log\":%s,\"boot_id\":",
             state.log, (unsigned long long)state.position.next, state.position.read ? "true" : "false",
             (unsigned long long)state.lost, state.caught_up ? "true" : "false", state.fabric_log ? "true" : "false");
    str_add_json(&out, state.position.boot_id);
    str_add(&out, ",\"why\":");
    str_add_json(&out, state.why);
    str_addc(&out, '}');
    print(&out);
}

int main(int argc, char **argv)
{
    uv_loop_t loop;

    if (argc < 5)
        return 2;
    KmsgConfig config = {
        .kmsg = argv[1], .journalctl = argv[2], .fabric_log = argv[3], .root = argv[4], .clock = clock_kernel()};
    if (argc > 6) {
        snprintf(config.position.boot_id, sizeof config.position.boot_id, "%s", argv[5]);
        config.position.next = strtoull(argv[6], NULL, 10);
    }
    uv_loop_init(&loop);
    kmsg = kmsg_open(&loop, &config, given, NULL);
    uv_poll_init(&loop, &input, STDIN_FILENO);
    uv_poll_start(&input, UV_READABLE, asked);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) == 0 ? 0 : 4;
}
