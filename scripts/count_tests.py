"""Adds up JUnit files from ctest and pytest: "N passed, N failed", and ", N skipped" if any.

A ctest entry is a whole file of Catch2 tests; Catch2's closing line says how many it held. An entry
that failed without one (a crash, a time-out) counts as one failure. Exit status 1 if any failed.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

ALL_PASSED = re.compile(r"All tests passed \(.* in (\d+) test cases?\)")
TOTALS = re.compile(r"^test cases: (.*)$", re.MULTILINE)


def count(case):
    """(passed, failed, skipped) of one <testcase>."""
    output = case.findtext("system-out") or ""
    bad = case.find("failure") is not None or case.find("error") is not None
    if all_passed := ALL_PASSED.findall(output):
        passed = int(all_passed[-1])
        return (passed, 1, 0) if bad else (passed, 0, 0)  # it crashed on its way out
    if totals := TOTALS.findall(output):
        numbers = {kind: int(n) for n, kind in re.findall(r"(\d+) ([a-z]+)", totals[-1])}
        passed = numbers.get("passed", 0) + numbers.get("as", 0)  # "failed as expected"
        failed = numbers.get("failed", 0)
        return passed, failed + (bad and not failed), numbers.get("skipped", 0)
    if bad:
        return 0, 1, 0
    if case.find("skipped") is not None:
        return 0, 0, 1
    return 1, 0, 0


def main(paths):
    totals = [0, 0, 0]
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            totals = [a + b for a, b in zip(totals, count(case))]
    passed, failed, skipped = totals
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main([path for path in sys.argv[1:] if "*" not in path]))
