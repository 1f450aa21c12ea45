// tries: sum an array on four threads with a mutex
// must: finish as if there were no jail
// expect: exit=0 status=exited verdict=clean stdout-has="sum 499999500000"
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, COUNT = 1000000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long long total;

static void *add_slice(void *argument)
{
    long first = (long)argument * (COUNT / THREADS);
    long long sum = 0;
    for (long i = first; i < first + COUNT / THREADS; i++)
        sum += i;
    pthread_mutex_lock(&lock);
    total += sum;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, add_slice, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("sum %lld\n", total);
    return 0;
}
