"""Any program as a worker: each task is one process group, fed its payload, and judged by its exit code.

exit 0                      done; the end of its output is the result, as JSON where it is JSON
exit 75, or a signal        to be tried again, as the job's retry policy allows (75 is EX_TEMPFAIL)
any other exit code         failed for good; the last line it said on stderr is the error
::progress {"rows": 10}     a line like this on stdout is no output: it is the progress that the next heartbeat carries

cancelled, superseded, out of time, drained   SIGTERM to its group, and SIGKILL when the grace is over
its worker dies                               SIGKILL to its group, by the warden

It finds in its environment SCHEDKIT_RUN_ID, SCHEDKIT_IDEMPOTENCY_KEY, SCHEDKIT_EPOCH, SCHEDKIT_ATTEMPT,
SCHEDKIT_SCHEDULED_FOR and, where an attempt before it reported some, SCHEDKIT_PREVIOUS_PROGRESS (JSON). Its payload is
JSON on stdin, in the file that SCHEDKIT_PAYLOAD_FILE names, or in SCHEDKIT_PAYLOAD and a variable for each key, such as
SCHEDKIT_PAYLOAD_LEDGER. A task ends with its program: what that left running in its group is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Final

from schedkit.model.runs import MAX_RESULT_BYTES
from schedkit.worker.courier import Limits
from schedkit.worker.held import Done, Failure, Held, Outcome, Stopped, sendable
from schedkit.worker.warden import Warden

RETRY_EXITS: Final = frozenset({os.EX_TEMPFAIL})
PROGRESS: Final = b"::progress "
CHUNK: Final = 64 * 1_024
LONGEST_LINE: Final = 64 * 1_024  # a longer one is passed on in pieces
GOING_S: Final = 1.0  # beside its grace, for a program to be gone
LAST_LINES_S: Final = (
    5.0  # for what a program said last to be read; a process that left its group may hold the pipe open
)
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

Output = Callable[[Held, Sequence[str], bool], Awaitable[None]]  # (task, lines, on stderr); never raises


class Payload(StrEnum):
    """How a program gets its payload."""

    STDIN = "stdin"
    ENV = "env"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is started for a task."""

    command: Sequence[str | bytes]
    env: Mapping[str, str]
    stdin: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Does tasks by starting `command`; without one, the payload's own `command`, by `sh -c`.

    `retry_exits`: exit codes after which a task may be tried again; None is any. `timeout_s`: how long one may take.
    """

    command: Sequence[str] | None
    warden: Warden
    output: Output
    payload: Payload = Payload.STDIN
    retry_exits: frozenset[int] | None = RETRY_EXITS
    kill_grace_s: float = 15.0
    timeout_s: float | None = None

    def limits_of(self, held: Held) -> Limits:
        """The same for every task."""
        return Limits(self.timeout_s, None, self.kill_grace_s + GOING_S)

    async def perform(self, held: Held) -> Outcome:
        """In the courier's loop: run the program, and say how it ended."""
        try:
            with self._planned(held) as plan:
                return await self._run(held, plan)
        except _Unfit as error:
            return Failure(f"nothing was started: {error}", retryable=False)
        except OSError as error:  # no such program here, no memory, too many processes: another worker may do it
            return Failure(f"it cannot be started: {error}")

    # ── what to start ────────────────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def _planned(self, held: Held) -> Iterator[Plan]:
        """The plan of a task; a file that it needs is there for as long. Raises _Unfit for a payload that cannot be."""
        payload = held.doc["payload"]
        text = json.dumps(payload, ensure_ascii=False)
        told = _told(held)
        if self.command is None:
            yield _shell_plan(payload, told)
            return
        match self.payload:
            case Payload.STDIN:
                yield Plan(self.command, told, text.encode())
            case Payload.ENV:
                yield Plan(self.command, told | {"SCHEDKIT_PAYLOAD": text} | _payload_variables(payload))
            case Payload.FILE:
                handle, path = tempfile.mkstemp(prefix="schedkit-", suffix=".json")  # for its owner only
                try:
                    with open(handle, "w", encoding="utf-8") as file:
                        file.write(text)
                    yield Plan(self.command, told | {"SCHEDKIT_PAYLOAD_FILE": path})
                finally:
                    Path(path).unlink(missing_ok=True)

    # ── one process ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self, held: Held, plan: Plan) -> Outcome:
        stopping = asyncio.Event()
        held.on_stop = lambda why: stopping.set()
        if held.stop is not None:
            return Stopped()
        process = _started(plan)
        self.warden.began(process.pid)
        said = _Said(held, self.output)
        assert process.stdout is not None, "a pipe"
        assert process.stderr is not None, "a pipe"
        talk = asyncio.gather(said.hear_out(process.stdout), said.hear_err(process.stderr))
        try:
            told_to_stop = await self._until_ended(process, stopping)
        finally:
            _signal_group(process.pid, signal.SIGKILL)  # what it left behind; its number is not another's so soon
            self.warden.ended(process.pid)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(talk, LAST_LINES_S)
        return Stopped() if told_to_stop else self._judged(process.returncode, said)

    async def _until_ended(self, process: subprocess.Popen[bytes], stopping: asyncio.Event) -> bool:
        """Whether it had to be told to stop. It is gone afterwards in any case."""
        ended, stopped = _exit_of(process), asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return False
            _signal_group(process.pid, signal.SIGTERM)
            await asyncio.wait((ended,), timeout=self.kill_grace_s)
            if not ended.done():
                _signal_group(process.pid, signal.SIGKILL)
                await ended
            return True
        finally:
            stopped.cancel()

    def _judged(self, code: int, said: _Said) -> Outcome:
        if code == 0:
            return Done(said.result())
        last = f": {said.last_error}" if said.last_error else ""
        if code < 0:  # nobody here sent it, and the program had no say in it
            return Failure(f"killed by {_signal_name(-code)}{last}")
        return Failure(f"exit {code}{last}", retryable=self.retry_exits is None or code in self.retry_exits)


