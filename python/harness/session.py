# SPDX-License-Identifier: MIT OR Apache-2.0
"""A session with a run that stands still: `harness.open`, on the debugger that `harness debug` serves.

The run repeats a profile's run exactly, so that the same calls stop at the same instructions each time. What is typed in a
session makes a new run: the same up to here, then with the text. It is profiled and debugged in the place of the old one.
"""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, NamedTuple, Optional, Type, Union

from . import command
from .command import PathLike
from .console_input import At, SetAt
from .decode import Address
from .errors import BadInput, NotReached, NotRecorded, Refused, error_of
from .executable import executable
from .measure import run
from .profile import Profile
from .remote import Remote

#: Longest text by which a place on the console is looked for, in bytes.
LONGEST = 4000

_WHERE = re.compile(
    r"^instruction ([\d,]+)(?: of the window, ([\d,]+) of the run| (of the run, before the window))?: (.*)$", re.MULTILINE
)


@dataclass(frozen=True)
class Position:
    """Where the run is."""

    #: Number of the instruction in the profile's window, from 1; None: before the window.
    insn: Optional[int]
    #: Number of the instruction from reset, from 1.
    run_insn: int
    #: Address, function and line, in words.
    place: str
    #: All that the debugger says of it: also task, interrupt and virtual time.
    text: str


class Snapshot(NamedTuple):
    """A position to come back to."""

    profile: Profile
    position: Position
    #: Options of the profile's run, if they are known.
    options: Optional[Dict[str, Any]]
    #: Bytes of the console that `expect` had passed.
    passed: int


class Variable(NamedTuple):
    """Symbol with memory."""

    address: int
    bytes: int


