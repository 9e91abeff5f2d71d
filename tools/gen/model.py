"""What the schema files say, as objects."""

import dataclasses
import json
import re

SCALARS = ("string", "bool", "int", "int32", "int64", "double", "intOrString", "quantity", "time", "microTime", "duration")
NUMBERS = ("int", "int32", "int64", "double")
# Attribute -> the types it may stand on: s(tring or enum), n(umber), l(ist), m(ap), r(aw), t (struct), * (all).
ATTRIBUTES = {
    "required": "*", "always": "*", "default": "snb", "min": "n", "max": "n", "minLength": "s", "maxLength": "s",
    "pattern": "s", "minItems": "l", "maxItems": "l", "list": "l", "maxProperties": "m", "nodefault": "rt", "view": "r",
    "cpp": "*",
}


class SchemaError(Exception):
    """A mistake in a schema file; the text begins with file and line."""


@dataclasses.dataclass
class Type:
    """A type expression. `name` is set for scalar and named types, `item` for list, map and raw with a schema."""

    form: str  # scalar, named, list, map, raw, resources
    name: str = ""
    item: "Type | None" = None
    target: "Struct | Enum | None" = None  # of a named type, once resolved

    def text(self):
        if self.form == "list":
            return f"[]{self.item.text()}"
        if self.form == "map":
            return f"map<{self.item.text()}>"
        if self.form == "raw":
            return f"raw<{self.item.text()}>" if self.item else "raw"
        return self.name or self.form

    def leaf(self):
        return self.item.leaf() if self.item else self


@dataclasses.dataclass
class Field:
    name: str
    type: Type
    optional: bool
    attributes: dict
    doc: str
    where: str

    @property
    def required(self):
        return "required" in self.attributes

    @property
    def always(self):
        return self.required or "always" in self.attributes


@dataclasses.dataclass
class Struct:
    area: "Area"
    part: str
    name: str
    flags: set
    where: str
    doc: str = ""
    fields: list = dataclasses.field(default_factory=list)
    rules: list = dataclasses.field(default_factory=list)  # (expression, message)

    @property
    def full_name(self):
        return f"{self.area.name}.{self.name}"

    def field(self, name):
        return next((f for f in self.fields if f.name == name), None)


@dataclasses.dataclass
class Column:
    name: str
    type: str
    path: str
    wide: bool
    doc: str = ""


@dataclasses.dataclass
class Kind(Struct):
    group: str = ""
    version: str = ""
    attributes: dict = dataclasses.field(default_factory=dict)
    columns: list = dataclasses.field(default_factory=list)

    @property
    def plural(self):
        return self.attributes.get("plural", "")

    @property
    def singular(self):
        return self.attributes.get("singular", "")

    @property
    def short_names(self):
        return [n for n in self.attributes.get("short", "").split(",") if n]

    @property
    def categories(self):
        return [n for n in self.attributes.get("category", "").split(",") if n]

    @property
    def namespaced(self):
        return self.attributes["scope"] == "Namespaced"

    @property
    def has_status(self):
        return "status" in self.attributes

    @property
    def has_metadata(self):
        return "nometa" not in self.attributes

    @property
    def api_version(self):
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclasses.dataclass
class EnumValue:
    name: str
    value: str
    doc: str = ""


@dataclasses.dataclass
class Enum:
    area: "Area"
    part: str
    name: str
    is_open: bool
    where: str
    doc: str = ""
    values: list = dataclasses.field(default_factory=list)

    @property
    def full_name(self):
        return f"{self.area.name}.{self.name}"


@dataclasses.dataclass
class Pick:
    """What a projection keeps of one field: all of it, or some members; of some keys or elements only."""

    name: str
    members: list | None = None
    keys: list | None = None  # of a map: patterns
    where: list | None = None  # of a list: [member, value, value...]


@dataclasses.dataclass
class Projection:
    area: "Area"
    part: str
    name: str
    of: str
    where: str
    doc: str = ""
    picks: list = dataclasses.field(default_factory=list)
    kind: Kind | None = None


@dataclasses.dataclass
class Area:
    name: str
    path: str
    title: str = ""
    doc: str = ""
    external: bool = False
    annotations: dict = dataclasses.field(default_factory=dict)
    items: list = dataclasses.field(default_factory=list)  # Struct, Kind, Enum, Projection in order

    def parts(self):
        seen = []
        for item in self.items:
            if item.part not in seen:
                seen.append(item.part)
        return seen

    def of(self, cls):
        return [i for i in self.items if isinstance(i, cls)]


@dataclasses.dataclass
class Name:
    name: str
    value: str
    doc: str


@dataclasses.dataclass
class NameGroup:
    name: str
    doc: str
    names: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Model:
    areas: dict = dataclasses.field(default_factory=dict)
    patterns: dict = dataclasses.field(default_factory=dict)
    name_groups: list = dataclasses.field(default_factory=list)
    words: set = dataclasses.field(default_factory=set)  # further words for api/word.h

    def kinds(self):
        return [k for a in self.areas.values() for k in a.of(Kind)]

    def own_kinds(self):
        return [k for k in self.kinds() if not k.area.external]


def type_class(resolved):
    """The letter by which ATTRIBUTES sorts a type."""
    if resolved.form == "list":
        return "l"
    if resolved.form in ("map", "resources"):
        return "m"
    if resolved.form == "raw":
        return "r"
    if resolved.form == "named":
        return "s" if isinstance(resolved.target, Enum) else "t"
    if resolved.name in NUMBERS:
        return "n"
    return "b" if resolved.name == "bool" else "s"


def find(model, area, name, where):
    area_name, _, short = name.rpartition(".")
    owner = model.areas.get(area_name) if area_name else area
    target = next((i for i in owner.items if i.name == short), None) if owner else None
    if target is None or isinstance(target, Projection):
        raise SchemaError(f"{where}: there is no type {name}")
    return target


def is_carried(type_):
    """Whether the type holds JSON text at some level."""
    return type_.form == "raw" or type_.item is not None and is_carried(type_.item)


def list_keys(field):
    match = re.fullmatch(r"map\(([\w,]+)\)", field.attributes.get("list", ""))
    return match.group(1).split(",") if match else []


def default_value(field):
    """The default as a JSON value, or None."""
    if "default" not in field.attributes:
        return None
    text = field.attributes["default"]
    if type_class(field.type) == "s":
        return text
    return json.loads(text)


def member_of(model, struct, name):
    """A field of a struct; of a kind also its metadata, which no schema file spells out."""
    if isinstance(struct, Kind) and name == "metadata" and struct.has_metadata:
        type_ = Type("named", name="meta.ObjectMeta", target=find(model, None, "meta.ObjectMeta", struct.where))
        return Field("metadata", type_, False, {}, "Identity and bookkeeping.", struct.where)
    return struct.field(name)
