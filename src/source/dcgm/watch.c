/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine measures. The fields of one entity are watched together; where the engine refuses that because of one
 * of them, each is watched alone. Lists of fields are groups in the engine, of which there are few: watches share them.
 */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "model/device.h"
#include "source/dcgm/inside.h"

/* Of what the engine keeps only the latest is read. */
enum { KEEP_SAMPLES = 2, KEEP_PERIODS = 3, KEEP_SECONDS_MIN = 5 };

OWNER_POINTER(DcgmWatch, dcgm_watch_free);

/* Keeps what the library said, for people. */
static Absence keep_refusal(DcgmWatch *watch, const char *function, int answer)
{
    (void)snprintf(watch->words, sizeof watch->words, "%s: %s (%d)", function, dcgm_answer_words(answer), answer);
    return dcgm_answer_absence(answer, watch->dcgm->permitted);
}

/* ---- groups of fields ---- */

static bool is_list(const DcgmFields *fields, const uint16_t *ids, uint32_t count)
{
    return fields->users && fields->count == count && memcmp(fields->ids, ids, count * sizeof *ids) == 0;
}

static DcgmFields *find_fields(Dcgm *dcgm, const uint16_t *ids, uint32_t count)
{
    for (size_t i = 0; i < ARRAY_LEN(dcgm->fields); i++)
        if (is_list(&dcgm->fields[i], ids, count))
            return &dcgm->fields[i];
    return NULL;
}

static DcgmFields *free_place(Dcgm *dcgm)
{
    for (size_t i = 0; i < ARRAY_LEN(dcgm->fields); i++)
        if (!dcgm->fields[i].users)
            return &dcgm->fields[i];
    return NULL;
}

/* The group of this list, made where there is none. Answer of the library; DCGM_MAX_LIMIT where there is no place. */
static int take_fields(Dcgm *dcgm, const uint16_t *ids, uint32_t count, DcgmFields **ret_fields)
{
    DcgmFields *fields = find_fields(dcgm, ids, count);
    char name[DCGM_NAME_CAP];
    int answer;

    if (!fields) {
        fields = free_place(dcgm);
        if (!fields)
            return DCGM_MAX_LIMIT;
        memcpy(fields->ids, ids, count * sizeof *ids);
        fields->count = count;
        answer = DCGM_CALL(dcgm, dcgmFieldGroupCreate,
                           (dcgm->engine, (int)count, fields->ids, dcgm_name(dcgm, name), &fields->handle));
        if (answer != DCGM_OK)
            return answer;
    }
    fields->users++;
    *ret_fields = fields;
    return DCGM_OK;
}

static void give_fields(Dcgm *dcgm, DcgmFields *fields)
{
    if (--fields->users == 0)
        (void)DCGM_CALL(dcgm, dcgmFieldGroupDestroy, (dcgm->engine, fields->handle));
}

/* ---- one entity ---- */

static int watch_list(DcgmWatch *watch, DcgmPart *part, uint32_t first, uint32_t count)
{
    Dcgm *dcgm = watch->dcgm;
    double keep_s = (double)watch->period_ns * KEEP_PERIODS / 1e9;
    uint16_t ids[DCGM_FIELDS_MAX];
    DcgmFields *fields;
    int answer;

    for (uint32_t i = 0; i < count; i++)
        ids[i] = watch->fields[first + i].id;
    answer = take_fields(dcgm, ids, count, &fields);
    if (answer != DCGM_OK)
        return answer;
    answer = DCGM_CALL(dcgm, dcgmWatchFields,
                       (dcgm->engine, part->group, fields->handle, (long long)(watch->period_ns / 1000),
                        keep_s < KEEP_SECONDS_MIN ? KEEP_SECONDS_MIN : keep_s, KEEP_SAMPLES));
    if (answer != DCGM_OK) {
        give_fields(dcgm, fields);
        return answer;
    }
    fields->users += count - 1;
    for (uint32_t i = 0; i < count; i++)
        watch->fields[first + i].fields = fields;
    return DCGM_OK;
}

