<?php
/* What tests/record/php.sh records: load.php SECONDS. It prints how long each part ran, in seconds. */
namespace App;

function clock(): float
{
	$u = getrusage();
	return $u['ru_utime.tv_sec'] + $u['ru_stime.tv_sec'] +
		($u['ru_utime.tv_usec'] + $u['ru_stime.tv_usec']) / 1e6;
}

function burn(int $n): int
{
	$x = $n;
	for ($i = 0; $i < $n; $i++) {
		$x = ($x * 31 + $i) % 65521;
	}
	return $x;
}

class Walk
{
	function down(int $depth, callable $f, int $n): int
	{
		return $depth ? $this->down($depth - 1, $f, $n) + 1 : $f($n);
	}
	function three(int $n): int
	{
		return burn($n) + burn($n) + burn($n);
	}
	static function one(int $n): int
	{
		return burn($n);
	}
}

trait Shared
{
	function shared(int $n): int
	{
		return burn($n);
	}
}
class First
{
	use Shared;
}
class Second
{
	use Shared;
}

class Parts
{
	static function größe(int $n)
	{
		burn($n);
	}
	static function in_closure(int $n)
	{
		(function () use ($n) {
			burn($n);
		})();
	}
	static function through_c(int $n)
	{
		array_map('App\burn', [$n]);
	}
	static function numbers(int $n)
	{
		yield burn($n);
	}
	static function in_generator(int $n)
	{
		foreach (self::numbers($n) as $x);
	}
	static function delegated(int $n)
	{
		yield from self::numbers($n);
	}
	static function in_delegate(int $n)
	{
		foreach (self::delegated($n) as $x);
	}
	static function in_fiber(int $n)
	{
		(new \Fiber(fn() => burn($n)))->start();
	}
	static function in_trait(int $n)
	{
		(new First)->shared($n);
		(new Second)->shared($n);
		(new Second)->shared($n);
	}
	static function in_anonymous(int $n)
	{
		(new class extends Walk {
			function own(int $n)
			{
				burn($n);
			}
		})->own($n);
	}
	static function in_file(int $n)
	{
		require __DIR__ . '/part.php';
	}
	static function in_eval(int $n)
	{
		eval('\App\burn($n);');
	}
	static function reused(int $n) // code comes and goes, mostly at one address
	{
		for ($i = 0; $i < 8; $i++) {
			eval("\$f = new class { function m$i() { \\App\\burn($n); } };");
			$f->{"m$i"}();
			unset($f);
		}
	}
	static function internal(int $n)
	{
		for ($i = 0; $i < $n; $i += 2000) {
			$x = hash('sha256', str_repeat('x', 30000));
		}
	}
}

$took = [];
function timed(string $what, callable $f, ...$arguments): void
{
	global $took;
	$begin = clock();
	$f(...$arguments);
	$took[$what] = ($took[$what] ?? 0) + clock() - $begin;
}

function main(float $seconds): void
{
	$walk = new Walk;
	$n = 20000;
	usleep(300000); // found by its first samples
	burn($n);
	for ($end = clock() + $seconds; clock() < $end;) {
		timed('three', [$walk, 'down'], 24, [$walk, 'three'], $n);
		timed('one', [$walk, 'down'], 24, ['App\Walk', 'one'], $n);
	}
}

function parts(float $seconds): void
{
	usleep(300000);
	burn(20000);
	foreach (get_class_methods('App\Parts') as $method) {
		if (in_array($method, ['numbers', 'delegated'])) {
			continue;
		}
		for ($end = clock() + $seconds; clock() < $end;) {
			timed($method, ['App\Parts', $method], 40000);
		}
	}
	timed('deep', [new Walk, 'down'], 300, fn($n) => burn($n), (int) (9e7 * $seconds));
}

[$what, $seconds] = PHP_SAPI == 'cli' ? [$argv[1], $argv[2]] : [$_GET['what'], $_GET['seconds']];
$what == 'main' ? main($seconds) : parts($seconds);
foreach ($took as $name => $time) {
	printf("%s %f\n", $name, $time);
}
