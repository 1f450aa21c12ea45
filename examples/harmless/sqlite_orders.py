#!/usr/bin/env python3
# tries: keep a small SQLite database on /tmp, with a transaction that is rolled back
# must: work; SQLite needs file locks, fsync and a journal beside the database
# profile: python
# expect: exit=0 status=exited verdict=clean stdout-has="pear 7" stdout-lacks=plum files-changed=none

import sqlite3

database = sqlite3.connect("/tmp/orders.db")
database.execute("CREATE TABLE orders (item TEXT, amount INTEGER)")
with database:
    database.executemany(
        "INSERT INTO orders VALUES (?, ?)", [("apple", 3), ("pear", 2), ("pear", 5)]
    )
try:
    with database:
        database.execute("INSERT INTO orders VALUES ('plum', 1)")
        raise RuntimeError("the customer changed their mind")
except RuntimeError:
    pass
for item, amount in database.execute(
    "SELECT item, SUM(amount) FROM orders GROUP BY item ORDER BY item"
):
    print(item, amount)
