"""The one exception of this package."""

import re


class PipesimError(ValueError):
    """What was asked is wrong or could not be done; the text says what, where and how to mend it.

    It is the sentence that the program prints, with keywords for flags.
    """

    def __init__(self, sentence: str):
        # Between backquotes are commands, whose flags are flags; between quotes is what was given.
        super().__init__(
            re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"|--[a-z][a-z0-9-]*", _keyword, sentence)
        )


class PipesimWarning(UserWarning):
    """What a file says and a prediction does not heed."""


def _keyword(found: "re.Match[str]") -> str:
    text = found[0]
    return text[2:].replace("-", "_") if text.startswith("--") else text
