"""Einsum: all kinds of labels, in one and two inputs."""

import numpy as np

from . import optable
from .convolution import data
from .harness import case

# name -> equation, shapes of the inputs
_EQUATIONS = {
    "matmul": ("ab,bc->ac", (3, 4), (4, 2)),
    "matmul_turned": ("ba,cb->ca", (4, 3), (2, 4)),
    "batches": ("abc,acd->abd", (2, 3, 4), (2, 4, 2)),
    "attention_scores": ("btnh,bsnh->bnts", (2, 3, 2, 4), (2, 5, 2, 4)),
    "attention_values": ("bnts,bsnh->btnh", (2, 2, 3, 5), (2, 5, 2, 4)),
    "dense_of_heads": ("abc,cde->abde", (2, 3, 4), (4, 2, 3)),
    "outer": ("a,b->ba", (3,), (4,)),
    "elements": ("ab,ab->ab", (3, 4), (3, 4)),
    "rows": ("ab,b->ab", (3, 4), (4,)),
    "dot": ("a,a->", (5,), (5,)),
    "frobenius": ("ab,ab->", (3, 4), (3, 4)),
    "scaled": (",ab->ba", (), (3, 4)),
    "summed_alone": ("abc,cd->da", (2, 3, 4), (4, 2)),
    "summed_apart": ("ab,cd->ad", (2, 3), (4, 2)),
    "diagonals": ("aab,bcc->ac", (3, 3, 2), (2, 4, 4)),
    "onto_the_diagonal": ("a,b->aab", (3,), (2,)),
    "dots": ("...ab,...bc->...ac", (2, 1, 3, 4), (3, 4, 2)),
    "dots_in_one": ("...ab,bc->...ac", (2, 3, 3, 4), (4, 2)),
    "dots_at_the_end": ("ab...,b...->a...", (3, 4, 2, 1), (4, 3)),
    "dots_of_nothing": ("...a,a...->...", (4,), (4,)),
    "transpose": ("abc->cab", (2, 3, 4)),
    "unchanged": ("ab->ab", (3, 4)),
    "sum": ("abc->b", (2, 3, 4)),
    "sum_of_all": ("ab->", (3, 4)),
    "trace": ("aa->", (4, 4)),
    "diagonal": ("aba->ba", (3, 4, 3)),
    "spread": ("ab->aba", (3, 2)),
    "dots_summed": ("...a->...", (2, 3, 4)),
    "dots_moved": ("a...b->b...a", (2, 3, 4, 5)),
    "empty": ("ab,bc->ac", (0, 3), (3, 2)),
    "nothing_to_add": ("ab,bc->ac", (2, 0), (0, 3)),
    "nothing_to_sum": ("ab->a", (2, 0)),
    "ones": ("abc,cd->abd", (2, 1, 3), (3, 1)),
    "larger": ("abc,cd->abd", (3, 11, 37), (37, 19)),
}
_ERRORS = {
    "no_arrow": ("ab,bc", (2, 3), (3, 2)),
    "two_arrows": ("ab->a->b", (2, 3)),
    "sizes": ("ab,bc->ac", (2, 3), (2, 2)),
    "rank": ("abc->a", (2, 3)),
    "label_of_output": ("ab->ac", (2, 3)),
    "dots_twice": ("...a...->a", (2, 3)),
    "two_dots": ("a..b->a", (2, 3)),
    "dots_lost": ("...a->a", (2, 3)),
    "dots_differ": ("...a,...a->...", (2, 3), (3, 3)),
    "inputs": ("ab->a", (2, 3), (2, 3)),
    "diagonal": ("aa->a", (2, 3)),
}


def generate():
    op = "Einsum"
    for name, (equation, *shapes) in _EQUATIONS.items():
        case(op,
             name, [data(op, "%s%d" % (name, i), s) for i, s in enumerate(shapes)],
             equation=equation,
             rtol=1e-5,
             atol=1e-5)
    for t in optable.kernel_types(op):
        loose = {
            "float16": {
                "rtol": 5e-3,
                "atol": 2e-2
            },
            "bfloat16": {
                "rtol": 3e-2,
                "atol": 1e-1
            }
        }.get(t, {})
        case(op,
             t + "/product", [data(op, t, (2, 3, 4), t),
                              data(op, t + "2", (4, 2, 3), t)],
             equation="abc,cde->bade",
             **loose)
        case(op, t + "/sum", [data(op, t + "s", (3, 4, 2), t)], equation="abc->cb", **loose)
        case(op,
             t + "/outer", [data(op, t + "x", (3,), t),
                            data(op, t + "y", (4,), t)],
             equation="a,b->ab",
             **loose)
    x = data(op, "nan", (3, 4))
    x[1, 2] = np.nan
    case(op, "nan", [x, data(op, "nan2", (4, 2))], equation="ab,bc->ac")
    for name, (equation, *shapes) in _ERRORS.items():
        case(op,
             "error/" + name, [data(op, "%s%d" % (name, i), s) for i, s in enumerate(shapes)],
             equation=equation,
             error=True)
