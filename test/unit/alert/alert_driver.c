/* SPDX-License-Identifier: Apache-2.0 */
/* The alerts under test, without an agent: incidents come as JSON on stdin, time can be pushed, and a file stands for
 * the journal's outbox (every put is one line, in the file before the call returns, so that it survives a kill). */
#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "service/alert/delivery.h"

enum { LINE_MAX_BYTES = 4 * 1024 * 1024, RESUMED_MAX = 1024, RECEIVERS_SHOWN = 16 };

static uv_loop_t loop;
static Alerts *alerts;
static uint64_t offset_ns;
static double speed = 1;
static Log log_to;
static json_t *outbox; /* "receiver\nkey": text, in the order of putting */
static FILE *outbox_file;
static uv_poll_t input;
static bool closing;

/* --- the journal's double --- */

uint64_t journal_put_outbox(Journal *journal, const char *receiver, const char *key, const char *text, size_t len)
{
    static uint64_t ticket;
    char *name, *line;
    json_t *record;

    (void)journal;
    if (asprintf(&name, "%s\n%s", receiver, key) < 0)
        abort();
    if (len) {
        json_t *parsed = json_loadb(text, len, 0, NULL);

        if (!parsed)
            abort();
        json_decref(parsed);
        json_object_set_new(outbox, name, json_stringn(text, len));
    } else {
        json_object_del(outbox, name);
    }
    record = json_pack("[ssO]", receiver, key, len ? json_object_get(outbox, name) : json_null());
    line = json_dumps(record, JSON_COMPACT);
    if (outbox_file) {
        fprintf(outbox_file, "%s\n", line);
        fflush(outbox_file);
    }
    json_decref(record);
    free(line);
    free(name);
    return ++ticket;
}

static void fill_kept(JournalKept *kept)
{
    const char *name;
    json_t *value;

    json_object_foreach(outbox, name, value)
    {
        vec_push(&kept->outbox, ((JournalNews){xmemdup0(name, strcspn(name, "\n")), xstrdup(strchr(name, '\n') + 1),
                                               xstrdup(json_string_value(value))}));
    }
}

static void open_outbox(const char *path)
{
    static char line[LINE_MAX_BYTES];
    FILE *old = fopen(path, "r");

    while (old && fgets(line, sizeof(line), old)) {
        json_t *record = json_loads(line, 0, NULL); /* the last may be cut */

        if (record) {
            const char *text = json_string_value(json_array_get(record, 2));

            journal_put_outbox(NULL, json_string_value(json_array_get(record, 0)),
                               json_string_value(json_array_get(record, 1)), text ? text : "", text ? strlen(text) : 0);
            json_decref(record);
        }
    }
    if (old)
        fclose(old);
    outbox_file = fopen(path, "a");
}

/* --- time --- */

static uint64_t now_ns(const Clock *clock UNUSED)
{
    return (uint64_t)((double)uv_hrtime() * speed) + offset_ns;
}

static uint64_t real_ns(const Clock *clock UNUSED)
{
    static uint64_t start_real, start;

    if (!start_real) {
        start_real = clock_real(clock_kernel());
        start = now_ns(NULL) - offset_ns;
    }
    return start_real + now_ns(NULL) - start;
}

static const ClockOps clock_ops = {.monotonic_ns = now_ns, .real_ns = real_ns};
static const Clock fast_clock = {.ops = &clock_ops};

/* --- incidents --- */

static void say(json_t *what)
{
    char *text = json_dumps(what, JSON_COMPACT);

    puts(text);
    fflush(stdout);
    free(text);
    json_decref(what);
}

static const char *text_of(json_t *from, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(from, key));

    return text ? text : otherwise;
}
#define TEXT_OF(from, key, field, otherwise) snprintf(field, sizeof(field), "%s", text_of(from, key, otherwise))
#define TEXT(key, field, otherwise) TEXT_OF(from, key, field, otherwise)

static uint64_t number_of(json_t *from, const char *key, uint64_t otherwise)
{
    json_t *value = json_object_get(from, key);

    return value ? (uint64_t)json_integer_value(value) : otherwise;
}

static int word_of(json_t *from, const char *key, const WordRow *words, size_t count, int otherwise)
{
    const char *text = text_of(from, key, NULL);

    return text ? word_find(words, count, text) : otherwise;
}

static void set_device(json_t *from, Device *device)
{
    json_t *gpu = json_object_get(from, "gpu");

    device_init(device, gpu ? DEVICE_GPU : DEVICE_NODE);
    if (!gpu)
        return;
    device->index = (uint32_t)json_integer_value(gpu);
    snprintf(device->uuid, sizeof(device->uuid), "GPU-%u", device->index);
    device->has_pci = true;
    device->pci = (PciAddress){.bus = (uint8_t)(16 + device->index)};
    if (json_object_get(from, "gpu_instance")) {
        device->kind = DEVICE_GPU_INSTANCE;
        snprintf(device->parent_uuid, sizeof(device->parent_uuid), "GPU-%u", device->index);
        device->gpu_instance = (uint32_t)number_of(from, "gpu_instance", 0);
    }
}

