# SPDX-License-Identifier: MIT OR Apache-2.0
"""Place of the harness program: in the wheel, else in ``$HARNESS``, else on the PATH; and the wheel's command `harness`.

The current directory is never searched, not even if the PATH names it: it may be somebody else's repository. This module is
outside of the package and imports next to nothing, since the command would wait for all that the package imports.
"""

import os
import sys

#: The program that a wheel carries, with the emulators beside it.
CARRIED = os.path.join(os.path.dirname(os.path.realpath(__file__)), "harness", "bundle", "bin", "harness")


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def program() -> str:
    """Absolute path of the harness program.

    Raises FileNotFoundError if there is none, and if ``$HARNESS`` is not the absolute path of one.
    """
    if _is_program(CARRIED):
        return CARRIED
    named = os.environ.get("HARNESS")
    if named:
        if not os.path.isabs(named) or not _is_program(named):
            raise FileNotFoundError(f"$HARNESS is {named}: not the absolute path of a program")
        return named
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, "harness")
        # An empty or relative folder is meant from the current directory.
        if os.path.isabs(folder) and _is_program(path):
            return path
    raise FileNotFoundError(
        "harness is not installed: install the wheel that carries it, put it on the PATH, or set HARNESS to its path"
    )


def main() -> None:
    """Replaces this process by harness, so that signals, terminal and exit status are harness's own."""
    try:
        os.execv(program(), ["harness", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"error: {error}")
