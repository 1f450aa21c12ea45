// tries: make a file of 1 TiB that takes no space until someone copies it
// must: be ended by the limit on the size of a file
// expect: exit=122 status=limit_exceeded verdict=suspicious stdout-lacks=made
// control: exit=0 stdout-has="made 1 TiB"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    const char *path = "/tmp/turnkey-sparse-file";
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0 || ftruncate(file, 1L << 40) != 0) {
        perror(path);
        return 1;
    }
    unlink(path);
    puts("made 1 TiB");
    return 0;
}
