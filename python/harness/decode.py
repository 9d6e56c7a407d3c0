# SPDX-License-Identifier: MIT OR Apache-2.0
"""From JSON to typed rows: fields by name, addresses as numbers; fields that this package does not know are ignored."""

import dataclasses
from typing import Any, Dict, List, NewType, Type, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import HarnessError

#: An address in the firmware's memory.
Address = NewType("Address", int)

Row = TypeVar("Row")


_FIELDS: Dict[Type[Any], Dict[str, Any]] = {}


def fields_of(kind: Type[Any]) -> Dict[str, Any]:
    """Fields of a row's class with their types."""
    if kind not in _FIELDS:
        hints = get_type_hints(kind)
        _FIELDS[kind] = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    return _FIELDS[kind]


def optional(hint: Any) -> Any:
    """The type within an Optional; None: the type is none."""
    if get_origin(hint) is not Union:
        return None
    return next(inner for inner in get_args(hint) if inner is not type(None))


def _decode(hint: Any, value: Any) -> Any:
    inner = optional(hint)
    if inner is not None:
        return None if value is None else _decode(inner, value)
    if get_origin(hint) is list:
        (of,) = get_args(hint)
        return [_decode(of, each) for each in value]
    if hint is Address:
        return int(value, 16)
    if dataclasses.is_dataclass(hint):
        return _row(hint, value)
    if hint is float and isinstance(value, int):
        return float(value)
    if not isinstance(value, hint):
        raise HarnessError(f"harness printed {value!r} where this package expects {hint.__name__}: update one of them")
    return value


def _row(kind: Any, value: Dict[str, Any]) -> Any:
    return kind(**{name: _decode(hint, value.get(name)) for name, hint in fields_of(kind).items()})


def row(kind: Type[Row], value: Dict[str, Any]) -> Row:
    """A row from a JSON object. Raises HarnessError for a value of another type."""
    made: Row = _row(kind, value)
    return made


def rows(kind: Type[Row], values: List[Dict[str, Any]]) -> List[Row]:
    """Rows from a JSON list of objects."""
    return [row(kind, value) for value in values]
