"""Tests of the generator: what it refuses, what it makes, and that its CRDs are structurally sound."""

import contextlib
import io
import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check  # noqa: E402
import cpp  # noqa: E402
import cpp_names  # noqa: E402
import crd  # noqa: E402
import docs  # noqa: E402
import generate  # noqa: E402
import model as schema_model  # noqa: E402
import names  # noqa: E402
import yaml_out  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTDATA = ROOT / "src/api/testdata"

META = """area meta
title Shared types
    Text.

pattern label ^[a-z]+$

struct ObjectMeta
    Metadata.

  name: string
    Name.
  labels: map<string>
    Labels.
"""

SMALL = """area toys
title Toys
    Text about toys.

group toys.example.com v1
annotation helm.sh/resource-policy keep

enum Colour
    A colour.

  red
    Red.
  Any = "*"
    Any colour.

struct Part
    A part.

  name: string required maxLength=63 pattern=@label
    Name of the part.
  weight: int32? default=2 min=1 max=9
    Weight of the part.

struct ToySpec
    What a toy is.

  rule has(self.parts)
    A toy has parts
  parts: []Part list=map(name)
    Parts.
  colour: Colour default=red
    Colour.
  box: raw
    Carried.
  amounts: resources
    Amounts.
  tags: map<[]string>
    Tags.
  unknown: int32 cpp=unknown_count
    A count.

kind Toy plural=toys singular=toy short=ty scope=Namespaced status
    A toy.

  column COLOUR string .spec.colour wide
  spec: ToySpec required
    What it is.

projection ToyProjection of Toy
    Little of a toy.

  metadata { name labels keys(a/* *.b/* c) }
  spec { colour parts where(name x y) { name } amounts }
"""


def read(**texts):
    return check.read_checked({f"schema/{name}.schema": text for name, text in {"meta": META, **texts}.items()})


def small_with(old, new):
    assert old in SMALL, old
    return read(toys=SMALL.replace(old, new))


class Refusals(unittest.TestCase):
    """Mistakes in a schema are told with file and line, never generated."""

    def refuse(self, old, new, wanted):
        with self.assertRaises(schema_model.SchemaError) as caught:
            small_with(old, new)
        self.assertIn(wanted, str(caught.exception))
        self.assertRegex(str(caught.exception), r"^schema/\w+\.schema:\d+: ")

    def test_unknown_type(self):
        self.refuse("parts: []Part", "parts: []Pert", "there is no type Pert")

    def test_unknown_attribute(self):
        self.refuse("maxLength=63", "maxWidth=63", "'maxWidth' is no attribute")

    def test_attribute_of_another_type(self):
        self.refuse("min=1 max=9", "maxLength=9", "does not go with int32")

    def test_unknown_pattern(self):
        self.refuse("@label", "@lable", "there is no pattern lable")

    def test_default_that_is_no_value_of_the_enum(self):
        self.refuse("default=red", "default=blue", "the default is no Colour")

    def test_default_out_of_range(self):
        self.refuse("default=2", "default=10", "out of range")

    def test_default_of_a_required_field(self):
        self.refuse("weight: int32? default=2", "weight: int32? required default=2", "required field has no default")

    def test_list_key_that_may_be_absent(self):
        self.refuse("list=map(name)", "list=map(box)", "list key box must be")

    def test_field_twice(self):
        self.refuse("box: raw", "colour: raw", "field colour exists already")

    def test_missing_text(self):
        self.refuse("    Carried.\n", "", "has no text")

    def test_text_that_is_no_sentence(self):
        self.refuse("    Carried.\n", "    carried\n", "is not a sentence")

    def test_optional_list(self):
        self.refuse("[]Part list", "[]Part? list", "leave out '?'")

    def test_projection_of_a_field_that_is_not_there(self):
        self.refuse("spec { colour", "spec { colours", "has no field colours")

    def test_projection_that_filters_by_a_member_it_drops(self):
        self.refuse("where(name x y)", "where(weight x y)", "filtered by a member that is not kept")

    def test_rule_without_message(self):
        self.refuse("    A toy has parts\n", "", "has no message")

    def test_odd_indentation(self):
        self.refuse("    Carried.", "   Carried.", "indentation is 0, 2 or 4")

    def test_unclosed_brace(self):
        self.refuse("labels keys(a/* *.b/* c) }", "labels keys(a/* *.b/* c)", "brace")

    def test_struct_that_exists_in_the_crd_only(self):
        self.refuse("struct Part\n", "struct Part schema\n", "exists in the CRD only")


