"""Runs the program pipesim that comes with this package."""

import os
import sys

from .program import path


def main() -> None:
    """The entry point `pipesim`: becomes the program."""
    os.execv(path(), [path(), *sys.argv[1:]])


if __name__ == "__main__":
    main()
