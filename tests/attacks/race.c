// A second thread exchanges the last byte of the path argument while the first one opens it, again
// and again; what was really opened shows in the content. Both files hold their own last byte.
//
//   race COUNT PATH BYTE    opens PATH, whose last byte is or is not BYTE, and tells how often which
//   race until PATH BYTE    until the file with BYTE at its end is open
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[256];
static volatile char *last;
static char bytes[2];
static atomic_int done;

static void *flip(void *unused)
{
    while (!done) {
        *last = bytes[1];
        *last = bytes[0];
    }
    return unused;
}

// The first byte of the file that was opened; 0 for none.
static char opened(void)
{
    char first = 0;
    int file = open(path, O_RDONLY);
    if (file >= 0 && read(file, &first, 1) != 1)
        first = '?';
    close(file);
    return first;
}

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    strncpy(path, arguments[2], sizeof path - 1);
    last = path + strlen(path) - 1;
    bytes[0] = *last;
    bytes[1] = arguments[3][0];
    int until = strcmp(arguments[1], "until") == 0;
    long rounds = until ? 1000000 : atol(arguments[1]);
    long tally[256] = {0};
    pthread_t flipper;
    pthread_create(&flipper, NULL, flip, NULL);
    for (long round = 1; round <= rounds; round++) {
        char first = opened();
        tally[(unsigned char)first]++;
        if (until && first == bytes[1]) {
            puts("won");
            break;
        }
        // The reader of events has time to follow, however busy the machine is.
        if (round % 1000 == 0)
            usleep(3000);
    }
    done = 1;
    pthread_join(flipper, NULL);
    if (!until)
        printf("%ld %ld %ld\n", tally[(unsigned char)bytes[0]], tally[(unsigned char)bytes[1]], tally[0]);
    return 0;
}
