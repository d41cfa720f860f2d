"""Ops on text: case, cutting, joining, searching, hashing, numbers as text and back."""

import numpy as np

from . import optable, values
from .array import i32, i64, some
from .base import array
from .harness import case, rng


def text(*strings):
    return array([s.encode() if isinstance(s, str) else s for s in strings], "string")


def scalar(string):
    return array(string.encode() if isinstance(string, str) else string, "string")


def grid(rows):
    return array([[s.encode() for s in row] for row in rows], "string")


EMPTY = np.empty((0,), dtype=object)
# Letters of several alphabets, with and without a simple counterpart; and bytes that are no text.
LETTERS = text("", "aBc Z1", "ÄÖÜ éß", "İıſK", "ΑΣ ΣΑΣ σΣ. Σ", "ǅǆﬁŉ", "Ⅷⓐ", "ԱԲև", "𐐀𐐨", "Ωﬀ", "ΑΣ'Α ΑΣ'",
               b"A\xffB", b"\xc3", b"\xe2\x82A", b"\xf0\x9f\x98", b"\xed\xa0\x80Z", b"\xc0\xafQ")
BLANKS = text("", " a b ", "\t\n x\v\f\r", "no", "   ", "\u00a0a", "a  b")


def _elementwise():
    for op in ("StringLower", "StringUpper"):
        case(op, "ascii", LETTERS)
        case(op, "utf8", LETTERS, encoding="utf-8")
        case(op, "scalar", scalar("aB"))
        case(op, "matrix", grid([["aB", "C"], ["d", "E"]]))
        case(op, "empty", EMPTY)
        case(op, "error/encoding", text("a"), encoding="latin-1", error=True)
    case("StringStrip", "blanks", BLANKS)
    case("StringStrip", "matrix", grid([[" a", "b "], ["", "c"]]))
    case("StringStrip", "empty", EMPTY)
    for unit in ("BYTE", "UTF8_CHAR"):
        case("StringLength", unit, LETTERS, unit=unit)
    case("StringLength", "default", grid([["", "ä"], ["abc", "d"]]))
    case("StringLength", "scalar", scalar("abc"))
    case("StringLength", "loose_bytes", text(b"\x80", b"\x80\x80a", b"a\xff\xff"), unit="UTF8_CHAR")

    for op in ("StringToHashBucketFast", "StringToHashBucket"):
        words = text("", "a", "ab", *("x" * n + "yz" for n in range(2, 70)), "y" * 200, b"\x00\xff\x80")
        case(op, "lengths", words, num_buckets=2**62)
        case(op, "ten", some(op, "string", (3, 4)), num_buckets=10)
        case(op, "one", text("a", "b"), num_buckets=1)
        case(op, "scalar", scalar("hello"), num_buckets=1000)
        case(op, "error/buckets", text("a"), num_buckets=0, error=True, fragments=["0"])
    op = "StringToHashBucketStrong"
    words = text("", "a", *("x" * n + "yz" for n in range(2, 20)), "y" * 300, b"\x00\xff\x80")
    case(op, "lengths", words, num_buckets=2**62, key=[1, 2])
    case(op, "other_key", words, num_buckets=2**62, key=[-5, 2**62])
    case(op, "scalar", scalar("hello"), num_buckets=7, key=[3, 4])
    case(op, "error/key", text("a"), num_buckets=7, key=[3], error=True, fragments=["1"])


