"""The rule of fuzz targets."""

load("//tools/build_defs:tandem.bzl", "tandem_cc_library", "tandem_cc_test")

def fuzz_target(name, deps, runs = 20000, long_runs = 1000000, corpus = []):
    """The target in NAME_fuzz.cc with the corpus in corpus/NAME.

    Makes NAME_fuzz_test, a short run for every change, and NAME_fuzz_long_test, another seed and
    more inputs, in the part `seeds`.

    Args:
      name: the format.
      deps: what the target uses.
      runs: how many inputs the short run makes.
      long_runs: and the long one.
      corpus: labels of more inputs.
    """
    inputs = native.glob(["corpus/%s/*" % name]) + corpus
    tandem_cc_library(
        name = name + "_fuzz",
        testonly = True,
        srcs = [name + "_fuzz.cc"],
        deps = deps + [
            ":target",
            "//third_party:absl",
        ],
        alwayslink = True,
    )
    for test, size, seed, count, part in [
        ("_fuzz_test", "small", 1, runs, None),
        ("_fuzz_long_test", "medium", 2, long_runs, "seeds"),
    ]:
        tandem_cc_test(
            name = name + test,
            size = size,
            srcs = ["main.cc"],
            args = [
                "--seed=%d" % seed,
                "--runs=%d" % count,
            ] + ["$(locations %s)" % input for input in inputs],
            data = inputs,
            part = part,
            deps = [
                ":%s_fuzz" % name,
                ":driver",
            ],
        )
