-- take: key, counter, order, alive; place, ms, numbers (0: none), 1 waits, 1 fair, TIME or '' twice → {fencing number or 1} or {0, 1 at the head, PTTL, type, value (its first kilobyte), size}
local sec, usec, now = clock(ARGV[6], ARGV[7])
local place, mine = ARGV[1], token(ARGV[1])
local waits, fair = ARGV[4] == '1', ARGV[5] == '1'

local stands = waits and redis.call('ZSCORE', order, place)
if stands then stay(place, now) end
local first = head(now)
local kind = redis.call('TYPE', KEYS[1]).ok
-- A fair release has already put our token there, for as long as a waiter gets to come for it.
local given = kind == 'string' and redis.call('GETRANGE', KEYS[1], 0, #mine) == mine
if given or kind == 'none' and (not fair or not first or first == place) then
  local fence = 1
  -- Before the key is written: a counter that cannot be read must not leave the key taken.
  if ARGV[3] ~= '0' then fence = draw(KEYS[2], ARGV[3], sec, usec) end
  redis.call('SET', KEYS[1], mine, 'PX', ARGV[2])
  if waits then
    leave(place)
    -- The next one now watches the key.
    if first == place then call(head(now)) end
  end
  return {fence}
end

if waits and not stands then
  -- Behind the last one also where the clock stood still or was set back.
  local last = redis.call('ZREVRANGE', order, 0, 0, 'WITHSCORES')[2]
  redis.call('ZADD', order, string.format('%.0f', math.max(now, (tonumber(last) or 0) + 1)), place)
  stay(place, now)
  first = head(now)
end
local value, size = '', 0
if kind == 'string' then value, size = redis.call('GETRANGE', KEYS[1], 0, 1023), redis.call('STRLEN', KEYS[1]) end
return {0, first == place and 1 or 0, redis.call('PTTL', KEYS[1]), kind, value, size}
