"""Reads the schema files and refuses mistakes: every complaint begins with file and line."""

import pathlib
import re

from model import (ATTRIBUTES, Enum, Projection, SchemaError, Struct, default_value, is_carried, list_keys, member_of,
                   type_class)
from schema_parser import read


def read_checked(texts):
    """texts: {path: text}. Returns the checked Model."""
    model = read(texts)
    check(model)
    return model


def read_folder(folder):
    return read_checked({f"{folder.name}/{p.name}": p.read_text() for p in sorted(pathlib.Path(folder).glob("*.schema"))})


def check(model):
    for area in model.areas.values():
        for item in area.items:
            check_doc(item.doc, item.where, item.name)
            if isinstance(item, Enum):
                check_enum(item)
            elif isinstance(item, Struct):
                check_struct(item)
            elif isinstance(item, Projection):
                check_picks(model, item, item.kind, item.picks)
        parts = area.parts()
        if "" in parts and len(parts) > 1:
            raise SchemaError(f"{area.path}: either every type is in a part or none is")
    seen = {}
    for group in model.name_groups:
        for name in group.names:
            if seen.setdefault((group.name, name.name), name) is not name:
                raise SchemaError(f"names {group.name}: {name.name} exists already")


def check_doc(doc, where, name):
    if not doc:
        raise SchemaError(f"{where}: {name} has no text")
    if doc[-1] not in ".:?!)" or not (doc[0].isupper() or doc[0] in "`'\""):
        raise SchemaError(f"{where}: the text of {name} is not a sentence")


def check_enum(enum):
    values = [v.value for v in enum.values]
    if len(set(values)) != len(values) or not values:
        raise SchemaError(f"{enum.where}: {enum.name} has no values or one twice")
    for value in enum.values:
        check_doc(value.doc, enum.where, f"{enum.name}.{value.name}")


def check_struct(struct):
    for expression, message in struct.rules:
        if not message:
            raise SchemaError(f"{struct.where}: a rule of {struct.name} has no message")
    for field in struct.fields:
        check_doc(field.doc, field.where, f"{struct.name}.{field.name}")
        check_field(struct, field)


def check_field(struct, field):
    letter = type_class(field.type)
    for attribute in field.attributes:
        allowed = ATTRIBUTES[attribute]
        if allowed != "*" and letter not in allowed:
            raise SchemaError(f"{field.where}: '{attribute}' does not go with {field.type.text()}")
    if field.optional and letter in "lr" or field.optional and field.type.name in ("time", "microTime"):
        raise SchemaError(f"{field.where}: {field.type.text()} says by itself that it is absent; leave out '?'")
    if field.required and "default" in field.attributes:
        raise SchemaError(f"{field.where}: a required field has no default")
    default = default_value(field)
    if default is not None:
        check_default(field, default)
    how = field.attributes.get("list")
    if how is not None and how not in ("set", "atomic") and not list_keys(field):
        raise SchemaError(f"{field.where}: list= is set, atomic or map(KEY)")
    for key in list_keys(field):
        item = field.type.item.target
        member = item.field(key) if isinstance(item, Struct) else None
        if member is None or not (member.required or "default" in member.attributes):
            raise SchemaError(f"{field.where}: list key {key} must be a required or defaulted field of the items")
    if field.attributes.get("pattern"):
        re.compile(field.attributes["pattern"])
    leaf = field.type.leaf()
    if isinstance(leaf.target, Struct) and "schema" in leaf.target.flags - struct.flags and not is_carried(field.type):
        raise SchemaError(f"{field.where}: {leaf.name} exists in the CRD only; say raw<{leaf.name}>")


def check_default(field, default):
    target = field.type.target
    number = isinstance(default, (int, float)) and not isinstance(default, bool)
    letter = type_class(field.type)
    if letter == "n" and not number or letter == "b" and not isinstance(default, bool):
        raise SchemaError(f"{field.where}: the default is no {field.type.text()}")
    if isinstance(target, Enum) and default not in [v.value for v in target.values]:
        raise SchemaError(f"{field.where}: the default is no {target.name}")
    if number and ("min" in field.attributes and default < float(field.attributes["min"])
                   or "max" in field.attributes and default > float(field.attributes["max"])):
        raise SchemaError(f"{field.where}: the default is out of range")


def check_picks(model, projection, struct, picks):
    for pick in picks:
        field = member_of(model, struct, pick.name)
        if field is None:
            raise SchemaError(f"{projection.where}: {struct.name} has no field {pick.name}")
        target = field.type.leaf().target
        is_struct = isinstance(target, Struct)
        if is_struct != (pick.members is not None):
            raise SchemaError(f"{projection.where}: {pick.name} {'needs' if is_struct else 'has no'} members")
        if pick.keys and field.type.form != "map" or pick.where and field.type.form != "list":
            raise SchemaError(f"{projection.where}: {pick.name} cannot be filtered so")
        if pick.where and not any(m.name == pick.where[0] for m in pick.members):
            raise SchemaError(f"{projection.where}: {pick.name} is filtered by a member that is not kept")
        if is_struct:
            check_picks(model, projection, target, pick.members)
