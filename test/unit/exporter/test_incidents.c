/* SPDX-License-Identifier: Apache-2.0 */
/* service/prometheus/incidents.c, and what incidents and the kernel's log do to health and XIDs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "check.h"
#include "kit.h"
#include "service/prometheus/page.h"

enum { MANY = 200 };

typedef struct Rig {
    Kit kit;
    Exporter *exporter;
    Incident *incidents;
    const Incident *list[MANY];
} Rig;

static Rig rig;

static int set_up(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    kit_node(&rig.kit, 4);
    rig.incidents = calloc(MANY, sizeof *rig.incidents);
    rig.exporter = kit_exporter(&rig.kit, NULL);
    rig.kit.snapshot.incidents = rig.list;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    exporter_free(rig.exporter);
    free(rig.incidents);
    kit_done(&rig.kit);
    return 0;
}

static Incident *add(const char *class, FaultSeverity severity, size_t gpu)
{
    Incident *incident = &rig.incidents[rig.kit.snapshot.incident_count];

    *incident = (Incident){.state = INCIDENT_OPEN,
                           .cause = CAUSE_BUS,
                           .severity = severity,
                           .scope = SCOPE_GPU,
                           .action = ACTION_RESET_GPU,
                           .route = ROUTE_PAGE,
                           .pid = -1};
    snprintf(incident->id, sizeof incident->id, "i%zu", rig.kit.snapshot.incident_count);
    snprintf(incident->class, sizeof incident->class, "%s", class);
    incident->device = rig.kit.gpus[gpu].reading.device;
    rig.list[rig.kit.snapshot.incident_count++] = incident;
    return incident;
}

/* The lines of a family, to free(). */
static char *lines(const char *name)
{
    CLEANUP_FREE char *page = kit_page_of(&rig.kit, rig.exporter, EXPORTER_TEXT);

    return kit_lines(page, name);
}

static size_t count_lines(const char *name)
{
    CLEANUP_FREE char *text = lines(name);
    size_t count = 0;

    for (const char *at = text; at && *at; at++)
        count += *at == '\n';
    return count;
}

static void one_while_it_is_open(void **state)
{
    Incident *incident = add("gpu-lost", SEVERITY_FATAL, 1);
    const Device *d = &incident->device;
    char expected[512], pci[PCI_TEXT_CAP];

    (void)state;
    snprintf(
        expected, sizeof expected,
        "stoker_incident_open{UUID=\"%s\",action=\"reset-gpu\",cause=\"bus\",class=\"gpu-lost\",device=\"nvidia1\","
        "gpu=\"1\",hostname=\"%s\",pci_bus_id=\"%s\",route=\"page\",severity=\"fatal\"} 1\n",
        d->uuid, rig.kit.node.hostname, pci_format(d->pci, PCI_FORM_NVML, pci));
    CLEANUP_FREE char *open = lines("stoker_incident_open");
    assert_string_equal(open, expected);
    assert_int_equal(count_lines("stoker_incident_silenced"), 0);
    incident->silenced = true;
    assert_int_equal(count_lines("stoker_incident_silenced"), 1);
    assert_int_equal(count_lines("stoker_incident_open"), 1);
    rig.kit.snapshot.incident_count = 0;
    assert_int_equal(count_lines("stoker_incident_open"), 0);
    CLEANUP_FREE char *sum = lines("stoker_incidents_open");
    assert_string_equal(sum, "stoker_incidents_open 0\n");
}

