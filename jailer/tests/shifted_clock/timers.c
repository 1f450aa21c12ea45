#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t rang;
static void rings(int signal) { (void)signal; rang = 1; }

static double in_jail(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}
/* times(2) counts the host's time. */
static double on_host(void) { return times(NULL) / (double)sysconf(_SC_CLK_TCK); }

static double began_in_jail, began_on_host;
static void begin(void) { rang = 0; began_in_jail = in_jail(); began_on_host = on_host(); }
static void end(const char *name) {
    double jail = in_jail() - began_in_jail, host = on_host() - began_on_host;
    printf("%s: %s\n", name, jail - host > 1 ? "went by" : host > jail - 0.1 ? "the host's time" : "neither");
}

static struct timespec after(double seconds) {
    double moment = in_jail() + seconds;
    struct timespec at = {(time_t)moment, (long)((moment - (time_t)moment) * 1e9)};
    return at;
}

/* Waits for a signal that may have come already. */
static void wait_for_signal(void) {
    sigset_t none;
    sigemptyset(&none);
    while (!rang) sigsuspend(&none);
}

static pthread_t main_thread;
static volatile sig_atomic_t value;
static void with_value(int signal, siginfo_t *info, void *context) {
    (void)signal; (void)context;
    value = info->si_code == SI_TIMER ? info->si_value.sival_int : -1;
    rang = 1;
}
static void by_thread(union sigval of) { value = of.sival_int; rang = 1; pthread_kill(main_thread, SIGUSR1); }

int main(int argc, char **argv) {
    sigset_t blocked;
    struct sigaction action;
    main_thread = pthread_self();
    memset(&action, 0, sizeof action);
    action.sa_handler = rings;
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    if (argc > 1) {
        begin(); wait_for_signal(); end("alarm, of the program before");
        return 0;
    }

    struct itimerval hour_and_minute = {{60, 0}, {3600, 0}}, was;
    begin(); setitimer(ITIMER_REAL, &hour_and_minute, NULL); wait_for_signal(); end("setitimer");
    begin(); wait_for_signal(); end("setitimer, once more");
    getitimer(ITIMER_REAL, &was);
    printf("getitimer: %ld of %ld\n", (long)was.it_value.tv_sec + 1, (long)was.it_interval.tv_sec);
    printf("alarm: %u were left\n", alarm(86400));
    begin(); wait_for_signal(); end("alarm");
    alarm(1000);
    fflush(stdout);
    if (fork() == 0) { printf("alarm of a child: %u\n", alarm(0)); fflush(stdout); _exit(0); }
    wait(NULL);
    printf("alarm: %u left\n", alarm(0));

    timer_t timer;
    timer_create(CLOCK_REALTIME, NULL, &timer);
    struct itimerspec at = {{0, 0}, {3600, 0}}, left;
    begin(); timer_settime(timer, 0, &at, NULL); wait_for_signal(); end("timer_settime, a while");
    at.it_value = after(3600);
    begin(); timer_settime(timer, TIMER_ABSTIME, &at, NULL); wait_for_signal(); end("timer_settime, a moment");
    at.it_value = (struct timespec){7200, 0};
    timer_settime(timer, 0, &at, NULL);
    struct timespec hour = {3600, 0};
    begin(); nanosleep(&hour, NULL); end("nanosleep");
    timer_gettime(timer, &left);
    printf("timer_gettime behind an hour: %ld\n", (long)left.it_value.tv_sec + 1);
    timer_delete(timer);

    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR2;
    event.sigev_value.sival_int = 42;
    action.sa_sigaction = with_value;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR2, &action, NULL);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    at.it_value = (struct timespec){3600, 0};
    begin(); timer_settime(timer, 0, &at, NULL); wait_for_signal(); end("timer_settime, a signal");
    printf("value: %d\n", (int)value);
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = by_thread;
    event.sigev_value.sival_int = 43;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    begin(); timer_settime(timer, 0, &at, NULL); wait_for_signal(); end("timer_settime, a thread");
    printf("value: %d\n", (int)value);

    /* Of its own CPU time. */
    event.sigev_notify = SIGEV_SIGNAL;
    timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer);
    at.it_value = (struct timespec){0, 20000000};
    rang = 0; timer_settime(timer, 0, &at, NULL);
    sigdelset(&blocked, SIGALRM); sigdelset(&blocked, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    while (!rang) {}
    printf("CPU time: rang\n");

    uint64_t times;
    int fd = timerfd_create(CLOCK_REALTIME, 0);
    at.it_value = (struct timespec){3600, 0};
    begin(); timerfd_settime(fd, 0, &at, NULL); read(fd, &times, 8); end("timerfd_settime, a while");
    at.it_value = after(3600);
    begin(); timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL); read(fd, &times, 8); end("timerfd_settime, a moment");
    at.it_value = (struct timespec){7200, 0};
    at.it_interval = (struct timespec){60, 0};
    timerfd_settime(fd, 0, &at, NULL);
    nanosleep(&hour, NULL);
    timerfd_gettime(fd, &left);
    printf("timerfd_gettime behind an hour: %ld\n", (long)left.it_value.tv_sec + 1);
    struct pollfd ready = {fd, POLLIN, 0};
    begin(); poll(&ready, 1, -1); end("poll for ever, of a timerfd");
    read(fd, &times, 8);
    begin(); read(fd, &times, 8); end("timerfd, once more");
    printf("times: %d\n", (int)times);
    close(fd);

    /* Whatever comes first. */
    rang = 0; alarm(1);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    blocked = (sigset_t){0}; sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    struct timespec rest;
    int slept = nanosleep(&hour, &rest);
    /* How late the sleep began and the alarm woke it is the machine's. */
    int is_second_less = rest.tv_sec >= 3590 && rest.tv_sec <= 3599;
    printf("alarm of a second, within an hour: %s, left %s\n", rang && slept ? "rang" : "did not ring", is_second_less ? "the rest" : "another time");

    struct timespec moment = after(3600);
    begin(); clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &moment, NULL); end("clock_nanosleep, a moment");
    int word = 0;
    moment = after(3600);
    begin(); syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &moment, NULL, FUTEX_BITSET_MATCH_ANY); end("futex, a moment");
    begin(); syscall(SYS_futex, &word, FUTEX_WAIT, 0, &hour, NULL, 0); end("futex, a while");
    begin(); ready = (struct pollfd){-1, 0, 0}; ppoll(&ready, 1, &hour, NULL); end("ppoll");
    int set = epoll_create1(0);
    struct epoll_event got;
    begin(); epoll_wait(set, &got, 1, 3600000); end("epoll_wait");
    sigset_t none;
    sigemptyset(&none);
    begin(); sigtimedwait(&none, NULL, &hour); end("sigtimedwait");
    begin(); pselect(0, NULL, NULL, NULL, &hour, NULL); end("pselect");

    fflush(stdout);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    alarm(3600);
    execv(argv[0], (char *[]){argv[0], "again", NULL});
    return 1;
}
