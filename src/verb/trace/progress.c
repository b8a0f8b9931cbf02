/* SPDX-License-Identifier: Apache-2.0 */
/* A line on stderr that is drawn over and over, and the flag that signals set. */
#include "verb/trace/progress.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

enum { QUIET_NS = 500000000 };

static bool stop;
static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
}

const bool *stop_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &stop;
}

void stop_obey(void)
{
    if (!stop_signal)
        return;
    signal(stop_signal, SIG_DFL);
    raise(stop_signal);
}

void progress_begin(Progress *progress, bool wanted, uint64_t total_bytes)
{
    *progress = (Progress){.shown = wanted && isatty(STDERR_FILENO), .total = total_bytes};
    progress->began_ns = clock_monotonic(clock_kernel());
}

void progress_draw(Progress *progress)
{
    uint64_t ns = clock_monotonic(clock_kernel()) - progress->began_ns, bytes = atomic_load(&progress->bytes);
    double rate = ns ? (double)bytes / ((double)ns / 1e9) : 0;

    if (!progress->shown || ns < QUIET_NS)
        return;
    progress->drawn = true;
    if (progress->total == 0)
        fprintf(stderr, "\r\033[K%.1f MB read, %.0f MB/s", (double)bytes / 1e6, rate / 1e6);
    else if (bytes < progress->total)
        fprintf(stderr, "\r\033[K%3.0f %% of %.1f MB, %.0f MB/s, %.0f s left",
                100 * (double)bytes / (double)progress->total, (double)progress->total / 1e6, rate / 1e6,
                rate > 0 ? (double)(progress->total - bytes) / rate : 0);
    else
        fputs("\r\033[Kanalysing", stderr);
    fflush(stderr);
}

void progress_end(Progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = false;
}
