# SPDX-License-Identifier: MIT OR Apache-2.0
"""The profile of one run, as typed rows.

Counts and names are harness's own: the profile's JSON document is read once, and questions about one function are asked of
the program, so that names are found as in all its commands.
"""

from functools import cached_property
from pathlib import Path
from typing import Any, Dict, List, Optional

from . import command
from .command import PathLike
from .decode import Address, row, rows
from .errors import NotRecorded
from .rows import (
    Coverage,
    CoveredBranch,
    CoveredFunction,
    CoveredLine,
    Diff,
    End,
    Event,
    Facts,
    Function,
    Mark,
    Span,
    StackRow,
    Tally,
    Task,
    Zone,
)


class Profile:
    """Profile of one run of one firmware image.

    ``path`` is its directory. ``exit_code`` and ``messages`` are what harness said of the run; a profile that was loaded has
    none (None and ""). The directory is removed with the object if ``harness.run`` was called without ``output``.
    """

    def __init__(
        self,
        path: Path,
        document: Dict[str, Any],
        *,
        elf: Optional[Path] = None,
        exit_code: Optional[int] = None,
        messages: str = "",
    ) -> None:
        self.path = path
        self.elf = elf
        self.exit_code = exit_code
        self.messages = messages
        self._document = document
        self._callers: Dict[str, Dict[str, Any]] = {}

    @classmethod
    def load(cls, path: PathLike, *, elf: Optional[PathLike] = None) -> "Profile":
        """A saved profile: the directory, or its ``profile.fwp``. ``elf`` is the firmware, which only ``stack`` needs.

        Raises BadInput if there is none.
        """
        name = command.path(path)
        text = command.output(["export", name, "--format=json"])
        document = command.document(text, "harness-profile")
        return cls(Path(name), document, elf=None if elf is None else Path(command.path(elf)))

    def __repr__(self) -> str:
        return f"<harness.Profile of {self.facts.image}: {self.total_insns:,} instructions, {self.end.text}>"

    @cached_property
    def facts(self) -> Facts:
        """What was run, how, and how it ended."""
        return row(Facts, self._document["facts"])

    @property
    def total_insns(self) -> int:
        """Instructions of the window."""
        total: int = self._document["total_insns"]
        return total

    @property
    def total_cycles(self) -> Optional[int]:
        """Cycles of the window; None without ``cycles``."""
        total: Optional[int] = self._document["total_cycles"]
        return total

    @cached_property
    def functions(self) -> List[Function]:
        """Functions, most instructions first; then those that never executed, by address."""
        return rows(Function, self._document["functions"])

    @cached_property
    def tasks(self) -> List[Task]:
        """Tasks of the firmware's kernel, in the order in which they first ran."""
        return rows(Task, self._document["tasks"])

    @cached_property
    def zones(self) -> List[Zone]:
        """Zones, most instructions first."""
        return rows(Zone, self._document["zones"])

    @cached_property
    def marks(self) -> List[Mark]:
        """Marks, by name."""
        return rows(Mark, self._document["marks"])

    @cached_property
    def spans(self) -> List[Span]:
        """Durations of calls, handlers and masked interrupts (``exact=True``), and of ``spans``."""
        return rows(Span, self._document["spans"])

    @cached_property
    def timeline(self) -> List[Event]:
        """Every event of the window, in order. Raises NotRecorded for a run without ``timeline=True``."""
        timeline = self._document["timeline"]
        if timeline is None:
            raise NotRecorded("the run has no timeline: profile it with timeline=True")
        names: List[str] = timeline["names"]

        def name(index: Optional[int]) -> Optional[str]:
            return None if index is None else names[index]

        return [
            Event(
                at_insns=event["at_insns"],
                at_ns=event["at_ns"],
                vcpu=event["vcpu"],
                context=names[event["context"]] if names else "",
                event=event["event"],
                name=name(event.get("name")),
                value=event.get("value"),
                why=name(event.get("why")),
            )
            for event in timeline["events"]
        ]

    @cached_property
    def coverage(self) -> Coverage:
        """Lines, functions and branches that ran."""
        text = command.output(["coverage", str(self.path), "--json"])
        document = command.document(text, "harness-coverage")
        files = document["files"]
        return Coverage(
            line_tally=row(Tally, document["lines"]),
            function_tally=row(Tally, document["functions"]),
            branch_tally=row(Tally, document["branches"]),
            lines=[row(CoveredLine, {"file": file["path"], **line}) for file in files for line in file["lines"]],
            functions=[
                row(CoveredFunction, {"file": file["path"], **function})
                for file in files
                for function in file["functions"]
            ],
            branches=[
                CoveredBranch(
                    file=file["path"],
                    line=branch["line"],
                    kind=branch["kind"],
                    executions=branch["executions"],
                    ways_taken=sum(way["least"] > 0 for way in branch["ways"]),
                    ways=len(branch["ways"]),
                )
                for file in files
                for branch in file["branches"]
            ],
        )

    @cached_property
    def stack(self) -> List[StackRow]:
        """Most stack that the main program and each task can need, beside what this run used, in bytes.

        Raises NotRecorded if the profile was loaded without its ELF file.
        """
        if self.elf is None:
            raise NotRecorded("the stack is read from the code: Profile.load(path, elf=…) names the file")
        text = command.output(["stack", str(self.elf), str(self.path), "--json"])
        return rows(StackRow, command.document(text, "harness-stack")["stacks"])

    def diff(self, after: "Profile") -> Diff:
        """Everything that changed from this run to another."""
        text = command.output(["diff", str(self.path), str(after.path), "--json"])
        return row(Diff, command.document(text, "harness-diff"))

    def _function(self, function: str) -> Dict[str, Any]:
        if function not in self._callers:
            # Behind `--` no name is taken for an option.
            text = command.output(["callers", "--json", "--", str(self.path), function])
            self._callers[function] = command.document(text, "harness-callers")
        return self._callers[function]

    def calls(self, function: str) -> int:
        """Number of calls of a function, named as in harness's commands: a generic's name means all its instances.

        Raises BadInput for an unknown or an ambiguous name, with the nearest ones.
        """
        calls: int = self._function(function)["calls"]
        return calls

    def instructions(self, function: str, *, inclusive: bool = False) -> int:
        """Instructions of a function: its own code with what is inlined into it; ``inclusive`` adds its callees.

        Raises BadInput as ``calls`` does, and NotRecorded for ``inclusive`` of a run without call stacks.
        """
        found = self._function(function)
        insns: Optional[int] = found["inclusive_insns" if inclusive else "self_insns"]
        if insns is None:
            raise NotRecorded(f"inclusive instructions of {function} are not known: the run has no call stacks")
        return insns

    def cycles(self, function: str, *, inclusive: bool = False) -> int:
        """Cycles as ``instructions``. Raises NotRecorded for a run without ``cycles``."""
        cycles: Optional[int] = self._function(function)["inclusive_cycles" if inclusive else "self_cycles"]
        if cycles is None:
            raise NotRecorded(f"cycles of {function} are not known: profile it with cycles=True or a core's name")
        return cycles

    def addresses(self, function: str) -> List[Address]:
        """First addresses of a function, or of the instances of a generic. Raises BadInput as ``calls`` does."""
        return [Address(int(address, 16)) for address in self._function(function)["addresses"]]

    @cached_property
    def console_bytes(self) -> bytes:
        """What the firmware printed, byte for byte. Raises NotRecorded if the profile has no ``console.log``."""
        folder = self.path if self.path.is_dir() else self.path.parent
        try:
            return (folder / "console.log").read_bytes()
        except FileNotFoundError:
            raise NotRecorded(f"{folder} has no console.log") from None

    @property
    def console(self) -> str:
        """What the firmware printed, as text; bytes that are not UTF-8 are replaced."""
        return self.console_bytes.decode("utf-8", "replace")

    @cached_property
    def end(self) -> End:
        """End of the run."""
        facts = self._document["facts"]
        address = facts["end_address"]
        return row(
            End,
            {"kind": facts["end"], "status": facts["exit_status"], "address": address, "text": facts["end_text"]},
        )

    def report(self, output: PathLike) -> Path:
        """Writes the report page, one file for the browser, and returns its path."""
        name = command.path(output)
        command.output(["report", str(self.path), f"--output={name}"])
        return Path(name)

    def export(self, format: str, output: PathLike) -> Path:
        """Writes another tool's format (``harness list formats``) and returns the path."""
        name = command.path(output)
        command.output(["export", str(self.path), f"--format={format}", f"--output={name}"])
        return Path(name)