class Names(unittest.TestCase):
    def test_snake(self):
        for name, wanted in {"minAvailable": "min_available", "podIPs": "pod_ips", "hostIPC": "host_ipc", "uid": "uid",
                             "setHostnameAsFQDN": "set_hostname_as_fqdn", "clusterIP": "cluster_ip",
                             "transitionID": "transition_id", "apiVersion": "api_version"}.items():
            self.assertEqual(cpp_names.snake(name), wanted)

    def test_constants(self):
        self.assertEqual(cpp_names.constant_name("single-numa-node"), "kSingleNumaNode")
        self.assertEqual(cpp_names.constant_name("Any"), "kAny")

    def test_singular(self):
        for name, wanted in {"containerStatuses": "ContainerStatus", "taints": "Taint", "policies": "Policy",
                             "ownerReferences": "OwnerReference"}.items():
            self.assertEqual(cpp_names.singular(name), wanted)


class Cpp(unittest.TestCase):
    def setUp(self):
        self.files = dict(cpp.files(read(toys=SMALL)))

    def test_header(self):
        header = self.files["src/api/gen/toys.h"]
        for line in ("// Generated by tools/gen from schema/toys.schema; do not edit.",
                     'inline constexpr std::string_view kAny = "*";  // Any colour.',
                     "  std::optional<std::int32_t> weight;", "  std::vector<Part> parts;", "  json::Raw box;",
                     "  api::ResourceList amounts;", "  std::map<std::string, std::vector<std::string>> tags;",
                     "  std::int32_t unknown_count = 0;", "  json::UnknownFields unknown;",
                     "  meta::ObjectMeta metadata;", '#include "api/gen/meta.h"',
                     '  static constexpr KindInfo kKindInfo{"toys.example.com", "v1", "Toy", "toys", "toy", true, true};',
                     "  [[nodiscard]] std::int32_t weight_or_default() const { return weight.value_or(2); }"):
            self.assertIn(line, header)

    def test_used_before_user(self):
        header = self.files["src/api/gen/toys.h"]
        self.assertLess(header.index("struct Part {"), header.index("struct ToySpec {"))

    def test_presence(self):
        source = self.files["src/api/gen/toys.cc"]
        self.assertIn('codec::member_always(writer, "name", value.name);', source)
        self.assertIn('codec::member(writer, "weight", value.weight);', source)
        self.assertIn('codec::member_always(writer, "spec", value.spec);', source)

    def test_projection(self):
        header, source = self.files["src/api/gen/toys.h"], self.files["src/api/gen/toys.cc"]
        projection = header[header.index("namespace toy_projection"):]
        self.assertIn("  api::Word name;", projection)
        self.assertIn("  api::PackedResources amounts;", projection)
        self.assertIn("  using Part = toy_projection::Part;", projection)
        self.assertNotIn("box", projection)
        self.assertIn('k.starts_with("a/") || k.find(".b/") != std::string_view::npos || k == "c"', source)
        self.assertIn('e.name == "x" || e.name == "y"', source)

    def test_a_struct_may_not_contain_itself(self):
        with self.assertRaises(ValueError):
            dict(cpp.files(small_with("weight: int32? default=2 min=1 max=9", "weight: Part?")))


class Definitions(unittest.TestCase):
    def setUp(self):
        self.definition = crd.definition(read(toys=SMALL).own_kinds()[0])
        self.version = self.definition["spec"]["versions"][0]
        self.spec = self.version["schema"]["openAPIV3Schema"]["properties"]["spec"]

    def test_identity(self):
        self.assertEqual(self.definition["metadata"],
                         {"name": "toys.toys.example.com", "annotations": {"helm.sh/resource-policy": "keep"}})
        self.assertEqual(self.definition["spec"]["names"], {"kind": "Toy", "listKind": "ToyList", "plural": "toys",
                                                            "singular": "toy", "shortNames": ["ty"]})
        self.assertEqual(self.version["subresources"], {"status": {}})
        self.assertEqual(self.version["additionalPrinterColumns"],
                         [{"name": "COLOUR", "type": "string", "jsonPath": ".spec.colour", "priority": 1}])

    def test_fields(self):
        part = self.spec["properties"]["parts"]
        self.assertEqual(part["x-kubernetes-list-map-keys"], ["name"])
        self.assertEqual(part["items"]["required"], ["name"])
        self.assertEqual(part["items"]["properties"]["weight"],
                         {"description": "Weight of the part.", "type": "integer", "format": "int32", "default": 2,
                          "minimum": 1, "maximum": 9})
        self.assertEqual(self.spec["properties"]["colour"]["enum"], ["red", "*"])
        self.assertTrue(self.spec["properties"]["box"]["x-kubernetes-preserve-unknown-fields"])
        self.assertTrue(self.spec["properties"]["amounts"]["additionalProperties"]["x-kubernetes-int-or-string"])
        self.assertEqual(self.spec["x-kubernetes-validations"], [{"rule": "has(self.parts)", "message": "A toy has parts"}])

    def test_defaults_can_be_left_out_below_a_field(self):
        def spec_of(attributes):
            model = small_with("spec: ToySpec required", f"spec: raw<ToySpec> {attributes}")
            return crd.definition(model.own_kinds()[0])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

        def defaults(schema):
            return ("default" in schema["properties"]["colour"],
                    "default" in schema["properties"]["parts"]["items"]["properties"]["weight"])

        self.assertEqual(defaults(spec_of("")), (True, True))
        self.assertEqual(defaults(spec_of("nodefault=colour")), (False, True))
        self.assertEqual(defaults(spec_of("nodefault=*")), (False, False))


