#!/usr/bin/env python3
# tries: exhaust memory and whoever lists the results, by files without content and without end
# must: be ended by the memory limit, which counts what the kernel keeps for each file; the report comes in time
# args: --memory 64M
# expect: exit=122 status=out_of_memory within=30s workdir=unchanged
# control: skipped, it would litter the host's disk

for number in range(300_000):
    open(f"file-{number}", "w").close()