static int make_group(DcgmWatch *watch, DcgmPart *part)
{
    Dcgm *dcgm = watch->dcgm;
    char name[DCGM_NAME_CAP];
    int answer =
        DCGM_CALL(dcgm, dcgmGroupCreate, (dcgm->engine, DCGM_GROUP_EMPTY, dcgm_name(dcgm, name), &part->group));

    if (answer != DCGM_OK)
        return answer;
    part->grouped = true;
    return DCGM_CALL(dcgm, dcgmGroupAddEntity, (dcgm->engine, part->group, part->entity.group, part->entity.id));
}

static void refuse_all(DcgmWatch *watch, const DcgmPart *part, Absence why)
{
    for (uint32_t i = 0; i < part->count; i++)
        watch->fields[part->first + i].refused = (uint8_t)why;
}

static void watch_each(DcgmWatch *watch, DcgmPart *part)
{
    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        int answer = watch_list(watch, part, i, 1);

        if (answer != DCGM_OK)
            watch->fields[i].refused = (uint8_t)keep_refusal(watch, "dcgmWatchFields", answer);
    }
}

static void list_asked(const DcgmWatch *watch, DcgmPart *part)
{
    part->asked = 0;
    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        if (!watch->fields[i].fields)
            continue;
        part->ids[part->asked] = watch->fields[i].id;
        part->at[part->asked++] = (uint8_t)i;
    }
}

static void start_part(DcgmWatch *watch, DcgmPart *part)
{
    int answer = make_group(watch, part);

    if (answer != DCGM_OK) {
        refuse_all(watch, part, keep_refusal(watch, "a group of entities", answer));
        return;
    }
    answer = watch_list(watch, part, part->first, part->count);
    if (answer != DCGM_OK) {
        Absence why = keep_refusal(watch, "dcgmWatchFields", answer);

        if (part->count > 1 && dcgm_answer_is_about_fields(answer))
            watch_each(watch, part);
        else
            refuse_all(watch, part, why);
    }
    list_asked(watch, part);
}

/* The field group of a field is let go of once, after the last field that was watched with it in this part. */
static void stop_part(DcgmWatch *watch, DcgmPart *part)
{
    Dcgm *dcgm = watch->dcgm;
    const DcgmFields *before = NULL;

    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        DcgmFields *fields = watch->fields[i].fields;

        if (!fields)
            continue;
        if (fields != before)
            (void)DCGM_CALL(dcgm, dcgmUnwatchFields, (dcgm->engine, part->group, fields->handle));
        before = fields;
        give_fields(dcgm, fields);
        watch->fields[i].fields = NULL;
    }
    if (part->grouped)
        (void)DCGM_CALL(dcgm, dcgmGroupDestroy, (dcgm->engine, part->group));
    part->grouped = false;
    part->asked = 0;
}

/* ---- one target ---- */

static bool is_whole(const DcgmTarget *target)
{
    return target->gpu_instance == DEVICE_NO_NUMBER;
}

/* Which kind of entity of the target measures a metric of this scope; 0: none. */
static uint32_t entity_of(const DcgmTarget *target, MetricScope scope)
{
    if (is_whole(target))
        return DCGM_ENTITY_GPU;
    if (scope == METRIC_SCOPE_GPU_INSTANCE)
        return DCGM_ENTITY_GPU_INSTANCE;
    return scope == METRIC_SCOPE_COMPUTE_INSTANCE ? DCGM_ENTITY_COMPUTE_INSTANCE : 0;
}

static void add_field(DcgmWatch *watch, MetricId id, uint32_t out)
{
    const Metric *metric = metric_get(id);

    watch->fields[watch->count++] =
        (DcgmField){.id = metric->dcgm_id, .kind = metric->value, .out = out, .refused = ABSENCE_NOT_SUPPORTED};
}

