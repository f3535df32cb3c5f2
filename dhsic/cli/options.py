"""Options of the commands, read from signatures and docstrings.

Options of `dhsic select` are the fields of `dhsic.cli.job.SelectJob`, whose docstring has the help
of each option, in the sections of ``--help``. Parameters of `BAHSIC` are further options, in the
section Method; the first sentence of each parameter's description is its help. Both are parsed from
the source files, because importing the modules takes seconds, which is too slow for ``--help``.

Library errors and warnings use the Python names of parameters (``memory_limit=``); this module
translates them to options (``--memory``).
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from dhsic.renamed import RENAMED

#: Parameters of every method for which the command line has other options.
OF_RUNS = ("checkpoint", "progress", "runtime", "n_jobs", "memory_limit")
#: Parameters whose option has a different name; and options that have a short form.
SPELLED = {"random_state": "seed", "as_json": "json", "settings": "set", "chromosomes": "chr"}
SHORT = {"n_features": "-n", "force": "-f"}
#: Additional names of options, as in PLINK.
OF_PLINK = {"labels": "--pheno", "covariates": "--covar", "max_missing": "--geno"}
#: Current names of options by their former names, which still work.
FORMER_OPTIONS = {
    f"--{no}{former.replace('_', '-')}": [f"--{no}{name.replace('_', '-')}" for name in names]
    for former, names in RENAMED.items()
    for no in ("", "no-")
}
#: Options in ``--help``; ``--help-all`` shows all options. Commands with at most `FEW_OPTIONS`
#: options always show all.
COMMON = frozenset(
    (
        *("variable", "transpose", "not_feature", "missing_code", "pass_only", "keep", "remove"),
        *("chromosomes", "extract", "exclude", "maf", "max_missing", "hwe", "mind", "groups"),
        *("target", "event", "per_target", "labels", "covariates", "covariate"),
        *("weights",),
        *("drop_missing", "na", "method", "n_features", "label_kernel", "kernel", "rerank"),
        *("interactions", "stability", "holdout", "control", "clump_r2", "loco", "effects"),
        *(
            "loci",
            "annotate",
            "bandwidth",
            "checkpoint",
            "out",
            "force",
            "as_json",
            "threads",
            "memory",
        ),
        *("scheduler", "detach"),
        *("n_pairs", "selection", "alpha", "is_planned", "functions", "help_all", "workers"),
        *("environment", "first", "second"),
    )
)
FEW_OPTIONS = 25
#: Largest number of choices listed next to an option.
FEW_CHOICES = 4
#: Text shown for defaults that are not self-explanatory.
SHOWN = {
    "standardize": "depends on the values",
    "n_features": "50, or all if fewer",
    "rerank": "unless HSIC alone predicts better",
    "interactions": "auto for bahsic",
    **dict.fromkeys(("stability", "clump_r2", "holdout", "control", "stages"), "none"),
}
#: Help text that is added to that in the docstring of `BAHSIC`.
BESIDES = {
    "bandwidth": "Several values between commas form a grid.",
    "fdr": "dhsic test and --holdout use another limit, q <= 0.05.",
}


class Option(click.Option):
    """Click option that belongs to a section of the help.

    If there are many choices, the help text lists them.
    """

    def __init__(self, *words: str, section: str = "Options", **about: Any) -> None:
        choices = getattr(about.get("type"), "choices", ())
        if len(choices) > FEW_CHOICES:
            listed = f"One of {', '.join(choices)}."
            about |= {"metavar": "NAME", "help": f"{about.get('help', '')} {listed}".strip()}
        super().__init__(list(words), **about)
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> Any:
        extra = super().get_help_extra(ctx)
        if "default" in extra:  # click puts defaults given as text in brackets
            extra["default"] = extra["default"].removeprefix("(").removesuffix(")")
        return extra


class TableNames(click.Choice[str]):
    """Choice of names from a table that is imported at run time; the help lists only some.

    Parameters
    ----------
    module, table : str
        Module and name of the table. The module is imported only when needed, because this takes
        seconds.
    """

    def __init__(self, names: Sequence[str], module: str, table: str) -> None:
        super().__init__(names)
        self._table = module, table

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Accept names in the table; reject others with Click's usual error."""
        module, table = self._table
        if value not in self.choices and value in getattr(import_module(module), table):
            return value
        return super().convert(value, param, ctx)


