# SPDX-License-Identifier: Apache-2.0
# truth.h in Ruby: truth.rb TRIALS MILLISECONDS FIRST. The work is in a block.

def cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
def rename(name) = File.write('/proc/thread-self/comm', name)

def three(n) # <three>
  x = n
  i = 0
  while i < n * 50
    x = (x * 31 + i) % 65521
    i += 1
  end
  x
end # </three>

def one(n) # <one>
  x = n
  i = 0
  while i < n * 50
    x = (x * 33 + i) % 65521
    i += 1
  end
  x
end # </one>

def down(depth, n, &part) = depth == 0 ? yield(n) : down(depth - 1, n, &part) + 1

def run(took, n)
  from = cpu
  down(8, 3 * n) { |k| three(k) } # calls three
  middle = cpu
  down(8, n) { |k| one(k) } # calls one
  took[0] += middle - from
  took[1] += cpu - middle
end

def trials(n, seconds, first)
  chance = Random.new(first)
  (first...first + n).each do |i|
    took = [0.0, 0.0]
    rename("truth.#{i}")
    from = cpu
    run(took, chance.rand(20..100)) while cpu - from < seconds
    all = cpu - from
    rename('rest')
    printf("truth.%d %.9f %.9f %.9f\n", i, took[0], took[1], all)
  end
end

trials(ARGV[0].to_i, ARGV[1].to_f / 1e3, ARGV[2].to_i)
