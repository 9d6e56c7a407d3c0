# SPDX-License-Identifier: MIT OR Apache-2.0
"""The harness program that this package executes, for those who call it themselves."""

from pathlib import Path

from harness_program import program


def executable() -> Path:
    """Absolute path of the program: that of the wheel, of ``$HARNESS``, or of the PATH, never one of the current directory.

    Raises FileNotFoundError if there is none.
    """
    return Path(program())