static void set_owners(json_t *from, Incident *ret)
{
    for (size_t i = 0; i < json_array_size(from); i++) {
        json_t *one = json_array_get(from, i);
        Owner *owner = &ret->owners[ret->owner_count++];

        owner->pid = (int32_t)number_of(one, "pid", UINT64_MAX);
        TEXT_OF(one, "user", owner->user, "");
        TEXT_OF(one, "job", owner->job, "");
        TEXT_OF(one, "pod", owner->pod, "");
        TEXT_OF(one, "namespace", owner->namespace, "");
        TEXT_OF(one, "process", owner->process, "");
    }
}

static void make_incident(json_t *from, Incident *ret)
{
    *ret = (Incident){.pid = -1};
    TEXT("id", ret->id, "i1");
    TEXT("class", ret->class, "gpu-lost");
    TEXT("title", ret->title, "GPU 3 is lost");
    TEXT("verdict", ret->verdict, "It fell off the bus.");
    TEXT("runbook", ret->runbook, "https://example/runbooks/gpu-lost");
    TEXT("process", ret->process, "");
    TEXT("job", ret->job, "");
    TEXT("window", ret->window, "");
    set_owners(json_object_get(from, "owners"), ret);
    ret->code = (int32_t)number_of(from, "code", 79);
    ret->revision = number_of(from, "revision", 1);
    ret->state = (IncidentState)word_of(from, "state", incident_states, INCIDENT_STATE_END, INCIDENT_OPEN);
    set_device(from, &ret->device);
    ret->cause = (FaultCause)word_of(from, "cause", fault_causes, CAUSE_END, CAUSE_BUS);
    ret->severity = (FaultSeverity)word_of(from, "severity", fault_severities, SEVERITY_END, SEVERITY_FATAL);
    ret->action = (FaultAction)word_of(from, "action", fault_actions, ACTION_END, ACTION_DRAIN_AND_REBOOT);
    ret->route = (FaultRoute)word_of(from, "route", fault_routes, ROUTE_END, ROUTE_PAGE);
    ret->escalations = (uint32_t)number_of(from, "escalations", 0);
    ret->reopened = (uint32_t)number_of(from, "reopened", 0);
    ret->count = number_of(from, "count", 1);
    ret->silenced = json_is_true(json_object_get(from, "silenced"));
    ret->opened_real_ns = ret->first_real_ns = ret->updated_real_ns = real_ns(NULL) - 1000000000;
    if (ret->state == INCIDENT_CLEARED) {
        ret->cleared_real_ns = real_ns(NULL) - number_of(from, "cleared_ago_s", 0) * 1000000000;
        ret->end = INCIDENT_END_RESET;
    }
    ret->code_count = 1;
    ret->codes[0] = ret->code;
    ret->first_len = ret->last_len = 1;
    ret->first[0] =
        (IncidentEvidence){.real_ns = real_ns(NULL), .code = ret->code, .text = "NVRM: Xid (PCI:0000:10:00): 79"};
    ret->last[0] =
        (IncidentEvidence){.real_ns = real_ns(NULL), .echo = true, .code = 45, .text = "NVRM: Xid 45, \"quoted\""};
    ret->counter_len = 1;
    ret->counters[0] = (IncidentCounter){.name = "pcie_replay_counter", .before = 3, .after = 7.5};
}

/* --- commands --- */

static void show_receivers(void)
{
    AlertsReceiverState states[RECEIVERS_SHOWN];
    size_t count = alerts_receivers(alerts, states, RECEIVERS_SHOWN);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list,
                              json_pack("{ss ss sI sI sI sI sb ss}", "name", states[i].name, "kind", states[i].kind,
                                        "sent", (json_int_t)states[i].sent, "failed", (json_int_t)states[i].failed,
                                        "dropped", (json_int_t)states[i].dropped, "queued",
                                        (json_int_t)states[i].queued, "fine", states[i].fine, "why", states[i].why));
    say(json_pack("{so sI}", "receivers", list, "now", (json_int_t)(real_ns(NULL) / NS_PER_S)));
}

static void show_outbox(void)
{
    json_t *list = json_array(), *value;
    const char *name;

    json_object_foreach(outbox, name, value)
    {
        json_t *text = json_loads(json_string_value(value), 0, NULL);

        json_array_append_new(list, json_pack("[so]", name, text));
    }
    say(json_pack("{so}", "outbox", list));
}

static void resume(json_t *list)
{
    static Incident incidents[RESUMED_MAX];
    const Incident *open[RESUMED_MAX];
    size_t count = 0;

    for (; count < json_array_size(list) && count < RESUMED_MAX; count++) {
        make_incident(json_array_get(list, count), &incidents[count]);
        open[count] = &incidents[count];
    }
    alerts_resume(alerts, open, count);
}

