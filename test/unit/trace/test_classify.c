/* SPDX-License-Identifier: Apache-2.0 */
/* What names mean (engine/trace/classify.c and its tables). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/trace/classify.h"

typedef struct Named {
    ProfileKind kind;
    const char *name;
    int value;
} Named;

static void gpu_classes(void **state)
{
    static const Named cases[] = {
        {PROFILE_KERNEL, "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
         TRACE_COMPUTE},
        {PROFILE_KERNEL, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long)", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "multimem_all_reduce_kernel", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "void two_shot_all_reduce_kernel<c10::BFloat16, 16, 8>", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "void vllm::cross_device_reduce_2stage<nv_bfloat16, 8>", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "void deep_ep::intranode::dispatch<8, 768, 8192>", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "nvshmemi_transfer_rma", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "void dpsk::ep::internode::cached_notify<false>(int, int)", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "void deep_ep::intranode::notify_dispatch<8>", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
         TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "multimem_all_reduce_kernel", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "two_shot_all_reduce_kernel_inplace", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "mscclpp::AllreduceAllpairPacket", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "triton_red_fused_all_gather_0", TRACE_COMMUNICATION},
        {PROFILE_KERNEL, "void blockAllReduceSoftmax<float>", TRACE_COMPUTE},
        {PROFILE_KERNEL, "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>", TRACE_COMPUTE},
        {PROFILE_KERNEL, "__amd_rocclr_copyBuffer", TRACE_COPY},
        {PROFILE_KERNEL, "__amd_rocclr_fillBufferAligned.kd", TRACE_COPY},
        {PROFILE_KERNEL, "Memcpy DtoD (Device -> Device)", TRACE_COPY},
        {PROFILE_COPY, "ncclSomething", TRACE_COPY},
        {PROFILE_COPY, "CopyHostToDevice", TRACE_COPY},
        {PROFILE_SET, "Memset (Device)", TRACE_COPY},
        {PROFILE_KERNEL, "", TRACE_COMPUTE},
        {PROFILE_KERNEL, "n", TRACE_COMPUTE},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (trace_classify(cases[i].kind, cases[i].name, strlen(cases[i].name)) != (TraceClass)cases[i].value)
            fail_msg("%s", cases[i].name);
}

static void host_classes(void **state)
{
    static const Named cases[] = {
        {PROFILE_CALL, "cudaLaunchKernel", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "cudaLaunchKernel_v7000", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "cudaLaunchKernelExC_v11060", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "cuLaunchKernelEx", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "cudaGraphLaunch_ptsz", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "cudaMemcpyAsync", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "cudaMemcpy2DAsync_v3020", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "cuMemcpyHtoDAsync_v2", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "cudaMemcpy", TRACE_HOST_COPY},
        {PROFILE_CALL, "cudaMemcpy_v3020", TRACE_HOST_COPY},
        {PROFILE_CALL, "cuMemcpyDtoH_v2", TRACE_HOST_COPY},
        {PROFILE_CALL, "hipMemcpyWithStream", TRACE_HOST_COPY},
        {PROFILE_CALL, "hipLaunchKernel", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "hipExtModuleLaunchKernel", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "hipModuleLaunchKernel", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "cudaStreamSynchronize", TRACE_HOST_SYNC},
        {PROFILE_CALL, "cuCtxSynchronize", TRACE_HOST_SYNC},
        {PROFILE_CALL, "cudaEventSynchronize_v3020", TRACE_HOST_SYNC},
        {PROFILE_CALL, "hipDeviceSynchronize", TRACE_HOST_SYNC},
        {PROFILE_CALL, "cudaStreamWaitEvent", TRACE_HOST_RUNTIME},
        {PROFILE_CALL, "cudaFuncSetAttribute", TRACE_HOST_RUNTIME},
        {PROFILE_CALL, "cudaLaunchHostFunc", TRACE_HOST_RUNTIME},
        {PROFILE_CALL, "cudaMalloc", TRACE_HOST_ALLOCATOR},
        {PROFILE_CALL, "cudaHostAlloc", TRACE_HOST_ALLOCATOR},
        {PROFILE_CALL, "cudaFree_v3020", TRACE_HOST_ALLOCATOR},
        {PROFILE_CALL, "cuModuleLoadData", TRACE_HOST_LOADING},
        {PROFILE_CALL, "cuLibraryLoadData", TRACE_HOST_LOADING},
        {PROFILE_CALL, "cuCtxCreate_v2", TRACE_HOST_INITIALISING},
        {PROFILE_CALL, "hsa_signal_store_screlease", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "hsa_signal_create", TRACE_HOST_RUNTIME},
        {PROFILE_CALL, "hsa_signal_wait_scacquire", TRACE_HOST_SYNC},
        {PROFILE_CALL, "hsa_amd_memory_pool_allocate", TRACE_HOST_ALLOCATOR},
        {PROFILE_CALL, "hsa_amd_memory_async_copy_on_engine", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "hsa_executable_load_agent_code_object", TRACE_HOST_LOADING},
        {PROFILE_CALL, "hsa_queue_create", TRACE_HOST_INITIALISING},
        {PROFILE_CALL, "ncclAllReduce", TRACE_HOST_LAUNCH},
        {PROFILE_CALL, "ncclCommInitRank", TRACE_HOST_INITIALISING},
        {PROFILE_CALL, "ncclCommFinalize", TRACE_HOST_RUNTIME},
        {PROFILE_PYTHON, "transformers/pipelines/video_classification.py(9): preprocess", TRACE_HOST_DATA},
        {PROFILE_PYTHON, "transformers/tokenization_utils_base.py(2): __call__", TRACE_HOST_TOKENISING},
        {PROFILE_PYTHON, "<built-in function collect>", TRACE_HOST_COLLECTING},
        {PROFILE_PYTHON, "torch/serialization.py(9): save", TRACE_HOST_CHECKPOINT},
        {PROFILE_PYTHON, "torch/utils/checkpoint.py(9): checkpoint", TRACE_HOST_PYTHON},
        {PROFILE_PYTHON, "logging/__init__.py(1): info", TRACE_HOST_LOGGING},
        {PROFILE_OP, "aten::mm", TRACE_HOST_OP},
        {PROFILE_OP, "aten::item", TRACE_HOST_SYNC},
        {PROFILE_OP, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", TRACE_HOST_DATA},
        {PROFILE_ANNOTATION, "enumerate(DataPipe)#ShufflerIterDataPipe", TRACE_HOST_DATA},
        {PROFILE_ANNOTATION, "## Data Loading ##", TRACE_HOST_DATA},
        {PROFILE_ANNOTATION, "gloo:all_reduce", TRACE_HOST_COLLECTIVE},
        {PROFILE_ANNOTATION, "nccl:all_reduce", TRACE_HOST_MARK}, /* the launch, on the host */
        {PROFILE_OP, "c10d::barrier", TRACE_HOST_COLLECTIVE},
        {PROFILE_OP, "c10d::allreduce_", TRACE_HOST_OP},
        {PROFILE_ANNOTATION, "entire_frame_compile (dynamo_timed)", TRACE_HOST_COMPILE},
        {PROFILE_ANNOTATION, "Torch-Compiled Region: 0/0", TRACE_HOST_MARK}, /* runs what was compiled */
        {PROFILE_ANNOTATION, "ProfilerStep#5", TRACE_HOST_MARK},
        {PROFILE_PYTHON, "torch/utils/data/dataloader.py(628): __next__", TRACE_HOST_DATA},
        {PROFILE_PYTHON, "torch/nn/modules/linear.py(116): forward", TRACE_HOST_PYTHON},
        {PROFILE_PYTHON, "torch/_inductor/compile_fx.py(1234): compile_fx_inner", TRACE_HOST_COMPILE},
        {PROFILE_PYTHON, "torch/_dynamo/eval_frame.py(451): _fn", TRACE_HOST_PYTHON},
        {PROFILE_PYTHON, "triton/runtime/jit.py(345): <lambda>", TRACE_HOST_PYTHON},
        {PROFILE_PYTHON, "torch/distributed/distributed_c10d.py(3683): barrier", TRACE_HOST_COLLECTIVE},
        {PROFILE_PYTHON, "<built-in method synchronize of type object at 0x1>", TRACE_HOST_SYNC},
        {PROFILE_OVERHEAD, "Activity Buffer Request", TRACE_HOST_OTHER},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        TraceHostClass class = trace_classify_host(cases[i].kind, cases[i].name, strlen(cases[i].name));

        if (class != (TraceHostClass)cases[i].value)
            fail_msg("%s: %s, not %s", cases[i].name, trace_host_words[class], trace_host_words[cases[i].value]);
    }
}

