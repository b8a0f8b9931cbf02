/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads of many processes ask while the node changes under them: faults, instances, hung calls, steps of the
 * clock. Each answer must be one a node can give; nothing may stand still for ever.
 */
#include "client.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/core/num.h"

enum { PROCESSES = 4, THREADS = 8 };
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 1 };
#else
enum { ROUNDS = 4 };
#endif

static const char storm_text[] = "about: a node in a storm\n"
                                 "gpus:\n"
                                 "  - {board: h100-sxm-80gb, mig: [3g.40gb, 1g.10gb, 1g.10gb]}\n"
                                 "  - {board: h100-sxm-80gb}\n"
                                 "  - {board: t4}\n"
                                 "work:\n"
                                 "  - {name: tenant, kind: decode, gpus: 0, mig: 0, process: vllm}\n"
                                 "  - {name: job, kind: train, gpus: 1, process: python}\n"
                                 "  - {name: video, kind: video, gpus: 2, process: ffmpeg}\n"
                                 "truth: []\n";

/* ---- those who ask ---- */

typedef struct Asker {
    pthread_t thread;
    Client client;
} Asker;

static void *ask(void *arg)
{
    Client *c = &((Asker *)arg)->client;
    for (int i = 0; i < ROUNDS; i++) {
        client_find(c);
        client_read_all(c);
        check_now(c);
    }
    return NULL;
}

int storm_ask(SimImage *image)
{
    static Asker asker[THREADS];
    unsigned int wrong = 0;
    for (int i = 0; i < THREADS; i++) {
        asker[i].client = (Client){.out = fopen("/dev/null", "w"), .image = image, .changing = 1};
        if (!asker[i].client.out || pthread_create(&asker[i].thread, NULL, ask, &asker[i]) != 0)
            return 3;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(asker[i].thread, NULL);
        fclose(asker[i].client.out);
        wrong += asker[i].client.wrong;
    }
    return wrong != 0;
}

/* ---- the one who changes things ---- */

static uint32_t pick(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(sim_unit((*seed)++, 5, 6) * n);
}

/* Nothing that makes a whole GPU unusable: answers are checked as those of a node that is well. */
static SimOp change(uint64_t *seed)
{
    switch (pick(seed, 10)) {
    case 0:
        return (SimOp){.type = SIM_OP_XID, .gpu = 1, .a = {31, SIM_NONE, SIM_NONE, SIM_NONE}};
    case 1:
        return (SimOp){.type = SIM_OP_ECC, .gpu = (int32_t)pick(seed, 3), .a = {SIM_ECC_DRAM, 0, 1}, .x = 0.1};
    case 2:
        return (SimOp){.type = SIM_OP_LINK, .gpu = 1, .a = {(int32_t)pick(seed, 18), (int32_t)pick(seed, 2)}};
    case 3:
        return (SimOp){.type = SIM_OP_HANG,
                       .gpu = (int32_t)pick(seed, 3),
                       .a = {(int32_t)pick(seed, 4), NVML_FN_nvmlDeviceGetPowerUsage, 0, 1},
                       .u = 200000};
    case 4:
        return (SimOp){.type = SIM_OP_HANG, .gpu = (int32_t)pick(seed, 3), .a = {(int32_t)pick(seed, 4), 0, 0, 0}};
    case 5:
        return (SimOp){.type = SIM_OP_GI_CREATE, .gpu = 0, .a = {(int32_t)pick(seed, 3), SIM_NONE}};
    case 6:
        return (SimOp){.type = SIM_OP_CI_CREATE, .gpu = 0, .a = {7 + (int32_t)pick(seed, 7), 0, SIM_NONE}};
    case 7:
        return (SimOp){.type = SIM_OP_CI_DESTROY, .gpu = 0, .a = {7 + (int32_t)pick(seed, 7), 0}};
    case 8:
        return (SimOp){
            .type = SIM_OP_SET, .gpu = 1, .a = {SIM_KEY_POWER_LIMIT_MW}, .u = 300000 + 1000 * pick(seed, 400)};
    default:
        return (SimOp){.type = pick(seed, 2) ? SIM_OP_WORK_STOP : SIM_OP_WORK_START,
                       .gpu = SIM_NONE,
                       .a = {(int32_t)pick(seed, 3)}};
    }
}

static void disturb(SimImage *image, uint64_t *seed)
{
    SimOp op = change(seed);
    op.origin = SIM_FROM_INJECT;
    if (image->op_count < SIM_OP_MAX / 2)
        sim_op_apply(image, &op, NULL, 0, NULL);
    sim_clock_advance(image, pick(seed, 50000000));
    if (pick(seed, 8) == 0)
        sim_clock_set_speed(image, pick(seed, 2) ? 100 : 0);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static pid_t start(const char *self)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl(self, self, "ask", (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* Changes the node until all have ended; the number of those who found something wrong. */
static int watch(SimImage *image, const pid_t *pids)
{
    uint64_t seed = 1;
    int bad = 0;
    for (int left = PROCESSES; left > 0;) {
        disturb(image, &seed);
        for (int i = 0; i < PROCESSES; i++) {
            int status;
            if (waitpid(pids[i], &status, WNOHANG) != pids[i])
                continue;
            left--;
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                fprintf(stderr, "client: a process ended with %#x\n", (unsigned int)status);
                bad++;
            }
        }
    }
    return bad;
}

int storm_run(const char *self, const char *boards_dir)
{
    char dir[] = "/tmp/stoker-storm-XXXXXX", scenario[64], path[64];
    if (!mkdtemp(dir))
        return 3;
    snprintf(scenario, sizeof scenario, "%s/storm.yaml", dir);
    snprintf(path, sizeof path, "%s/node.img", dir);
    FILE *f = fopen(scenario, "w");
    SimImage *image = NULL;
    if (f && fputs(storm_text, f) >= 0 && fclose(f) == 0)
        image = node_build(scenario, boards_dir, path);
    int bad = image ? 0 : 1;
    if (image) {
        sim_clock_advance(image, 10 * SIM_NS);
        setenv("STOKER_SIM", path, 1);
        setenv("STOKER_SIM_NOBLOCK", "1", 1);
        unsetenv("STOKER_SIM_STRICT"); /* devices do vanish here */
        pid_t pids[PROCESSES];
        for (int i = 0; i < PROCESSES; i++)
            pids[i] = start(self);
        bad = watch(image, pids);
        fprintf(stderr, "client: %u ops while they asked\n", image->op_count);
        sim_image_close(image);
    }
    unlink(path);
    unlink(scenario);
    rmdir(dir);
    return bad != 0;
}
