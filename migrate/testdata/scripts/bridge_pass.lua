-- bridge_pass: L, M, counter if there is one; token, new token, PX, tombstone, its PX, numbers, TIME or '' twice → {1, fencing number} or {0 (M) or 2 (L), look}
local L, M, call = KEYS[1], KEYS[2], redis.call
-- look is what stands there, and the clock: type, value (its first kilobyte), size, PTTL, M, its PTTL,
-- seconds, microseconds. Nothing is written after it.
local function look()
  local t = call('TIME')
  local kind, value, size = call('TYPE', L).ok, false, 0
  if kind == 'string' then
    value, size = call('GETRANGE', L, 0, 1023), call('STRLEN', L)
  end
  local m = redis.pcall('GET', M)
  if type(m) == 'table' then m = '' end
  return {kind, value, size, call('PTTL', L), m, call('PTTL', M), t[1], t[2]}
end
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
  if call('PTTL', L) * 2 < tonumber(px) then call('PEXPIRE', L, px) end
end

-- keep gives both keys their time.
local function keep(on, px, tomb, tombPX)
  call('PEXPIRE', M, px)
  if on == tomb then
    restore(tombPX)
  elseif on ~= '' then
    call('PEXPIRE', L, px)
  end
end
-- The guard stays and so does what its settle has found out; the token excludes the old holder.
local on = mine(ARGV[1])
if not on then return {0, look()} end
if not stands(on) then return {2, look()} end
local fence = 0
if ARGV[6] ~= '0' then
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
  fence = draw(KEYS[3], ARGV[6], ARGV[7], ARGV[8])
end
call('SET', M, ARGV[2] .. string.sub(call('GET', M), #ARGV[1] + 1), 'PX', ARGV[3])
keep(on, ARGV[3], ARGV[4], ARGV[5])
return {1, fence}
