/* SPDX-License-Identifier: Apache-2.0 */
/* service/alert/senders.c without a network, a clock and children: what a webhook, a command and systemd's journal get,
 * whole in golden/senders.txt, and how long a command may run. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/subproc.h"
#include "service/alert/delivery.h"
#include "test/unit/golden_trace.h"

enum { CHILD = 4711 };

/* --- the doubles -------------------------------------------------------------------------------------------------- */

static uint64_t real_ns, loop_ms;
static uv_loop_t loop;
static uv_timer_t *child_timer;
static int refuse, waits;
static SubprocEnd child_end;

static uint64_t read_now(const Clock *clock)
{
    (void)clock;
    return 1000 * NS_PER_S;
}

static uint64_t read_real(const Clock *clock)
{
    (void)clock;
    return real_ns;
}

static const ClockOps clock_ops = {.monotonic_ns = read_now, .real_ns = read_real};
static const Clock test_clock = {.ops = &clock_ops};

uint64_t journal_put_outbox(Journal *journal, const char *name, const char *key, const char *text, size_t len)
{
    (void)journal, (void)name, (void)key, (void)text, (void)len;
    return 1;
}

int fetch_new(uv_loop_t *on, Fetch **ret, Err *err)
{
    (void)on, (void)ret, (void)err;
    return -EMFILE;
}

void fetch_close(Fetch *fetch)
{
    (void)fetch;
}

static FetchDone fetch_done;
static void *fetch_self;

int fetch_send(Fetch *fetch, const FetchRequest *request, FetchDone done, void *self, FetchCall **ret_call, Err *err)
{
    (void)fetch;
    if (refuse)
        return err_set(err, refuse, "no such URL");
    str_addf(&trace, "POST %s\n", request->url);
    for (size_t i = 0; i < request->header_count; i++)
        str_addf(&trace, "%s\n", request->headers[i]);
    str_addf(&trace, "%.*s\n", (int)request->body_len, request->body);
    fetch_done = done;
    fetch_self = self;
    *ret_call = (FetchCall *)self;
    return 0;
}

void fetch_cancel(FetchCall *call)
{
    str_addf(&trace, "cancelled%s\n", call ? "" : ": nothing");
}

int __wrap_subproc_start(const SubprocSpec *spec, Subproc *ret_child, Err *err);
int __wrap_subproc_start(const SubprocSpec *spec, Subproc *ret_child, Err *err)
{
    char body[64 << 10];

    if (refuse)
        return err_set(err, refuse, "run '/bin/page': no such file");
    str_add(&trace, "run");
    for (size_t i = 0; spec->argv[i]; i++)
        str_addf(&trace, " %s", spec->argv[i]);
    str_addf(&trace, "%s\n", spec->die_with_us ? ", ends with us" : "");
    for (size_t i = 0; spec->env[i]; i++)
        str_addf(&trace, "%s\n", spec->env[i]);
    assert_int_equal(spec->pass_count, 1);
    const ssize_t len = read(spec->pass_fds[0], body, sizeof body);
    str_addf(&trace, "%.*s\n", (int)len, body);
    *ret_child = (Subproc){.pid = CHILD, .pid_fd = -1, .out_fd = -1, .err_fd = -1};
    return 0;
}

/* It ends when it was asked for `waits` times; below 0: never. */
int __wrap_subproc_wait(Subproc *child, uint64_t timeout_ms, SubprocEnd *ret_end, Err *err);
int __wrap_subproc_wait(Subproc *child, uint64_t timeout_ms, SubprocEnd *ret_end, Err *err)
{
    (void)err;
    assert_true(timeout_ms == 0);
    if (waits < 0 || waits-- > 0)
        return SUBPROC_RUNNING;
    child->pid = 0;
    *ret_end = child_end;
    return 0;
}

int __wrap_subproc_stop(Subproc *child, uint64_t grace_ms, SubprocEnd *ret_end, Err *err);
int __wrap_subproc_stop(Subproc *child, uint64_t grace_ms, SubprocEnd *ret_end, Err *err)
{
    (void)ret_end, (void)err;
    str_addf(&trace, "stopped %d after %d ms\n", (int)child->pid, (int)grace_ms);
    child->pid = 0;
    return 0;
}

