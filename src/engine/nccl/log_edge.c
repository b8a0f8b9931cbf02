/* SPDX-License-Identifier: Apache-2.0 */
/* Log: which way data takes from rank to rank.
 *     Channel 03/0 : 1[1] -> 2[2] via P2P/CUMEM/read
 *     Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/2(6)/GDRDMA/Shared        Ring 00 : 3 -> 4 [receive] via
 * NET/Socket/0 */
#include <stdio.h>
#include <strings.h>

#include "engine/nccl/job.h"

enum { WAY_TEXT = 128, MEMBER_SHIFT = 31, PEER_SHIFT = 11, WAY_BITS = 10 };

static NcclVia via_of_net(Span name)
{
    for (size_t i = 0; i + 6 <= name.len; i++)
        if (strncasecmp(name.at + i, "socket", 6) == 0)
            return NCCL_VIA_SOCKET;
    return NCCL_VIA_RDMA;
}

/* "IB/2(6)/GDRDMA(PCI)/Shared"; false where it is torn. */
static bool read_net(const NcclJob *job, Span s, NcclWay *way, char name[WAY_TEXT])
{
    Span net = span_until(&s, '/');
    int64_t proxy;

    if (net.len == 0 || net.len > 64 || !span_int(&s, &way->device) || way->device < 0)
        return false;
    snprintf(name, WAY_TEXT, "NET/%.*s", (int)net.len, net.at);
    way->via = via_of_net(net);
    if (span_skip(&s, "(") && (!span_i64(&s, &proxy) || !span_skip(&s, ")")))
        return false;
    way->gdr = span_skip(&s, "/GDRDMA");
    span_skip(&s, "(PCI)");
    span_skip(&s, "/Shared");
    /* Where another message begins, "/GDRDMA" may have stood behind. */
    return !span_starts(s, "/") && !(job->cut && !way->gdr && way->via == NCCL_VIA_RDMA);
}

static bool read_p2p(Span s, char name[WAY_TEXT])
{
    static const char *const kinds[] = {"CUMEM", "IPC", "direct pointer", "MNNVL", "indirect", "direct"};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (span_starts(s, kinds[i])) {
            snprintf(name, WAY_TEXT, "P2P/%s", kinds[i]);
            return true;
        }
    return false;
}

static bool read_way(const NcclJob *job, Span s, NcclWay *way, char name[WAY_TEXT])
{
    *way = (NcclWay){.device = NCCL_UNKNOWN};
    if (span_skip(&s, "NET/"))
        return read_net(job, s, way, name);
    if (span_skip(&s, "P2P/")) {
        way->via = NCCL_VIA_P2P;
        return read_p2p(s, name);
    }
    bool shm = span_starts(s, "SHM") || span_starts(s, "direct shared memory"); /* the latter before 2.12 */
    way->via = shm ? NCCL_VIA_SHM : span_starts(s, "COLLNET") ? NCCL_VIA_COLLNET : NCCL_VIA_OTHER;
    if (way->via == NCCL_VIA_OTHER)
        return false;
    snprintf(name, WAY_TEXT, "%s", way->via == NCCL_VIA_SHM ? "SHM" : "COLLNET");
    return true;
}

static uint32_t way_index(NcclJob *job, NcclWay way, const char *name)
{
    char key[WAY_TEXT + 32];

    snprintf(key, sizeof key, "%s|%d|%d", name, way.device, way.gdr);
    uint32_t index = nccl_unboxed(map_get(&job->way_by_key, key));
    if (index != NCCL_NO_INDEX || job->report.ways.len >= NCCL_WAYS_MAX)
        return index;
    way.name = nccl_text(job, name);
    index = (uint32_t)job->report.ways.len;
    vec_push(&job->report.ways, way);
    map_put(&job->way_by_key, key, nccl_boxed(index));
    return index;
}

/* "12[3]", "12[c7000]", "12" */
static bool read_rank(Span *s, int64_t *ret)
{
    if (!span_i64(s, ret) || *ret < 0 || *ret >= NCCL_MEMBERS_MAX)
        return false;
    if (span_starts(*s, "["))
        return span_after(s, "]");
    return true;
}

static void keep_edge(NcclJob *job, uint32_t member, NcclEdge *edge, uint64_t channel)
{
    NcclMember *m = &job->report.members.at[member];
    int64_t self = edge->receive ? edge->to : edge->from, peer = edge->receive ? edge->from : edge->to;
    uint64_t key = (uint64_t)member << MEMBER_SHIFT | (uint64_t)peer << PEER_SHIFT |
                   (uint64_t)edge->receive << WAY_BITS | edge->way;
    uint32_t index = nccl_unboxed(map_u64_get(&job->edge_by_key, key));

    if (m->rank != NCCL_UNKNOWN && m->rank != self)
        return; /* a line of another communicator of this thread, or torn */
    if (index == NCCL_NO_INDEX) {
        if (job->report.edges.len >= NCCL_EDGES_MAX) {
            job->report.left_out++;
            return;
        }
        index = (uint32_t)job->report.edges.len;
        edge->member = member;
        edge->place = nccl_here(job);
        vec_push(&job->report.edges, *edge);
        map_u64_put(&job->edge_by_key, key, nccl_boxed(index));
    }
    job->report.edges.at[index].channels |= 1ull << (channel & (NCCL_CHANNELS_MAX - 1));
}

bool nccl_edge_line(NcclJob *job, uint32_t process, uint64_t tid, int dev, Span s)
{
    char name[WAY_TEXT];
    uint64_t channel, part;
    NcclEdge edge = {0};
    NcclWay way;

    if (!(span_skip(&s, "Channel ") || span_skip(&s, "Ring ")) || !span_u64(&s, &channel))
        return false;
    if (span_skip(&s, "/") && !span_u64(&s, &part))
        return false;
    if (!span_next(&s, ":") || !read_rank(&s, &edge.from) || !span_next(&s, "->") || !read_rank(&s, &edge.to))
        return false;
    edge.receive = span_next(&s, "[receive]");
    span_next(&s, "[send]");
    if (!span_next(&s, "via ") || !read_way(job, s, &way, name))
        return false;
    uint32_t member = nccl_member_of(job, process, tid, dev);
    edge.way = way_index(job, way, name);
    if (member != NCCL_NO_INDEX && edge.way != NCCL_NO_INDEX)
        keep_edge(job, member, &edge, channel);
    return true;
}
