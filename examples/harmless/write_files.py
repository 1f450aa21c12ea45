#!/usr/bin/env python3
# tries: make, rename and remove files and folders in the working directory
# must: see its own writes; the host sees none of them, the report lists what is left
# expect: exit=0 status=exited verdict=clean stdout-has="notes/first.txt notes/third.txt"
# expect: files-changed=notes,notes/first.txt,notes/third.txt

import os
import pathlib

os.mkdir("notes")
for name in ("first.txt", "second.txt", "temporary.txt"):
    pathlib.Path("notes", name).write_text(f"this is {name}\n")
os.rename("notes/second.txt", "notes/third.txt")
os.remove("notes/temporary.txt")
print(*sorted(str(path) for path in pathlib.Path("notes").iterdir()))
