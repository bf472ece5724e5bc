"""Settings: every value, and the place it came from. The first that says something wins.

    flag › SCHEDKIT_* › project file schedkit.toml (walking up) › user file › /etc/schedkit/config.toml › built in

A file has `current`, `[defaults]` (any global flag) and `[context.NAME]` tables. A broken file says nothing, and stops
only those who need a context: what works offline works without it. Only reading is here, with the standard library
alone, since every command does it; writing is in `settings_edit`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from schedkit.cli.failures import Code, ExitCode, Refusal

PROJECT_FILE: Final = "schedkit.toml"
SYSTEM_FILE: Final = Path("/etc/schedkit/config.toml")
DEFAULT_URL: Final = "http://127.0.0.1:8700"
BUILT_IN_CONTEXT: Final = "dev"  # the name `schedkit up` gives to what it starts

# What [defaults] may hold: the global flags, each with the type a file has to give.
DEFAULTS: Final[Mapping[str, type]] = {
    "output": str,
    "fields": str,
    "quiet": bool,
    "verbose": bool,
    "no_color": bool,
    "no_input": bool,
    "timeout": str,
    "utc": bool,
    "tz": str,
    "tenant": str,
    "region": str,
    "cell": str,
    "debug": bool,
}
CONTEXT_KEYS: Final[Mapping[str, type]] = {
    "url": str,
    "tenant": str,
    "region": str,
    "cell": str,
    "auth": str,
    "token_file": str,
    "token_command": str,
    "protected": bool,
    "read_only": bool,
    "color": str,
}
FORMATS: Final = ("table", "wide", "json", "jsonl", "yaml", "csv", "name")
AUTHS: Final = ("none", "token-file", "token-command")
_FROM_ENVIRONMENT: Final = ("context", "url", "tenant", "region", "cell", "token_file", "output", "tz")
_SWITCHES: Final = ("no_input", "debug")
BUILT_IN: Final[Mapping[str, Any]] = {"output": "table", "timeout": "10s", "context": BUILT_IN_CONTEXT}


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it was said: `flag`, `SCHEDKIT_TZ`, `…/config.toml:4`, `built in`."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Context:
    """One scheduler to talk to. Holds the way to a secret, never the secret."""

    name: str
    url: str = DEFAULT_URL
    tenant: str | None = None
    region: str | None = None
    cell: str | None = None
    auth: str = "none"
    token_file: str | None = None
    token_command: str | None = None
    protected: bool = False
    read_only: bool = False
    color: str | None = None
    origin: str = "built in"

    @property
    def built_in(self) -> bool:
        """Nobody configured anything: the address is a guess."""
        return self.origin == "built in"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything said by flags, environment and files."""

    values: Mapping[str, Setting]
    found: Mapping[str, Context]
    files: tuple[Path, ...] = field(default=())  # those that exist, nearest first
    broken: tuple[Refusal, ...] = field(default=())  # one for each file that cannot be understood

    @property
    def whole(self) -> Settings:
        """These settings, refused where a file is missing from them because it is broken."""
        for refusal in self.broken:
            raise refusal
        return self

    @property
    def contexts(self) -> Mapping[str, Context]:
        return self.whole.found

    def get(self, key: str) -> Any:
        found = self.values.get(key)
        return None if found is None else found.value

    @property
    def context(self) -> Context:
        """The context in use, with what flags and environment say about it."""
        name = str(self.get("context"))
        said = self.values["context"].origin
        known = self.contexts.get(name)
        if known is None:
            if said != "built in":
                raise no_context(name, self.contexts)
            known = Context(name, url=DEFAULT_URL)
        url = self.values.get("url")
        if url is not None and said != "flag":  # SCHEDKIT_URL; a context named on the line beats it
            place = str(url.value).partition("://")[2].strip("/") or str(url.value)
            known = Context(place, url=str(url.value), origin=url.origin)
        over: dict[str, Any] = {key: self.get(key) for key in ("tenant", "region", "cell") if self.get(key) is not None}
        if (token := self.get("token_file")) is not None:
            over |= {"auth": "token-file", "token_file": token}
        return _replaced(known, over)

    @property
    def zone(self) -> str | None:
        """The zone times are read and shown in; None is this machine's."""
        if self.get("utc"):
            return "UTC"
        zone: str | None = self.get("tz")
        return zone


def _replaced(context: Context, over: Mapping[str, Any]) -> Context:
    from dataclasses import replace

    return replace(context, **over)


def no_context(name: str, known: Mapping[str, Context]) -> Refusal:
    names = ", ".join(sorted(known)) or "none yet"
    return Refusal(
        Code.CONTEXT_NOT_FOUND,
        ExitCode.NOT_FOUND,
        f"there is no context {name!r} (known: {names})",
        fix=[f"schedkit context add {name} --url URL" if name.isidentifier() else "schedkit context list"],
    )


def user_file() -> Path:
    """SCHEDKIT_CONFIG, or the platform's place for it (~/.config/schedkit/config.toml)."""
    if named := os.environ.get("SCHEDKIT_CONFIG"):
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir("schedkit")) / "config.toml"


