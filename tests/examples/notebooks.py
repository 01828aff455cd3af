"""Execute the notebooks of examples/ as a kernel does.

``python -m tests.examples.notebooks`` renews their outputs.

nbclient with ipykernel would be 37 more distributions of 106 MB, and a kernel in another process.
"""

import ast
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]
NOTEBOOKS: Final = sorted((Path(__file__).parents[2] / "examples/notebooks").glob("*.ipynb"))


def executed(notebook: Path) -> Json:
    """Return the notebook with the outputs of all code cells, which are executed in one namespace."""
    content: Json = json.loads(notebook.read_text())
    namespace: Json = {}
    number = 0
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell["execution_count"] = number
            cell["outputs"] = _outputs(cell, f"{notebook.name} {cell['id']}", namespace)
    return content


def _outputs(cell: Json, name: str, namespace: Json) -> list[Json]:
    """Return what a cell prints, and the value of its last line if that is an expression."""
    module = ast.parse("".join(cell["source"]))
    last = module.body.pop() if module.body and isinstance(module.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with redirect_stdout(printed):
        exec(compile(module, name, "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    outputs: list[Json] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        outputs.append({
            "data": {"text/html": value._repr_html_().splitlines(keepends=True)},
            "execution_count": cell["execution_count"],
            "metadata": {},
            "output_type": "execute_result",
        })  # fmt: skip
    return outputs


def text_of(cell: Json) -> str:
    """Return what a cell has printed."""
    return "".join(
        line for output in cell["outputs"] if output["output_type"] == "stream" for line in output["text"]
    )


def main() -> None:
    """Write the outputs into the notebooks; pandas has to be installed."""
    for notebook in NOTEBOOKS:
        notebook.write_text(json.dumps(executed(notebook), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
