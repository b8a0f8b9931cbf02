/* SPDX-License-Identifier: Apache-2.0 */
/* Loading and checking a configuration; dcgm-exporter's spellings of the command line. Those are read by Go's flag
 * package: one dash or two before any name, "-k=true", "--f file"; such words become the GNU spelling. */
#include "verb/agent/config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/log.h"
#include "base/yaml.h"
#include "service/alert/config.h"
#include "source/kubernetes/kubernetes.h"
#include "wire/http/listen.h"
#include "wire/http/server.h"

/* -- dcgm-exporter's command line ------------------------------------------------------------------------------------
 */

/* A second name of a flag, which is no row of the table. */
static const char alias[] = "rbmn", aliased[] = "replace-blanks-in-model-name";

static const OptSpec *row_of(const char *name, size_t len)
{
    char room[OPT_FLAG_MAX];

    for (size_t i = 0; i < agent_opt_count; i++) {
        const char *flag = opt_flag(&agent_opts[i], room);

        if (len == 1 && agent_opts[i].short_flag == name[0])
            return &agent_opts[i];
        if (len > 1 && flag && strlen(flag) == len && memcmp(flag, name, len) == 0)
            return &agent_opts[i];
    }
    return NULL;
}

/* The word as "--flag" or "--flag=value" of its row; itself where no row has this name. */
static char *rewrite_word(Arena *arena, char *word, const OptSpec **ret_row)
{
    const char *name = word + strspn(word, "-"), *value = strchr(word, '=');
    size_t dashes = (size_t)(name - word), len = value ? (size_t)(value - name) : strlen(name);
    char room[OPT_FLAG_MAX];

    *ret_row = NULL;
    if (dashes < 1 || dashes > 2 || len == 0 || (value && value < name))
        return word;
    *ret_row =
        len == strlen(alias) && memcmp(name, alias, len) == 0 ? row_of(aliased, strlen(aliased)) : row_of(name, len);
    if (!*ret_row)
        return word;
    return arena_printf(arena, "--%s%s", opt_flag(*ret_row, room), value ? value : "");
}

char **agent_rewrite_args(Arena *arena, int argc, char **argv)
{
    char **out = arena_calloc(arena, (size_t)argc + 1, sizeof *out);
    const OptSpec *row = NULL;

    for (int i = 0; i < argc; i++) {
        bool is_value = i > 0 && row && row->type != OPT_BOOL && !strchr(out[i - 1], '=');

        if (i > 0 && strcmp(argv[i], "--") == 0 && !is_value) {
            for (; i < argc; i++)
                out[i] = argv[i];
            break;
        }
        out[i] = argv[i];
        if (is_value || i == 0)
            row = NULL;
        else
            out[i] = rewrite_word(arena, argv[i], &row);
    }
    return out;
}

/* -- the fault catalogue ---------------------------------------------------------------------------------------------
 */

typedef struct Files {
    Arena *arena;
    size_t count;
    const YamlNode *roots[FAULTS_FILES_MAX];
} Files;

static int add_file(Files *files, const char *path, Err *err)
{
    CLEANUP(str_done) Str text = {0};

    if (files->count == FAULTS_FILES_MAX)
        return err_set(err, -E2BIG, "'%s': more than %d files of faults", path, FAULTS_FILES_MAX);
    str_init(&text, FAULTS_BYTES_MAX);
    TRY(file_read(path, FAULTS_BYTES_MAX, &text, err));
    return yaml_load(path, text.text, text.len, files->arena, &files->roots[files->count++], err);
}