def project_file() -> Path | None:
    """The nearest schedkit.toml, from the working directory up."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the directory was removed under us
        return None
    for folder in (here, *here.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder / PROJECT_FILE
    return None


def load(flags: Mapping[str, Any]) -> Settings:
    """All settings, the first that says something winning."""
    values = {key: Setting(value, "flag") for key, value in flags.items()}
    for key, setting in _environment().items():
        values.setdefault(key, setting)
    if flags.get("tz"):
        values.pop("utc", None)
    contexts: dict[str, Context] = {}
    files, broken = [], []
    for path in (project_file(), user_file(), SYSTEM_FILE):
        if path is None or not path.is_file():
            continue
        files.append(path)
        try:
            document, lines = read(path)
        except Refusal as refusal:
            broken.append(refusal)
            continue
        for key, value in document.get("defaults", {}).items():
            values.setdefault(key, Setting(value, f"{path}:{lines.get(('defaults', key), 1)}"))
        if "current" in document:
            values.setdefault("context", Setting(document["current"], f"{path}:{lines.get(('', 'current'), 1)}"))
        for name, table in document.get("context", {}).items():
            origin = f"{path}:{lines.get((f'context.{name}', ''), 1)}"
            contexts.setdefault(name, Context(name, origin=origin, **table))
    for key, value in BUILT_IN.items():
        values.setdefault(key, Setting(value, "built in"))
    return Settings(values, contexts, tuple(files), tuple(broken))


def _environment() -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for key in _FROM_ENVIRONMENT:
        if value := os.environ.get(f"SCHEDKIT_{key.upper()}"):
            found[key] = Setting(value, f"SCHEDKIT_{key.upper()}")
    for key in _SWITCHES:
        if os.environ.get(f"SCHEDKIT_{key.upper()}", "0") not in ("", "0", "false", "no"):
            found[key] = Setting(True, f"SCHEDKIT_{key.upper()}")
    if os.environ.get("NO_COLOR"):
        found["no_color"] = Setting(True, "NO_COLOR")
    return found


def read(path: Path) -> tuple[dict[str, Any], dict[tuple[str, str], int]]:
    """A checked settings file, and the line of each of its keys."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        raise invalid(path, str(problem)) from problem
    document = parsed(text, path)
    check(document, path)
    return document, _lines(text)


_PLACE: Final = re.compile(r"(?P<said>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)", re.DOTALL)
_LIKELY: Final = {
    r"Illegal character '\n'": "is a quote not closed?",
    "Unterminated string": "is a quote not closed?",
    "Invalid value": "text stands in quotes",
    "Cannot overwrite a value": "the key stands there twice",
    "Cannot declare": "the table stands there twice",
}


def parsed(text: str, path: Path, kept: str = "") -> dict[str, Any]:
    """A settings file as a document; what is no TOML is refused with its line and what it probably is."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        found = _PLACE.fullmatch(str(problem))
        said = found["said"] if found else str(problem)
        line = (found and found["line"]) or len(text.splitlines())
        likely = next((hint for start, hint in _LIKELY.items() if said.startswith(start)), None)
        raise invalid(path, f"{kept}line {line}: {said}" + (f" ({likely})" if likely else "")) from problem


def check(document: Mapping[str, Any], path: Path) -> None:
    """Refuse what no command would understand: a typo must not pass for a default."""
    for key, value in document.items():
        if key not in ("current", "defaults", "context"):
            raise invalid(path, f"{key} is no setting; known are current, [defaults] and [context.NAME]")
        if not isinstance(value, str if key == "current" else dict):
            raise invalid(path, f"{key} has the wrong type")
    _check_table(document.get("defaults", {}), DEFAULTS, "defaults", path)
    if (output := document.get("defaults", {}).get("output", "table")) not in FORMATS:
        raise invalid(path, f"defaults.output is one of {', '.join(FORMATS)}; not {output!r}")
    for name, table in document.get("context", {}).items():
        if not isinstance(table, dict):
            raise invalid(path, f"context.{name} is a table: [context.{name}]")
        _check_table(table, CONTEXT_KEYS, f"context.{name}", path)
        if table.get("auth", "none") not in AUTHS:
            raise invalid(path, f"context.{name}.auth is one of {', '.join(AUTHS)}")


def _check_table(table: Mapping[str, Any], known: Mapping[str, type], title: str, path: Path) -> None:
    for key, value in table.items():
        if key not in known:
            raise invalid(path, f"{title}.{key} is no setting; known are {', '.join(known)}")
        if type(value) is not known[key]:
            kind = "true or false" if known[key] is bool else "text"
            raise invalid(path, f"{title}.{key} is {kind}, not {value!r}")


def invalid(path: Path, problem: str) -> Refusal:
    return Refusal(
        Code.CONFIG_INVALID,
        ExitCode.INVALID,
        f"{path}: {problem}",
        fix=["schedkit config path", "schedkit config edit"],
    )


def _lines(text: str) -> dict[tuple[str, str], int]:
    """(table, key) -> line; a table's own header is (table, '')."""
    found: dict[tuple[str, str], int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            table = header[1].replace('"', "").strip()
            found[table, ""] = number
        elif key := re.match(r'\s*"?([A-Za-z0-9_-]+)"?\s*=', line):
            found[table, key[1]] = number
    return found
