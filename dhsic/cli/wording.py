"""Messages that name parameters of Python, in the words of the command line.

Errors and warnings come from below, where parameters have the names of Python (``memory=``);
whoever typed a command knows options (``--memory``). This is the one place that translates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import click

from dhsic.cli.job import OF_METHODS, OF_RUNS
from dhsic.selectors.select import METHODS, parameters_of

#: Parameters whose option has another name.
ALIASES = {"n_features_to_select": "n_features", "overwrite": "force", "n_threads": "threads"}

#: Turns of phrase, before names are looked at.
PHRASES = (
    ("Run.resume goes on", "`dhsic resume` goes on"),
    ("the same call with this checkpoint goes on", "`dhsic resume` goes on"),
    ("the folder given as checkpoint= to dhsic.submit", "the --checkpoint of `select --detach`"),
    ("with client= or scheduler= of the cluster", "with --scheduler of the cluster"),
    ("with dhsic.attach", "with `dhsic attach`"),
    ("with Run.cancel", "with `dhsic cancel`"),
    ("(overwrite=True)", "(--force)"),
    ("use runtime='threads'", "leave out --scheduler"),
    ("pass X.T, or say", "say"),
    ("pass security=distributed.Security(...)", "pass --tls-ca-file, --tls-cert and --tls-key"),
    ("y has", "the target has"),
    ("y is not known", "the target is not known"),
    ("the labels themselves, one a sample", "a table of labels with --labels FILE"),
    ("the labels themselves", "a table of labels with --labels FILE"),
)

#: Parameters of `dhsic.open_source` that have no option.
ONLY_IN_PYTHON = ("ploidy_policy", "storage_options")

#: Parameters of methods that `select` takes by ``--set``.
SETTINGS = frozenset(
    name
    for method in METHODS
    for name in parameters_of(method)
    if name not in (*OF_METHODS, *OF_RUNS)
)

#: ``name=value`` or ``name=``, not as part of a path.
GIVEN = re.compile(
    r"""(?<![\w/.-])(?P<name>[a-z_]+)=
    (?P<value>'[^']*'|"[^"]*"|\[[^\]]*\]|-?\w[\w+-]*(?:\.\w[\w+-]*)*)?+(?!/)""",
    re.VERBOSE,
)


def in_options(message: str, ctx: click.Context) -> str:
    """Say a message in the options of the command that runs.

    Examples
    --------
    >>> import click
    >>> missing = click.Option(["--sample-dim"])
    >>> ctx = click.Context(click.Command("inspect", params=[missing]))
    >>> in_options("Say sample_dim=0 or sample_dim='obs'.", ctx)
    'Say --sample-dim 0 or --sample-dim obs.'
    """
    options = _options(ctx)
    for theirs, ours in PHRASES:
        message = message.replace(theirs, ours)
    only = [name for name in ONLY_IN_PYTHON if re.search(rf"\b{name}\b", message)]
    told = GIVEN.sub(lambda match: _option(match, options), message)
    for name in only:
        told += f" The command line has no option for {name}: see dhsic.open_source in Python."
    return told


def _options(ctx: click.Context) -> Mapping[str, click.Option]:
    """Options by parameter; what `resume` goes on with was given to `select`."""
    commands = [ctx.command]
    if ctx.info_name == "resume" and isinstance(group := ctx.find_root().command, click.Group):
        commands.insert(0, group.commands["select"])
    return {
        str(option.name): option
        for command in commands
        for option in command.params
        if isinstance(option, click.Option)
    }


def _option(match: re.Match[str], options: Mapping[str, click.Option]) -> str:
    option = options.get(ALIASES.get(match["name"], match["name"]))
    if option is None:
        is_setting = "settings" in options and match["name"] in SETTINGS
        return f"--set {match[0]}" if is_setting else match[0]
    name, value = max(option.opts, key=len), match["value"]
    if value is None:
        return name
    if option.is_flag and value in ("True", "False"):
        return name if value == "True" else (option.secondary_opts or [f"no {name}"])[0]
    return f"{name} {value.strip(chr(39) + chr(34) + '[]').replace(', ', ',')}"
