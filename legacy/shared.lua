-- shared by every script: what a stamp is, what is ours, what stands there.
local L, M = KEYS[1], KEYS[2]

-- now is the server's clock, or the caller's reading of it, since Redis before 3.2 lets no script
-- write that has called TIME. Up to 4 such a script must replicate its effects.
local function now(sec, usec)
  if sec == '' then
    if redis.replicate_commands then redis.replicate_commands() end
    local t = redis.call('TIME')
    sec, usec = t[1], t[2]
  end
  return tonumber(sec), tonumber(usec)
end

-- stamp is the text of the clock and the lease after it, cut to the unit. (The lease is a number of
-- units, so it is the clock that is cut, as the old clients do it.) Seconds and the rest stay apart to
-- the end: no double holds the nanoseconds since 1970.
local function stamp(unit, sec, usec, addSec, addUsec)
  sec, usec = sec + addSec, usec + addUsec
  if usec >= 1000000 then sec, usec = sec + 1, usec - 1000000 end
  if unit == 'ticks' then sec = sec + 62135596800 end
  local whole, micros = string.format('%.0f', sec), string.format('%06.0f', usec)
  if unit == 's' then return whole end
  if unit == 'ms' then return whole .. string.sub(micros, 1, 3) end
  if unit == 'ns' then return whole .. micros .. '000' end
  if unit == 'ticks' then return whole .. micros .. '0' end
  local fraction = string.gsub(micros, '0+$', '')
  if fraction == '' then fraction = '0' end
  return whole .. '.' .. fraction
end

-- mark is the bytes for L. a: unit, lease in seconds and micros, head (what stands before the
-- number, or a token instead of one), encoding.
local function mark(sec, usec, unit, addSec, addUsec, head, encoding)
  local text = head
  if unit ~= 'none' then text = head .. stamp(unit, sec, usec, tonumber(addSec), tonumber(addUsec)) end
  if encoding == 'json' then return '"' .. text .. '"' end
  if encoding == 'jdk' then
    return '\172\237\0\5t' .. string.char(math.floor(#text / 256), #text % 256) .. text
  end
  return text
end

-- mine is what we wrote last on L, if M is this token's. M remembers it, so that also after a lost
-- reply every script knows which bytes are ours.
local function mine(token)
  local m = redis.call('GET', M)
  if m and string.sub(m, 1, #token + 1) == token .. ' ' then return string.sub(m, #token + 2) end
  return false
end

-- stands says whether L still carries that mark. The same bytes without a TTL are somebody else's,
-- who wrote them in the same unit of time; where the old clients set one too, so are those that do
-- not end together with M, gap ms later.
local function stands(bytes, gap)
  if redis.call('TYPE', L).ok ~= 'string' or redis.call('GET', L) ~= bytes then return false end
  local left = redis.call('PTTL', L)
  if left < 0 then return false end
  if gap == '' then return true end
  local off = left - redis.call('PTTL', M) - tonumber(gap)
  return off > -100 and off < 100
end

-- left says whether M says that nobody holds the key: a release left it to old clients for a while.
local function left()
  local m = redis.call('GET', M)
  return m and #m == 27 and string.find(m, '^left [%w_%-]+$') ~= nil
end

-- look is what stands on both keys, and the clock: type, value (its first kilobyte), size, PTTL, M,
-- its PTTL, seconds, microseconds. It calls no TIME, as a script that still has to write must not.
local function look(sec, usec)
  local kind, value, size = redis.call('TYPE', L).ok, false, 0
  if kind == 'string' then
    value, size = redis.call('GETRANGE', L, 0, 1023), redis.call('STRLEN', L)
  end
  return {kind, value, size, redis.call('PTTL', L), redis.call('GET', M), redis.call('PTTL', M), sec, usec}
end
