/* SPDX-License-Identifier: Apache-2.0 */
/* The tree as a whole: reading the node's state, writing it, and rewriting the files that a change affects. */
#include "sim/node/tree.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/state.h"
#include "sim/node/tree_part.h"

#define MARK ".stoker-node" /* in folders that we may empty */

static bool is_up(uint32_t driver)
{
    return driver != SIM_DRIVER_UNLOADED;
}

static void look_mig(const SimCond *cond, NodeTreeGpu *out)
{
    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (cond->gi[i].used)
            out->gi[out->gi_count++] = cond->gi[i].id;
    for (uint32_t i = 0; i < SIM_CI_MAX; i++)
        if (cond->ci[i].used) {
            out->ci[out->ci_count][0] = cond->ci[i].gi_id;
            out->ci[out->ci_count++][1] = cond->ci[i].id;
        }
}

static void read_gpu(NodeTree *tree, uint32_t gpu, uint64_t t_ns)
{
    NodeTreeGpu *out = &tree->gpus[gpu];
    SimNow now;
    sim_state_at(tree->image, gpu, t_ns, &now);
    tree_processes_look(tree->image, &now, &tree->processes);
    memset(out, 0, sizeof *out); /* compared as bytes */
    out->present = now.cond.present != 0;
    out->lost = now.cond.lost != 0;
    out->asleep = now.cond.set[SIM_KEY_ASLEEP] != 0;
    out->driver = is_up(tree->driver) && out->present;
    out->pcie_gen = now.pcie_gen;
    out->pcie_width = now.pcie_width;
    memcpy(out->aer, now.cond.aer, sizeof out->aer);
    memcpy(out->port_aer, now.cond.port_aer, sizeof out->port_aer);
    out->slot_gen = now.cond.set[SIM_KEY_SLOT_GEN];
    out->slot_width = now.cond.set[SIM_KEY_SLOT_WIDTH];
    if (out->driver)
        look_mig(&now.cond, out);
}

static void look_gpus(NodeTree *tree, uint64_t t_ns)
{
    tree->processes.count = 0;
    for (uint32_t g = 0; g < tree->image->gpu_count; g++)
        read_gpu(tree, g, t_ns);
}

/* What is the node's own. */
static void look_node(NodeTree *tree, uint64_t t_ns)
{
    SimNodeSeg node;
    sim_node_at(tree->image, t_ns, &node);
    tree->driver = node.key[SIM_NODE_DRIVER];
    tree->fabric_manager = node.key[SIM_NODE_FABRIC_MANAGER];
    tree->persistenced = node.key[SIM_NODE_PERSISTENCED];
    tree->stuck = node.key[SIM_NODE_STUCK];
}

static bool same_tasks(const NodeTree *a, const NodeTree *b)
{
    return a->driver == b->driver && a->fabric_manager == b->fabric_manager && a->persistenced == b->persistenced &&
           a->stuck == b->stuck;
}

/* ---- the folder ---- */

static int empty_or_ours(const char *root, Err *err)
{
    CLEANUP(closedir_at) DIR *dir = opendir(root);
    bool marked = false, any = false;
    if (!dir)
        return err_errno(err, "open '%s'", root);
    for (struct dirent *e; (e = readdir(dir));) {
        marked |= strcmp(e->d_name, MARK) == 0;
        any |= strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    if (any && !marked)
        return err_set(err, -EEXIST, "'%s' holds other files; give a new or empty folder", root);
    return 0;
}

static int folder_make(const char *root, Err *err)
{
    static const char *const parts[] = {"proc", "sys", "dev", "etc", "var", "usr"};
    TRY(file_make_dirs(root, 0755, err));
    TRY(empty_or_ours(root, err));
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        TRY(file_remove_tree(root, parts[i], err));
    return 0;
}

/* ---- writing ---- */

static void put_devices(const NodeTree *tree, Put *put)
{
    uint32_t real = tree->flags & NODE_TREE_DEVICES;
    put_in(put, "dev");
    put_device(put, "nvidiactl", DEV_MODE, real ? DEV_MAJOR : 0, DEV_MINOR_CTL);
    put_device(put, "nvidia-modeset", DEV_MODE, real ? DEV_MAJOR : 0, DEV_MINOR_MODESET);
    put_device(put, "nvidia-uvm", DEV_MODE, real ? DEV_MAJOR_UVM : 0, 0);
    put_device(put, "nvidia-uvm-tools", DEV_MODE, real ? DEV_MAJOR_UVM : 0, 1);
    if (tree->layout.switch_count)
        put_device(put, "nvidia-nvswitchctl", DEV_MODE, real ? DEV_MAJOR_NVSWITCH : 0, 255);
    for (uint32_t i = 0; i < tree->layout.switch_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "nvidia-nvswitch%u", i);
        put_device(put, name, DEV_MODE, real ? DEV_MAJOR_NVSWITCH : 0, i);
    }
    put_in(put, "dev/nvidia-caps");
    put_device(put, "nvidia-cap1", DEV_MODE_ADMIN, real ? DEV_MAJOR_CAPS : 0, 1);
    put_device(put, "nvidia-cap2", DEV_MODE_ADMIN, real ? DEV_MAJOR_CAPS : 0, 2);
}

