/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/scan/inside.h"

typedef struct Text {
    const char *text;
    size_t len, at;
} Text;

static ssize_t read_text(void *context, void *buffer, size_t len, Err *err)
{
    Text *text = context;
    const size_t n = text->len - text->at < len ? text->len - text->at : len;

    (void)err;
    memcpy(buffer, text->text + text->at, n);
    text->at += n;
    return (ssize_t)n;
}

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static int feed(const char *text, size_t len, const TraceScanOptions *options, const KitWay *way, Profile *profile,
                Err *err)
{
    TraceScan *scan = scan_new_head(profile, options, way->tools);
    uint32_t seed = way->seed;
    size_t usable = 0;
    int rc = 0;

    while (usable < walkers_count && walkers[walkers_count - 1 - usable].usable())
        usable++;
    scan->walk_event = walkers[walkers_count - usable + way->walker % usable].event;

    for (size_t at = 0; at < len && rc == 0;) {
        size_t n = way->piece == SIZE_MAX ? 1 + next(&seed) % (1 + (1u << next(&seed) % 12)) : way->piece;

        n = n == 0 || n > len - at ? len - at : n;
        for (const size_t end = at + n; at < end && rc == 0;) {
            size_t room;
            char *to = scan_room(scan, &room);

            room = room < end - at ? room : end - at;
            memcpy(to, text + at, room);
            scan_filled(scan, room);
            rc = scan_run(scan, err);
            at += room;
        }
    }
    if (rc == 0)
        rc = scan_finish(scan, err);
    scan_free(scan);
    return rc;
}

int kit_scan(const char *text, size_t len, const TraceScanOptions *options, const KitWay *way, Profile *ret, Err *err)
{
    Text whole = {.text = text, .len = len};
    const TraceSource source = {.read = read_text, .context = &whole};
    TraceScanOptions parts = options ? *options : (TraceScanOptions){0};
    int rc;

    profile_init(ret);
    parts.piece_bytes = way->part_bytes;
    if (way->threads)
        rc = trace_scan_parallel(&source, &parts, way->threads, ret, err);
    else
        rc = feed(text, len, options, way, ret, err);
    if (rc == 0)
        profile_seal(ret, 1);
    return rc;
}

int kit_load(const char *text, size_t len, const TraceScanOptions *options, const KitWay *way, Profile *into, Err *err)
{
    return feed(text, len, options, way, into, err);
}

static void add_name(const Profile *profile, const char *label, uint32_t name, Str *out)
{
    size_t len;
    const char *text = profile_text(profile, name, &len);

    str_addf(out, " %s=", label);
    if (name == PROFILE_NONE)
        str_add(out, "none");
    else
        str_addn_json(out, text, len);
}

static void print_rows(const Profile *profile, const char *label, const ProfileEvents *t, Str *out)
{
    static const char *const kinds[] = {"kernel",     "copy",   "set",      "call",  "op",
                                        "annotation", "python", "overhead", "other", "gpu_annotation"};

    for (size_t i = 0; i < t->len; i++) {
        str_addf(out, "%s %s start=%" PRId64 " dur=%" PRId64 " lane=%" PRIu32 " link=%" PRIu32 " extra=%d", label,
                 kinds[t->kind[i]], t->start[i], t->duration[i], t->lane[i], t->link[i], (int)t->extra[i]);
        if (t->external)
            str_addf(out, " external=%" PRIu32, t->external[i]);
        add_name(profile, "name", t->name[i], out);
        str_addc(out, '\n');
    }
}

static void print_details(const Profile *p, Str *out)
{
    for (size_t i = 0; i < p->launches.len; i++) {
        const ProfileLaunch *l = &p->launches.at[i];

        str_addf(out,
                 "launch grid=%u,%u,%u block=%u,%u,%u registers=%u shared=%u occupancy=%g blocks=%g warps=%g "
                 "collective=%d graph=%d\n",
                 l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->registers,
                 l->shared_bytes, (double)l->occupancy_percent, (double)l->blocks_per_sm, (double)l->warps_per_sm,
                 (int)l->collective, l->in_graph);
    }
    for (size_t i = 0; i < p->copies.len; i++)
        str_addf(out, "copy bytes=%" PRId64 " gbs=%.17g kind=%d from=%d to=%d\n", p->copies.at[i].bytes,
                 p->copies.at[i].reported_gbs, p->copies.at[i].kind, p->copies.at[i].source, p->copies.at[i].target);
    for (size_t i = 0; i < p->ops.len; i++) {
        str_addf(out, "op collective=%d sequence=%" PRId64, (int)p->ops.at[i].collective, p->ops.at[i].sequence);
        add_name(p, "dims", p->ops.at[i].dims, out);
        add_name(p, "types", p->ops.at[i].types, out);
        str_addc(out, '\n');
    }
    for (size_t i = 0; i < p->places.len; i++) {
        str_addf(out, "place op=%u", p->places.at[i].op_id);
        add_name(p, "modules", p->places.at[i].modules, out);
        str_addc(out, '\n');
    }
    for (size_t i = 0; i < p->collectives.len; i++) {
        const ProfileCollective *c = &p->collectives.at[i];

        str_addf(out,
                 "collective in=%" PRId64 " out=%" PRId64 " size=%" PRId64 " seq=%" PRId64 " from=%" PRId64
                 " to=%" PRId64,
                 c->in_elements, c->out_elements, c->group_size, c->sequence, c->source, c->target);
        add_name(p, "name", c->name, out);
        add_name(p, "dtype", c->dtype, out);
        add_name(p, "group", c->group, out);
        add_name(p, "label", c->group_label, out);
        add_name(p, "ranks", c->ranks, out);
        str_addc(out, '\n');
    }
}