def _regex():
    lines = text("", "abcabc", "a.b.c", "x1y22", "ab\ncd", "äbä")
    replace = {
        "once": ("b", "X", {"replace_global": False}),
        "all": ("b", "X", {}),
        "group": (r"([a-z])(\d+)", r"\2-\1", {}),
        "whole": ("^.*$", r"[\0]", {}),
        "empty_match": ("x*", "-", {}),
        "punctuation": (r"[!\"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']", "", {}),
        "no_such_group": ("(a)", r"\2", {}),
        "bad_rewrite": ("a", r"\x", {}),
        "utf8": ("ä", "a", {}),
    }
    for name, (pattern, rewrite, attrs) in replace.items():
        case("StaticRegexReplace", name, lines, pattern=pattern, rewrite=rewrite, **attrs)
        case("RegexReplace", name, lines, scalar(pattern), scalar(rewrite), **attrs)
    case("StaticRegexReplace", "matrix", grid([["ab", "b"], ["", "c"]]), pattern="b", rewrite="d")
    case("StaticRegexReplace", "error/pattern", lines, pattern="(", rewrite="", error=True,
         fragments=["("])
    case("RegexReplace", "error/pattern", lines, scalar("["), scalar(""), error=True,
         fragments=["["])
    case("RegexReplace", "error/pattern_shape", lines, text("a"), scalar(""), error=True)
    case("RegexReplace", "error/rewrite_shape", lines, scalar("a"), text("", ""), error=True)
    op = "RegexFullMatch"
    case(op, "letters", lines, scalar("[a-z]*"))
    case(op, "alternatives", lines, scalar("abc|a.b.c"))
    case(op, "scalar", scalar("a"), scalar("a"))
    case(op, "open_brace", lines, scalar("a{2"))
    case(op, "error/bad", lines, scalar("*a"), error=True, fragments=["*a"])
    case(op, "error/pattern_shape", lines, text("a"), error=True)


def _split():
    op = "StringSplitV2"
    lines = text("a b  c", "", "  x ", "a,b,,c", ",", "one", "a::b:::c")
    for name, sep in (("blanks", ""), ("comma", ","), ("pair", "::"), ("space", " ")):
        for limit in (-1, 0, 1, 2):
            label = "all" if limit < 0 else "limit%d" % limit
            case(op, "%s/%s" % (name, label), lines, scalar(sep), maxsplit=limit)
    case(op, "other_blanks", BLANKS, scalar(""))
    case(op, "nothing", EMPTY, scalar(","))
    case(op, "error/input_shape", grid([["a"]]), scalar(","), error=True)
    case(op, "error/sep_shape", lines, text(","), error=True)
    op = "StringSplit"
    for name, delimiter in (("space", " "), ("none", ""), ("several", ",: ")):
        for skip in (True, False):
            case(op, "%s/%s" % (name, "skip" if skip else "keep"), lines, scalar(delimiter),
                 skip_empty=skip)
    case(op, "nothing", EMPTY, scalar(","))
    case(op, "error/input_shape", grid([["a"]]), scalar(","), error=True)
    case(op, "error/delimiter_shape", lines, text(",", ";"), error=True)


def _substr():
    op = "Substr"
    words = text("hello", "wörld", "日本語", "abc")
    for unit in ("BYTE", "UTF8_CHAR"):
        for t in (i32, i64):
            name = "%s/%s" % (unit, "int32" if t is i32 else "int64")
            case(op, name, words, t(0, 1, 2, 3)[()], t(1, 2, 10, 0), unit=unit)
        case(op, unit + "/scalars", words, array(1, "int32"), array(2, "int32"), unit=unit)
        case(op, unit + "/from_the_end", words, array(-2, "int32"), array(1, "int32"), unit=unit)
        case(op, unit + "/negative_length", words, array(1, "int32"), array(-1, "int32"), unit=unit)
        case(op, unit + "/at_the_end", scalar("abc"), array(3, "int32"), array(2, "int32"),
             unit=unit)
        case(op, unit + "/whole_from_the_end", scalar("abc"), array(-3, "int32"),
             array(9, "int32"), unit=unit)
        case(op, unit + "/rows", grid([["hello", "world"], ["abc", "defg"]]), i32(0, 1), i32(2, 2),
             unit=unit)
        case(op, unit + "/scalar_input", scalar("hello"), i32(0, 1, 2), i32(1, 2, 3), unit=unit)
        case(op, unit + "/broadcast_input", text("hello", "world"),
             array([[0], [1], [2]], "int32"), array([[1], [2], [3]], "int32"), unit=unit)
        for name, position in (("beyond", 4), ("before", -4)):
            case(op, "error/%s/%s" % (unit, name), scalar("abc"), array(position, "int32"),
                 array(1, "int32"), unit=unit, error=True, fragments=[str(position), "abc"])
            case(op, "error/%s/%s_each" % (unit, name), text("abc", "abc"), i32(0, position),
                 i32(1, 1), unit=unit, error=True, fragments=[str(position), "abc"])
    case(op, "loose_bytes", text(b"\x80a\xff", b"\xe4\xb8", b"\x80\x80b"), array(0, "int32"),
         array(1, "int32"), unit="UTF8_CHAR")
    case(op, "empty", EMPTY, array(0, "int32"), array(1, "int32"))
    case(op, "error/shapes", words, i32(0, 1), i32(1, 2), error=True)
    case(op, "error/pos_and_len", words, i32(0, 1, 2, 3), array(1, "int32"), error=True)


