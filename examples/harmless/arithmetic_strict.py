#!/usr/bin/env python3
# tries: compute 200 digits of pi
# must: finish even under strict: a program that only computes needs nothing that strict forbids
# profile: strict
# expect: exit=0 status=exited verdict=clean stdout-has=3.14159265358979 stdout-has=64462294895493038196


def pi_digits(digits):
    """Machin's formula in whole numbers, with ten digits to spare."""
    one = 10 ** (digits + 10)

    def arctan_of_inverse(x):
        term = total = one // x
        divisor, sign = 3, -1
        while term:
            term //= x * x
            total += sign * (term // divisor)
            divisor, sign = divisor + 2, -sign
        return total

    return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)) // 10**10


text = str(pi_digits(200))
print(f"{text[0]}.{text[1:]}")
