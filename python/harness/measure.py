# SPDX-License-Identifier: MIT OR Apache-2.0
"""Running firmware: ``harness.run``, one call of ``harness profile`` with typed options."""

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Union

from . import command, console_input
from .command import PathLike, Value
from .console_input import Input
from .errors import error_of
from .profile import Profile

#: Number of instructions or bytes; harness also takes "50M".
Count = Union[int, str]


def run(
    elf: PathLike,
    *,
    chip: Optional[str] = None,
    machine: Optional[str] = None,
    cpu: Optional[str] = None,
    for_: Optional[Count] = None,
    from_: Optional[str] = None,
    until: Optional[str] = None,
    max_insns: Optional[Count] = None,
    timeout: Optional[float] = None,
    max_output: Optional[Count] = None,
    resets: Optional[int] = None,
    input: Optional[Input] = None,
    files: Optional[Mapping[str, PathLike]] = None,
    stub: Optional[Mapping[str, Optional[int]]] = None,
    exact: bool = False,
    branches: bool = False,
    cycles: Union[bool, str] = False,
    heap: bool = False,
    timeline: bool = False,
    trace: Sequence[str] = (),
    spans: Sequence[str] = (),
    zone_calls: Sequence[str] = (),
    period: Optional[Count] = None,
    symbols: Optional[PathLike] = None,
    svd: Optional[PathLike] = None,
    vectors: Optional[Count] = None,
    load_addr: Optional[Count] = None,
    strict: bool = False,
    sandbox: Optional[str] = None,
    options: Sequence[str] = (),
    output: Optional[PathLike] = None,
    check: bool = True,
) -> Profile:
    """Runs firmware in QEMU and returns its profile; the same arguments give the same counts, to the instruction.

    Without ``for_``, ``until`` or an exit of the firmware, the window has 2G instructions.

    :param elf: firmware, as ``harness FIRMWARE`` takes it.
    :param chip: name of a chip (``harness list chips``), path of a chip file, or "auto".
    :param machine: machine of QEMU, where the image's memory does not choose the right one.
    :param cpu: processor of QEMU, instead of the machine's own.
    :param for_: length of the window in instructions.
    :param from_: function whose first execution opens the window.
    :param until: function whose next execution ends the window.
    :param max_insns: instructions from reset after which the run has failed.
    :param timeout: seconds of this host after which the run has failed.
    :param max_output: bytes of output at which the run has failed.
    :param resets: number of restarts that are expected.
    :param input: texts for the console, ``At(insns, text)`` and ``After(prompt, text)``, and changes outside of the chip,
        ``SetAt("10ms", "PA0=1")`` and ``SetAfter(prompt, "PA0=0,for=20ms")``, in their order.
    :param files: files that the firmware finds through semihosting, by name.
    :param stub: functions that return at once, with a value or None.
    :param exact: follow every call: exact instructions by call path, durations (slower).
    :param branches: count the ways of branches that the other counts leave open.
    :param cycles: True for an AVR; the name of a core, as "hazard3" or "hazard3@150MHz", for RISC-V.
    :param heap: follow allocations.
    :param timeline: record every event.
    :param trace: functions whose calls are on the timeline.
    :param spans: "FROM..UNTIL": instructions from each start of FROM to the next start of UNTIL.
    :param zone_calls: functions whose calls are zones.
    :param period: instructions between two samples.
    :param symbols: ELF file with the symbols of an image that has none.
    :param svd: registers of the chip as its vendor describes them.
    :param vectors: address of the vector table.
    :param load_addr: address of a raw binary.
    :param strict: fail as ``--strict`` does.
    :param sandbox: "off", "auto" or "required".
    :param options: further options of ``harness profile``, as on a command line: ``["--shift=4"]``.
    :param output: directory for the profile; without it a temporary one, which goes with the Profile.
    :param check: raise an exception for a run that failed; otherwise ``exit_code`` of the profile says so.
    :raises FirmwareFailed, LimitReached, EmulatorFailed: with ``profile``, what was measured up to there.
    :raises BadInput: an argument is wrong; nothing was run.
    :raises FileNotFoundError: there is no harness.
    """
    values: Dict[str, Value] = {
        "chip": chip,
        "machine": machine,
        "cpu": cpu,
        "for": for_,
        "from": from_,
        "until": until,
        "max-insns": max_insns,
        "timeout": timeout,
        "max-output": max_output,
        "resets": resets,
        "file": None if files is None else {name: command.path(path) for name, path in files.items()},
        "stub": stub,
        "exact": exact,
        "branches": branches,
        "cycles": cycles,
        "heap": heap,
        "timeline": timeline,
        "trace": list(trace),
        "span": list(spans),
        "zone-call": list(zone_calls),
        "period": period,
        "symbols": None if symbols is None else command.path(symbols),
        "svd": None if svd is None else command.path(svd),
        "vectors": vectors,
        "load-addr": load_addr,
        "strict": strict,
        "sandbox": sandbox,
    }
    typed = console_input.options(input or ())
    return profiled(elf, [*command.options(values), *typed, *options], output=output, check=check)


def profiled(elf: PathLike, options: List[str], *, output: Optional[PathLike], check: bool) -> Profile:
    """Profiles firmware with options of the command line."""
    firmware = command.path(elf)
    temporary: Optional[Path] = None
    if output is None:
        temporary = Path(tempfile.mkdtemp(prefix="harness-"))
        directory = temporary / "profile"
    else:
        directory = Path(command.path(output))
    profile = None
    try:
        outcome = command.call(["profile", firmware, "--quiet", "--json", f"--output={directory}", *options])
        if outcome.stdout:
            profile = Profile(
                directory,
                command.document(outcome.stdout, "harness-profile"),
                elf=Path(firmware),
                exit_code=outcome.exit_code,
                messages=outcome.stderr,
            )
    finally:
        if temporary is not None and profile is None:
            shutil.rmtree(temporary)
        elif temporary is not None:
            weakref.finalize(profile, shutil.rmtree, temporary, ignore_errors=True)
    if profile is None or (check and outcome.exit_code != 0):
        raise error_of(outcome.exit_code, outcome.stderr, profile)
    return profile
