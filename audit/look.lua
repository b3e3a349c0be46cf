-- look: key → {seconds, microseconds, PTTL, the first kilobyte or false for another type}
local t = redis.call('TIME')
local left = redis.call('PTTL', KEYS[1])
if left == -2 then
  return {t[1], t[2], left, ''}
end
local value = redis.pcall('GETRANGE', KEYS[1], 0, 1023)
return {t[1], t[2], left, type(value) == 'string' and value}
