"""The weights of a GGUF file as float64, and products with them: what the float64 passes over generated models share.

Owns: reading keys and tensors, the rounding of a product's input to int8 as the engine's default arithmetic does it.
Does not own: any model's law (dense.py, experts.py)."""
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

from reference import FLOATS, K_FORMATS, round_int8


class Weights:
    """act: "float", or "int8" to round the inputs of quantised products."""
    LAW = "weights"  # in messages

    def __init__(self, path, act="float"):
        reader = GGUFReader(path)
        self.fields = reader.fields
        self.tensors = {t.name: t for t in reader.tensors}
        self.decoded = {}  # name -> what weight() returned
        self.act = act
        self.arch = self.fields["general.architecture"].contents()

    def key(self, name, default=None):
        field = self.fields.get(f"{self.arch}.{name}")
        if field is None and default is None:
            raise SystemExit(f"{self.LAW}: {self.arch}.{name} is missing")
        return default if field is None else field.contents()

    def weight(self, name):
        if name not in self.decoded:
            t = self.tensors[name]
            self.decoded[name] = dequantize(t.data, t.tensor_type).astype(np.float64), t.tensor_type.name
        return self.decoded[name]

    def vector(self, name):
        return self.weight(name)[0].reshape(-1) if name in self.tensors else 0.0

    def rounded(self, x, kind):
        """The input of a product as the engine's default arithmetic rounds it."""
        if self.act != "int8" or kind in FLOATS:
            return x
        return round_int8(x, 256 if kind in K_FORMATS else 32)

    def product(self, name, x):
        w, kind = self.weight(f"{name}.weight")
        return self.rounded(x, kind) @ w.T + self.vector(f"{name}.bias")
