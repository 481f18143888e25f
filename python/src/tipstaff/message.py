"""Messages of the wire as the dataclasses of this package.

A dataclass's fields are read from the message's fields of the same names; what a field
becomes follows from the message's definition. So the names exist once, and a field that
the dataclass lacks, or misspells, fails in the first test that reads one.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Hashable
from datetime import datetime, timezone
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from tipstaff import money, value

T = TypeVar("T")

_TIMESTAMP = "google.protobuf.Timestamp"


def wire(name: str) -> Any:
    """Metadata of a dataclass field whose name on the wire is another."""
    return {"wire": name}


AMOUNT: Any = {"amount": True}
"""Metadata of a dataclass field that is an amount of money."""

LOCAL: Any = {"local": True}
"""Metadata of a dataclass field that is not on the wire."""


def read(cls: type[T], message: Message) -> T:
    """The message as a dataclass."""
    return cls(**{name: reader(message) for name, reader in _readers(cast(Hashable, cls))})


@functools.cache
def _readers(cls: Any) -> list[tuple[str, Callable[[Message], Any]]]:
    hints = typing.get_type_hints(cls)
    return [
        (field.name, functools.partial(_read_field, field, hints[field.name]))
        for field in dataclasses.fields(cls)
        if "local" not in field.metadata
    ]


def _read_field(field: dataclasses.Field[Any], hint: Any, message: Message) -> Any:
    name = field.metadata.get("wire", field.name)
    definition = cast(FieldDescriptor, message.DESCRIPTOR.fields_by_name[name])
    content = getattr(message, name)
    kind = definition.message_type
    if kind is not None and kind.GetOptions().map_entry:
        is_json = kind.fields_by_name["value"].type == FieldDescriptor.TYPE_BYTES
        return {key: value.decode(item) if is_json else item for key, item in content.items()}
    one = functools.partial(_read_one, field, definition, hint)
    if definition.is_repeated:
        return [one(item) for item in content]
    if definition.has_presence and not message.HasField(name):
        return None
    return one(content)


def _read_one(field: dataclasses.Field[Any], definition: FieldDescriptor, hint: Any, content: Any) -> Any:
    if definition.type == FieldDescriptor.TYPE_BYTES:
        return value.decode(content) if content else None
    if definition.message_type is None:
        return money.from_nano(content) if "amount" in field.metadata else content
    if definition.message_type.full_name == _TIMESTAMP:
        return time(content)
    return read(_dataclass_in(hint), content)


def time(stamp: Timestamp) -> datetime:
    """A moment, in UTC."""
    return stamp.ToDatetime(tzinfo=timezone.utc)


def _dataclass_in(hint: Any) -> Any:
    """The dataclass of a hint such as list[X] or X | None."""
    if dataclasses.is_dataclass(hint):
        return hint
    return next(arg for arg in typing.get_args(hint) if dataclasses.is_dataclass(arg))
