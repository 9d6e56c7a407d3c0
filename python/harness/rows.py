# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows of harness's JSON documents, with the names and units of their JSON Schemas.

``pandas.DataFrame(rows)`` takes a list of them. Counts are exact unless a row says otherwise: ``insns`` are instructions,
``cycles`` are None without ``cycles=…``, addresses are numbers, times are nanoseconds of the firmware's clock.
"""

from dataclasses import dataclass
from typing import List, Optional

from .decode import Address


@dataclass(frozen=True)
class Facts:
    """What was run, how, and how it ended."""

    #: Version of harness.
    harness_version: str
    #: File name of the image.
    image: str
    #: SHA-256 of the image.
    image_sha256: str
    #: Version of QEMU.
    qemu: str
    #: Machine of QEMU.
    machine: str
    #: Processor of QEMU, where it is not the machine's own.
    cpu: Optional[str]
    #: Instruction set.
    isa: str
    #: An instruction takes 2^icount_shift ns of the firmware's time, unless cycles are its clock.
    icount_shift: int
    #: Mean distance of samples, in instructions.
    period_insns: int
    #: Length of the window in instructions, if it was given.
    for_insns: Optional[int]
    #: Bytes added to the image's addresses.
    load_bias: Address
    #: Instructions before the window opened.
    before_window_insns: int
    #: Whether every call was followed (``exact=True``).
    exact: bool
    #: Number of waits for an interrupt.
    waits: int
    #: Virtual time in nanoseconds that the machine slept; None: not known.
    slept_ns: Optional[int]


@dataclass(frozen=True)
class Function:
    """Function, boot ROM, or range of addresses; those that never executed are among them, with counts of 0."""

    #: "function", "boot-rom", or "unnamed" for a range of addresses.
    kind: str
    #: Demangled name, or a name in square brackets.
    name: str
    #: Name in the symbol table.
    linkage_name: str
    #: First address.
    address: Optional[Address]
    #: Bytes of code.
    size_bytes: Optional[int]
    #: Source file of the definition.
    file: Optional[str]
    #: Line in that file.
    line: Optional[int]
    #: Instructions in it, inlined ones included, called ones not.
    self_insns: int
    #: Cycles of these instructions.
    cycles: Optional[int]
    #: Entries from outside.
    calls: int
    #: Samples taken in it: not exact.
    samples: int


@dataclass(frozen=True)
class Task:
    """Task of the firmware's kernel."""

    #: Name; namesakes are numbered.
    name: str
    #: Address of its control block.
    tcb: Address
    #: Whether it is one of the kernel's idle tasks.
    is_idle: bool
    #: Instructions while it was the running task, interrupts included.
    insns: int
    #: Times that it was switched in, or polled.
    switches: int
    #: Lowest address of its stack.
    stack_start: Optional[Address]
    #: Address above its stack.
    stack_end: Optional[Address]
    #: Lowest stack pointer that was seen; without ``exact=True`` the real one may be lower.
    deepest_sp: Optional[Address]
    #: Bytes at the low end of its stack that still hold the kernel's paint.
    painted_bytes: Optional[int]
    #: Nanoseconds that the machine slept while it was the running task.
    slept_ns: int


@dataclass(frozen=True)
class ZoneCounts:
    """Counts of a zone; only instructions of its own task or interrupt count."""

    #: Times that the zone was left by its end.
    calls: int
    #: Instructions of all those times.
    total_insns: int
    #: Instructions from beginnings to ends, with those of other tasks and of interrupts.
    elapsed_insns: int
    #: Instructions in the zone and in no zone within it.
    own_insns: int
    #: Instructions of the shortest time.
    min_insns: int
    #: Mean of the instructions, rounded.
    mean_insns: int
    #: Instructions of the longest time.
    max_insns: int
    #: Cycles as ``total_insns``.
    total_cycles: Optional[int]
    #: Most cycles of a time.
    max_cycles: Optional[int]
    #: Address where the longest time began.
    longest_at: Optional[Address]
    #: Times that were under way as the run ended.
    open: int


@dataclass(frozen=True)
class ZoneContext:
    """Counts of a zone in one task or interrupt."""

    #: Name of the task or interrupt.
    context: str
    #: Counts there.
    counts: ZoneCounts


@dataclass(frozen=True)
class Zone:
    """Zone that the firmware names (``ZONE``), or the calls of a function (``zone_calls``)."""

    #: Name of the zone.
    name: str
    #: Whether it is the calls of a function.
    is_call: bool
    #: Counts of all contexts together.
    all: ZoneCounts
    #: Counts by task and interrupt, most instructions first.
    contexts: List[ZoneContext]


@dataclass(frozen=True)
class Span:
    """Durations of calls, handlers and masked interrupts (with ``exact=True``), and of ``spans``."""

    #: "call", "exception", "masked", "pendsv" or "between".
    kind: str
    #: The function, the exception, or FROM..UNTIL.
    name: str
    #: Number of spans.
    count: int
    #: Instructions of the shortest span.
    min_insns: int
    #: Instructions of the longest span.
    max_insns: int
    #: Instructions of all spans together.
    sum_insns: int
    #: Most cycles of a span.
    max_cycles: Optional[int]
    #: Address where the longest span began.
    longest_at: Optional[Address]


