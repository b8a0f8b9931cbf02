/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kubernetes/credentials.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "base/number.h"
#include "base/subproc.h"
#include "base/vec.h"
#include "source/kubernetes/kubeconfig.h"

enum { CONFIG_MAX = 1 << 20, PEM_MAX = 1 << 20, TOKEN_MAX = 64 << 10, ANSWER_MAX = 256 << 10, SAID_MAX = 200 };
enum { LOOK_MS = 20 };
#define PLUGIN_NS (30 * NS_PER_S)
#define FAILURE_HOLDS_NS NS_PER_S /* a plug-in that failed is not started again so soon */

/* A file in memory. What changes gets another one: libcurl uses a connection again by the name of its files. */
typedef struct Material {
    int fd; /* 0: none */
    uint64_t sum;
    char path[32];
} Material;

struct Credentials {
    const Log *log;
    void (*ready)(void *self);
    void *self;
    Arena arena, config_arena, ticket_arena;
    const char *kubeconfig, *url, *token_file, *ca_file; /* kubeconfig NULL: the account's */
    Kubeconfig config;                                   /* server NULL: not read yet */
    uint64_t config_sum;
    Material ca, cert, client_key;
    Str token;
    /* the plug-in */
    uv_timer_t timer;
    Subproc child; /* pid 0: none */
    uint64_t started_ns, failed_ns;
    Str out, said;
    bool killed;
    Err failure;
    KubeTicket ticket; /* token and cert NULL: none */
    uint32_t number;
    bool renewing, renewed; /* the next one, this one comes after a refusal */
};

/* -- material --------------------------------------------------------------------------------------------------------
 */

static void clear_material(Material *material)
{
    if (material->fd)
        close(material->fd);
    *material = (Material){.fd = 0};
}

static int set_material(Material *material, const void *data, size_t len, Err *err)
{
    const uint64_t sum = map_hash(data, len, 1);

    if (material->fd && material->sum == sum)
        return 0;
    CLEANUP_FD int fd = memfd_create("stoker-tls", MFD_CLOEXEC);
    if (fd < 0 || file_write_all(fd, data, len) < 0)
        return err_errno(err, "make a file in memory");
    clear_material(material);
    material->sum = sum;
    snprintf(material->path, sizeof material->path, "/proc/self/fd/%d", fd);
    material->fd = fd_take(&fd);
    return 0;
}

static int decode_material(Material *material, const KubePem *pem, Err *err)
{
    gnutls_datum_t plain = {0};
    const gnutls_datum_t coded = {.data = (unsigned char *)xstrdup(pem->base64), .size = (unsigned)strlen(pem->base64)};
    int rc = gnutls_base64_decode2(&coded, &plain) < 0
                 ? err_set(err, -EINVAL, "the kubeconfig's '%s-data' is no base64", pem->key)
                 : set_material(material, plain.data, plain.size, err);

    free(coded.data);
    gnutls_free(plain.data);
    return rc;
}

/* *ret is left alone where there is none. */
static int load_material(Material *material, const KubePem *pem, const char **ret, Err *err)
{
    CLEANUP(str_done) Str text = str_limited(PEM_MAX);

    if (pem->base64) {
        TRY(decode_material(material, pem, err));
    } else if (pem->file) {
        if (file_read(pem->file, PEM_MAX, &text, err) < 0)
            return err_add(err, "the kubeconfig's '%s'", pem->key);
        TRY(set_material(material, text.text, text.len, err));
    } else {
        return 0;
    }
    *ret = material->path;
    return 0;
}

static int read_token(Credentials *c, const char *file, Err *err)
{
    Str *token = &c->token;

    str_clear(token);
    TRY(file_read(file, TOKEN_MAX, token, err));
    while (token->len && strchr(" \t\r\n", token->text[token->len - 1]))
        str_cut(token, token->len - 1);
    return token->len ? 0 : err_set(err, -EINVAL, "'%s' is empty", file);
}

/* -- the plug-in -----------------------------------------------------------------------------------------------------
 */

