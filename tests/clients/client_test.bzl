"""The rule of the tests that have TensorFlow on the other side."""

def client_test(name, programs, data = [], size = "medium"):
    """Runs the cases of NAME.py (unittest) in the part `clients` of `tools/test --long`.

    Without the part's Python environment, which tools/lib/venv.sh makes, the test fails.

    Args:
      name: the test; NAME.py is its source.
      programs: programs that it calls, by the names of environment variables that have their paths.
      data: more files that it reads.
      size: as usual.
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = ["run_test.sh"],
        args = ["tests/clients/%s.py" % name],
        data = [
            name + ".py",
            "run_tests.py",
            "side_by_side.py",
        ] + programs.values() + data,
        env = {variable: "$(location %s)" % program for variable, program in programs.items()},
        tags = [
            "long",
            "part-clients",
        ],
    )
