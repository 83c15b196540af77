"""The small files of reference log-probabilities: how they are stored, read, and compared with.

Owns: the format and the arithmetic of the two comparisons. Does not own: thresholds (check_reference.py).

One .npz file (LZMA members) per model and prompt of n ids, n - 1 scored rows; row i predicts id i + 1:

    meta        JSON: model hash, text, command, versions, means
    ids         int32 [n]
    next_logp   float32 [n-1]       log p of the id that follows
    top_ids     int32 [n-1, 32]     the 32 most probable ids, most probable first
    top_logp    float32 [n-1, 32]
    rest_logp   float32 [n-1]       log of the mass of all other ids
    int8_kl     float32 [n-1]       KL(exact || int8 inputs) on the partition {32 top ids, all others}
    full_rows   int32 [f]           the rows that are stored wholly:
    full_count  int32 [f]           ids with p >= 1e-6 in each
    full_gap    uint32              their ids ascending, as distances, in byte planes
    full_logp   uint16              round(-log p * 4096): within 1.3e-4, in byte planes

KL on a partition never exceeds KL on the full vocabulary (data processing); the engine and the int8 yardstick
are compared on the same partition and rows, so their ratio is fair. It is stored for every row because KL is
heavy-tailed: a few dozen rows would not give a mean that a factor of 1.15 can be asked of."""
import io
import json
import zipfile

import numpy as np

TOP = 32
P_MIN = 1e-6
LOGP_STEPS = 4096.0
LOGP_ERROR = 0.5 / LOGP_STEPS + 1e-6  # of a stored full_logp


def _planes(a):
    """Byte planes compress better than interleaved bytes."""
    return np.ascontiguousarray(a.view(np.uint8).reshape(-1, a.itemsize).T)


def _unplanes(b, dtype):
    return np.ascontiguousarray(b.T).view(dtype).reshape(-1)


def save(path, meta, arrays):
    arrays = dict(arrays)
    for name in ("full_gap", "full_logp", "top_ids", "top_logp"):
        arrays[name] = _planes(arrays[name])
    arrays["meta"] = np.frombuffer(json.dumps(meta, indent=1).encode(), dtype=np.uint8)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as z:
        for name in sorted(arrays):
            buffer = io.BytesIO()
            np.save(buffer, arrays[name])
            z.writestr(zipfile.ZipInfo(name + ".npy"), buffer.getvalue(), zipfile.ZIP_LZMA)


class Stored:
    def __init__(self, path):
        with np.load(path) as z:
            self.meta = json.loads(bytes(z["meta"]))
            for name in ("ids", "next_logp", "rest_logp", "int8_kl", "full_rows", "full_count"):
                setattr(self, name, z[name])
            n = len(self.next_logp)
            self.top_ids = _unplanes(z["top_ids"], np.int32).reshape(n, TOP)
            self.top_logp = _unplanes(z["top_logp"], np.float32).reshape(n, TOP)
            gap = _unplanes(z["full_gap"], np.uint32)
            logp = -_unplanes(z["full_logp"], np.uint16).astype(np.float64) / LOGP_STEPS
        ends = np.cumsum(self.full_count)
        self.full = {int(r): (np.cumsum(gap[e - c:e].astype(np.int64)), logp[e - c:e])
                     for r, e, c in zip(self.full_rows, ends, self.full_count)}

    @property
    def margin(self):
        """Nats between the two most probable ids of each row."""
        return self.top_logp[:, 0] - self.top_logp[:, 1]


def top_of(logp):
    """[r, n_vocab] -> (ids [r, 32], log p [r, 32] descending, log of the rest's mass [r])."""
    part = np.argpartition(-logp, TOP, axis=1)[:, :TOP]
    order = np.argsort(-np.take_along_axis(logp, part, axis=1), axis=1, kind="stable")
    ids = np.take_along_axis(part, order, axis=1)
    return ids, np.take_along_axis(logp, ids, axis=1), rest_mass(logp, ids)


def rest_mass(logp, ids):
    """log of the mass outside ids, summed directly (1 - sum would cancel)."""
    p = np.exp(logp)
    np.put_along_axis(p, ids, 0.0, axis=1)
    return np.log(np.maximum(p.sum(axis=1), 1e-300))


def full_of(logp_row):
    """(ids as distances, quantised log p) of the ids with p >= 1e-6."""
    ids = np.flatnonzero(logp_row >= np.log(P_MIN))
    return np.diff(ids, prepend=0).astype(np.uint32), np.rint(-logp_row[ids] * LOGP_STEPS).astype(np.uint16)


def partition_kl(top_logp, rest_logp, ids, other_logp):
    """KL per row of (top_logp [r, 32], rest_logp [r]) from other_logp [r, n_vocab] on that partition."""
    a = np.concatenate([top_logp, rest_logp[:, None]], axis=1).astype(np.float64)
    b = np.take_along_axis(other_logp, ids, axis=1)
    b = np.concatenate([b, rest_mass(other_logp, ids)[:, None]], axis=1)
    return (np.exp(a) * (a - b)).sum(axis=1)