static void device_of_gpu(const NodeTree *tree, Put *put, uint32_t gpu)
{
    char name[32];
    uint32_t minor_number = tree->image->gpus[gpu].minor;
    snprintf(name, sizeof name, "nvidia%u", minor_number);
    if (!tree->gpus[gpu].present) {
        put_gone(put, "dev/%s", name);
        return;
    }
    put_in(put, "dev");
    put_device(put, name, DEV_MODE, tree->flags & NODE_TREE_DEVICES ? DEV_MAJOR : 0, minor_number);
}

/* Writes all files of one GPU after the old ones were removed. */
static void gpu_anew(const NodeTree *tree, Put *put, uint32_t gpu, const NodeTreeGpu *old)
{
    const NodeTreeGpu *now = &tree->gpus[gpu];
    if (old && !now->present)
        tree_pci_gpu_gone(tree, put, gpu);
    if (now->present)
        tree_pci_fn(tree, put, tree->layout.gpu[gpu], FN_ALL);
    tree_driver_gpu(tree, put, gpu);
    tree_mig_gpu(tree, put, gpu, old);
    device_of_gpu(tree, put, gpu);
}

static void gpu_changed(const NodeTree *tree, Put *put, uint32_t gpu, const NodeTreeGpu *old)
{
    const NodeTreeGpu *now = &tree->gpus[gpu];
    int fn = tree->layout.gpu[gpu], above = tree->layout.fn[fn].parent;
    int link = old->pcie_gen != now->pcie_gen || old->pcie_width != now->pcie_width || old->lost != now->lost ||
               old->asleep != now->asleep || old->present != now->present || old->slot_gen != now->slot_gen ||
               old->slot_width != now->slot_width;
    if (link && above != SIM_NONE)
        tree_pci_fn(tree, put, above, FN_LINK);
    if (above != SIM_NONE && memcmp(old->port_aer, now->port_aer, sizeof now->port_aer) != 0)
        tree_pci_fn(tree, put, above, FN_AER);
    if (old->present != now->present || old->driver != now->driver) {
        gpu_anew(tree, put, gpu, old);
        return;
    }
    if (!now->present)
        return;
    if (link)
        tree_pci_fn(tree, put, fn, FN_LINK);
    if (memcmp(old->aer, now->aer, sizeof now->aer) != 0)
        tree_pci_fn(tree, put, fn, FN_AER);
    if (old->gi_count != now->gi_count || old->ci_count != now->ci_count ||
        memcmp(old->gi, now->gi, sizeof now->gi) != 0 || memcmp(old->ci, now->ci, sizeof now->ci) != 0)
        tree_mig_gpu(tree, put, gpu, old);
}

