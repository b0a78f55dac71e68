from __future__ import annotations

import os
from pathlib import Path

import pytest

from exocomp.cli import output, parse
from exocomp.cli.options import PlayFlags
from exocomp.cli.standing import MASK, masked
from exocomp.errors import WrongUsage
from exocomp.model import RunState

AT = 1_700_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("1.5s", 1.5), (" 5m ", 300), ("1h1s", 3601)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse.seconds(text, "--ssh-wait") == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "0s", "0m", "300", "-5m", "5x", "m", "1m1h", "5M", "1e3s", "nan", "inf", "٥m", "9" * 400 + "s"]
)
def test_what_is_no_duration_above_zero_is_named(text: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        parse.seconds(text, "--ssh-wait")
    assert "--ssh-wait" in caught.value.what
    assert repr(text) in caught.value.what
    assert "1h30m" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("12", (12, None)),
        ("10m", (0, AT - 600)),
        ("2023-11-14T22:13:20Z", (0, AT)),
        ("2023-11-14T23:13:20+01:00", (0, AT)),
    ],
)
def test_since_is_a_number_a_time_or_how_long_ago(text: str, found: tuple[int, float | None]) -> None:
    assert parse.since(text, AT) == found


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "99999999999999999999"])
def test_since_refuses_the_rest(text: str) -> None:
    with pytest.raises(WrongUsage, match="--since"):
        parse.since(text, AT)


def test_extra_vars_are_a_json_object_or_a_file_of_one(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text('{"a": [1, null]}')
    assert parse.extra_vars(None) is None
    assert parse.extra_vars('{"a": "b c"}') == {"a": "b c"}
    assert parse.extra_vars(f"@{tmp_path}/v.json") == {"a": [1, None]}


@pytest.mark.parametrize("text", ["", "a=b", "[1]", "3", "null", '{"a": }', '{"a": NaN}', "@/nope", "@", "[" * 5000])
def test_extra_vars_refuse_what_is_no_json_object(text: str) -> None:
    with pytest.raises(WrongUsage, match="--extra-vars"):
        parse.extra_vars(text)


def test_pairs_split_at_the_first_sign() -> None:
    assert parse.pairs(["a=b=c", "d="], "--var") == {"a": "b=c", "d": ""}
    for wrong in ("a", "=b", ""):
        with pytest.raises(WrongUsage, match="--var"):
            parse.pairs([wrong], "--var")


def test_an_identity_is_one_regular_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("x")
    (tmp_path / "link").symlink_to("key")
    (tmp_path / "dirlink").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.chdir(tmp_path)
    assert parse.regular_file("key", "--ssh-identity") == tmp_path / "key"
    assert parse.regular_file("link", "--ssh-identity") == tmp_path / "link"
    for wrong in (".", "dirlink", "fifo", "/dev/null", "none", "", "a\0b"):
        with pytest.raises(WrongUsage, match="--ssh-identity"):
            parse.regular_file(wrong, "--ssh-identity")


def test_options_carry_what_was_asked(tmp_path: Path) -> None:
    play = tmp_path / "play.yml"
    play.write_text("[]")
    options = parse.run_options(PlayFlags(limit="web", check=True), ssh_wait="90s", onboard_playbook=str(play))
    assert (options.ssh_wait_s, options.onboard_playbook, options.limit, options.check) == (
        90,
        str(play),
        "web",
        True,
    )


@pytest.mark.parametrize("name", ["", "-x", "a/b", "..", "a b", "ü", "a" * 65, "a\n"])
def test_a_workspace_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(WrongUsage, match="workspace name"):
        parse.name(name, "workspace")


def test_json_has_iso_times_and_every_field_of_the_protocol() -> None:
    from cli_views import flow

    document = output.plain(flow(RunState.SUCCEEDED, options=parse.RunOptions(extra_vars={"made_at": 1.5})))
    assert document["created_at"] == "2023-11-14T22:13:20.000Z"
    assert document["state"] == "succeeded"
    assert document["options"]["extra_vars"] == {"made_at": 1.5}
    assert document["options"]["check"] is False


def test_what_is_named_like_a_secret_is_masked() -> None:
    found = masked(
        {"all": {"vars": {"db_password": "x", "token_ttl": {"a": 1}, "port": 5, "keys": [{"api_key": "k"}]}}}
    )
    assert found == {
        "all": {"vars": {"db_password": MASK, "token_ttl": {"a": 1}, "port": 5, "keys": [{"api_key": MASK}]}}
    }
