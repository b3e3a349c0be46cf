-- take: key, order, alive, counter; place, ms, numbers (0: none), 'try' or 'enter' or 'stay', 1 fair, TIME or '' twice → {fencing number or 1}, {} when there is no such place any more, or {0, 1 first in line or 2 second, PTTL, µs into the server's millisecond, type, value (its first kilobyte), size}
local place, ms, numbers, kind, fair = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
local _, token = parts(place)

-- own puts our token on the key, which is free or reserved for us. The number is drawn before: a counter
-- that cannot be read must not leave the key taken.
local function own()
  local number = 1
  if numbers ~= '0' then number = draw(KEYS[4], numbers, sec, usec) end
  redis.call('SET', KEYS[1], token, 'PX', ms)
  return {number}
end

-- take takes the key if it is free.
local function take() return redis.call('EXISTS', KEYS[1]) == 0 and own() end

local function look() return redis.pcall('GETRANGE', KEYS[1], 0, math.max(1023, #token + 9)) end

local first, value, taken
if kind == 'stay' then
  value = look()
  if value == reserved(token) then return own() end
  clock() -- before the first write, for servers that refuse it behind
  -- A release has taken us out of the line, and its reservation is over: who waits on needs another place.
  if not redis.call('ZSCORE', order, place) then
    if value == '' then callHead() end -- who does not know that it has come to the front
    return {}
  end
  first = head()
  if value == '' and (not fair or first == place) then taken = take() end
  if taken then
    leave(place)
    if first == place then callHead() end -- who now watches the key
    return taken
  end
  if value == '' then
    offer()
    value = look()
  end
  redis.call('ZREMRANGEBYSCORE', alive, '-inf', string.format('(%.0f', clock()))
  stay(place)
  redis.call('PEXPIRE', order, lasts)
  redis.call('PEXPIRE', alive, lasts)
else
  if not fair or not redis.call('ZRANGE', order, 0, 0)[1] then taken = take() end
  if taken then return taken end
  value = look()
  -- Free, but there are others: unless all of them are dead it is theirs.
  if fair and value == '' and not head() then taken = take() end
  if taken then return taken end
  if value == '' then
    offer()
    value = look()
  end
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
local at = 0
if first == place then at = 1 elseif kind ~= 'try' and redis.call('ZRANK', order, place) == 1 then at = 2 end
return {0, at, left, micros and micros % 1000 or 0, is, string.sub(value, 1, 1024), size}
