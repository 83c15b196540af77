/* CPU features from CPUID and XGETBV (x86-64) or the auxiliary vector (AArch64), less those that HASTEN_CPU
 * masks. The hardware is asked once (CPUID traps in virtual machines); the environment on every call. */
#include "base/cpu.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

static pthread_once_t probe_once = PTHREAD_ONCE_INIT;
static uint32_t probed_features;
static char probed_name[64] = "unknown";

#if defined(__x86_64__)

/* State components that the operating system saves (XCR0). */
#define XCR0_AVX 0x06u    /* xmm, ymm */
#define XCR0_AVX512 0xe6u /* and opmask, upper zmm, zmm16-31 */

static uint32_t read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

static int all_bits(uint32_t value, uint32_t bits)
{
    return (value & bits) == bits;
}

static uint32_t probe_features(void)
{
    uint32_t a, b, c, d, c1, features = 0;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !(c1 & bit_OSXSAVE))
        return 0;
    uint32_t xcr0 = read_xcr0();
    if (!all_bits(xcr0, XCR0_AVX) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    if (all_bits(c1, bit_FMA | bit_F16C | bit_AVX) && (b & bit_AVX2))
        features |= CPU_AVX2;
    if (!(features & CPU_AVX2) || !all_bits(xcr0, XCR0_AVX512) ||
        !all_bits(b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL | bit_AVX512CD))
        return features;
    features |= CPU_AVX512;
    if (c & bit_AVX512VNNI)
        features |= CPU_AVX512_VNNI;
    if (c & bit_AVX512VBMI)
        features |= CPU_AVX512_VBMI;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & bit_AVX512BF16))
        features |= CPU_AVX512_BF16;
    return features;
}

static void probe_name(char out[64])
{
    uint32_t words[13] = {0};
    for (uint32_t i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                         &words[4 * i + 3]))
            return;
    const char *name = (const char *)words;
    while (*name == ' ')
        name++;
    size_t len = strlen(name);
    while (len && name[len - 1] == ' ')
        len--;
    if (len)
        snprintf(out, 64, "%.*s", (int)len, name);
}

#elif defined(__aarch64__)

/* Bits of AT_HWCAP (Linux, arch/arm64/include/uapi/asm/hwcap.h). */
#define ARM_ASIMD (1ul << 1)
#define ARM_CPUID (1ul << 11) /* the identification registers can be read */
#define ARM_ASIMDDP (1ul << 20)

static uint32_t probe_features(void)
{
    const unsigned long caps = getauxval(AT_HWCAP);
    return (uint32_t)((caps & ARM_ASIMD ? CPU_NEON : 0) | (caps & ARM_ASIMDDP ? CPU_DOTPROD : 0));
}

/* Implementer and part from MIDR_EL1, named where they are common. */
static void probe_name(char out[64])
{
    static const struct {
        uint32_t implementer, part;
        const char *name;
    } parts[] = {
        {0x41, 0xd03, "Cortex-A53"},  {0x41, 0xd04, "Cortex-A35"},    {0x41, 0xd05, "Cortex-A55"},
        {0x41, 0xd07, "Cortex-A57"},  {0x41, 0xd08, "Cortex-A72"},    {0x41, 0xd0b, "Cortex-A76"},
        {0x41, 0xd0c, "Neoverse N1"}, {0x41, 0xd40, "Neoverse V1"},   {0x41, 0xd49, "Neoverse N2"},
        {0x41, 0xd4f, "Neoverse V2"}, {0x46, 0x001, "Fujitsu A64FX"}, {0xc0, 0xac3, "Ampere-1"},
        {0x61, 0x022, "Apple M1"},    {0x61, 0x032, "Apple M2"},
    };
    uint64_t midr = 0;
    if (getauxval(AT_HWCAP) & ARM_CPUID)
        __asm__("mrs %0, midr_el1" : "=r"(midr));
    const uint32_t implementer = (uint32_t)(midr >> 24) & 0xff, part = (uint32_t)(midr >> 4) & 0xfff;
    snprintf(out, 64, midr ? "AArch64 (implementer 0x%02x, part 0x%03x)" : "AArch64", implementer, part);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].implementer == implementer && parts[i].part == part)
            snprintf(out, 64, "%s", parts[i].name);
}

#else

static uint32_t probe_features(void)
{
    return 0;
}

static void probe_name(char out[64])
{
    (void)out;
}

#endif

static void probe(void)
{
    probed_features = probe_features();
    probe_name(probed_name);
}

uint32_t cpu_features_found(void)
{
    pthread_once(&probe_once, probe);
    return probed_features;
}

bool cpu_bound_known(const char *name)
{
#if defined(__x86_64__)
    static const char *const names[] = {"plain", "avx2", "avx512"};
#elif defined(__aarch64__)
    static const char *const names[] = {"plain", "neon"};
#else
    static const char *const names[] = {"plain"};
#endif
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

const char *cpu_bounds_text(void)
{
#if defined(__x86_64__)
    return "plain, avx2 or avx512";
#elif defined(__aarch64__)
    return "plain or neon";
#else
    return "plain";
#endif
}

uint32_t cpu_features(void)
{
    const char *highest = getenv("HASTEN_CPU");
    pthread_once(&probe_once, probe);
    if (highest && strcmp(highest, "plain") == 0)
        return 0;
    if (highest && strcmp(highest, "avx2") == 0)
        return probed_features & CPU_AVX2;
    if (highest && strcmp(highest, "neon") == 0)
        return probed_features & CPU_NEON;
    return probed_features;
}

const char *cpu_name(void)
{
    pthread_once(&probe_once, probe);
    return probed_name;
}

void cpu_features_text(uint32_t features, char *out, int out_len)
{
    static const struct {
        uint32_t feature;
        const char *name;
    } table[] = {
        {CPU_AVX2, "avx2"},
        {CPU_AVX512, "avx512"},
        {CPU_AVX512_VNNI, "avx512_vnni"},
        {CPU_AVX512_BF16, "avx512_bf16"},
        {CPU_AVX512_VBMI, "avx512_vbmi"},
        {CPU_NEON, "neon"},
        {CPU_DOTPROD, "dotprod"},
    };
    int used = 0;
    if (out_len <= 0)
        return;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (!(features & table[i].feature))
            continue;
        int n = snprintf(out + used, (size_t)(out_len - used), "%s%s", used ? " " : "", table[i].name);
        if (n < 0 || n >= out_len - used) {
            out[used] = '\0'; /* a name is shown whole or not at all */
            return;
        }
        used += n;
    }
}
