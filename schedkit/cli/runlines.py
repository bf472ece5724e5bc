"""What `schedkit up` prints while it runs: a line for each attempt that ends, then a line every ten seconds.

23:40:05.003  ok     hello        every 5 s     demo-echo    200 in 4 ms, 3 ms after its time
23:40:12.011  retry  flaky        try 1 of 5    demo-flaky   503, again in 6 s
23:41:00      last 10 s: 14 runs ok, 1 retry, p99 6 ms late
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from schedkit.cli import show
from schedkit.cli.values import local
from schedkit.model.runs import Attempt, Run, RunStatus
from schedkit.model.time import Instant

FULL_LINES: Final = 12  # then the terminal stays readable
SUMMARY_EVERY_MS: Final = 10_000
WORDS: Final = {
    RunStatus.SUCCEEDED: "ok",
    RunStatus.RETRY_WAIT: "retry",
    RunStatus.FAILED: "failed",
    RunStatus.UNKNOWN: "unknown",
    RunStatus.CANCELLED: "cancel",
    RunStatus.SUCCEEDED_AFTER_CANCEL: "late ok",
}
PLURALS: Final = {"ok": "runs ok", "retry": "retries", "failed": "failed", "unknown": "unknown"}


@dataclass(slots=True)
class RunLines:
    """Turns attempts that ended into lines; `zone` is where their times are shown."""

    zone: str | None
    printed: int = 0
    since: Instant = 0
    counts: Counter[str] = field(default_factory=Counter)
    lags: list[int] = field(default_factory=list)

    def count(self, run: Run) -> None:
        """Take this attempt into the next summary."""
        self.counts[_word_for(run)] += 1
        if len(run.attempts) == 1:
            self.lags.append(run.attempts[-1].lag_ms)

    def line(self, run: Run, job: Mapping[str, Any], now: Instant) -> str:
        """The line for this attempt of the job, which is as the API shows it."""
        self.printed += 1
        self.since = now
        if self.printed == FULL_LINES:  # from here on only what was not printed is summed up
            self.counts.clear()
            self.lags.clear()
        last = run.attempts[-1]
        tried = run.status is RunStatus.RETRY_WAIT or len(run.attempts) > 1
        when = f"try {last.attempt} of {job['retry_policy']['max_attempts']}" if tried else _when(job["schedule"])
        name = (run.job_name or run.job_id)[:24]
        where = job["target"].get("target_id") or job["target"].get("url") or show.target(job["target"])
        said = _said(run, last, now)
        return f"{_clock(now, self.zone)}  {_word_for(run):<6} {name:<12} {when:<13} {where:<12} {said}"

    def summary(self, now: Instant) -> str | None:
        """What ended since the last summary, every ten seconds; None where it is too early, or nothing ended."""
        if self.printed < FULL_LINES or now - self.since < SUMMARY_EVERY_MS:
            return None
        self.since = now
        if not self.counts:
            return None
        parts = [f"{number} {_word(word, number)}" for word, number in sorted(self.counts.items(), key=_order)]
        if self.lags:
            ordered = sorted(self.lags)
            worst = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
            parts.append(f"p99 {show.span(worst)} late")
        self.counts.clear()
        self.lags.clear()
        return f"{_clock(now, self.zone)[:8]}      last 10 s: {', '.join(parts)}"


def _word_for(run: Run) -> str:
    return WORDS.get(run.status, run.status.lower())


def _when(schedule: Mapping[str, Any]) -> str:
    """`every 5 s`, `0 8 * * *`, `once`: its zone would only widen the column."""
    return str(schedule["cron"]) if schedule["type"] == "CRON" else show.short_schedule(schedule)


def _said(run: Run, last: Attempt, now: Instant) -> str:
    took = show.span((last.finished_at or now) - last.started_at)
    silent = (
        "done"
        if run.task_queue and run.status in (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED_AFTER_CANCEL)
        else "no answer"
    )
    answer = str(last.http_status) if last.http_status is not None else (last.error or silent)
    match run.status:
        case RunStatus.RETRY_WAIT:
            return f"{answer}, again in {show.span((run.not_before or now) - now)}"
        case RunStatus.SUCCEEDED if len(run.attempts) > 1:
            return f"{answer}, same idempotency key as before"
        case RunStatus.SUCCEEDED:
            return f"{answer} in {took}, {show.span(last.lag_ms)} after its time"
        case _:
            return f"{answer}  [{run.reason}]" if run.reason else answer


def _clock(now: Instant, zone: str | None) -> str:
    return local(now, zone).strftime("%H:%M:%S.%f")[:-3]


def _word(word: str, number: int) -> str:
    if number == 1:
        return "run ok" if word == "ok" else word
    return PLURALS.get(word, word)


def _order(entry: tuple[str, int]) -> tuple[bool, str]:
    return entry[0] != "ok", entry[0]
