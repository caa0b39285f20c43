"""When bytes crossed the loopback interface, as the kernel saw it.

Neither the engine nor the API server is slowed down or asked: the kernel keeps the first bytes of every segment of
one port with its time stamp, and nobody runs until they are taken. Whoever read them as they come would be a third
party on the cores that are being measured. The payload is encrypted; who spoke and when is all that is needed.
"""

import ctypes
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ETH_P_IP = 0x0800
SO_ATTACH_FILTER = 26
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
SOL_PACKET = 263
PACKET_STATISTICS = 6
PACKET_IGNORE_OUTGOING = 23
ROOM = 256 << 20  # bytes; each segment counts with its whole size, however little of it is kept


@dataclass(frozen=True)
class Segment:
    at: int  # nanoseconds since the epoch
    source: int
    target: int
    size: int  # bytes of payload


def _port_filter(port: int):
    """Classic BPF over the IP packet: TCP source or destination port is `port`."""
    program = [
        (0x28, 0, 0, 20),          # ldh [20]  source port, behind an IP header without options
        (0x15, 3, 0, port),        # jeq port -> accept
        (0x28, 0, 0, 22),          # ldh [22]  destination port
        (0x15, 1, 0, port),        # jeq port -> accept
        (0x06, 0, 0, 0),           # drop
        (0x06, 0, 0, 0x00000100),  # accept, headers only
    ]
    code = b"".join(struct.pack("HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code)
    return struct.pack("HL", len(program), ctypes.addressof(buffer)), buffer


class Capture:
    """All segments with payload from or to `port` on loopback while it is open."""

    def __init__(self, port: int):
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
        program, keep = _port_filter(port)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        del keep
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM)
        self._socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)  # loopback shows each a second time
        self._socket.bind(("lo", ETH_P_IP))
        self._socket.setblocking(False)

    def take(self) -> list:
        """What was seen since the last call, in order. Raises RuntimeError when the kernel had no room for all of it."""
        segments = []
        while True:
            try:
                data, extra, _, _ = self._socket.recvmsg(256, 64)
            except BlockingIOError:
                break
            if segment := self._segment(data, extra):
                segments.append(segment)
        _, lost = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        if lost:
            raise RuntimeError(f"{lost} segments found no room; take them more often or raise ROOM")
        return sorted(segments, key=lambda s: s.at)

    @staticmethod
    def _segment(data: bytes, extra: list) -> "Segment | None":
        if len(data) < 40:
            return None
        header = (data[0] & 15) * 4
        total = struct.unpack_from("!H", data, 2)[0]
        source, target = struct.unpack_from("!HH", data, header)
        size = total - header - (data[header + 12] >> 4) * 4
        if size <= 0:
            return None
        seconds, nanoseconds = struct.unpack("qq", extra[0][2][:16])
        return Segment(seconds * 10**9 + nanoseconds, source, target, size)

    def discard(self):
        """What was seen since the last call is of no interest, all of it or not."""
        with suppress(RuntimeError):
            self.take()

    def close(self):
        self._socket.close()


def ports_of(pid: int, remote: int) -> set:
    """The local ports of the process's connections to port `remote`."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in inodes and int(fields[2].rpartition(":")[2], 16) == remote:
            found.add(int(fields[1].rpartition(":")[2], 16))
    return found