static void instances_links_and_the_node(void **state)
{
    Incident *incident = add("nvlink-down", SEVERITY_ERROR, 2);

    (void)state;
    incident->device.kind = DEVICE_LINK;
    memcpy(incident->device.parent_uuid, incident->device.uuid, sizeof incident->device.uuid);
    incident->device.uuid[0] = '\0';
    incident->device.link = 11;
    incident = add("app-fault", SEVERITY_WARNING, 2);
    incident->device.kind = DEVICE_GPU_INSTANCE;
    incident->device.gpu_instance = 7;
    incident = add("driver-error", SEVERITY_FATAL, 0);
    device_init(&incident->device, DEVICE_NODE);
    incident = add("gpu-missing", SEVERITY_FATAL, 3); /* one that the node has no more */
    incident->device.pci.bus = 0xee;
    CLEANUP_FREE char *open = lines("stoker_incident_open");
    assert_non_null(strstr(open, "class=\"nvlink-down\",device=\"nvidia2\",gpu=\"2\""));
    assert_non_null(strstr(open, ",link=\"11\","));
    assert_non_null(strstr(open, "{GPU_I_ID=\"7\",UUID="));
    assert_non_null(strstr(open, "{action=\"reset-gpu\",cause=\"bus\",class=\"driver-error\",hostname="));
    assert_non_null(strstr(open, "pci_bus_id=\"00000000:EE:00.0\""));
}

/* Two programs with the same fault are one series; a page with the same line twice can be read by nobody. */
static void no_series_twice(void **state)
{
    (void)state;
    add("app-fault", SEVERITY_ERROR, 1)->pid = 7;
    add("app-fault", SEVERITY_ERROR, 1)->pid = 8;
    add("app-fault", SEVERITY_WARNING, 1);
    assert_int_equal(count_lines("stoker_incident_open"), 2);
    CLEANUP_FREE char *page = kit_page_of(&rig.kit, rig.exporter, EXPORTER_TEXT);
    CLEANUP(str_done) Str why;
    str_init(&why, 4096);
    if (!check_page(page, false, &why))
        fail_msg("%s", why.text);
}

static void a_storm_is_capped(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++) {
        char class[24];

        snprintf(class, sizeof class, "made-up-%d", i);
        add(class, i == MANY - 1 ? SEVERITY_FATAL : SEVERITY_WARNING, 1);
    }
    assert_int_equal(count_lines("stoker_incident_open"), INCIDENT_SERIES_MAX);
    CLEANUP_FREE char *open = lines("stoker_incident_open");
    assert_non_null(strstr(open, "severity=\"fatal\""));
    CLEANUP_FREE char *sum = lines("stoker_incidents_open");
    assert_string_equal(sum, "stoker_incidents_open 200\n");
}

/* Of what is as severe a page is more urgent than a ticket, then the first by its id. */
static void pages_are_before_tickets(void **state)
{
    static const char *const order[] = {"b-page", "c-page", "a-ticket"};
    const char *at;

    (void)state;
    add("a-ticket", SEVERITY_FATAL, 1)->route = ROUTE_TICKET;
    add("b-page", SEVERITY_FATAL, 1);
    add("c-page", SEVERITY_FATAL, 1);
    CLEANUP_FREE char *open = lines("stoker_incident_open");
    at = open;
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        at = strstr(at, order[i]);
        if (!at)
            fail_msg("%s is not in its place: %s", order[i], open);
    }
}

static void counts_of_what_was_told(void **state)
{
    Incident *incident = add("gpu-lost", SEVERITY_FATAL, 1);
    Event event;

    (void)state;
    exporter_incident(rig.exporter, incident, INCIDENT_CHANGE_OPENED);
    exporter_incident(rig.exporter, incident, INCIDENT_CHANGE_UPDATED);
    exporter_incident(rig.exporter, incident, INCIDENT_CHANGE_CLEARED);
    exporter_incident(rig.exporter, incident, INCIDENT_CHANGE_REOPENED);
    event_init(&event, EVENT_OOM_KILL, EVENT_FROM_KMSG);
    exporter_event(rig.exporter, &event);
    exporter_event(rig.exporter, &event);
    event.before = true;
    exporter_event(rig.exporter, &event);
    rig.exporter = kit_reload(&rig.kit, NULL, rig.exporter);
    CLEANUP_FREE char *opened = lines("stoker_incidents_opened_total");
    CLEANUP_FREE char *cleared = lines("stoker_incidents_cleared_total");
    CLEANUP_FREE char *events = lines("stoker_events_total");
    assert_string_equal(opened,
                        "stoker_incidents_opened_total{cause=\"bus\",class=\"gpu-lost\",severity=\"fatal\"} 2\n");
    assert_string_equal(cleared,
                        "stoker_incidents_cleared_total{cause=\"bus\",class=\"gpu-lost\",severity=\"fatal\"} 1\n");
    assert_non_null(strstr(events, "stoker_events_total{kind=\"oom-kill\",origin=\"kmsg\"} 2\n"));
    for (int i = 0; i < 2 * INCIDENT_COUNTS_MAX; i++) {
        snprintf(incident->class, sizeof incident->class, "c%d", i);
        exporter_incident(rig.exporter, incident, INCIDENT_CHANGE_OPENED);
    }
    assert_int_equal(count_lines("stoker_incidents_opened_total"), INCIDENT_COUNTS_MAX);
}

