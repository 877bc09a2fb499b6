"""What a hostile agent runs on its machine, by name, and what must never stand in an answer.

``{secret}`` is a file of the host that holds ``HOST-SECRET``, ``{pid}`` a process of the host, ``{port}`` a server of
the host, ``{mark}`` a name that must not appear on the host, ``{home}`` the home of the host's user.
"""

TRACE = (
    "import ctypes; c = ctypes.CDLL(None); "
    "print(['OPEN' + 'ED' for p in (1, {pid}) if c.ptrace(16, p, 0, 0) == 0])"
)
SCRIPTS: dict[str, str] = {
    "fork bomb": ":(){{ :|:& }}; :",
    "fork bomb that ignores signals": "trap '' TERM INT HUP; while :; do (trap '' TERM; sleep 100) & done",
    "remove everything": "rm -rf --no-preserve-root / 2>/dev/null; echo gone",
    "fill the disk": "for i in $(seq 9); do head -c 200M /dev/zero 2>/dev/null > /tmp/f$i; head -c 200M /dev/zero 2>/dev/null "
    "> /dev/shm/g$i; done; du -sm /tmp | cut -f1",
    "fill the memory": "python3 -c 'x = b\"x\" * (8 << 30)'",
    "fill the memory by many": 'for i in 1 2 3 4 5 6 7 8; do python3 -c \'import time; x = b"x" * (400 << 20); '
    "time.sleep(9)' & done; wait",
    "endless loop": "while :; do :; done",
    "endless output": "yes HOST",
    "kill all": "kill -9 -1; kill -9 {pid}",
    "by process 1": "cat /proc/1/root{secret}; ls /proc/1/root/ && echo OPENED; cat /proc/1/environ && echo OPENED; "
    "echo > /proc/1/mem && echo OPENED",
    "mount": "mkdir /tmp/m; mount -t proc proc /tmp/m; mount --bind / /tmp/m; umount /usr; mknod /tmp/d b 254 0; cat /tmp/d",
    "network": 'exec 5<>/dev/tcp/127.0.0.1/{port} && echo CONNECTED; python3 -c "import socket; '
    "socket.create_connection(('127.0.0.1', {port})); print('CONNECTED')\"",
    "a socket past the namespaces": "python3 -c \"import socket; socket.socket(40, 1); print('OPEN' + 'ED')\"",
    "memory that no process maps": "python3 -c \"import os; os.memfd_create('x'); print('OPEN' + 'ED')\"; "
    "ipcmk -M 100000000 && echo OPENED",
    "trace": f'python3 -c "{TRACE}"; kill -STOP {{pid}} 1',
    "home and environment": "cat {secret} {home}/.* {home}/*; env; cat /proc/*/environ; cat /etc/shadow",
    "setuid": "cp /bin/bash /tmp/b; chown 0:0 /tmp/b; chmod 6755 /tmp/b; /tmp/b -p -c 'cat {secret} /etc/shadow'; su -c id",
    "daemon": "setsid nohup bash -c 'exec -a {mark} sleep 1000' >/dev/null 2>&1 & disown -a; echo started",
    "write to the system": "echo {mark} > /usr/{mark}; echo {mark} > /etc/{mark}; echo {mark} > /var/{mark}; "
    "echo {mark} >> /etc/passwd; echo {mark} > /usr/bin/env; ls /usr/{mark} && echo WRITTEN",
    "unshare": "unshare -Ur id; unshare -Urm mount -t tmpfs t /mnt && echo MOUNTED",
    "settings of the kernel": "for f in /proc/sys/kernel/hostname /proc/sys/vm/drop_caches /proc/sysrq-trigger; do "
    "echo 1 > $f && echo CHANGED; done",
    "binary garbage": "head -c 3000 /dev/urandom; printf '\\0\\033]0;x\\007\\377'",
    "end of process 1": "kill -INT 1; kill -TERM 1; kill -HUP 1; kill -QUIT 1; sleep 0.3; echo still",
    "end of the shell": "exec 1>&- 2>&-; exit 3",
}
NEVER = ("HOST-SECRET", "CONNECTED", "MOUNTED", "CHANGED", "OPENED", "root:$", "root:*")
