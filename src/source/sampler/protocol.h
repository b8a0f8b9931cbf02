/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the agent and a sampler meet. A sampler is the program `stoker-sampler` (it links libc alone and loads the
 * driver's library with dlopen); descriptor 3 is its end of a SOCK_SEQPACKET unix socket, whether the agent made it
 * (socketpair, fork, exec) or systemd did (Accept=yes; the agent connected). The agent sends one SamplerHello with the
 * board's memfd attached (SCM_RIGHTS); the sampler answers with one SamplerReply, and sends the same again whenever it
 * has put events on the board. All else goes over the board, and each side takes the end of the socket as the death of
 * the other. A sampler whose agent is gone ends. A probe is the same program with another task (SamplerHello.probe): it
 * owns no GPU, asks the driver once as a new client does, says on the board how that went, and ends.
 */

#include <stdint.h>
#include <sys/types.h>

#include "source/board/board.h"

enum { SAMPLER_PROTOCOL = 3, SAMPLER_FD = 3, SAMPLER_LIBRARY_CAP = 4096, SAMPLER_ADDRESS_CAP = 256 };

typedef struct SamplerHello {
    uint32_t protocol; /* SAMPLER_PROTOCOL */
    uint32_t board_version;
    uint32_t slot;                          /* its place in Board.samplers */
    uint32_t no_attach;                     /* init with NVML_INIT_FLAG_NO_ATTACH: touch only the GPUs it owns */
    uint32_t probe;                         /* ask the driver once and end, see run_probe in child.c */
    uint64_t dcgm_after_ns;                 /* kernel time before which libdcgm is left alone, as it hung */
    uint32_t dcgm;                          /* it may be used; 0: never */
    char library[SAMPLER_LIBRARY_CAP];      /* path of libnvidia-ml.so.1, "" to search as the linker does */
    char dcgm_library[SAMPLER_LIBRARY_CAP]; /* the same of libdcgm */
    char dcgm_address[SAMPLER_ADDRESS_CAP]; /* of a host engine, or "" */
} SamplerHello;

typedef struct SamplerReply {
    uint32_t protocol;
    int32_t pid;
} SamplerReply;

/* The driver calls by number, for BoardSampler.call_function: index 0 is "", others NVML names; those of libdcgm, and
 * no others, begin with "dcgm". Table in the source of the reader. NULL past its end. */
const char *sampler_function_name(uint32_t index);