static void health_of_a_gpu(void **state)
{
    (void)state;
    add("fan", SEVERITY_WARNING, 1);
    add("gpu-lost", SEVERITY_FATAL, 2);
    add("driver-error", SEVERITY_ERROR, 3);
    device_init(&rig.incidents[2].device, DEVICE_NODE); /* the node's is not the GPU's */
    CLEANUP_FREE char *health = lines("stoker_gpu_health");
    const char *const ends[] = {"} 0\n", "} 1\n", "} 3\n", "} 0\n"};
    const char *at = health;
    for (size_t i = 0; i < 4; i++) {
        at = strstr(at, "} ");
        assert_non_null(at);
        assert_int_equal(strncmp(at, ends[i], 4), 0);
        at++;
    }
}

/* DCGM's health follows the incident, not the XID: it ends with it. */
static void health_by_subsystem(void **state)
{
    static const char csv[] = "DCGM_EXP_GPU_HEALTH_STATUS, gauge, health";
    Incident *incident = add("gpu-lost", SEVERITY_FATAL, 0);

    (void)state;
    exporter_free(rig.exporter);
    rig.exporter = kit_exporter(&rig.kit, csv);
    kit_event(&rig.kit, rig.exporter, 0, 79, KIT_NOW - NS_PER_S);
    exporter_tick(rig.exporter, &rig.kit.node);
    CLEANUP_FREE char *sick = lines("DCGM_EXP_GPU_HEALTH_STATUS");
    assert_non_null(strstr(sick, "health_error_code=\"DCGM_FR_FALLEN_OFF_BUS\",health_watch=\"PCIE\""));
    assert_non_null(strstr(sick, "} 20\n"));
    incident->state = INCIDENT_CLEARED;
    CLEANUP_FREE char *well = lines("DCGM_EXP_GPU_HEALTH_STATUS");
    assert_null(strstr(well, "} 20\n"));
}

/* ---- XIDs ---- */

static double total_of(const char *xid)
{
    CLEANUP_FREE char *text = lines("stoker_xid_errors_total");
    char label[32];
    const char *at;

    snprintf(label, sizeof label, "xid=\"%s\"} ", xid);
    at = text ? strstr(text, label) : NULL;
    return at ? strtod(at + strlen(label), NULL) : 0;
}

static void a_log_of_before_does_not_count(void **state)
{
    Event event;

    (void)state;
    event_init(&event, EVENT_XID, EVENT_FROM_KMSG);
    event.has_pci = true;
    event.pci = rig.kit.gpus[0].reading.device.pci;
    event.code = 79;
    event.before = true;
    exporter_event(rig.exporter, &event);
    assert_true(total_of("79") == 0);
    event.before = false;
    exporter_event(rig.exporter, &event);
    kit_advance(&rig.kit, NS_PER_MIN);
    exporter_tick(rig.exporter, &rig.kit.node);
    assert_true(total_of("79") == 1);
}

/* ---- from the start, and over a restart ---- */

static JournalCount kept[32];
static size_t kept_count;

