# SPDX-License-Identifier: MIT OR Apache-2.0
"""One call of the harness program, without a shell, and the JSON document that it prints."""

import json
import os
import subprocess
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Union

from .errors import HarnessError, error_of
from .executable import executable

#: A file's path.
PathLike = Union[str, "os.PathLike[str]"]

#: Versions of harness's JSON documents that this package reads.
VERSIONS = {
    "harness-callers": 1,
    "harness-coverage": 1,
    "harness-diff": 1,
    "harness-profile": 1,
    "harness-report": 2,
    "harness-size": 1,
    "harness-stack": 1,
}


class Outcome(NamedTuple):
    """End of a process."""

    exit_code: int
    stdout: bytes
    stderr: str


def call(arguments: Sequence[str]) -> Outcome:
    """Runs harness with arguments and waits for its end. Raises FileNotFoundError without a harness."""
    command = [os.fspath(executable()), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return Outcome(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


def output(arguments: Sequence[str]) -> bytes:
    """Standard output of a command that ends well. Raises the exception of its exit code otherwise."""
    outcome = call(arguments)
    if outcome.exit_code != 0:
        raise error_of(outcome.exit_code, outcome.stderr)
    return outcome.stdout


def document(text: bytes, kind: str) -> Dict[str, Any]:
    """Parses a document of a kind. Raises HarnessError for another kind, or a version that this package does not read."""
    parsed: Dict[str, Any] = json.loads(text)
    if parsed.get("format") != kind:
        raise HarnessError(f"harness printed {parsed.get('format')!r} where {kind!r} was expected")
    if parsed.get("version") != VERSIONS[kind]:
        raise HarnessError(f"{kind} has version {parsed['version']}; this package reads {VERSIONS[kind]}: update it")
    return parsed


def path(name: PathLike) -> str:
    """Absolute path, which no program takes for an option."""
    return os.path.abspath(os.fspath(name))


#: Value of an option; True is an option without a value, None and False leave it out.
Value = Union[None, bool, int, float, str, Sequence[str], Mapping[str, Union[None, int, str]]]


def options(values: Mapping[str, Value]) -> List[str]:
    """Command line of options: ``{"for": 5, "exact": True}`` is ``--for=5 --exact``; lists repeat an option."""
    line: List[str] = []
    for name, value in values.items():
        if value is None or value is False:
            continue
        if value is True:
            line.append(f"--{name}")
        elif isinstance(value, (int, float, str)):
            line.append(f"--{name}={value}")
        elif isinstance(value, Mapping):
            line += [f"--{name}={key}" + ("" if each is None else f"={each}") for key, each in value.items()]
        else:
            line += [f"--{name}={each}" for each in value]
    return line
