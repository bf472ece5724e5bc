"""Programs as workers: real processes, against a real scheduler."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from schedkit.client import AsyncClient
from schedkit.testing import FakeServer
from schedkit.worker import warden
from schedkit.worker.held import Done, Failure, Held
from schedkit.worker.program import Payload, Program
from schedkit.worker.station import Station
from tests.e2e.processes import until
from tests.worker.jobs import ended, job
from tests.worker.pids import gone, lives, pids_in

SHORT = {"lease_seconds": 5}
AT_ONCE = {"max_attempts": 3, "initial_backoff_seconds": 0, "max_backoff_seconds": 0}
Lines = list[tuple[str, bool]]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.fixture(scope="module")
def guard() -> Iterator[warden.Warden]:
    guard = warden.start()
    yield guard
    guard.close()


def program(guard: warden.Warden, script: str | None, lines: Lines | None = None, **over: Any) -> Program:
    """A program that is `sh -c script`; what it says goes to `lines`."""

    async def output(held: Held, said: Sequence[str], error: bool) -> None:
        if lines is not None:
            lines.extend((line, error) for line in said)

    command = ["sh", "-c", script] if script is not None else None
    return Program(command=command, warden=guard, output=output, **over)


@contextmanager
def working(server: FakeServer, queue: str, program: Program, drain_timeout_s: float = 30.0) -> Iterator[None]:
    """A worker of this queue, in a thread."""
    ready = threading.Event()
    told: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        told.append((asyncio.get_running_loop(), stop))
        ready.set()
        await Station(
            queue=queue,
            worker_id=f"worker-of-{queue}",
            concurrency=4,
            drain_timeout_s=drain_timeout_s,
            client=lambda: AsyncClient(server.url, timeout_s=40.0),
            perform=program.perform,
            limits_of=program.limits_of,
            told=lambda what, held, detail: None,
            beat_every_s=0.2,
        ).serve(stop)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        loop, stop = told[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def performed(program: Program, payload: Any = None, **doc: Any) -> Any:
    """The outcome of one task, without a scheduler."""
    known = {"run_id": "job_1:2026-09-28T12:00:00Z", "epoch": 3, "attempt": 2, "payload": payload}
    known |= {"idempotency_key": "job_1:2026-09-28T12:00:00Z", "scheduled_for": "2026-09-28T12:00:00Z"}
    known |= {"previous_progress": None, "job_name": "rebuild", "heartbeat_every_seconds": 10}

    async def perform() -> Any:
        return await program.perform(Held(known | doc, began_at=0.0, beat_at=0.0, seen_at=0.0))

    return asyncio.run(perform())


def test_a_program_finds_its_run_in_its_environment(guard: warden.Warden) -> None:
    script = 'echo "$SCHEDKIT_RUN_ID $SCHEDKIT_IDEMPOTENCY_KEY $SCHEDKIT_EPOCH $SCHEDKIT_ATTEMPT"; ' + (
        'echo "$SCHEDKIT_SCHEDULED_FOR $SCHEDKIT_PREVIOUS_PROGRESS"'
    )
    key = "job_1:2026-09-28T12:00:00Z"
    assert performed(program(guard, script), previous_progress={"rows": 3}) == Done(
        f'{key} {key} 3 2\n2026-09-28T12:00:00Z {{"rows": 3}}'
    )


@pytest.mark.parametrize(
    ("means", "script"),
    [
        (Payload.STDIN, "cat"),
        (Payload.FILE, 'cat "$SCHEDKIT_PAYLOAD_FILE"'),
        (Payload.ENV, 'printf "%s" "$SCHEDKIT_PAYLOAD"'),
        (Payload.ENV, """printf '{"ledger": "%s", "n": %s}' "$SCHEDKIT_PAYLOAD_LEDGER" "$SCHEDKIT_PAYLOAD_N" """),
    ],
)
def test_a_program_gets_its_payload_in_one_of_three_ways(guard: warden.Warden, means: Payload, script: str) -> None:
    payload = {"ledger": "EU \u00e4", "n": [1, None]}
    assert performed(program(guard, script, payload=means), payload) == Done(payload)


def test_the_file_of_a_payload_is_its_owner_s_and_goes_with_the_task(guard: warden.Warden) -> None:
    outcome = performed(program(guard, 'stat -c "%a %n" "$SCHEDKIT_PAYLOAD_FILE"', payload=Payload.FILE), "x")
    mode, path = outcome.result.split()
    assert mode == "600"
    assert not Path(path).exists()


def test_a_program_that_reads_no_payload_is_not_held_up_by_it(guard: warden.Warden) -> None:
    assert performed(program(guard, "exit 0"), "x" * 60_000) == Done(None)


@pytest.mark.parametrize(
    ("script", "retry_exits", "outcome"),
    [
        ("exit 0", frozenset({75}), Done(None)),
        ("echo '{\"rows\": 3}'", frozenset({75}), Done({"rows": 3})),
        ("echo a; echo b", frozenset({75}), Done("a\nb")),
        (
            "echo no >&2; echo 'such ledger' >&2; echo >&2; exit 3",
            frozenset({75}),
            Failure("exit 3: such ledger", False),
        ),
        ("echo locked >&2; exit 75", frozenset({75}), Failure("exit 75: locked")),
        ("exit 75", frozenset({3}), Failure("exit 75", False)),
        ("exit 3", None, Failure("exit 3")),
        ("kill -SEGV $$", frozenset({75}), Failure("killed by SIGSEGV")),
    ],
)
def test_the_exit_code_is_the_outcome(
    guard: warden.Warden, script: str, retry_exits: frozenset[int] | None, outcome: Any
) -> None:
    assert performed(program(guard, script, retry_exits=retry_exits)) == outcome


def test_of_a_long_output_the_end_is_kept_and_all_is_passed_on(guard: warden.Warden) -> None:
    lines: Lines = []
    outcome = performed(program(guard, 'i=0; while [ $i -lt 2000 ]; do echo "row \\"$i\\""; i=$((i+1)); done', lines))
    assert outcome.result.endswith('row "1999"')
    assert len(json.dumps(outcome.result)) <= 4_096
    assert lines == [(f'row "{number}"', False) for number in range(2_000)]


def test_a_line_without_an_end_and_one_that_is_no_utf8_are_passed_on(guard: warden.Warden) -> None:
    lines: Lines = []
    assert performed(program(guard, "head -c 150000 /dev/zero | tr '\\0' x; printf '\\n\\377'", lines)).result
    assert "".join(line for line, _ in lines) == "x" * 150_000 + "\ufffd"


def test_a_program_that_cannot_be_started_may_be_by_another_worker(guard: warden.Warden) -> None:
    missing = Program(command=["/no/such/program"], warden=guard, output=program(guard, "").output)
    outcome = performed(missing)
    assert outcome.error.startswith("it cannot be started: [Errno 2]")
    assert outcome.retryable


@pytest.mark.parametrize(
    ("payload", "outcome"),
    [
        ({"command": "echo $((6*7))"}, Done(42)),
        ({"command": "cat; echo $WHO", "stdin": "hi ", "env": {"WHO": "you", "SCHEDKIT_EPOCH": "9"}}, Done("hi you")),
        ({"command": "echo $0", "env": {"SHELL": "/bin/bash"}, "user": "root"}, Done("/bin/bash")),
        ({"command": "exit 4"}, Failure("exit 4", False)),
        ({"command": " "}, 'its payload has no command: {"command": "…"}'),
        (["ls"], 'its payload has no command: {"command": "…"}'),
        ({"command": "ls", "cwd": "/"}, "its payload has 'cwd'"),
        ({"command": "ls", "stdin": 3}, "payload.stdin is text"),
        ({"command": "ls", "env": {"A=B": "c"}}, "payload.env.A=B is no variable"),
        ({"command": "ls", "env": {"A": 1}}, "payload.env.A is no variable"),
        ({"command": "ls \0"}, "its command has a zero byte"),
    ],
)
def test_a_shell_runs_the_payload_s_own_command(guard: warden.Warden, payload: Any, outcome: Any) -> None:
    found = performed(program(guard, None), payload)
    if isinstance(outcome, str):
        assert found.error.startswith(f"nothing was started: {outcome}")
        assert not found.retryable
    else:
        assert found == outcome


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ({"a-b": 1, "a_b": 2}, "two keys of its payload would both be SCHEDKIT_PAYLOAD_A_B"),
        ({"a": "x\0y"}, "no variable can hold payload.a: it has a zero byte"),
    ],
)
def test_a_payload_that_is_no_variables_is_refused(guard: warden.Warden, payload: Any, why: str) -> None:
    outcome = performed(program(guard, "exit 0", payload=Payload.ENV), payload)
    assert outcome == Failure(f"nothing was started: {why}", retryable=False)


def test_what_a_program_leaves_behind_ends_with_it(guard: warden.Warden, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    assert performed(program(guard, f"sleep 300 & echo $! > {file}; exit 0")) == Done(None)
    gone(pids_in(file, 1))


def test_progress_is_a_line_and_reaches_the_next_attempt(server: FakeServer, guard: warden.Warden) -> None:
    script = """
        [ "$SCHEDKIT_PREVIOUS_PROGRESS" = '{"rows": 10}' ] && exit 0
        echo '::progress {"rows": 10}'; echo '::progress nothing'; echo done so far; exit 75"""
    lines: Lines = []
    run = job(server.client, "progress", retry_policy=AT_ONCE)
    with working(server, "progress", program(guard, script, lines)):
        done = ended(run, "SUCCEEDED")
    assert done["attempts"][0]["error"] == "exit 75"
    assert [line for line, error in lines if not error] == ["done so far"]
    assert next(line for line, error in lines if error).startswith("::progress nothing  (no progress: ")


def test_a_cancelled_program_gets_sigterm_and_is_recorded_cancelled(
    server: FakeServer, guard: warden.Warden, tmp_path: Path
) -> None:
    file = tmp_path / "pids"
    script = f"trap 'echo tidied; exit 0' TERM; echo $$ > {file}; sleep 300 & wait"
    lines: Lines = []
    run = job(server.client, "cancel", target=SHORT)
    with working(server, "cancel", program(guard, script, lines)):
        pids = pids_in(file, 1)
        server.client.cancel_run(run()["run_id"])
        assert ended(run, "CANCELLED")["attempts"][0]["outcome"] == "CANCELLED"
        gone(pids)
    assert ("tidied", False) in lines


def test_a_program_that_ignores_sigterm_is_killed_with_its_children(
    server: FakeServer, guard: warden.Warden, tmp_path: Path
) -> None:
    file = tmp_path / "pids"
    script = f"trap '' TERM; sh -c 'sleep 300; :' & echo $$ $! > {file}; wait; sleep 300"
    run = job(server.client, "stubborn", target=SHORT)
    with working(server, "stubborn", program(guard, script, kill_grace_s=0.3)):
        pids = pids_in(file, 2)
        server.client.cancel_run(run()["run_id"])
        ended(run, "CANCELLED")
        gone(pids)


def test_a_program_that_takes_too_long_is_stopped_and_tried_again(
    server: FakeServer, guard: warden.Warden, tmp_path: Path
) -> None:
    file = tmp_path / "pids"
    script = f'[ "$SCHEDKIT_ATTEMPT" = 2 ] && exit 0; echo $$ > {file}; sleep 300'
    run = job(server.client, "slow", retry_policy=AT_ONCE)
    with working(server, "slow", program(guard, script, timeout_s=0.5)):
        done = ended(run, "SUCCEEDED")
    assert done["attempts"][0]["error"] == "not done within 0.5 s"
    gone(pids_in(file, 1))


def test_a_superseded_program_is_stopped_and_its_outcome_dropped(
    server: FakeServer, guard: warden.Warden, tmp_path: Path
) -> None:
    """C5: somebody else ended the run."""
    file = tmp_path / "pids"
    run = job(server.client, "superseded", target=SHORT)
    with working(server, "superseded", program(guard, f"echo $$ > {file}; sleep 300; echo mine")):
        pids = pids_in(file, 1)
        server.client.complete_run(run()["run_id"], 1, "SUCCEEDED", result="by another")
        gone(pids)
    assert run()["result"] == '"by another"'


def test_a_worker_that_ends_stops_what_is_not_done_and_gives_it_back(
    server: FakeServer, guard: warden.Warden, tmp_path: Path
) -> None:
    """F10; another worker gets the run only when the program is gone."""
    file = tmp_path / "pids"
    run = job(server.client, "drain")
    with working(server, "drain", program(guard, f"echo $$ > {file}; sleep 300"), drain_timeout_s=0.1):
        pids = pids_in(file, 1)
    assert not any(map(lives, pids))
    back = run()
    assert (back["status"], back["attempt"], back["attempts"][0]["outcome"]) == ("RETRY_WAIT", 1, "RELEASED")


def test_the_warden_ends_the_programs_of_a_worker_that_is_gone_and_no_other() -> None:
    kept, left = (subprocess.Popen(["sleep", "300"], start_new_session=True) for _ in range(2))
    guard = warden.start()
    for child in (kept, left):
        guard.began(child.pid)
    guard.ended(kept.pid)
    guard.close()
    assert left.wait(10) == -signal.SIGKILL
    assert kept.poll() is None
    kept.kill()
    kept.wait()


def test_an_output_that_nobody_reads_holds_the_program_up_and_not_its_heartbeats(
    server: FakeServer, guard: warden.Warden
) -> None:
    read = threading.Event()

    async def output(held: Held, said: Sequence[str], error: bool) -> None:
        while not read.is_set():
            await asyncio.sleep(0.01)

    run = job(server.client, "unread", target=SHORT)
    chatty = Program(command=["sh", "-c", "yes | head -c 1000000"], warden=guard, output=output)
    with working(server, "unread", chatty):
        first = until(lambda: run()["lease_expires_at"], "lease")
        until(lambda: (run()["lease_expires_at"] or "") > first or None, "heartbeat")
        assert run()["status"] == "RUNNING"
        read.set()
        ended(run, "SUCCEEDED")
