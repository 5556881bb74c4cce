"""pqr serve: a service that learns from late labels."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from pathlib import Path
from typing import Any, ClassVar

import click

from pqrlearn import system
from pqrlearn.cli import options, page, show
from pqrlearn.cli.words import Bytes, Choice
from pqrlearn.errors import MissingExtra, NotAModel, PqrError, SettingsConflict
from pqrlearn.schema import Schema

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[float]):
    """A time such as 90s, 10m, 1h or 7d, in seconds."""

    name = "time"

    def convert(self, value: Any, param: Any, context: Any) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", str(value))
        if found is None:
            self.fail(f"{value!r} is not a time such as 90s, 10m, 1h or 7d", param, context)
        return float(found[1]) * _UNITS[found[2]]


class Command(page.Command):
    """Has headings of its own."""

    headings: ClassVar[dict[str, tuple[str, ...]]] = {
        "Model": ("model_file", "schema"),
        "Network": ("host", "port", "names", "tokens", "readers", "reader_port"),
        "Labels": ("label_window", "unlabelled", "late"),
        "Disk": ("keep_log", "snapshot_records", "segment_bytes"),
        "Limits": (
            *("max_body", "max_bodies", "max_rows", "max_features", "max_pairs", "max_pending"),
            *("max_unlearned", "max_waiting", "request_time"),
        ),
    }


@click.command(cls=Command, short_help="Serve a model that learns from late labels.")
@click.argument("folder", type=click.Path(file_okay=False))
@click.option(
    "-m",
    "--model-file",
    type=click.Path(),
    metavar="FILE",
    help="Model of pqr train to begin with. Default: one that is empty and tunes itself.",
)
@click.option(
    "--schema",
    type=click.Path(),
    metavar="FILE",
    help="What the fields of rows are, if the service begins without a model.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    metavar="N",
    help="Port to listen on; 0 for any.",
)
@click.option(
    "--readers",
    type=click.IntRange(0, 64),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of processes that follow the log and answer /v1/score and /v1/explain.",
)
@click.option(
    "--reader-port",
    type=click.IntRange(0, 65535),
    default=8081,
    show_default=True,
    metavar="N",
    help="Port that the readers listen on; 0 for any.",
)
@click.option(
    "--host-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A name that clients call the service by, beside addresses and localhost. [repeatable]",
)
@click.option(
    "--tokens",
    type=click.Path(),
    metavar="FILE",
    help='Bearer tokens in a TOML file, as in predict = "...", learn = "..." and admin = "...".',
)
@click.option(
    "--label-window",
    type=Duration(),
    metavar="TIME",
    help="How long a row waits for its label, as in 90s, 10m, 1h or 7d. Default: for ever.",
)
@click.option(
    "--unlabelled",
    type=Choice(["negative", "forget"]),
    default="negative",
    show_default=True,
    metavar="WORD",
    help="What becomes of a row after its window: learned as a negative, or forgotten.",
)
@click.option(
    "--late",
    type=Choice(["learn", "refuse"]),
    default="refuse",
    show_default=True,
    metavar="WORD",
    help="What a label does that comes after the negative: learned too, or refused.",
)
@click.option(
    "--keep-log", is_flag=True, help="Keep the whole log, to train from: pqr train FOLDER."
)
@click.option(
    "--snapshot-records",
    type=click.IntRange(min=1),
    metavar="N",
    help="Records from one snapshot to the next. Default: 1,000,000.",
)
@click.option(
    "--segment-bytes",
    type=Bytes(),
    help="Size of the files of the log. Default: 64MB.",
)
@click.option(
    "--max-waiting",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most rows that wait for labels; the oldest expire. Default: 10,000,000.",
)
@click.option(
    "--max-finished",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ids remembered after their label, which is learned once. Default: 1,000,000.",
)
@click.option("--max-body", type=Bytes(), help="Most bytes of a request. Default: 64MB.")
@click.option(
    "--max-bodies",
    type=Bytes(),
    help="Most bytes of all requests at a time; then they get 503. Default: four times --max-body.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most rows of a batch. Default: 10,000.",
)
@click.option(
    "--max-features",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most features of a row. Default: 10,000.",
)
@click.option(
    "--max-pairs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most pairs of features of a row. Default: 1,000,000.",
)
@click.option(
    "--max-pending",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most records that wait for the disk; then requests get 503. Default: 100,000.",
)
@click.option(
    "--max-unlearned",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most records that wait to be learned while a snapshot is written; then requests get 503. "
    "Default: 1,000,000.",
)
@click.option(
    "--request-time",
    type=Duration(),
    default="30s",
    show_default=True,
    metavar="TIME",
    help="How long a request may take to come in; then the connection is closed.",
)
@click.option("--access-log", is_flag=True, help="Log every request to stderr, without its data.")
@page.config
@options.quiet
def serve(folder: str, quiet: bool, access_log: bool, **rest: Any) -> None:
    """Serve a model over HTTP, and keep in FOLDER all that it needs to go on after a crash.

        pqr serve clicks/ -m clicks.pqr

    POST /v1/predict answers a prediction and keeps the row; POST /v1/learn brings its label later,
    by id. Whatever was answered is on disk. Prints the address once it listens there.
    """
    if system.WINDOWS:
        raise PqrError("pqr serve runs on Linux and macOS; on Windows it runs in WSL or Docker")
    try:
        from pqrlearn.serve import server
        from pqrlearn.serve.guard import check_listening, read_tokens
        from pqrlearn.serve.service import Service
        from pqrlearn.serve.settings import Settings
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("pqrlearn"):
            raise
        raise MissingExtra("services", "serve") from None
    _log(access_log)
    tokens, schema, model = rest.pop("tokens"), rest.pop("schema"), rest.pop("model_file")
    listening = server.Listening(
        host=rest.pop("host"),
        port=rest.pop("port"),
        readers=rest.pop("readers"),
        reader_port=rest.pop("reader_port"),
        names=rest.pop("names"),
        request_seconds=rest.pop("request_time"),
        tokens={} if tokens is None else read_tokens(tokens),
    )
    check_listening(listening.host, listening.tokens)
    if schema is not None and model is not None:
        raise SettingsConflict("{schema} is for a service without {model_file}, which has its own")
    settings = Settings(**{name: value for name, value in rest.items() if value is not None})
    data = None if model is None else server.read_model(model)
    given = None if schema is None else Schema.read(schema)
    try:
        service = Service(Path(folder), settings, model=data, schema=given)
    except NotAModel as error:
        raise NotAModel(str(error).replace("<bytes>", str(model))) from None
    if not quiet:
        _note(service)
    server.look_for_cycles_seldom()
    server.run(service, listening, lambda url: print(url, flush=True))


def _log(access: bool) -> None:
    logging.basicConfig(format="pqr: %(message)s", stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("pqrlearn.serve.access").setLevel(logging.INFO if access else logging.WARNING)
    warnings.simplefilter("ignore")  # about rows, which are not ours to show


def _note(service: Any) -> None:
    found, log, waiting = service.recovered, service.log, len(service.ids.waiting)
    if log.cut:
        show.note(f"cut {log.cut:,} bytes of a torn write from the end of the log")
    show.note(
        f"a model of {service.model.rows:,} rows ({service.model.kind}); replayed "
        f"{found.records:,} records in {found.seconds:.1f} s; {waiting:,} rows wait"
    )
