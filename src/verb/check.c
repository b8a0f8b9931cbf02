/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker check`: one line and an exit code, in bounded time. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "verb/agent/control.h"
#include "verb/agent/local_node.h"
#include "verb/check/findings.h"
#include "verb/past.h"

enum { RESERVE_MS = 150, LOOK_LEAST_MS = 1600, AGAIN_MS = 100 };

typedef struct CheckOptions {
    LookOptions look;
    const char *since;
    int profile;
    uint64_t timeout_ns;
    OptList gpus;
    bool json, slurm, shared;
} CheckOptions;

static const OptSpec check_opts[] = {
    OPT_ROW("profile", OPT_ENUM, CheckOptions, profile, .short_flag = 'p', .def = "slurm", .names = check_profile_names,
            .help = "what to check: slurm (must the node be drained?), liveness and readiness (probes of the agent), "
                    "prolog and "
                    "epilog (of a job)"),
    OPT_ROW("gpu", OPT_LIST, CheckOptions, gpus, .short_flag = 'g', .metavar = "GPU",
            .help = "these GPUs only; prolog and epilog take them from SLURM_JOB_GPUS, NVIDIA_VISIBLE_DEVICES or "
                    "CUDA_VISIBLE_DEVICES"),
    OPT_ROW("since", OPT_STRING, CheckOptions, since, .env = "SLURM_JOB_START_TIME", .metavar = "TIME",
            .help = "epilog: when the job began, as seconds since 1970, an instant or a duration before now"),
    OPT_ROW("shared", OPT_BOOL, CheckOptions, shared,
            .help = "prolog and epilog: other jobs may share the GPUs, so do not report their processes"),
    OPT_ROW("timeout", OPT_DURATION, CheckOptions, timeout_ns, .short_flag = 't', .def = "5s", .min = 200e6,
            .max = 600e9, .help = "give up after this time, even if the agent or the driver hangs"),
    OPT_ROW("slurm", OPT_BOOL, CheckOptions, slurm,
            .help = "print only the reason for scontrol, or nothing if no problem was found"),
    OPT_ROW("json", OPT_BOOL, CheckOptions, json, .help = "as JSON"),
    LOOK_OPTS(CheckOptions),
};

/* --- the deadline ------------------------------------------------------------------------------------------------- */

/* What is said when time is up, made beforehand: a handler may do little. Once the answer is out there is nothing more
 * to say. */
static char last_words[2 * CHECK_TEXT_CAP];
static volatile sig_atomic_t last_len, last_code;

static void time_is_up(int number)
{
    (void)number;
    if (last_len > 0 && write(STDOUT_FILENO, last_words, (size_t)last_len) < 0)
        _exit(EXIT_UNKNOWN);
    _exit((int)last_code);
}

static CheckFormat format_of(const CheckOptions *o)
{
    return o->json ? CHECK_JSON : o->slurm ? CHECK_REASON : CHECK_LINE;
}

/* A probe of an agent that does not answer has its finding; of a node nothing is known then. */
static int unknown_code(const CheckOptions *o)
{
    return o->profile == CHECK_LIVENESS || o->profile == CHECK_READINESS ? EXIT_FINDING : EXIT_UNKNOWN;
}

/* An answer that needs no snapshot, into room of 2 * CHECK_TEXT_CAP; its length. */
static size_t write_line(const CheckOptions *o, int code, const char *line, char *room)
{
    Str out;

    str_init_room(&out, room, (size_t)2 * CHECK_TEXT_CAP);
    check_write_line((CheckProfile)o->profile, format_of(o), code, line, &out);
    return out.len;
}

static size_t write_unknown(const CheckOptions *o, const char *why, char *room)
{
    const int code = unknown_code(o);
    char line[CHECK_TEXT_CAP];

    snprintf(line, sizeof line, "%s: %s", code == EXIT_UNKNOWN ? "unknown" : "not ready", why);
    return write_line(o, code, line, room);
}

static void arm_timer(const CheckOptions *o)
{
    const uint64_t us = o->timeout_ns / NS_PER_US;
    const struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)}};
    struct sigaction action = {.sa_handler = time_is_up};
    char span[DURATION_TEXT_MAX], why[96];

    duration_format(span, o->timeout_ns);
    snprintf(why, sizeof why, "no answer within %s", span);
    last_code = unknown_code(o);
    last_len = (int)write_unknown(o, why, last_words);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static int print_answer(const char *text, size_t len, int code)
{
    last_code = code;
    last_len = 0;
    fwrite(text, 1, len, stdout);
    fflush(stdout);
    return code;
}

static int print_unknown(const CheckOptions *o, const char *why)
{
    char room[2 * CHECK_TEXT_CAP];

    return print_answer(room, write_unknown(o, why, room), unknown_code(o));
}

/* --- the question ------------------------------------------------------------------------------------------------- */

/* The words for check_answer. */
typedef struct Question {
    const char *words[CHECK_WORDS_MAX];
    size_t count;
    bool no_gpus; /* the job was given none */
} Question;

/* "0,1", "GPU-..,MIG-..", "all", "none" */
static int split_gpus(VerbCall *call, const char *name, const char *text, Question *q)
{
    static const char *const none[] = {"none", "void", "NoDevFiles", "-1", ""};
    char *rest = arena_strdup(call->arena, text);
    bool is_none = false;

    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        is_none |= strcmp(text, none[i]) == 0;
    q->no_gpus |= is_none;
    if (is_none || strcmp(text, "all") == 0)
        return EXIT_FINE;
    for (char *word; (word = strsep(&rest, ","));) {
        if (q->count == CHECK_WORDS_MAX || !word[0] || strpbrk(word, " \t\r\n"))
            return verb_failf(call, EXIT_USAGE, "%s: '%.80s' is no list of GPUs", name, text);
        q->words[q->count++] = word;
    }
    return EXIT_FINE;
}

static int add_gpus(VerbCall *call, const CheckOptions *o, Question *q)
{
    static const char *const names[] = {"SLURM_JOB_GPUS", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"};
    int code = EXIT_FINE;

    if (o->gpus.len > CHECK_GPUS_MAX)
        return verb_failf(call, EXIT_USAGE, "--gpu: at most %d are allowed", CHECK_GPUS_MAX);
    for (size_t i = 0; i < o->gpus.len && code == EXIT_FINE; i++)
        code = split_gpus(call, "--gpu", o->gpus.items[i], q);
    if (o->gpus.len || (o->profile != CHECK_PROLOG && o->profile != CHECK_EPILOG))
        return code;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *text = getenv(names[i]);

        if (text)
            return split_gpus(call, names[i], text, q);
    }
    return EXIT_FINE;
}

/* When the job began, in milliseconds since 1970; 0: not known. */
static int find_since_ms(VerbCall *call, const CheckOptions *o, uint64_t *ret)
{
    const char *text = o->since;
    uint64_t since_ns;

    *ret = 0;
    if (!text || o->profile != CHECK_EPILOG)
        return EXIT_FINE;
    if (number_parse_u64(text, 0, UINT64_MAX / NS_PER_S, ret, NULL) == 0) {
        *ret *= NS_PER_S / NS_PER_MS;
        return EXIT_FINE;
    }
    if (past_since(text, clock_real(clock_kernel()), &since_ns, &call->err) < 0)
        return verb_failf(call, EXIT_USAGE, "--since: '%s' is no time; seconds since 1970, 2h or an instant are", text);
    *ret = since_ns / NS_PER_MS;
    return EXIT_FINE;
}

static int make_question(VerbCall *call, const CheckOptions *o, Question *ret)
{
    uint64_t since_ms;
    const int code = find_since_ms(call, o, &since_ms);

    if (code != EXIT_FINE)
        return code;
    *ret = (Question){.words = {"check", check_profile_names[o->profile], check_format_names[format_of(o)],
                                arena_printf(call->arena, "%" PRIu64, since_ms), o->shared ? "1" : "0"},
                      .count = 5};
    return add_gpus(call, o, ret);
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

static int ask_agent(VerbCall *call, const CheckOptions *o, const Question *q, Str *out, int *ret_code)
{
    const char *path = control_path(o->look.control, call->arena);
    const int timeout_ms = (int)(o->timeout_ns / NS_PER_MS);
    char room[CONTROL_LINE_MAX];
    Str line;

    str_init_room(&line, room, sizeof room);
    for (size_t i = 0; i < q->count; i++)
        str_addf(&line, "%s%s", i ? " " : "", q->words[i]);
    if (line.overflow || q->count > CONTROL_WORDS_MAX)
        return err_set(&call->err, -E2BIG, "these are too many GPUs for one question");
    return control_ask(path, line.text, timeout_ms > 2 * RESERVE_MS ? timeout_ms - RESERVE_MS : timeout_ms, out,
                       ret_code, &call->err);
}

/* An agent that was started a moment ago does not know yet: it is asked again while there is time. */
static int ask_until_known(VerbCall *call, const CheckOptions *o, const Question *q, uint64_t deadline_ns, Str *out,
                           int *ret_code)
{
    const struct timespec nap = {.tv_nsec = (long)(AGAIN_MS * NS_PER_MS)};
    const uint64_t last_ns = deadline_ns - (uint64_t)(AGAIN_MS + RESERVE_MS) * NS_PER_MS;
    int rc;

    while ((rc = ask_agent(call, o, q, out, ret_code)) == 0 && *ret_code == EXIT_UNKNOWN &&
           clock_monotonic(clock_kernel()) < last_ns) {
        nanosleep(&nap, NULL);
        str_clear(out);
    }
    return rc;
}

static int look_alone(VerbCall *call, const CheckOptions *o, const Question *q, uint64_t deadline_ns)
{
    const uint64_t now = clock_monotonic(clock_kernel());
    const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    const uint64_t limit_ns = left > (LOOK_LEAST_MS + 1000) * NS_PER_MS ? left - NS_PER_S : LOOK_LEAST_MS * NS_PER_MS;
    CLEANUP(local_node_free_at) LocalNode *local = NULL;
    CLEANUP(str_done) Str out = {0};

    if (local_node_new(o->look.library, o->look.root, limit_ns, &local, &call->err) < 0)
        return print_unknown(o, call->err.text);
    str_init(&out, CONTROL_REPLY_MAX);
    const int code = check_answer(local_node_wait(local), false, q->words, q->count, &out);
    /* what ends the look may take until the deadline, and no longer */
    return print_answer(out.text, out.len, code);
}

static int answer_question(VerbCall *call, const CheckOptions *o, const Question *q)
{
    const uint64_t deadline_ns = clock_monotonic(clock_kernel()) + o->timeout_ns;
    CLEANUP(str_done) Str out = {0};
    int code = EXIT_UNKNOWN;

    str_init(&out, CONTROL_REPLY_MAX);
    if (o->look.alone && unknown_code(o) == EXIT_UNKNOWN)
        return look_alone(call, o, q, deadline_ns);
    const int rc = ask_until_known(call, o, q, deadline_ns, &out, &code);
    if (rc == 0 && code == EXIT_USAGE)
        return print_unknown(o, "the agent does not understand; is it of another version?");
    if (rc == 0)
        return print_answer(out.text, out.len, code);
    if (o->look.control || unknown_code(o) == EXIT_FINDING || (rc != -ENOENT && rc != -ECONNREFUSED))
        return print_unknown(o, call->err.text);
    return look_alone(call, o, q, deadline_ns);
}

static int check_run(VerbCall *call, const void *options)
{
    const CheckOptions *o = options;
    char room[2 * CHECK_TEXT_CAP];
    Question question;
    int code;

    if (o->json && o->slurm)
        return verb_failf(call, EXIT_USAGE, "--json and --slurm do not go together");
    if ((code = make_question(call, o, &question)) != EXIT_FINE)
        return code;
    if (question.no_gpus && question.count == 5)
        return print_answer(room, write_line(o, EXIT_FINE, "ok: the job has no GPU", room), EXIT_FINE);
    arm_timer(o);
    return answer_question(call, o, &question);
}

const Verb verb_check = {
    .name = "check",
    .summary = "check whether jobs may run here: one line and an exit code",
    .usage = "[--profile slurm|liveness|readiness|prolog|epilog] [--slurm] [--json]",
    .description =
        "Checks the node, or the GPUs of a job, for open incidents. The profile says which incidents count. A fault "
        "of a program alone (XID 13, 31, 43, 94) never counts. The liveness profile fails only if the agent does not "
        "answer: a restart does not repair a broken GPU. Prolog and epilog also check for left-over processes and "
        "memory. Asks the running agent; without one it reads the driver itself. It always ends within --timeout.",
    .examples = "stoker check --slurm    # the reason, for scontrol update ... reason=\n"
                "stoker check --profile prolog --gpu 0,1\n"
                "stoker check --profile liveness --timeout 2s",
    .exit_codes = "0  nothing is against it\n"
                  "1  there is a problem; the line says which\n"
                  "2  the command line is wrong\n"
                  "3  could not check, or not in time",
    VERB_OPTS(check_opts, CheckOptions),
    .no_args = "",
    .run = check_run,
};