int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    str_addf(&trace, "%d ms: %s to %d\n", (int)loop_ms,
             number == SIGKILL   ? "SIGKILL"
             : number == SIGTERM ? "SIGTERM"
                                 : "another signal",
             (int)pid);
    return 0;
}

uint64_t __wrap_uv_now(const uv_loop_t *on);
uint64_t __wrap_uv_now(const uv_loop_t *on)
{
    (void)on;
    return loop_ms;
}

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb done, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb done, uint64_t timeout, uint64_t repeat)
{
    assert_true(timeout > 0 && timeout == repeat);
    timer->timer_cb = done;
    child_timer = timer;
    return 0;
}

/* --- the rig ------------------------------------------------------------------------------------------------------ */

static Alerts *alerts;
static AlertTree tree;
static ReceiverConfig config;
static Receiver receiver;
static RouteConfig route;
static AlertItem item;
static Delivery *delivery;
static Log to_file;
static FILE *log_lines;
static char hostname[] = "node7", external_url[] = "http://node7:9400", receiver_name[] = "pager";

static void set_up(ReceiverKind kind)
{
    real_ns = (UINT64_C(1767614400) * NS_PER_S) + 999 * NS_PER_MS;
    loop_ms = 5000;
    waits = refuse = 0;
    child_timer = NULL;
    child_end = (SubprocEnd){.exited = true};
    log_lines = tmpfile();
    assert_non_null(log_lines);
    log_init(&to_file, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "test", clock_kernel());
    to_file.fd = fileno(log_lines);
    assert_int_equal(uv_loop_init(&loop), 0);
    alerts = calloc(1, sizeof *alerts);
    *alerts = (Alerts){.loop = &loop,
                       .config = {.clock = &test_clock, .log = &to_file},
                       .hostname = strdup(hostname),
                       .external_url = strdup(external_url),
                       .tree = &tree,
                       .handles = 1,
                       .closed = true};
    config = (ReceiverConfig){.name = "pager", .kind = kind, .keep_ns = NS_PER_H, .timeout_ns = 10 * NS_PER_S};
    receiver =
        (Receiver){.alerts = alerts, .name = receiver_name, .kind = kind, .config = &config, .ops = senders_find(kind)};
    item = (AlertItem){.incident = {.pid = -1}};
    Incident *incident = &item.incident;
    snprintf(incident->id, sizeof incident->id, "1abc");
    snprintf(incident->class, sizeof incident->class, "gpu-lost");
    snprintf(incident->title, sizeof incident->title, "GPU 3 is lost");
    incident->state = INCIDENT_OPEN;
    incident->severity = SEVERITY_WARNING;
    incident->route = ROUTE_TICKET;
    incident->opened_real_ns = real_ns;
    device_init(&incident->device, DEVICE_NODE);
    delivery = delivery_new(&item, &receiver);
    delivery->route = &route;
}

/* All that is known of an incident. */
static void know_all(void)
{
    Incident *incident = &item.incident;

    incident->code = 79;
    incident->count = 3;
    incident->cause = CAUSE_BUS;
    incident->severity = SEVERITY_FATAL;
    incident->action = ACTION_DRAIN_AND_REBOOT;
    snprintf(incident->verdict, sizeof incident->verdict, "It fell off the bus.\nReboot.");
    snprintf(incident->job, sizeof incident->job, "17");
    incident->owner_count = 1;
    snprintf(incident->owners[0].user, sizeof incident->owners[0].user, "ada");
    device_init(&incident->device, DEVICE_GPU_INSTANCE);
    incident->device.index = 3;
    incident->device.has_pci = true;
    incident->device.pci.bus = 0x1b;
    snprintf(incident->device.uuid, sizeof incident->device.uuid, "MIG-1");
    snprintf(incident->device.parent_uuid, sizeof incident->device.parent_uuid, "GPU-3");
    incident->first_len = 1;
    incident->first[0].real_ns = real_ns;
    snprintf(incident->first[0].text, sizeof incident->first[0].text, "Xid 79");
}

