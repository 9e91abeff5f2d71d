"""Makes the small structs that caches hold: decoding only, of chosen members only."""

from cpp_names import member_name, namespace_name, quoted, singular
from model import Enum, Struct, member_of
import cpp


class Shape:
    """One struct of a projection."""

    def __init__(self, name, members):
        self.name = name
        self.members = members  # (Field, Pick, C++ type)

    def signature(self):
        return [(f.name, t, str(p.keys), str(p.where)) for f, p, t in self.members]


def shapes_of(part, projection):
    """All structs, inner ones first, the projection itself last; equal shapes of one name are one struct."""
    found = {}

    def build(name, struct, picks):
        members = []
        for pick in picks:
            field = member_of(part.model, struct, pick.name)
            members.append((field, pick, member_type(field, pick)))
        shape = Shape(name, members)
        other = found.get(name)
        if other and other.signature() != shape.signature():
            raise ValueError(f"{projection.name}: two structs would be called {name}")
        found.setdefault(name, shape)
        return name

    def member_type(field, pick):
        target = field.type.leaf().target
        if isinstance(target, Struct):
            name = singular(pick.name) if field.type.form == "list" else pick.name[:1].upper() + pick.name[1:]
            base = build(name, target, pick.members)
        elif isinstance(target, Enum) or field.type.leaf().name == "string" and field.type.form != "map":
            part.use("api/word.h")
            base = "api::Word"
        elif field.type.form == "resources":
            part.use("api/packed_resources.h")
            return "api::PackedResources"
        else:
            base = part.type_of(field.type)
            if field.optional:
                part.use("<optional>")
                return f"std::optional<{base}>"
            return base
        if field.type.form == "list":
            part.use("<vector>")
            return f"std::vector<{base}>"
        if field.optional and base != "api::Word":
            part.use("<optional>")
            return f"std::optional<{base}>"
        return base

    build(projection.name, projection.kind, projection.picks)
    return list(found.values())


def declare(part, projection):
    """The inner structs live in a namespace of their own, not inside the outer one: a nested struct with initialisers is
    not complete enough for std::optional before the outer struct ends."""
    shapes = shapes_of(part, projection)
    space = namespace_name(projection.name)
    lines = [f"namespace {space} {{"]
    for shape in shapes[:-1]:
        lines += [f"struct {shape.name} {{", *member_lines(shape), f"  bool operator==(const {shape.name}& other) const;", "};"]
    lines += [decode_line(s) for s in shapes[:-1]]
    lines += [f"}}  // namespace {space}", ""]
    lines += cpp.comment(projection.doc, "")
    lines.append(f"struct {projection.name} {{")
    lines += part.kind_info(projection.kind)
    lines += [f"  using {s.name} = {space}::{s.name};" for s in shapes[:-1]] + [""]
    lines += member_lines(shapes[-1])
    lines += ["", f"  bool operator==(const {projection.name}& other) const;", "};", decode_line(shapes[-1])]
    return "\n".join(lines) + "\n"


def decode_line(shape):
    return f"void decode(json::Reader& reader, {shape.name}& value);"


def member_lines(shape):
    lines = []
    for field, _pick, type_ in shape.members:
        initial = {"bool": " = false", "std::int32_t": " = 0", "std::int64_t": " = 0", "double": " = 0"}.get(type_, "")
        lines.append(f"  {type_} {member_name(field)}{initial};")
    return lines


def define(part, projection):
    shapes = shapes_of(part, projection)
    space = namespace_name(projection.name)
    lines = [f"namespace {space} {{", ""]
    for shape in shapes[:-1]:
        lines += define_shape(shape)
    lines += [f"}}  // namespace {space}", ""]
    return "\n".join(lines + define_shape(shapes[-1]))


def define_shape(shape):
    cases = []
    for field, pick, _type in shape.members:
        member = f"value.{member_name(field)}"
        if pick.keys:
            cases.append((field.name, f"codec::field_of_keys(reader, {member}, {key_test(pick.keys)});"))
        elif pick.where:
            cases.append((field.name, f"codec::field_of_elements(reader, {member}, {element_test(pick.where)});"))
        elif field.type.form == "list":
            cases.append((field.name, f"codec::field_exact(reader, {member});"))
        else:
            cases.append((field.name, f"codec::field(reader, {member});"))
    return cpp.decode_function(shape.name, cases, "reader.skip();") + [
        "", f"bool {shape.name}::operator==(const {shape.name}& other) const = default;", ""]


def key_test(patterns):
    """A predicate over keys: `a/*` begins with a/, `*.b/*` contains .b/, anything else is exact."""
    tests = []
    for pattern in patterns:
        if pattern.startswith("*") and pattern.endswith("*"):
            tests.append(f"k.find({quoted(pattern[1:-1])}) != std::string_view::npos")
        elif pattern.endswith("*"):
            tests.append(f"k.starts_with({quoted(pattern[:-1])})")
        else:
            tests.append(f"k == {quoted(pattern)}")
    return f"[](std::string_view k) {{ return {' || '.join(tests)}; }}"


def element_test(where):
    member, *values = where
    return "[](const auto& e) { return " + " || ".join(f"e.{member} == {quoted(v)}" for v in values) + "; }"
