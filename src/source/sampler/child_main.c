/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stoker-sampler: the process that talks to the driver, and the only one that may hang. Started by the agent, or by
 * systemd for a connection of the agent's; see protocol.h. SIGTERM ends it as it ends any program: there is nothing to
 * put in order that the kernel does not.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/cleanup.h"
#include "base/inherited.h"
#include "source/sampler/child.h"

CLEANUP_POINTER(Child, child_free);

static void reset_signals(void)
{
    sigset_t none;

    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int run_child(Err *err)
{
    CLEANUP(child_free_at) Child *child = NULL;

    TRY(child_connect(SAMPLER_FD, &child, err));
    inherited_leave_streams();
    child_run(child);
    return 0;
}

int main(void)
{
    Err err = {0};

    inherited_close_above(SAMPLER_FD);
    reset_signals();
    if (!getenv("LISTEN_FDS")) /* ends with the agent that started it; what systemd starts has systemd as its parent */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "stoker-sampler");
    if (run_child(&err) < 0) {
        if (err.code == -EPIPE)
            return EXIT_SUCCESS;
        fprintf(stderr, "stoker-sampler: %s. This program is started by 'stoker agent'.\n", err.text);
        return 3;
    }
    return EXIT_SUCCESS;
}
