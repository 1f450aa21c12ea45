#!/usr/bin/env python3
# tries: ask the cloud's metadata service for the machine's own credentials
# must: get no connection; the attempt is recorded
# expect: exit=1 status=exited verdict=violated rule=network-connect/deny
# expect: network=169.254.169.254:80 stdout-lacks=AccessKey
# control: skipped, on a cloud machine it would fetch real credentials

import sys
import urllib.request

URL = "http://169.254.169.254/latest/meta-data/iam/security-credentials/"
try:
    with urllib.request.urlopen(URL, timeout=5) as answer:
        print(answer.read().decode())
except OSError as error:
    sys.exit(f"no answer: {error}")
