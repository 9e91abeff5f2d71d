"""Makes CustomResourceDefinitions of the model."""

from model import Enum, default_value, list_keys
import yaml_out

QUANTITY = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
SCALARS = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "time": {"type": "string", "format": "date-time"},
    "microTime": {"type": "string", "format": "date-time"},
    "duration": {"type": "string"},
    "intOrString": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    "quantity": {"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY, "x-kubernetes-int-or-string": True},
}
LIMITS = (("min", "minimum"), ("max", "maximum"), ("minLength", "minLength"), ("maxLength", "maxLength"),
          ("minItems", "minItems"), ("maxItems", "maxItems"), ("maxProperties", "maxProperties"))
KEEP_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
API_VERSION = "Group and version of the API that this object is written in."
KIND = "Kind of the object."


def type_schema(type_, without):
    """The schema of a type; `without` names fields whose default is left out ('*': all)."""
    if type_.form == "scalar":
        return dict(SCALARS[type_.name])
    if type_.form == "resources":
        return {"type": "object", "additionalProperties": dict(SCALARS["quantity"])}
    if type_.form == "list":
        return {"type": "array", "items": described(type_.item, without)}
    if type_.form == "map":
        return {"type": "object", "additionalProperties": described(type_.item, without)}
    if type_.form == "raw":
        return type_schema(type_.item, without) if type_.item else {"type": "object", KEEP_UNKNOWN: True}
    if isinstance(type_.target, Enum):
        schema = {"type": "string"}
        if not type_.target.is_open:
            schema["enum"] = [v.value for v in type_.target.values]
        return schema
    return struct_schema(type_.target, without)


def described(type_, without):
    schema = type_schema(type_, without)
    if type_.form == "named" and schema.get("type") == "object":
        return {"description": type_.target.doc, **schema}
    return schema


def struct_schema(struct, without):
    schema = {"type": "object"}
    required = [f.name for f in struct.fields if f.required]
    if required:
        schema["required"] = required
    if struct.fields:
        schema["properties"] = {f.name: field_schema(f, without) for f in struct.fields}
    if "open" in struct.flags:
        schema[KEEP_UNKNOWN] = True
    if "atomic" in struct.flags:
        schema["x-kubernetes-map-type"] = "atomic"
    if struct.rules:
        schema["x-kubernetes-validations"] = [{"rule": rule, "message": message} for rule, message in struct.rules]
    return schema


def field_schema(field, without):
    inner = without
    if "nodefault" in field.attributes:
        inner = set(field.attributes["nodefault"].split(","))
    elif field.type.form != "raw" and "*" not in without:
        inner = frozenset()  # names in nodefault= are those of the embedded struct itself
    body = type_schema(field.type, inner)
    schema = {"description": field.doc}
    for key in ("anyOf", "type", "format"):
        if key in body:
            schema[key] = body.pop(key)
    default = default_value(field)
    if default is not None and field.name not in without and "*" not in without:
        schema["default"] = default
    if "enum" in body:
        schema["enum"] = body.pop("enum")
    for attribute, keyword in LIMITS:
        if attribute in field.attributes:
            schema[keyword] = int(field.attributes[attribute])
    if "pattern" in field.attributes:
        schema["pattern"] = field.attributes["pattern"]
    how = field.attributes.get("list")
    if how:
        keys = list_keys(field)
        schema["x-kubernetes-list-type"] = "map" if keys else how
        if keys:
            schema["x-kubernetes-list-map-keys"] = keys
    schema.update(body)
    return schema


def root_schema(kind):
    properties = {
        "apiVersion": {"description": API_VERSION, "type": "string"},
        "kind": {"description": KIND, "type": "string"},
        "metadata": {"type": "object"},
    }
    properties.update({f.name: field_schema(f, frozenset()) for f in kind.fields})
    schema = {"description": kind.doc, "type": "object"}
    required = [f.name for f in kind.fields if f.required]
    if required:
        schema["required"] = required
    schema["properties"] = properties
    return schema


def definition(kind):
    """The CustomResourceDefinition of a kind, as plain data."""
    names = {"kind": kind.name, "listKind": f"{kind.name}List", "plural": kind.plural, "singular": kind.singular}
    if kind.short_names:
        names["shortNames"] = kind.short_names
    if kind.categories:
        names["categories"] = kind.categories
    version = {"name": kind.version, "served": True, "storage": True}
    if kind.columns:
        version["additionalPrinterColumns"] = [column(c) for c in kind.columns]
    if kind.has_status:
        version["subresources"] = {"status": {}}
    version["schema"] = {"openAPIV3Schema": root_schema(kind)}
    metadata = {"name": f"{kind.plural}.{kind.group}"}
    if kind.area.annotations:
        metadata["annotations"] = dict(kind.area.annotations)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {"group": kind.group, "scope": kind.attributes["scope"], "names": names, "versions": [version]},
    }


def column(column_):
    entry = {"name": column_.name, "type": column_.type, "jsonPath": column_.path}
    if column_.doc:
        entry["description"] = column_.doc
    if column_.wide:
        entry["priority"] = 1
    return entry


def files(model):
    for kind in model.own_kinds():
        head = f"# Generated by tools/gen from {kind.area.path}; do not edit.\n"
        yield f"deploy/crds/{kind.group}_{kind.plural}.yaml", head + yaml_out.dump(definition(kind))
