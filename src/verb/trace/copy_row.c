/* SPDX-License-Identifier: Apache-2.0 */
/* A row from one profile to another: names and details have other numbers there. */
#include "verb/trace/copy_row.h"

static uint32_t copy_name(Profile *into, const Profile *from, uint32_t name)
{
    size_t len;
    const char *text = profile_text(from, name, &len);

    return name == PROFILE_NONE ? PROFILE_NONE : profile_name(into, text, len);
}

static uint32_t copy_collective(Profile *into, const Profile *from, uint32_t collective)
{
    if (collective == PROFILE_NONE)
        return PROFILE_NONE;
    ProfileCollective copy = from->collectives.at[collective];
    copy.name = copy_name(into, from, copy.name);
    copy.dtype = copy_name(into, from, copy.dtype);
    copy.group = copy_name(into, from, copy.group);
    copy.group_label = copy_name(into, from, copy.group_label);
    copy.ranks = copy_name(into, from, copy.ranks);
    return profile_collective(into, &copy);
}

static uint32_t copy_op(Profile *into, const Profile *from, uint32_t extra)
{
    if (extra == PROFILE_NONE)
        return PROFILE_NONE;
    ProfileOp copy = from->ops.at[extra];
    copy.dims = copy_name(into, from, copy.dims);
    copy.types = copy_name(into, from, copy.types);
    copy.collective = copy_collective(into, from, copy.collective);
    return profile_op(into, &copy);
}

void trace_copy_row(Profile *into, const Profile *from, size_t host_row)
{
    const ProfileEvents *host = &from->host;
    const ProfileLane *lane = &from->lanes.at[host->lane[host_row]];
    ProfileKind kind = (ProfileKind)host->kind[host_row];
    uint32_t own = profile_thread(into, lane->pid, copy_name(into, from, lane->pid_name), lane->tid,
                                  copy_name(into, from, lane->tid_name));

    if (lane->label != PROFILE_NONE && into->lanes.at[own].label == PROFILE_NONE)
        into->lanes.at[own].label = copy_name(into, from, lane->label);
    profile_add(
        into, &(ProfileEvent){.kind = kind,
                              .start = host->start[host_row],
                              .duration = host->duration[host_row],
                              .name = copy_name(into, from, host->name[host_row]),
                              .lane = own,
                              .link = host->link[host_row],
                              .extra = kind == PROFILE_OP ? copy_op(into, from, host->extra[host_row]) : PROFILE_NONE});
}
