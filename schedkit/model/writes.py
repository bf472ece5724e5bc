"""Writes: a decision as a value.

Every arrow of a state machine is one pure function that returns one `Write`. A store performs it as one conditional
write and answers `Applied(new)` or `Refused(current)`; a refusal is an answer, not an error. Two kinds of condition
are enough for every arrow there is: `Absent` and `Equals`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Item = Mapping[str, Any]  # attribute -> JSON value; an attribute that is not there reads as None


class Key(NamedTuple):
    """Where an item stands: items of one partition are together, sorted by `sort`."""

    partition: str
    sort: str


@dataclass(frozen=True, slots=True)
class Absent:
    """Holds when no item stands under the key."""

    def holds(self, current: Item | None) -> bool:
        return current is None


@dataclass(frozen=True, slots=True)
class Equals:
    """Holds when the item exists and its attribute has this value; `None` means the attribute is not there."""

    attribute: str
    value: Any

    def holds(self, current: Item | None) -> bool:
        return current is not None and current.get(self.attribute) == self.value


Condition = Absent | Equals


@dataclass(frozen=True, slots=True)
class Write:
    """One arrow: set `changes` on the item under `key` if every condition holds. A change to `None` removes it."""

    key: Key
    arrow: str
    conditions: tuple[Condition, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)

    def holds(self, current: Item | None) -> bool:
        return all(condition.holds(current) for condition in self.conditions)

    def result(self, current: Item | None) -> dict[str, Any]:
        """The item as it stands after this write."""
        merged = {**(current or {}), **self.changes}
        return {name: value for name, value in merged.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Applied:
    """The write landed; `items` are the items as they stand now, in the order of the writes."""

    items: tuple[Item, ...]

    @property
    def item(self) -> Item:
        return self.items[0]


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was written. `index` is the first write whose conditions failed, `current` its item as it stands."""

    index: int
    current: Item | None


Outcome = Applied | Refused
