"""The processes under test, each a machine with a name: started, killed, stopped, continued; all of it written down."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import httpx

from schedkit.sim.history import History
from tests.e2e.processes import environment, free_port, until

ROOT = Path(__file__).parents[2]
ENDS_WITHIN_S = 15.0
READY_WITHIN_S = 60.0  # on a machine that has more to do


class State(StrEnum):
    UP = "up"
    STOPPED = "stopped"
    DEAD = "dead"


@dataclass(eq=False)
class Machine:
    """One process at a time. `command` gives the arguments of its n-th start."""

    name: str
    folder: Path
    command: Callable[[int], list[str]]
    port: int
    history: History
    offset_ms: int = 0
    starts: int = 0
    failpoint: str | None = None
    process: subprocess.Popen[bytes] | None = None
    crashes: list[str] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    retired: bool = False
    held: bool = False  # whoever stopped it will continue it
    killed: bool = True  # whoever killed it will start it

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def state(self) -> State:
        if self.process is None or self.process.poll() is not None:
            return State.DEAD
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return State.DEAD
        return State.STOPPED if status.rpartition(")")[2].split()[0] == "T" else State.UP

    def boot(self, failpoint: str | None = None) -> None:
        """Start it; `failpoint` is what it does to itself."""
        with self.lock:
            assert self.state is State.DEAD, "one process at a time"
            assert not self.retired, "it has been ended for good"
            self.starts += 1
            self.failpoint = failpoint
            env = environment(self.folder) | {"SCHEDKIT_CLOCK_OFFSET_MS": str(self.offset_ms)}
            env["PYTHONPATH"] = str(ROOT)
            if failpoint is not None:
                env["SCHEDKIT_FAILPOINT"] = failpoint
            if self.starts > 1:
                self.tell("boot")
            with self.log.open("ab") as out:
                self.process = subprocess.Popen(
                    [sys.executable, *self.command(self.starts)],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=self.folder,
                )  # fmt: skip
            self.held = self.killed = False

    @property
    def ready(self) -> bool:
        try:
            return self.state is State.UP and httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def wait_ready(self) -> None:
        def ready() -> bool | None:
            assert self.state is not State.DEAD, f"{self.name} ended:\n{self.log.read_text()[-2_000:]}"
            return self.ready or None

        until(ready, f"readiness of {self.name}", READY_WITHIN_S)

    def kill(self) -> None:
        """kill -9; written down when it is dead."""
        with self.lock:
            self.killed = True
            if self.process is not None and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
                self.tell("kill")

    def stop(self) -> bool:
        """SIGSTOP; False where it could not be."""
        with self.lock:
            if self.state is not State.UP or self.process is None:
                return False
            self.held = True
            self.process.send_signal(signal.SIGSTOP)
            self.tell("stop")
            return True

    def cont(self) -> None:
        """SIGCONT, where it is stopped."""
        with self.lock:
            if self.state is State.STOPPED and self.process is not None:
                self.tell("cont")
                self.process.send_signal(signal.SIGCONT)
            self.held = False

    def mourn(self) -> None:
        """It died, and not by our hand: by its failpoint, or else by something that nobody injected."""
        code = self.process.wait() if self.process is not None else None  # another thread may be reaping it just now
        if code != -signal.SIGKILL:
            self.crashes.append(f"{self.name} ended by itself, with code {code}")
        self.tell("kill")

    def end(self) -> None:
        """SIGTERM, and kill -9 where that does not help; nothing is left running, and nothing starts again."""
        with self.lock:
            self.retired = True
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def tell(self, fault: str) -> None:
        self.history.add("world", "nemesis", fault=fault, on=self.name)


def node(name: str, folder: Path, database: Path, history: History, offset_ms: int) -> Machine:
    """A node of a fleet on one file."""
    port = free_port()

    def command(starts: int) -> list[str]:
        place = ["--database", str(database), "--port", str(port)]
        return ["-m", "tests.chaos.node", "--name", name, "--starts", str(starts), *place]

    return Machine(name, folder, command, port, history, offset_ms)


def up(name: str, folder: Path, history: History, offset_ms: int) -> Machine:
    """`schedkit up` as a user starts it, on a folder of its own."""
    port = free_port()
    command = ["-m", "schedkit", "up", "--no-demo", "--port", str(port), "--data", str(folder / "data")]
    return Machine(name, folder, lambda starts: command, port, history, offset_ms)
