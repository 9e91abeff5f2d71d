#!/usr/bin/env python3
"""Says which sources of one target may be compiled together, so that a cold build reads each header a few times only.

Usage: tools/unity/groups.py TARGETS    a file with a line per target: its name and its sources, separated by blanks.
Prints a call of basalt_unity_group (cmake/unity.cmake) for each group of two files or more.

Two files share a group only if no name that is private to one (an unnamed namespace, `static`, a constant) is private
to the other too, or is called or named there without a qualification: what a name means can then not depend on the
grouping. A file that defines a macro stands alone.
"""
import re
import sys

FILES_MAX = 12
LINES_MAX = 3000

LITERALS = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*(?:.|\n)*?\*/')
USE = re.compile(r'(?<![\w.>:])([A-Za-z_]\w*)\s*(\(?)')
CONSTANT = re.compile(r'k[A-Z]')
NAMESPACE = re.compile(r'namespace\b([^;{=]*)$')
TYPE = re.compile(r'\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[\w+\]\]\s*)?([A-Za-z_]\w*)')
ALIAS = re.compile(r'^using\s+([A-Za-z_]\w*)\s*=([^;]*);', re.MULTILINE)
USING = re.compile(r'using\s+(?:namespace\b|(?:::\s*)?(?:\w+\s*::\s*)+\w+$|\w+\s*=)')
USED_NAME = re.compile(r'\busing\s+(?:::\s*)?((?:\w+\s*::\s*)+(\w+))\s*;')
USED_NAMESPACE = re.compile(r'^using\s+namespace\s+([\w:]+)\s*;', re.MULTILINE)
TEST = re.compile(r'\b(?:TEST|TEST_F|TEST_P|TYPED_TEST)\s*\(\s*(\w+)\s*,\s*(\w+)')
CALLABLE = re.compile(r'([A-Za-z_]\w*)\s*\(')
VARIABLE = re.compile(r'([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?:=|$)')
KEYWORDS = frozenset('alignas decltype noexcept operator requires sizeof static_assert template'.split())


def declared(statement):
    """The names that a declaration at the level of a namespace introduces (rather one too many than one too few)."""
    tests = {f'{suite}_{name}_Test' for suite, name in TEST.findall(statement)}
    if tests:
        return tests
    types = set(TYPE.findall(statement))
    if types:
        return types
    if re.match(r'[^(]*[^(=!<>]=(?!=)', statement):  # a variable: what its initial value calls is not declared here
        return set(VARIABLE.findall(statement)[:1])
    called = [name for name in CALLABLE.findall(statement) if name not in KEYWORDS]
    return set(called[:1]) or set(VARIABLE.findall(statement)[:1])


def private_names(text):
    """The names of a source that only it may use."""
    names = set()
    stack = []  # of the open braces: 'named', 'unnamed' (namespaces) or 'body'
    start = 0
    for match in re.finditer(r'[{};]', text):
        sign = match.group()
        statement = text[start:match.start()].strip()
        at_namespace_level = 'body' not in stack
        if at_namespace_level and sign in '{;' and statement:
            is_private = 'unnamed' in stack or re.search(r'\b(static|constexpr|const)\b', statement.split('(')[0])
            if is_private and not NAMESPACE.search(statement) and not USING.match(statement):
                names |= declared(statement)
        if sign == '{':
            opened = NAMESPACE.search(statement) if at_namespace_level else None
            if opened:
                stack.append('named' if opened.group(1).strip() else 'unnamed')
            else:
                stack.append('body')
            start = match.end()
        elif sign == '}':
            if stack:
                stack.pop()
            start = match.end()
        else:
            start = match.end()
    return names


class Source:
    def __init__(self, path):
        with open(path, encoding='utf-8') as file:
            raw = file.read()
        text = LITERALS.sub(' ', raw)
        self.path = path
        self.lines = raw.count('\n')
        self.alone = re.search(r'^\s*#\s*(define|undef|pragma)\b', text, re.MULTILINE) is not None
        code = re.sub(r'^\s*#.*$', '', text, flags=re.MULTILINE)
        self.words = {name for name, called in USE.findall(code) if called or name[0].isupper() or CONSTANT.match(name)}
        for suite, name in TEST.findall(code):
            self.words.add(f'{suite}_{name}_Test')
        self.private = private_names(code)
        # Declared again they mean the same: they keep files apart only if the other one means something else.
        self.using = {name: ''.join(whole.split()) for whole, name in USED_NAME.findall(code)}
        for name, whole in ALIAS.findall(code):
            self.using[name] = whole.strip()
        self.namespaces = {name for name in USED_NAMESPACE.findall(code) if 'literals' not in name}

    def hides_from(self, other):
        """Does this file give a meaning to a word of the other, which it does not have there?"""
        if self.private & other.words or self.namespaces - other.namespaces:
            return True
        return any(name in other.words and other.using.get(name) != whole for name, whole in self.using.items())


def grouped(sources):
    groups = []
    for source in sorted(sources, key=lambda each: each.path):
        for group in groups:
            if source.alone or group[0].alone or len(group) >= FILES_MAX or sum(each.lines for each in group) + source.lines > LINES_MAX:
                continue
            if not any(source.hides_from(each) or each.hides_from(source) for each in group):
                group.append(source)
                break
        else:
            groups.append([source])
    return groups


def main():
    with open(sys.argv[1], encoding='utf-8') as file:
        requests = [line.split() for line in file if line.strip()]
    known = {path: Source(path) for _, *paths in requests for path in paths}
    for target, *paths in requests:
        shared = [group for group in grouped([known[path] for path in paths]) if len(group) > 1]
        for index, group in enumerate(shared):
            print(f'basalt_unity_group({target} {index} ' + ' '.join(source.path for source in group) + ')')


if __name__ == '__main__':
    main()
