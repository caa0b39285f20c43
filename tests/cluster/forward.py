"""Carries TCP connections from a loopback port of this computer into a network namespace.

    forward.py PORT NAMESPACE ADDRESS ADDRESS_PORT

A socket belongs to the namespace in which it was made: the listening one is made here, those that go on are made after
this process has moved.
"""

import asyncio
import ctypes
import os
import socket
import sys

CLONE_NEWNET = 0x40000000  # linux/sched.h


def enter(namespace: str):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(namespace, "rb") as place:
        if libc.setns(place.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
    """One direction, until its end, which is passed on."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


def served(address: str, port: int):
    async def serve(reader, writer):
        try:
            onward_reader, onward_writer = await asyncio.open_connection(address, port)
        except OSError:
            writer.transport.abort()  # a reset: nobody listens, as the caller would have been told by a refusal
            return
        await asyncio.gather(carry(reader, onward_writer), carry(onward_reader, writer))
        for each in (writer, onward_writer):
            each.close()
    return serve


async def forward(listening: socket.socket, address: str, port: int):
    server = await asyncio.start_server(served(address, port), sock=listening)
    await server.serve_forever()


def main(port: str, namespace: str, address: str, address_port: str):
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(port)))
    listening.listen(512)
    listening.setblocking(False)
    enter(namespace)
    asyncio.run(forward(listening, address, int(address_port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
