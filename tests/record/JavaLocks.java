// SPDX-License-Identifier: Apache-2.0
// java JavaLocks KIND SECONDS: four threads take turns at a lock, which each holds for 5 ms; KIND is
// lock, write, monitor or latch. Prints how long they waited for it in all, in nanoseconds.
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

class JavaLocks {
	static final ReentrantLock lock = new ReentrantLock();
	static final ReentrantReadWriteLock both = new ReentrantReadWriteLock();
	static final Object monitor = new Object();
	static final AtomicLong waited = new AtomicLong();

	static void hold(long since) throws InterruptedException {
		waited.addAndGet(System.nanoTime() - since);
		Thread.sleep(5);
	}

	static void turn(String kind) throws InterruptedException {
		final long since = System.nanoTime();
		if (kind.equals("lock")) {
			lock.lock();
			try {
				hold(since);
			} finally {
				lock.unlock();
			}
		} else if (kind.equals("write")) {
			both.writeLock().lock();
			try {
				hold(since);
			} finally {
				both.writeLock().unlock();
			}
		} else if (kind.equals("monitor")) {
			synchronized (monitor) {
				hold(since);
			}
		} else {
			final CountDownLatch latch = new CountDownLatch(1);
			final Thread helper = new Thread(() -> {
				try {
					Thread.sleep(5);
				} catch (InterruptedException e) {
					throw new RuntimeException(e);
				}
				latch.countDown();
			});
			helper.start();
			latch.await();
			waited.addAndGet(System.nanoTime() - since);
		}
	}

	public static void main(String[] args) throws InterruptedException {
		final long end = System.nanoTime() + Long.parseLong(args[1]) * 1_000_000_000L;
		final Thread[] threads = new Thread[4];
		for (int i = 0; i < threads.length; i++) {
			threads[i] = new Thread(() -> {
				try {
					while (System.nanoTime() < end)
						turn(args[0]);
				} catch (InterruptedException e) {
					throw new RuntimeException(e);
				}
			}, "worker" + i);
			threads[i].start();
		}
		for (Thread t : threads)
			t.join();
		System.out.println(waited.get());
	}
}
