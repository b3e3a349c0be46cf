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

-- listens returns whether a subscriber on this server hears messages to the process. Servers before 6 forbid a
-- script to write after this question, and some users may not ask it. There an empty message asks, which tells
-- nothing.
local function listens(process)
  local count = redis.setresp and redis.pcall('PUBSUB', 'NUMSUB', 'gsl:turn:' .. process) or {}
  local heard = tonumber(count[2])
  if not heard then return publish(process, '') end
  return heard > 0
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

-- drawn returns the first fencing number for the next holder. It returns nil if the caller draws no numbers, the
-- counter is unreadable, or the server has no memory left. The next waiter's own script then reports that.
local function drawn(numbers, sec, usec)
  if not KEYS[4] then return nil end
  local ok, number = pcall(draw, KEYS[4], numbers, sec, usec)
  return ok and number or nil
end

-- give writes the token of the first waiter to the key, for that waiter's whole TTL, and tells its process. It
-- removes the places of processes that do not listen: they have ended, or have just lost their connection. It
-- leaves the key as it was and returns nil if there is no waiter, false if the first cannot be given the key.
-- HAZARD: replicas pass messages on, to subscribers that are not counted here. A waiter that is passed over must
-- not hear that it has the key. So it is asked first whether a subscriber listens here.
local function give(sec, usec)
  local number
  while true do
    local first = redis.call('ZRANGE', order, 0, 0)[1]
    if not first then return nil end
    local process, ms, numbers, token = parts(first)
    if process == '-' then return false end
    if process and numbers ~= '0' then
      number = number or drawn(numbers, sec, usec) -- before any write, for old servers
      if not number then
        call(process, 0, token)
        return false
      end
    end
    leave(first) -- before the SET, which a server without memory then lets pass
    if process and listens(process) then
      redis.call('SET', KEYS[1], token, 'PX', ms)
      if call(process, number or 1, token) then return true end
      redis.call('DEL', KEYS[1]) -- the server refuses PUBLISH, so the waiter was told nothing
    end
  end
end

-- pass gives the caller's key to the first waiter, or deletes it.
local function pass(sec, usec)
  local given = give(sec, usec)
  if given == nil then redis.call('DEL', KEYS[1], alive) elseif not given then redis.call('DEL', KEYS[1]) end
  return 1
end
