#!/usr/bin/env python3
"""The coefficients of erf in src/kernels/encoder.c: a rational function of least relative error.

erf(x) = x P(x^2) / Q(x^2) on [0, 4], where erf is 1 to within float32 at the upper end. Linear least squares on
P - Q f = 0 with Q(0) = 1, weights turned towards the largest errors (Lawson) and divided by the last Q (Loeb).
Prints the coefficients, lowest power first, and the error that they make in float32.

    scripts/fit_erf.py
"""
import math

import numpy as np

N_P, N_Q, END = 7, 5, 4.0


def fit():
    x = END * (1 - np.cos(np.linspace(1e-3, math.pi, 4000))) / 2
    f = np.array([math.erf(v) / v for v in x])
    t = x * x / END**2
    weight, q = np.ones_like(x), np.ones_like(x)
    best = (math.inf, None, None)
    for _ in range(300):
        rows = np.hstack([t[:, None] ** np.arange(N_P), -f[:, None] * t[:, None] ** np.arange(1, N_Q)])
        scale = np.sqrt(weight) / (q * f)
        c = np.linalg.lstsq(rows * scale[:, None], f * scale, rcond=None)[0]
        p, q_c = c[:N_P], np.concatenate([[1.0], c[N_P:]])
        q = t[:, None] ** np.arange(N_Q) @ q_c
        error = np.abs((t[:, None] ** np.arange(N_P) @ p) / q / f - 1)
        if error.max() < best[0]:
            best = (error.max(), p / END ** (2 * np.arange(N_P)), q_c / END ** (2 * np.arange(N_Q)))
        weight = weight * (error / error.max() + 1e-4)
        weight /= weight.max()
    return best


def in_float32(p, q):
    x = np.linspace(1e-4, END, 200001).astype(np.float32)
    t = x * x
    num, den = np.float32(p[-1]), np.float32(q[-1])
    for c in p[-2::-1]:
        num = num * t + np.float32(c)
    for c in q[-2::-1]:
        den = den * t + np.float32(c)
    y = np.minimum(x * num / den, np.float32(1))
    truth = np.array([math.erf(v) for v in x.astype(np.float64)])
    return np.abs(y - truth).max(), (np.abs(y - truth) / truth).max()


def main():
    error, p, q = fit()
    for name, c in (("P", p), ("Q", q)):
        print(name, ", ".join(float(np.float32(v)).hex() for v in c))
    absolute, relative = in_float32(p, q)
    print(f"fit {error:.2e}; in float32 absolute {absolute:.2e}, relative {relative:.2e}")


if __name__ == "__main__":
    main()
