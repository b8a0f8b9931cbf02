/* SPDX-License-Identifier: Apache-2.0 */
/* The notification around an incident's own JSON, and other texts that go out with it. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/alert/inside.h"
#include "service/incident/incident.h"
#include "service/runbook/runbook.h"

enum { PAYLOAD_VERSION = 1 };

static void key(Str *out, const char *name)
{
    if (out->len && !strchr("{[", out->text[out->len - 1]))
        str_addc(out, ',');
    str_addf(out, "\"%s\":", name);
}

static void text(Str *out, const char *name, const char *value)
{
    key(out, name);
    str_add_json(out, value);
}

static void text_or_null(Str *out, const char *name, const char *value)
{
    key(out, name);
    if (*value)
        str_add_json(out, value);
    else
        str_add(out, "null");
}

static void number(Str *out, const char *name, uint64_t value)
{
    key(out, name);
    str_addf(out, "%llu", (unsigned long long)value);
}

void payload_evidence(const Incident *incident, size_t max, Str *out)
{
    size_t begin = out->len;

    for (uint32_t i = 0; i < incident->first_len + incident->last_len; i++) {
        const IncidentSign *sign =
            i < incident->first_len ? &incident->first[i] : &incident->last[i - incident->first_len];
        char at[CLOCK_TEXT_MAX];

        if (out->len - begin + strlen(sign->text) + CLOCK_TEXT_MAX > max)
            break;
        clock_format(at, sign->real_ns);
        str_addf(out, "%s%s %s", i ? "\n" : "", at, sign->text);
    }
}

void payload_link(const Alerts *alerts, const Incident *incident, char *out, size_t size)
{
    const char *url = alert_url(alerts);
    size_t len = strlen(url);

    snprintf(out, size, "%s%s#/incidents/%s", url, len && url[len - 1] == '/' ? "" : "/", incident->id);
}

void payload_runbook(const Alerts *alerts, const RouteConfig *route, const Incident *incident, char *out, size_t size)
{
    static const char mark[] = "{class}";
    const char *from = route && route->runbook ? route->runbook : incident->runbook, *at = strstr(from, mark);

    if (at)
        snprintf(out, size, "%.*s%s%s", (int)(at - from), from, incident->class, at + strlen(mark));
    else if (*from)
        snprintf(out, size, "%s", from);
    else
        runbook_url(alert_url(alerts), incident->class, out, size);
}

static void put_key(const MessageTell *told, Str *out)
{
    Str own;

    str_init(&own, ALERT_KEY_CAP);
    notify_key(told, &own);
    text(out, "key", own.text);
    str_done(&own);
}

/* What each incident of a notification has of its own. */
static void put_told(const MessageTell *told, Str *out)
{
    Incident *incident = &told->tell->item->incident;
    char url[512];

    text(out, "change", tell_change_key(told->change));
    payload_link(told->tell->receiver->alerts, incident, url, sizeof(url));
    text(out, "url", url);
    payload_runbook(told->tell->receiver->alerts, told->tell->route, incident, url, sizeof(url));
    text_or_null(out, "runbook_url", url);
    key(out, "labels");
    str_add(out, told->tell->labels);
    key(out, "incident");
    incident_json(incident, out);
}

static void put_group(const Message *message, Str *out)
{
    key(out, "group");
    if (message->groups.len != 1) { /* several were put together, as the rate did not allow for more */
        str_add(out, "null");
        return;
    }
    str_addc(out, '{');
    text(out, "key", message->groups.at[0]->key);
    key(out, "labels");
    str_add(out, message->groups.at[0]->labels);
    number(out, "members", message->groups.at[0]->members);
    str_addc(out, '}');
}

void payload_message(const Message *message, const MessageTell *first, Str *out)
{
    const Alerts *alerts = message->receiver->alerts;
    bool more = false;

    str_addc(out, '{');
    number(out, "version", PAYLOAD_VERSION);
    text(out, "receiver", message->receiver->name);
    text(out, "key", message->key);
    text(out, "hostname", alerts->hostname);
    put_told(first, out);
    put_group(message, out);
    key(out, "more");
    str_addc(out, '[');
    for (size_t i = 0; i < message->tells.len; i++) {
        if (&message->tells.at[i] == first)
            continue;
        str_add(out, more ? ",{" : "{");
        put_key(&message->tells.at[i], out);
        put_told(&message->tells.at[i], out);
        str_addc(out, '}');
        more = true;
    }
    str_add(out, "]}");
}
