-- How long a place counts without a new try, in microseconds. Waiters that can be called try at least every
-- ten seconds, the others at least once a second.
local function patience(place) return string.sub(place, 1, 2) == '- ' and 3000000 or 15000000 end

-- How long the line's keys live without a new try, in ms: so much longer than patience that no line
-- ends before those who stand in it come again.
local lasts = 20000

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

-- head is the first place that still lives; dead ones before it are swept out. One that claims to live
-- longer than any can was tried before the clock was set back: it may be dead since long.
local function head()
  while true do
    local first = redis.call('ZRANGE', order, 0, 0, 'WITHSCORES')
    if not first[1] then return nil end
    local known = parts(first[1])
    local till = known and tonumber(redis.call('ZSCORE', alive, first[1]) or first[2] + patience(first[1]))
    if known and till >= clock() and till <= clock() + patience(first[1]) then return first[1] end
    leave(first[1])
  end
end

-- stay keeps a place for another while.
local function stay(place) redis.call('ZADD', alive, string.format('%.0f', clock() + patience(place)), place) end
