# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs that the tests of one session share: each firmware with each set of options runs once.

Processes of one session (pytest-xdist's workers) meet in one folder, where a lock for each run makes the second process
wait for the first. A run is known by the content of its firmware and by its options, so that a rebuilt file runs anew.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from . import suite
from .errors import error_of
from .measure import run
from .profile import Profile


@dataclass(frozen=True)
class Request:
    """A run that a test wants."""

    #: The firmware.
    elf: Path
    #: Options of ``harness.run``.
    options: Mapping[str, Any]
    #: Limits against the baseline; None: the run is compared with nothing.
    thresholds: Optional[suite.Thresholds] = None
    #: Name of its numbers in the baseline.
    name: str = ""

    def key(self) -> str:
        """Name of the run, from the firmware's content and all else that it depends on."""
        digest = hashlib.sha256()
        try:
            digest.update(self.elf.read_bytes())
        except OSError:
            # harness reports it.
            pass
        digest.update(repr((str(self.elf), sorted(self.options.items()), self.thresholds, self.name)).encode())
        return digest.hexdigest()[:32]


class SharedRuns:
    """Runs in a folder that belongs to the session, held against one baseline."""

    def __init__(self, folder: Path, baseline: suite.Baseline) -> None:
        self.folder = folder
        self.baseline = baseline
        self._profiles: Dict[str, Profile] = {}

    def profile(self, request: Request, *, check: bool = True) -> Profile:
        """Profile of a run. Raises the exceptions of ``harness.run``, and ThresholdCrossed."""
        key = request.key()
        if key not in self._profiles:
            self._profiles[key] = self._run(self.folder / key, request)
        profile = self._profiles[key]
        if check and profile.exit_code:
            raise error_of(profile.exit_code, profile.messages, profile)
        return profile

    def _run(self, folder: Path, request: Request) -> Profile:
        # Where it does not exist, pytest has to start all the same.
        import fcntl

        folder.mkdir(parents=True, exist_ok=True)
        outcome = folder / "outcome.json"
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if outcome.exists():
                known = json.loads(outcome.read_text())
                profile = Profile.load(folder / known["profile"], elf=request.elf)
                profile.exit_code, profile.messages = known["exit_code"], known["messages"]
                return profile
            profile = self._measured(folder, request)
            known = {
                "profile": str(profile.path.relative_to(folder)),
                "exit_code": profile.exit_code,
                "messages": profile.messages,
            }
            # Written last: without it, a run was ended by force and is repeated.
            outcome.write_text(json.dumps(known))
            return profile

    def _measured(self, folder: Path, request: Request) -> Profile:
        if request.thresholds is None:
            directory = folder / (request.elf.stem + ".profile")
            return run(request.elf, output=directory, check=False, **request.options)
        profile, exit_code, failures = suite.run(
            request.elf, request.name, request.options, request.thresholds, self.baseline, folder / "report"
        )
        profile.exit_code, profile.messages = exit_code, failures
        return profile
