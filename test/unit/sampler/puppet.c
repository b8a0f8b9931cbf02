/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent in the hands of a test: makes a board, starts samplers, does to the board what it is told on standard input,
 * a command a line, and answers each with one line of JSON.
 *
 *   start SLOT ATTACH PROGRAM [LIBRARY]   ATTACH is attach, no-attach or probe
 *   gpu PCI                               a new entry of the board, nobody's
 *   own GPU SLOT                          SLOT - for nobody
 *   plan all|none|NAME,NAME...            what is wanted
 *   period PACE MS                        from the next plan on
 *   pause MS                              no pair of GPUs is asked about for so long; 0: they are again
 *   release MS                            for so long from now; 0: no more
 *   wish links|processes on|off           with the plan as it was last
 *   dcgm LIBRARY MS                       samplers started from now on may use it, in so long from now
 *   close SLOT, signal SLOT NUMBER, ended SLOT
 *   dump                                  the whole board
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "source/board/board.h"
#include "source/sampler/protocol.h"

typedef struct Puppet {
    const char *dcgm; /* NULL: not to be used */
    uint64_t dcgm_after_ns;
    Board *board;
    int board_fd;
    BoardPlan plan;
    int sockets[NODE_SAMPLERS_MAX];
    pid_t pids[NODE_SAMPLERS_MAX];
    uint32_t event_heads[NODE_SAMPLERS_MAX];
    uint32_t fast_heads[NODE_GPUS_MAX];
} Puppet;

static void die(const char *what)
{
    fprintf(stderr, "puppet: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* ---- samplers ---- */

static void be_sampler(int fd, const char *program)
{
    if (dup2(fd, SAMPLER_FD) < 0)
        die("dup2");
    execl(program, "stoker-sampler", (char *)NULL);
    die(program);
}

static void send_hello(const Puppet *puppet, int fd, const SamplerHello *hello)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.room = {0}};
    SamplerHello copy = *hello;
    struct iovec part = {.iov_base = &copy, .iov_len = sizeof copy};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &puppet->board_fd, sizeof(int));
    if (sendmsg(fd, &message, MSG_NOSIGNAL) != sizeof copy)
        die("hello");
}

static void start(Puppet *puppet, unsigned int slot, const char *attach, const char *program, const char *library)
{
    SamplerHello hello = {.protocol = SAMPLER_PROTOCOL,
                          .board_version = BOARD_VERSION,
                          .slot = slot,
                          .no_attach = strcmp(attach, "no-attach") == 0,
                          .probe = strcmp(attach, "probe") == 0,
                          .dcgm_after_ns = puppet->dcgm_after_ns,
                          .dcgm = puppet->dcgm != NULL};
    SamplerReply reply = {.protocol = 0};
    int pair[2];

    snprintf(hello.library, sizeof hello.library, "%s", library);
    snprintf(hello.dcgm_library, sizeof hello.dcgm_library, "%s", puppet->dcgm ? puppet->dcgm : "");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        die("socketpair");
    puppet->pids[slot] = fork();
    if (puppet->pids[slot] == 0)
        be_sampler(pair[1], program);
    close(pair[1]);
    puppet->sockets[slot] = pair[0];
    send_hello(puppet, pair[0], &hello);
    if (recv(pair[0], &reply, sizeof reply, 0) != sizeof reply || reply.protocol != SAMPLER_PROTOCOL)
        die("the sampler's reply");
    printf("{\"pid\": %d, \"told\": %d}\n", puppet->pids[slot], reply.pid);
}

static void close_slot(Puppet *puppet, unsigned int slot)
{
    close(puppet->sockets[slot]);
    puppet->sockets[slot] = -1;
    printf("{}\n");
}

static void print_ended(Puppet *puppet, unsigned int slot)
{
    int status = 0;

    if (waitpid(puppet->pids[slot], &status, WNOHANG) != puppet->pids[slot])
        printf("{\"ended\": false}\n");
    else if (WIFSIGNALED(status))
        printf("{\"ended\": true, \"signal\": %d}\n", WTERMSIG(status));
    else
        printf("{\"ended\": true, \"status\": %d}\n", WEXITSTATUS(status));
}

