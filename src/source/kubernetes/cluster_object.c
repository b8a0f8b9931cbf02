/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kubernetes/cluster_object.h"

#include <string.h>

const char *kube_api_group(Arena *arena, const char *version)
{
    const char *slash = strchr(version, '/');

    return slash ? arena_strndup(arena, version, (size_t)(slash - version)) : "";
}

bool kube_object_is(const KubeObject *object, const char *kind, const char *group)
{
    return strcmp(object->kind, kind) == 0 && strcmp(object->group, group) == 0;
}

int kube_object_controller(const KubeObject *object, Arena *arena, KubeOwner *ret, Err *err)
{
    KubeField list, item;

    *ret = (KubeOwner){"", "", ""};
    TRY(kube_field_get(&object->root, "metadata ownerReferences", JSON_ARRAY, &list, err));
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        bool controls = false;
        const char *version = "";

        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(kube_field_bool(&item, "controller", &controls, err));
        if (!controls)
            continue;
        TRY(kube_field_text(&item, "apiVersion", &version, err));
        TRY(kube_field_text(&item, "kind", &ret->kind, err));
        TRY(kube_field_text(&item, "name", &ret->name, err));
        ret->group = kube_api_group(arena, version);
        return 0;
    }
    return 0;
}

int kube_object_condition(const KubeObject *object, const char *type, const char *status, const char **ret,
                          bool *ret_found, Err *err)
{
    KubeField list, item;

    *ret_found = false;
    TRY(kube_field_get(&object->root, "status conditions", JSON_ARRAY, &list, err));
    for (size_t i = 0; i < kube_field_len(&list) && !*ret_found; i++) {
        const char *has_type = "", *has_status = "";

        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(kube_field_text(&item, "type", &has_type, err));
        TRY(kube_field_text(&item, "status", &has_status, err));
        *ret_found = strcmp(has_type, type) == 0 && strcmp(has_status, status) == 0;
        if (*ret_found)
            TRY(kube_field_text(&item, "message", ret, err));
    }
    return 0;
}