static void print_records(const Profile *p, Str *out)
{
    for (size_t i = 0; i < p->lanes.len; i++) {
        const ProfileLane *l = &p->lanes.at[i];

        str_addf(out, "lane %zu gpu=%d device=%d pid=%" PRId64 " tid=%" PRId64, i, l->gpu, l->device, l->pid, l->tid);
        add_name(p, "pid_name", l->pid_name, out);
        add_name(p, "tid_name", l->tid_name, out);
        add_name(p, "label", l->label, out);
        str_addc(out, '\n');
    }
    for (size_t i = 0; i < p->syncs.len; i++) {
        const ProfileSync *s = &p->syncs.at[i];

        str_addf(out,
                 "sync start=%" PRId64 " dur=%" PRId64 " device=%d stream=%" PRId64 " wait=%" PRId64
                 " link=%u wait_link=%u",
                 s->start, s->duration, s->device, s->stream, s->wait_stream, s->link, s->wait_link);
        add_name(p, "name", s->name, out);
        str_addc(out, '\n');
    }
    for (size_t i = 0; i < p->memory.len; i++) {
        const ProfileMemory *m = &p->memory.at[i];

        str_addf(out,
                 "memory start=%" PRId64 " bytes=%" PRId64 " allocated=%" PRId64 " reserved=%" PRId64
                 " address=%" PRIu64 " lane=%u device=%d type=%d\n",
                 m->start, m->bytes, m->allocated, m->reserved, m->address, m->lane, m->device, m->device_type);
    }
}

static void print_about(const Profile *p, Str *out)
{
    for (size_t i = 0; i < p->devices.len; i++) {
        const ProfileDevice *d = &p->devices.at[i];

        str_addf(out, "device id=%d memory=%" PRIu64 " sms=%u warp=%u threads=%u capability=%d.%d", d->id,
                 d->memory_bytes, d->sm_count, d->warp_size, d->threads_per_sm, d->major, d->minor);
        add_name(p, "name", d->name, out);
        str_addc(out, '\n');
    }
    for (size_t i = 0; i < p->groups.len; i++) {
        str_addf(out, "group size=%" PRId64, p->groups.at[i].size);
        add_name(p, "name", p->groups.at[i].name, out);
        add_name(p, "label", p->groups.at[i].label, out);
        add_name(p, "ranks", p->groups.at[i].ranks, out);
        str_addc(out, '\n');
    }
    str_addf(
        out, "about rank=%" PRId64 " world=%" PRId64 " base=%" PRId64 " rocm=%d stack=%d shapes=%d memory=%d us=%d",
        p->rank, p->world_size, p->base_ns, p->rocm, p->with_stack, p->with_shapes, p->with_memory, p->microseconds);
    add_name(p, "backend", p->backend, out);
    add_name(p, "nccl", p->nccl_version, out);
    add_name(p, "host", p->host_name, out);
    add_name(p, "trace", p->trace_id, out);
    add_name(p, "framework", p->framework, out);
    str_addf(out, "\nread bytes=%" PRIu64 " events=%" PRIu64 " ignored=%" PRIu64 " names=%zu\n", p->bytes, p->events,
             p->ignored, profile_name_count(p));
}

void kit_print(const Profile *profile, Str *out)
{
    print_about(profile, out);
    print_records(profile, out);
    print_rows(profile, "gpu", &profile->gpu, out);
    print_rows(profile, "host", &profile->host, out);
    print_rows(profile, "mark", &profile->mark, out);
    print_details(profile, out);
    for (size_t i = 0; i < PROFILE_LOSS_COUNT; i++)
        if (profile->lost_by_reason[i])
            str_addf(out, "lost %s=%" PRIu64 "\n", profile_loss_words[i], profile->lost_by_reason[i]);
    for (size_t i = 0; i < profile->losses.len; i++) {
        const ProfileLoss *loss = &profile->losses.at[i];

        str_addf(out, "loss %s byte=%" PRIu64 " event=%" PRIu64, profile_loss_words[loss->reason], loss->byte,
                 loss->event);
        str_add(out, " excerpt=");
        str_addn_json(out, loss->excerpt, strlen(loss->excerpt));
        str_addc(out, '\n');
    }
}
