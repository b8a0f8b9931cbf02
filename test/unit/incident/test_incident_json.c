/* SPDX-License-Identifier: Apache-2.0 */
/* service/incident/json.c: what leaves as JSON, and that it comes back the same. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "kit.h"

enum { ROUNDS = 2000 };

static void write_one(const Incident *incident, Str *out)
{
    str_clear(out);
    incident_json(incident, out);
}

static void one_as_it_is_documented(void **state)
{
    const Incident incident = kit_incident();
    Str out;

    (void)state;
    str_init(&out, 1 << 20);
    write_one(&incident, &out);
    assert_string_equal(
        out.text,
        "{\"id\":\"1jf8v3k2m0\",\"revision\":2,\"state\":\"open\",\"class\":\"gpu-lost\",\"rule\":\"xid-79\",\"code\":"
        "79,"
        "\"codes\":[79,154],\"cause\":\"bus\",\"severity\":\"fatal\",\"scope\":\"gpu\",\"action\":\"drain-and-reboot\","
        "\"action_text\":\"Drain and reboot this node\",\"route\":\"page\",\"title\":\"GPU 3 "
        "(0000:1e:00.0)"
        " has fallen off the bus\",\"verdict\":\"XID 79 in the kernel log. Reboot the node.\",\"runbook\":"
        "\"https://example.org/gpu-lost\",\"device\":{\"key\":\"gpu/GPU-3\",\"kind\":\"gpu\",\"index\":3,\"uuid\":"
        "\"GPU-3\",\"serial\":\"16503\",\"pci\":\"0000:1e:00.0\",\"model\":\"NVIDIA H100 80GB HBM3\",\"link\":null},"
        "\"instance\":null,\"part\":null,\"process\":null,\"job\":null,\"owners\":[],\"affected\":null,\"driver\":\"590.48.01\","
        "\"count\":20,\"echo_count\":1,"
        "\"first\":\"2026-01-05T08:00:03.000Z\",\"opened\":\"2026-01-05T08:00:03.000Z\",\"updated\":"
        "\"2026-01-05T08:00:03.000Z\",\"cleared\":null,\"ended_by\":null,\"escalations\":0,\"reopened\":0,"
        "\"before_start\":false,\"maintenance\":null,\"evidence\":[{\"origin\":\"kmsg\",\"at\":"
        "\"2026-01-05T08:00:03.000Z\",\"code\":79,\"echo\":false,\"severity\":\"info\",\"text\":\"Xid (PCI:0000:1e:00): 79, GPU has fallen "
        "off "
        "the "
        "bus.\"},{\"origin\":\"kmsg\",\"at\":\"2026-01-05T08:00:03.000Z\",\"code\":154,\"echo\":true,\"severity\":\"info\",\"text\":\"Xid "
        "(PCI:0000:1e:00): 154, GPU recovery action changed\"}],\"counters\":[{\"name\":\"aer_fatal\",\"before\":0,"
        "\"after\":2},{\"name\":\"pcie_width\",\"before\":16,\"after\":null}]}");
    str_done(&out);
}

static void what_is_read_is_what_was_written(void **state)
{
    uint64_t seed = 7;
    Str first, second;

    (void)state;
    str_init(&first, 1 << 20);
    str_init(&second, 1 << 20);
    for (int i = 0; i < ROUNDS; i++) {
        const Incident incident = kit_random(&seed);
        IncidentList list = {0};
        Err err = {0};
        json_error_t error;

        write_one(&incident, &first);
        json_t *root = json_loadb(first.text, first.len, JSON_REJECT_DUPLICATES, &error);
        assert_non_null(root);
        json_decref(root);
        if (incidents_read(first.text, first.len, &list, NULL, &err) < 0)
            fail_msg("%s\n%s", err.text, first.text);
        assert_int_equal(list.len, 1);
        write_one(&list.at[0], &second);
        assert_string_equal(second.text, first.text);
        vec_done(&list);
    }
    str_done(&first);
    str_done(&second);
}

static void a_list_with_its_head(void **state)
{
    const Incident a = kit_incident(), b = kit_incident_of("fan", SEVERITY_WARNING, INCIDENT_CLEARED, 1);
    const Incident *const both[] = {&a, &b};
    IncidentList list = {0};
    IncidentsHead head;
    Str out;

    (void)state;
    str_init(&out, 1 << 20);
    incidents_json(both, 2, "node-\"7\"", KIT_REAL, &out);
    assert_int_equal(out.text[out.len - 1], '\n');
    assert_int_equal(incidents_read(out.text, out.len, &list, &head, NULL), 0);
    assert_int_equal(list.len, 2);
    assert_string_equal(head.node, "node-\"7\"");
    assert_int_equal(head.real_ns, KIT_REAL);
    assert_string_equal(list.at[1].class, "fan");
    assert_int_equal(list.at[1].end, INCIDENT_END_GONE);
    vec_clear(&list);
    str_clear(&out);
    incidents_json(NULL, 0, "", 0, &out);
    assert_string_equal(out.text, "{\"incidents\":[],\"node\":null,\"time\":null}\n");
    assert_int_equal(incidents_read(out.text, out.len, &list, &head, NULL), 0);
    assert_int_equal(list.len, 0);
    vec_done(&list);
    str_done(&out);
}

static void what_is_no_incident_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "3",
        "{\"id\":3}",
        "{\"id\":\"a\"}",
        "{\"id\":\"a\",\"state\":\"odd\"}",
        "{\"incidents\":{}}",
        "{\"incidents\":[{\"id\":\"a\",\"state\":\"open\"},{}]}",
        "{\"incidents\":[7]}",
    };
    IncidentList list = {0};
    Err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(incidents_read(bad[i], strlen(bad[i]), &list, NULL, &err), -EINVAL);
        assert_int_equal(list.len, 0);
    }
    /* another version may say less, or in another type */
    static const char less[] =
        "{\"id\":\"a\",\"state\":\"open\",\"severity\":7,\"code\":-3,\"evidence\":[null,{\"text\":4}],"
        "\"device\":\"gpu\",\"codes\":{\"a\":1},\"count\":1e99,\"opened\":\"soon\"}";
    assert_int_equal(incidents_read(less, strlen(less), &list, NULL, &err), 0);
    assert_int_equal(list.at[0].first_len, 2);
    assert_int_equal(list.at[0].count, 0);
    assert_int_equal(list.at[0].code, 0);
    vec_done(&list);
}

