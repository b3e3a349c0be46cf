-- take: key, counter, order, alive, gives; place, ms, 'try' or 'enter' or 'stay', 1 fair, TIME or '' twice → {fencing number or 1}, {} when there is no such place any more, or {0, 1 first in line, 1 the holder gives it on, PTTL, µs into the server's millisecond, type, value (its first kilobyte), size}
local place, ms, kind, fair = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local _, _, numbers, token = parts(place)

-- take takes the key if it is free. The number is drawn before: a counter that cannot be read must not
-- leave the key taken.
local function take()
  if numbers == '0' then return redis.call('SET', KEYS[1], token, 'NX', 'PX', ms) and 1 end
  if redis.call('EXISTS', KEYS[1]) == 1 then return nil end
  local number = draw(KEYS[2], numbers, sec, usec)
  redis.call('SET', KEYS[1], token, 'PX', ms)
  return number
end

local function look() return redis.pcall('GETRANGE', KEYS[1], 0, math.max(1023, #token)) end

local first, value, number
if kind == 'stay' then
  clock() -- before the first write, for servers that refuse it behind
  value = look()
  if value == token then -- it was given to us, and we were not told or could not wait to be
    number = 1
    if numbers ~= '0' then number = draw(KEYS[2], numbers, sec, usec) end
    redis.call('SET', KEYS[1], token, 'PX', ms)
    return {number}
  end
  -- Our token may have been on the key: who waits on needs another.
  if not redis.call('ZSCORE', order, place) then return {} end
  first = head()
  if value == '' and (not fair or first == place) then number = take() end
  if number then
    leave(place)
    if not fair then redis.call('SET', gives, ' ' .. token, 'PX', lasts) end
    if first == place then callHead() end -- who now watches the key
    return {number}
  end
  redis.call('ZREMRANGEBYSCORE', alive, '-inf', string.format('(%.0f', clock()))
  stay(place)
  redis.call('PEXPIRE', order, lasts)
  redis.call('PEXPIRE', alive, lasts)
else
  if not fair or not redis.call('ZRANGE', order, 0, 0)[1] then number = take() end
  if number then return {number} end
  value = look()
  -- Free, but there are others: unless all of them are dead it is theirs.
  if fair and value == '' and not head() then number = take() end
  if number then return {number} end
  if kind == 'enter' then
    -- Behind the last one also where the clock stood still or was set back.
    local last = tonumber(redis.call('ZREVRANGE', order, 0, 0, 'WITHSCORES')[2] or 0)
    redis.call('ZADD', order, string.format('%.0f', math.max(clock(), last + 1)), place)
    redis.call('PEXPIRE', order, lasts)
    if last >= clock() then
      stay(place)
      redis.call('PEXPIRE', alive, lasts)
    end
    if not fair then first = last == 0 and place or head() end
  end
end

local is, size = 'string', 0
if type(value) == 'string' then
  size = #value
  if size > 1023 then size = redis.call('STRLEN', KEYS[1]) end
else
  is, value = redis.call('TYPE', KEYS[1]).ok, ''
end
local left = redis.call('PTTL', KEYS[1])
if left == -2 then is = 'none' end
local given = not fair and first == place and redis.call('GET', gives) == ' ' .. value
return {0, first == place and 1 or 0, given and 1 or 0, left, micros and micros % 1000 or 0, is, string.sub(value, 1, 1024), size}