/* As the journal does: the last value of a key. */
static void keep(void *self, const char *key, uint64_t value)
{
    size_t at = 0;

    (void)self;
    while (at < kept_count && strcmp(kept[at].key, key) != 0)
        at++;
    assert_true(at < ARRAY_LEN(kept));
    kept_count += at == kept_count;
    snprintf(kept[at].key, sizeof kept[at].key, "%s", key);
    kept[at].value = value;
    kept[at].real_ns = KIT_REAL + at;
}

/* The exporter of an agent that starts with what the last one kept. */
static void restart(bool resumed)
{
    exporter_free(rig.exporter);
    rig.exporter = kit_exporter(&rig.kit, NULL);
    exporter_restore(rig.exporter, kept, kept_count, resumed, &(CountKeep){.put = keep});
}

static void see_xid(int code, bool before)
{
    Event event = kit_xid(&rig.kit, 0, (uint64_t)code, rig.kit.node.time_ns);

    event.before = before;
    exporter_event(rig.exporter, &event);
}

static void tick_after(uint64_t ns)
{
    kit_advance(&rig.kit, ns);
    exporter_tick(rig.exporter, &rig.kit.node);
}

static void assert_line(const char *name, const char *part)
{
    CLEANUP_FREE char *text = lines(name);

    if (!text || !strstr(text, part))
        fail_msg("no %s in %s", part, text ? text : "nothing");
}

static void counters_are_there_from_the_start(void **state)
{
    FaultClass classes[] = {{.id = "gpu-lost", .enabled = true}, {.id = "off", .enabled = false}};
    FaultRule rules[] = {{.fault = &classes[0], .enabled = true}, {.fault = &classes[1], .enabled = true}};
    const Catalogue catalogue = {.rules = rules, .rule_count = ARRAY_LEN(rules)};

    (void)state;
    rules[0].cause = CAUSE_BUS;
    rules[0].severity = SEVERITY_FATAL;
    rig.kit.input.catalogue = &catalogue;
    CLEANUP_FREE char *opened = lines("stoker_incidents_opened_total"),
                      *cleared = lines("stoker_incidents_cleared_total");
    assert_string_equal(opened,
                        "stoker_incidents_opened_total{cause=\"bus\",class=\"gpu-lost\",severity=\"fatal\"} 0\n");
    assert_string_equal(cleared,
                        "stoker_incidents_cleared_total{cause=\"bus\",class=\"gpu-lost\",severity=\"fatal\"} 0\n");
    for (EventKind kind = 0; kind < EVENT_KIND_END; kind++) {
        char part[64];

        snprintf(part, sizeof part, "kind=\"%s\",origin=\"", event_kinds[kind].key);
        assert_line("stoker_events_total", part);
    }
    assert_line("stoker_events_total", "{kind=\"xid\",origin=\"kmsg\"} 0\n");
    assert_line("stoker_events_total", "{kind=\"xid\",origin=\"nvml\"} 0\n");
    assert_line("stoker_events_total", "{kind=\"reset\",origin=\"agent\"} 0\n");
    rig.kit.input.self.log_origin = EVENT_FROM_JOURNAL;
    assert_line("stoker_events_total", "{kind=\"xid\",origin=\"journal\"} 0\n");
    assert_int_equal(count_lines("stoker_gpu_xid_errors_total"), 4);
    rig.kit.input.catalogue = NULL;
}

static void a_new_number_is_nought_for_a_minute(void **state)
{
    (void)state;
    tick_after(NS_PER_S);
    see_xid(31, false);
    assert_true(total_of("31") == 0);
    assert_int_equal(count_lines("stoker_xid_errors_total"), 1);
    CLEANUP_FREE char *sum = lines("stoker_gpu_xid_errors_total");
    assert_non_null(strstr(sum, "} 1\n")); /* which was there before */
    tick_after(59 * NS_PER_S);
    see_xid(31, false);
    assert_true(total_of("31") == 0);
    tick_after(NS_PER_S);
    assert_true(total_of("31") == 2);
    see_xid(31, false);
    assert_true(total_of("31") == 3);
}

