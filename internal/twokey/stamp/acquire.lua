-- acquire: L, M, M:look; token, M's PX, L's PX, mark (7), seen → {1 (free) or 2 (took over), sec, usec, PTTL L, M} or {0, look}
local L, M, call = KEYS[1], KEYS[2], redis.call
-- insert now
local sec, usec = now(ARGV[9], ARGV[10])
local kind, seen = call('TYPE', L).ok, ARGV[11]

-- M keeps ours from ours, also while a holder that lost L is still being stopped (rule 8).
local free = call('EXISTS', M) == 0
-- A value is only replaced if it is still the very one that was judged (rule 1).
free = free and (kind == 'none' or kind == 'string' and seen ~= '' and call('GET', L) == seen)
if not free then
  -- insert left
  -- insert look
  -- An old client has taken the key that was left to it, so the time for that is over.
  if kind ~= 'none' and left() then redis.pcall('DEL', M) end
  return {0, look()}
end

-- insert mark
local bytes = mark(sec, usec, ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8])
call('SET', L, bytes, 'PX', ARGV[3])
call('SET', M, ARGV[1] .. ' ' .. bytes, 'PX', ARGV[2])
-- What was remembered of an old client's stamp is over. The SETs come first: a server without memory
-- refuses them unless something was written before. A user without the right to DEL leaves the look.
redis.pcall('DEL', KEYS[3])
return {kind == 'none' and 1 or 2, sec, usec, call('PTTL', L), call('PTTL', M)}
