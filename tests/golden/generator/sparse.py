"""Features crossed, and numbers counted into sparse tensors."""

import numpy as np

from .array import i64, some
from .base import array
from .harness import case, computed

COUNTED = ["int32", "int64", "float32", "float64"]


def text(*values):
    return array(list(values), "string")


# Three rows: two features, none, one.
INDICES = i64([0, 0], [0, 1], [2, 0])
WORDS = text(b"fox", b"", b"\xffa long text that is hashed in several steps")
NUMBERS = i64(-7, 3, 1 << 40)
SHAPE = i64(3, 2)
DENSE_WORDS = array([[b"a", b"b"], [b"c", b"d"], [b"e", b"f"]], "string")
DENSE_NUMBERS = i64([1], [-2], [3])

# Name, indices, values, shapes, dense inputs.
COLUMNS = [
    ("one", [INDICES], [WORDS], [SHAPE], []),
    ("numbers", [INDICES], [NUMBERS], [SHAPE], []),
    ("two", [INDICES, INDICES], [WORDS, NUMBERS], [SHAPE, SHAPE], []),
    ("dense", [], [], [], [DENSE_WORDS, DENSE_NUMBERS]),
    ("mixed", [INDICES], [WORDS], [SHAPE], [DENSE_NUMBERS, DENSE_WORDS]),
    ("no_columns", [], [], [], [np.zeros((2, 0), np.int64), DENSE_NUMBERS[:2]]),
    ("no_rows", [np.zeros((0, 2), np.int64)], [NUMBERS[:0]], [i64(0, 2)], []),
]
# What does not fit.
WRONG = [
    ("rows", [INDICES], [WORDS], [SHAPE], [DENSE_WORDS[:2]]),
    ("rank", [INDICES], [WORDS], [SHAPE], [text(b"a", b"b", b"c")]),
    ("indices", [INDICES[:, 0]], [WORDS], [SHAPE], []),
    ("columns", [i64([0], [0], [2])], [WORDS], [SHAPE], []),
    ("counts", [INDICES[:2]], [WORDS], [SHAPE], []),
    ("shape", [INDICES], [WORDS], [i64(3)], []),
    ("values", [INDICES], [NUMBERS.reshape(3, 1)], [SHAPE], []),
]


def _without_dense(indices, values, shapes, dense):
    """The same columns, all sparse."""
    def places(a):
        return np.array(list(np.ndindex(a.shape)), np.int64).reshape(-1, 2)

    return (indices + [places(a) for a in dense], values + [a.reshape(-1) for a in dense],
            shapes + [i64(*a.shape) for a in dense], [])


def _cross():
    op = "SparseCross"
    for name, *columns in COLUMNS:
        for label, internal, attrs in (
            ("/texts", "string", {"hashed_output": False, "num_buckets": 0}),
            ("/texts_of_numbers", "int64", {"hashed_output": False, "num_buckets": 0}),
            ("/hashes", "int64", {"hashed_output": True, "num_buckets": 0}),
            ("/buckets", "int64", {"hashed_output": True, "num_buckets": 17})):
            refused = internal == "string" and any(
                a.dtype != object for a in columns[1] + columns[3])
            case(op, name + label, *columns, hash_key=0xDECAFCAFFE, internal_type=internal,
                 error=refused,
                 out_type="int64" if attrs["hashed_output"] else "string", **attrs)
        case("SparseCrossV2", name, *columns, array(b"_and_", "string"))
        for label, strong, buckets in (("weak", False, 0), ("buckets", False, 100),
                                       ("strong", True, 1000), ("strong_hashes", True, 0)):
            options = (array(buckets, "int64"), array(strong, "bool"), i64(133, -137))
            hashed = "SparseCrossHashed"
            if strong and columns[3]:
                same = _without_dense(*columns)
                outputs = case(hashed, "%s/%s/sparse" % (name, label), *same, *options)
                computed(hashed, "%s/%s" % (name, label), (*columns, *options), outputs,
                         "TensorFlow crashes; this is its answer for the same as sparse columns")
            else:
                case(hashed, "%s/%s" % (name, label), *columns, *options)
    for name, *columns in WRONG:
        case(op, "error/" + name, *columns, hashed_output=True, num_buckets=5, hash_key=1,
             internal_type="int64", out_type="int64", error=True)
        case("SparseCrossV2", "error/" + name, *columns, array(b"_", "string"), error=True)
        case("SparseCrossHashed", "error/" + name, *columns, array(5, "int64"),
             array(False, "bool"), i64(1, 2), error=True)


