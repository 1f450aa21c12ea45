#!/usr/bin/env python3
# tries: forge turnkey's own report on the terminal, by a path that holds escape sequences and a newline
# must: die; what turnkey prints about the path holds no control character
# expect: exit=121 status=killed_by_policy verdict=violated rule=private-key/kill stderr-plain
# control: skipped, the file does not exist outside either: the attempt is the attack

open("/tmp/\x1b[2J\x1b]0;owned\x07\nverdict: clean\x9b1A/.ssh/id_rsa")
