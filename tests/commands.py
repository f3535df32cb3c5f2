"""The command line, as tests call it."""

import json

from click.testing import CliRunner

from dhsic.cli import main

M, D = 60, 1200
SIMULATE = ("--samples", M, "--variants", D, "--causal", 4, "--pairs", 1, "--seed", 3)
QUICK = ("--target", "sample_trait", "-n", "8", "--threads", "2", "--no-progress")


def run(*args, code=0):
    """Result of a command, whose exit code must be `code`."""
    result = CliRunner().invoke(main, [str(a) for a in args], prog_name="dhsic")
    assert result.exit_code == code, result.output
    return result


def selected(*args):
    """What `dhsic select --json` prints."""
    return json.loads(run("select", *args, "--json").stdout)


def told(result):
    """What a command said on stderr, as one line."""
    return " ".join(result.stderr.split())
