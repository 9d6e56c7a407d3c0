# SPDX-License-Identifier: MIT OR Apache-2.0
"""Texts for the firmware's console, and changes outside of its chip, each at an exact instruction, as options of the command line."""

from dataclasses import dataclass
from typing import List, Sequence, Union


@dataclass(frozen=True)
class At:
    """Text that is typed after a number of instructions from reset."""

    #: Instructions, as a number or as "1M".
    insns: Union[int, str]
    #: Text to be typed; bytes are typed as they are.
    text: Union[str, bytes]


@dataclass(frozen=True)
class After:
    """Text that is typed once the firmware has printed a prompt since the text before began."""

    #: Prompt.
    prompt: str
    #: Text to be typed; bytes are typed as they are.
    text: Union[str, bytes]


@dataclass(frozen=True)
class SetAt:
    """Changes outside of the chip at a time, or after a number of instructions, since reset."""

    #: Time as "10ms", or instructions as a number or as "1M".
    at: Union[int, str]
    #: Changes, as "PA0=0,for=20ms,bounce=2ms", "ADC1.CH3=2345", "TEMP[0]=32", "USART6<text" or "CAN1<123#1122".
    changes: str


@dataclass(frozen=True)
class SetAfter:
    """Changes outside of the chip once the firmware has printed a prompt since the step before began."""

    #: Prompt.
    prompt: str
    #: Changes, as those of :class:`SetAt`.
    changes: str


#: Texts in the order in which they are typed, and changes outside of the chip.
Input = Sequence[Union[At, After, SetAt, SetAfter]]


def _escaped(text: Union[str, bytes]) -> str:
    """The text with harness's escapes: everything but plain ASCII as a byte."""
    data = text.encode() if isinstance(text, str) else text
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"\\:" else f"\\x{byte:02x}" for byte in data
    )


def _option(step: Union[At, After, SetAt, SetAfter]) -> str:
    if isinstance(step, At):
        return f"--input={step.insns}:{_escaped(step.text)}"
    if isinstance(step, After):
        return f"--input-after={_escaped(step.prompt)}:{_escaped(step.text)}"
    if isinstance(step, SetAt):
        return f"--set={step.at}:{step.changes}"
    return f"--set-after={_escaped(step.prompt)}:{step.changes}"


def options(steps: Input) -> List[str]:
    """Command line that types the texts and makes the changes."""
    return [_option(step) for step in steps]
