"""Other people's cron: recognised so that a refusal can name it, and converted where nothing is lost (W1).

                  fields                                         days
    unix          minute hour day month weekday                  0 or 7 = Sunday; both days given: either matches
    quartz        second minute hour day month weekday [year]    1 = Sunday; one of the two days is ?
    eventbridge   cron(minute hour day month weekday year)       1 = Sunday; one of the two days is ?

Only recognised, never converted: rate(...) and at(...), @every, @reboot, Jenkins' H, random fields, a zone in front,
crontab lines with a command, systemd calendars.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final

from schedkit.engine.when import cron_fields
from schedkit.engine.when.cron_fields import (
    DAY_OF_MONTH,
    FIELDS,
    HOUR,
    MACROS,
    MINUTE,
    MONTH,
    WEEKDAY_NAMES,
    Expression,
    Field,
    refusal,
)
from schedkit.errors import InvalidInput, Reason
from schedkit.model.schedules import MAX_EXPRESSION_CHARS

DIALECTS: Final = ("unix", "quartz", "eventbridge")

_UNIT_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "s": 1, "m": 60, "h": 3_600}
_ZONE_PREFIX: Final = re.compile(r"(?:CRON_)?TZ=([^ \t]*)[ \t]*(.*)", re.IGNORECASE)
_CALL: Final = re.compile(r"(cron|rate|at)[ \t]*\(([^()]*)\)", re.IGNORECASE)
_RATE: Final = re.compile(r"[ \t]*([0-9]{1,9})[ \t]+(minute|hour|day)s?[ \t]*")
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,3})?[hms])+")
_DURATION_PART: Final = re.compile(r"([0-9.]+)([hms])")
_HASHED: Final = re.compile(r"h(\([0-9]+-[0-9]+\))?(?:/([0-9]+))?")
_RANDOM: Final = re.compile(r"r(\([0-9]+-[0-9]+\))?(?:/([0-9]+))?|[0-9]*~[0-9]*(?:/([0-9]+))?")
_YEAR: Final = re.compile(r"(?:\*|[12][0-9]{3})(?:[-,/][0-9]{1,4})*")
_CRON_LIKE: Final = re.compile(r"[0-9*?,/#lw-]+|(?:(?:[a-z]{3}|[0-9*]+)(?:[-,/]|$))+")
_SYSTEMD: Final = re.compile(r"[*0-9/]+-[*0-9/]+-[*0-9/]+")
_ANY: Final = ("*", "?")

_WHY_FIVE: Final = (
    "six and seven fields mean different things in every dialect, so only the five of Unix cron are read: "
    "minute hour day-of-month month day-of-week"
)


# ---- recognising


def recognised(text: str) -> InvalidInput | None:
    """The refusal for a text that is some other dialect's, with the Unix form where there is one; None if unknown."""
    if len(text) > MAX_EXPRESSION_CHARS or not text.isascii():
        return None
    stripped = text.strip(" \t")
    lowered = stripped.lower()
    prefix, call = _ZONE_PREFIX.fullmatch(stripped), _CALL.fullmatch(stripped)
    if prefix is not None:
        return _zone_in_front(prefix[1], prefix[2])
    if call is not None:
        return _call(call[1].lower(), call[2])
    if lowered.startswith("@"):
        return _unknown_macro(lowered)
    fields = lowered.split()
    for pattern, what in ((_HASHED, "Jenkins' H"), (_RANDOM, "a random field (R or ~)")):
        if any(pattern.fullmatch(field) for field in fields[:6]):
            return _placeless(fields, pattern, what)
    if any(_SYSTEMD.fullmatch(field) for field in fields):
        return refusal("this looks like a systemd calendar; a Unix cron has five fields", why=_WHY_FIVE)
    if len(fields) in (6, 7) and all(_CRON_LIKE.fullmatch(field) for field in fields):
        return _too_many(fields)
    command = len(fields) > len(FIELDS) and _CRON_LIKE.fullmatch(fields[5]) is None
    if command and _is_unix(" ".join(fields[:5])):
        return refusal(
            "this looks like a crontab line with a command after its five fields",
            fix=[" ".join(stripped.split()[:5])],
            why="what to call is the job's target, not part of the expression",
        )
    return None


def _zone_in_front(zone: str, rest: str) -> InvalidInput:
    fix = [f"{rest} with time_zone {zone}"] if zone and _is_unix(rest) else ["give time_zone beside the expression"]
    return refusal("a zone in front of the expression (TZ=, CRON_TZ=): the zone is a field of its own", fix=fix)


def _call(name: str, inside: str) -> InvalidInput:
    if name == "rate":
        rate = _RATE.fullmatch(inside.lower())
        fix = [_interval_fix(int(rate[1]) * _UNIT_SECONDS[rate[2]])] if rate is not None else []
        return refusal("rate(...) is EventBridge's way to write an interval", fix=fix)
    if name == "at":
        return refusal(
            "at(...) is EventBridge's way to write one time", fix=[f"use a ONCE schedule with run_at {inside.strip()}"]
        )
    return refusal(
        "cron(...) is EventBridge's dialect: six fields with the year last, and 1 = Sunday",
        fix=_converted(inside.split(), "eventbridge"),
        why=_WHY_FIVE,
    )