/* Adds the metrics that such an entity measures, as a part of its own; with `kind` 0 those that none does. */
static void add_kind(DcgmWatch *watch, const MetricId *metrics, size_t count, uint32_t kind)
{
    uint32_t first = watch->count;

    for (uint32_t i = 0; i < count; i++)
        if (entity_of(&watch->target, metric_get(metrics[i])->scope) == kind)
            add_field(watch, metrics[i], i);
    if (kind && watch->count > first)
        watch->parts[watch->parts_count++] =
            (DcgmPart){.entity.group = kind, .first = first, .count = watch->count - first};
}

static int find_entities(DcgmWatch *watch, Err *err)
{
    uint32_t gpu = 0, gpu_instance = 0, compute_instance = 0;

    TRY(dcgm_find_gpu(watch->dcgm, watch->target.gpu, &gpu, err));
    if (!is_whole(&watch->target))
        TRY(dcgm_find_instances(watch->dcgm, gpu, &watch->target, &gpu_instance, &compute_instance, err));
    for (uint32_t i = 0; i < watch->parts_count; i++) {
        DcgmEntity *entity = &watch->parts[i].entity;

        entity->id = entity->group == DCGM_ENTITY_GPU            ? gpu
                     : entity->group == DCGM_ENTITY_GPU_INSTANCE ? gpu_instance
                                                                 : compute_instance;
    }
    return 0;
}

static void stop_watch(DcgmWatch *watch)
{
    for (uint32_t i = 0; i < watch->parts_count; i++)
        stop_part(watch, &watch->parts[i]);
}

static int start_watch(DcgmWatch *watch, Err *err)
{
    uint32_t asked = 0;

    if (watch->dcgm->lost)
        return err_set(err, -EPIPE, "DCGM's engine went away");
    watch->words[0] = '\0';
    TRY(find_entities(watch, err));
    for (uint32_t i = 0; i < watch->parts_count; i++) {
        start_part(watch, &watch->parts[i]);
        asked += watch->parts[i].asked;
    }
    if (watch->dcgm->lost)
        return err_set(err, -EPIPE, "DCGM's engine went away");
    return asked ? 0 : DCGM_REFUSED;
}

int dcgm_watch_new(Dcgm *dcgm, const DcgmTarget *target, const MetricId *metrics, size_t count, uint64_t period_ns,
                   DcgmWatch **ret_watch, Err *err)
{
    CLEANUP(dcgm_watch_free_at) DcgmWatch *watch = xcalloc(1, sizeof *watch);
    int rc;

    assert(count <= DCGM_FIELDS_MAX && period_ns);
    *watch = (DcgmWatch){.dcgm = dcgm, .next = dcgm->watches, .target = *target, .period_ns = period_ns};
    dcgm->watches = watch;
    add_kind(watch, metrics, count, DCGM_ENTITY_GPU);
    add_kind(watch, metrics, count, DCGM_ENTITY_COMPUTE_INSTANCE);
    add_kind(watch, metrics, count, DCGM_ENTITY_GPU_INSTANCE);
    add_kind(watch, metrics, count, 0);
    rc = start_watch(watch, err);
    TRY(rc);
    *ret_watch = TAKE(watch);
    return rc;
}

int dcgm_watch_again(DcgmWatch *watch, Err *err)
{
    int rc;

    stop_watch(watch);
    for (uint32_t i = 0; i < watch->count; i++) {
        watch->fields[i].had = false;
        watch->fields[i].refused = ABSENCE_NOT_SUPPORTED;
    }
    rc = start_watch(watch, err);
    if (rc < 0) {
        stop_watch(watch);
        for (uint32_t i = 0; i < watch->parts_count; i++)
            refuse_all(watch, &watch->parts[i], dcgm_absence(rc));
    }
    return rc;
}

const char *dcgm_watch_words(const DcgmWatch *watch)
{
    return watch->words;
}

void dcgm_watch_free(DcgmWatch *watch)
{
    DcgmWatch **at;

    if (!watch)
        return;
    stop_watch(watch);
    for (at = &watch->dcgm->watches; *at != watch;)
        at = &(*at)->next;
    *at = watch->next;
    free(watch);
}