#: Module and table of the names that each of these parameters accepts.
TABLES = {"kernel": ("dhsic.kernels", "KERNELS"), "method": ("dhsic.selectors", "METHODS")}


# Conversion of option values -------------------------------------------------------------


def size(value: str | int) -> int:
    """Parse an amount of memory in bytes.

    >>> size("2GB"), size("500MiB")
    (2000000000, 524288000)
    """
    from dask.utils import parse_bytes

    try:
        amount = int(parse_bytes(value))
    except ValueError:
        amount = 0
    if amount <= 0:
        raise click.BadParameter(f"{value!r} is not an amount of memory, such as 2GB or 500MiB.")
    return amount


def number(value: str | float) -> Any:
    """Parse a fraction as a float, or a count as an int.

    >>> number("0.1"), number("100")
    (0.1, 100)
    """

    def convert(text: str) -> float | int:
        return int(text) if text.strip().isdigit() else float(text)

    return _read(value, (), "neither a fraction like 0.1 nor a count like 100", convert)


def count(value: str | int) -> Any:
    """Parse a number of features: a whole number from 1, or ``auto``.

    >>> count("auto"), count("20")
    ('auto', 20)
    """
    n = _read(value, ("auto",), "neither auto nor a whole number from 1", int)
    if n != "auto" and n < 1:
        raise click.BadParameter(f"{value!r} is neither auto nor a whole number from 1.")
    return n


def codes(value: str | float | list[float] | None) -> Any:
    """Parse missing codes: ``auto``, ``none``, a number, or several separated by commas.

    >>> codes("auto"), codes("none"), codes("9"), codes("3,-99.9")
    ('auto', None, 9, [3, -99.9])
    """
    if isinstance(value, str) and value.lower() == "none":
        return None
    what = "not auto, none, a number, or numbers between commas"

    def convert(text: str) -> float:
        return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)

    return _read(value, ("auto",), what, partial(_several, convert))


def sigma(value: str | float) -> Any:
    """Parse a bandwidth: a policy name, a number, or several separated by commas.

    >>> sigma("median"), sigma("0.5"), sigma("0.1,1")
    ('median', 0.5, [0.1, 1.0])
    """
    what = "not dimension, median, multiscale, a number, or numbers between commas"
    names = ("dimension", "median", "multiscale", "auto")
    return _read(value, names, what, partial(_several, float))


def names(value: str | Sequence[str]) -> Sequence[str]:
    """Parse names separated by commas.

    >>> names("spread,jackknife")
    ['spread', 'jackknife']
    """
    return value.split(",") if isinstance(value, str) else value


def one_or_more(_: click.Context, __: click.Parameter, paths: tuple[str, ...]) -> Any:
    """Click callback: convert a tuple of paths to one path, a list of several, or None."""
    return paths[0] if len(paths) == 1 else [*paths] or None