def _join():
    op = "ReduceJoin"
    cube = array([[["a", "b"], ["c", "d"], ["e", "f"]], [["g", "h"], ["i", "j"], ["k", "l"]]],
                 "string")
    for i in np.ndindex(*cube.shape):
        cube[i] = cube[i].encode()
    axes = {"first": [0], "middle": [1], "last": [2], "negative": [-1], "two": [0, 2],
            "two_turned": [2, 0], "all": [0, 1, 2], "all_turned": [2, 1, 0], "none": []}
    for name, indices in axes.items():
        indices = np.array(indices, np.int32)
        case(op, name, cube, indices)
        case(op, name + "/kept", cube, indices, keep_dims=True, separator="_")
    case(op, "scalar_axis", cube, array(1, "int32"), separator=", ")
    case(op, "scalar", scalar("a"), i32())
    case(op, "empty_rows", np.empty((3, 0), object), i32(1), separator="-")
    case(op, "empty_result", np.empty((3, 0), object), i32(0), separator="-")
    case(op, "error/axis", cube, i32(3), error=True, fragments=["3"])
    case(op, "error/axis_negative", cube, i32(-4), error=True, fragments=["-4"])
    case(op, "error/twice", cube, i32(1, 1), error=True, fragments=["1"])
    case(op, "error/twice_negative", cube, i32(1, -2), error=True)
    op = "UnsortedSegmentJoin"
    words = text("a", "b", "c", "d")
    for ids in (i32, i64):
        for count in ("int32", "int64"):
            name = "%s_%s" % ("int32" if ids is i32 else "int64", count)
            case(op, name, words, ids(2, 0, 2, 0), array(3, count), separator=",")
    case(op, "rows", grid([["a", "b"], ["c", "d"], ["e", "f"]]), i32(1, 0, 1), array(2, "int32"),
         separator=":")
    case(op, "matrix_of_ids", grid([["a", "b"], ["c", "d"]]), array([[1, 0], [1, 1]], "int32"),
         array(2, "int32"))
    case(op, "error/negative_id", words, i32(-1, 0, 0, -2), array(1, "int32"), error=True,
         fragments=["-1"])
    case(op, "nothing", EMPTY, np.empty((0,), np.int32), array(2, "int32"))
    case(op, "error/id", words, i32(0, 1, 2, 0), array(2, "int32"), error=True, fragments=["2"])
    case(op, "error/shapes", words, i32(0, 1), array(2, "int32"), error=True)
    case(op, "error/scalar_id", words, array(0, "int32"), array(2, "int32"), error=True)
    case(op, "error/count", words, i32(0, 0, 0, 0), array(-1, "int32"), error=True)


