-- watch: keys; tokens → the PTTL of each key, -3 when not ours
local found = {}
for i, key in ipairs(KEYS) do
  found[i] = -3
  if redis.pcall('GETRANGE', key, 0, #ARGV[i]) == ARGV[i] then found[i] = redis.call('PTTL', key) end
end
return found
