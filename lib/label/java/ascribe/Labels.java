/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
package ascribe;

import java.nio.charset.StandardCharsets;

/**
 * Labels of the calling thread, for the ascribe profiler.
 *
 * <pre>try (Labels l = Labels.of("tenant", tenant)) { handle(request); }</pre>
 *
 * Another thread gets them by value: {@code Labels here = Labels.current();} and there
 * {@code try (Labels l = here.attach()) { work(); }}. Close on the thread that opened, in reverse
 * order. Labels of a virtual thread stay on its carrier: label platform threads.
 */
public final class Labels implements AutoCloseable {
	static {
		System.loadLibrary("ascribe-label");
	}

	private final byte[] saved;

	private Labels(byte[] saved) {
		this.saved = saved;
	}

	/** Add a label; close() brings back what was before. A label that does not fit is left out. */
	public static Labels of(String key, String value) {
		Labels before = current();
		set(bytes(key), bytes(value));
		return before;
	}

	public static Labels of(String key, long value) {
		Labels before = current();
		setInt(bytes(key), value);
		return before;
	}

	/** The labels of this thread, to be attached on any thread. */
	public static Labels current() {
		return new Labels(save());
	}

	/** Replace the labels of this thread by these; close() of the result brings them back. */
	public Labels attach() {
		Labels before = current();
		restore(saved);
		return before;
	}

	/** Take all labels of this thread away. */
	public static void clear() {
		restore(new byte[0]);
	}

	@Override
	public void close() {
		restore(saved);
	}

	private static byte[] bytes(String s) {
		return s == null ? null : s.getBytes(StandardCharsets.UTF_8);
	}

	private static native int set(byte[] key, byte[] value);

	private static native int setInt(byte[] key, long value);

	private static native byte[] save();

	private static native int restore(byte[] saved);
}
