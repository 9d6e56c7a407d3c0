# SPDX-License-Identifier: MIT OR Apache-2.0
"""GDB's remote protocol, from the debugger's side, as far as a session needs it: packets, the monitor's commands, stops.

The server is `harness debug` (docs/debug.md). Its answers are acknowledged by nobody: a local socket loses none.
"""

import re
import socket
from typing import Dict, List, NamedTuple, Optional

from .errors import NotReached, Refused

#: Most bytes of memory that one packet asks for.
PIECE = 4096


class Register(NamedTuple):
    """Register of the target's description."""

    number: int
    bits: int


def _packet(body: bytes) -> bytes:
    return b"$%b#%02x" % (body, sum(body) & 0xFF)


class Remote:
    """Connection to the server at a socket. ``timeout``: seconds to wait for an answer, for ever without it."""

    def __init__(self, address: str, timeout: Optional[float]) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        self._socket.connect(address)
        self._stream = self._socket.makefile("rb")
        #: Lines that the server has shown since the last request.
        self.shown = ""
        self.ask("qSupported:multiprocess+;swbreak+;hwbreak+;vContSupported+")
        self._registers: Optional[Dict[str, Register]] = None

    def close(self) -> None:
        """Ends the connection, by which the server ends, too."""
        self._stream.close()
        self._socket.close()

    def ask(self, body: str) -> str:
        """Sends a request and returns its answer. Raises ConnectionError if the server has gone."""
        self.shown = ""
        self._socket.sendall(_packet(body.encode()))
        while True:
            answer = self._answer()
            # Console output: `O` and bytes in hexadecimal.
            if not answer.startswith("O") or answer == "OK":
                return answer
            self.shown += bytes.fromhex(answer[1:]).decode("utf-8", "replace")

    def _byte(self) -> bytes:
        byte = self._stream.read(1)
        if not byte:
            raise ConnectionError("the debugger has ended")
        return byte

    def _answer(self) -> str:
        while self._byte() != b"$":
            pass
        body = bytearray()
        while True:
            byte = self._byte()
            if byte == b"#":
                break
            if byte == b"*":
                # Run-length encoding: the last byte again, as often as the next byte says.
                body += body[-1:] * (self._byte()[0] - 29)
            elif byte == b"}":
                body.append(self._byte()[0] ^ 0x20)
            else:
                body += byte
        self._byte()
        self._byte()
        return body.decode("latin-1")

    def monitor(self, command: str) -> str:
        """Text of a monitor command, as GDB shows it."""
        answer = self.ask(f"qRcmd,{command.encode().hex()}")
        if answer.startswith("E"):
            raise Refused(f"{command}: {answer}")
        last = "" if answer in ("OK", "") else bytes.fromhex(answer).decode("utf-8", "replace")
        return self.shown + last

    def why(self) -> str:
        """Reason of the last refusal."""
        return self.monitor("why").strip()

    def done(self, answer: str) -> str:
        """The answer, unless it is an error. Raises Refused with the server's reason."""
        if re.fullmatch(r"E([0-9a-f]{2}|\..*)", answer, re.DOTALL):
            raise Refused(self.why())
        return answer

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the firmware's memory. Raises Refused for memory that cannot be read without disturbing the run."""
        data = b""
        while len(data) < size:
            piece = min(PIECE, size - len(data))
            read = bytes.fromhex(self.done(self.ask(f"m{address + len(data):x},{piece:x}")))
            if not read:
                raise Refused(f"{address + len(data):#x} cannot be read")
            data += read
        return data

    def write(self, address: int, data: bytes) -> None:
        """Writes memory. Raises Refused with the reason, such as a QEMU that does not allow it."""
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            self.done(self.ask(f"M{address + at:x},{len(piece):x}:{piece.hex()}"))

    def registers(self) -> Dict[str, Register]:
        """Registers by name."""
        if self._registers is None:
            xml = self._transfer("features", "target.xml")
            found: Dict[str, Register] = {}
            number = -1
            for tag in re.findall(r"<reg ([^>]*)>", xml):
                words: Dict[str, str] = dict(re.findall(r'([a-z_]+)="([^"]*)"', tag))
                number = int(words.get("regnum", number + 1))
                found[words["name"]] = Register(number, int(words["bitsize"]))
            self._registers = found
        return self._registers

    def _transfer(self, what: str, annex: str) -> str:
        text = ""
        while True:
            answer = self.done(self.ask(f"qXfer:{what}:read:{annex}:{len(text):x},{PIECE:x}"))
            text += answer[1:]
            if not answer.startswith("m"):
                return text

    def read_register(self, name: str) -> int:
        """Value of a register of the processor, unsigned. Raises KeyError for an unknown name, Refused as ``read``."""
        register = self.registers()[name]
        self.ask("Hg0")
        answer = self.done(self.ask(f"p{register.number:x}"))
        if "x" in answer:
            raise Refused(f"{name} cannot be read here")
        return int.from_bytes(bytes.fromhex(answer), "little")

    def resume(self, action: str, stops: List[str]) -> None:
        """Moves the run: ``action`` is a packet, ``stops`` what is to end it (``Z0,…``); they are removed again.

        Raises NotReached if the run came to one of its ends first, Refused if it did not move.
        """
        placed: List[str] = []
        try:
            for stop in stops:
                answer = self.ask(f"Z{stop}")
                if answer != "OK":
                    raise Refused(self.why())
                placed.append(stop)
            answer = self.ask(action)
            said = self.shown.replace("harness: ", "").strip()
        finally:
            for stop in placed:
                self.ask(f"z{stop}")
        # Signals 2 and 11: the server held the run, or QEMU has ended.
        if "replaylog:" in answer or answer.startswith("T0b"):
            raise NotReached(said or f"the run has no instruction {'before' if 'begin' in answer else 'after'} this one")
        if answer.startswith("T02"):
            raise Refused(said)
