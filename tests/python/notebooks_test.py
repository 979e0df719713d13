"""The notebooks run, and still say what they show."""

import pathlib

import pytest

pytestmark = pytest.mark.peer
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "notebooks"


def texts(notebook):
    """What its cells print, and the text form of what they show."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            yield output.get("text") or output["data"]["text/plain"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_runs_as_shown(path):
    shown = nbformat.read(path, as_version=4)
    run = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        run, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    assert list(texts(run)) == list(texts(shown))
