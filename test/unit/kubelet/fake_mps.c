/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for nvidia-smi and nvidia-cuda-mps-control, by its name, in a root folder that holds nothing but it and a
 * folder /state: `log` has a line for each command, `mode-UUID` a GPU's compute mode, `lives/PID` is there while a
 * daemon lives, with the GPUs it can see. A test makes `hang-NAME`, `refuse-NAME` (NAME: smi, start, ask, UUID) or
 * `quit-waits`. Linked statically, as there is no loader there.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const struct sockaddr_un control = {.sun_family = AF_UNIX, .sun_path = "/mnt/pipe/control"};
static double percent = 100;

static void log_command(const char *command)
{
    char line[256];
    const int fd = open("/state/log", O_WRONLY | O_APPEND | O_CREAT, 0644);
    const int len = snprintf(line, sizeof line, "%s\n", command);

    if (write(fd, line, (size_t)len) != len)
        abort();
    close(fd);
}

static int has_knob(const char *kind, const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "/state/%s-%s", kind, name);
    return access(path, F_OK) == 0;
}

static void obey_knobs(const char *name)
{
    while (has_knob("hang", name))
        usleep(10000);
    if (!has_knob("refuse", name))
        return;
    printf("%s is refused\n", name);
    exit(6);
}

static void write_text(const char *folder, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s%s", folder, name);
    file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
}

static int run_smi(char **argv)
{
    char line[200];

    snprintf(line, sizeof line, "smi %s %s", argv[2], argv[4]);
    log_command(line);
    obey_knobs("smi");
    obey_knobs(argv[2]);
    write_text("/state/mode-", argv[2], argv[4]);
    return 0;
}

/* compute-policy -i UUID --set-timeslice N */
static int set_slice(char **argv)
{
    char line[200];

    snprintf(line, sizeof line, "slice %s %s", argv[3], argv[5]);
    log_command(line);
    obey_knobs(argv[3]);
    return 0;
}

/* --- the daemon --------------------------------------------------------------------------------------------------- */

static void answer_line(int fd, const char *line)
{
    obey_knobs("ask");
    if (strcmp(line, "get_default_active_thread_percentage") == 0) {
        dprintf(fd, "%.1f\n", percent);
        return;
    }
    log_command(line);
    if (sscanf(line, "set_default_active_thread_percentage %lf", &percent) == 1 || strncmp(line, "set_", 4) == 0)
        return;
    if (strcmp(line, "quit") == 0 && !has_knob("quit", "waits")) {
        char lives[64];

        snprintf(lives, sizeof lives, "/state/lives/%d", (int)getpid());
        unlink(lives);
        unlink(control.sun_path);
        exit(0);
    }
}

static void serve_clients(int listener)
{
    for (;;) {
        const int fd = accept(listener, NULL, NULL);
        char text[65536], *save;
        size_t len = 0;
        ssize_t got;

        while (len + 1 < sizeof text && (got = read(fd, text + len, sizeof text - 1 - len)) > 0)
            len += (size_t)got;
        text[len] = '\0';
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
            answer_line(fd, line);
        close(fd);
    }
}

static int start_daemon(void)
{
    const char *gpus = getenv("CUDA_VISIBLE_DEVICES");
    const int lock = open("/mnt/pipe/lock", O_RDWR | O_CREAT, 0644), listener = socket(AF_UNIX, SOCK_STREAM, 0);
    char line[4096], pid[32];

    snprintf(line, sizeof line, "start %.100s", gpus);
    log_command(line);
    obey_knobs("start");
    if (flock(lock, LOCK_EX | LOCK_NB) < 0) {
        puts("An instance of this daemon is already running");
        return 1;
    }
    unlink(control.sun_path);
    if (bind(listener, (const struct sockaddr *)&control, sizeof control) < 0 || listen(listener, 8) < 0)
        return 2;
    if (fork() > 0)
        return 0;
    setsid();
    signal(SIGPIPE, SIG_IGN);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    write_text("/state/lives/", pid, gpus);
    write_text("/dev/shm/", "server", "");
    serve_clients(listener);
    return 0;
}

static int ask_daemon(void)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    char text[65536];
    ssize_t len;

    if (connect(fd, (const struct sockaddr *)&control, sizeof control) < 0) {
        puts("Cannot find MPS control daemon process");
        return 1;
    }
    while ((len = read(STDIN_FILENO, text, sizeof text)) > 0)
        if (write(fd, text, (size_t)len) != len)
            return 1;
    shutdown(fd, SHUT_WR);
    while ((len = read(fd, text, sizeof text)) > 0)
        if (write(STDOUT_FILENO, text, (size_t)len) != len)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    if (strstr(argv[0], "nvidia-smi"))
        return argc == 5 ? run_smi(argv) : argc == 6 ? set_slice(argv) : 1;
    return argc == 2 && strcmp(argv[1], "-d") == 0 ? start_daemon() : ask_daemon();
}
