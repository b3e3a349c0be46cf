-- leave: key, counter, order, alive; place, fair, ms for who comes next, TIME or '' twice → 1 when the key was ours and is given up, 0 when it was not
local _, _, now = clock(ARGV[4], ARGV[5])
local place, mine = ARGV[1], token(ARGV[1])
local was = head(now)
leave(place)
local first = head(now)
if redis.pcall('GET', KEYS[1]) ~= mine then
  if was == place then call(first) end
  return 0
end
if first and ARGV[2] == '1' then
  leave(first)
  redis.call('SET', KEYS[1], token(first), 'PX', ARGV[3])
else
  redis.call('DEL', KEYS[1])
end
call(first)
return 1
