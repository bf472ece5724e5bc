"""Reading YAML and JSON: lines, what stands twice, and every trap refused with the way out."""

from __future__ import annotations

import pytest

from schedkit.files import yamltext


def told(text: str) -> list[str]:
    return [f"{one.line}: {one.message}" for one in yamltext.read(text).mistakes]


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("yes", "write true"),
        ("Off", "write false"),
        ("12:30", 'write "12:30"'),
        ("2026-09-28", 'write "2026-09-28"'),
        ("2026-09-28T09:00:00Z", 'write "2026-09-28T09:00:00Z"'),
        ("017", 'write "017"'),
        ("0x1f", 'write "0x1f"'),
        ("0o17", 'write "0o17"'),
        ("1_000", 'write "1_000"'),
        ("1e3", 'write "1e3"'),
        (".inf", 'write ".inf"'),
        ("190:20:30.15", 'write "190:20:30.15"'),
    ],
)
def test_what_two_readers_would_read_in_two_ways_is_refused(said: str, fix: str) -> None:
    (mistake,) = yamltext.read(f"a:\n  - {said}").mistakes
    assert mistake.line == 2
    assert fix in mistake.fix
    assert yamltext.read(f'a: "{said}"').value == {"a": said}


def test_what_every_reader_reads_alike_is_read() -> None:
    text = "a: true\nb: -5\nc: 1.5e+3\nd: ~\ne:\nf: [1, 'x', null]\ng: plain text\nh: '08'\n"
    tree = yamltext.read(text)
    assert tree.mistakes == []
    assert tree.value == {
        "a": True, "b": -5, "c": 1500.0, "d": None, "e": None, "f": [1, "x", None], "g": "plain text", "h": "08",
    }  # fmt: skip
    assert tree.line_of(("f", 2)) == 6


def test_anchors_and_merges_are_read_and_the_nearer_one_wins() -> None:
    text = "a: &a { x: 1, y: 1 }\nb: { <<: *a, y: 2 }\nc: { <<: [{ y: 3 }, *a] }\nd: *a\n"
    tree = yamltext.read(text)
    assert tree.mistakes == []
    assert tree.value["b"] == {"x": 1, "y": 2}
    assert tree.value["c"] == {"x": 1, "y": 3}
    assert tree.value["d"] == tree.value["a"]


def test_a_key_that_stands_twice_is_named_with_both_lines() -> None:
    assert told("a: 1\nb: 2\na: 3\n") == ["3: stands twice: first in line 1"]
    assert told('{"a": {"x": 1,\n "x": 2}}') == ["2: stands twice: first in line 1"]
    assert told('{"\\ud83d\\ude00": 1, "x": 1,\n "x": 2}') == ["1: the key x stands twice"]


def test_keys_are_text() -> None:
    assert told("on: 1\n8080: 2\n? [a]\n: 3\n") == [
        "1: the key on is not text as it stands",
        "2: the key 8080 is not text as it stands",
        "3: a key is text, and not a list or a mapping",
    ]


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system [id]", "!!binary aGk=", "!mine x", "!!set {a}"])
def test_tags_are_refused(tag: str) -> None:
    assert "is not read" in told(f"a: {tag}")[0]


def test_values_without_end_are_refused_soon() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    for text in (bomb, "a: &a [*a, *a]", "a: &a { <<: *a }", "[" * 80 + "]" * 80):
        assert [mistake for mistake in told(text) if ": too " in mistake], text[:40]


def test_json_is_read_as_json() -> None:
    tree = yamltext.read('{"a": 1e3, "b": "12:30",\n "c": "\\ud83d\\ude00", "d": "yes"}')
    assert tree.value == {"a": 1000.0, "b": "12:30", "c": "😀", "d": "yes"}
    assert tree.mistakes == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\tb: 1", "2: this cannot be read as YAML"),
        ("a: [1,\nb: 2", "2: this cannot be read as YAML"),
        ("a: 1\n---\nb: 2", "2: a second document begins here"),
        ("a: \x00", "1: this cannot be read as YAML"),
        pytest.param("x" * (8 * 1024 * 1024 + 1), "1: the file is longer than 8 MiB", id="too long"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(text: str, message: str) -> None:
    (only,) = told(text)
    assert only.startswith(message)
