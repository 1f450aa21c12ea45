#!/bin/sh
# tries: hang without using any time: it stops itself and waits to be continued
# must: be ended by the wall clock
# profile: shell
# args: --wall 2s
# run: sh {file} {marker}
# expect: exit=124 status=timed_out verdict=suspicious within=10s survivors=none
# control: skipped, it has no end to see
kill -STOP $$
echo "continued"