static int is_yaml(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return entry->d_name[0] != '.' && dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static int add_folder(Files *files, const char *path, Err *err)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_yaml, alphasort), rc = 0;

    if (count < 0)
        return err_errno(err, "read folder '%s'", path);
    for (int i = 0; i < count; i++) {
        if (rc == 0)
            rc = add_file(files, arena_printf(files->arena, "%s/%s", path, entries[i]->d_name), err);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

static int add_path(Files *files, const char *path, Err *err)
{
    struct stat about;

    if (stat(path, &about) < 0)
        return err_errno(err, "open '%s'", path);
    return S_ISDIR(about.st_mode) ? add_folder(files, path, err) : add_file(files, path, err);
}

int faults_load(const OptList *paths, const OptSet *set, Catalogue **ret, Err *err)
{
    CLEANUP(arena_done) Arena arena = {0};
    Files files = {.arena = &arena};

    for (size_t i = 0; i < paths->len; i++) {
        const int rc = add_path(&files, paths->items[i], err);

        if (rc < 0)
            return set ? opt_add_place(set, "faults.files", i, err) : rc;
    }
    return catalogue_new(files.roots, files.count, ret, err);
}

/* -- loading ---------------------------------------------------------------------------------------------------------
 */

#define DEFAULT_CONFIG "/etc/stoker/stoker.yaml"
#define DEFAULT_COUNTERS "/etc/dcgm-exporter/default-counters.csv"

enum { HOSTS_BYTES_MAX = 1 << 20, HOSTS_WORDS = 32 };
enum { COUNTERS_BYTES_MAX = 4 << 20, CONFIG_BLOCK = 32 << 10 };

static void add_note(AgentConfig *config, const char *text)
{
    if (config->note_count < ARRAY_LEN(config->notes))
        config->notes[config->note_count++] = arena_strdup(&config->arena, text);
}

/* Which options were given at all, for those that are accepted without effect: key of the row, what to say. */
static void note_given(AgentConfig *config, bool given, const char *what)
{
    if (given)
        add_note(config, arena_printf(&config->arena, "%s has no effect here", what));
}

static void note_without_effect(AgentConfig *config)
{
    const AgentOptions *o = &config->o;
    const ExporterConfig *e = &config->exporter;

    note_given(config, o->hostengine && !o->dcgm, "--remote-hostengine-info without --dcgm (no host engine is asked)");
    note_given(config, o->pod_labels && !o->kubernetes, "--kubernetes-enable-pod-labels without --kubernetes");
    note_given(config, o->dra && !o->kubernetes, "--kubernetes-enable-dra without --kubernetes");
    note_given(config, e->links.gpus, "g in --switch-devices (NVSwitches tell their counters to libnvidia-nscq alone)");
    note_given(config, o->cpu_devices != NULL, "--cpu-devices (of the processors beside the GPUs node_exporter tells)");
    note_given(config, o->container_labels, "--container-labels");
    note_given(config, o->fake_gpus, "--fake-gpus ('stoker sim' makes a simulated node)");
    note_given(config, o->dump, "--dump-enabled (/api/v1/gpus says what is known)");
    note_given(config, o->pprof, "--enable-pprof");
    note_given(config, o->dcgm_config != NULL, "--config-file (dcgm-exporter's YAML; Stoker's own is --config)");
    if (o->collect_interval_ms * NS_PER_MS > o->normal_ns)
        note_given(config, true, "a --collect-interval longer than --sample-normal (numbers would only be older)");
}

/* Files that were named and are not there; they may come, and the agent works without. */
static void note_missing_files(AgentConfig *config)
{
    static const char *const keys[] = {"faults.kernel_log", "faults.journalctl",  "driver.library",
                                       "dcgm.library",      "sampler.socket",     "hpc_job_mapping_dir",
                                       "kubernetes.socket", "kubernetes.account", "kubernetes.kubeconfig"};
    Err note;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const OptSpec *row = opt_find(agent_opts, agent_opt_count, keys[i]);
        const char *path = *(const char *const *)((const char *)&config->o + row->off);

        if (!config->set.places[row - agent_opts].row || !path || !strchr(path, '/') || access(path, F_OK) == 0)
            continue;
        (void)err_errno(&note, "'%s'", path);
        (void)opt_add_place(&config->set, keys[i], 0, &note);
        add_note(config, note.text);
    }
}