def _numbers():
    op = "AsString"
    for t in optable.kernel_types(op):
        x = values.special(t)
        case(op, t, x)
        if t in optable.FLOATS or t in optable.COMPLEX:
            case(op, t + "/precision", x, precision=2)
            case(op, t + "/scientific", x, scientific=True, precision=3)
            case(op, t + "/shortest", x, shortest=True)
        if t != "bool":
            case(op, t + "/width", x, width=8)
            for name, fill in (("zero", "0"), ("minus", "-"), ("blank", " "), ("plus", "+")):
                if t == "string" and fill in "0 +":
                    continue  # no meaning in C
                case(op, "%s/fill_%s" % (t, name), x, width=8, fill=fill)
    x = array([1.5, -2, 1e30], "float32")
    case(op, "fill_hash", x, fill="#", precision=0)
    case(op, "all_at_once", x, fill="+", width=12, precision=3, scientific=True)
    case(op, "scalar", array(3, "int32"))
    case(op, "empty", array([], "float32"))
    case(op, "error/fill", x, fill="x", error=True, fragments=["x"])
    case(op, "error/fill_long", x, fill="00", error=True)
    case(op, "error/both", x, scientific=True, shortest=True, error=True)
    case(op, "error/precision_int", array([1], "int32"), precision=2, error=True)
    case(op, "error/scientific_int", array([1], "int64"), scientific=True, error=True)
    case(op, "error/shortest_bool", array([True], "bool"), shortest=True, error=True)

    op = "StringToNumber"
    whole = ["0", "-0", "7", "-12", " 5", "5 ", "\t6\n", "+8", "007"]
    high = {"int32": 2**31 - 1, "int64": 2**63 - 1, "uint32": 2**32 - 1, "uint64": 2**64 - 1}
    for t in optable.kernel_types(op, "out_type"):
        if t in optable.FLOATS:
            x = text(*whole, "1.5", "-2e3", "1e-3", ".5", "5.", "inf", "-INF", "nan", "1e39", "1e400",
                     "infinity", "1e-50", "3.4028235e38", "0.1", "123456789.123456789")
            for name, bad in (("word", "x"), ("empty", ""), ("two", "1 2"), ("comma", "1,5"),
                              ("tail", "1x"), ("sign", "-"), ("hex", "0x1p3x")):
                case(op, "error/%s/%s" % (t, name), text("1", bad), out_type=t, error=True)
        else:
            signed = [w for w in whole if t in optable.SIGNED or "-" not in w]
            x = text(*signed, str(high[t]))
            bads = [("large", str(high[t] + 1)), ("fraction", "1.5"), ("exponent", "1e3"),
                    ("empty", ""), ("word", "x"), ("hex", "0x10"), ("two", "1 2")]
            if t in optable.UNSIGNED:
                bads.append(("negative", "-1"))
            else:
                bads.append(("small", str(-high[t] - 2)))
            for name, bad in bads:
                case(op, "error/%s/%s" % (t, name), text("1", bad), out_type=t, error=True)
        case(op, t, x, out_type=t)
    case(op, "scalar", scalar("1.25"))
    case(op, "empty", EMPTY, out_type="int32")


def _bytes():
    words = text("", "a", "ab", "abc", b"\xfb\xff\xbf\x00", "x" * 60)
    for pad in (False, True):
        case("EncodeBase64", "padded" if pad else "plain", words, pad=pad)
    case("EncodeBase64", "scalar", scalar("hello"))
    op = "DecodeBase64"
    case(op, "plain", text("", "YQ", "YWI", "YWJj", "-_-_AA"))
    case(op, "padded", text("YQ==", "YWI=", "YWJj"))
    case(op, "scalar", scalar("aGVsbG8"))
    for name, bad in (("alphabet", "ab+/"), ("blank", "YW Jj"), ("one_left", "YWJjY"),
                      ("padding", "YQ="), ("inner", "Y=Jj"), ("too_much", "YWJj====")):
        case(op, "error/" + name, text("YQ", bad), error=True)
    op = "DecodeRaw"
    for t in optable.kernel_types(op, "out_type"):
        x = values.ordinary(rng(op, t), (2, 3), t)
        rows = text(*(row.tobytes() for row in x))
        case(op, t, rows, out_type=t, exact=True)
        swapped = text(*(row.byteswap().tobytes() for row in x))
        case(op, t + "/big_endian", swapped, out_type=t, little_endian=False, exact=True)
    case(op, "scalar", scalar(b"\x01\x02"), out_type="uint8")
    case(op, "matrix", grid([["ab"], ["cd"]]), out_type="int8")
    case(op, "no_bytes", text("", ""), out_type="float32")
    case(op, "no_strings", EMPTY, out_type="float32")
    case(op, "error/size", text("abc"), out_type="int16", error=True, fragments=["3"])
    case(op, "error/sizes", text("abcd", "ab"), out_type="int16", error=True, fragments=["4", "2"])


