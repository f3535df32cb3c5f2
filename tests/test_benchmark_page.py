"""The benchmark page is what `benchmarks/page.py` makes of the kept results."""

import json
import re
import sys
from argparse import Namespace
from pathlib import Path

import kept
import page
import pytest

TEXT = page.PAGE.read_text()
KEPT = sorted(kept.FOLDER.glob("*.json"))


def test_the_page_is_made_of_the_kept_results():
    assert page.text() == TEXT, "run `python page.py` in benchmarks/"


def test_every_table_and_picture_names_its_script():
    """Below each stands a line with a command whose script is there."""
    blocks = [block for block in re.split(r"\n\n+", TEXT) if block.strip()]
    shown = [block.startswith(("|", "![")) for block in blocks]
    assert sum(shown) > 3
    for at in [i for i, is_shown in enumerate(shown) if is_shown]:
        after = next(
            block for block, is_shown in zip(blocks[at:], shown[at:], strict=True) if not is_shown
        )
        command = re.match(r"\*`python (?:-m )?(\S+)", after)
        assert command, f"no command stands below {blocks[at][:60]!r}"
        assert (page.TEMPLATE.parent / command[1]).exists()


def test_the_page_is_short():
    outside_tables = [line for line in TEXT.splitlines() if not line.startswith("|")]
    assert len(" ".join(outside_tables).split()) <= 1_500
    pictures = re.findall(r"!\[[^]]+\]\((\S+)\)", TEXT)
    assert 1 <= len(pictures) <= 4
    for name in pictures:
        assert (page.DOCS / name).is_file()


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept_results_say_how_they_were_made(path):
    facts = json.loads(path.read_text())
    assert {"command", "date", "commit", "versions", "machine", "rows"} == {*facts}
    assert facts["command"].startswith("python ")
    assert not re.search(r"(\s|^)[./]*/", facts["command"]), "folders of one machine stand there"
    assert "dhsic" in facts["versions"]
    assert facts["rows"]


def test_results_are_kept_with_their_conditions(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    words = ["benchmarks/x.py", "traits", str(tmp_path), "--sets", "a, b", "--keep", "mine"]
    monkeypatch.setattr(sys, "argv", words)
    kept.keep(Namespace(keep=None), [{"a": 1}])
    assert not kept.exists("mine")
    kept.keep(Namespace(keep="mine"), [{"a": 1}, {"a": 2}], ("numpy", "absent"), date="today")
    facts = kept.load("mine")
    assert facts["command"] == 'python x.py traits FOLDER --sets "a, b"'
    assert (facts["date"], facts["rows"]) == ("today", [{"a": 1}, {"a": 2}])
    assert {*facts["versions"]} == {"numpy"}


def test_pictures_are_drawn_of_kept_results(tmp_path):
    pytest.importorskip("matplotlib")
    import page_pictures

    page_pictures.draw(tmp_path)
    shown = {Path(name).name for name in re.findall(r"\((pictures/\S+)\)", TEXT)}
    assert {path.name for path in tmp_path.iterdir()} == shown