/* The agent makes the folder of its journal, below one that is there. */
static void note_journal(AgentConfig *config)
{
    static const char key[] = "journal.path";
    const char *path = config->o.journal;
    char *folder;
    int fd;
    Err note;

    if (!config->set.places[opt_find(agent_opts, agent_opt_count, key) - agent_opts].row || !path || !path[0] ||
        strcmp(path, "none") == 0)
        return;
    for (folder = arena_strdup(&config->arena, path);;) {
        folder = dirname(folder);
        fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 || errno != ENOENT || strlen(folder) <= 1)
            break;
    }
    if (fd < 0 || faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
        (void)err_errno(&note, "the journal cannot be written in '%s'", folder);
        (void)opt_add_place(&config->set, key, 0, &note);
        add_note(config, note.text);
    }
    if (fd >= 0)
        close(fd);
}

static AgentConfig *make_config(void)
{
    AgentConfig *config = xcalloc(1, sizeof *config);

    arena_init(&config->arena, CONFIG_BLOCK);
    counters_init(&config->counters);
    config->set = (OptSet){.opts = agent_opts, .count = agent_opt_count, .into = &config->o, .arena = &config->arena};
    config->set.places = arena_calloc(&config->arena, agent_opt_count, sizeof *config->set.places);
    return config;
}

static int load_options(AgentConfig *config, int argc, char **argv, Err *err)
{
    const OptSet *set = &config->set;
    OptArgs args;
    const YamlNode *root = NULL;

    /* twice: the flags and variables say which file, and stand above it */
    TRY(opt_defaults(set, err));
    TRY(opt_env(set, environ, err));
    TRY(opt_args(set, argc, argv, &args, err));
    if (args.len > 0)
        return err_set(err, -EINVAL, "takes no argument, got '%s'", args.items[0]);
    const char *file = config->o.config;
    if (!file && access(DEFAULT_CONFIG, F_OK) == 0)
        file = DEFAULT_CONFIG;
    if (file) {
        TRY(yaml_load_file(file, &config->arena, &root, err));
        TRY(opt_defaults(set, err));
        TRY(opt_yaml(set, root, err));
        TRY(opt_env(set, environ, err));
        TRY(opt_args(set, argc, argv, &args, err));
    }
    config->o.config = file;
    return 0;
}

const char *agent_configmap(const AgentOptions *options)
{
    return options->configmap && *options->configmap && strcmp(options->configmap, "none") != 0 ? options->configmap
                                                                                                : NULL;
}

const char *agent_counters_key(const AgentConfig *config)
{
    return config->counters_text ? "configmap_data" : "collectors";
}

static int load_counters(AgentConfig *config, const char *configmap, Err *err)
{
    CLEANUP(str_done) Str text = {0};
    const char *file = config->o.counters;

    config->counters_file = "";
    if (!file && access(DEFAULT_COUNTERS, F_OK) == 0)
        file = DEFAULT_COUNTERS;
    if (configmap && agent_configmap(&config->o)) {
        config->counters_file = arena_printf(&config->arena, "ConfigMap %s", agent_configmap(&config->o));
        config->counters_text = arena_strdup(&config->arena, configmap);
        TRY(counters_read(&config->counters, configmap, strlen(configmap), config->counters_file,
                          config->o.strict_counters, err));
    } else if (!file) {
        counters_default(&config->counters);
    } else {
        str_init(&text, COUNTERS_BYTES_MAX);
        TRY(file_read(file, COUNTERS_BYTES_MAX, &text, err));
        TRY(counters_read(&config->counters, text.text, text.len, file, config->o.strict_counters, err));
        config->counters_file = file;
    }
    for (size_t i = 0; i < config->counters.warnings.len; i++)
        add_note(config, config->counters.warnings.at[i].text);
    if (config->counters.rows.len == 0)
        add_note(config,
                 arena_printf(&config->arena,
                              "%s: %s: no metric is in it (a line is: field, type, help); the page has Stoker's own "
                              "series alone",
                              agent_counters_key(config), config->counters_file));
    config->counter_rows = config->counters.rows.len;
    config->counters_left_out = config->counters.warnings.len;
    return 0;
}