static void tensor_cores(void **state)
{
    static const Named cases[] = {
        {0, "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", 1},
        {0, "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", 1},
        {0, "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>", 1},
        {0, "nvjet_tst_128x256_64x4_2x1_v_bz_TNT", 1},
        {0, "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc", 1},
        {0, "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4", 0},
        {0, "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", 1},
        {0, "void pytorch_flash::flash_bwd_dot_do_o_kernel<true>", 0},
        {0, "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x32x256_MI16x16x1_SN", 1},
        {0, "_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weight", 1},
        {0, "volta_sgemm_128x64_nt", 0},
        {0, "SubTensorOpWithScalar1d", 0},
        {0, "void cudnn::ops::scalePackedTensor_kernel<float, float>(cudnnTensor4dStruct, float*, float)", 0},
        {0, "void splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>", 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (trace_is_tensor_core(cases[i].name, strlen(cases[i].name)) != (bool)cases[i].value)
            fail_msg("%s", cases[i].name);
}

static void kernels_that_may_use_tensor_cores(void **state)
{
    static const Named cases[] = {
        {0, "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", 0},
        {0, "kernel_unified_attention_3d", 1},
        {0, "my_gemm_kernel", 1},
        {0, "volta_sgemm_128x64_nt", 0},
        {0, "void gemv2T_kernel_val<int, int, float>", 0},
        {0, "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", 0},
        {0, "vectorized_elementwise_kernel", 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (trace_may_be_tensor_core(cases[i].name, strlen(cases[i].name)) != (bool)cases[i].value)
            fail_msg("%s", cases[i].name);
    assert_true(trace_is_tensor_core(cases[0].name, strlen(cases[0].name)));
}

static void alignment_of_kernels(void **state)
{
    static const Named cases[] = {
        {0, "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>", 1},
        {0, "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_nn_align1>", 0},
        {0, "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", 1},
        {0, "sm80_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize64x64x8_aligna2_alignc8", 0},
        {0, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x128x64_warpgroupsize1x1x1_bias", 1},
        {0, "nvjet_tst_128x256_64x4_2x1_v_bz_TNT", 1},
        {0, "ampere_fp16_s16816gemm_fp16_64x64_nn", 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (trace_is_aligned(cases[i].name, strlen(cases[i].name)) != (bool)cases[i].value)
            fail_msg("%s", cases[i].name);
}

static void matrix_operators(void **state)
{
    static const Named cases[] = {
        {0, "aten::mm", 1},   {0, "aten::addmm", 1},    {0, "aten::convolution_backward", 1},
        {0, "aten::relu", 0}, {0, "aten::mm_extra", 0}, {0, "aten::_scaled_dot_product_flash_attention", 1},
        {0, "aten::lstm", 1}, {0, "my::aten::mm", 0},   {0, "aten::_conv_depthwise2d", 0},
        {0, "aten::mul", 0},  {0, "aten::linear", 1},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (trace_is_matrix_op(cases[i].name, strlen(cases[i].name)) != (bool)cases[i].value)
            fail_msg("%s", cases[i].name);
}

/* Patterns that no name can match because an earlier row takes them all, or that break the rules of the table. */
static void patterns_are_well_formed(void **state)
{
    static const char *const patterns[] = {
#define GPU(pattern, class) pattern,
#define TENSOR(pattern, yes) pattern,
#define HELPER(pattern, yes) pattern,
#define MATRIX(pattern, yes) pattern,
#define HOST(kinds, pattern, class) pattern,
#include "engine/trace/classify.def"
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        const char *text = patterns[i] + (patterns[i][0] == '^');

        assert_true(strlen(text) >= 2 && strcspn(text, "*$") >= 2);
        assert_null(strchr(text, '^'));
        assert_null(strstr(text, "**"));
        for (const char *c = text; *c; c++) {
            assert_false(*c >= 'A' && *c <= 'Z');
            assert_true(*c != '$' || c[1] == '\0');
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu_classes),
        cmocka_unit_test(host_classes),
        cmocka_unit_test(tensor_cores),
        cmocka_unit_test(alignment_of_kernels),
        cmocka_unit_test(matrix_operators),
        cmocka_unit_test(kernels_that_may_use_tensor_cores),
        cmocka_unit_test(patterns_are_well_formed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
