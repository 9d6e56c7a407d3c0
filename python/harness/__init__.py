# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exact, reproducible profiles of firmware, without hardware.

``run`` executes firmware in QEMU and returns a ``Profile``: typed rows of functions, tasks, zones, coverage, with exact
counts. The module calls the program ``harness`` and reads its JSON; docs/python.md has examples.
"""

from .console_input import After, At, SetAfter, SetAt
from .decode import Address
from .errors import (
    BadInput,
    EmulatorFailed,
    FirmwareFailed,
    HarnessError,
    LimitReached,
    NotReached,
    NotRecorded,
    Refused,
    ThresholdCrossed,
)
from .executable import executable
from .measure import run
from .profile import Profile
from .session import Position, Session, Snapshot, open

__all__ = [
    "Address",
    "After",
    "At",
    "BadInput",
    "EmulatorFailed",
    "FirmwareFailed",
    "HarnessError",
    "LimitReached",
    "NotReached",
    "NotRecorded",
    "Position",
    "Profile",
    "Refused",
    "Session",
    "SetAfter",
    "SetAt",
    "Snapshot",
    "ThresholdCrossed",
    "executable",
    "open",
    "run",
]
