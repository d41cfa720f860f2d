#!/usr/bin/env python3
"""Writes case_tables.cc: how Unicode's characters change between lower and upper case.

  kernels/strings/make_case_tables.py > kernels/strings/case_tables.cc

The facts are those of the Unicode version that this Python knows.
"""

import unicodedata

SURROGATES = range(0xd800, 0xe000)
CHARACTERS = [chr(c) for c in range(0x110000) if c not in SURROGATES]
SIGMA, FINAL_SIGMA = "\u03a3", "\u03c2"


def mappings(change):
    """([(first, last, step, difference)], [(character, text)]): one to one, and one to several."""
    single, several = [], []
    for c in CHARACTERS:
        to = change(c)
        if to == c:
            continue
        if len(to) == 1:
            single.append((ord(c), ord(to) - ord(c)))
        else:
            several.append((ord(c), to))
    runs, i = [], 0
    while i < len(single):

        def end_of_run(step):
            j = i
            while j + 1 < len(single) and single[j + 1] == (single[j][0] + step, single[i][1]):
                j += 1
            return j, step

        j, step = max(end_of_run(1), end_of_run(2), key=lambda run: run[0])
        runs.append((single[i][0], single[j][0], step, single[i][1]))
        i = j + 1
    return runs, several


def ranges(wanted):
    result = []
    for c in CHARACTERS:
        if not wanted(c):
            continue
        if result and result[-1][1] == ord(c) - 1:
            result[-1][1] = ord(c)
        else:
            result.append([ord(c), ord(c)])
    return result


# A sigma is final after a cased letter, whatever stands between that does not count.
def is_cased(c):
    return (c + SIGMA).lower().endswith(FINAL_SIGMA)


def is_ignored(c):
    return ("A" + c + SIGMA).lower().endswith(FINAL_SIGMA) and not is_cased(c)


def number(value):
    return "-0x%x" % -value if value < 0 else "0x%x" % value


def table(kind, name, rows):
    print("const %s %s[] = {" % (kind, name))
    line = "   "
    for row in rows:
        item = " {%s}," % ", ".join(row)
        if len(line + item) > 100:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")
    print("const size_t %sSize = %d;\n" % (name, len(rows)))


def literal(text):
    return '"%s"' % "".join("\\x%02x" % b for b in text.encode())


def main():
    print("// Written by make_case_tables.py, of Unicode %s.\n" % unicodedata.unidata_version)
    print('#include "kernels/strings/case_tables.h"\n\nnamespace tandem::strings {\n')
    print("// clang-format off\n")
    for name, change in (("Lower", str.lower), ("Upper", str.upper)):
        runs, several = mappings(change)
        table("CaseRun", "k%sRuns" % name, [(number(a), number(b), str(s), number(d))
                                            for a, b, s, d in runs])
        table("CaseText", "k%sTexts" % name, [(number(c), literal(to)) for c, to in several])
    for name, wanted in (("Cased", is_cased), ("IgnoredByCase", is_ignored)):
        table("CharacterRange", "k" + name, [(number(a), number(b)) for a, b in ranges(wanted)])
    print("// clang-format on\n")
    print("}  // namespace tandem::strings")


if __name__ == "__main__":
    main()
