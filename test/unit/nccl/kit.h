/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lines of logs for tests, as macros that are put together like text, and a job that reads them. */

#include "base/str.h"
#include "engine/nccl/nccl.h"

/* host, process and thread number, device */
#define INFO(host, pid, dev, text) host ":" #pid ":" #pid " [" #dev "] NCCL INFO " text "\n"
#define WARN(host, pid, dev, text) "\n" host ":" #pid ":" #pid " [" #dev "] misc/socket.cc:484 NCCL WARN " text "\n"

#define START(host, pid, dev, rank, nranks, id)                                                                        \
    INFO(host, pid, dev,                                                                                               \
         "ncclCommInitRank comm 0x" #pid " rank " #rank " nranks " #nranks " cudaDev " #dev " nvmlDev " #dev           \
         " busId " #pid "000 commId 0x" #id " - Init START")
#define COMPLETE(host, pid, dev, rank, nranks, id)                                                                     \
    INFO(host, pid, dev,                                                                                               \
         "ncclCommInitRank comm 0x" #pid " rank " #rank " nranks " #nranks " cudaDev " #dev " nvmlDev " #dev           \
         " busId " #pid "000 commId 0x" #id " - Init COMPLETE")
#define NODES(host, pid, dev, rank, nranks, nodes, local)                                                              \
    INFO(host, pid, dev,                                                                                               \
         "comm 0x" #pid " rank " #rank " nRanks " #nranks " nNodes " #nodes " localRanks " #local                      \
         " localRank 0 MNNVL 0")

/* Two ranks on one node, two on two. What comes between are their lines. */
#define ONE_NODE                                                                                                       \
    START("a", 11, 0, 0, 2, 77) START("a", 12, 1, 1, 2, 77) NODES("a", 11, 0, 0, 2, 1, 2) NODES("a", 12, 1, 1, 2, 1, 2)
#define ONE_NODE_END COMPLETE("a", 11, 0, 0, 2, 77) COMPLETE("a", 12, 1, 1, 2, 77)
#define TWO_NODES                                                                                                      \
    START("a", 11, 0, 0, 2, 77) START("b", 12, 0, 1, 2, 77) NODES("a", 11, 0, 0, 2, 2, 1) NODES("b", 12, 0, 1, 2, 2, 1)
#define TWO_NODES_END COMPLETE("a", 11, 0, 0, 2, 77) COMPLETE("b", 12, 0, 1, 2, 77)

#define SEND(host, pid, dev, from, to, via)                                                                            \
    INFO(host, pid, dev, "Channel 00/0 : " #from "[0] -> " #to "[0] [send] via " via)
#define RECEIVE(host, pid, dev, from, to, via)                                                                         \
    INFO(host, pid, dev, "Channel 00/0 : " #from "[0] -> " #to "[0] [receive] via " via)
#define DIRECT(host, pid, dev, from, to, via) INFO(host, pid, dev, "Channel 00/0 : " #from "[0] -> " #to "[1] via " via)

/* A job that has read `text`; a form feed in it parts inputs, each of which may begin with "name=NAME\n" and then
 * "trouble=WHY IT ENDED EARLY\n". */
NcclJob *kit_read(const char *text);
/* Adds " EXIT-CODE FINDING... SUM", the sum of all outputs. */
void kit_add_outputs(const NcclReport *report, Str *line);
/* This of all that kit_read has read so far is what a golden (test/unit/golden.h) has. */
void kit_check_outputs(const char *path);
/* As kit_read, fed in pieces of `piece` bytes. */
NcclJob *kit_read_in_pieces(const char *text, size_t piece);

const NcclFinding *kit_find(const NcclReport *report, const char *id); /* NULL: not found */
