"""A writer's schema: from JSON to a small graph of types. Logical types and defaults are left out: bytes do not show them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lakesweep.formats.avro.faults import avro_error
from lakesweep.json_text import parse_json

__all__ = [
    "Array",
    "Enum",
    "Field",
    "Fixed",
    "Map",
    "Primitive",
    "Record",
    "Type",
    "Union",
    "parse_schema",
    "smallest_size",
]

_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_DEEPEST = 100


@dataclass(slots=True, eq=False)
class Primitive:
    """`null`, `boolean`, `int`, `long`, `float`, `double`, `bytes` or `string`."""

    name: str


@dataclass(slots=True, eq=False)
class Fixed:
    """A fixed number of bytes, without a length before them."""

    size: int


@dataclass(slots=True, eq=False)
class Enum:
    """One of some names, by its number."""

    symbols: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Field:
    """One field of a record."""

    name: str
    type: Type


@dataclass(slots=True, eq=False)
class Record:
    """Fields one after another. `is_shared` when its name is used again, perhaps inside itself."""

    name: str
    fields: list[Field] = field(default_factory=list)
    is_shared: bool = False


@dataclass(slots=True, eq=False)
class Array:
    """Items in counted blocks."""

    items: Type


@dataclass(slots=True, eq=False)
class Map:
    """Pairs of a string and a value in counted blocks."""

    values: Type


@dataclass(slots=True, eq=False)
class Union:
    """The number of a branch, then a value of it."""

    branches: list[Type]


Type = Primitive | Fixed | Enum | Record | Array | Map | Union


def parse_schema(text: bytes) -> Type:
    """The type that a container's `avro.schema` describes.

    Raises:
        FormatError: no JSON, no schema, or one whose values would never end.
    """
    try:
        node = parse_json(text)
    except ValueError as error:
        raise avro_error(f"its schema is not JSON ({type(error).__name__})") from error
    parsed = _Parser().parse(node, "", 0)
    smallest_size(parsed)
    return parsed


def smallest_size(type_: Type) -> int:
    """The fewest bytes a value can take. A type for which that is 0 takes 0 always."""
    return _smallest_size(type_, {}, 0)


def _smallest_size(type_: Type, known: dict[int, int | None], depth: int) -> int:
    match type_:
        case Primitive(name):
            return {"null": 0, "float": 4, "double": 8}.get(name, 1)
        case Fixed(size):
            return size
        case Record():
            if id(type_) not in known:
                known[id(type_)] = None
                sizes = (_smallest_size(one.type, known, depth + 1) for one in type_.fields)
                # Shared records may lie in each other many times over; more than this is never met.
                known[id(type_)] = min(sum(sizes), 1 << 40)
            size_or_none = known[id(type_)]
            if size_or_none is None or depth > _DEEPEST:
                raise avro_error(f"its record {type_.name[:80]!r} holds itself without an end")
            return size_or_none
        case _:
            return 1


class _Parser:
    """Follows names in the order in which the schema defines them."""

    def __init__(self) -> None:
        self._named: dict[str, Type] = {}

    def parse(self, node: Any, namespace: str, depth: int) -> Type:
        if depth > _DEEPEST:
            raise avro_error("its schema is nested too deep")
        if isinstance(node, str):
            return self._by_name(node, namespace)
        if isinstance(node, list):
            return Union([self.parse(branch, namespace, depth + 1) for branch in node])
        if not isinstance(node, dict):
            raise avro_error("its schema holds a type that is not a type")
        match node.get("type"):
            case "record" | "error":
                return self._record(node, namespace, depth)
            case "enum":
                enum = Enum(_names(node.get("symbols")))
                self._define(node, namespace, enum)
                return enum
            case "fixed":
                size = node.get("size")
                if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
                    raise avro_error("its schema holds a fixed type of no size")
                fixed = Fixed(size)
                self._define(node, namespace, fixed)
                return fixed
            case "array":
                return Array(self.parse(node.get("items"), namespace, depth + 1))
            case "map":
                return Map(self.parse(node.get("values"), namespace, depth + 1))
            case inner:
                # {"type": "long", "logicalType": …}, and a type wrapped in another.
                return self.parse(inner, namespace, depth + 1)

    def _by_name(self, name: str, namespace: str) -> Type:
        if name in _PRIMITIVES:
            return Primitive(name)
        for full in (f"{namespace}.{name}", name):
            if full in self._named:
                found = self._named[full]
                if isinstance(found, Record):
                    found.is_shared = True
                return found
        raise avro_error(f"its schema names an unknown type {name[:80]!r}")

    def _define(self, node: dict[str, Any], namespace: str, type_: Type) -> str:
        """Remember a named type; returns the namespace for what lies inside it."""
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise avro_error("its schema holds a named type without a name")
        if "." in name:
            namespace = name.rpartition(".")[0]
        else:
            own = node.get("namespace", namespace)
            namespace = own if isinstance(own, str) else ""
            name = f"{namespace}.{name}" if namespace else name
        self._named[name] = type_
        return namespace

    def _record(self, node: dict[str, Any], namespace: str, depth: int) -> Record:
        record = Record(str(node.get("name", "")))
        namespace = self._define(node, namespace, record)
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise avro_error(f"its record {record.name[:80]!r} has no fields")
        seen: set[str] = set()
        for one in fields:
            name = one.get("name") if isinstance(one, dict) else None
            if not isinstance(name, str) or name in seen:
                raise avro_error(
                    f"its record {record.name[:80]!r} has a field without a name of its own"
                )
            seen.add(name)
            record.fields.append(Field(name, self.parse(one.get("type"), namespace, depth + 1)))
        return record


def _names(symbols: Any) -> tuple[str, ...]:
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise avro_error("its schema holds an enum without symbols")
    return tuple(symbols)
