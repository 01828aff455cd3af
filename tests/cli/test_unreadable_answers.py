"""An answer that is not the API's, such as a proxy's page of login, is one message, never a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from reference.commands import commands
from typer.core import TyperCommand

from tests.cli.conftest import Quorate

ANSWERS = {
    "a page of login": b"<!doctype html><title>Log in</title>",
    "numbers": b'{"metadata": 5, "items": 7, "status": 3, "spec": "x", "kind": 1}',
}
# They run until they are stopped and repeat a request, need no cluster, or make a cluster of their own.
EXCLUDED = frozenset((
    "controllers", "scheduler", "witness", "dashboard", "demo", "local", "simulate backtest", "examples",
    "crds", "manifests", "webhooks",
))  # fmt: skip
GIVEN = {
    "explain": ["job/train"],
    "simulate": [],
    "snapshot": [],
    "workload delete": ["train", "--yes"],
    **{f"vcjob {verb}": ["train"] for verb in ("view", "suspend", "resume", "delete")},
    **{f"vcqueue {verb}": ["team"] for verb in ("get", "delete")},
    "submit": ["--name", "train", "--image", "busybox", "--queue", "team", "--", "true"],
    "vcjob run": ["--name", "train", "--image", "busybox"],
    "queue create": ["team", "--nominal-quota", "default:cpu=4"],
    "reservation create": ["night", "--amounts", "default:cpu=2", "--duration", "8h", "--maintenance"],
    "vcqueue create": ["team"],
    "vcqueue operate": ["team", "--action", "close"],
    "cluster kubeconfig": ["--server", "https://worker"],
}  # fmt: skip


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """Answer every request with 200 and ``body``; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def arguments_of(name: str, command: TyperCommand) -> list[str]:
    """Return words with which the command sends requests: a name for each required argument."""
    if name in GIVEN:
        return GIVEN[name]
    return [
        parameter.name or "" for parameter in command.params
        if parameter.required and parameter.param_type_name == "argument"
    ]  # fmt: skip


@pytest.mark.parametrize("body", ANSWERS.values(), ids=ANSWERS)
def test_no_command_ends_with_a_traceback(
    quorate: Quorate, body: bytes, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", "none")
    wrong = {}
    with answering(body) as url:
        for path, command in commands():
            name = " ".join(path)
            if path[0] in EXCLUDED or name in EXCLUDED:
                continue
            try:
                done = quorate("--server", url, "--token", "x", *path, *arguments_of(name, command))
            except Exception as error:
                wrong[name] = repr(error)
                continue
            if done.code != 2 or "the answer cannot be read" not in done.err:
                wrong[name] = f"{done.code}: {done.out}{done.err}"
    assert wrong == {}
