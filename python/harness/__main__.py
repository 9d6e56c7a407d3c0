# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command `harness` of the wheel, and `python -m harness`: becomes the program, with the same arguments."""

import os
import sys

from .executable import executable


def main() -> None:
    """Replaces this process by harness, so that signals, terminal and exit status are harness's own."""
    try:
        path = executable()
        os.execv(path, ["harness", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