def _format():
    op = "StringFormat"
    for t in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8", "bool",
              "string"):
        case(op, t, [values.special(t)], template="<%s>", summarize=-1)
        case(op, t + "/scalar", [values.special(t)[1:2].reshape(())], template="<%s>")
    x = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    case(op, "cube", [x], template="%s")
    case(op, "cube_whole", [x], template="%s", summarize=-1)
    case(op, "cube_of_one", [x], template="%s", summarize=1)
    case(op, "matrix", [x[0]], template="a %s b", summarize=1)
    case(op, "long", [np.arange(100, dtype=np.int32)], template="%s", summarize=2)
    case(op, "seven", [np.arange(7, dtype=np.int32)], template="%s")
    case(op, "six", [np.arange(6, dtype=np.int32)], template="%s")
    case(op, "two", [array(1, "int32"), text("a", "b")], template="x={}, y={}.", placeholder="{}")
    case(op, "none", [], template="plain", T=[])
    case(op, "empty", [np.zeros((0,), np.int32), np.zeros((2, 0), np.float32)], template="%s %s")
    case(op, "quotes", [text('a"b', "c\\d", "e\nf", "ä", b"\xff")], template="%s", summarize=-1)
    case(op, "numbers", [array([1e-8, 0.1, 1 / 3, 123456789, 1e20, 2.5], "float32"),
                         array([1e-8, 0.1, 1 / 3, 123456789, 1e20, 2.5], "float64")],
         template="%s %s", summarize=-1)
    case(op, "error/fewer", [array(1, "int32")], template="%s %s", error=True, fragments=["2", "1"])
    case(op, "error/more", [array(1, "int32")], template="", error=True)


def _ngrams():
    op = "StringNGrams"
    data = text("a", "b", "c", "d", "e", "f")
    splits = i64(0, 4, 4, 5, 6)
    base = {"separator": "|", "left_pad": "", "right_pad": "", "pad_width": 0,
            "preserve_short_sequences": False}
    case(op, "pairs", data, splits, ngram_widths=[2], **base)
    case(op, "int32", data, i32(0, 4, 4, 5, 6), ngram_widths=[2], **base)
    case(op, "widths", data, splits, ngram_widths=[3, 1, 2], **base)
    for name, width in (("one", 1), ("two", 2), ("all", -1)):
        case(op, "padded_" + name, data, splits, ngram_widths=[3, 2],
             **dict(base, left_pad="L", right_pad="R", pad_width=width))
    for width in (0, 1):
        case(op, "short_kept_%d" % width, data, splits, ngram_widths=[5],
             **dict(base, preserve_short_sequences=True, left_pad="L", right_pad="R",
                    pad_width=width))
    case(op, "nothing", EMPTY, i64(0), ngram_widths=[2], **base)
    case(op, "no_splits", EMPTY, np.empty((0,), np.int64), ngram_widths=[2], **base)
    case(op, "no_widths", data, splits, ngram_widths=[], **base)
    case(op, "error/first_split", data, i64(1, 6), ngram_widths=[2], error=True, **base)
    case(op, "error/last_split", data, i64(0, 5), ngram_widths=[2], error=True, **base)
    case(op, "error/beyond", data, i64(0, 9, 6), ngram_widths=[2], error=True, **base)
    case(op, "error/falling", data, i64(0, 4, 2, 6), ngram_widths=[2], error=True, **base)
    case(op, "error/width", data, splits, ngram_widths=[0], error=True, **base)