@dataclass(frozen=True)
class Mark:
    """Values of the marks of one name (``MARK``)."""

    #: Name of the marks.
    name: str
    #: Number of marks.
    count: int
    #: Lowest value.
    min: int
    #: Highest value.
    max: int
    #: Sum of all values.
    sum: int
    #: Last value.
    last: int


@dataclass(frozen=True)
class Event:
    """Event of the timeline (``timeline=True``)."""

    #: Instructions of the window that the processor had started.
    at_insns: int
    #: Nanoseconds of the firmware's time since the window opened.
    at_ns: int
    #: Index of the processor.
    vcpu: int
    #: Task or interrupt that executed.
    context: str
    #: "switched", "entered", "left", "zone begins", "mark", "called", "printed", … as the schema lists them.
    event: str
    #: Task, exception, zone, mark, function or pin.
    name: Optional[str]
    #: Value of a mark, level of a pin, number of bytes, or nanoseconds of a sleep that ends here.
    value: Optional[int]
    #: Reason why the task before does not continue.
    why: Optional[str]


@dataclass(frozen=True)
class Tally:
    """Number of things that there are, and of those that ran."""

    #: Those that ran for certain.
    hit: int
    #: All of them.
    found: int
    #: Those that may have run or not.
    open: int

    @property
    def share(self) -> float:
        """Part that ran for certain, from 0 to 1; 1 of nothing."""
        return self.hit / self.found if self.found else 1.0


@dataclass(frozen=True)
class CoveredLine:
    """Source line with code."""

    #: Path of the source file.
    file: str
    #: Number of the line.
    line: int
    #: Executions.
    count: int


@dataclass(frozen=True)
class CoveredFunction:
    """Function of the source."""

    #: Path of the source file.
    file: str
    #: Line of its definition.
    line: int
    #: Name in the symbol table.
    name: str
    #: Calls.
    calls: int


@dataclass(frozen=True)
class CoveredBranch:
    """Branch of the object code; its ways are taken and not taken, or the targets of a table."""

    #: Path of the source file.
    file: str
    #: Line that it belongs to.
    line: int
    #: "conditional", "conditional return", or "table".
    kind: str
    #: Executions of the instruction.
    executions: int
    #: Ways that were taken for certain.
    ways_taken: int
    #: Ways that there are.
    ways: int


@dataclass(frozen=True)
class Coverage:
    """Lines, functions and branches that ran; the firmware is not instrumented, and needs debug information (``-g``)."""

    #: Lines of all files together.
    line_tally: Tally
    #: Functions of all files together.
    function_tally: Tally
    #: Ways of the branches of all files together.
    branch_tally: Tally
    #: Lines by file.
    lines: List[CoveredLine]
    #: Functions by file and line.
    functions: List[CoveredFunction]
    #: Branches by file and line.
    branches: List[CoveredBranch]


@dataclass(frozen=True)
class StackStep:
    """Function on a deepest path."""

    #: Name of the function.
    function: str
    #: Bytes that it holds while it calls the next one.
    bytes: int


@dataclass(frozen=True)
class StackRow:
    """Most stack that the main program or a task can need, from the machine code."""

    #: "main", or the task's name.
    name: str
    #: Whether it is a task's.
    is_task: bool
    #: Most bytes; if nothing bounds it, the part that is known.
    bytes: int
    #: "bounded", "estimated" or "unbounded".
    certainty: str
    #: Part of the bytes that exceptions take.
    exceptions_bytes: int
    #: Size of the stack in bytes.
    has_bytes: Optional[int]
    #: Most bytes that the run used.
    seen_bytes: Optional[int]
    #: Error of harness, if the run used more than the bound.
    error: Optional[str]
    #: Deepest path, outermost function first.
    path: List[StackStep]
    #: Reasons why the number is not a bound.
    reasons: List[str]


@dataclass(frozen=True)
class Pair:
    """A number before and after a change; None: there was none, or is none."""

    before: Optional[int]
    after: Optional[int]

    @property
    def change(self) -> int:
        """Growth; a number that is missing counts as 0."""
        return (self.after or 0) - (self.before or 0)


@dataclass(frozen=True)
class FunctionChange:
    """Function that changed between two runs."""

    #: Name, with its file if there are namesakes.
    name: str
    #: Instructions of its own lines.
    self_insns: Pair
    #: Instructions from entry to return.
    inclusive_insns: Pair
    #: Number of entries.
    calls: Pair
    #: "Stays", "New", "Vanished", "NowInlined" or "NoLongerInlined".
    fate: str


@dataclass(frozen=True)
class TaskChange:
    """Task that changed between two runs."""

    #: Name of the task.
    name: str
    #: Instructions while it was running.
    insns: Pair
    #: Bytes of stack.
    stack_bytes: Pair


@dataclass(frozen=True)
class Diff:
    """Everything that changed from one run to another, the largest change first."""

    #: Instructions of the windows.
    total_insns: Pair
    #: Main cause of the change, in a sentence.
    explanation: str
    #: Differences between the conditions of the two runs.
    mismatches: List[str]
    #: Functions that changed.
    functions: List[FunctionChange]
    #: Tasks that changed.
    tasks: List[TaskChange]


@dataclass(frozen=True)
class End:
    """End of a run."""

    #: "for", "until", "exit", "reset", "lock-up", "asleep", "stuck", "faulting", "timeout", … as the schema has them.
    kind: str
    #: Exit status of the firmware, if it exited.
    status: Optional[int]
    #: Address of the instruction at which it ended, if there is one.
    address: Optional[Address]
    #: The end in words.
    text: str
