-- Who waits stands in a sorted set, order, by the server's clock at his arrival; one who has tried again
-- since stands in alive too, by when his place stops to count. A place is the process to call (- where
-- nobody can be called), a blank, and the waiter's token, which may have blanks.
local order, alive = KEYS[2], KEYS[3]

local function parts(place) return string.match(place, '^(%S+) (.*)$') end

local function leave(place)
  redis.call('ZREM', order, place)
  redis.call('ZREM', alive, place)
end

-- call tells a waiter that its turn has come, or may have.
local function call(place)
  local process, token = parts(place)
  if process ~= '-' then redis.pcall('PUBLISH', 'gsl:turn:' .. process, token) end
end

-- reserved is what a reservation leaves on the key: the token, and a note that nobody's own value has. It is
-- no grant. Only the script of the waiter with that token takes the key; everybody else finds it held.
local function reserved(token) return string.match(token, '^%S+') .. ' reserved' end

-- hand gives up a key that carries mine. The first in line has it reserved for ms, and is called; whether it
-- is alive shows then, and not at every release. With nobody in line the key is deleted. 0: not mine.
local function hand(mine, ms)
  if redis.pcall('GET', KEYS[1]) ~= mine then return 0 end
  local first = redis.call('ZRANGE', order, 0, 0)[1]
  if not first then
    redis.call('DEL', KEYS[1], alive)
    return 1
  end
  redis.call('ZREM', order, first) -- before the SET, which a server without memory then lets pass
  local _, token = parts(first)
  redis.call('SET', KEYS[1], reserved(token), 'PX', ms)
  call(first)
  return 1
end