static void drain_pipe(int fd, Str *out)
{
    char part[4096];
    ssize_t got;

    while (fd >= 0 && (got = read(fd, part, sizeof part)) > 0) {
        const size_t room = out->max - out->len;

        str_addn(out, part, number_min_u64((size_t)got, room));
        out->overflow |= (size_t)got > room;
    }
}

/* The first line of what it said, for a message. */
static const char *first_line(Str *said)
{
    if (!said->len)
        return "";
    for (char *at = said->text; *at; at++)
        if ((unsigned char)*at < ' ') {
            *at = '\0';
            break;
        }
    return said->text;
}

static int read_ticket(Credentials *c, Err *err)
{
    arena_done(&c->ticket_arena);
    TRY(kubeconfig_read_ticket(c->out.text ? c->out.text : "", c->out.len, c->config.plugin.version, &c->ticket_arena,
                               &c->ticket, err));
    if (c->ticket.expires_ns && c->ticket.expires_ns <= clock_real(clock_kernel())) {
        c->ticket = (KubeTicket){.token = NULL};
        return err_set(err, -EBADMSG, "what it gave has expired already");
    }
    return 0;
}

static int judge_plugin(Credentials *c, const SubprocEnd *end, Err *err)
{
    char how[SUBPROC_TEXT_MAX];

    TRY(str_check(&c->out, "its answer", err));
    if (c->killed)
        return err_set(err, -ETIMEDOUT, "no answer within %d seconds", (int)(PLUGIN_NS / NS_PER_S));
    subproc_describe(end, how);
    if (!end->exited || end->exit_code != 0)
        return err_set(err, -EIO, "%s: %s", how, first_line(&c->said));
    return read_ticket(c, err);
}

static void fail_plugin(Credentials *c, const char *why)
{
    const KubePlugin *plugin = &c->config.plugin;
    Err text;

    (void)err_set(&text, -EIO, "plug-in '%.100s': %.200s%s%.150s", plugin->argv[0], why, *plugin->hint ? "; " : "",
                  plugin->hint);
    for (char *at = text.text; *at; at++)
        *at = (unsigned char)*at < ' ' ? ' ' : *at;
    c->failure = text;
    c->failed_ns = uv_hrtime();
}

static void end_plugin(Credentials *c, const SubprocEnd *end)
{
    Err err = {0};

    uv_timer_stop(&c->timer);
    drain_pipe(c->child.out_fd, &c->out);
    drain_pipe(c->child.err_fd, &c->said);
    subproc_done(&c->child);
    c->number++;
    c->renewed = c->renewing;
    c->renewing = false;
    if (judge_plugin(c, end, &err) < 0)
        fail_plugin(c, err.text);
    str_done(&c->out);
    str_done(&c->said);
    c->ready(c->self);
}

static void on_plugin_timer(uv_timer_t *timer)
{
    Credentials *c = timer->data;
    SubprocEnd end = {0};

    drain_pipe(c->child.out_fd, &c->out);
    drain_pipe(c->child.err_fd, &c->said);
    if (subproc_wait(&c->child, 0, &end, NULL) != SUBPROC_RUNNING) {
        end_plugin(c, &end);
    } else if (!c->killed && (uv_hrtime() - c->started_ns >= PLUGIN_NS || c->out.overflow)) {
        kill(-c->child.pid, SIGKILL);
        c->killed = true;
    }
}

static int add_authority(const Credentials *c, Str *out, Err *err)
{
    CLEANUP(str_done) Str text = str_limited(PEM_MAX);
    gnutls_datum_t coded = {0};

    if (c->config.ca.base64 || !c->config.ca.file) {
        if (c->config.ca.base64)
            json_add_text(out, "certificate-authority-data", c->config.ca.base64);
        return 0;
    }
    TRY(file_read(c->config.ca.file, PEM_MAX, &text, err));
    const gnutls_datum_t plain = {.data = (unsigned char *)text.text, .size = (unsigned)text.len};
    if (gnutls_base64_encode2(&plain, &coded) < 0)
        return err_set(err, -ENOMEM, "encode '%s'", c->config.ca.file);
    json_add_text(out, "certificate-authority-data", (const char *)coded.data);
    gnutls_free(coded.data);
    return 0;
}

