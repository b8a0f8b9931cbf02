/* SPDX-License-Identifier: Apache-2.0 */
#include "service/json/members.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "model/device.h"

enum { SECONDS_MAX = 1000000000 };

/* --- reading ------------------------------------------------------------------------------------------------------ */

void member_fail(MemberReader *r, const char *name, const char *wanted)
{
    if (r && r->rc == 0)
        r->rc = err_set(r->err, -EINVAL, "%s: '%.60s' is no %s", r->place, name, wanted);
}

json_t *member_get(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    return json_is_null(value) ? NULL : value;
}

const char *member_text(MemberReader *r, const json_t *object, const char *name)
{
    const json_t *value = member_get(object, name);

    if (value && !json_string_value(value))
        member_fail(r, name, "text");
    return json_string_value(value);
}

void member_copy_text(MemberReader *r, const json_t *object, const char *name, char *out, size_t room)
{
    const char *text = member_text(r, object, name);

    if (text)
        snprintf(out, room, "%s", text);
}

int member_word(MemberReader *r, const json_t *object, const char *name, const WordRow *words, size_t count)
{
    return word_find(words, count, member_text(r, object, name));
}

bool member_bool(MemberReader *r, const json_t *object, const char *name, bool *ret)
{
    const json_t *value = member_get(object, name);

    if (value && !json_is_boolean(value))
        member_fail(r, name, "true or false");
    if (!json_is_boolean(value))
        return false;
    *ret = json_is_true(value);
    return true;
}

bool member_u64(MemberReader *r, const json_t *object, const char *name, uint64_t max, uint64_t *ret)
{
    const json_t *value = member_get(object, name);

    if (!value)
        return false;
    if (!json_is_integer(value) || json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) > max) {
        member_fail(r, name, "number that it can be");
        return false;
    }
    *ret = (uint64_t)json_integer_value(value);
    return true;
}

bool member_u32(MemberReader *r, const json_t *object, const char *name, uint32_t *ret)
{
    uint64_t value;

    if (!member_u64(r, object, name, UINT32_MAX, &value))
        return false;
    *ret = (uint32_t)value;
    return true;
}

bool member_real(MemberReader *r, const json_t *object, const char *name, double *ret)
{
    const json_t *value = member_get(object, name);

    if (value && !json_is_number(value))
        member_fail(r, name, "number");
    if (!json_is_number(value))
        return false;
    *ret = json_number_value(value);
    return true;
}

bool member_seconds(MemberReader *r, const json_t *object, const char *name, uint64_t *ret_ns)
{
    const json_t *value = member_get(object, name);
    const double seconds = json_is_number(value) ? json_number_value(value) : -1;
    const bool fine = seconds >= 0 && seconds <= SECONDS_MAX;

    if (value && !fine)
        member_fail(r, name, "number of seconds");
    if (fine)
        *ret_ns = (uint64_t)llround(seconds * 1e3) * NS_PER_MS;
    return fine;
}

bool member_time(MemberReader *r, const json_t *object, const char *name, uint64_t *ret_real_ns)
{
    const char *text = member_text(r, object, name);

    if (!text)
        return false;
    if (clock_parse(text, ret_real_ns, NULL) == 0)
        return true;
    member_fail(r, name, "time");
    return false;
}

const json_t *member_list(MemberReader *r, const json_t *object, const char *name, size_t max)
{
    const json_t *value = member_get(object, name);

    if (!value || (json_is_array(value) && json_array_size(value) <= max))
        return value;
    member_fail(r, name, "list of as many as there can be");
    return NULL;
}

json_t *member_object(MemberReader *r, const json_t *object, const char *name)
{
    json_t *value = member_get(object, name);

    if (!value || json_is_object(value))
        return value;
    member_fail(r, name, "object");
    return NULL;
}

/* --- both ways ---------------------------------------------------------------------------------------------------- */

void convert_text(const Convert *c, const char *name, char *text, size_t room)
{
    if (c->out)
        json_add_text(c->out, name, text[0] ? text : NULL);
    else
        member_copy_text(NULL, c->in, name, text, room);
}

void convert_word(const Convert *c, const char *name, void *value, const WordRow *words, size_t end)
{
    const int read = c->out ? -1 : member_word(NULL, c->in, name, words, end);

    if (c->out)
        json_add_text(c->out, name, words[*(unsigned *)value].key[0] ? words[*(unsigned *)value].key : NULL);
    else if (read >= 0)
        *(unsigned *)value = (unsigned)read;
}

void convert_count(const Convert *c, const char *name, uint64_t *value)
{
    if (c->out)
        json_add_u64(c->out, name, *value);
    else
        member_u64(NULL, c->in, name, INT64_MAX, value);
}

void convert_number(const Convert *c, const char *name, uint32_t *value)
{
    if (c->out && *value == DEVICE_NO_NUMBER)
        json_add_null(c->out, name);
    else if (c->out)
        json_add_u64(c->out, name, *value);
    else
        member_u32(NULL, c->in, name, value);
}

void convert_code(const Convert *c, const char *name, int32_t *value, int32_t none)
{
    uint32_t number = *value == none ? DEVICE_NO_NUMBER : (uint32_t)*value;

    convert_number(c, name, &number);
    if (!c->out && number <= INT32_MAX)
        *value = (int32_t)number;
}

void convert_real(const Convert *c, const char *name, double *value)
{
    if (c->out)
        json_add_double(c->out, name, *value);
    else
        member_real(NULL, c->in, name, value);
}

void convert_bool(const Convert *c, const char *name, bool *value)
{
    if (c->out)
        json_add_bool(c->out, name, *value);
    else
        member_bool(NULL, c->in, name, value);
}

void convert_time(const Convert *c, const char *name, uint64_t *real_ns)
{
    if (c->out)
        json_add_time(c->out, name, *real_ns);
    else
        member_time(NULL, c->in, name, real_ns);
}

void convert_pci(const Convert *c, bool *has_pci, PciAddress *pci, PciForm form)
{
    char text[PCI_TEXT_CAP] = "";

    if (c->out && *has_pci)
        pci_format(*pci, form, text);
    CONVERT_TEXT(c, "pci", text);
    if (!c->out)
        *has_pci = pci_parse(text, pci) == 0;
}

static Convert open_object(const Convert *c, const char *name, const json_t *from)
{
    if (c->out)
        json_open(c->out, name, '{');
    return (Convert){c->out, from};
}

Convert convert_open(const Convert *c, const char *name)
{
    return open_object(c, name, json_object_get(c->in, name));
}

Convert convert_open_element(const Convert *c, const json_t *list, size_t i)
{
    return open_object(c, NULL, json_array_get(list, i));
}

uint32_t convert_open_list(const Convert *c, const char *name, size_t count, uint32_t max, const json_t **ret_list)
{
    *ret_list = json_object_get(c->in, name);
    if (c->out)
        json_open(c->out, name, '[');
    return (uint32_t)(c->out ? count : number_min_u64(json_array_size(*ret_list), max));
}

void convert_close(const Convert *c, char bracket)
{
    if (c->out)
        json_close(c->out, bracket);
}
