"""Adds up test results: count_results.py [--passed N] [--failed N] FILE.xml...

FILE is what `ctest --output-junit` or `pytest --junitxml` wrote. The last line printed is
`N passed, N failed`. A test that was left out counts as failed, and so does a file that is missing or
holds no test: a run that tested nothing must not look like success.
"""
import argparse
import sys
import xml.etree.ElementTree as tree


def count(path):
    """(passed, failed, complaints)"""
    try:
        cases = list(tree.parse(path).getroot().iter("testcase"))
    except (OSError, tree.ParseError) as error:
        return 0, 1, [f"{path}: no results: {error}"]
    if not cases:
        return 0, 1, [f"{path}: not one test ran"]
    bad = [c for c in cases if c.get("status") in ("fail", "notrun", "disabled")
           or any(c.find(kind) is not None for kind in ("failure", "error", "skipped"))]
    # a pytest case whose teardown fails too is listed twice
    names = {(c.get("classname"), c.get("name")) for c in bad}
    everything = {(c.get("classname"), c.get("name")) for c in cases}
    return len(everything) - len(names), len(names), [f"{path}: failed: {name}" for _, name in sorted(names)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passed", type=int, default=0, help="passed otherwise")
    parser.add_argument("--failed", type=int, default=0, help="failed otherwise")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    passed, failed = arguments.passed, arguments.failed
    for path in arguments.files:
        good, bad, complaints = count(path)
        passed, failed = passed + good, failed + bad
        for line in complaints:
            print(line)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


sys.exit(main())
