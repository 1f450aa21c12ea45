#!/bin/sh
# tries: change one file of the caller's directory and delete another
# must: work for the program; the caller's own files stay as they were
# profile: shell
# expect: exit=0 status=exited verdict=clean stdout-has="remember the milk" stdout-has="gone"
# expect: files-changed=draft.txt,todo.txt
set -e
echo "remember the milk" >> todo.txt
cat todo.txt
rm draft.txt
test -e draft.txt || echo gone
