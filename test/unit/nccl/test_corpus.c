/* SPDX-License-Identifier: Apache-2.0 */
/* What comes of the inputs that fuzzing has kept: test/data/nccl/corpus.txt. */
#include "test/unit/golden_corpus.h"

#include "kit.h"

enum { INPUTS_MAX = 8 };

CLEANUP_POINTER(NcclJob, nccl_free);

static void read_part(NcclJob *job, const char *name, const char *text, size_t len)
{
    nccl_begin(job, name);
    nccl_feed(job, text, len);
    nccl_end(job, NULL);
}

/* Parts by form feeds; a pickle is one. */
static void read_text(const Str *input, Str *line)
{
    CLEANUP(nccl_free_at) NcclJob *job = nccl_new();
    const char *at = input->text, *end = at + input->len;
    char name[32];

    for (int i = 0; i < INPUTS_MAX && at; i++) {
        const char *feed = *input->text == '\x80' ? NULL : memchr(at, '\f', (size_t)(end - at));

        snprintf(name, sizeof name, "trace_rank_%d", i);
        read_part(job, name, at, (size_t)((feed ? feed : end) - at));
        at = feed ? feed + 1 : NULL;
    }
    kit_add_outputs(nccl_finish(job), line);
}

/* A topology, beside a log of its node. */
static void read_topology(const Str *input, Str *line)
{
    static const char log_text[] = COMPLETE("a", 10, 0, 0, 2, 77) COMPLETE("a", 11, 1, 1, 2, 77)
        INFO("a", 10, 0, "NET/IB : Using [0]mlx5_0:1/IB [1]={[1] mlx5_1:1/IB, [2] mlx5_2:1/IB} [RO]")
            INFO("a", 10, 0, "Pattern 4, crossNic 0, nChannels 2, bw 20.0/20.0, type NVL/PIX, sameChannels 1")
                DIRECT("a", 10, 0, 0, 1, "SHM/direct");
    CLEANUP(nccl_free_at) NcclJob *job = nccl_new();

    read_part(job, "log", log_text, sizeof log_text - 1);
    nccl_begin(job, "topo.xml");
    nccl_feed(job, "<!---->", 7); /* always XML */
    nccl_feed(job, input->text, input->len);
    nccl_end(job, NULL);
    kit_add_outputs(nccl_finish(job), line);
}

static void test_corpora(void **state)
{
    CLEANUP(str_done) Str golden = str_limited(GOLDEN_MAX);

    (void)state;
    golden_add_corpus(&golden, CORPUS "/nccl_log", read_text);
    golden_add_corpus(&golden, CORPUS "/flight_recorder", read_text);
    golden_add_corpus(&golden, CORPUS "/nccl_xml", read_topology);
    assert_golden(GOLDEN "/corpus.txt", &golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpora)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
