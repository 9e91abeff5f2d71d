#!/usr/bin/env python3
"""Every scenario that rows.txt lists has a test that exists, and runs on a real API server or says why not."""
import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = pathlib.Path(__file__).with_name("rows.txt")
TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.M)


def tests_of(path):
    text = path.read_text()
    if path.suffix == ".py":
        return {f"{path.name}:{name}" for name in re.findall(r"def (test_\w+)\(", text)}
    return {f"{suite}.{name}" for suite, name in TEST.findall(text)}


def all_tests():
    found = set()
    for folder in ("src", "test"):
        for pattern in ("*_test.cc", "*_test.py"):
            for path in (ROOT / folder).rglob(pattern):
                found |= tests_of(path)
    return found


def kube_tests():
    """Those of test/kube, and the scenarios beside the code that its list names, without what it leaves out."""
    found = set()
    for path in (ROOT / "test/kube").glob("*_test.cc"):
        found |= tests_of(path)
    for variable, folder, leaves_out in (("scenario_tests", "", "left_out.h"),
                                      ("data_scenario_tests", "datadependency", "data_scenarios_real_test.cc")):
        listed = re.search(rf"set\({variable} (.*?)\)", (ROOT / "test/kube/CMakeLists.txt").read_text(), re.S)
        scenarios = set()
        for name in listed.group(1).split():
            scenarios |= tests_of(ROOT / "src/controllers" / folder / name)
        source = (ROOT / "test/kube" / leaves_out).read_text()
        left_out = re.findall(r'"([^"]+)"', re.search(r"kLeftOut\w*\[\] = \{(.*?)\n?\};", source, re.S).group(1))
        found |= {name for name in scenarios if not any(fnmatch.fnmatchcase(name, one) for one in left_out)}
    return found


def cases():
    found = set()
    for path in (ROOT / "src/webhooks/testdata").glob("*.yaml"):
        found |= set(re.findall(r"^- rule: ([A-Z]\d+)\b", path.read_text(), re.M))
    return found


def read_rows():
    expected, lines, problems = [], {}, []
    for number, line in enumerate(ROWS.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("rows "):
            _, sheet, *names = line.split()
            expected += [(sheet, name) for name in names]
            continue
        match = re.match(r"(\w+) (\S+): *(.*)$", line)
        if not match:
            problems.append(f"line {number} cannot be read: {line}")
            continue
        key = match.group(1), match.group(2)
        if key in lines:
            problems.append(f"{' '.join(key)} is there twice")
        tests, _, reason = match.group(3).partition(";")
        lines[key] = [one.strip() for one in tests.split(",") if one.strip()], reason.strip()
    return expected, lines, problems


def check(key, tests, reason, known, kube, known_cases):
    """What is wrong with one row, and whether it runs on a real server."""
    problems, on_kube = [], False
    for test in tests:
        if test.startswith("case "):
            if test[5:] not in known_cases:
                problems.append(f"{key}: no case of admission begins with {test[5:]}")
            on_kube = True
        elif test.startswith("bench "):
            if not (ROOT / "bench" / (test[6:] + ".cc")).exists():
                problems.append(f"{key}: there is no bench {test[6:]}")
        elif test not in known:
            problems.append(f"{key}: there is no test {test}")
        else:
            on_kube |= test in kube
    if not tests and not reason:
        problems.append(f"{key}: neither a test nor a reason")
    if not on_kube and not reason:
        problems.append(f"{key}: does not run on a real API server, and does not say why")
    if on_kube and reason:
        problems.append(f"{key}: runs on a real API server; drop the reason why not")
    return problems, on_kube


def main():
    expected, lines, problems = read_rows()
    known, kube, known_cases = all_tests(), kube_tests(), cases()
    for key in expected:
        if key not in lines:
            problems.append(f"{' '.join(key)} has no line")
    for key in lines:
        if key not in expected:
            problems.append(f"{' '.join(key)} is in no list of rows")
    counts = {}
    for key, (tests, reason) in lines.items():
        wrong, on_kube = check(" ".join(key), tests, reason, known, kube, known_cases)
        problems += wrong
        count = counts.setdefault(key[0], [0, 0, 0])
        count[0] += 1
        count[1] += bool(tests)
        count[2] += on_kube
    for sheet, (rows, tested, real) in counts.items():
        print(f"{sheet}: {rows} rows, {tested} with tests, {real} on a real API server")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
