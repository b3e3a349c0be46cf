-- look: keys → {seconds, microseconds, then for each key PTTL and its first kilobyte, false for another type}
local t = redis.call('TIME')
local out = {t[1], t[2]}
for _, key in ipairs(KEYS) do
  local left = redis.call('PTTL', key)
  local value = ''
  if left ~= -2 then
    value = redis.pcall('GETRANGE', key, 0, 1023)
  end
  out[#out + 1] = left
  out[#out + 1] = type(value) == 'string' and value
end
return out
