-- prolong: L, M (tells a watch of MONITOR that the script is of a getsetlock client); tombstone, PX → milliseconds that the tombstone stands from now on, 0 where there is none
if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
-- A time that is longer already is left alone; a tombstone without one has to end some day.
local left = redis.call('PTTL', KEYS[1])
if left >= tonumber(ARGV[2]) then return left end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return tonumber(ARGV[2])
