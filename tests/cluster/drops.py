"""Which packets a cable loses, as programs of the kernel's packet filter (classic BPF) in the words of `tc`.

A program says whether a packet is one of them. Kernels without netem have this.
"""

LOAD, LOAD_BYTE, IF_EQUAL, IF_AT_LEAST, RETURN = 0x20, 0x30, 0x15, 0x35, 0x06
CHANCE = 0xfffff000 + 56  # a number of 32 bits in place of what stands in the packet
FRAME = 0xffe00000  # where the frame begins: six bytes of the address of whom it is for, six of the sender's
CHOSEN, NOT_CHOSEN = (RETURN, 0, 0, 0xffffffff), (RETURN, 0, 0, 0)


def program(*lines: tuple) -> str:
    return ",".join([str(len(lines)), *(" ".join(map(str, line)) for line in lines)])


def by_chance(share: float) -> str:
    """So many of them, each by itself."""
    return program((LOAD, 0, 0, CHANCE), (IF_AT_LEAST, 0, 1, round(share * 0xffffffff)), NOT_CHOSEN, CHOSEN)


def unless_from(number: int) -> str:
    """Those of all machines but one; a machine's number is the last byte of its card's address (network.py)."""
    return program((LOAD_BYTE, 0, 0, FRAME + 11), (IF_EQUAL, 0, 1, number), NOT_CHOSEN, CHOSEN)


def unless_to(number: int) -> str:
    """Those to all machines but one. What is for everybody is let through: it asks who has an address."""
    return program((LOAD_BYTE, 0, 0, FRAME + 5), (IF_EQUAL, 1, 0, number), (IF_EQUAL, 0, 1, 0xff), NOT_CHOSEN, CHOSEN)
