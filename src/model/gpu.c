/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "model/gpu.h"

double gpu_peak_flops(const struct gpu_profile *gpu, const char **ret_dtype)
{
    if (gpu->fp4_flops > gpu->fp8_flops) {
        *ret_dtype = "fp4";
        return gpu->fp4_flops;
    }
    *ret_dtype = gpu->fp8_flops > gpu->bf16_flops ? "fp8" : "bf16";
    return gpu->fp8_flops > gpu->bf16_flops ? gpu->fp8_flops : gpu->bf16_flops;
}
