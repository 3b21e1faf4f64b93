# SPDX-License-Identifier: Apache-2.0
# truth.h in Perl: truth.pl TRIALS MILLISECONDS FIRST.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime);

sub cpu { return clock_gettime(3); } # CLOCK_THREAD_CPUTIME_ID

sub rename_to {
	open(my $f, '>', '/proc/thread-self/comm') or die;
	print $f shift;
	close($f);
}

sub three { # <three>
	my $n = shift;
	my $x = $n;
	$x = ($x * 31 + $_) % 65521 for 1 .. $n * 40;
	return $x;
} # </three>

sub one { # <one>
	my $n = shift;
	my $x = $n;
	$x = ($x * 33 + $_) % 65521 for 1 .. $n * 40;
	return $x;
} # </one>

sub by {
	my ($part, $n) = @_;
	return $part->($n) + 1;
}

sub run {
	my ($took, $n) = @_;
	my $begin = cpu();
	by(\&three, 3 * $n);
	my $middle = cpu();
	by(\&one, $n);
	$took->[0] += $middle - $begin;
	$took->[1] += cpu() - $middle;
}

sub trials {
	my ($n, $seconds, $first) = @_;
	srand($first);
	for my $i ($first .. $first + $n - 1) {
		my $took = [0, 0];
		rename_to("truth.$i");
		my $begin = cpu();
		run($took, 20 + int(rand(80))) while cpu() - $begin < $seconds;
		my $all = cpu() - $begin;
		rename_to('rest');
		printf("truth.%d %.9f %.9f %.9f\n", $i, @$took, $all);
	}
}

trials($ARGV[0], $ARGV[1] / 1e3, $ARGV[2]);