class _Unfit(Exception):
    """A payload that no program can be given: no retry would change that."""


def _told(held: Held) -> dict[str, str]:
    doc, previous = held.doc, held.doc["previous_progress"]
    told = {
        "SCHEDKIT_RUN_ID": held.run_id,
        "SCHEDKIT_IDEMPOTENCY_KEY": str(doc["idempotency_key"]),
        "SCHEDKIT_EPOCH": str(held.epoch),
        "SCHEDKIT_ATTEMPT": str(doc["attempt"]),
        "SCHEDKIT_SCHEDULED_FOR": str(doc["scheduled_for"]),
    }
    return told if previous is None else told | {"SCHEDKIT_PREVIOUS_PROGRESS": json.dumps(previous)}


def _payload_variables(payload: Any) -> dict[str, str]:
    """A variable for each key: text as it is, everything else as JSON."""
    found: dict[str, str] = {}
    for key, value in payload.items() if isinstance(payload, dict) else ():
        name = "SCHEDKIT_PAYLOAD_" + re.sub(r"[^A-Z0-9]", "_", key.upper())
        if name in found:
            raise _Unfit(f"two keys of its payload would both be {name}")
        found[name] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if "\0" in found[name]:
            raise _Unfit(f"no variable can hold payload.{key}: it has a zero byte")
    return found


def _shell_plan(payload: Any, told: Mapping[str, str]) -> Plan:
    """What the payload says, by `sh -c`: {"command": "…", "stdin"?: "…", "env"?: {"NAME": "…"}}.

    As in a crontab, SHELL in its env is the shell. `user`, which an imported crontab may name, changes nothing.
    """
    if not isinstance(payload, dict) or not isinstance(payload.get("command"), str) or not payload["command"].strip():
        raise _Unfit('its payload has no command: {"command": "…"}')
    if unknown := sorted(payload.keys() - {"command", "stdin", "env", "user"}):
        raise _Unfit(f"its payload has {', '.join(map(repr, unknown))}; a command has stdin and env, and nothing more")
    env, stdin = payload.get("env") or {}, payload.get("stdin") or ""
    if not isinstance(stdin, str) or not isinstance(env, dict):
        raise _Unfit("payload.stdin is text, and payload.env an object")
    for name, value in env.items():
        if not NAME.fullmatch(name) or not isinstance(value, str) or "\0" in value:
            raise _Unfit(f"payload.env.{name} is no variable: a name of letters, digits and _, and text")
    if "\0" in payload["command"]:
        raise _Unfit("its command has a zero byte")
    return Plan((env.get("SHELL") or "sh", "-c", payload["command"].encode()), {**env, **told}, stdin.encode())


