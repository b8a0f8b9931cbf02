/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Values in the output of Slurm's commands: words, times, limits, memory and GPUs among generic resources. Words are
 * borrowed from the text. Pure, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct SlurmWord {
    const char *at; /* NULL: there is none */
    size_t len;
} SlurmWord;

bool slurm_word_is(SlurmWord word, const char *text);
/* Cuts the part before the next `by` off *list; false at its end. Brackets of both kinds keep a comma. */
bool slurm_word_next(SlurmWord *list, char by, SlurmWord *ret);

/* The next line that is not empty, without its end; *line counts all of them. False at the end. */
bool slurm_next_line(SlurmWord *rest, unsigned long *line, SlurmWord *ret);

/* "30:00", "12:30:00", "1-12:30:00" in seconds; 0 for words. */
uint64_t slurm_read_limit(const char *text);
/* "2026-03-01T12:00:00" as seconds since 1970, taken as UTC; 0 for words and other forms. */
uint64_t slurm_read_time(SlurmWord word);
/* "1000M", "1.50T", "4Gn" (its n and c are left to the caller); without a unit MiB. False: it is no such value. */
bool slurm_read_mib(SlurmWord word, double *ret);
/* The value of `key` in "cpu=4,mem=32G,gres/gpu=2". */
SlurmWord slurm_find_tres(SlurmWord list, const char *key);

/* GPUs of a list of resources. */
typedef struct SlurmGpus {
    uint32_t count;   /* of all types */
    uint32_t kinds;   /* how many types are named */
    SlurmWord type;   /* that with the most GPUs, the first of equal ones */
    uint32_t of_type; /* how many of that */
    uint16_t devices; /* a bit per number in (IDX:...) of that type, and of those without a type */
} SlurmGpus;

/* "gpu:h100:8(S:0-1)", "gres:gpu:2", "gres/gpu=2,gres/gpu:h100=2": what is told without and with types is told twice.
 * Other resources are passed over, and so is a count that is no number. */
SlurmGpus slurm_read_gpus(SlurmWord list);
