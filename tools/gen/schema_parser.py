"""The parser of the schema language (schema/README.md)."""

import re

from model import (ATTRIBUTES, SCALARS, Area, Column, Enum, EnumValue, Field, Kind, Model, Name, NameGroup, Pick, Projection,
                   SchemaError, Struct, Type, find)

STRUCT_FLAGS = ("open", "atomic", "schema")
KIND_ATTRIBUTES = ("plural", "singular", "short", "scope", "status", "nometa", "category")
COLUMN_TYPES = ("string", "integer", "number", "boolean", "date")


def split_words(text, where):
    """Splits at blanks outside double quotes; the quotes are removed."""
    words, current, quoted, started = [], "", False, False
    for char in text:
        if char == '"':
            quoted, started = not quoted, True
        elif char == " " and not quoted:
            if started or current:
                words.append(current)
            current, started = "", False
        else:
            current += char
    if quoted:
        raise SchemaError(f"{where}: a quote is not closed")
    if started or current:
        words.append(current)
    return words


def parse_type(text, where):
    if text.startswith("[]"):
        return Type("list", item=parse_type(text[2:], where))
    match = re.fullmatch(r"(map|raw)<(.+)>", text)
    if match:
        return Type(match.group(1), item=parse_type(match.group(2), where))
    if text in ("raw", "resources"):
        return Type(text)
    if text in SCALARS:
        return Type("scalar", name=text)
    if re.fullmatch(r"([a-z]+\.)?[A-Z]\w*", text):
        return Type("named", name=text)
    raise SchemaError(f"{where}: '{text}' is no type")


