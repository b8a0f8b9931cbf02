/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a kubeconfig, and the same bytes as a plug-in's answer. What is taken is whole; every refusal says
 * where and why. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "source/kubernetes/kubeconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_config(const Kubeconfig *config)
{
    const KubePlugin *plugin = &config->plugin;

    if (!config->server)
        abort();
    if ((config->cert.file || config->cert.base64) != (config->client_key.file || config->client_key.base64))
        abort();
    if (!plugin->argv)
        return;
    for (size_t i = 0; plugin->argv[i]; i++)
        if (strlen(plugin->argv[i]) > YAML_BYTES_MAX)
            abort();
    for (size_t i = 0; plugin->env[i]; i++)
        if (!strchr(plugin->env[i], '='))
            abort();
    if (!plugin->argv[0] || !plugin->version || !plugin->hint)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena arena = {0};
    Err err = {0};
    Kubeconfig config;
    KubeTicket ticket;

    if (kubeconfig_read("dir/fuzz", (const char *)data, size, &arena, &config, &err) == 0)
        check_config(&config);
    else if (strncmp(err.text, "dir/fuzz:", 9) != 0)
        abort();
    err = (Err){0};
    if (kubeconfig_read_ticket((const char *)data, size, "client.authentication.k8s.io/v1", &arena, &ticket, &err) <
        0) {
        if (!err.text[0])
            abort();
    } else if ((!ticket.token && !ticket.cert) || !ticket.cert != !ticket.client_key) {
        abort();
    }
    arena_done(&arena);
    return 0;
}
