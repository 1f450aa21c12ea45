#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
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

int main(void) {
    sigset_t alarm_only;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = rings;
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm_only, NULL);

    struct itimerval soon = {{0, 0}, {0, 50000}};
    begin(); setitimer(ITIMER_REAL, &soon, NULL); wait_for_signal(); end("setitimer");
    begin(); alarm(1); wait_for_signal(); end("alarm");

    timer_t timer;
    timer_create(CLOCK_REALTIME, NULL, &timer);
    struct itimerspec at = {{0, 0}, {0, 50000000}};
    begin(); timer_settime(timer, 0, &at, NULL); wait_for_signal(); end("timer_settime, a while");
    at.it_value = after(0.05);
    begin(); timer_settime(timer, TIMER_ABSTIME, &at, NULL); wait_for_signal(); end("timer_settime, a moment");

    uint64_t times;
    int fd = timerfd_create(CLOCK_REALTIME, 0);
    at.it_value = (struct timespec){0, 50000000};
    begin(); timerfd_settime(fd, 0, &at, NULL); read(fd, &times, 8); end("timerfd_settime, a while");
    at.it_value = after(0.05);
    begin(); timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL); read(fd, &times, 8); end("timerfd_settime, a moment");

    /* What is left of a timer, and a moment of it, are the host's. */
    struct itimerspec left;
    at.it_value = (struct timespec){7200, 0};
    timerfd_settime(fd, 0, &at, NULL);
    struct timespec hour = {3600, 0};
    begin(); nanosleep(&hour, NULL); end("nanosleep");
    timerfd_gettime(fd, &left);
    printf("timerfd_gettime behind an hour: %s\n", left.it_value.tv_sec > 7000 ? "two hours are left" : "one hour is left");
    alarm(1);
    sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
    rang = 0; nanosleep(&hour, NULL);
    printf("alarm of a second, behind an hour: %s\n", rang ? "rang" : "did not ring");
    alarm(0);

    struct timespec moment = after(3600);
    begin(); clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &moment, NULL); end("clock_nanosleep, a moment");
    int word = 0;
    moment = after(3600);
    begin(); syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &moment, NULL, FUTEX_BITSET_MATCH_ANY); end("futex, a moment");
    begin(); syscall(SYS_futex, &word, FUTEX_WAIT, 0, &hour, NULL, 0); end("futex, a while");
    return 0;
}
