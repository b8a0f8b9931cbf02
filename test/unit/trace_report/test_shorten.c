/* SPDX-License-Identifier: Apache-2.0 */
/* Names of kernels in few columns (service/report/table.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "service/report/table.h"

static const char *one(const char *name, size_t columns, bool utf8)
{
    static Arena arena;

    arena_reset(&arena);
    shorten(&name, 1, columns, utf8, &arena);
    return name;
}

static void what_fits_stays(void **state)
{
    (void)state;
    assert_string_equal(one("aten::mm", 20, true), "aten::mm");
    assert_string_equal(one("void f<int>(int)", 20, true), "void f<int>(int)");
    assert_string_equal(one("", 20, true), "");
}

static void symbols_lose_what_says_least(void **state)
{
    (void)state;
    assert_string_equal(
        one("void at::native::vectorized_kernel<4, at::native::Add<c10::BFloat16>, std::array<char*, 3ul> "
            ">(int, at::native::Add<c10::BFloat16>)",
            60, true),
        "vectorized_kernel<4, Add<BFloat16>, array<char*, 3ul>>");
    assert_string_equal(
        one("void at::native::(anonymous namespace)::softmax_warp_forward<float, 8, true>(float*)", 50, true),
        "softmax_warp_forward<float, 8, true>");
    assert_string_equal(one("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 50, true),
                        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
    assert_string_equal(one("void cub::detail::kernel_agent_without_template(float*)", 30, true),
                        "kernel_agent_without_template");
    assert_string_equal(one("cutlass::device_kernel<cutlass::gemm::Universal>", 30, true), "device_kernel<Universal>");
    assert_string_equal(one("ncclKernel_SendRecv_RING(ncclWorkElem)", 30, true), "ncclKernel_SendRecv_RING");
    assert_string_equal(one("void k<f(int)>::operator()(a::b)", 24, true), "k<f(int)>::operator()");
}

/* What is no C++ symbol is not taken for one. */
static void other_names_are_cut_alone(void **state)
{
    (void)state;
    assert_string_equal(one("aten::_scaled_dot_product_flash_attention", 20, true), "aten::_scal\xe2\x80\xa6ttention");
    assert_string_equal(one("Memcpy HtoD (Pageable -> Device)", 30, false), "Memcpy HtoD (Pag..e -> Device)");
    assert_string_equal(one("abcdefghijklmnop", 10, false), "abcd..mnop");
}

static void wide_characters_count_twice(void **state)
{
    const char *text = one(
        "\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87", 9, true);

    (void)state;
    assert_true(clean_width(text) <= 9);
    assert_non_null(strstr(text, "\xe2\x80\xa6"));
}

static void names_that_differ_stay_different(void **state)
{
    const char *names[] = {
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas"};
    Arena arena = {0};

    (void)state;
    shorten(names, 3, 40, true, &arena);
    assert_non_null(strstr(names[0], "_tn_n_"));
    assert_non_null(strstr(names[1], "_nn_n_"));
    assert_non_null(strstr(names[2], "_nt_n_"));
    arena_done(&arena);
}

static void even_when_they_differ_in_two_places(void **state)
{
    char texts[40][200];
    const char *names[41], *originals[41];
    Arena arena = {0};

    (void)state;
    for (int i = 0; i < 40; i++) { /* digits far apart, in a name of 150 characters */
        snprintf(texts[i], sizeof(texts[i]), "kernel_%064d_%060d_end", i % 5, i / 5);
        names[i] = originals[i] = texts[i];
    }
    names[40] = originals[40] = texts[0]; /* the same name again */
    shorten(names, 41, 30, false, &arena);
    for (int i = 0; i < 41; i++) {
        assert_true(clean_width(names[i]) <= 30);
        for (int j = 0; j < i; j++)
            if (strcmp(originals[i], originals[j]))
                assert_string_not_equal(names[i], names[j]);
    }
    arena_done(&arena);
}

/* Any bytes, any width: never longer, never unsafe. */
static void any_bytes_fit(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        static const char parts[][8] = {"<",    ">",        "(", ")", "::", "a", "void ", " ", "\xff", "\xe4\xb8\xad",
                                        "\x1b", "e\xcc\x81"};
        char text[256] = "";
        size_t columns = 8 + (size_t)round % 30;
        const char *name;

        for (int i = 0; i < 30; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            strcat(text, parts[(seed >> 33) % (sizeof(parts) / sizeof(parts[0]))]);
        }
        name = one(text, columns, round & 1);
        assert_true(clean_width(name) <= columns);
        assert_null(strchr(name, '\x1b'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_fits_stays),
                                       cmocka_unit_test(symbols_lose_what_says_least),
                                       cmocka_unit_test(other_names_are_cut_alone),
                                       cmocka_unit_test(wide_characters_count_twice),
                                       cmocka_unit_test(names_that_differ_stay_different),
                                       cmocka_unit_test(even_when_they_differ_in_two_places),
                                       cmocka_unit_test(any_bytes_fit)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
