/*
 * An example of a program for `compare --external`: POSIX threads, in C. docs/compare.md specifies such
 * programs.
 *
 *     cc -O2 -pthread -o target/pthreads bench/external/pthreads.c
 *     cargo run --release -p cygnet-bench -- compare --external target/pthreads spawn-join join-1ms
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t steps_per_us;

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Work of a known length: a number of steps of xorshift64. */
static void *work(void *steps)
{
    volatile uint64_t seed = 1;
    uint64_t x = seed;
    for (uint64_t i = *(uint64_t *)steps; i > 0; i--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    seed = x;
    return NULL;
}

static void *nothing(void *argument)
{
    return argument;
}

static void start(pthread_t *thread, void *(*body)(void *), void *argument)
{
    if (pthread_create(thread, NULL, body, argument) != 0) {
        puts("{\"error\": \"no thread can be started\"}");
        exit(0);
    }
}

/* The operation of a case. `argument` is the number of steps of a leaf. */
static void spawn_join(uint64_t argument)
{
    pthread_t child;
    start(&child, nothing, &argument);
    pthread_join(child, NULL);
}

static void fork_of_two(uint64_t steps)
{
    pthread_t child;
    start(&child, work, &steps);
    work(&steps);
    pthread_join(child, NULL);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Warms up, repeats the operation until enough has been measured, and prints the line. */
static void measure(void (*operation)(uint64_t), uint64_t argument, int checksum)
{
    enum { MOST = 4096 };
    static double walls[MOST];
    const char *quick = getenv("COMPARE_QUICK");
    double wanted = quick != NULL && strcmp(quick, "1") == 0 ? 0.04 : 0.24;
    double repetition = 0.002, total = 0, cpu;
    uint64_t count = 1, done = 0;
    int repetitions = 0;

    /* Doubling finds the number of operations per repetition, and warms up. */
    for (;;) {
        double began = seconds(CLOCK_MONOTONIC);
        for (uint64_t i = 0; i < count; i++)
            operation(argument);
        if (seconds(CLOCK_MONOTONIC) - began >= repetition)
            break;
        count *= 2;
    }
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    while (total < wanted && repetitions < MOST) {
        double began = seconds(CLOCK_MONOTONIC), time;
        for (uint64_t i = 0; i < count; i++)
            operation(argument);
        time = seconds(CLOCK_MONOTONIC) - began;
        walls[repetitions++] = time / (double)count;
        total += time;
        done += count;
    }
    cpu = (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)done;
    qsort(walls, (size_t)repetitions, sizeof *walls, ascending);

    printf("{\"runtime\": \"pthreads\", \"values\": {\"time\": %.1f, \"cpu\": %.1f}",
           walls[repetitions / 2] * 1e9, cpu * 1e9);
    if (checksum >= 0)
        printf(", \"checksum\": %d", checksum);
    puts("}");
}

int main(int argc, char **argv)
{
    const char *speed = getenv("COMPARE_STEPS_PER_US");
    if (argc != 3 || speed == NULL) {
        fputs("see docs/compare.md\n", stderr);
        return 1;
    }
    steps_per_us = strtoull(speed, NULL, 10);
    /* Threads use all processors. They are compared with runtimes of two workers. */
    if (strcmp(argv[2], "2") != 0)
        puts("{\"unknown\": true}");
    else if (strcmp(argv[1], "spawn-join") == 0)
        measure(spawn_join, 0, -1);
    else if (strcmp(argv[1], "join-10us") == 0)
        measure(fork_of_two, 10 * steps_per_us, 2);
    else if (strcmp(argv[1], "join-100us") == 0)
        measure(fork_of_two, 100 * steps_per_us, 2);
    else if (strcmp(argv[1], "join-1ms") == 0)
        measure(fork_of_two, 1000 * steps_per_us, 2);
    else
        puts("{\"unknown\": true}");
    return 0;
}
