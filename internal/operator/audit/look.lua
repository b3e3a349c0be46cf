-- look: keys, for each the value that is expected on it, '' for none → {seconds, microseconds, then for each key but those that hold what is expected and more than nothing: its place, PTTL, its first kilobyte, false for another type}
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local out = {time[1], time[2]}
local n = 2
for i = 1, #KEYS do
  -- Numbers would be printed anew for each key, which costs more than all the rest.
  local value = pcall('GETRANGE', KEYS[i], '0', '1023')
  if value == '' or value ~= ARGV[i] then
    out[n + 1] = i
    out[n + 2] = call('PTTL', KEYS[i])
    out[n + 3] = type(value) == 'string' and value
    n = n + 3
  end
end
return out
