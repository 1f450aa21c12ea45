// Makes every kind of watched call from many threads at once for a second, with signals between.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 6 };

static void interrupted(int number)
{
    (void)number;
    close(open("/tmp", O_RDONLY));
}

static void *work(void *unused)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int peer = socket(AF_INET, SOCK_DGRAM, 0);
    time_t end = time(NULL) + 2;
    while (time(NULL) < end) {
        close(open("/etc/hostname", O_RDONLY));
        sendto(peer, "x", 1, 0, (struct sockaddr *)&address, sizeof address);
        connect(peer, (struct sockaddr *)&address, sizeof address);
        execl("/nowhere/program", "program", (char *)NULL);
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        while (child > 0 && waitpid(child, NULL, 0) < 0)
            ;
    }
    return unused;
}

int main(void)
{
    struct itimerval often = {.it_interval = {.tv_usec = 500}, .it_value = {.tv_usec = 500}};
    struct sigaction action = {.sa_handler = interrupted, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    pthread_t threads[THREADS];
    for (int thread = 0; thread < THREADS; thread++)
        pthread_create(&threads[thread], NULL, work, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int thread = 0; thread < THREADS; thread++)
        pthread_join(threads[thread], NULL);
    puts("done");
    return 0;
}
