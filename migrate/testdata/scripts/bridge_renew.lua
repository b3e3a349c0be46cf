-- bridge_renew: L, M; token, PX, tombstone, its PX → {1, PTTL L, M before; L, M after} or {0 (M) or 2 (L), look}
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
local on = mine(ARGV[1])
if not on then return {0, look()} end
-- M is not renewed without L: it ends, after trust has, with the lease that L was lost from (rules 7, 8).
if not stands(on) then return {2, look()} end
local l, m = call('PTTL', L), call('PTTL', M)
-- Both anew, whatever EXPIRE made of them since (rule 9). They are read last, so that a renewal under
-- tracking ends with both keys registered again.
keep(on, ARGV[2], ARGV[3], ARGV[4])
return {1, l, m, call('PTTL', L), call('PTTL', M)}
