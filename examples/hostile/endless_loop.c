// tries: compute for ever
// must: be ended by the wall clock
// args: --wall 2s
// expect: exit=124 status=timed_out verdict=suspicious within=10s
// control: skipped, it has no end to see

int main(void)
{
    for (volatile unsigned long round = 0;; round++)
        ;
}
