-- Who waits stands in a sorted set, order, by the server's clock at his arrival; one who has tried again
-- since stands in alive too, by when his place stops to count. A place is the process to call (- where
-- nobody can be called), a blank, and the waiter's token, which may have blanks.
local order, alive = KEYS[2], KEYS[3]

-- parts are nil of what somebody else put into the set: it is no place, and is taken out where it is met.
local function parts(place) return string.match(place, '^(%S+) (.+)$') end

local function leave(place)
  redis.call('ZREM', order, place)
  redis.call('ZREM', alive, place)
end

-- call tells a waiter that its turn has come, or may have, and returns whether the server has somebody who
-- hears it.
local function call(place)
  local process, token = parts(place)
  return redis.pcall('PUBLISH', 'gsl:turn:' .. process, token) ~= 0
end

-- reach calls the first in line who hears it and returns that place, nil where nobody stands. Places before
-- it that nobody heard are those of processes that have ended, or have just lost their connection: they are
-- taken out. Where nobody hears, or can be called, nothing is known: then it is the first that stands there.
local function reach()
  while true do
    local places, deaf = redis.call('ZRANGE', order, 0, 15), {}
    if not places[1] then return nil end
    for _, place in ipairs(places) do
      local process = parts(place)
      if not process then
        leave(place)
      elseif process == '-' then
        return deaf[1] or place
      elseif call(place) then
        for _, gone in ipairs(deaf) do leave(gone) end
        return place
      else
        deaf[#deaf + 1] = place
      end
    end
    if deaf[1] then return deaf[1] end
  end
end

-- reserved is what a reservation leaves on the key: the token, and a note that nobody's own value has. It is
-- no grant. Only the script of the waiter with that token takes the key; everybody else finds it held.
local function reserved(token) return string.match(token, '^%S+') .. ' reserved' end

-- reserve keeps the key for ms for the first in line, and calls it. False: nobody stands there.
local function reserve(ms)
  local first = reach()
  if not first then return false end
  redis.call('ZREM', order, first) -- before the SET, which a server without memory then lets pass
  local _, token = parts(first)
  redis.call('SET', KEYS[1], reserved(token), 'PX', ms)
  return true
end

-- hand gives up a key that carries mine: it is reserved for the first in line, or deleted. 0: not mine.
local function hand(mine, ms)
  if redis.pcall('GET', KEYS[1]) ~= mine then return 0 end
  if not reserve(ms) then redis.call('DEL', KEYS[1], alive) end
  return 1
end
