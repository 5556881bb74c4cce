"""pqr data: list, download, convert, describe and simulate data sets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pqrlearn import datasets, plots
from pqrlearn.cli import options, show, words
from pqrlearn.datasets.base import DataSet, watched
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.datasets.ratings import RatingStream
from pqrlearn.datasets.statistics import TOP, Summary, summarised
from pqrlearn.files import atomic_path, check_writable
from pqrlearn.loss import loss_named
from pqrlearn.names import Names
from pqrlearn.readers import format_batch, format_names, read
from pqrlearn.readers.cache import kept
from pqrlearn.rows import Batch


@click.group(short_help="List, download, convert, describe and simulate data sets.")
def data() -> None:
    """List, download, convert and describe the data sets of the paper, or simulate some.

    Files are searched in $PQRLEARN_DATA, in their original layout, then in the user's cache.
    """


@data.command("list", short_help="List all data sets, and which are present.")
@options.as_json
def list_all(as_json: bool) -> None:
    """List all data sets: rows, features, task, licence and folder."""
    found = [_described(datasets.get(name)) for name in datasets.NAMES]
    if as_json:
        show.print_json({"data": found})
        return
    cells = [
        (
            one["name"],
            "yes" if one["whole"] else "sample" if one["present"] else "no",
            one["task"],
            one["licence"],
            f"{one['rows']:,}",
            _or_dash(one["features"]),
        )
        for one in found
    ]
    show.table(
        "", ["name", "present", "task", "licence", "rows", "features"], cells, text_columns=4
    )
    places = [(one["name"], one["files"][0] if one["files"] else one["home"]) for one in found]
    show.table("\nfiles, or the folder for them", ["", ""], places, text_columns=2)


def _described(one: DataSet) -> dict[str, Any]:
    return {
        "name": one.name,
        "title": one.title,
        "task": loss_named(one.loss).task,
        "rows": one.rows,
        "features": one.features,
        "licence": one.licence,
        "source": one.source,
        "home": str(one.home),
        "present": one.present(),
        "whole": one.whole(),
        "files": [str(path) for path in one.files()] if one.present() else [],
        "downloads": [{"url": d.url, "checksum": d.checksum} for d in one.downloads],
    }


@data.command(short_help="Download a data set.")
@click.argument("name")
@options.quiet
def get(name: str, quiet: bool) -> None:
    """Download the data set NAME from its publisher and verify it."""
    one = datasets.get(name)
    if not one.whole():
        with show.tally(f"downloading {one.title}", "MB", quiet=quiet) as watch:
            one.fetch(watch)
        show.note(f"licence of {one.title}: {one.licence}, see {one.source}")
    for path in one.files():
        print(path)


@data.command(short_help="Write a data set as libsvm text or as a cache.")
@click.argument("name", metavar="NAME|FILE")
@click.option(
    "--to",
    "form",
    type=words.Choice(["libsvm", "cache"]),
    metavar="FORM",
    default="libsvm",
    show_default=True,
    help="Format: libsvm text, or a cache of parsed rows, which pqr train reads faster.",
)
@options.output("Where to write the rows.", required=True)
@options.quiet
@options.as_json
def convert(name: str, form: str, output: str, quiet: bool, as_json: bool) -> None:
    """Write the data set NAME, or the rows of a libsvm FILE, to the file of --output.

    Names of features, if there are any, go beside it, to FILE.names, for pqr train --names.
    """
    for path in (output, f"{output}.names"):
        check_writable(path)
    one = datasets.get(name) if name in datasets.NAMES or not _is_file(name) else None
    files = [str(path) for path in one.files()] if one else [name]
    inputs = one.read() if one else read(name)
    with show.tally("converting", "rows", quiet=quiet or as_json) as watch:
        rows = _write(form, watched(inputs, watch), output, None if one else name)
    names = inputs.names
    named = f"{output}.names" if len(names) else None
    if named:
        _write_names(names, named)
    if as_json:
        written = {"output": output, "names": named, "features": len(names)}
        show.print_json({"files": files, "rows": rows, **written})
        return
    cells = [("read", ", ".join(files)), ("rows", f"{rows:,} to {output}")]
    if named:
        cells.append(("features", f"{len(names):,} to {named}"))
    show.table("", ["", ""], cells, text_columns=2)


def _is_file(name: str) -> bool:
    return name == "-" or os.path.exists(name)


def _write(form: str, batches: Iterator[Batch], output: str, source: str | None) -> int:
    written = kept if form == "cache" else _as_libsvm
    return sum(len(batch) for batch in written(output, batches, source))


def _write_names(names: Names, path: str) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as out:
        out.writelines(format_names(names))


def _as_libsvm(path: str, batches: Iterator[Batch], source: str | None) -> Iterator[Batch]:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        for batch in batches:
            file.write(format_batch(batch))
            yield batch


@data.command(short_help="Write simulated clicks or ratings as CSV.")
@click.argument("what", type=words.Choice(["clicks", "ratings"]), metavar="clicks|ratings")
@options.output("Where to write the table.", required=True)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=50_000,
    show_default=True,
    metavar="N",
    help="Number of rows.",
)
@click.option(
    "--start",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of the first row: later rows are tomorrow's.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Random seed of the stream.")
def simulate(what: str, output: str, rows: int, start: int, seed: int) -> None:
    """Write simulated clicks or ratings as a CSV table, to try things out.

        pqr data simulate clicks -o clicks.csv

    The clicks are those of pqr demo. Equal options give equal files.
    """
    check_writable(output)
    stream = ClickStream.demo(seed) if what == "clicks" else RatingStream(seed=seed)
    with atomic_path(output) as temporary, temporary.open("w", encoding="ascii") as file:
        for cells in (stream.header, *stream.lines(rows, start)):
            file.write(",".join(cells) + "\n")
    show.table("", ["", ""], [("rows", f"{rows:,} to {output}")], text_columns=2)


@data.command(short_help="Show statistics of a data set.")
@click.argument("name")
@click.option(
    "--top",
    type=click.IntRange(min=0, max=TOP),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of most frequent features to show.",
)
@click.option("--all", "all_rows", is_flag=True, help="Count all rows, however many there are.")
@click.option("--figure", metavar="PATH", help="Plot the frequencies of features, as PNG and SVG.")
@options.quiet
@options.as_json
def stats(
    name: str, top: int, all_rows: bool, figure: str | None, quiet: bool, as_json: bool
) -> None:
    """Show statistics of the data set NAME, beside those in the paper.

    Of large files the first rows are counted, which takes seconds, and the report says so. With
    --all, all rows are; the result is stored in the user's cache and shown from then on.
    """
    one = datasets.get(name)
    if figure:
        check_writable(Path(figure).with_suffix(".png"))
    with show.tally("counting", "rows", quiet=quiet or as_json) as watch:
        counted = summarised(one, watch, all_rows=all_rows)
    drawn = _draw(one, counted, figure) if figure else []
    if as_json:
        show.print_json(_figures(one, counted, top) | {"figures": [str(path) for path in drawn]})
    else:
        _print(one, counted, top)
        for path in drawn:
            print(path)


def _figures(one: DataSet, counted: Summary, top: int) -> dict[str, Any]:
    return {
        "name": one.name,
        "files": [str(path) for path in one.files()],
        "sample": counted.rows < one.rows,
        "all_rows": counted.all_rows,
        "rows": counted.rows,
        "features": counted.features,
        "nonzeros_per_row": counted.nonzeros / counted.rows,
        "mean_label": counted.mean_label,
        "published": {"rows": one.rows, "features": one.features},
        "paper": {"rows": one.paper_rows, "features": one.paper_features},
        "most_frequent": counted.most_frequent[:top],
    }


def _print(one: DataSet, counted: Summary, top: int) -> None:
    label = loss_named(one.loss).mean_label
    cells = [
        ("rows", f"{counted.rows:,}", f"{one.rows:,}", _or_dash(one.paper_rows)),
        (
            "features",
            f"{counted.features:,}",
            _or_dash(one.features),
            _or_dash(one.paper_features),
        ),
        ("non-zeros per row", f"{counted.nonzeros / counted.rows:.2f}", "", ""),
        (label, f"{counted.mean_label:.4f}", "", ""),
    ]
    files = ", ".join(str(path) for path in one.files())
    show.table(f"{_title(one, counted)}: {files}", ["", "counted", "published", "the paper"], cells)
    if not counted.all_rows:
        print(f"Only the first {counted.rows:,} rows were counted; --all counts all of them.")
    rows = [
        (str(rank), name, f"{count:,}", f"{count / counted.rows:.1%}")
        for rank, (name, count) in enumerate(counted.most_frequent[:top])
    ]
    if rows:
        show.table("\nmost frequent", ["rank", "feature", "rows", "share"], rows, text_columns=2)


def _draw(one: DataSet, counted: Summary, path: str) -> list[Path]:
    ranks, rows = counted.occurrence
    panel = plots.Panel(
        "Distribution of feature occurrence",
        "rank of the feature",
        "rows in which it occurs",
        [plots.Line(_title(one, counted), ranks, rows, style="-")],
        x_axis="log",
        y_axis="log",
    )
    return plots.save(plots.draw([panel]), path)


def _title(one: DataSet, counted: Summary) -> str:
    return f"{one.title} (a sample)" if counted.rows < one.rows else one.title


def _or_dash(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"
