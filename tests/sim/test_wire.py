"""The wire: what is lost, late, refused or followed by a death happens just so, and the effect never depends on its
caller's fate."""

from __future__ import annotations

import asyncio

import pytest

from schedkit.errors import StoreUnavailable
from schedkit.sim.faults import Fault
from schedkit.sim.ground import GIVES_UP_MS, LONGEST_DELAY_MS, Ground, SimClock, Wire
from schedkit.sim.loop import Process
from tests.sim.calm import BEGAN, ground, run

LEG_MS = (1.0, 1.0)


class Line:
    """A wire of one process, and a server that counts."""

    def __init__(self, there: Ground) -> None:
        self.there = there
        self.process = Process("node")
        self.wire = Wire(there, self.process, "store", LEG_MS, StoreUnavailable, self)
        self.effects: list[int] = []
        self.heard: list[str] = []

    def kill(self) -> None:
        self.there.loop.kill(self.process)

    def stop(self) -> None:
        self.there.loop.stop_process(self.process)
        self.there.later(5_000, self.there.loop.continue_process, self.process)

    def set_clock(self) -> None:
        self.heard.append("clock set")

    async def ask(self, *, down: bool = False) -> None:
        try:
            await self.wire.ask("verb", lambda: self.effects.append(self.there.now() - BEGAN), down)
            self.heard.append(f"done {self.there.now() - BEGAN}")
        except StoreUnavailable as error:
            self.heard.append(f"{error.detail.partition(': ')[2]} {self.there.now() - BEGAN}")

    def story(self, *, wait_s: float = 10, down: bool = False) -> None:
        async def both() -> None:
            self.there.loop.start(self.process, self.ask(down=down))
            await asyncio.sleep(wait_s)

        run(self.there, both())

    def faults(self) -> list[str]:
        events = self.there.history.events
        return [event["fault"] for event in events if event["kind"] == "nemesis"]


def test_in_calm_weather_a_request_travels_there_and_back() -> None:
    line = Line(ground())
    line.story()
    assert (line.effects, line.heard) == ([1], ["done 2"])


def test_a_lost_request_has_no_effect_and_a_lost_reply_has_one() -> None:
    outcomes = set()
    for seed in range(20):
        line = Line(ground(Fault.LOSE, seed=seed, lose=1.0))
        line.story()
        assert line.heard == [f"no reply {round(GIVES_UP_MS)}"]
        outcomes.add((line.faults()[0], len(line.effects)))
    assert outcomes == {("request_lost", 0), ("reply_lost", 1)}


def test_a_delayed_request_may_take_effect_after_its_caller_gave_up() -> None:
    late = 0
    for seed in range(20):
        line = Line(ground(Fault.DELAY, seed=seed, delay=1.0))
        line.story()
        assert len(line.effects) == 1
        assert line.effects[0] <= LONGEST_DELAY_MS
        late += line.effects[0] > GIVES_UP_MS
        assert len(line.heard) == 1
    assert late > 0


def test_a_throttled_request_and_one_without_a_connection_have_no_effect() -> None:
    throttled, cut, down = Line(ground(Fault.THROTTLE, throttle=1.0)), Line(ground(Fault.CUT)), Line(ground(Fault.CUT))
    throttled.story()
    cut.wire.cut = True
    cut.story()
    down.story(down=True)
    assert [line.effects for line in (throttled, cut, down)] == [[], [], []]
    assert throttled.heard[0].startswith("throttled")
    assert cut.heard == down.heard == [f"no connection {round(GIVES_UP_MS)}"]


def test_a_crash_point_is_before_the_request_or_after_its_effect() -> None:
    points = set()
    for seed in range(30):
        line = Line(ground(Fault.CRASH, seed=seed, crash=0.5))
        line.story()
        crashed = [event for event in line.there.history.events if event.get("fault") == "crash"]
        if not crashed:
            assert line.heard == ["done 2"]
            continue
        assert line.heard == [], "who is dead hears nothing"
        points.add((crashed[0]["point"], len(line.effects)))
    assert points == {("before", 0), ("after", 1)}


def test_a_process_may_be_stopped_at_its_own_call_and_goes_on_from_there() -> None:
    stories = set()
    for seed in range(30):
        line = Line(ground(Fault.STOP, seed=seed, stop=0.5))
        line.story()
        stories.add((*line.effects, *line.heard))
    # Not at all; before its request; after the effect: what it heard meanwhile it reads when it goes on.
    assert {(1, "done 2"), (5_001, "done 5002"), (1, "done 5001")} <= stories


def test_its_clock_may_be_set_at_its_own_call() -> None:
    heard = set()
    for seed in range(30):
        line = Line(ground(Fault.SKEW, seed=seed, skew=0.5))
        line.story()
        heard.add(tuple(line.heard))
    assert {("done 2",), ("clock set", "done 2")} <= heard


def test_after_the_storm_nothing_is_injected() -> None:
    there = ground(Fault.LOSE, Fault.CRASH, lose=1.0, crash=1.0)
    there.storming = False
    line = Line(there)
    line.story()
    assert (line.effects, line.heard, line.faults()) == ([1], ["done 2"], [])


@pytest.mark.parametrize(("offset_ms", "drift_ppm", "shows"), [(0, 0, 60_000), (-1_500, 0, 58_500), (0, 1_000, 60_060)])
def test_a_clock_shows_its_offset_and_its_drift(offset_ms: float, drift_ppm: float, shows: int) -> None:
    there = ground(Fault.SKEW)
    clock = SimClock(there, there.chance("clock"))
    clock.set(offset_ms, drift_ppm)

    async def story() -> int:
        await asyncio.sleep(60)
        return clock.now() - BEGAN

    assert run(there, story()) == shows


def test_a_sleep_may_end_early_where_loops_do_that() -> None:
    there = ground(Fault.EARLY)
    clock = SimClock(there, there.chance("clock"))

    async def story() -> list[int]:
        woken = []
        for _ in range(20):
            before = there.loop.time()
            await clock.sleep(100)
            woken.append(there.loop.time() - before < 0.1)
        return [sum(woken), there.now()]

    early, _ = run(there, story())
    assert early > 0
