#!/usr/bin/env python3
# tries: square numbers on three worker processes, with semaphores in /dev/shm and pipes between them
# must: finish well inside 50 processes
# profile: python
# expect: exit=0 status=exited verdict=clean stdout-has="sum 338350" survivors=none

import multiprocessing


def square(number):
    return number * number


if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        print("sum", sum(pool.map(square, range(1, 101))))
