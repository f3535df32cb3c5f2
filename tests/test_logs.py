"""What is logged: a line a round, for people or as JSON, and nothing unless somebody listens."""

import json
import logging
import time

import numpy as np
import pytest
from click.testing import CliRunner

import dhsic
from dhsic.cli import console, main

X = np.random.default_rng(0).standard_normal((40, 30))
Y = X[:, 3] > 0


@pytest.fixture
def table(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "y.csv").write_text("y\n" + "\n".join(map(str, Y.astype(int))))
    return tmp_path / "x.npy"


def run(table, *options, **environment):
    command = ["select", str(table), "--target", "y", "--labels", str(table.parent / "y.csv"),
               "--by-position", "-n", "2", "--no-progress"]  # fmt: skip
    done = CliRunner().invoke(main, [*options, *command], env=environment)
    assert done.exit_code == 0, done.output
    return done


def test_a_run_logs_a_line_a_round(caplog):
    with caplog.at_level(logging.INFO, "dhsic"):
        result = dhsic.BAHSIC(2, step=0.3, progress=False).fit(X, Y).result_
    told = [each.record for each in caplog.records if hasattr(each, "record")]
    assert [each["round"] for each in told] == [*range(1, result.sizes["rounds"] + 1)]
    assert [each["hsic"] for each in told] == result["round_hsic"].values.tolist()
    assert "features left, HSIC" in caplog.text


def test_verbose_shows_them(table):
    assert "Info: round 1: " in run(table, "-v").stderr
    assert "round 1" not in run(table).stderr


@pytest.mark.parametrize("how", [("--log-json",), ()])
def test_as_json_each_line_is_an_object(table, how):
    done = run(table, *how, **({} if how else {"DHSIC_LOG_JSON": "1"}))
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "message"} <= {*line} for line in lines)
    rounds = [line for line in lines if "round" in line]
    assert rounds[0]["n_features"] == 30
    assert {"data", "labels", "memory"} <= {line.get("about") for line in lines}
    (values,) = [line for line in lines if "features are centred" in line["message"]]
    assert values["about"] == "values"
    assert "rank" in done.stdout


def test_errors_are_lines_too(tmp_path):
    done = CliRunner().invoke(main, ["--log-json", "select", str(tmp_path), "--target", "y"])
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["level"] == "error"
    assert json.loads(line)["exit_code"] == done.exit_code != 0


def test_what_takes_long_to_open_is_said(monkeypatch, capsys):
    monkeypatch.setattr(console, "SLOW", 0.01)
    with console.waiting("s3://me:secret@bucket/x.zarr"):
        time.sleep(0.5)
    assert "s3://***@bucket/x.zarr is still being opened. dhsic" in capsys.readouterr().err
    with console.waiting("x.zarr"):
        time.sleep(0.1)
    assert not capsys.readouterr().err