/* ---- the board ---- */

static void add_gpu(Puppet *puppet, const char *address)
{
    const uint32_t count = atomic_load(&puppet->board->gpu_count);
    BoardGpu *gpu = &puppet->board->gpus[count];

    if (pci_parse(address, &gpu->pci) < 0)
        die(address);
    atomic_store(&gpu->slot, BOARD_NO_SLOT);
    atomic_store(&puppet->board->gpu_count, count + 1);
    printf("{\"gpu\": %u}\n", count);
}

static void want(Puppet *puppet, const char *name)
{
    const MetricName *metric = metric_find(name);

    if (!metric)
        die(name);
    puppet->plan.wanted[metric->metric / 64] |= UINT64_C(1) << (metric->metric % 64);
}

static void set_plan(Puppet *puppet, char *names)
{
    char *rest = NULL;

    memset(puppet->plan.wanted, strcmp(names, "all") == 0 ? 0xff : 0, sizeof puppet->plan.wanted);
    if (strcmp(names, "all") != 0 && strcmp(names, "none") != 0)
        for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
            want(puppet, name);
    board_set_plan(puppet->board, &puppet->plan);
    printf("{}\n");
}

static void set_wish(Puppet *puppet, const char *what, bool on)
{
    if (strcmp(what, "links") == 0)
        puppet->plan.want_links = on;
    else
        puppet->plan.want_processes = on;
    board_set_plan(puppet->board, &puppet->plan);
    printf("{}\n");
}

static void set_period(Puppet *puppet, const char *pace, uint64_t ms)
{
    static const char *const paces[METRIC_PACE_END] = {"fast",     "normal", "slow",  "once",
                                                       "blocking", "events", "derive"};

    for (MetricPace p = 0; p < METRIC_PACE_END; p++)
        if (strcmp(paces[p], pace) == 0)
            puppet->plan.period_ns[p] = ms * NS_PER_MS;
    printf("{}\n");
}

/* ---- JSON ---- */

static void print_text(const char *key, const char *text)
{
    printf("\"%s\": \"", key);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    printf("\", ");
}

static void print_sample(const Sample *sample)
{
    int64_t whole;
    double value;

    if (sample_int64(sample, &whole))
        printf("%" PRId64, whole);
    else if (sample_double(sample, &value))
        printf("%.17g", value);
    else
        printf("\"%s\"", absences[sample->absence].key);
}

static void print_reading(const Reading *reading)
{
    const Device *device = &reading->device;
    char pci[PCI_TEXT_CAP];

    printf("{");
    print_text("kind", device_kinds[device->kind].key);
    print_text("uuid", device->uuid);
    print_text("parent", device->parent_uuid);
    print_text("name", device->name);
    print_text("board", device->board);
    print_text("serial", device->serial);
    print_text("arch", device_arch_text(device->arch));
    print_text("pci", device->has_pci ? pci_format(device->pci, PCI_FORM_NVML, pci) : "");
    print_text("profile", reading->profile);
    printf("\"index\": %" PRId64 ", \"minor\": %" PRId64 ", \"gi\": %" PRId64 ", \"ci\": %" PRId64 ", ",
           (int64_t)(int32_t)device->index, (int64_t)(int32_t)device->minor, (int64_t)(int32_t)device->gpu_instance,
           (int64_t)(int32_t)device->compute_instance);
    printf("\"mig\": %s, \"head\": %s, \"texts\": {", reading->mig ? "true" : "false",
           reading->instance_head ? "true" : "false");
    for (MetricId id = 0; id < METRIC_END; id++)
        if (reading_text_of(id) != READING_TEXT_END)
            print_text(metric_get(id)->name, reading->text[reading_text_of(id)]);
    printf("\"\": \"\"}, \"values\": {");
    for (MetricId id = 0; id < METRIC_END; id++) {
        printf("%s\"%s\": ", id ? ", " : "", metric_get(id)->name);
        print_sample(&reading->sample[id]);
    }
    printf("}, \"times\": {");
    for (MetricId id = 0; id < METRIC_END; id++)
        printf("%s\"%s\": %" PRIu64, id ? ", " : "", metric_get(id)->name, reading->sample[id].time_ns);
    printf("}}");
}

