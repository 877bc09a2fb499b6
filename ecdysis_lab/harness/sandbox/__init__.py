"""Running harness code out of process.

``client`` and ``pipe`` are our ends; ``server`` forks; ``worker`` runs hooks; ``lines`` shut it in.
``server``, ``worker`` and ``lines`` run in the sandbox process and use only the standard library.
"""

import struct

REQUEST = struct.Struct("!cid")
"""To the fork server: operation (``F`` fork, ``R`` reap), process id, grace in seconds."""
REPLY = struct.Struct("!i")
"""From the fork server: process id or negative errno; wait status or -1."""
