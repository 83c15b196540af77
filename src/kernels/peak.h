/* Loops that reach a limit of the machine and do nothing else: what "share of the limit" is a share of.
 *
 * A peak keeps everything in registers: independent chains, as many as hide the latency, so that only the
 * throughput of the execution units counts. Reading follows several streams with software prefetch, because
 * one stream of one core ends at each page and leaves most of the memory's parallelism unused (measured: 20
 * against 30 GB/s on two cores of a Xeon). Who runs them, for how long and on how many threads: bench/limits. */
#ifndef HASTEN_KERNELS_PEAK_H
#define HASTEN_KERNELS_PEAK_H
#include <stddef.h>
#include <stdint.h>

enum peak_kind {
    PEAK_INT8, /* int8 x int8 products summed in int32 */
    PEAK_BF16, /* bf16 products summed in f32 */
    PEAK_F32,  /* f32 fused multiply-adds */
    PEAK_KINDS
};

struct peak {
    const char *how;      /* the instruction: "vpdpbusd zmm" */
    double ops_per_round; /* a multiply and an add are two */
    void (*run)(int64_t rounds);
};

/* The fastest loop of a kind for the features given (cpu_features()); NULL when these instructions have none
 * (bf16 on most CPUs). */
const struct peak *peak_get(enum peak_kind kind, uint32_t features);

#define PEAK_READ_STEP 4096 /* reads come in multiples of this */

/* Reads n bytes (a multiple of PEAK_READ_STEP, 64-byte aligned) once, as fast as one thread can; returns a
 * value that depends on all of them. It prefetches up to 4 KiB beyond each of its streams, which is harmless. */
uint64_t peak_read(const uint8_t *p, size_t n, uint32_t features);

/* ---- per instruction set (x86/peak_*.c, arm/peak_neon.c, ref/peak.c) ---- */

#define PEAK_STREAMS 8 /* of a read: n bytes are as many runs, read side by side */

extern const struct peak peak_ref_int8, peak_ref_f32;
uint64_t peak_read_ref(const uint8_t *p, size_t n);
#if defined(__x86_64__)
extern const struct peak peak_avx512_int8, peak_avx512_bf16, peak_avx512_f32;
extern const struct peak peak_avx2_int8, peak_avx2_f32;
uint64_t peak_read_avx512(const uint8_t *p, size_t n);
uint64_t peak_read_avx2(const uint8_t *p, size_t n);
#elif defined(__aarch64__)
extern const struct peak peak_dotprod_int8, peak_neon_int8, peak_neon_f32;
#endif

#endif