static void print_row(const BoardRow *row)
{
    Reading reading;

    if (board_copy(row, &reading))
        print_reading(&reading);
    else
        printf("null");
}

static void print_fast(Puppet *puppet, uint32_t i)
{
    FastReading fast[BOARD_FAST_LEN];
    uint64_t lost = 0;
    const size_t count = board_read_fast(&puppet->board->gpus[i].gpu, &puppet->fast_heads[i], fast, &lost);

    printf("\"fast_lost\": %" PRIu64 ", \"fast\": [", lost);
    for (size_t k = 0; k < count; k++) {
        printf("%s{\"time\": %" PRIu64, k ? ", " : "", fast[k].time_ns);
        for (int m = 0; m < READING_FAST_CAP; m++)
            if (fast[k].valid >> m & 1)
                printf(", \"%s\": %.17g", metric_get(metric_fast_at(m))->name, fast[k].value[m]);
        printf("}");
    }
    printf("], ");
}

/* A status, why there is none, or "torn". */
static void print_peers(const BoardGpu *gpu, uint32_t count)
{
    Sample status[NODE_GPUS_MAX];
    const bool whole = board_copy_peers(&gpu->peers, status);

    printf("\"peers\": [");
    for (uint32_t i = 0; i < count; i++) {
        printf("%s", i ? ", " : "");
        if (whole)
            print_sample(&status[i]);
        else
            printf("\"torn\"");
    }
    printf("], ");
}

/* Per link its state and errors, or null where they are torn. */
static void print_links(const BoardGpu *gpu)
{
    BoardLinkList list;

    if (!board_copy_links(&gpu->links, &list)) {
        printf("\"links\": null, ");
        return;
    }
    printf("\"links\": [");
    for (uint32_t i = 0; i < list.count; i++) {
        printf("%s[", i ? ", " : "");
        print_sample(&list.links[i].active);
        for (size_t k = 0; k < NODE_LINK_ERROR_END; k++) {
            printf(", ");
            print_sample(&list.links[i].errors[k]);
        }
        printf("]");
    }
    printf("], ");
}

static void print_processes(const BoardGpu *gpu)
{
    BoardProcessList list;

    if (!board_copy_processes(&gpu->processes, &list)) {
        printf("\"processes\": null, ");
        return;
    }
    printf("\"process_count\": ");
    print_sample(&list.count);
    printf(", \"processes\": [");
    for (uint32_t i = 0; i < list.len; i++) {
        const NodeProcess *p = &list.processes[i];
        printf("%s{\"pid\": %u, \"gi\": %d, \"ci\": %d, \"graphics\": %s, \"used\": %" PRIu64
               ", \"sm\": %u, \"memory\": %u}",
               i ? ", " : "", p->pid, (int)p->gpu_instance, (int)p->compute_instance, p->graphics ? "true" : "false",
               p->used_bytes, p->sm_percent, p->memory_percent);
    }
    printf("], ");
}

