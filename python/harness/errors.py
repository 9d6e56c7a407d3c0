# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exceptions for harness's exit codes, so that a script catches the failure that it means, one class for each code.

The codes are those of ``harness --help``. A failed run that has left a profile gives it with the exception.
"""

from typing import Dict, List, Optional, TYPE_CHECKING, Type

if TYPE_CHECKING:
    from .profile import Profile


class HarnessError(Exception):
    """Failure of harness or of the firmware.

    ``exit_code`` is the status of the process, ``message`` its words, ``profile`` what it has measured up to there (None:
    nothing). A process that ended in no documented way, as by a signal, raises this class itself.
    """

    #: Words of `harness --help` for the exit code.
    meaning = "harness ended without one of its exit codes"
    exit_code: int = -1

    def __init__(self, message: str, *, exit_code: Optional[int] = None, profile: "Optional[Profile]" = None) -> None:
        super().__init__(message)
        self.message = message
        self.profile = profile
        if exit_code is not None:
            self.exit_code = exit_code


class FirmwareFailed(HarnessError):
    """The firmware failed: a non-zero exit status, reset, lock-up, asleep for ever, stuck, faulting only, …"""

    meaning = "the firmware failed"
    exit_code = 1


class BadInput(HarnessError):
    """An argument, a name or a file is wrong; nothing was run or written."""

    meaning = "usage or bad input"
    exit_code = 2


class ThresholdCrossed(HarnessError):
    """A run costs more than its threshold allows over the baseline."""

    meaning = "a regression threshold was crossed"
    exit_code = 3


class LimitReached(HarnessError):
    """A limit (``max_insns``, ``max_output``, ``timeout``), Ctrl-C or a full disk ended the run."""

    meaning = "a limit, timeout or output bound ended the run"
    exit_code = 4


class EmulatorFailed(HarnessError):
    """QEMU is missing, too old, or failed; ``harness doctor`` has the remedy."""

    meaning = "the emulator could not run"
    exit_code = 5


class NotRecorded(LookupError):
    """The profile does not contain what was asked for; the message names the option that records it."""


class Refused(RuntimeError):
    """The debugger refuses a read, a write or a move; the message has its reason, and the run stays where it is."""


class NotReached(RuntimeError):
    """The run came to its end, or to its beginning, before it came to the place."""


#: Class of each exit code but 0.
ERRORS: Dict[int, Type[HarnessError]] = {
    error.exit_code: error for error in (FirmwareFailed, BadInput, ThresholdCrossed, LimitReached, EmulatorFailed)
}


def error_of(exit_code: int, message: str, profile: "Optional[Profile]" = None) -> HarnessError:
    """Exception for a process's status other than 0 and its words on standard error."""
    lines: List[str] = [line for line in message.strip().splitlines() if line.strip()]
    # A failed run ends with a sentence that may have stood before.
    lines = [line for line in lines if not (line.startswith("end: ") and line[len("end: ") :] in lines)]
    words = "\n".join(lines)
    words = words[len("error: ") :] if words.startswith("error: ") else words
    kind = ERRORS.get(exit_code, HarnessError)
    return kind(words or kind.meaning, exit_code=exit_code, profile=profile)