class Parser:
    """Reads one file, line by line. Indentation 0 opens blocks, 2 is a member, 4 is its text."""

    def __init__(self, model, path, text):
        self.model = model
        self.path = path
        self.lines = text.split("\n")
        self.number = 0
        self.area = None
        self.part = ""
        self.group = ("", "")
        self.block = None  # Struct, Kind, Enum, Projection, NameGroup
        self.subject = None  # what a line of text belongs to
        self.body = []  # words of a projection

    def fail(self, message):
        raise SchemaError(f"{self.path}:{self.number}: {message}")

    @property
    def where(self):
        return f"{self.path}:{self.number}"

    def parse(self):
        for line in self.lines:
            self.number += 1
            if not line.strip() or line.startswith("#"):
                continue
            indent = len(line) - len(line.lstrip(" "))
            words = line.strip()
            if indent == 0:
                self.end_block()
                self.directive(words)
            elif isinstance(self.block, Projection) and (indent == 2 or self.body):
                self.body.append(words)
            elif indent == 2:
                self.member(words)
            elif indent == 4:
                self.text(words)
            else:
                self.fail("indentation is 0, 2 or 4")
        self.end_block()

    def text(self, words):
        if self.subject is None:
            self.fail("text belongs to nothing")
        if isinstance(self.subject, list):  # a rule: [expression, message]
            self.subject[1] = f"{self.subject[1]} {words}".strip()
        else:
            self.subject.doc = f"{self.subject.doc} {words}".strip()

    def directive(self, line):
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word == "open" and rest.startswith("enum "):
            word, rest = "open enum", rest[5:]
        handler = getattr(self, "on_" + word.replace(" ", "_"), None)
        if handler is None:
            self.fail(f"'{word}' opens nothing")
        if self.area is None and word not in ("area", "pattern", "names", "words"):
            self.fail("the file begins with 'area'")
        if not rest and word != "external":
            self.fail(f"'{word}' of what?")
        handler(rest)

    def on_area(self, rest):
        if rest in self.model.areas:
            self.fail(f"area {rest} exists already")
        self.area = self.model.areas[rest] = Area(rest, self.path)

    def on_title(self, rest):
        self.area.title = rest
        self.subject = self.area

    def on_external(self, _rest):
        self.area.external = True

    def on_annotation(self, rest):
        key, _, value = rest.partition(" ")
        self.area.annotations[key] = value

    def on_pattern(self, rest):
        name, _, pattern = rest.partition(" ")
        re.compile(pattern.strip())
        self.model.patterns[name] = pattern.strip()

    def on_group(self, rest):
        group, _, version = rest.partition(" ")
        self.group = ("" if group == "core" else group, version)

    def on_part(self, rest):
        self.part = rest

    def add(self, item):
        if any(other.name == item.name for other in self.area.items):
            self.fail(f"{item.name} exists already")
        self.area.items.append(item)
        self.block = self.subject = item

    def on_struct(self, rest):
        name, *flags = rest.split()
        for flag in flags:
            if flag not in STRUCT_FLAGS:
                self.fail(f"'{flag}' is no flag of a struct")
        self.add(Struct(self.area, self.part, name, set(flags), self.where))

    def on_enum(self, rest):
        self.add(Enum(self.area, self.part, rest, False, self.where))

    def on_open_enum(self, rest):
        self.add(Enum(self.area, self.part, rest, True, self.where))

    def on_kind(self, rest):
        name, *words = rest.split()
        attributes = {}
        for word in words:
            key, _, value = word.partition("=")
            if key not in KIND_ATTRIBUTES:
                self.fail(f"'{key}' is no attribute of a kind")
            attributes[key] = value
        if attributes.get("scope") not in ("Namespaced", "Cluster"):
            self.fail("a kind has scope=Namespaced or scope=Cluster")
        if not self.group[1]:
            self.fail("a kind needs a group")
        self.add(Kind(self.area, self.part, name, set(), self.where, group=self.group[0], version=self.group[1],
                      attributes=attributes))

    def on_projection(self, rest):
        match = re.fullmatch(r"(\w+) of (\w+)", rest)
        if not match:
            self.fail("projection NAME of KIND")
        self.add(Projection(self.area, self.part, match.group(1), match.group(2), self.where))

    def on_names(self, rest):
        self.block = self.subject = NameGroup(rest, "")
        self.model.name_groups.append(self.block)

    def on_words(self, rest):
        self.model.words.update(rest.split())

    def end_block(self):
        if isinstance(self.block, Projection):
            words = re.findall(r"[{}]|[^\s{}()]+|[()]", " ".join(self.body))
            self.block.picks = self.picks(words, top=True)
            self.body = []
        self.block = self.subject = None

    def picks(self, words, top=False):
        found = []
        while words:
            word = words.pop(0)
            if word == "}" and not top:
                return found
            if word == "{" and found:
                found[-1].members = self.picks(words)
            elif word in ("keys", "where") and words and words[0] == "(":
                end = words.index(")")
                setattr(found[-1], word, words[1:end])
                del words[: end + 1]
            elif re.fullmatch(r"[a-z]\w*", word):
                found.append(Pick(word))
            else:
                self.fail(f"'{word}' is not expected in {self.block.name}")
        if not top:
            self.fail(f"a brace is not closed in {self.block.name}")
        return found

    def member(self, line):
        if isinstance(self.block, Enum):
            match = re.fullmatch(r'(\S+)(?: = "(.*)")?', line)
            if not match:
                self.fail('a value is NAME or NAME = "text"')
            self.subject = EnumValue(match.group(1), match.group(2) or match.group(1))
            self.block.values.append(self.subject)
        elif isinstance(self.block, NameGroup):
            match = re.fullmatch(r"(\w+) = (\S.*)", line)
            if not match:
                self.fail("a name is NAME = text")
            self.subject = Name(match.group(1), match.group(2), "")
            self.block.names.append(self.subject)
        elif isinstance(self.block, Struct):
            self.struct_member(line)
        else:
            self.fail("a member of nothing")

    def struct_member(self, line):
        if line.startswith("rule "):
            self.subject = [line[5:].strip(), ""]
            self.block.rules.append(self.subject)
            return
        if line.startswith("column ") and isinstance(self.block, Kind):
            words = split_words(line, self.where)[1:]
            if len(words) not in (3, 4) or words[1] not in COLUMN_TYPES or words[3:] not in ([], ["wide"]):
                self.fail("column NAME TYPE PATH [wide]")
            self.subject = Column(words[0], words[1], words[2], len(words) == 4)
            self.block.columns.append(self.subject)
            return
        match = re.fullmatch(r"(\w+): (\S+)(.*)", line)
        if not match:
            self.fail("a field is NAME: TYPE and attributes")
        name, type_text, rest = match.groups()
        attributes = {}
        for word in split_words(rest, self.where):
            key, _, value = word.partition("=")
            if key not in ATTRIBUTES:
                self.fail(f"'{key}' is no attribute of a field")
            attributes[key] = value
        if self.block.field(name):
            self.fail(f"field {name} exists already")
        self.subject = Field(name, parse_type(type_text.rstrip("?"), self.where), type_text.endswith("?"), attributes, "",
                             self.where)
        self.block.fields.append(self.subject)


def read(texts):
    """texts: {path: text}. Returns the Model with all names resolved; check.py checks it."""
    model = Model()
    for path, text in sorted(texts.items()):
        Parser(model, path, text).parse()
    resolve(model)
    return model


def resolve(model):
    def resolve_type(area, type_, where):
        if type_.form == "named":
            type_.target = find(model, area, type_.name, where)
        if type_.item:
            resolve_type(area, type_.item, where)

    for area in model.areas.values():
        for struct in area.of(Struct):
            for field in struct.fields:
                resolve_type(area, field.type, field.where)
                if field.attributes.get("pattern", "").startswith("@"):
                    name = field.attributes["pattern"][1:]
                    if name not in model.patterns:
                        raise SchemaError(f"{field.where}: there is no pattern {name}")
                    field.attributes["pattern"] = model.patterns[name]
        for projection in area.of(Projection):
            projection.kind = find(model, area, projection.of, projection.where)
