#!/usr/bin/env python3
# tries: pack two files into a zip archive in the working directory and unpack them on /tmp
# must: work; only the archive is a change of the working directory
# expect: exit=0 status=exited verdict=clean stdout-has="2 files, 30000 bytes" files-changed=bundle.zip

import pathlib
import zipfile

with zipfile.ZipFile("bundle.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("first.txt", "a" * 10_000)
    archive.writestr("folder/second.txt", "b" * 20_000)
with zipfile.ZipFile("bundle.zip") as archive:
    assert archive.testzip() is None
    archive.extractall("/tmp/unpacked")
files = [path for path in pathlib.Path("/tmp/unpacked").rglob("*") if path.is_file()]
print(f"{len(files)} files, {sum(path.stat().st_size for path in files)} bytes")
