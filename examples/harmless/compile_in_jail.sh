#!/bin/sh
# tries: write a C program, compile it with gcc in the jail and run the result
# must: work; compiler, assembler and linker are programs of the system, and the result is the jail's own file
# profile: shell
# expect: exit=0 status=exited verdict=clean stdout-has="gcd is 21" files-changed=gcd,gcd.c
set -e
cat > gcd.c <<'SOURCE'
#include <stdio.h>

static int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }

int main(void)
{
    printf("gcd is %d\n", gcd(1071, 462));
    return 0;
}
SOURCE
gcc -O1 -Wall -o gcd gcd.c
./gcd