/* What the plug-in is told, in KUBERNETES_EXEC_INFO. */
static int write_plugin_info(const Credentials *c, Str *out, Err *err)
{
    str_add(out, "KUBERNETES_EXEC_INFO=");
    json_open(out, NULL, '{');
    json_add_text(out, "kind", "ExecCredential");
    json_add_text(out, "apiVersion", c->config.plugin.version);
    json_open(out, "spec", '{');
    json_add_bool(out, "interactive", false);
    if (c->config.plugin.cluster) {
        json_open(out, "cluster", '{');
        json_add_text(out, "server", c->config.server);
        if (c->config.server_name)
            json_add_text(out, "tls-server-name", c->config.server_name);
        json_add_bool(out, "insecure-skip-tls-verify", c->config.insecure);
        TRY(add_authority(c, out, err));
        json_close(out, '}');
    }
    json_close(out, '}');
    json_close(out, '}');
    return str_check(out, "KUBERNETES_EXEC_INFO", err);
}

static int start_plugin(Credentials *c, Err *err)
{
    const KubePlugin *plugin = &c->config.plugin;
    CLEANUP(str_done) Str info = str_limited(2 * PEM_MAX);
    VEC(const char *) env = {0};

    TRY(write_plugin_info(c, &info, err));
    for (size_t i = 0; plugin->env[i]; i++)
        vec_push(&env, plugin->env[i]);
    vec_push(&env, info.text);
    vec_push(&env, NULL);
    const SubprocSpec spec = {
        .argv = plugin->argv, .env = env.at, .pipe_out = true, .pipe_err = true, .die_with_us = true};
    const int rc = subproc_start(&spec, &c->child, err);
    vec_done(&env);
    if (rc < 0) {
        fail_plugin(c, err->text);
        *err = c->failure;
        return rc;
    }
    str_init(&c->out, ANSWER_MAX);
    str_init(&c->said, SAID_MAX);
    c->killed = false;
    c->started_ns = uv_hrtime();
    uv_timer_start(&c->timer, on_plugin_timer, LOOK_MS, LOOK_MS);
    return CREDENTIALS_LATER;
}

/* 0: there is a ticket that has not expired. */
static int want_ticket(Credentials *c, Err *err)
{
    const KubeTicket *ticket = &c->ticket;

    if ((ticket->token || ticket->cert) && (!ticket->expires_ns || ticket->expires_ns > clock_real(clock_kernel())))
        return 0;
    if (c->child.pid)
        return CREDENTIALS_LATER;
    if (c->failed_ns && uv_hrtime() - c->failed_ns < FAILURE_HOLDS_NS) {
        *err = c->failure;
        return c->failure.code;
    }
    return start_plugin(c, err);
}

/* -- the kubeconfig --------------------------------------------------------------------------------------------------
 */

/* A file that has become wrong is said once, and what it said before stays in force. */
static int refresh_config(Credentials *c, Err *err)
{
    CLEANUP(str_done) Str text = str_limited(CONFIG_MAX);
    CLEANUP(arena_done) Arena arena = {0};
    Kubeconfig fresh;
    int rc = file_read(c->kubeconfig, CONFIG_MAX, &text, err);
    const uint64_t sum = rc < 0 ? 0 : map_hash(text.text, text.len, 1);

    if (c->config.server && (sum == c->config_sum || c->child.pid))
        return 0; /* a plug-in that runs is waited for */
    if (rc == 0)
        rc = kubeconfig_read(c->kubeconfig, text.text, text.len, &arena, &fresh, err);
    if (rc < 0 && c->config.server)
        log_write(c->log, LOG_LEVEL_WARN, "%s; what the kubeconfig said before stays in force", err->text);
    c->config_sum = sum;
    if (rc < 0)
        return c->config.server ? 0 : rc;
    arena_done(&c->config_arena);
    c->config_arena = arena;
    arena = (Arena){0};
    c->config = fresh;
    c->ticket = (KubeTicket){.token = NULL};
    c->failed_ns = 0;
    return 0;
}

