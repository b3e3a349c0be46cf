-- Who waits stands in a sorted set, order, by the server's clock at his arrival; one who has tried again
-- since stands in alive too, by when his place stops to count. A place is four words: the process to
-- call (- where nobody can be), for how many ms the key may be given to it without its asking (0: not
-- at all), how many fencing numbers it draws (0: none), and its token, which may have blanks. A place
-- that got the key is not in the line any more, and its token does not come back. In the plain form
-- it then stands in gives, behind a blank so that nobody takes that for a lock: this holder gives the
-- key on, and nobody need watch it.
local order, alive, gives = KEYS[3], KEYS[4], KEYS[5]

-- How long a place counts without a new try, in microseconds. Waiters try at least once a second.
local patience = 3000000

-- How long the line's keys live without a new try, in ms: so much longer than patience that no line
-- ends before those who stand in it come again.
local lasts = 5000

-- clock reads the server's time once, unless the caller has read it for a server on which a script
-- that called TIME must not write.
local sec, usec, micros = ARGV[#ARGV - 1], ARGV[#ARGV], nil
local function clock()
  if micros then return micros end
  if sec == '' then
    if redis.replicate_commands then redis.replicate_commands() end
    local t = redis.call('TIME')
    sec, usec = t[1], t[2]
  end
  micros = tonumber(sec) * 1000000 + tonumber(usec)
  return micros
end

local function parts(place) return string.match(place, '^(%S+) (%d+) (%d+) (.*)$') end

local function leave(place)
  redis.call('ZREM', order, place)
  redis.call('ZREM', alive, place)
end

-- head is the first place that still lives; dead ones before it are swept out. One that claims to live
-- longer than any can was tried before the clock was set back: it may be dead since long.
local function head()
  while true do
    local first = redis.call('ZRANGE', order, 0, 0, 'WITHSCORES')
    if not first[1] then return nil end
    local till = tonumber(redis.call('ZSCORE', alive, first[1]) or first[2] + patience)
    if till >= clock() and till <= clock() + patience then return first[1] end
    leave(first[1])
  end
end

-- stay keeps a place for another while.
local function stay(place) redis.call('ZADD', alive, string.format('%.0f', clock() + patience), place) end

-- callHead tells the first in line that his turn may have come.
local function callHead()
  local first = head()
  if not first then return end
  local process, _, _, token = parts(first)
  if process ~= '-' then redis.pcall('PUBLISH', 'gsl:turn:' .. process, '0 ' .. token) end
end
