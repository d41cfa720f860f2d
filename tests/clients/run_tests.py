"""Runs one file of tests: run_tests.py FILE.

What it prints, and the file of results that it writes where Bazel asks for one (XML_OUTPUT_FILE), have
GoogleTest's form, which tools/test counts. Bazel's --test_filter chooses cases.
"""

import fnmatch
import importlib.util
import os
import pathlib
import sys
import time
import traceback
import unittest
from xml.sax import saxutils

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def name_of(test):
    """`Class.case`, of a case or a part of one."""
    whole = getattr(test, "test_case", test)
    return f"{type(whole).__name__}.{whole.id().rsplit('.', 1)[-1]}"


class Results(unittest.TestResult):
    """Prints the cases as they run, and keeps them."""

    def __init__(self):
        super().__init__()
        self.cases = []  # (name, messages of failures, why it was skipped or None)

    def startTest(self, test):
        super().startTest(test)
        self.failures_of_case = []
        self.skipped_because = None
        self.start = time.monotonic()
        print(f"[ RUN      ] {name_of(test)}", flush=True)

    def stopTest(self, test):
        super().stopTest(test)
        milliseconds = int((time.monotonic() - self.start) * 1000)
        mark = "[       OK ]"
        if self.skipped_because is not None:
            mark = "[  SKIPPED ]"
        if self.failures_of_case:
            mark = "[  FAILED  ]"
        print(f"{mark} {name_of(test)} ({milliseconds} ms)", flush=True)
        self.cases.append((name_of(test), self.failures_of_case, self.skipped_because))

    def fail(self, test, error):
        where = f"{test}\n" if hasattr(test, "test_case") else ""
        message = where + "".join(traceback.format_exception(*error))
        print(message, flush=True)
        if isinstance(test, unittest.TestCase):
            self.failures_of_case.append(message)
        else:  # setUpClass and the like are no cases.
            self.cases.append((str(test), [message], None))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.fail(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.fail(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.fail(subtest, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.skipped_because = reason


def write_xml(path, cases):
    with open(path, "w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n')
        for name, failures, skipped in cases:
            suite, _, case = name.rpartition(".")
            file.write(f"    <testcase name={saxutils.quoteattr(case)} status=\"run\""
                       f" classname={saxutils.quoteattr(suite)}>\n")
            for failure in failures:
                file.write(f"      <failure message={saxutils.quoteattr(failure)}/>\n")
            if skipped is not None:
                file.write(f"      <skipped message={saxutils.quoteattr(skipped)}/>\n")
            file.write("    </testcase>\n")
        file.write("</testsuites>\n")


def cases_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases_of(test)
        else:
            yield test


def main():
    path = pathlib.Path(sys.argv[1])
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)

    wanted = os.environ.get("TESTBRIDGE_TEST_ONLY", "*")
    chosen = [test for test in cases_of(unittest.defaultTestLoader.loadTestsFromModule(module))
              if fnmatch.fnmatchcase(name_of(test), wanted)]
    results = Results()
    unittest.TestSuite(chosen).run(results)
    if "XML_OUTPUT_FILE" in os.environ:
        write_xml(os.environ["XML_OUTPUT_FILE"], results.cases)
    if not results.cases:
        print(f"no case matches {wanted!r}", file=sys.stderr)
    sys.exit(0 if results.cases and results.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
