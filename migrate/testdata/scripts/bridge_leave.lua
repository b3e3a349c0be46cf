-- bridge_leave: L, M; all of M as far as known, its token at least, what stands on L for it, tombstone, and for how many ms the key is left to old clients → 1, or {0 (M) or 2 (L), look}
local L, M, call, on = KEYS[1], KEYS[2], redis.call, ARGV[2]
-- own: on is from here what the lease hangs on, or the script ends with what stands there. Mostly both keys carry
-- what was sent, and that is all.
if redis.pcall('GET', M) ~= ARGV[1] or on ~= '' and redis.pcall('GET', L) ~= on then
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
  on = mine(string.match(ARGV[1], '[^ ]*'))
  if not on then
    -- A release whose reply was lost is sent again: it has left the key.
    if redis.pcall('GET', M) == 'left ' .. string.match(ARGV[1], '[^ ]*') then return 1 end
    -- Without M nothing proves that bytes on L are ours, so L is left to its TTL.
    return {0, look()}
  end
  if not stands(on) then
    -- Nothing is put back either: that would hide from the next holder who was let in (rule 10).
    call('DEL', M)
    return {2, look()}
  end
end
if on == '' or on == ARGV[3] then
  call('DEL', M) -- no old client waits for it, or none can get in
  return 1
end
call('DEL', L)
-- Until this ends no client of ours takes the key, and old clients that poll find it free.
call('SET', M, 'left ' .. string.match(ARGV[1], '[^ ]*'), 'PX', ARGV[4])
return 1
