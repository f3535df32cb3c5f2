"""Messages that name parameters, in the words of the command line."""

import click
import pytest
from commands import run

from dhsic.cli import main
from dhsic.cli.options import in_options


def said(message, name="select"):
    parent = click.Context(main, info_name="dhsic")
    return in_options(message, click.Context(main.commands[name], parent, info_name=name))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("raise the limit (memory_limit=).", "raise the limit (--memory)."),
        ("overwrite it (overwrite=True).", "overwrite it (--force)."),
        ("sample_dim=0 or sample_dim='obs'.", "--sample-dim 0 or --sample-dim obs."),
        ("Pass standardize=True, or rescale.", "Pass --standardize, or rescale."),
        ("standardize=False keeps it.", "--no-standardize keeps it."),
        ("bandwidth=[0.1, 1.0] and step=-1.5.", "--bandwidth 0.1,1.0 and --step -1.5."),
        ("n_features_to_select=9 is much.", "--n-features 9 is much."),
        ("missing='error'; pass missing='mean'.", "--missing error; pass --missing mean."),
        ("given as checkpoint=, or a new one.", "given as --checkpoint, or a new one."),
        ("needs 4 samples and got n_samples=3.", "needs 4 samples and got n_samples=3."),
        ("epsilon=-1 and constraint='soft'.", "--set epsilon=-1 and --set constraint='soft'."),
        (
            "Nothing exists at /data/step=1/memory=2.",
            "Nothing exists at /data/step=1/memory=2.",
        ),
        ("at step=1/kernel=x/g.zarr.", "at step=1/kernel=x/g.zarr."),
    ],
)
def test_parameters_become_options(message, expected):
    assert said(message) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("select", "--loco"),
            "option of dhsic test, not of select; for methods that have it, pass",
        ),
        (
            ("test", "--clump-r2", "1"),
            "--clump-r2 is an option of dhsic plan, select, not",
        ),
        (("pca", "--pairs", "2"), "--pairs is an option of dhsic simulate, report, not of pca."),
        (("select", "--lcoo"), "No such option"),
    ],
)
def test_an_option_of_another_command_is_said_to_be_one(words, expected):
    command, *options = words
    assert expected in run(command, "x.zarr", *options, code=2).stderr


def test_each_command_has_its_options():
    assert said("kernel='x' or variable=.", "inspect") == "kernel='x' or --variable."
    assert said("kernel='x', n_threads=2.", "resume") == "--kernel x, --threads 2."
    assert said("n_samples=1 is too few.", "simulate") == "--samples 1 is too few."


def test_what_has_no_option_is_said():
    assert said("pass missing_chunks='fill'.") == "pass --missing-chunks fill."
    assert said("pass ploidy_policy='count'.") == "pass --ploidy count."
    assert said("pass storage_options.") == (
        "pass storage_options. There is no option for storage_options: use dhsic.open_source in "
        "Python."
    )
