#!/usr/bin/env python3
# tries: harm whoever collects the results, by a pipe without a writer, links, a locked folder and an evil name
# must: be listed as what it is; nothing is followed, opened or waited for, and the terminal gets no control character
# expect: exit=0 status=exited within=15s stderr-plain workdir=unchanged stdout-has=planted
# control: exit=0 workdir=changed

import os

os.mkfifo("result.txt")
os.symlink("/etc/shadow", "notes.txt")
os.symlink("/proc/self/fd/0", "input.txt")
os.mkdir("locked")
os.close(os.open("locked/inner", os.O_CREAT))
os.chmod("locked", 0)
os.close(os.open(b"\x1b[2J\xff\nverdict: clean", os.O_CREAT))
print("planted")
