# What three Ruby gems really do, on a stub of their Redis client and a clock that stands still. Needs
# one file of each gem (of redis-mutex from 4.0.1 on, before its StandardMutex; hence the line "with"):
#
#   ruby record.rb redis-objects lib/redis/lock.rb > ../recorded-redisobjects.txt
#   ruby record.rb redis-mutex lib/redis_mutex.rb > ../recorded-redismutex.txt
#   ruby record.rb resque-timeout lib/resque/plugins/lock_timeout.rb > ../recorded-resquetimeout.txt
#
# The format is that of the other files in that folder; its header explains it.
WHICH, FILE = ARGV
NOW = 1_400_000_000_123_456_789

# Stub answers as told and notes what was sent.
class Stub
  attr_accessor :seen, :old, :sent, :nils
  def initialize(seen, old) = (@seen, @old, @sent, @nils = seen, old, [], 0)
  def setnx(_, value) = (@sent << [:setnx, value.to_s]; false)
  def getset(_, value) = (@sent << [:getset, value.to_s]; @old)
  def del(_) = (@sent << [:del]; 1)

  # A client that asks a missing key for ever is stopped after its second question.
  def get(_)
    throw :again if @seen.nil? && (@nils += 1) > 1
    @seen
  end
end

$nanos = NOW
class << Time
  alias real_now now
  def now = at($nanos / 10**9, $nanos % 10**9, :nsec)
end

class Redis
  class BaseObject
    attr_reader :redis
    def initialize(key, redis, options) = (@key, @redis, @options = key, redis, options)
    def self.name = "x"
  end
end

class RedisClassy
  def initialize(key) = @key = key
  attr_accessor :redis
  %i[setnx get getset del].each { |m| define_method(m) { |*a| redis.send(m, @key, *a) } }
  def self.autoload(*) = nil
end

module Resque
  class << self
    attr_accessor :redis
  end
end

load FILE

# attempt returns the stub, whether the attempt won, and how to release.
def attempt(seen, old, lease)
  stub = Stub.new(seen, old)
  case WHICH
  when "redis-objects"
    lock = Redis::Lock.new("stock", stub, timeout: 0, expiration: lease)
    won, held = false, Fiber.new { lock.lock { won = true; Fiber.yield } }
    begin
      held.resume
    rescue Redis::Lock::LockTimeout
      won = false
    end
    [stub, won, -> { held.resume }]
  when "redis-mutex"
    lock = RedisMutex.new("stock", expire: lease)
    lock.redis = stub
    won = catch(:again) { lock.try_lock }
    [stub, won, -> { lock.unlock }]
  else
    Resque.redis = stub
    job = Class.new { extend Resque::Plugins::LockTimeout; @lock_timeout = lease; def self.name = "stock" }
    won, held = false, Fiber.new { job.around_perform_lock { won = true; Fiber.yield } }
    held.resume
    [stub, won, -> { Resque.redis = stub; held.resume }]
  end
end

def word(v)
  return "nil" if v.nil?
  v.match?(/\A[!-~]*\z/n) ? "=#{v}" : "hex:#{v.unpack1("H*")}"
end

def step(sent)
  return "getset" if sent.any? { |c| c[0] == :getset }
  sent.count { |c| c[0] == :setnx } > 1 ? (WHICH == "redis-mutex" ? "again" : "setnx_once") : "wait"
end

SEENS = ["1400000000.1234567", "1400000000.1234569", "1400000000.1234565", "1400000000", "1399999999", "1400000001", "1", "0", "-5", "+5", " 5",
         "5x", "1.4e9", "1e999", "", "abc", "nan", "1_0", ".5", "2147483649.0", "1400000000123", "9223372036854775807",
         "4611686018427387904", "01020300-0000-4000-8000-000000000000:1400000060124", "\xFF".b, "true", nil]

puts "# Recorded by record/record.rb on Ruby #{RUBY_VERSION}.", "dialect #{WHICH}"
puts "with on_nil setnx" if WHICH == "redis-mutex"
# resque-lock-timeout would write a fraction as it is; Ruby 3.1 rounds a Time plus a fraction wrongly in the
# last digit (1400000000 + 0.25 + 1 is 1400000001.2499998), which redis-objects then writes.
fractions = WHICH == "redis-mutex" ? [0.01, 1.007, 30.001] : []
times = [NOW, 1_400_000_000 * 10**9, 1_600_000_000_987_654_321, 1_699_999_999_999_999_999, 4_102_444_800_000_000_001]
random = Random.new(1)
times += 20.times.map { random.rand(1_400_000_000 * 10**9..1_900_000_000 * 10**9) }
times.each do |nanos|
  [30, 1, 3600, *fractions].each do |lease|
    $nanos = nanos
    stub, = attempt("9999999999", nil, lease)
    puts "stamp #{nanos} #{(lease * 1000).round} - #{word(stub.sent[0][1])}"
  end
end
$nanos = NOW
SEENS.each { |s| puts "next #{NOW} - #{word(s)} #{step(attempt(s, nil, 30)[0].sent)}" }
["1", "1399999999"].each do |seen|
  SEENS.each { |old| puts "wins #{NOW} #{word(seen)} #{word(old)} #{attempt(seen, old, 30)[1] ? "won" : "lost"}" }
end
[0, 29, 30, 31, 32].each do |later|
  $nanos = NOW
  own = attempt("1", "1", 30)[0].sent[0][1]
  [own, nil, "9999999999", "1"].each do |seen|
    $nanos = NOW
    stub, _, release = attempt("1", "1", 30)
    stub.sent, stub.seen = [], seen
    $nanos = NOW + later * 10**9
    release.call
    puts "release #{$nanos} #{word(own)} #{word(seen)} #{stub.sent.empty? ? "leave" : "del"}"
  end
end
