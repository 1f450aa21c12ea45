#!/usr/bin/env python3
# tries: count the primes below 200000 with a sieve
# must: finish as if there were no jail
# expect: exit=0 status=exited verdict=clean stdout-has="17984 primes"

LIMIT = 200_000

sieve = bytearray([1]) * LIMIT
sieve[0:2] = b"\0\0"
for number in range(2, int(LIMIT**0.5) + 1):
    if sieve[number]:
        sieve[number * number :: number] = bytes(len(sieve[number * number :: number]))
print(sum(sieve), "primes")
