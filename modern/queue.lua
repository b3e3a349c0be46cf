-- The sorted set order has the places of all waiters, by the server's clock when each came. The sorted set
-- alive has those that were tried again since, by the time at which the place stops to count. A place is four
-- words: the process to call (- if it cannot be called), the TTL in ms for which the waiter wants the key, the
-- count of fencing numbers that it wants (0: none), and its token, which may contain blanks.
local order, alive = KEYS[2], KEYS[3]

-- parts returns nil for what another program put into the set. The scripts remove that where they meet it.
local function parts(place) return string.match(place, '^(%S+) (%d+) (%d+) (.+)$') end

local function leave(place)
  redis.call('ZREM', order, place)
  redis.call('ZREM', alive, place)
end

-- publish returns whether a subscriber on this server hears text.
local function publish(process, text)
  local heard = redis.pcall('PUBLISH', 'gsl:turn:' .. process, text)
  return type(heard) == 'number' and heard > 0
end

-- call sends a number and a token to the waiter's process. A number above 0 says that the waiter has the key:
-- it is the first of the waiter's fencing numbers, or 1. The key follows, for a process that has no such waiter
-- any more. Token and key are not formatted, since a format ends at a zero byte. It returns whether the process
-- hears.
local function call(process, number, token)
  return publish(process, string.format('%.0f %d ', number, #token) .. token .. KEYS[1])
end

-- callHead tells the first in line that it has come to the front.
local function callHead()
  local process, _, _, token = parts(redis.call('ZRANGE', order, 0, 0)[1] or '')
  if process then call(process, 0, token) end
end
