# What tests/record/ruby.sh records: load.rb MODE SECONDS. It prints how long each part ran, in
# seconds.
module App
  @all = [] # what each thread took: adding to a shared one could lose some

  def self.took
    t = Thread.current
    t.thread_variable_get(:took) || t.thread_variable_set(:took, @all.push(Hash.new(0.0)).last)
    t.thread_variable_get(:took)
  end

  def self.clock(id = Process::CLOCK_THREAD_CPUTIME_ID) = Process.clock_gettime(id)

  def self.burn(n)
    x = n
    i = 0
    while i < n
      x = (x * 31 + i) % 65521
      i += 1
    end
    x
  end

  class Walk
    def down(depth, n, &f) = depth == 0 ? yield(n) : down(depth - 1, n, &f) + 1
    def three(n) = App.burn(n) + App.burn(n) + App.burn(n)
    def self.one(n) = App.burn(n)
  end

  module Shared
    def shared(n) = App.burn(n)
  end

  class First
    include Shared
    attr_accessor :n

    define_method(:defined) { |n| App.burn(n) }
    def method_missing(_name, n) = App.burn(n)
    def respond_to_missing?(*) = true
    def <=>(other)
      App.burn(20000)
      n <=> other.n
    end
    def with_match(s)
      s =~ /b+/ # its scope keeps what matched
      [1].each { App.burn(40000) }
    end
  end

  class Parts
    def größe(n) = App.burn(n)
    def in_block(n) = [n].each { |m| App.burn(m) }
    def in_nested(n) = [n].each { |m| [m].map { |k| App.burn(k) } }
    def in_times(n) = 1.times { App.burn(n) }
    def in_lambda(n) = ->(m) { App.burn(m) }.call(n)
    def in_send(n) = App.send(:burn, n)
    def in_method(n) = App.method(:burn).call(n)
    def in_module(n) = First.new.shared(n)
    def in_defined(n) = First.new.defined(n)
    def in_missing(n) = First.new.anything(n)
    def in_match(_n) = First.new.with_match('abc')
    def in_compare(_n) = [First.new, First.new].each_with_index { |f, i| f.n = i }.sort
    def in_fiber(n) = Fiber.new { App.burn(n) }.resume
    def in_enumerator(n) = Enumerator.new { |y| y << App.burn(n) }.next
    def in_thread(n) = Thread.new { 5.times { App.burn(n) } }.join
    def in_rescue(n)
      raise 'x'
    rescue StandardError
      App.burn(n)
    end
    def in_eval(n) = eval('App.burn(n)')
    def in_string(n) = instance_eval('App.burn(n)', 'template.erb', 77)
    def in_file(n)
      $n = n
      load File.join(__dir__, 'part.rb')
    end
    def reused(n) # code comes and goes
      8.times do |i|
        c = Class.new { class_eval("def m#{i}(n) = App.burn(n)") }
        c.new.send("m#{i}", n)
      end
      GC.start if rand < 0.1
    end
    LIST = (0...3000).map { |i| i * 7919 % 3001 }
    def in_c(n) = (n / 1000).times { LIST.sort }
  end

  def self.timed(what)
    begin_at = clock
    yield
    took[what] += clock - begin_at
  end

  def self.walk(depth, n)
    walk = Walk.new
    timed('three') { walk.down(depth, n) { |m| walk.three(m) } }
    timed('one') { walk.down(depth, n) { |m| Walk.one(m) } }
  end

  def self.main(seconds)
    stop = clock + seconds
    walk(24, 20000) while clock < stop
  end

  def self.threads(seconds) = Array.new(3) { Thread.new { main(seconds / 3) } }.each(&:join)

  def self.child(seconds)
    Process.wait(fork do
      main(seconds)
      tell
    end)
    took.clear
  end

  def self.doze(fifo) = File.open(fifo).close
  def self.wait(seconds) # in open: a sleep of Ruby's is a poll
    fifo = "/tmp/ruby.#{$$}"
    File.mkfifo(fifo)
    spawn("sleep #{seconds}; : >#{fifo}")
    doze(fifo)
    File.unlink(fifo)
  end

  def self.parts(seconds)
    Parts.instance_methods(false).each do |name|
      from = clock(Process::CLOCK_PROCESS_CPUTIME_ID)
      while (took[name] = clock(Process::CLOCK_PROCESS_CPUTIME_ID) - from) < seconds
        Parts.new.send(name, 40000)
      end
    end
    timed('deep') { Walk.new.down(300, (9e6 * seconds).to_i) { |n| App.burn(n) } }
  end

  def self.tell
    sum = @all.reduce { |a, b| a.merge(b) { |_, x, y| x + y } } || {}
    sum.each { |name, time| printf("%s %f\n", name, time) }
    $stdout.flush
  end
end

sleep 0.3 # found by its first samples
App.burn(20000)
App.send(ARGV[0], ARGV[1].to_f)
App.tell
