import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;

/** Threads: pools, futures, a fork and join, timers, a queue between them, one that is interrupted. */
public class Pools {
    static class Sum extends RecursiveTask<Long> {
        private static final long serialVersionUID = 1;
        final int from, to;

        Sum(int from, int to) {
            this.from = from;
            this.to = to;
        }

        @Override
        protected Long compute() {
            if (to - from < 1000) {
                return IntStream.range(from, to).asLongStream().sum();
            }
            Sum left = new Sum(from, (from + to) / 2);
            left.fork();
            return new Sum((from + to) / 2, to).compute() + left.join();
        }
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Callable<Integer>> tasks = new ArrayList<>();
        for (int n = 1; n <= 16; n++) {
            int m = n;
            tasks.add(() -> m * m);
        }
        int sum = 0;
        for (Future<Integer> one : pool.invokeAll(tasks)) {
            sum += one.get();
        }
        System.out.println("squares " + sum);
        System.out.println("forked " + ForkJoinPool.commonPool().invoke(new Sum(0, 1_000_000)));
        CompletableFuture<String> both = CompletableFuture.supplyAsync(() -> "left", pool)
                .thenCombine(CompletableFuture.supplyAsync(() -> "right", pool), (left, right) -> left + " " + right);
        System.out.println(both.get(5, TimeUnit.SECONDS));

        BlockingQueue<Integer> queue = new ArrayBlockingQueue<>(2);
        pool.submit(() -> {
            for (int n = 0; n < 100; n++) {
                queue.put(n);
            }
            return null;
        });
        int taken = 0;
        for (int n = 0; n < 100; n++) {
            taken += queue.take();
        }
        System.out.println("queued " + taken);

        ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);
        AtomicInteger ticks = new AtomicInteger();
        CountDownLatch three = new CountDownLatch(3);
        clock.scheduleAtFixedRate(() -> {
            ticks.incrementAndGet();
            three.countDown();
        }, 0, 5, TimeUnit.MILLISECONDS);
        System.out.println("ticked " + three.await(5, TimeUnit.SECONDS));
        Thread sleeper = new Thread(() -> {
            try {
                Thread.sleep(60_000);
            } catch (InterruptedException woken) {
                System.out.println("woken");
            }
        });
        sleeper.start();
        sleeper.interrupt();
        sleeper.join();
        clock.shutdownNow();
        pool.shutdown();
        System.out.println("ended " + pool.awaitTermination(5, TimeUnit.SECONDS));
    }
}
