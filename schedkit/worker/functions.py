"""A worker's functions: which one a task is for, and how its payload becomes arguments that were checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError

from schedkit.worker.courier import Limits
from schedkit.worker.held import Failure

STRICT: Final = ConfigDict(strict=True)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a worker, called with its task and with the payload's keys as arguments."""

    name: str
    call: Callable[..., Any]
    limits: Limits
    concurrency: int | None
    takes: Mapping[str, TypeAdapter[Any] | None]  # None: any value
    needs: frozenset[str]
    takes_rest: bool

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.call)

    def arguments(self, payload: Any) -> dict[str, Any] | Failure:
        """The arguments that a payload stands for, or why it cannot be right: no retry would change that."""
        if not self.takes and not self.takes_rest:
            return {}
        if payload is None:
            payload = {}
        if not isinstance(payload, dict):
            return self._refused(f"its payload is {_kind(payload)}, not an object")
        if missing := sorted(self.needs - payload.keys()):
            return self._refused(f"its payload has no {', '.join(map(repr, missing))}")
        if not self.takes_rest and (unknown := sorted(payload.keys() - self.takes.keys())):
            return self._refused(f"its payload has {', '.join(map(repr, unknown))}, which {self.name} does not take")
        arguments = dict(payload)
        for name, adapter in self.takes.items():
            if adapter is None or name not in payload:
                continue
            try:
                arguments[name] = adapter.validate_python(payload[name])
            except ValidationError as error:
                return self._refused(f"payload.{name}: {error.errors(include_url=False)[0]['msg']}")
        return arguments

    def _refused(self, why: str) -> Failure:
        return Failure(f"{self.name} was not called: {why}", retryable=False)


def function_of(call: Callable[..., Any], name: str, limits: Limits, concurrency: int | None) -> Function:
    """Read a function's signature: its first parameter is the task. Raises TypeError for one that cannot be called."""
    parameters = list(inspect.signature(call, eval_str=True).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not parameters or parameters[0].kind not in positional:
        raise TypeError(f"{call.__qualname__} needs a first parameter for its task: def {call.__name__}(task, …)")
    takes: dict[str, TypeAdapter[Any] | None] = {}
    needs = set()
    takes_rest = False
    for parameter in parameters[1:]:
        match parameter.kind:
            case inspect.Parameter.VAR_KEYWORD:
                takes_rest = True
            case inspect.Parameter.VAR_POSITIONAL | inspect.Parameter.POSITIONAL_ONLY:
                raise TypeError(f"{call.__qualname__}: payload keys are passed by name, so {parameter} gets none")
            case _:
                takes[parameter.name] = _adapter(parameter.annotation)
                if parameter.default is inspect.Parameter.empty:
                    needs.add(parameter.name)
    return Function(name, call, limits, concurrency, takes, frozenset(needs), takes_rest)


def _adapter(annotation: Any) -> TypeAdapter[Any] | None:
    if annotation in (inspect.Parameter.empty, Any):
        return None
    try:
        return TypeAdapter(annotation, config=STRICT)
    except Exception:  # a model or a dataclass brings its own settings
        return TypeAdapter(annotation)


def _kind(value: Any) -> str:
    return {list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}.get(
        type(value), "something else"
    )