static int fill_exporter(AgentConfig *config, Err *err)
{
    const AgentOptions *o = &config->o;
    ExporterConfig *e = &config->exporter;

    *e = (ExporterConfig){
        .profile = (ExporterProfile)o->profile,
        .no_hostname = o->no_hostname,
        .old_namespace = o->old_namespace,
        .replace_blanks = o->replace_blanks,
        .kubernetes = o->kubernetes,
        .pod_uid = o->pod_uid || o->virtual_gpus,
        .virtual_gpus = o->virtual_gpus,
        .mig_totals = o->mig_totals,
        .owners_max = o->owner_series,
        .xid_window_ns = o->xid_window_ms * NS_PER_MS,
        .clock_events_window_ns = o->clock_events_window_ms * NS_PER_MS,
        .period_ns = {[METRIC_PACE_FAST] = o->fast_ns,
                      [METRIC_PACE_NORMAL] = o->normal_ns,
                      [METRIC_PACE_SLOW] = o->slow_ns,
                      [METRIC_PACE_BLOCKING] = o->blocking_ns},
    };
    if (exporter_devices_parse(o->devices, &e->devices, err) < 0)
        return opt_add_place(&config->set, "devices", 0, err);
    if (exporter_devices_parse(o->switch_devices, &e->links, err) < 0)
        return opt_add_place(&config->set, "switch_devices", 0, err);
    return 0;
}

/* Names of Kubernetes: nothing that means something in a URL. */
static bool is_configmap_name(const char *name)
{
    static const char signs[] = "abcdefghijklmnopqrstuvwxyz0123456789.-";
    const size_t len = strspn(name, signs), rest = name[len] == ':' ? strspn(name + len + 1, signs) : 0;

    return len > 0 && rest > 0 && !name[len + 1 + rest];
}

static int check_period(AgentConfig *config, Err *err)
{
    AgentOptions *o = &config->o;

    if (o->collect_interval_ms > 0 && o->collect_interval_ms * NS_PER_MS < o->normal_ns) {
        o->normal_ns = o->collect_interval_ms * NS_PER_MS;
        if (o->normal_ns < 100 * NS_PER_MS)
            return opt_fail(&config->set, "collect_interval", 0, err,
                            "%llu ms is out of range, at least 100 is allowed",
                            (unsigned long long)o->collect_interval_ms);
    }
    if (o->fast_ns > o->normal_ns) {
        Err note;

        o->fast_ns = o->normal_ns;
        (void)opt_fail(&config->set, "sample.fast", 0, &note,
                       "it is longer than sample.normal, which is taken for both");
        add_note(config, note.text);
    }
    return 0;
}

static int check_listen(const AgentConfig *config, Err *err)
{
    const OptList *listen = &config->o.listen;

    if (listen->len == 0 && !config->o.systemd_sockets)
        return opt_fail(&config->set, "listen", 0, err, "at least one address is needed");
    for (size_t i = 0; i < listen->len; i++)
        if (listen_check(listen->items[i], err) < 0)
            return opt_add_place(&config->set, "listen", i, err);
    return 0;
}

/* The files that must be there, and are not read by agent_config_load. */
static int check_paths(const AgentConfig *config, Err *err)
{
    const AgentOptions *o = &config->o;
    struct stat about;

    if (o->root && stat(o->root, &about) < 0) {
        (void)err_errno(err, "'%s'", o->root);
        return opt_add_place(&config->set, "root", 0, err);
    }
    if (o->sampler && strchr(o->sampler, '/') && access(o->sampler, X_OK) < 0) {
        (void)err_errno(err, "'%s'", o->sampler);
        return opt_add_place(&config->set, "sampler.program", 0, err);
    }
    if (o->web_config && o->web_config[0] && http_web_config_check(o->web_config, err) < 0)
        return opt_add_place(&config->set, "web.config_file", 0, err);
    return 0;
}