static void tear_down(void)
{
    delivery_free(delivery, false);
    vec_done(&item.deliveries);
    vec_done(&receiver.deliveries);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(alerts->handles, 1); /* a child's timer is closed */
    assert_int_equal(uv_loop_close(&loop), 0);
    free(alerts->hostname);
    free(alerts->external_url);
    free(alerts);
    fclose(log_lines);
}

static void send_it(const char *title)
{
    str_addf(&trace, "# %s\n", title);
    delivery_update(delivery);
    receiver.ops->send_due(&receiver, read_now(NULL));
}

static void clear_it(void)
{
    item.incident.state = INCIDENT_CLEARED;
    item.incident.cleared_real_ns = real_ns;
}

static void assert_outcome(uint64_t sent, uint64_t failed, const char *why)
{
    assert_int_equal(receiver.in_flight, 0);
    assert_int_equal(receiver.sent, sent);
    assert_int_equal(receiver.failed, failed);
    assert_string_equal(receiver.why, why);
}

/* --- webhooks ----------------------------------------------------------------------------------------------------- */

static void a_webhook_gets_a_signed_request(void **state)
{
    static const char *urls[] = {"http://pager/hook"};
    const FetchAnswer fine = {.status = 204}, busy = {.status = 429, .retry_after_ms = 7000};
    char secret[] = "s3cret";

    (void)state;
    set_up(RECEIVER_WEBHOOK);
    config.urls = (OptList){.items = urls, .len = 1};
    config.headers[0] = "X-Team: gpu";
    config.header_count = 1;
    send_it("a webhook");
    fetch_done(fetch_self, &busy);
    assert_outcome(0, 1, "HTTP status 429");
    assert_true(delivery->retry_ns == read_now(NULL) + 7 * NS_PER_S);
    delivery->retry_ns = 0;
    config.secrets[SECRET_SIGNING] = secret;
    know_all();
    send_it("signed");
    fetch_done(fetch_self, &fine);
    assert_outcome(1, 1, "");
    clear_it();
    refuse = -EINVAL;
    send_it("refused");
    assert_outcome(1, 2, "no such URL");
    refuse = 0;
    delivery->retry_ns = 0;
    receiver.ops->send_due(&receiver, read_now(NULL));
    assert_int_equal(receiver.in_flight, 1);
    tear_down(); /* it is cancelled */
}

/* --- commands ----------------------------------------------------------------------------------------------------- */

static const char *const argv[] = {"/bin/page", "--now", NULL}, *const env[] = {"A=b", "C=d", NULL},
                         *const none[] = {NULL};

static void start_command(const char *title)
{
    set_up(RECEIVER_COMMAND);
    config.argv = argv;
    config.env = none;
    send_it(title);
}

/* Without what it gets, which is as before. */
static void start_another_command(const char *title)
{
    const size_t from = trace.len;

    start_command(title);
    str_cut(&trace, from);
    str_addf(&trace, "# %s\n", title);
}

static void a_command_gets_facts_and_the_notification(void **state)
{
    (void)state;
    set_up(RECEIVER_COMMAND);
    config.argv = argv;
    config.env = env;
    know_all();
    send_it("a command");
    child_timer->timer_cb(child_timer);
    assert_outcome(1, 0, "");
    tear_down();
    start_command("a command of which little is known");
    child_end = (SubprocEnd){.exited = true, .exit_code = 3};
    child_timer->timer_cb(child_timer);
    assert_outcome(0, 1, "command: exit code 3");
    tear_down();
    start_another_command("one that is killed");
    child_end = (SubprocEnd){.signal = SIGSEGV};
    child_timer->timer_cb(child_timer);
    assert_string_equal(receiver.why, "command: killed by signal 11 (Segmentation fault)");
    tear_down();
    set_up(RECEIVER_COMMAND);
    config.argv = argv;
    config.env = none;
    refuse = -ENOENT;
    send_it("one that is not there");
    assert_outcome(0, 1, "run '/bin/page': no such file");
    tear_down();
    start_another_command("one that is cancelled");
    assert_int_equal(receiver.in_flight, 1);
    tear_down();
}

/* Every tenth of a second after the start: 10 s are allowed, a second more until it is killed, and 5 until it is left
 * behind. */
