# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows hold what harness's JSON Schemas say: each field is there, of that type, and null where the schema has null."""

import json
from typing import Any, Dict, List, Optional, Tuple, Type

import pytest

from harness import Address, rows
from harness.command import output
from harness.decode import fields_of, optional

#: Rows by the document and the name that they have in its schema; the document itself has the name "".
ROWS: List[Tuple[str, str, Type[Any]]] = [
    ("export", "Facts", rows.Facts),
    ("export", "Function", rows.Function),
    ("export", "Task", rows.Task),
    ("export", "JsonZone", rows.Zone),
    ("export", "JsonZoneContext", rows.ZoneContext),
    ("export", "JsonZoneCounts", rows.ZoneCounts),
    ("export", "Span", rows.Span),
    ("export", "JsonMark", rows.Mark),
    ("coverage", "Tally", rows.Tally),
    ("stack", "StackRow", rows.StackRow),
    ("stack", "StackStep", rows.StackStep),
    ("diff", "", rows.Diff),
    ("diff", "Pair", rows.Pair),
    ("diff", "Change", rows.FunctionChange),
    ("diff", "TaskChange", rows.TaskChange),
]


def _schema(command: str) -> Dict[str, Any]:
    schema: Dict[str, Any] = json.loads(output([command, "--schema"]))
    return schema


def _resolved(schema: Dict[str, Any], field: Dict[str, Any]) -> Dict[str, Any]:
    reference: Optional[str] = field.get("$ref")
    if reference is not None:
        field = schema["$defs"][reference.split("/")[-1]]
    return field


def _kinds(schema: Dict[str, Any], field: Dict[str, Any]) -> List[str]:
    """JSON types of a field; an address is a string of its own."""
    if "anyOf" in field:
        return [kind for each in field["anyOf"] for kind in _kinds(schema, each)]
    field = _resolved(schema, field)
    if field.get("pattern") == "^0x[0-9a-f]{1,16}$":
        return ["address"]
    if "oneOf" in field:
        return ["string"]
    kind = field["type"]
    return list(kind) if isinstance(kind, list) else [kind]


def _expected(hint: Any) -> List[str]:
    inner = optional(hint)
    if inner is not None:
        return [*_expected(inner), "null"]
    named = {int: "integer", str: "string", bool: "boolean", Address: "address", float: "number"}
    if hint in named:
        return [named[hint]]
    return ["array"] if "List" in str(hint) or "list" in str(hint) else ["object"]


@pytest.mark.parametrize("command, name, row", ROWS, ids=[row.__name__ for _, _, row in ROWS])
def test_fields_are_those_of_the_schema(command: str, name: str, row: Type[Any]) -> None:
    schema = _schema(command)
    properties = schema["$defs"][name]["properties"] if name else schema["properties"]
    for field, hint in fields_of(row).items():
        assert field in properties, f"{field} is no field of {command}'s {name}"
        assert sorted(_kinds(schema, properties[field])) == sorted(_expected(hint)), field