def _ragged_cross():
    op = "RaggedCross"
    splits = i64(0, 2, 2, 3)
    texts = {"hashed_output": False, "num_buckets": 0, "out_values_type": "string"}
    hashes = {"hashed_output": True, "num_buckets": 0, "out_values_type": "int64"}
    few = dict(hashes, num_buckets=11)
    for label, kind in (("texts", texts), ("hashes", hashes), ("buckets", few)):
        for order, *inputs in (
            ("R", [WORDS], [splits], [], [], [], []),
            ("RR", [WORDS, NUMBERS], [splits, splits], [], [], [], []),
            ("SRD", [WORDS], [splits], [INDICES], [NUMBERS], [SHAPE], [DENSE_WORDS]),
            ("DDR", [NUMBERS], [splits], [], [], [], [DENSE_NUMBERS, DENSE_WORDS])):
            case(op, order + "/" + label, *inputs, input_order=order, hash_key=956888297470,
                 out_row_splits_type="int64", **kind)
    case(op, "int32_splits", [WORDS], [splits.astype(np.int32)], [], [], [], [], input_order="R",
         hash_key=1, out_row_splits_type="int32", **texts)
    wrong = dict(texts, hash_key=1, out_row_splits_type="int64", error=True)
    case(op, "error/order", [WORDS], [splits], [], [], [], [], input_order="S", **wrong)
    case(op, "error/rows", [WORDS], [splits], [], [], [], [DENSE_WORDS[:2]], input_order="RD",
         **wrong)
    case(op, "error/end", [WORDS], [i64(0, 2, 2, 4)], [], [], [], [], input_order="R", **wrong)
    case(op, "error/begin", [WORDS], [i64(1, 2, 2, 3)], [], [], [], [], input_order="R", **wrong)


def _counts():
    six = np.array([1, 3, 1, 0, 5, 3])
    rows = six.reshape(2, 3)
    sparse = i64([0, 1], [0, 4], [2, 0], [2, 1], [2, 2], [3, 9])
    splits = i64(0, 2, 2, 5, 6)
    for t in COUNTED:
        weights = some("DenseCountSparseOutput", t, (6,))
        for index in ("int32", "int64"):
            for label, w, attrs in (
                ("", weights, {"binary_output": False}),
                ("/unweighted", weights[:0], {"binary_output": False}),
                ("/binary", weights[:0], {"binary_output": True})):
                name = index + "_" + t + label
                values = array(six, index)
                case("DenseCountSparseOutput", name, values, w, **attrs)
                case("DenseCountSparseOutput", name + "/rows", values.reshape(2, 3),
                     w.reshape(2, 3) if w.size else w, **attrs)
                case("SparseCountSparseOutput", name, sparse, values, i64(4, 10), w, **attrs)
                case("RaggedCountSparseOutput", name, splits, values, w, **attrs)
    none = np.zeros((0,), np.float32)
    plain = {"binary_output": False}
    for name, attrs in (("min", {"minlength": 9}), ("max", {"maxlength": 4}),
                        ("min_small", {"minlength": 2}), ("max_large", {"maxlength": 40}),
                        ("both", {"minlength": 3, "maxlength": 5}), ("max_0", {"maxlength": 0})):
        attrs = dict(plain, **attrs)
        case("DenseCountSparseOutput", name, array(rows, "int64"), none, **attrs)
        case("SparseCountSparseOutput", name, sparse, array(six, "int64"), i64(4, 10), none,
             **attrs)
        case("RaggedCountSparseOutput", name, splits, array(six, "int64"), none, **attrs)
    op = "DenseCountSparseOutput"
    case(op, "nothing", i64(), none, **plain)
    case(op, "error/negative", i64(1, -2), none, error=True, **plain)
    case(op, "error/rank", np.zeros((1, 1, 1), np.int64), none, error=True, **plain)
    case(op, "error/weights", i64(1, 2), np.ones((3,), np.float32), error=True, **plain)
    op = "SparseCountSparseOutput"
    case(op, "vector", i64([0], [4], [7]), i64(1, 1, 3), i64(10), none, **plain)
    case(op, "nothing", np.zeros((0, 2), np.int64), i64(), i64(2, 3), none, **plain)
    case(op, "error/row", i64([2, 0]), i64(1), i64(2, 3), none, error=True, **plain)
    case(op, "error/column", i64([1, 3]), i64(1), i64(2, 3), none, error=True, **plain)
    case(op, "error/counts", i64([0, 0], [0, 1]), i64(1), i64(2, 3), none, error=True, **plain)
    case(op, "error/weights", i64([0, 0]), i64(1), i64(2, 3), np.ones((3,), np.float32),
         error=True, **plain)
    op = "RaggedCountSparseOutput"
    case(op, "error/no_rows", i64(0), i64(), none, error=True, **plain)
    case(op, "error/first", i64(1, 3), i64(1, 2, 3), none, error=True, **plain)
    case(op, "error/last", i64(0, 2), i64(1, 2, 3), none, error=True, **plain)
    case(op, "error/negative", i64(0, 2), i64(1, -2), none, error=True, **plain)


def generate():
    _cross()
    _ragged_cross()
    _counts()
