"""Makes src/api/gen/names.h (labels, annotations, reasons and other words as constants) and words.cc (for api/word.h)."""

from cpp import HEAD, comment
from cpp_names import constant_name, namespace_name, quoted
from model import Enum


def words_of(model):
    """What api/word.h keeps without memory of its own: the values of all enums and the words named in the schema."""
    values = {v.value for a in model.areas.values() for e in a.of(Enum) for v in e.values}
    return sorted(values | model.words, key=lambda word: word.encode())


def words_source(model):
    lines = [HEAD.format(path="schema") + '#include "api/word.h"', "", "namespace basalt::api {", "",
             "std::span<const std::string_view> well_known_words() {", "  static constexpr std::string_view kWords[] = {"]
    lines += [f"      {quoted(word)}," for word in words_of(model)]
    lines += ["  };", "  return kWords;", "}", "", "}  // namespace basalt::api", ""]
    return "\n".join(lines)


def files(model):
    if not model.name_groups:
        return
    yield "src/api/gen/words.cc", words_source(model)
    lines = [HEAD.format(path="schema/names.schema") + "#pragma once", "", "#include <string_view>", ""]
    for group in model.name_groups:
        space = f"basalt::api::{namespace_name(group.name)}"
        lines += comment(group.doc, "") + [f"namespace {space} {{"]
        for name in group.names:
            if name.doc:
                lines += comment(name.doc, "")
            lines.append(f"inline constexpr std::string_view {constant_name(name.name)} = {quoted(name.value)};")
        lines += [f"}}  // namespace {space}", ""]
    yield "src/api/gen/names.h", "\n".join(lines)