int node_tree_write(SimImage *image, const char *root, uint64_t t_ns, uint32_t flags, NodeTree *ret, Err *err)
{
    NodeTree tree = {.image = image, .flags = flags};
    Put put;
    look_node(&tree, t_ns);
    tree.carried_ns = t_ns;
    if (snprintf(tree.root, sizeof tree.root, "%s", root) >= (int)sizeof tree.root)
        return err_set(err, -ENAMETOOLONG, "'%.40s...' is longer than %d bytes", root, NODE_TREE_ROOT_MAX - 1);
    TRY(folder_make(root, err));
    pci_layout(image, &tree.layout);
    look_gpus(&tree, t_ns);
    TRY(put_begin(&put, tree.root, err));
    put.fresh = true;
    put_in(&put, ".");
    put_text(&put, MARK, "Made by stoker sim; everything in this folder is replaced at the next start.\n");
    put_in(&put, "sys/class/dmi/id");
    put_line(&put, "product_name", "Stoker simulated node"); /* boards are real, the machine around them is none */
    tree_pci_drivers(&tree, &put);
    for (uint32_t i = 0; i < tree.layout.count; i++)
        if (tree.layout.fn[i].kind != PCI_GPU)
            tree_pci_fn(&tree, &put, (int)i, FN_ALL);
    tree_infiniband(&tree, &put);
    tree_driver(&tree, &put);
    tree_boot(&tree, &put, t_ns);
    tree_tasks(&tree, &put, 0);
    tree_processes(&tree, &put, NULL, t_ns);
    put_devices(&tree, &put);
    for (uint32_t g = 0; g < image->gpu_count; g++)
        gpu_anew(&tree, &put, g, NULL);
    TRY(put_end(&put));
    *ret = tree;
    return 0;
}

#define TRAFFIC_PACE_NS (SIM_NS / 4) /* of counters of adapters, real time */

static void driver_changed(const NodeTree *tree, Put *put)
{
    tree_pci_drivers(tree, put);
    tree_driver(tree, put);
    for (uint32_t i = 0; i < tree->layout.switch_count; i++)
        tree_pci_fn(tree, put, tree->layout.nvswitch[i], FN_DRIVER);
    for (uint32_t g = 0; g < tree->image->gpu_count; g++)
        tree_driver_gpu(tree, put, g);
}

static bool traffic_due(const NodeTree *tree, uint64_t t_ns)
{
    const double speed = sim_clock_speed(tree->image);
    const double pace_ns = (double)TRAFFIC_PACE_NS * (speed > 1 ? speed : 1);

    return tree->image->network_permille > 0 && (double)t_ns - (double)tree->carried_ns >= pace_ns;
}

int node_tree_update(NodeTree *tree, uint64_t t_ns, Err *err)
{
    NodeTreeGpu old[SIM_GPU_MAX];
    NodeTree before = {.driver = tree->driver,
                       .fabric_manager = tree->fabric_manager,
                       .persistenced = tree->persistenced,
                       .stuck = tree->stuck,
                       .processes = tree->processes};
    bool changed[SIM_GPU_MAX], any = tree->stale;
    memcpy(old, tree->gpus, sizeof old);
    look_node(tree, t_ns);
    any |= !same_tasks(&before, tree);
    look_gpus(tree, t_ns);
    const bool processes = tree->stale || tree_processes_due(tree, &before.processes, t_ns);
    const bool traffic = tree->stale || traffic_due(tree, t_ns);
    any |= processes || traffic;
    for (uint32_t g = 0; g < tree->image->gpu_count; g++) {
        changed[g] = memcmp(&old[g], &tree->gpus[g], sizeof old[g]) != 0;
        any |= changed[g];
    }
    if (!any)
        return 0;
    Put put;
    put_begin(&put, tree->root, err);
    if (tree->driver != before.driver || tree->stale)
        driver_changed(tree, &put);
    if (!same_tasks(&before, tree) || tree->stale)
        tree_tasks(tree, &put, before.stuck);
    for (uint32_t g = 0; g < tree->image->gpu_count; g++) {
        if (tree->stale)
            gpu_anew(tree, &put, g, &old[g]);
        else if (changed[g])
            gpu_changed(tree, &put, g, &old[g]);
    }
    if (processes)
        tree_processes(tree, &put, &before.processes, t_ns);
    if (traffic) {
        tree->carried_ns = t_ns;
        tree_traffic(tree, &put);
    }
    int rc = put_end(&put);
    tree->stale = rc < 0;
    return rc < 0 ? rc : NODE_TREE_CHANGED;
}
