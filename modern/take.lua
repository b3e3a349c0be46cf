-- take: key, order, alive, counter; place, ms, numbers (0: none), 'try' or 'enter' or 'stay', 1 fair, TIME or '' twice → {fencing number or 1}, {} when there is no such place any more, or {0, 1 first in line or 2 second, PTTL, µs into the server's millisecond, type, value (its first kilobyte), size}
local place, ms, numbers, kind, fair = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
local _, _, _, token = parts(place)

-- own writes the waiter's token to the key, which is free or has that token. The number is drawn before: a
-- counter that cannot be read must not leave the key taken.
local function own()
  local number = 1
  if numbers ~= '0' then number = draw(KEYS[4], numbers, sec, usec) end
  redis.call('SET', KEYS[1], token, 'PX', ms)
  return {number}
end

-- take takes the key if it is free.
local function take() return redis.call('EXISTS', KEYS[1]) == 0 and own() end

local function look() return redis.pcall('GETRANGE', KEYS[1], 0, math.max(1023, #token)) end

local first, value, taken

-- offer calls the first waiter of a free key, which may not know that it is first. If it does not try within two
-- seconds, its place counts no more; nor does it at once if its process hears nothing.
-- HAZARD: on a replica, which may run this script again, no process hears anything. So only a server that
-- replicates what the script writes removes such a place at once: elsewhere the next waiter would get the key there.
local function offer()
  while value == '' do
    local waits = head()
    if not waits or waits == place then return end
    local process, _, _, its = parts(waits)
    local heard = process == '-' or call(process, 0, its)
    if heard or not redis.replicate_commands then
      local till = clock() + 2000000
      if tonumber(redis.call('ZSCORE', alive, waits) or till) >= till then
        redis.call('ZADD', alive, string.format('%.0f', till), waits)
      end
      return
    end
    leave(waits)
  end
end

-- turn takes a free key if no other waiter comes first.
local function turn()
  taken = value == '' and (not fair or (head() or place) == place) and take()
  return taken
end

if kind == 'stay' then
  value = look()
  if value == token then return own() end -- a release gave the key to this waiter, and the message has not come yet
  clock() -- before the first write, for servers that refuse it behind
  -- A release has removed the place: its message was not heard, or the lease that it gave has ended.
  if not redis.call('ZSCORE', order, place) then
    if value == '' and head() then callHead() end -- its waiter does not know that it has come to the front
    return {}
  end
  first = head()
  if not turn() then offer() end
  if taken or turn() then
    leave(place)
    if first == place then callHead() end -- its waiter now watches the key
    return taken
  end
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', alive, '-inf', string.format('(%.0f', clock()))) do
    leave(dead)
  end
  stay(place)
  redis.call('PEXPIRE', order, lasts)
  redis.call('PEXPIRE', alive, lasts)
else
  if not fair or not redis.call('ZRANGE', order, 0, 0)[1] then taken = take() end
  if taken then return taken end
  value = look()
  offer()
  if turn() then return taken end -- all of the others were dead
  if kind == 'enter' then
    -- Behind the last one also where the clock stood still or was set back.
    local last = tonumber(redis.call('ZREVRANGE', order, 0, 0, 'WITHSCORES')[2] or 0)
    redis.call('ZADD', order, string.format('%.0f', math.max(clock(), last + 1)), place)
    stay(place)
    redis.call('PEXPIRE', order, lasts)
    redis.call('PEXPIRE', alive, lasts)
    first = last == 0 and place or head()
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
