"""``quorate examples``: the examples of the documentation, which are part of the package."""

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Final

import typer

from quorate.cli.lazy_commands import command_group
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import is_structured, print_rows, print_value
from quorate.inspect.errors import UsageError
from quorate.inspect.formatting import plural

README: Final = "README.md"
_DIRECTORY: Final = Path("examples")  # as in the documentation, so that its commands work as they are

examples = command_group("The examples of the documentation: list them, copy them to a directory.")


@examples.command("list")
def list_examples(output: o.ValueFormat = o.Output.TABLE) -> None:
    """List the examples and the first command of each.

    [b]Example:[/b] quorate examples list
    """
    with as_file(files("quorate") / "examples") as root:
        titles = {name: _title(root / name) for name in _names(root)}
    if is_structured(output):
        print_value(titles, output)
        return
    print_rows(("NAME", "ABOUT"), [*titles.items()])
    typer.echo("\nquorate examples copy NAME writes one to examples/NAME; its README.md says what to run.")


@examples.command()
def copy(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which examples. Default: all.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where to write a directory for each.")
    ] = _DIRECTORY,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that differ.")] = False,
) -> None:
    """Copy examples to a directory; the commands of the documentation expect them in examples.

    Nothing is written if a file exists with other content.

    [b]Example:[/b] quorate examples copy all-or-nothing && quorate local run examples/all-or-nothing
    """
    with as_file(files("quorate") / "examples") as root:
        present = _names(root)
        chosen = names or present
        for name in chosen:
            if name not in present:
                raise UsageError(f"{name!r} is no example (quorate examples list shows {', '.join(present)})")
        contents = {
            output / path.relative_to(root): path.read_bytes()
            for name in chosen
            for path in _files(root / name)
        }
    different = [path for path, content in contents.items() if path.exists() and path.read_bytes() != content]
    if different and not force:
        raise UsageError(f"{different[0]}: exists with other content (--force overwrites it)")
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{error.filename}: {(error.strerror or str(error)).lower()}") from error
    typer.echo(
        f"{plural(len(contents), 'file')} written to {', '.join(str(output / name) for name in chosen)}"
    )
    typer.echo(f"next: see {output / chosen[0] / README}")


def _names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if (path / README).is_file())


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _title(directory: Path) -> str:
    heading: str = (directory / README).read_text(encoding="utf-8").partition("\n")[0]
    return heading.removeprefix("# ")
