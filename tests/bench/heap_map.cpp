// SPDX-License-Identifier: Apache-2.0
/*
 * A load of allocations. heap_map: a map of strings that grows and shrinks. heap_map pairs N: so
 * many frees and mallocs of 64 bytes, or with BYTES of so many; prints ns of CPU time a pair.
 */
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>

static int pairs(long n, size_t bytes)
{
	void *volatile kept[64] = {};
	const std::clock_t begin = std::clock();
	for (long i = 0; i < n; i++) {
		std::free(kept[i & 63]);
		kept[i & 63] = std::malloc(bytes);
	}
	std::printf("%.2f\n", 1e9 * double(std::clock() - begin) / CLOCKS_PER_SEC / double(n));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 2)
		return pairs(std::atol(argv[2]), argc > 3 ? size_t(std::atol(argv[3])) : 64);
	std::map<std::string, std::string> m;
	unsigned random = 1;
	for (int i = 0; i < 3000000; i++) {
		random = random * 1103515245 + 12345;
		const std::string key = "key " + std::to_string(random >> 14);
		if (random & 2048)
			m[key] = std::string(20 + random % 100, 'v');
		else
			m.erase(key);
	}
	std::printf("%zu\n", m.size());
}
