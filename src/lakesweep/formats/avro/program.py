"""From a schema and the wanted columns to a program of instructions, three numbers each: operation, a, b.

Only what lies on the way to a wanted column is read; all else is passed over. Records that are used by name again are
subroutines, so the program is never much longer than the schema, and may be recursive as the schema may.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakesweep.formats.avro.faults import avro_error
from lakesweep.formats.avro.schema import (
    Array,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Type,
    Union,
    parse_schema,
    smallest_size,
)

__all__ = ["WIDTH", "Column", "Program", "compile_program"]

WIDTH = 3
# Those up to LOOP begin with a number in the bytes.
(SKIP_LONG, READ_LONG, READ_INT, READ_ENUM, SKIP_TEXT, READ_TEXT, CHOOSE, ITEMS, LOOP) = range(9)
(NEXT, SKIP_BYTES, READ_BYTES, SKIP_BOOLEAN, READ_BOOLEAN, JUMP, CALL, RETURN, END) = range(9, 18)

_READS = {
    "boolean": READ_BOOLEAN,
    "int": READ_INT,
    "long": READ_LONG,
    "bytes": READ_TEXT,
    "string": READ_TEXT,
}
_SKIPS = {
    "boolean": SKIP_BOOLEAN,
    "int": SKIP_LONG,
    "long": SKIP_LONG,
    "bytes": SKIP_TEXT,
    "string": SKIP_TEXT,
}
_SIZES = {"float": 4, "double": 8}
_MOST_PLAIN = 8  # numbers and texts in an item that is passed over at once

Wanted = dict[
    str, "int | Wanted"
]  # a field's name to the column that it fills, or to what is wanted inside it


@dataclass(frozen=True, slots=True)
class Column:
    """A wanted column and what its values are; `kind` is None if the schema does not have it."""

    path: str
    kind: str | None = None  # boolean, int, long, bytes, string, fixed, enum
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """What compiled code runs once for each object. A row takes `smallest_row` bytes or more."""

    code: npt.NDArray[np.int64]
    columns: tuple[Column, ...]
    smallest_row: int


@functools.lru_cache(maxsize=128)  # the manifests of a table share one schema
def compile_program(schema: bytes, columns: tuple[str, ...]) -> Program:
    """The program that reads `columns` (dotted paths) from objects of this schema."""
    row = parse_schema(schema)
    if not isinstance(row, Record):
        raise avro_error("its objects are not records")
    compiler = _Compiler(columns)
    compiler.compile(row)
    code = np.array(compiler.code, np.int64).reshape(-1)
    return Program(code, tuple(compiler.columns), smallest_size(row))


def _wanted(columns: Sequence[str]) -> Wanted:
    wanted: Wanted = {}
    for number, path in enumerate(columns):
        *outer, last = path.split(".")
        inside = wanted
        for name in outer:
            deeper = inside.setdefault(name, {})
            if isinstance(deeper, int):
                raise ValueError(f"column {path!r} lies inside another wanted column")
            inside = deeper
        if last in inside:
            raise ValueError(
                f"column {path!r} is wanted twice, or lies around another wanted column"
            )
        inside[last] = number
    return wanted


class _Compiler:
    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = [Column(path) for path in columns]
        self.code: list[list[int]] = []
        self._wanted = _wanted(columns)
        self._subroutines: dict[int, int] = {}
        self._calls: list[tuple[int, Record]] = []

    def compile(self, row: Record) -> None:
        self._read_record(row, self._wanted)
        self._emit(END)
        # A subroutine may call further ones, which then stand at the end of the list.
        for at, record in self._calls:
            if id(record) not in self._subroutines:
                self._subroutines[id(record)] = len(self.code)
                self._skip_fields(record)
                self._emit(RETURN)
            self.code[at][1] = self._subroutines[id(record)]

    def _emit(self, operation: int, a: int = 0, b: int = 0) -> int:
        self.code.append([operation, a, b])
        return len(self.code) - 1

    def _read_record(self, record: Record, wanted: Wanted) -> None:
        for one in record.fields:
            if one.name in wanted:
                self._read(one.type, wanted[one.name])
            else:
                self._skip(one.type)

    def _read(self, type_: Type, wanted: int | Wanted) -> None:
        if isinstance(type_, Union):
            others = [branch for branch in type_.branches if not _is_null(branch)]
            if len(others) > 1:
                raise avro_error(
                    f"its column {self._name(wanted)!r} may hold values of several types"
                )
            self._choose(type_, wanted)
        elif isinstance(wanted, int):
            self._read_value(type_, wanted)
        elif isinstance(type_, Record):
            self._read_record(type_, wanted)
        elif not _is_null(type_):
            raise avro_error(f"its column {self._name(wanted)!r} does not lie in a record")

    def _read_value(self, type_: Type, column: int) -> None:
        path = self.columns[column].path
        match type_:
            case Primitive("null"):
                return
            case Primitive(name) if name in _READS:
                self._emit(_READS[name], column)
                self.columns[column] = Column(path, name)
            case Fixed(size):
                self._emit(READ_BYTES, column, size)
                self.columns[column] = Column(path, "fixed")
            case Enum(symbols):
                self._emit(READ_ENUM, column, len(symbols))
                self.columns[column] = Column(path, "enum", symbols)
            case _:
                raise avro_error(f"its column {path!r} is of a type that is not read as a column")

    def _skip(self, type_: Type) -> None:
        if smallest_size(type_) == 0:
            return
        match type_:
            case Primitive(name) if name in _SKIPS:
                self._emit(_SKIPS[name])
            case Primitive(name):
                self._emit(SKIP_BYTES, _SIZES[name])
            case Fixed(size):
                self._emit(SKIP_BYTES, size)
            case Enum():
                self._emit(SKIP_LONG)
            case Record() if type_.is_shared:
                self._calls.append((self._emit(CALL), type_))
            case Record():
                self._skip_fields(type_)
            case Array(items):
                self._skip_items(items, is_map=False)
            case Map(values):
                self._skip_items(values, is_map=True)
            case Union():
                self._choose(type_, None)

    def _skip_fields(self, record: Record) -> None:
        for one in record.fields:
            self._skip(one.type)

    def _skip_items(self, items: Type, *, is_map: bool) -> None:
        # Items without bytes are only counted: going through them would take as long as the count says.
        is_empty = not is_map and smallest_size(items) == 0
        loop = self._emit(LOOP, 0, int(is_empty))
        if not is_empty:
            if is_map:
                self._emit(SKIP_TEXT)
            self._skip(items)
            self._emit(NEXT, loop)
        self.code[loop][1] = len(self.code)
        body = [operation for operation, _, _ in self.code[loop + 1 : -1]]
        if 0 < len(body) <= _MOST_PLAIN and set(body) <= {SKIP_LONG, SKIP_TEXT}:
            # Most bytes of a manifest are such items: statistics by column. One instruction passes over all of them.
            texts = sum(1 << i for i, operation in enumerate(body) if operation == SKIP_TEXT)
            self.code[loop:] = [[ITEMS, len(body), texts]]

    def _choose(self, union: Union, wanted: int | Wanted | None) -> None:
        choose = self._emit(CHOOSE, len(union.branches))
        for _ in union.branches:
            self._emit(JUMP)
        ends = []
        for number, branch in enumerate(union.branches):
            self.code[choose + 1 + number][1] = len(self.code)
            if wanted is None:
                self._skip(branch)
            elif not _is_null(branch):
                self._read(branch, wanted)
            ends.append(self._emit(JUMP))
        for end in ends:
            self.code[end][1] = len(self.code)

    def _name(self, wanted: int | Wanted) -> str:
        while not isinstance(wanted, int):
            wanted = next(iter(wanted.values()))
        return self.columns[wanted].path


def _is_null(type_: Type) -> bool:
    return isinstance(type_, Primitive) and type_.name == "null"
