// tries: open the directory /etc first, then "shadow" relative to its descriptor
// must: die, although no argument ever holds the path /etc/shadow
// expect: exit=121 status=killed_by_policy verdict=violated rule=credential-file/kill path=/etc/shadow
// expect: stdout-lacks=root:
// control: exit=0 stdout-has=root:
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    int directory = open("/etc", O_RDONLY | O_DIRECTORY);
    int file = openat(directory, "shadow", O_RDONLY);
    if (file < 0) {
        perror("shadow");
        return 1;
    }
    char buffer[4096];
    ssize_t size = read(file, buffer, sizeof buffer);
    return write(STDOUT_FILENO, buffer, size) < 0;
}
