-- raise: key, counter; token, number → 1 when the counter is not less than the number now, -3 when the key is not ours
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return -3 end
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
if not last then error('getsetlock: ' .. KEYS[2] .. ' holds no fencing number') end
if last < tonumber(ARGV[2]) then redis.call('SET', KEYS[2], ARGV[2]) end
return 1