static void a_command_that_hangs_is_ended(void **state)
{
    (void)state;
    start_another_command("one that hangs");
    waits = -1;
    for (loop_ms = 14999; loop_ms <= 15001; loop_ms++)
        child_timer->timer_cb(child_timer);
    for (loop_ms = 15999; loop_ms <= 16000; loop_ms++)
        child_timer->timer_cb(child_timer);
    loop_ms = 20999;
    child_timer->timer_cb(child_timer);
    assert_int_equal(receiver.in_flight, 1);
    loop_ms = 21000;
    child_timer->timer_cb(child_timer);
    assert_outcome(0, 1, "command: cannot be killed, left behind");
    tear_down();
}

/* What it started may go on: its group is killed. Whatever its exit code, it took too long. */
static void a_command_that_was_ended_has_failed(void **state)
{
    (void)state;
    start_another_command("one that ends when it is told to");
    waits = 1;
    loop_ms = 15000;
    child_timer->timer_cb(child_timer);
    child_timer->timer_cb(child_timer);
    assert_outcome(0, 1, "command: timed out");
    tear_down();
}

/* --- systemd's journal -------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/stoker-senders-XXXXXX", path[64];

/* A record as it came; bytes of a length as numbers. */
static void read_record(int fd)
{
    char bytes[64 << 10];
    const ssize_t len = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);

    for (ssize_t i = 0; i < len; i++)
        if (bytes[i] == '\n' || (bytes[i] >= ' ' && bytes[i] < 0x7f))
            str_addc(&trace, bytes[i]);
        else
            str_addf(&trace, "<%d>", bytes[i]);
}

static void journald_gets_a_record(void **state)
{
    static const char *const priorities[SEVERITY_END] = {
        [SEVERITY_INFO] = "5", [SEVERITY_WARNING] = "4", [SEVERITY_ERROR] = "3", [SEVERITY_FATAL] = "2"};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char bytes[64 << 10], wanted[32];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s", folder);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    for (FaultSeverity severity = 0; severity < SEVERITY_END; severity++) {
        set_up(RECEIVER_JOURNALD);
        config.socket = path;
        item.incident.severity = severity;
        send_it(fault_severities[severity].key);
        const ssize_t len = recv(fd, bytes, sizeof bytes - 1, MSG_DONTWAIT);
        assert_true(len > 0);
        bytes[len] = '\0';
        snprintf(wanted, sizeof wanted, "\nPRIORITY=%s\n", priorities[severity]);
        assert_non_null(strstr(bytes, wanted));
        tear_down();
    }
    set_up(RECEIVER_JOURNALD);
    config.socket = path;
    delivery->labels[0] = '{';
    send_it("journald");
    read_record(fd);
    know_all();
    item.incident.escalations++;
    send_it("it rises, and more is known");
    read_record(fd);
    clear_it();
    send_it("it is over");
    read_record(fd);
    assert_outcome(3, 0, "");
    item.incident.state = INCIDENT_OPEN;
    item.incident.reopened++;
    config.socket = "/nonexistent/s";
    send_it("nobody is there");
    assert_outcome(3, 1, "send to '/nonexistent/s': No such file or directory");
    delivery->retry_ns = 0;
    memset(bytes, 'x', sizeof address.sun_path);
    bytes[sizeof address.sun_path] = '\0';
    config.socket = bytes;
    receiver.ops->send_due(&receiver, read_now(NULL));
    assert_non_null(strstr(receiver.why, "File name too long"));
    tear_down();
    unlink(path);
    rmdir(folder);
}

static void all_of_it_is_as_in_the_file(void **state)
{
    (void)state;
    assert_golden(GOLDEN "/senders.txt", &trace);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_webhook_gets_a_signed_request),
        cmocka_unit_test(a_command_gets_facts_and_the_notification),
        cmocka_unit_test(a_command_that_hangs_is_ended),
        cmocka_unit_test(a_command_that_was_ended_has_failed),
        cmocka_unit_test(journald_gets_a_record),
        cmocka_unit_test(all_of_it_is_as_in_the_file), /* the last: of the trace of all before it */
    };

    return cmocka_run_group_tests(tests, open_trace, close_trace);
}
