-- look: key, counter → type, value (its first kilobyte), size, PTTL, last fencing number
local kind, value, size = redis.call('TYPE', KEYS[1]).ok, false, 0
if kind == 'string' then
  value, size = redis.call('GETRANGE', KEYS[1], 0, 1023), redis.call('STRLEN', KEYS[1])
end
return {kind, value, size, redis.call('PTTL', KEYS[1]), redis.pcall('GET', KEYS[2])}
