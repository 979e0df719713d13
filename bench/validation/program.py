"""pipesim as a program: what it predicts for command lines, as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

Json = dict[str, Any]

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_PROGRAM = REPOSITORY / "build" / "release" / "pipesim"


class InputError(Exception):
    """What is wrong with a file or a command line, in one sentence."""


class Refusal(InputError):
    """pipesim says that what it is asked can't be."""


class Pipesim:
    """Runs pipesim, as many times at once as there are cores.

    Files that command lines name lie in a temporary folder, which ends with the object.
    """

    def __init__(self, path: Path) -> None:
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise InputError(f"{path}: is no program; build pipesim, or name it by --pipesim PATH")
        self._path = path.resolve()
        self._pool = ThreadPoolExecutor(os.cpu_count())
        self._folder = tempfile.TemporaryDirectory(prefix="pipesim-validation-")
        self._files: dict[str, str] = {}
        self.runs = 0  # predictions so far

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def file(self, content: Json) -> str:
        """The path of a file with this content; the same content has one file."""
        text = json.dumps(content)
        if text not in self._files:
            path = Path(self._folder.name) / f"{len(self._files)}.json"
            path.write_text(text)
            self._files[text] = str(path)
        return self._files[text]

    def predict(self, commands: Iterable[Sequence[str]]) -> list[Json]:
        """What `pipesim ... --json` prints for each of the command lines, in their order."""
        lines = [[*command, "--json"] for command in commands]
        self.runs += len(lines)
        return list(self._pool.map(self._run, lines))

    def predict_possible(self, commands: Iterable[Sequence[str]]) -> list[Json | None]:
        """The same, with nothing for those that pipesim refuses."""
        lines = [[*command, "--json"] for command in commands]
        self.runs += len(lines)
        return list(self._pool.map(self._run_possible, lines))

    def preset(self, kind: str, name: str) -> Json:
        """The file of a preset, or another; `kind` is models, clusters, devices or software."""
        return json.loads(Path(name).read_text()) if "/" in name else self._run([kind, name])

    def software(self, name: str, device: str) -> Json:
        """The values of a preset on a device, with those of its base."""
        file = self.preset("software", name)
        base = self.software(file["base"], device) if "base" in file else {}
        return base | file.get("values", {}) | file.get("devices", {}).get(device, {})

    def _run_possible(self, arguments: Sequence[str]) -> Json | None:
        try:
            return self._run(arguments)
        except Refusal:
            return None

    def _run(self, arguments: Sequence[str]) -> Json:
        try:
            done = subprocess.run([self._path, *arguments], capture_output=True, text=True)
        except OSError as error:
            raise InputError(f"{self._path}: cannot be run: {error.strerror}") from error
        if done.returncode != 0:
            first_line = done.stderr.strip().partition("\n")[0]
            error = Refusal if done.returncode == 2 else InputError
            raise error(f"{first_line} (of `{self._path.name} {' '.join(arguments)}`)")
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError as error:
            raise InputError(f"{self._path}: prints no JSON; name pipesim by --pipesim") from error


def write_whole(path: Path, text: str) -> None:
    """The file has all of the text, or stays as it was."""
    part = path.parent / f"{path.name}.{os.getpid()}.part"
    try:
        try:
            part.write_text(text)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def inlined(preset: Json) -> Json:
    """As it may stand in another file."""
    return {key: value for key, value in preset.items() if key not in ("format", "version")}


def value_of(entry: Any) -> Any:
    """A value of a device's or cluster's file, which may have its source beside it."""
    return entry["value"] if isinstance(entry, dict) else entry


def nanoseconds(text: str) -> int:
    """Of a time as those files write it."""
    for unit, length in (("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        if text.endswith(unit):
            return round(float(text.removesuffix(unit)) * length)
    raise InputError(f"{text}: is no time with a unit")
