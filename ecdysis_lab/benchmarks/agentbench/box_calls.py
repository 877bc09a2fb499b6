"""System calls that a box has no use for, as a filter of the kernel's (seccomp, classic BPF).

Refused with EPERM: sockets of families that no namespace holds apart (vsock and others), memory that no process need
map and that therefore no limit here counts (``memfd``, System V), and doors to the kernel that no task needs. Another
architecture's calls are refused as unknown.
"""

from __future__ import annotations

import errno
import os
import platform
import struct

FAMILIES = (1, 2, 10, 16)  # unix, IPv4, IPv6, netlink
REFUSED = (
    "memfd_create", "memfd_secret", "shmget", "io_uring_setup", "bpf", "userfaultfd", "perf_event_open", "add_key",
    "request_key", "keyctl",
)  # fmt: skip
# Machine -> its audit number, the number of socket, those of REFUSED in its order (linux/asm/unistd.h).
NUMBERS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "x86_64": (0xC000003E, 41, (319, 447, 29, 425, 321, 323, 298, 248, 249, 250)),
    "aarch64": (0xC00000B7, 198, (279, 447, 194, 425, 280, 282, 241, 217, 218, 219)),
}
LOAD, EQUAL, AT_LEAST, ANSWER = 0x20, 0x15, 0x35, 0x06
NUMBER_AT, ARCHITECTURE_AT, FIRST_ARGUMENT_AT = 0, 4, 16  # struct seccomp_data
OTHER_TABLE = 0x40000000  # x32 calls on x86_64
ALLOW, FAIL = 0x7FFF0000, 0x00050000


def program(machine: str) -> bytes:
    """The filter for an architecture, as the kernel reads it.

    Raises
    ------
    OSError: the architecture is not known.
    """
    if machine not in NUMBERS:
        raise OSError(f"no filter of system calls for {machine}; there are {', '.join(NUMBERS)}")
    architecture, socket, refused = NUMBERS[machine]
    rows: list[tuple[int, str, str, int]] = [  # operation, where to go if it holds and if not, operand
        (LOAD, "", "", ARCHITECTURE_AT),
        (EQUAL, "", "unknown", architecture),
        (LOAD, "", "", NUMBER_AT),
        (AT_LEAST, "unknown", "", OTHER_TABLE),
        *((EQUAL, "refuse", "", number) for number in refused),
        (EQUAL, "", "allow", socket),
        (LOAD, "", "", FIRST_ARGUMENT_AT),
        *((EQUAL, "allow", "", family) for family in FAMILIES),
    ]
    ends = {"refuse": FAIL | errno.EPERM, "unknown": FAIL | errno.ENOSYS, "allow": ALLOW}
    at = {"": 0, **{name: len(rows) + n for n, name in enumerate(ends)}}
    made = [
        struct.pack("=HBBI", operation, *(at[to] - here - 1 if to else 0 for to in (yes, no)), operand)
        for here, (operation, yes, no, operand) in enumerate(rows)
    ]
    return b"".join(made + [struct.pack("=HBBI", ANSWER, 0, 0, answer) for answer in ends.values()])


def opened() -> int:
    """The filter for this machine in an open file without a name; the caller closes it.

    Raises
    ------
    OSError: as :func:`program`.
    """
    fd = os.memfd_create("seccomp", 0)
    os.write(fd, program(platform.machine()))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
