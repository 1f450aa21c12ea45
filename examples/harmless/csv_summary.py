#!/usr/bin/env python3
# tries: write a CSV file into the working directory, read it back and sum it up by region
# must: work; the new file is in the report and not on the host
# expect: exit=0 status=exited verdict=clean stdout-has="north 1275" stdout-has="south 3775"
# expect: files-changed=sales.csv

import collections
import csv

with open("sales.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["region", "amount"])
    for amount in range(1, 101):
        writer.writerow(["north" if amount <= 50 else "south", amount])

totals = collections.Counter()
with open("sales.csv", newline="") as file:
    for row in csv.DictReader(file):
        totals[row["region"]] += int(row["amount"])
for region, total in sorted(totals.items()):
    print(region, total)
