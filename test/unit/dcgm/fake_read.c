/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in's values: of field F at entity E, E + F / 10000 as a double, and E * 10000 + F as an integer. */

#include "fake.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

PUBLIC int dcgmEntitiesGetLatestValues(DcgmHandle engine, DcgmEntity *entities, unsigned int entity_count,
                                       unsigned short *fields, unsigned int field_count, unsigned int flags,
                                       DcgmFieldValue *values);

static bool is_mode(const char *mode)
{
    const char *text = fake_text("FAKE_DCGM_VALUES");

    return text && strcmp(text, mode) == 0;
}

static int address(DcgmEntity entity, DcgmFieldValue *value)
{
    const char *at = fake_text("FAKE_DCGM_GPUS");

    fake_check(entity.group == 1 && entity.id >= 10 && entity.id <= 13, "address of no GPU");
    if (!at)
        at = "00000000:17:00.0,00000000:65:00.0,0000:CA:00.0";
    for (uint32_t i = 10; i < entity.id && *at; i++)
        at += strcspn(at, ",") + (strchr(at, ',') != NULL);
    value->type = DCGM_TYPE_TEXT;
    value->status = *at ? DCGM_OK : DCGM_GPU_IS_LOST;
    memset(value->value.text, 0, sizeof value->value.text);
    memcpy(value->value.text, at, strcspn(at, ","));
    return DCGM_OK;
}

/* Which blank is ordered; -1: none. */
static int blank(void)
{
    static const char *const modes[] = {"blank", "not_found", "not_supported", "not_permitted"};

    for (int i = 0; i < 4; i++)
        if (is_mode(modes[i]))
            return i;
    return -1;
}

static void number(DcgmFieldValue *value)
{
    bool bytes = value->field >= 1009 && value->field <= 1012;

    value->type = bytes ? DCGM_TYPE_INT64 : DCGM_TYPE_DOUBLE;
    if (bytes)
        value->value.i64 = blank() < 0 ? (int64_t)value->entity.id * 10000 + value->field : DCGM_BLANK_INT64 + blank();
    else
        value->value.f64 = blank() < 0 ? value->entity.id + value->field / 10000.0 : DCGM_BLANK_DOUBLE + blank();
    if (is_mode("nan") && !bytes)
        value->value.f64 = NAN;
    if (is_mode("text"))
        value->type = DCGM_TYPE_TEXT;
}

static void fill(DcgmFieldValue *value)
{
    const char *now = fake_text("FAKE_DCGM_NOW_US");
    struct timespec clock = {0};
    int code = DCGM_OK;

    clock_gettime(CLOCK_REALTIME, &clock);
    value->time_us = now ? strtoll(now, NULL, 10) : clock.tv_sec * 1000000 + clock.tv_nsec / 1000;
    number(value);
    (void)fake_order("FAKE_DCGM_VALUES", "status", &code);
    value->status = code;
    if (!fake_is_watched(value->entity, value->field))
        value->status = DCGM_NOT_WATCHED;
    if (is_mode("none"))
        value->status = DCGM_NO_DATA;
}

int dcgmEntitiesGetLatestValues(DcgmHandle engine, DcgmEntity *entities, unsigned int entity_count,
                                unsigned short *fields, unsigned int field_count, unsigned int flags,
                                DcgmFieldValue *values)
{
    int code = fake_enter(__func__);

    fake_check(engine == FAKE_ENGINE && entity_count == 1 && field_count > 0, "arguments");
    if (code != DCGM_OK)
        return code;
    for (unsigned int i = 0; i < field_count; i++) {
        DcgmFieldValue *value = &values[is_mode("reversed") ? field_count - 1 - i : i];

        memset(value, 0xA5, sizeof *value);
        value->version = DCGM_VERSION_WORD(DcgmFieldValue, 2);
        value->entity = entities[0];
        value->field = fields[i];
        if (fields[i] == DCGM_FIELD_PCI) {
            fake_check(flags == DCGM_FLAG_LIVE, "an address that is not watched must be asked live");
            (void)address(entities[0], value);
        } else {
            fake_check(flags == 0, "counters come from the cache");
            fill(value);
        }
    }
    return DCGM_OK;
}
