-- doctor-look: L, M, M's look; bytes that must stand on L, TIME's seconds and microseconds, run id, boot, up, PX, seconds of the look to replace → 0 L changed or M stands, 1 written, 2 an older look at the same bytes stands
local m = redis.pcall('GET', KEYS[2])
-- What a release leaves on M for a while is nobody's token.
local left = type(m) == 'string' and #m == 27 and string.find(m, '^left [%w_%-]+$')
if m and not left then return 0 end
if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local kind = redis.call('TYPE', KEYS[3]).ok
if kind ~= 'none' and kind ~= 'hash' then return 0 end
local was = redis.call('HMGET', KEYS[3], 'bytes', 'run', 'sec')
-- An older look is kept, but not one from TIME's future, of a clock that was set back since, nor the one
-- that the caller could not compare its clocks with.
local older = (tonumber(was[3]) or math.huge) <= tonumber(ARGV[2]) and was[3] ~= ARGV[8]
if was[1] == ARGV[1] and was[2] == ARGV[4] and older then return 2 end
redis.call('DEL', KEYS[3])
redis.call('HMSET', KEYS[3], 'bytes', ARGV[1], 'sec', ARGV[2], 'usec', ARGV[3], 'run', ARGV[4], 'boot', ARGV[5], 'up', ARGV[6])
redis.call('PEXPIRE', KEYS[3], ARGV[7])
return 1