class Yaml(unittest.TestCase):
    def test_scalars(self):
        for value, wanted in {"hard": "hard", "true": "'true'", "*": "'*'", "1": "'1'", "": "''", "it's: so": "'it''s: so'",
                              "a b": "a b", "^[^:]+$": "^[^:]+$", "`In`": "'`In`'", "on": "'on'"}.items():
            self.assertEqual(yaml_out.scalar(value), wanted)
        self.assertEqual(yaml_out.scalar(True), "true")
        self.assertEqual(yaml_out.scalar(3), "3")

    def test_blocks(self):
        text = yaml_out.dump({"a": {"b": [{"c": 1, "d": []}, "x"]}, "e": {}})
        self.assertEqual(text, "a:\n  b:\n  - c: 1\n    d: []\n  - x\ne: {}\n")

    def test_long_descriptions_are_folded(self):
        text = yaml_out.dump({"description": "word " * 40 + "end."})
        self.assertTrue(text.startswith("description: >-\n  word"))
        self.assertTrue(all(len(line) <= yaml_out.WIDTH for line in text.splitlines()))


class Generate(unittest.TestCase):
    """The command, on a copy of the schema."""

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(ROOT / "schema", self.root / "schema")

    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = generate.main(list(arguments), root=self.root)
        return code, out.getvalue(), err.getvalue()

    def test_writes_once(self):
        self.assertEqual(self.run_main()[0], 0)
        self.assertEqual(self.run_main("--check"), (0, "", ""))
        self.assertIn(" 0 written or removed", self.run_main()[1])

    def test_check_lists_what_is_stale(self):
        self.run_main()
        (self.root / "deploy/crds/batch.volcano.sh_jobs.yaml").write_text("changed")
        (self.root / "docs/api/batch.md").unlink()
        (self.root / "src/api/gen/old.h").write_text("left over")
        (self.root / "src/api/gen/README.md").write_text("stays")
        code, _out, err = self.run_main("--check")
        self.assertEqual(code, 1)
        self.assertIn("stale: deploy/crds/batch.volcano.sh_jobs.yaml (changed)", err)
        self.assertIn("stale: docs/api/batch.md (missing)", err)
        self.assertIn("stale: src/api/gen/old.h (does not belong there)", err)
        self.assertNotIn("README", err)
        self.run_main()
        self.assertFalse((self.root / "src/api/gen/old.h").exists())
        self.assertTrue((self.root / "src/api/gen/README.md").exists())

    def test_a_mistake_is_told_and_nothing_is_written(self):
        (self.root / "schema/batch.schema").write_text("area batch\nstruct\n")
        code, _out, err = self.run_main()
        self.assertEqual(code, 2)
        self.assertIn("schema/batch.schema:", err)
        self.assertFalse((self.root / "deploy").exists())


MODEL = check.read_folder(ROOT / "schema")


def walk(schema, path):
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from walk(schema[keyword], f"{path}[{keyword}]")


