# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs that are held against a baseline, by `harness test` on a suite of one image that is written for the run.

Thresholds, baselines and verdicts are those of docs/suites.md; the baseline is a text file that reviews well in git.
"""

import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from . import command
from .console_input import At, SetAfter, SetAt
from .errors import BadInput, ThresholdCrossed, error_of
from .profile import Profile

#: Limits of an image: a limit, or limits by name, as in the table `thresholds` of a suite.
Thresholds = Mapping[str, Any]

#: Keys of a suite whose options have another name in `harness.run`; all others are that option's, with hyphens.
_KEYS = {"for_": "for", "from_": "from"}

#: Options of `harness.run` that a suite's image has no key for.
_ABSENT = ("spans", "options", "sandbox")


class Baseline(NamedTuple):
    """Numbers that a run is compared with."""

    #: Directory of all baselines.
    folder: Path
    #: Name of the baseline, a folder in it.
    name: str
    #: Whether the run's numbers become the baseline.
    is_saved: bool


def _toml(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(str(key))} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, Path):
        value = str(value)
    # Of JSON's escapes TOML lacks those of pairs, and a DEL has to be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(option: str, value: Any) -> Any:
    if option == "input":
        texts: List[Dict[str, Any]] = []
        for each in value:
            if isinstance(each, (SetAt, SetAfter)):
                when = {"at": each.at} if isinstance(each, SetAt) else {"after": each.prompt}
                texts.append({**when, "set": each.changes})
                continue
            if isinstance(each.text, bytes):
                raise BadInput("a run with thresholds types text, not bytes")
            when = {"at": each.insns} if isinstance(each, At) else {"after": each.prompt}
            texts.append({**when, "text": each.text})
        return texts
    if option == "stub":
        return {name: True if returned is None else returned for name, returned in value.items()}
    if option == "files":
        return {name: command.path(path) for name, path in value.items()}
    return command.path(value) if option in ("symbols", "svd") else value


def text(elf: Path, name: str, options: Mapping[str, Any], thresholds: Thresholds, baseline: Baseline) -> str:
    """A suite of one image. Raises BadInput for an option that no image of a suite has."""
    lines = [f"baselines = {_toml(baseline.folder)}", f"baseline = {_toml(baseline.name)}", "", "[[image]]"]
    entry: Dict[str, Any] = {"name": name, "elf": elf}
    for option, value in options.items():
        if option in _ABSENT:
            raise BadInput(f"a run with thresholds takes no {option}: a suite has no key for it")
        if value is not None and value != ():
            entry[_KEYS.get(option, option.replace("_", "-"))] = _value(option, value)
    entry["thresholds"] = dict(thresholds)
    return "\n".join([*lines, *(f"{key} = {_toml(value)}" for key, value in entry.items()), ""])


def run(
    elf: Path,
    name: str,
    options: Mapping[str, Any],
    thresholds: Thresholds,
    baseline: Baseline,
    output: Path,
) -> Tuple[Profile, int, str]:
    """Runs firmware in a suite; returns the profile, the exit code, and each failure in a line.

    Raises BadInput, or the exception of the exit code if there is no profile. ``output`` is a directory for the reports.
    """
    output.mkdir(parents=True, exist_ok=True)
    suite = output / "harness.toml"
    suite.write_text(text(elf, name, options, thresholds, baseline), encoding="utf-8")
    arguments = ["test", str(suite), "--json", "--quiet", f"--output={output}"]
    if baseline.is_saved:
        arguments.append(f"--save-baseline={baseline.name}")
    outcome = command.call(arguments)
    image: Optional[Dict[str, Any]] = None
    if outcome.stdout:
        image = command.document(outcome.stdout, "harness-report")["cases"][0]
    if image is None or image["profile"] is None:
        findings = _failures(image) if image is not None else outcome.stderr
        raise error_of(outcome.exit_code, findings or outcome.stderr)
    profile = Profile.load(output / image["profile"], elf=elf)
    if baseline.is_saved and outcome.exit_code == ThresholdCrossed.exit_code:
        # The numbers are the baseline now.
        return profile, 0, _failures(image)
    return profile, outcome.exit_code, _failures(image)


def _failures(image: Dict[str, Any]) -> str:
    return "\n".join(finding["message"] for finding in image["findings"] if not finding["passed"])
