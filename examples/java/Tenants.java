/* SPDX-License-Identifier: Apache-2.0 */
import ascribe.Labels;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** Labels in Java: threads, then a pool. Prints the CPU seconds of each label.  Tenants [SECONDS] */
public class Tenants {
	static final ThreadMXBean bean = ManagementFactory.getThreadMXBean();
	static final Map<String, Double> used = new ConcurrentHashMap<>();

	static void burn(String name, double seconds) {
		long begin = bean.getCurrentThreadCpuTime(), now = begin;
		while ((now = bean.getCurrentThreadCpuTime()) < begin + seconds * 1e9);
		used.merge(name, (now - begin) / 1e9, Double::sum);
	}

	static Thread serve(String tenant, double seconds) {
		Thread t = new Thread(() -> {
			try (Labels l = Labels.of("tenant", tenant); Labels q = Labels.of("query_id", 7)) {
				burn(tenant, seconds);
			}
			burn("none", seconds / 10);
		}, tenant);
		t.start();
		return t;
	}

	static void submit(ExecutorService pool, String tenant, double seconds) {
		try (Labels l = Labels.of("tenant", tenant)) {
			Labels here = Labels.current();
			pool.submit(() -> {
				try (Labels there = here.attach()) {
					burn(tenant, seconds);
				}
			});
		}
	}

	public static void main(String[] args) throws Exception {
		double s = args.length > 0 ? Double.parseDouble(args[0]) : 0.5;
		Thread a = serve("a", 3 * s), b = serve("b", s);
		a.join();
		b.join();
		ExecutorService pool = Executors.newFixedThreadPool(1);
		for (int i = 0; i < 20; i++) {
			submit(pool, "task-a", 3 * s / 20);
			submit(pool, "task-b", s / 20);
		}
		pool.shutdown();
		pool.awaitTermination(1, TimeUnit.MINUTES);
		StringBuilder out = new StringBuilder();
		used.forEach((k, v) -> out.append(out.length() == 0 ? "{" : ", ")
			.append('"').append(k).append("\": ").append(v));
		System.out.println(out.append('}'));
	}
}
