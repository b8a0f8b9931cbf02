/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an export of nsys and prints what the profile then holds, a row per line: for the tests beside it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/cleanup.h"
#include "source/nsys/nsys.h"

static const char *const kinds[PROFILE_KIND_COUNT] = {"kernel",     "copy",   "set",      "call",  "op",
                                                      "annotation", "python", "overhead", "other", "gpu_annotation"};

static void print_lane(const Profile *p, uint32_t lane)
{
    const ProfileLane *l = &p->lanes.at[lane];

    if (l->gpu)
        printf(" gpu%d/%" PRId64, l->device, l->tid);
    else
        printf(" %" PRId64 "/%" PRId64, l->pid, l->tid);
}

static void print_extra(const Profile *p, ProfileKind kind, uint32_t extra)
{
    if (extra == PROFILE_NONE)
        return;
    if (kind == PROFILE_KERNEL) {
        const ProfileLaunch *l = &p->launches.at[extra];

        printf(" grid=%u,%u,%u block=%u,%u,%u regs=%u shared=%u graph=%d", l->grid[0], l->grid[1], l->grid[2],
               l->block[0], l->block[1], l->block[2], l->registers, l->shared_bytes, l->in_graph);
    } else {
        const ProfileCopy *c = &p->copies.at[extra];

        printf(" bytes=%" PRId64 " kind=%u %u->%u", c->bytes, c->kind, c->source, c->target);
    }
}

static void print_table(const Profile *p, const ProfileEvents *t)
{
    for (size_t i = 0; i < t->len; i++) {
        printf("%s %" PRId64 " %" PRId64, kinds[t->kind[i]], t->start[i], t->duration[i]);
        print_lane(p, t->lane[i]);
        printf(" link=%u", t->link[i]);
        print_extra(p, (ProfileKind)t->kind[i], t->extra[i]);
        printf(" %s\n", profile_text(p, t->name[i], NULL));
    }
}

static void print_rest(const Profile *p)
{
    for (size_t i = 0; i < p->syncs.len; i++)
        printf("sync %" PRId64 " %" PRId64 " gpu%d/%" PRId64 " %s\n", p->syncs.at[i].start, p->syncs.at[i].duration,
               p->syncs.at[i].device, p->syncs.at[i].stream, profile_text(p, p->syncs.at[i].name, NULL));
    for (size_t i = 0; i < p->memory.len; i++)
        printf("memory %" PRId64 " gpu%d %" PRId64 "\n", p->memory.at[i].start, p->memory.at[i].device,
               p->memory.at[i].bytes);
    for (size_t i = 0; i < p->devices.len; i++)
        printf("device %d %s sms=%u cc=%d.%d\n", p->devices.at[i].id, profile_text(p, p->devices.at[i].name, NULL),
               p->devices.at[i].sm_count, p->devices.at[i].major, p->devices.at[i].minor);
    for (size_t i = 0; i < p->lanes.len; i++)
        if (p->lanes.at[i].label != PROFILE_NONE) {
            printf("label");
            print_lane(p, (uint32_t)i);
            printf(" %s\n", profile_text(p, p->lanes.at[i].label, NULL));
        }
    printf("host %s base %" PRId64 " events %" PRIu64 " ignored %" PRIu64 " lost %" PRIu64 "\n",
           profile_text(p, p->host_name, NULL), p->base_ns, p->events, p->ignored, profile_lost(p));
    for (size_t i = 0; i < p->losses.len; i++)
        printf("loss %s %" PRIu64 " %s\n", profile_loss_words[p->losses.at[i].reason], p->losses.at[i].byte,
               p->losses.at[i].excerpt);
}

static int read_text(const char *path, Profile *p, Err *err)
{
    static const char *const tables[] = {"trace", "kernels", "copies", "calls", "ranges"};
    CLEANUP(str_done) Str text = {0};
    NsysSummary summary;
    Arena arena = {0};

    str_init(&text, 64 << 20);
    TRY(file_read(path, 64 << 20, &text, err));
    const int rc = nsys_is_csv(text.text, text.len) ? nsys_read_csv(text.text, text.len, p, &summary, &arena, err)
                                                    : err_set(err, -1, "neither SQLite nor a table");

    if (rc == 0) {
        printf("table %s\n", tables[summary.table]);
        for (size_t i = 0; i < summary.rows.len; i++)
            printf("row %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %.1f %s\n", summary.rows.at[i].count,
                   summary.rows.at[i].total_ns, summary.rows.at[i].min_ns, summary.rows.at[i].max_ns,
                   summary.rows.at[i].mean_ns, summary.rows.at[i].name);
        nsys_summary_done(&summary);
    }
    arena_done(&arena);
    return rc;
}

static bool is_sqlite(const char *path)
{
    char magic[16] = {0};
    FILE *file = fopen(path, "rb");
    const size_t len = file ? fread(magic, 1, sizeof(magic), file) : 0;

    if (file)
        fclose(file);
    return nsys_is_sqlite(magic, len);
}

int main(int argc, char **argv)
{
    Profile p;
    Err err = {0};

    if (argc < 2)
        return 2;
    profile_init(&p);
    const int rc = is_sqlite(argv[1]) ? nsys_read_sqlite(argv[1], 0, NULL, &p, &err) : read_text(argv[1], &p, &err);

    if (rc < 0) {
        fprintf(stderr, "%s\n", err.text);
        profile_done(&p);
        return 1;
    }
    profile_seal(&p, 1);
    print_table(&p, &p.gpu);
    print_table(&p, &p.host);
    print_rest(&p);
    profile_done(&p);
    return 0;
}
