"""How things of the schema are called in C++."""

import json
import re

KEYWORDS = {"alignas", "and", "auto", "bool", "break", "case", "catch", "char", "class", "const", "continue", "default",
            "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend",
            "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "not", "operator", "or", "private",
            "protected", "public", "register", "requires", "return", "short", "signed", "sizeof", "static", "struct",
            "switch", "template", "this", "throw", "true", "try", "typedef", "typename", "union", "unsigned", "using",
            "virtual", "void", "volatile", "while", "xor"}


def snake(name):
    """minAvailable -> min_available, podIPs -> pod_ips, setHostnameAsFQDN -> set_hostname_as_fqdn."""
    name = re.sub(r"([A-Z]{2,})s\b", lambda m: m.group(1).capitalize() + "s", name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def member_name(field):
    name = field.attributes.get("cpp") or snake(field.name)
    return name + "_" if name in KEYWORDS else name


def namespace_name(name):
    """JobPhase -> job_phase: the constants of an enum live in a namespace of that name."""
    return snake(name)


def constant_name(name):
    """best-effort -> kBestEffort, hard -> kHard."""
    return "k" + "".join(w[:1].upper() + w[1:] for w in re.split(r"[^A-Za-z0-9]+", name) if w)


def include_stem(area, part):
    return f"{area.name}_{part}" if part else area.name


def quoted(text):
    return json.dumps(text)


def singular(name):
    """containerStatuses -> ContainerStatus, taints -> Taint: the name of one element."""
    name = name[:1].upper() + name[1:]
    for end, new in (("sses", "ss"), ("uses", "us"), ("ies", "y"), ("s", "")):
        if name.endswith(end) and not name.endswith("ss"):
            return name[: -len(end)] + new
    return name
