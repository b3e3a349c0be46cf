-- restore: key; token, ms → 1 when the TTL was less and is that now, 0 when it was not, -3 when not ours
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return -3 end
local left = redis.call('PTTL', KEYS[1])
if left < 0 or left >= tonumber(ARGV[2]) then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
