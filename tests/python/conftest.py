"""Tests of the Python package: of what is installed, or of $PYTHONPATH.

python -m pytest tests/python
"""

import subprocess

import pytest

import pipesim
import pipesim.program


@pytest.fixture(scope="session")
def command_line():
    """Runs the program and gives what it prints."""

    def run(*words):
        done = subprocess.run(
            [pipesim.program.path(), *map(str, words)], capture_output=True, text=True, check=True
        )
        return done.stdout

    return run