class _Server:
    """The process `harness debug` and the connection to it."""

    def __init__(self, profile: Profile, elf: Optional[Path], at: Optional[str], timeout: Optional[float]) -> None:
        values: Dict[str, command.Value] = {"at": at, "elf": None if elf is None else str(elf)}
        arguments = ["debug", str(profile.path), *command.options(values)]
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [str(executable()), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._said
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        address = re.search(r'target remote ([^"]+)"', line)
        if address is None:
            code = self._process.wait()
            self._process.stdout.close()
            self._said.seek(0)
            said = self._said.read().decode("utf-8", "replace")
            self._said.close()
            raise error_of(code, said[said.find("error: ") :] if "error: " in said else said)
        try:
            self.remote = Remote(address[1], timeout)
        except OSError:
            self._process.terminate()
            raise

    def close(self) -> None:
        """Ends the server and waits until its files are gone."""
        self.remote.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._said.close()


class Session:
    """A run that stands at one of its instructions, and goes forwards and backwards; ``profile`` is that of the whole run.

    Methods raise Refused for what the debugger cannot do, NotReached for a place to which the run does not come, and
    BadInput for a name that there is not.
    """

    def __init__(
        self, profile: Profile, *, at: Optional[str], timeout: Optional[float], options: Optional[Dict[str, Any]]
    ) -> None:
        self.profile = profile
        self._options = options
        self._timeout = timeout
        self._variables: Optional[Dict[str, List[Variable]]] = None
        #: Bytes of the console that `expect` has passed.
        self._passed = 0
        self._server = _Server(profile, profile.elf, at, timeout)

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the run and removes its files."""
        self._server.close()

    def monitor(self, words: str) -> str:
        """Text of one of the debugger's own commands (``help`` lists them)."""
        return self._server.remote.monitor(words)

    @property
    def position(self) -> Position:
        """Where the run is."""
        text = self.monitor("where")
        found = _position(text)
        if found is None:
            raise Refused(text.strip())
        return found

    def goto(self, place: str) -> Position:
        """Goes to a place of docs/debug.md, forwards or backwards: "insn:2M", "call:main", "max:crc32", "crash", …"""
        text = self.monitor(f"goto {place}")
        if _position(text) is None:
            raise NotReached(text.strip())
        # The answer has hints for GDB, too.
        return self.position

    def run_until(self, function: str) -> Position:
        """Goes on to the next execution of a function's first instruction, also beyond the profile's window."""
        self._server.remote.resume("vCont;c", self._breakpoints(function))
        return self.position

    def run_back_to(self, function: str) -> Position:
        """Goes back to the last execution of a function's first instruction before here."""
        self._server.remote.resume("bc", self._breakpoints(function))
        return self.position

    def run_until_written(self, name: str) -> Position:
        """Goes on to the next write of a variable, and stops before it (AVR: behind it)."""
        variable = self._variable(name)
        self._server.remote.resume("vCont;c", [f"2,{variable.address:x},{variable.bytes:x}"])
        return self.position

    def step(self, insns: int = 1) -> Position:
        """Executes a number of instructions, one by one, whichever task they are of; -1 goes back."""
        for _ in range(abs(insns)):
            self._server.remote.resume("s" if insns > 0 else "bs", [])
        return self.position

    def read_memory(self, address: int, size: int) -> bytes:
        """Bytes of memory; registers of devices are read in a copy of the run, which notices nothing."""
        return self._server.remote.read(address, size)

    def write_memory(self, address: int, data: bytes) -> None:
        """Writes memory. From there on the run is not the profile's: it goes on from here, and not back."""
        self._server.remote.write(address, data)

    def read_variable(self, name: str, *, signed: bool = False) -> int:
        """Value of a variable of 1, 2, 4 or 8 bytes, by its name in the symbol table."""
        variable = self._number(name)
        return int.from_bytes(self.read_memory(variable.address, variable.bytes), "little", signed=signed)

    def write_variable(self, name: str, value: int) -> None:
        """Writes a variable of 1, 2, 4 or 8 bytes, as ``write_memory`` does."""
        variable = self._number(name)
        self.write_memory(variable.address, value.to_bytes(variable.bytes, "little", signed=value < 0))

    def read_bytes(self, name: str) -> bytes:
        """Bytes of a variable of any size."""
        variable = self._variable(name)
        return self.read_memory(variable.address, variable.bytes)

    def read_register(self, name: str) -> int:
        """Value of a register, unsigned, by QEMU's name: "pc", "sp", "r0", "mcause". Raises KeyError for another name."""
        return self._server.remote.read_register(name)

    def expect(self, pattern: str) -> str:
        """Goes on until text that matches a regular expression is printed, and returns the text.

        It looks behind what the last ``expect`` has found, in what the run prints within the profile's window. Where the text
        was printed is known to a millionth of the run; blanks at its end are not waited for.
        """
        console = self.profile.console_bytes
        found = re.compile(pattern.encode()).search(console, self._passed)
        if found is None:
            rest = console[self._passed :][-200:].decode("utf-8", "replace")
            raise NotReached(f"{pattern!r} is not printed any more in this run; what is printed ends with {rest!r}")
        before = self.position
        reached = self.goto(f"console:{_first(console, found.end())}")
        if reached.run_insn < before.run_insn:
            self._return(before)
        self._passed = found.end()
        return found[0].decode("utf-8", "replace")

    def type(self, text: Union[str, bytes]) -> None:
        """Types text on the console from here on: a new run, the same up to here, takes the place of this one.

        Only for a session on a firmware file (not on a profile), whose other texts come ``At`` an instruction.
        """
        if self._options is None:
            raise NotRecorded("to type, open the firmware itself: the options of this profile's run are not known")
        here = self.position
        kept = [each for each in self._options.get("input") or ()]
        if any(not isinstance(each, (At, SetAt)) for each in kept):
            raise NotRecorded("to type, give no text that waits for a prompt: use expect and type")
        # What was to be typed after this belongs to the run that is given up.
        # What changes outside of the chip comes by its clock.
        kept = [
            each
            for each in kept
            if isinstance(each, SetAt) or (isinstance(each.insns, int) and each.insns <= here.run_insn)
        ]
        assert self.profile.elf is not None
        options: Dict[str, Any] = {**self._options, "input": [*kept, At(here.run_insn, text)]}
        self._replace(run(self.profile.elf, **options), here, options)

    def snapshot(self) -> Snapshot:
        """Remembers this position; nothing is copied, since the run can be put at any of its instructions."""
        return Snapshot(self.profile, self.position, self._options, self._passed)

    def restore(self, snapshot: Snapshot) -> Position:
        """Goes back, or forwards, to a snapshot; also to one of before a text was typed."""
        if snapshot.profile is not self.profile:
            self._replace(snapshot.profile, snapshot.position, snapshot.options)
        else:
            self._return(snapshot.position)
        self._passed = snapshot.passed
        return self.position

    def _replace(self, profile: Profile, position: Position, options: Optional[Dict[str, Any]]) -> None:
        self._server.close()
        self._server = _Server(profile, profile.elf, _name(position), self._timeout)
        self.profile = profile
        self._options = options

    def _return(self, position: Position) -> None:
        self.goto(_name(position))

    def _breakpoints(self, function: str) -> List[str]:
        return [f"0,{address:x},2" for address in self.profile.addresses(function)]

    def _variable(self, name: str) -> Variable:
        if self._variables is None:
            self._variables = _variables(self.profile)
        found = self._variables.get(name, [])
        if len(found) != 1:
            raise BadInput(f"{len(found) or 'no'} variables are called {name}; read_memory takes an address")
        return found[0]

    def _number(self, name: str) -> Variable:
        variable = self._variable(name)
        if variable.bytes not in (1, 2, 4, 8):
            raise BadInput(f"{name} has {variable.bytes} bytes: use read_bytes or write_memory")
        return variable


def open(
    firmware: Union[PathLike, Profile], *, at: Optional[str] = None, timeout: Optional[float] = None, **options: Any
) -> Session:
    """Opens a session on firmware, which is profiled first, or on a profile; use it by ``with``.

    :param firmware: firmware, or a profile that knows its firmware (``Profile.load(path, elf=…)``).
    :param at: place at which to begin, as for ``goto``; the first instruction without it.
    :param timeout: seconds of this host to wait for an answer of the debugger.
    :param options: those of ``harness.run``; how far the run goes is ``for_``.
    """
    if isinstance(firmware, Profile):
        if options:
            raise TypeError("a profile's run has its options already")
        return Session(firmware, at=at, timeout=timeout, options=None)
    options.setdefault("check", False)
    return Session(run(firmware, **options), at=at, timeout=timeout, options=options)


def _position(text: str) -> Optional[Position]:
    found = _WHERE.search(text)
    if found is None:
        return None
    first, of_run, is_before, place = found.groups()
    insn = int(first.replace(",", ""))
    run_insn = int(of_run.replace(",", "")) if of_run else insn
    return Position(None if is_before else insn, run_insn, place, text.strip())


def _name(position: Position) -> str:
    if position.insn is None:
        raise Refused("a position before the window has no name: open the run without from_")
    return f"insn:{position.insn}"


def _first(console: bytes, end: int) -> str:
    """The shortest end of a text on the console that was not printed before."""
    # The monitor takes blanks at the end of a command for nothing.
    text = console[:end].rstrip()
    size = 1
    while size < LONGEST:
        piece = text[-size:]
        if console.find(piece) + len(piece) == len(text) and piece.strip():
            try:
                return piece.decode()
            except UnicodeDecodeError:
                pass
        if size > len(text):
            break
        size += 1
    raise Refused("what is printed there was printed before: no place on the console has its name")


def _variables(profile: Profile) -> Dict[str, List[Variable]]:
    if profile.elf is None:
        raise NotRecorded("variables are read from the firmware: Profile.load(path, elf=…) names the file")
    document = command.document(command.output(["size", "--json", str(profile.elf)]), "harness-size")
    bias = profile.facts.load_bias
    found: Dict[str, List[Variable]] = {}
    for symbol in document["image"]["symbols"]:
        variable = Variable(Address(int(symbol["address"], 16) + bias), symbol["bytes"])
        found.setdefault(symbol["name"], []).append(variable)
    return found
