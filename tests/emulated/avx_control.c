/* Compiled with -mavx: dies of an illegal instruction where there is no AVX, which shows that the emulated CPU
 * really has none. */
#include <immintrin.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    volatile float sums[8];
    const __m256 x = _mm256_set1_ps((float)argc);
    _mm256_storeu_ps((float *)sums, _mm256_add_ps(x, x));
    printf("%s ran: %g\n", argv[0], (double)sums[7]);
    return 0;
}