static void counters_go_on_over_a_restart(void **state)
{
    Incident *incident = add("gpu-lost", SEVERITY_FATAL, 1);

    (void)state;
    kept_count = 0;
    restart(false);
    tick_after(NS_PER_S);
    exporter_incident(rig.exporter, incident, INCIDENT_CHANGE_OPENED);
    exporter_incident(rig.exporter, incident, INCIDENT_CHANGE_CLEARED);
    exporter_incident(rig.exporter, incident, INCIDENT_CHANGE_REOPENED);
    for (int i = 0; i < 3; i++)
        see_xid(79, false);
    see_xid(31, false);
    rig.exporter = kit_reload(&rig.kit, NULL, rig.exporter); /* which goes on as well */
    see_xid(31, false);

    restart(false);
    assert_line("stoker_events_total", "{kind=\"xid\",origin=\"nvml\"} 5\n");
    assert_line("stoker_incidents_opened_total", "severity=\"fatal\"} 2\n");
    assert_line("stoker_incidents_cleared_total", "severity=\"fatal\"} 1\n");
    tick_after(NS_PER_S); /* the GPU says who it is */
    assert_true(total_of("79") == 3 && total_of("31") == 2);
    see_xid(79, true); /* from a log that may have been counted */
    assert_true(total_of("79") == 3);
    see_xid(79, false);
    assert_true(total_of("79") == 4);
    assert_line("stoker_gpu_xid_errors_total", "} 6\n");
    assert_int_equal(count_lines("stoker_xid_last_timestamp_seconds"), 2);

    restart(true); /* the log was read up to where the last agent was */
    tick_after(NS_PER_S);
    see_xid(79, true);
    assert_true(total_of("79") == 5);
    assert_line("stoker_events_total", "{kind=\"xid\",origin=\"nvml\"} 7\n");
}

static void counts_are_of_the_gpu_that_they_were_of(void **state)
{
    char *uuid = rig.kit.gpus[0].reading.device.uuid, was[DEVICE_UUID_CAP];

    (void)state;
    kept_count = 0;
    restart(false);
    tick_after(NS_PER_S);
    see_xid(79, false);
    restart(false);
    memcpy(was, uuid, sizeof was);
    snprintf(uuid, DEVICE_UUID_CAP, "GPU-another");
    tick_after(NS_PER_S);
    assert_int_equal(count_lines("stoker_xid_errors_total"), 0);
    memcpy(uuid, was, sizeof was);
    tick_after(NS_PER_S);
    assert_true(total_of("79") == 1);
    snprintf(uuid, DEVICE_UUID_CAP, "GPU-another");
    tick_after(NS_PER_S);
    assert_int_equal(count_lines("stoker_xid_errors_total"), 0);
}

/* As those of the log that came between two agents do. */
static void those_that_come_before_the_gpu_is_known_go_on_too(void **state)
{
    (void)state;
    kept_count = 0;
    restart(false);
    tick_after(NS_PER_S);
    see_xid(79, false);
    restart(true);
    see_xid(79, true);
    see_xid(31, true);
    tick_after(NS_PER_S);
    restart(false);
    tick_after(NS_PER_S);
    assert_true(total_of("79") == 2 && total_of("31") == 1);
}

static void a_journal_of_nonsense_counts_nothing(void **state)
{
    static const char *const keys[] = {"",           "x",         "event",         "event/xid", "event/xid/moon",
                                       "xid",        "xid/GPU-1", "xid/GPU-1/-3",  "opened",    "opened/bus",
                                       "opened/x/y", "cleared//", "opened/bus/z/c"};

    (void)state;
    kept_count = 0;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        keep(NULL, keys[i], 7);
    restart(false);
    tick_after(NS_PER_S);
    assert_int_equal(count_lines("stoker_incidents_opened_total"), 0);
    assert_int_equal(count_lines("stoker_xid_errors_total"), 0);
}

/* ---- the rest ---- */