class RealDefinitions(unittest.TestCase):
    """Rules of structural schemas that need no server (kube_check.py has the rest)."""

    def each(self):
        for kind in MODEL.own_kinds():
            definition = crd.definition(kind)
            for version in definition["spec"]["versions"]:
                for path, schema in walk(version["schema"]["openAPIV3Schema"], kind.name):
                    yield kind, path, schema

    def test_every_value_has_a_type_or_is_int_or_string(self):
        for _kind, path, schema in self.each():
            self.assertTrue(("type" in schema) != ("x-kubernetes-int-or-string" in schema), path)

    def test_every_property_is_described(self):
        for kind, path, schema in self.each():
            if re.fullmatch(r".*\.\w+", path) and path != f"{kind.name}.metadata":
                self.assertIn("description", schema, path)

    def test_required_names_exist(self):
        for _kind, path, schema in self.each():
            self.assertLessEqual(set(schema.get("required", [])), set(schema.get("properties", {})), path)

    def test_properties_and_additional_properties_exclude_each_other(self):
        for _kind, path, schema in self.each():
            self.assertFalse("properties" in schema and "additionalProperties" in schema, path)

    def test_list_keys(self):
        for _kind, path, schema in self.each():
            for key in schema.get("x-kubernetes-list-map-keys", []):
                item = schema["items"]
                self.assertTrue(key in item["required"] or "default" in item["properties"][key], path)
                self.assertIn(item["properties"][key]["type"], ("string", "integer", "boolean"), path)

    def test_defaults_are_valid(self):
        for _kind, path, schema in self.each():
            if "default" in schema:
                default = schema["default"]
                self.assertIsInstance(default, {"string": str, "integer": int, "boolean": bool}[schema["type"]], path)
                self.assertIn(default, schema.get("enum", [default]), path)
                self.assertGreaterEqual(default if schema["type"] == "integer" else 0, schema.get("minimum", 0), path)
                if "pattern" in schema:
                    self.assertRegex(default, schema["pattern"], path)

    def test_patterns_are_anchored_and_compile(self):
        for _kind, path, schema in self.each():
            if "pattern" in schema:
                re.compile(schema["pattern"])
                self.assertTrue(schema["pattern"].startswith("^") and schema["pattern"].endswith("$"), path)

    def test_columns_point_at_fields(self):
        for kind in MODEL.own_kinds():
            paths = {path for k, path, _ in self.each() if k is kind} | {f"{kind.name}.metadata.creationTimestamp"}
            for column in kind.columns:
                self.assertIn(kind.name + column.path, paths)

    def test_the_job_specification_is_the_same_everywhere(self):
        def spec(name, *path):
            schema = crd.definition(next(k for k in MODEL.own_kinds() if k.name == name))
            schema = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            for step in path:
                schema = schema["items"] if step == "[]" else schema["properties"][step]
            return json.loads(json.dumps(schema["properties"]))

        job = spec("Job", "spec")
        self.assertEqual(spec("CronJob", "spec", "jobTemplate", "spec"), job)
        self.assertEqual(spec("JobTemplate", "spec"), job)
        hyper = spec("HyperJob", "spec", "replicatedJobs", "[]", "templateSpec")
        self.assertNotIn("default", hyper["queue"])
        hyper["queue"]["default"] = "default"
        for value in (hyper, job):  # the place of a key means nothing
            value["queue"] = dict(sorted(value["queue"].items()))
        self.assertEqual(hyper, job)


class Examples(unittest.TestCase):
    """src/api/testdata/full_*.json use every field of our kinds."""

    def collect(self, struct, values, found):
        """All values of each struct below `values`."""
        found.setdefault(struct.full_name, (struct, []))[1].extend(values)
        for field in struct.fields:
            leaf = field.type.leaf().target
            if isinstance(leaf, schema_model.Struct):
                below = [v[field.name] for v in values if field.name in v]
                self.collect(leaf, list(self.elements(field.type, below)), found)

    def elements(self, type_, values):
        for value in values:
            if type_.form == "list":
                yield from self.elements(type_.item, value)
            elif type_.form == "map":
                yield from self.elements(type_.item, value.values())
            elif type_.form == "raw":
                yield from self.elements(type_.item, [value])
            else:
                yield value

    def test_every_field_is_there(self):
        objects = [json.loads(p.read_text()) for p in sorted(TESTDATA.glob("*.json"))]
        for kind in MODEL.own_kinds():
            values = [o for o in objects if (o["apiVersion"], o["kind"]) == (kind.api_version, kind.name)]
            found = {}
            self.collect(kind, values, found)
            missing = [f"{kind.name}: {struct.name}.{field.name}" for struct, below in found.values()
                       for field in struct.fields if not any(field.name in v for v in below)]
            self.assertEqual(missing, [])


class RealNames(unittest.TestCase):
    def test_words_are_sorted(self):
        words = names.words_of(MODEL)
        self.assertEqual(words, sorted(set(words), key=str.encode))
        self.assertIn("Running", words)

    def test_constants_are_unique(self):
        for group in MODEL.name_groups:
            constants = [cpp_names.constant_name(n.name) for n in group.names]
            self.assertEqual(len(constants), len(set(constants)), group.name)


class RealDocs(unittest.TestCase):
    def test_links_lead_somewhere(self):
        pages = dict(docs.files(MODEL))
        anchors = {path.rsplit("/", 1)[1]: {m.lower() for m in re.findall(r"^#+ (\w+)$", text, re.M)}
                   for path, text in pages.items()}
        for path, text in pages.items():
            own = path.rsplit("/", 1)[1]
            for page, anchor in re.findall(r"\]\((\w*(?:\.md)?)#(\w+)\)", text):
                self.assertIn(anchor, anchors[page or own], f"{path}: {page}#{anchor}")


if __name__ == "__main__":
    unittest.main()
