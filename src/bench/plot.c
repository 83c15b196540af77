/* Line charts as SVG (plot.h). Colours: Okabe and Ito's, which colour-blind readers can tell apart. */
#include "bench/plot.h"
#include <math.h>
#include <stdio.h>

#define PANEL_W 330
#define PANEL_H 260
#define LEFT 62
#define RIGHT 52
#define TOP 64
#define BOTTOM 44

static const char *const colours[PLOT_LINES] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7"};

static int put_text(struct buf *out, const char *s)
{
    int bad = 0;
    for (; *s && !bad; s++)
        bad = *s == '<'   ? buf_puts(out, "&lt;")
              : *s == '>' ? buf_puts(out, "&gt;")
              : *s == '&' ? buf_puts(out, "&amp;")
              : *s == '"' ? buf_puts(out, "&quot;")
                          : buf_putc(out, *s);
    return bad;
}

static int put_label(struct buf *out, double x, double y, const char *anchor, const char *style,
                     const char *text)
{
    return buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, style) ||
           put_text(out, text) || buf_puts(out, "</text>\n");
}

/* The step of an axis to `top` in at most five: 1, 2 or 5 times a power of ten. */
static double axis_step(double top)
{
    const double rough = top / 5, power = pow(10, floor(log10(rough)));
    const double times = rough / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static int put_axes(const struct plot *p, double left, double top, double step, struct buf *out)
{
    char text[32];
    int bad = 0;
    for (double v = 0; v <= top * 1.0001 && !bad; v += step) {
        const double y = TOP + PANEL_H * (1 - v / top);
        snprintf(text, sizeof text, "%g", v < step / 2 ? 0 : v);
        bad = buf_printf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
                         left, y, left + PANEL_W, y) ||
              put_label(out, left - 6, y + 4, "end", "", text);
    }
    for (int i = 0; i < p->n_points && !bad; i++) {
        const double x = left + PANEL_W * (i + 0.5) / p->n_points;
        bad = put_label(out, x, TOP + PANEL_H + 18, "middle", "", p->x[i]);
    }
    return bad || put_label(out, left + PANEL_W / 2.0, TOP + PANEL_H + 36, "middle", "", p->x_title);
}

/* *label: where the name of the line before stands, and then that of this one, which never covers it. */
static int put_line(const struct plot *p, const struct plot_panel *panel, int line, double left, double top,
                    double *label, struct buf *out)
{
    const char *colour = colours[line];
    double x = 0, y = 0;
    int bad = buf_printf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
    for (int i = 0; i < p->n_points && !bad; i++) {
        x = left + PANEL_W * (i + 0.5) / p->n_points;
        y = TOP + PANEL_H * (1 - panel->y[line][i] / top);
        bad = buf_printf(out, "%.1f,%.1f ", x, y);
    }
    bad = bad || buf_puts(out, "\"/>\n");
    for (int i = 0; i < p->n_points && !bad; i++)
        bad = buf_printf(out,
                         "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%g</title></circle>\n",
                         left + PANEL_W * (i + 0.5) / p->n_points,
                         TOP + PANEL_H * (1 - panel->y[line][i] / top), colour, panel->y[line][i]);
    *label = y + 4 < *label - 13 ? y + 4 : *label - 13;
    if (panel->names[line] && !bad)
        bad = put_label(out, x + 8, *label, "start", "", panel->names[line]);
    return bad;
}

static int put_panel(const struct plot *p, int index, struct buf *out)
{
    const struct plot_panel *panel = &p->panels[index];
    const double left = LEFT + (double)index * (PANEL_W + LEFT + RIGHT);
    double top = 0;
    for (int l = 0; l < panel->n_lines; l++)
        for (int i = 0; i < p->n_points; i++)
            top = panel->y[l][i] > top ? panel->y[l][i] : top;
    top = top > 0 ? top : 1;
    const double step = axis_step(top);
    top = step * ceil(top / step * 0.9999);
    int bad = put_label(out, left, TOP - 14, "start", " font-weight=\"bold\"", panel->title) ||
              put_axes(p, left, top, step, out);
    double label = TOP + PANEL_H + 17;
    for (int l = 0; l < panel->n_lines && !bad; l++)
        bad = put_line(p, panel, l, left, top, &label, out);
    return bad;
}

int plot_svg(const struct plot *p, struct buf *out)
{
    const int width = p->n_panels * (PANEL_W + LEFT + RIGHT), height = TOP + PANEL_H + BOTTOM + 8;
    int bad =
        buf_printf(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                   "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n<title>",
                   width, height, width, height) ||
        put_text(out, p->title) ||
        buf_printf(out, "</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width, height) ||
        put_label(out, LEFT, 24, "start", " font-size=\"14\"", p->title);
    for (int i = 0; i < p->n_panels && !bad; i++)
        bad = put_panel(p, i, out);
    return bad || buf_puts(out, "</svg>\n");
}
