"""Asks the program pipesim, which comes with this package.

Predictions are made in this process (prediction.py). What reads files or searches for long runs in
a process of its own: it can be interrupted, and its memory returns to the system.
"""

import datetime
import decimal
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import warnings
import weakref
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

_objects = ("costs", "model", "cluster", "software")  # keywords that take a dictionary
_here = pathlib.Path(__file__).parent


def path() -> str:
    """The program's path: $PIPESIM, that of this package, or the one it was built with."""
    known = [os.environ.get("PIPESIM"), _here / "bin" / "pipesim", _here.parents[1] / "pipesim"]
    for one in known:
        if one and os.path.isfile(one) and os.access(one, os.X_OK):
            return str(one)
    raise PipesimError("the program pipesim is missing: install the package anew, or set PIPESIM")


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # a copy by fork leaves it
        shutil.rmtree(folder, ignore_errors=True)


def _plain(value: Any) -> Any:
    """What JSON takes of numpy's values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise PipesimError(f"a {type(value).__name__} is no value of JSON")


class _Words:
    """Keywords as words of a command line; files for what has no text, as long as this lives."""

    def __init__(self) -> None:
        self.cwd = os.getcwd()  # names of files are those of now, also for a picture later
        self._folder = ""
        self._names: Dict[str, str] = {}  # of the files, by path

    def file(self, name: str, ending: str) -> str:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="pipesim-")
            weakref.finalize(self, _remove, self._folder, os.getpid())
        made = os.path.join(self._folder, f"{len(self._names)}-{name}{ending}")
        self._names[made] = name
        return made

    def written(self, name: str, ending: str, text: str) -> str:
        with open(made := self.file(name, ending), "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return made

    def text(self, keyword: str, value: Text) -> str:
        if isinstance(value, str):
            if "\0" in value:
                raise PipesimError(f"{keyword}: {value!r} has a NUL character")
            return str.__str__(value)
        if isinstance(value, Prediction):
            value.write_trace(made := self.file(keyword, ".json"))
            return made
        if isinstance(value, Schedule):
            return self.written(keyword, ".csv", value.csv())
        if isinstance(value, Mapping) and keyword in _objects:
            return self.written(keyword, ".json", json.dumps(value, default=_plain))
        if isinstance(value, datetime.timedelta):
            return f"{round(value / datetime.timedelta(microseconds=1))}us"
        if hasattr(value, "tolist"):  # numpy's
            return self.text(keyword, value.tolist())
        if isinstance(value, (list, tuple)):
            return ",".join(self.text(keyword, one) for one in value)
        if isinstance(value, float):
            whole = value.is_integer() and abs(value) < 2**53
            return str(int(value)) if whole else format(decimal.Decimal(repr(value)), "f")
        if isinstance(value, os.PathLike):
            return os.fsdecode(value)
        if isinstance(value, int):
            return str(value)
        raise PipesimError(f"{keyword}: a {type(value).__name__} is no text, number, path or list")

    def flags(self, given: Mapping[str, Any], function: Any) -> Dict[str, Any]:
        """What was given: a text, or True of a switch, or a list of texts that repeat. The
        function's defaults and types tell them apart."""
        texts: Dict[str, Any] = {}
        for keyword, value in given.items():
            default = function.__kwdefaults__[keyword]
            if value is None or value is False or value is default:
                continue
            if default is False and value is not True:
                raise PipesimError(f"{keyword}: a switch is True or False, not {value!r}")
            if value is True and function.__annotations__[keyword] == "Given":
                raise PipesimError(f"{keyword}: a value is needed, not True")
            if default == ():
                values = value if isinstance(value, (list, tuple)) else [value]
                texts[keyword] = [self.text(keyword, one) for one in values]
            else:
                texts[keyword] = value is True or self.text(keyword, value)
            if texts[keyword] == "" or texts[keyword] == [""]:
                raise PipesimError(f"{keyword}: a value is needed, not an empty text")
        return texts

    def mended(self, sentence: str) -> str:
        for made, name in self._names.items():
            sentence = sentence.replace(made, name)
        return sentence


def _run(command: str, words: List[str], files: _Words) -> str:
    done = subprocess.run(
        [path(), command, *words],
        cwd=files.cwd,
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

    function = vars(commands)[command + "_" * (command == "import")]
    files = _Words()
    if command == "predict":
        return _predicted(given, function, files)
    named: List[str] = []
    for name in arguments:
        values = given.pop(name)
        for one in values if isinstance(values, tuple) else [values]:
            several = one if isinstance(one, (list, tuple)) else [one]
            named += [files.text(name, each) for each in several if each is not None]
    texts = files.flags(given, function)

    def run(*output: str) -> str:
        return _run(command, [*_flag_words(texts), *output, "--", *named], files)

    told = ""
    if command == "calibrate":
        costs = files.file("costs", ".json")
        told = run("--output", costs).rpartition("\nCosts: ")[0]
        found = _read(command, pathlib.Path(costs).read_text(encoding="utf-8"))
    else:
        if "export" in texts:  # written, or told, instead of a report
            told = run()
            texts = {key: text for key, text in texts.items() if key not in ("export", "output")}
        found = _read(command, run("--json"))
    found.told = told
    if "figure" in given and (command != "schedules" or "compare" in texts):
        texts.pop("figure", None)
        picture = files.file("picture", ".svg")

        def draw() -> str:
            run("--json", "--figure", picture)
            return pathlib.Path(picture).read_text(encoding="utf-8")

        found.draw_with(draw)
    return found


def _read(command: str, text: str) -> Any:
    try:
        return answers.read(command, text)
    except ValueError:
        raise PipesimError(f"{path()} {command} printed no JSON: is it pipesim?") from None


def _predicted(given: Dict[str, Any], function: Any, files: _Words) -> Prediction:
    schedule = given["schedule"]
    if isinstance(schedule, (list, tuple)):
        raise PipesimError("schedule: make a pipesim.Schedule of a list of lists")
    if isinstance(schedule, Schedule) and schedule.asked:
        for keyword, value in {**schedule.asked, "schedule": schedule.name}.items():
            other = given[keyword]
            if not (other is None or other is False or other is schedule or other == value):
                raise PipesimError(f"{keyword}: the schedule has {value}; omit it")
            given[keyword] = value
    outputs = ("trace", "export", "figure", "layout_picture")
    if any(given[output] for output in outputs):
        _run("predict", ["--quiet", *_flag_words(files.flags(given, function))], files)
    given.update(dict.fromkeys(outputs))
    own = schedule._core if isinstance(schedule, Schedule) and not schedule.asked else None
    texts = files.flags({**given, "schedule": None} if own else given, function)
    try:
        found = predict_texts({**texts, "schedule": own} if own else texts)
    except PipesimError as error:
        raise PipesimError(files.mended(str(error))) from None
    assert found is not None, "all values are texts"
    return found
