/* The products (multiply_neon.h) with sdot: ARMv8.2 CPUs with the feature asimddp. Owns
 * panel_formats_dotprod. Compiled with +dotprod; runs only where cpu_features() has CPU_DOTPROD. */
#include "kernels/arm/multiply_neon.h"
#ifndef __ARM_FEATURE_DOTPROD
#error "this file is to be compiled for sdot"
#endif

const struct panel_format panel_formats_dotprod[N_PANEL_FORMATS] = PANEL_FORMATS;