static void journal_alerts_and_maintenance(void **state)
{
    const JournalState journal = {
        .health = JOURNAL_MEMORY, .queued = 3, .written = 9, .last_commit_ns = 5 * NS_PER_MS, .failures = 2};
    const AlertsReceiverState receivers[] = {
        {.name = "ops", .kind = "webhook", .sent = 4, .failed = 1, .fine = false, .last_ok_real_ns = KIT_REAL}};
    Maintenance *maintenance = maintenance_new();
    MaintenanceWindow window = {.gpus = 5, .from_real_ns = KIT_REAL, .until_real_ns = KIT_REAL + 3600 * NS_PER_S};
    char id[INCIDENT_ID_CAP], expected[1024];
    Err err;

    (void)state;
    assert_int_equal(maintenance_start(maintenance, &window, KIT_REAL, id, &err), 0);
    maintenance_advance(maintenance, KIT_REAL + NS_PER_S);
    rig.kit.input.journal = &journal;
    rig.kit.input.receivers = receivers;
    rig.kit.input.receiver_count = 1;
    rig.kit.snapshot.maintenance = maintenance;
    rig.kit.input.self.kernel_log_lost = 12;
    snprintf(expected, sizeof expected,
             "stoker_maintenance_active{gpu=\"0\",hostname=\"%s\",id=\"%s\"} 1\n"
             "stoker_maintenance_active{gpu=\"2\",hostname=\"%s\",id=\"%s\"} 1\n",
             rig.kit.node.hostname, id, rig.kit.node.hostname, id);
    CLEANUP_FREE char *windows = lines("stoker_maintenance_active");
    window.gpus = 0; /* of the whole node, beside the other */
    assert_int_equal(maintenance_start(maintenance, &window, KIT_REAL, id, &err), 0);
    maintenance_advance(maintenance, KIT_REAL + NS_PER_S);
    CLEANUP_FREE char *more = lines("stoker_maintenance_active");
    assert_int_equal(count_lines("stoker_maintenance_active"), 3);
    assert_non_null(strstr(more, "stoker_maintenance_active{gpu=\"all\",hostname="));
    assert_non_null(strstr(more, id));
    CLEANUP_FREE char *up = lines("stoker_journal_up"), *queued = lines("stoker_journal_queued"),
                      *commit = lines("stoker_journal_commit_seconds"), *lost = lines("stoker_kernel_log_lost_total");
    CLEANUP_FREE char *sent = lines("stoker_alerts_sent_total"), *fine = lines("stoker_alerts_receiver_up");
    assert_string_equal(windows, expected);
    assert_string_equal(up, "stoker_journal_up 0\n");
    assert_string_equal(queued, "stoker_journal_queued 3\n");
    assert_string_equal(commit, "stoker_journal_commit_seconds 0.005\n");
    assert_string_equal(lost, "stoker_kernel_log_lost_total 12\n");
    assert_string_equal(sent, "stoker_alerts_sent_total{kind=\"webhook\",receiver=\"ops\"} 4\n");
    assert_string_equal(fine, "stoker_alerts_receiver_up{kind=\"webhook\",receiver=\"ops\"} 0\n");
    maintenance_free(maintenance);
    rig.kit.snapshot.maintenance = NULL;
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(one_while_it_is_open),
        TEST(instances_links_and_the_node),
        TEST(no_series_twice),
        TEST(a_storm_is_capped),
        TEST(pages_are_before_tickets),
        TEST(counts_of_what_was_told),
        TEST(health_of_a_gpu),
        TEST(health_by_subsystem),
        TEST(a_log_of_before_does_not_count),
        TEST(journal_alerts_and_maintenance),
        TEST(counters_are_there_from_the_start),
        TEST(a_new_number_is_nought_for_a_minute),
        TEST(counters_go_on_over_a_restart),
        TEST(counts_are_of_the_gpu_that_they_were_of),
        TEST(those_that_come_before_the_gpu_is_known_go_on_too),
        TEST(a_journal_of_nonsense_counts_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
