// Prometheus' text format (0.0.4) as far as the monitor needs it, and quantiles from histograms.

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;

function labelsOf(text) {
    const labels = {};
    for (const found of (text || "").matchAll(/([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g))
        labels[found[1]] = found[2].replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    return labels;
}

function valueOf(text) {
    return text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text);
}

// Name to a list of { labels, value }.
export function parseMetrics(text) {
    const found = new Map();
    for (const line of text.split("\n")) {
        const parts = line.startsWith("#") ? null : LINE.exec(line);
        if (!parts)
            continue;
        if (!found.has(parts[1]))
            found.set(parts[1], []);
        found.get(parts[1]).push({ labels: labelsOf(parts[2]), value: valueOf(parts[3]) });
    }
    return found;
}

// The sum over a family's series; undefined where there is none.
export function sum(metrics, name) {
    return metrics.get(name)?.reduce((total, series) => total + series.value, 0);
}

// A histogram's buckets, cumulative: [[upper bound, count]...], by rising bounds.
export function buckets(metrics, name) {
    const byBound = new Map();
    for (const { labels, value } of metrics.get(`${name}_bucket`) || []) {
        const bound = valueOf(labels.le);
        byBound.set(bound, (byBound.get(bound) || 0) + value);
    }
    return [...byBound].sort((a, b) => a[0] - b[0]);
}

// The q-quantile of what came between two readings of a histogram, straight within a bucket; NaN: nothing came.
export function quantile(now, before, q) {
    const old = new Map(before || []);
    const counts = now.map(([bound, n]) => [bound, n - (old.get(bound) || 0)]);
    const all = counts.at(-1)?.[1] || 0;
    if (!(all > 0))
        return NaN;
    let low = 0, below = 0;
    for (const [bound, n] of counts) {
        if (n >= q * all)
            return bound === Infinity ? low : low + ((bound - low) * (q * all - below)) / (n - below || 1);
        low = bound;
        below = n;
    }
    return low;
}
