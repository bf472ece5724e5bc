"""The meter: counts what ends and how late it started, for /metrics and for the snapshot."""

from __future__ import annotations

from collections import Counter as Tally
from collections import deque
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from schedkit.model.runs import AttemptOutcome, Run
from schedkit.model.time import MINUTE_MS, SECOND_MS, Instant
from schedkit.ports import Clock

WINDOW_MS: Final = 5 * MINUTE_MS
MAX_KEPT: Final = 200_000  # attempts remembered for the window's percentiles: 666 a second for five minutes
LAG_BUCKETS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300, 3_600)


class Meter:
    """Hears of every attempt that ended."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent: deque[tuple[Instant, int | None, str]] = deque(maxlen=MAX_KEPT)
        self.registry = CollectorRegistry()
        self._attempts = Counter(
            "schedkit_attempts", "Attempts that ended, by outcome", ["outcome"], registry=self.registry
        )
        self._runs = Counter("schedkit_runs", "Runs that ended, by status", ["status"], registry=self.registry)
        self._lag = Histogram(
            "schedkit_dispatch_lag_seconds",
            "Start of the first attempt - (scheduled_for + offset)",
            buckets=LAG_BUCKETS_S,
            registry=self.registry,
        )
        self._gauges = {
            name: Gauge(f"schedkit_{name}", text, labels, registry=self.registry)
            for name, text, labels in (
                ("queue_ready", "Messages waiting", ["priority"]),
                ("in_flight", "Messages in hand", ["priority"]),
                ("near_timers", "Timers in buckets", []),
                ("store_ok", "1 while the last commit succeeded", []),
            )
        }

    def settled(self, run: Run) -> None:
        """An attempt of this run ended; the run is as it stands after it."""
        last = run.attempts[-1]
        outcome = (last.outcome or AttemptOutcome.UNKNOWN).value
        self._attempts.labels(outcome).inc()
        first = len(run.attempts) == 1 and not run.triggered
        if first:
            self._lag.observe(last.lag_ms / SECOND_MS)
        status = run.status.value if run.status.final else "RETRY_WAIT"
        if run.status.final:
            self._runs.labels(status).inc()
        self._recent.append((self._clock.now(), last.lag_ms if first else None, status))

    def lag(self) -> dict[str, Any]:
        """Dispatch lag over the last five minutes, in ms; None where nothing started."""
        self._forget()
        lags = sorted(lag for _, lag, _ in self._recent if lag is not None)
        return {
            "p50_ms": percentile(lags, 0.5),
            "p99_ms": percentile(lags, 0.99),
            "max_ms": lags[-1] if lags else None,
            "runs": len(lags),
            "window_seconds": WINDOW_MS // SECOND_MS,
        }

    def per_minute(self) -> dict[str, int]:
        """How attempts ended in the last minute."""
        since = self._clock.now() - MINUTE_MS
        return dict(Tally(status for at, _, status in self._recent if at >= since))

    def set_gauge(self, name: str, value: float, *labels: str) -> None:
        gauge = self._gauges[name]
        (gauge.labels(*labels) if labels else gauge).set(value)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def _forget(self) -> None:
        since = self._clock.now() - WINDOW_MS
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()


def percentile(ordered: list[int], share: float) -> int | None:
    """The nearest-rank percentile of a sorted list."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
