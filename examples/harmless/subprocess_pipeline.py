#!/usr/bin/env python3
# tries: run printf, sort and uniq as a pipeline, as scripts do
# must: work; starting programs of the system is allowed under untrusted
# expect: exit=0 status=exited verdict=clean stdout-has="2 pear"

import subprocess

words = subprocess.Popen(
    ["printf", "%s\n", "pear", "apple", "pear"], stdout=subprocess.PIPE
)
ordered = subprocess.Popen(["sort"], stdin=words.stdout, stdout=subprocess.PIPE)
words.stdout.close()
counted = subprocess.run(
    ["uniq", "-c"], stdin=ordered.stdout, capture_output=True, text=True, check=True
)
for line in counted.stdout.splitlines():
    print(" ".join(line.split()))
