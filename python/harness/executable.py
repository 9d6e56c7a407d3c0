# SPDX-License-Identifier: MIT OR Apache-2.0
"""Place of the harness program: in the wheel, else in ``$HARNESS``, else on the PATH.

The current directory is never searched, not even if the PATH names it: it may be somebody else's repository.
"""

import os
from pathlib import Path
from typing import Optional

#: The program that a wheel carries, with the emulators beside it.
CARRIED = Path(__file__).resolve().parent / "bundle" / "bin" / "harness"


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def carried() -> Optional[Path]:
    """The program that this package carries; None: the package was installed without one."""
    return CARRIED if _is_program(CARRIED) else None


def executable() -> Path:
    """Absolute path of the harness program.

    Raises FileNotFoundError if there is none, and if ``$HARNESS`` is not the absolute path of one.
    """
    found = carried()
    if found is not None:
        return found
    named = os.environ.get("HARNESS")
    if named:
        path = Path(named)
        if not path.is_absolute() or not _is_program(path):
            raise FileNotFoundError(f"$HARNESS is {named}: not the absolute path of a program")
        return path
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = Path(folder) / "harness"
        # An empty or relative folder is meant from the current directory.
        if os.path.isabs(folder) and _is_program(path):
            return path
    raise FileNotFoundError(
        "harness is not installed: install the wheel that carries it, put it on the PATH, or set HARNESS to its path"
    )