def _unknown_macro(lowered: str) -> InvalidInput:
    word = lowered.split()[0]
    if word == "@reboot":
        return refusal("@reboot names no time, so a job could never be due", fix=["trigger the job when you deploy"])
    if word == "@every":
        seconds = _duration_seconds(lowered.removeprefix("@every").strip())
        return refusal(
            "@every is Go cron's way to write an interval",
            fix=[_interval_fix(seconds) if seconds else "use an INTERVAL schedule with every_seconds"],
        )
    near = difflib.get_close_matches(word, MACROS, n=1)
    return refusal(f'"{word}" is not a macro', fix=[*near, "macros are " + " ".join(MACROS)])


def _placeless(fields: Sequence[str], pattern: re.Pattern[str], what: str) -> InvalidInput:
    """A field whose value another scheduler draws: the same for ever there, or another on every machine."""
    fixed = []
    for field, text in zip(FIELDS, fields, strict=False):
        drawn = pattern.fullmatch(text)
        step = next((group for group in drawn.groups()[1:] if group), None) if drawn is not None else None
        fixed.append(text if drawn is None else f"*/{step}" if step else str(field.low))
    unix = " ".join(fixed)
    return refusal(
        f"{what} stands for a value that the scheduler draws, and has no stable next time",
        fix=[
            *([unix] if len(fields) == 5 and _is_unix(unix) else []),
            "write a number; dispatch_window_seconds spreads jobs that share it",
        ],
    )


def _too_many(fields: Sequence[str]) -> InvalidInput:
    """Six or seven fields: seconds in front, or a year behind."""
    has_year = _YEAR.fullmatch(fields[-1]) is not None and fields[-1] != "*"
    year_last = len(fields) == 6 and (has_year or "?" in (fields[2], fields[4]))
    count = f"the expression has {len(fields)} fields; a Unix cron has five"
    if year_last:
        fix = _converted(fields, "eventbridge")
        return refusal(f"{count}. This looks like EventBridge, with the year last", fix=fix, why=_WHY_FIVE)
    if "?" in fields or len(fields) == 7:
        quartz = "Quartz, with seconds first" + (" and the year last" if len(fields) == 7 else "")
        return refusal(f"{count}. This looks like {quartz}", fix=_converted(fields, "quartz"), why=_WHY_FIVE)
    return refusal(
        f"{count}. This looks like a seconds field in front (Quartz, Spring)", fix=_seconds_fix(fields), why=_WHY_FIVE
    )


def _seconds_fix(fields: Sequence[str]) -> list[str]:
    """Without a ? it may be Quartz or Spring, which number the weekdays differently: drop the seconds, and say so."""
    unix = " ".join(fields[1:])
    if not _is_unix(unix):
        return []
    seconds = fields[0]
    step = re.fullmatch(r"(?:\*|0)(?:/([0-9]{1,2}))?", seconds)
    if step is not None and seconds != "0" and unix == "* * * * *":
        return [_interval_fix(int(step[1] or 1))]
    fix = [unix]
    if seconds.strip("0"):
        fix.append("Unix cron starts on the minute: the seconds are dropped")
    if any(digit in fields[5] for digit in "1234567"):
        fix.append("if it is Quartz's, subtract 1 from the weekday: 1 is Sunday there, and Monday here")
    return fix


def _converted(fields: Sequence[str], source: str) -> list[str]:
    """The Unix form as advice; a year, which Unix cron cannot say, becomes advice of its own."""
    year_at = 6 if source == "quartz" else 5
    year = fields[year_at] if len(fields) > year_at and fields[year_at] not in _ANY else None
    try:
        unix = convert(" ".join([*fields[:year_at], *["*" for _ in fields[year_at:]]]), source, "unix")
    except InvalidInput as refused:
        return [refused.detail]
    return [unix] if year is None else [unix, f"and keep the year {year} with start_at and end_at"]


def _is_unix(text: str) -> bool:
    try:
        cron_fields.parse(text)
    except InvalidInput:
        return False
    return True


def _interval_fix(seconds: int) -> str:
    plural = "" if seconds == 1 else "s"
    return f"use an INTERVAL schedule: every {seconds} second{plural} (every_seconds {seconds})"


def _duration_seconds(text: str) -> int:
    """Go's `1h30m`, in whole seconds; 0 for anything else."""
    if not _DURATION.fullmatch(text):
        return 0
    parts = _DURATION_PART.findall(text)
    return round(sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts))


# ---- converting


def convert(expression: str, source: str, to: str) -> str:
    """The expression in another dialect. Raises InvalidInput where something would be lost or changed on the way."""
    for dialect in (source, to):
        if dialect not in DIALECTS:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f'"{dialect}" is no dialect known here', fix=["use " + ", ".join(DIALECTS)]
            )
    parsed = cron_fields.parse(expression if source == "unix" else _to_unix(expression, source))
    if to == "unix":
        return " ".join(parsed.fields).upper()
    return _from_unix(parsed, to)