static void print_gpu(Puppet *puppet, uint32_t i)
{
    const BoardGpu *gpu = &puppet->board->gpus[i];

    printf("%s{\"owner\": %d, \"outcome\": %u, \"code\": %d, \"last\": %" PRIu64 ", \"pass_ns\": %" PRIu64
           ", \"failed\": %" PRIu64 ", \"gpm\": %u, \"drained\": %u, ",
           i ? ", " : "", atomic_load(&gpu->slot), atomic_load(&gpu->outcome), atomic_load(&gpu->code),
           atomic_load(&gpu->last_sample_ns), atomic_load(&gpu->pass_ns), atomic_load(&gpu->failed_passes),
           atomic_load(&gpu->gpm), atomic_load(&gpu->drained));
    print_fast(puppet, i);
    print_peers(gpu, atomic_load(&puppet->board->gpu_count));
    print_links(gpu);
    print_processes(gpu);
    printf("\"reading\": ");
    print_row(&gpu->gpu);
    printf(", \"instances\": [");
    for (uint32_t k = 0; k < board_instances(gpu); k++) {
        printf("%s", k ? ", " : "");
        print_row(&gpu->instances[k]);
    }
    printf("]}");
}

static void print_events(Puppet *puppet, uint32_t slot)
{
    XidEvent events[BOARD_EVENTS_LEN];
    uint64_t lost = 0;
    const size_t count = board_read_events(&puppet->board->samplers[slot], &puppet->event_heads[slot], events, &lost);
    char pci[PCI_TEXT_CAP];

    printf("\"events\": [");
    for (size_t i = 0; i < count; i++)
        printf("%s{\"xid\": %" PRIu64 ", \"gpu\": \"%s\", \"gi\": %d, \"ci\": %d}", i ? ", " : "", events[i].xid,
               pci_format(events[i].gpu, PCI_FORM_NVML, pci), (int)events[i].gpu_instance,
               (int)events[i].compute_instance);
    printf("], ");
}

/* How often it said that there are events. */
static void print_news(const Puppet *puppet, uint32_t slot)
{
    SamplerReply reply;
    unsigned count = 0;

    while (puppet->sockets[slot] >= 0 &&
           recv(puppet->sockets[slot], &reply, sizeof reply, MSG_DONTWAIT) == sizeof reply)
        count++;
    printf("\"news\": %u, ", count);
}

static void print_sampler(Puppet *puppet, uint32_t slot)
{
    const BoardSampler *sampler = &puppet->board->samplers[slot];
    const char *function = sampler_function_name(atomic_load(&sampler->call_function));
    const uint64_t start_ns = atomic_load(&sampler->call_start_ns);
    const uint32_t driver = atomic_load(&sampler->driver); /* before its why, which is written first */
    BoardFound found = {0};
    char why[NODE_WHY_CAP], pci[PCI_TEXT_CAP];

    board_copy_why(sampler, why);
    printf("%s{", slot ? ", " : "");
    print_text("why", why);
    print_text("function", function ? function : "?");
    print_news(puppet, slot);
    print_events(puppet, slot);
    printf("\"driver\": %u, \"passes\": %u, \"call_ms\": %" PRIu64 ", \"call_gpu\": %d, \"limit_ms\": %u, "
           "\"beat_ms\": %" PRIu64 ", \"trouble\": %u, \"code\": %d, ",
           driver, atomic_load(&sampler->passes), start_ns ? (board_kernel_now() - start_ns) / NS_PER_MS : 0,
           (int)atomic_load(&sampler->call_gpu), atomic_load(&sampler->call_limit_ms),
           (board_kernel_now() - atomic_load(&sampler->beat_ns)) / NS_PER_MS, atomic_load(&sampler->trouble),
           atomic_load(&sampler->code));
    printf("\"in_call\": %s, ", start_ns ? "true" : "false");
    if (board_copy_found(sampler, &found)) {
        print_text("driver_version", found.driver_version);
        print_text("nvml_version", found.nvml_version);
    }
    printf("\"count\": %u, \"found\": [", found.count);
    for (uint32_t i = 0; i < found.len; i++)
        printf("%s\"%s\"", i ? ", " : "", pci_format(found.gpus[i], PCI_FORM_NVML, pci));
    printf("]}");
}

static void dump(Puppet *puppet)
{
    printf("{\"now\": %" PRIu64 ", \"samplers\": [", board_now(puppet->board));
    for (uint32_t slot = 0; slot < 4; slot++)
        print_sampler(puppet, slot);
    printf("], \"gpus\": [");
    for (uint32_t i = 0; i < atomic_load(&puppet->board->gpu_count); i++)
        print_gpu(puppet, i);
    printf("]}\n");
}

