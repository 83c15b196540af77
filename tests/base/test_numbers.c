/* Philox against its published vectors, seeds, the clock, CPU features. */
#include "base_test.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/rng.h"
#include <stdlib.h>
#include <string.h>

/* Known answers of the Random123 distribution (Salmon et al.), philox4x32 with 10 rounds. */
static void test_philox(void **state)
{
    (void)state;
    static const uint32_t vectors[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e,
         0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb,
         0x5001e420, 0x24126ea1},
    };
    for (size_t i = 0; i < N_ELEMENTS(vectors); i++) {
        uint32_t out[4];
        philox4x32(vectors[i], vectors[i] + 4, out);
        assert_memory_equal(out, vectors[i] + 6, sizeof out);
    }
    uint32_t in_place[4] = {0, 0, 0, 0};
    const uint32_t key[2] = {0, 0};
    philox4x32(in_place, key, in_place);
    assert_memory_equal(in_place, vectors[0] + 6, sizeof in_place);
}

static void test_seed(void **state)
{
    (void)state;
    uint64_t a = random_seed(), b = random_seed(), c = random_seed();
    assert_true(a != b && b != c && a != c);
}

static void test_clock(void **state)
{
    (void)state;
    uint64_t a = clock_now_ns(), b = a;
    for (int i = 0; i < 1000; i++) {
        b = clock_now_ns();
        assert_true(b >= a);
        a = b;
    }
    assert_true(clock_unix_s() > 1600000000);
    clock_set_fake(1, 1234, 99);
    assert_int_equal(clock_now_ns(), 1234);
    assert_int_equal(clock_unix_s(), 99);
    clock_set_fake(0, 0, 0);
    assert_true(clock_now_ns() >= b);
    assert_true(clock_unix_s() > 1600000000);
}

static void test_cpu_mask(void **state)
{
    (void)state;
    unsetenv("HASTEN_CPU");
    uint32_t all = cpu_features();
    setenv("HASTEN_CPU", "plain", 1);
    assert_int_equal(cpu_features(), 0);
    setenv("HASTEN_CPU", "avx2", 1);
    assert_int_equal(cpu_features(), all & CPU_AVX2);
    setenv("HASTEN_CPU", "avx512", 1);
    assert_int_equal(cpu_features(), all);
    unsetenv("HASTEN_CPU");
    assert_int_equal(cpu_features(), all);
    setenv("HASTEN_CPU", "plain", 1);
    assert_int_equal(cpu_features_found(), all);
    unsetenv("HASTEN_CPU");
    assert_true(cpu_bound_known("plain"));
    for (const char *const *name = (const char *const[]){"avx2", "avx512", "neon", NULL}; *name; name++)
        assert_int_equal(cpu_bound_known(*name), strstr(cpu_bounds_text(), *name) != NULL);
    assert_false(cpu_bound_known("AVX2"));
    assert_true(strlen(cpu_name()) > 0);
#if defined(__x86_64__)
    /* The compiler's own detection is an independent witness. */
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int vnni = __builtin_cpu_supports("avx512vnni") != 0, bf16 = __builtin_cpu_supports("avx512bf16") != 0;
    assert_int_equal((all & CPU_AVX2) != 0, avx2);
    assert_int_equal((all & CPU_AVX512_VNNI) != 0, vnni);
    assert_int_equal((all & CPU_AVX512_BF16) != 0, bf16);
    assert_int_equal((all & CPU_AVX512) != 0,
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"));
#endif
}

static void test_cpu_text(void **state)
{
    (void)state;
    char text[64];
    cpu_features_text(CPU_AVX512 | CPU_AVX512_VNNI, text, sizeof text);
    assert_string_equal(text, "avx512 avx512_vnni");
    cpu_features_text(CPU_AVX512 | CPU_AVX512_VNNI, text, 18);
    assert_string_equal(text, "avx512");
    cpu_features_text(0, text, sizeof text);
    assert_string_equal(text, "");
    cpu_features_text(CPU_AVX2, text, 1);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox),   cmocka_unit_test(test_seed),     cmocka_unit_test(test_clock),
        cmocka_unit_test(test_cpu_mask), cmocka_unit_test(test_cpu_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