static int check_options(AgentConfig *config, Err *err)
{
    AgentOptions *o = &config->o;
    KubePods *pods = NULL;

    TRY(check_period(config, err));
    if (o->debug)
        o->log_level = LOG_LEVEL_DEBUG;
    if (o->root && o->root[0] == '\0')
        o->root = NULL;
    TRY(check_paths(config, err));
    if (agent_configmap(o) && !is_configmap_name(agent_configmap(o)))
        return opt_fail(&config->set, "configmap_data", 0, err, "'%.300s' is no NAMESPACE:NAME", agent_configmap(o));
    if (o->external_url && o->external_url[0] && !alert_is_url(o->external_url))
        return opt_fail(&config->set, "external_url", 0, err, "'%.300s' is no URL of http or https", o->external_url);
    for (size_t i = 0; i < o->pod_label_regex.len; i++) {
        if (kube_pods_new(&o->pod_label_regex.items[i], 1, &pods, err) < 0)
            return opt_add_place(&config->set, "kubernetes.pod_label_allowlist_regex", i, err);
        kube_pods_free(pods);
    }
    TRY(check_listen(config, err));
    TRY(prices_read(o->prices, &config->arena, &config->prices, err));
    TRY(idle_policies_read(o->idle, &config->arena, &config->idle, err));
    config->limits = (SupervisorLimits){.call_ns = o->call_ns,
                                        .attach_ns = o->attach_ns,
                                        .beat_ns = supervisor_default_limits.beat_ns,
                                        .kill_ns = o->kill_ns,
                                        .abandon_ns = o->abandon_ns,
                                        .retry_max_ns = o->retry_max_ns,
                                        .rejoin_ns = o->rejoin_ns,
                                        .probe_ns = o->probe_ns};
    config->dcgm = (SupervisorDcgm){.library = o->dcgm_library ? o->dcgm_library : "",
                                    .address = o->dcgm_address ? o->dcgm_address
                                               : o->hostengine ? o->hostengine
                                                               : ""};
    return 0;
}

/* `path` below the root. */
static const char *below_root(AgentConfig *config, const char *path)
{
    const char *root = config->o.root;

    return root && path[0] ? arena_printf(&config->arena, "%s%s%s", root, path[0] == '/' ? "" : "/", path) : path;
}

const char *agent_kmsg_path(AgentConfig *config)
{
    const char *path = config->o.kmsg;

    if (!path || !path[0])
        return below_root(config, "/dev/kmsg");
    return strcmp(path, "none") == 0 ? "" : path;
}

const char *agent_journald_path(AgentConfig *config)
{
    return below_root(config, "/run/systemd/journal/socket");
}

typedef VEC(const char *) Names;

/* Adds the words of a line of /etc/hosts, but for the address, where one of them is the host's. */
static void add_hosts_line(AgentConfig *config, char *line, const char *host, Names *names)
{
    char *words[HOSTS_WORDS], *word;
    size_t count = 0;
    bool ours = false;

    line[strcspn(line, "#\n")] = '\0';
    while (count < HOSTS_WORDS && (word = strsep(&line, " \t")))
        if (word[0]) {
            ours |= count > 0 && strcasecmp(word, host) == 0;
            words[count++] = word;
        }
    for (size_t i = 1; ours && i < count; i++)
        vec_push(names, arena_strdup(&config->arena, words[i]));
}

/* Adds the host's name in the domains in which names are looked up here. */
static void add_search_line(AgentConfig *config, char *line, const char *host, Names *names)
{
    const char *key = strsep(&line, " \t");

    if (strcmp(key, "search") != 0 && strcmp(key, "domain") != 0)
        return;
    for (char *domain; (domain = strsep(&line, " \t\n"));)
        if (domain[0])
            vec_push(names, arena_printf(&config->arena, "%s.%s", host, domain));
}

