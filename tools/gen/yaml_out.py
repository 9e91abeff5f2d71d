"""Writes YAML for people: block style, two spaces, long texts folded, quotes only where they are needed."""

import re
import textwrap

WIDTH = 110
# Plain scalars that YAML 1.1 or 1.2 would read as something else than a string.
NOT_STRINGS = re.compile(
    r"(?i:y|yes|n|no|true|false|on|off|null|~|\.inf|\.nan)|[-+]?[0-9_.,:]+([eE][-+]?[0-9]+)?|0[xo][0-9a-fA-F_]+|=|<<")
PLAIN = re.compile(r"[A-Za-z0-9_./^$(][-A-Za-z0-9_./ ^$(),;+*?<>=|%@!'\"`&{}\[\]\\:]*")


def scalar(value):
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if PLAIN.fullmatch(value) and not NOT_STRINGS.fullmatch(value) and value == value.strip() and ": " not in value \
            and " #" not in value and not value.endswith(":"):
        return value
    return "'" + value.replace("'", "''") + "'"


def lines_of(value, indent):
    """Lines of a mapping or list, each already indented."""
    pad = " " * indent
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, (dict, list)) and item:
                yield f"{pad}{scalar(key)}:"
                yield from lines_of(item, indent + (0 if isinstance(item, list) else 2))
            elif isinstance(item, dict):
                yield f"{pad}{scalar(key)}: {{}}"
            elif isinstance(item, list):
                yield f"{pad}{scalar(key)}: []"
            elif key == "description" and len(item) + indent > WIDTH:
                yield f"{pad}{key}: >-"
                for line in textwrap.wrap(item, WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False):
                    yield f"{pad}  {line}"
            else:
                yield f"{pad}{scalar(key)}: {scalar(item)}"
    else:
        for item in value:
            if isinstance(item, dict) and item:
                inner = list(lines_of(item, indent + 2))
                yield f"{pad}- {inner[0].lstrip()}"
                yield from inner[1:]
            else:
                yield f"{pad}- {scalar(item)}"


def dump(value):
    return "\n".join(lines_of(value, 0)) + "\n"