static void reload(const char *path)
{
    CLEANUP(arena_done) Arena arena = {0};
    const YamlNode *root = NULL;
    Err err = {0};
    int rc = yaml_load_file(path, &arena, &root, &err);

    if (rc == 0)
        rc = alerts_reconfigure(alerts, yaml_get(root, "alerts"), NULL, &err);
    say(json_pack("{si ss}", "reloaded", rc, "text", err.text));
}

static void on_closed(void *self)
{
    (void)self;
    alerts = NULL;
    say(json_pack("{sb}", "closed", 1));
    uv_close((uv_handle_t *)&input, NULL);
}

static void command(const char *line)
{
    json_t *what = json_loads(line, 0, NULL);
    const char *verb = text_of(what, "do", "");
    Incident incident;

    if (!strcmp(verb, "tell")) {
        make_incident(json_object_get(what, "incident"), &incident);
        alerts_update(alerts, &incident);
    } else if (!strcmp(verb, "resume")) {
        resume(json_object_get(what, "incidents"));
    } else if (!strcmp(verb, "report")) {
        const char *json = text_of(what, "json", "{}");

        alerts_report(alerts, text_of(what, "id", "r1"), real_ns(NULL) - number_of(what, "ended_ago_s", 0) * NS_PER_S,
                      json, strlen(json));
    } else if (!strcmp(verb, "advance")) {
        offset_ns += number_of(what, "s", 0) * NS_PER_S;
        alerts_wake(alerts);
    } else if (!strcmp(verb, "receivers")) {
        show_receivers();
    } else if (!strcmp(verb, "outbox")) {
        show_outbox();
    } else if (!strcmp(verb, "reload")) {
        reload(text_of(what, "config", ""));
    } else if (!strcmp(verb, "close")) {
        closing = true;
        alerts_close(alerts, number_of(what, "grace_ms", 0), on_closed, NULL);
    } else {
        abort();
    }
    json_decref(what);
}

static void on_line(uv_poll_t *poll, int status, int events)
{
    static char buffer[LINE_MAX_BYTES];
    static size_t len;
    ssize_t got = read(STDIN_FILENO, buffer + len, sizeof(buffer) - 1 - len);
    char *end;

    (void)status, (void)events;
    if (got <= 0) {
        uv_poll_stop(poll);
        if (!closing)
            alerts_close(alerts, 0, on_closed, NULL);
        return;
    }
    len += (size_t)got;
    buffer[len] = '\0';
    while ((end = strchr(buffer, '\n'))) {
        *end = '\0';
        command(buffer);
        len -= (size_t)(end + 1 - buffer);
        memmove(buffer, end + 1, len + 1);
    }
}

CLEANUP_POINTER(Catalogue, catalogue_free);

static int check(const YamlNode *tree)
{
    Err err = {0};
    CLEANUP(str_done) Str notes = str_limited(65536);
    CLEANUP(catalogue_free_at) Catalogue *catalogue = NULL;
    int rc = catalogue_new(NULL, 0, &catalogue, &err);

    if (rc == 0)
        rc = alerts_check(tree, catalogue, 8, &notes, &err);
    puts(rc < 0 ? err.text : notes.len ? notes.text : "fine");
    return rc == 0 ? 0 : 1;
}

static int run(const YamlNode *tree, const char *outbox_path)
{
    AlertsConfig config = {.tree = tree,
                           .hostname = "node7",
                           .external_url = "http://node7:9400/",
                           .clock = &fast_clock,
                           .clock_speed = speed,
                           .log = &log_to};
    JournalKept kept = {0};
    Err err = {0};

    outbox = json_object();
    open_outbox(outbox_path);
    fill_kept(&kept);
    config.kept = &kept;
    uv_loop_init(&loop);
    if (alerts_new(&loop, &config, &alerts, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        uv_run(&loop, UV_RUN_DEFAULT);
        return 1;
    }
    journal_kept_done(&kept);
    uv_poll_init(&loop, &input, STDIN_FILENO);
    uv_poll_start(&input, UV_READABLE, on_line);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0) {
        fprintf(stderr, "handles are left in the loop\n");
        return 1;
    }
    json_decref(outbox);
    fclose(outbox_file);
    return 0;
}

/* alert_driver check CONFIG | alert_driver run CONFIG OUTBOX [SPEED [OFFSET]] */
int main(int argc, char **argv)
{
    CLEANUP(arena_done) Arena arena = {0};
    const YamlNode *root = NULL;
    Err err = {0};

    signal(SIGPIPE, SIG_IGN);
    log_init(&log_to, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "alerts", clock_kernel());
    assert(argc >= 3);
    if (yaml_load_file(argv[2], &arena, &root, &err) < 0) {
        puts(err.text);
        return 1;
    }
    if (!strcmp(argv[1], "check"))
        return check(yaml_get(root, "alerts"));
    assert(argc >= 4);
    if (argc > 4)
        speed = strtod(argv[4], NULL);
    if (argc > 5)
        offset_ns = strtoull(argv[5], NULL, 10) * NS_PER_S;
    return run(yaml_get(root, "alerts"), argv[3]);
}