def _unicode():
    words = text("", "abc", "äß日本", "𐐀😀", "a\x01\n")
    broken = text(b"\xff", b"a\x80b", b"\xe2\x82", b"\xe2\x82a", b"\xf0\x9f\x98", b"\xf0\x9f\x98!",
                  b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xf8\x88\x80")
    wide = text(b"", "aä😀".encode("utf-16-be"), b"\x00", b"\xd8\x00", b"\xd8\x00\x00a",
                b"\xdc\x00\x00b", b"\x00a\x00")
    for op in ("UnicodeDecode", "UnicodeDecodeWithOffsets"):
        case(op, "utf8", words, input_encoding="UTF-8")
        case(op, "matrix", grid([["a", "bc"], ["", "d"]]), input_encoding="utf8")
        case(op, "scalar", scalar("ab"), input_encoding="UTF-8")
        case(op, "controls", words, input_encoding="UTF-8", replace_control_characters=True)
        case(op, "controls_ignored", words, input_encoding="UTF-8", errors="ignore",
             replace_control_characters=True)
        case(op, "replaced", broken, input_encoding="UTF-8")
        case(op, "replaced_by_space", broken, input_encoding="UTF-8", replacement_char=32)
        case(op, "ignored", broken, input_encoding="UTF-8", errors="ignore")
        case(op, "utf16", wide, input_encoding="UTF-16-BE")
        case(op, "utf32", text(b"", "a😀".encode("utf-32-be"), b"\x00\x00\x00", b"\x00\x11\x00\x00",
                               b"\x00\x00\xd8\x00\x00\x00\x00a"), input_encoding="UTF-32-BE")
        case(op, "latin1", text(b"a\xe4\xff"), input_encoding="ISO-8859-1")
        case(op, "ascii", text(b"a\xe4b"), input_encoding="US-ASCII")
        case(op, "error/strict", broken[:1], input_encoding="UTF-8", errors="strict", error=True)
        case(op, "error/encoding", words, input_encoding="none", error=True, fragments=["none"])
        case(op, "error/replacement", words, input_encoding="UTF-8", replacement_char=0x110000,
             error=True)
    op = "UnicodeEncode"
    characters = i32(97, 0xe4, 0x65e5, 0x1f600, 98, 0)
    for encoding in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
        case(op, encoding.replace("-", ""), characters, i64(0, 2, 2, 6), output_encoding=encoding)
    case(op, "int32", characters, i32(0, 2, 2, 6), output_encoding="UTF-8")
    bad = i32(97, 0xd800, -1, 0x110000, 98)
    case(op, "replaced", bad, i64(0, 5), output_encoding="UTF-8")
    case(op, "replaced_by_space", bad, i64(0, 5), output_encoding="UTF-8", replacement_char=32)
    case(op, "ignored", bad, i64(0, 5), output_encoding="UTF-8", errors="ignore")
    case(op, "error/strict", bad, i64(0, 5), output_encoding="UTF-8", errors="strict", error=True)
    case(op, "error/end", characters, i64(0, 2), output_encoding="UTF-8", error=True)
    case(op, "error/falling", characters, i64(0, 4, 2, 6), output_encoding="UTF-8", error=True)
    case(op, "error/beyond", characters, i64(0, 9), output_encoding="UTF-8", error=True)
    op = "UnicodeTranscode"
    for encoding in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
        name = encoding.replace("-", "")
        case(op, "from_utf8_to_" + name, words, input_encoding="UTF-8", output_encoding=encoding)
        case(op, "broken_to_" + name, broken, input_encoding="UTF-8", output_encoding=encoding)
    case(op, "from_utf16", wide, input_encoding="UTF-16-BE", output_encoding="UTF-8")
    case(op, "from_latin1", text(b"a\xe4"), input_encoding="latin-1", output_encoding="UTF-8")
    case(op, "ignored", broken, input_encoding="UTF-8", output_encoding="UTF-8", errors="ignore")
    case(op, "controls", words, input_encoding="UTF-8", output_encoding="UTF-8",
         replace_control_characters=True)
    case(op, "error/strict", broken, input_encoding="UTF-8", output_encoding="UTF-8",
         errors="strict", error=True)
    case(op, "error/encoding", words, input_encoding="x", output_encoding="UTF-8", error=True)


def generate():
    _elementwise()
    _regex()
    _split()
    _substr()
    _join()
    _numbers()
    _bytes()
    _format()
    _ngrams()
    _unicode()
