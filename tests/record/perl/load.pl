# What tests/record/perl.sh records: load.pl MODE SECONDS. It prints how long each part ran, in
# seconds.
use strict;
use warnings;
use utf8;
use feature 'try';
no warnings qw(experimental recursion);

package App;
use POSIX ();
use Time::HiRes qw(clock_gettime CLOCK_THREAD_CPUTIME_ID CLOCK_PROCESS_CPUTIME_ID);

our %took;

sub burn {
	my ($n) = @_;
	my $x = $n;
	for my $i (1 .. $n) {
		$x = ($x * 31 + $i) % 65521;
	}
	return $x;
}

# Turns of one length would keep step with the samples.
sub length_of { return 5000 + int rand 10000 }

package App::Walk;

sub new { return bless {}, shift }

sub down {
	my ($self, $depth, $n, $f) = @_;
	return $depth == 0 ? $f->($n) + 1 : $self->down($depth - 1, $n, $f) + 1;
}

sub three { return App::burn($_[1]) + App::burn($_[1]) + App::burn($_[1]) }
sub one { return App::burn($_[1]) + 1 }

package App::Tied;
sub TIESCALAR { return bless {}, shift }
sub FETCH { return App::burn(10000) }

package App::Other;
use overload '+' => sub { return App::burn(10000) }, '<=>' => \&compare;
sub compare { return App::burn(10000) }
sub new { return bless {}, shift }
sub DESTROY { App::burn(10000); return }
our $AUTOLOAD;
sub AUTOLOAD { return App::burn(10000) }

package App::Parts;
use Data::Dumper;
use List::Util qw(first reduce);

my ($directory) = __FILE__ =~ m{(.*/)};

sub größe { return App::burn($_[0]) + 1 }

sub in_closure {
	my ($n) = @_;
	my $f = sub { return App::burn($n) + 1 };
	return $f->() + 1;
}

sub in_map { return my @x = map { App::burn($_[0]) } 1 }
sub in_sort_block { return my @x = sort { App::burn($_[0]); $a <=> $b } 2, 1 }
sub in_sort_call { return my @x = sort { by_burning($a, $b) } 2, 1 } # the block's last operation
sub by_burning { return App::burn(10000) + $_[0] <=> $_[1] }
sub in_sort_sub { return my @x = sort by_global 2, 1 }
sub by_global { return App::burn(10000) + $a <=> $b }
sub in_first { return first { App::burn($_[0]); 1 } 1 }
sub in_reduce { return reduce { App::burn($_[0]) + $b } 1, 2 }

sub in_call { # from C, without a stack of its own
	local $Data::Dumper::Sortkeys = sub { App::burn(10000); return [1] };
	return Dumper({ 1 => 2 });
}

sub in_eval_block { return eval { App::burn($_[0]) } }
sub in_die { eval { die "x\n" }; return App::burn($_[0]) + 1 }
sub in_callback_eval { return first { eval { return App::burn(5000) + inner() }; 1 } 1 }
sub inner { return first { App::burn(5000); 1 } 1 }
sub in_eval_string { return eval 'App::burn($_[0]) + 1' }
sub in_try { try { return App::burn($_[0]) + 1 } catch ($e) { return } }
sub in_tied { tie my $x, 'App::Tied'; return $x + 1 }
sub in_overload { my $x = App::Other->new; return $x + 1 }
sub in_autoload { return App::Other->anything }
sub in_goto { @_ = (App::Walk->new, $_[0]); goto &App::Walk::one }
sub in_regex { return 'abc' =~ /b(?{ App::burn(10000) })c/ }
sub in_substitution { (my $s = 'abc') =~ s/b/App::burn(10000)/e; return $s }
sub in_native { my $s = 'x' x 3000; my $n = () = $s =~ /x(?=(x*)y?)/g for 1 .. 3; return $n }
sub in_file { our $n = $_[0]; return do $directory . 'part.pl' }

sub in_warning {
	local $SIG{__WARN__} = sub { App::burn(10000) };
	warn "x\n";
}

sub in_signal {
	local $SIG{USR1} = sub { App::burn(10000) };
	kill USR1 => $$;
}

sub in_format {
	our $n = $_[0];
	open my $out, '>', \my $text or die;
	my $before = select $out;
	$~ = 'REPORT';
	write;
	select $before;
}

format REPORT =
@<<<<<<
App::burn($App::Parts::n)
.

sub reused { # code comes and goes
	my ($n) = @_;
	for my $i (0 .. 7) {
		eval "sub m$i { return App::burn($n) + 1 } m$i(); undef \&m$i; delete \$App::Parts::{m$i}";
	}
}

package App;

sub timed {
	my ($what, $clock, $f) = @_;
	my $from = clock_gettime($clock);
	$f->();
	$took{$what} += clock_gettime($clock) - $from;
}

sub walk {
	my ($depth) = @_;
	my $walk = App::Walk->new;
	for my $what (qw(three one)) {
		timed($what, CLOCK_THREAD_CPUTIME_ID, sub {
			$walk->down($depth, length_of(), sub { return $walk->$what(@_) + 1 });
			return;
		});
	}
}

sub main {
	my ($seconds) = @_;
	my $end = clock_gettime(CLOCK_THREAD_CPUTIME_ID) + $seconds;
	walk(24) while clock_gettime(CLOCK_THREAD_CPUTIME_ID) < $end;
	return;
}

sub threads { # with the main thread
	my ($seconds) = @_;
	require threads;
	my @all = map {
		threads->create({ context => 'list' }, sub { main($seconds / 3); return %took })
	} 1 .. 2;
	main($seconds / 3);
	for my $thread (@all) {
		my %more = $thread->join;
		$took{$_} += $more{$_} for keys %more;
	}
}

sub child {
	my ($seconds) = @_;
	my $child = fork;
	if ($child == 0) {
		main($seconds);
		print_times();
		exit;
	}
	waitpid $child, 0;
	%took = ();
}

sub load_only { }
sub doze { open my $fifo, '<', $_[0] or die; return }

sub doze_for { # in open: a sleep of Perl's is a poll
	my $fifo = "/tmp/perl.$$";
	POSIX::mkfifo($fifo, 0600) or die;
	system "{ sleep $_[0]; : >$fifo; } &";
	doze($fifo);
	unlink $fifo;
}

sub deep { return $_[0] ? deep($_[0] - 1, $_[1]) + 1 : burn($_[1]) }

sub parts {
	my ($seconds) = @_;
	no strict 'refs';
	for my $name (grep { /^in_|^reused$|^gr/ } sort keys %App::Parts::) {
		my $from = clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
		my $f = \&{"App::Parts::$name"};
		$f->(10000)
			while ($took{$name} = clock_gettime(CLOCK_PROCESS_CPUTIME_ID) - $from) < $seconds;
	}
	timed('deep', CLOCK_THREAD_CPUTIME_ID, sub { deep(300, 8e6 * $seconds); return });
}

sub print_times {
	binmode STDOUT, ':utf8';
	printf "%s %f\n", $_, $took{$_} for sort keys %took;
	STDOUT->flush;
}

my ($mode, $seconds) = @ARGV;
select undef, undef, undef, 0.3; # found by its first samples
burn(20000);
no strict 'refs';
&{"App::$mode"}($seconds);
print_times();
