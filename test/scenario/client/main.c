/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client build SCENARIO IMAGE BOARDS_DIR   makes the image of a node
 * client dump                              writes all answers of the node named by STOKER_SIM, at its present time
 * client check                             looks whether they agree, steps the clock, calls what changes things, too
 * client kube                              replays NVIDIA's programs of a Kubernetes node
 * client ask                               asks from many threads, once
 * client storm BOARDS_DIR                  a node that changes under many processes
 * Exit codes: 0 all is well, 1 something is wrong, 2 usage, 3 could not tell.
 */
#include "client.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/scenario/scenario.h"

SimImage *node_build(const char *scenario, const char *boards_dir, const char *path)
{
    const char *const boards[] = {boards_dir, NULL}, *const none[] = {NULL};
    const ScenarioBuild how = {.now_us = 1767600000000000};
    SimImage *image = NULL;
    Err err = {0};
    if (scenario_compile(none, boards, scenario, &how, path, &image, &err) < 0)
        fprintf(stderr, "client: %s\n", err.text);
    return image;
}

static int build(const char *scenario, const char *path, const char *boards_dir)
{
    SimImage *image = node_build(scenario, boards_dir, path);
    if (!image)
        return 3;
    sim_clock_advance(image, 30 * SIM_NS + 7 * SIM_TICK_NS);
    sim_image_close(image);
    return 0;
}

static int work(Client *c, const char *what)
{
    if (strcmp(what, "dump") == 0) {
        client_read_all(c);
        return c->wrong != 0;
    }
    if (strcmp(what, "kube") == 0) {
        kube_run(c);
        return c->wrong != 0;
    }
    FILE *text = c->out;
    c->out = fopen("/dev/null", "w");
    if (!c->out)
        return 3;
    client_read_all(c);
    check_now(c);
    check_course(c, 4);
    check_now(c);
    client_change_all(c);
    check_now(c);
    fclose(c->out);
    c->out = text;
    return c->wrong != 0 || library_unused() != 0;
}

static int run(const char *what)
{
    const char *path = getenv("STOKER_SIM");
    static Client c;
    SimImage *image = path ? sim_image_open(path) : NULL;
    if (!image || library_open() != 0)
        return 3;
    nvmlReturn_t code = CALL_PLAIN(nvmlInit_v2);
    if (code != NVML_SUCCESS) {
        fprintf(stderr, "client: nvmlInit_v2 answers %d\n", (int)code);
        return 3;
    }
    int result;
    if (strcmp(what, "ask") == 0) {
        result = storm_ask(image);
    } else {
        c.out = stdout;
        c.image = image;
        client_find(&c);
        result = work(&c, what);
    }
    CALL_PLAIN(nvmlShutdown);
    sim_image_close(image);
    return result;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "build") == 0 && argc == 5)
        return build(argv[2], argv[3], argv[4]);
    if (strcmp(what, "storm") == 0 && argc == 3)
        return storm_run(argv[0], argv[2]);
    static const char *const verbs[] = {"dump", "check", "kube", "ask"};
    for (size_t i = 0; argc == 2 && i < ARRAY_LEN(verbs); i++)
        if (strcmp(what, verbs[i]) == 0)
            return run(what);
    fprintf(stderr, "usage: client build SCENARIO IMAGE BOARDS_DIR | dump | check | kube | ask | storm BOARDS_DIR\n");
    return 2;
}