def _read(value: Any, names: tuple[str, ...], what: str, convert: Callable[[str], Any]) -> Any:
    """Convert text by `convert`; other values, and text in `names`, are returned unchanged.

    If `convert` fails, the error message says that the value must be `what`.
    """
    if not isinstance(value, str) or value in names:
        return value
    try:
        return convert(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is {what}.") from error


def _several(kind: Callable[[str], Any], text: str) -> Any:
    numbers = [kind(part) for part in text.strip("()").split(",")]
    return numbers[0] if len(numbers) == 1 else numbers


# Declared parameters ------------------------------------------------------------------------

PATH = click.Path()
#: Settings of click options, by the type that a docstring declares.
KINDS: dict[str, dict[str, Any]] = {
    "flag": {"is_flag": True},
    "N": {"type": click.IntRange(1), "metavar": "N"},
    "int": {"type": click.IntRange(0), "metavar": "N"},
    "N|auto": {"type": count, "metavar": "N|auto"},
    "SIZE": {"type": size},
    "CODE": {"type": codes, "metavar": "CODE"},
    "PATH": {"type": PATH},
    "FILE": {"type": PATH, "metavar": "FILE"},
    "list of str or Stage": {"type": names, "metavar": "NAME,..."},
}


@dataclass(frozen=True)
class Declared:
    """A parameter: its field in a class, and its description in the docstring of the class."""

    name: str
    default: Any
    section: str
    kind: str
    text: str

    def option(self, **about: Any) -> Option:
        """Create the option of the parameter."""
        word = spelled(self.name)
        kind, several, _ = self.kind.partition(", repeated")
        settings = {"default": self.default, "help": self.text, "multiple": bool(several)}
        settings["section"] = self.section
        settings["show_default"] = SHOWN.get(self.name, self.default not in (None, False, ()))
        if choices := re.match(r"\{(.*?)\}", kind):
            names, table = re.findall(r'"(.*?)"', choices[1]), TABLES.get(self.name)
            settings["type"] = TableNames(names, *table) if table else click.Choice(names)
        elif "bool" in kind:
            word = f"{word}/--no-{word[2:]}"
        elif kind in KINDS:
            settings |= KINDS[kind]
        elif kind[0].isupper():
            settings["metavar"] = kind
        else:
            settings["type"] = sigma if "sequence" in kind else number
        words = [SHORT[self.name]] if self.name in SHORT else []
        words += [word, *([OF_PLINK[self.name]] if self.name in OF_PLINK else [])]
        return Option(*words, self.name, **settings | about)

    def of_method(self) -> Option:
        """Create the option for a parameter of a method; the default None means "not passed"."""
        sentence = re.split(r"(?<=\.)\s(?=[A-Z])", self.text.replace("`", ""))[0]
        sentence = " ".join(filter(None, (sentence, BESIDES.get(self.name))))
        shown = SHOWN.get(self.name, str(self.default))
        return self.option(section="Method", default=None, show_default=shown, help=sentence)


def spelled(name: str) -> str:
    """Return the command-line option for a Python parameter.

    >>> spelled("label_kernel"), spelled("random_state")
    ('--label-kernel', '--seed')
    """
    return f"--{SPELLED.get(name, name).replace('_', '-')}"


def declared(*classes: tuple[str, str]) -> Iterator[Declared]:
    """Yield the parameters that the docstring of the first class describes.

    A class is a tuple of its file and its name. Defaults are read from the fields of all classes.
    """
    nodes = []
    for file, name in classes:
        parsed = ast.parse((Path(__file__).parents[1] / file).read_text("utf-8"))
        nodes += [n for n in parsed.body if isinstance(n, ast.ClassDef) and n.name == name]
    fields = [each for node in nodes for each in node.body if isinstance(each, ast.AnnAssign)]
    defaults = {
        each.target.id: ast.literal_eval(each.value)
        for each in fields
        if isinstance(each.target, ast.Name) and isinstance(each.value, ast.Constant | ast.Tuple)
    }
    doc = (ast.get_docstring(nodes[0]) or "").replace("\\\n", "")
    for section, entries in re.findall(
        r"^([\w ]+)\n-+\n((?:\S.*\n(?: +.*\n?)+)+)", doc, re.MULTILINE
    ):
        for name, kind, text in re.findall(r"^(\w+) : (.*)\n((?: +.*\n?)+)", entries, re.MULTILINE):
            if name in defaults:
                yield Declared(name, defaults[name], section, kind, " ".join(text.split()))


def with_changes(option: Option, **about: Any) -> Option:
    """Copy an option with other settings."""
    other = copy(option)
    vars(other).update(about)
    return other


# Options ----------------------------------------------------------------------------------

_of_select = {each.name: each.option() for each in declared(("cli/job.py", "SelectJob"))}
_of_methods = {
    each.name: each.of_method()
    for each in declared(
        ("selectors/bahsic.py", "BAHSIC"),
        ("methods/bahsic.py", "BAHSIC"),
        ("methods/kernel.py", "KernelSelector"),
        ("methods/base.py", "Selector"),
    )
    if each.name not in OF_RUNS
}


def select_options(*names: str) -> list[Option]:
    """Return options of `dhsic select` by name."""
    return [_of_select[name] for name in names]


def of_sections(*sections: str, without: Sequence[str] = ()) -> list[Option]:
    """Return the options of `dhsic select` in these sections of its help, except `without`."""
    there = [option for option in _of_select.values() if option.section in sections]
    out = [option for option in there if option.name not in without]
    if "Method" in sections:
        out[-1:-1] = _of_methods.values()  # before --set, which sets all other parameters
    return out


def _configured(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    """Return a callback that sets ``distributed.comm.tls.{key}`` to the value of an option.

    This setting of Dask holds while the command runs.
    """

    def configure(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            import dask

            ctx.with_resource(dask.config.set({f"distributed.comm.tls.{key}": value}))

    return configure


#: Options for TLS certificates, named as in Dask's own commands. They are not stored: a resumed run
#: needs them again, unless they are in Dask's configuration.
TLS = tuple(
    Option(
        option,
        section="Cluster",
        type=click.Path(exists=True, dir_okay=False, readable=True),
        expose_value=False,
        callback=_configured(key),
        help=f"{said} Default: Dask's configuration.",
    )
    for option, key, said in (
        ("--tls-ca-file", "ca-file", "Certificate (PEM) of the authority, for tls:// schedulers."),
        ("--tls-cert", "client.cert", "Certificate (PEM) of this client."),
        ("--tls-key", "client.key", "Private key (PEM) of this client."),
    )
)


# Option names in messages ----------------------------------------------------------------

#: Python parameters whose option has a different name, for the translation of messages.
ALIASES = {
    "n_features_to_select": "n_features",
    "memory_limit": "memory",
    "overwrite": "force",
    "n_threads": "threads",
    "not_features": "not_feature",
    "categories": "category",
    "ploidy_policy": "ploidy",
}

#: Parameters of `dhsic.open_source` without an option.
ONLY_IN_PYTHON = ("storage_options",)

#: Pattern of ``name=value`` or ``name=``, except within a path.
GIVEN = re.compile(
    r"""(?<![\w/.-])(?P<name>[a-z_]+)=
    (?P<value>'[^']*'|"[^"]*"|\[(?:'[^']*'|"[^"]*"|[^\]'"])*\]|-?\w[\w+-]*(?:\.\w[\w+-]*)*)?+(?!/)""",
    re.VERBOSE,
)

#: Python calls in a message, of which only the parameter within is translated to an option.
PASSED = re.compile(
    r"(?:filters=dhsic\.Filters\(|dhsic\.open_source\(X, )(\w+=(?:\[[^\]]*\]|'[^']*'))\)"
)
#: Python commands, and options with NAME=VALUE, in a message; they are not translated.
CODE = re.compile(r"""(python -c "[^"]*"|--(?:na|not-na|event|order|set) (?:'[^']*'|\S+))""")


def in_options(message: str, ctx: click.Context) -> str:
    """Replace Python parameters in a message by options of the running command.

    Examples
    --------
    >>> import click
    >>> missing = click.Option(["--sample-dim"])
    >>> ctx = click.Context(click.Command("inspect", params=[missing]))
    >>> in_options("Say sample_dim=0 or sample_dim='obs'.", ctx)
    'Say --sample-dim 0 or --sample-dim obs.'
    >>> several = click.Option(["--not-feature"], multiple=True)
    >>> ctx = click.Context(click.Command("inspect", params=[several]))
    >>> in_options("Say not_features=['a b', 'c'].", ctx)
    "Say --not-feature 'a b' --not-feature c."
    >>> in_options("Say --na event=9 --drop-missing.", ctx)
    'Say --na event=9 --drop-missing.'
    """
    options = _options(ctx)
    only = [name for name in ONLY_IN_PYTHON if re.search(rf"\b{name}\b", message)]
    message = PASSED.sub(r"\1", message)
    parts = CODE.split(message)  # every second part is a Python command, which is not translated
    parts[::2] = [GIVEN.sub(lambda match: _option(match, options), part) for part in parts[::2]]
    translated = "".join(parts)
    for name in only:
        translated += f" There is no option for {name}: use dhsic.open_source in Python."
    return translated


def of_commands(error: click.NoSuchOption, ctx: click.Context) -> click.UsageError:
    """Extend the error for an unknown option by the names of the commands that have this option.

    If --set can set the parameter, the new error says so, too. For options that no command has, the
    error is returned unchanged.
    """
    group, name = ctx.find_root().command, error.option_name
    commands = group.commands if isinstance(group, click.Group) else {}
    who = [
        command
        for command, its in commands.items()
        if any(name in [*option.opts, *option.secondary_opts] for option in its.params)
    ]
    if not who:
        return error
    setting = in_options(f"{name.removeprefix('--').replace('-', '_')}=VALUE", ctx)
    here = f"; for methods that have it, pass {setting}" * setting.startswith("--set")
    return click.UsageError(
        f"{name} is an option of dhsic {', '.join(who)}, not of {ctx.info_name}{here}.", ctx
    )


def _options(ctx: click.Context) -> Mapping[str, click.Option]:
    """Options of the running command by parameter name; `resume` also has those of `select`."""
    commands = [ctx.command]
    if ctx.info_name == "resume" and isinstance(group := ctx.find_root().command, click.Group):
        commands.insert(0, group.commands["select"])
    return {
        str(option.name): option
        for command in commands
        for option in command.params
        if isinstance(option, click.Option)
    }


@cache
def _settings() -> frozenset[str]:
    from dhsic.methods import METHODS, parameters_of

    return frozenset(name for method in METHODS for name in parameters_of(method)) - {*OF_RUNS}


def _option(match: re.Match[str], options: Mapping[str, click.Option]) -> str:
    option = options.get(ALIASES.get(match["name"], match["name"]))
    if option is None:
        is_setting = "settings" in options and match["name"] in _settings()
        return f"--set {match[0]}" if is_setting else match[0]
    name, value = max(option.opts, key=len), match["value"]
    if value is None:
        return name
    if option.is_flag and value in ("True", "False"):
        return name if value == "True" else (option.secondary_opts or [f"no {name}"])[0]
    if option.metavar == "CODE" and value == "None":
        return f"{name} none"
    if option.multiple and value.startswith("["):
        return " ".join(f"{name} {shlex.quote(str(one))}" for one in ast.literal_eval(value))
    if value.startswith(("'", '"')):
        return f"{name} {shlex.quote(value[1:-1])}"
    if value.startswith("[") and option.metavar == "FILE":
        ids = " ".join(shlex.quote(str(one)) for one in ast.literal_eval(value))
        return f"{name} ids.txt (printf '%s\\n' {ids} > ids.txt writes this file)"
    return f"{name} {shlex.quote(value.strip(chr(39) + chr(34) + '[]').replace(', ', ','))}"


def split_columns(spec: str) -> tuple[str, tuple[str, ...]]:
    """Split ``FILE[:a,b]`` into path and columns; file names may contain colons."""
    path, colon, columns = spec.rpartition(":")
    if not colon or columns.startswith("//") or Path(spec).is_file():  # the colon of a URL
        return spec, ()
    return path, tuple(column for column in columns.split(",") if column)