const char *const *agent_host_names(AgentConfig *config, const char *name)
{
    static const struct {
        const char *path;
        void (*add)(AgentConfig *config, char *line, const char *host, Names *names);
    } files[] = {{"/etc/hosts", add_hosts_line}, {"/etc/resolv.conf", add_search_line}};
    const char *url = config->o.external_url ? strstr(config->o.external_url, "://") : NULL;
    char host[256] = "";
    CLEANUP_VEC Names names = {0};

    (void)gethostname(host, sizeof host - 1);
    vec_push(&names, arena_strdup(&config->arena, host));
    vec_push(&names, arena_strdup(&config->arena, name));
    if (url)
        vec_push(&names, arena_strndup(&config->arena, url + 3, strcspn(url + 3, ":/")));
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        CLEANUP(str_done) Str text = str_limited(HOSTS_BYTES_MAX);

        if (file_read(files[i].path, HOSTS_BYTES_MAX, &text, NULL) < 0)
            continue;
        for (char *rest = text.text, *line; (line = strsep(&rest, "\n"));)
            files[i].add(config, line, host, &names);
    }
    for (size_t i = 0; i < config->o.hosts.len; i++)
        vec_push(&names, config->o.hosts.items[i]);
    vec_push(&names, NULL);
    return arena_memdup(&config->arena, names.at, names.len * sizeof names.at[0]);
}

const char *agent_fabric_log_path(AgentConfig *config)
{
    return below_root(config, config->o.fabric_log ? config->o.fabric_log : "");
}

const char *agent_journal_file(Arena *arena, const char *said, const char *root)
{
    const char *state = getenv("STATE_DIRECTORY"), *home = getenv("HOME"), *user = getenv("XDG_STATE_HOME");

    if (said && said[0])
        return strcmp(said, "none") == 0 ? "" : said;
    if (root && root[0])
        return "";
    if (state && state[0])
        return arena_printf(arena, "%.*s/journal.db", (int)strcspn(state, ":"), state);
    if (geteuid() == 0)
        return "/var/lib/stoker/journal.db";
    if (user && user[0])
        return arena_printf(arena, "%s/stoker/journal.db", user);
    return home && home[0] ? arena_printf(arena, "%s/.local/state/stoker/journal.db", home) : "";
}

const char *agent_journal_path(AgentConfig *config)
{
    return agent_journal_file(&config->arena, config->o.journal, config->o.root);
}

CLEANUP_POINTER(AgentConfig, agent_config_free);

int agent_config_load(int argc, char **argv, const char *configmap, AgentConfig **ret, Err *err)
{
    CLEANUP(agent_config_free_at) AgentConfig *config = make_config();

    TRY(load_options(config, argc, argv, err));
    TRY(check_options(config, err));
    if (load_counters(config, configmap, err) < 0)
        return opt_add_place(&config->set, agent_counters_key(config), 0, err);
    TRY(fill_exporter(config, err));
    note_without_effect(config);
    note_missing_files(config);
    note_journal(config);
    *ret = TAKE(config);
    return 0;
}

int agent_config_defaults(AgentConfig **ret, Err *err)
{
    CLEANUP(agent_config_free_at) AgentConfig *config = make_config();

    TRY(opt_defaults(&config->set, err));
    TRY(check_options(config, err));
    TRY(fill_exporter(config, err));
    *ret = TAKE(config);
    return 0;
}

void agent_config_free(AgentConfig *config)
{
    if (!config)
        return;
    counters_done(&config->counters);
    arena_done(&config->arena);
    free(config);
}

const char *agent_config_needs_restart(const AgentConfig *before, AgentConfig *now)
{
    char room[ERR_TEXT_MAX];
    Str text;

    str_init_room(&text, room, sizeof room);
    for (size_t i = 0; i < agent_opt_count; i++)
        if ((agent_opts[i].flags & OPT_RESTART) && !opt_same(&agent_opts[i], &before->o, &now->o))
            str_addf(&text, "%s%s", text.len ? ", " : "", agent_opts[i].key);
    return text.len ? arena_strdup(&now->arena, text.text) : NULL;
}
