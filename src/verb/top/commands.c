/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/commands.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/vec.h"
#include "source/host/host.h"
#include "source/proc/who.h"

enum { KEPT_MAX = 2048, JOIN_MS = 100, TICK_MS = 10 };

typedef struct Kept {
    uint32_t pid;
    uint64_t start_ns;
    bool known; /* it was read, whatever came */
    char command[PROCESS_COMMAND_CAP];
} Kept;

struct Commands {
    char *root;
    HostBoot boot; /* of the root */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    /* under the lock */
    bool stopping;
    VEC(Kept) kept;
};

/* /proc counts in ticks, JSON in milliseconds. */
static bool same_start(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) <= TICK_MS * NS_PER_MS;
}

static Kept *find(Commands *commands, uint32_t pid, uint64_t start_ns)
{
    for (size_t i = 0; i < commands->kept.len; i++)
        if (commands->kept.at[i].pid == pid && same_start(commands->kept.at[i].start_ns, start_ns))
            return &commands->kept.at[i];
    return NULL;
}

static bool next_unknown(Commands *commands, Kept *ret)
{
    for (size_t i = 0; i < commands->kept.len; i++)
        if (!commands->kept.at[i].known) {
            *ret = commands->kept.at[i];
            return true;
        }
    return false;
}

static void take(Commands *commands, const Kept *of, const ProcessOwner *owner)
{
    Kept *kept = find(commands, of->pid, of->start_ns);

    if (!kept)
        return;
    kept->known = true;
    if (same_start(owner->start_ns, of->start_ns))
        memcpy(kept->command, owner->command, sizeof kept->command);
}

static void *work(void *self)
{
    Commands *commands = self;
    ProcessOwner owner;
    Kept next;

    pthread_mutex_lock(&commands->lock);
    while (!commands->stopping) {
        if (!next_unknown(commands, &next)) {
            pthread_cond_wait(&commands->woken, &commands->lock);
            continue;
        }
        pthread_mutex_unlock(&commands->lock);
        (void)process_who(commands->root, next.pid, true, &owner, NULL);
        pthread_mutex_lock(&commands->lock);
        take(commands, &next, &owner);
    }
    pthread_mutex_unlock(&commands->lock);
    return NULL;
}

Commands *commands_new(const char *root)
{
    Commands *commands = xcalloc(1, sizeof *commands);

    commands->root = xstrdup(root ? root : "");
    host_boot(commands->root, &commands->boot);
    pthread_mutex_init(&commands->lock, NULL);
    pthread_cond_init(&commands->woken, NULL);
    return commands;
}

void commands_put(Commands *commands, const char *boot_id, ProcessOwner *list, size_t count)
{
    if (!boot_id || !boot_id[0] || strcmp(boot_id, commands->boot.id) != 0)
        return;
    pthread_mutex_lock(&commands->lock);
    for (size_t i = 0; i < count; i++) {
        ProcessOwner *owner = &list[i];

        if (owner->start_ns == 0 || owner->command[0])
            continue;
        const Kept *kept = find(commands, owner->pid, owner->start_ns);
        if (kept) {
            memcpy(owner->command, kept->command, sizeof owner->command);
            continue;
        }
        if (commands->kept.len == KEPT_MAX) /* most of them have ended long ago */
            vec_clear(&commands->kept);
        vec_push(&commands->kept, ((Kept){.pid = owner->pid, .start_ns = owner->start_ns}));
        pthread_cond_signal(&commands->woken);
        if (!commands->started)
            commands->started = pthread_create(&commands->thread, NULL, work, commands) == 0;
    }
    pthread_mutex_unlock(&commands->lock);
}

void commands_free(Commands *commands)
{
    struct timespec until;

    if (!commands)
        return;
    pthread_mutex_lock(&commands->lock);
    commands->stopping = true;
    pthread_cond_signal(&commands->woken);
    pthread_mutex_unlock(&commands->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += JOIN_MS * (long)NS_PER_MS;
    until.tv_sec += until.tv_nsec / (long)NS_PER_S;
    until.tv_nsec %= (long)NS_PER_S;
    if (commands->started && pthread_timedjoin_np(commands->thread, NULL, &until) != 0) {
        pthread_detach(commands->thread);
        return;
    }
    pthread_cond_destroy(&commands->woken);
    pthread_mutex_destroy(&commands->lock);
    vec_done(&commands->kept);
    free(commands->root);
    free(commands);
}
