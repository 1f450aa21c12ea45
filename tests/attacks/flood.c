// Floods whoever counts events, and then becomes another program.
//
//   flood DIRECTORY COUNT PROGRAM ARGUMENT...
//
// Says that it is ready by a file in DIRECTORY, waits for the file `go`, makes COUNT opens of two
// files that do not exist, in turns so that none repeats the one before, and says `done`. Without a
// program it ends.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void say(const char *name)
{
    // Not an open: only the flood is counted.
    mknod(name, S_IFREG | 0666, 0);
}

int main(int count, char **arguments)
{
    if (count < 3 || chdir(arguments[1]) != 0)
        return 2;
    say("ready");
    while (access("go", F_OK) != 0)
        usleep(1000);
    for (long left = atol(arguments[2]); left > 0; left--)
        open(left % 2 ? "/nowhere/file" : "/nowhere/other", O_RDONLY);
    say("done");
    if (count > 3)
        execv(arguments[3], arguments + 3);
    return 0;
}
