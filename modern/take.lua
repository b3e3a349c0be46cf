-- take: key, counter, order, alive; place, ms, numbers (0: none), patience ms (0: not waiting), fair, TIME or '' twice → {fencing number or 1} or {0, 1 at the head, PTTL, value}
local sec, usec, now = clock(ARGV[6], ARGV[7])
local place, mine = ARGV[1], token(ARGV[1])
local waits, fair = tonumber(ARGV[4]), ARGV[5] == '1'

if waits > 0 then
  if not redis.call('ZSCORE', order, place) then
    -- Behind the last one also where the clock stood still or was set back.
    local last = redis.call('ZREVRANGE', order, 0, 0, 'WITHSCORES')[2]
    redis.call('ZADD', order, string.format('%.0f', math.max(now, (tonumber(last) or 0) + 1)), place)
  end
  redis.call('ZADD', alive, string.format('%.0f', now + waits * 1000), place)
  redis.call('PEXPIRE', order, waits * 20)
  redis.call('PEXPIRE', alive, waits * 20)
end
local first = head(now)
local value = redis.pcall('GET', KEYS[1])
-- A fair release has already put our token there, for as long as a waiter gets to come for it.
local granted = value == mine
if not granted and not value and (not fair or not first or first == place) then
  granted = redis.call('SET', KEYS[1], mine, 'NX', 'PX', ARGV[2])
elseif granted then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
if not granted then
  if type(value) ~= 'string' then value = '' end
  return {0, first == place and 1 or 0, redis.call('PTTL', KEYS[1]), string.sub(value, 1, 1024)}
end
if waits > 0 then
  leave(place)
  -- The next one now watches the key.
  if first == place then call(head(now)) end
end
if ARGV[3] == '0' then return {1} end
return {draw(KEYS[2], ARGV[3], sec, usec)}
