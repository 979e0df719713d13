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

    def flags(self, given: Mapping[str, Any]) -> Dict[str, Union[str, bool]]:
        """Texts by keyword, of what was given; True of a switch."""
        return {
            keyword: value is True or self.text(keyword, value)
            for keyword, value in given.items()
            if value is not None and value is not False
        }

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


def _flag_words(texts: Mapping[str, Union[str, bool]]) -> List[str]:
    words = []
    for keyword, text in texts.items():
        flag = "--" + keyword.rstrip("_").replace("_", "-")
        words.append(flag if text is True else f"{flag}={text}")
    return words


_outputs = ("trace", "export", "figure", "layout_picture")


def answer(command: str, given: Dict[str, Any], arguments: Sequence[str]) -> Any:
    """What a command finds, for keywords as its flags, some of which are arguments; called by
    commands.py."""
    files = _Words()
    positional = [given.pop(name) for name in arguments]
    if command == "predict":
        schedule = given["schedule"]
        if isinstance(schedule, Schedule) and schedule.asked:
            for keyword, value in {**schedule.asked, "schedule": schedule.name}.items():
                other = given[keyword]
                if not (other is None or other is False or other is schedule or other == value):
                    raise PipesimError(f"{keyword}: the schedule has {value}; omit it")
                given[keyword] = value
        texts = files.flags(given)
        if any(texts.get(output) for output in _outputs):
            _run(command, ["--quiet", *_flag_words(texts)], files)
        for output in _outputs:
            texts.pop(output, None)
        try:
            return predict_texts(texts)
        except PipesimError as error:
            raise PipesimError(files.mended(str(error))) from None
    named = [
        files.text(command, one)
        for values in positional
        for one in (values if isinstance(values, tuple) else [values])
        if one is not None
    ]
    words = _flag_words(files.flags(given))
    if command == "calibrate":
        costs = files.file("costs", ".json")
        report = _run(command, [*words, "--output", costs, "--", *named], files)
        found = answers.read(command, pathlib.Path(costs).read_text(encoding="utf-8"))
        found.told = report.rpartition("\nCosts: ")[0]
        return found
    found = answers.read(command, _run(command, [*words, "--json", "--", *named], files))
    if "figure" in given:
        found.draw_with(lambda: _drawn(command, words, named, files))
    return found


def _drawn(command: str, words: List[str], named: List[str], files: _Words) -> str:
    picture = files.file("picture", ".svg")
    _run(command, [*words, "--json", "--figure", picture, "--", *named], files)
    return pathlib.Path(picture).read_text(encoding="utf-8")
