-- bridge_acquire: L, M, counter if there is one; token, PX, guard ('': M alone), tombstone, its PX ('': it gives way to the guard), tag, seen, numbers, TIME or '' twice → {1 (free), 2 (took over) or 3 (on the tombstone), sec, usec, fencing number} or {0, look}
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
