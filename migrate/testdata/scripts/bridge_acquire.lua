-- bridge_acquire: L, M, counter if there is one; token, PX, guard ('': M alone), tombstone, its PX ('': it gives way to the guard), tag, seen, numbers, TIME or '' twice → {1 (free), 2 (took over) or 3 (on the tombstone), sec, usec, fencing number} or {0, look}
-- Fencing numbers: the greater of last + 1 and the server's clock in microseconds, which doubles hold
-- exactly until the year 2255. The clock makes a promoted replica that lost writes go on above what
-- was given out; the counter makes a clock that was set back do no harm.
local function draw(counter, numbers, sec, usec)
  if sec == '' then
    if redis.replicate_commands then redis.replicate_commands() end
    local t = redis.call('TIME')
    sec, usec = t[1], t[2]
  end
  local last = tonumber(redis.call('GET', counter) or 0)
  if not last or last > 9e15 then error('getsetlock: ' .. counter .. ' holds no fencing number') end
  local fence = math.max(last + 1, tonumber(sec) * 1000000 + tonumber(usec))
  redis.call('SET', counter, string.format('%.0f', fence + tonumber(numbers) - 1))
  return fence
end
-- shared by the bridge's scripts: what is ours, and what stands there.
local L, M = KEYS[1], KEYS[2]

-- mine is what our lease hangs on, if M is this token's: the guard that we wrote, the tombstone that was
-- there, or nothing ('') where M is all there is. M remembers it, so that also after a lost reply every
-- script knows which bytes on L are ours. Behind them may stand who the holder is.
local function mine(token)
  local m = redis.pcall('GET', M)
  if m == token then return '' end
  if type(m) ~= 'string' or string.sub(m, 1, #token + 1) ~= token .. ' ' then return false end
  local blank = string.find(m, ' ', #token + 2, true)
  return string.sub(m, #token + 2, (blank or 0) - 1)
end

-- stands says whether L still carries that. A guard is known by all its bytes, and nobody else draws it.
local function stands(on) return on == '' or redis.pcall('GET', L) == on end

-- restore gives the tombstone its time back, which is so long that this is only needed when somebody cut
-- it, or when it has grown old.
local function restore(px)
  if redis.call('PTTL', L) * 2 < tonumber(px) then redis.call('PEXPIRE', L, px) end
end

-- keep gives both keys their time.
local function keep(on, px, tomb, tombPX)
  redis.call('PEXPIRE', M, px)
  if on == tomb then
    restore(tombPX)
  elseif on ~= '' then
    redis.call('PEXPIRE', L, px)
  end
end

-- look is what stands on both keys, and the clock: type, value (its first kilobyte), size, PTTL, M,
-- its PTTL, seconds, microseconds. Nothing is written after it.
local function look()
  local t = redis.call('TIME')
  local kind, value, size = redis.call('TYPE', L).ok, false, 0
  if kind == 'string' then
    value, size = redis.call('GETRANGE', L, 0, 1023), redis.call('STRLEN', L)
  end
  local m = redis.pcall('GET', M)
  if type(m) == 'table' then m = '' end
  return {kind, value, size, redis.call('PTTL', L), m, redis.call('PTTL', M), t[1], t[2]}
end
local token, px, guard, tomb, tombPX, seen = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[7]

-- M keeps ours from ours, also while a holder that lost L is still being stopped (rule 8).
local how = 0
if redis.call('EXISTS', M) == 0 then
  local v = guard ~= '' and redis.pcall('GET', L)
  if not v then
    how = 1
  elseif v == tomb then
    how = tombPX == '' and 1 or 3
  elseif seen ~= '' and v == seen then
    -- A value is only replaced if it is still the very one that was judged (rule 1).
    how = 2
  end
end
if how == 0 then return {0, look()} end

-- Before a key is written: a counter that cannot be read must not leave the lock taken.
local fence = 0
if ARGV[8] ~= '0' then fence = draw(KEYS[3], ARGV[8], ARGV[9], ARGV[10]) end
if how == 3 then
  redis.call('SET', M, token .. ' ' .. tomb .. ARGV[6], 'PX', px)
  restore(tombPX)
elseif guard ~= '' then
  redis.call('SET', M, token .. ' ' .. guard .. ARGV[6], 'PX', px)
  redis.call('SET', L, guard, 'PX', px)
else
  redis.call('SET', M, token, 'PX', px)
end
local t = redis.call('TIME')
return {how, t[1], t[2], fence}
