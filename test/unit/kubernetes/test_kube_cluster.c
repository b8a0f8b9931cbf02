/* SPDX-License-Identifier: Apache-2.0 */
/* What kubectl prints of a cluster, object by object: in JSON with ' for ", and the lines that the cluster is then. */
#include "../golden.h"

#include <errno.h>
#include <stdio.h>

#include "cluster_text.h"

static Arena arena;
static Cluster cluster;
static KubeLeftOut left_out;

static int start_anew(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

#define NODE(name, labels, more)                                                                                       \
    "{'kind':'Node','apiVersion':'v1','metadata':{'name':'" name "','labels':{'nvidia.com/gpu.product':'H100'" labels  \
    "}},'spec':{" more "},'status':{'capacity':{'nvidia.com/gpu':'8'},'allocatable':{'cpu':'96','memory':'1Ti',"       \
    "'nvidia.com/gpu':'8'}}}"
#define POD(name, meta, spec, status)                                                                                  \
    "{'kind':'Pod','apiVersion':'v1','metadata':{'namespace':'a','name':'" name "'" meta "},'spec':{" spec             \
    "},'status':{" status "}}"
#define GPUS(n) "'containers':[{'resources':{'limits':{'cpu':'4','memory':'8Gi','nvidia.com/gpu':'" n "'}}}]"
#define TEMPLATE(n) "'template':{'spec':{" GPUS(n) "}}"
#define BY(group, of, name)                                                                                            \
    ",'ownerReferences':[{'apiVersion':'" group "','kind':'" of "','name':'" name "','controller':true}]"
#define OBJECT(group, of, name, meta, body)                                                                            \
    "{'kind':'" of "','apiVersion':'" group "','metadata':{'namespace':'a','name':'" name "'" meta "}," body "}"

static int read_json(const char *json, Err *err)
{
    char *text = arena_strdup(&arena, json);

    for (char *at = text; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    return kube_cluster_read(&(KubeText){"in.json", text, strlen(text)}, 1, &arena, &cluster, &left_out, err);
}

/* The lines behind those of nodes and before those of what was left out. */
static void expect_lines(const char *json, const char *lines)
{
    CLEANUP(str_done) Str text = str_limited(GOLDEN_MAX);
    Err err = {0};

    if (read_json(json, &err) < 0)
        fail_msg("%s", err.text);
    cluster_text(&cluster, &left_out, &text);
    char *at = text.text, *end = strstr(text.text, "left out: ");
    while (strncmp(at, "node ", 5) == 0)
        at = strchr(at, '\n') + 1;
    *end = '\0';
    assert_string_equal(at, lines);
}

static void expect_error(const char *json, const char *what)
{
    Err err = {0};

    assert_true(read_json(json, &err) < 0);
    assert_string_equal(err.text, what);
}

static void expect_left_out(size_t shared_nodes, size_t pods, size_t gangs, size_t elsewhere, size_t roles)
{
    assert_int_equal(left_out.shared_nodes, shared_nodes);
    assert_int_equal(left_out.pods, pods);
    assert_int_equal(left_out.gangs, gangs);
    assert_int_equal(left_out.elsewhere, elsewhere);
    assert_int_equal(left_out.roles, roles);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void expect_node(const char *json, const char *line)
{
    CLEANUP(str_done) Str text = str_limited(GOLDEN_MAX);
    Err err = {0};

    if (read_json(json, &err) < 0)
        fail_msg("%s", err.text);
    cluster_text(&cluster, &left_out, &text);
    *strchr(text.text, '\n') = '\0';
    assert_string_equal(text.text, line);
}

#define BARE_NODE(labels, spec, status)                                                                                \
    "{'kind':'Node','apiVersion':'v1','metadata':{'name':'n','labels':{" labels "}},'spec':{" spec                     \
    "},'status':{" status "}}"

static void a_node_has_what_it_can_allocate(void **state)
{
    (void)state;
    expect_node(BARE_NODE("'nvidia.com/gpu.product':'H100'", "",
                          "'capacity':{'cpu':'128','memory':'2Ti','nvidia.com/gpu':'8'},"
                          "'allocatable':{'cpu':'127500m','memory':'1048575Ki','nvidia.com/gpu':'6'}"),
                "node n cpu=127500 memory=1023 gpus=8 model=H100 broken=c0");
    for (int usable = 4; usable <= 8; usable++) { /* the kubelet may be told later; others may be broken too */
        static const char *const broken[] = {"cc", "8c", "c", "c", "c"};
        char node[512], line[128];

        snprintf(node, sizeof node,
                 "{'kind':'Node','apiVersion':'v1','metadata':{'name':'n','annotations':{'stoker.dev/gpus-unhealthy':"
                 "'2,3,9'}},'status':{'capacity':{'nvidia.com/gpu':'8'},'allocatable':{'nvidia.com/gpu':'%d'}}}",
                 usable);
        snprintf(line, sizeof line, "node n cpu=0 memory=0 gpus=8 model=unknown broken=%s", broken[usable - 4]);
        expect_node(node, line);
    }
    expect_node(BARE_NODE("'amd.com/gpu.product-name':'MI300X'", "", "'allocatable':{'cpu':2,'amd.com/gpu':'4'}"),
                "node n cpu=2000 memory=0 gpus=4 model=MI300X");
    expect_node(BARE_NODE("", "", "'allocatable':{'nvidia.com/gpu':'1'}"),
                "node n cpu=0 memory=0 gpus=1 model=unknown");
    expect_node(BARE_NODE("'nvidia.com/gpu.clique':'c.1','topology.kubernetes.io/rack':'r2',"
                          "'network.topology.nvidia.com/leaf':'not-this','network.topology.nvidia.com/spine':'s'",
                          "", ""),
                "node n cpu=0 memory=0 gpus=0 nvlink=c.1 rack=r2 block=s");
}

static void an_empty_list_is_no_object(void **state)
{
    (void)state;
    expect_lines(NODE("n", "", "") "{'kind':'PodList','apiVersion':'v1','metadata':{},'items':null}"
                                   "{'kind':'List','apiVersion':'v1','items':[]}",
                 "");
}

static void a_node_is_closed_or_spot(void **state)
{
    (void)state;
    expect_node(BARE_NODE("", "'unschedulable':true", ""), "node n cpu=0 memory=0 gpus=0 closed");
    expect_node(BARE_NODE("", "'unschedulable':false", "'conditions':[{'type':'Ready','status':'Unknown'}]"),
                "node n cpu=0 memory=0 gpus=0 closed");
    expect_node(BARE_NODE("", "",
                          "'conditions':[{'type':'DiskPressure','status':'False'},"
                          "{'type':'Ready','status':'True'}]"),
                "node n cpu=0 memory=0 gpus=0");
    expect_node(BARE_NODE("'karpenter.sh/capacity-type':'spot'", "", ""), "node n cpu=0 memory=0 gpus=0 spot");
    expect_node(BARE_NODE("'eks.amazonaws.com/capacityType':'ON_DEMAND'", "", ""), "node n cpu=0 memory=0 gpus=0");
}

static void shared_gpus_are_left_out(void **state)
{
    (void)state;
    expect_node(BARE_NODE("'nvidia.com/gpu.replicas':'10'", "", "'allocatable':{'nvidia.com/gpu':'80'}"),
                "node n cpu=0 memory=0 gpus=0");
    expect_left_out(1, 0, 0, 0, 0);
    expect_lines(NODE("n", "", "") POD("running", "",
                                       "'nodeName':'n','containers':[{'resources':{'limits':{'cpu':'1',"
                                       "'nvidia.com/gpu.shared':'1'}}}]",
                                       "")
                     POD("waiting", "", "'containers':[{'resources':{'limits':{'nvidia.com/gpu.shared':1}}}]", "")
                         POD("large", "", GPUS("17"), ""),
                 "Pod a/running priority=0\n  role '' 1..1 cpu=1000 memory=0 gpus=0\n  runs on n gpus=0 role=0\n");
    expect_left_out(0, 3, 0, 0, 0);
}

static void a_gang_of_shared_gpus_is_left_out_whole(void **state)
{
#define SHARED "'template':{'spec':{'containers':[{'resources':{'limits':{'nvidia.com/gpu.shared':1}}}]}}"
    (void)state;
    expect_lines(NODE("n", "", "")
                     OBJECT("kubeflow.org/v1", "PyTorchJob", "t", "",
                            "'spec':{'pytorchReplicaSpecs':{'Master':{" SHARED "},'Worker':{" SHARED "}}}")
                         POD("t-0", BY("kubeflow.org/v1", "PyTorchJob", "t"),
                             "'containers':[{'resources':{'limits':{'nvidia.com/gpu.shared':1}}}]", ""),
                 "");
    expect_left_out(0, 1, 1, 0, 0);
}

/* --- MIG ---------------------------------------------------------------------------------------------------------- */

#define MIG_NODE(allocatable)                                                                                          \
    "{'kind':'Node','apiVersion':'v1','metadata':{'name':'n','labels':{'nvidia.com/gpu.product':'H100'}},"             \
    "'status':{'capacity':{'nvidia.com/gpu':'2','nvidia.com/mig-1g.10gb':'20'},'allocatable':{" allocatable "}}}"
#define MIG(resources) "'containers':[{'resources':{'limits':{'cpu':'1'," resources "}}}]"

static void mig_instances_of_a_node_are_counted(void **state)
{
    (void)state;
    expect_node(MIG_NODE("'nvidia.com/gpu':'2','nvidia.com/mig-1g.10gb':'19','nvidia.com/mig-3g.40gb':'2'"),
                "node n cpu=0 memory=0 gpus=4 1g.10gb=19 3g.40gb=2 model=H100");
    assert_int_equal(cluster.nodes[0].mig->gpus, 0xc); /* behind those that are whole */
    expect_node(MIG_NODE("'nvidia.com/mig-1g.10gb':'0'"), "node n cpu=0 memory=0 gpus=2 model=H100 broken=3");
    expect_node(MIG_NODE("'nvidia.com/gpu':'2','nvidia.com/mig-1g.10gb':'1e9'"),
                "node n cpu=0 memory=0 gpus=16 1g.10gb=224 model=H100"); /* 14 GPUs of 16 slices */
}

static void pods_ask_for_one_mig_instance(void **state)
{
    (void)state;
    expect_lines(MIG_NODE("'nvidia.com/mig-1g.10gb':'7'") POD("one", "", MIG("'nvidia.com/mig-1g.10gb':1"), "")
                     POD("run", ",'annotations':{'stoker.dev/gpus':'1'}",
                         "'nodeName':'n'," MIG("'nvidia.com/mig-1g.10gb':1"), "")
                         POD("other", "", MIG("'nvidia.com/mig-2g.20gb':'1'"), ""),
                 "Pod a/one priority=0\n  role '' 1..1 cpu=1000 memory=0 gpus=1 mig=1g.10gb\n"
                 "Pod a/run priority=0\n  role '' 1..1 cpu=1000 memory=0 gpus=1 mig=1g.10gb\n"
                 "  runs on n gpus=0 role=0\n"
                 "Pod a/other priority=0\n  role '' 1..1 cpu=1000 memory=0 gpus=1 mig=2g.20gb\n");
    expect_left_out(0, 0, 0, 0, 0);
    assert_int_equal(left_out.annotations, 0);
    assert_int_equal(cluster.profile_count, 2);
}

static void a_running_pod_holds_all_its_instances(void **state)
{
    (void)state;
    expect_lines(MIG_NODE("'nvidia.com/mig-1g.10gb':'7'") POD("wait", "", MIG("'nvidia.com/mig-1g.10gb':2"), "")
                     POD("run", "",
                         "'nodeName':'n','initContainers':[{'resources':{'limits':{'nvidia.com/mig-1g.10gb':2}}}],"
                         "'containers':[{'resources':{'limits':{'nvidia.com/mig-1g.10gb':1}}},"
                         "{'resources':{'limits':{'nvidia.com/mig-2g.20gb':1}}}]",
                         ""),
                 "Pod a/run priority=0\n  role '' 1..1 cpu=0 memory=0 gpus=0\n"
                 "  role '' 2..2 cpu=0 memory=0 gpus=1 mig=1g.10gb\n  role '' 1..1 cpu=0 memory=0 gpus=1 mig=2g.20gb\n"
                 "  runs on n gpus=0 role=0\n  runs on n gpus=0 role=1\n  runs on n gpus=0 role=1\n"
                 "  runs on n gpus=0 role=2\n");
    expect_left_out(0, 2, 0, 0, 0);
}

static void a_gang_may_ask_for_mig_instances(void **state)
{
#define MIG_ROLE "'replicas':2,'template':{'spec':{" MIG("'nvidia.com/mig-1g.10gb':1") "}}"
    (void)state;
    expect_lines(MIG_NODE("'nvidia.com/mig-1g.10gb':'7'")
                     OBJECT("kubeflow.org/v1", "PyTorchJob", "t", "",
                            "'spec':{'pytorchReplicaSpecs':{'Worker':{" MIG_ROLE "}}}"),
                 "PyTorchJob a/t priority=0 preemptible\n  role 'worker' 2..2 cpu=1000 memory=0 gpus=1 mig=1g.10gb\n");
}

static void names_of_profiles_have_a_cap(void **state)
{
    CLEANUP(str_done) Str json = str_limited(GOLDEN_MAX);
    Err err = {0};

    (void)state;
    str_add(&json, MIG_NODE("'nvidia.com/mig-1g.10gb':'7'"));
    for (int i = 0; i < CLUSTER_MIG_NAMES_MAX + 3; i++)
        str_addf(&json, POD("p%d", "", MIG("'nvidia.com/mig-x%d':1"), ""), i, i);
    assert_int_equal(read_json(json.text, &err), 0);
    assert_int_equal(cluster.profile_count, CLUSTER_MIG_NAMES_MAX);
    expect_left_out(0, 4, 0, 0, 0);
}

/* --- dynamic resource allocation ---------------------------------------------------------------------------------- */

#define DRA "resource.k8s.io/v1"
#define DEVICE(name, type, more)                                                                                       \
    "{'name':'" name "','attributes':{'type':{'string':'" type "'},'productName':{'string':'NVIDIA H100'}}" more "}"
#define SLICE(name, generation, devices)                                                                               \
    "{'kind':'ResourceSlice','apiVersion':'" DRA "','metadata':{'name':'" name "'},'spec':{'driver':'gpu.nvidia.com'," \
    "'nodeName':'n','pool':{'name':'n','generation':" generation "},'devices':[" devices "]}}"
#define CLAIM_KIND(kind, name, spec, status)                                                                           \
    "{'kind':'" kind "','apiVersion':'" DRA "','metadata':{'namespace':'a','name':'" name "'},'spec':{" spec           \
    "},'status':{" status "}}"
#define CLAIM(name, requests, status) CLAIM_KIND("ResourceClaim", name, "'devices':{'requests':[" requests "]}", status)
#define ASK(more) "{'name':'r','exactly':{'deviceClassName':'gpu.nvidia.com'" more "}}"
#define RESULT(device) "{'request':'r','driver':'gpu.nvidia.com','pool':'n','device':'" device "'}"
#define HAS(results) "'allocation':{'devices':{'results':[" results "]}}"
#define USES(claim) "'containers':[{}],'resourceClaims':[{'name':'g','resourceClaimName':'" claim "'}]"
#define DRA_NODE                                                                                                       \
    "{'kind':'Node','apiVersion':'v1','metadata':{'name':'n'},'status':{'allocatable':{'cpu':'8'}}}" SLICE(            \
        "s", "1", DEVICE("gpu-10", "gpu", "") "," DEVICE("gpu-2", "gpu", "") "," DEVICE("gpu-0", "gpu", ""))

static void a_node_has_the_gpus_of_its_slices(void **state)
{
    (void)state;
    expect_node(DRA_NODE, "node n cpu=8000 memory=0 gpus=3 model=NVIDIA-H100");
    expect_node(
        DRA_NODE SLICE(
            "t", "2",
            DEVICE("gpu-0", "gpu", "") "," DEVICE("gpu-0-mig-1g10gb-19-0", "mig", "") "," DEVICE(
                "gpu-1", "gpu",
                ",'taints':[{'key':'x','effect':'NoSchedule'}]") "," DEVICE("gpu-2", "gpu",
                                                                            ",'taints':[{'key':'x','effect':'None'}]")),
        "node n cpu=8000 memory=0 gpus=3 model=NVIDIA-H100 broken=2"); /* the older slice is of the past */
    expect_node(NODE("n", "", "") SLICE("s", "1", DEVICE("gpu-0", "gpu", "")),
                "node n cpu=96000 memory=1048576 gpus=8 model=H100"); /* not twice */
    expect_node(BARE_NODE("", "", "'allocatable':{'nvidia.com/gpu':'2'}") SLICE("s", "1", DEVICE("gpu-0", "gpu", "")),
                "node n cpu=0 memory=0 gpus=2 model=NVIDIA-H100");
    expect_node(
        BARE_NODE("", "", "") "{'kind':'ResourceSlice','apiVersion':'resource.k8s.io/v1beta1','metadata':{'name':'s'},"
                              "'spec':{'driver':'d.e','nodeName':'n','pool':{'name':'n'},'devices':[{'name':'x',"
                              "'basic':{'attributes':{'d.e/type':{'string':'gpu'}}}}]}}",
        "node n cpu=0 memory=0 gpus=1 model=unknown");
    expect_node(BARE_NODE("", "", "") "{'kind':'ResourceSlice','apiVersion':'" DRA "','metadata':{'name':'s'},"
                                      "'spec':{'driver':'nic.example','nodeName':'n','pool':{'name':'n'},"
                                      "'devices':[{'name':'x'}]}}",
                "node n cpu=0 memory=0 gpus=0");
}

static void claims_hold_their_gpus(void **state)
{
    (void)state;
    expect_lines(
        DRA_NODE CLAIM("one", ASK(""), HAS(RESULT("gpu-10"))) CLAIM("left", ASK(""), HAS(RESULT("gpu-2")))
            POD("run", "", "'nodeName':'n'," USES("one"), "") POD("too", "", "'nodeName':'n'," USES("one"), ""),
        "Pod a/run priority=0\n  role '' 1..1 cpu=0 memory=0 gpus=1\n  runs on n gpus=4 role=0\n"
        "Pod a/too priority=0\n  role '' 1..1 cpu=0 memory=0 gpus=0\n  runs on n gpus=0 role=0\n" /* the same GPU */
        "ResourceClaim a/left priority=0\n  role '' 1..1 cpu=0 memory=0 gpus=1\n  runs on n gpus=2 role=0\n");
    expect_lines(DRA_NODE CLAIM("admin", ASK(""),
                                HAS("{'driver':'gpu.nvidia.com','pool':'n','device':'gpu-0',"
                                    "'adminAccess':true}")),
                 "");
    expect_lines(DRA_NODE CLAIM("mig", "", HAS(RESULT("gpu-0-mig-1g10gb-19-0") "," RESULT("gpu-0-mig-1g10gb-19-1"))),
                 "ResourceClaim a/mig priority=0\n  role '' 1..1 cpu=0 memory=0 gpus=1\n  runs on n gpus=1 role=0\n");
    expect_lines(
        DRA_NODE CLAIM("made", "", HAS(RESULT("gpu-0")))
            POD("run", "", "'nodeName':'n'," GPUS("1"), "'extendedResourceClaimStatus':{'resourceClaimName':'made'}"),
        "Pod a/run priority=0\n  role '' 1..1 cpu=4000 memory=8192 gpus=1\n  runs on n gpus=1 role=0\n");
    expect_left_out(0, 0, 0, 0, 0);
    assert_int_equal(left_out.claims, 0);
}

static void pods_ask_by_their_claims(void **state)
{
#define WAITS(claim, gpus)                                                                                             \
    DRA_NODE claim POD("w", "", USES("c"), ""), "Pod a/w priority=0\n  role '' 1..1 cpu=0 memory=0 gpus=" gpus "\n"
    (void)state;
    expect_lines(WAITS(CLAIM("c", ASK(",'count':2") "," ASK("") ",{'exactly':{'deviceClassName':'nic'}}", ""), "3"));
    expect_lines(WAITS(CLAIM("c", "{'deviceClassName':'gpu.nvidia.com'}", ""), "1"));
    expect_lines(WAITS(CLAIM("c", "{'firstAvailable':[{'deviceClassName':'gpu.nvidia.com','count':2},{}]}", ""), "2"));
    expect_lines(WAITS(CLAIM("c", ASK(",'adminAccess':true"), ""), "0"));
    expect_lines(DRA_NODE CLAIM("c", ASK(",'count':2"), "") POD("w", "", USES("c"), "") POD("v", "", USES("c"), ""),
                 "Pod a/w priority=0\n  role '' 1..1 cpu=0 memory=0 gpus=2\n"
                 "Pod a/v priority=0\n  role '' 1..1 cpu=0 memory=0 gpus=0\n");
#define OF_TEMPLATE "'containers':[{}],'resourceClaims':[{'name':'g','resourceClaimTemplateName':'t'}]"
#define TEMPLATES CLAIM_KIND("ResourceClaimTemplate", "t", "'spec':{'devices':{'requests':[" ASK("") "]}}", "")
    expect_lines(DRA_NODE TEMPLATES POD("w", "", OF_TEMPLATE, "") POD("v", "", OF_TEMPLATE, "")
                     CLAIM("v-g", ASK(",'count':2"), "")
                         POD("x", "", OF_TEMPLATE, "'resourceClaimStatuses':[{'name':'g','resourceClaimName':'v-g'}]"),
                 "Pod a/w priority=0\n  role '' 1..1 cpu=0 memory=0 gpus=1\n"
                 "Pod a/v priority=0\n  role '' 1..1 cpu=0 memory=0 gpus=1\n"
                 "Pod a/x priority=0\n  role '' 1..1 cpu=0 memory=0 gpus=2\n");
    expect_lines(DRA_NODE TEMPLATES OBJECT(
                     "kubeflow.org/v1", "PyTorchJob", "t", "",
                     "'spec':{'pytorchReplicaSpecs':{'Worker':{'replicas':2,'template':{'spec':{" OF_TEMPLATE "}}}}}"),
                 "PyTorchJob a/t priority=0 preemptible\n  role 'worker' 2..2 cpu=0 memory=0 gpus=1\n");
    expect_left_out(0, 0, 0, 0, 0);
    assert_int_equal(left_out.claims, 0);
}

static void claims_that_cannot_be_said_are_left_out(void **state)
{
    (void)state;
    expect_lines(DRA_NODE CLAIM("c", ASK(",'allocationMode':'All'"), "") POD("w", "", USES("c"), ""), "");
    expect_left_out(0, 1, 0, 0, 0);
    expect_lines(
        DRA_NODE CLAIM("c", "{'exactly':{'deviceClassName':'mig.nvidia.com'}}", "") POD("w", "", USES("c"), ""), "");
    expect_left_out(0, 1, 0, 0, 0);
    expect_lines(WAITS("", "0"));
    assert_int_equal(left_out.claims, 1);
}

static void models_have_a_cap(void **state)
{
    CLEANUP(str_done) Str json = str_limited(GOLDEN_MAX);
    Err err = {0};

    (void)state;
    for (int i = 0; i < CLUSTER_MODELS_MAX + 1; i++) {
        if (i == CLUSTER_MODELS_MAX)
            assert_int_equal(read_json(json.text, &err), 0);
        str_addf(&json,
                 "{'kind':'Node','apiVersion':'v1','metadata':{'name':'n%d','labels':{'nvidia.com/gpu.product':"
                 "'M%d'}},'status':{'allocatable':{'nvidia.com/gpu':'1'}}}\n",
                 i, i);
    }
    assert_int_equal(cluster.model_count, CLUSTER_MODELS_MAX);
    assert_int_equal(read_json(json.text, &err), -EINVAL);
    assert_string_equal(err.text, "in.json: Node n64: metadata.labels: the cluster has more than 64 GPU models");
}

/* --- pods --------------------------------------------------------------------------------------------------------- */

#define ROLE(text) "Pod a/p priority=0\n  role '' 1..1 " text "\n"

static void a_pod_asks_for_what_its_containers_need_at_once(void **state)
{
    (void)state;
    expect_lines(NODE("n", "", "") POD("p", "",
                                       "'containers':[{'resources':{'requests':{'cpu':'500m','memory':'1Gi'}}},"
                                       "{'resources':{'limits':{'cpu':'1','memory':'1','nvidia.com/gpu':'2'}}}],"
                                       "'overhead':{'cpu':'250m','memory':'1Mi'}",
                                       ""),
                 ROLE("cpu=1750 memory=1026 gpus=2"));
    /* the init container that runs beside the sidecar is the peak; the one before it is not */
    expect_lines(NODE("n", "", "")
                     POD("p", "",
                         "'containers':[{'resources':{'requests':{'cpu':'1'}}}],"
                         "'initContainers':[{'resources':{'requests':{'cpu':'3'}}},"
                         "{'restartPolicy':'Always','resources':{'requests':{'cpu':'500m','memory':'1Mi'}}},"
                         "{'resources':{'requests':{'cpu':'2900m'}}}]",
                         ""),
                 ROLE("cpu=3400 memory=1 gpus=0"));
    /* limits count only where there is no request */
    expect_lines(
        NODE("n", "", "") POD(
            "p", "", "'containers':[{'resources':{'requests':{'cpu':'1'},'limits':{'cpu':'8','memory':'2Mi'}}}]", ""),
        ROLE("cpu=1000 memory=2 gpus=0"));
}

static void a_pod_runs_where_it_is_bound(void **state)
{
    (void)state;
    expect_lines(NODE("n", "", "") NODE("m", "", "")
                     POD("p", ",'annotations':{'stoker.dev/gpus':'0,3'},'creationTimestamp':'1970-01-01T00:01:00Z'",
                         "'nodeName':'m'," GPUS("2"), "'phase':'Running','startTime':'1970-01-01T00:02:00Z'"),
                 "Pod a/p priority=0 submitted=60 started=120\n  role '' 1..1 cpu=4000 memory=8192 gpus=2\n"
                 "  runs on m gpus=9 role=0\n");
    /* bound, but its containers do not run yet: it holds its GPUs */
    expect_lines(NODE("n", "", "") POD("p", "", "'nodeName':'n'," GPUS("1"), "'phase':'Pending'"),
                 ROLE("cpu=4000 memory=8192 gpus=1") "  runs on n gpus=0 role=0\n");
    /* ended, being deleted before it was bound, on a node that is not there */
    expect_lines(NODE("n", "", "") POD("done", "", "'nodeName':'n'," GPUS("1"), "'phase':'Succeeded'")
                     POD("failed", "", "'nodeName':'n'," GPUS("1"), "'phase':'Failed'")
                         POD("gone", ",'deletionTimestamp':'2026-01-01T00:00:00Z'", GPUS("1"), "'phase':'Pending'")
                             POD("away", "", "'nodeName':'x'," GPUS("1"), "'phase':'Running'"),
                 "");
    expect_left_out(0, 0, 0, 1, 0);
    /* an annotation that cannot be is as if it were not there */
    expect_lines(NODE("n", "", "") POD("p", ",'annotations':{'stoker.dev/gpus':'8'}", "'nodeName':'n'," GPUS("1"), "")
                     POD("q", ",'annotations':{'stoker.dev/gpus':'1'}", "'nodeName':'n'," GPUS("2"), ""),
                 ROLE("cpu=4000 memory=8192 gpus=1") "  runs on n gpus=0 role=0\n"
                                                     "Pod a/q priority=0\n  role '' 1..1 cpu=4000 memory=8192 gpus=2\n "
                                                     " runs on n "
                                                     "gpus=0 role=0\n");
    assert_int_equal(left_out.annotations, 2);
    expect_error(
        "{'kind':'Node','apiVersion':'v1','metadata':{'name':'n','annotations':{'stoker.dev/gpus-unhealthy':'GPU 3'"
        "}}}",
        "in.json: Node n: metadata.annotations.stoker.dev/gpus-unhealthy: must be numbers of GPUs below 16 such "
        "as \"0,3\"");
}

static void a_waiting_pod_has_its_reasons_and_hints(void **state)
{
    (void)state;
    expect_lines(NODE("n", "", "")
                     POD("p",
                         ",'annotations':{'stoker.dev/checkpoint-interval':'30m','stoker.dev/restart-cost':'5m',"
                         "'stoker.dev/deadline':'1970-01-01T02:00:00+01:00'}",
                         "'priority':100,'activeDeadlineSeconds':50," GPUS("1"),
                         "'conditions':[{'type':'PodScheduled','status':'False','message':'0/1 nodes'}]"),
                 "Pod a/p priority=100 duration=50 checkpoint=1800 restart=300 deadline=3600 said: 0/1 nodes\n"
                 "  role '' 1..1 cpu=4000 memory=8192 gpus=1\n");
    expect_lines(NODE("n", "", "")
                     POD("p", ",'annotations':{'stoker.dev/restart-cost':'soon','stoker.dev/duration':'1h'}", "", ""),
                 "Pod a/p priority=0 duration=3600\n  role '' 1..1 cpu=0 memory=0 gpus=0\n");
    assert_int_equal(left_out.annotations, 1);
}

#define BUDGET(selector, allowed)                                                                                      \
    "{'kind':'PodDisruptionBudget','apiVersion':'policy/v1','metadata':{'namespace':'a','name':'b'},'spec':{"          \
    "'selector':" selector "},'status':{'disruptionsAllowed':" allowed "}}"

static void expect_preemptible(const char *json, bool is)
{
    Err err = {0};

    if (read_json(json, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(cluster.job_count, 1);
    assert_int_equal(cluster.jobs[0].preemptible, is);
}

static void a_pod_can_be_preempted_unless_it_is_protected(void **state)
{
#define LABELED BY("apps/v1", "ReplicaSet", "r") ",'labels':{'app':'x'}"
    (void)state;
    expect_preemptible(NODE("n", "", "") POD("p", LABELED, "", ""), true);
    expect_preemptible(NODE("n", "", "") POD("p", ",'labels':{'app':'x'}", "", ""), false);
    expect_preemptible(NODE("n", "", "") POD("p", BY("apps/v1", "DaemonSet", "d"), "", ""), false);
    expect_preemptible(NODE("n", "", "") POD("p", LABELED, "'priority':2000001000", ""), false);
    expect_preemptible(NODE("n", "", "") BUDGET("{'matchLabels':{'app':'x'}}", "0") POD("p", LABELED, "", ""), false);
    expect_preemptible(NODE("n", "", "") BUDGET("{}", "0") POD("p", LABELED, "", ""), false);
    expect_preemptible(NODE("n", "", "") BUDGET("{'matchLabels':{'app':'x'}}", "1") POD("p", LABELED, "", ""), true);
    expect_preemptible(NODE("n", "", "") BUDGET("{'matchLabels':{'app':'y'}}", "0") POD("p", LABELED, "", ""), true);
    expect_preemptible(NODE("n", "", "") BUDGET("{'matchExpressions':[{'key':'app','operator':'In','values':['x']}]}",
                                                "0") POD("p", LABELED, "", ""),
                       false);
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

#define NODES                                                                                                          \
    NODE("n1", ",'disk':'nvme','zone':'a','gen':'3'", "")                                                              \
    NODE("n2", ",'disk':'nvme','zone':'b','gen':'5'", "'taints':[{'key':'m','value':'true','effect':'NoSchedule'}]")   \
    NODE("n3", ",'disk':'hdd','zone':'c'",                                                                             \
         "'taints':[{'key':'m','effect':'NoExecute'},{'key':'soft','effect':'PreferNoSchedule'}]")
#define TOLERATE_ALL "'tolerations':[{'operator':'Exists'}],"
#define AFFINITY(terms)                                                                                                \
    "'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[" terms "]}}}"
#define EXPRESSION(key, operator, values)                                                                              \
    "{'matchExpressions':[{'key':'" key "','operator':'" operator"','values':[" values "]}]}"
#define RULE(text) ROLE("cpu=0 memory=0 gpus=0") "    " text "\n"

static void a_node_selector_is_a_rule(void **state)
{
    (void)state;
    expect_lines(NODES POD("p", "", TOLERATE_ALL "'nodeSelector':{'disk':'nvme'}", ""),
                 RULE("node selector disk=nvme: n1 n2"));
    expect_lines(NODES POD("p", "", TOLERATE_ALL "'nodeSelector':{'disk':'nvme','zone':'b'}", ""),
                 RULE("node selector disk=nvme, zone=b: n2"));
    expect_lines(NODES POD("p", "", TOLERATE_ALL "'nodeSelector':{'none':''}", ""), RULE("node selector none=:"));
}

static void each_operator_of_affinity_is_a_rule(void **state)
{
    static const char *const rows[][2] = {
        {AFFINITY(EXPRESSION("zone", "In", "'a','b'")), "zone in (a, b): n1 n2"},
        {AFFINITY(EXPRESSION("zone", "NotIn", "'a'")), "zone not in (a): n2 n3"},
        {AFFINITY(EXPRESSION("gen", "NotIn", "'3'")), "gen not in (3): n2 n3"}, /* none has not that one */
        {AFFINITY(EXPRESSION("gen", "Exists", "")), "gen exists: n1 n2"},
        {AFFINITY(EXPRESSION("gen", "DoesNotExist", "")), "gen does not exist: n3"},
        {AFFINITY(EXPRESSION("gen", "Gt", "'3'")), "gen > 3: n2"},
        {AFFINITY(EXPRESSION("gen", "Lt", "'5'")), "gen < 5: n1"},
        {AFFINITY("{'matchFields':[{'key':'metadata.name','operator':'In','values':['n3']}]}"),
         "node name in (n3): n3"},
        {AFFINITY("{'matchExpressions':[{'key':'zone','operator':'In','values':['a','b']},"
                  "{'key':'gen','operator':'Gt','values':['4']}]}"),
         "zone in (a, b) and gen > 4: n2"},
        {AFFINITY(EXPRESSION("zone", "In", "'a'") "," EXPRESSION("disk", "In", "'hdd'")),
         "zone in (a) or disk in (hdd): n1 n3"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect_lines(arena_printf(&arena,
                                  "%s{'kind':'Pod','apiVersion':'v1','metadata':{'namespace':'a','name':'p'},"
                                  "'spec':{%s%s}}",
                                  NODES, TOLERATE_ALL, rows[i][0]),
                     arena_printf(&arena, "%s    node affinity %s\n", ROLE("cpu=0 memory=0 gpus=0"), rows[i][1]));
    expect_lines(NODES POD("p", "", TOLERATE_ALL AFFINITY("{}"), ""), RULE("node affinity that matches no node:"));
    expect_error(NODES POD("p", "", AFFINITY(EXPRESSION("zone", "Like", "'a'")), ""),
                 "in.json: Pod a/p: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
                 "nodeSelectorTerms[0].matchExpressions[0]: operator 'Like' is not known");
}

static void taints_that_are_not_tolerated_are_a_rule(void **state)
{
    (void)state;
    expect_lines(NODES POD("p", "", "", ""), RULE("taints m=true:NoSchedule, m:NoExecute are not tolerated: n1"));
    expect_lines(NODES POD("p", "", "'tolerations':[{'key':'m','value':'true','effect':'NoSchedule'}]", ""),
                 RULE("taint m:NoExecute is not tolerated: n1 n2"));
    expect_lines(NODES POD("p", "", "'tolerations':[{'key':'m','operator':'Equal','value':'false'}]", ""),
                 RULE("taints m=true:NoSchedule, m:NoExecute are not tolerated: n1"));
    expect_lines(NODES POD("p", "", "'tolerations':[{'key':'m','operator':'Exists','effect':'NoExecute'}]", ""),
                 RULE("taint m=true:NoSchedule is not tolerated: n1 n3"));
    expect_lines(NODES POD("p", "", "'tolerations':[{'key':'m','operator':'Exists'}]", ""),
                 ROLE("cpu=0 memory=0 gpus=0"));
    expect_lines(NODES POD("p", "", TOLERATE_ALL "'x':1", ""), ROLE("cpu=0 memory=0 gpus=0"));
    /* an empty key without Exists tolerates nothing */
    expect_lines(NODES POD("p", "", "'tolerations':[{'operator':'Equal'}]", ""),
                 RULE("taints m=true:NoSchedule, m:NoExecute are not tolerated: n1"));
}

static void equal_rules_are_one_list(void **state)
{
    Err err = {0};

    (void)state;
    assert_int_equal(read_json(NODES POD("p", "", "'nodeSelector':{'zone':'a'}", "")
                                   POD("q", "", "'nodeSelector':{'zone':'a'}", "")
                                       POD("s", "", "'nodeSelector':{'zone':'b'}", ""),
                               &err),
                     0);
    assert_int_equal(cluster.jobs[0].roles[0].request.rule_count, 2);
    assert_ptr_equal(cluster.jobs[0].roles[0].request.rules, cluster.jobs[1].roles[0].request.rules);
    assert_ptr_not_equal(cluster.jobs[0].roles[0].request.rules, cluster.jobs[2].roles[0].request.rules);
    assert_ptr_equal(cluster.jobs[0].roles[0].request.rules[1].nodes, cluster.jobs[2].roles[0].request.rules[1].nodes);
}

/* --- gangs -------------------------------------------------------------------------------------------------------- */

#define WORKER "cpu=4000 memory=8192 gpus=8\n"
#define SMALL "cpu=4000 memory=8192 gpus=1\n"

static void each_kind_that_waits_is_one_job(void **state)
{
    static const char *const rows[][2] = {
        {OBJECT("kubeflow.org/v1", "PyTorchJob", "t", "",
                "'spec':{'runPolicy':{'activeDeadlineSeconds':60},'elasticPolicy':{'minReplicas':2,'maxReplicas':6},"
                "'pytorchReplicaSpecs':{'Master':{" TEMPLATE("1") "},'Worker':{'replicas':4," TEMPLATE("8") "}}}"),
         "PyTorchJob a/t priority=0 preemptible duration=60\n  role 'master' 1..1 " SMALL
         "  role 'worker' 2..6 " WORKER},
        {OBJECT(
             "kubeflow.org/v2beta1", "MPIJob", "t", "",
             "'spec':{'mpiReplicaSpecs':{'Launcher':{" TEMPLATE("1") "},'Worker':{'replicas':3," TEMPLATE("8") "}}}"),
         "MPIJob a/t priority=0 preemptible\n  role 'launcher' 1..1 " SMALL "  role 'worker' 3..3 " WORKER},
        {OBJECT("jobset.x-k8s.io/v1alpha2", "JobSet", "t", "",
                "'spec':{'replicatedJobs':[{'name':'w','replicas':2,'template':{'spec':{'parallelism':4,'template':{"
                "'metadata':{'annotations':{'kueue.x-k8s.io/podset-required-topology':"
                "'cloud.provider.com/topology-rack'}},'spec':{" GPUS("8") "}}}}}]}"),
         "JobSet a/t priority=0 preemptible within=rack!\n  role 'w' 8..8 " WORKER},
        {OBJECT("ray.io/v1", "RayJob", "t", "",
                "'spec':{'rayClusterSpec':{'headGroupSpec':{" TEMPLATE(
                    "1") "},'workerGroupSpecs':[{'groupName':'g',"
                         "'replicas':2,'minReplicas':1,'maxReplicas':5," TEMPLATE("8") "}]}}"),
         "RayJob a/t priority=0 preemptible\n  role 'head' 1..1 " SMALL "  role 'g' 1..5 " WORKER},
        {OBJECT("ray.io/v1", "RayCluster", "t", "", "'spec':{'headGroupSpec':{" TEMPLATE("1") "}}"),
         "RayCluster a/t priority=0 preemptible\n  role 'head' 1..1 " SMALL},
        {OBJECT("batch.volcano.sh/v1alpha1", "Job", "t", "",
                "'spec':{'queue':'research','minAvailable':4,'networkTopology':{'mode':'soft','highestTierAllowed':2},"
                "'tasks':[{'name':'m'," TEMPLATE("1") "},{'name':'w','replicas':5," TEMPLATE("8") "}]}"),
         "Volcano Job a/t priority=0 preemptible queue=research within=block\n  role 'm' 1..1 " SMALL
         "  role 'w' 3..5 " WORKER},
        {OBJECT("kueue.x-k8s.io/v1beta1", "Workload", "t", "",
                "'spec':{'queueName':'team','priority':7,'podSets':[{'name':'main','count':4,'minCount':2,"
                "'topologyRequest':{'preferred':'cloud.provider.com/topology-block'}," TEMPLATE(
                    "8") "}]},"
                         "'status':{'conditions':[{'type':'QuotaReserved','status':'False','message':'quota'}]}"),
         "Workload a/t priority=7 preemptible queue=team within=block said: quota\n  role 'main' 2..4 " WORKER},
        {OBJECT("batch/v1", "Job", "t",
                ",'creationTimestamp':'1970-01-01T00:01:00Z',"
                "'labels':{'kueue.x-k8s.io/queue-name':'team'}",
                "'spec':{'suspend':true,'parallelism':3,'activeDeadlineSeconds':9," TEMPLATE("8") "}"),
         "Job a/t priority=0 preemptible queue=team submitted=60 duration=9\n  role '' 3..3 " WORKER},
        {OBJECT("batch/v1", "Job", "t", "", "'spec':{'completionMode':'Indexed','parallelism':2," TEMPLATE("8") "}"),
         "Job a/t priority=0 preemptible\n  role '' 2..2 " WORKER},
        {OBJECT("apps/v1", "StatefulSet", "t", "", "'spec':{'replicas':2," TEMPLATE("8") "}"),
         "StatefulSet a/t priority=0 preemptible\n  role '' 2..2 " WORKER},
        {OBJECT("batch.volcano.sh/v1alpha1", "Job", "t", "",
                "'spec':{'tasks':[{'name':'m','minAvailable':9,'replicas':2," TEMPLATE("1") "},{'name':'w'," TEMPLATE(
                    "8") "}]}"),
         "Volcano Job a/t priority=0 preemptible\n  role 'm' 2..2 " SMALL "  role 'w' 1..1 " WORKER},
        /* not gangs, not waiting, or over */
        {OBJECT("batch/v1", "Job", "t", "", "'spec':{'parallelism':2," TEMPLATE("8") "}"), ""},
        {OBJECT("batch/v1", "Job", "t", "", "'spec':{'suspend':true,'completionMode':'Indexed'," TEMPLATE("8") "}"),
         ""},
        {OBJECT("apps/v1", "StatefulSet", "t", "", "'spec':{'replicas':1," TEMPLATE("8") "}"), ""},
        {OBJECT("apps/v1", "StatefulSet", "t", "", "'spec':{'replicas':0," TEMPLATE("8") "}"), ""},
        {OBJECT("batch/v1", "Job", "t", "",
                "'spec':{'completionMode':'Indexed'," TEMPLATE("8") "},'status':{'conditions':[{'type':'Complete',"
                                                                    "'status':'True'}]}"),
         ""},
        {OBJECT("ray.io/v1", "RayJob", "t", "",
                "'spec':{'rayClusterSpec':{'headGroupSpec':{" TEMPLATE("1") "}}},'status':{'jobStatus':'SUCCEEDED'}"),
         ""},
        {OBJECT("batch.volcano.sh/v1alpha1", "Job", "t", "",
                "'spec':{'tasks':[{'name':'m'," TEMPLATE("1") "}]},'status':{'state':{'phase':'Completed'}}"),
         ""},
        {OBJECT("kubeflow.org/v1", "TFJob", "t", "", "'spec':{}"), ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect_lines(arena_printf(&arena, "%s%s", NODE("n", "", ""), rows[i][0]), rows[i][1]);
}

/* `labels` and owner are those that the kind's controller gives its pods. Each gang has two. */
static void pods_join_their_gang_without_its_object(void **state)
{
#define PODS(meta1, meta2)                                                                                             \
    POD("x-0", meta1, "'nodeName':'n'," GPUS("8"), "'phase':'Running'") POD("x-1", meta2, GPUS("8"), "")
#define TWO "  role '' 2..2 " WORKER "  runs on n gpus=0 role=0\n"
#define ONE_AND_ONE(a, b) "  role '" a "' 1..1 " WORKER "  role '" b "' 1..1 " WORKER "  runs on n gpus=0 role=0\n"
    static const char *const rows[][2] = {
        {PODS(",'labels':{'training.kubeflow.org/job-name':'t','training.kubeflow.org/replica-type':'master'}" BY(
                  "kubeflow.org/v1", "PyTorchJob", "t"),
              ",'labels':{'training.kubeflow.org/job-name':'t','training.kubeflow.org/replica-type':'worker'}" BY(
                  "kubeflow.org/v1", "PyTorchJob", "t")),
         "PyTorchJob a/t priority=0 preemptible\n" ONE_AND_ONE("master", "worker")},
        {PODS(",'labels':{'training.kubeflow.org/job-name':'t','training.kubeflow.org/job-role':'launcher'}" BY(
                  "batch/v1", "Job", "t-launcher"),
              ",'labels':{'training.kubeflow.org/job-name':'t','training.kubeflow.org/job-role':'worker'}" BY(
                  "kubeflow.org/v2beta1", "MPIJob", "t")),
         "MPIJob a/t priority=0 preemptible\n" ONE_AND_ONE("launcher", "worker")},
        {PODS(",'labels':{'jobset.sigs.k8s.io/jobset-name':'t','jobset.sigs.k8s.io/replicatedjob-name':'w',"
              "'batch.kubernetes.io/job-name':'t-w-0'}" BY("batch/v1", "Job", "t-w-0"),
              ",'labels':{'jobset.sigs.k8s.io/jobset-name':'t','jobset.sigs.k8s.io/replicatedjob-name':'w',"
              "'batch.kubernetes.io/job-name':'t-w-1'}" BY("batch/v1", "Job", "t-w-1")),
         "JobSet a/t priority=0 preemptible\n  role 'w' 2..2 " WORKER "  runs on n gpus=0 role=0\n"},
        {PODS(",'labels':{'ray.io/cluster':'t','ray.io/group':'headgroup'}" BY("ray.io/v1", "RayCluster", "t"),
              ",'labels':{'ray.io/cluster':'t','ray.io/group':'g'}" BY("ray.io/v1", "RayCluster", "t")),
         "RayCluster a/t priority=0 preemptible\n" ONE_AND_ONE("headgroup", "g")},
        {PODS(",'labels':{'volcano.sh/job-name':'t'},'annotations':{'volcano.sh/task-spec':'m',"
              "'scheduling.k8s.io/group-name':'t-uid'}" BY("batch.volcano.sh/v1alpha1", "Job", "t"),
              ",'labels':{'volcano.sh/job-name':'t'},'annotations':{'volcano.sh/task-spec':'w',"
              "'scheduling.k8s.io/group-name':'t-uid'}" BY("batch.volcano.sh/v1alpha1", "Job", "t")),
         "Volcano Job a/t priority=0 preemptible\n" ONE_AND_ONE("m", "w")},
        {PODS(",'labels':{'batch.kubernetes.io/job-name':'t'},'annotations':{"
              "'batch.kubernetes.io/job-completion-index':'0'}" BY("batch/v1", "Job", "t"),
              ",'labels':{'batch.kubernetes.io/job-name':'t'},'annotations':{"
              "'batch.kubernetes.io/job-completion-index':'1'}" BY("batch/v1", "Job", "t")),
         "Job a/t priority=0 preemptible\n" TWO},
        {PODS(BY("apps/v1", "StatefulSet", "t"), BY("apps/v1", "StatefulSet", "t")),
         "StatefulSet a/t priority=0 preemptible\n" TWO},
        {PODS(",'labels':{'scheduling.x-k8s.io/pod-group':'t'}", ",'labels':{'scheduling.x-k8s.io/pod-group':'t'}"),
         "PodGroup a/t priority=0\n" TWO},
        {PODS(",'labels':{'pod-group.scheduling.sigs.k8s.io':'t'}",
              ",'labels':{'pod-group.scheduling.sigs.k8s.io':'t'}"),
         "PodGroup a/t priority=0\n" TWO},
        {PODS(",'annotations':{'scheduling.k8s.io/group-name':'t'}",
              ",'annotations':{'scheduling.k8s.io/group-name':'t'}"),
         "PodGroup a/t priority=0\n" TWO},
        {PODS(",'labels':{'kueue.x-k8s.io/pod-group-name':'t','kueue.x-k8s.io/queue-name':'team'}",
              ",'labels':{'kueue.x-k8s.io/pod-group-name':'t','kueue.x-k8s.io/queue-name':'team'}"),
         "PodGroup a/t priority=0 queue=team\n" TWO},
        {PODS(",'labels':{'leaderworkerset.sigs.k8s.io/name':'t','leaderworkerset.sigs.k8s.io/group-index':'3'}",
              ",'labels':{'leaderworkerset.sigs.k8s.io/name':'t','leaderworkerset.sigs.k8s.io/group-index':'3'}"),
         "LeaderWorkerSet a/t-3 priority=0\n" TWO},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect_lines(arena_printf(&arena, "%s%s", NODE("n", "", ""), rows[i][0]), rows[i][1]);
}

static void pods_join_their_gang_with_its_object(void **state)
{
#define RAY                                                                                                            \
    "{'headGroupSpec':{" TEMPLATE("1") "},'workerGroupSpecs':[{'groupName':'g','replicas':2," TEMPLATE("8") "}]}"
#define RAY_POD(group, gpus)                                                                                           \
    POD("x-" group,                                                                                                    \
        ",'labels':{'ray.io/cluster':'t-abc','ray.io/group':'" group "'}" BY("ray.io/v1", "RayCluster", "t-abc"),      \
        "'nodeName':'n'," GPUS(gpus), "")
#define RAY_IS                                                                                                         \
    "RayJob a/t priority=0 preemptible\n  role 'head' 1..1 " SMALL "  role 'g' 2..2 " WORKER                           \
    "  runs on n gpus=0 role=0\n  runs on n gpus=0 role=1\n"
    (void)state;
    /* by the cluster that the RayJob owns, and by the name in its status */
    expect_lines(NODE("n", "", "") OBJECT("ray.io/v1", "RayJob", "t", "", "'spec':{'rayClusterSpec':" RAY "}")
                     OBJECT("ray.io/v1", "RayCluster", "t-abc", BY("ray.io/v1", "RayJob", "t"), "'spec':" RAY)
                         RAY_POD("headgroup", "1") RAY_POD("g", "8"),
                 RAY_IS);
    expect_lines(NODE("n", "", "") OBJECT("ray.io/v1", "RayJob", "t", "",
                                          "'spec':{'rayClusterSpec':" RAY "},'status':{'rayClusterName':'t-abc'}")
                     RAY_POD("headgroup", "1") RAY_POD("g", "8"),
                 RAY_IS);
    /* what pods ask for replaces what the template asks for, and more pods than the object says count */
    expect_lines(NODE("n", "", "") OBJECT("apps/v1", "StatefulSet", "t", "", "'spec':{'replicas':2," TEMPLATE("8") "}")
                     POD("t-0", BY("apps/v1", "StatefulSet", "t"), GPUS("4"), "")
                         POD("t-1", BY("apps/v1", "StatefulSet", "t"), GPUS("4"), "")
                             POD("t-2", BY("apps/v1", "StatefulSet", "t"), GPUS("4"), ""),
                 "StatefulSet a/t priority=0 preemptible\n  role '' 2..3 cpu=4000 memory=8192 gpus=4\n");
    /* a job whose pods are each of use alone */
    expect_lines(NODE("n", "", "") OBJECT("batch/v1", "Job", "t", "", "'spec':{'parallelism':2," TEMPLATE("1") "}")
                     POD("t-0", ",'labels':{'job-name':'t'}" BY("batch/v1", "Job", "t"), GPUS("1"), ""),
                 "Pod a/t-0 priority=0 preemptible\n  role '' 1..1 " SMALL);
    expect_lines(NODE("n", "", "")
                     OBJECT("scheduling.volcano.sh/v1beta1", "PodGroup", "t", "", "'spec':{'minMember':1,'queue':'q'}")
                         PODS(",'annotations':{'scheduling.k8s.io/group-name':'t'}",
                              ",'annotations':{'scheduling.k8s.io/group-name':'t'}"),
                 "PodGroup a/t priority=0 queue=q\n  role '' 1..2 " WORKER "  runs on n gpus=0 role=0\n");
}

static void a_workload_completes_the_job_that_owns_it(void **state)
{
    (void)state;
    expect_lines(NODE("n", "", "") OBJECT("kueue.x-k8s.io/v1beta1", "ClusterQueue", "cq", "", "'spec':{}")
                     OBJECT("kueue.x-k8s.io/v1beta1", "LocalQueue", "team", "", "'spec':{'clusterQueue':'cq'}")
                         OBJECT("batch/v1", "Job", "t", ",'labels':{'kueue.x-k8s.io/queue-name':'team'}",
                                "'spec':{'suspend':true,'parallelism':2," TEMPLATE("8") "}")
                             OBJECT("kueue.x-k8s.io/v1beta1", "Workload", "job-t", BY("batch/v1", "Job", "t"),
                                    "'spec':{'priority':5,'podSets':[{'count':2," TEMPLATE(
                                        "8") "}]},"
                                             "'status':{'conditions':[{'type':'QuotaReserved','status':'False',"
                                             "'message':'no quota'}]}"),
                 "queue cq parent=- nominal=0 weight=1 borrowing=0 lending=0\n"
                 "Job a/t priority=5 preemptible queue=cq said: no quota\n  role '' 2..2 " WORKER);
    /* of a job that is not in the input */
    expect_lines(NODE("n", "", "")
                     OBJECT("kueue.x-k8s.io/v1beta1", "Workload", "w", BY("kubeflow.org/v1", "PyTorchJob", "t"),
                            "'spec':{'podSets':[{'name':'worker','count':2," TEMPLATE("8") "}]}"),
                 "PyTorchJob a/t priority=0 preemptible\n  role 'worker' 2..2 " WORKER);
    expect_lines(NODE("n", "", "") OBJECT(
                     "kueue.x-k8s.io/v1beta1", "Workload", "w", "",
                     "'spec':{'podSets':[{'name':'m','count':1," TEMPLATE("8") "}]},'status':{'conditions':["
                                                                               "{'type':'Finished','status':'True'}]}"),
                 "");
}

static void roles_beyond_the_model_are_jobs_of_their_own(void **state)
{
#define TASK(name) "{'name':'" name "'," TEMPLATE("1") "}"
    (void)state;
    expect_lines(NODE("n", "", "")
                     OBJECT("batch.volcano.sh/v1alpha1", "Job", "t", "",
                            "'spec':{'tasks':[" TASK("a") "," TASK("b") "," TASK("c") "," TASK("d") "," TASK("e") "]}"),
                 "Volcano Job a/t priority=0 preemptible\n  role 'a' 1..1 " SMALL "  role 'b' 1..1 " SMALL
                 "  role 'c' 1..1 " SMALL "  role 'd' 1..1 " SMALL);
    expect_left_out(0, 0, 0, 0, 1);
}

static void affinity_between_the_pods_of_a_gang_is_a_domain(void **state)
{
#define NEAR(meta, list)                                                                                               \
    NODE("n", "", "")                                                                                                  \
    OBJECT("batch/v1", "Job", "t", "",                                                                                 \
           "'spec':{'completionMode':'Indexed','template':{'metadata':{" meta                                          \
           "},'spec':{" GPUS("1") ",'affinity':{'podAffinity':{" list "}}}}}")
#define REQUIRED(selector)                                                                                             \
    "'requiredDuringSchedulingIgnoredDuringExecution':[{'topologyKey':'topology.kubernetes.io/"                        \
    "rack','labelSelector':{" selector "}}]"
#define PREFERRED(selector)                                                                                            \
    "'preferredDuringSchedulingIgnoredDuringExecution':[{'weight':1,'podAffinityTerm':{'topologyKey':"                 \
    "'nvidia.com/gpu.clique','labelSelector':{" selector "}}}]"
    static const char *const rows[][2] = {
        {NEAR("", REQUIRED("'matchLabels':{'batch.kubernetes.io/job-name':'t'}")), " within=rack!"},
        {NEAR("'labels':{'app':'x'}", REQUIRED("'matchLabels':{'app':'x'}")), " within=rack!"},
        {NEAR("", PREFERRED("'matchLabels':{'job-name':'t'}")), " within=nvlink"},
        {NEAR("'labels':{'app':'x'}", REQUIRED("'matchLabels':{'app':'cache'}")), ""}, /* near other pods */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect_lines(rows[i][0],
                     arena_printf(&arena, "Job a/t priority=0 preemptible%s\n  role '' 1..1 %s", rows[i][1], SMALL));
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

static void queues_have_their_quotas(void **state)
{
    (void)state;
    expect_lines(NODE("n", "", "")
                     OBJECT("kueue.x-k8s.io/v1beta1", "ClusterQueue", "cq", "",
                            "'spec':{'cohort':'all','fairSharing':{'weight':'2'},'resourceGroups':[{'flavors':["
                            "{'name':'h100','resources':[{'name':'cpu','nominalQuota':'900'},{'name':'nvidia.com/gpu',"
                            "'nominalQuota':'16','borrowingLimit':'8','lendingLimit':'0'}]},"
                            "{'name':'a100','resources':[{'name':'nvidia.com/gpu','nominalQuota':4,"
                            "'borrowingLimit':'1','lendingLimit':'4'}]}]}]}")
                         OBJECT("kueue.x-k8s.io/v1beta2", "ClusterQueue", "other", "",
                                "'spec':{'cohortName':'all','resourceGroups':[{'flavors':[{'resources':["
                                "{'name':'nvidia.com/gpu','nominalQuota':'1'}]}]}]}")
                             OBJECT("kueue.x-k8s.io/v1alpha1", "Cohort", "all", "", "'spec':{'parent':'root'}")
                                 OBJECT("scheduling.run.ai/v2", "Queue", "kai", "",
                                        "'spec':{'parentQueue':'dept','resources':{'gpu':{'quota':4,'limit':6,"
                                        "'overQuotaWeight':3}}}")
                                     OBJECT("scheduling.run.ai/v2", "Queue", "dept", "",
                                            "'spec':{'resources':{'gpu':{'quota':10,'limit':-1}}}"),
                 "queue cq parent=cohort all nominal=20000 weight=2 borrowing=9000 lending=4000\n"
                 "queue other parent=cohort all nominal=1000 weight=1\n"
                 "queue cohort all parent=cohort root nominal=0 weight=1 borrowing=0 lending=0\n"
                 "queue kai parent=dept nominal=4000 weight=3 borrowing=2000\n"
                 "queue dept parent=- nominal=10000 weight=1\n"
                 "queue cohort root parent=- nominal=0 weight=1\n");
}

/* --- the input ---------------------------------------------------------------------------------------------------- */

static void lists_and_documents_are_one_cluster(void **state)
{
    (void)state;
    expect_lines("{'kind':'List','apiVersion':'v1','items':[" NODE("n", "", "") "," POD("p", "", "", "") "]}\n",
                 ROLE("cpu=0 memory=0 gpus=0"));
    /* items of a list of one kind have no kind of their own; what comes twice counts once */
    expect_lines("{'kind':'NodeList','apiVersion':'v1','items':[{'metadata':{'name':'n'}}]}"
                 "{'kind':'PodList','apiVersion':'v1','items':[{'metadata':{'name':'p','namespace':'a'}}]}" POD(
                     "p", "", GPUS("1"), ""),
                 ROLE("cpu=0 memory=0 gpus=0"));
}

static void broken_input_is_refused_with_its_place(void **state)
{
    (void)state;
    expect_error("", "in.json: is empty");
    expect_error("nodes:\n- a\n", "in.json:1:5: no JSON: '[' or '{' expected near 'nodes'");
    expect_error("[]", "in.json: must be objects, not a list or a value");
    expect_error("{}", "in.json: an object without kind: kubectl get nodes,pods -A -o json prints them");
    expect_error("{'kind':'List','items':3}", "in.json: items: must be a list, not a whole number");
    expect_error("{'kind':'List','items':[]}", "in.json: no node; 'kubectl get nodes,pods -A -o json' prints both");
    expect_error("{'kind':'Node','apiVersion':'v1'}", "in.json: Node : metadata.name: is missing");
    expect_error(NODE("n", "", "") "{'kind':'Pod','apiVersion':'v1','metadata':{'name':'p'},'spec':[]}",
                 "in.json: Pod p: spec: must be an object, not a list");
    expect_error(NODE("n", "", "") POD("p", "", "'containers':[{},{'resources':{'limits':{'cpu':'12q'}}}]", ""),
                 "in.json: Pod a/p: spec.containers[1].resources.limits.cpu: '12q' is no quantity such as 500m, 4 or "
                 "16Gi");
    expect_error(NODE("n", "", "") POD("p", "", "'priority':'high'", ""),
                 "in.json: Pod a/p: spec.priority: must be a whole number, not a text");
    expect_error(NODE("n", "", "") POD("p", "", "'nodeSelector':{'a':1}", ""),
                 "in.json: Pod a/p: spec.nodeSelector: the value of 'a' must be a text");
    expect_error(NODE("n", "", "") OBJECT("apps/v1", "StatefulSet", "t", "", "'spec':{'replicas':-1}"),
                 "in.json: StatefulSet a/t: spec.replicas: -1 is not in 0 to 1000000");
    expect_error(NODE("n", "", "")
                     OBJECT("kubeflow.org/v1", "PyTorchJob", "t", "", "'spec':{'pytorchReplicaSpecs':{'Worker':7}}"),
                 "in.json: PyTorchJob a/t: spec.pytorchReplicaSpecs.Worker: must be an object");
    expect_error(BARE_NODE("", "", "'allocatable':{'nvidia.com/gpu':'17'}"),
                 "in.json: Node n: status.capacity: 17 GPUs, at most 16 of a node are supported");
}

/* Cut anywhere, it is refused, and nothing is changed. */
static void truncated_input_is_refused(void **state)
{
    const char *json = "{'kind':'List','apiVersion':'v1','items':[" NODES "]}";
    Err err = {0};

    (void)state;
    cluster = (Cluster){.node_count = 99};
    for (size_t len = 0; len < strlen(json); len++)
        assert_true(read_json(arena_strndup(&arena, json, len), &err) < 0);
    assert_int_equal(cluster.node_count, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_node_has_what_it_can_allocate, start_anew),
        cmocka_unit_test_setup(a_node_is_closed_or_spot, start_anew),
        cmocka_unit_test_setup(shared_gpus_are_left_out, start_anew),
        cmocka_unit_test_setup(a_gang_of_shared_gpus_is_left_out_whole, start_anew),
        cmocka_unit_test_setup(mig_instances_of_a_node_are_counted, start_anew),
        cmocka_unit_test_setup(pods_ask_for_one_mig_instance, start_anew),
        cmocka_unit_test_setup(a_running_pod_holds_all_its_instances, start_anew),
        cmocka_unit_test_setup(a_gang_may_ask_for_mig_instances, start_anew),
        cmocka_unit_test_setup(names_of_profiles_have_a_cap, start_anew),
        cmocka_unit_test_setup(an_empty_list_is_no_object, start_anew),
        cmocka_unit_test_setup(a_node_has_the_gpus_of_its_slices, start_anew),
        cmocka_unit_test_setup(claims_hold_their_gpus, start_anew),
        cmocka_unit_test_setup(pods_ask_by_their_claims, start_anew),
        cmocka_unit_test_setup(claims_that_cannot_be_said_are_left_out, start_anew),
        cmocka_unit_test_setup(models_have_a_cap, start_anew),
        cmocka_unit_test_setup(a_pod_asks_for_what_its_containers_need_at_once, start_anew),
        cmocka_unit_test_setup(a_pod_runs_where_it_is_bound, start_anew),
        cmocka_unit_test_setup(a_waiting_pod_has_its_reasons_and_hints, start_anew),
        cmocka_unit_test_setup(a_pod_can_be_preempted_unless_it_is_protected, start_anew),
        cmocka_unit_test_setup(a_node_selector_is_a_rule, start_anew),
        cmocka_unit_test_setup(each_operator_of_affinity_is_a_rule, start_anew),
        cmocka_unit_test_setup(taints_that_are_not_tolerated_are_a_rule, start_anew),
        cmocka_unit_test_setup(equal_rules_are_one_list, start_anew),
        cmocka_unit_test_setup(each_kind_that_waits_is_one_job, start_anew),
        cmocka_unit_test_setup(pods_join_their_gang_without_its_object, start_anew),
        cmocka_unit_test_setup(pods_join_their_gang_with_its_object, start_anew),
        cmocka_unit_test_setup(a_workload_completes_the_job_that_owns_it, start_anew),
        cmocka_unit_test_setup(roles_beyond_the_model_are_jobs_of_their_own, start_anew),
        cmocka_unit_test_setup(affinity_between_the_pods_of_a_gang_is_a_domain, start_anew),
        cmocka_unit_test_setup(queues_have_their_quotas, start_anew),
        cmocka_unit_test_setup(lists_and_documents_are_one_cluster, start_anew),
        cmocka_unit_test_setup(broken_input_is_refused_with_its_place, start_anew),
        cmocka_unit_test_setup(truncated_input_is_refused, start_anew),
    };
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);

    arena_done(&arena);
    return rc;
}