def _to_unix(expression: str, source: str) -> str:
    fields = _foreign_fields(expression, source)
    if source == "quartz":
        if fields[0].strip("0"):
            raise refusal(f'the seconds field "{fields[0]}" has no place in Unix cron, which starts on the minute')
        fields = fields[1:]
    if len(fields) == 6 and fields[5] not in _ANY:
        raise refusal(
            f'the year field "{fields[5]}" has no place in Unix cron', fix=["leave it out; use start_at and end_at"]
        )
    minute, hour, day, month, weekday = fields[:5]
    if day not in _ANY and weekday not in _ANY:
        raise refusal(f"{source} refuses both a day-of-month and a day-of-week: one of them must be ?")
    return " ".join(
        [
            _star_step(MINUTE, minute),
            _star_step(HOUR, hour),
            _star_step(DAY_OF_MONTH, day.replace("?", "*")),
            _star_step(MONTH, month),
            ",".join(_weekday_to_unix(item) for item in weekday.replace("?", "*").split(",")),
        ]
    )


def _foreign_fields(expression: str, source: str) -> tuple[str, ...]:
    call = _CALL.fullmatch(expression.strip(" \t")) if len(expression) <= MAX_EXPRESSION_CHARS else None
    if call is not None and source == "eventbridge":
        if call[1].lower() != "cron":
            raise _call(call[1].lower(), call[2])
        expression = call[2]
    fields = cron_fields.split(expression)
    expected = (6, 7) if source == "quartz" else (6,)
    if len(fields) not in expected:
        raise refusal(f"{source} has {' or '.join(map(str, expected))} fields, and this has {len(fields)}")
    return fields


def _star_step(field: Field, text: str) -> str:
    """`0/5` as Unix writes it: `*/5`."""
    return re.sub(rf"(?<![0-9*/-]){field.low}/", "*/", text)


def _weekday_to_unix(item: str) -> str:
    """1 = Sunday there is 0 here; the number behind # or / stays."""
    if item == "l":
        return "6"  # Quartz: the last day of the week
    match = re.fullmatch(r"([^/#]*)([/#].*)?", item)
    assert match is not None, "every text splits here"

    def shifted(digit: re.Match[str]) -> str:
        if not 1 <= int(digit[0]) <= 7:
            raise refusal(f'day-of-week "{item}": {digit[0]} is outside 1-7, where 1 is Sunday')
        return str(int(digit[0]) - 1)

    return re.sub(r"[0-9]+", shifted, match[1]) + (match[2] or "")


def _from_unix(parsed: Expression, to: str) -> str:
    minute, hour, day, month, _ = parsed.fields
    month_days, week_days = parsed.month_days, parsed.week_days
    if month_days.restricted and week_days.restricted:
        raise refusal(
            f"{to} cannot say both a day-of-month and a day-of-week", fix=["make two jobs, one for each of the days"]
        )
    special = (week_days.last or week_days.nth or month_days.last or month_days.nearest_weekday_to) != ()
    if special and ("," in day or "," in parsed.fields[4]):
        raise refusal(f"{to} does not take L, W or # in a list", fix=["make a job for each item"])
    days = _portable(DAY_OF_MONTH, day, month_days.days, to) if month_days.restricted else "*"
    calendar = " ".join(
        [
            _portable(MINUTE, minute, parsed.minutes, to),
            _portable(HOUR, hour, parsed.hours, to),
            "?" if week_days.restricted else days,
            _portable(MONTH, month, parsed.months, to),
            _weekdays_from_unix(parsed) if week_days.restricted else "?",
        ]
    )
    return f"0 {calendar}" if to == "quartz" else f"cron({calendar} *)"


def _portable(field: Field, text: str, values: tuple[int, ...], to: str) -> str:
    """The field's text, or its plain numbers where it wraps around or mixes * into a list."""
    for item in text.split(","):
        ends = re.fullmatch(r"([a-z0-9]+)-([a-z0-9]+)(?:/[0-9]+)?", item)
        wraps = ends is not None and _value(field, ends[1]) > _value(field, ends[2])
        if wraps or ("," in text and item.startswith("*")):
            return ",".join(map(str, values))
    if to == "eventbridge":
        text = text.replace("*/", f"{field.low}/")
    return text.upper()


def _value(field: Field, text: str) -> int:
    return int(text) if text.isdigit() else field.names.index(text) + field.low


def _weekdays_from_unix(parsed: Expression) -> str:
    """Names, since the two count weekdays differently: MON-FRI; numbers only where a name cannot stand."""
    week_days = parsed.week_days
    if week_days.last:
        return f"{week_days.last[0] + 1}L"
    if week_days.nth:
        weekday, nth = week_days.nth[0]
        return f"{weekday + 1}#{nth}"
    days = week_days.days
    names = [WEEKDAY_NAMES[day].upper() for day in days]
    if len(days) > 2 and days[-1] - days[0] == len(days) - 1:
        return f"{names[0]}-{names[-1]}"
    return ",".join(names)
