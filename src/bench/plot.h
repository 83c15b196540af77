/* Small line charts side by side as an SVG document: no scripts, no fonts of its own, readable without colours (each
 * line is named at its end). */
#ifndef HASTEN_BENCH_PLOT_H
#define HASTEN_BENCH_PLOT_H
#include "base/mem.h"

#define PLOT_PANELS 4
#define PLOT_LINES 4
#define PLOT_POINTS 32

struct plot_panel {
    const char *title;
    const char *names[PLOT_LINES]; /* NULL: the line is not named */
    double y[PLOT_LINES][PLOT_POINTS];
    int n_lines;
};

struct plot {
    const char *title, *x_title;
    char x[PLOT_POINTS][16]; /* what stands below each point; equal distances */
    int n_points, n_panels;
    struct plot_panel panels[PLOT_PANELS];
};

int plot_svg(const struct plot *p, struct buf *out); /* -1: out of memory */

#endif