static int read_user(Credentials *c, KubeAuth *ret, Err *err)
{
    const Kubeconfig *config = &c->config;

    if (config->token_file)
        TRY(read_token(c, config->token_file, err));
    ret->bearer = config->token_file ? c->token.text : config->token;
    TRY(load_material(&c->cert, &config->cert, &ret->tls.cert_file, err));
    TRY(load_material(&c->client_key, &config->client_key, &ret->tls.key_file, err));
    if (ret->bearer || !config->plugin.argv)
        return 0;
    const int rc = want_ticket(c, err);
    if (rc != 0)
        return rc;
    ret->bearer = c->ticket.token;
    if (c->ticket.cert) {
        TRY(set_material(&c->cert, c->ticket.cert, strlen(c->ticket.cert), err));
        TRY(set_material(&c->client_key, c->ticket.client_key, strlen(c->ticket.client_key), err));
        ret->tls.cert_file = c->cert.path;
        ret->tls.key_file = c->client_key.path;
    }
    return 0;
}

static int read_kubeconfig(Credentials *c, KubeAuth *ret, Err *err)
{
    TRY(refresh_config(c, err));
    ret->url = c->config.server;
    ret->tls.server_name = c->config.server_name;
    ret->tls.insecure = c->config.insecure;
    TRY(load_material(&c->ca, &c->config.ca, &ret->tls.ca_file, err));
    return read_user(c, ret, err);
}

/* -- the header's functions ------------------------------------------------------------------------------------------
 */

/* NULL outside a pod. */
static const char *server_url(Arena *arena)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    const bool v6 = host && strchr(host, ':');

    return host && *host ? arena_printf(arena, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "",
                                        port && *port ? port : "443")
                         : NULL;
}

Credentials *credentials_new(uv_loop_t *loop, const char *account, const char *kubeconfig, const Log *log,
                             void (*ready)(void *self), void *self)
{
    Credentials *c = xcalloc(1, sizeof *c);

    c->log = log;
    c->ready = ready;
    c->self = self;
    c->kubeconfig = kubeconfig && *kubeconfig ? arena_strdup(&c->arena, kubeconfig) : NULL;
    c->url = server_url(&c->arena);
    c->token_file = arena_printf(&c->arena, "%s/token", account);
    c->ca_file = arena_printf(&c->arena, "%s/ca.crt", account);
    str_init(&c->token, TOKEN_MAX);
    uv_timer_init(loop, &c->timer); /* cannot fail */
    c->timer.data = c;
    return c;
}

static void on_timer_closed(uv_handle_t *handle)
{
    Credentials *c = handle->data;

    clear_material(&c->ca);
    clear_material(&c->cert);
    clear_material(&c->client_key);
    str_done(&c->token);
    str_done(&c->out);
    str_done(&c->said);
    arena_done(&c->ticket_arena);
    arena_done(&c->config_arena);
    arena_done(&c->arena);
    free(c);
}

void credentials_close(Credentials *c)
{
    if (!c)
        return;
    if (c->child.pid) {
        (void)subproc_stop(&c->child, 0, &(SubprocEnd){0}, NULL);
        subproc_done(&c->child);
    }
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

int credentials_read(Credentials *c, KubeAuth *ret, Err *err)
{
    KubeAuth auth = {.url = c->url, .tls = {.ca_file = c->ca_file}};

    if (c->kubeconfig) {
        auth = (KubeAuth){.ticket = c->number};
        const int rc = read_kubeconfig(c, &auth, err);
        if (rc != 0)
            return rc;
    } else {
        if (!c->url)
            return err_set(err, -ENOENT, "KUBERNETES_SERVICE_HOST is not set: this is no pod of a cluster");
        TRY(read_token(c, c->token_file, err));
        auth.bearer = c->token.text;
    }
    *ret = auth;
    return 0;
}

bool credentials_refused(Credentials *c, uint32_t ticket)
{
    if (ticket != c->number || c->renewing)
        return true;
    if (!c->ticket.token && !c->ticket.cert)
        return false;
    c->ticket = (KubeTicket){.token = NULL};
    c->renewing = !c->renewed;
    return c->renewing;
}
