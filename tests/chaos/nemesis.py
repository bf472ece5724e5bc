"""The nemesis: kills, stops, failpoints and a full disk, drawn from a seed, and whoever died is started again.

fleet   two nodes stop themselves with a finished call in hand and stay so until their leases are over and taken;
        meanwhile and afterwards any node is killed, stopped for a moment, or dies at a failpoint
alone   the one process is killed, stopped for a moment, dies at a failpoint; its disk is full for some seconds
"""

from __future__ import annotations

import contextlib
import itertools
import random
import resource
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.machines import Machine, State

LOOK_EVERY_S = 0.02
RESTART_S = (0.3, 3.0)
SHORT_STOP_S = (0.2, 3.0)  # shorter than what a writer waits for another: such a stop may hold the file's lock
LONG_STOP_S = (72.0, 76.0)  # the longest timeout (3 s), 60 s of lease, 5 s of margin, two clocks that are 1 s off
DISARMED_AFTER_S = 8.0  # of short stops with calls in hand, then it gets a life without a failpoint
HAND_STOPS_OVER_S = 150.0
HAND_STOPS = "after_call:stop:0.3"
DEATHS = ("after_call:kill:0.02", "before_call:kill:0.02", "after_commit:kill:0.01", "before_commit:kill:0.01")
FIRST_FULL_DISK_S = (6.0, 10.0)
FULL_DISK_EVERY_S = (15.0, 30.0)
FULL_DISK_S = (3.0, 6.0)


@dataclass
class Nemesis:
    """`harm` until told to stop, then `heal`."""

    machines: Sequence[Machine]
    chance: random.Random
    alone: bool
    every_s: tuple[float, float] = (4.0, 10.0)
    full_disks: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _long: list[threading.Thread] = field(default_factory=list)
    _reserved: set[str] = field(default_factory=set)
    _watched: dict[str, random.Random] = field(default_factory=dict)

    def begin(self) -> None:
        """Start to harm; the machines are up."""
        for machine in self.machines:
            self._watched[machine.name] = random.Random(self.chance.random())
            self._start(self._watch, machine)
        if self.alone:
            self._start(self._full_disks)
        else:
            for delay_s, machine in zip((1.0, 8.0), self.machines[1:], strict=False):
                self._reserved.add(machine.name)
                self._long.append(self._start(self._hand_stop, machine, delay_s))
        self._start(self._harm)

    def heal(self) -> None:
        """Once the long stops are over: nothing is injected from here on, and everybody is up, without failpoints."""
        for thread in self._long:
            thread.join(HAND_STOPS_OVER_S)
        self.quit()
        for machine in self.machines:
            if machine.failpoint is not None:
                machine.kill()
            machine.cont()
            if machine.state is State.DEAD:
                if not machine.killed:
                    machine.mourn()
                machine.boot()
        for machine in self.machines:
            machine.wait_ready()

    def quit(self) -> None:
        """Harm nobody any more, and leave everybody as they are."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[..., None], *given: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _watch(self, machine: Machine) -> None:
        """A supervisor: it starts what died, and continues what stopped itself, after a while."""
        chance = self._watched[machine.name]
        while not self._stop.wait(LOOK_EVERY_S):
            with machine.lock:
                state = machine.state
                if state is State.DEAD and not machine.killed:
                    machine.killed = True
                    machine.mourn()
                itself = state is State.STOPPED and not machine.held
                if itself:
                    machine.held = True
                    machine.tell("stop")
            if itself and machine.name not in self._reserved:
                self._stop.wait(chance.uniform(*SHORT_STOP_S))
                machine.cont()
            if state is State.DEAD and not self._stop.wait(chance.uniform(*RESTART_S)):
                with machine.lock:
                    if machine.state is State.DEAD:
                        machine.boot(self._next_failpoint(machine, chance))

    def _next_failpoint(self, machine: Machine, chance: random.Random) -> str | None:
        if machine.name in self._reserved:
            return None if self.alone else HAND_STOPS
        return chance.choice((None, None, *DEATHS))

    def _hand_stop(self, machine: Machine, delay_s: float) -> None:
        """Have it stop itself with a call in hand, leave it so for longer than a lease, let it find out."""
        if self._stop.wait(delay_s):
            return
        machine.kill()
        while machine.state is not State.STOPPED:
            if self._stop.wait(LOOK_EVERY_S):
                return
        self._stop.wait(self.chance.uniform(*LONG_STOP_S))
        self._reserved.discard(machine.name)
        machine.cont()
        if not self._stop.wait(DISARMED_AFTER_S):
            machine.kill()

    def _harm(self) -> None:
        while not self._stop.wait(self.chance.uniform(*self.every_s)):
            free = [machine for machine in self.machines if machine.name not in self._reserved]
            if not free:
                continue
            machine = self.chance.choice(free)
            if self.chance.random() < 0.5:
                machine.kill()
            elif machine.stop():
                self._stop.wait(self.chance.uniform(*SHORT_STOP_S))
                machine.cont()

    def _full_disks(self) -> None:
        """No file of this process may grow, for some seconds in which nothing else happens to it."""
        machine = self.machines[0]
        pauses_s = itertools.chain([FIRST_FULL_DISK_S], itertools.repeat(FULL_DISK_EVERY_S))
        while not self._stop.wait(self.chance.uniform(*next(pauses_s))):
            self._reserved.add(machine.name)
            if machine.failpoint is not None:
                machine.kill()  # its next life has none
            while machine.failpoint is not None or not machine.ready:
                if self._stop.wait(LOOK_EVERY_S):
                    return
            with machine.lock:
                machine.history.add("world", "nemesis", fault="down", on="disk")
                _limit(machine, 1)
            self._stop.wait(self.chance.uniform(*FULL_DISK_S))
            with machine.lock:
                _limit(machine, resource.RLIM_INFINITY)
                machine.history.add("world", "nemesis", fault="up", on="disk")
            self._reserved.discard(machine.name)
            self.full_disks += 1


def _limit(machine: Machine, size: int) -> None:
    """How large the files of this process may grow."""
    if machine.process is not None and machine.process.poll() is None:
        with contextlib.suppress(ProcessLookupError):  # it died meanwhile, and the next one has no limit
            resource.prlimit(machine.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
