-- bridge_acquire: L, M, counter if there is one; token, PX, guard ('': M alone), tombstone, its PX ('': it gives way to the guard), tag, seen, 1 to read the clock, numbers, TIME or '' twice → {1 (free), 2 (took over) or 3 (on the tombstone), sec, usec (0 when not read), fencing number} or {0, look}
local L, M, call = KEYS[1], KEYS[2], redis.call
local token, px, on, tomb, tombPX = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- What L allows, and what the lease then hangs on.
local how, value = 1, token
if on ~= '' then
  local v = redis.pcall('GET', L)
  if v == tomb and tombPX ~= '' then
    how, on = 3, tomb
  elseif v and v ~= tomb then
    -- A value is only replaced if it is still the very one that was judged (rule 1).
    how = ARGV[7] ~= '' and v == ARGV[7] and 2 or 0
  end
  value = token .. ' ' .. on .. ARGV[6]
end

local fence = 0
if how > 0 and ARGV[9] ~= '0' then
  -- insert draw
  -- Before a key is written: a counter that cannot be read must not leave the lock taken.
  if call('EXISTS', M) == 1 then how = 0 else fence = draw(KEYS[3], ARGV[9], ARGV[10], ARGV[11]) end
end
-- M keeps ours from ours, also while a holder that lost L is still being stopped (rule 8).
if how > 0 and call('SET', M, value, 'PX', px, 'NX') then
  if how < 3 then
    if on ~= '' then call('SET', L, on, 'PX', px) end
  elseif call('PTTL', L) * 2 < tonumber(tombPX) then
    -- So long a time is only restored when somebody cut it, or when it has grown old.
    call('PEXPIRE', L, tombPX)
  end
  if ARGV[8] == '' then return {how, 0, 0, fence} end
  local t = call('TIME')
  return {how, t[1], t[2], fence}
end
-- insert look
return {0, look()}
