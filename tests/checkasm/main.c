/* checkasm [--self-test | --set]
 *
 * --set: only the best set of this CPU against the twins, for slow emulated CPUs. */
#include "checkasm.h"
#include "base/cpu.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void expect(struct report *rep, bool ok, const char *fmt, ...)
{
    rep->n_checks++;
    if (ok)
        return;
    rep->n_failures++;
    if (rep->quiet || rep->n_failures > 20)
        return;
    va_list args;
    va_start(args, fmt);
    printf("FAIL ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
}

bool same_floats(const float *a, const float *b, int64_t n, bool nan_equal)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) && !(nan_equal && a[i] != a[i] && b[i] != b[i]))
            return false;
    return true;
}

static void section(const char *name, const char *set, const struct report *before,
                    const struct report *after)
{
    printf("%-9s %-22s %8ld checks, %ld failed\n", set, name, after->n_checks - before->n_checks,
           after->n_failures - before->n_failures);
}

#define MAX_SETS 8

/* The sets that this CPU has, the best first; plain only where there is no other. HASTEN_CPU bounds them. */
static int find_sets(const struct kernels *sets[MAX_SETS])
{
    static const uint32_t less[] = {0, CPU_AVX512, CPU_DOTPROD};
    const struct kernels *plain = kernels_plain();
    int n = 0;
    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        const struct kernels *set = kernels_select(cpu_features() & ~less[i]);
        bool known = n > 0 && set == plain;
        for (int j = 0; j < n; j++)
            known = known || sets[j] == set;
        if (!known)
            sets[n++] = set;
    }
    return n;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--self-test"))
        return self_test();
    struct report rep = {0};
#define SECTION(set, name, call)                                                                             \
    do {                                                                                                     \
        const struct report before = rep;                                                                    \
        call;                                                                                                \
        section(name, set, &before, &rep);                                                                   \
    } while (0)
    const struct kernels *sets[MAX_SETS];
    const bool best_only = argc > 1 && !strcmp(argv[1], "--set");
    const int n_found = find_sets(sets), n_sets = best_only ? 1 : n_found;
    printf("CPU: %s; sets: reference, plain", cpu_name());
    for (int i = 0; i < n_sets; i++)
        if (sets[i] != kernels_plain())
            printf(", %s", sets[i]->name);
    printf("\n");
    if (!best_only) {
        SECTION("engine", "exp, log", check_math(&rep));
        SECTION("plain", "matmul / reference", check_matmul_reference(&rep));
        SECTION("plain", "ops / reference", check_ops_reference(&rep));
        SECTION("plain", "attention / reference", check_attention_reference(&rep));
    }
    /* On a CPU without a faster set these compare plain with itself in parts: invariance and guards still
     * count. */
    for (int i = 0; i < n_sets; i++) {
        SECTION(sets[i]->name, "act_make", check_act_make(sets[i], &rep));
        SECTION(sets[i]->name, "matmul", check_matmul(sets[i], &rep));
        SECTION(sets[i]->name, "ops", check_ops(sets[i], &rep));
        SECTION(sets[i]->name, "attention", check_attention(sets[i], &rep));
    }
    printf("%ld passed, %ld failed\n", rep.n_checks - rep.n_failures, rep.n_failures);
    return rep.n_failures != 0;
}
