/* The products (multiply_neon.h) for every ARMv8 CPU. Owns panel_formats_neon. */
#include "kernels/arm/multiply_neon.h"
#ifdef __ARM_FEATURE_DOTPROD
#error "this file is for CPUs without sdot"
#endif

const struct panel_format panel_formats_neon[N_PANEL_FORMATS] = PANEL_FORMATS;
