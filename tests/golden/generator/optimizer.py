"""The optimizers' updates, dense and sparse, by reference and by resource.

Each program makes variables, applies the update three times and reads everything after the
first and after the last.
"""

import numpy as np

from . import optable, running, values
from .base import array, tf, v1
from .harness import rng
from .program import Program
from .state import const, handle, raw, ref_op, reference

# Op -> (slots, inputs after them in order). "var" is always first. A slot is an input that is a
# variable: its start values are positive.
_INPUTS = {
    "ApplyGradientDescent": ("", "alpha delta"),
    "ApplyMomentum": ("accum", "lr grad momentum"),
    "ApplyAdagrad": ("accum", "lr grad"),
    "ApplyAdadelta": ("accum accum_update", "lr rho epsilon grad"),
    "ApplyAdam": ("m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad"),
    "ApplyRMSProp": ("ms mom", "lr rho momentum epsilon grad"),
    "ApplyFtrl": ("accum linear", "grad lr l1 l2 lr_power"),
    "ApplyAdagradV2": ("accum", "lr epsilon grad"),
    "ApplyAdamWithAmsgrad": ("m v vhat", "beta1_power beta2_power lr beta1 beta2 epsilon grad"),
    "ApplyCenteredRMSProp": ("mg ms mom", "lr rho momentum epsilon grad"),
    "ApplyKerasMomentum": ("accum", "lr grad momentum"),
    "SparseApplyAdagrad": ("accum", "lr grad indices"),
    "SparseApplyAdagradV2": ("accum", "lr epsilon grad indices"),
    "SparseApplyMomentum": ("accum", "lr grad indices momentum"),
    "SparseApplyKerasMomentum": ("accum", "lr grad indices momentum"),
}
_SCALARS = {
    "alpha": 0.1,
    "lr": 0.1,
    "momentum": 0.9,
    "rho": 0.8,
    "epsilon": 1e-3,
    "beta1_power": 0.9,
    "beta2_power": 0.99,
    "beta1": 0.9,
    "beta2": 0.99,
    "l1": 0.02,
    "l2": 0.1,
    "lr_power": -0.5
}
_LOOSE = {
    "float16": {
        "rtol": 1e-2,
        "atol": 5e-3
    },
    "bfloat16": {
        "rtol": 6e-2,
        "atol": 4e-2
    },
    "float32": {
        "rtol": 2e-5,
        "atol": 2e-6
    },
    "complex64": {
        "rtol": 1e-4,
        "atol": 1e-5
    },
    "float64": {
        "rtol": 1e-10,
        "atol": 1e-12
    },
    "complex128": {
        "rtol": 1e-9,
        "atol": 1e-11
    }
}


def _attribute_variants(op):
    names = [a.name for a in running.op_def_registry.get(op).attr]
    yield "", {}
    if "use_nesterov" in names:
        yield "/nesterov", {"use_nesterov": True}
    if "update_slots" in names:
        yield "/slots_fixed", {"update_slots": False}
    if "multiply_linear_by_lr" in names:
        yield "/linear_by_lr", {"multiply_linear_by_lr": True}
    yield "/locking", {"use_locking": True}


class _Update:
    """The graph of one optimizer: variables, their start, the update, their values."""

    def __init__(self, op, name, t, shape, attrs, fed=(), **tolerance):
        self.op, self.resource = op, op.startswith("Resource")
        slots, inputs = _INPUTS[op.replace("Resource", "")]
        self.program = Program(op, name, **tolerance)
        self.sparse = "indices" in inputs
        gradient_shape = (3,) + tuple(shape[1:]) if self.sparse else shape
        variables = ["var"] + slots.split()
        with self.program:
            holders, starts, self.values = [], [], []
            for v in variables:
                # mg must stay below the root of ms: the centered second moment is positive.
                low, high = (-2, 2) if v in ("var", "linear", "mom",
                                             "m") else ((0, 0.3) if v == "mg" else
                                                        (1, 2) if v == "ms" else (0.5, 2))
                start = values.ordinary(rng(op, name + v), shape, t, low, high)
                if self.resource:
                    h = handle(t, list(shape), v)
                    holders.append(h)
                    starts.append(raw.AssignVariableOp(resource=h, value=const(start)))
                    self.values.append(
                        raw.ReadVariableOp(resource=h, dtype=tf.as_dtype(t), name="read_" + v))
                else:
                    r = reference(t, list(shape), v)
                    holders.append(r)
                    starts.append(ref_op("Assign", r, start))
                    self.values.append(r)
            self.fed, args = {}, {}
            for i in inputs.split():
                if i in fed:
                    self.fed[i] = args[i] = v1.placeholder(
                        tf.int32 if i == "indices" else tf.as_dtype(t), name=i)
                elif i in ("grad", "delta"):
                    g = values.ordinary(rng(op, name + i), gradient_shape, t, -2, 2)
                    if g.size > 1:
                        g.reshape(-1)[1] = 0
                    args[i] = const(g)
                elif i == "indices":
                    args[i] = const(array([2, 0, 2], attrs.pop("index_type", "int32")))
                else:
                    args[i] = const(array(_SCALARS[i], t))
            if self.resource:
                given = dict(zip(variables, holders), **args)
                # raw_ops renames what would be a keyword.
                self.apply = getattr(raw, op)(**given, **attrs)
            else:
                g = tf.compat.v1.get_default_graph()
                self.apply = _apply_by_reference(g, op, holders, [args[i] for i in inputs.split()],
                                                 t, attrs)
            self.start = starts

    def run(self, feed=None, **kwargs):
        feed = {self.fed[k]: v for k, v in (feed or {}).items()}
        self.program.step(target=self.apply, feed=feed, **kwargs)

    def read(self):
        self.program.step(self.values)


