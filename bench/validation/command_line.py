"""What the programs here share: flags, and how they end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from program import DEFAULT_PROGRAM, InputError


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def __init__(self, description: str) -> None:
        super().__init__(
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument(
            "--pipesim",
            type=Path,
            metavar="PATH",
            default=DEFAULT_PROGRAM,
            help="the program; default build/release/pipesim",
        )

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help")


def run_program(name: str, work: Callable[[], int]) -> NoReturn:
    """Ends with what the work returns, or with 2 and a sentence where the input is wrong."""
    try:
        sys.exit(work())
    except InputError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(2)
