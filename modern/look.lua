-- look: key, counter if there is one → type, value (its first kilobyte), size, PTTL, last fencing number
local kind, value, size, last = redis.call('TYPE', KEYS[1]).ok, false, 0, false
if kind == 'string' then
  value, size = redis.call('GETRANGE', KEYS[1], 0, 1023), redis.call('STRLEN', KEYS[1])
end
if KEYS[2] then last = redis.pcall('GET', KEYS[2]) end
return {kind, value, size, redis.call('PTTL', KEYS[1]), last}