def _apply_by_reference(g, op, refs, inputs, t, attrs):
    ref_type = tf.as_dtype(t)._as_ref
    kinds = {a.name: a for a in running.op_def_registry.get(op).attr}
    full = dict({"T": t}, **attrs)
    return g.create_op(op,
                       refs + inputs, [ref_type],
                       input_types=[ref_type] * len(refs) + [i.dtype.base_dtype for i in inputs],
                       name=op,
                       attrs={
                           k: running.attr_value(kinds[k], v) for k, v in full.items()
                       })


def _cases(op):
    sparse = "Sparse" in op
    for t in optable.kernel_types(op):
        for suffix, attrs in _attribute_variants(op):
            if suffix and t not in ("float32", "float64"):
                continue
            u = _Update(op, t + suffix, t, (4, 2) if sparse else (2, 3), dict(attrs), **_LOOSE[t])
            u.program.step(target=u.start)
            u.run()
            u.read()
            u.run()
            u.run()
            u.read()
            u.program.record()
    u = _Update(op, "long", "float32", (4, 19) if sparse else (37,), {}, rtol=2e-5, atol=2e-6)
    u.program.step(target=u.start)
    u.run()
    u.read()
    u.program.record()
    if not sparse:
        u = _Update(op, "empty", "float32", (0, 3), {})
        u.program.step(target=u.start)
        u.run()
        u.read()
        u.program.record()
        u = _Update(op, "scalar", "float32", (), {}, rtol=2e-5, atol=2e-6)
        u.program.step(target=u.start)
        u.run()
        u.read()
        u.program.record()
    rate = "alpha" if "GradientDescent" in op else "lr"
    grad = "delta" if "GradientDescent" in op else "grad"
    fed = (rate, grad) + (("indices",) if sparse else ())
    u = _Update(op,
                "errors",
                "float32", (4, 2) if sparse else (2, 3), {},
                fed=fed,
                rtol=2e-5,
                atol=2e-6)
    good = {rate: array(0.1, "float32"), grad: np.ones((2, 2) if sparse else (2, 3), np.float32)}
    if sparse:
        good["indices"] = array([1, 3], "int32")
    u.run(good, error=True, note="not initialized")
    u.program.step(target=u.start)
    u.run(dict(good, **{rate: array([0.1, 0.2], "float32")}),
          error=True,
          note="the rate is not a scalar")
    u.run(dict(good, **{grad: np.ones((2, 4), np.float32)}),
          error=True,
          note="the gradient has another shape")
    if sparse:
        u.run(dict(good, indices=array([1, 4], "int32")), error=True, note="index too large")
        u.run(dict(good, indices=array([1, -1], "int32")), error=True, note="index negative")
        u.run(dict(good, indices=array([1], "int32")), error=True, note="fewer indices than rows")
        u.run(dict(good, **{
            "indices": array([], "int32"),
            grad: np.zeros((0, 2), np.float32)
        }),
              note="no rows")
    u.program.step(target=u.start)
    u.run(good)
    u.read()
    u.program.record()
    if sparse:
        u = _Update(op,
                    "int64_indices",
                    "float32", (4, 2), {"index_type": "int64"},
                    rtol=2e-5,
                    atol=2e-6)
        u.program.step(target=u.start)
        u.run()
        u.read()
        u.program.record()


def generate():
    for op in optable.TIER1:
        if op.replace("Resource", "") in _INPUTS:
            _cases(op)
