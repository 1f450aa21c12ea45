// tries: map a file of the working directory and sort it in place
// must: work; a shared mapping of a file on the overlay is ordinary use
// expect: exit=0 status=exited verdict=clean stdout-has="abcdefghij" files-changed=letters.txt
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int compare(const void *left, const void *right)
{
    return *(const char *)left - *(const char *)right;
}

int main(void)
{
    const char letters[] = "jihgfedcba";
    const size_t size = sizeof letters - 1;
    int file = open("letters.txt", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || write(file, letters, size) != (ssize_t)size) {
        perror("letters.txt");
        return 1;
    }
    char *mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapping == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    qsort(mapping, size, 1, compare);
    printf("%.*s\n", (int)size, mapping);
    return 0;
}
