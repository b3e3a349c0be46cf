-- renew: keys; ms, tokens → the PTTL each key had, -3 when not ours
local found = {}
for i, key in ipairs(KEYS) do
  found[i] = -3
  if redis.pcall('GET', key) == ARGV[i + 1] then
    found[i] = redis.call('PTTL', key)
    redis.call('PEXPIRE', key, ARGV[1])
  end
end
return found