class _Said:
    """What a program says: passed on line by line, and what is kept of it."""

    def __init__(self, held: Held, output: Output) -> None:
        self._held = held
        self._output = output
        self._end = b""  # of its output
        self._cut = False
        self.last_error = ""

    async def hear_out(self, pipe: IO[bytes]) -> None:
        """Its stdout: progress, and output."""
        async with contextlib.aclosing(_lines(pipe)) as arriving:
            async for lines in arriving:
                said = [line for line in lines if not line.startswith(PROGRESS)]
                refused = [text for line in lines if line.startswith(PROGRESS) and (text := self._progress(line))]
                self._end += b"".join(said)
                if len(self._end) > MAX_RESULT_BYTES:
                    self._end, self._cut = self._end[-MAX_RESULT_BYTES:], True
                await self._pass_on([_text(line) for line in said], error=False)
                await self._pass_on(refused, error=True)

    async def hear_err(self, pipe: IO[bytes]) -> None:
        """Its stderr."""
        async with contextlib.aclosing(_lines(pipe)) as arriving:
            async for lines in arriving:
                texts = [_text(line) for line in lines]
                self.last_error = next((text.strip() for text in reversed(texts) if text.strip()), self.last_error)
                await self._pass_on(texts, error=True)

    def result(self) -> Any:
        """Its output as JSON where it is that; else the end of its text, or None where it said nothing."""
        text = self._end.decode(errors="ignore" if self._cut else "replace").strip()
        if not self._cut:
            with contextlib.suppress(ValueError, RecursionError):
                value = json.loads(text)
                sendable(value)
                return value
        while len(json.dumps(text, ensure_ascii=False).encode()) > MAX_RESULT_BYTES:
            text = text[len(text) // 16 + 1 :]
        return text or None

    def _progress(self, line: bytes) -> str | None:
        """Report it; returns why it cannot be."""
        try:
            self._held.report(json.loads(line.removeprefix(PROGRESS)))
        except (ValueError, RecursionError) as error:
            return f"{_text(line)[:200]}  (no progress: {error})"
        return None

    async def _pass_on(self, lines: Sequence[str], *, error: bool) -> None:
        if lines:
            await self._output(self._held, lines, error)


async def _lines(pipe: IO[bytes]) -> AsyncGenerator[list[bytes], None]:
    """The whole lines of what arrives, as it arrives; the last one may have no end."""
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), pipe)
    rest = b""
    try:
        while chunk := await stream.read(CHUNK):
            *lines, rest = (rest + chunk).splitlines(keepends=True)
            if rest.endswith(b"\n") or len(rest) > LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            if lines:
                yield lines
        if rest:
            yield [rest]
    finally:
        transport.close()


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r\n")


def _started(plan: Plan) -> subprocess.Popen[bytes]:
    """Its process, the leader of a group and a session of its own. What it reads is a file without a name."""
    with tempfile.TemporaryFile() as stdin:
        stdin.write(plan.stdin)
        stdin.seek(0)
        return subprocess.Popen(  # noqa: S603 - what the worker was started for
            plan.command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environb, **{name.encode(): value.encode() for name, value in plan.env.items()}},
            start_new_session=True,
        )


def _exit_of(process: subprocess.Popen[bytes]) -> asyncio.Future[None]:
    """Done when the process is. asyncio's own processes have ended only when all have let go of their pipes."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def wait() -> None:
        process.wait()
        with contextlib.suppress(RuntimeError):  # the loop has ended without it
            loop.call_soon_threadsafe(ended.set_result, None)

    threading.Thread(target=wait, name="schedkit-program", daemon=True).start()
    return ended


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing of it is left
        os.killpg(group, number)


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