static void an_event_and_back(void **state)
{
    const Event event = kit_event();
    NodeGpu gpus[4];
    const Node node = kit_node(gpus, 4);
    EventSeenList list = {0};
    EventsHead head;
    Str out, again;
    Err err;

    (void)state;
    str_init(&out, 4096);
    str_init(&again, 4096);
    event_json(&event, "1jf8v3k2m0", &node, &out);
    assert_string_equal(out.text,
                        "{\"kind\":\"xid\",\"time\":\"2026-01-05T08:00:03.000Z\",\"origin\":\"kmsg\",\"code\":79,"
                        "\"pci\":\"0000:1e:00.0\",\"gpu\":3,\"uuid\":\"GPU-3\",\"gpu_instance\":null,"
                        "\"compute_instance\":null,\"link\":null,\"pid\":null,\"process\":null,\"word\":null,"
                        "\"text\":\"GPU has fallen off the bus.\",\"incident\":\"1jf8v3k2m0\","
                        "\"before_start\":false}");
    assert_int_equal(events_read(out.text, out.len, &list, NULL, &err), 0);
    event_seen_json(&list.at[0], &again);
    assert_string_equal(again.text, out.text);
    Node fewer = node; /* what stands behind the last GPU is none */
    fewer.gpu_count = 3;
    str_clear(&again);
    event_json(&event, "1jf8v3k2m0", &fewer, &again);
    assert_non_null(strstr(again.text, "\"pci\":\"0000:1e:00.0\",\"gpu\":null,\"uuid\":null,"));
    str_clear(&again);
    str_addf(&again, "{\"events\":[%s,%s],\"next\":7,\"started\":\"2026-01-05T08:00:03.000Z\"}", out.text, out.text);
    vec_clear(&list);
    assert_int_equal(events_read(again.text, again.len, &list, &head, &err), 0);
    assert_int_equal(list.len, 2);
    assert_int_equal(head.next, 7);
    assert_int_equal(head.started_real_ns, KIT_REAL);
    assert_int_equal(events_read("{\"kind\":\"odd\"}", 14, &list, &head, &err), -EINVAL);
    assert_int_equal(events_read("{\"events\":[7]}", 14, &list, &head, &err), -EINVAL);
    assert_int_equal(events_read("7", 1, &list, &head, &err), -EINVAL);
    assert_int_equal(list.len, 2);
    vec_done(&list);
    str_done(&out);
    str_done(&again);
}

static void whom_it_is_about(void **state)
{
    Incident incident = kit_incident();
    EventSeen seen = {.event = kit_event(), .gpu = 3};

    (void)state;
    static const char *const yes[] = {"3", "GPU-3", "0000:1e:00.0", "1e:00.0", "00000000:1E:00.0", "gpu/GPU-3", "gpu"};
    static const char *const no[] = {"1", "30", "GPU-33", "GPU-", "0000:1f:00.0", "node", "", "gpu/GPU"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        assert_true(incident_is_about(&incident, yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        assert_false(incident_is_about(&incident, no[i]));
    incident.device.kind = DEVICE_LINK; /* a part of it is meant too */
    memcpy(incident.device.parent_uuid, incident.device.uuid, sizeof incident.device.uuid);
    incident.device.uuid[0] = '\0';
    incident.device.link = 4;
    assert_true(incident_is_about(&incident, "GPU-3") && incident_is_about(&incident, "gpu/GPU-3"));
    assert_true(incident_is_about(&incident, "gpu/GPU-3/link/4") && !incident_is_about(&incident, "gpu/GPU-3/link"
                                                                                                  "/40"));
    device_init(&incident.device, DEVICE_NODE);
    assert_true(incident_is_about(&incident, "node") && !incident_is_about(&incident, "3"));
    assert_true(event_is_about(&seen, "3") && event_is_about(&seen, "0000:1e:00.0"));
    assert_false(event_is_about(&seen, "node") || event_is_about(&seen, "2"));
    seen.gpu = DEVICE_NO_NUMBER;
    seen.event.has_pci = false;
    assert_true(event_is_about(&seen, "node"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_as_it_is_documented), cmocka_unit_test(what_is_read_is_what_was_written),
        cmocka_unit_test(a_list_with_its_head),    cmocka_unit_test(what_is_no_incident_is_refused),
        cmocka_unit_test(an_event_and_back),       cmocka_unit_test(whom_it_is_about),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
