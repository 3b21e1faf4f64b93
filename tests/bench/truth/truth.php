<?php
/* SPDX-License-Identifier: Apache-2.0 */
/* truth.h in PHP: truth.php TRIALS MILLISECONDS FIRST ROUNDS. PHP has one thread, whose clock is the process's. */

function cpu(): float
{
	$u = getrusage();
	return $u['ru_utime.tv_sec'] + $u['ru_stime.tv_sec'] +
		($u['ru_utime.tv_usec'] + $u['ru_stime.tv_usec']) / 1e6;
}

class Parts
{
	static function three(int $n): int // <three>
	{
		global $rounds;
		$x = $n;
		for ($i = 0; $i < $n * $rounds; $i++) {
			$x = ($x * 31 + $i) % 65521;
		}
		return $x;
	} // </three>
	static function one(int $n): int // <one>
	{
		global $rounds;
		$x = $n;
		for ($i = 0; $i < $n * $rounds; $i++) {
			$x = ($x * 33 + $i) % 65521;
		}
		return $x;
	} // </one>
}

function down(int $depth, callable $part, int $n): int
{
	return $depth ? down($depth - 1, $part, $n) + 1 : $part($n);
}

function run(array &$took, int $n): void
{
	$begin = cpu();
	down(8, 'Parts::three', 3 * $n); // calls three
	$took[0] += cpu() - $begin;
	$begin = cpu();
	down(8, 'Parts::one', $n); // calls one
	$took[1] += cpu() - $begin;
}

function trials(int $n, float $seconds, int $first): void
{
	mt_srand($first);
	for ($i = $first; $i < $first + $n; $i++) {
		$took = [0.0, 0.0];
		file_put_contents('/proc/thread-self/comm', "truth.$i");
		$begin = cpu();
		while (cpu() - $begin < $seconds) {
			run($took, mt_rand(20, 100));
		}
		$all = cpu() - $begin;
		file_put_contents('/proc/thread-self/comm', 'rest');
		printf("truth.%d %.9f %.9f %.9f\n", $i, $took[0], $took[1], $all);
	}
}

$rounds = (int) $argv[4];
trials((int) $argv[1], $argv[2] / 1e3, (int) $argv[3]);
