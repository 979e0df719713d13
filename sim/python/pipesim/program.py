"""Asks the program pipesim, which comes with this package.

Predictions are made in this process (prediction.py). What reads files or searches for long runs in
a process of its own: it can be interrupted, and its memory returns to the system.
"""

import datetime
import decimal
import json
import os
import pathlib
import subprocess
import tempfile
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import answers
from .errors import PipesimError, PipesimWarning
from .prediction import Prediction, predict_texts
from .schedule import Schedule

# A text as the command line has it ("12ms", "1.5GiB"), a number, a path, a list of these, a duration;
# costs, a model or a cluster as a dictionary; a Schedule; or, where a trace is read, a Prediction.
Text = Union[
    str, int, float, os.PathLike, Sequence, datetime.timedelta, Mapping, Schedule, Prediction
]
Given = Optional[Text]

_here = pathlib.Path(__file__).parent


def path() -> str:
    """The program's path: $PIPESIM, that of this package, or the one it was built with."""
    known = [os.environ.get("PIPESIM"), _here / "bin" / "pipesim", _here.parents[1] / "pipesim"]
    for one in known:
        if one and os.access(one, os.X_OK):
            return str(one)
    raise PipesimError("the program pipesim is missing: install the package anew, or set PIPESIM")


class _Words:
    """Keywords as words of a command line; files for what has no text, as long as this lives."""

    def __init__(self) -> None:
        self._folder: Optional[tempfile.TemporaryDirectory] = None
        self._names: Dict[str, str] = {}  # of the files, by path

    def file(self, name: str, ending: str) -> str:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="pipesim-")
        made = os.path.join(self._folder.name, f"{len(self._names)}-{name}{ending}")
        self._names[made] = name
        return made

    def written(self, name: str, ending: str, text: str) -> str:
        with open(made := self.file(name, ending), "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return made

    def text(self, keyword: str, value: Text) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, Prediction):
            value.write_trace(made := self.file(keyword, ".json"))
            return made
        if isinstance(value, Schedule):
            return self.written(keyword, ".csv", value.csv())
        if isinstance(value, Mapping):
            return self.written(keyword, ".json", json.dumps(value))
        if isinstance(value, datetime.timedelta):
            return f"{round(value / datetime.timedelta(microseconds=1))}us"
        if hasattr(value, "tolist"):  # numpy's
            return self.text(keyword, value.tolist())
        if isinstance(value, (list, tuple)):
            return ",".join(self.text(keyword, one) for one in value)
        if isinstance(value, float):
            return format(decimal.Decimal(repr(value)), "f")
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, int):
            return str(value)
        raise PipesimError(f"{keyword}: a {type(value).__name__} is no text, number, path or list")

    def flags(self, given: Mapping[str, Any], usual: Mapping[str, Any]) -> Dict[str, Any]:
        """What was given: a text, or True of a switch, or a list of texts that repeat."""
        texts: Dict[str, Any] = {}
        for keyword, value in given.items():
            default = usual[keyword]
            if value is None or value is False or value is default:
                continue
            if default is False and value is not True:
                raise PipesimError(f"{keyword}: a switch is True or False, not {value!r}")
            if default == ():
                values = value if isinstance(value, (list, tuple)) else [value]
                texts[keyword] = [self.text(keyword, one) for one in values]
            else:
                texts[keyword] = value is True or self.text(keyword, value)
        return texts

    def mended(self, sentence: str) -> str:
        for made, name in self._names.items():
            sentence = sentence.replace(made, name)
        return sentence


def _run(command: str, words: List[str], files: _Words) -> str:
    done = subprocess.run(
        [path(), command, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    errors = []
    for line in done.stderr.splitlines():
        if line.startswith("pipesim: note: "):
            warnings.warn(files.mended(line[15:]), PipesimWarning, stacklevel=4)
        elif line:
            errors.append(line[9:] if line.startswith("pipesim: ") else line)
    if done.returncode != 0:
        ended = f"pipesim {command} ended with status {done.returncode}"
        raise PipesimError(files.mended(" ".join(errors) or ended))
    return files.mended(done.stdout)


def _flag_words(texts: Mapping[str, Any]) -> List[str]:
    words = []
    for keyword, text in texts.items():
        flag = "--" + keyword.rstrip("_").replace("_", "-")
        for one in text if isinstance(text, list) else [text]:
            words.append(flag if one is True else f"{flag}={one}")
    return words


def answer(command: str, given: Dict[str, Any], arguments: Sequence[str]) -> Any:
    """What a command finds, for keywords as its flags, some of which are arguments; called by
    commands.py."""
    from . import commands

    usual = vars(commands)[command + "_" * (command == "import")].__kwdefaults__
    files = _Words()
    if command == "predict":
        return _predicted(given, usual, files)
    positional = [given.pop(name) for name in arguments]
    named = [
        files.text(command, one)
        for values in positional
        for one in (values if isinstance(values, tuple) else [values])
        if one is not None
    ]
    texts = files.flags(given, usual)

    def run(*output: str) -> str:
        return _run(command, [*_flag_words(texts), *output, "--", *named], files)

    if command == "calibrate":
        costs = files.file("costs", ".json")
        report = run("--output", costs)
        found = answers.read(command, pathlib.Path(costs).read_text(encoding="utf-8"))
        found.told = report.rpartition("\nCosts: ")[0]
        return found
    found = answers.read(command, run("--json"))
    if "figure" in usual:
        texts.pop("figure", None)
        picture = files.file("picture", ".svg")

        def draw() -> str:
            run("--json", "--figure", picture)
            return pathlib.Path(picture).read_text(encoding="utf-8")

        found.draw_with(draw)
    return found


def _predicted(given: Dict[str, Any], usual: Mapping[str, Any], files: _Words) -> Prediction:
    schedule = given["schedule"]
    if isinstance(schedule, Schedule) and schedule.asked:
        for keyword, value in {**schedule.asked, "schedule": schedule.name}.items():
            other = given[keyword]
            if not (other is None or other is False or other is schedule or other == value):
                raise PipesimError(f"{keyword}: the schedule has {value}; omit it")
            given[keyword] = value
    texts = files.flags(given, usual)
    outputs = ("trace", "export", "figure", "layout_picture")
    if any(output in texts for output in outputs):
        _run("predict", ["--quiet", *_flag_words(texts)], files)
    for output in outputs:
        texts.pop(output, None)
    for keyword, text in texts.items():
        if text is True and usual[keyword] is None:
            raise PipesimError(f"{keyword}: a value is needed, not True")
    try:
        return predict_texts(texts)
    except PipesimError as error:
        raise PipesimError(files.mended(str(error))) from None
