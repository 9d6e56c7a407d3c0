# SPDX-License-Identifier: MIT OR Apache-2.0
"""Texts to be typed on the firmware's console, each at an exact instruction, as options of the command line."""

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


#: Texts in the order in which they are typed.
Input = Sequence[Union[At, After]]


def _escaped(text: Union[str, bytes]) -> str:
    """The text with harness's escapes: everything but plain ASCII as a byte."""
    data = text.encode() if isinstance(text, str) else text
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"\\:" else f"\\x{byte:02x}" for byte in data
    )


def options(texts: Input) -> List[str]:
    """Command line that types the texts."""
    return [
        f"--input={text.insns}:{_escaped(text.text)}"
        if isinstance(text, At)
        else f"--input-after={_escaped(text.prompt)}:{_escaped(text.text)}"
        for text in texts
    ]
