"""The options for certificates of a Dask cluster, with the names that Dask's own commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

#: Option, key of Dask's configuration, help.
FILES = (
    ("--tls-ca-file", "ca-file", "Certificate of the authority (PEM) that --scheduler tls:// has."),
    ("--tls-cert", "client.cert", "Our certificate (PEM) for it."),
    ("--tls-key", "client.key", "Our private key (PEM) for it."),
)


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options; what they name becomes configuration of Dask, here alone.

    Nothing of it is kept: a resumed run is told again, or finds it in the configuration.
    """
    for option, key, said in reversed(FILES):
        command = click.option(
            option,
            type=click.Path(exists=True, dir_okay=False, readable=True),
            expose_value=False,
            callback=_configured(f"distributed.comm.tls.{key}"),
            help=f"{said} By default as Dask is configured.",
        )(command)
    return command


def _configured(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def configure(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            import dask

            ctx.with_resource(dask.config.set({key: value}))

    return configure
