-- Who waits stands in two sorted sets: order (by the server's clock at arrival) and alive (until when the
-- place counts without a new try). A member is the process's name, a blank, and the token it waits with.
local order, alive = KEYS[3], KEYS[4]

-- How long a place counts without a new try, in microseconds. Waiters try at least once a second.
local patience = 3000000

-- clock is the server's time in microseconds, or the caller's reading of it for servers on which a
-- script that called TIME must not write.
local function clock(sec, usec)
  if sec == '' then
    if redis.replicate_commands then redis.replicate_commands() end
    local t = redis.call('TIME')
    sec, usec = t[1], t[2]
  end
  return sec, usec, tonumber(sec) * 1000000 + tonumber(usec)
end

-- head is the first place that still lives; dead ones before it are swept out. One that claims to live
-- longer than any can was tried before the clock was set back: it may be dead since long.
local function head(now)
  while true do
    local first = redis.call('ZRANGE', order, 0, 0)[1]
    if not first then return nil end
    local till = tonumber(redis.call('ZSCORE', alive, first) or 0)
    if till >= now and till <= now + patience then return first end
    redis.call('ZREM', order, first)
    redis.call('ZREM', alive, first)
  end
end

local function leave(place)
  redis.call('ZREM', order, place)
  redis.call('ZREM', alive, place)
end

-- stay keeps a place for another while. Where nobody comes again the line ends with its last place.
local function stay(place, now)
  redis.call('ZADD', alive, string.format('%.0f', now + patience), place)
  redis.call('PEXPIRE', order, 4000)
  redis.call('PEXPIRE', alive, 4000)
end

local function token(place) return string.sub(place, string.find(place, ' ', 1, true) + 1) end

-- call tells the process of a place that its turn may have come.
local function call(place)
  if place then redis.pcall('PUBLISH', 'gsl:turn:' .. string.sub(place, 1, string.find(place, ' ', 1, true) - 1), token(place)) end
end
