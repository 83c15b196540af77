/* checkasm [--bench | --self-test] */
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

int main(int argc, char **argv)
{
    const struct kernels *best = kernels_select(cpu_features());
    if (argc > 1 && !strcmp(argv[1], "--self-test"))
        return self_test();
    if (argc > 1 && !strcmp(argv[1], "--bench"))
        return bench(best);
    struct report rep = {0};
#define SECTION(set, name, call)                                                                             \
    do {                                                                                                     \
        const struct report before = rep;                                                                    \
        call;                                                                                                \
        section(name, set, &before, &rep);                                                                   \
    } while (0)
    printf("CPU: %s; sets: reference, plain%s%s\n", cpu_name(), best == kernels_plain() ? "" : ", ",
           best == kernels_plain() ? "" : best->name);
    SECTION("engine", "exp, log", check_math(&rep));
    SECTION("plain", "matmul / reference", check_matmul_reference(&rep));
    SECTION("plain", "ops / reference", check_ops_reference(&rep));
    SECTION("plain", "attention / reference", check_attention_reference(&rep));
    /* On a CPU without a faster set these compare plain with itself in parts: invariance and guards still
     * count. */
    SECTION(best->name, "act_make", check_act_make(best, &rep));
    SECTION(best->name, "matmul", check_matmul(best, &rep));
    SECTION(best->name, "ops", check_ops(best, &rep));
    SECTION(best->name, "attention", check_attention(best, &rep));
    printf("%ld passed, %ld failed\n", rep.n_checks - rep.n_failures, rep.n_failures);
    return rep.n_failures != 0;
}
