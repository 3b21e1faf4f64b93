// SPDX-License-Identifier: Apache-2.0

// truth.h in Java: Truth TRIALS MILLISECONDS FIRST ROUNDS. The work is in a lambda.
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Random;
import java.util.function.IntToLongFunction;

public class Truth {
	static final ThreadMXBean clock = ManagementFactory.getThreadMXBean();
	static volatile long sink;
	static int rounds;

	static double cpu() {
		return clock.getCurrentThreadCpuTime() / 1e9;
	}

	static void rename(String name) throws IOException {
		try (FileOutputStream f = new FileOutputStream("/proc/thread-self/comm")) {
			f.write(name.getBytes());
		}
	}

	static long three(int n) { // <three>
		long x = n;
		for (int i = 0; i < n * rounds; i++)
			x = x * 6364136223846793005L + (x >>> 33);
		return x;
	} // </three>

	static long one(int n) { // <one>
		long x = n;
		for (int i = 0; i < n * rounds; i++)
			x = x * 3935559000370003845L + (x >>> 31);
		return x;
	} // </one>

	static long down(int depth, IntToLongFunction part, int n) {
		return depth > 0 ? down(depth - 1, part, n) + 1 : part.applyAsLong(n);
	}

	static void run(double[] took, int n) {
		double begin = cpu();
		sink += down(8, k -> three(k), 3 * n);
		double middle = cpu();
		sink += down(8, k -> one(k), n);
		took[0] += middle - begin;
		took[1] += cpu() - middle;
	}

	static void trials(int n, double seconds, int first) throws IOException {
		Random chance = new Random(first);
		for (int i = first; i < first + n; i++) {
			double[] took = new double[2];
			rename("truth." + i);
			double begin = cpu();
			while (cpu() - begin < seconds)
				run(took, 20 + chance.nextInt(80));
			double all = cpu() - begin;
			rename("rest");
			System.out.printf("truth.%d %.9f %.9f %.9f%n", i, took[0], took[1], all);
		}
	}

	public static void main(String[] a) throws IOException {
		rounds = Integer.parseInt(a[3]);
		for (double end = cpu() + 0.5; cpu() < end;) // compiled meanwhile
			run(new double[2], 50);
		trials(Integer.parseInt(a[0]), Double.parseDouble(a[1]) / 1e3, Integer.parseInt(a[2]));
	}
}