/* ---- commands ---- */

static unsigned int number(const char *text)
{
    const unsigned long value = strtoul(text, NULL, 10);

    return value < NODE_SAMPLERS_MAX ? (unsigned int)value : 0;
}

static void own(Puppet *puppet, const char *gpu, const char *slot)
{
    atomic_store(&puppet->board->gpus[number(gpu) % NODE_GPUS_MAX].slot,
                 (uint16_t)(slot[0] == '-' ? BOARD_NO_SLOT : number(slot)));
    printf("{}\n");
}

static void use_dcgm(Puppet *puppet, const char *library, uint64_t ms)
{
    puppet->dcgm = strdup(library);
    puppet->dcgm_after_ns = board_kernel_now() + ms * NS_PER_MS;
    printf("{}\n");
}

static void release(Puppet *puppet, uint64_t ms)
{
    atomic_store(&puppet->board->release_until_ns, ms ? board_now(puppet->board) + ms * NS_PER_MS : 0);
    printf("{}\n");
}

static void pause_pairs(Puppet *puppet, uint64_t ms)
{
    atomic_store(&puppet->board->pairs_after_ns, ms ? board_kernel_now() + ms * NS_PER_MS : 0);
    printf("{}\n");
}

static void obey(Puppet *puppet, char *line)
{
    char *word[6] = {"", "", "", "", "", ""}, *rest = NULL;

    for (size_t i = 0; i < ARRAY_LEN(word); i++) {
        char *next = strtok_r(i ? NULL : line, " \n", &rest);
        if (!next)
            break;
        word[i] = next;
    }
    if (strcmp(word[0], "start") == 0)
        start(puppet, number(word[1]), word[2], word[3], word[4]);
    else if (strcmp(word[0], "gpu") == 0)
        add_gpu(puppet, word[1]);
    else if (strcmp(word[0], "own") == 0)
        own(puppet, word[1], word[2]);
    else if (strcmp(word[0], "plan") == 0)
        set_plan(puppet, word[1]);
    else if (strcmp(word[0], "wish") == 0)
        set_wish(puppet, word[1], strcmp(word[2], "on") == 0);
    else if (strcmp(word[0], "period") == 0)
        set_period(puppet, word[1], strtoull(word[2], NULL, 10));
    else if (strcmp(word[0], "release") == 0)
        release(puppet, strtoull(word[1], NULL, 10));
    else if (strcmp(word[0], "pause") == 0)
        pause_pairs(puppet, strtoull(word[1], NULL, 10));
    else if (strcmp(word[0], "dcgm") == 0)
        use_dcgm(puppet, word[1], strtoull(word[2], NULL, 10));
    else if (strcmp(word[0], "close") == 0)
        close_slot(puppet, number(word[1]));
    else if (strcmp(word[0], "signal") == 0)
        printf("{\"rc\": %d}\n", kill(puppet->pids[number(word[1])], atoi(word[2])));
    else if (strcmp(word[0], "ended") == 0)
        print_ended(puppet, number(word[1]));
    else if (strcmp(word[0], "dump") == 0)
        dump(puppet);
    else
        printf("{\"unknown\": true}\n");
}

int main(void)
{
    static Puppet puppet;
    static char line[65536];
    Err err = {0};

    if (board_new(&puppet.board, &puppet.board_fd, &err) < 0) {
        fprintf(stderr, "puppet: %s\n", err.text);
        return 2;
    }
    memset(puppet.sockets, -1, sizeof puppet.sockets);
    while (fgets(line, sizeof line, stdin)) {
        obey(&puppet, line);
        fflush(stdout);
    }
    for (size_t i = 0; i < ARRAY_LEN(puppet.pids); i++)
        if (puppet.pids[i] > 0)
            kill(puppet.pids[i], SIGKILL);
    board_unmap(puppet.board);
    return 0;
}
