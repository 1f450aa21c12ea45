#!/usr/bin/env python3
# tries: outlive its time by ignoring every signal that can be ignored
# must: be ended by the wall clock all the same
# args: --wall 2s
# run: python3 {file} {marker}
# expect: exit=124 status=timed_out verdict=suspicious within=10s survivors=none
# control: skipped, it has no end to see

import signal
import time

for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
while True:
    time.sleep(1)
