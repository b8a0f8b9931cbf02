/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of a GPU beside its readings: the other GPUs it reaches, its links, its processes. */

#include <string.h>

#include "source/board/board.h"
#include "source/board/turn.h"

/* ---- peers ---- */

void board_set_peers(BoardPeers *peers, const Sample status[NODE_GPUS_MAX])
{
    turn_begin(&peers->turn);
    words_store(peers->status, status, sizeof(peers->status));
    turn_commit(&peers->turn);
}

static void tame_peer(Sample *sample)
{
    int64_t status;

    tame_sample(sample);
    if (sample->valid && (!sample_int64(sample, &status) || status < 0 || status >= PEER_STATUS_END))
        sample_set_absent(sample, sample->time_ns, ABSENCE_FAILED);
}

bool board_copy_peers(const BoardPeers *peers, Sample ret[NODE_GPUS_MAX])
{
    Sample copy[NODE_GPUS_MAX];

    for (int i = 0; i < BOARD_TRIES; i++) {
        if (!turn_copy(&peers->turn, copy, peers->status, sizeof(copy)))
            continue;
        for (size_t k = 0; k < NODE_GPUS_MAX; k++)
            tame_peer(&copy[k]);
        memcpy(ret, copy, sizeof(copy));
        return true;
    }
    return false;
}

void board_repair_peers(BoardPeers *peers)
{
    static const Sample nothing[NODE_GPUS_MAX];

    if (turn_is_torn(&peers->turn))
        board_set_peers(peers, nothing);
}

/* ---- links ---- */

void board_set_links(BoardLinks *links, const BoardLinkList *list)
{
    turn_begin(&links->turn);
    words_store(&links->list, list, sizeof(*list));
    turn_commit(&links->turn);
}

/* A whole number from 0 to `max`, or none. */
static void tame_number(Sample *sample, int64_t max)
{
    int64_t value;

    tame_sample(sample);
    if (sample->valid && (!sample_int64(sample, &value) || value < 0 || value > max))
        sample_set_absent(sample, sample->time_ns, ABSENCE_FAILED);
}

static void tame_link(NodeLink *link)
{
    tame_number(&link->active, 1);
    for (size_t i = 0; i < NODE_LINK_ERROR_END; i++)
        tame_number(&link->errors[i], INT64_MAX);
    tame_number(&link->remote, INT64_MAX >> 15); /* a domain is 32 bits wide */
}

bool board_copy_links(const BoardLinks *links, BoardLinkList *ret)
{
    BoardLinkList copy;

    for (int i = 0; i < BOARD_TRIES; i++) {
        if (!turn_copy(&links->turn, &copy, &links->list, sizeof(copy)))
            continue;
        if (copy.count > NODE_LINKS_MAX)
            copy.count = NODE_LINKS_MAX;
        for (size_t k = 0; k < NODE_LINKS_MAX; k++)
            tame_link(&copy.links[k]);
        *ret = copy;
        return true;
    }
    return false;
}

void board_repair_links(BoardLinks *links)
{
    static const BoardLinkList nothing;

    if (turn_is_torn(&links->turn))
        board_set_links(links, &nothing);
}

/* ---- processes ---- */

void board_set_processes(BoardProcesses *processes, const BoardProcessList *list)
{
    turn_begin(&processes->turn);
    words_store(&processes->list, list, sizeof(*list));
    turn_commit(&processes->turn);
}

static void tame_share(uint8_t *percent)
{
    if (*percent > 100)
        *percent = UINT8_MAX;
}

static void tame_process(NodeProcess *process)
{
    tame_bool(&process->graphics);
    tame_share(&process->sm_percent);
    tame_share(&process->memory_percent);
}

bool board_copy_processes(const BoardProcesses *processes, BoardProcessList *ret)
{
    BoardProcessList copy;

    for (int i = 0; i < BOARD_TRIES; i++) {
        if (!turn_copy(&processes->turn, &copy, &processes->list, sizeof(copy)))
            continue;
        tame_number(&copy.count, UINT32_MAX);
        if (copy.len > NODE_PROCESSES_MAX)
            copy.len = NODE_PROCESSES_MAX;
        for (size_t k = 0; k < copy.len; k++)
            tame_process(&copy.processes[k]);
        *ret = copy;
        return true;
    }
    return false;
}

void board_repair_processes(BoardProcesses *processes)
{
    static const BoardProcessList nothing;

    if (turn_is_torn(&processes->turn))
        board_set_processes(processes, &nothing);
}
